"""From a spec's privacy section to the guarantees at both units."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.spec import Budget, Privacy
from tasks.accounting import cell_noise
from tasks.accounting.lattice import LATTICE_STEPS, SPACING

BUDGET = Budget(epsilon=1e6, delta=0.5)


def _privacy(unit: str, epsilon: float, delta: float, distance: float = 1.0) -> Privacy:
    return Privacy.model_validate(
        {"unit": unit, "epsilon": epsilon, "delta": delta, "distance": distance, "budget": BUDGET}
    )


def test_element_unit_by_hand() -> None:
    noise = cell_noise(_privacy("element", 2.0, 1e-6), 64)
    element, record = noise.guarantees.element, noise.guarantees.record
    assert (element.epsilon, element.delta, element.distance) == (2.0, 1e-6, 1.0)
    assert record.epsilon == 128.0 and record.delta == pytest.approx(64e-6, rel=1e-12)
    # E|v| = (1 - delta) d / epsilon for the continuous law (2); the lattice's differs by less than a step
    assert noise.record(10).expected_magnitude == pytest.approx((1 - 1e-6) / 2, abs=SPACING)
    assert noise.record(10).expected_unperturbed_cells == pytest.approx(1e-5)
    assert noise.record(None).expected_unperturbed_cells is None


def test_record_unit_shares_out_and_never_exceeds() -> None:
    for p in [1, 3, 7, 64, 617]:
        guarantees = cell_noise(_privacy("record", 1.0, 1e-5), p).guarantees
        assert guarantees.record.epsilon <= 1.0 and guarantees.record.delta <= 1e-5 * (1 + 1e-12)
        assert guarantees.record.epsilon == pytest.approx(1.0) and guarantees.record.delta == pytest.approx(1e-5)
        assert guarantees.element.epsilon == pytest.approx(1.0 / p)


def test_a_small_distance_makes_the_record_level_dearer() -> None:
    guarantees = cell_noise(_privacy("element", 0.5, 1e-6, distance=0.25), 4).guarantees
    assert guarantees.element.distance == 0.25
    assert guarantees.record.epsilon == pytest.approx(4 * 0.5 / 0.25) and guarantees.record.distance == 1.0


@given(st.floats(0.01, 20), st.floats(0, 0.1), st.floats(0.001, 1), st.integers(1, 100))
def test_record_level_is_never_below_element_level(epsilon: float, delta: float, distance: float, p: int) -> None:
    guarantees = cell_noise(_privacy("element", epsilon, delta, distance), p).guarantees
    assert guarantees.record.epsilon >= guarantees.element.epsilon >= epsilon
    assert guarantees.record.delta >= guarantees.element.delta * (1 - 1e-9) - 1e-15
    assert guarantees.element.distance >= distance


def test_claim_holds_by_summing_the_law_and_fails_for_less_noise() -> None:
    """delta(epsilon) of one cell at full range, summed over the discrete law term by term."""
    noise = cell_noise(_privacy("element", 1.0, 1e-3, distance=0.5), 1)
    claimed = noise.guarantees.record

    def true_delta(rate: float) -> float:
        k = np.arange(-60 * LATTICE_STEPS, 60 * LATTICE_STEPS + 1)
        p = (1 - 1e-3) * math.tanh(rate / 2) * np.exp(-rate * np.abs(k)) + 1e-3 * (k == 0)
        shifted = np.concatenate([np.zeros(LATTICE_STEPS), p[:-LATTICE_STEPS]])
        return float(np.maximum(p - math.exp(claimed.epsilon) * shifted, 0).sum())

    rate = 1.0 / (LATTICE_STEPS // 2)
    assert true_delta(rate) <= claimed.delta * (1 + 1e-6)
    assert true_delta(rate / 0.8) > claimed.delta * 2  # 20 % less noise is convicted
