"""Truncated Laplace noise on whole lattice steps: where it is cut, its guarantee and its exact sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource
from tasks.noise.buckets import BucketSampler
from tasks.noise.exact import THRESHOLD_BITS, context, decay, exp_minus, one_minus_exp, to_threshold
from tasks.noise.lattice_law import LatticeLaw
from tasks.noise.parameters import LARGEST_MAGNITUDE, as_steps, check_epsilon, check_fits, check_steps
from tasks.noise.truncated_laplace_profile import check_cut_delta, cut_laplace_divergence

__all__ = ["LatticeTruncatedLaplace"]

_DIGITS = 120  # a difference of two sums may lose twice the 19 digits of a 2^61-th
_FAR = 10**5  # exp(-x) beyond this is below any precision asked for here
_TAIL = Fraction(89)  # exp(-89) < 2^-128


@dataclass(frozen=True)
class LatticeTruncatedLaplace(LatticeLaw):
    """Noise in whole lattice steps with P(k) proportional to exp(-epsilon |k| / D) for |k| <= A and 0 beyond.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In (0, 0.5).  A is the least whole number from D on at which the discrete law's own delta is at most this.
    sensitivity : int
        D, the number of lattice steps by which one cell may differ between adjacent tables.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the noise would not fit in 64-bit integers.

    Notes
    -----
    Guarantee: (epsilon, delta_at(epsilon))-differential privacy, where the latter is at most delta, for the
    adjacency "one cell moves by at most D lattice steps": where both laws have mass their ratio is at most
    exp(epsilon).  Assumed: integer data on a lattice fixed in advance, integer sums, a uniform bit source.  The
    privacy loss is monotone in k, and infinite where only one of the laws has mass.

    References
    ----------
    Geng, Ding, Guo, Kumar (AISTATS 2020), for the law on the line.
    """

    epsilon: float
    delta: float
    sensitivity: int

    name = "truncated-laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_cut_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, LARGEST_MAGNITUDE))
        check_fits(self.max_magnitude, self.epsilon, self.sensitivity)

    @property
    def _exact_rate(self) -> Fraction:
        return Fraction(self.epsilon) / self.sensitivity

    @property
    def _rate(self) -> float:
        return self.epsilon / self.sensitivity

    @property
    def max_magnitude(self) -> int:
        """A, the largest |k|, in steps."""
        return _reach(self.epsilon, self.delta, self.sensitivity)

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-116, of the total variation distance per value between `sample` and this law."""
        return _sampler(self.epsilon, self.delta, self.sensitivity).rounding_bias + math.ldexp(1.0, -THRESHOLD_BITS)

    @property
    def _height(self) -> float:
        """P(0) = (1 - a) / ((1 - a^(A+1)) + (a - a^(A+1)))"""
        rate, reach = self._rate, float(self.max_magnitude)
        whole = -math.expm1(-rate * (reach + 1.0)) - math.exp(-rate) * math.expm1(-rate * reach)
        return -math.expm1(-rate) / whole

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(k)."""
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(self.log_pmf(k)))

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, -infinity beyond `max_magnitude`."""
        magnitude = np.abs(as_steps(k))
        log_mass = math.log(self._height) - self._rate * magnitude
        return np.asarray(np.where(magnitude <= self.max_magnitude, log_mass, -np.inf))

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""
        steps = as_steps(k)
        end = float(self.max_magnitude) + 1.0
        first = np.minimum(np.where(steps < 0.0, -steps, steps + 1.0), end)
        with np.errstate(under="ignore"):
            beyond = np.exp(-self._rate * first) * -np.expm1(-self._rate * (end - first))
        tail = self._height * beyond / -math.expm1(-self._rate)
        return np.asarray(np.where(steps < 0.0, tail, 1.0 - tail))

    def expected_magnitude(self) -> float:
        """Give E|K| = 2 P(0) a (1 - (A + 1) a^A + A a^(A+1)) / (1 - a)^2, in steps."""
        rate, reach = self._exact_rate, self.max_magnitude
        with localcontext(context(_DIGITS)):
            a, at_reach, beyond = decay(rate, _DIGITS), decay(rate * reach, _DIGITS), decay(rate * (reach + 1), _DIGITS)
            less = one_minus_exp(rate, _DIGITS)
            weighted = a * (1 - (reach + 1) * at_reach + reach * beyond) / (less * (1 + a - 2 * beyond))
            return float(2 * weighted)

    def _divergence(self, loss: float, shift: int) -> float:
        """The largest shift is the worst.

        P is even and falls with |k|, so every positive term has k <= s/2 and grows with s, and the direction does not
        matter.  At e = epsilon and s = D only the D values beyond the other's support are left:
        delta = P(A - D + 1) + ... + P(A).
        """
        reach = Fraction(self.max_magnitude)
        return cut_laplace_divergence(self._exact_rate, reach, Fraction(shift), loss, lattice=True)

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values.

        Magnitudes 1, ..., A are cut into buckets over which the law falls by a factor of exp(1/16) at most (one
        step each where it falls faster) and drawn as `BucketSampler` says.  Cost: 12 random bytes a value, and a float
        comparison for 4 % of the values.
        """
        _sampler(self.epsilon, self.delta, self.sensitivity).fill(block, bits)


@lru_cache(maxsize=256)
def _reach(epsilon: float, delta: float, sensitivity: int) -> int:
    """The least A >= D with a^(A+1) <= delta (1 + a) / (exp(epsilon) - 1 + 2 delta), checked on the exact profile."""
    rate = Fraction(epsilon) / sensitivity
    with localcontext(context(_DIGITS)):
        atom = Decimal(delta)
        # Beyond 1000 the two small terms beside exp(epsilon) are left out, which makes A larger, if anything.
        growth = Decimal(epsilon) if epsilon > 1000 else (exp_minus(-Fraction(epsilon), _DIGITS) - 1 + 2 * atom).ln()
        exponent = growth - atom.ln() - (1 + decay(rate, _DIGITS)).ln()
        end = math.ceil(Fraction(exponent) / rate)
    reach = max(sensitivity, end - 1)
    while cut_laplace_divergence(rate, Fraction(reach), Fraction(sensitivity), epsilon, lattice=True) > delta:
        reach += max(1, reach >> 52)
    return reach


class _LaplaceDecay:
    """exp(-rate offset), over buckets where it is near 1."""

    def __init__(self, rate: Fraction, width: int) -> None:
        self._rate, self._float_rate, self._width = rate, float(rate), width

    def least(self, bucket: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full(bucket.shape, math.exp(-self._float_rate * (self._width - 1)) - 2.0**-45)

    def estimate(
        self, bucket: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Exponents are at most 1/16, so the few roundings cost less than 2^-45."""
        return np.exp(-self._float_rate * offset), np.full(bucket.shape, 2.0**-45)

    def threshold(self, bucket: int, offset: int) -> int:
        if offset == 0:
            return 1 << THRESHOLD_BITS
        return to_threshold(partial(exp_minus, self._rate * offset), "nearest")


