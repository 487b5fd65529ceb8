"""Classifiers, their scores and the scores' intervals, against values worked out by hand and scikit-learn."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from schemas.measures import TrainedOn
from schemas.spec import ClassifierName
from tasks.audit import auc_interval, compare_classifiers, macro_f1, macro_f1_interval, train_classifiers
from tasks.audit import training as training_module
from tasks.audit.class_scores import _area
from tasks.audit.classifiers import KahmAnswer
from tasks.audit.proportion import wilson_bounds
from tasks.audit.training import boosting_iterations
from tasks.kahm import KAHMClassifier

FITTED: list[ClassifierName] = ["nearest-neighbour", "logistic", "gradient-boosting"]


def clusters(n: int, seed: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, n_classes, n)
    centres = 0.3 + 0.4 * labels[:, None] / (n_classes - 1)
    return np.clip(centres + generator.normal(0, 0.05, (n, 3)), 0, 1), labels


def kahm_answer(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> KahmAnswer:
    machine = KAHMClassifier(3).fit(X, y)
    return machine.classes_, machine.predict(X_test), -machine.distances(X_test)


# --- scores -------------------------------------------------------------------------------------------------------


def test_macro_f1_by_hand() -> None:
    # a: precision 2/3, recall 1 -> 4/5; b: precision 1, recall 1/2 -> 2/3; c is never predicted -> 0
    assert macro_f1(["a", "a", "b", "b", "c"], ["a", "a", "b", "a", "d"]) == pytest.approx((0.8 + 2 / 3 + 0) / 3)
    # `z` has no test row, so it is no term of the mean: a has precision 1, recall 1/2
    assert macro_f1(["a", "a"], ["a", "z"]) == pytest.approx(2 / 3)


def test_macro_f1_interval_is_about_macro_f1_and_agrees_with_resampling_rows() -> None:
    generator = np.random.default_rng(1)
    true = generator.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])
    answers = np.where(generator.random(400) < 0.7, true, generator.integers(0, 5, 400))
    interval = macro_f1_interval(true, answers, seed=1)
    assert interval.estimate == macro_f1(true, answers)
    assert interval.estimate == pytest.approx(f1_score(true, answers, labels=[0, 1, 2, 3], average="macro"))
    drawn = generator.integers(0, 400, (1000, 400))
    low, high = np.quantile([macro_f1(true[rows], answers[rows]) for rows in drawn], [0.025, 0.975])
    assert interval.lower == pytest.approx(low, abs=0.012) and interval.upper == pytest.approx(high, abs=0.012)
    assert macro_f1_interval(true, answers, seed=1) == interval != macro_f1_interval(true, answers, seed=2)


@pytest.mark.parametrize("answers", ["right", "wrong"])
@pytest.mark.parametrize("labels", [["a"] * 5, ["a", "b"], ["a"] * 20 + ["b"], list("abcdefghij") * 9])
def test_macro_f1_interval_has_width_where_all_rows_are_right_or_wrong(labels: list[str], answers: str) -> None:
    interval = macro_f1_interval(labels, labels if answers == "right" else ["z"] * len(labels), seed=1)
    assert interval.estimate == (1.0 if answers == "right" else 0.0)
    assert interval.upper - interval.lower > 1 / (2 * len(labels))


def test_a_class_with_one_row_is_never_sure() -> None:
    """One row of `b` right among 1000: its F1 may as well be near 0, and macro-F1 near 1/2."""
    true = ["a"] * 1000 + ["b"]
    assert macro_f1_interval(true, true, seed=1).lower < 0.85
    assert macro_f1_interval(["a", "b"] * 500, ["a", "b"] * 500, seed=1).lower > 0.99


@pytest.mark.parametrize(
    ("true", "scores", "area"),
    [
        # pairs of a row of class 1 and one of class 0, by the score of class 1: 3 > 1, 3 > 2, 2 > 1, 2 = 2
        ([0, 0, 1, 1], [1, 2, 2, 3], 3.5 / 4),
        ([0, 0, 1, 1], [2, 2, 2, 2], 0.5),
        ([0, 1], [0, 1], 1.0),
        ([0, 1], [1, 0], 0.0),
    ],
)
def test_area_by_hand(true: list[int], scores: list[float], area: float) -> None:
    one = np.array(scores, dtype=float)
    interval = auc_interval(true, np.column_stack([-one, one]), [0, 1])
    assert interval is not None and interval.estimate == pytest.approx(area)
    assert interval.lower < interval.upper


def test_areas_agree_with_scikit_learn() -> None:
    generator = np.random.default_rng(2)
    true = generator.integers(0, 4, 300)
    scores = generator.dirichlet(np.ones(4), 300) + 0.5 * np.eye(4)[true]
    scores = scores.round(1) / scores.round(1).sum(axis=1, keepdims=True)  # with ties
    found = auc_interval(true, scores, [0, 1, 2, 3])
    assert found is not None
    assert found.estimate == pytest.approx(roc_auc_score(true, scores, multi_class="ovr", average="macro"))
    binary = auc_interval(true % 2, np.column_stack([-scores[:, 1], scores[:, 1]]), [0, 1])
    assert binary is not None and binary.estimate == pytest.approx(roc_auc_score(true % 2, scores[:, 1]))


def test_area_variance_is_the_bootstrap_s() -> None:
    generator = np.random.default_rng(3)
    for n_classes in (2, 3):
        true = generator.integers(0, n_classes, 250)
        scores = generator.normal(size=(250, n_classes)) + np.eye(n_classes)[true]
        scores -= scores.mean(axis=1, keepdims=True)
        influence = np.mean([_area(scores[:, c], true == c)[1] for c in range(n_classes)], axis=0)
        resampled = np.std(
            [
                np.mean([_area(scores[rows, c], true[rows] == c)[0] for c in range(n_classes)])
                for rows in generator.integers(0, 250, (1000, 250))
            ]
        )
        assert np.sqrt(influence @ influence) == pytest.approx(resampled, rel=0.1)
        if n_classes == 2:  # one area counted twice: classes taken for independent would have half the variance
            assert np.sqrt(influence @ influence / 2) != pytest.approx(resampled, rel=0.1)


def test_area_interval_has_delong_s_variance_where_that_is_larger() -> None:
    generator = np.random.default_rng(5)
    positive, negative = 3 * generator.normal(size=40), generator.normal(size=200)
    above = (np.sign(np.subtract.outer(positive, negative)) + 1) / 2
    variance = above.mean(axis=1).var(ddof=1) / 40 + above.mean(axis=0).var(ddof=1) / 200
    found = auc_interval(
        np.repeat([1, 0], [40, 200]), np.outer(np.r_[positive, negative], [-1.0, 1.0]), [0, 1], confidence=0.95
    )
    assert found is not None and found.estimate == pytest.approx(above.mean())
    trials = above.mean() * (1 - above.mean()) / variance
    assert (found.lower, found.upper) == pytest.approx(wilson_bounds(float(above.mean()), float(trials), 1.959964))


def test_areas_without_some_classes() -> None:
    true = np.array([0, 0, 1, 1, 2, 2])
    scores = np.eye(3)[true]
    without_two = auc_interval(true, scores[:, :2], [0, 1])  # class 2 was not in the training data
    assert without_two is not None and without_two.estimate == pytest.approx((1 + 1 + 0.5) / 3)
    no_row_of_two = auc_interval(true[:4], scores[:4], [0, 1, 2])
    assert no_row_of_two is not None and no_row_of_two.estimate == 1.0
    assert auc_interval(true[:2], scores[:2], [0, 1, 2]) is None


def test_scores_refuse() -> None:
    with pytest.raises(ValueError, match="scores must have shape"):
        auc_interval([0, 1], np.zeros((2, 3)), [0, 1])
    with pytest.raises(ValueError, match="scores must be finite, got 1 values"):
        auc_interval([0, 1], [[0.0, np.nan], [0.0, 0.0]], [0, 1])
    with pytest.raises(ValueError, match="the same rows, at least one"):
        macro_f1_interval([], [], seed=1)


# --- comparison ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_learn_clusters_and_noise_destroys_them(n_classes: int) -> None:
    X, y = clusters(240, 7, n_classes)
    X_test, y_test = clusters(90, 8, n_classes)
    noise = np.random.default_rng(9).random((240, 3))
    training: dict[TrainedOn, tuple[np.ndarray, np.ndarray]] = {"real": (X, y), "noise-added": (noise, y)}
    kahm: dict[TrainedOn, KahmAnswer] = {kind: kahm_answer(*known, X_test) for kind, known in training.items()}
    comparison = compare_classifiers(training, X_test, y_test, ["kahm", *FITTED], kahm=kahm)
    assert (comparison.train_rows, comparison.test_rows) == (240, 90)
    by_key = {(r.name, r.trained_on): r for r in comparison.results}
    assert len(by_key) == 8
    for name in ("kahm", *FITTED):
        real, noisy = by_key[name, "real"], by_key[name, "noise-added"]
        assert real.accuracy.estimate > 0.93 and real.macro_f1.estimate > 0.93
        assert real.auc is not None and noisy.auc is not None
        assert real.auc.estimate > 0.97 and noisy.auc.lower < 0.75
        assert noisy.accuracy.estimate < real.accuracy.estimate
        assert real.accuracy.method == "Wilson"


def test_fitted_classifiers_serve_twice() -> None:
    X, y = clusters(80, 1)
    X_test, y_test = clusters(40, 2)
    training: dict[TrainedOn, tuple[Any, Any]] = {"real": (X, y)}
    fitted = train_classifiers(training, ["kahm", *FITTED])
    assert sorted(fitted) == sorted((name, "real") for name in FITTED)
    once = compare_classifiers(training, X_test, y_test, FITTED, fitted=fitted)
    assert once == compare_classifiers(training, X_test, y_test, FITTED)
    for name in ("logistic", "gradient-boosting"):
        probabilities = fitted[name, "real"].predict_proba(X)
        assert probabilities.shape == (80, 2)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        assert np.mean(fitted[name, "real"].predict(X) == y) > 0.95
    with pytest.raises(ValueError, match="distances"):
        fitted["nearest-neighbour", "real"].predict_proba(X)


def test_nearest_neighbour_agrees_with_scikit_learn() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    generator = np.random.default_rng(4)
    X, y, rows = generator.random((200, 3)), generator.integers(0, 5, 200), generator.random((100, 3))
    own = train_classifiers({"real": (X, y)}, ["nearest-neighbour"])["nearest-neighbour", "real"]
    np.testing.assert_array_equal(own.predict(rows), KNeighborsClassifier(1).fit(X, y).predict(rows))
    by_hand = -np.linalg.norm(rows[0] - X[y == 3], axis=1).min()
    assert own.scores(rows)[0, 3] == pytest.approx(by_hand)


def test_majority_is_the_members_largest_class_not_the_test_rows() -> None:
    X = np.arange(6.0)[:, None] / 6
    comparison = compare_classifiers(
        {"fabricated": (X, list("bbbbaa")), "real": (X, list("aaaabb"))}, X[:4], list("abbb"), ["nearest-neighbour"]
    )
    assert comparison.majority_accuracy == 0.25
    tie = compare_classifiers({"real": (X, list("bababa"))}, X[:4], list("abbb"), ["nearest-neighbour"])
    assert tie.majority_accuracy == 0.25  # equally large: first in sorted order


@pytest.mark.parametrize("name", FITTED)
def test_a_single_training_class_is_always_answered(name: ClassifierName) -> None:
    X, _ = clusters(20, 1)
    labels = np.array(["only"] * 20)
    result = compare_classifiers({"real": (X, labels)}, X, [*["only"] * 10, *["other"] * 10], [name]).results[0]
    assert result.accuracy.estimate == 0.5
    if name != "nearest-neighbour":  # whose distance to the only class still orders the rows
        assert result.auc is not None and result.auc.estimate == 0.5
    same = compare_classifiers({"real": (X, labels)}, X[:4], ["only"] * 4, [name]).results[0]
    assert same.auc is None and same.macro_f1.estimate == 1.0


@pytest.mark.parametrize("name", FITTED)
def test_a_class_without_training_rows_does_not_break_the_area(name: ClassifierName) -> None:
    X, y = clusters(60, 1)
    result = compare_classifiers({"real": (X, y)}, X[:45], [*y[:30], *[7] * 15], [name]).results[0]
    assert result.auc is not None and 0.5 < result.auc.estimate < 1


def test_an_area_is_one_of_classes_with_enough_test_rows() -> None:
    """One test row of a class has an area that tells its rank among the others."""
    X, y = clusters(60, 1)
    few = [*y[:30], *[7] * 9]
    found = compare_classifiers({"real": (X, y)}, X[:39], few, ["logistic"]).results[0].auc
    scores = train_classifiers({"real": (X, y)}, ["logistic"])["logistic", "real"]
    told = [label for label in np.unique(few) if 10 <= few.count(label) <= 29]
    areas = [roc_auc_score(np.equal(few, label), scores.predict_proba(X[:39])[:, label]) for label in told]
    assert found is not None and found.estimate == pytest.approx(np.mean(areas))
    assert compare_classifiers({"real": (X, y)}, X[:12], [*y[:4], *[7] * 8], ["logistic"]).results[0].auc is None


@pytest.mark.parametrize(("n_classes", "iterations"), [(1, 100), (2, 100), (3, 100), (4, 100), (10, 40), (1000, 1)])
def test_boosting_grows_a_bounded_number_of_trees(n_classes: int, iterations: int) -> None:
    assert boosting_iterations(n_classes) == iterations


def test_an_unfinished_logistic_fit_is_noted_and_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_module, "LOGISTIC_ITERATIONS", 1)
    X, y = clusters(120, 7)
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_classifiers({"real": (X, y)}, X, y, ["logistic"], notes=notes)
        compare_classifiers({"real": (X, y)}, X, y, ["logistic"])
    assert notes == [
        "classifier logistic trained on real data had not converged after 1 iterations: "
        "its accuracy is that of an unfinished fit"
    ]


def test_classifier_comparison_refuses_what_does_not_fit() -> None:
    X, y = clusters(10, 1)
    with pytest.raises(ValueError, match="at least one kind of data"):
        compare_classifiers({}, X, y, ["logistic"])
    with pytest.raises(ValueError, match="same rows, at least one"):
        compare_classifiers({"real": (X, y)}, X[:0], y[:0], ["logistic"])
    with pytest.raises(ValueError, match="training set `real`"):
        compare_classifiers({"real": (X[:, :2], y)}, X, y, ["logistic"])
    with pytest.raises(ValueError, match="same number of rows"):
        compare_classifiers({"real": (X, y), "fabricated": (X[:5], y[:5])}, X, y, ["logistic"])
    with pytest.raises(ValueError, match="kahm must hold an answer for `real` data"):
        compare_classifiers({"real": (X, y)}, X, y, ["kahm"])
    with pytest.raises(ValueError, match="training set `real` has shapes"):
        train_classifiers({"real": (X, y[:3])}, ["logistic"])
