"""The rivals of PMSVM: what they learn without noise, what they cost, what they refuse."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from tasks.accounting.composition import composed_delta
from tasks.accounting.gaussian_profile import gaussian_delta
from tasks.classifiers import weight_perturbation
from tasks.classifiers.baselines import (
    OneVsRestPrivateSVM,
    OPERAClassifier,
    PrivateLinearClassifier,
    PrivateSVMClassifier,
    classic_gaussian_multiplier,
)
from tests.unit.test_pmsvm import NO_SAMPLE_WEIGHT, table

BY_WEIGHTS: list[Any] = [PrivateSVMClassifier, OPERAClassifier, OneVsRestPrivateSVM]
ALL: list[Any] = [*BY_WEIGHTS, PrivateLinearClassifier]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_defaults_learn_and_say_what_they_guarantee(kind: Any, n_classes: int) -> None:
    X, y = table(n_classes=n_classes)
    model = kind(epsilon=8.0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.coef_.shape == ((1, 5) if n_classes == 2 else (3, 5))
    told = model.guarantee_
    assert told.private and (told.epsilon, told.delta, told.adjacency) == (8.0, 1e-5, "replace_one")
    assert composed_delta(told.events, 8.0) <= 1e-5 * (1.0 + 1e-9)


def test_multipliers_are_those_of_the_formulas() -> None:
    """Classic 4.8448 at epsilon 1 and analytic 3.7306 (delta 1e-5); the composed ones at (epsilon / 3, delta / 3)."""
    assert classic_gaussian_multiplier(1.0, 1e-5) == pytest.approx(4.8448, rel=1e-4)
    X, y = table(60)
    joint = OneVsRestPrivateSVM(1.0).fit(X, y).noise_multiplier_
    assert joint == pytest.approx(3.7306, rel=1e-4)
    composed = PrivateSVMClassifier(1.0).fit(X, y)
    assert composed.noise_multiplier_ == pytest.approx(3.0 * math.sqrt(2.0 * math.log(3.0 * 1.25 / 1e-5)), rel=1e-12)
    assert composed.guarantee_ is not None and composed.guarantee_.events[0].count == 3
    analytic = OPERAClassifier(1.0).fit(X, y).noise_multiplier_
    assert gaussian_delta(1.0 / analytic, 1.0 / 3.0) == pytest.approx(1e-5 / 3.0, rel=1e-6)
    # two classes are one problem, which gets everything
    two = OPERAClassifier(1.0).fit(*table(60, 2))
    assert two.noise_multiplier_ == pytest.approx(3.7306, rel=1e-4)


def test_the_classic_formula_is_left_where_it_fails() -> None:
    """Delta 0.1 and a large epsilon: the formula gives too little noise, and what is used keeps the guarantee."""
    classic = classic_gaussian_multiplier(40.0, 0.1)
    assert gaussian_delta(1.0 / classic, 40.0) > 0.1
    model = PrivateSVMClassifier(40.0, 0.1).fit(*table(60, 2))
    assert model.noise_multiplier_ > classic
    assert gaussian_delta(1.0 / model.noise_multiplier_, 40.0) <= 0.1


@pytest.mark.parametrize("smoothing", [0.0, 1e-3])
def test_without_noise_weights_are_scikit_learns(smoothing: float) -> None:
    """LinearSVC(loss="hinge"), C_sk = C / n, one versus rest, no intercept."""
    X, y = table(120)
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    theirs = LinearSVC(loss="hinge", C=0.5, fit_intercept=False, tol=1e-9, max_iter=200_000, random_state=0).fit(X, y)
    for kind in BY_WEIGHTS:
        ours = kind(math.inf, C=60.0, smoothing=smoothing, fit_intercept=False).fit(X, y)
        assert np.linalg.norm(ours.coef_ - theirs.coef_) < 0.02 * np.linalg.norm(theirs.coef_)
        assert ours.guarantee_ is None


def test_linear_without_noise_is_logistic_regression() -> None:
    X, y = table(150)
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    ours = PrivateLinearClassifier(
        math.inf, optimizer="gradient", ridge=0.02, clip_norm=10.0, fit_intercept=False, n_steps=300, learning_rate=2.0
    ).fit(X, y)
    theirs = LogisticRegression(C=1.0 / (2.0 * 150 * 0.02), fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    assert np.linalg.norm(ours.coef_ - theirs.coef_) < 0.01 * np.linalg.norm(theirs.coef_)


def test_joint_minimisers_move_by_no_more_than_the_bound() -> None:
    """A record that is flipped: 2 sqrt(k) C / n is reached for small C, and 2 C / n alone would be exceeded."""
    for n_classes in (3, 4, 5):
        X = np.vstack([np.eye(5), -np.eye(5)])
        y = np.arange(10) % n_classes
        other = X.copy()
        other[0] *= -1.0
        weights = [OneVsRestPrivateSVM(math.inf, C=1e-3, fit_intercept=False).fit(rows, y).coef_ for rows in (X, other)]
        moved = float(np.linalg.norm(weights[0] - weights[1])) / (2.0 * 1e-3 / 10)
        assert moved == pytest.approx(math.sqrt(n_classes), rel=1e-5)


@pytest.mark.parametrize("kind", BY_WEIGHTS)
def test_the_solvers_tolerance_is_paid_for(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.classifiers import baselines

    seen = []

    def lattice(dimension: int, sensitivity: float, relative_noise: float) -> Any:
        seen.append(sensitivity)
        return weight_perturbation.lattice_for(dimension, sensitivity, relative_noise)

    monkeypatch.setattr(baselines, "lattice_for", lattice)
    X, y = table(60)
    kind(C=2.0).fit(X, y)
    root = math.sqrt(3.0) if kind is OneVsRestPrivateSVM else 1.0
    tolerance = weight_perturbation.RELATIVE_TOLERANCE
    assert seen == [pytest.approx(2.0 * root * 2.0 / 60 * (1.0 + 2.0 * tolerance), rel=1e-12)]


@pytest.mark.parametrize(
    ("kind", "wrong", "named"),
    [
        *((kind, {"C": -1.0}, "C=-1.0") for kind in BY_WEIGHTS),
        *((kind, {"smoothing": -0.1}, "smoothing=-0.1") for kind in BY_WEIGHTS),
        *((kind, {"data_norm": None}, "data_norm") for kind in BY_WEIGHTS),
        *((kind, {"intercept_scaling": 0.0}, "intercept_scaling=0.0") for kind in ALL),
        *((kind, {"delta": 0.0}, "delta") for kind in ALL),
        (PrivateLinearClassifier, {"optimizer": "sgd"}, "optimizer='sgd'"),
        (PrivateLinearClassifier, {"n_steps": 0}, "n_steps=0"),
        (PrivateLinearClassifier, {"clip_norm": math.inf}, "clip_norm=inf"),
    ],
)
def test_bad_parameters_are_named(kind: Any, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named.replace(".", r"\.")):
        kind(**wrong).fit(*table(30))


@pytest.mark.filterwarnings("ignore:Estimator's parameters changed after fit")
@pytest.mark.parametrize("kind", [PrivateSVMClassifier, PrivateLinearClassifier])  # the others share all but the noise
def test_scikit_learns_checks(kind: Any) -> None:
    quick: dict[str, Any] = {"n_steps": 5} if kind is PrivateLinearClassifier else {}
    results = check_estimator(
        kind(epsilon=8.0, random_state=0, **quick), expected_failed_checks=NO_SAMPLE_WEIGHT, on_fail=None, on_skip=None
    )
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
