"""What sampled Gaussian releases cost: against closed forms, quadrature, and their own inverse."""

import math

import numpy as np
import pytest
from scipy import special, stats

from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_mu
from tasks.classifiers.subsampling import (
    poisson_delta_upper_bound,
    poisson_epsilon_upper_bound,
    poisson_noise_multiplier,
    single_draw_epsilon_upper_bound,
    split_for_replacement,
)

_GRID = np.linspace(-40.0, 40.0, 160_001)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """By the trapezium rule, on `_GRID`."""
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), _GRID))


def sampled(probability: float, shift: float, deviation: float) -> np.ndarray:
    rest = stats.norm.pdf(_GRID, 0.0, deviation)
    return (1.0 - probability) * rest + probability * stats.norm.pdf(_GRID, shift, deviation)


def one_step_delta(probability: float, multiplier: float, epsilon: float) -> float:
    """q times the Gaussian profile at log(1 + (e^epsilon - 1) / q): Balle, Barthe, Gaboardi (2018), theorem 8."""
    inner = math.log1p(math.expm1(epsilon) / probability)
    return probability * float(gaussian_delta(1.0 / multiplier, inner))


@pytest.mark.parametrize(("q", "z", "epsilon"), [(0.1, 1.0, 0.5), (0.5, 2.0, 0.3), (0.01, 0.7, 1.0)])
def test_one_step_agrees_with_the_closed_form(q: float, z: float, epsilon: float) -> None:
    exact = one_step_delta(q, z, epsilon)
    assert exact == pytest.approx(hockey_stick(sampled(q, 1.0, z), sampled(q, 0.0, z), epsilon), rel=1e-5)
    assert exact <= poisson_delta_upper_bound(q, z, 1, epsilon) <= 1.02 * exact + 2e-12


@pytest.mark.parametrize(("q", "z", "steps"), [(0.2, 3.0, 2), (0.05, 1.0, 2)])
def test_two_steps_agree_with_a_convolution_by_hand(q: float, z: float, steps: int) -> None:
    """Two steps by Gauss-Hermite quadrature over the first, the closed form over the second."""
    nodes, weights = special.roots_hermitenorm(180)
    weights = weights / weights.sum()
    epsilon = 0.3
    exact = 0.0
    for shift, part in ((0.0, 1.0 - q), (1.0, q)):
        x = shift + z * nodes
        loss = np.log1p(q * np.expm1((x - 0.5) / z**2))
        # E over the first release of the second's divergence at what is left of epsilon; below log(1 - q) it is linear
        for left, weight in zip(epsilon - loss, weights, strict=True):
            if left > math.log1p(-q):
                inner = math.log1p(math.expm1(left) / q)
                # e^inner may be below 1: the profile continues by symmetry
                own = float(gaussian_delta(1.0 / z, abs(inner)))
                own = own if inner >= 0.0 else 1.0 - math.exp(inner) + math.exp(inner) * own
                exact += part * weight * q * own
            else:
                exact += part * weight * -math.expm1(left)
    assert exact * (1.0 - 1e-3) <= poisson_delta_upper_bound(q, z, steps, epsilon) <= 1.02 * exact


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("q", "steps", "epsilon"), [(0.1, 100, 1.0), (0.5, 20, 0.2)])
def test_calibrating_and_accounting_are_inverse(adjacency, q: float, steps: int, epsilon: float) -> None:  # type: ignore[no-untyped-def]
    z = poisson_noise_multiplier(q, steps, epsilon, 1e-5, adjacency)
    spent = poisson_epsilon_upper_bound(q, z, steps, 1e-5, adjacency)
    assert 0.995 * epsilon <= spent <= epsilon * (1.0 + 2e-4)
    half, part = (epsilon, 1e-5) if adjacency == "add_remove" else split_for_replacement(epsilon, 1e-5)
    assert poisson_delta_upper_bound(q, z, steps, half) <= part * (1.0 + 1e-6)
    assert poisson_delta_upper_bound(q, 0.98 * z, steps, half) > part


def test_all_records_are_the_closed_form() -> None:
    z = poisson_noise_multiplier(1.0, 100, 1.0, 1e-5)
    assert z == pytest.approx(10.0 * 3.7306316, rel=1e-7)  # the analytic Gaussian's multiplier, Balle and Wang (2018)
    assert poisson_noise_multiplier(1.0, 100, 1.0, 1e-5, "replace_one") == 2.0 * z
    for adjacency, factor in (("add_remove", 1.0), ("replace_one", 2.0)):
        spent = poisson_epsilon_upper_bound(1.0, factor * z, 100, 1e-5, adjacency)  # type: ignore[arg-type]
        assert spent == pytest.approx(1.0, rel=1e-9)
    assert poisson_delta_upper_bound(1.0, z, 100, 1.0) == pytest.approx(1e-5, rel=1e-6)
    # nearly all records: nearly that, and not more
    assert 0.99 * z < poisson_noise_multiplier(0.999, 100, 1.0, 1e-5) < 1.001 * z


def test_many_sparse_steps_are_nearly_gaussian() -> None:
    """z = q sqrt(T) / mu in the limit (Dong, Roth, Su 2022, section 5.2), here from above and within 2 %."""
    limit = 0.3 * math.sqrt(400.0) / gaussian_mu(0.3, 1e-5)
    assert limit < poisson_noise_multiplier(0.3, 400, 0.3, 1e-5) < 1.02 * limit


