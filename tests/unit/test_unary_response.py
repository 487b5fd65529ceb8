"""Categories by unary encoding: its exact law, its guarantee, its estimates, and which response is taken."""

import itertools
import math

import numpy as np
import pytest

from tasks.accounting.groups import response_event, response_for
from tasks.accounting.profiles import profiles_of
from tasks.noise import LabelRandomizedResponse, SeededBits, UnaryRandomizedResponse


def _exact_law(response: UnaryRandomizedResponse, true: int) -> dict[tuple[int, ...], float]:
    q = response.false_yes_probability
    law = {}
    for answers in itertools.product([0, 1], repeat=response.n_categories):
        mass = 1.0
        for category, answer in enumerate(answers):
            yes = 0.5 if category == true else q
            mass *= yes if answer else 1 - yes
        law[answers] = mass
    return law


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("k", [3, 5])
def test_no_outcome_is_more_than_e_to_the_epsilon_times_likelier(epsilon: float, k: int) -> None:
    one, two = (_exact_law(UnaryRandomizedResponse(epsilon, k), true) for true in (0, 1))
    worst = max(one[outcome] / two[outcome] for outcome in one)
    assert math.exp(epsilon) * (1 - 1e-12) < worst <= math.exp(epsilon) * (1 + 1e-15)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("loss", [0.0, 0.05, 0.5, 2.9])
def test_the_event_that_the_ledger_prices_is_no_weaker_than_the_response(epsilon: float, loss: float) -> None:
    response = UnaryRandomizedResponse(epsilon, 4)
    one, two = (_exact_law(response, true) for true in (0, 1))
    exact = sum(max(0.0, one[outcome] - math.exp(loss) * two[outcome]) for outcome in one)
    (part,) = profiles_of([response_event(response, 1)])
    priced = float(part.profile.delta(loss))
    assert exact <= priced * (1 + 1e-12)
    assert priced <= exact * 2 + 1e-15  # and not absurdly so


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 3), (1.0, 6), (4.0, 12)])
@pytest.mark.parametrize("law", [LabelRandomizedResponse, UnaryRandomizedResponse])
def test_estimates_are_unbiased_with_the_stated_variance(law: type, epsilon: float, k: int) -> None:
    n = 200_000
    response = law(epsilon, k)
    estimates = response.estimate(response.respond(np.full(n, 1, dtype=np.int64), SeededBits(3)))
    error = estimates.mean(axis=0) - np.eye(k)[1]
    # a mean of n errs by more than 5 standard errors once in 1.7 million times
    assert np.abs(error).max() < 5 * math.sqrt(response.estimate_variance / n)
    assert estimates.var(axis=0).sum() == pytest.approx(response.estimate_variance, rel=0.05)


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_change_probability_is_that_of_the_best_guess(epsilon: float) -> None:
    response, n = UnaryRandomizedResponse(epsilon, 5), 200_000
    random = np.random.default_rng(5)
    answers = response.respond(np.full(n, 2, dtype=np.int64), SeededBits(4))
    guess = (answers + random.random(answers.shape) / 2).argmax(axis=1)
    assert float(np.mean(guess != 2)) == pytest.approx(response.change_probability, abs=5 * 0.5 / math.sqrt(n))


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 4), (0.5, 8), (1.0, 8), (1.0, 12), (2.0, 20), (2.0, 26), (4.0, 41)])
def test_the_response_with_the_smaller_variance_is_taken(epsilon: float, k: int) -> None:
    taken = response_for(epsilon, k)
    assert isinstance(taken, UnaryRandomizedResponse) == (k > 3 * math.exp(epsilon) + 2)


def test_two_possibilities_take_the_plain_response() -> None:
    assert isinstance(response_for(0.01, 2), LabelRandomizedResponse)


@pytest.mark.parametrize(("epsilon", "k"), [(0.0, 3), (float("nan"), 3), (1.0, 1), (1.0, 70_000)])
def test_parameters_outside_their_range_are_refused(epsilon: float, k: int) -> None:
    with pytest.raises(ValueError, match=r"epsilon|n_categories"):
        UnaryRandomizedResponse(epsilon, k)
