"""Objective perturbation: exact densities by quadrature against the bounds, the split, the inexact minimiser."""

import importlib
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.utils.estimator_checks import check_estimator

from schemas.events import ApproximateEvent
from schemas.learning import Adjacency
from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_mu
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.objective_perturbation import (
    ObjectivePerturbationClassifier,
    ObjectivePlan,
    objective_perturbation,
    plan_objective,
)
from tasks.classifiers.objective_profile import determinant_loss, gaussian_shift, objective_delta
from tasks.classifiers.risks import MarginRisk, SquaredDistance
from tasks.classifiers.solver import Minimum, NotCertifiedError
from tasks.noise import SeededBits
from tests.unit.test_output_perturbation import NO_WEIGHTS, table

module = importlib.import_module("tasks.classifiers.objective_perturbation")  # the package exports its function
FloatArray = np.ndarray
EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0, 4.0)


class _Rank1(MarginRisk):
    """A risk that hides how many classes there are."""

    hessian_rank = 1


class _ShortGradients(MarginRisk):
    n_problems = 1


def _risk(k: int = 1, loss: MarginLoss | None = None, kind: type[MarginRisk] = MarginRisk) -> MarginRisk:
    return kind(np.zeros((1, 1)), np.ones((1, k)), LogisticLoss() if loss is None else loss, 1.0)


# Exact densities -----------------------------------------------------------------------------------------------------


def _log_density_1d(rows: list[float], lam: float, scale: float, theta: FloatArray, *, gaussian: bool) -> FloatArray:
    """Of the minimiser of logistic losses of signed rows u (margins u theta), by the change of variables to b."""
    b = -sum((-u * expit(-u * theta) for u in rows), lam * theta)
    slope = sum((u * u * expit(u * theta) * expit(-u * theta) for u in rows), np.full_like(theta, lam))
    noise = -0.5 * (b / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi))
    if not gaussian:
        noise = -np.abs(b) / scale - math.log(2 * scale)
    return np.asarray(noise + np.log(slope))


def _exact_delta(on_first: FloatArray, on_second: FloatArray, epsilon: float, cell: float) -> float:
    return float(np.sum(np.clip(np.exp(on_first) - np.exp(epsilon + on_second), 0.0, None))) * cell


ADDED = [([1.0], []), ([], [1.0]), ([], [0.3])]
REPLACED = [([1.0], [-1.0]), ([-1.0], [1.0]), ([1.0], [0.2]), ([1.0], [-0.3])]


@pytest.mark.parametrize("lam", [0.1, 0.5, 5.0])
@pytest.mark.parametrize("scale", [0.5, 2.0, 4.0])
def test_one_dimension_exact_delta_is_below_the_bound(lam: float, scale: float) -> None:
    """Quadrature at 4e4 points; data of 0, 2 and 10 records besides the one that differs."""
    theta = np.linspace(-(13 * scale + 12) / lam, (13 * scale + 12) / lam, 40_001)
    cell = float(theta[1] - theta[0])
    a = determinant_loss(0.25, lam, 1)
    closest = 0.0
    for parts, pairs in ((1, ADDED), (2, REPLACED)):
        for shared in ([], [1.0] * 2, [1.0] * 5 + [-1.0] * 5):
            for first, second in pairs:
                both = [_log_density_1d(shared + own, lam, scale, theta, gaussian=True) for own in (first, second)]
                assert float(np.sum(np.exp(both[0]))) * cell == pytest.approx(1.0, abs=1e-3)
                for epsilon in EPSILONS:
                    if epsilon < a:
                        continue
                    bound = objective_delta(epsilon - a, 1.0 / scale, 1, parts)
                    exact = _exact_delta(both[0], both[1], epsilon, cell)
                    assert exact <= bound + 1e-9
                    closest = max(closest, exact / bound if bound > 1e-6 else 0.0)
    assert closest < 1.0


