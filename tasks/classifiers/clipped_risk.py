"""Linear classification with each record's gradient cut to a length, so that rows need no bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.exact_rows import directions_and_lengths, euclidean_norms
from tasks.classifiers.losses import MarginLoss

__all__ = ["ClippedMarginRisk"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClippedMarginRisk:
    """As `MarginRisk`, for rows of any norm, with the gradient of each record's loss scaled down to a norm.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        Directions, with norms of at most 1.
    lengths : ndarray of float64, shape (n,)
        What they are multiplied by; at least 0 and finite.
    signs : ndarray of float64, shape (n, k)
        -1 or 1: which side each row is on, for each of k problems.
    loss : MarginLoss
    clip_norm : float
        Above 0 and finite.
    regularization : float, default=0.0
        Delta of (Delta / 2) |theta|^2, per record.
    row_norm : float, default=inf
        Bound of `lengths`, in public; infinite where there is none.

    Notes
    -----
    Clipping changes the risk. For k = 1 the clipped gradients are those of another convex loss, which is linear where
    the margin loss is steeper than clip_norm / |x|, and equal to it elsewhere up to a constant. For k above 1 they are
    in general no gradients of anything: `value` is that of the unclipped losses, and no bound of the excess risk is
    claimed. The guarantee does not rest on either.

    A record's gradient is the outer product of its k slopes and its row, so its norm is the product of their norms
    and clipping costs one factor a row: per-record gradients are never formed.
    """

    rows: FloatArray
    lengths: FloatArray
    signs: FloatArray
    loss: MarginLoss
    clip_norm: float
    regularization: float = 0.0
    row_norm: float = math.inf

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.signs.ndim != 2 or len(self.rows) != len(self.signs) or not len(self.rows):
            raise ValueError(f"rows {self.rows.shape} and signs {self.signs.shape} must hold the same records")
        if self.lengths.shape != (len(self.rows),) or not (self.lengths >= 0.0).all():
            raise ValueError("lengths must be one number of at least 0 for each row")
        if not np.isfinite(self.lengths).all():
            raise ValueError("lengths must be finite: some rows are too long for doubles")
        if not float(np.sqrt(np.max(np.einsum("ij,ij->i", self.rows, self.rows)))) <= 1.0 + 1e-12:
            raise ValueError("rows must have norms of at most 1: the guarantees rest on it")
        if not float(np.max(self.lengths)) <= self.row_norm * (1.0 + 1e-12):
            raise ValueError("lengths must be at most row_norm: the guarantees rest on it")
        if isinstance(self.clip_norm, bool) or not 0.0 < self.clip_norm < math.inf:
            raise ValueError(f"clip_norm must be above 0 and finite, got clip_norm={self.clip_norm!r}")
        if not 0.0 <= self.regularization < math.inf:
            raise ValueError(f"regularization must be at least 0 and finite, got {self.regularization!r}")

    @classmethod
    def of_rows(
        cls,
        rows: FloatArray,
        signs: FloatArray,
        loss: MarginLoss,
        clip_norm: float,
        regularization: float = 0.0,
        row_norm: float = math.inf,
    ) -> ClippedMarginRisk:
        """From rows of any norm, or of at most `row_norm`."""
        directions, lengths = directions_and_lengths(rows)
        return cls(directions, lengths, signs, loss, clip_norm, regularization, row_norm)

    @property
    def n_records(self) -> int:
        return len(self.rows)

    @property
    def dimension(self) -> int:
        return self.rows.shape[1] * self.signs.shape[1]

    @property
    def lipschitz(self) -> float:
        return min(self.clip_norm, math.sqrt(self.signs.shape[1]) * self.loss.lipschitz * self.row_norm)

    @property
    def smoothness(self) -> float:
        """The loss's own times row_norm^2: of the unclipped losses; for k = 1 it holds for the clipped ones as well."""
        return self.loss.smoothness * self.row_norm**2 if self.row_norm < math.inf else math.inf

    @property
    def strong_convexity(self) -> float:
        return self.regularization

    @property
    def hessian_rank(self) -> int:
        return self.signs.shape[1]

    def weights(self, theta: FloatArray) -> FloatArray:
        """W, shape (k, d)."""
        return theta.reshape(self.signs.shape[1], -1)

    def value(self, theta: FloatArray) -> float:
        """Of the losses as they are without clipping."""
        margins = self.signs * (self.lengths[:, None] * (self.rows @ self.weights(theta).T))
        own = 0.5 * self.n_records * self.regularization * float(theta @ theta)
        return float(np.sum(self.loss.value(margins))) + own

    def gradient(self, theta: FloatArray) -> FloatArray:
        return self.loss_gradient(theta) + self.regularizer_gradient(theta)

    def loss_gradient(self, theta: FloatArray, records: IntArray | None = None) -> FloatArray:
        rows, lengths, signs = self.rows, self.lengths, self.signs
        if records is not None:
            rows, lengths, signs = rows[records], lengths[records], signs[records]
        with np.errstate(over="ignore"):
            margins = signs * (lengths[:, None] * (rows @ self.weights(theta).T))
        slopes = signs * self.loss.slope(margins)
        norms = euclidean_norms(slopes)
        # |factor x slopes| <= clip_norm, and the rows are directions
        longest = np.divide(self.clip_norm, norms, out=np.zeros_like(norms), where=norms > 0.0)
        factors = np.minimum(lengths, longest)
        return ((slopes * factors[:, None]).T @ rows).ravel()

    def regularizer_gradient(self, theta: FloatArray) -> FloatArray:
        return self.n_records * self.regularization * theta
