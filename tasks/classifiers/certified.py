"""Minimisers of strongly convex risks, each with a proof of how near it is to the exact one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.dual import UNIT_ROUNDOFF, gap_rounding, minimise_hinge, ridge_solver
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk, SquaredDistance, total_strong_convexity
from tasks.classifiers.solver import Minimum, NotCertifiedError, minimise

__all__ = [
    "certified_minimum",
    "gradient_rounding",
    "largest_size",
    "minimiser_norm_bound",
    "refuse_uncertifiable",
]

FloatArray = NDArray[np.float64]

_ROOM = 4
_SOLVER_PART = 0.5  # of the tolerance, for where a gradient method stops
_ROUNDING_PART = 0.4  # of the tolerance, that rounding may take
_GAP_PART = 0.45  # of m times the squared tolerance: a distance of sqrt(0.9) of it
_ROUNDING_GAP_PART = 0.25  # of the gap, that rounding may take


def largest_size(risk: EmpiricalRisk) -> int:
    """The number of records that rounding is allowed for: n, or four times the public number that stands for it."""
    if isinstance(risk, MarginRisk) and risk.public_size is not None:
        return _ROOM * risk.nominal_size
    return risk.n_records


def minimiser_norm_bound(risk: EmpiricalRisk) -> float:
    """Public bound of the norm of the unconstrained minimiser.

    Parameters
    ----------
    risk : EmpiricalRisk
        Strongly convex: a `MarginRisk` with regularization, or `SquaredDistance`.

    Raises
    ------
    ValueError
        If the risk is not strongly convex, or of another kind.

    Notes
    -----
    For a `MarginRisk` over k problems the gradient n Delta w + sum_i grad l_i is 0 at the minimiser, so |w| <= L /
    Delta; and (n Delta / 2) |w|^2 <= L(0) = n k phi(0), the losses being at least 0. The mean of points lies in their
    ball.

    Where the regulariser counts a public number of records instead of n, Delta is what each of those has. The bound is
    then the same for every n, and holds for n up to that number. What is made of it is private for every n.
    """
    _checked(risk)
    if isinstance(risk, SquaredDistance):
        return risk.point_norm
    assert isinstance(risk, MarginRisk)
    delta = risk.regularization
    return min(risk.lipschitz / delta, math.sqrt(2.0 * _value_at_zero(risk) / delta))


def certified_minimum(
    risk: EmpiricalRisk, tolerance: float, linear: FloatArray | None = None, *, linear_bound: float | None = None
) -> Minimum:
    """A point within `tolerance` of the minimiser of risk + <linear, theta> over R^p, for certain.

    Parameters
    ----------
    risk : EmpiricalRisk
        Strongly convex: a `MarginRisk` with regularization, or `SquaredDistance`.
    tolerance : float
        Above 0, and from public numbers only, since noise is scaled by it.
    linear : ndarray of float64, shape (p,), default=None
        Only for a `MarginRisk` whose loss has a continuous slope.
    linear_bound : float, default=None
        Public bound of its norm, for the refusal below; None: its norm.

    Returns
    -------
    Minimum
        `distance_upper_bound` is at most `tolerance`, float rounding included.

    Raises
    ------
    NotCertifiedError
        If that was not reached, which depends on the records. See the notes: no table is known.
    ValueError
        See `refuse_uncertifiable`; or a linear term has no certificate here.

    Notes
    -----
    A smooth loss: |gradient| / (n Delta), where the gradient is the computed one plus `gradient_rounding`. The hinge:
    sqrt(2 gap / (n Delta)) of each class, since classes do not share parameters (see `dual`). The mean: rounding alone.

    What the refusal lets through is there to be found for every table. A smooth loss: the exact minimiser rounded to
    doubles has an exact gradient of at most u (n beta + n Delta) |w|, less than a seventh of `gradient_rounding`, so a
    computed one of at most 0.46 of the tolerance. The hinge: the exact minimiser and dual point, rounded, have a
    computed gap of at most four times its rounding. And the searches find it in exact arithmetic, for every table:
    `minimise` for the logistic loss, `minimise_hinge` for the others. That rounding does not lead them astray is not
    proven. It is what is left of NotCertifiedError, beside the limits of steps, which are many times what was ever
    taken.
    """
    if linear is not None and not (isinstance(risk, MarginRisk) and not isinstance(risk.loss, HingeLoss)):
        raise ValueError("a linear term has a certificate only beside margin losses with a continuous slope")
    if linear_bound is None:
        linear_bound = 0.0 if linear is None else float(np.linalg.norm(linear))
    refuse_uncertifiable(risk, tolerance, linear_bound)
    m = total_strong_convexity(risk)
    if isinstance(risk, SquaredDistance):
        return Minimum(np.mean(risk.points, axis=0), 0.0, _rounding_of_distance(risk, m, tolerance, 0.0))
    assert isinstance(risk, MarginRisk)
    found = _hinge(risk, m, tolerance) if isinstance(risk.loss, HingeLoss) else _smooth(risk, m, tolerance, linear)
    if not found.distance_upper_bound <= tolerance:
        raise NotCertifiedError(
            "the solver did not come as near to the minimiser as the noise presumes; nothing was released. That "
            "depends on the records and is for whoever holds them. Choose a larger tolerance or more regularization"
        )
    return found


def refuse_uncertifiable(risk: EmpiricalRisk, tolerance: float, linear_bound: float = 0.0) -> None:
    """Refuse, by public numbers alone, a tolerance that `certified_minimum` cannot reach whatever the records are.

    Parameters
    ----------
    risk : EmpiricalRisk
        Its constants alone are used.
    tolerance : float
    linear_bound : float, default=0.0
        Of the linear term's norm.

    Raises
    ------
    ValueError
        If the risk is not strongly convex, or no certificate is known for it; or if the rounding of doubles takes more
        than the tolerance has room for.
    """
    m = _checked(risk)
    if not tolerance > 0.0:
        raise ValueError(f"tolerance must be above 0, got tolerance={tolerance!r}")
    if not _rounding_of_distance(risk, m, tolerance, linear_bound) <= _ROUNDING_PART * tolerance:
        raise ValueError(
            f"tolerance is {tolerance:.3g} for the minimiser's distance, less than doubles can certify for so many "
            "records and so little regularization; nothing was released. Choose a larger tolerance or more "
            "regularization"
        )


def gradient_rounding(risk: MarginRisk, theta: FloatArray, linear_norm: float = 0.0) -> float:
    """Bound of the norm by which the computed gradient may be off the exact one.

    Notes
    -----
    With unit roundoff u, in whichever order sums are formed (Higham 2002, section 3.1): a margin of a row of norm 1
    is off by (d + 2) u |w|, its slope by the curvature beta times that and 8 u of its own; the sum of n rows times
    slopes of at most 1 by (n + 4) u n; the regulariser, its weight included, and the final sums by a few u of their
    terms.
    """
    return _gradient_rounding(risk, len(risk.rows), float(np.linalg.norm(theta)), linear_norm)


def _gradient_rounding(risk: MarginRisk, n: int, length: float, linear_norm: float) -> float:
    d, k, u = risk.rows.shape[1], risk.n_problems, 1.1 * UNIT_ROUNDOFF
    losses = n * risk.loss.lipschitz * (n + 14) * math.sqrt(k)
    margins = n * risk.smoothness * (d + 6) * (math.sqrt(k) + length)
    rest = 16.0 * risk.total_regularization * length + 4.0 * linear_norm
    return u * (losses + margins + rest)


def _rounding_of_distance(risk: EmpiricalRisk, m: float, tolerance: float, linear_norm: float) -> float:
    """The part of a certified distance that rounding alone may take, from public numbers."""
    n = largest_size(risk)
    if not isinstance(risk, MarginRisk):
        assert isinstance(risk, SquaredDistance)
        return 1.1 * (n + 2) * UNIT_ROUNDOFF * risk.point_norm
    # the objective at its minimiser w is at most that at 0: (m/2) |w|^2 - |b| |w| <= n k phi(0)
    if isinstance(risk.loss, HingeLoss):  # each problem by itself
        gap = gap_rounding(n, risk.rows.shape[1], m, tolerance + math.sqrt(2.0 * n / m), float(n))
        return _ROUNDING_PART * math.sqrt(risk.n_problems * gap / (_ROUNDING_GAP_PART * _GAP_PART * m))
    at_zero = n * _value_at_zero(risk)
    length = tolerance + (linear_norm + math.sqrt(linear_norm**2 + 2.0 * m * at_zero)) / m
    return _gradient_rounding(risk, n, length, linear_norm) / m


def _value_at_zero(risk: MarginRisk) -> float:
    """One record's loss at 0: k phi(0)."""
    return risk.n_problems * float(risk.loss.value(np.zeros(1))[0])


