"""Convex losses of the scores of several classes: values, slopes, and the constants that guarantees rest on.

A record (x, y) with scores s = W x has the loss l(s, y); its gradient in W is the outer product of the slope g =
dl/ds, a vector of c numbers, and x. So its norm is |g| |x|, and neither the norm nor a clipped gradient needs more room
than the n x c slopes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = [
    "AllPairsHinge",
    "CrammerSingerHinge",
    "CrossEntropy",
    "LossName",
    "MulticlassLoss",
    "capped_simplex_projection",
    "multiclass_loss",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_FAR = 1e100  # a margin beyond which a slope no longer changes, and whose square is finite
LossName = Literal["all-pairs", "crammer-singer", "cross-entropy"]


class MulticlassLoss(Protocol):
    """A convex loss of the scores of c classes."""

    @property
    def name(self) -> str:
        """What estimators call it."""
        ...

    def lipschitz(self, n_classes: int) -> float:
        """Bound of a slope's Euclidean norm."""
        ...

    def smoothness(self, n_classes: int) -> float:
        """Bound of the Hessian's largest eigenvalue in the scores."""
        ...

    def value(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        """Give the loss of each record, shape (n,), from scores (n, c) and labels 0, ..., c - 1."""
        ...

    def slopes(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        """Give the gradient in the scores of each record, shape (n, c); each row sums to 0."""
        ...


def _check_smoothing(smoothing: float) -> None:
    if not 0.0 < smoothing < math.inf:
        raise ValueError(f"smoothing must be above 0 and finite, got smoothing={smoothing!r}")


@dataclass(frozen=True)
class AllPairsHinge:
    """Sum over the wrong classes p of g(1 - (s_y - s_p)), g(z) = (z + sqrt(z^2 + v^2)) / 2 (Weston, Watkins).

    Parameters
    ----------
    smoothing : float, default=0.5
        v, above 0.

    Notes
    -----
    0 < g' < 1, 0 < g'' <= 1 / (2 v) and 0 < g(z) - max(z, 0) <= v / 2. A slope is sum_p a_p (e_p - e_y) with 0 < a_p
    < 1, so its squared norm is sum a_p^2 + (sum a_p)^2 < (c - 1) + (c - 1)^2: the Lipschitz constant is sqrt(c (c -
    1)), reached in the limit. (The square root of the largest eigenvalue of the Gram matrix of the vectors e_p - e_y,
    sqrt(c), is too small by a factor sqrt(c - 1).)  The Hessian is sum g'' (e_p - e_y)(e_p - e_y)', whose norm is at
    most c / (2 v): c is the largest eigenvalue of the Laplacian of a star.

    References
    ----------
    Hao, Nie, Wang (AAAI 2024) for the loss with a smoothed plus function.
    """

    smoothing: float = 0.5
    name = "all-pairs"

    def __post_init__(self) -> None:
        _check_smoothing(self.smoothing)

    def lipschitz(self, n_classes: int) -> float:
        return math.sqrt(n_classes * (n_classes - 1.0))

    def smoothness(self, n_classes: int) -> float:
        return n_classes / (2.0 * self.smoothing)

    def value(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        z = _violations(scores, labels)
        parts = 0.5 * (z + np.hypot(z, self.smoothing))
        parts[np.arange(len(parts)), labels] = 0.0
        return np.asarray(parts.sum(axis=1))

    def slopes(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        z = np.clip(_violations(scores, labels), -_FAR, _FAR)
        roots = np.sqrt(z * z + max(self.smoothing**2, _FAR**-3))  # several times faster than hypot
        return _balanced(0.5 * (1.0 + z / roots), labels)


@dataclass(frozen=True)
class CrammerSingerHinge:
    """max over p != y of max(0, 1 - (s_y - s_p)), smoothed: max over a of sum_p a_p (1 + s_p - s_y) - (v / 2) |a|^2.

    The maximum is over a >= 0 with sum a <= 1; the largest hinge without the last term.

    Parameters
    ----------
    smoothing : float, default=0.5
        v, above 0.

    Notes
    -----
    The value is between the hinge's and v / 2 below it. The maximiser a is unique, the projection of u / v, u_p = 1 +
    s_p - s_y, on that set, and the slope is sum_p a_p (e_p - e_y) (Danskin). Its squared norm is |a|^2 + (sum a)^2 <=
    2, as |a|_2 <= |a|_1 <= 1: the Lipschitz constant is sqrt 2, and reached. A projection is 1-Lipschitz and u is a
    linear map of s of squared norm c, so the slope is c / v Lipschitz in s.

    References
    ----------
    Crammer, Singer (2001); Nesterov (2005), theorem 1, for the smoothing.
    """

    smoothing: float = 0.5
    name = "crammer-singer"

    def __post_init__(self) -> None:
        _check_smoothing(self.smoothing)

    def lipschitz(self, n_classes: int) -> float:
        return math.sqrt(2.0)

    def smoothness(self, n_classes: int) -> float:
        return n_classes / self.smoothing

    def value(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        u = _violations(scores, labels)
        weights = self._maximizer(u, labels)
        return np.asarray(np.sum(weights * (u - 0.5 * self.smoothing * weights), axis=1))

    def slopes(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        return _balanced(self._maximizer(_violations(scores, labels), labels), labels)

    def _maximizer(self, u: FloatArray, labels: IntArray) -> FloatArray:
        u = u / self.smoothing
        u[np.arange(len(u)), labels] = -1.0  # below 0, so that the true class gets no weight
        return capped_simplex_projection(u)


@dataclass(frozen=True)
class CrossEntropy:
    """log sum_p exp(s_p) - s_y.

    Notes
    -----
    The slope is softmax(s) - e_y, of squared norm at most (1 - q)^2 + (1 - q)^2 <= 2 with q the true class's share: the
    Lipschitz constant is sqrt 2. The Hessian diag(q) - q q' has norm at most 1 / 2.
    """

    name = "cross-entropy"

    def lipschitz(self, n_classes: int) -> float:
        return math.sqrt(2.0)

    def smoothness(self, n_classes: int) -> float:
        return 0.5

    def value(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        return np.asarray(special.logsumexp(scores, axis=1) - scores[np.arange(len(scores)), labels])

    def slopes(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        return _balanced(np.asarray(special.softmax(scores, axis=1)), labels)


def multiclass_loss(name: str, smoothing: float = 0.5) -> MulticlassLoss:
    """The loss of a name: "all-pairs", "crammer-singer" (both with their smoothing) or "cross-entropy".

    Raises
    ------
    ValueError
        For another name, or a smoothing that is not above 0.
    """
    match name:
        case "all-pairs":
            return AllPairsHinge(smoothing)
        case "crammer-singer":
            return CrammerSingerHinge(smoothing)
        case "cross-entropy":
            return CrossEntropy()
    raise ValueError(f"loss must be 'all-pairs', 'crammer-singer' or 'cross-entropy', got loss={name!r}")


def capped_simplex_projection(points: FloatArray) -> FloatArray:
    """The nearest point, to each row, of {a : a >= 0, sum a <= 1}.

    Parameters
    ----------
    points : ndarray of float64, shape (n, c)

    Returns
    -------
    ndarray of float64, shape (n, c)

    Notes
    -----
    The positive part where that sums to at most 1; else max(0, point - t) with t such that it sums to 1, found by
    sorting (Held, Wolfe, Crowder 1974). Cost n c log c.
    """
    inside = np.maximum(points, 0.0)
    over = np.flatnonzero(inside.sum(axis=1) > 1.0)
    if over.size:
        chosen = points[over]
        ordered = -np.sort(-chosen, axis=1)
        thresholds = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
        support = np.count_nonzero(ordered > thresholds, axis=1)
        inside[over] = np.maximum(chosen - np.take_along_axis(thresholds, support[:, None] - 1, axis=1), 0.0)
    return inside


def _violations(scores: FloatArray, labels: IntArray) -> FloatArray:
    """1 - (s_y - s_p) for every class p; 1 for p = y."""
    return 1.0 + scores - scores[np.arange(len(scores)), labels][:, None]


def _balanced(slopes: FloatArray, labels: IntArray) -> FloatArray:
    """Set the entry of the true class so that each row sums to 0."""
    records = np.arange(len(slopes))
    slopes[records, labels] = 0.0
    slopes[records, labels] = -slopes.sum(axis=1)
    return slopes
