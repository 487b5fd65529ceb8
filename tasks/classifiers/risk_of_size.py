"""The constants of a margin risk from numbers alone, so that a table's size can be refused before there is a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.classifiers.losses import MarginLoss
from tasks.classifiers.risks import MarginRisk

__all__ = ["n_problems_of", "risk_of_size"]


def n_problems_of(n_classes: int) -> int:
    """How many vectors of weights tell the classes: one for two of them, else one for each."""
    return 1 if n_classes == 2 else n_classes


def risk_of_size(
    n_records: int,
    n_columns: int,
    n_classes: int,
    loss: MarginLoss,
    regularization: float = 0.0,
    public_size: int | None = None,
) -> MarginRisk:
    """A risk whose constants are those of every table of this size; its value and gradient are of no use.

    Parameters
    ----------
    n_records, n_columns : int
        At least 1. All rows are one number in memory, and none is looked at.
    n_classes : int
    loss, regularization, public_size
        As for `MarginRisk`.
    """
    rows, signs = ((n_records, width) for width in (n_columns, n_problems_of(n_classes)))
    return _RiskOfSize(np.broadcast_to(0.0, rows), np.broadcast_to(1.0, signs), loss, regularization, public_size)


@dataclass(frozen=True, eq=False)
class _RiskOfSize(MarginRisk):
    def __post_init__(self) -> None:
        """Nothing: the checks of a `MarginRisk` look at every row."""
