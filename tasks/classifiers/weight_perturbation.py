"""Weight perturbation of multi-class linear classifiers: the regularised minimiser, certified, with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.dual import UNIT_ROUNDOFF
from tasks.classifiers.lattice import lattice_for
from tasks.classifiers.multiclass_losses import AllPairsHinge, CrammerSingerHinge, MulticlassLoss
from tasks.classifiers.multiclass_newton import newton_solve
from tasks.classifiers.solver import NotCertifiedError, minimise
from tasks.noise.bits import BitSource

__all__ = [
    "MulticlassRisk",
    "WeightFit",
    "certified_minimiser",
    "fit_by_weights",
    "gradient_rounding",
    "refuse_uncertifiable_weights",
    "weight_sensitivity",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

RELATIVE_TOLERANCE = 1e-3
"""Of the solver, over the sensitivity of the exact minimiser: so much more noise, twice, is what inexactness costs."""

_ROUNDING_PART = 0.49  # of the tolerance: half is the solver's, and a little is for rounding its own gradient's norm
_MOST_SOLVED = 512  # parameters of a Newton step: its matrix is formed
_FACTORS = (math.inf, 10.0, 4.0, 2.0)  # by which a hinge's smoothing falls, if need be, on the way to its minimiser


@dataclass(frozen=True, eq=False)
class MulticlassRisk:
    """1/2 |W|^2 + (C / n) sum_i loss(W x_i, y_i), over W of shape (c, d), handled as a vector, row by row.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        With norms of at most 1.
    labels : ndarray of int64, shape (n,)
    n_classes : int
        c.
    loss : MulticlassLoss
    C : float
        Above 0 and finite.

    Raises
    ------
    ValueError
        If a row is longer than 1: the sensitivity rests on it.
    """

    rows: FloatArray
    labels: IntArray
    n_classes: int
    loss: MulticlassLoss
    C: float

    def __post_init__(self) -> None:
        if not float(np.max(np.einsum("ij,ij->i", self.rows, self.rows))) <= 1.0 + 1e-12:
            raise ValueError("rows must have norms of at most 1: the sensitivity rests on it")

    @property
    def dimension(self) -> int:
        """c d."""
        return self.n_classes * self.rows.shape[1]

    @property
    def smoothness(self) -> float:
        """Bound of the curvature: 1 + C times the loss's."""
        return 1.0 + self.C * self.loss.smoothness(self.n_classes)

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The objective and its gradient, shape (c d,)."""
        weights, scale = theta.reshape(self.n_classes, -1), self.C / len(self.rows)
        scores = self.rows @ weights.T
        value = 0.5 * float(theta @ theta) + scale * float(np.sum(self.loss.value(scores, self.labels)))
        return value, theta + scale * (self.loss.slopes(scores, self.labels).T @ self.rows).ravel()

    def hessian_solve(self, theta: FloatArray, vector: FloatArray) -> FloatArray:
        """The Hessian's inverse times a vector, shape (c d,)."""
        weights, scale = theta.reshape(self.n_classes, -1), self.C / len(self.rows)
        return newton_solve(self.rows, self.labels, self.loss, weights, scale, vector)


def weight_sensitivity(lipschitz: float, C: float, n_records: int, parts: int) -> float:
    """Bound of the distance of the exact minimisers for two neighbouring tables: `parts` lipschitz C / n.

    Parameters
    ----------
    lipschitz : float
        Bound of the norm of one record's gradient, rows of norm 1.
    C : float
        Of 1/2 |W|^2 + (C / n) sum_i loss_i.
    n_records : int
        n; the same for both tables, so under "add_remove" it must be public.
    parts : int
        2 when one record replaces another, 1 when one is added or removed.

    Notes
    -----
    The objectives are 1-strongly convex and differ by (C / n)(l - l') (or by one of the two terms), whose gradient
    is at most `parts` (C / n) lipschitz long. With w the minimiser of F and w' that of F' = F + h, both gradients
    vanish, and strong convexity gives |w - w'|^2 <= <grad F(w') - grad F(w), w' - w> = <-grad h(w'), w' - w> <= |grad
    h| |w - w'|. For the Crammer-Singer hinge, 2 sqrt 2 C / n, it is tight
    (`tests/known_answer/test_pmsvm_sensitivity.py`).
    """
    return parts * lipschitz * C / n_records


