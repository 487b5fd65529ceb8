"""Properties of the audit's numbers over arbitrary samples."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.measures import FEWEST_ROWS
from tasks.audit import (
    attack_auc,
    auc_interval,
    compare_categories,
    compare_column,
    correlation_difference,
    correlation_map,
    distance_attack,
    distance_densities,
    estimate_density_difference,
    kolmogorov_smirnov,
    macro_f1_interval,
    membership_inference_score,
    project_rows,
    roc_curve,
    wilson_interval,
)

lengths = st.floats(1e-6, 1000) | st.sampled_from([0.0, 1.0, 2.0])
distances = hnp.arrays(np.float64, st.integers(1, 30), elements=lengths)
quick = settings(deadline=None, max_examples=40)


@quick
@given(distances, distances)
def test_score_is_finite_not_negative_and_symmetric(members: np.ndarray, controls: np.ndarray) -> None:
    score = membership_inference_score(members, controls)
    assert np.isfinite(score) and score >= 0
    assert membership_inference_score(controls, members) == score


@quick
@given(distances, distances)
def test_order_of_rows_is_irrelevant(members: np.ndarray, controls: np.ndarray) -> None:
    order = np.random.default_rng(0).permutation(members.size)
    rows = np.arange(members.size)
    one, other = (distance_attack(members[own], controls, "real", rows[own], 1) for own in (rows, order))
    assert (one.auc, one.found, one.roc_true_positive_rate) == (other.auc, other.found, other.roc_true_positive_rate)
    assert one.density_difference is not None and other.density_difference is not None
    assert np.isclose(one.density_difference.score, other.density_difference.score)


@quick
@given(distances, distances, st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**20]))
def test_score_has_the_unit_of_one_over_distance(members: np.ndarray, controls: np.ndarray, factor: float) -> None:
    """Factors are powers of two, so that scaling adds no rounding and cross-validation chooses alike."""
    one, scaled = (
        estimate_density_difference(members, controls),
        estimate_density_difference(members * factor, controls * factor),
    )
    assert np.isclose(scaled.score * factor, one.score, rtol=1e-6, atol=1e-12)
    assert np.isclose(scaled.sigma, one.sigma * factor)


@quick
@given(distances)
def test_a_sample_against_itself_scores_zero(sample: np.ndarray) -> None:
    assert membership_inference_score(sample, sample, sigma=1.0, regularization=1.0) < 1e-20
    assert attack_auc(sample, sample).estimate == 0.5


@quick
@given(distances, distances)
def test_area_counts_pairs(members: np.ndarray, controls: np.ndarray) -> None:
    pairs = np.sign(np.subtract.outer(members, controls))
    area = attack_auc(members, controls)
    assert np.isclose(area.estimate, (pairs.mean() + 1) / 2)
    assert 0 <= area.lower <= area.estimate <= area.upper <= 1
    assert area.upper > area.lower
    assert np.isclose(attack_auc(controls, members).estimate, 1 - area.estimate)


@quick
@given(distances, distances)
def test_curve_is_monotone_from_zero_to_one(members: np.ndarray, controls: np.ndarray) -> None:
    false, true = roc_curve(members, controls)
    assert (np.diff(false) > 0).all() and (np.diff(true) >= -1e-12).all()
    assert (true >= 0).all() and true[-1] == 1


@quick
@given(distances, distances)
def test_densities_are_finite_and_not_negative(members: np.ndarray, controls: np.ndarray) -> None:
    density = distance_densities(members, controls)
    assert all(b > a for a, b in zip(density.grid, density.grid[1:], strict=False))
    assert min(density.members) >= 0 and min(density.controls) >= 0
    assert np.isfinite(density.members + density.controls).all()


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_contains_its_estimate_and_mirrors(counts: tuple[int, int], confidence: float) -> None:
    successes, n = counts
    one, mirrored = wilson_interval(successes, n, confidence), wilson_interval(n - successes, n, confidence)
    assert 0 <= one.lower <= one.estimate <= one.upper <= 1 and one.lower < one.upper
    assert np.isclose(one.lower, 1 - mirrored.upper)


@quick
@given(distances, distances)
def test_kolmogorov_smirnov_is_a_distance(first: np.ndarray, second: np.ndarray) -> None:
    value = kolmogorov_smirnov(first, second)
    assert 0 <= value <= 1
    assert value == kolmogorov_smirnov(second, first)
    assert kolmogorov_smirnov(first, first) == 0


tables = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
)


@quick
@given(tables, tables)
def test_comparison_is_valid_and_zero_for_the_same_table(real: np.ndarray, fabricated: np.ndarray) -> None:
    for x, y in zip(real.T, fabricated.T, strict=True):
        compare_column("a", x, y)  # the model checks the ranges
    difference, pairs = correlation_difference(real, real)
    assert difference in (None, 0.0) and (difference is None) == (pairs == 0)


# --- no figure is about a few real rows ---------------------------------------------------------------------------


def of_enough_rows(shares: list[float], n_rows: int) -> bool:
    counts = np.round(np.array(shares) * n_rows)
    return bool(((counts == 0) | (counts >= FEWEST_ROWS)).all() and np.allclose(counts, np.array(shares) * n_rows))


columns = hnp.arrays(
    np.float64, st.integers(1, 80), elements=st.floats(0, 1) | st.sampled_from([0.0, 0.05, 0.5, 1.0, np.nan])
)


@quick
@given(columns, columns)
def test_column_shares_are_of_enough_real_rows_or_of_none(real: np.ndarray, fabricated: np.ndarray) -> None:
    found = compare_column("a", real, fabricated, (0, 1))
    present = int(np.count_nonzero(~np.isnan(real)))
    if found.missing_real is not None:
        assert of_enough_rows([found.missing_real, 1 - found.missing_real], real.size)
    if found.histogram is None:
        apart = present - np.unique(real[~np.isnan(real)], return_counts=True)[1].max(initial=0)
        few = min(present, int(np.count_nonzero(~np.isnan(fabricated)))) < FEWEST_ROWS
        assert (few or 0 < apart < FEWEST_ROWS) and found.mean_real is None
        return
    assert of_enough_rows(found.histogram.real, present)
    assert np.isclose(sum(found.histogram.real), 1) and np.isclose(sum(found.histogram.fabricated), 1)
    grid = np.linspace(0, 1, 21)
    assert found.histogram.edges[0] == 0 and found.histogram.edges[-1] == 1
    assert set(found.histogram.edges) <= set(grid.tolist()) and (np.diff(found.histogram.edges) > 0).all()
    assert (np.diff(found.quantiles_real) >= 0).all()


@quick
@given(columns)
def test_each_quantile_is_a_mean_of_enough_values(real: np.ndarray) -> None:
    """Moving one value by a lot moves a quantile by a tenth of that at most."""
    if np.count_nonzero(~np.isnan(real)) < FEWEST_ROWS:
        return
    before = compare_column("a", real, real)
    moved = real.copy()
    place = np.nanargmax(real)
    moved[place] += 1000.0
    after = compare_column("a", moved, real)
    if not before.quantiles_real or not after.quantiles_real:
        return  # too few values differ from the most frequent one
    change = np.abs(np.subtract(before.quantiles_real, after.quantiles_real))
    assert (change <= 1000.0 / FEWEST_ROWS + 1e-9).all()


@quick
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any), st.booleans())
def test_category_shares_are_of_enough_real_rows_or_of_none(counts: list[int], nullable: bool) -> None:
    n = len(counts)
    real = np.repeat(np.arange(n), counts)
    if nullable:
        real = np.where(real == n - 1, -1, real)
    names = [str(place) for place in range(n - nullable)]
    found = compare_categories(real, np.arange(n) - nullable, names, nullable=nullable, name="c")
    assert len(found.categories) == len(found.shares_real) == len(found.shares_fabricated)
    assert np.isclose(sum(found.shares_real), 1) and np.isclose(sum(found.shares_fabricated), 1)
    assert of_enough_rows(found.shares_real, real.size) or len(real) < FEWEST_ROWS


planes = hnp.arrays(np.float64, st.tuples(st.integers(10, 60), st.just(3)), elements=st.sampled_from([0.0, 0.3, 1.0]))


@quick
@given(planes, planes)
def test_cells_are_of_enough_real_rows_or_of_none(real: np.ndarray, fabricated: np.ndarray) -> None:
    found = project_rows(real, fabricated)
    if found is None:
        assert (fabricated == fabricated[0]).all()
        return
    shares = [*np.ravel(found.real).tolist(), found.real_left_out]
    assert of_enough_rows(shares, len(real)) and np.isclose(sum(shares), 1)
    assert np.isclose(np.sum(found.fabricated), 1)


@quick
@given(planes)
def test_correlations_are_symmetric_and_none_comes_from_a_few_rows(real: np.ndarray) -> None:
    found = correlation_map(list("abc"), real, real)
    for a in range(3):
        commonest = int(np.unique(real[:, a], return_counts=True)[1].max())
        assert (found.real[a][a] is None) == (len(real) - commonest < FEWEST_ROWS)
        for b in range(3):
            assert found.real[a][b] == found.real[b][a]
            assert (found.real[a][b] is None) == (found.real[a][a] is None or found.real[b][b] is None)


# --- intervals of a classifier's scores ---------------------------------------------------------------------------

answers = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, n, elements=st.integers(0, 3)), hnp.arrays(np.int64, n, elements=st.integers(0, 4))
    )
)


@quick
@given(answers)
def test_intervals_of_classifiers_hold_their_estimates(rows: tuple[np.ndarray, np.ndarray]) -> None:
    true, answered = rows
    scores = np.equal.outer(answered, np.arange(4)).astype(float)
    found = [macro_f1_interval(true, answered, seed=1), auc_interval(true, scores, np.arange(4))]
    assert (found[1] is None) == (np.unique(true).size == 1)
    for interval in found:
        if interval is not None:
            assert 0 <= interval.lower <= interval.estimate <= interval.upper <= 1
            assert interval.upper - interval.lower > 0.01
