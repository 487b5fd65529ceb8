"""Staircase noise on whole lattice steps, the least E|K| that pure differential privacy allows, drawn exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource, draw_below, draw_half_words
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS, context, exp_minus, to_threshold
from tasks.noise.geometric import ExactGeometric, n_digits
from tasks.noise.lattice_law import LatticeLaw
from tasks.noise.parameters import LARGEST_MAGNITUDE, as_steps, check_epsilon, check_fits, check_steps
from tasks.noise.staircase_profile import StaircaseTerms, divergence, terms_on_lattice

__all__ = ["LatticeStaircase"]


@dataclass(frozen=True)
class LatticeStaircase(LatticeLaw):
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

    name = "staircase"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, LARGEST_MAGNITUDE))
        if self.rise is None:
            object.__setattr__(self, "rise", _best_rise(self.epsilon, self.sensitivity))
        else:
            object.__setattr__(self, "rise", check_steps("rise", self.rise, self.sensitivity))
        check_fits(self.max_magnitude, self.epsilon, self.sensitivity)

    @property
    def _rise(self) -> int:
        assert self.rise is not None
        return self.rise

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
        """Give P(k)."""
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

    def _divergence(self, loss: float, shift: int) -> float:
        """The largest shift is the worst.

        P is even and falls with |k|, so every positive term has k <= s/2 and grows with s, and the direction does not
        matter.  `staircase_profile` has the sums; its differences are formed from exact rationals, so a profile that
        is 0 comes out as 0.
        """
        terms = self.profile_terms(loss, shift)
        return 0.0 if terms is None else divergence(terms)

    def profile_terms(self, loss: float, shift: int) -> StaircaseTerms | None:
        """Give the parts of the divergence, for a mixture with an atom; None at an infinite loss."""
        return terms_on_lattice(self.epsilon, loss, self.sensitivity, self._rise, shift)

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values.

        On m = 0, 1, ... the law b^n(m) is a product: m = jD + i, with j geometric of ratio b, and independently i
        uniform below r with probability r / (r + b (D - r)), else uniform on r, ..., D - 1.  A fair sign is added, and
        what comes out as -0 is drawn again, so zero is counted once.  Cost: 14 random bytes a value.
        """
        again = self._attempt(block, bits)
        while again.size:
            fresh = np.empty(again.size, dtype=np.int64)
            still = self._attempt(fresh, bits)
            block[again] = fresh
            again = again[still]

    def _attempt(self, block: NDArray[np.int64], bits: BitSource) -> NDArray[np.intp]:
        """Write draws over `block`; gives the indices of those that came out as -0."""
        period, rise = self.sensitivity, self._rise
        step, part = _tables(self.epsilon, period, rise)
        block[...] = 0
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
