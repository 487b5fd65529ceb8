"""Gaussian noise rounded to whole lattice steps: exact in any dimension, drawn exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tasks.noise.bits import BitSource
from tasks.noise.buckets import BucketSampler
from tasks.noise.exact import THRESHOLD_BITS, context, to_threshold
from tasks.noise.gaussian_profile import gaussian_delta, gaussian_standard_deviation, tail_excess
from tasks.noise.lattice_law import LatticeLaw
from tasks.noise.normal import normal_tail
from tasks.noise.parameters import LARGEST_MAGNITUDE, as_steps, check_positive, check_steps

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["LatticeGaussian"]

MAX_STANDARD_DEVIATION = 2.0**49
"""In lattice steps: 13.2 standard deviations are the largest magnitude drawn and stay exact in a double."""

_REACH = Fraction(133, 10)  # P(|Z| > 13.3) < 2^-128
_SERIES_FROM = 1000.0  # standard deviation from which two terms of a series beat a difference of two tails


@dataclass(frozen=True)
class LatticeGaussian(LatticeLaw):
    """Gaussian noise rounded to whole lattice steps: P(k) = P(k - 1/2 < sigma Z <= k + 1/2), Z standard normal.

    Parameters
    ----------
    standard_deviation : float
        sigma, in lattice steps, before the rounding (which makes the variance sigma^2 + 1/12, nearly);
        above 0, at most 2^49.
    sensitivity : int
        D, the number of lattice steps by which one cell may differ between adjacent tables; 1 to 2^61.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee.  If x is an integer, x + round(V) = round(x + V): what is released is the continuous mechanism's
    output, rounded.  That is post-processing, so every guarantee of the continuous mechanism holds, with the same
    numbers, for integer data: for one cell, and for vectors of any dimension with independent noise in each coordinate
    and a Euclidean sensitivity, where `delta_at_distance` gives the profile.  `delta_at` is the exact profile of this
    law for one cell and never above that.  Assumed: the data are integers on a lattice fixed in advance, the sum
    is formed in integers, the bit source is uniform.  The sampler's own deviation is `sampling_bias`.

    References
    ----------
    Balle and Wang (ICML 2018), theorem 8.  Compare Canonne, Kamath, Steinke (2020), whose discrete Gaussian has a
    density at the integers instead of a rounded one, and a guarantee that must be summed anew.
    """

    standard_deviation: float
    sensitivity: int = 1

    name = "gaussian"

    def __post_init__(self) -> None:
        sigma = check_positive("standard_deviation", self.standard_deviation)
        if sigma > MAX_STANDARD_DEVIATION:
            raise ValueError(
                f"standard_deviation must be at most 2^49 lattice steps, got standard_deviation={sigma!r}; "
                "choose a coarser lattice"
            )
        object.__setattr__(self, "standard_deviation", sigma)
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, LARGEST_MAGNITUDE))

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity_steps: int) -> LatticeGaussian:
        """Give the law for (epsilon, delta) at `sensitivity_steps`, by the continuous law's analytic calibration.

        Parameters
        ----------
        epsilon, delta : float
            The guarantee: epsilon > 0, delta in (0, 1).
        sensitivity_steps : int
            D.  The guarantee also holds for a vector that moves by at most D in Euclidean distance.

        Raises
        ------
        ValueError
            If a parameter is outside its range, or the noise would not fit.
        """
        steps = check_steps("sensitivity_steps", sensitivity_steps, LARGEST_MAGNITUDE)
        return cls(gaussian_standard_deviation(epsilon, delta, float(steps)), steps)

    @property
    def max_magnitude(self) -> int:
        """The largest |k| that `sample` can return, in steps."""
        return _sampler(self.standard_deviation).max_magnitude

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-117, of the total variation distance per value between `sample` and this law."""
        return _sampler(self.standard_deviation).rounding_bias + math.ldexp(1.0, -THRESHOLD_BITS)

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(k)."""
        sigma = self.standard_deviation
        u = np.abs(as_steps(k)) / sigma
        with np.errstate(under="ignore"):
            if sigma >= _SERIES_FROM:
                density = np.exp(-0.5 * u * u) / (math.sqrt(2.0 * math.pi) * sigma)
                return np.asarray(density * (1.0 + (u * u - 1.0) / (24.0 * sigma * sigma)))
            half = 0.5 / sigma
            return np.asarray(special.ndtr(half - u) - special.ndtr(-half - u))

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, finite far beyond where that is 0 in doubles."""
        sigma = self.standard_deviation
        u = np.abs(as_steps(k)) / sigma
        if sigma >= _SERIES_FROM:
            return np.asarray(
                -0.5 * u * u - math.log(math.sqrt(2.0 * math.pi) * sigma) + np.log1p((u * u - 1.0) / (24.0 * sigma**2))
            )
        half = 0.5 / sigma
        upper = special.log_ndtr(half - u)
        return np.asarray(upper + np.log(-np.expm1(special.log_ndtr(-half - u) - upper)))

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""
        return np.asarray(special.ndtr((as_steps(k) + 0.5) / self.standard_deviation))

    def expected_magnitude(self) -> float:
        """Give E|K| = 2 sum over k >= 1 of P(sigma Z > k - 1/2), in steps."""
        sigma = self.standard_deviation
        if sigma < 200.0:
            k = np.arange(1, math.ceil(40.0 * sigma) + 2)
            return 2.0 * math.fsum(special.ndtr((0.5 - k) / sigma))
        # Euler and Maclaurin's sum at midpoints; the next term is below 1e-16 of the first
        return math.sqrt(2.0 / math.pi) * (sigma - 1.0 / (24.0 * sigma) - 7.0 / (5760.0 * sigma**3))

    def _divergence(self, loss: float, shift: int) -> float:
        """For one cell; the largest shift is the worst.

        P is an integral of a log-concave density over intervals of equal length, hence log-concave, so P(k) / P(k - s)
        falls with k and the best event is some {k <= m}, of divergence F(m + 1/2) = P(sigma Z <= m + 1/2) -
        exp(e) P(sigma Z <= m + 1/2 - s).  F rises up to w = s/2 - e sigma^2 / s and falls beyond, so m + 1/2 is one of
        the two neighbours of w.  Each F grows with s; P is even, so the direction does not
        matter.
        """
        if loss == math.inf:
            return 0.0
        sigma = Fraction(self.standard_deviation)
        best = Fraction(shift, 2) - Fraction(loss) * sigma * sigma / shift
        below = math.floor(best - Fraction(1, 2)) + Fraction(1, 2)
        return max(
            tail_excess(-edge / sigma, (shift - edge) / sigma, Fraction(loss))
            for edge in {below, math.ceil(best - Fraction(1, 2)) + Fraction(1, 2)}
        )

    def delta_at_distance(self, epsilon: float, l2_distance: float) -> float:
        """Give a profile for vectors that differ by at most `l2_distance` steps, with this noise in each coordinate.

        It is the continuous mechanism's, hence an upper bound for the rounded one in any dimension.
        """
        return gaussian_delta(epsilon, self.standard_deviation, l2_distance)

    def dp_event(self) -> DpEvent:
        """Give dp_accounting's Gaussian event for one use at D, which bounds the rounded law from above."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.standard_deviation / self.sensitivity)

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values.

        Magnitudes 1, 2, ... are cut into buckets of 2^j steps, between sigma/32 and sigma/16 wide (one step for sigma
        below 32), and drawn as `BucketSampler` says, with tails of the normal law to 128 bits.  Left out are
        magnitudes beyond 13.3 sigma, of probability below 2^-128.  Cost: 12 random bytes a value, a float
        comparison for 4 % of the values, and about 40 ms once per standard deviation.
        """
        _sampler(self.standard_deviation).fill(block, bits)


