"""What a release preserves, against values worked out by hand; and what no figure may show of a single real row."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression

from schemas.measures import FEWEST_ROWS, NotComputed
from tasks.audit import (
    compare_categories,
    compare_column,
    contingency_similarities,
    correlation_difference,
    correlation_map,
    cut,
    kolmogorov_smirnov,
    project_rows,
    propensity,
    wilson_interval,
)
from tasks.audit.column_utility import HISTOGRAM_INTERVALS, QUANTILE_LEVELS
from tasks.audit.pairs import MOST_PAIRS
from tasks.audit.projection import CELLS
from tasks.audit.propensity import pmse_expectation

nan = np.nan


# --- proportions --------------------------------------------------------------------------------------------------


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


# --- columns ------------------------------------------------------------------------------------------------------


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
    a = compare_column("a", [0.0, 1.0, 2.0] * 8, [0.0, 3.0, 0.0] * 8)
    assert (a.name, a.mean_real, a.mean_fabricated) == ("a", 1.0, 1.0)
    assert a.std_real == pytest.approx(np.sqrt(2 / 3))  # divisor n
    assert a.std_fabricated == pytest.approx(np.sqrt(2))
    assert a.kolmogorov_smirnov == pytest.approx(1 / 3)
    assert (a.missing_real, a.missing_fabricated, a.histogram) == (0.0, 0.0, None)


def test_quantiles_by_hand() -> None:
    """30 values in 3 blocks of 10, with means 4.5, 14.5, 24.5; 3 x level is 0.15, 0.75, 1.5, 2.25, 2.85."""
    generator = np.random.default_rng(1)
    found = compare_column("a", generator.permutation(np.arange(30.0)), 2 * generator.permutation(np.arange(30.0)))
    assert found.quantiles == list(QUANTILE_LEVELS)
    assert found.quantiles_real == [4.5, 4.5, 14.5, 24.5, 24.5]
    assert found.quantiles_fabricated == [9.0, 9.0, 29.0, 49.0, 49.0]
    # 45 values against 30: both in 3 blocks, of 15 and of 10
    assert compare_column("a", np.arange(45.0), np.arange(30.0)).quantiles_real == [7.0, 7.0, 22.0, 37.0, 37.0]


def test_quantiles_agree_with_numpy_in_large_tables() -> None:
    values = np.random.default_rng(2).normal(size=20_000)
    found = compare_column("a", values, values).quantiles_real
    np.testing.assert_allclose(found, np.quantile(values, QUANTILE_LEVELS), atol=0.01)


def test_histogram_by_hand() -> None:
    """Unit intervals hold 12, 3, 8, 0, 0, 10, 0, ..., 0, 1: the 3 go with the 8, and the last 1 with the 10."""
    real = [0.5] * 12 + [1.5] * 3 + [2.5] * 8 + [5.5] * 10 + [20.0]
    made = [0.0] * 5 + [1.0] * 2 + [3.5] * 2 + [25.0]  # 25 is beyond the bounds and counts at 20
    histogram = compare_column("a", real, made, (0.0, 20.0)).histogram
    assert histogram is not None
    assert histogram.edges == [0.0, 1.0, 3.0, 4.0, 5.0, 20.0]
    assert histogram.real == pytest.approx([12 / 34, 11 / 34, 0, 0, 11 / 34])
    assert histogram.fabricated == pytest.approx([0.5, 0.2, 0.2, 0, 0.1])


def test_columns_with_few_values_have_no_figures_but_a_reason() -> None:
    reasons: list[NotComputed] = []
    few = compare_column("a", [1.0, nan] * 9, [1.0] * 18, (0, 2), reasons)
    assert (few.mean_real, few.mean_fabricated, few.std_real, few.kolmogorov_smirnov) == (None, None, None, None)
    assert (few.quantiles, few.quantiles_real, few.quantiles_fabricated, few.histogram) == ([], [], [], None)
    assert [reason.what for reason in reasons] == [
        "the share of missing real values of column `a`",
        "the comparison of the values of column `a`",
    ]
    enough = compare_column("a", [1.0, nan] * 10, [1.0] * 18, (0, 2), reasons)
    assert enough.mean_real == 1.0 and enough.missing_real == 0.5 and len(reasons) == 2
    assert compare_column("a", [1.0] * 18, [1.0] * 9, None, reasons).mean_real is None


@pytest.mark.parametrize(("apart", "told"), [(0, True), (1, False), (9, False), (10, True)])
def test_a_column_of_one_value_but_for_a_few_rows_has_no_figures(apart: int, told: bool) -> None:
    reasons: list[NotComputed] = []
    real = np.r_[np.zeros(90), np.full(apart, 0.7)]
    found = compare_column("a", real, np.linspace(0, 1, 50), (0, 1), reasons)
    assert (found.mean_real is not None) == (found.kolmogorov_smirnov is not None) == (found.quantiles != []) == told
    assert [reason.reason.startswith("fewer than 10 real values differ") for reason in reasons] == [True] * (not told)


@pytest.mark.parametrize(
    ("missing", "share"), [(0, 0.0), (1, None), (9, None), (10, 0.1), (11, 0.11), (90, 0.9), (91, None), (100, 1.0)]
)
def test_a_missing_share_is_of_enough_real_rows(missing: int, share: float | None) -> None:
    real = np.r_[np.full(missing, nan), np.ones(100 - missing)]
    reasons: list[NotComputed] = []
    assert compare_column("a", real, [nan, 1.0], None, reasons).missing_real == share
    assert any("missing" in reason.what for reason in reasons) == (0 < missing < 10 or 90 < missing < 100)


def test_columns_refuse() -> None:
    with pytest.raises(ValueError, match="at least one row, got 0 and 1"):
        compare_column("a", [], [1.0])
    with pytest.raises(ValueError, match="bounds must be in order"):
        compare_column("a", [1.0] * 10, [1.0] * 10, (1.0, 1.0))


def test_a_planted_value_does_not_show_in_a_column() -> None:
    """Wherever a lonely real value stands, histogram and quantiles are the same, and no figure is that value."""
    others = np.random.default_rng(3).uniform(0, 0.6, 499)
    made = np.random.default_rng(4).uniform(0, 1, 500)
    found = [compare_column("a", np.r_[others, planted], made, (0, 1)) for planted in (0.7123, 0.987654321)]
    assert found[0].histogram == found[1].histogram and found[0].histogram is not None
    assert found[0].quantiles_real == found[1].quantiles_real
    for column, planted in zip(found, (0.7123, 0.987654321), strict=True):
        figures = [column.mean_real, column.std_real, column.kolmogorov_smirnov, *column.quantiles_real]
        assert planted not in [*figures, *found[0].histogram.edges, *found[0].histogram.real]
    # intervals that are not joined would show it: the check can fail
    apart = [np.histogram(np.r_[others, planted], HISTOGRAM_INTERVALS, (0, 1))[0] for planted in (0.7123, 0.987654321)]
    assert (apart[0] != apart[1]).any()
    # and so would plain order statistics at the end
    assert np.quantile(np.r_[others, 0.987654321], 1.0) == 0.987654321


# --- categories ---------------------------------------------------------------------------------------------------


def test_categories_by_hand() -> None:
    found = compare_categories([0, 0, 1, -1] * 10, [1, 1, 0, 1], ["x", "y"], nullable=True, name="c")
    assert (found.name, found.categories) == ("c", ["x", "y", "missing"])
    assert (found.shares_real, found.shares_fabricated) == ([0.5, 0.25, 0.25], [0.25, 0.75, 0.0])
    assert found.total_variation == pytest.approx(0.5)
    same = compare_categories([0, 1] * 10, [1, 0], ["x", "y"], nullable=False, name="c")
    assert same.categories == ["x", "y"] and same.total_variation == 0.0


def codes(*counts: int) -> list[int]:
    return [place for place, count in enumerate(counts) for _ in range(count)]


def test_rare_categories_are_joined_by_hand() -> None:
    """Rows 60, 4, 7, 0, 29: the 4 and the 7 are 11 together, and none is shown as none."""
    reasons: list[NotComputed] = []
    found = compare_categories(
        codes(60, 4, 7, 0, 29), codes(1, 2, 3, 2, 2), list("abcde"), nullable=False, name="c", not_computed=reasons
    )
    assert found.categories == ["a", "d", "e", "b, c"]
    assert found.shares_real == pytest.approx([0.6, 0.0, 0.29, 0.11])
    assert found.shares_fabricated == pytest.approx([0.1, 0.2, 0.2, 0.5])
    assert found.total_variation == pytest.approx((0.5 + 0.2 + 0.09 + 0.39) / 2)
    assert "2 categories are shown as one" in reasons[0].reason


def test_what_is_left_of_one_does_not_tell_a_rare_category() -> None:
    """Rows 60, 3 and 37: without the 37 the joined share would be that of the 3 rows."""
    found = compare_categories(codes(60, 3, 37), codes(1, 1, 1), list("abc"), nullable=False, name="c")
    assert (found.categories, found.shares_real) == (["a", "b, c"], [0.6, 0.4])
    missing = compare_categories([*codes(60, 30), -1, -1], [0, 1, -1], ["a", "b"], nullable=True, name="c")
    assert missing.categories == ["a", "b, missing"]


def test_many_rare_categories_have_a_short_name() -> None:
    names = [f"v{place}" for place in range(9)]
    found = compare_categories(codes(*range(1, 10)), codes(*range(1, 10)), names, nullable=False, name="c")
    assert found.categories == ["v0, v1, v2 and 6 others"] and found.total_variation == 0.0


def test_categories_refuse_no_rows() -> None:
    with pytest.raises(ValueError, match="at least one row, got 0 and 1"):
        compare_categories([], [0], ["a"], nullable=False, name="c")


# --- pairs --------------------------------------------------------------------------------------------------------


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
    found = correlation_map(list("abc"), real * scale, fabricated * scale)
    np.testing.assert_allclose(np.array(found.real, dtype=float), np.corrcoef(real, rowvar=False))


def test_no_pair_is_no_number() -> None:
    assert correlation_difference([[1.0, 2.0], [2.0, 2.0]], [[1.0, 2.0], [2.0, 3.0]]) == (None, 0)


def test_the_map_takes_rows_where_both_values_are_present() -> None:
    generator = np.random.default_rng(8)
    table = generator.random((60, 4)) @ generator.random((4, 4))
    table[generator.random((60, 4)) < 0.3] = nan
    found = correlation_map(list("abcd"), table, table).real
    for a, b in combinations(range(4), 2):
        both = ~np.isnan(table[:, [a, b]]).any(axis=1)
        assert found[a][b] == found[b][a] == pytest.approx(float(np.corrcoef(table[both, a], table[both, b])[0][1]))
    assert [found[a][a] for a in range(4)] == [1.0] * 4


def test_a_column_that_few_rows_make_vary_has_no_correlation() -> None:
    """With one row that differs, its correlation with a column is that column's value in this row, standardised."""
    generator = np.random.default_rng(9)
    age = generator.random(50)
    for differing, defined in [(0, False), (1, False), (9, False), (10, True)]:
        flag = np.repeat([1.0, 0.0], [differing, 50 - differing])
        found = correlation_map(["age", "flag"], np.column_stack([age, flag]), np.column_stack([age, flag]))
        assert (found.real[0][1] is not None) == (found.real[1][1] is not None) == defined
        assert found.real[0][0] == 1.0
    # what would be told: r = (x - mean) / std / sqrt(n - 1) for the one row that differs
    told = float(np.corrcoef(age, np.r_[1.0, np.zeros(49)])[0][1]) * age.std() * np.sqrt(49) + age.mean()
    assert told == pytest.approx(age[0])


