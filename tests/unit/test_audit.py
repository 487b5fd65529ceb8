"""The audit's numbers against values worked out by hand, and its intervals against simulation."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import ks_2samp, norm
from sklearn.metrics import roc_auc_score

from schemas.audit import Interval, TrainedOn
from tasks.audit import (
    attack_auc,
    compare_categories,
    compare_classifiers,
    compare_column,
    correlation_difference,
    distance_densities,
    estimate_density_difference,
    kolmogorov_smirnov,
    macro_f1,
    membership_attack,
    membership_inference_score,
    roc_curve,
    wilson_interval,
)
from tasks.audit import classifiers as classifiers_module
from tasks.kahm import KAHMClassifier

REPETITIONS = 400
FEWEST_HITS = 366
"""Of 400 intervals at 95 %, fewer hits than this have probability 0.0015 (binomial); the seeds are fixed."""


# --- density difference -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "controls", "options", "message"),
    [
        ([], [1.0], {}, "r_members must hold at least one value"),
        ([1.0], [], {}, "r_controls must hold at least one value"),
        ([1.0, np.nan], [1.0], {}, "r_members must be finite, got 1 values"),
        ([1.0], [np.inf], {}, "r_controls must be finite"),
        ([[1.0]], [1.0], {}, "r_members must be one-dimensional"),
        ([1.0], 2.0, {}, "r_controls must be one-dimensional"),
        ([1.0], [2.0], {"sigma": 0}, "sigma must be positive"),
        ([1.0], [2.0], {"sigma": np.nan}, "sigma must be positive"),
        ([1.0], [2.0], {"regularization": -1}, "regularization must be positive"),
        ([1.0], [2.0], {"centres": []}, "centres must hold at least one value"),
    ],
)
def test_score_refuses_what_it_cannot_answer(
    members: list[float], controls: list[float], options: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        membership_inference_score(members, controls, **options)


def test_equal_distances_have_score_zero_and_no_width() -> None:
    result = estimate_density_difference([0.5] * 7, [0.5] * 4)
    assert (result.score, result.sigma, result.regularization, result.cross_validated) == (0.0, 0.0, 0.0, False)
    assert membership_inference_score([0.5] * 7, [0.5], sigma=0.1) == 0.0


def test_one_row_on_a_side_gets_the_answer_that_claims_least() -> None:
    result = estimate_density_difference([0.1], [0.2, 0.3, 0.4])
    assert not result.cross_validated
    assert 0 <= result.score < 0.01


def test_a_given_parameter_is_kept() -> None:
    generator = np.random.default_rng(0)
    members, controls = generator.gamma(2, 1, 60), generator.gamma(2, 2, 40)
    assert estimate_density_difference(members, controls, sigma=0.7).sigma == 0.7
    assert estimate_density_difference(members, controls, regularization=0.2).regularization == 0.2
    assert not estimate_density_difference(members, controls, sigma=0.7, regularization=0.2).cross_validated


def test_memorised_rows_score_far_above_equally_distributed_ones() -> None:
    generator = np.random.default_rng(1)
    controls = generator.gamma(3, 1, 150)
    memorised = membership_inference_score(np.zeros(350), controls)
    independent = membership_inference_score(generator.gamma(3, 1, 350), controls)
    assert memorised > 100 * independent


# --- attack -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "controls", "expected"),
    [
        ([1, 2, 3], [4, 5], 1.0),
        ([4, 5], [1, 2, 3], 0.0),
        ([1, 1], [1, 1, 1], 0.5),
        ([1, 3], [2, 3], 5 / 8),  # pairs: 1<2, 1<3, 3>2, 3=3 -> (1 + 1 + 0 + 1/2) / 4
        ([0], [0, 1, 1, 1], 7 / 8),
    ],
)
def test_area_by_hand(members: list[float], controls: list[float], expected: float) -> None:
    assert attack_auc(members, controls).estimate == pytest.approx(expected, abs=1e-15)


def test_area_and_curve_agree_with_scikit_learn_and_each_other() -> None:
    generator = np.random.default_rng(2)
    members, controls = generator.integers(0, 30, 200) / 10, generator.integers(3, 40, 90) / 10
    truth = np.r_[np.ones(200), np.zeros(90)]
    area = attack_auc(members, controls).estimate
    assert area == pytest.approx(roc_auc_score(truth, -np.r_[members, controls]), abs=1e-12)
    false, true = roc_curve(members, controls)
    assert np.trapezoid(true, false) == pytest.approx(area, abs=0.01)
    assert true[-1] == 1 and false[0] == 0 and (np.diff(true) >= 0).all()


def test_curve_by_hand() -> None:
    """Thresholds 1, 2, 3: (0, 1/2), (1/2, 1/2), (1, 1), the last one reached along a coin toss."""
    false, true = roc_curve([1, 3], [2, 3])
    at = dict(zip(false.tolist(), true.tolist(), strict=True))
    assert at[0.0] == 0.5
    assert at[0.25] == 0.5
    assert at[0.5] == 0.5
    assert at[0.75] == pytest.approx(0.75)
    assert at[1.0] == 1.0


def test_a_memorising_classifier_is_caught_and_an_independent_one_is_not() -> None:
    generator = np.random.default_rng(3)
    controls = generator.gamma(3, 1, 150)
    memorising = membership_attack(np.abs(generator.normal(0, 0.01, 350)), controls, "real")
    independent = membership_attack(generator.gamma(3, 1, 350), controls, "fabricated")
    assert memorising.auc.estimate > 0.95 and memorising.auc.lower > 0.9
    assert independent.auc.lower <= 0.5 <= independent.auc.upper
    assert memorising.score > independent.score
    assert memorising.trained_on == "real"
    assert memorising.roc_true_positive_rate[1] > 0.9  # at one false accusation in a thousand


@pytest.mark.parametrize("values", [[], [[1.0]], [np.nan], [-0.1]])
def test_attack_refuses_what_is_no_distance(values: list[float]) -> None:
    with pytest.raises(ValueError, match="r_members"):
        membership_attack(values, [1.0], "real")
    with pytest.raises(ValueError, match="r_controls"):
        membership_attack([1.0], values, "real")


@pytest.mark.parametrize(("members", "controls"), [([0.0] * 9, [0.0] * 4), ([2.0], [2.0]), ([0.0] * 20, [1.0] * 20)])
def test_densities_of_equal_values_are_finite_bumps(members: list[float], controls: list[float]) -> None:
    density = distance_densities(members, controls)
    for curve in (density.members, density.controls):
        assert np.trapezoid(curve, density.grid) == pytest.approx(1, abs=0.02)
    assert len(density.grid) == len(density.members) == len(density.controls) == 128


def test_one_huge_distance_does_not_flatten_the_picture() -> None:
    generator = np.random.default_rng(4)
    density = distance_densities(np.r_[generator.gamma(3, 1, 500), 1e9], generator.gamma(3, 1, 300))
    assert density.grid[-1] < 50


# --- intervals cover ----------------------------------------------------------------------------------------------


def hits(interval: Callable[[np.random.Generator], Interval], truth: float) -> int:
    generator = np.random.default_rng(20240101)
    drawn = (interval(generator) for _ in range(REPETITIONS))
    return sum(one.lower <= truth <= one.upper for one in drawn)


def halved(one: Interval) -> Interval:
    half = (one.upper - one.lower) / 4
    return one.model_copy(update={"lower": one.estimate - half, "upper": one.estimate + half})


@pytest.mark.parametrize("shift", [0.0, 0.7, 2.0])
def test_area_interval_covers(shift: float) -> None:
    truth = float(norm.cdf(shift / np.sqrt(2)))

    def interval(generator: np.random.Generator) -> Interval:
        return attack_auc(np.exp(generator.normal(0, 1, 70)), np.exp(generator.normal(shift, 1, 40)))

    assert hits(interval, truth) >= FEWEST_HITS
    assert hits(lambda generator: halved(interval(generator)), truth) < FEWEST_HITS  # the check can fail


def test_area_interval_covers_with_unequal_spreads() -> None:
    def interval(generator: np.random.Generator) -> Interval:
        return attack_auc(np.exp(generator.normal(0, 1, 70)), np.exp(generator.normal(0, 3, 40)))

    assert hits(interval, 0.5) >= FEWEST_HITS


@pytest.mark.parametrize("probability", [0.08, 0.5, 0.93])
def test_wilson_interval_covers(probability: float) -> None:
    def interval(generator: np.random.Generator) -> Interval:
        return wilson_interval(int(generator.binomial(120, probability)), 120)

    assert hits(interval, probability) >= FEWEST_HITS
    assert hits(lambda generator: halved(interval(generator)), probability) < FEWEST_HITS


# --- utility ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "lower", "upper"),
    [
        # 5 of 10 with z = 1.959964: (0.5 + 0.192073) / 1.384146 -+ 0.364867 / 1.384146
        (5, 10, 0.236593, 0.763407),
        (0, 10, 0.0, 0.277533),  # z^2 / (n + z^2)
        (10, 10, 0.722467, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), table I, four digits
    ],
)
def test_wilson_by_hand(successes: int, n: int, lower: float, upper: float) -> None:
    interval = wilson_interval(successes, n)
    assert interval.lower == pytest.approx(lower, abs=6e-5)
    assert interval.upper == pytest.approx(upper, abs=6e-5)
    assert (interval.estimate, interval.method, interval.confidence) == (successes / n, "Wilson", 0.95)


@pytest.mark.parametrize(("successes", "n", "confidence"), [(0, 0, 0.95), (-1, 5, 0.95), (6, 5, 0.95), (1, 5, 1.0)])
def test_wilson_refuses(successes: int, n: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        wilson_interval(successes, n, confidence)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 0.0),
        ([1, 2], [3, 4], 1.0),
        ([1, 2, 3, 4], [3, 4, 5, 6], 0.5),
        ([0], [0, 1, 1], 2 / 3),
    ],
)
def test_kolmogorov_smirnov_by_hand(first: list[float], second: list[float], expected: float) -> None:
    assert kolmogorov_smirnov(first, second) == pytest.approx(expected)


def test_kolmogorov_smirnov_agrees_with_scipy() -> None:
    generator = np.random.default_rng(5)
    first, second = generator.integers(0, 9, 120), generator.integers(1, 12, 77)
    assert kolmogorov_smirnov(first, second) == pytest.approx(ks_2samp(first, second).statistic)


def test_columns_by_hand() -> None:
    a = compare_column("a", [0.0, 1.0, 2.0], [0.0, 3.0, 0.0])
    assert (a.name, a.mean_real, a.mean_fabricated) == ("a", 1.0, 1.0)
    assert a.std_real == pytest.approx(np.sqrt(2 / 3))  # divisor n
    assert a.std_fabricated == pytest.approx(np.sqrt(2))
    assert a.kolmogorov_smirnov == pytest.approx(1 / 3)
    assert (a.missing_real, a.missing_fabricated) == (0.0, 0.0)
    assert compare_column("b", [7.0, 7.0], [1.0, 2.0]).kolmogorov_smirnov == 1.0


def test_columns_with_missing_values_by_hand() -> None:
    nan = np.nan
    some = compare_column("a", [1.0, nan, 3.0, nan], [2.0, nan])
    assert (some.mean_real, some.mean_fabricated) == (2.0, 2.0)
    assert (some.missing_real, some.missing_fabricated) == (0.5, 0.5)
    none = compare_column("a", [nan, nan], [1.0, 1.0])
    assert (none.mean_real, none.std_real, none.kolmogorov_smirnov, none.missing_real) == (None, None, None, 1.0)


def test_categories_by_hand() -> None:
    found = compare_categories([0, 0, 1, -1], [1, 1, 0, 1], ["x", "y"], nullable=True, name="c")
    assert (found.name, found.categories) == ("c", ["x", "y", "missing"])
    assert (found.shares_real, found.shares_fabricated) == ([0.5, 0.25, 0.25], [0.25, 0.75, 0.0])
    assert found.total_variation == pytest.approx(0.5)
    same = compare_categories([0, 1], [1, 0], ["x", "y"], nullable=False, name="c")
    assert same.categories == ["x", "y"] and same.total_variation == 0.0


def test_correlations_by_hand() -> None:
    real = [[0.0, 0.0, 7.0], [1.0, 1.0, 7.0], [2.0, 2.0, 7.0]]  # correlation of the first two: 1; the last is constant
    fabricated = [[0.0, 1.0, 1.0], [3.0, 1.0, 2.0], [0.0, 4.0, 3.0]]  # of the first two: -1/2
    assert correlation_difference(real, fabricated) == (pytest.approx(1.5), 1)


def test_coordinates_of_one_column_make_no_pair_and_the_largest_difference_counts() -> None:
    generator = np.random.default_rng(7)
    real, fabricated = generator.random((30, 4)), generator.random((30, 4))
    apart = np.abs(np.corrcoef(real, rowvar=False) - np.corrcoef(fabricated, rowvar=False))
    # columns a (one coordinate), b (two), c (one): pairs ab, ac, bc
    expected = np.mean([max(apart[0, 1], apart[0, 2]), apart[0, 3], max(apart[1, 3], apart[2, 3])])
    assert correlation_difference(real, fabricated, ["a", "b", "b", "c"]) == (pytest.approx(expected), 3)
    assert correlation_difference(real, fabricated, ["a"] * 4) == (None, 0)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_correlations_do_not_depend_on_the_unit(scale: float) -> None:
    generator = np.random.default_rng(6)
    real, fabricated = generator.random((20, 3)), generator.random((20, 3))
    expected, pairs = correlation_difference(real, fabricated)
    assert pairs == 3
    assert correlation_difference(real * scale, fabricated * scale)[0] == pytest.approx(expected)


def test_no_pair_is_no_number() -> None:
    assert correlation_difference([[1.0, 2.0], [2.0, 2.0]], [[1.0, 2.0], [2.0, 3.0]]) == (None, 0)


# --- classifiers --------------------------------------------------------------------------------------------------


def test_macro_f1_by_hand() -> None:
    # a: precision 2/3, recall 1 -> 4/5; b: precision 1, recall 1/2 -> 2/3; c is never predicted -> 0
    assert macro_f1(["a", "a", "b", "b", "c"], ["a", "a", "b", "a", "d"]) == pytest.approx((0.8 + 2 / 3 + 0) / 3)
    # `z` has no test row, so it is no term of the mean: a has precision 1, recall 1/2
    assert macro_f1(["a", "a"], ["a", "z"]) == pytest.approx(2 / 3)


def two_clusters(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, n)
    return np.clip(0.3 + 0.4 * labels[:, None] + generator.normal(0, 0.05, (n, 3)), 0, 1), labels


def test_classifiers_learn_clusters_and_noise_destroys_them() -> None:
    X, y = two_clusters(120, 7)
    X_test, y_test = two_clusters(60, 8)
    noise = np.random.default_rng(9).random((120, 3))
    training: dict[TrainedOn, tuple[np.ndarray, np.ndarray]] = {"real": (X, y), "noise-added": (noise, y)}
    kahm: dict[TrainedOn, np.ndarray] = {
        kind: KAHMClassifier(3).fit(*known).predict(X_test) for kind, known in training.items()
    }
    comparison = compare_classifiers(training, X_test, y_test, ["kahm", "nearest-neighbour", "logistic"], kahm=kahm)
    assert (comparison.train_rows, comparison.test_rows) == (120, 60)
    by_key = {(r.name, r.trained_on): r for r in comparison.results}
    assert len(by_key) == 6
    for name in ("kahm", "nearest-neighbour", "logistic"):
        real, noisy = by_key[name, "real"], by_key[name, "noise-added"]
        assert real.accuracy.estimate > 0.95 and real.macro_f1 > 0.95
        assert noisy.accuracy.estimate < real.accuracy.estimate
        assert real.accuracy.method == "Wilson"


def test_majority_is_the_members_largest_class_not_the_test_rows() -> None:
    X = np.arange(6.0)[:, None] / 6
    comparison = compare_classifiers(
        {"fabricated": (X, list("bbbbaa")), "real": (X, list("aaaabb"))}, X[:4], list("abbb"), ["nearest-neighbour"]
    )
    assert comparison.majority_accuracy == 0.25
    tie = compare_classifiers({"real": (X, list("bababa"))}, X[:4], list("abbb"), ["nearest-neighbour"])
    assert tie.majority_accuracy == 0.25  # equally large: first in sorted order


@pytest.mark.parametrize("name", ["nearest-neighbour", "logistic"])
def test_a_single_training_class_is_always_answered(name: classifiers_module.ClassifierName) -> None:
    X, _ = two_clusters(20, 1)
    labels = np.array(["only"] * 20)
    comparison = compare_classifiers({"real": (X, labels)}, X[:4], ["only", "only", "other", "only"], [name])
    assert comparison.results[0].accuracy.estimate == 0.75


def test_an_unfinished_logistic_fit_is_noted_and_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifiers_module, "LOGISTIC_ITERATIONS", 1)
    X, y = two_clusters(120, 7)
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_classifiers({"real": (X, y)}, X, y, ["logistic"], notes=notes)
        compare_classifiers({"real": (X, y)}, X, y, ["logistic"])
    assert notes == [
        "classifier logistic trained on real data had not converged after 1 iterations: "
        "its accuracy is that of an unfinished fit"
    ]


def test_classifier_comparison_refuses_shapes_that_do_not_fit() -> None:
    X, y = two_clusters(10, 1)
    with pytest.raises(ValueError, match="at least one kind of data"):
        compare_classifiers({}, X, y, ["logistic"])
    with pytest.raises(ValueError, match="same rows, at least one"):
        compare_classifiers({"real": (X, y)}, X[:0], y[:0], ["logistic"])
    with pytest.raises(ValueError, match="training set `real`"):
        compare_classifiers({"real": (X[:, :2], y)}, X, y, ["logistic"])
    with pytest.raises(ValueError, match="same number of rows"):
        compare_classifiers({"real": (X, y), "fabricated": (X[:5], y[:5])}, X, y, ["logistic"])