def test_without_the_determinant_the_bound_is_refuted() -> None:
    """lam = 0.05, s = 8, no other record: nearly all of the loss is the determinant's."""
    theta = np.linspace(-2400.0, 2400.0, 100_001)
    first, second = (_log_density_1d(own, 0.05, 8.0, theta, gaussian=True) for own in ([1.0], []))
    exact = _exact_delta(first, second, 1.0, float(theta[1] - theta[0]))
    assert exact > 0.02 and objective_delta(1.0, 1.0 / 8.0, 1, 1) < 1e-10
    a = determinant_loss(0.25, 0.05, 1)
    assert a > 1.0  # so no bound is claimed for epsilon = 1


def _log_density_2d(
    rows: FloatArray, weights: FloatArray, lam: float, scale: float, grid: FloatArray, *, gaussian: bool
) -> FloatArray:
    """As in one dimension; rows (m, 2) are signed and count `weights` times; grid (..., 2)."""
    margins = grid @ rows.T
    b = -(lam * grid - (weights * expit(-margins)) @ rows)
    curvature = weights * expit(margins) * expit(-margins)
    h11, h12, h22 = (curvature @ (rows[:, i] * rows[:, j]) for i, j in ((0, 0), (0, 1), (1, 1)))
    determinant = (lam + h11) * (lam + h22) - h12**2
    if gaussian:
        noise = -0.5 * np.sum(b * b, axis=-1) / scale**2 - math.log(2 * math.pi * scale**2)
    else:
        noise = -np.linalg.norm(b, axis=-1) / scale - math.log(2 * math.pi * scale**2)
    return np.asarray(noise + np.log(determinant))


def _opposed(lam: float, scale: float, *, gaussian: bool) -> tuple[FloatArray, FloatArray, float]:
    """Two rows on whose side theta never is, nearly opposite: their gradients differ by 2 cos(0.4) = 1.84 of L.

    A crowd of records along (0, -1) holds theta at about (0, -12).
    """
    alpha = 0.4
    crowd = np.array([0.0, -1.0])
    one, other = np.array([math.cos(alpha), math.sin(alpha)]), np.array([-math.cos(alpha), math.sin(alpha)])
    y = np.linspace(-16.0, -8.0, 300)
    x = np.linspace(-9 * scale / lam, 9 * scale / lam, 300)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    weights = np.array([lam * 12.0 * math.exp(12.0), 1.0])
    first, second = (
        _log_density_2d(np.stack([crowd, row]), weights, lam, scale, grid, gaussian=gaussian) for row in (one, other)
    )
    return first, second, float((x[1] - x[0]) * (y[1] - y[0]))


def test_replacing_a_record_in_two_dimensions_needs_the_factor_two() -> None:
    lam, scale = 2.0, 3.0
    first, second, cell = _opposed(lam, scale, gaussian=True)
    assert float(np.sum(np.exp(first))) * cell == pytest.approx(1.0, abs=0.05)
    a = determinant_loss(0.25, lam, 1)
    exact = _exact_delta(first, second, 0.3, cell)
    assert exact <= objective_delta(0.3 - a, 1.0 / scale, 1, 2)
    assert exact > 1.2 * objective_delta(0.3 - a, 1.0 / scale, 1, 1)  # one part is refuted


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_pure_replacing_a_record_in_two_dimensions(epsilon: float) -> None:
    """The density ratio of the plan's law on a grid: below epsilon, and above it with half the noise."""
    risk = MarginRisk(np.zeros((1, 2)), np.ones((1, 1)), LogisticLoss(), 1.0)
    plan = plan_objective(risk, PrivacyBudget(epsilon), adjacency="replace_one", regularization=2.0, target_norm=0.01)
    worst = []
    for scale in (plan.noise_scale, plan.noise_scale / 2):
        first, second, _ = _opposed(plan.regularization, scale, gaussian=False)
        worst.append(float(np.max(np.abs(first - second))))
    assert worst[0] <= epsilon < worst[1]


def test_pure_two_classes_need_the_rank() -> None:
    """Rows in one dimension, two classes, no shared record: theta in R^2, the determinant counts twice."""
    epsilon, axis = 0.3, np.linspace(-6.0, 6.0, 241)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    worst = {}
    for kind in (MarginRisk, _Rank1):
        plan = plan_objective(
            _risk(2, kind=kind), PrivacyBudget(epsilon), adjacency="add_remove", regularization=1e-6, target_norm=1e6
        )
        b = -plan.regularization * grid
        moved = b + expit(-grid)  # margins theta_j, so minus the gradient of the one record
        ratio = (np.linalg.norm(b, axis=-1) - np.linalg.norm(moved, axis=-1)) / plan.noise_scale
        ratio += np.sum(np.log1p(expit(grid) * expit(-grid) / plan.regularization), axis=-1)
        worst[kind] = float(np.max(np.abs(ratio)))
    assert 0.8 * epsilon < worst[MarginRisk] <= epsilon
    assert worst[_Rank1] > 1.5 * epsilon


