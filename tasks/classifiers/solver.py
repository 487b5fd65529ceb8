"""Minimise a smooth, strongly convex function, and certify how near the minimiser is.

A guarantee about an exact minimiser is void for an inexact one, so the certificate goes into the sensitivity: for a
function that is m strongly convex, |theta - minimiser| <= |gradient(theta)| / m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

__all__ = ["Minimum", "NotCertifiedError", "minimise"]

FloatArray = NDArray[np.float64]
_MOST_NEWTON_STEPS = 200
_MOST_BISECTIONS = 80


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
    hessian_solve: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
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
        From theta and a vector to the Hessian times the vector: Newton steps are made by conjugate gradients.
    tolerance : float
        For the distance from the minimiser, above 0. It need not be reached: what was reached is certified.
    hessian_solve : callable, default=None
        From theta and a vector to the Hessian's inverse times the vector, where Newton steps can be had so.

    Returns
    -------
    Minimum

    Raises
    ------
    ValueError
        If `strong_convexity` or `tolerance` is not above 0.

    Notes
    -----
    A Newton step is taken whole where it halves the least gradient so far, which happens a logarithmic number of times;
    else so far that the slope along it is between nine tenths of what it was and 0. For a convex function the value
    falls then, for a smooth one by a constant times the squared gradient, so the gradient gets below any tolerance
    (Zoutendijk; Nocedal, Wright 2006, theorem 3.2). That is in exact arithmetic, and the constant may be small.
    """
    if not strong_convexity > 0.0 or not tolerance > 0.0:
        raise ValueError(f"need strong_convexity and tolerance above 0, got {strong_convexity=}, {tolerance=}")
    if hessian_solve is None and hessian_product is not None:
        hessian_solve = partial(_by_conjugate_gradients, hessian_product)
    wanted = tolerance * strong_convexity
    found = optimize.minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": 2000 if hessian_solve is None else 500,
            "maxfun": 4000,
            "ftol": 0.0,
            "gtol": wanted / np.sqrt(start.size),
            "maxcor": 20,
        },
    )

    def gradient_at(theta: FloatArray) -> FloatArray:
        return value_and_gradient(theta)[1]

    theta = np.asarray(found.x, dtype=np.float64)
    gradient = gradient_at(theta)
    best, least = theta, float(np.linalg.norm(gradient))
    for _ in range(_MOST_NEWTON_STEPS if hessian_solve is not None else 0):
        if least <= wanted:
            break
        step = -hessian_solve(theta, gradient)  # type: ignore[misc]
        theta, gradient = _along(gradient_at, theta, gradient, step, 0.5 * least)
        length = float(np.linalg.norm(gradient))
        if length < least:
            best, least = theta, length
    return Minimum(best, least, least / strong_convexity)


def _along(
    gradient_at: Callable[[FloatArray], FloatArray],
    theta: FloatArray,
    gradient: FloatArray,
    step: FloatArray,
    small: float,
) -> tuple[FloatArray, FloatArray]:
    """The point after the whole step where its gradient is small; else one before the least value along the step."""
    low, high, size, slope = 0.0, np.inf, 1.0, float(gradient @ step)
    candidate, its_gradient = theta, gradient
    for _ in range(_MOST_BISECTIONS):
        candidate = theta + size * step
        its_gradient = gradient_at(candidate)
        if size == 1.0 and float(np.linalg.norm(its_gradient)) <= small:
            break
        its_slope = float(its_gradient @ step)
        if its_slope > 0.0:
            high = size
        elif its_slope < 0.9 * slope:
            low = size
        else:
            break
        size = 0.5 * (low + high) if high < np.inf else 2.0 * size
    return candidate, its_gradient


def _by_conjugate_gradients(
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
