"""Queries near a pole of a machine: found, counted, passed over."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tasks.kahm.nearest as nearest_module
from tasks.kahm import (
    POLE_CONDITIONING,
    DeepKernelAffineHullMachine,
    KAHMClassifier,
    KernelAffineHullMachine,
    WideKernelAffineHullMachine,
)
from tasks.kahm.hull import Hull, fit_hull
from tasks.kahm.layers import Layers
from tasks.kahm.nearest import nearest

Array = NDArray[np.float64]

#: Seven points whose machine of two components has a pole near the query, and there an image close to the query
#: although the query is far from all of them (the case of `golden/kahm_pole`).
POLE_ROWS = np.array(
    [[0.249, 0.246], [0.036, 0.183], [0.030, 0.003], [0.093, 0.207], [0.216, 0.060], [0.012, 0.102], [0.069, 0.003]]
)
NEAR_POLE = np.array([[0.26223, 3.2656]])
OTHER_ROWS = np.array([0.05, 1.5]) + 0.2 * np.random.default_rng(0).random((8, 2))
X, y = np.vstack([POLE_ROWS, OTHER_ROWS]), np.repeat(["left", "right"], [7, 8])


@pytest.fixture
def no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_module, "POLE_CONDITIONING", 0.0)


def test_the_image_near_a_pole_is_meaningless() -> None:
    machine = KernelAffineHullMachine(2).fit(POLE_ROWS)
    assert machine.conditioning(NEAR_POLE)[0] < 0.002 and machine.near_pole(NEAR_POLE)[0]
    assert machine.distance(NEAR_POLE)[0] < 0.3 < 3.0 < np.linalg.norm(NEAR_POLE - POLE_ROWS, axis=1).min()


def test_classifier_passes_over_it() -> None:
    classifier = KAHMClassifier(2).fit(X, y)
    assert classifier.predict(NEAR_POLE) == ["right"]
    mean = classifier.machines_[0].transform(NEAR_POLE)
    np.testing.assert_allclose(mean, [POLE_ROWS.mean(axis=0)])
    assert classifier.distances(NEAR_POLE)[0, 0] == pytest.approx(np.linalg.norm(NEAR_POLE - mean))
    counts = classifier.distances_and_poles(np.vstack([X, NEAR_POLE]))[1]
    np.testing.assert_array_equal(counts.rejected, [1, 0])
    np.testing.assert_array_equal(counts.unresolved, [1, 0])


@pytest.mark.usefixtures("no_guard")
def test_without_the_guard_the_answer_is_wrong() -> None:
    classifier = KAHMClassifier(2).fit(X, y)
    assert classifier.predict(NEAR_POLE) == ["left"]
    assert not np.any(classifier.distances_and_poles(NEAR_POLE)[1])


def test_well_conditioned_branch_is_taken() -> None:
    """The class of the pole has a second branch, farther away than the image near the pole."""
    rows, assignments = np.vstack([POLE_ROWS, OTHER_ROWS]), np.repeat([0, 1], [7, 8])
    machine = WideKernelAffineHullMachine(2, assignments=assignments).fit(rows)
    assert machine.branch_index(NEAR_POLE) == [1] and not machine.near_pole(NEAR_POLE)[0]
    other = KernelAffineHullMachine(2).fit(OTHER_ROWS)
    np.testing.assert_allclose(machine.transform(NEAR_POLE), other.transform(NEAR_POLE), rtol=1e-12)
    assert machine.conditioning(NEAR_POLE) == pytest.approx(other.conditioning(NEAR_POLE))
    classifier = KAHMClassifier(2, n_branches=2).fit(rows, np.zeros(15))
    assert len(set(zip(classifier.machines_[0].assignments_, assignments, strict=True))) == 2  # k-means agrees
    np.testing.assert_array_equal(classifier.distances_and_poles(NEAR_POLE)[1], [[1], [0]])
    np.testing.assert_allclose(classifier.distances(NEAR_POLE)[0], other.distance(NEAR_POLE), rtol=1e-12)


def test_layer_whose_chain_passes_a_pole_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first layer maps everything to the query near the pole, the second starts from there."""
    constant, _ = fit_hull(NEAR_POLE, 2)
    second, _ = fit_hull(POLE_ROWS, 2)
    branch = (Layers((constant, second)),)
    query = second.images(NEAR_POLE)  # the second layer hits it
    found = nearest(branch, query)
    assert (found.layers[0], found.rejected[0], found.near_pole[0]) == (0, True, False)
    assert found.distances[0] == pytest.approx(np.linalg.norm(query - NEAR_POLE))
    monkeypatch.setattr(nearest_module, "POLE_CONDITIONING", 0.0)
    assert nearest(branch, query).layers[0] == 1


@pytest.mark.parametrize("scale", [0.02, 1.0, 30.0])
@pytest.mark.parametrize(("N", "p", "n"), [(7, 2, 2), (40, 5, 3), (150, 12, 8)])
def test_lower_bound_is_one(N: int, p: int, n: int, scale: float) -> None:
    """The screen may only clear what the true conditioning clears."""
    rng = np.random.default_rng(N)
    Y = scale * rng.random((N, p))
    hull, _ = fit_hull(Y, n)
    for spread in (0.1, 1.0, 3.0, 30.0, 1e4):
        queries = Y.mean(axis=0) + spread * scale * rng.normal(size=(200, p))
        bounds = hull.image_block(queries)[1]
        assert np.all(bounds <= hull.conditioning(queries) * (1 + 1e-9))


def test_rows_like_the_training_rows_are_cleared_without_solving(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    machine = DeepKernelAffineHullMachine(5, 2).fit(rng.random((300, 10)))

    def solved(self: Hull, Y: Array) -> Array:
        raise AssertionError("the cheap bound should have been enough")

    monkeypatch.setattr(Hull, "conditioning", solved)
    assert not np.any(machine.near_pole(rng.random((100, 10))))


def test_threshold_lies_between_poles_and_data() -> None:
    """Far queries whose image is nearer than a quarter of the way to the mean are below it, training rows far above."""
    machine = KernelAffineHullMachine(2).fit(POLE_ROWS)
    mean = POLE_ROWS.mean(axis=0)
    queries = mean + 3.0 * np.random.default_rng(4).normal(size=(100_000, 2))
    far = np.linalg.norm(queries - mean, axis=1)
    suspicious = (far > 1.0) & (machine.distance(queries) < 0.25 * far)
    assert np.count_nonzero(suspicious) > 50
    assert np.max(machine.conditioning(queries[suspicious])) < 0.7 * POLE_CONDITIONING
    assert np.min(machine.conditioning(POLE_ROWS)) > 10 * POLE_CONDITIONING
