"""What classifiers that minimise a regularised risk share: parameters, and what stands for the number of records."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.losses import margin_loss
from tasks.classifiers.number_checks import check_count, check_number
from tasks.classifiers.risk_of_size import risk_of_size
from tasks.classifiers.risks import MarginRisk, signs_of

__all__ = ["RegularisedClassifier"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class RegularisedClassifier(PrivateClassifier, ABC):
    """Base class of output perturbation, objective perturbation and localisation.

    Their regulariser weighs `regularization` times the number of records, or `public_size`, which stands for it. Under
    "replace_one" both tables have as many rows, so too small a `public_size` is refused; under "add_remove" a refusal
    would tell their number, and the guarantee names the assumption.
    """

    _has_rule: ClassVar[bool] = False
    """Whether `regularization` may be None, for a rule from public numbers."""

    loss: str
    huber_width: float
    regularization: float | None
    public_size: int | None

    def _checked(self, sample_weight: Any) -> PrivacyBudget:
        budget = super()._checked(sample_weight)
        margin_loss(self.loss, self.huber_width)
        if not (self.regularization is None and self._has_rule):
            check_number("regularization", self.regularization, "[1e-100, 1e100]")
        if self.public_size is not None:
            check_count("public_size", self.public_size)
        return budget

    def _assumptions(self) -> list[str]:
        assumed = super()._assumptions()
        if self.public_size is None or self.adjacency != "add_remove":
            return assumed
        return [
            *(text for text in assumed if not text.startswith("the number of records is public")),
            "public_size was chosen without looking at the rows, and there are at most four times as many records, "
            "which is what the rounding of sums is allowed for",
        ]

    def _regularization(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> float:
        """What each record's share of the regulariser weighs, from public numbers alone."""
        assert self.regularization is not None  # or `_checked` had refused
        return float(self.regularization)

    def _risk_of_size(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> MarginRisk:
        """The constants of every table's risk of this size, see `risk_of_size`."""
        size = self.public_size
        if size is not None and self.adjacency == "replace_one" and n_records > 4 * size:
            raise ValueError(
                f"public_size must be at least a quarter of the number of rows, {n_records}, got public_size={size}"
            )
        weight = self._regularization(n_records, n_columns, n_classes, budget)
        return risk_of_size(n_records, n_columns, n_classes, margin_loss(self.loss, self.huber_width), weight, size)

    def _risk(self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget) -> MarginRisk:
        own = self._risk_of_size(len(rows), rows.shape[1], n_classes, budget)
        return MarginRisk(rows, signs_of(labels, n_classes), own.loss, own.regularization, own.public_size)