class _GaussianDecay:
    """P(m) / P(first magnitude of the bucket), for buckets of equal width and sigma >= 32."""

    def __init__(self, standard_deviation: float, width: int, n_buckets: int) -> None:
        self._sigma, self._width = standard_deviation, width
        bucket = np.arange(n_buckets, dtype=np.int64)
        ratio, error = self.estimate(bucket, np.full(n_buckets, width - 1, dtype=np.int64))
        self._least = np.maximum(ratio - error, 0.0)

    def least(self, bucket: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._least[bucket]

    def estimate(
        self, bucket: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """With u = m / sigma and f the density, P(m) = f(u) (1 + (u^2 - 1)/(24 sigma^2) + R).

        R is the mean of f'''' t^4 / 24 over a step, relative to f: at most (u + 1)^4 / (480 sigma^4) for u <= 14 and
        sigma >= 32, since the Hermite polynomial is below u^4 + 6u^2 + 3 and f moves by a factor of at most 1.25
        within half a step.  Two of them and 2^-45 for the float operations are covered.
        """
        sigma2 = self._sigma * self._sigma
        first = (bucket * self._width + 1).astype(np.float64)
        place = first + offset
        exponent = offset * ((first + place) / (2.0 * sigma2))
        u2, first2 = place * place / sigma2, first * first / sigma2
        correction = (1.0 + (u2 - 1.0) / (24.0 * sigma2)) / (1.0 + (first2 - 1.0) / (24.0 * sigma2))
        error = 2.0**-45 + (np.sqrt(u2) + 1.0) ** 4 / (200.0 * sigma2 * sigma2)
        return np.exp(-exponent) * correction, error

    def threshold(self, bucket: int, offset: int) -> int:
        if offset == 0:
            return 1 << THRESHOLD_BITS
        first = bucket * self._width + 1
        return to_threshold(partial(self._ratio, first, first + offset), "nearest")

    def _ratio(self, first: int, place: int, digits: int) -> Decimal:
        more = digits + 20 + math.ceil(math.log10(self._sigma))  # the tails of a step's two ends are nearly equal
        return context(digits + 10).divide(_mass(place, self._sigma, more), _mass(first, self._sigma, more))


def _mass(magnitude: int, standard_deviation: float, digits: int) -> Decimal:
    sigma = Fraction(standard_deviation)
    low, high = ((magnitude + half) / sigma for half in (Fraction(-1, 2), Fraction(1, 2)))
    return context(digits).subtract(normal_tail(low, digits), normal_tail(high, digits))


@lru_cache(maxsize=32)
def _sampler(standard_deviation: float) -> BucketSampler:
    """The buckets of a rounded Gaussian law and their thresholds."""
    sigma = Fraction(standard_deviation)
    width = 1 << max(0, math.frexp(standard_deviation)[1] - 5)  # the largest power of two up to sigma / 16
    n_buckets = max(1, math.ceil(_REACH * sigma / width))

    def edge(bucket: int) -> Fraction:
        return (Fraction(1, 2) + bucket * width) / sigma

    def below(bucket: int, digits: int) -> Decimal:
        t = edge(bucket)
        # The difference is at least P(0), which may cost log10(sigma) < 15 digits; the tail is below exp(-t^2/2).
        tail = normal_tail(t, max(10, digits + 20 - int(t * t / Fraction(47, 10))))
        return context(digits + 20).subtract(1, context(digits + 20).multiply(2, tail))

    thresholds = [
        to_threshold(partial(below, bucket), "nearest") if edge(bucket) < _REACH else 1 << THRESHOLD_BITS
        for bucket in range(n_buckets)
    ]
    starts = [1 + bucket * width for bucket in range(n_buckets)]
    decay = _GaussianDecay(standard_deviation, width, n_buckets) if width > 1 else None
    return BucketSampler(thresholds, starts, [width] * n_buckets, decay)
