"""Membership attacks: figures worked out by hand, and data in which it is known who is exposed."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gaussian_kde, norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from schemas.events import ApproximateEvent
from schemas.learning import FitGuarantee
from schemas.measures import Interval
from schemas.private_classifiers import EncodedFeature, ReleasedClassifier, ReleasedRowMap
from tasks.attack import _by_margin
from tasks.audit import attack_auc, distance_attack, distance_densities, found_at, most_exposed, roc_curve
from tasks.audit.attack import FALSE_POSITIVE_RATES, membership_attack
from tasks.audit.bootstrap import bootstrap_areas, n_resamples, resampled_counts
from tasks.audit.model_attacks import (
    MODELS_FOR_OWN_VARIANCE,
    likelihood_ratio_scores,
    loss_scores,
    margin_scores,
    scaled_confidence,
    shadow_halves,
)
from tasks.audit.record_attacks import density_ratio, log_density, nearest_distances, record_attack_scores
from tasks.sample import AuditSample
from tasks.tables import ConfidentialTable, NoiseAddedTable


def auc(members: Any, controls: Any) -> Interval:
    return attack_auc(members, controls, seed=1)


def share_found(members: Any, controls: Any, fpr: float = 0.01) -> Interval:
    found = found_at(members, controls, fpr).true_positive_rate
    assert found is not None
    return found


# --- area ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "controls", "expected"),
    [
        ([5, 4, 3], [2, 1], 1.0),
        ([2, 1], [5, 4, 3], 0.0),
        ([1, 1], [1, 1, 1], 0.5),
        ([3, 1], [2, 1], 5 / 8),  # pairs: 3>2, 3>1, 1<2, 1=1 -> (1 + 1 + 0 + 1/2) / 4
        ([1], [1, 0, 0, 0], 7 / 8),
    ],
)
def test_area_by_hand(members: list[float], controls: list[float], expected: float) -> None:
    one = auc(members, controls)
    assert one.estimate == pytest.approx(expected, abs=1e-15)
    assert 0 <= one.lower <= one.estimate <= one.upper <= 1 and one.lower < one.upper


def test_area_and_curve_agree_with_scikit_learn_and_each_other() -> None:
    generator = np.random.default_rng(2)
    members, controls = generator.integers(3, 40, 200) / 10, generator.integers(0, 30, 90) / 10
    truth = np.r_[np.ones(200), np.zeros(90)]
    area = auc(members, controls).estimate
    assert area == pytest.approx(roc_auc_score(truth, np.r_[members, controls]), abs=1e-12)
    false, true = roc_curve(members, controls)
    assert np.trapezoid(true, false) == pytest.approx(area, abs=0.01)
    assert true[-1] == 1 and false[0] == 0 and (np.diff(true) >= 0).all()


def test_bootstrap_areas_are_areas_of_resamples() -> None:
    """The same draws, and the area of each by its definition over all pairs."""
    generator = np.random.default_rng(3)
    members, controls = np.sort(generator.integers(0, 9, 17)), np.sort(generator.integers(0, 9, 11))
    areas = bootstrap_areas(members.astype(float), controls.astype(float), seed=5)
    assert areas.size == 1000
    again = np.random.default_rng(5)
    weights, others = resampled_counts(17, 1000, again), resampled_counts(11, 1000, again)
    assert (weights.sum(axis=1) == 17).all() and (others.sum(axis=1) == 11).all()
    for resample in range(20):
        drawn, control = np.repeat(members, weights[resample]), np.repeat(controls, others[resample])
        pairs = (np.sign(np.subtract.outer(drawn, control)).mean() + 1) / 2
        assert areas[resample] == pytest.approx(pairs, abs=1e-12)


def test_bootstrap_variance_is_the_known_one() -> None:
    """Over all resamples it is that of a two-sample U-statistic; from 1000 its relative error is 4.5 % (1 sd)."""
    generator = np.random.default_rng(4)
    members, controls = np.sort(generator.normal(1, 1, 150)), np.sort(generator.normal(0, 1, 90))
    wins = np.greater.outer(members, controls).astype(float)
    delong = wins.mean(axis=1).var(ddof=1) / 150 + wins.mean(axis=0).var(ddof=1) / 90
    assert bootstrap_areas(members, controls, seed=0).var() == pytest.approx(delong, rel=0.2)


@pytest.mark.parametrize(
    ("rows", "resamples"), [(2, 1000), (40_000, 1000), (80_000, 500), (200_000, 200), (10**7, 200)]
)
def test_number_of_resamples(rows: int, resamples: int) -> None:
    assert n_resamples(rows) == resamples


def test_area_names_its_resamples_and_depends_on_the_seed_only_a_little() -> None:
    generator = np.random.default_rng(5)
    members, controls = generator.normal(0.5, 1, 120), generator.normal(0, 1, 80)
    one, same, other = (attack_auc(members, controls, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.estimate == other.estimate and abs(one.lower - other.lower) < 0.01
    assert "1000 resamples" in one.method


# --- curve and members found --------------------------------------------------------------------------------------


def test_curve_by_hand() -> None:
    """Thresholds 3, 2, 1: (0, 1/2), (1/2, 1/2), (1, 1), the last one reached along a coin toss."""
    false, true = roc_curve([3, 1], [2, 1])
    at = dict(zip(false.tolist(), true.tolist(), strict=True))
    assert at[0.0] == 0.5
    assert at[0.25] == 0.5
    assert at[0.5] == 0.5
    assert at[0.75] == pytest.approx(0.75)
    assert at[1.0] == 1.0


def test_members_found_by_hand() -> None:
    """Of 1000 controls one in a hundred is 10: a member must beat all but the first 10, and 990 is the 11th."""
    members = np.r_[np.full(30, 991.0), np.full(20, 990.0), np.full(50, 7.0)]
    assert share_found(members, np.arange(1, 1001)).estimate == 0.3
    # Of 1050 it is 10.5: half of those that tie with the 11th, by a coin toss.
    assert share_found(members, np.r_[np.arange(1, 1001), np.zeros(50)]).estimate == pytest.approx(0.3 + 0.2 / 2)


def test_members_found_agree_with_the_curve() -> None:
    generator = np.random.default_rng(6)
    members, controls = generator.integers(0, 99, 3000) / 9, generator.integers(0, 90, 2000) / 9
    _, true = roc_curve(members, controls)
    for fpr in (0.001, 0.01):
        place = FALSE_POSITIVE_RATES.tolist().index(fpr)
        assert share_found(members, controls, fpr).estimate == true[place]


def test_too_few_controls_resolve_nothing() -> None:
    scores = np.arange(99.0)
    assert found_at(scores, scores, 0.01).true_positive_rate is None
    assert found_at(scores, np.arange(100.0), 0.01).true_positive_rate is not None
    assert found_at(scores, np.arange(999.0), 0.001).true_positive_rate is None


@pytest.mark.parametrize("controls", [100, 500, 5000])
@pytest.mark.parametrize(("member", "estimate"), [(1.0, 1.0), (-1.0, 0.0), (0.0, 0.01)])
def test_members_found_have_an_interval_with_width_at_the_ends(member: float, estimate: float, controls: int) -> None:
    one = share_found(np.full(200, member), np.zeros(controls))
    assert one.estimate == pytest.approx(estimate)
    assert 0 <= one.lower <= one.estimate <= one.upper <= 1
    assert one.upper - one.lower > 0.01


def test_members_found_are_uncertain_while_no_control_row_bounds_the_threshold() -> None:
    """That none of 200 control rows is among the most suspicious hundredth has probability 0.99^200 = 0.13, none of 500
    has 0.0066: the lower end must be 0 for the one, and may follow the members for the other."""
    few, many = (share_found(np.ones(300), np.zeros(controls)) for controls in (200, 500))
    assert (few.estimate, few.lower, few.upper) == (1.0, 0.0, 1.0)
    assert (many.estimate, many.upper) == (1.0, 1.0) and many.lower > 0.95


def test_members_found_with_the_threshold_known_are_a_proportion() -> None:
    """30 of 200 beat every control, all others none, and K is hardly ever 0: Clopper and Pearson's interval of 30 of
    200 but for the coin tosses among the others, a share of 0.0001 to 0.02."""
    members, controls = np.repeat([1.0, 0.0], [30, 170]), np.zeros(2000)
    one = share_found(members, controls)
    assert one.estimate == pytest.approx(0.15 + 0.85 * 0.01)
    assert 0.1036 < one.lower < 0.1036 + 0.02
    assert 0.2072 < one.upper < 0.2072 + 0.02


# --- exposed rows -------------------------------------------------------------------------------------------------


def test_most_exposed_by_hand() -> None:
    assert most_exposed([0.1, 0.9, 0.5, 0.9], [40, 30, 20, 10], n=3) == [10, 30, 20]
    assert most_exposed(np.arange(50), np.arange(100, 150)) == list(range(149, 139, -1))
    assert most_exposed([0.3] * 5, range(5)) == []  # nobody more than another
    assert most_exposed([0.9, 0.3, 0.3, 0.3], range(4), n=2) == [0]  # nor of the three, for which there is one place
    assert most_exposed([0.9, 0.3, 0.3, 0.1], range(4), n=3) == [0, 1, 2]


@pytest.mark.parametrize("rows", [[1], [1.5, 2.5], [-1, 2], [[1], [2]]])
def test_most_exposed_refuses_what_is_no_row(rows: list[Any]) -> None:
    with pytest.raises(ValueError, match="member_rows must be"):
        most_exposed([0.1, 0.2], rows)


# --- the seed paper's attack --------------------------------------------------------------------------------------


def test_a_memorising_classifier_is_caught_and_an_independent_one_is_not() -> None:
    generator = np.random.default_rng(3)
    controls = generator.gamma(3, 1, 150)
    rows = generator.permutation(900)[:350]
    near = np.abs(generator.normal(0, 0.01, 350))
    memorising = distance_attack(near, controls, "real", rows, 1)
    independent = distance_attack(generator.gamma(3, 1, 350), controls, "fabricated", rows, 1)
    assert memorising.auc.estimate > 0.95 and memorising.auc.lower > 0.9
    assert independent.auc.lower <= 0.5 <= independent.auc.upper
    assert memorising.density_difference is not None and independent.density_difference is not None
    assert memorising.density_difference.score > independent.density_difference.score
    assert (memorising.attack, memorising.trained_on, memorising.classifier) == ("distance-to-class", "real", None)
    assert memorising.roc_true_positive_rate[1] > 0.9  # at one false accusation in a thousand
    assert [one.false_positive_rate for one in memorising.found] == [0.001, 0.01]
    assert memorising.found[0].true_positive_rate is None  # 150 controls
    assert memorising.most_exposed == rows[np.argsort(near)[:10]].tolist()


@pytest.mark.parametrize("values", [[], [[1.0]], [np.nan], [-0.1]])
def test_distance_attack_refuses_what_is_no_distance(values: list[float]) -> None:
    with pytest.raises(ValueError, match="r_members"):
        distance_attack(values, [1.0], "real", range(len(values)), 1)
    with pytest.raises(ValueError, match="r_controls"):
        distance_attack([1.0], values, "real", [0], 1)


def test_an_attack_does_not_depend_on_the_order_of_rows() -> None:
    generator = np.random.default_rng(7)
    members, controls, rows = generator.random(60), generator.random(120), np.arange(60)
    order = generator.permutation(60)
    one = membership_attack("loss", "real", members, controls, rows, 3, classifier="logistic")
    other = membership_attack("loss", "real", members[order], controls[::-1], rows[order], 3, classifier="logistic")
    assert one == other


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attack_auc([1.0], [np.inf]), "control_scores must be finite, got 1"),
        (lambda: attack_auc([], [1.0]), "member_scores must be one-dimensional"),
        (lambda: attack_auc([1.0], [1.0], confidence=1.0), "confidence must be between 0 and 1"),
        (lambda: found_at([1.0], [1.0], 0.0), "fpr must be between 0 and 1, got fpr=0.0"),
    ],
)
def test_attacks_refuse_what_they_cannot_answer(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


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


# --- attacks on rows ----------------------------------------------------------------------------------------------


def population(n: int, generator: np.random.Generator, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of correlated columns in [0, 1]."""
    labels = generator.integers(0, 2, n)
    mixing = np.random.default_rng(0).normal(0, 1, (d, d))
    return norm.cdf(generator.normal(0, 1, (n, d)) @ mixing / 3 + labels[:, None] / 2), labels