def certified_minimiser(risk: MulticlassRisk, tolerance: float) -> FloatArray:
    """A point within `tolerance` of the minimiser, for certain.

    Parameters
    ----------
    risk : MulticlassRisk
    tolerance : float
        Above 0; from public numbers only, since noise is scaled by it.

    Returns
    -------
    ndarray of float64, shape (c, d)

    Raises
    ------
    NotCertifiedError
        If rounding leads the solver astray, which depends on the records.
    ValueError
        If, by public numbers alone, rounding takes more than the tolerance has room for, whatever the records are.

    Notes
    -----
    The objective is 1-strongly convex, so the norm of its exact gradient bounds the distance. Half of the tolerance is
    asked of the gradient as computed, and what that may be off (`gradient_rounding`) must fit into the rest.

    Quasi-Newton steps come first, then, where c d is at most 512, Newton steps, and both again by way of smoother
    hinges. What they leave is for accelerated gradient steps, which reach every t in exact arithmetic, after at most
    ceil(sqrt(kappa) log(2 kappa |g|^2 / t^2)) of them, g the gradient they start from and kappa = 1 + C times the
    loss's smoothness. Proof: with F the objective and w its minimiser, after k of them F - F(w) <= exp(-k /
    sqrt(kappa)) (F(start) - F(w) + |start - w|^2 / 2) (Nesterov 2018, theorem 2.2.3); the bracket is at most |g|^2, as
    F - F(w) <= |g|^2 / 2 and |start - w| <= |g| by strong convexity; and a gradient's square is at most 2 kappa (F -
    F(w)).
    """
    _refuse_uncertifiable(risk, tolerance)
    wanted = 0.5 * tolerance
    for factor in _FACTORS:
        theta, length = _continued(risk, wanted, factor)
        if length <= wanted or risk.dimension > _MOST_SOLVED:
            break
    if length > wanted:
        theta, length = _accelerated(risk, theta, wanted)
    certified = length * (1.0 + (risk.dimension + 4) * UNIT_ROUNDOFF) + gradient_rounding(risk, theta)
    if not certified <= tolerance:
        raise NotCertifiedError(
            "the solver did not come as near to the minimiser as the noise presumes; nothing was released. That "
            "depends on the records and is for whoever holds them. Choose a smaller C or more smoothing"
        )
    return theta.reshape(risk.n_classes, -1)


def _refuse_uncertifiable(risk: MulticlassRisk, tolerance: float) -> None:
    if not _rounding_at(risk, _norm_bound(risk) + tolerance) <= _ROUNDING_PART * tolerance:
        raise ValueError(
            f"C={risk.C!r} is more than doubles can certify a minimiser for, with so many records and such smoothing; "
            "nothing was released. Choose a smaller C or more smoothing"
        )


@dataclass(frozen=True, eq=False)
class _RiskOfSize(MulticlassRisk):
    """Constants alone, of rows that no memory holds."""

    def __post_init__(self) -> None:
        """Nothing: the check of a `MulticlassRisk` looks at every row."""


def refuse_uncertifiable_weights(
    n_records: int,
    n_columns: int,
    n_classes: int,
    loss: MulticlassLoss,
    C: float | None,
    budget: PrivacyBudget,
    adjacency: Adjacency,
) -> None:
    """Refuse, by public numbers alone, what `fit_by_weights` cannot certify of any table of this size.

    Parameters
    ----------
    n_records, n_columns, n_classes : int
        Neither memory nor time grows with the number of records.
    loss, C, budget, adjacency
        As for `fit_by_weights`.

    Raises
    ------
    ValueError
        If rounding takes more than the tolerance has room for.
    """
    C, exact = _scales(n_records, n_classes, loss, C, budget, adjacency)
    rows, labels = np.broadcast_to(0.0, (n_records, n_columns)), np.broadcast_to(np.int64(0), n_records)
    _refuse_uncertifiable(_RiskOfSize(rows, labels, n_classes, loss, C), RELATIVE_TOLERANCE * exact)


def _scales(
    n_records: int, n_classes: int, loss: MulticlassLoss, C: float | None, budget: PrivacyBudget, adjacency: Adjacency
) -> tuple[float, float]:
    """C, and the exact minimiser's sensitivity."""
    unit = weight_sensitivity(loss.lipschitz(n_classes), 1.0, n_records, 2 if adjacency == "replace_one" else 1)
    if C is None:
        C = min(float(n_records), budget.mu / (n_classes * unit))
    return float(C), float(C) * unit


@dataclass(frozen=True, eq=False)
class WeightFit:
    """Weights of shape (c, d), with noise, and what was run to get them."""

    weights: FloatArray
    C: float
    noise_multiplier: float
    events: tuple[Event, ...]
    proof: str


