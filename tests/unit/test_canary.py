"""The canary audit's bound: by hand, never above the truth, and able to convict."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tasks.audit.canary import canary_audit, epsilon_lower_bound, p_value


def test_pure_bound_by_hand() -> None:
    # r right guesses of r: refuted while q^r < 0.05, so the bound is the logit of 0.05^(1/r)
    q = 0.05 ** (1 / 100)
    assert epsilon_lower_bound(100, 100, 100, 0.0, 0.95) == pytest.approx(math.log(q / (1 - q)), abs=1e-6)
    # half of the guesses right refutes nothing
    assert epsilon_lower_bound(100, 100, 50, 0.0, 0.95) == 0.0


def test_delta_lowers_the_bound_and_can_take_it_away() -> None:
    bounds = [epsilon_lower_bound(1000, 200, 190, delta, 0.95) for delta in (0.0, 1e-6, 1e-5, 1e-4, 1e-2)]
    assert all(a >= b for a, b in pairwise(bounds)) and bounds[0] > 2 and bounds[-1] == 0.0


def test_p_value_grows_with_epsilon_and_delta() -> None:
    values = [p_value(500, 100, 90, epsilon, 1e-6) for epsilon in np.linspace(0, 6, 30)]
    assert (np.diff(values) >= -1e-12).all()
    assert p_value(500, 100, 90, 1.0, 1e-6) < p_value(500, 100, 90, 1.0, 1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_bound_stays_below_randomised_response_and_convicts_half_the_noise(epsilon: float) -> None:
    """Randomised response is the mechanism for which the bound is sharpest: coverage over 200 runs."""
    rng = np.random.default_rng(1)

    def bounds(true_epsilon: float) -> list[float]:
        found = []
        for _ in range(200):
            coins = rng.random(2000) < 0.5
            truthful = rng.random(2000) < 1 / (1 + math.exp(-true_epsilon))
            evidence = np.where(coins == truthful, 1.0, -1.0)
            found.append(canary_audit(coins, evidence, n_guesses=2000, delta=1e-9).epsilon_lower_bound)
        return found

    # at 95 % confidence at most 10 of 200 may exceed on average; 26 has probability below 1e-5
    assert sum(bound > epsilon for bound in bounds(epsilon)) <= 26
    assert sum(bound > epsilon for bound in bounds(2 * epsilon)) == 200


def test_ranges_are_checked() -> None:
    for bad in [(10, 11, 5), (10, 5, 6), (10, 5, -1)]:
        with pytest.raises(ValueError, match="n_correct <= n_guesses <= n_canaries"):
            epsilon_lower_bound(*bad, 0.0, 0.95)
    with pytest.raises(ValueError, match="delta must be"):
        epsilon_lower_bound(10, 5, 3, 1.0, 0.95)
    with pytest.raises(ValueError, match="same length"):
        canary_audit([True], [1.0, 2.0], n_guesses=1, delta=0.0)
    with pytest.raises(ValueError, match="finite"):
        canary_audit([True], [math.nan], n_guesses=1, delta=0.0)
    with pytest.raises(ValueError, match="n_guesses"):
        canary_audit([True], [1.0], n_guesses=0, delta=0.0)