def test_nine_common_rows_are_too_few() -> None:
    x = np.r_[np.arange(9.0), np.full(20, nan), np.arange(11.0)]
    y = np.r_[np.arange(9.0), np.arange(20.0), np.full(11, nan)]
    found = correlation_map(["x", "y"], np.column_stack([x, y]), np.column_stack([x, y]))
    assert found.real[0][1] is None and found.real[0][0] == found.real[1][1] == 1.0


def test_cut_by_hand() -> None:
    assert cut([0.0, 0.99, 1.0, 9.99, 10.0, -5.0, 12.0, nan], (0, 10)).tolist() == [0, 0, 1, 9, 9, 0, 9, 10]
    assert cut([3.0, nan], (3, 3)).tolist() == [0, 10]
    with pytest.raises(ValueError, match="bounds must be in order"):
        cut([1.0], (2, 1))


def test_contingency_similarity_by_hand() -> None:
    """Cells 00, 01, 11: real 1/2, 0, 1/2 and fabricated 1/2, 1/2, 0, so 1 - (0 + 1/2 + 1/2) / 2."""
    pairs, mean = contingency_similarities(["a", "b"], [[0] * 5 + [1] * 5, [0] * 5 + [1] * 5], [[0] * 4, [0, 0, 1, 1]])
    assert [(pair.first, pair.second, pair.similarity) for pair in pairs] == [("a", "b", 0.5)]
    assert mean == 0.5


