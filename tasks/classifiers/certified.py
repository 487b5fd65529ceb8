"""Minimisers of strongly convex risks, each with a proof of how near it is to the exact one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.dual import UNIT_ROUNDOFF, minimise_hinge
from tasks.classifiers.losses import HingeLoss
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk, SquaredDistance
from tasks.classifiers.solver import Minimum, NotCertifiedError, minimise

__all__ = ["certified_minimum", "gradient_rounding", "minimiser_norm_bound"]

FloatArray = NDArray[np.float64]


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
    """
    _checked(risk)
    if isinstance(risk, SquaredDistance):
        return risk.point_norm
    assert isinstance(risk, MarginRisk)
    at_zero = risk.n_problems * float(risk.loss.value(np.zeros(1))[0])
    delta = risk.strong_convexity
    return min(risk.lipschitz / delta, math.sqrt(2.0 * at_zero / delta))


def certified_minimum(risk: EmpiricalRisk, tolerance: float, linear: FloatArray | None = None) -> Minimum:
    """A point within `tolerance` of the minimiser of risk + <linear, theta> over R^p, for certain.

    Parameters
    ----------
    risk : EmpiricalRisk
        Strongly convex: a `MarginRisk` with regularization, or `SquaredDistance`.
    tolerance : float
        Above 0, and from public numbers only, since noise is scaled by it.
    linear : ndarray of float64, shape (p,), default=None
        Only for a `MarginRisk` whose loss has a continuous slope.

    Returns
    -------
    Minimum
        `distance_upper_bound` is at most `tolerance`, float rounding included.

    Raises
    ------
    NotCertifiedError
        If that was not reached.
    ValueError
        If the risk is not strongly convex, or no certificate is known for it.

    Notes
    -----
    A smooth loss: |gradient| / (n Delta), where the gradient is the computed one plus `gradient_rounding`. The hinge:
    sqrt(2 gap / (n Delta)) of each class, since classes do not share parameters (see `dual`). The mean: rounding alone.
    """
    m = _checked(risk)
    if not tolerance > 0.0:
        raise ValueError(f"tolerance must be above 0, got tolerance={tolerance!r}")
    if isinstance(risk, SquaredDistance):
        theta = np.mean(risk.points, axis=0)
        found = Minimum(theta, 0.0, 1.1 * (risk.n_records + 2) * UNIT_ROUNDOFF * risk.point_norm)
    else:
        assert isinstance(risk, MarginRisk)
        if isinstance(risk.loss, HingeLoss):
            if linear is not None:
                raise ValueError("the hinge has no certificate with a linear term; take a loss with a continuous slope")
            found = _hinge(risk, m, tolerance)
        else:
            found = _smooth(risk, m, tolerance, linear)
    if not found.distance_upper_bound <= tolerance:
        raise NotCertifiedError(
            f"the minimiser is certified to {found.distance_upper_bound:.3g} only, but the noise is made for "
            f"{tolerance:.3g}; nothing was released. Choose a larger tolerance or more regularization"
        )
    return found


def gradient_rounding(risk: MarginRisk, theta: FloatArray, linear_norm: float = 0.0) -> float:
    """Bound of the norm by which the computed gradient may be off the exact one.

    Notes
    -----
    With unit roundoff u, in whichever order sums are formed (Higham 2002, section 3.1): a margin of a row of norm 1
    is off by (d + 2) u |w|, its slope by the curvature beta times that and 8 u of its own; the sum of n rows times
    slopes of at most 1 by (n + 4) u n; the regulariser, its weight included, and the final sums by a few u of their
    terms.
    """
    n, d, k = risk.n_records, risk.rows.shape[1], risk.n_problems
    length, u = float(np.linalg.norm(theta)), 1.1 * UNIT_ROUNDOFF
    losses = n * risk.loss.lipschitz * (n + 14) * math.sqrt(k)
    margins = n * risk.smoothness * (d + 6) * (math.sqrt(k) + length)
    rest = 16.0 * n * risk.strong_convexity * length + 4.0 * linear_norm
    return u * (losses + margins + rest)


def _smooth(risk: MarginRisk, m: float, tolerance: float, linear: FloatArray | None) -> Minimum:
    b = np.zeros(risk.dimension) if linear is None else linear

    def value_and_gradient(theta: FloatArray) -> tuple[float, FloatArray]:
        return risk.value(theta) + float(b @ theta), risk.gradient(theta) + b

    found = minimise(value_and_gradient, np.zeros(risk.dimension), m, risk.hessian_product, tolerance=0.5 * tolerance)
    gradient = found.gradient_norm * (1.0 + (risk.dimension + 4) * UNIT_ROUNDOFF)
    gradient += gradient_rounding(risk, found.theta, float(np.linalg.norm(b)))
    return Minimum(found.theta, gradient, gradient / m)


def _hinge(risk: MarginRisk, m: float, tolerance: float) -> Minimum:
    gap = 0.25 * m * tolerance**2 / risk.n_problems
    each = [minimise_hinge(risk.rows * risk.signs[:, [j]], m, gap=gap) for j in range(risk.n_problems)]
    distance = math.sqrt(math.fsum(one.distance_upper_bound**2 for one in each)) * (1.0 + 2.0**-50)
    return Minimum(np.concatenate([one.theta for one in each]), m * distance, distance)


def _checked(risk: EmpiricalRisk) -> float:
    if not isinstance(risk, MarginRisk | SquaredDistance):
        raise ValueError(f"no certificate is known for the minimiser of {type(risk).__name__}")
    m = risk.n_records * risk.strong_convexity
    if not m > 0.0:
        raise ValueError("the risk must be strongly convex: regularization must be above 0")
    return m
