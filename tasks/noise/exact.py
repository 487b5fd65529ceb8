"""Numbers that must be right to the last bit: probabilities as 128-bit thresholds, bounds that err upwards.

Everything is computed from exact rationals with correctly rounded decimal arithmetic of as many
digits as the answer needs; binary floating point appears only in the final, upward rounding.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Literal

__all__ = [
    "THRESHOLD_BITS",
    "context",
    "decay",
    "exp_minus",
    "float_upper_bound",
    "one_minus_exp",
    "to_decimal",
    "to_threshold",
]

THRESHOLD_BITS = 128
"""A probability p is kept as the integer nearest to p 2^128; an event of probability p is `U < threshold`."""

_FIRST_DIGITS = 60  # 2^-128 is 2.9e-39; 20 further digits settle the rounding but in one case of 10^20
_NEGLIGIBLE = 10**5  # exp(-x) beyond this adds nothing to a probability that laws compute
_FAR = 10**6  # exp(-x) beyond this is below any precision asked for here


def context(digits: int) -> decimal.Context:
    """Arithmetic with `digits` decimal digits, each operation correctly rounded, without range limits."""
    return decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def to_decimal(value: Fraction, digits: int) -> Decimal:
    """Round a rational once to `digits` digits."""
    return context(digits).divide(Decimal(value.numerator), Decimal(value.denominator))


def exp_minus(x: Fraction, digits: int) -> Decimal:
    """exp(-x) for -10^6 <= x <= 10^6 with a relative error below 10^-digits.

    The rounding of x moves the result by a relative |x| 10^-precision, which the 10 further digits cover.
    """
    precision = digits + 10
    return context(precision).exp(to_decimal(-x, precision))  # `-Decimal` would round to 28 digits


def decay(x: Fraction, digits: int) -> Decimal:
    """exp(-x) as `exp_minus` has it, or 0 for x > 10^5, where it is below any precision that laws ask for."""
    return Decimal(0) if x > _NEGLIGIBLE else exp_minus(x, digits)


def one_minus_exp(x: Fraction, digits: int) -> Decimal:
    """1 - exp(-x) for x > 0 with a relative error below 10^-digits, however small x is.

    The subtraction loses log10(1/x) digits; they are added beforehand.
    """
    if x > _FAR:
        return Decimal(1)
    lost_bits = max(0, x.denominator.bit_length() - x.numerator.bit_length() + 1)
    precision = digits + 10 + math.ceil(lost_bits * 0.30103)
    return context(precision).subtract(Decimal(1), exp_minus(x, precision))


def to_threshold(
    evaluate: Callable[[int], Decimal], rounding: Literal["nearest", "up"], bits: int = THRESHOLD_BITS
) -> int:
    """Round a probability correctly to `bits` binary places.

    Parameters
    ----------
    evaluate : callable
        `evaluate(digits)` gives the probability, in (0, 1), with a relative error below 10^-digits.
    rounding : {"nearest", "up"}
        "up" gives the least integer not below p 2^bits.
    bits : int, default=128

    Returns
    -------
    int
        In [0, 2^bits].

    Notes
    -----
    Ziv's strategy: more digits until both ends of the error interval round alike.  It ends because
    the probabilities here are transcendental (algebraic functions of exp of a non-zero rational;
    Lindemann), never on a rounding boundary.
    """
    digits = _FIRST_DIGITS
    while True:
        scaled = Fraction(evaluate(digits)) * 2**bits
        error = scaled / 10**digits * 2
        low, high = scaled - error, scaled + error
        if rounding == "up":
            first, second = math.ceil(low), math.ceil(high)
        else:
            first, second = math.floor(low + Fraction(1, 2)), math.floor(high + Fraction(1, 2))
        if first == second:
            return first
        digits *= 2


def float_upper_bound(value: Decimal) -> float:
    """Give the least double that is not below `value`."""
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)
