"""Properties of the audit's numbers over arbitrary samples."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tasks.audit import (
    attack_auc,
    compare_column,
    correlation_difference,
    distance_densities,
    estimate_density_difference,
    kolmogorov_smirnov,
    membership_attack,
    membership_inference_score,
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
    assert membership_attack(members[order], controls, "real") == membership_attack(members, controls, "real")


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
    pairs = np.sign(np.subtract.outer(controls, members))
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
