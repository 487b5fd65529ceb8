"""The noise that releases use: the Dirac-Laplace law on the integers, its guarantee and its exact sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS, context, exp_minus, float_upper_bound, one_minus_exp, to_threshold
from tasks.noise.geometric import GROUP_DIGITS, ExactGeometric, n_digits
from tasks.noise.lattice_law import LatticeLaw
from tasks.noise.parameters import LARGEST_MAGNITUDE, as_steps, check_delta, check_epsilon, check_fits, check_steps

__all__ = ["LatticeDiracLaplace"]

_DIGITS = 50  # significant digits of a delta before its upward rounding to a double
_SLACK = Decimal(10) ** (10 - _DIGITS)  # relative; far above the error of the few operations of delta_at
_FAR_LOSS = 1000  # the geometric law's own zero has at least e^-80; e^1000 times that covers any atom


@dataclass(frozen=True)
class LatticeDiracLaplace(LatticeLaw):
    """Noise in whole lattice steps: none with probability delta, else a two-sided geometric law.

    With a = exp(-epsilon / sensitivity) and k an integer,

        P(k) = delta [k = 0] + (1 - delta) (1 - a) / (1 + a) a^|k|.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In [0, 1).
    sensitivity : int
        D, the number of lattice steps by which one cell may differ between adjacent tables; 1 to 2^61.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or epsilon / sensitivity is so small (about 4e-17) that the
        noise would not fit in 64-bit integers.

    Notes
    -----
    Guarantee: adding one value to a cell of integers is (epsilon, delta)-differentially private for the
    adjacency "one cell moves by at most D lattice steps"; `delta_at` gives the whole privacy profile.
    It assumes that the data are integers on a lattice fixed in advance, that the sum is formed in
    integers, and that the bit source is uniform.  The sampler's own deviation is `sampling_bias`.

    References
    ----------
    Kumar, Moser, Fischer (JAIR 2024), result 1, for the continuous law; Ghosh, Roughgarden, Sundararajan
    (2012) for the two-sided geometric law; Fabrica design, sections 3 (items 4 and 6) and 6.
    """

    epsilon: float
    delta: float
    sensitivity: int

    name = "dirac-laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, LARGEST_MAGNITUDE))
        check_fits(self.max_magnitude, self.epsilon, self.sensitivity)

    @property
    def _exact_rate(self) -> Fraction:
        """epsilon / sensitivity, the loss per step, as a rational."""
        return Fraction(self.epsilon) / self.sensitivity

    @property
    def _rate(self) -> float:
        return self.epsilon / self.sensitivity

    @property
    def atom(self) -> float:
        """The probability delta of no noise by design, beside the geometric law's own zero."""
        return self.delta

    @property
    def max_magnitude(self) -> int:
        """The largest |k| that `sample` can return, in steps: a power of two, at most 2^61."""
        return int(2 ** n_digits(self._exact_rate))

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-117, of the total variation distance per value between `sample` and this law."""
        n_groups = -(-n_digits(self._exact_rate) // GROUP_DIGITS)
        # In units of 2^-128: 2 + 1 for the two thresholds of the sign, both of which the one upward rounding
        # moves; 1/2 for each of the 255 of a group; 1 for the digits left out.
        return math.ldexp(4 + n_groups * 2 ** (GROUP_DIGITS - 1), -THRESHOLD_BITS)

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(k)."""
        steps = as_steps(k)
        with np.errstate(over="ignore"):
            decay = np.exp(-self._rate * np.abs(steps))
        geometric = (1.0 - self.delta) * math.tanh(self._rate / 2.0) * decay
        return np.asarray(geometric + np.where(steps == 0.0, self.delta, 0.0))

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, finite everywhere."""
        away = math.log1p(-self.delta) + math.log(math.tanh(self._rate / 2.0)) - self._rate * np.abs(as_steps(k))
        return np.asarray(np.where(as_steps(k) == 0.0, math.log(float(self.pmf(0))), away))

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""
        steps = as_steps(k)
        # The tail beyond m >= 1 steps on one side is (1 - delta) a^m / (1 + a).
        distance = np.where(steps < 0.0, -steps, steps + 1.0)
        with np.errstate(over="ignore"):
            decay = np.exp(-self._rate * distance)
        tail = (1.0 - self.delta) * decay / (1.0 + math.exp(-self._rate))
        return np.asarray(np.where(steps < 0.0, tail, 1.0 - tail))

    def expected_magnitude(self) -> float:
        """Give E|K| = (1 - delta) 2a / (1 - a^2), in steps."""
        return (1.0 - self.delta) * 2.0 * math.exp(-self._rate) / -math.expm1(-2.0 * self._rate)

    def _divergence(self, loss: float, shift: int) -> float:
        """With the loss e and the shift s.

        Write A = a^s exp(e) and c = (1 - delta)(1 - a)/(1 + a).  P is even, so the direction does not matter.
        At k = s and beyond Q(k) = P(k - s) is at least P(k): those terms vanish.

        - k < 0: P/Q = a^-s, so the terms are c a^|k| (1 - A)_+, in sum c a/(1 - a) (1 - A)_+.
        - k = 0: [delta + c (1 - A)]_+, since all of the atom lies in P, and Q(0) = c a^s.
        - 0 < k < s: c (a^k - exp(e) a^(s-k))_+, positive for k < (s - e/rate)/2, that is for k = 1, ..., m.

        If A >= 1 only k = 0 is left: [delta - c (A - 1)]_+, which is delta at e = s rate, in particular at
        e = epsilon for s = sensitivity.  If A < 1 the geometric sums give

            delta + (1 - delta)/(1 + a) [(1 - A) + (1 - a^m)(a - exp(e) a^(s-m))].

        Every term listed grows with s, and so does the number of terms; so the largest shift is the worst.
        All differences are formed from exact rationals, hence without cancellation.

        For e < epsilon this is never below the profile of the law on the line, and equal to it where
        s - e/rate is an even integer: whoever composes several losses must use the lattice's profile.
        """
        if loss == math.inf:
            return 0.0
        rate, loss_exact = self._exact_rate, Fraction(loss)
        excess = shift * rate - loss_exact  # A = exp(-excess)
        if excess == 0:
            return self.delta
        exact = context(_DIGITS)
        delta = Decimal(self.delta)
        a = exp_minus(rate, _DIGITS) if rate < 10**6 else Decimal(0)
        spread = exact.divide(exact.subtract(1, delta), exact.add(1, a))  # (1 - delta)/(1 + a)
        if excess < 0:
            return self._delta_beyond(delta, spread, -excess)
        # m is the number of k in 1, ..., s - 1 with 2k < s - e/rate.
        m = min(shift - 1, math.ceil((shift - loss_exact / rate) / 2) - 1)
        bracket = one_minus_exp(excess, _DIGITS)
        if m > 0 and rate < 10**6:
            # a - exp(e) a^(s-m) = a (1 - exp(-((s - m - 1) rate - e))), where the exponent is negative
            # as s - m - e/rate > m >= 1.
            middle = exact.multiply(a, one_minus_exp((shift - m - 1) * rate - loss_exact, _DIGITS))
            bracket = exact.add(bracket, exact.multiply(one_minus_exp(m * rate, _DIGITS), middle))
        value = exact.add(delta, exact.multiply(spread, bracket))
        return min(1.0, float_upper_bound(exact.multiply(value, exact.add(1, _SLACK))))

    def _delta_beyond(self, delta: Decimal, spread: Decimal, beyond: Fraction) -> float:
        """The profile where A = exp(beyond) > 1: [delta - c (A - 1)]_+, rounded up."""
        if self.delta == 0.0 or beyond > _FAR_LOSS:
            return 0.0
        # c (A - 1) = spread (1 - a) exp(beyond) (1 - exp(-beyond))
        exact = context(_DIGITS)
        covered = exact.multiply(spread, one_minus_exp(self._exact_rate, _DIGITS))
        covered = exact.multiply(covered, exp_minus(-beyond, _DIGITS))
        covered = exact.multiply(covered, one_minus_exp(beyond, _DIGITS))
        # A wide subtraction keeps the slack visible beside delta; the outcome lies between 0 and delta.
        wide = context(4 * _DIGITS)
        left = wide.subtract(delta, wide.multiply(covered, wide.subtract(1, _SLACK)))
        return min(self.delta, float_upper_bound(left)) if left > 0 else 0.0

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values.

        Law.  |K| - 1, given K != 0, is a geometric variable G with P(G = g) = (1 - a) a^g; the sign is fair
        and independent; and P(K != 0) = (1 - delta) 2a/(1 + a).  So one draw among {0, +, -} settles the
        atom, the geometric zero and the sign at once, and zero is counted once.  Writing g = sum_j d_j 2^j,
        P(G = g) is proportional to the product of a^(d_j 2^j): the binary digits of G are independent, digit
        j being 1 with probability a^(2^j)/(1 + a^(2^j)).  Eight digits from position i on form a number b in
        0, ..., 255 with probability proportional to exp(-2^i rate b), drawn by `ExactCategorical`.

        Bias.  Digits from position J on are left out, where J is the least with a^(2^J) < 2^-128.  Thresholds
        are correctly rounded to 128 bits; those of the signs upwards, so the probability of no noise is never
        above its nominal value.  Drawing the true law and this one from the same U, they differ only where U
        falls between a threshold and its rounding.  `sampling_bias` adds these gaps up.

        Cost.  8 random bytes a value for up to 24 digits, 2 more for every further 8, and a fixed amount of
        memory beside the result.  Setting up a law takes some milliseconds and is remembered.
        """
        head, geometric = _tables(self._exact_rate, self.delta)
        block[...] = 0
        geometric.fill(block, bits)
        block += 1
        block *= _SIGNS[head.draw(block.size, bits)]


_SIGNS = np.array([0, 1, -1], dtype=np.int64)


@lru_cache(maxsize=32)
def _tables(rate: Fraction, delta: float) -> tuple[ExactCategorical, ExactGeometric]:
    """The law of {0, +, -} and of |k| - 1."""
    return ExactCategorical(_head_thresholds(rate, delta)), ExactGeometric(rate)


def _head_thresholds(rate: Fraction, delta: float) -> list[int]:
    """Cumulative thresholds of 0 and +, where + and - each have (1 - delta) a/(1 + a), rounded up."""

    def one_sign(digits: int) -> Decimal:
        exact = context(digits + 10)
        a = exp_minus(rate, digits + 10)
        kept = exact.subtract(1, Decimal(delta))
        return exact.divide(exact.multiply(kept, a), exact.add(1, a))

    # Beyond 1000 the probability lies between 0 and 2^-128 without a look at its digits.
    sign = to_threshold(one_sign, "up") if rate < 1000 else 1
    return [2**THRESHOLD_BITS - 2 * sign, 2**THRESHOLD_BITS - sign]
