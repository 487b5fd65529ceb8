"""Privacy-loss distributions on an even grid, made from privacy profiles so that they never promise too much."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schemas.events import Event
from tasks.accounting.profiles import LARGEST_LOSS, Profile, profiles_of

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["LossDistribution", "discretise", "privacy_loss_distribution", "reach"]

_LINEAR = 1e-9  # relative gap below which a profile counts as straight between two knots
_ULP = 2.0**-53


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """The distribution of the privacy loss log(P/Q) under P, on whole multiples of an interval.

    Attributes
    ----------
    interval : float
        In nats.
    index : ndarray of int64, ascending
        The loss is `index * interval`.
    mass : ndarray of float64
        P's probability of each loss.
    infinity_mass : float
        P's probability of outcomes that Q does not have, or that count as such.
    """

    interval: float
    index: NDArray[np.int64]
    mass: NDArray[np.float64]
    infinity_mass: float

    def to_dp_accounting(self) -> PrivacyLossDistribution:
        """The same distribution as dp_accounting's, for whoever wants to check or compose it there."""
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

        masses = dict(zip(self.index.tolist(), self.mass.tolist(), strict=True))
        pmf = pld_pmf.create_pmf(masses, self.interval, self.infinity_mass, pessimistic_estimate=True)
        return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def reach(profile: Profile, tail: float) -> float:
    """A loss beyond which at most `tail` of delta is due to finite losses; near the least one where that matters."""
    limit = profile.limit()

    def is_beyond(loss: float) -> bool:
        return float(profile.delta(loss)) - limit <= tail

    low, high = 0.0, 2.0**-20
    if profile.natural is not None:
        if profile.natural[0] >= LARGEST_LOSS or is_beyond(profile.natural[0]):
            return min(profile.natural[0], LARGEST_LOSS)
        high = max(high, profile.natural[0])
    while not is_beyond(high) and high < LARGEST_LOSS:
        low, high = high, 2.0 * high
    high = min(high, LARGEST_LOSS)
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high


def discretise(profile: Profile, interval: float, largest: float) -> LossDistribution:
    """Round a profile to an even grid of losses, pessimistically and without shifting its mean.

    Parameters
    ----------
    profile : Profile
    interval : float
        The grid's spacing in nats.
    largest : float
        Losses above this (rounded up to the grid) count as infinite.

    Returns
    -------
    LossDistribution
        Its own profile is never below the given one.

    Notes
    -----
    "Connect the dots" (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022): delta is convex in exp(epsilon), so the
    chords between knots lie above it, and the polygon is the profile of a distribution that lives on the knots. With
    knots l_0 = 0 < l_1 < ... < l_m and values d_i the mass at l_i > 0 is

        p_i = (d_{i-1} - d_i) / (1 - exp(l_{i-1} - l_i)) - (d_i - d_{i+1}) / (exp(l_{i+1} - l_i) - 1),   d_{m+1} = d_m,

    the pair being symmetric it is p_i exp(-l_i) at -l_i, infinity has d_m, and zero has what is left. Losses are moved
    by up to one interval, but half of them down: the error of an m-fold composition is of the order of the interval's
    square, where rounding every loss up would cost m / 2 intervals.

    Knots are set where they are needed: an interval is halved down to the grid's spacing unless its midpoint lies on
    the chord, in which case, by convexity, all of it does. A polygon on fewer knots is still above the profile.

    The given values are raised by more than all rounding below can take away.
    """
    n_steps = max(1, math.ceil(largest / interval * (1.0 - 4.0 * _ULP)))
    knots, delta = _knots(profile, interval, n_steps)
    delta = delta * (1.0 + 2.0 * _ULP * (knots.size + 8) ** 2)
    fall = np.maximum(delta[:-1] - delta[1:], 0.0)
    gap = interval * np.diff(knots)
    mass = fall / -np.expm1(-gap)
    mass[:-1] -= (mass * np.exp(-gap))[1:]  # 1 / (exp(x) - 1) = exp(-x) / (1 - exp(-x)), without a large factor
    mass = np.maximum(mass, 0.0)
    mirrored = mass * np.exp(-interval * knots[1:])
    infinity_mass = min(1.0, float(delta[-1]))
    zero = max(0.0, 1.0 - infinity_mass - float(mass.sum()) - float(mirrored.sum()))
    index = np.concatenate([-knots[:0:-1], [0], knots[1:]])
    masses = np.concatenate([mirrored[::-1], [zero], mass])
    kept = masses > 0.0
    return LossDistribution(interval, index[kept], masses[kept], infinity_mass)


def _knots(profile: Profile, interval: float, n_steps: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Multiples of the interval on which the polygon is as good as on all of them, and the profile there."""
    width = 2 ** max(0, math.ceil(math.log2(n_steps)) - 4)
    knots = np.unique(np.append(np.arange(0, n_steps, width, dtype=np.int64), n_steps))
    value = profile.delta(knots * interval)
    left, right = np.arange(knots.size - 1), np.arange(1, knots.size)
    left_knot, right_knot, left_value, right_value = knots[left], knots[right], value[left], value[right]
    while True:
        open_ = right_knot - left_knot > 1
        left_knot, right_knot = left_knot[open_], right_knot[open_]
        left_value, right_value = left_value[open_], right_value[open_]
        if not left_knot.size:
            break
        middle = (left_knot + right_knot) // 2
        middle_value = profile.delta(middle * interval)
        # the chord in exp(loss), relative to the left end
        left_part, right_part = interval * (middle - left_knot), interval * (right_knot - middle)
        share = np.exp(-right_part) * np.expm1(-left_part) / np.expm1(-left_part - right_part)
        chord = left_value + (right_value - left_value) * share
        knots, value = np.append(knots, middle), np.append(value, middle_value)
        bent = chord - middle_value > _LINEAR * middle_value
        left_knot, middle, right_knot = left_knot[bent], middle[bent], right_knot[bent]
        left_value, middle_value, right_value = left_value[bent], middle_value[bent], right_value[bent]
        left_knot, right_knot = np.append(left_knot, middle), np.append(middle, right_knot)
        left_value, right_value = np.append(left_value, middle_value), np.append(middle_value, right_value)
    order = np.argsort(knots)
    return knots[order], value[order]


def privacy_loss_distribution(event: Event, interval: float, tail: float = 1e-15) -> PrivacyLossDistribution:
    """The privacy-loss distribution of one use of an event, as dp_accounting's accountants take it.

    Parameters
    ----------
    event : Event
        Its `count` is left to `self_compose`.
    interval : float
        Spacing of the losses; all that is composed must have the same. Best a whole fraction of the event's epsilon.
    tail : float, default=1e-15
        Mass of finite losses that may be counted as infinite.

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        An upper bound for both directions.
    """
    (part,) = profiles_of([event.model_copy(update={"count": 1})])
    return discretise(part.profile, interval, reach(part.profile, tail)).to_dp_accounting()