def test_several_classes_gaussian_against_the_exact_sum_of_losses() -> None:
    """Rows in one dimension: the classes' minimisers are independent, so exact losses add up; k = 3."""
    lam, scale, epsilon = 20.0, 3.0, 0.5
    theta = np.linspace(-4.5, -1.5, 161)
    crowd = [-1.0] * 1200  # holds theta at -3, where the record that differs has nearly all of its slope
    first, second = (_log_density_1d(crowd + own, lam, scale, theta, gaussian=True) for own in ([1.0], []))
    p, loss = np.exp(first) * (theta[1] - theta[0]), first - second
    assert float(np.sum(p)) == pytest.approx(1.0, abs=1e-3)
    total = loss[:, None, None] + loss[None, :, None] + loss[None, None, :]
    mass = p[:, None, None] * p[None, :, None] * p[None, None, :]
    exact = float(np.sum(mass * -np.expm1(np.minimum(0.0, epsilon - total))))
    a = determinant_loss(0.25, lam, 3)
    assert 0.0 < exact <= objective_delta(epsilon - a, 1.0 / scale, 3, 1)
    assert exact > objective_delta(epsilon - a, 1.0 / scale, 1, 1)  # one class's bound is refuted


# The profile ---------------------------------------------------------------------------------------------------------


def test_one_problem_is_the_closed_form() -> None:
    assert objective_delta(1.0, 0.3, 1, 1) == pytest.approx(float(gaussian_delta(0.3, 1.0)))
    pair = float(gaussian_delta(0.6, 1.0)) + 2 * float(gaussian_delta(0.3, 1.0))
    assert objective_delta(1.0, 0.3, 1, 2) == pytest.approx(pair)


@pytest.mark.parametrize(("k", "parts"), [(1, 1), (1, 2), (2, 1), (3, 2), (10, 2)])
def test_shift_inverts_delta(k: int, parts: int) -> None:
    t = gaussian_shift(1.0, 1e-5, k, parts)
    assert objective_delta(1.0, t, k, parts) <= 1e-5 < objective_delta(1.0, t * (1 + 1e-7), k, parts)
    # never less noise than one Gaussian release of all gradients, and not much more
    ideal = gaussian_mu(1.0, 1e-5) / (parts * math.sqrt(k))
    assert 0.83 * ideal < t <= ideal * (1 + 1e-9)


def test_the_convolution_is_an_upper_bound_by_simulation() -> None:
    """4e5 draws of the sum of three positive parts; standard error below 0.5 %, the grid rounds up by less than 2 %."""
    t, epsilon = 0.7, 0.4
    z = np.random.default_rng(0).normal(size=(400_000, 3))
    total = np.sum(np.maximum(0.0, t * z + t * t / 2), axis=1)
    simulated = float(np.mean(-np.expm1(np.minimum(0.0, epsilon - total))))
    assert simulated * 0.985 <= objective_delta(epsilon, t, 3, 1) <= simulated * 1.02


def test_tiny_deltas_fall_back_on_chernoff() -> None:
    assert 0.0 < objective_delta(8.0, 0.3, 4, 1) < 1e-12


# Plan and minimiser --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_the_parts_add_up_to_the_budget(delta: float, adjacency: Adjacency, k: int, epsilon: float) -> None:
    plan = plan_objective(_risk(k), PrivacyBudget(epsilon, delta), adjacency=adjacency, regularization=0.1)
    parts = 2 if adjacency == "replace_one" else 1
    assert plan.determinant_loss >= k * math.log1p(0.25 / plan.regularization)
    if delta:
        own_epsilon = plan.determinant_loss + plan.noise_epsilon
        own_delta = objective_delta(plan.noise_epsilon, 1.0 / plan.noise_scale, k, parts)
    else:
        own_epsilon = plan.determinant_loss + parts * math.sqrt(k) / plan.noise_scale
        own_delta = 0.0
    assert 0.9 * epsilon < own_epsilon + plan.released.epsilon <= epsilon
    assert own_delta + plan.released.delta <= delta