def test_contingency_similarities_agree_with_counting_and_come_in_order() -> None:
    generator = np.random.default_rng(10)
    real, made = generator.integers(0, 4, (5, 200)), generator.integers(0, 5, (5, 150))
    pairs, mean = contingency_similarities(list("abcde"), list(real), list(made))
    assert len(pairs) == 10
    assert [pair.similarity for pair in pairs] == sorted(pair.similarity for pair in pairs)
    for pair in pairs:
        a, b = "abcde".index(pair.first), "abcde".index(pair.second)
        one, two = (Counter(zip(table[a].tolist(), table[b].tolist(), strict=True)) for table in (real, made))
        apart = sum(abs(one[cell] / 200 - two[cell] / 150) for cell in one | two)
        assert pair.similarity == pytest.approx(1 - apart / 2)
    assert mean == pytest.approx(np.mean([pair.similarity for pair in pairs]))


def test_many_columns_list_a_thousand_pairs_and_average_all() -> None:
    generator = np.random.default_rng(11)
    names = [str(place) for place in range(46)]  # 1035 pairs
    real = list(generator.integers(0, 2, (46, 40)))
    made = list(generator.integers(0, 2, (46, 40)))
    pairs, mean = contingency_similarities(names, real, made)
    assert len(pairs) == MOST_PAIRS and mean is not None
    assert mean > np.mean([pair.similarity for pair in pairs])  # the 35 most similar ones are in it


