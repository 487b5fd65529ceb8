"""Staircase noise: the least E|v| that pure differential privacy allows, on the line and on the lattice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource, OperatingSystemBits, draw_below, draw_half_words
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import (
    THRESHOLD_BITS,
    context,
    exp_minus,
    float_upper_bound,
    one_minus_exp,
    to_decimal,
    to_threshold,
)
from tasks.noise.geometric import ExactGeometric, n_digits
from tasks.noise.parameters import (
    as_steps,
    check_delta,
    check_epsilon,
    check_levels,
    check_loss,
    check_positive,
    check_steps,
    steps_of,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["LatticeStaircase", "Staircase", "StaircaseTerms", "staircase_rise"]

MAX_DIGITS = 61
"""Noise magnitudes are at most 2^61, so that a lattice index below 2^61 plus noise stays inside int64."""

_DIGITS = 60
_SLACK = Decimal(10) ** -40  # relative; far above the error of the few operations of a profile
_FAR = 10**5  # exp(-x) beyond this is below any precision asked for here
_BLOCK = 1 << 16
_MAX_LINE_EPSILON = 1300.0  # the higher level's width, a share exp(-epsilon/2) of d, is a normal double up to there
_FINE_BITS = 30  # `Staircase.sample` uses a lattice of 2^30 steps per sensitivity


def staircase_rise(epsilon: float) -> float:
    """Give gamma = 1 / (1 + exp(epsilon/2)), the share of a step at the higher level that makes E|v| least."""
    return 1.0 / (1.0 + math.exp(epsilon / 2.0))


class StaircaseTerms(NamedTuple):
    """A hockey-stick divergence in two parts, so that a mixture with an atom at zero can put them together."""

    elsewhere: Decimal
    """The sum (or integral) of [P - exp(e) Q]_+ over all places but zero."""
    at_zero: Decimal
    """P(0) - exp(e) Q(0), of either sign; 0 on the line, where a point has no mass."""


def _power(x: Fraction) -> Decimal:
    """exp(-x), 0 where that is below any precision asked for."""
    return Decimal(0) if x > _FAR else exp_minus(x, _DIGITS)


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
                total += to_decimal(length, _DIGITS) * _power(epsilon * level) * one_minus_exp(gain, _DIGITS) / one_less
        for place, length in _pieces(first, period, [rise, (shift - rise) % period + unit]):
            level = _level(place, period, rise)
            levels = _level(shift - place, period, rise) - level
            if epsilon * levels > loss:
                last = math.ceil((levels - loss / epsilon) / 2) - 1
                total += (
                    to_decimal(length, _DIGITS)
                    * _power(epsilon * level)
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


def _rounded_up(value: Decimal) -> float:
    exact = context(_DIGITS)
    return min(1.0, float_upper_bound(exact.multiply(value, exact.add(1, _SLACK))))


@dataclass(frozen=True)
class Staircase:
    """Additive noise whose density falls by exp(-epsilon) once in every d, and is flat in between.

    With gamma = 1/(1 + exp(epsilon/2)) the density is a exp(-j epsilon) on j d <= |v| < (j + gamma) d and
    a exp(-(j + 1) epsilon) on (j + gamma) d <= |v| < (j + 1) d.

    This object describes the law on the real line: for plans, figures and comparisons.  Releases draw from
    `on_lattice`.

    Parameters
    ----------
    epsilon : float
        Above 0, at most 1300.
    delta : float
        In [0, 1).  Taken so that all mechanisms are called alike, and not used: the noise is (epsilon, 0)-private.
    sensitivity : float
        d, finite, above 0, in the unit of the data.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, 0)-differential privacy for the adjacency "one cell moves by at most d", in exact real
    arithmetic: two magnitudes at most d apart lie at most one step of the staircase apart.

    References
    ----------
    Geng, Viswanath (IEEE Transactions on Information Theory 2016; ISIT 2014), theorems 1 and 3.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if self.epsilon > _MAX_LINE_EPSILON:
            raise ValueError(
                f"epsilon must be at most 1300 for the staircase on the line, got epsilon={self.epsilon!r}; "
                "its noise is below every double's resolution there"
            )
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_positive("sensitivity", self.sensitivity))

    @property
    def rise(self) -> float:
        """gamma, the share of each step at its higher level."""
        return staircase_rise(self.epsilon)

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design."""
        return 0.0

    @property
    def _height(self) -> float:
        """a, the density at zero: the half line's mass, a d (gamma + b (1 - gamma)) / (1 - b), is 1/2."""
        kept = self.rise + math.exp(-self.epsilon) * (1.0 - self.rise)
        return -math.expm1(-self.epsilon) / (2.0 * self.sensitivity * kept)

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density at `v`, in the unit of the data."""
        x = np.abs(np.asarray(v, dtype=np.float64)) / self.sensitivity
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            density = self._height * np.exp(-self.epsilon * np.floor(x + (1.0 - self.rise)))
        return np.asarray(np.where(np.isinf(x), 0.0, density))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v); infinities are allowed."""
        value = np.asarray(v, dtype=np.float64)
        tail = self._tail(np.abs(value))
        return np.asarray(np.where(value < 0.0, tail, 1.0 - tail))

    def _tail(self, magnitude: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(V > magnitude)"""
        b, gamma = math.exp(-self.epsilon), self.rise
        x = magnitude / self.sensitivity
        step = np.floor(np.where(np.isinf(x), 0.0, x))
        part = np.where(np.isinf(x), 0.0, x - step)
        kept = gamma + b * (1.0 - gamma)
        passed = np.minimum(part, gamma) + b * np.maximum(part - gamma, 0.0)
        share = 1.0 - passed / kept * (1.0 - b)
        with np.errstate(under="ignore", invalid="ignore"):
            tail = 0.5 * np.exp(-self.epsilon * step) * share
        return np.asarray(np.where(np.isinf(x), 0.0, tail))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function at levels in [0, 1]; ValueError outside."""
        level = check_levels(t)
        right = level > 0.5
        tail = np.where(right, 1.0 - level, level)
        b, gamma = math.exp(-self.epsilon), self.rise
        kept = gamma + b * (1.0 - gamma)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_tail = np.log(2.0 * tail)
            step = np.floor(-log_tail / self.epsilon)
            rest = -np.expm1(log_tail + self.epsilon * step) * kept / -math.expm1(-self.epsilon)  # within the step
            rest = np.clip(rest, 0.0, kept)
            part = np.where(rest <= gamma, rest, gamma + (rest - gamma) / b)
            magnitude = np.where(tail == 0.0, np.inf, self.sensitivity * (step + np.minimum(part, 1.0)))
        return np.asarray(np.where(right, magnitude, np.where(level == 0.5, 0.0, -magnitude)))

    def expected_magnitude(self) -> float:
        """Give E|V| = d exp(epsilon/2) / (exp(epsilon) - 1), in the unit of the data."""
        return self.sensitivity * math.exp(-self.epsilon / 2.0) / -math.expm1(-self.epsilon)

    def delta_at(self, epsilon: float, shift: float | None = None) -> float:
        """Give the exact privacy profile: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed.
        shift : float, default=None
            The distance s > 0 by which the cell may differ at most; None means `sensitivity`.

        Returns
        -------
        float
            Rounded up: never below the true value for the double `rise`, above it by about one unit in the last place.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.

        Notes
        -----
        The density is even and falls with |v|, so every positive term p(v) - exp(e) p(v - s) has v <= s/2 and grows
        with s: the largest shift is the worst.  `_terms` has the sums.
        """
        terms = self.profile_terms(epsilon, shift)
        return 0.0 if terms is None else _rounded_up(terms.elsewhere)

    def profile_terms(self, epsilon: float, shift: float | None = None) -> StaircaseTerms | None:
        """Give the parts of the divergence, for a mixture with an atom; None at an infinite loss."""
        loss = check_loss(epsilon)
        distance = Fraction(self.sensitivity if shift is None else check_positive("shift", shift))
        if loss == math.inf:
            return None
        rate, period = Fraction(self.epsilon), Fraction(self.sensitivity)
        rise = Fraction(self.rise) * period
        terms = _terms(rate, Fraction(loss), period, rise, distance, lattice=False)
        with localcontext(context(_DIGITS)):
            kept = to_decimal(rise, _DIGITS) + _power(rate) * to_decimal(period - rise, _DIGITS)
            return StaircaseTerms(terms.elsewhere * one_minus_exp(rate, _DIGITS) / (2 * kept), Decimal(0))

    def dp_event(self) -> DpEvent:
        """Give the event of one use: that of the fine lattice's law."""
        return LatticeStaircase(self.epsilon, 2**_FINE_BITS).dp_event()

    def on_lattice(self, spacing: float) -> LatticeStaircase:
        """Give the discrete law of the same epsilon in whole steps of a public lattice.

        Parameters
        ----------
        spacing : float
            The step, a power of two, in the unit of the data; the sensitivity must be a whole number of steps.

        Raises
        ------
        ValueError
            If it is not, or the noise would not fit in 64-bit integers.
        """
        return LatticeStaircase(self.epsilon, steps_of(self.sensitivity, spacing))

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.float64]:
        """Draw values for figures and simulations, on a fine lattice; a release draws from `on_lattice` instead."""
        steps = LatticeStaircase(self.epsilon, 2**_FINE_BITS).sample(shape, bits=bits)
        return steps.astype(np.float64) * np.float64(math.ldexp(self.sensitivity, -_FINE_BITS))