def fit_by_weights(
    rows: FloatArray,
    labels: IntArray,
    n_classes: int,
    loss: MulticlassLoss,
    C: float | None,
    budget: PrivacyBudget,
    adjacency: Adjacency,
    bits: BitSource,
) -> WeightFit:
    """Minimise, and release the weights with the Gaussian noise that the budget asks for.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        With norms of at most 1.
    labels : ndarray of int64, shape (n,)
    n_classes : int
        c.
    loss : MulticlassLoss
    C : float or None
        None: such that the noise has the standard deviation 1 / c, but at most n.
    budget : PrivacyBudget
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource

    Returns
    -------
    WeightFit

    Raises
    ------
    NotCertifiedError
        If the solver did not reach its public tolerance; nothing was released then.

    Notes
    -----
    The sensitivity is `weight_sensitivity` plus twice the tolerance, `RELATIVE_TOLERANCE` of it: each of the two
    weights is that near to its exact minimiser. The noise is calibrated by theorem 8 of Balle, Wang (2018).
    """
    lipschitz, replaced = loss.lipschitz(n_classes), adjacency == "replace_one"
    C, exact = _scales(len(rows), n_classes, loss, C, budget, adjacency)
    tolerance = RELATIVE_TOLERANCE * exact
    weights = certified_minimiser(MulticlassRisk(rows, labels, n_classes, loss, C), tolerance)
    proof = (
        f"the minimiser of a 1-strongly convex objective moves by at most {'2 L C / n' if replaced else 'L C / n'}, "
        f"L = {lipschitz:.6g}, plus twice the solver's certified tolerance; analytic Gaussian calibration (Balle, Wang "
        "2018, theorem 8)"
    )
    if budget.is_infinite:
        return WeightFit(weights, C, 0.0, (), proof)
    multiplier = 1.0 / budget.mu
    lattice = lattice_for(weights.size, exact + 2.0 * tolerance, multiplier)
    released = lattice.add_gaussian(weights, multiplier, bits)
    return WeightFit(released, C, multiplier, (budget.as_gaussian(),), proof)


def gradient_rounding(risk: MulticlassRisk, theta: FloatArray) -> float:
    """Bound of the norm by which the computed gradient may be off the exact one.

    Notes
    -----
    With unit roundoff u, in whichever order sums are formed (Higham 2002, section 3.1): the scores of a row of norm 1
    are off by (d + 2) u |W|, their slope by the loss's smoothness times that and (c + 8) u of its own; the sum of n
    slopes of at most L times rows by (n + 4) u n L, all times C / n; the regulariser and the final sum by a few u of
    their terms.
    """
    return _rounding_at(risk, float(np.linalg.norm(theta)))


def _norm_bound(risk: MulticlassRisk) -> float:
    """Public bound of the minimiser's norm: its gradient vanishes, and its objective is at most that of 0."""
    c = risk.n_classes
    at_zero = float(risk.loss.value(np.zeros((1, c)), np.zeros(1, dtype=np.int64))[0])
    return min(risk.C * risk.loss.lipschitz(c), math.sqrt(2.0 * risk.C * at_zero))


def _rounding_at(risk: MulticlassRisk, length: float) -> float:
    n, d, c = len(risk.rows), risk.rows.shape[1], risk.n_classes
    u = 1.1 * UNIT_ROUNDOFF
    sums = risk.C * risk.loss.lipschitz(c) * (n + c + 14)
    scores = risk.C * risk.loss.smoothness(c) * (d + c + 10) * (math.sqrt(c) + length)
    return u * (sums + scores + 4.0 * length)


def _continued(risk: MulticlassRisk, wanted: float, factor: float) -> tuple[FloatArray, float]:
    """Newton steps from minimiser to minimiser, while a hinge's smoothing falls by a factor from 1 on to its own."""
    losses = [risk.loss]
    while isinstance(last := losses[-1], AllPairsHinge | CrammerSingerHinge) and last.smoothing * factor < 1.0:
        losses.append(replace(last, smoothing=last.smoothing * factor))
    theta, length = np.zeros(risk.dimension), math.inf
    for loss in reversed(losses):
        own = replace(risk, loss=loss)
        solve = own.hessian_solve if own.dimension <= _MOST_SOLVED else None
        found = minimise(own.value_and_gradient, theta, 1.0, tolerance=wanted, hessian_solve=solve)
        theta, length = found.theta, found.gradient_norm
    return theta, length


def _accelerated(risk: MulticlassRisk, theta: FloatArray, wanted: float) -> tuple[FloatArray, float]:
    """Nesterov's method from a point, until the gradient's norm is at most `wanted`; the last point and its norm.

    It takes the proven number of steps at most, see `certified_minimiser`.
    """
    root, length = math.sqrt(risk.smoothness), float(np.linalg.norm(risk.value_and_gradient(theta)[1]))
    momentum, before, ahead = (root - 1.0) / (root + 1.0), theta, theta
    most = math.ceil(root * (math.log(2.0) + 2.0 * math.log(root * length / wanted))) if length > wanted else 0
    for _ in range(most):
        theta = ahead - risk.value_and_gradient(ahead)[1] / risk.smoothness
        ahead, before = theta + momentum * (theta - before), theta
        length = float(np.linalg.norm(risk.value_and_gradient(theta)[1]))
        if length <= wanted:
            break
    return theta, length
