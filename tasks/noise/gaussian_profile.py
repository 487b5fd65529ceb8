"""The privacy profile of Gaussian noise in any dimension, and the analytic calibration by it."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tasks.noise.exact import context, exp_minus, float_upper_bound
from tasks.noise.normal import mills_ratio, normal_density, normal_tail
from tasks.noise.parameters import check_delta, check_epsilon, check_loss, check_positive

__all__ = ["check_gaussian_delta", "gaussian_delta", "gaussian_standard_deviation", "tail_excess"]

_FIRST_DIGITS = 60
_MOST_DIGITS = 1000
_SLACK_DIGITS = 40  # relative slack 10^-40 of a delta before its upward rounding to a double
_FAR = 800  # exp(-800) is below the least double
_LEAST_DOUBLE = 5e-324


def gaussian_delta(epsilon: float, standard_deviation: float, distance: float) -> float:
    """Give the privacy profile of Gaussian noise in any dimension: the least delta that goes with `epsilon`.

    Parameters
    ----------
    epsilon : float
        The loss e >= 0 asked about; infinity is allowed.
    standard_deviation : float
        sigma, of each coordinate's independent noise; finite, above 0.
    distance : float
        The Euclidean (l2) distance s > 0 by which adjacent inputs may differ at most.

    Returns
    -------
    float
        P(Z > e/r - r/2) - exp(e) P(Z > e/r + r/2) with r = s / sigma, rounded up: never below the true value,
        above it by about one unit in the last place.  It grows with s.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    With t = e/r + r/2 the second term is density(t - r) M(t), M being Mills' ratio, so no large factor is formed;
    and where t > r the first is density(t - r) M(t - r).  Digits are added until the difference has 35 of them.

    References
    ----------
    Balle and Wang (ICML 2018), theorem 8.
    """
    loss = check_loss(epsilon)
    sigma = Fraction(check_positive("standard_deviation", standard_deviation))
    ratio = Fraction(check_positive("distance", distance)) / sigma
    if loss == math.inf:
        return 0.0
    return tail_excess(Fraction(loss) / ratio - ratio / 2, Fraction(loss) / ratio + ratio / 2, Fraction(loss))


def tail_excess(near: Fraction, far: Fraction, loss: Fraction) -> float:
    """P(Z > near) - exp(loss) P(Z > far), rounded up, or 0 if that is negative; for near < far and far >= 0."""
    if near * near > 2 * _FAR:
        return _LEAST_DOUBLE if near > 0 else 1.0
    digits = _FIRST_DIGITS
    while True:
        with localcontext(context(digits)):
            mass = normal_tail(near, digits) if near < 4 else normal_density(near, digits) * mills_ratio(near, digits)
            # exp(loss) density(far) = density(near) exp(loss - (far^2 - near^2)/2); the exponent is at most about 0
            exponent = (far * far - near * near) / 2 - loss
            if exponent > 10**5:
                other = Decimal(0)
            else:
                other = normal_density(near, digits) * exp_minus(exponent, digits) * mills_ratio(far, digits)
            value = mass - other
            if value < -mass.scaleb(10 - digits):
                return 0.0
            if value > mass.scaleb(_SLACK_DIGITS + 5 - digits) or digits >= _MOST_DIGITS:
                return min(1.0, max(_LEAST_DOUBLE, float_upper_bound(value + mass.scaleb(10 - digits))))
        digits *= 2


@lru_cache(maxsize=256)
def gaussian_standard_deviation(epsilon: float, delta: float, distance: float) -> float:
    """Give the least standard deviation at which Gaussian noise is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee: epsilon > 0, delta in (0, 1).
    distance : float
        The Euclidean (l2) distance by which adjacent inputs may differ at most.

    Returns
    -------
    float
        `gaussian_delta` of it is at most delta; it is the least such double but for a relative 1e-13.

    Raises
    ------
    ValueError
        If an argument is outside its range, or no normal double would do.

    References
    ----------
    Balle and Wang (ICML 2018), algorithm 1; here by bracketing and Brent's method on the exact profile.
    """
    from scipy import optimize  # 0.2 s, which most commands need not pay

    loss, target = check_epsilon(epsilon), check_gaussian_delta(delta)
    distance = check_positive("distance", distance)

    def gap(log_sigma: float) -> float:
        return math.log(gaussian_delta(loss, math.exp(log_sigma), 1.0)) - math.log(target)

    low = high = -0.5 * math.log(2.0 * loss) if loss > 1.0 else 0.0
    while gap(low) <= 0.0:
        low -= 2.0
    while gap(high) > 0.0:
        high += 2.0
    root = low if low == high else float(optimize.brentq(gap, low, high, xtol=1e-15, rtol=8.9e-16))
    sigma = math.exp(root) * distance
    if not np.finfo(np.float64).tiny <= sigma < math.inf:
        raise ValueError(f"no double is a standard deviation for epsilon={epsilon!r}, distance={distance!r}")
    widening = 2.0**-52
    while gaussian_delta(loss, sigma, distance) > target:
        sigma *= 1.0 + widening
        widening *= 2.0
    return sigma


def check_gaussian_delta(value: object) -> float:
    """Gaussian noise's delta: in (0, 1); ValueError otherwise."""
    delta = check_delta(value)
    if delta == 0.0:
        raise ValueError(
            "delta must be above 0 for Gaussian noise, got delta=0.0; Laplace or staircase noise needs none"
        )
    return delta
