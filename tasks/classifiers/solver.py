"""Minimise a smooth, strongly convex function, and certify how near the minimiser is.

A guarantee about an exact minimiser is void for an inexact one, so the certificate goes into the sensitivity: for a
function that is m strongly convex, |theta - minimiser| <= |gradient(theta)| / m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

__all__ = ["Minimum", "NotCertifiedError", "minimise"]

FloatArray = NDArray[np.float64]
_MOST_NEWTON_STEPS = 60


class NotCertifiedError(ArithmeticError):
    """The solver did not come as near to the minimiser as the noise presumes; nothing was released.

    What public numbers can tell of this is refused as a ValueError before. The rest depends on the records and no
    guarantee covers it: that it happened is for whoever holds them, and the text holds no number.
    """


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the search ended.

    Attributes
    ----------
    theta : ndarray of float64, shape (p,)
    gradient_norm : float
        Of the gradient there.
    distance_upper_bound : float
        Of theta from the exact minimiser.
    """

    theta: FloatArray
    gradient_norm: float
    distance_upper_bound: float


def minimise(
    value_and_gradient: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    strong_convexity: float,
    hessian_product: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
    *,
    tolerance: float,
) -> Minimum:
    """Minimise by L-BFGS, then, while the gradient is above the tolerance, by Newton steps where there is a Hessian.

    Parameters
    ----------
    value_and_gradient : callable
        From theta, shape (p,), to the value and the gradient, shape (p,).
    start : ndarray of float64, shape (p,)
        Fixed in advance.
    strong_convexity : float
        m of the whole function, above 0.
    hessian_product : callable, default=None
        From theta and a vector to the Hessian times the vector.
    tolerance : float
        For the distance from the minimiser, above 0. It need not be reached: what was reached is certified.

    Returns
    -------
    Minimum

    Raises
    ------
    ValueError
        If `strong_convexity` or `tolerance` is not above 0.
    """
    if not strong_convexity > 0.0 or not tolerance > 0.0:
        raise ValueError(f"need strong_convexity and tolerance above 0, got {strong_convexity=}, {tolerance=}")
    wanted = tolerance * strong_convexity
    found = optimize.minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "ftol": 0.0, "gtol": wanted / np.sqrt(start.size), "maxcor": 20},
    )
    theta = np.asarray(found.x, dtype=np.float64)
    gradient = value_and_gradient(theta)[1]
    length = float(np.linalg.norm(gradient))
    for _ in range(_MOST_NEWTON_STEPS if hessian_product is not None else 0):
        if length <= wanted:
            break
        step = _newton_step(hessian_product, theta, gradient)  # type: ignore[arg-type]
        size = 1.0
        while size > 1e-4:
            candidate = theta - size * step
            its_gradient = value_and_gradient(candidate)[1]
            its_length = float(np.linalg.norm(its_gradient))
            if its_length < length:
                break
            size *= 0.5
        else:
            break
        theta, gradient, length = candidate, its_gradient, its_length
    return Minimum(theta, length, length / strong_convexity)


def _newton_step(
    hessian_product: Callable[[FloatArray, FloatArray], FloatArray], theta: FloatArray, gradient: FloatArray
) -> FloatArray:
    """The Hessian's inverse times the gradient, by conjugate gradients."""
    step, residual = np.zeros_like(gradient), gradient.copy()
    direction, squared = residual.copy(), float(residual @ residual)
    limit = 1e-10 * squared
    for _ in range(4 * gradient.size + 50):
        if squared <= limit:
            break
        along = hessian_product(theta, direction)
        size = squared / float(direction @ along)
        step = step + size * direction
        residual = residual - size * along
        squared, before = float(residual @ residual), squared
        direction = residual + (squared / before) * direction
    return step
