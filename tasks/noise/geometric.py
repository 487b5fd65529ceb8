"""Exact drawing of geometric variables, eight independent binary digits at a time."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS, context, one_minus_exp, to_threshold

__all__ = ["GROUP_DIGITS", "ExactGeometric", "group_thresholds", "n_digits"]

GROUP_DIGITS = 8
"""Binary digits drawn by one look-up: 255 thresholds leave 0.4 % of the 16-bit words open."""

_TAIL_RATE = Fraction(887228392, 10**7)  # just above 128 ln 2, so exp(-_TAIL_RATE) < 2^-128


class ExactGeometric:
    """P(G = g) proportional to exp(-rate g) on 0, 1, 2, ....

    With g = sum_j d_j 2^j the law is a product over the binary digits, which are therefore independent.  Eight digits
    from position i on form a number b in 0, ..., 255 with probability proportional to exp(-2^i rate b).  Digits from
    position `n_digits` on are left out.
    """

    def __init__(self, rate: Fraction) -> None:
        self.n_digits = n_digits(rate)
        self._groups = tuple(
            ExactCategorical(group_thresholds(rate * 2**first, min(GROUP_DIGITS, self.n_digits - first)))
            for first in range(0, self.n_digits, GROUP_DIGITS)
        )

    @property
    def rounding_bias(self) -> float:
        """A bound of the total variation distance: 1/2 for each threshold and 1 for the digits left out, x 2^-128."""
        return math.ldexp(1 + len(self._groups) * 2 ** (GROUP_DIGITS - 1), -THRESHOLD_BITS)

    def draw(self, n_values: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw independent values, shape (n_values,)."""
        values = np.zeros(n_values, dtype=np.int64)
        self.fill(values, bits)
        return values

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values over `block`, which must be zero."""
        for position in reversed(range(len(self._groups))):
            if position < len(self._groups) - 1:
                block <<= GROUP_DIGITS
            block |= self._groups[position].draw(block.size, bits)


def n_digits(rate: Fraction) -> int:
    """The least J with exp(-rate 2^J) < 2^-128."""
    return max(0, math.ceil(_TAIL_RATE / rate) - 1).bit_length()


def group_thresholds(rate: Fraction, n_digits: int) -> list[int]:
    """Cumulative thresholds of the law proportional to exp(-rate b) on b = 0, ..., 2^n_digits - 1."""
    n_values = 2**n_digits
    whole = cache(partial(one_minus_exp, n_values * rate))

    def below(b: int, digits: int) -> Decimal:
        return context(digits + 10).divide(one_minus_exp(b * rate, digits + 10), whole(digits + 10))

    return [to_threshold(partial(below, b), "nearest") for b in range(1, n_values)]
