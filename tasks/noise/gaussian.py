"""Gaussian noise with the analytic calibration, and its rounded form on the lattice, exact in any dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tasks.noise.bits import BitSource, OperatingSystemBits
from tasks.noise.buckets import BucketSampler
from tasks.noise.exact import THRESHOLD_BITS, context, exp_minus, float_upper_bound, to_threshold
from tasks.noise.normal import mills_ratio, normal_density, normal_tail
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

__all__ = ["Gaussian", "LatticeGaussian", "gaussian_delta", "gaussian_standard_deviation"]

MAX_STANDARD_DEVIATION = 2.0**49
"""In lattice steps: 13.2 standard deviations are the largest magnitude drawn and stay exact in a double."""

_FIRST_DIGITS = 60
_MOST_DIGITS = 1000
_SLACK_DIGITS = 40  # relative slack 10^-40 of a delta before its upward rounding to a double
_FAR = 800  # exp(-800) is below the least double
_LEAST_DOUBLE = 5e-324
_FINE_STEPS = 2.0**32  # `Gaussian.sample` uses a lattice of so many steps per standard deviation
_REACH = Fraction(133, 10)  # P(|Z| > 13.3) < 2^-128
_SERIES_FROM = 1000.0  # standard deviation from which two terms of a series beat a difference of two tails


def gaussian_delta(epsilon: float, standard_deviation: float, distance: float) -> float:
    """Give the privacy profile of Gaussian noise in any dimension: the least delta that goes with `epsilon`.

    Parameters
    ----------
    epsilon : float
        The loss e >= 0 asked about; infinity is allowed.
    standard_deviation : float
        sigma, of each coordinate's independent noise; finite, above 0.
    distance : float
        The Euclidean (l2) distance s > 0 by which adjacent inputs may differ at most.

    Returns
    -------
    float
        P(Z > e/r - r/2) - exp(e) P(Z > e/r + r/2) with r = s / sigma, rounded up: never below the true value,
        above it by about one unit in the last place.  It grows with s.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    With t = e/r + r/2 the second term is density(t - r) M(t), M being Mills' ratio, so no large factor is formed;
    and where t > r the first is density(t - r) M(t - r).  Digits are added until the difference has 35 of them.

    References
    ----------
    Balle and Wang (ICML 2018), theorem 8.
    """
    loss = check_loss(epsilon)
    sigma = Fraction(check_positive("standard_deviation", standard_deviation))
    ratio = Fraction(check_positive("distance", distance)) / sigma
    if loss == math.inf:
        return 0.0
    return _excess(Fraction(loss) / ratio - ratio / 2, Fraction(loss) / ratio + ratio / 2, Fraction(loss))


def _excess(near: Fraction, far: Fraction, loss: Fraction) -> float:
    """P(Z > near) - exp(loss) P(Z > far), rounded up, or 0 if that is negative; for near < far and far >= 0."""
    if near * near > 2 * _FAR:
        return _LEAST_DOUBLE if near > 0 else 1.0
    digits = _FIRST_DIGITS
    while True:
        with localcontext(context(digits)):
            mass = normal_tail(near, digits) if near < 4 else normal_density(near, digits) * mills_ratio(near, digits)
            # exp(loss) density(far) = density(near) exp(loss - (far^2 - near^2)/2); the exponent is at most about 0
            exponent = (far * far - near * near) / 2 - loss
            if exponent > 10**5:
                other = Decimal(0)
            else:
                other = normal_density(near, digits) * exp_minus(exponent, digits) * mills_ratio(far, digits)
            value = mass - other
            if value < -mass.scaleb(10 - digits):
                return 0.0
            if value > mass.scaleb(_SLACK_DIGITS + 5 - digits) or digits >= _MOST_DIGITS:
                return min(1.0, max(_LEAST_DOUBLE, float_upper_bound(value + mass.scaleb(10 - digits))))
        digits *= 2


@lru_cache(maxsize=256)
def gaussian_standard_deviation(epsilon: float, delta: float, distance: float) -> float:
    """Give the least standard deviation at which Gaussian noise is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee: epsilon > 0, delta in (0, 1).
    distance : float
        The Euclidean (l2) distance by which adjacent inputs may differ at most.

    Returns
    -------
    float
        `gaussian_delta` of it is at most delta; it is the least such double but for a relative 1e-13.

    Raises
    ------
    ValueError
        If an argument is outside its range, or no normal double would do.

    References
    ----------
    Balle and Wang (ICML 2018), algorithm 1; here by bracketing and Brent's method on the exact profile.
    """
    from scipy import optimize  # 0.2 s, which most commands need not pay

    loss, target = check_epsilon(epsilon), _check_delta(delta)
    distance = check_positive("distance", distance)

    def gap(log_sigma: float) -> float:
        return math.log(gaussian_delta(loss, math.exp(log_sigma), 1.0)) - math.log(target)

    low = high = -0.5 * math.log(2.0 * loss) if loss > 1.0 else 0.0
    while gap(low) <= 0.0:
        low -= 2.0
    while gap(high) > 0.0:
        high += 2.0
    root = low if low == high else float(optimize.brentq(gap, low, high, xtol=1e-15, rtol=8.9e-16))
    sigma = math.exp(root) * distance
    if not np.finfo(np.float64).tiny <= sigma < math.inf:
        raise ValueError(f"no double is a standard deviation for epsilon={epsilon!r}, distance={distance!r}")
    widening = 2.0**-52
    while gaussian_delta(loss, sigma, distance) > target:
        sigma *= 1.0 + widening
        widening *= 2.0
    return sigma


def _check_delta(value: object) -> float:
    delta = check_delta(value)
    if delta == 0.0:
        raise ValueError(
            "delta must be above 0 for Gaussian noise, got delta=0.0; Laplace or staircase noise needs none"
        )
    return delta


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise with the least variance that gives (epsilon, delta)-differential privacy.

    This object describes the law on the real line: for plans, figures and comparisons.  Releases draw from
    `on_lattice`.

    Parameters
    ----------
    epsilon : float
        Finite, above 0; may be above 1 (the calibration is the exact one).
    delta : float
        In (0, 1).
    sensitivity : float
        d, finite, above 0, in the unit of the data.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, delta)-differential privacy for the adjacency "the values noise is added to move by at most
    d in Euclidean (l2) distance", in exact real arithmetic; for one cell that is its largest change.

    References
    ----------
    Balle and Wang (ICML 2018), theorem 8 and algorithm 1.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", _check_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_positive("sensitivity", self.sensitivity))
        gaussian_standard_deviation(self.epsilon, self.delta, self.sensitivity)

    @property
    def standard_deviation(self) -> float:
        """sigma, in the unit of the data."""
        return gaussian_standard_deviation(self.epsilon, self.delta, self.sensitivity)

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design."""
        return 0.0

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density at `v`, in the unit of the data."""
        z = np.asarray(v, dtype=np.float64) / self.standard_deviation
        return np.asarray(np.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * self.standard_deviation))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v); infinities are allowed."""
        return np.asarray(special.ndtr(np.asarray(v, dtype=np.float64) / self.standard_deviation))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function at levels in [0, 1]; ValueError outside."""
        return np.asarray(special.ndtri(check_levels(t)) * self.standard_deviation)

    def expected_magnitude(self) -> float:
        """Give E|V| = sigma sqrt(2/pi), in the unit of the data."""
        return self.standard_deviation * math.sqrt(2.0 / math.pi)

    def delta_at(self, epsilon: float, shift: float | None = None) -> float:
        """Give the exact privacy profile, `gaussian_delta` at `shift` (None: `sensitivity`), rounded up."""
        distance = self.sensitivity if shift is None else check_positive("shift", shift)
        return gaussian_delta(epsilon, self.standard_deviation, distance)

    def dp_event(self) -> DpEvent:
        """Give dp_accounting's event for one use at the mechanism's own sensitivity."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.standard_deviation / self.sensitivity)

    def on_lattice(self, spacing: float) -> LatticeGaussian:
        """Give the rounded law in whole steps of a public lattice, whose guarantee is at least this one's.

        Parameters
        ----------
        spacing : float
            The step, a power of two, in the unit of the data; the sensitivity must be a whole number of steps.

        Raises
        ------
        ValueError
            If it is not, or the noise would not fit.
        """
        steps = steps_of(self.sensitivity, spacing)
        return LatticeGaussian(self.standard_deviation / spacing, steps)

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.float64]:
        """Draw values for figures and simulations; a release draws from `on_lattice` instead.

        The values lie on a fine lattice, 2^32 steps per standard deviation, and are drawn there exactly.
        """
        steps = LatticeGaussian(_FINE_STEPS, 1).sample(shape, bits=bits)
        return steps.astype(np.float64) * np.float64(self.standard_deviation / _FINE_STEPS)


