"""Truncated Laplace noise: a Laplace law cut off where what lies beyond would cost delta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource, OperatingSystemBits
from tasks.noise.buckets import BucketSampler
from tasks.noise.exact import THRESHOLD_BITS, context, exp_minus, float_upper_bound, one_minus_exp, to_threshold
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

__all__ = ["LatticeTruncatedLaplace", "TruncatedLaplace"]

MAX_MAGNITUDE = 2**61
_DIGITS = 120  # a difference of two sums may lose twice the 19 digits of a 2^61-th
_SLACK_EXPONENT = -60
_FAR = 10**5  # exp(-x) beyond this is below any precision asked for here
_TAIL = Fraction(89)  # exp(-89) < 2^-128
_FINE_BITS = 30  # `TruncatedLaplace.sample` uses a lattice of 2^30 steps per sensitivity


def _check_delta(value: object) -> float:
    delta = check_delta(value)
    if not 0.0 < delta < 0.5:
        raise ValueError(
            f"delta must be in (0, 0.5) for truncated Laplace noise, got delta={value!r}; "
            "Laplace or staircase noise, with or without an atom, takes the others"
        )
    return delta


def _power(x: Fraction) -> Decimal:
    """exp(-x), 0 where that is below any precision asked for."""
    return Decimal(0) if x > _FAR else exp_minus(x, _DIGITS)


def _profile(rate: Fraction, reach: Fraction, shift: Fraction, loss: Fraction | None, unit: int) -> float:
    """The hockey-stick divergence at one shift, rounded up, of the law exp(-rate |v|) on |v| <= reach.

    `unit` is 1 on the integers and 0 on the line; a loss of None is infinite.  On the half line let G[i, j) be the
    sum of exp(-rate m) over i <= m < j, or the integral.  P is even and falls with |v|, so positive terms have
    v <= s/2:

    - v < s - A, where Q = 0: all of P.
    - s - A <= v <= 0: P/Q = exp(rate s), a share 1 - exp(e - rate s) of P.
    - v > 0: P - exp(e) Q is positive for 2 rate v < rate s - e.
    """

    def mass(first: Fraction, end: Fraction) -> Decimal:
        """(1 - exp(-rate)) G, or rate G."""
        return _power(rate * first) - _power(rate * end) if end > first else Decimal(0)

    one = Fraction(unit)
    with localcontext(context(_DIGITS)):
        whole = mass(Fraction(0), reach + one) + mass(one, reach + one)
        edge = shift - reach
        if edge <= 0:
            free = mass(one - edge, reach + one)
        else:
            free = mass(one, reach + one) + mass(Fraction(0), min(edge, reach + one))
        value, margin = free, Decimal(0)
        if loss is not None and rate * shift > loss:
            if edge <= 0:
                value += mass(Fraction(0), one - edge) * one_minus_exp(rate * shift - loss, _DIGITS)
            turn = (shift - loss / rate) / 2
            first, end = max(one, edge), min(Fraction(math.ceil(turn)) if unit else turn, reach + one)
            if end > first:
                gained = mass(first, end)
                # exp(e) sum of exp(-rate (s - v)), with the exponents taken together
                lost = _power(rate * (shift - end + one) - loss) - _power(rate * (shift - first + one) - loss)
                value += gained - lost
                margin = gained
        value = (value + (value + margin).scaleb(_SLACK_EXPONENT)) / whole
        return min(1.0, float_upper_bound(value)) if value > 0 else 0.0


@dataclass(frozen=True)
class TruncatedLaplace:
    """Additive noise with density proportional to exp(-epsilon |v| / d) on |v| <= A and none beyond.

    A = (d/epsilon) log(1 + (exp(epsilon) - 1)/(2 delta)).  This object describes the law on the real line: for
    plans, figures and comparisons.  Releases draw from `on_lattice`.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In (0, 0.5), the paper's range: at 0 the law is not truncated, from 1/2 on A would be below d.
    sensitivity : float
        d, finite, above 0, in the unit of the data.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, delta)-differential privacy for the adjacency "one cell moves by at most d", in exact real
    arithmetic.  Where both laws have a density their ratio is at most exp(epsilon); what lies beyond the other's
    support has probability at most delta.  `reach` is rounded upwards until that is so for the double.

    References
    ----------
    Geng, Ding, Guo, Kumar (AISTATS 2020), definition 3 and theorem 1.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", _check_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_positive("sensitivity", self.sensitivity))
        if not np.finfo(np.float64).tiny <= self.noise_scale < math.inf or not math.isfinite(self.reach):
            raise ValueError(
                "sensitivity / epsilon must be a normal double, "
                f"got sensitivity={self.sensitivity!r}, epsilon={self.epsilon!r}"
            )

    @property
    def noise_scale(self) -> float:
        """d / epsilon, in the unit of the data."""
        return self.sensitivity / self.epsilon

    @property
    def reach(self) -> float:
        """A, the largest magnitude, in the unit of the data."""
        return _line_reach(self.epsilon, self.delta, self.sensitivity)

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design."""
        return 0.0

    @property
    def _whole(self) -> float:
        """1 - exp(-A epsilon / d)"""
        return -math.expm1(-self.reach / self.noise_scale)

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density at `v`, in the unit of the data; 0 beyond `reach`."""
        magnitude = np.abs(np.asarray(v, dtype=np.float64))
        with np.errstate(under="ignore"):
            density = np.exp(-magnitude / self.noise_scale) / (2.0 * self.noise_scale * self._whole)
        return np.asarray(np.where(magnitude <= self.reach, density, 0.0))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v); infinities are allowed."""
        value = np.asarray(v, dtype=np.float64)
        inside = np.minimum(np.abs(value), self.reach)
        with np.errstate(under="ignore"):
            beyond = np.exp(-inside / self.noise_scale) * -np.expm1((inside - self.reach) / self.noise_scale)
        tail = 0.5 * beyond / self._whole
        return np.asarray(np.where(value < 0.0, tail, 1.0 - tail))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function at levels in [0, 1], from -A to A; ValueError outside."""
        level = check_levels(t)
        right = level > 0.5
        tail = np.where(right, 1.0 - level, level)
        end = math.exp(-self.reach / self.noise_scale)
        magnitude = np.minimum(-self.noise_scale * np.log(end + 2.0 * tail * self._whole), self.reach)
        value = np.maximum(magnitude, 0.0)
        return np.asarray(np.where(right, value, np.where(value == 0.0, 0.0, -value)))

    def expected_magnitude(self) -> float:
        """Give E|V| = (d/epsilon) (1 - x / (exp(x) - 1)) with x = A epsilon / d, in the unit of the data."""
        x = self.reach / self.noise_scale
        if x < 1e-3:
            return self.noise_scale * x * (0.5 - x / 12.0)
        return self.noise_scale * (1.0 - x * math.exp(-x) / -math.expm1(-x))

    def delta_at(self, epsilon: float, shift: float | None = None) -> float:
        """Give the exact privacy profile: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed, and leaves what lies beyond the other's support.
        shift : float, default=None
            The distance s > 0 by which the cell may differ at most; None means `sensitivity`.

        Returns
        -------
        float
            Rounded up: never below the true value for the double `reach`, above it by about one unit in the last
            place.  The largest shift is the worst, as the density is even and falls with |v|.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.
        """
        loss = check_loss(epsilon)
        distance = Fraction(self.sensitivity if shift is None else check_positive("shift", shift))
        rate = Fraction(self.epsilon) / Fraction(self.sensitivity)
        return _profile(rate, Fraction(self.reach), distance, None if loss == math.inf else Fraction(loss), 0)

    def dp_event(self) -> DpEvent:
        """Give the event of one use: that of the fine lattice's law."""
        return LatticeTruncatedLaplace(self.epsilon, self.delta, 2**_FINE_BITS).dp_event()

    def on_lattice(self, spacing: float) -> LatticeTruncatedLaplace:
        """Give the discrete law of the same epsilon, with at most the same delta, in whole steps of a public lattice.

        Raises
        ------
        ValueError
            If `spacing` is not a power of two, the sensitivity is not a whole number of steps, or the noise would not
            fit in 64-bit integers.
        """
        return LatticeTruncatedLaplace(self.epsilon, self.delta, steps_of(self.sensitivity, spacing))

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.float64]:
        """Draw values for figures and simulations, on a fine lattice; a release draws from `on_lattice` instead."""
        steps = LatticeTruncatedLaplace(self.epsilon, self.delta, 2**_FINE_BITS).sample(shape, bits=bits)
        return steps.astype(np.float64) * np.float64(math.ldexp(self.sensitivity, -_FINE_BITS))


