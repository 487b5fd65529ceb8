"""Private classifiers: estimators in scikit-learn's form whose guarantees are proven and enforced.

See README.md beside this file for which one to take and how the pieces fit.
"""

from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.baselines import (
    OneVsRestPrivateSVM,
    OPERAClassifier,
    PrivateLinearClassifier,
    PrivateSVMClassifier,
)
from tasks.classifiers.boosting import boost_probability
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.exponential_classifier import ExponentialSamplingClassifier
from tasks.classifiers.localization import LocalizationClassifier
from tasks.classifiers.noisy_sgd_classifier import NoisySGDClassifier
from tasks.classifiers.objective_perturbation import ObjectivePerturbationClassifier
from tasks.classifiers.output_perturbation import OutputPerturbationClassifier
from tasks.classifiers.pmsvm import PMSVMClassifier
from tasks.classifiers.private_search import PrivateGridSearch, grid_search_on_released

__all__ = [
    "ExponentialSamplingClassifier",
    "LocalizationClassifier",
    "NoisySGDClassifier",
    "OPERAClassifier",
    "ObjectivePerturbationClassifier",
    "OneVsRestPrivateSVM",
    "OutputPerturbationClassifier",
    "PMSVMClassifier",
    "PrivacyBudget",
    "PrivateClassifier",
    "PrivateGridSearch",
    "PrivateLinearClassifier",
    "PrivateSVMClassifier",
    "boost_probability",
    "grid_search_on_released",
]
