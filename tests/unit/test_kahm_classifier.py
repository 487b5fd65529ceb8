"""The classifier of one wide machine per class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.kahm import KAHMClassifier, KernelAffineHullMachine, WideKernelAffineHullMachine

Array = NDArray[np.float64]


def rows(seed: int, N: int = 25, p: int = 4) -> Array:
    return np.random.default_rng(seed).random((N, p))


X = np.vstack([rows(26, 30, 3), rows(27, 30, 3) + np.array([0.8, 0.0, 0.0])])
y = np.repeat(["left", "right"], 30)


def test_one_machine_per_class() -> None:
    classifier = KAHMClassifier(2).fit(X, y)
    np.testing.assert_array_equal(classifier.classes_, ["left", "right"])
    for column, label in enumerate(classifier.classes_):
        machine = KernelAffineHullMachine(2).fit(X[y == label])
        np.testing.assert_array_equal(classifier.distances(X)[:, column], machine.distance(X))
    assert classifier.score(X, y) > 0.9
    assert classifier.predict(X).dtype == y.dtype


def test_matching_scores() -> None:
    classifier = KAHMClassifier(2).fit(X, y)
    squares = classifier.distances(X) ** 2
    expected = np.exp(-squares / squares.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(classifier.matching_scores(X), expected, rtol=1e-14)


def test_all_zero_distances_match_perfectly() -> None:
    classifier = KAHMClassifier(2).fit([[1.0, 2.0], [1.0, 2.0]], [0, 1])
    np.testing.assert_array_equal(classifier.matching_scores([[1.0, 2.0]]), [[1.0, 1.0]])


def test_ties_go_to_the_first_class() -> None:
    classifier = KAHMClassifier(1).fit([[-1.0], [1.0]], ["b", "a"])
    np.testing.assert_array_equal(classifier.predict([[0.0], [-0.5], [0.5]]), ["a", "b", "a"])


def test_single_class_is_always_predicted() -> None:
    classifier = KAHMClassifier(2).fit(X, np.zeros(60, dtype=int))
    np.testing.assert_array_equal(classifier.predict(X), np.zeros(60))
    np.testing.assert_allclose(classifier.matching_scores(X + 1.0), math.exp(-1.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_layers": 0}, "n_layers must be an integer of at least 1, got 0"),
        ({"n_branches": 0}, "n_branches must be an integer of at least 1, got 0"),
        ({"n_components": 0}, "n_components must be an integer of at least 1, got 0"),
    ],
)
def test_value_errors(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KAHMClassifier(**({"n_components": 2} | arguments)).fit(X, y)


def test_one_wide_machine_per_class() -> None:
    classifier = KAHMClassifier(2, n_layers=2, n_branches=3).fit(X, y)
    for column, label in enumerate(classifier.classes_):
        machine = WideKernelAffineHullMachine(2, 2, 3).fit(X[y == label])
        assert machine.n_branches_ == 3
        np.testing.assert_array_equal(classifier.distances(X)[:, column], machine.distance(X))


def test_large_classes_have_several_branches_by_default() -> None:
    large = rows(28, 2100, 2)
    classifier = KAHMClassifier(1).fit(large, np.arange(2100) < 2050)
    assert [machine.n_branches_ for machine in classifier.machines_] == [1, 3]


def test_input_value_errors() -> None:
    classifier = KAHMClassifier(2).fit(X, y)
    for bad in (np.full((1, 3), np.nan), np.full((1, 3), np.inf), np.zeros((1, 2))):
        with pytest.raises(ValueError, match=r"NaN|infinity|features"):
            classifier.predict(bad)
    with pytest.raises(ValueError, match="continuous"):
        KAHMClassifier(2).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="inconsistent"):
        KAHMClassifier(2).fit(X, y[:-1])


def test_membership_inference_score_reads_the_smallest_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    import tasks.audit

    seen: dict[str, Any] = {}

    def score(members: Array, controls: Array, **kwargs: float) -> float:
        seen.update(members=members, controls=controls, **kwargs)
        return 0.25

    monkeypatch.setattr(tasks.audit, "membership_inference_score", score, raising=False)
    classifier = KAHMClassifier(2).fit(X, y)
    assert classifier.membership_inference_score(X[::2], X[1::2], sigma=0.1) == 0.25
    np.testing.assert_array_equal(seen["members"], classifier.distances(X[::2]).min(axis=1))
    np.testing.assert_array_equal(seen["controls"], classifier.distances(X[1::2]).min(axis=1))
    assert seen["sigma"] == 0.1