@dataclass(frozen=True)
class LatticeStaircase:
    """Staircase noise in whole lattice steps: P(k) = P(0) exp(-epsilon n), n = floor((|k| + D - r) / D).

    So magnitudes 0 to r - 1 are at the top, r to r + D - 1 one step down, and so on.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    sensitivity : int
        D, the number of lattice steps by which one cell may differ between adjacent tables.
    rise : int, default=None
        r, in 1, ..., D; None means the one with the least E|K|.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the noise would not fit in 64-bit integers.

    Notes
    -----
    Guarantee: (epsilon, 0)-differential privacy for the adjacency "one cell moves by at most D lattice steps", since
    magnitudes at most D apart have levels n at most 1 apart; `delta_at` gives the whole privacy profile.  Assumed:
    integer data on a lattice fixed in advance, integer sums, a uniform bit source.  The privacy loss takes finitely
    many values, multiples of epsilon, and is not monotone in k.

    References
    ----------
    Geng, Viswanath (2016), theorem 5 (integer-valued queries).
    """

    epsilon: float
    sensitivity: int
    rise: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, 2**MAX_DIGITS))
        if self.rise is None:
            object.__setattr__(self, "rise", _best_rise(self.epsilon, self.sensitivity))
        else:
            object.__setattr__(self, "rise", check_steps("rise", self.rise, self.sensitivity))
        if self.max_magnitude >= 2**MAX_DIGITS:
            raise ValueError(
                "epsilon / sensitivity is too small for noise in 64-bit integers: "
                f"got epsilon={self.epsilon!r}, sensitivity={self.sensitivity} lattice steps; "
                "choose a coarser lattice or a larger epsilon"
            )

    @property
    def name(self) -> str:
        """`staircase`."""
        return "staircase"

    def parameters(self) -> dict[str, float | int]:
        """Give what `law_from_parameters` needs to build this law again."""
        return {"epsilon": self.epsilon, "sensitivity": self.sensitivity, "rise": self._rise}

    @property
    def _rise(self) -> int:
        assert self.rise is not None
        return self.rise

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design; the law has a zero of its own."""
        return 0.0

    @property
    def max_magnitude(self) -> int:
        """The largest |k| that `sample` can return, in steps."""
        return int(self.sensitivity * 2 ** n_digits(Fraction(self.epsilon)) - 1)

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-116, of the total variation distance per value between `sample` and this law.

        Twice the rounding of the parts, as a draw is accepted with probability 1/2 at least.
        """
        step, _ = _tables(self.epsilon, self.sensitivity, self._rise)
        return 2.0 * (step.rounding_bias + math.ldexp(1.0, -THRESHOLD_BITS))

    @property
    def _height(self) -> float:
        """P(0) = (1 - b) / (2 (r + b (D - r)) - (1 - b))."""
        b, less = math.exp(-self.epsilon), -math.expm1(-self.epsilon)
        return less / (2.0 * (self._rise + b * (self.sensitivity - self._rise)) - less)

    def _levels(self, k: ArrayLike) -> NDArray[np.float64]:
        as_steps(k)
        magnitude = np.abs(np.asarray(k, dtype=np.int64))
        return ((magnitude + (self.sensitivity - self._rise)) // self.sensitivity).astype(np.float64)

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the probability of each number of steps, an array of integers; ValueError for other types."""
        with np.errstate(under="ignore"):
            return np.asarray(self._height * np.exp(-self.epsilon * self._levels(k)))

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, finite everywhere."""
        return np.asarray(math.log(self._height) - self.epsilon * self._levels(k))

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""
        as_steps(k)
        steps = np.asarray(k, dtype=np.int64)
        tail = self._tail(np.where(steps < 0, -steps, steps + 1))
        return np.asarray(np.where(steps < 0, tail, 1.0 - tail))

    def _tail(self, magnitude: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(K >= magnitude) for magnitudes of at least 1."""
        period, rise, b = self.sensitivity, self._rise, math.exp(-self.epsilon)
        step = magnitude // period
        part = (magnitude - step * period).astype(np.float64)
        passed = np.minimum(part, rise) + b * np.maximum(part - rise, 0.0)
        whole = (rise + b * (period - rise)) / -math.expm1(-self.epsilon)
        with np.errstate(under="ignore"):
            return np.asarray(self._height * np.exp(-self.epsilon * step.astype(np.float64)) * (whole - passed))

    def expected_magnitude(self) -> float:
        """Give E|K|, in steps."""
        return _mean_magnitude(self.epsilon, self.sensitivity, self._rise)

    def delta_at(self, epsilon: float, shift: int | None = None) -> float:
        """Give the exact privacy profile of this discrete law: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed.
        shift : int, default=None
            The number of steps s >= 1 by which the cell may differ at most, smaller or larger than D; None means D.

        Returns
        -------
        float
            The maximum over the shifts 1 to s, in both directions, of sum_k [P(k) - exp(e) P(k - shift)]_+,
            rounded up: never below the true value, above it by about one unit in the last place.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.

        Notes
        -----
        P is even and falls with |k|, so every positive term has k <= s/2 and grows with s: the largest shift is the
        worst, and the direction does not matter.  `_terms` has the sums; its differences are formed from exact
        rationals, so a profile that is 0 comes out as 0.
        """
        terms = self.profile_terms(epsilon, shift)
        if terms is None:
            return 0.0
        with localcontext(context(_DIGITS)):
            return _rounded_up(terms.elsewhere + max(terms.at_zero, Decimal(0)))

    def profile_terms(self, epsilon: float, shift: int | None = None) -> StaircaseTerms | None:
        """Give the parts of the divergence, for a mixture with an atom; None at an infinite loss."""
        loss = check_loss(epsilon)
        steps = check_steps("shift", self.sensitivity if shift is None else shift, 2**62)
        if loss == math.inf:
            return None
        rate = Fraction(self.epsilon)
        period, rise = Fraction(self.sensitivity), Fraction(self._rise)
        terms = _terms(rate, Fraction(loss), period, rise, Fraction(steps), lattice=True)
        with localcontext(context(_DIGITS)):
            less = one_minus_exp(rate, _DIGITS)
            height = less / (2 * (self._rise + _power(rate) * (self.sensitivity - self._rise)) - less)
            return StaircaseTerms(terms.elsewhere * height, terms.at_zero * height)

    def dp_event(self) -> DpEvent:
        """Give the event of one use at D."""
        from tasks.noise.event import LatticeNoiseDpEvent

        return LatticeNoiseDpEvent(self.name, tuple(self.parameters().items()), self.sensitivity)

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.int64]:
        """Draw independent values.

        Parameters
        ----------
        shape : int or tuple of int
        bits : BitSource, default=None
            None means `OperatingSystemBits()`.  Anything else is for tests and brands the release.

        Returns
        -------
        ndarray of int64, of shape `shape`
            In lattice steps, between -`max_magnitude` and `max_magnitude`.

        Raises
        ------
        ValueError
            If `shape` has a negative entry or the bit source does not keep its promise.

        Notes
        -----
        On m = 0, 1, ... the law b^n(m) is a product: m = jD + i, with j geometric of ratio b, and independently i
        uniform below r with probability r / (r + b (D - r)), else uniform on r, ..., D - 1.  A fair sign is added, and
        what comes out as -0 is drawn again, so zero is counted once.  Cost: 14 random bytes a value.
        """
        source = OperatingSystemBits() if bits is None else bits
        values = np.empty(shape, dtype=np.int64)
        flat = values.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            block[...] = 0
            again = self._fill(block, source)
            while again.size:
                fresh = np.zeros(again.size, dtype=np.int64)
                still = self._fill(fresh, source)
                block[again] = fresh
                again = again[still]
        return values

    def _fill(self, block: NDArray[np.int64], bits: BitSource) -> NDArray[np.intp]:
        """Write draws over zeros; gives the indices of those that came out as -0."""
        period, rise = self.sensitivity, self._rise
        step, part = _tables(self.epsilon, period, rise)
        step.fill(block, bits)
        block *= period
        which = part.draw(block.size, bits)
        block += np.array([0, rise], dtype=np.int64)[which]
        block += draw_below(np.array([rise, max(1, period - rise)], dtype=np.int64)[which], bits)
        negative = (draw_half_words(bits, block.size) & np.uint16(1)).astype(np.bool_)
        np.negative(block, out=block, where=negative)
        return np.flatnonzero(negative & (block == 0))


def _mean_magnitude(epsilon: float, period: int, rise: int) -> float:
    """2 sum_m m P(m): level 0 holds 0, ..., r - 1; level n >= 1 the D magnitudes from r + (n - 1) D on."""
    beta = math.exp(-epsilon) / -math.expm1(-epsilon)  # sum of b^n over n >= 1; beta^2 is that of (n - 1) b^n
    weighted = rise * (rise - 1) / 2.0 + beta * period * (rise + (period - 1) / 2.0) + (beta * period) ** 2
    return 2.0 * weighted / (2.0 * rise + 2.0 * beta * period - 1.0)


def _best_rise(epsilon: float, period: int) -> int:
    """The r with the least E|K|, a quadratic divided by a linear function of r: the integers beside its root."""
    beta = math.exp(-epsilon) / -math.expm1(-epsilon)
    linear = 2.0 * beta * period - 1.0
    square = 2.0 * beta * period * (period + 1.0) - 1.0
    root = square / (linear + math.sqrt(linear * linear + 2.0 * square)) if square > 0.0 else 1.0
    near = [min(max(1, math.floor(root) + i), period) for i in (-1, 0, 1, 2)]
    return min(near, key=lambda rise: _mean_magnitude(epsilon, period, rise))


@lru_cache(maxsize=32)
def _tables(epsilon: float, period: int, rise: int) -> tuple[ExactGeometric, ExactCategorical]:
    """The law of the step and of which part of it."""
    rate = Fraction(epsilon)

    def upper(digits: int) -> Decimal:
        exact = context(digits + 10)
        lower = exact.multiply(exp_minus(rate, digits + 10), Decimal(period - rise))
        return exact.divide(Decimal(rise), exact.add(Decimal(rise), lower))

    whole = 1 << THRESHOLD_BITS
    certain = rise == period or rate > 1000  # beyond 1000 the lower part has less than 2^-128
    return ExactGeometric(rate), ExactCategorical([whole if certain else to_threshold(upper, "nearest")])