def _smooth(risk: MarginRisk, m: float, tolerance: float, linear: FloatArray | None) -> Minimum:
    b = np.zeros(risk.dimension) if linear is None else linear
    wanted = _SOLVER_PART * tolerance
    kinked = isinstance(risk.loss, HuberisedHingeLoss)  # in its slope: Newton steps from afar may take for ever

    def value_and_gradient(theta: FloatArray) -> tuple[float, FloatArray]:
        return risk.value(theta) + float(b @ theta), risk.gradient(theta) + b

    def hessian_solve(theta: FloatArray, vector: FloatArray) -> FloatArray:
        return _newton_steps(risk, m, theta, vector)

    found = minimise(
        value_and_gradient,
        np.zeros(risk.dimension),
        m,
        tolerance=wanted,
        hessian_solve=None if kinked else hessian_solve,
    )
    if kinked and found.gradient_norm > wanted * m:
        start = _huberised(risk, m, wanted * m, b)
        found = minimise(value_and_gradient, start, m, tolerance=wanted, hessian_solve=hessian_solve)
    gradient = found.gradient_norm * (1.0 + (risk.dimension + 4) * UNIT_ROUNDOFF)
    gradient += gradient_rounding(risk, found.theta, float(np.linalg.norm(b)))
    return Minimum(found.theta, gradient, gradient / m * (1.0 + 2.0**-50))