@dataclass(frozen=True)
class LatticeGaussian:
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

    def __post_init__(self) -> None:
        sigma = check_positive("standard_deviation", self.standard_deviation)
        if sigma > MAX_STANDARD_DEVIATION:
            raise ValueError(
                f"standard_deviation must be at most 2^49 lattice steps, got standard_deviation={sigma!r}; "
                "choose a coarser lattice"
            )
        object.__setattr__(self, "standard_deviation", sigma)
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, 2**61))

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
        steps = check_steps("sensitivity_steps", sensitivity_steps, 2**61)
        return cls(gaussian_standard_deviation(epsilon, delta, float(steps)), steps)

    @property
    def name(self) -> str:
        """`gaussian`."""
        return "gaussian"

    def parameters(self) -> dict[str, float | int]:
        """Give what `law_from_parameters` needs to build this law again."""
        return {"standard_deviation": self.standard_deviation, "sensitivity": self.sensitivity}

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design; the rounded law has a zero of its own."""
        return 0.0

    @property
    def max_magnitude(self) -> int:
        """The largest |k| that `sample` can return, in steps."""
        return _sampler(self.standard_deviation).max_magnitude

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-117, of the total variation distance per value between `sample` and this law."""
        return _sampler(self.standard_deviation).rounding_bias + math.ldexp(1.0, -THRESHOLD_BITS)

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the probability of each number of steps, an array of integers; ValueError for other types."""
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

    def delta_at(self, epsilon: float, shift: int | None = None) -> float:
        """Give the exact privacy profile of this discrete law for one cell.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed.
        shift : int, default=None
            The number of steps s >= 1 by which the cell may differ at most; None means `sensitivity`.

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
        P is an integral of a log-concave density over intervals of equal length, hence log-concave, so P(k) / P(k - s)
        falls with k and the best event is some {k <= m}, of divergence F(m + 1/2) = P(sigma Z <= m + 1/2) -
        exp(e) P(sigma Z <= m + 1/2 - s).  F rises up to w = s/2 - e sigma^2 / s and falls beyond, so m + 1/2 is one of
        the two neighbours of w.  Each F grows with s, so the largest shift is the worst; P is even, so the
        direction does not matter.
        """
        loss = check_loss(epsilon)
        steps = check_steps("shift", self.sensitivity if shift is None else shift, 2**62)
        if loss == math.inf:
            return 0.0
        sigma = Fraction(self.standard_deviation)
        best = Fraction(steps, 2) - Fraction(loss) * sigma * sigma / steps
        below = math.floor(best - Fraction(1, 2)) + Fraction(1, 2)
        return max(
            _excess(-edge / sigma, (steps - edge) / sigma, Fraction(loss))
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
        Magnitudes 1, 2, ... are cut into buckets of 2^j steps, between sigma/32 and sigma/16 wide (one step for sigma
        below 32), and drawn as `BucketSampler` says, with tails of the normal law to 128 bits.  Left out are
        magnitudes beyond 13.3 sigma, of probability below 2^-128.  Cost: 12 random bytes a value, a float
        comparison for 4 % of the values, and about 40 ms once per standard deviation.
        """
        source = OperatingSystemBits() if bits is None else bits
        values = np.empty(shape, dtype=np.int64)
        values.reshape(-1)[...] = _sampler(self.standard_deviation).draw(values.size, source)
        return values


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
