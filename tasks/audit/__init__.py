"""What attacks achieve on a release and what it is good for: plain numerics, without files or Prefect.

Everything here looks at confidential rows on purpose and returns aggregates for the internal audit report.
"""

from tasks.audit.attack import (
    distance_attack,
    distance_densities,
    found_at,
    membership_attack,
    most_exposed,
    released_classifier_attack,
    roc_curve,
)
from tasks.audit.bootstrap import attack_auc
from tasks.audit.category_utility import compare_categories, join_rare
from tasks.audit.class_scores import auc_interval, macro_f1, macro_f1_interval
from tasks.audit.classifiers import (
    PrivateAnswer,
    compare_classifiers,
    private_not_above,
    private_results,
    reliably_above,
)
from tasks.audit.column_utility import compare_column, kolmogorov_smirnov
from tasks.audit.columns_table import ColumnsTable
from tasks.audit.density_difference import DensityDifference, estimate_density_difference, membership_inference_score
from tasks.audit.model_attacks import (
    likelihood_ratio_scores,
    loss_scores,
    margin_scores,
    scaled_confidence,
    shadow_halves,
)
from tasks.audit.pairs import contingency_similarities, correlation_difference, correlation_map, cut, varies_enough
from tasks.audit.projection import project_rows
from tasks.audit.propensity import propensity
from tasks.audit.proportion import wilson_interval
from tasks.audit.record_attacks import record_attack_scores
from tasks.audit.risk import privacy_risks, risk_beyond_controls
from tasks.audit.training import TrainedClassifier, train_classifiers

__all__ = [
    "ColumnsTable",
    "DensityDifference",
    "PrivateAnswer",
    "TrainedClassifier",
    "attack_auc",
    "auc_interval",
    "compare_categories",
    "compare_classifiers",
    "compare_column",
    "contingency_similarities",
    "correlation_difference",
    "correlation_map",
    "cut",
    "distance_attack",
    "distance_densities",
    "estimate_density_difference",
    "found_at",
    "join_rare",
    "kolmogorov_smirnov",
    "likelihood_ratio_scores",
    "loss_scores",
    "macro_f1",
    "macro_f1_interval",
    "margin_scores",
    "membership_attack",
    "membership_inference_score",
    "most_exposed",
    "privacy_risks",
    "private_not_above",
    "private_results",
    "project_rows",
    "propensity",
    "record_attack_scores",
    "released_classifier_attack",
    "reliably_above",
    "risk_beyond_controls",
    "roc_curve",
    "scaled_confidence",
    "shadow_halves",
    "train_classifiers",
    "varies_enough",
    "wilson_interval",
]