def test_noise_falls_with_budget_and_rises_with_steps_and_samples() -> None:
    base = poisson_noise_multiplier(0.2, 10, 1.0, 1e-5)
    assert poisson_noise_multiplier(0.2, 10, 2.0, 1e-5) < base < poisson_noise_multiplier(0.2, 20, 1.0, 1e-5)
    assert base < poisson_noise_multiplier(0.4, 10, 1.0, 1e-5)
    assert base < poisson_noise_multiplier(0.2, 10, 1.0, 1e-5, "replace_one")


def replaced_delta(q: float, z: float, epsilon: float) -> float:
    """One step on two tables whose differing records pull in opposite directions: exact."""
    return hockey_stick(sampled(q, 1.0, z), sampled(q, -1.0, z), epsilon)


def test_replacing_a_record_is_covered_and_the_other_relation_s_noise_does_not_cover_it() -> None:
    q, epsilon, delta = 0.3, 1.0, 1e-3
    assert replaced_delta(q, poisson_noise_multiplier(q, 1, epsilon, delta, "replace_one"), epsilon) <= delta
    assert replaced_delta(q, poisson_noise_multiplier(q, 1, epsilon, delta, "add_remove"), epsilon) > delta


def test_the_split_is_remove_then_add() -> None:
    half, part = split_for_replacement(2.0, 1e-5)
    assert half == 1.0
    assert part * (1.0 + math.e) == pytest.approx(1e-5, rel=1e-9) and part * (1.0 + math.e) <= 1e-5


@pytest.mark.parametrize(("n", "epsilon"), [(2, 1.0), (20, 1.0), (1000, 2.0), (100, 0.1)])
def test_a_single_draw_s_bound_is_between_the_limit_and_the_paper_s_target(n: int, epsilon: float) -> None:
    """The paper's multiplier (over n L) keeps its target with room: reference notes, table of section 1."""
    delta = 1e-6
    paper = math.sqrt(32.0 * math.log(n / delta) * math.log(1.0 / delta)) / epsilon
    bound = single_draw_epsilon_upper_bound(n, paper / 2.0, n * n - 1, delta)
    assert bound < 0.4 * epsilon
    if n >= 100:  # the central limit's 2 / k, which the bound must not undercut
        limit = 2.0 / paper
        assert float(gaussian_delta(limit, bound)) < delta
    # with a thirtieth of the noise the target is not kept
    assert single_draw_epsilon_upper_bound(n, paper / 60.0, n * n - 1, delta) > epsilon


def test_a_single_draw_s_bound_covers_one_step_exactly() -> None:
    """One step, the other records at the one end, the replaced one from the one end to the other."""
    n, z, delta = 4, 1.5, 1e-3
    epsilon = single_draw_epsilon_upper_bound(n, z, 1, delta)
    for first, second in ((1.0, 0.0), (0.0, 1.0)):
        p, q = sampled(1.0 / n, first, z), sampled(1.0 / n, second, z)
        assert hockey_stick(p, q, epsilon) <= delta
    weak = sampled(1.0 / n, 1.0, z / 3.0), sampled(1.0 / n, 0.0, z / 3.0)
    assert hockey_stick(*weak, epsilon) > delta


@pytest.mark.parametrize("q", [0.0, -0.1, 1.1, math.nan, True])
def test_probabilities_outside_their_range_are_named(q: float) -> None:
    with pytest.raises(ValueError, match="sampling_probability"):
        poisson_noise_multiplier(q, 10, 1.0, 1e-5)


def test_other_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="steps"):
        poisson_noise_multiplier(0.1, 0, 1.0, 1e-5)
    with pytest.raises(ValueError, match="noise_multiplier"):
        poisson_delta_upper_bound(0.1, 0.0, 10, 1.0)
    with pytest.raises(ValueError, match="epsilon"):
        poisson_delta_upper_bound(0.1, 1.0, 10, -1.0)
    with pytest.raises(ValueError, match="epsilon"):
        poisson_noise_multiplier(0.1, 10, math.inf, 1e-5)
    with pytest.raises(ValueError, match="delta"):
        poisson_epsilon_upper_bound(0.1, 1.0, 10, 0.0)
    with pytest.raises(ValueError, match="delta >= 1e-09"):
        poisson_noise_multiplier(0.1, 10, 1.0, 1e-10)
    with pytest.raises(ValueError, match="replacing one"):
        poisson_noise_multiplier(0.1, 10, 20.0, 1e-6, "replace_one")
    with pytest.raises(ValueError, match="n_records"):
        single_draw_epsilon_upper_bound(1, 1.0, 10, 1e-5)


@pytest.mark.parametrize("epsilon", [1.0, 0.01])
def test_a_delta_that_pays_for_being_sampled_at_all_ends_the_search(epsilon: float) -> None:
    """With q T = 0.05 and delta = 0.1 no noise is needed; the search for less of it must end."""
    multiplier = poisson_noise_multiplier(0.01, 5, epsilon, 0.1, "add_remove")
    assert multiplier == 0.5
    assert poisson_delta_upper_bound(0.01, multiplier, 5, epsilon) <= 0.1


def test_a_huge_epsilon_is_a_refusal_and_no_overflow() -> None:
    with pytest.raises(ValueError, match="larger delta"):
        poisson_noise_multiplier(0.1, 5, 1e4, 1e-5, "replace_one")
