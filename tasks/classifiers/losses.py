"""Convex losses of a margin: value, slope and curvature, and the constants that guarantees rest on.

A margin is z = y <w, x> with y in {-1, 1}. With |x| <= 1 the loss of a record is Lipschitz in w with the constant of
the loss in z, and its Hessian is curvature times x x', of rank one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tasks.classifiers.number_checks import check_number

__all__ = ["HingeLoss", "HuberisedHingeLoss", "LogisticLoss", "MarginLoss", "margin_loss"]

FloatArray = NDArray[np.float64]


class MarginLoss(Protocol):
    """A convex, non-increasing loss of a margin."""

    @property
    def name(self) -> str:
        """What estimators call it."""
        ...

    @property
    def lipschitz(self) -> float:
        """Bound of the slope's magnitude."""
        ...

    @property
    def smoothness(self) -> float:
        """Bound of the curvature; infinite for a loss with a kink."""
        ...

    def value(self, margin: FloatArray) -> FloatArray:
        """Give the loss of each margin."""
        ...

    def slope(self, margin: FloatArray) -> FloatArray:
        """Give the derivative, at a kink a subgradient."""
        ...

    def curvature(self, margin: FloatArray) -> FloatArray:
        """Give the second derivative; 0 at a kink."""
        ...


@dataclass(frozen=True)
class HingeLoss:
    """max(0, 1 - z)."""

    name = "hinge"
    lipschitz = 1.0
    smoothness = math.inf

    def value(self, margin: FloatArray) -> FloatArray:
        return np.maximum(0.0, 1.0 - margin)

    def slope(self, margin: FloatArray) -> FloatArray:
        return np.where(margin < 1.0, -1.0, 0.0)

    def curvature(self, margin: FloatArray) -> FloatArray:
        return np.zeros_like(margin)


@dataclass(frozen=True)
class HuberisedHingeLoss:
    """The hinge with its kink replaced by a parabola over 1 - h <= z <= 1 + h: (1 + h - z)^2 / (4 h) there.

    Parameters
    ----------
    width : float, default=0.5
        h, in [1e-100, 1e100].  The curvature is at most 1 / (2 h), and the value above the hinge's by at most h / 4.

    References
    ----------
    Bassily, Smith, Thakurta (2014), appendix A; Chapelle (2007) for the form.
    """

    width: float = 0.5
    name = "huberised-hinge"
    lipschitz = 1.0

    def __post_init__(self) -> None:
        check_number("width", self.width, "[1e-100, 1e100]")

    @property
    def smoothness(self) -> float:
        """1 / (2 h)."""
        return 0.5 / self.width

    def value(self, margin: FloatArray) -> FloatArray:
        u, h = 1.0 - margin, self.width
        return np.where(u >= h, u, np.where(u <= -h, 0.0, (u + h) ** 2 / (4.0 * h)))

    def slope(self, margin: FloatArray) -> FloatArray:
        return -np.clip((1.0 - margin + self.width) / (2.0 * self.width), 0.0, 1.0)

    def curvature(self, margin: FloatArray) -> FloatArray:
        return np.where(np.abs(1.0 - margin) <= self.width, 0.5 / self.width, 0.0)


@dataclass(frozen=True)
class LogisticLoss:
    """log(1 + exp(-z))."""

    name = "logistic"
    lipschitz = 1.0
    smoothness = 0.25

    def value(self, margin: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, -margin)

    def slope(self, margin: FloatArray) -> FloatArray:
        return -np.asarray(special.expit(-margin))

    def curvature(self, margin: FloatArray) -> FloatArray:
        return np.asarray(special.expit(margin) * special.expit(-margin))


def margin_loss(name: str, width: float = 0.5) -> MarginLoss:
    """The loss of a name: `hinge`, `huberised-hinge` (with its width) or `logistic`.

    Raises
    ------
    ValueError
        For another name.
    """
    match name:
        case "hinge":
            return HingeLoss()
        case "huberised-hinge":
            return HuberisedHingeLoss(check_number("huber_width", width, "[1e-100, 1e100]"))
        case "logistic":
            return LogisticLoss()
    raise ValueError(f"loss must be 'hinge', 'huberised-hinge' or 'logistic', got loss={name!r}")
