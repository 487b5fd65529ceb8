"""Tight composition against full enumeration, against dp_accounting, and against itself."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from schemas.events import (
    ApproximateEvent,
    CellNoiseEvent,
    Composition,
    Event,
    GaussianEvent,
    RandomizedResponseEvent,
)
from tasks.accounting.calibration import cell_noise_event
from tasks.accounting.composition import basic_delta, basic_epsilon, composed_delta, composed_epsilon
from tasks.accounting.privacy_loss import LossDistribution, discretise, privacy_loss_distribution, reach
from tasks.accounting.profiles import profiles_of
from tasks.accounting.record_level import record_guarantee, reported_guarantee
from tasks.noise import LatticeDiracLaplace, LatticeOptimal

LossMasses = dict[float, float]


def cells(epsilon: float, delta: float, steps: int, count: int, shift: int | None = None) -> CellNoiseEvent:
    parameters = {"epsilon": epsilon, "delta": delta, "sensitivity": steps}
    return CellNoiseEvent(law="dirac-laplace", parameters=parameters, shift_steps=shift or steps, count=count)


def true_losses(epsilon: float, delta: float, steps: int) -> LossMasses:
    """Every outcome of one cell: its loss and its probability, written down from the law itself."""
    law = LatticeDiracLaplace(epsilon, delta, steps)
    k = np.arange(-45 * steps, 46 * steps + 1)
    p, q = law.pmf(k), law.pmf(k - steps)
    masses: LossMasses = defaultdict(float)
    for loss, mass in zip(np.round(np.log(p / q), 10).tolist(), p.tolist(), strict=True):
        masses[loss] += mass
    return dict(masses)


def fold(*parts: LossMasses) -> LossMasses:
    """All combinations of outcomes: exact composition."""
    composed: LossMasses = {0.0: 1.0}
    for part in parts:
        combined: LossMasses = defaultdict(float)
        for (one, p), (other, q) in itertools.product(composed.items(), part.items()):
            combined[round(one + other, 9)] += p * q
        composed = dict(combined)
    return composed


def hockey_stick(losses: LossMasses, epsilon: float) -> float:
    return math.fsum(p * -math.expm1(epsilon - loss) for loss, p in losses.items() if loss > epsilon)


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(1.0, 1e-3, 3), (0.3, 0.0, 4), (3.0, 1e-2, 2), (2.0, 1e-6, 8)])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_outcome_enumerated(epsilon: float, delta: float, steps: int, count: int) -> None:
    exact = fold(*[true_losses(epsilon, delta, steps)] * count)
    event = cells(epsilon, delta, steps, count)
    for share in [0.0, 0.2, 0.5, 0.7, 0.9, 0.99]:
        at = share * count * epsilon
        truth, found = hockey_stick(exact, at), composed_delta([event], at)
        assert truth * (1 - 1e-7) <= found <= truth * 1.02 + 1e-15, at
        if 1e-12 < truth < 1:
            inverse = composed_epsilon([event], truth)
            assert at * (1 - 1e-6) <= inverse <= at + 0.02 * epsilon


def test_an_optimistic_rounding_would_be_convicted() -> None:
    """The enumeration is below what losses rounded down promise: so it would show an error to the wrong side."""
    epsilon, steps, count = 1.0, 3, 4
    exact = fold(*[true_losses(epsilon, 1e-3, steps)] * count)
    interval = epsilon / 7.5
    floor: dict[int, float] = defaultdict(float)
    for loss, mass in true_losses(epsilon, 1e-3, steps).items():
        floor[math.floor(loss / interval)] += mass
    index = sorted(floor)
    optimistic = LossDistribution(interval, np.array(index), np.array([floor[i] for i in index]), 0.0)
    (part,) = profiles_of([cells(epsilon, 1e-3, steps, 1)])
    honest = discretise(part.profile, interval, reach(part.profile, 1e-15))

    def is_convicted(distribution: LossDistribution) -> bool:
        composed = distribution.to_dp_accounting().self_compose(count)
        points = [0.5, 1.0, 2.0, 3.0, 3.9]
        return any(composed.get_delta_for_epsilon(at) < hockey_stick(exact, at) * (1 - 1e-7) for at in points)

    assert is_convicted(optimistic)
    assert not is_convicted(honest)


def test_a_distribution_keeps_its_profile_on_the_grid() -> None:
    """Connect the dots: exact at the grid's points, above the profile between them."""
    (part,) = profiles_of([cells(1.0, 1e-4, 64, 1)])
    for interval in [1 / 8, 1 / 7.3]:
        distribution = discretise(part.profile, interval, reach(part.profile, 0.0))
        mine = distribution.to_dp_accounting()
        for i in range(16):
            on, between = i * interval, (i + 0.4) * interval
            assert mine.get_delta_for_epsilon(on) == pytest.approx(float(part.profile.delta(on)), rel=1e-9, abs=1e-14)
            assert mine.get_delta_for_epsilon(between) >= float(part.profile.delta(between)) * (1 - 1e-12)
        assert distribution.mass.sum() + distribution.infinity_mass == pytest.approx(1.0, abs=1e-12)