def test_the_split_is_the_best_of_its_bound() -> None:
    """(lam / 2) B^2 + 2 B E|b|: other regularizers are worse."""

    def bound(least: float) -> float:
        plan = plan_objective(_risk(), PrivacyBudget(1.0), adjacency="replace_one", regularization=least)
        return 0.5 * plan.regularization + 2.0 * plan.noise_scale

    best = bound(1e-9)
    assert best < bound(3.0) and best < bound(10.0)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_released_point_is_the_minimiser_up_to_its_small_noise(delta: float) -> None:
    """b is drawn again from the same seed; what is released moves by less than b's size."""
    X, y = table(200)
    rows = X / 3.0
    risk = MarginRisk(rows, np.where(y == 1, 1.0, -1.0)[:, None], LogisticLoss(), 1.0)
    plan = plan_objective(risk, PrivacyBudget(1.0, delta), adjacency="replace_one", regularization=1.0)
    theta = objective_perturbation(risk, plan, SeededBits(5))
    whole = MarginRisk(rows, risk.signs, risk.loss, plan.regularization / 200)
    b = -whole.gradient(theta)
    size = plan.noise_scale * (1.0 if plan.gaussian else 2.0)
    assert 0.2 * size < np.linalg.norm(b) < 8 * size
    # Only the last release differs between two tolerances; b is the same from the same seed
    finer = ObjectivePlan(**{**plan.__dict__, "gradient_tolerance": plan.gradient_tolerance / 1000})
    b_finer = -whole.gradient(objective_perturbation(risk, finer, SeededBits(5)))
    assert 0.0 < np.linalg.norm(b - b_finer) < 0.7 * size


class _Refused:
    label = "os-csprng"

    def words(self, n_words: int) -> np.ndarray:
        raise AssertionError("noise was drawn")


