"""Localisation: budgets of the stages, the ball that holds the minimiser, accuracy bounds, and the estimator."""

import importlib
import math
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from schemas.events import ApproximateEvent, GaussianEvent
from tasks.accounting.composition import composed_delta
from tasks.accounting.gaussian_profile import gaussian_mu
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.convex_sets import Ball, BallIntersection, Box
from tasks.classifiers.localization import LocalizationClassifier, localization, localize, stage_budgets
from tasks.classifiers.losses import HingeLoss, LogisticLoss
from tasks.classifiers.risks import AbsoluteDistance, MarginRisk, SquaredDistance
from tasks.noise import BitSource, SeededBits
from tests.unit.test_output_perturbation import NO_WEIGHTS, table

module = importlib.import_module("tasks.classifiers.localization")  # the package exports a function of this name


def _points(n: int = 500, p: int = 3) -> SquaredDistance:
    return SquaredDistance(np.random.default_rng(0).uniform(-0.3, 0.5, size=(n, p)))


@pytest.fixture
def fast_norm_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same law from NumPy's generator: the exact sampler is tested by itself and takes 40 ms a draw."""
    rng = np.random.default_rng(11)

    def norm_noise(dimension: int, scale: float, bits: BitSource) -> np.ndarray:
        direction = rng.normal(size=dimension)
        return np.rint(rng.gamma(dimension, scale) * direction / np.linalg.norm(direction)).astype(np.int64)

    monkeypatch.setattr("tasks.classifiers.lattice.norm_noise", norm_noise)


# Budgets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_stages_spend_the_budget(share: float, epsilon: float) -> None:
    first, second = stage_budgets(PrivacyBudget(epsilon), share)
    assert first.epsilon == share * epsilon and first.epsilon + second.epsilon <= epsilon
    whole = PrivacyBudget(epsilon, 1e-6)
    first, second = stage_budgets(whole, share)
    total = math.hypot(first.mu, second.mu)
    assert total <= whole.mu and total == pytest.approx(whole.mu, rel=1e-8)
    assert first.mu == pytest.approx(math.sqrt(share) * whole.mu, rel=1e-8)
    assert composed_delta([first.as_gaussian(), second.as_gaussian()], epsilon) <= 1e-6


def test_a_large_delta_still_gives_budgets() -> None:
    """mu with delta 0.3 and epsilon 0.01 is free of epsilon in parts: the stages ask for a smaller delta."""
    whole = PrivacyBudget(0.01, 0.3)
    first, second = stage_budgets(whole, 0.5)
    assert math.hypot(first.mu, second.mu) <= whole.mu


# The ball -----------------------------------------------------------------------------------------------------------


def test_the_radius_is_that_of_the_closed_form() -> None:
    """p = 3, n = 500, S = 2 * 2 / 500 * 1.02: Gamma(3) at 1e-3 is 11.2289, chi(3) at 1e-3 is sqrt(16.2662)."""
    sensitivity = 4 / 500 * 1.02
    pure = localize(
        _points(), Ball.around_zero(3, 1.0), PrivacyBudget(0.5), adjacency="replace_one", bits=SeededBits(0)
    )
    assert pure.radius == pytest.approx(11.2289 * sensitivity / 0.5 + 0.01 * 4 / 500, rel=1e-4)
    budget = PrivacyBudget(1.0, 1e-6)
    gaussian = localize(_points(), Ball.around_zero(3, 1.0), budget, adjacency="replace_one", bits=SeededBits(0))
    expected = math.sqrt(16.2662) * sensitivity / gaussian_mu(1.0, 1e-6) + 0.01 * 4 / 500
    assert gaussian.radius == pytest.approx(expected, rel=1e-4)
    assert isinstance(gaussian.convex_set, BallIntersection)
    assert gaussian.convex_set.diameter == pytest.approx(2 * gaussian.radius)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.usefixtures("fast_norm_noise")
