"""The privacy profile of one event: for every epsilon the least delta that goes with it.

A profile is all that composition needs. It belongs to a pair of distributions P, Q that is at least as easy to tell
apart as any two neighbours, a dominating pair, and the pairs of several events may be composed even where later events
depend on earlier outcomes (Zhu, Dong, Wang 2022, "Optimal accounting of differential privacy via characteristic
function"). Every profile here is the worse of the two directions, P against Q and Q against P, so one symmetric pair
stands for both.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.events import (
    ApproximateEvent,
    CellNoiseEvent,
    Composition,
    Event,
    GaussianEvent,
    RandomizedResponseEvent,
)
from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_epsilon
from tasks.noise import LatticeGaussian, LatticeNoise, law_from_parameters

__all__ = ["LARGEST_LOSS", "Part", "Profile", "profiles_of"]

LARGEST_LOSS = 1e5
"""Losses of one event beyond this count as infinite."""

_SLOW_LAWS = frozenset({"lattice-optimal"})
"""Laws whose exact profile takes a good part of a second per point: priced by their own epsilon and delta only."""

_ROUNDING = 1.0 + 2.0**-50  # above the rounding of the few operations of a closed form


class Profile(ABC):
    """delta as a function of epsilon, for epsilon of at least 0, never below the true one."""

    natural: tuple[float, float] | None
    """The (epsilon, delta) by which the event is usually known, the pair for basic composition; None where any
    pair is as good as another."""

    @abstractmethod
    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        """Upper bound of the hockey-stick divergence at each epsilon; convex in exp(epsilon) but for rounding."""

    def limit(self) -> float:
        """delta at losses that count as infinite: no finite epsilon goes with less."""
        return float(self.delta(LARGEST_LOSS))

    def epsilon(self, delta: float, precision: float = 1e-12) -> float:
        """The least epsilon with `delta(epsilon) <= delta`, rounded up; infinite where there is none."""
        if self.limit() > delta:
            return math.inf
        if float(self.delta(0.0)) <= delta:
            return 0.0
        if self.natural is not None and float(self.delta(self.natural[0])) <= delta:
            low, high = 0.0, self.natural[0]
            if float(self.delta(math.nextafter(high, 0.0))) > delta:  # where the answer is likeliest, to the last bit
                return high
        else:
            low, high = 0.0, 2.0**-20
            while float(self.delta(high)) > delta:
                low, high = high, 2.0 * high
        while high - low > precision * high:
            middle = 0.5 * (low + high)
            if float(self.delta(middle)) > delta:
                low = middle
            else:
                high = middle
        return high


class LawProfile(Profile):
    """A cell with integer noise, by the law's own exact `delta_at`, which covers all shifts up to the largest."""

    def __init__(self, law: LatticeNoise, shift: int) -> None:
        self._law, self._shift = law, shift
        self._known: dict[float, float] = {}
        self.natural = self._natural()

    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        losses = np.asarray(epsilon, dtype=np.float64)
        return np.array([self._at(e) for e in losses.ravel().tolist()]).reshape(losses.shape)

    def _at(self, epsilon: float) -> float:
        if epsilon not in self._known:
            self._known[epsilon] = self._law.delta_at(epsilon, self._shift)
        return self._known[epsilon]

    def _natural(self) -> tuple[float, float] | None:
        """The law's own epsilon for its own sensitivity, in proportion for a longer shift if the law allows that."""
        epsilon = getattr(self._law, "epsilon", None)
        if not isinstance(epsilon, float):
            return None
        sensitivity = self._law.sensitivity
        if self._shift <= sensitivity:
            return epsilon, self._at(epsilon)
        proportional = math.nextafter(epsilon * self._shift / sensitivity, math.inf)
        whole = math.nextafter(epsilon * -(-self._shift // sensitivity), math.inf)
        own_delta = float(self._law.delta_at(epsilon))
        stated = proportional if self._at(proportional) <= max(own_delta, self._at(whole)) else whole
        return stated, self._at(stated)


@dataclass(frozen=True)
class GaussianProfile(Profile):
    """N(mu, 1) against N(0, 1)."""

    mu: float
    natural = None

    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        return gaussian_delta(self.mu, epsilon)

    def limit(self) -> float:
        return 0.0

    def epsilon(self, delta: float, precision: float = 1e-12) -> float:
        return gaussian_epsilon(self.mu, delta)


class PiecewiseProfile(Profile):
    """delta0 + weight (1 - exp(e - epsilon))_+: one loss of epsilon, its mirror image, and no loss at all.

    k-ary randomised response has delta0 = 0 and weight exp(epsilon) / (exp(epsilon) + k - 1): the true category is the
    only outcome with the loss epsilon, when a row's category changes to any other one. What is only known to be
    (epsilon, delta)-differentially private has delta0 = delta and weight (1 - delta) exp(epsilon) / (exp(epsilon) + 1)
    (Kairouz, Oh, Viswanath 2015, theorem 3.3).
    """

    def __init__(self, epsilon: float, delta: float, others: int) -> None:
        self.natural = (epsilon, delta)
        self._epsilon, self._delta = epsilon, delta
        self._weight = (1.0 - delta) / (1.0 + others * math.exp(-epsilon)) * _ROUNDING

    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        below = np.minimum(np.asarray(epsilon, dtype=np.float64) - self._epsilon, 0.0)
        return np.minimum(1.0, self._delta + self._weight * -np.expm1(below))


@dataclass(frozen=True)
class Part:
    """One profile and how many times it occurs."""

    profile: Profile
    count: int


def profiles_of(events: Sequence[Event] | Composition) -> list[Part]:
    """The profiles of what was run: equal events counted together, all Gaussian ones made one.

    Raises
    ------
    ValueError
        If an event names a noise law that this version does not know, or parameters the law refuses.
    """
    squares: list[float] = []
    counts: dict[str, int] = defaultdict(int)
    singles: dict[str, Event] = {}
    for event in events.events if isinstance(events, Composition) else events:
        if isinstance(event, GaussianEvent):
            squares.append(event.count / event.noise_multiplier**2)
            continue
        if isinstance(event, CellNoiseEvent) and event.law == "gaussian":
            # rounding is post-processing of the continuous mechanism on whole steps
            law = law_from_parameters(event.law, event.parameters)
            assert isinstance(law, LatticeGaussian)
            squares.append(event.count * (event.shift_steps / law.standard_deviation) ** 2)
            continue
        single = event.model_copy(update={"count": 1})
        key = single.model_dump_json()
        singles[key] = single
        counts[key] += event.count
    parts = [Part(_profile(key), count) for key, count in counts.items()]
    if squares:
        parts.append(Part(GaussianProfile(math.sqrt(math.fsum(squares)) * _ROUNDING), 1))
    return parts


@lru_cache(maxsize=64)
def _profile(event_json: str) -> Profile:
    event = Composition.model_validate_json(f'{{"events": [{event_json}]}}').events[0]
    if isinstance(event, CellNoiseEvent):
        exact = LawProfile(law_from_parameters(event.law, event.parameters), event.shift_steps)
        if event.law in _SLOW_LAWS and exact.natural is not None:
            return PiecewiseProfile(*exact.natural, 1)
        return exact
    if isinstance(event, RandomizedResponseEvent):
        return PiecewiseProfile(event.epsilon, 0.0, event.categories - 1)
    if isinstance(event, ApproximateEvent):
        return PiecewiseProfile(event.epsilon, event.delta, 1)
    raise ValueError(f"no profile for an event of kind {event.kind}")