def test_a_solver_that_does_not_arrive_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(200)
    risk = MarginRisk(X / 3, np.where(y == 1, 1.0, -1.0)[:, None], LogisticLoss(), 1.0)
    plan = plan_objective(risk, PrivacyBudget(1.0, 1e-5), adjacency="replace_one", regularization=1.0)
    monkeypatch.setattr("tasks.classifiers.certified.minimise", lambda *_, **__: Minimum(np.zeros(4), 50.0, 50.0))
    with pytest.raises(NotCertifiedError, match="nothing was released"):
        objective_perturbation(risk, plan, SeededBits(0))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_tolerance_below_the_doubles_own_is_refused_for_every_table_and_every_draw(delta: float) -> None:
    texts = set()
    for seed in range(3):
        X, y = table(200, seed=seed)
        risk = MarginRisk(X / 4, np.where(y == 1, 1.0, -1.0)[:, None], LogisticLoss(), 1.0)
        plan = plan_objective(
            risk, PrivacyBudget(1.0, delta), adjacency="replace_one", regularization=1.0, tolerance=1e-16
        )
        with pytest.raises(ValueError, match="less than doubles can certify") as caught:
            objective_perturbation(risk, plan, SeededBits(seed))
        texts.add(str(caught.value))
    assert len(texts) == 1


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-10])
def test_the_last_noise_is_for_two_distances_from_the_ideal_minimiser(
    delta: float, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours lie on both sides: twice the distance that the solver and the lattice of b may be off.

    The second tolerance is so small that the rounding of b, half a step in each coordinate, counts.
    """
    X, y = table(200)
    risk = MarginRisk(X / 3, np.where(y == 1, 1.0, -1.0)[:, None], LogisticLoss(), 1.0)
    plan = plan_objective(
        risk, PrivacyBudget(1.0, delta), adjacency="replace_one", regularization=100.0, tolerance=tolerance
    )
    sensitivities, spacings = [], []
    original, law, drawn = module.lattice_for, module.LatticeGaussian, module.norm_noise

    def lattice(dimension: int, sensitivity: float, relative_noise: float) -> Any:
        sensitivities.append(sensitivity)
        return original(dimension, sensitivity, relative_noise)

    def gaussian(deviation: float) -> Any:
        spacings.append(plan.noise_scale / deviation)
        return law(deviation)

    def norm(dimension: int, scale: float, bits: Any) -> Any:
        spacings.append(plan.noise_scale / scale)
        return drawn(dimension, scale, bits)

    monkeypatch.setattr(module, "lattice_for", lattice)
    monkeypatch.setattr(module, "LatticeGaussian", gaussian)
    monkeypatch.setattr(module, "norm_noise", norm)
    objective_perturbation(risk, plan, SeededBits(0))
    rounding = 0.5 * math.sqrt(4) * spacings[0]
    assert tolerance > 1e-10 or rounding > 0.5 * plan.gradient_tolerance
    assert sensitivities[0] >= 2.0 * (plan.gradient_tolerance + rounding) / plan.regularization


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_what_is_refused_does_not_depend_on_the_draw(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of |b| that doubles are asked about is public, and holds."""
    X, y = table(200)
    risk = MarginRisk(X / 3, np.where(y == 1, 1.0, -1.0)[:, None], LogisticLoss(), 1.0)
    plan = plan_objective(risk, PrivacyBudget(1.0, delta), adjacency="replace_one", regularization=1.0)
    seen = []

    def recorded(whole: Any, tolerance: float, b: np.ndarray, *, linear_bound: float) -> Minimum:
        seen.append(linear_bound)
        assert np.linalg.norm(b) <= linear_bound < 200.0 * plan.noise_scale
        return Minimum(np.zeros(4), 0.0, 0.0)

    monkeypatch.setattr(module, "certified_minimum", recorded)
    for seed in range(3):
        objective_perturbation(risk, plan, SeededBits(seed))
    assert len(set(seen)) == 1


@pytest.mark.parametrize(("epsilon", "delta"), [(1e6, 0.0), (800.0, 1e-5)])
def test_epsilons_that_need_no_noise_to_speak_of(epsilon: float, delta: float) -> None:
    X, y = table(200)
    fitted = ObjectivePerturbationClassifier(epsilon, delta, random_state=0).fit(X, y)
    assert fitted.plan_.regularization == 200 * 1e-4 and fitted.score(X, y) > 0.95


@pytest.mark.parametrize(("public_size", "delta"), [(7, 1e-5), (100, 0.0)])
def test_public_numbers_do_not_tell_the_number_of_records(public_size: int, delta: float) -> None:
    seen = []
    for n in (27, 28):
        fitted = ObjectivePerturbationClassifier(
            1.0,
            delta,
            regularization=1.0,
            adjacency="add_remove",
            public_size=public_size,
            classes=range(2),
            random_state=0,
        ).fit(*table(n))
        seen.append((fitted.plan_, fitted.guarantee_))
    assert seen[0] == seen[1]
    guarantee = seen[0][1]
    assert guarantee is not None and any("public_size was chosen" in text for text in guarantee.assumptions)


def test_the_tolerance_is_paid_for() -> None:
    """A thousand times the tolerance, a thousand times the last noise: 0.5 of b's size in gradient units."""
    X, y = table(200)
    risk = MarginRisk(X / 3, np.where(y == 1, 1.0, -1.0)[:, None], LogisticLoss(), 1.0)
    off = []
    for tolerance in (1e-4, 1e-1):
        plan = plan_objective(
            risk, PrivacyBudget(1.0, 1e-5), adjacency="replace_one", regularization=100.0, tolerance=tolerance
        )
        exact = plan_objective(
            risk, PrivacyBudget(1.0, 1e-5), adjacency="replace_one", regularization=100.0, tolerance=1e-7
        )
        both = [objective_perturbation(risk, one, SeededBits(1)) for one in (plan, exact)]
        off.append(float(np.linalg.norm(both[0] - both[1])))
        last = 2.0 * plan.gradient_tolerance / plan.regularization / plan.released.mu * 2.0  # sqrt(p) = 2
        assert 0.3 * last < off[-1] < 3.0 * last
    assert off[1] > 300 * off[0]


def test_losses_without_a_second_derivative_and_other_risks_are_refused() -> None:
    budget = PrivacyBudget(1.0, 1e-5)
    with pytest.raises(ValueError, match="bounded second derivative"):
        plan_objective(_risk(loss=HingeLoss()), budget, adjacency="replace_one", regularization=1.0)
    with pytest.raises(ValueError, match="MarginRisk"):
        plan_objective(
            SquaredDistance(np.zeros((2, 2))),  # type: ignore[arg-type]
            budget,
            adjacency="replace_one",
            regularization=1.0,
        )
    for name in ("regularization", "target_norm"):
        with pytest.raises(ValueError, match=f"{name} must be in"):
            plan_objective(_risk(), budget, adjacency="replace_one", **{"regularization": 1.0, name: 0.0})
    with pytest.raises(ValueError, match="need epsilon >= 0"):
        objective_delta(-1.0, 1.0, 1, 1)
    with pytest.raises(ValueError, match="regularization must be above 0"):
        determinant_loss(0.25, 0.0, 1)


def test_huberised_hinge_has_its_own_curvature() -> None:
    plans = [
        plan_objective(
            _risk(loss=HuberisedHingeLoss(h)), PrivacyBudget(1.0), adjacency="replace_one", regularization=0.1
        )
        for h in (0.5, 0.05)
    ]
    for plan, beta in zip(plans, (1.0, 10.0), strict=True):
        assert plan.determinant_loss == pytest.approx(math.log1p(beta / plan.regularization), rel=1e-9)


# The estimator -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("k", [2, 3])
def test_it_learns_and_says_what_it_cost(delta: float, k: int) -> None:
    X, y = table(2000, k=k)
    fitted = ObjectivePerturbationClassifier(6.0, delta, random_state=0).fit(X, y)
    assert fitted.score(X, y) > 0.9
    guarantee = fitted.guarantee_
    assert guarantee is not None and guarantee.randomness == "seeded (not private)"
    assert list(guarantee.events) == [ApproximateEvent(epsilon=6.0, delta=delta)] and guarantee.delta == delta
    assert fitted.plan_.determinant_loss == pytest.approx(
        (1 if k == 2 else k) * math.log1p(0.25 / fitted.plan_.regularization)
    )


def test_without_noise_and_branding() -> None:
    X, y = table()
    free = ObjectivePerturbationClassifier(math.inf).fit(X, y)
    assert free.guarantee_ is None and free.score(X, y) > 0.95
    private = ObjectivePerturbationClassifier().fit(X, y).guarantee_
    assert private is not None and private.private


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"loss": "hinge"}, "bounded second derivative"),
        ({"regularization": 0.0}, "regularization must be in"),
        ({"target_norm": 0.0}, "target_norm must be in"),
        ({"tolerance": 0.0}, "tolerance must be in"),
        ({"public_size": -1}, "public_size"),
        ({"public_size": math.inf}, "public_size must be a whole number"),
        ({"data_norm": None}, "needs a data_norm"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ObjectivePerturbationClassifier(random_state=0, **changes).fit(*table())


def test_scikit_learns_checks() -> None:
    """Without noise, which these checks do not look at and which takes time."""
    check_estimator(
        ObjectivePerturbationClassifier(math.inf, random_state=0), expected_failed_checks=NO_WEIGHTS, on_skip=None
    )


def test_what_cannot_be_calibrated_for_several_classes_is_refused_in_words() -> None:
    X = np.random.default_rng(1).standard_normal((60, 2))
    with pytest.raises(ValueError, match="cannot be calibrated for epsilon"):
        ObjectivePerturbationClassifier(1e-3, 1e-12).fit(X, np.arange(60) % 3)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_too_small_a_public_size_is_refused_where_that_tells_nothing(adjacency: Any) -> None:
    X = np.random.default_rng(1).standard_normal((60, 2))
    model = ObjectivePerturbationClassifier(public_size=14, adjacency=adjacency, random_state=1)
    if adjacency == "replace_one":
        with pytest.raises(ValueError, match="at least a quarter of the number of rows"):
            model.fit(X, np.arange(60) % 2)
    else:
        assert "at most four times as many" in model.fit(X, np.arange(60) % 2).guarantee_.assumptions[-1]  # type: ignore[union-attr]
