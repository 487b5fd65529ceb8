"""The normal law's tail to any number of digits, for thresholds and bounds that must be right to the last bit."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

from tasks.noise.exact import context, exp_minus, to_decimal

__all__ = ["mills_ratio", "normal_density", "normal_tail", "pi"]

_GUARD = 12  # further digits, above the rounding of the few hundred operations below
_SERIES_UP_TO = 8  # the series loses 16 digits there, the continued fraction needs some 100 terms for 70 digits


@cache
def pi(digits: int) -> Decimal:
    """The circle's number with a relative error below 10^-digits (Machin 1706)."""
    unit = 10 ** (digits + _GUARD)

    def arctan_of_inverse(n: int) -> int:
        power = total = unit // n
        odd, sign = 1, 1
        while power:
            power //= n * n
            odd, sign = odd + 2, -sign
            total += sign * (power // odd)
        return total

    scaled = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return context(digits + _GUARD).divide(Decimal(scaled), Decimal(unit))


def normal_density(t: Fraction, digits: int) -> Decimal:
    """exp(-t^2/2) / sqrt(2 pi) for |t| <= 1000 with a relative error below 10^-digits."""
    exact = context(digits + _GUARD)
    root = exact.sqrt(exact.multiply(2, pi(digits + _GUARD)))
    return exact.divide(exp_minus(t * t / 2, digits + _GUARD), root)


def mills_ratio(t: Fraction, digits: int) -> Decimal:
    """P(Z > t) / density(t) of a standard normal Z, for t >= 0, with a relative error below 10^-digits.

    Up to t = 8 from the series sqrt(pi/2) exp(t^2/2) - sum_n t^(2n+1)/(2n+1)!!, beyond from Laplace's continued
    fraction 1/(t + 1/(t + 2/(t + 3/(t + ...)))), whose successive convergents enclose the value (Abramowitz and
    Stegun 26.2.11 and 26.2.14).
    """
    with localcontext(context(digits + _GUARD)) as exact:
        if t <= _SERIES_UP_TO:
            exact.prec += 4 + math.ceil(float(t * t) / 4.6)  # digits that the subtraction loses
            value = to_decimal(t, exact.prec)
            term = total = value
            square, odd = value * value, 1
            smallest = Decimal(10) ** -exact.prec
            while term > smallest:
                odd += 2
                term = term * square / odd
                total += term
            half_circle = (pi(exact.prec) / 2).sqrt()
            return half_circle * exp_minus(-t * t / 2, exact.prec) - total
        value = to_decimal(t, exact.prec)
        n_terms = 10 + math.ceil((exact.prec * math.log(10) / (2 * min(float(t), 1e9))) ** 2 / 2)
        while True:
            one, other = _convergent(value, n_terms), _convergent(value, n_terms + 1)
            if abs(one - other) <= one.scaleb(-digits - 2):
                return one
            n_terms *= 2


def _convergent(t: Decimal, n_terms: int) -> Decimal:
    below = t
    for i in range(n_terms, 0, -1):
        below = t + i / below
    return 1 / below


def normal_tail(t: Fraction, digits: int) -> Decimal:
    """P(Z > t) of a standard normal Z for |t| <= 1000, with a relative error below 10^-digits."""
    if t < 0:
        return context(digits + _GUARD).subtract(1, normal_tail(-t, digits + 2))
    product = context(digits + _GUARD)
    return product.multiply(normal_density(t, digits + 2), mills_ratio(t, digits + 2))
