"""Noisy gradient descent by its outcomes: noise, samples, a distinguishing game, and how the excess risk scales.

Each check of privacy or of a law also convicts a broken mechanism. Runs are seeded, so a red test is red for all.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_epsilon, gaussian_mu
from tasks.classifiers import noisy_sgd as module
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.convex_sets import Ball
from tasks.classifiers.noisy_sgd import noisy_sgd, poisson_sample
from tasks.classifiers.risks import AbsoluteDistance, InnerProduct, SquaredDistance
from tasks.classifiers.step_sizes import excess_risk_upper_bound
from tasks.noise.bits import BitSource, SeededBits
from tests.statistics import ALPHA, chi_square_p_value, hockey_stick_violation

Pull = dict[str, Any]


def run(risk: Any, epsilon: float, seed: int = 0, radius: float = 1.0, delta: float = 1e-5, **options: Any) -> Any:
    options = {"adjacency": "replace_one", "bits": SeededBits(seed), **options}
    return noisy_sgd(risk, Ball.around_zero(risk.dimension, radius), PrivacyBudget(epsilon, delta), **options)


def weakened(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """All noise times `factor`, with nothing else changed."""
    honest: Callable[..., Any] = module.plan_noisy_sgd
    monkeypatch.setattr(
        module,
        "plan_noisy_sgd",
        lambda *arguments: replace(plan := honest(*arguments), noise_multiplier=factor * plan.noise_multiplier),
    )


# --- the noise --------------------------------------------------------------------------------------------------------


def variance_p_value(values: np.ndarray, deviation: float) -> float:
    """Two-sided, of the chi-square law of the sum of squares of centred normal values."""
    statistic = float(np.sum(values**2)) / deviation**2
    tail = min(special.chdtr(values.size, statistic), special.chdtrc(values.size, statistic))
    return 2.0 * float(tail)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # 2 L sqrt(T) / (mu n), with the analytic Gaussian's 1 / mu = 3.7306 at (1, 1e-5): Balle and Wang (2018)
        ({}, 2.0 * math.sqrt(4.0) * 3.7306316 / 50.0),
        ({"adjacency": "add_remove"}, math.sqrt(4.0) * 3.7306316 / 50.0),
        # z / (q n): the noise on the sum over the *expected* size of a sample; z by dp_accounting
        ({"sampling_probability": 0.25, "adjacency": "add_remove"}, None),
    ],
    ids=["replace-one", "add-remove", "sampled"],
)
def test_noise_of_the_mean_gradient(options: Pull, expected: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """n = 50 records without any gradient; 4 steps in 3000 coordinates, of which the last step is looked at."""
    risk = InnerProduct(np.zeros((50, 3000)))

    def last_move() -> tuple[np.ndarray, Any]:
        path: list[np.ndarray] = []
        out = run(
            risk, 1.0, radius=1e9, n_steps=4, step_size=1.0, observer=lambda t, theta, _: path.append(theta), **options
        )
        return path[-1] - path[-2], out

    move, out = last_move()
    deviation = out.sampled.noise_multiplier / (0.25 * 50.0) if expected is None else expected
    assert variance_p_value(move, deviation) > ALPHA
    assert stats.kstest(move / deviation, "norm").pvalue > ALPHA
    weakened(monkeypatch, 0.8)
    assert variance_p_value(last_move()[0], deviation) < ALPHA


def test_noise_of_the_paper_s_schedule() -> None:
    """8 records: 63 steps in 200 coordinates; sigma^2 = 32 L^2 n^2 log(n / delta) log(1 / delta) / epsilon^2."""
    sums: list[np.ndarray] = []
    run(InnerProduct(np.zeros((8, 200))), 1.0, schedule="paper", observer=lambda t, _, released: sums.append(released))
    noise = np.concatenate(sums)
    sigma = math.sqrt(32.0 * 64.0 * math.log(8e5) * math.log(1e5))
    assert variance_p_value(noise, sigma) > ALPHA
    assert variance_p_value(noise, 0.8 * sigma) < ALPHA
    assert variance_p_value(noise, sigma * math.sqrt(math.log(8e5) / math.log(1e5))) < ALPHA  # n forgotten in the log


# --- the samples ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Logged(InnerProduct):
    asked: list[np.ndarray] = field(default_factory=list)

    def loss_gradient(self, theta: np.ndarray, records: Any = None) -> np.ndarray:
        self.asked.append(records)
        return super().loss_gradient(theta, records)


def shuffled_sample(n_records: int, probability: float, bits: BitSource) -> np.ndarray:
    """What is often done instead: a fixed number of records."""
    return np.sort(np.argsort(bits.words(n_records))[: round(probability * n_records)])


def samples(n: int, q: float, steps: int) -> np.ndarray:
    """Which records were in which step's sample, shape (steps, n)."""
    risk = Logged(np.zeros((n, 1)))
    noisy_sgd(
        risk,
        Ball.around_zero(1, 1.0),
        PrivacyBudget(math.inf),
        adjacency="add_remove",
        bits=SeededBits(11),
        n_steps=steps,
        sampling_probability=q,
    )
    inside = np.zeros((steps, n), dtype=bool)
    for step, records in enumerate(risk.asked):
        inside[step, records] = True
    return inside


