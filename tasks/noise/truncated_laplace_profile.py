"""The privacy profile of truncated Laplace noise, on the line and on the lattice."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from tasks.noise.exact import context, decay, float_upper_bound, one_minus_exp
from tasks.noise.parameters import check_delta

__all__ = ["check_cut_delta", "cut_laplace_divergence"]

_DIGITS = 120  # a difference of two sums may lose twice the 19 digits of a 2^61-th
_SLACK_EXPONENT = -60


def check_cut_delta(value: object) -> float:
    """A truncated Laplace law's delta: in (0, 0.5); ValueError otherwise."""
    delta = check_delta(value)
    if not 0.0 < delta < 0.5:
        raise ValueError(
            f"delta must be in (0, 0.5) for truncated Laplace noise, got delta={value!r}; "
            "Laplace or staircase noise, with or without an atom, takes the others"
        )
    return delta


def cut_laplace_divergence(rate: Fraction, reach: Fraction, shift: Fraction, loss: float, *, lattice: bool) -> float:
    """The hockey-stick divergence at one shift, rounded up, of the law exp(-rate |v|) on |v| <= reach.

    On the half line let G[i, j) be the sum of exp(-rate m) over the whole numbers i <= m < j on a lattice, else the
    integral.  P is even and falls with |v|, so positive terms have v <= s/2:

    - v < s - A, where Q = 0: all of P.
    - s - A <= v <= 0: P/Q = exp(rate s), a share 1 - exp(e - rate s) of P.
    - v > 0: P - exp(e) Q is positive for 2 rate v < rate s - e.
    """

    def mass(first: Fraction, end: Fraction) -> Decimal:
        """(1 - exp(-rate)) G, or rate G."""
        return decay(rate * first, _DIGITS) - decay(rate * end, _DIGITS) if end > first else Decimal(0)

    one = Fraction(1 if lattice else 0)
    with localcontext(context(_DIGITS)):
        whole = mass(Fraction(0), reach + one) + mass(one, reach + one)
        edge = shift - reach
        if edge <= 0:
            free = mass(one - edge, reach + one)
        else:
            free = mass(one, reach + one) + mass(Fraction(0), min(edge, reach + one))
        value, margin = free, Decimal(0)
        if rate * shift > loss:
            excess = rate * shift - Fraction(loss)
            if edge <= 0:
                value += mass(Fraction(0), one - edge) * one_minus_exp(excess, _DIGITS)
            turn = excess / rate / 2
            first, end = max(one, edge), min(Fraction(math.ceil(turn)) if lattice else turn, reach + one)
            if end > first:
                gained = mass(first, end)
                # exp(e) sum of exp(-rate (s - v)), with the exponents taken together
                nearest, farthest = excess - rate * (end - one), excess - rate * (first - one)
                lost = decay(nearest, _DIGITS) - decay(farthest, _DIGITS)
                value += gained - lost
                margin = gained
        value = (value + (value + margin).scaleb(_SLACK_EXPONENT)) / whole
        return min(1.0, float_upper_bound(value)) if value > 0 else 0.0