def test_the_ball_holds_the_minimiser_as_often_as_it_says(delta: float) -> None:
    """400 draws at 20 %: 5.2 standard errors either side; half the radius would miss most of them."""
    risk, bits = _points(), SeededBits(3)
    exact = risk.points.mean(axis=0)
    missed = 0
    for _ in range(400):
        found = localize(
            risk,
            Ball.around_zero(3, 1.0),
            PrivacyBudget(1.0, delta),
            adjacency="replace_one",
            bits=bits,
            failure_probability=0.2,
        )
        missed += int(np.linalg.norm(found.theta - exact) > found.radius)
        assert found.convex_set.contains(found.theta)
    # the radius also covers tolerance and rounding, hence a little fewer misses than 80
    assert 80 - 42 - 8 <= missed <= 80 + 42


def test_a_ball_that_cannot_be_cut_stays() -> None:
    found = localize(
        _points(5), Ball.around_zero(3, 1.0), PrivacyBudget(0.1), adjacency="replace_one", bits=SeededBits(0)
    )
    assert isinstance(found.convex_set, Ball) and found.radius > 2.0


@pytest.mark.parametrize(
    ("convex_set", "text"),
    [
        (Box.cube(3, 1.0), "needs a Ball"),
        (Ball.around_zero(3, 0.9), "a radius of at least 1 about this centre"),
        (Ball(np.array([0.5, 0.0, 0.0]), 1.2), "a radius of at least 1.5"),
        (Ball.around_zero(2, 1.0), "3 parameters, the set 2"),
    ],
)
def test_sets_that_may_miss_the_minimiser_are_refused(convex_set: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        localize(_points(), convex_set, PrivacyBudget(1.0), adjacency="replace_one", bits=SeededBits(0))


def test_other_bad_input() -> None:
    whole, bits = Ball.around_zero(3, 1.0), SeededBits(0)
    with pytest.raises(ValueError, match="failure_probability"):
        localize(_points(), whole, PrivacyBudget(1.0), adjacency="replace_one", bits=bits, failure_probability=1.0)
    with pytest.raises(ValueError, match="no certificate"):
        localize(AbsoluteDistance(np.zeros((4, 3))), whole, PrivacyBudget(1.0), adjacency="replace_one", bits=bits)
    for share in (0.0, 1.0, True):
        with pytest.raises(ValueError, match="share must be in"):
            stage_budgets(PrivacyBudget(1.0), share)


# Both stages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_each_stage_gets_its_own_budget_and_the_first_ones_set(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    name = "noisy_sgd" if delta else "exponential_sample"
    original = getattr(module, name)

    def recorded(risk: Any, convex_set: Any, spent: Any, **options: Any) -> Any:
        seen.update(convex_set=convex_set, spent=spent, adjacency=options["adjacency"])
        return original(risk, convex_set, spent, **options)

    monkeypatch.setattr(module, name, recorded)
    budget = PrivacyBudget(1.0, delta)
    found = localization(
        _points(), Ball.around_zero(3, 1.0), budget, adjacency="add_remove", bits=SeededBits(0), share=0.3
    )
    first, second = stage_budgets(budget, 0.3)
    assert seen["convex_set"] is found.localized.convex_set and seen["adjacency"] == "add_remove"
    assert found.localized.convex_set.contains(found.theta)
    if delta:
        assert seen["spent"] == second
        assert list(found.events) == [first.as_gaussian(), second.as_gaussian()]
        assert composed_delta(found.events, 1.0) <= delta
    else:
        assert seen["spent"] == second.epsilon
        assert list(found.events) == [ApproximateEvent(epsilon=e, delta=0.0) for e in (0.3, second.epsilon)]


@pytest.mark.usefixtures("fast_norm_noise")
def test_excess_risk_is_below_the_bound() -> None:
    """Pure: E excess <= p k / epsilon_2 with k = 2 L ||C_0||, of 30 runs the mean; and it falls like 1 / n."""
    means = {}
    for n in (200, 2000):
        risk, bits = _points(n), SeededBits(1)
        least = risk.value(risk.points.mean(axis=0))
        excess, bounds = [], []
        for _ in range(30):
            found = localization(risk, Ball.around_zero(3, 1.0), PrivacyBudget(2.0), adjacency="replace_one", bits=bits)
            excess.append(risk.value(found.theta) - least)
            bounds.append(3 * 2 * 2.0 * found.localized.convex_set.diameter / 1.0)
        means[n] = np.mean(excess)
        assert means[n] <= np.mean(bounds)
    assert means[2000] < means[200] / 3


def test_infinite_epsilon_is_the_minimiser_itself() -> None:
    risk = _points()
    found = localization(
        risk, Ball.around_zero(3, 1.0), PrivacyBudget(math.inf), adjacency="replace_one", bits=SeededBits(0)
    )
    np.testing.assert_allclose(found.theta, risk.points.mean(axis=0), atol=1e-12)
    assert found.events == ()


def test_a_risk_without_an_exact_sampler_is_refused_before_anything_is_spent() -> None:
    class Refused:
        label = "os-csprng"

        def words(self, n_words: int) -> np.ndarray:
            raise AssertionError("noise was drawn")

    rows, _ = table(100)
    for loss, regularization in ((HingeLoss(), 1.0), (LogisticLoss(), 1e-3)):
        risk = MarginRisk(rows / 4, np.ones((100, 1)), loss, regularization)
        with pytest.raises(ValueError):
            localization(risk, Ball.around_zero(4, 1e4), PrivacyBudget(1.0), adjacency="replace_one", bits=Refused())


# The estimator ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("k", [2, 3])
def test_it_learns_and_says_what_it_cost(delta: float, k: int) -> None:
    X, y = table(3000, k=k)
    fitted = LocalizationClassifier(8.0, delta, random_state=0).fit(X, y)
    assert fitted.score(X, y) > 0.85
    assert fitted.first_coef_.shape == (1 if k == 2 else 3, 5) and fitted.radius_ > 0.0
    guarantee = fitted.guarantee_
    assert guarantee is not None and guarantee.delta == delta and not guarantee.private
    if delta:
        assert all(isinstance(event, GaussianEvent) for event in guarantee.events)
        assert 0.99 * delta < composed_delta(guarantee.events, 8.0) <= delta
    else:
        assert list(guarantee.events) == [ApproximateEvent(epsilon=8.0, delta=0.0)]


def test_each_class_gets_its_part_of_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = []
    original = module.localization

    def recorded(risk: Any, convex_set: Any, budget: PrivacyBudget, **options: Any) -> Any:
        spent.append((risk.n_problems, budget))
        return original(risk, convex_set, budget, **options)

    monkeypatch.setattr(module, "localization", recorded)
    LocalizationClassifier(3.0, 0.0, random_state=0).fit(*table(300, k=3))
    assert spent == [(1, PrivacyBudget(1.0))] * 3


def test_without_noise_and_branding() -> None:
    X, y = table()
    free = LocalizationClassifier(math.inf, 0.0).fit(X, y)
    assert free.guarantee_ is None and free.score(X, y) > 0.9
    private = LocalizationClassifier().fit(X, y).guarantee_
    assert private is not None and private.private


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"loss": "hinge", "delta": 0.0}, "needs delta above 0"),
        ({"share": 1.0}, "share must be in"),
        ({"failure_probability": 0.0}, "failure_probability must be in"),
        ({"n_steps": 0}, "n_steps"),
        ({"tolerance": -1.0}, "tolerance must be in"),
        ({"regularization": 1e-3, "delta": 0.0}, "regularization"),
        ({"data_norm": None}, "needs a data_norm"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LocalizationClassifier(random_state=0, **changes).fit(*table())


def test_scikit_learns_checks() -> None:
    """Without noise, which these checks do not look at and which takes time."""
    check_estimator(LocalizationClassifier(math.inf, random_state=0), expected_failed_checks=NO_WEIGHTS, on_skip=None)
