"""scikit-learn's own checks of its conventions; all apply (that of array_api input skips itself without its switch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from tasks.kahm import (
    DeepKernelAffineHullMachine,
    KAHMClassifier,
    KernelAffineHullMachine,
    WideKernelAffineHullMachine,
)


@parametrize_with_checks(
    [
        KernelAffineHullMachine(n_components=2),
        DeepKernelAffineHullMachine(n_components=2, n_layers=2),
        WideKernelAffineHullMachine(n_components=2, n_layers=2, n_branches=2),
        KAHMClassifier(n_components=2),
        KAHMClassifier(n_components=2, n_layers=2, n_branches=2),
    ]
)
def test_scikit_learn_conventions(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


UNFITTED = [
    KernelAffineHullMachine(2), DeepKernelAffineHullMachine(2, 2), WideKernelAffineHullMachine(2), KAHMClassifier(2),
]  # fmt: skip
ASKED = [
    "transform", "distance", "weights", "conditioning", "near_pole", "layer_index", "layer_distances", "branch_index",
    "predict", "distances", "distances_and_poles", "matching_scores",
]  # fmt: skip


@pytest.mark.parametrize("model", UNFITTED, ids=lambda model: type(model).__name__)
def test_every_method_of_an_unfitted_machine_says_so(model: Any) -> None:
    asked = [getattr(model, name) for name in ASKED if hasattr(model, name)]
    assert len(asked) >= 4
    for method in asked:
        with pytest.raises(NotFittedError):
            method([[0.0, 1.0]])
