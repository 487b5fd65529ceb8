"""Composition against closed forms and against numbers of dp_accounting 0.6.0."""

import math

import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.pld import privacy_loss_distribution as pld

from schemas.events import ApproximateEvent, CellNoiseEvent, GaussianEvent, RandomizedResponseEvent
from tasks.accounting.composition import composed_delta, composed_epsilon
from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_epsilon, gaussian_mu
from tasks.accounting.privacy_loss import discretise
from tasks.accounting.profiles import profiles_of
from tasks.noise import gaussian_delta as exact_gaussian_delta


def cells(epsilon: float, delta: float, count: int, steps: int = 65536) -> CellNoiseEvent:
    parameters = {"epsilon": epsilon, "delta": delta, "sensitivity": steps}
    return CellNoiseEvent(law="dirac-laplace", parameters=parameters, shift_steps=steps, count=count)


def test_gaussian_known_answers() -> None:
    assert composed_epsilon([GaussianEvent(noise_multiplier=1.0)], 1e-5) == pytest.approx(4.377178096, abs=1e-8)
    assert 1.0 / gaussian_mu(1.0, 1e-5) == pytest.approx(3.730632, abs=1e-6)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_gaussian_as_in_dp_accounting(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert epsilon == pytest.approx(get_epsilon_gaussian(1.0 / mu, delta), rel=1e-7, abs=1e-9)
    if epsilon > 0.0:
        assert 1.0 / gaussian_mu(epsilon, delta) == pytest.approx(get_sigma_gaussian(epsilon, delta), rel=1e-7)


@pytest.mark.parametrize("mu", [1e-4, 0.02, 1.0, 6.0, 40.0])
def test_gaussian_bounds_the_exact_profile_closely(mu: float) -> None:
    for share in [0.0, 0.3, 1.0, 4.0, 9.0]:
        epsilon = share * mu + (mu * mu / 2 if share else 0.0)
        truth = exact_gaussian_delta(epsilon, 1.0, mu)
        assert truth * (1 - 1e-12) <= float(gaussian_delta(mu, epsilon)) <= truth * (1 + 1e-7), epsilon


@pytest.mark.parametrize(
    ("epsilon", "count", "answer"), [(0.5, 10, 4.999), (0.5, 100, 30.4836), (0.5, 1000, 173.06), (1.0, 1000, 486.30)]
)
def test_no_noise_with_probability_delta(epsilon: float, count: int, answer: float) -> None:
    """Of the continuous law the answers are known (no noise counts as infinite loss); the lattice's are at most those.

    With D = 2^16 steps the geometric law has a zero of its own with probability epsilon / 2D = 3.8e-6, so "no noise"
    is a loss of log(1 + delta 2D / epsilon) = 0.23 above epsilon, not an infinite one that uses up delta.
    """
    delta = -math.expm1(count * math.log1p(-1e-6)) + 1e-6
    (part,) = profiles_of([cells(epsilon, 1e-6, 1)])
    continuous = discretise(part.profile, epsilon / 200, epsilon).to_dp_accounting().self_compose(count, 1e-15)
    assert continuous.get_epsilon_for_delta(delta) == pytest.approx(answer, rel=1e-4)
    lattice = composed_epsilon([cells(epsilon, 1e-6, count)], delta)
    assert 0.84 * answer < lattice <= answer * 1.0002


def test_folded_laplace() -> None:
    """100-fold Laplace, scale 10: dp_accounting 0.6.0 gives 4.6927; at delta = 0 the sum of the epsilons."""
    assert composed_epsilon([cells(0.1, 0.0, 100)], 1e-6) == pytest.approx(4.6927, abs=1e-4)
    assert composed_epsilon([cells(0.125, 0.0, 64)], 0.0) == 8.0
    base = pld.from_laplace_mechanism(2.0, value_discretization_interval=0.5 / 400)
    fine = base.self_compose(64)
    for delta in [1e-3, 1e-6, 1e-9]:
        mine = composed_epsilon([cells(0.5, 0.0, 64)], delta)
        assert mine == pytest.approx(fine.get_epsilon_for_delta(delta), rel=2e-4)
        assert mine >= fine.get_epsilon_for_delta(delta) * (1 - 1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "count"), [(0.1, 1e-6, 30), (1.0, 1e-8, 10), (0.5, 0.0, 50)])
def test_optimal_composition_theorem(epsilon: float, delta: float, count: int) -> None:
    """Kairouz, Oh, Viswanath (2015), theorem 3.3: k-fold (epsilon, delta) is ((k - 2i) epsilon, delta_i)."""
    events = [ApproximateEvent(epsilon=epsilon, delta=delta, count=count)]
    for i in range(1, count // 2):
        terms = (
            math.comb(count, j) * (math.exp((count - j) * epsilon) - math.exp((count - 2 * i + j) * epsilon))
            for j in range(i)
        )
        inner = math.fsum(terms) / (1.0 + math.exp(epsilon)) ** count
        truth = 1.0 - (1.0 - delta) ** count * (1.0 - inner)
        found = composed_delta(events, (count - 2 * i) * epsilon)
        assert truth * (1 - 1e-9) - 1e-15 <= found <= truth * 1.0001 + 1e-14


@pytest.mark.parametrize(("epsilon", "categories", "count"), [(1.0, 3, 5), (0.3, 10, 8), (2.0, 2, 6)])
def test_randomised_response_by_its_multinomial(epsilon: float, categories: int, count: int) -> None:
    total = math.exp(epsilon) + categories - 1
    up, down, none = math.exp(epsilon) / total, 1.0 / total, (categories - 2) / total
    events = [RandomizedResponseEvent(epsilon=epsilon, categories=categories, count=count)]
    for at in [0.0, 0.4 * epsilon, 0.5 * count * epsilon, (count - 0.5) * epsilon]:
        truth = math.fsum(
            math.comb(count, a)
            * math.comb(count - a, b)
            * up**a
            * down**b
            * none ** (count - a - b)
            * -math.expm1(min(0.0, at - (a - b) * epsilon))
            for a in range(count + 1)
            for b in range(count - a + 1)
        )
        assert truth * (1 - 1e-9) <= composed_delta(events, at) <= truth * 1.001 + 1e-14


def test_one_randomised_response_as_in_dp_accounting() -> None:
    """dp_accounting draws uniformly from all k categories with probability p = k / (exp(epsilon) + k - 1)."""
    epsilon, k = 1.2, 5
    other = pld.from_randomized_response(k / (math.exp(epsilon) + k - 1), k, value_discretization_interval=1e-4)
    mine = [RandomizedResponseEvent(epsilon=epsilon, categories=k)]
    for at in [0.0, 0.5, 1.0]:
        assert composed_delta(mine, at) == pytest.approx(other.get_delta_for_epsilon(at), rel=1e-3)
