"""scikit-learn's own checks of its conventions, all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from tasks.kahm import KAHMClassifier, KernelAffineHullMachine


@parametrize_with_checks([KernelAffineHullMachine(n_components=2), KAHMClassifier(n_components=2)])
def test_scikit_learn_conventions(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