@lru_cache(maxsize=256)
def _line_reach(epsilon: float, delta: float, sensitivity: float) -> float:
    """A, the least double at which the exact delta is at most the nominal one, but for a few last places."""
    log_ratio = epsilon - math.log(2.0 * delta) + math.log1p((2.0 * delta - 1.0) * math.exp(-epsilon))
    if epsilon < 30.0:
        log_ratio = math.log1p(math.expm1(epsilon) / (2.0 * delta))
    reach = max(sensitivity, sensitivity / epsilon * log_ratio)
    rate, loss, distance = Fraction(epsilon) / Fraction(sensitivity), Fraction(epsilon), Fraction(sensitivity)
    widening = 2.0**-52
    while math.isfinite(reach) and _profile(rate, Fraction(reach), distance, loss, 0) > delta:
        reach *= 1.0 + widening
        widening *= 2.0
    return reach


@dataclass(frozen=True)
class LatticeTruncatedLaplace:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", _check_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, MAX_MAGNITUDE))
        if self.max_magnitude > MAX_MAGNITUDE:
            raise ValueError(
                "epsilon / sensitivity is too small for noise in 64-bit integers: "
                f"got epsilon={self.epsilon!r}, sensitivity={self.sensitivity} lattice steps; "
                "choose a coarser lattice or a larger epsilon"
            )

    @property
    def name(self) -> str:
        """`truncated-laplace`."""
        return "truncated-laplace"

    def parameters(self) -> dict[str, float | int]:
        """Give what `law_from_parameters` needs to build this law again."""
        return {"epsilon": self.epsilon, "delta": self.delta, "sensitivity": self.sensitivity}

    @property
    def _exact_rate(self) -> Fraction:
        return Fraction(self.epsilon) / self.sensitivity

    @property
    def _rate(self) -> float:
        return self.epsilon / self.sensitivity

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design; the law has a zero of its own."""
        return 0.0

    @property
    def max_magnitude(self) -> int:
        """A, the largest |k|, in steps."""
        return _lattice_reach(self.epsilon, self.delta, self.sensitivity)

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
        """Give the probability of each number of steps, an array of integers; ValueError for other types."""
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
            a, at_reach, beyond = _power(rate), _power(rate * reach), _power(rate * (reach + 1))
            less = one_minus_exp(rate, _DIGITS)
            weighted = a * (1 - (reach + 1) * at_reach + reach * beyond) / (less * (1 + a - 2 * beyond))
            return float(2 * weighted)

    def delta_at(self, epsilon: float, shift: int | None = None) -> float:
        """Give the exact privacy profile of this discrete law: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed, and leaves what lies beyond the other's support.
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
        P is even and falls with |k|, so every positive term has k <= s/2 and grows with s: the largest shift is the
        worst, and the direction does not matter.  At e = epsilon and s = D only the D values beyond the other's
        support are left: delta = P(A - D + 1) + ... + P(A).
        """
        loss = check_loss(epsilon)
        steps = check_steps("shift", self.sensitivity if shift is None else shift, 2**62)
        exact_loss = None if loss == math.inf else Fraction(loss)
        return _profile(self._exact_rate, Fraction(self.max_magnitude), Fraction(steps), exact_loss, 1)

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
        Magnitudes 1, ..., A are cut into buckets over which the law falls by a factor of exp(1/16) at most (one
        step each where it falls faster) and drawn as `BucketSampler` says.  Cost: 12 random bytes a value, and a float
        comparison for 4 % of the values.
        """
        source = OperatingSystemBits() if bits is None else bits
        values = np.empty(shape, dtype=np.int64)
        values.reshape(-1)[...] = _sampler(self.epsilon, self.delta, self.sensitivity).draw(values.size, source)
        return values


