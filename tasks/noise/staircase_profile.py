"""Privacy profiles of staircase noise, on the line and on the lattice, alone and mixed with an atom at zero."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tasks.noise.exact import context, decay, exp_minus, float_upper_bound, one_minus_exp, to_decimal

__all__ = ["StaircaseTerms", "divergence", "divergence_with_atom", "terms_on_lattice", "terms_on_line"]

_DIGITS = 60
_SLACK = Decimal(10) ** -40  # relative; far above the error of the few operations of a profile
_FAR = 10**5  # exp(x) beyond this is above all that it is compared with


class StaircaseTerms(NamedTuple):
    """A hockey-stick divergence in two parts, so that a mixture with an atom at zero can put them together."""

    elsewhere: Decimal
    """The sum (or integral) of [P - exp(e) Q]_+ over all places but zero."""
    at_zero: Decimal
    """P(0) - exp(e) Q(0), of either sign; 0 on the line, where a point has no mass."""


def terms_on_line(epsilon: float, loss: float, period: float, rise: float, shift: float) -> StaircaseTerms | None:
    """The parts of the divergence at one shift, `rise` being a share of the period; None at an infinite loss."""
    if loss == math.inf:
        return None
    rate, length = Fraction(epsilon), Fraction(period)
    upper = Fraction(rise) * length
    terms = _terms(rate, Fraction(loss), length, upper, Fraction(shift), lattice=False)
    with localcontext(context(_DIGITS)):
        kept = to_decimal(upper, _DIGITS) + decay(rate, _DIGITS) * to_decimal(length - upper, _DIGITS)
        return StaircaseTerms(terms.elsewhere * one_minus_exp(rate, _DIGITS) / (2 * kept), Decimal(0))


def terms_on_lattice(epsilon: float, loss: float, period: int, rise: int, shift: int) -> StaircaseTerms | None:
    """The parts of the divergence at one shift, all lengths in steps; None at an infinite loss."""
    if loss == math.inf:
        return None
    rate = Fraction(epsilon)
    terms = _terms(rate, Fraction(loss), Fraction(period), Fraction(rise), Fraction(shift), lattice=True)
    with localcontext(context(_DIGITS)):
        less = one_minus_exp(rate, _DIGITS)
        height = less / (2 * (rise + decay(rate, _DIGITS) * (period - rise)) - less)
        return StaircaseTerms(terms.elsewhere * height, terms.at_zero * height)


def divergence(terms: StaircaseTerms) -> float:
    """The staircase's own divergence, rounded up."""
    with localcontext(context(_DIGITS)):
        value = terms.elsewhere + max(terms.at_zero, Decimal(0))
        return min(1.0, float_upper_bound(value * (1 + _SLACK)))


def divergence_with_atom(terms: StaircaseTerms, delta: float) -> float:
    """The divergence of the mixture: (1 - delta) elsewhere + [delta + (1 - delta) at_zero]_+, rounded up."""
    with localcontext(context(_DIGITS)) as exact:
        atom = Decimal(delta)
        if terms.elsewhere == 0 and terms.at_zero == 0:
            return delta
        exact.prec = 4 * _DIGITS  # keeps the slack visible beside the atom
        kept = 1 - atom
        at_zero = max(Decimal(0), atom + kept * terms.at_zero + abs(terms.at_zero) * _SLACK)
        value = kept * terms.elsewhere * (1 + _SLACK) + at_zero
        exact.prec = _DIGITS
        return min(1.0, float_upper_bound(value))


def _level(place: Fraction, period: Fraction, rise: Fraction) -> int:
    """How many steps down the staircase a magnitude lies."""
    return math.floor((place + period - rise) / period)


def _terms(
    epsilon: Fraction, loss: Fraction, period: Fraction, rise: Fraction, shift: Fraction, *, lattice: bool
) -> StaircaseTerms:
    """The parts of the divergence at one shift, in units of the density at zero.

    With b = exp(-epsilon) and n(m) the level of magnitude m, P = b^n and n(m + D) = n(m) + 1.

    - Left of zero, at -m: P - exp(e) Q = b^n(m) (1 - exp(e - epsilon d)) with d = n(m + s) - n(m), and the next period
      is the same times b: one period's sum divided by 1 - b.
    - Between zero and s, at m + jD with m in the first period: b^(n(m) + j) - exp(e) b^(n(s - m) - j), positive for
      epsilon (d - 2j) > e with d = n(s - m) - n(m), say for j = 0, ..., J.  The two geometric sums together are
      b^n(m) (1 - b^(J+1))/(1 - b) (1 - exp(e - epsilon (d - J))).
    - At s and beyond Q >= P.
    """
    first = Fraction(1) if lattice else Fraction(0)
    unit = Fraction(1) if lattice else Fraction(0)  # a reflected interval of integers ends one later
    with localcontext(context(_DIGITS)):
        one_less = one_minus_exp(epsilon, _DIGITS)
        total = Decimal(0)
        for place, length in _pieces(first, period, [rise, (rise - shift) % period]):
            level = _level(place, period, rise)
            gain = epsilon * (_level(place + shift, period, rise) - level) - loss
            if gain > 0:
                weight = to_decimal(length, _DIGITS) * decay(epsilon * level, _DIGITS)
                total += weight * one_minus_exp(gain, _DIGITS) / one_less
        for place, length in _pieces(first, period, [rise, (shift - rise) % period + unit]):
            level = _level(place, period, rise)
            levels = _level(shift - place, period, rise) - level
            if epsilon * levels > loss:
                last = math.ceil((levels - loss / epsilon) / 2) - 1
                total += (
                    to_decimal(length, _DIGITS)
                    * decay(epsilon * level, _DIGITS)
                    * one_minus_exp((last + 1) * epsilon, _DIGITS)
                    * one_minus_exp(epsilon * (levels - last) - loss, _DIGITS)
                    / one_less
                )
        at_zero = Decimal(0)
        if lattice:
            gain = epsilon * _level(shift, period, rise) - loss
            at_zero = one_minus_exp(gain, _DIGITS) if gain > 0 else _minus(gain)
    return StaircaseTerms(total, at_zero)


def _minus(gain: Fraction) -> Decimal:
    """1 - exp(-gain) for gain <= 0, without cancellation."""
    if gain == 0:
        return Decimal(0)
    if -gain > _FAR:
        return Decimal(-10) ** 1000
    with localcontext(context(_DIGITS)):
        return -one_minus_exp(-gain, _DIGITS) * exp_minus(gain, _DIGITS)


def _pieces(first: Fraction, period: Fraction, cuts: list[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """[first, first + period) cut at the given places: a place inside each piece, and its length."""
    inside = {first + (cut - first) % period for cut in cuts}
    ends = sorted(inside | {first, first + period})
    lattice = first == 1
    return [(a if lattice else (a + b) / 2, b - a) for a, b in pairwise(ends)]