MIXED: list[Event] = [
    cells(0.2, 1e-7, 65536, 30),
    RandomizedResponseEvent(epsilon=1.0, categories=3, count=2),
    GaussianEvent(noise_multiplier=2.0, count=3),
    ApproximateEvent(epsilon=0.3, delta=1e-7, count=4),
]


def test_different_events_as_in_dp_accounting() -> None:
    interval = 0.01
    composed = None
    for event in MIXED:
        one = privacy_loss_distribution(event, interval).self_compose(event.count, 1e-15)
        composed = one if composed is None else composed.compose(one, 1e-15)
    assert composed is not None
    for delta in [1e-5, 1e-3]:
        assert composed_epsilon(MIXED, delta) == pytest.approx(composed.get_epsilon_for_delta(delta), rel=1e-3)
    for epsilon in [2.0, 5.0]:
        assert composed_delta(MIXED, epsilon) == pytest.approx(composed.get_delta_for_epsilon(epsilon), rel=2e-2)


def test_order_and_grouping_do_not_matter() -> None:
    apart = [MIXED[3], *[cells(0.2, 1e-7, 65536, 10)] * 3, MIXED[2], MIXED[1]]
    assert composed_epsilon(apart, 1e-4) == pytest.approx(composed_epsilon(MIXED, 1e-4), rel=1e-9)
    assert composed_epsilon(Composition(events=MIXED), 1e-4) == composed_epsilon(MIXED, 1e-4)


def test_gaussian_events_are_one_gaussian() -> None:
    many = [GaussianEvent(noise_multiplier=4.0, count=12), GaussianEvent(noise_multiplier=2.0)]
    assert composed_epsilon(many, 1e-5) == pytest.approx(
        composed_epsilon([GaussianEvent(noise_multiplier=1.0)], 1e-5), rel=1e-12
    )


def test_ends() -> None:
    gaussian, response = (
        GaussianEvent(noise_multiplier=1.0),
        RandomizedResponseEvent(epsilon=2.0, categories=4, count=3),
    )
    assert composed_epsilon([gaussian], 0.0) == math.inf and composed_delta([gaussian], math.inf) == 0.0
    assert composed_epsilon([response], 0.0) == 6.0 and composed_delta([response], 6.0) == 0.0
    hidden = ApproximateEvent(epsilon=0.0, delta=1e-3, count=2)
    assert composed_epsilon([hidden], 1e-3) == math.inf and composed_epsilon([hidden], 2e-3) == 0.0
    assert composed_delta([hidden], 1.0) == pytest.approx(1 - (1 - 1e-3) ** 2, rel=1e-9)
    strong = RandomizedResponseEvent(epsilon=1000.0, categories=2, count=2)
    assert 2000.0 - 2e-6 <= composed_epsilon([strong], 1e-6) <= 2000.0
    far = cells(8.0, 1e-6, 65, 64, shift=65536)
    assert composed_epsilon([far], 1e-3) <= 64 * 8.0 * 65536 / 65 * (1 + 1e-12)
    for wrong in (-0.1, math.nan):
        with pytest.raises(ValueError, match="epsilon must be"):
            composed_delta([gaussian], wrong)
        with pytest.raises(ValueError, match="delta must be"):
            composed_epsilon([gaussian], wrong)
    with pytest.raises(ValueError, match="unheard-of"):
        composed_epsilon([CellNoiseEvent(law="unheard-of", parameters={}, shift_steps=1)], 0.1)


