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
from tasks.classifiers import exact_losses, localized_risks
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import minimiser_norm_bound
from tasks.classifiers.convex_sets import Ball, BallIntersection, Box
from tasks.classifiers.exact_losses import ExactLosses
from tasks.classifiers.localization import (
    LocalizationClassifier,
    by_public_numbers,
    localization,
    localize,
    stage_budgets,
)
from tasks.classifiers.losses import HingeLoss, LogisticLoss
from tasks.classifiers.noisy_sgd_plan import plan_noisy_sgd
from tasks.classifiers.range_bounds import range_bound_of
from tasks.classifiers.risks import AbsoluteDistance, MarginRisk, SquaredDistance, total_strong_convexity
from tasks.classifiers.step_sizes import step_sizes
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


class Refused:
    label = "os-csprng"

    def words(self, n_words: int) -> np.ndarray:
        raise AssertionError("noise was drawn")


@pytest.mark.parametrize("p", [2, 3])
def test_a_share_too_small_for_sampling_is_refused_before_anything_is_spent(p: int) -> None:
    budget = PrivacyBudget(2.0**-16)
    with pytest.raises(ValueError, match="at least 2\\^-16"):
        localization(_points(p=p), Ball.around_zero(p, 1.0), budget, adjacency="replace_one", bits=Refused())


def test_a_risk_without_an_exact_sampler_is_refused_before_anything_is_spent() -> None:
    rows, _ = table(100)
    for loss, regularization in ((HingeLoss(), 1.0), (LogisticLoss(), 1e-3)):
        risk = MarginRisk(rows / 4, np.ones((100, 1)), loss, regularization)
        with pytest.raises(ValueError):
            localization(risk, Ball.around_zero(4, 1e4), PrivacyBudget(1.0), adjacency="replace_one", bits=Refused())


@pytest.mark.usefixtures("fast_norm_noise")
def test_exponential_sampling_has_a_ball_of_its_own_and_keeps_its_acceptance() -> None:
    """p = 60: C would hold next to nothing of the ball about theta_0; few proposals are needed all the same."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, 60))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-15)
    risk = MarginRisk(rows, np.where(rows[:, :1] > 0.0, 1.0, -1.0), LogisticLoss(), 0.1)
    whole = Ball.around_zero(60, minimiser_norm_bound(risk))
    proposals = []
    original = module.exponential_sample

    def recorded(*arguments: Any, **options: Any) -> Any:
        drawn = original(*arguments, **options)
        proposals.append(drawn.details["n_proposals"])
        return drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "exponential_sample", recorded)
        for seed in range(4):
            found = localization(risk, whole, PrivacyBudget(30.0), adjacency="replace_one", bits=SeededBits(seed))
            assert isinstance(found.localized.convex_set, Ball)
            assert found.localized.convex_set.radius == found.localized.radius < whole.radius
    assert max(proposals) < 100


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.usefixtures("fast_norm_noise")
def test_the_second_stage_knows_how_long_its_parameters_may_be(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """|theta - d|^2 / 2 is Lipschitz up to a norm only: that of the released set, whatever was given before."""
    risk = SquaredDistance(_points().points, point_norm=1.0, parameter_norm=1e-3)
    name = "noisy_sgd" if delta else "exponential_sample"
    original = getattr(module, name)
    seen = []

    def recorded(risk: Any, convex_set: Any, *arguments: Any, **options: Any) -> Any:
        seen.append((risk, convex_set))
        return original(risk, convex_set, *arguments, **options)

    monkeypatch.setattr(module, name, recorded)
    localization(risk, Ball.around_zero(3, 1.0), PrivacyBudget(1.0, delta), adjacency="replace_one", bits=SeededBits(0))
    ((inner, convex_set),) = seen
    ball = convex_set if delta == 0.0 else convex_set.second
    longest = min(float(np.linalg.norm(ball.centre)) + ball.radius, 1.0 if delta else math.inf)
    assert inner.lipschitz == pytest.approx(1.0 + longest) and inner.lipschitz >= 1.0 + longest


@pytest.mark.parametrize(("p", "n", "regularization", "epsilon"), [(3000, 20, 1.0, 1.0), (3600, 100, 0.1, 1000.0)])
def test_dimensions_that_exact_sampling_cannot_reach_are_refused_before_anything_is_drawn(
    p: int, n: int, regularization: float, epsilon: float
) -> None:
    """Also where a ball about 0 would do, but not one as far away as theta_0 may come out."""
    risk = MarginRisk(np.eye(p)[:n], np.ones((n, 1)), LogisticLoss(), regularization)
    whole = Ball.around_zero(p, minimiser_norm_bound(risk))
    with pytest.raises(ValueError, match="take a smaller share"):
        localization(risk, whole, PrivacyBudget(epsilon), adjacency="replace_one", bits=Refused())


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [3.0, 300.0])
@pytest.mark.usefixtures("fast_norm_noise")
def test_what_is_not_refused_before_is_not_refused_after(adjacency: Any, epsilon: float) -> None:
    """In dimensions about the largest that are taken: whatever theta_0 comes out, the second stage samples."""
    taken = 0
    for p in (200, 500, 800, 1200, 2000):
        rows = np.eye(p)[:100]
        risk = MarginRisk(rows, np.ones((100, 1)), LogisticLoss(), 1.0)
        whole = Ball.around_zero(p, minimiser_norm_bound(risk))
        try:
            found = localization(risk, whole, PrivacyBudget(epsilon), adjacency=adjacency, bits=SeededBits(p))
        except ValueError as refused:
            assert "take a smaller share" in str(refused)
        else:
            taken += 1
            assert found.localized.convex_set.contains(found.theta)
    assert epsilon == 3.0 or 0 < taken


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("n", [30, 400])
@pytest.mark.usefixtures("fast_norm_noise")
def test_tables_too_large_for_rounding_are_refused_before_anything_is_drawn(
    adjacency: Any, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits about n (p + 16): with each the sampler takes what comes out of the first stage, or nothing was drawn."""

    started = []

    def recorded(*arguments: Any, **options: Any) -> Any:
        started.append(True)
        return localize(*arguments, **options)

    monkeypatch.setattr(module, "localize", recorded)
    taken = []
    for risk in (_points(n), MarginRisk(_points(n).points, np.ones((n, 1)), LogisticLoss(), 0.5)):
        whole = Ball.around_zero(3, minimiser_norm_bound(risk))
        for share in (0.1, 0.5, 0.9):
            for limit in n * 19 * 1.5 ** np.arange(-4, 6):
                for of in (exact_losses, localized_risks):
                    monkeypatch.setattr(of, "MOST_ROUNDINGS", limit)
                started.clear()
                try:
                    localization(risk, whole, PrivacyBudget(3.0), adjacency=adjacency, bits=SeededBits(5), share=share)
                except ValueError as refused:
                    assert not started and "pay for rounding" in str(refused)
                taken.append(bool(started))
    assert {True, False} == set(taken)


