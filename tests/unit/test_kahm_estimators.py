"""scikit-learn's own checks of its conventions; all apply (that of array_api input skips itself without its switch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