def test_a_nearly_certain_loss_is_not_lost() -> None:
    """Both losses are 12 but with probability 6e-6: epsilon is 24 to nine digits at any small delta."""
    certain = [ApproximateEvent(epsilon=12.0, delta=0.0, count=2)]
    for delta in [1e-12, 1e-9, 1e-6]:
        assert 24.0 - 3 * delta - 1e-12 <= composed_epsilon(certain, delta) <= 24.0
    assert composed_delta(certain, 23.9) == pytest.approx(-math.expm1(-0.1), rel=1e-4)


def test_a_strong_gaussian_part_is_not_cut_off() -> None:
    """mu = 40 has losses beyond 1000; with one harmless event more the closed form no longer applies."""
    strong = GaussianEvent(noise_multiplier=0.025)
    alone = composed_epsilon([strong], 1e-6)
    assert alone > 900.0
    both = composed_epsilon([strong, RandomizedResponseEvent(epsilon=1e-3, categories=2)], 1e-6)
    assert alone <= both <= alone * 1.0005


def test_a_law_with_a_slow_profile_is_priced_by_its_own_pair() -> None:
    law = LatticeOptimal.solve(1.0, 1e-2, 8)
    events = [cell_noise_event(law, 8, 20)]
    known = [ApproximateEvent(epsilon=1.0, delta=law.delta_at(1.0), count=20)]
    assert composed_epsilon(events, 0.3) == composed_epsilon(known, 0.3)


def test_a_single_use_is_exact() -> None:
    law = LatticeDiracLaplace(1.0, 1e-6, 1000)
    event = cells(1.0, 1e-6, 1000, 1)
    assert composed_epsilon([event], 1e-6) == 1.0
    assert composed_delta([event], 0.4) == law.delta_at(0.4)


def test_reported_pair_is_nowhere_above_basic_composition() -> None:
    event = cells(0.5, 1e-6, 65536, 64)
    epsilon, delta = reported_guarantee([event])
    assert delta == pytest.approx(64e-6) and epsilon < 0.9 * 32
    assert epsilon <= basic_epsilon([event], delta) and delta <= basic_delta([event], 32.0) * (1 + 1e-15)
    assert composed_delta([event], epsilon) <= delta * (1 + 1e-9)
    assert reported_guarantee([cells(0.25, 0.0, 65536, 64)]) == (16.0, 0.0)
    wider = reported_guarantee([event], delta=1e-3)
    assert wider[0] < epsilon and wider[1] == 1e-3
    assert reported_guarantee([event], delta=1e-9)[1] == delta
    with pytest.raises(ValueError, match="no delta of their own"):
        reported_guarantee(MIXED)
    assert reported_guarantee(MIXED, delta=1e-5)[0] == composed_epsilon(MIXED, 1e-5)


def test_record_guarantee_gives_the_other_half() -> None:
    event = GaussianEvent(noise_multiplier=1.0)
    epsilon, delta = record_guarantee([event], delta=1e-5)
    assert delta == 1e-5 and record_guarantee([event], epsilon=epsilon)[1] == pytest.approx(1e-5, rel=1e-9)
    for wrong in [{}, {"epsilon": 1.0, "delta": 0.1}]:
        with pytest.raises(ValueError, match="exactly one"):
            record_guarantee([event], **wrong)