def poisson_p_values(inside: np.ndarray, q: float) -> tuple[float, float, float]:
    """Of the sizes, of each record's frequency, and of pairs of neighbouring records being independent."""
    steps, n = inside.shape
    sizes = chi_square_p_value(inside.sum(axis=1), lambda k: stats.binom.pmf(k, n, q), (0, n))
    often = inside.sum(axis=0)
    records = float(special.chdtrc(n, np.sum((often - steps * q) ** 2) / (steps * q * (1.0 - q))))
    both = int(np.sum(inside[:, 0::2] & inside[:, 1::2]))
    trials = steps * (n // 2)
    pairs = float(stats.binomtest(both, trials, q * q).pvalue)
    return sizes, records, pairs


def test_samples_are_poisson_and_shuffled_ones_are_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 records, 4000 steps, q = 0.3."""
    assert min(poisson_p_values(samples(20, 0.3, 4000), 0.3)) > ALPHA
    monkeypatch.setattr(module, "poisson_sample", shuffled_sample)
    sizes, records, pairs = poisson_p_values(samples(20, 0.3, 4000), 0.3)
    assert sizes < ALPHA and pairs < ALPHA and records > ALPHA
    # one sample for all steps would be convicted by each record's frequency
    kept = poisson_sample(20, 0.3, SeededBits(3))
    monkeypatch.setattr(module, "poisson_sample", lambda *_: kept)
    assert poisson_p_values(samples(20, 0.3, 4000), 0.3)[1] < ALPHA


# --- a game: which of two neighbours was it? --------------------------------------------------------------------------


CLAIM = (0.3, 0.2)
GAMES = 16_000


def played(last: float, seed: int) -> np.ndarray:
    """What each of many steps releases about a table of two records of which the second is `last`, in 2^-20.

    The gradient of a linear loss is the same everywhere, so each step is a game of its own, for which the budget of
    the run is such that a single step has `CLAIM`.
    """
    risk = InnerProduct(np.array([[1.0], [last]]))
    epsilon = gaussian_epsilon(math.sqrt(GAMES) * gaussian_mu(*CLAIM), 1e-5)
    sums: list[float] = []
    run(risk, epsilon, seed, n_steps=GAMES, observer=lambda t, theta, total: sums.append(float(total[0])))
    return np.rint(np.array(sums) * 2.0**20).astype(np.int64)


def test_the_game_is_not_won_beyond_the_claim_and_a_fifth_less_noise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """16,000 games each on tables that differ in one record by 2 L; level 1e-3, and seeded."""
    assert hockey_stick_violation(played(1.0, 1), played(-1.0, 2), *CLAIM) is None
    weakened(monkeypatch, 0.8)
    assert hockey_stick_violation(played(1.0, 1), played(-1.0, 2), *CLAIM) is not None


@pytest.mark.parametrize("steps", [1, 30])
def test_the_exact_profile_is_the_claim_and_no_less_noise_would_do(steps: int) -> None:
    """Sums that differ by 2 L in each of T steps: the profile of N(0, 1) against N(sqrt(T) 2 L / sigma, 1)."""
    out = run(InnerProduct(np.array([[1.0], [-1.0]])), 1.0, n_steps=steps)
    shift = math.sqrt(steps) * 2.0 / out.noise_scale
    assert 0.999e-5 < float(gaussian_delta(shift, 1.0)) <= 1e-5
    assert float(gaussian_delta(shift / 0.8, 1.0)) > 5e-5


# --- utility ----------------------------------------------------------------------------------------------------------


def excess(risk: Any, epsilon: float, least: float, runs: int, **options: Any) -> tuple[float, Any]:
    outs = [run(risk, epsilon, seed=seed, **options) for seed in range(runs)]
    return float(np.mean([risk.value(out.theta) for out in outs])) - least, outs[0]


def median(n: int, p: int) -> AbsoluteDistance:
    points = np.zeros((n, p))
    points[:, 0] = 0.5
    return AbsoluteDistance(points)


def slope(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def test_a_median_s_excess_falls_with_epsilon_and_grows_with_the_root_of_the_dimension() -> None:
    """sqrt(p) / epsilon, section 2 of the paper; 200 equal records, 300 steps, the last iterate, 6 runs each."""
    options: Pull = {"n_steps": 300, "averaging": "last"}
    by_epsilon = [excess(median(200, 16), epsilon, 0.0, 6, **options)[0] for epsilon in (0.5, 1.0, 2.0)]
    assert -1.25 < slope([0.5, 1.0, 2.0], by_epsilon) < -0.65
    by_dimension = [excess(median(200, p), 1.0, 0.0, 6, **options)[0] for p in (4, 16, 64)]
    assert 0.3 < slope([4.0, 16.0, 64.0], by_dimension) < 0.7


def mean_of(n: int) -> SquaredDistance:
    points = np.zeros((n, 8))
    points[:, 0] = 0.3
    return SquaredDistance(points)


def test_a_strongly_convex_excess_falls_with_the_number_of_records() -> None:
    """p / (n epsilon^2): 200, 400, 800 records, 100 steps, 20 runs each."""
    by_records = [excess(mean_of(n), 0.5, 0.0, 20, n_steps=100)[0] for n in (200, 400, 800)]
    assert -1.35 < slope([200.0, 400.0, 800.0], by_records) < -0.65


@pytest.mark.parametrize(
    ("risk", "least"), [(median(200, 16), 0.0), (mean_of(200), 0.0)], ids=["lipschitz", "strongly-convex"]
)
@pytest.mark.parametrize("q", [1.0, 0.5])
def test_the_excess_is_below_its_bound(risk: Any, least: float, q: float) -> None:
    """The mean of 10 runs, against the bound of the expectation with its explicit constants; 100 steps."""
    options: Pull = {"n_steps": 100, "sampling_probability": q, "adjacency": "add_remove"}
    mean, out = excess(risk, 1.0, least, 10, **options)
    assert mean < excess_risk_upper_bound(risk, Ball.around_zero(risk.dimension, 1.0), out.noise_scale, 100, q)


def test_the_bound_is_not_empty() -> None:
    """With far more data than noise it is a fifth of what staying at the centre costs, or less: a linear loss."""
    points = np.zeros((8_000, 4))
    points[:, 0] = 1.0
    risk, ball = InnerProduct(points), Ball.around_zero(4, 1.0)
    mean, out = excess(risk, 1.0, -8_000.0, 3, n_steps=400)
    bound = excess_risk_upper_bound(risk, ball, out.noise_scale, 400)
    assert mean < bound < 0.2 * (risk.value(np.zeros(4)) + 8_000.0)