@lru_cache(maxsize=256)
def _lattice_reach(epsilon: float, delta: float, sensitivity: int) -> int:
    """The least A >= D with a^(A+1) <= delta (1 + a) / (exp(epsilon) - 1 + 2 delta), checked on the exact profile."""
    rate = Fraction(epsilon) / sensitivity
    with localcontext(context(_DIGITS)):
        atom = Decimal(delta)
        # Beyond 1000 the two small terms beside exp(epsilon) are left out, which makes A larger, if anything.
        growth = Decimal(epsilon) if epsilon > 1000 else (exp_minus(-Fraction(epsilon), _DIGITS) - 1 + 2 * atom).ln()
        exponent = growth - atom.ln() - (1 + _power(rate)).ln()
        end = math.ceil(Fraction(exponent) / rate)
    reach = max(sensitivity, end - 1)
    while _profile(rate, Fraction(reach), Fraction(sensitivity), Fraction(epsilon), 1) > delta:
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
    reach = _lattice_reach(epsilon, delta, sensitivity)
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
                a = Decimal(0) if rate > _FAR else exp_minus(rate, more)
                return one_minus_exp(rate, more) + 2 * a * inner

        return context(more).divide(weight(start - 1), weight(reach))

    thresholds = [
        to_threshold(partial(below, start), "nearest") if rate * start < _FAR else 1 << THRESHOLD_BITS
        for start in starts
    ]
    return BucketSampler(thresholds, starts, widths, _LaplaceDecay(rate, width) if width > 1 else None)