def scores_of(
    held: tuple[np.ndarray, np.ndarray], members: tuple[np.ndarray, np.ndarray], generator: np.random.Generator
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    controls, reference = population(200, generator), population(300, generator)
    queries, labels = (np.concatenate(pair) for pair in zip(members, controls, strict=True))
    scores = record_attack_scores(*held, queries, labels, reference=reference[0], reference_labels=reference[1])
    return {name: (one[: len(members[0])], one[len(members[0]) :]) for name, one in scores.items()}


def test_copies_are_found_and_independent_rows_are_not() -> None:
    generator = np.random.default_rng(8)
    members, others = population(300, generator), population(300, generator)
    for name, scores in scores_of(members, members, generator).items():
        # a kernel density in few dimensions smooths over its neighbours
        assert auc(*scores).lower > (0.75 if name == "density-ratio" else 0.97), name
    for name, scores in scores_of(others, members, generator).items():
        one = auc(*scores)
        assert one.lower <= 0.5 <= one.upper, name


def test_nearest_distances_by_hand() -> None:
    held, labels = [[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [9.0, 9.0]], [0, 0, 0, 1]
    closest, second = nearest_distances(held, labels, [[0, 0], [3, 4], [9, 9], [9, 9], [9, 9]], [0, 0, 0, 1, 7])
    assert closest.tolist() == pytest.approx([0, 0, np.sqrt(61), 0, 0])
    assert second.tolist() == pytest.approx([5, 0, np.sqrt(61), np.inf, np.sqrt(61)])
    scores = record_attack_scores(
        held, labels, [[0, 0], [3, 4], [9, 9], [9, 9]], [0, 0, 0, 1], reference=held, reference_labels=labels
    )
    assert scores["distance-to-closest-record"].tolist() == pytest.approx([0, 0, -np.sqrt(61), 0])
    assert scores["nearest-neighbour-ratio"].tolist() == pytest.approx([0, -1, -1, 0])


@pytest.mark.parametrize("d", [3, 20])  # by tree and by all pairs
def test_nearest_distances_of_copies_are_zero_far_from_the_origin(d: int) -> None:
    generator = np.random.default_rng(9)
    held = 1e6 + generator.random((50, d))
    labels = generator.integers(0, 3, 50)
    closest, second = nearest_distances(held, labels, held, labels)
    assert (closest == 0).all() and (second > 0).all()
    among = np.sqrt(((held[:, None] - held) ** 2).sum(axis=2)) + np.where(labels[:, None] == labels, 0, np.inf)
    assert second == pytest.approx(np.sort(among, axis=1)[:, 1])


def test_log_density_agrees_with_scipy_and_is_finite_far_away() -> None:
    generator = np.random.default_rng(10)
    rows, queries = generator.normal(0, 1, (200, 3)), generator.normal(0, 1, (40, 3))
    by_hand = np.log(np.exp(-(((queries[:, None] - rows) ** 2).sum(axis=2)) / 0.5).mean(axis=1) / (np.pi / 2) ** 1.5)
    assert log_density(rows, queries, 0.5) == pytest.approx(by_hand)
    line = gaussian_kde(rows[:, 0])
    width = float(np.sqrt(line.covariance[0, 0]))
    assert log_density(rows[:, :1], queries[:, :1], width) == pytest.approx(line.logpdf(queries[:, 0]))
    assert np.isfinite(log_density(rows, [[1e6, 0, 0]], 0.5)).all()
    with pytest.raises(ValueError, match="bandwidth must be positive, got bandwidth=0"):
        log_density(rows, queries, 0)


def test_a_ratio_of_densities_sees_overfitting_where_a_density_sees_the_crowd() -> None:
    """A generator that repeats its few rare members, but draws the common ones afresh.

    The members in question are rare: a density alone takes controls from the crowd for members.
    """
    generator = np.random.default_rng(11)

    def rare(n: int) -> np.ndarray:
        return generator.uniform(0, 1, (n, 4))

    def common(n: int) -> np.ndarray:
        return generator.normal(0.5, 0.03, (n, 4))

    members = rare(100)
    held = np.concatenate([members + generator.normal(0, 0.01, members.shape), common(900)])
    controls, reference = np.concatenate([rare(50), common(450)]), np.concatenate([rare(200), common(1800)])
    queries = np.concatenate([members, controls])
    zeros = (np.zeros(len(table), dtype=int) for table in (held, queries, reference))
    ratio = density_ratio(held, next(zeros), queries, next(zeros), reference, next(zeros))
    alone = log_density(held, queries, 0.1)
    assert auc(ratio[:100], ratio[100:]).estimate > 0.9
    assert auc(alone[:100], alone[100:]).estimate < 0.5


def test_attacks_on_rows_do_not_depend_on_the_order_of_rows_and_columns() -> None:
    generator = np.random.default_rng(12)
    (held, labels), (queries, asked), (reference, others) = (population(n, generator) for n in (150, 60, 90))
    expected = record_attack_scores(held, labels, queries, asked, reference=reference, reference_labels=others)
    rows, back = generator.permutation(150), generator.permutation(90)
    columns = generator.permutation(8)
    found = record_attack_scores(
        held[rows][:, columns],
        labels[rows],
        queries[:, columns],
        asked,
        reference=reference[back][:, columns],
        reference_labels=others[back],
    )
    for name, scores in expected.items():
        assert found[name] == pytest.approx(scores, abs=1e-9), name
    for name, scores in record_attack_scores(
        held, labels, queries[::-1], asked[::-1], reference=reference, reference_labels=others
    ).items():
        assert scores[::-1] == pytest.approx(expected[name], abs=1e-9), name


def test_a_kernel_density_of_many_rows_takes_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.audit.record_attacks.DENSITY_ROWS", 500)
    generator = np.random.default_rng(13)
    rows, queries = generator.normal(0, 1, (5000, 2)), generator.normal(0, 1, (50, 2))
    few = log_density(rows, queries, 0.4)
    assert (few == log_density(rows[::-1], queries, 0.4)).all()
    monkeypatch.undo()
    assert few == pytest.approx(log_density(rows, queries, 0.4), abs=0.7)
    assert not (few == log_density(rows, queries, 0.4)).all()


def test_a_reference_that_does_not_vary_tells_nothing() -> None:
    same = np.full((5, 2), 0.5)
    assert density_ratio(same, [0] * 5, [[0.1, 0.2]], [0], same, [0] * 5).tolist() == [0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"held": [[0.0]]}, "held needs a whole number as label"),
        ({"held": [[0.0]], "held_labels": [0]}, "held must have at least two rows, got 1"),
        ({"queries": [[0.0, 1.0]]}, "queries must have the 1 columns of the held rows, got 2"),
        ({"queries": [[np.nan]]}, "queries must be finite, got 1"),
        ({"query_labels": [0.5]}, "queries needs a whole number as label"),
        ({"reference": [[]]}, "reference must be two-dimensional"),
    ],
)
def test_attacks_on_rows_refuse_what_does_not_fit(changes: dict[str, Any], message: str) -> None:
    fine: dict[str, Any] = {
        "held": [[0.0], [1.0]],
        "held_labels": [0, 0],
        "queries": [[0.5]],
        "query_labels": [0],
        "reference": [[0.0], [1.0]],
        "reference_labels": [0, 0],
    }
    record_attack_scores(**fine)
    with pytest.raises(ValueError, match=message):
        record_attack_scores(**fine | changes)


