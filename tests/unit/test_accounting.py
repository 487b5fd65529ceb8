"""From a spec's privacy section to the mechanism and its guarantees at both units."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import RequestRefused
from schemas.events import CellNoiseEvent, GaussianEvent, RandomizedResponseEvent
from schemas.guarantee import BASIC_COMPOSITION_PROOF, ELEMENT_PROOF, GAUSSIAN_PROOF, TIGHT_COMPOSITION_PROOF
from schemas.spec import Budget, Privacy
from tasks.accounting import CellNoise, cell_noise
from tasks.accounting.composition import basic_epsilon, composed_delta
from tasks.accounting.groups import plain
from tasks.accounting.lattice import LATTICE_STEPS, SPACING
from tasks.accounting.mechanism import private_moments
from tasks.noise import law_from_parameters
from tasks.noise.moments import Block

BUDGET = Budget(epsilon=1e6, delta=0.5)


def _noise(
    unit: str, epsilon: float, delta: float, p: int, mechanism: str = "dirac-laplace", **more: object
) -> CellNoise:
    asked = {"unit": unit, "epsilon": epsilon, "delta": delta, "mechanism": mechanism, "budget": BUDGET, **more}
    return cell_noise(Privacy.model_validate(asked), plain(p), 3)


def test_element_unit_by_hand() -> None:
    noise = _noise("element", 2.0, 1e-6, 64)
    element, record = noise.guarantees.element, noise.guarantees.record
    assert (element.epsilon, element.delta, element.distance, element.proof) == (2.0, 1e-6, 1.0, ELEMENT_PROOF)
    # basic composition would say 128 and 64e-6; tight composition keeps the delta and lowers the epsilon
    assert record.delta == pytest.approx(64e-6, rel=1e-9) and 100 < record.epsilon < 128
    assert record.proof == TIGHT_COMPOSITION_PROOF
    # E|v| = (1 - delta) d / epsilon for the continuous law (2); the lattice's differs by less than a step
    assert noise.record(10).expected_magnitude == pytest.approx((1 - 1e-6) / 2, abs=SPACING)
    assert noise.record(10).expected_unperturbed_cells == pytest.approx(64e-5)
    assert noise.record(None).expected_unperturbed_cells is None
    assert noise.events == (
        CellNoiseEvent(law="dirac-laplace", parameters=noise.law.parameters(), shift_steps=LATTICE_STEPS, count=64),
    )


def test_one_column_has_one_guarantee() -> None:
    guarantees = _noise("element", 1.5, 1e-5, 1).guarantees
    assert (guarantees.record.epsilon, guarantees.record.delta) == (1.5, 1e-5)
    assert guarantees.record.proof == BASIC_COMPOSITION_PROOF


@pytest.mark.parametrize("mechanism", ["optimal", "dirac-laplace", "staircase", "truncated-laplace", "gaussian"])
@pytest.mark.parametrize("p", [1, 7, 64])
def test_record_unit_is_met_and_not_wasted(mechanism: str, p: int) -> None:
    noise = _noise("record", 2.0, 1e-5, p, mechanism)
    record = noise.guarantees.record
    assert record.delta == 1e-5 and record.epsilon <= 2.0 * (1 + 1e-9)
    assert record.epsilon >= 2.0 * (1 - 1e-3)  # calibrated to 0.1 %
    assert composed_delta(noise.events, 2.0 * (1 + 1e-9)) <= 1e-5 * (1 + 1e-9)
    assert noise.guarantees.element.epsilon <= record.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", ["optimal", "dirac-laplace", "staircase", "truncated-laplace", "gaussian"])
@pytest.mark.parametrize("unit", ["element", "record"])
def test_the_law_that_is_drawn_is_the_law_that_is_priced(mechanism: str, unit: str) -> None:
    noise = _noise(unit, 1.0, 1e-4, 5, mechanism)
    event = noise.events[0]
    assert isinstance(event, CellNoiseEvent) and event.count == 5 and event.shift_steps == LATTICE_STEPS
    assert law_from_parameters(event.law, event.parameters) == noise.law
    element = noise.guarantees.element
    assert noise.law.delta_at(element.epsilon) <= element.delta * (1 + 1e-9)


def test_optimal_leaves_a_row_some_guarantee_at_any_distance() -> None:
    guarantee = _noise("element", 1.0, 1e-2, 1, "optimal", distance=0.1).guarantees.record
    assert guarantee.delta < 0.1 and guarantee.epsilon < 10.1


def test_a_label_under_randomised_response_is_not_covered_by_the_cells_epsilon() -> None:
    labels = {"randomized_response": {"epsilon": 10.0}}
    element = _noise("element", 0.5, 1e-6, 4, labels=labels).guarantees.element
    assert element.label_epsilon == 10.0
    assert (
        "one feature cell" in element.sentence()
        and "changing one label, by at most a factor e^10" in element.sentence()
    )
    with pytest.raises(RequestRefused, match="randomised response is not possible"):
        asked = {"unit": "element", "epsilon": 1.0, "delta": 0.0, "mechanism": "dirac-laplace", "budget": BUDGET}
        cell_noise(Privacy.model_validate({**asked, "labels": labels}), plain(2), 70_000)


def test_gaussian_wins_on_wide_rows_and_a_staircase_on_narrow_ones() -> None:
    assert _noise("record", 2.0, 1e-5, 64, "optimal").name == "gaussian"
    assert _noise("record", 2.0, 1e-5, 64, "optimal").guarantees.record.proof == GAUSSIAN_PROOF
    assert _noise("record", 4.0, 1e-5, 1, "optimal").name == "staircase"
    narrow = _noise("element", 4.0, 1e-5, 64, "optimal")
    best = min(row.expected_magnitude for row in narrow.compared if row.expected_magnitude is not None)
    assert narrow.record(1).expected_magnitude == best == pytest.approx(0.138, abs=1e-3)  # design section 3, point 5


def test_optimal_for_a_row_is_what_a_release_at_record_level_takes() -> None:
    from tasks.noise import optimal

    law = optimal(2.0, 1e-5, LATTICE_STEPS, unit="record", dimensions=64)
    assert law == _noise("record", 2.0, 1e-5, 64, "optimal").law
    with pytest.raises(ValueError, match="unit must be"):
        optimal(1.0, 1e-5, 1.0, unit="table")


def test_optimal_is_never_worse_than_a_named_mechanism() -> None:
    for epsilon, delta in [(0.1, 1e-6), (1.0, 1e-3), (8.0, 1e-2)]:
        best = _noise("element", epsilon, delta, 3, "optimal").law.expected_magnitude()
        for name in ["dirac-laplace", "staircase", "dirac-staircase", "truncated-laplace", "gaussian"]:
            assert best <= _noise("element", epsilon, delta, 3, name).law.expected_magnitude()


def test_a_small_distance_makes_the_record_level_dearer() -> None:
    near, far = (_noise("element", 0.5, 1e-6, 4, distance=d).guarantees for d in (0.25, 1.0))
    assert near.element.distance == 0.25 and near.record.distance == 1.0
    assert near.record.epsilon / far.record.epsilon == pytest.approx(4.0, rel=1e-3)


def test_randomised_response_is_composed_into_the_record_level() -> None:
    labels = {"randomized_response": {"epsilon": 1.0}}
    plain, covered = _noise("element", 1.0, 0.0, 4), _noise("element", 1.0, 0.0, 4, labels=labels)
    assert covered.events[-1] == RandomizedResponseEvent(epsilon=1.0, categories=3)
    assert plain.guarantees.record.epsilon == pytest.approx(4.0)
    assert covered.guarantees.record.epsilon == pytest.approx(5.0)
    assert covered.guarantees.record.labels == "randomized_response" and plain.guarantees.record.labels == "public"
    # at unit: record the label's epsilon is taken out of the record's
    shared = _noise("record", 2.0, 1e-5, 4, labels=labels)
    assert shared.guarantees.record.epsilon <= 2.0 * (1 + 1e-9)
    with pytest.raises(RequestRefused, match="nothing is left for the features"):
        _noise("record", 1.0, 1e-5, 4, labels=labels)


def test_private_moments_are_one_gaussian() -> None:
    privacy = Privacy.model_validate(
        {"unit": "record", "epsilon": 1.0, "delta": 1e-5, "mechanism": "private-moments", "budget": BUDGET}
    )
    moments = private_moments(privacy, (Block("value", 1),) * 10, 3)
    # 3.730632 is dp-accounting's get_sigma_gaussian(1, 1e-5)
    (event,) = moments.events
    assert isinstance(event, GaussianEvent) and event.noise_multiplier == pytest.approx(3.730632, abs=1e-6)
    assert composed_delta(moments.events, 1.0) <= 1e-5 * (1 + 1e-9)
    assert moments.guarantees.record.labels == "covered"
    assert moments.for_rows(100).mu == pytest.approx(1 / 3.730632, rel=1e-6)
    with pytest.raises(RequestRefused, match="private-moments"):
        moments.for_rows(0)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 5), st.floats(0, 0.1), st.floats(0.13, 1), st.integers(1, 100))
def test_record_level_is_never_looser_than_basic_composition(
    epsilon: float, delta: float, distance: float, p: int
) -> None:
    noise = _noise("element", epsilon, delta, p, distance=distance)
    element, record = noise.guarantees.element, noise.guarantees.record
    assert element.epsilon == epsilon and element.distance >= distance
    if record.delta < 1:
        assert record.epsilon <= basic_epsilon(noise.events, record.delta) * (1 + 1e-9)
    assert record.epsilon <= p * epsilon / distance * (1 + 1e-6)


@pytest.mark.parametrize("mechanism", ["dirac-laplace", "gaussian", "optimal"])
def test_more_than_the_sampler_can_keep_is_refused(mechanism: str) -> None:
    for epsilon, distance in [(100.0, 1.0), (1.0, 0.01)]:
        with pytest.raises(RequestRefused, match="sampler cannot keep it"):
            _noise("element", epsilon, 1e-6, 2, mechanism, distance=distance)
    # what is accepted, the sampler keeps: its deviation adds less than 1e-16 to delta
    accepted = _noise("element", 39.0, 1e-6, 2, mechanism).law
    assert (1 + math.exp(40.0)) * accepted.sampling_bias < 1e-16


def test_claim_holds_by_summing_the_law_and_fails_for_less_noise() -> None:
    """delta(epsilon) of one cell at full range, summed over the discrete law term by term."""
    noise = _noise("element", 1.0, 1e-3, 1, distance=0.5)
    claimed = noise.guarantees.record

    def true_delta(rate: float) -> float:
        k = np.arange(-60 * LATTICE_STEPS, 60 * LATTICE_STEPS + 1)
        p = (1 - 1e-3) * math.tanh(rate / 2) * np.exp(-rate * np.abs(k)) + 1e-3 * (k == 0)
        shifted = np.concatenate([np.zeros(LATTICE_STEPS), p[:-LATTICE_STEPS]])
        return float(np.maximum(p - math.exp(claimed.epsilon) * shifted, 0).sum())

    rate = 1.0 / noise.law.sensitivity
    assert true_delta(rate) <= claimed.delta * (1 + 1e-6)
    assert true_delta(rate / 0.8) > claimed.delta * 2  # 20 % less noise is convicted
