"""Tight composition: what all that was run guarantees together.

Every answer is an upper bound, and the least of those that are at hand: basic composition, the closed form where all
is Gaussian, and the composed privacy-loss distribution.

Why not dp_accounting's own composition: importing it takes as long as a whole plan may, and its plain Fourier
transform loses digits where delta is small. Here the loss distributions are tilted by exp(theta loss) first, with theta
chosen for the question asked, so that the transform's rounding is small *relative to delta*, and the window holds
only the part of the composed distribution that matters. Tests compare the two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.events import Composition, Event
from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_epsilon
from tasks.accounting.privacy_loss import LossDistribution, discretise, reach
from tasks.accounting.profiles import GaussianProfile, Part, profiles_of

__all__ = ["basic_delta", "basic_epsilon", "composed_delta", "composed_epsilon", "natural_guarantee"]

_ULP = 2.0**-53
_LARGEST_TRANSFORM = 2**21
_STEPS_PER_SCALE = 36.0
"""Grid steps per standard deviation of one loss: see `_interval`."""
_TAIL_SHARE = 1e-7  # of delta, for all that is cut off
_LARGEST_EXPONENT = 500.0
_LEAST_INTERVAL = 1e-12  # in nats
_MOST_STEPS = 2**22  # of one loss
_LEAST_TAIL = 1e-18  # of a composed delta: smaller ones are still bounded, but not tightly


def composed_delta(events: Sequence[Event] | Composition, epsilon: float) -> float:
    """The delta that goes with `epsilon` for everything that was run together.

    Parameters
    ----------
    events : sequence of Event, or Composition
    epsilon : float
        At least 0; infinity is allowed.

    Returns
    -------
    float
        An upper bound, never above that of basic composition.

    Raises
    ------
    ValueError
        If epsilon is below 0, or an event cannot be priced.
    """
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon=}")
    return _delta(profiles_of(events), epsilon)


def composed_epsilon(events: Sequence[Event] | Composition, delta: float) -> float:
    """The epsilon that goes with `delta` for everything that was run together.

    Parameters
    ----------
    events : sequence of Event, or Composition
    delta : float
        In [0, 1).

    Returns
    -------
    float
        An upper bound, never above that of basic composition; infinite where no finite one is known.

    Raises
    ------
    ValueError
        If delta is outside its range, or an event cannot be priced.
    """
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1), got {delta=}")
    return _epsilon(profiles_of(events), delta)


def basic_delta(events: Sequence[Event] | Composition, epsilon: float) -> float:
    """The delta of basic composition (epsilons add up, deltas add up; Dwork, Roth 2014, theorem 3.16)."""
    return _basic_delta(profiles_of(events), epsilon)


def basic_epsilon(events: Sequence[Event] | Composition, delta: float) -> float:
    """The epsilon of basic composition, the better one of two ways to share delta out over the events."""
    return _basic_epsilon(profiles_of(events), delta)


def natural_guarantee(events: Sequence[Event] | Composition) -> tuple[float, float]:
    """Sum of the (epsilon, delta) by which each event is usually known, Gaussian ones left out."""
    return _natural(profiles_of(events))


def _natural(parts: list[Part]) -> tuple[float, float]:
    pairs = [
        (part.count * e, part.count * d) for part in parts if part.profile.natural for e, d in [part.profile.natural]
    ]
    return math.fsum(e for e, _ in pairs), min(1.0, math.fsum(d for _, d in pairs))


def _without_natural(parts: list[Part]) -> list[Part]:
    return [part for part in parts if part.profile.natural is None]


def _basic_epsilon(parts: list[Part], delta: float) -> float:
    count = sum(part.count for part in parts)
    evenly = math.fsum(part.count * part.profile.epsilon(_share(delta, count)) for part in parts)
    epsilon, spent = _natural(parts)
    rest = _without_natural(parts)
    if spent > delta:
        return evenly
    left = _share(delta - spent, sum(part.count for part in rest)) if rest else 0.0
    return min(evenly, epsilon + math.fsum(part.count * part.profile.epsilon(left) for part in rest))


def _basic_delta(parts: list[Part], epsilon: float) -> float:
    count = sum(part.count for part in parts)
    if epsilon == math.inf:
        return min(1.0, math.fsum(part.count * part.profile.limit() for part in parts))
    evenly = math.fsum(part.count * float(part.profile.delta(_share(epsilon, count))) for part in parts)
    spent, delta = _natural(parts)
    rest = _without_natural(parts)
    if spent > epsilon:
        return min(1.0, evenly)
    left = _share(epsilon - spent, sum(part.count for part in rest)) if rest else 0.0
    delta += math.fsum(part.count * float(part.profile.delta(left)) for part in rest)
    return min(1.0, evenly, delta)


def _share(total: float, parts: int) -> float:
    """The largest double near total / parts whose `parts`-fold does not exceed `total`."""
    share = total / parts
    while parts * share > total:
        share = math.nextafter(share, 0.0)
    return share


def _delta(parts: list[Part], epsilon: float) -> float:
    if len(parts) == 1 and isinstance(parts[0].profile, GaussianProfile):
        return 0.0 if epsilon == math.inf else float(gaussian_delta(parts[0].profile.mu, epsilon))
    basic = _basic_delta(parts, epsilon)
    if epsilon == math.inf or basic == 0.0 or (len(parts) == 1 and parts[0].count == 1):
        return basic
    return min([basic, *(composed.delta(epsilon) for composed in _composed(parts, _LEAST_TAIL))])


def _epsilon(parts: list[Part], delta: float) -> float:
    if len(parts) == 1 and isinstance(parts[0].profile, GaussianProfile):
        return gaussian_epsilon(parts[0].profile.mu, delta)
    basic = _basic_epsilon(parts, delta)
    if delta == 0.0 or basic == 0.0 or (len(parts) == 1 and parts[0].count == 1):
        return basic
    tail = max(_TAIL_SHARE * delta, _LEAST_TAIL)
    found = [composed.epsilon(delta) for composed in _composed(parts, tail) if composed.infinity_mass < delta]
    return min([basic, *found])


def _composed(parts: list[Part], tail: float) -> list["_Composed"]:
    """Loss distributions of the composition: all losses kept, and those beyond the natural epsilons made infinite.

    The second is less where a far but finite loss has little mass (a noise law with an atom on a fine lattice): the
    first would need a wide window for it.
    """
    count = sum(part.count for part in parts)
    parts = [part for part in parts if float(part.profile.delta(0.0)) > 0.0]
    far = [reach(part.profile, tail / count) for part in parts]
    interval = _interval(parts, max(max(far) / _MOST_STEPS, _LEAST_INTERVAL))
    near = [
        loss if part.profile.natural is None else min(loss, part.profile.natural[0])
        for part, loss in zip(parts, far, strict=True)
    ]
    cuts = [far, near] if near != far else [far]
    made = [[discretise(part.profile, interval, loss) for part, loss in zip(parts, cut, strict=True)] for cut in cuts]
    counts = [part.count for part in parts]
    return [_Composed(list(zip(one, counts, strict=True))) for one in made if all(part.index.size for part in one)]


def _interval(parts: list[Part], least: float) -> float:
    """Spacing of the grid, for an error of the composed epsilon of some 10^-4, and at least about `least`.

    Rounding to the grid adds at most interval^2 / 4 to the variance of a loss (1/6 for a smooth one), so the spacing is
    set relative to the root mean square, over all events, of the losses' own standard deviations. Those are
    estimated from the profile: twice the loss at which delta has fallen to half, but at most 2 (the smooth part of
    strong events has about unit scale).

    The spacing divides the epsilon of the event that contributes most: often much of its mass is there.
    """
    scales = [min(2.0, 2.0 * _half(part)) for part in parts]
    total = math.fsum(part.count * scale**2 for part, scale in zip(parts, scales, strict=True))
    interval = max(least, math.sqrt(total / sum(part.count for part in parts)) / _STEPS_PER_SCALE)
    main = max(range(len(parts)), key=lambda i: parts[i].count * scales[i] ** 2)
    natural = parts[main].profile.natural
    return natural[0] / math.ceil(natural[0] / interval) if natural and natural[0] > interval else interval


def _half(part: Part) -> float:
    """The loss at which delta, as far as it can fall, has fallen to half of that at 0."""
    profile = part.profile
    limit = profile.limit()
    level = 0.5 * (float(profile.delta(0.0)) + limit)
    return profile.epsilon(level, precision=0.05) if level > limit else 0.0


@dataclass(frozen=True)
class _Window:
    """The composed distribution between two losses, tilted: mass(l) = exp(log_scale - theta l) tilted(l)."""

    theta: float
    log_scale: float
    first: int
    tilted: NDArray[np.float64]
    beyond: float
    """Upper bound of the mass above the window."""


class _Composed:
    """A composition of loss distributions on one grid, asked at one epsilon or delta at a time.

    Notes
    -----
    With K(t) = sum_i k_i log sum_l p_i(l) exp(t l), the finite part of the composed distribution is exp(K(t) - t l)
    times a probability distribution with mean K'(t): the convolution of the tilted parts. That is computed by
    Fourier transform on a circle of as many grid points as the window has. What lies outside the window

    - above: has a mass of at most exp(K(t) - t u) for every t > 0 (Chernoff), which is added as if at infinity;
    - in either direction: comes in again at the other end of the circle, which can only add.

    The transform's own rounding is bounded by `_noise` and added to every point.
    """

    def __init__(self, parts: list[tuple[LossDistribution, int]]) -> None:
        self._parts = parts
        self._interval = parts[0][0].interval
        survival = math.fsum(count * math.log1p(-min(part.infinity_mass, 1.0 - _ULP)) for part, count in parts)
        self.infinity_mass = max(0.0, min(1.0, -math.expm1(survival) * (1.0 + 8 * _ULP)))
        self._least = sum(count * int(part.index[0]) for part, count in parts)
        self._most = sum(count * int(part.index[-1]) for part, count in parts)
        deviation = math.sqrt(max(self._moments(0.0)[2], 1e-300))
        positive = np.logspace(-1.5, 3.0, 46) / deviation
        self._thetas = np.concatenate([-positive[::-1], [0.0], positive])
        self._k = self._log_mgf(self._thetas)

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at a finite epsilon."""
        if self._most * self._interval <= epsilon:
            return self.infinity_mass
        upper = self._thetas >= 0.0
        thetas = self._thetas[upper]
        exponent = self._k[upper] + _log_gain(thetas) - thetas * epsilon
        best = int(np.argmin(exponent))
        window = self._window(float(thetas[best]), min(0.0, float(exponent[best])))
        return min(1.0, self._delta_in(window, epsilon))

    def epsilon(self, delta: float) -> float:
        """Upper bound of epsilon at a delta above the infinity mass."""
        left = math.log(delta - self.infinity_mass)
        upper = self._thetas > 0.0
        thetas = self._thetas[upper]
        bound = (self._k[upper] + _log_gain(thetas) - left) / thetas
        best = int(np.argmin(bound))
        epsilon = max(0.0, float(bound[best]))
        while best >= 0 and epsilon > 0.0:
            window = self._window(float(thetas[best]), left)
            found = self._epsilon_in(window, delta)
            epsilon = min(epsilon, found)
            if found > window.first * self._interval or window.first == self._least:
                break
            best -= 4  # the answer lies below the window
        return epsilon

    def _epsilon_in(self, window: _Window, delta: float) -> float:
        """The least epsilon in the window, or the window's lower end, at which delta suffices."""

        def suffices(j: int) -> bool:
            return self._sums(window, (window.first + j) * self._interval, j + 1)[0] <= delta

        low, high = max(-1, -window.first - 1), window.tilted.size
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if suffices(middle) else (middle, high)
        if high == window.tilted.size:
            return math.inf
        least = (window.first + high) * self._interval
        if high == 0 or least <= 0.0:
            return max(0.0, least)
        # between the two grid points delta falls by B (exp(epsilon - at) - 1)
        at = (window.first + high - 1) * self._interval
        excess, weighted = self._sums(window, at, high)
        epsilon = at + math.log1p(max(excess - delta, 0.0) / weighted) if weighted > 0.0 else least
        return max(0.0, min(least, epsilon * (1.0 + 1e-12)))

    def _delta_in(self, window: _Window, epsilon: float) -> float:
        start = math.floor(epsilon / self._interval) - window.first
        return self._sums(window, epsilon, min(max(start, 0), window.tilted.size))[0]

    def _sums(self, window: _Window, epsilon: float, start: int) -> tuple[float, float]:
        """delta, infinity and all, and the sum of exp(epsilon - loss) P(loss), both over losses from `start` on.

        Losses of epsilon and less count nothing in delta, so for that `start` may be too early.
        """
        loss = (window.first + np.arange(start, window.tilted.size)) * self._interval
        # far below the tilted mean the transform's rounding alone is beyond all bounds: keep it finite
        mass = window.tilted[start:] * np.exp(np.minimum(window.log_scale - window.theta * loss, _LARGEST_EXPONENT))
        below = np.minimum(epsilon - loss, 0.0)
        gain = float(np.sum(mass * -np.expm1(below)))
        weighted = float(np.sum(mass * np.exp(below)))
        return (gain + window.beyond) * (1.0 + 1e-12) + self.infinity_mass, weighted

    def _window(self, theta: float, log_delta: float) -> _Window:
        """The part of the distribution that matters near the mean of the one tilted by `theta`."""
        log_scale, mean, variance = self._moments(theta)
        deviation = max(math.sqrt(variance), self._interval)
        position = mean / self._interval
        width = deviation / self._interval
        wanted = log_delta + math.log(_TAIL_SHARE)
        above = below = 6.0
        while above < 60.0 and self._log_tail((position + above * width) * self._interval) > wanted:
            above += 1.0
        while (
            below < 60.0 and self._log_lower_tail(theta, log_scale, (position - below * width) * self._interval) > -30.0
        ):
            below += 1.0
        first = max(self._least, math.floor(position - below * width))
        last = min(self._most, math.ceil(position + above * width))
        size = min(_fast_length(last - first + 1), _LARGEST_TRANSFORM)
        if first + size > self._most:
            beyond = 0.0
        else:
            beyond = math.exp(min(0.0, self._log_tail((first + size) * self._interval)))
        return _Window(theta, log_scale, first, self._tilted(theta, first, size), beyond)

    def _tilted(self, theta: float, first: int, size: int) -> NDArray[np.float64]:
        spectrum: NDArray[np.complex128] | None = None
        noise = 1.0
        offset = 0
        for part, count in self._parts:
            exponent = theta * self._interval * part.index + np.log(part.mass)
            weight = np.exp(exponent - exponent.max())
            weight /= weight.sum()
            centre = round(float(np.sum(weight * part.index)))  # small phases keep the digits of a power
            folded = np.bincount((part.index - centre) % size, weights=weight, minlength=size)
            transform = np.fft.rfft(folded)
            power = transform**count
            noise += count
            offset += count * centre
            spectrum = power if spectrum is None else spectrum * power
        assert spectrum is not None
        tilted = np.roll(np.fft.irfft(spectrum, size), (offset - first) % size)
        return np.maximum(tilted, 0.0) + self._noise(spectrum, noise, size)

    @staticmethod
    def _noise(spectrum: NDArray[np.complex128], count: float, size: int) -> float:
        """Bound of the rounding in each point of the convolution.

        A transform of a probability vector is off by at most some log2(size) roundings in each of its values, which
        are at most 1 in magnitude; the power multiplies that by the count and by the value's own magnitude; the back
        transform takes the mean over the values, and adds its own rounding, relative to the root of the sum of squares.
        """
        magnitude = np.abs(spectrum)
        mean = 2.0 * float(magnitude.sum()) / size
        root = math.sqrt(2.0 * float(np.sum(magnitude**2))) / size
        return 4.0 * _ULP * math.log2(size + 1) * (count * mean + root)

    def _log_tail(self, loss: float) -> float:
        """Logarithm of the Chernoff bound of the finite mass above a loss."""
        upper = self._thetas >= 0.0
        return float(np.min(self._k[upper] - self._thetas[upper] * loss))

    def _log_lower_tail(self, theta: float, log_scale: float, loss: float) -> float:
        """Logarithm of the Chernoff bound of the tilted mass below a loss."""
        lower = self._thetas < theta
        return float(np.min(self._k[lower] - log_scale + (theta - self._thetas[lower]) * loss, initial=0.0))

    def _log_mgf(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.zeros(thetas.size)
        for part, count in self._parts:
            exponent = np.multiply.outer(thetas, self._interval * part.index) + np.log(part.mass)
            largest = exponent.max(axis=1)
            total += count * (largest + np.log(np.exp(exponent - largest[:, None]).sum(axis=1)))
        return total

    def _moments(self, theta: float) -> tuple[float, float, float]:
        """K, K' and K'' at theta."""
        log_mgf = mean = variance = 0.0
        for part, count in self._parts:
            loss = self._interval * part.index
            exponent = theta * loss + np.log(part.mass)
            largest = float(exponent.max())
            weight = np.exp(exponent - largest)
            total = float(weight.sum())
            weight /= total
            own_mean = float(np.sum(weight * loss))
            log_mgf += count * (largest + math.log(total))
            mean += count * own_mean
            variance += count * float(np.sum(weight * (loss - own_mean) ** 2))
        return log_mgf, mean, variance


def _log_gain(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the largest (1 - exp(-x)) / exp(theta x) over x > 0, by which delta is below the Chernoff bound.

    At exp(x) = 1 + 1/theta (Canonne, Kamath, Steinke 2020, in the conversion from concentrated differential privacy).
    """
    safe = np.maximum(theta, 1e-300)
    return np.asarray(safe * np.log(safe) - (1.0 + safe) * np.log1p(safe))


def _fast_length(n: int) -> int:
    """The least 2^a, 3 2^a or 5 2^a that is not below n."""
    return max(2, min(odd * 2 ** max(0, math.ceil(math.log2(n / odd))) for odd in (1, 3, 5)))
