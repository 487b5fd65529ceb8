"""Calibration and accounting undo each other."""

import math
from typing import Any

import pytest

from tasks.accounting import calibration
from tasks.accounting.calibration import calibrate_cell_noise, cell_noise_event, compare_cell_noise
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.lattice import LATTICE_STEPS
from tasks.noise import LatticeDiracLaplace

FAMILIES = ["dirac-laplace", "gaussian", "staircase", "dirac-staircase", "truncated-laplace"]
TARGETS = [(1.0, 1e-5, 64), (8.0, 1e-5, 64), (1.0, 1e-6, 617), (0.1, 1e-6, 1000), (20.0, 1e-3, 16)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("epsilon", "delta", "dimensions"), TARGETS)
def test_calibrate_then_account(family: str, epsilon: float, delta: float, dimensions: int) -> None:
    law = calibrate_cell_noise(family, epsilon, delta, dimensions)
    spent = composed_epsilon([cell_noise_event(law, LATTICE_STEPS, dimensions)], delta)
    assert epsilon * 0.999 <= spent <= epsilon
    # less noise than basic composition would need
    assert law.expected_magnitude() < (4.3 if family == "gaussian" else 1.0) * dimensions / epsilon * LATTICE_STEPS


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_account_then_calibrate(delta: float) -> None:
    law = LatticeDiracLaplace(0.05, delta, LATTICE_STEPS)
    epsilon = composed_epsilon([cell_noise_event(law, LATTICE_STEPS, 100)], 1e-5)
    again = calibrate_cell_noise("dirac-laplace", epsilon, 1e-5, 100)
    assert again.expected_magnitude() == pytest.approx(law.expected_magnitude(), rel=2e-3)


def test_one_cell_gets_the_laws_own_guarantee() -> None:
    law = calibrate_cell_noise("dirac-laplace", 2.0, 1e-5, 1)
    assert law.parameters() == {"epsilon": 2.0, "delta": 1e-5, "sensitivity": LATTICE_STEPS}


def test_without_delta_cells_share_epsilon() -> None:
    law = calibrate_cell_noise("dirac-laplace", 1.0, 0.0, 64)
    assert law.parameters() == {"epsilon": 1.0 / 64, "delta": 0.0, "sensitivity": LATTICE_STEPS}
    assert [one.family for one in compare_cell_noise(["gaussian", "dirac-laplace"], 1.0, 0.0, 64)] == ["dirac-laplace"]
    with pytest.raises(ValueError, match="Gaussian noise needs"):
        calibrate_cell_noise("gaussian", 1.0, 0.0, 64)


def test_comparison_is_ordered_and_composes_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan waits for it: each of the seven searches takes a handful of compositions, not the 60 it is allowed."""
    composed: list[float] = []

    def counted(*asked: Any) -> float:
        composed.append(composed_epsilon(*asked))
        return composed[-1]

    monkeypatch.setattr(calibration, "composed_epsilon", counted)
    wide = compare_cell_noise(FAMILIES, 1.0, 1e-5, 64)
    assert 0 < len(composed) <= 35
    assert wide[0].family == "gaussian"  # wide rows, small epsilon
    assert wide == sorted(wide, key=lambda one: one.expected_magnitude)
    strong = compare_cell_noise(["dirac-laplace", "gaussian"], 128.0, 6.4e-5, 64)
    assert [one.family for one in strong] == ["dirac-laplace", "gaussian"]
    for one in wide + strong:
        assert math.isfinite(one.expected_magnitude) and one.expected_magnitude == one.law.expected_magnitude()


def test_unknown_families_are_refused() -> None:
    with pytest.raises(ValueError, match="unheard-of"):
        calibrate_cell_noise("unheard-of", 1.0, 1e-5, 4)
