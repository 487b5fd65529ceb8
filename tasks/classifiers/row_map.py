"""From features as they come to the rows that private algorithms see: each map looks at one record alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.classifiers.exact_rows import euclidean_norms

__all__ = ["NormRule", "RowMap", "bounds_of"]

FloatArray = NDArray[np.float64]
_LARGEST = 1e300  # of a coordinate, in norms
NormRule = Literal["clip", "normalize"]


def bounds_of(feature_bounds: ArrayLike | None, n_features: int) -> tuple[FloatArray, FloatArray] | None:
    """Lower and upper bounds of each feature, from a pair of numbers or of arrays.

    Raises
    ------
    ValueError
        If they are not finite numbers with the lower ones below the upper ones.
    """
    if feature_bounds is None:
        return None
    try:
        pair = [np.broadcast_to(np.asarray(side, dtype=np.float64), (n_features,)) for side in feature_bounds]  # type: ignore[union-attr]
    except (TypeError, ValueError):
        pair = []
    with np.errstate(over="ignore", invalid="ignore"):
        usable = len(pair) == 2 and bool(np.isfinite(pair[1] - pair[0]).all() and (pair[0] < pair[1]).all())
    if not usable:
        raise ValueError(
            f"feature_bounds must be a pair (lower, upper) of finite numbers, or of {n_features} numbers each, the "
            "lower below the upper; they must be public knowledge, never taken from the rows"
        )
    return pair[0], pair[1]


@dataclass(frozen=True, eq=False)
class RowMap:
    """Features to rows: bounded, centred and scaled, shortened to a norm, with a constant for the intercept.

    Parameters
    ----------
    lower, upper : ndarray of float64, shape (n_features,), or None
        Public bounds; features are clipped to them and mapped to [-1, 1].
    centre, scale : ndarray of float64, shape (n_features,), or None
        Released statistics of the mapped features, by which they are centred and divided.
    norm : float or None
        Rows are brought to norms of at most this; None leaves them as they are.
    rule : {"clip", "normalize"}
        "clip" shortens longer rows, "normalize" gives every row but 0 this norm.
    intercept : bool
        Whether a constant is appended that stands for the intercept.

    Notes
    -----
    Where there is a norm, everything is divided by it and, with an intercept, by sqrt 2, so that rows have norms of
    at most 1, the constant included.
    """

    lower: FloatArray | None = None
    upper: FloatArray | None = None
    centre: FloatArray | None = None
    scale: FloatArray | None = None
    norm: float | None = None
    rule: NormRule = "clip"
    intercept: bool = True

    def bounded(self, X: FloatArray) -> FloatArray:
        """Features in [-1, 1], or as they are where there are no bounds."""
        if self.lower is None or self.upper is None:
            return X
        return 2.0 * ((np.clip(X, self.lower, self.upper) - self.lower) / (self.upper - self.lower)) - 1.0

    def rows(self, X: FloatArray) -> FloatArray:
        """The rows, shape (n, n_features + 1) with an intercept, else (n, n_features)."""
        rows = self.bounded(X)
        if self.centre is not None and self.scale is not None:
            rows = (rows - self.centre) / self.scale
        constant = 1.0
        if self.norm is not None:
            constant = math.sqrt(0.5) if self.intercept else 1.0
            with np.errstate(over="ignore"):
                rows = np.clip(rows / self.norm, -_LARGEST, _LARGEST)
            rows = constant * self._bounded_by_one(rows)
        if not self.intercept:
            return rows
        return np.column_stack([rows, np.full(len(rows), constant)])

    def _bounded_by_one(self, rows: FloatArray) -> FloatArray:
        """Longer rows, or all, at a norm just below 1, so that rounding makes none longer than 1."""
        lengths = euclidean_norms(rows)
        far = lengths > (1.0 - 2.0**-50 if self.rule == "clip" else 0.0)
        largest = np.max(np.abs(rows), axis=1)
        bounded = rows.copy()
        scaled = rows[far] / largest[far, None]  # first, since the length of very large or small rows is inexact
        bounded[far] = scaled * ((1.0 - 2.0**-49) / euclidean_norms(scaled))[:, None]
        return bounded