@pytest.mark.parametrize("p", [2, 3])
def test_too_many_records_are_refused_before_anything_is_drawn(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.classifiers.exact_losses.MOST_RECORDS", 499)
    with pytest.raises(ValueError, match="got 500"):
        localization(
            _points(p=p), Ball.around_zero(p, 1.0), PrivacyBudget(1.0), adjacency="replace_one", bits=Refused()
        )


def test_bad_steps_of_the_second_stage_are_refused_before_anything_is_drawn() -> None:
    budget = PrivacyBudget(1.0, 1e-5)
    with pytest.raises(ValueError, match="n_steps"):
        localization(_points(), Ball.around_zero(3, 1.0), budget, adjacency="replace_one", bits=Refused(), n_steps=0)


@pytest.mark.parametrize(("delta", "public_size"), [(0.0, 7), (0.0, 27), (1e-5, 7), (1e-5, 40000)])
@pytest.mark.usefixtures("fast_norm_noise")
def test_public_numbers_do_not_tell_the_number_of_records(
    delta: float, public_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit: attributes, guarantee, and the constants and steps that the second stage is run with."""
    seen: list[Any] = []
    name = "noisy_sgd" if delta else "exponential_sample"
    original = getattr(module, name)

    def recorded(risk: Any, convex_set: Any, spent: Any, **options: Any) -> Any:
        steps = []
        if delta:
            assert risk.n_records == 4 * public_size
            plan = plan_noisy_sgd(risk, spent, "add_remove", "practical", 10, 1.0)
            sizes = step_sizes(risk, convex_set, plan, None)
            steps = [plan.noise_scale, *(sizes(t) for t in range(1, 10))]
        else:  # of a set that does not depend on the noise
            ball = Ball(np.ones(5), convex_set.radius)
            steps = [range_bound_of(risk, ball, "add_remove"), ExactLosses(risk, ball).range_excess("add_remove")]
        seen.append((convex_set.diameter, spent, risk.lipschitz, total_strong_convexity(risk), steps))
        return original(risk, convex_set, spent, **options)

    monkeypatch.setattr(module, name, recorded)
    for n in (27, 28):
        fitted = LocalizationClassifier(
            5.0, delta, adjacency="add_remove", public_size=public_size, n_steps=5, classes=range(2), random_state=0
        ).fit(*table(n))
        seen[-1] = (*seen[-1], fitted.radius_, fitted.guarantee_)
    assert seen[0] == seen[1]
    assert seen[0][-1] is not None and any("public_size was chosen" in text for text in seen[0][-1].assumptions)


def test_gradient_descent_rounds_for_a_public_number_of_records() -> None:
    """Noise and steps are the same for 2^15 records and one more, although a sum of those is allowed more rounding."""
    seen = []
    for n in (2**15, 2**15 + 1):
        risk = MarginRisk(np.ones((n, 1)), np.ones((n, 1)), LogisticLoss(), 0.1, public_size=2**14 + 3)
        public, ball = by_public_numbers(risk), Ball.around_zero(1, 1.0)
        plan = plan_noisy_sgd(public, PrivacyBudget(1.0, 1e-5), "add_remove", "practical", 10, 1.0)
        sizes = step_sizes(public, ball, plan, "strongly-convex")
        seen.append((plan.noise_scale, sizes(1), sizes(7)))
        assert sizes(1) == pytest.approx(1.0 / (0.1 * (2**14 + 3)))
        assert public.value(np.ones(1)) == risk.value(np.ones(1))
        assert public.n_records * public.strong_convexity == pytest.approx(total_strong_convexity(risk))
    assert seen[0] == seen[1]


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
        ({"public_size": math.inf}, "public_size must be a whole number"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LocalizationClassifier(random_state=0, **changes).fit(*table())


def test_scikit_learns_checks() -> None:
    """Without noise, which these checks do not look at and which takes time."""
    check_estimator(LocalizationClassifier(math.inf, random_state=0), expected_failed_checks=NO_WEIGHTS, on_skip=None)