@lru_cache(maxsize=32)
def _sampler(epsilon: float, delta: float, sensitivity: int) -> BucketSampler:
    """The buckets of the magnitudes and their thresholds; magnitudes beyond a mass of 2^-128 are left out."""
    rate = Fraction(epsilon) / sensitivity
    reach = _reach(epsilon, delta, sensitivity)
    drawn = max(1, min(reach, math.ceil(_TAIL / rate)))
    width = 1 << max(0, math.floor(1 / (16 * rate)).bit_length() - 1)
    starts = list(range(1, drawn + 1, width))
    widths = [min(width, drawn + 1 - start) for start in starts]

    def below(start: int, digits: int) -> Decimal:
        """P(|K| < start) = w(start - 1) / w(A) with w(m) = (1 - a) + 2 a (1 - a^m)"""
        more = digits + 10

        def weight(magnitude: int) -> Decimal:
            with localcontext(context(more)):
                inner = one_minus_exp(rate * magnitude, more) if magnitude else Decimal(0)
                a = decay(rate, more)
                return one_minus_exp(rate, more) + 2 * a * inner

        return context(more).divide(weight(start - 1), weight(reach))

    thresholds = [
        to_threshold(partial(below, start), "nearest") if rate * start < _FAR else 1 << THRESHOLD_BITS
        for start in starts
    ]
    return BucketSampler(thresholds, starts, widths, _LaplaceDecay(rate, width) if width > 1 else None)
