"""What a release preserves: one place to import the measurements of columns, pairs and the whole table from."""

from tasks.audit.category_utility import compare_categories
from tasks.audit.column_utility import compare_column, kolmogorov_smirnov
from tasks.audit.pairs import contingency_similarities, correlation_difference, correlation_map, cut
from tasks.audit.projection import project_rows
from tasks.audit.propensity import propensity
from tasks.audit.proportion import wilson_bounds, wilson_interval

__all__ = [
    "compare_categories",
    "compare_column",
    "contingency_similarities",
    "correlation_difference",
    "correlation_map",
    "cut",
    "kolmogorov_smirnov",
    "project_rows",
    "propensity",
    "wilson_bounds",
    "wilson_interval",
]