# --- attacks on a classifier --------------------------------------------------------------------------------------


def test_loss_and_confidence_by_hand() -> None:
    probabilities = [[0.25, 0.75, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]
    labels, classes = ["b", "a", "c", "c", "unknown"], ["a", "b", "c"]
    loss, phi = loss_scores(probabilities, labels, classes), scaled_confidence(probabilities, labels, classes)
    assert loss[:3] == pytest.approx(np.log([0.75, 0.25, 1.0]))
    assert phi[:3] == pytest.approx([np.log(3), -np.log(3), 12 * np.log(10)])
    for scores in (loss, phi):
        assert np.isfinite(scores).all()
        assert scores[3] == scores[4] == scores.min()


def test_confidence_keeps_its_digits_near_one() -> None:
    phi = scaled_confidence([[1.0, 2e-11], [1.0, 1e-11]], [0, 0], [0, 1])
    assert phi == pytest.approx(np.log([1 / 2e-11, 1 / 1e-11]))


@pytest.mark.parametrize(
    ("probabilities", "labels", "classes", "message"),
    [
        ([0.5, 0.5], [0], [0, 1], "a column for each class"),
        ([[0.5, 0.5]], [0], [0], "a column for each class"),
        ([[0.5, 0.5]], [0, 1], [0, 1], "one for each of 1 rows"),
        ([[0.5, 0.5]], [0], [1, 1], "classes must be distinct"),
        ([[1.5, -0.5]], [0], [0, 1], "between 0 and 1"),
        ([[np.nan, 0.5]], [0], [0, 1], "between 0 and 1"),
    ],
)
def test_classifier_attacks_refuse_what_does_not_fit(
    probabilities: list[Any], labels: list[int], classes: list[int], message: str
) -> None:
    for scores in (loss_scores, scaled_confidence):
        with pytest.raises(ValueError, match=message):
            scores(probabilities, labels, classes)


def test_margins_by_hand_and_in_any_order_of_the_classes() -> None:
    scores = np.array([[3.0, 1.0, -2.0], [3.0, 1.0, -2.0], [0.5, 0.5, -1.0], [-5.0, 2.0, 9.0]])
    labels, expected = ["a", "b", "b", "c"], [2.0, -2.0, 0.0, 7.0]
    assert margin_scores(scores, labels, ["a", "b", "c"]).tolist() == expected
    assert margin_scores(scores[:, [2, 0, 1]], labels, ["c", "a", "b"]).tolist() == expected
    assert margin_scores([[-1.5, 1.5], [-1.5, 1.5]], [7, 2], [2, 7]).tolist() == [3.0, -3.0]


@pytest.mark.parametrize(
    ("scores", "labels", "classes", "message"),
    [
        ([0.5, 0.5], [0], [0, 1], "a column for each of two classes or more"),
        ([[0.5, 0.5]], [0], [0], "a column for each of two classes or more"),
        ([[0.5]], [0], [0], "a column for each of two classes or more"),
        ([[0.5, 0.5]], [0, 1], [0, 1], "one for each of 1 rows"),
        ([[0.5, np.inf]], [0], [0, 1], "must be finite"),
        ([[0.5, 0.5]], [2], [0, 1], "one of the classes"),
        ([[0.5, 0.5]], [0], [0, 0], "one of the classes"),
    ],
)
def test_margins_refuse_what_does_not_fit(
    scores: list[Any], labels: list[int], classes: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        margin_scores(scores, labels, classes)


def _rows(n: int, n_classes: int, generator: np.random.Generator) -> ConfidentialTable:
    """Many features, and labels that are coins: whoever predicts them has learned them by heart."""
    return ConfidentialTable(generator.integers(0, 65537, (n, 2000)), generator.integers(0, n_classes, n), 2.0**-16)


def _interpolating(rows: ConfidentialTable, classes: list[Any]) -> ReleasedClassifier:
    """A file as it is released, whose weights get every row's label right by the same margin."""
    signs = 2.0 * np.eye(len(classes))[rows.labels] - 1
    if len(classes) == 2:
        signs = signs[:, 1:]  # a single row of coefficients: the lead of the second class
    weights = np.linalg.lstsq(2 * rows.scaled - 1, signs, rcond=None)[0].T
    width = weights.shape[1]
    row_map = ReleasedRowMap(
        lower=[0.0] * width, upper=[1.0] * width, centre=None, scale=None, norm=None, rule="clip", intercept=False
    )
    guarantee = FitGuarantee(
        epsilon=3.0, delta=1e-6, adjacency="replace_one", mechanism="none", proof="none", randomness="os-csprng",
        events=[ApproximateEvent(kind="approximate", epsilon=3.0, delta=1e-6)],
    )  # fmt: skip
    made = ReleasedClassifier(
        name="opera", classes=classes, features=[EncodedFeature(column=f"x{i}", what="value") for i in range(width)],
        row_map=row_map, coefficients=weights.tolist(), intercepts=[0.0] * len(weights), hyperparameters={},
        chosen_on="defaults", guarantee=guarantee,
    )  # fmt: skip
    return ReleasedClassifier.model_validate_json(made.model_dump_json())


@pytest.mark.parametrize("classes", [["no", "maybe"], ["z", "a", "m"], [4, 2, 9, 0]], ids=len)
def test_a_released_classifier_that_learned_its_members_by_heart_is_convicted(classes: list[Any]) -> None:
    """One that learned other rows is not; two classes have a single row of coefficients."""
    generator = np.random.default_rng(31)
    members, controls, others = (_rows(100, len(classes), generator) for _ in range(3))
    frame, member_rows = pd.DataFrame(), generator.permutation(200)[:100]
    nothing = NoiseAddedTable(members.lattice, members.labels, 2.0**-16, "os-csprng")
    sample = AuditSample(members, controls, frame, frame, member_rows, nothing, frame, frame, 100, 100)
    for learned, exposed in ((members, True), (others, False)):
        one = _by_margin(_interpolating(learned, classes), sample, 1)
        assert (one.classifier, one.epsilon, one.delta, one.members, one.controls) == ("opera", 3.0, 1e-6, 100, 100)
        assert one.auc.estimate > 0.95 if exposed else one.auc.lower <= 0.5 <= one.auc.upper
        rate = next(f for f in one.found if f.false_positive_rate == 0.01).true_positive_rate
        assert rate is not None and (rate.estimate > 0.5) == exposed
        assert one.most_exposed and set(one.most_exposed) <= set(member_rows.tolist())


@pytest.mark.parametrize("n_shadow", [2, 7, 16])
def test_shadow_halves_are_balanced_and_complementary(n_shadow: int) -> None:
    labels = np.repeat([3, 1, 4, 9], [21, 2, 40, 1])
    halves = shadow_halves(64, n_shadow, labels, np.random.default_rng(14))
    assert halves.shape == (n_shadow, 64)
    assert (halves[: n_shadow // 2 * 2].sum(axis=0) == n_shadow // 2).all()  # in and out equally often
    for half in halves:
        assert half.sum() == 32
        for label in (3, 1, 4):
            count = np.count_nonzero(half[labels == label])
            assert count >= 1 and abs(2 * count - np.count_nonzero(labels == label)) <= 1
    if n_shadow > 2:
        assert (halves[0] != halves[2]).any()
    assert (halves == shadow_halves(64, n_shadow, labels, np.random.default_rng(14))).all()


def test_shadow_halves_are_uniform_within_a_label() -> None:
    """400 pairs: how often each of 20 rows is in the first half is binomial; 5 sd for the largest of 20."""
    halves = shadow_halves(20, 800, [0] * 20, np.random.default_rng(15))[::2]
    assert np.abs(halves.sum(axis=0) - 200).max() < 5 * np.sqrt(100)
    together = halves[:, :1] == halves[:, 1:]
    assert np.abs(together.sum(axis=0) - 400 * 9 / 19).max() < 5 * np.sqrt(100)


def test_shadow_halves_refuse() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="n_shadow must be at least 2, got n_shadow=1"):
        shadow_halves(3, 1, [0, 0, 0], rng)
    with pytest.raises(ValueError, match="labels must be one for each of n_rows=3"):
        shadow_halves(3, 2, [0, 0], rng)


def test_likelihood_ratio_by_hand() -> None:
    """Out models of row 0 say 1 and 3, of row 1 say 0 and 4: one variance for both, (2 + 8) / 2 = 5."""
    shadow = [[1.0, 99.0], [3.0, 0.0], [99.0, 4.0]]
    learned = [[False, True], [False, False], [True, False]]
    assert likelihood_ratio_scores([5.0, 1.0], shadow, learned) == pytest.approx([3 / np.sqrt(5), -1 / np.sqrt(5)])


def test_likelihood_ratio_is_monotone_in_the_papers_score_and_has_no_ties_at_one() -> None:
    generator = np.random.default_rng(16)
    shadow, target = generator.normal(0, 1, (64, 30)), np.linspace(-3, 3, 30)
    learned = np.zeros((64, 30), dtype=bool)
    expected = norm.cdf(target, shadow.mean(axis=0), shadow.std(axis=0, ddof=1))
    assert norm.cdf(likelihood_ratio_scores(target, shadow, learned)) == pytest.approx(expected)
    far = likelihood_ratio_scores(target + 60, shadow, learned)
    assert np.unique(far).size == 30


def test_one_variance_for_all_below_32_out_models() -> None:
    generator = np.random.default_rng(17)
    spread = np.array([0.1, 3.0])
    for n_out, own in ((MODELS_FOR_OWN_VARIANCE - 1, False), (MODELS_FOR_OWN_VARIANCE, True)):
        shadow = generator.normal(0, 1, (n_out, 2)) * spread
        scores = likelihood_ratio_scores(shadow.mean(axis=0) + 1, shadow, np.zeros((n_out, 2), dtype=bool))
        assert (scores[0] > 5 * scores[1]) == own
        assert (scores[0] == pytest.approx(scores[1])) != own


def test_shadow_models_that_agree_exactly_give_finite_scores() -> None:
    same = np.full((40, 3), 2.0)
    nowhere = np.zeros((40, 3), dtype=bool)
    assert likelihood_ratio_scores([1.0, 2.0, 3.0], same, nowhere).tolist() == [-1.0, 0.0, 1.0]
    same[0, 0] = 3.0
    assert np.isfinite(likelihood_ratio_scores([1.0, 2.0, 3.0], same, nowhere)).all()


@pytest.mark.parametrize(
    ("target", "shadow", "learned", "message"),
    [
        ([1.0], [[1.0]], [[True]], "every shadow model learned from 1 rows"),
        ([1.0], [[1.0, 2.0]], [[False, False]], r"got \(1,\) and \(1, 2\)"),
        ([1.0], [[1.0]], [[0]], "trained_with must be bool"),
        ([1.0], [[1.0]], [[False], [False]], "trained_with must be bool of shape"),
        ([np.inf], [[1.0]], [[False]], "must be finite"),
    ],
)
def test_likelihood_ratio_refuses(target: list[float], shadow: list[Any], learned: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        likelihood_ratio_scores(target, shadow, learned)


def forest(features: np.ndarray, labels: np.ndarray, seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(10, bootstrap=False, max_features=1, random_state=seed).fit(features, labels)


def test_a_memorising_classifier_is_caught_by_loss_and_likelihood_ratio() -> None:
    """Labels are coins: whoever predicts them has learned them by heart. A forest of other rows knows nothing."""
    generator = np.random.default_rng(18)
    features, labels = generator.random((300, 5)), generator.integers(0, 2, 300)
    member = np.arange(300) < 150
    other = generator.random((150, 5)), generator.integers(0, 2, 150)
    halves = shadow_halves(300, 16, labels, generator)
    shadow = np.empty((16, 300))
    for number, half in enumerate(halves):
        model = forest(features[half], labels[half], number)
        shadow[number] = scaled_confidence(model.predict_proba(features), labels, model.classes_)
    for learned, exposed in (((features[member], labels[member]), True), (other, False)):
        model = forest(*learned, seed=99)
        probabilities = model.predict_proba(features)
        ratio = likelihood_ratio_scores(scaled_confidence(probabilities, labels, model.classes_), shadow, halves)
        for scores in (loss_scores(probabilities, labels, model.classes_), ratio):
            one = auc(scores[member], scores[~member])
            assert one.estimate > 0.95 if exposed else one.lower <= 0.5 <= one.upper


def simulated_confidences(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of very different difficulty, each learned by half of the models; learning adds the same to each."""
    difficulty = generator.normal(0, 5, 2000)
    learned = shadow_halves(2000, 17, np.zeros(2000), generator)
    phi = difficulty + generator.normal(0, 1, (17, 2000)) + 4 * learned
    return phi[0], phi[1:], learned[0], learned[1:]


def test_likelihood_ratio_beats_the_loss_where_difficulty_differs() -> None:
    target, shadow, member, learned = simulated_confidences(np.random.default_rng(19))
    by_ratio = likelihood_ratio_scores(target, shadow, learned)
    loss = -np.logaddexp(0, -target)  # minus the cross-entropy of that confidence
    ratio_found, loss_found = (share_found(scores[member], scores[~member]) for scores in (by_ratio, loss))
    assert ratio_found.lower > 0.5 > loss_found.upper


def test_looking_at_models_that_learned_the_row_is_detected() -> None:
    """The wrong half of the shadow models: rows look the surer, the less the target learned from them."""
    generator = np.random.default_rng(20)
    target, shadow, member, learned = simulated_confidences(generator)
    everyone = likelihood_ratio_scores(target, shadow, learned)
    wrong = likelihood_ratio_scores(target, shadow, ~learned)
    assert np.median(everyone[~member]) == pytest.approx(0, abs=0.2)  # the law of rows it has not seen
    assert np.median(wrong[~member]) < -2