def _newton_steps(risk: MarginRisk, m: float, theta: FloatArray, vector: FloatArray) -> FloatArray:
    """The Hessian's inverse times a vector, problem by problem."""
    roots, none = np.sqrt(risk.loss.curvature(risk.margins(theta))), np.zeros(len(risk.rows))
    return np.concatenate(
        [
            ridge_solver(risk.rows * root[:, None], m, orthogonal=True)(none, -part)
            for root, part in zip(roots.T, risk.weights(vector), strict=True)
        ]
    )


def _huberised(risk: MarginRisk, m: float, wanted: float, linear: FloatArray) -> FloatArray:
    """Where the gap of a Huberised hinge is so small that the gradient is as short as wanted, but for rounding."""
    assert isinstance(risk.loss, HuberisedHingeLoss)
    distance = wanted / (math.sqrt(risk.n_problems) * (len(risk.rows) * risk.smoothness + m))
    gap, width = 0.5 * m * distance**2, risk.loss.width
    each = [
        minimise_hinge(risk.rows * signs[:, None], m, gap=gap, width=width, linear=part).theta
        for signs, part in zip(risk.signs.T, risk.weights(linear), strict=True)
    ]
    return np.concatenate(each)


def _hinge(risk: MarginRisk, m: float, tolerance: float) -> Minimum:
    gap = _GAP_PART * m * tolerance**2 / risk.n_problems
    each = [minimise_hinge(risk.rows * risk.signs[:, [j]], m, gap=gap) for j in range(risk.n_problems)]
    distance = math.sqrt(math.fsum(one.distance_upper_bound**2 for one in each)) * (1.0 + 2.0**-50)
    return Minimum(np.concatenate([one.theta for one in each]), m * distance, distance)


def _checked(risk: EmpiricalRisk) -> float:
    if not isinstance(risk, MarginRisk | SquaredDistance):
        raise ValueError(f"no certificate is known for the minimiser of {type(risk).__name__}")
    m = total_strong_convexity(risk)
    if not m > 0.0:
        raise ValueError("the risk must be strongly convex: regularization must be above 0")
    return m
