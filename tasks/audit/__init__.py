"""What attacks achieve on a release and what it is good for: plain numerics, without files or Prefect.

Everything here looks at confidential rows on purpose and returns aggregates for the internal audit report.
"""

from tasks.audit.attack import attack_auc, distance_densities, membership_attack, roc_curve
from tasks.audit.classifiers import compare_classifiers, macro_f1, reliably_above
from tasks.audit.density_difference import DensityDifference, estimate_density_difference, membership_inference_score
from tasks.audit.utility import (
    compare_categories,
    compare_column,
    correlation_difference,
    kolmogorov_smirnov,
    wilson_interval,
)

__all__ = [
    "DensityDifference",
    "attack_auc",
    "compare_categories",
    "compare_classifiers",
    "compare_column",
    "correlation_difference",
    "distance_densities",
    "estimate_density_difference",
    "kolmogorov_smirnov",
    "macro_f1",
    "membership_attack",
    "membership_inference_score",
    "reliably_above",
    "roc_curve",
    "wilson_interval",
]
