"""The simplest private classifier, which stands in for the real ones where a test is about the flow around them."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.classifiers.base import FloatArray, IntArray, PrivateClassifier
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import Fit
from tasks.classifiers.lattice import lattice_for
from tasks.classifiers.row_map import NormRule
from tasks.noise.bits import BitSource

trainings: list[str] = []
"""What was trained since a test cleared it: `with noise` or `without`, in order."""


class StandInClassifier(PrivateClassifier):
    """Class sums with Gaussian noise; a replaced row moves them by at most 2.

    Parameters
    ----------
    shift : float, default=0.0
        Subtracted from the rows' mean, for grids.
    undercharged : bool, default=False
        Say no more of the noise than (epsilon, delta), which a Gaussian charge does not cover.
    least_rows : int, default=1
        Fewer rows are refused.
    gives_away : float, default=None
        A row whose first coordinate is this one is released in place of the first class's weights.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        shift: float = 0.0,
        undercharged: bool = False,
        least_rows: int = 1,
        gives_away: float | None = None,
        adjacency: Adjacency = "replace_one",
        data_norm: float | None = 1.0,
        norm_rule: NormRule = "clip",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        feature_bounds: Any = None,
        preprocessing_share: float = 0.0,
        n_jobs: None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency
        self.shift, self.undercharged, self.least_rows = shift, undercharged, least_rows
        self.gives_away = gives_away
        self.data_norm, self.norm_rule, self.fit_intercept = data_norm, norm_rule, fit_intercept
        self.classes, self.feature_bounds, self.preprocessing_share = classes, feature_bounds, preprocessing_share
        self.n_jobs, self.random_state = n_jobs, random_state

    _delta_needed = "class sums get Gaussian noise"

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        if len(rows) < self.least_rows:
            raise ValueError(f"StandInClassifier needs {self.least_rows} rows, got {len(rows)}")
        trainings.append("without" if budget.is_infinite else "with noise")
        sums = np.eye(n_classes)[labels].T @ rows
        events: list[Event] = []
        if not budget.is_infinite:
            event = budget.as_gaussian()
            sums = lattice_for(sums.size, 2.0, event.noise_multiplier).add_gaussian(sums, event.noise_multiplier, bits)
            events.append(budget.as_approximate() if self.undercharged else event)
        means = sums / np.maximum(np.bincount(labels, minlength=n_classes), 1)[:, None] - self.shift
        weights = np.column_stack([means[:, :-1], -np.sum(means[:, :-1] ** 2, axis=1) / 2 * np.sqrt(2)])
        if self.gives_away is not None and self.gives_away in rows[:, 0]:
            weights[0] = rows[rows[:, 0].tolist().index(self.gives_away)]
        return Fit(weights, "class sums with Gaussian noise", "analytic Gaussian", events)


def stand_in(monkeypatch: pytest.MonkeyPatch, **fixed: Any) -> None:
    """Let every name stand for `StandInClassifier`."""
    trainings.clear()
    monkeypatch.setattr("tasks.private_classifiers._class_of", lambda _: (StandInClassifier, fixed))
