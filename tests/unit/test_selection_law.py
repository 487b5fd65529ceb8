"""The exponential mechanism over finitely many candidates: its weights, its guarantee, its draws."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tasks.classifiers.selection_law import (
    DEEPEST,
    EPSILON_SLACK,
    draw_by_weight,
    exponential_choice,
    exponential_weights,
)
from tasks.noise import SeededBits
from tests.statistics import ALPHA, chi_square_p_value


def log_probabilities(weights: list[int]) -> np.ndarray:
    total = sum(weights)
    return np.array([math.log(Fraction(weight, total)) if weight else -math.inf for weight in weights])


def test_weights_are_proportional_to_the_exponential_of_the_scores() -> None:
    weights = exponential_weights([3.0, 1.0, 2.0], range_bound=2.0, epsilon=4.0)
    ratios = [weight / weights[1] for weight in weights]
    assert ratios == pytest.approx([math.exp(-4.0), 1.0, math.exp(-2.0)], rel=1e-5)
    assert ratios[2] == pytest.approx(math.exp(-2.0 * (1.0 - EPSILON_SLACK)), rel=1e-13)


def test_no_candidate_is_impossible_and_the_cut_is_deep() -> None:
    weights = exponential_weights([0.0, 1e9, 1e12], range_bound=1.0, epsilon=1.0)
    assert weights[1] == weights[2]
    assert weights[1] / weights[0] == pytest.approx(2.0**-96, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_guarantee_for_the_weights_as_drawn_also_where_scores_are_cut(epsilon: float, size: float) -> None:
    """Differences of scores in [a, a + range]: every ratio of probabilities within epsilon, their spread too."""
    rng = np.random.default_rng(5)
    largest = 0.0
    for _ in range(100):
        scores = size * rng.exponential(size=12) * rng.integers(0, 2, size=12)
        other = scores + 7.0 + rng.choice([0.0, 0.3], size=12)
        first, second = (log_probabilities(exponential_weights(s, 0.3, epsilon)) for s in (scores, other))
        loss = first - second
        assert np.ptp(loss) <= epsilon and np.abs(loss).max() <= epsilon
        largest = max(largest, float(np.ptp(loss)))
    assert largest > 0.999 * epsilon  # so that a range bound taken too small would be seen


def test_public_sizes_weigh_the_candidates() -> None:
    weights = exponential_weights([0.0, 0.0, 1.0], 1.0, 1.0, log_sizes=np.log([1.0, 8.0, 2.0]))
    assert weights[1] / weights[0] == pytest.approx(8.0)
    assert weights[2] / weights[0] == pytest.approx(2.0 / math.e, rel=1e-5)


def test_infinite_epsilon_takes_the_best() -> None:
    assert exponential_choice([2.0, -1.0, -1.0], 1.0, math.inf, SeededBits(0)) == 1


def test_draws_follow_whole_weights_of_any_size() -> None:
    bits = SeededBits(1)
    for weights in ([1, 2, 3, 4], [10**30, 2 * 10**30, 3 * 10**30, 4 * 10**30]):
        drawn = np.array([draw_by_weight(weights, bits) for _ in range(4000)])
        assert chi_square_p_value(drawn, lambda k: (k + 1) / 10.0, (0, 3)) > ALPHA
        assert chi_square_p_value(drawn, lambda k: np.array([0.2, 0.2, 0.25, 0.35])[k], (0, 3)) < ALPHA
    assert draw_by_weight([0, 5, 0], bits) == 1


def test_bad_arguments_are_named() -> None:
    bits = SeededBits(0)
    with pytest.raises(ValueError, match="scores_to_minimise"):
        exponential_choice([], 1.0, 1.0, bits)
    with pytest.raises(ValueError, match="scores_to_minimise"):
        exponential_choice([0.0, math.nan], 1.0, 1.0, bits)
    for range_bound in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="range_bound"):
            exponential_choice([0.0, 1.0], range_bound, 1.0, bits)
    for epsilon in (0.0, -1.0, 1e-9, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            exponential_choice([0.0, 1.0], 1.0, epsilon, bits)
    with pytest.raises(ValueError, match="log_sizes"):
        exponential_choice([0.0, 1.0], 1.0, 1.0, bits, log_sizes=[0.0, math.inf])
    for weights in ([], [0, 0], [1, -1]):
        with pytest.raises(ValueError, match="weights"):
            draw_by_weight(weights, bits)
    assert pytest.approx(2.0**-96) == math.exp(-DEEPEST)