def test_contingency_similarities_refuse_and_know_when_there_is_none() -> None:
    assert contingency_similarities(["a"], [[0] * 20], [[0] * 20]) == ([], None)
    assert contingency_similarities(["a", "b"], [[0] * 9] * 2, [[0] * 20] * 2) == ([], None)
    with pytest.raises(ValueError, match="real must hold 2 columns of equal length"):
        contingency_similarities(["a", "b"], [[0] * 10, [0] * 9], [[0] * 9] * 2)
    with pytest.raises(ValueError, match="no negative code"):
        contingency_similarities(["a", "b"], [[0] * 10] * 2, [[-1] * 10] * 2)
    with pytest.raises(ValueError, match="real must have a column for each of 1 names"):
        correlation_map(["a"], np.zeros((3, 2)), np.zeros((3, 1)))


# --- propensity ---------------------------------------------------------------------------------------------------


def test_propensity_by_hand() -> None:
    """One coordinate, 1 in 30 of 100 real and in 50 of 100 fabricated rows: scores 50/80 and 50/120.

    pMSE is (80 (1/8)^2 + 120 (1/12)^2) / 200 = 1/96, and (k - 1) c (1 - c) / N = 1/800.
    """
    real, made = np.repeat([[1.0], [0.0]], [30, 70], axis=0), np.repeat([[1.0], [0.0]], [50, 50], axis=0)
    logistic, tree = propensity(real, made, seed=1)
    assert logistic.pmse == pytest.approx(1 / 96, abs=1e-9)
    assert logistic.expected == pytest.approx(1 / 800)
    assert logistic.ratio == pytest.approx(800 / 96, abs=1e-5)
    assert logistic.model.startswith("logistic, main effects and pairwise interactions: 2 parameters on 100 real")
    assert tree.pmse == pytest.approx(1 / 96, abs=1e-9)
    assert tree.model == (
        "classification tree with at least 10 rows a leaf, on 100 real and 100 fabricated rows; "
        "expectation from 20 permutations"
    )


