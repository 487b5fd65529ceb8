"""Empirical risks: sums of convex losses over records, with the constants that a private algorithm rests on.

L(theta; D) is a *sum* over the n records, plus n times a regulariser (Delta / 2) |theta|^2 that no record has a part
in. Divide by n to compare with mean losses.

- `lipschitz`: of the loss of one record over the whole space, enforced by the records' norms and never assumed; the
  regulariser is left out, since it is equal in neighbouring tables and cancels.
- `smoothness`: bound of the Hessian's largest eigenvalue of the loss of one record, regulariser left out.
- `strong_convexity`: Delta, per record; the sum is n Delta strongly convex, unless the regulariser counts a public
  number of records instead of n (`total_strong_convexity` gives what holds).
- `hessian_rank`: largest rank of the Hessian of one record's loss, for the Jacobian term of objective perturbation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.losses import MarginLoss
from tasks.classifiers.number_checks import check_count

__all__ = [
    "AbsoluteDistance",
    "EmpiricalRisk",
    "InnerProduct",
    "MarginRisk",
    "SquaredDistance",
    "total_strong_convexity",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class EmpiricalRisk(Protocol):
    """A sum of convex losses over records, to be minimised over parameters in R^p."""

    @property
    def n_records(self) -> int:
        """Give n."""
        ...

    @property
    def dimension(self) -> int:
        """Give p."""
        ...

    @property
    def lipschitz(self) -> float:
        """Bound of the gradient's norm of one record's loss, without the regulariser."""
        ...

    @property
    def smoothness(self) -> float:
        """Bound of the curvature of one record's loss, without the regulariser; infinite where there is none."""
        ...

    @property
    def strong_convexity(self) -> float:
        """Delta, per record; 0 for a loss that is not strongly convex."""
        ...

    @property
    def hessian_rank(self) -> int:
        """Largest rank of one record's Hessian."""
        ...

    def value(self, theta: FloatArray) -> float:
        """Give the sum over all records and the regulariser."""
        ...

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Give its gradient (at a kink a subgradient), shape (p,)."""
        ...

    def loss_gradient(self, theta: FloatArray, records: IntArray | None = None) -> FloatArray:
        """Give the gradient of the sum over some records (None: all), repeated ones as often as they are named, without
        the regulariser."""
        ...

    def regularizer_gradient(self, theta: FloatArray) -> FloatArray:
        """Give the gradient of n (Delta / 2) |theta|^2, or of what stands for it."""
        ...


@dataclass(frozen=True, eq=False)
class MarginRisk:
    """Linear classification: one vector w for two classes, or one for each class against the rest, jointly.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        With norms of at most 1.
    signs : ndarray of float64, shape (n, k)
        -1 or 1: which side each row is on, for each of k problems. k = 1 for two classes.
    loss : MarginLoss
    regularization : float, default=0.0
        Delta of (Delta / 2) |theta|^2, per record; at least 0.
    public_size : int or None, default=None
        How many records the regulariser counts, whatever n is: its weight `total_regularization` is then the same
        number in tables that differ in a record, and all constants of the risk are public. None: n.

    Notes
    -----
    theta is W of shape (k, d), row by row. One record has the loss sum_k phi(y_k <w_k, x>), whose gradient has
    norm at most sqrt(k) times that of phi, and whose Hessian is block diagonal, of rank at most k.
    """

    rows: FloatArray
    signs: FloatArray
    loss: MarginLoss
    regularization: float = 0.0
    public_size: int | None = None

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.signs.ndim != 2 or len(self.rows) != len(self.signs) or not len(self.rows):
            raise ValueError(f"rows {self.rows.shape} and signs {self.signs.shape} must hold the same records")
        if not 0.0 <= self.regularization < math.inf:
            raise ValueError(f"regularization must be at least 0 and finite, got {self.regularization!r}")
        if self.public_size is not None:
            check_count("public_size", self.public_size)
        longest = float(np.sqrt(np.max(np.einsum("ij,ij->i", self.rows, self.rows))))
        if not longest <= 1.0 + 1e-12:
            raise ValueError("rows must have norms of at most 1: the guarantees rest on it")

    @property
    def n_records(self) -> int:
        return len(self.rows)

    @property
    def nominal_size(self) -> int:
        """The number of records that the regulariser counts: `public_size`, or n."""
        return len(self.rows) if self.public_size is None else int(self.public_size)

    @property
    def total_regularization(self) -> float:
        """The M of (M / 2) |theta|^2 in the whole sum: `regularization` times `nominal_size`."""
        return self.nominal_size * self.regularization

    @property
    def n_problems(self) -> int:
        """Give k."""
        return self.signs.shape[1]

    @property
    def dimension(self) -> int:
        return self.rows.shape[1] * self.n_problems

    @property
    def lipschitz(self) -> float:
        return math.sqrt(self.n_problems) * self.loss.lipschitz

    @property
    def smoothness(self) -> float:
        return self.loss.smoothness

    @property
    def strong_convexity(self) -> float:
        return self.regularization

    @property
    def hessian_rank(self) -> int:
        return self.n_problems

    def weights(self, theta: FloatArray) -> FloatArray:
        """W, shape (k, d)."""
        return theta.reshape(self.n_problems, -1)

    def margins(self, theta: FloatArray) -> FloatArray:
        """y_k <w_k, x>, shape (n, k)."""
        return self.signs * (self.rows @ self.weights(theta).T)

    def value(self, theta: FloatArray) -> float:
        own = 0.5 * self.total_regularization * float(theta @ theta)
        return float(np.sum(self.loss.value(self.margins(theta)))) + own

    def gradient(self, theta: FloatArray) -> FloatArray:
        return self.loss_gradient(theta) + self.regularizer_gradient(theta)

    def loss_gradient(self, theta: FloatArray, records: IntArray | None = None) -> FloatArray:
        rows, signs = (self.rows, self.signs) if records is None else (self.rows[records], self.signs[records])
        slopes = signs * self.loss.slope(signs * (rows @ self.weights(theta).T))
        return (slopes.T @ rows).ravel()

    def regularizer_gradient(self, theta: FloatArray) -> FloatArray:
        return self.total_regularization * theta

    def problem(self, k: int) -> MarginRisk:
        """The k-th class against the rest by itself."""
        return MarginRisk(self.rows, self.signs[:, [k]], self.loss, self.regularization, self.public_size)

    def hessian_product(self, theta: FloatArray, vector: FloatArray) -> FloatArray:
        """The Hessian of the sum, regulariser included, times a vector; shape (p,)."""
        curvature = self.loss.curvature(self.margins(theta))
        along = curvature * (self.rows @ self.weights(vector).T)
        return (along.T @ self.rows).ravel() + self.total_regularization * vector


@dataclass(frozen=True, eq=False)
class _Location:
    """A risk about records that are points in R^p."""

    points: FloatArray

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or not len(self.points) or not np.isfinite(self.points).all():
            raise ValueError("points must be a finite array (n, p) of at least one record")

    @property
    def n_records(self) -> int:
        return len(self.points)

    @property
    def dimension(self) -> int:
        return self.points.shape[1]

    @property
    def strong_convexity(self) -> float:
        return 0.0

    def regularizer_gradient(self, theta: FloatArray) -> FloatArray:
        return np.zeros_like(theta)

    def _chosen(self, records: IntArray | None) -> FloatArray:
        return self.points if records is None else self.points[records]


@dataclass(frozen=True, eq=False)
class AbsoluteDistance(_Location):
    """|theta - d|, the Euclidean distance: the minimiser is the geometric median, for p = 1 the median."""

    lipschitz = 1.0
    smoothness = math.inf

    @property
    def hessian_rank(self) -> int:
        return self.dimension

    def value(self, theta: FloatArray) -> float:
        return float(np.sum(np.linalg.norm(theta - self.points, axis=1)))

    def gradient(self, theta: FloatArray) -> FloatArray:
        return self.loss_gradient(theta)

    def loss_gradient(self, theta: FloatArray, records: IntArray | None = None) -> FloatArray:
        offsets = theta - self._chosen(records)
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        return np.sum(np.divide(offsets, lengths, out=np.zeros_like(offsets), where=lengths > 0.0), axis=0)


@dataclass(frozen=True, eq=False)
class SquaredDistance(_Location):
    """|theta - d|^2 / 2: the minimiser is the mean; 1-strongly convex, and Lipschitz on a bounded set only.

    Parameters
    ----------
    points : ndarray of float64, shape (n, p)
        With norms of at most `point_norm`.
    point_norm : float
        Bound of the records' norms.
    parameter_norm : float
        Bound of |theta| over the set: the gradient theta - d has norm at most the sum of both.
    """

    point_norm: float = 1.0
    parameter_norm: float = 1.0
    smoothness = 1.0
    strong_convexity = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if float(np.max(np.linalg.norm(self.points, axis=1))) > self.point_norm * (1.0 + 1e-12):
            raise ValueError("points must have norms of at most point_norm: the guarantees rest on it")

    @property
    def lipschitz(self) -> float:
        return self.point_norm + self.parameter_norm

    @property
    def hessian_rank(self) -> int:
        return self.dimension

    def value(self, theta: FloatArray) -> float:
        return 0.5 * float(np.sum((theta - self.points) ** 2))

    def gradient(self, theta: FloatArray) -> FloatArray:
        return self.loss_gradient(theta)

    def loss_gradient(self, theta: FloatArray, records: IntArray | None = None) -> FloatArray:
        chosen = self._chosen(records)
        return len(chosen) * theta - np.sum(chosen, axis=0)


@dataclass(frozen=True, eq=False)
class InnerProduct(_Location):
    """-<theta, d> with |d| <= `point_norm`: the hard instance of the lower bounds for Lipschitz losses."""

    point_norm: float = 1.0
    smoothness = 0.0
    hessian_rank = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if float(np.max(np.linalg.norm(self.points, axis=1))) > self.point_norm * (1.0 + 1e-12):
            raise ValueError("points must have norms of at most point_norm: the guarantees rest on it")

    @property
    def lipschitz(self) -> float:
        return self.point_norm

    def value(self, theta: FloatArray) -> float:
        return -float(np.sum(self.points @ theta))

    def gradient(self, theta: FloatArray) -> FloatArray:
        return self.loss_gradient(theta)

    def loss_gradient(self, theta: FloatArray, records: IntArray | None = None) -> FloatArray:
        return -np.sum(self._chosen(records), axis=0)


def total_strong_convexity(risk: EmpiricalRisk) -> float:
    """Of the whole sum: n Delta, or the same public number for every n where `MarginRisk.public_size` is given."""
    return risk.total_regularization if isinstance(risk, MarginRisk) else risk.n_records * risk.strong_convexity


def signs_of(labels: IntArray, n_classes: int) -> FloatArray:
    """-1 or 1, shape (n, 1) for two classes, else (n, n_classes): each class against the rest."""
    if n_classes == 2:
        return np.where(labels == 1, 1.0, -1.0)[:, None]
    return np.where(labels[:, None] == np.arange(n_classes), 1.0, -1.0)
