"""What holds for any events: bounds, order, and that knowing more never costs more."""

import math
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import ApproximateEvent, CellNoiseEvent, Event, GaussianEvent, RandomizedResponseEvent
from tasks.accounting.composition import (
    basic_delta,
    basic_epsilon,
    composed_delta,
    composed_epsilon,
    natural_guarantee,
)

SLACK = 1 + 2e-3  # of a grid that changes with the events; a bound on each of them is exact

losses = st.floats(0.01, 6.0)
counts = st.integers(1, 200)
deltas = st.sampled_from([1e-9, 1e-6, 1e-4, 1e-2])


@st.composite
def cell_events(draw: st.DrawFn) -> CellNoiseEvent:
    steps = draw(st.sampled_from([1, 7, 1000, 65536]))
    parameters = {"epsilon": draw(losses), "delta": draw(st.sampled_from([0.0, 1e-8, 1e-5])), "sensitivity": steps}
    shift = steps * draw(st.sampled_from([1, 1, 3]))
    return CellNoiseEvent(law="dirac-laplace", parameters=parameters, shift_steps=shift, count=draw(counts))


events = st.one_of(
    cell_events(),
    st.builds(GaussianEvent, noise_multiplier=st.floats(0.3, 30.0), count=counts),
    st.builds(RandomizedResponseEvent, epsilon=losses, categories=st.integers(2, 40), count=counts),
    st.builds(ApproximateEvent, epsilon=st.floats(0.0, 3.0), delta=st.sampled_from([0.0, 1e-8, 1e-5]), count=counts),
)
several = st.lists(events, min_size=1, max_size=3)
few_examples = settings(max_examples=25, deadline=None)


@few_examples
@given(several, deltas)
def test_never_looser_than_basic_composition(run: list[Event], delta: float) -> None:
    epsilon = composed_epsilon(run, delta)
    assert 0.0 <= epsilon <= basic_epsilon(run, delta)
    if math.isfinite(epsilon):
        assert composed_delta(run, epsilon) <= basic_delta(run, epsilon)


@few_examples
@given(losses, st.integers(10, 1000), deltas)
def test_the_two_questions_have_one_answer(epsilon: float, count: int, delta: float) -> None:
    parameters = {"epsilon": epsilon, "delta": 0.0, "sensitivity": 65536}
    run = [CellNoiseEvent(law="dirac-laplace", parameters=parameters, shift_steps=65536, count=count)]
    assert composed_delta(run, composed_epsilon(run, delta)) <= delta * (1 + 1e-4)
    assert composed_delta(run, composed_epsilon(run, delta) * 0.999) >= delta * (1 - 1e-4)


pairs = st.builds(
    ApproximateEvent,
    epsilon=st.one_of(st.floats(0.0, 1.0), st.floats(1.0, 30.0)),
    delta=st.sampled_from([0.0, 1e-12, 1e-6, 0.03]),
    count=st.integers(1, 4),
)


def exact_delta(run: list[ApproximateEvent], epsilon: float) -> float:
    """Every combination of losses: epsilon, -epsilon or infinite for each use of each event (plain sums, no grid)."""
    losses, finite = {0.0: 1.0}, 1.0
    for event in run:
        up = (1.0 - event.delta) / (1.0 + math.exp(-event.epsilon))
        for _ in range(event.count):
            combined: dict[float, float] = defaultdict(float)
            for loss, mass in losses.items():
                combined[loss + event.epsilon] += mass * up
                combined[loss - event.epsilon] += mass * up * math.exp(-event.epsilon)
            losses, finite = dict(combined), finite * (1.0 - event.delta)
    return 1.0 - finite + math.fsum(p * -math.expm1(epsilon - loss) for loss, p in losses.items() if loss > epsilon)


@settings(max_examples=60, deadline=None)
@given(st.lists(pairs, min_size=1, max_size=3), deltas, st.floats(0.0, 1.0))
def test_never_below_the_truth(run: list[ApproximateEvent], delta: float, share: float) -> None:
    at = share * sum(event.count * event.epsilon for event in run)
    truth = exact_delta(run, at)
    assert composed_delta(run, at) >= truth * (1 - 1e-12) - 1e-13  # losses are sums of up to 12 roundings
    for wanted in (delta, truth):
        epsilon = composed_epsilon(run, wanted) if 0.0 <= wanted < 1.0 else math.inf
        assert exact_delta(run, epsilon) <= wanted * (1 + 1e-9) + 1e-13 if math.isfinite(epsilon) else True


@few_examples
@given(several, deltas)
def test_more_delta_costs_less_epsilon(run: list[Event], delta: float) -> None:
    assert composed_epsilon(run, 3 * delta) <= composed_epsilon(run, delta) * SLACK


@few_examples
@given(several, st.floats(0.0, 30.0))
def test_delta_falls_with_epsilon(run: list[Event], epsilon: float) -> None:
    assert composed_delta(run, epsilon * 1.2 + 0.1) <= composed_delta(run, epsilon) * (1 + 1e-6) + 1e-15


@few_examples
@given(several, events, deltas)
def test_more_events_never_cost_less(run: list[Event], further: Event, delta: float) -> None:
    assert composed_epsilon([*run, further], delta) * SLACK >= composed_epsilon(run, delta)


@few_examples
@given(cell_events(), deltas)
def test_knowing_the_law_never_costs_more_than_its_epsilon_and_delta(event: CellNoiseEvent, delta: float) -> None:
    single = event.model_copy(update={"count": 1})
    epsilon, own = natural_guarantee([single])
    known = ApproximateEvent(epsilon=epsilon, delta=own, count=event.count)
    assert composed_epsilon([event], delta) <= composed_epsilon([known], delta) * SLACK


@few_examples
@given(cell_events(), st.integers(1, 50), deltas)
def test_count_is_repetition(event: CellNoiseEvent, count: int, delta: float) -> None:
    parts: list[Event] = [event, event.model_copy(update={"count": count})]
    together = event.model_copy(update={"count": event.count + count})
    assert composed_epsilon(parts, delta) == composed_epsilon([together], delta)