def test_logistic_scores_agree_with_scikit_learn() -> None:
    generator = np.random.default_rng(12)
    real, made = generator.random((300, 11)), generator.random((200, 11)) ** 1.3
    rows, label = np.concatenate([real, made]), np.repeat([0, 1], [300, 200])
    scores = LogisticRegression(C=1e8, max_iter=5000, tol=1e-10).fit(rows, label).predict_proba(rows)[:, 1]
    found = propensity(real, made, seed=1)[0]
    assert found.pmse == pytest.approx(np.mean((scores - 0.4) ** 2), rel=1e-4)
    assert found.expected == pytest.approx(11 * 0.4 * 0.6 / 500)


def test_indicators_of_one_column_are_counted_by_rank() -> None:
    generator = np.random.default_rng(13)
    rows = np.eye(12)[generator.integers(0, 12, 1000)]  # sums to 1: 12 parameters with the intercept, not 13
    assert "main effects: 12 parameters" in propensity(rows[:500], rows[500:], seed=1)[0].model


def test_two_samples_of_one_law_have_the_expected_error_and_the_papers_half_is_convicted() -> None:
    generator = np.random.default_rng(14)
    ratios = np.array(
        [
            [found.ratio for found in propensity(generator.random((150, 12)), generator.random((150, 12)), seed=seed)]
            for seed in range(30)
        ],
        dtype=float,
    )
    # the ratio's deviation is sqrt(2 / 12) for the logistic model, so that of the mean is 0.075
    assert abs(ratios[:, 0].mean() - 1) < 5 * 0.075
    assert abs(2 * ratios[:, 0].mean() - 1) > 5 * 0.075  # with (k - 1) (1 - c)^2 c / N
    assert abs(ratios[:, 1].mean() - 1) < 0.15


def test_rows_that_differ_are_told_apart_and_separated_ones_do_not_warn() -> None:
    generator = np.random.default_rng(15)
    real = generator.random((1500, 5))
    product = real.copy()
    product[:, 1] = np.where(generator.random(1500) < 0.5, product[:, 0], product[:, 1])  # same margins, now dependent
    logistic, tree = propensity(real, product, seed=1)
    assert logistic.ratio is not None and logistic.ratio > 3  # by the interactions alone
    assert tree.ratio is not None
    for found in propensity(real, real + 2, seed=1):
        assert found.pmse == pytest.approx(0.25, abs=1e-3)


def test_propensity_is_repeatable_and_caps_its_rows() -> None:
    generator = np.random.default_rng(16)
    real, made = generator.random((6000, 3)), generator.random((6000, 3))
    assert propensity(real, made, seed=5) == propensity(real, made, seed=5)
    assert [found.model.split(" on ")[1][:9] for found in propensity(real, made, seed=5)] == ["5000 real", "2500 real"]


def test_propensity_says_what_it_did_not_compute() -> None:
    generator = np.random.default_rng(17)
    reasons: list[NotComputed] = []
    few = propensity(generator.random((30, 20)), generator.random((30, 20)), seed=1, not_computed=reasons)
    assert len(few) == 1 and few[0].model.startswith("classification tree")
    assert reasons[0].reason == "60 rows are fewer than 20 for each of 21 parameters"
    assert propensity(np.ones((9, 2)), np.ones((20, 2)), seed=1, not_computed=reasons) == []
    constant = propensity(np.ones((20, 2)), np.ones((20, 2)), seed=1, not_computed=reasons)
    assert [(found.pmse, found.expected, found.ratio) for found in constant] == [(0.0, 0.0, None)]
    assert reasons[-1].reason == "no coordinate varies"
    with pytest.raises(ValueError, match="equal width"):
        propensity(np.ones((20, 2)), np.ones((20, 3)), seed=1)


@pytest.mark.parametrize(("k", "share", "n", "expected"), [(6, 0.5, 1000, 0.00125), (2, 0.2, 100, 0.0016)])
def test_pmse_expectation_by_hand(k: int, share: float, n: int, expected: float) -> None:
    assert pmse_expectation(k, share, n) == pytest.approx(expected)


# --- projection ---------------------------------------------------------------------------------------------------


def on_a_line(*values_and_counts: tuple[float, int]) -> np.ndarray:
    return np.array([[value, 0.0] for value, count in values_and_counts for _ in range(count)])


LINE = on_a_line(*((float(value), 1) for value in range(25)))


def test_projection_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fabricated rows at 0, ..., 24 on a line: 24 cells of side 1 from -12, and the last one holds 23 and 24."""
    monkeypatch.setattr("tasks.audit.projection.CELLS", (24,))
    real = on_a_line((3.5, 20), (10.5, 3), (20.5, 10), (100.0, 7))
    found = project_rows(real, LINE)
    assert found is not None
    np.testing.assert_allclose(found.x_edges, np.arange(-12, 13), atol=1e-9)
    np.testing.assert_allclose(found.y_edges, [-0.5, 0.5], atol=1e-9)
    np.testing.assert_allclose(found.fabricated, [[1 / 25] * 23 + [2 / 25]])
    expected = np.zeros(24)
    expected[3], expected[20] = 0.5, 0.25
    np.testing.assert_allclose(found.real, [expected])
    assert (found.real_left_out, found.explained) == (0.25, pytest.approx(1.0))


def test_what_is_left_of_one_does_not_tell_a_single_row() -> None:
    found = project_rows(on_a_line((3.5, 20), (10.5, 1), (20.5, 15)), LINE)
    assert found is not None
    assert found.real_left_out == pytest.approx(16 / 36)  # with the one row, the smallest cell
    assert np.count_nonzero(found.real) == 1


def test_axes_are_those_of_the_fabricated_rows_and_agree_with_scikit_learn() -> None:
    from sklearn.decomposition import PCA

    generator = np.random.default_rng(18)
    made = generator.random((500, 6)) @ generator.random((6, 6))
    real = made + generator.normal(0, 0.01, made.shape)
    found = project_rows(real, made)
    assert found is not None
    reference = PCA(2).fit(made)
    assert found.explained == pytest.approx(reference.explained_variance_ratio_.sum())
    spread = np.ptp(reference.transform(made), axis=0)
    assert found.x_edges[-1] - found.x_edges[0] == pytest.approx(spread[0])
    assert len(found.x_edges) - 1 in CELLS and len(found.y_edges) == len(found.real) + 1 <= len(found.x_edges)
    assert np.sum(found.fabricated) == pytest.approx(1)
    other = project_rows(generator.random((50, 6)), made)
    assert other is not None and other.x_edges[0] == found.x_edges[0]  # real rows move no end
    assert other.x_edges[-1] == found.x_edges[-1] and len(other.x_edges) - 1 in CELLS


def test_a_planted_row_does_not_show_in_the_plane() -> None:
    generator = np.random.default_rng(19)
    made, others = generator.random((2000, 2)) * [1, 0.8], generator.random((2000, 2)) * 0.6
    found = [project_rows(np.vstack([others, planted]), made) for planted in ([0.9, 0.7], [0.95, 0.1])]
    assert found[0] == found[1] and found[0] is not None
    counts = np.array(found[0].real) * 2001
    assert (counts[counts > 0] > FEWEST_ROWS - 0.5).all()


def test_projection_says_why_there_is_none() -> None:
    reasons: list[NotComputed] = []
    assert project_rows(np.ones((20, 1)), np.ones((20, 1)), reasons) is None
    assert project_rows(np.ones((9, 2)), np.eye(2), reasons) is None
    assert project_rows(np.eye(20), np.ones((20, 20)), reasons) is None
    assert [reason.reason for reason in reasons] == [
        "the rows have fewer than two coordinates",
        "there are fewer than 10 real rows",
        "the fabricated rows are all equal",
    ]
    with pytest.raises(ValueError, match="equal width"):
        project_rows(np.ones((20, 2)), np.ones((20, 3)))
