"""Noisy gradient descent and its classifier: what a step takes, adds and claims, and what is refused."""

import math
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from schemas.events import ApproximateEvent, GaussianEvent
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.gaussian_profile import gaussian_mu
from tasks.classifiers import noisy_sgd_plan
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.clipped_risk import ClippedMarginRisk
from tasks.classifiers.convex_sets import Ball, BallIntersection, Box
from tasks.classifiers.exact_rows import ROW_GRID, on_row_grid
from tasks.classifiers.fit import PoissonSampledGaussian
from tasks.classifiers.losses import HingeLoss, LogisticLoss
from tasks.classifiers.noisy_sgd import noisy_sgd, poisson_sample
from tasks.classifiers.noisy_sgd_classifier import NoisySGDClassifier
from tasks.classifiers.noisy_sgd_plan import paper_noise_scale
from tasks.classifiers.risks import AbsoluteDistance, InnerProduct, MarginRisk, SquaredDistance
from tasks.classifiers.step_sizes import second_moment
from tasks.classifiers.subsampling import poisson_epsilon_upper_bound
from tasks.noise.bits import OperatingSystemBits, SeededBits

BUDGET = PrivacyBudget(1.0, 1e-5)
FREE = PrivacyBudget(math.inf)
MU = gaussian_mu(1.0, 1e-5)


def points(n: int = 30, p: int = 3, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((n, p))
    return drawn / np.maximum(1.0, np.linalg.norm(drawn, axis=1, keepdims=True))


def run(risk: Any, convex_set: Any = None, budget: PrivacyBudget = BUDGET, **options: Any) -> Any:
    options = {"adjacency": "replace_one", "bits": SeededBits(1), **options}
    return noisy_sgd(risk, convex_set or Ball.around_zero(risk.dimension, 1.0), budget, **options)


@dataclass(frozen=True, eq=False)
class Logged(InnerProduct):
    """Keeps which records it was asked for."""

    asked: list[Any] = field(default_factory=list)

    def loss_gradient(self, theta: np.ndarray, records: Any = None) -> np.ndarray:
        self.asked.append(records)
        return super().loss_gradient(theta, records)


# --- the noise and what it claims -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_steps_over_all_records_are_one_gaussian(adjacency: str, sensitivity: float) -> None:
    risk = InnerProduct(0.5 * points(), point_norm=0.5)
    out = run(risk, n_steps=49, adjacency=adjacency)
    assert out.noise_multiplier == pytest.approx(7.0 / MU, rel=1e-9)
    exact = 7.0 * sensitivity * 0.5 / MU
    assert exact <= out.noise_scale <= exact * (1.0 + 1e-5)
    assert out.events == (GaussianEvent(noise_multiplier=1.0 / MU),)
    assert out.sampled is None


def test_samples_get_what_the_accountant_says() -> None:
    risk = InnerProduct(points())
    out = run(risk, n_steps=10, sampling_probability=0.4, adjacency="add_remove")
    assert out.sampled == PoissonSampledGaussian(0.4, out.noise_multiplier, 10)
    assert out.events == (ApproximateEvent(epsilon=1.0, delta=1e-5),)
    assert 0.99 < poisson_epsilon_upper_bound(0.4, out.noise_multiplier, 10, 1e-5) <= 1.0001
    assert out.noise_multiplier <= out.noise_scale <= out.noise_multiplier * (1.0 + 1e-5)  # L is 1
    replaced = run(risk, n_steps=10, sampling_probability=0.4)
    assert replaced.sampled is None and replaced.noise_multiplier > 1.8 * out.noise_multiplier
    assert replaced.events == (ApproximateEvent(epsilon=1.0, delta=1e-5),)


@pytest.mark.parametrize("n", [5, 20, 40])
def test_the_paper_s_schedule_is_the_paper_s(n: int) -> None:
    risk = Logged(points(n))
    out = run(risk, schedule="paper")
    assert out.n_steps == n * n - 1 == len(risk.asked)
    # sigma^2 = 32 L^2 n^2 log(n / delta) log(1 / delta) / epsilon^2
    exact = math.sqrt(32.0 * n**2 * math.log(n / 1e-5) * math.log(1e5))
    assert exact <= out.noise_scale <= exact * (1.0 + 1e-5)
    # what the accountant is told: the noise over 2 n L, since replacing a record moves n times a gradient so far
    assert out.noise_multiplier == pytest.approx(exact / (2.0 * n), rel=1e-9)
    assert all(len(records) == 1 for records in risk.asked)
    assert out.events == (ApproximateEvent(epsilon=1.0, delta=1e-5),)


def test_the_paper_s_noise_known_answer() -> None:
    """k = sigma / (n L) for n = 100, epsilon = 1, delta = 1e-6: 90.2 (reference notes, table of section 1)."""
    assert paper_noise_scale(100, 1.0, 1.0, 1e-6) / 100.0 == pytest.approx(90.2, abs=0.05)


def test_the_paper_s_variance_is_not_taken_on_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    small = paper_noise_scale(20, 1.0, 1.0, 1e-5) / 30.0
    monkeypatch.setattr(noisy_sgd_plan, "paper_noise_scale", lambda *_: small)
    with pytest.raises(ValueError, match="cannot prove epsilon=1 here"):
        run(InnerProduct(points(20)), schedule="paper")


def test_single_records_are_drawn_uniformly_and_weighted_by_their_number() -> None:
    risk = Logged(points(12))
    seen: list[np.ndarray] = []
    run(risk, budget=FREE, schedule="paper", observer=lambda t, theta, released: seen.append(released))
    for records, released in zip(risk.asked, seen, strict=True):
        np.testing.assert_allclose(released, -12.0 * risk.points[records[0]])
    assert {int(records[0]) for records in risk.asked} == set(range(12))


def test_rounding_of_the_sum_is_paid_for() -> None:
    rounding = noisy_sgd_plan._sum_rounding
    assert rounding(10, 3.0) == rounding(2**15, 3.0) == pytest.approx(2 * 2.0**15 * (2.0**15 + 8) * 2.0**-53 * 3.0)
    assert rounding(2**15 + 1, 1.0) == pytest.approx(4.0 * rounding(2**15, 1.0), rel=1e-3)
    # and the claim about sums: errors of a real one, against exact arithmetic, stay below half of it
    rows = points(500, 2) * 0.999
    exact = [float(sum(Fraction(float(x)) for x in column)) for column in rows.T]
    error = np.linalg.norm(np.sum(rows, axis=0) - exact)
    assert error <= 500 * 508 * 2.0**-53


def test_the_noise_counts_the_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever `_sum_rounding` says is a part of the sensitivity, of all records and of samples."""
    risk = InnerProduct(points())
    for options, parts in (
        ({}, 2.0),
        ({"adjacency": "add_remove"}, 1.0),
        ({"adjacency": "add_remove", "sampling_probability": 0.5, "n_steps": 2}, 1.0),
    ):
        plain = run(risk, **options)
        with monkeypatch.context() as patch:
            patch.setattr(noisy_sgd_plan, "_sum_rounding", lambda n, lipschitz: 0.25 * lipschitz)
            more = run(risk, **options)
        assert more.noise_scale / plain.noise_scale == pytest.approx((parts + 0.25) / parts, rel=1e-5)
        assert more.noise_multiplier == plain.noise_multiplier
    # and honestly: 2^-22 of L for a table of this size
    part = noisy_sgd_plan._practical_plan(risk, BUDGET, "add_remove", 1, 1.0).lattice
    assert part is not None and part.sensitivity - 1.0 == pytest.approx(2.0**-22, rel=1e-3)


@dataclass(frozen=True, eq=False)
class Asked(MarginRisk):
    """Keeps which parameters and rows it was asked about."""

    asked: list[Any] = field(default_factory=list)

    def loss_gradient(self, theta: np.ndarray, records: Any = None) -> np.ndarray:
        self.asked.append((theta, self.rows))
        return super().loss_gradient(theta, records)


@pytest.mark.parametrize(
    ("convex_set", "norm"),
    [(Ball.around_zero(5, 3.0), 4.0), (BallIntersection(Ball.around_zero(5, 3.0), Ball(np.full(5, 0.3), 0.01)), 1.0)],
    ids=["ball", "localised"],
)
@pytest.mark.parametrize(
    "options", [{}, {"query_grid": 2.0**-10}, {"sampling_probability": 0.5}, {"schedule": "paper"}]
)
def test_gradients_are_asked_where_margins_are_exact(convex_set: Any, norm: float, options: dict[str, Any]) -> None:
    """At parameters and rows on grids, without the caller's doing; and the iterates themselves are not rounded."""
    rows = points(6, 5)
    risk, path = Asked(rows, np.where(rows[:, :1] > 0, 1.0, -1.0), HingeLoss()), []
    run(risk, convex_set, n_steps=5, observer=lambda t, theta, released: path.append(theta), **options)
    grid = options.get("query_grid", norm * ROW_GRID / 4.0)
    assert len(risk.asked) >= 5
    for (theta, own), before in zip(risk.asked, [np.asarray(convex_set.centre), *path], strict=False):
        assert np.array_equal(theta, np.trunc(before / grid) * grid)
        assert np.array_equal(own, on_row_grid(rows))
    assert not np.array_equal(path[0], np.trunc(path[0] / grid) * grid)


def test_a_grid_too_fine_for_exact_products_is_refused() -> None:
    risk = MarginRisk(points(6), np.ones((6, 1)), LogisticLoss())
    for grid in (2.0**-27, 0.0, 3.0 * 2.0**-20, True, math.nan, math.inf):
        with pytest.raises(ValueError, match="query_grid"):
            run(risk, query_grid=grid)
    run(risk, query_grid=2.0**-26, n_steps=1)


def test_a_set_beyond_the_parameter_norm_is_refused() -> None:
    risk = SquaredDistance(points(), parameter_norm=2.0)
    with pytest.raises(ValueError, match=r"parameter_norm=2.0 is too small"):
        run(risk, Ball(np.array([1.5, 0.0, 0.0]), 0.6))
    run(risk, Ball(np.array([1.5, 0.0, 0.0]), 0.5), n_steps=2)


def test_the_regulariser_costs_no_noise_and_moves_the_iterates() -> None:
    rows, signs = points(40), np.ones((40, 1))
    plain = run(MarginRisk(rows, signs, LogisticLoss()), step_size="lipschitz")
    ridge = run(MarginRisk(rows, signs, LogisticLoss(), 0.5), step_size="lipschitz")
    assert plain.noise_scale == ridge.noise_scale
    assert np.linalg.norm(ridge.theta) < np.linalg.norm(plain.theta)


# --- the steps --------------------------------------------------------------------------------------------------------


def iterates(risk: Any, convex_set: Any = None, budget: PrivacyBudget = FREE, **options: Any) -> list[np.ndarray]:
    seen: list[np.ndarray] = []
    run(risk, convex_set, budget, observer=lambda t, theta, released: seen.append(theta), **options)
    return seen


def test_step_rules_are_the_paper_s() -> None:
    pull = np.tile([0.6, 0.0, 0.0], (20, 1))
    ball = Ball.around_zero(3, 50.0)
    # Lipschitz: ||C|| / (sqrt(t) G) with G = n L without noise, the diameter 100
    path = [np.zeros(3), *iterates(InnerProduct(pull), ball, n_steps=3)]
    for t in (1, 2, 3):
        length = 100.0 / (math.sqrt(t) * 20.0) * 20.0 * 0.6
        assert path[t][0] == pytest.approx(min(50.0, path[t - 1][0] + length))
    # strongly convex: 1 / (n t); the first step ends at the mean, and there it stays
    squared = SquaredDistance(points(20), parameter_norm=52.0)
    for theta in iterates(squared, ball, n_steps=4):
        np.testing.assert_allclose(theta, squared.points.mean(axis=0), atol=1e-12)
    away = iterates(squared, Ball(np.ones(3), 50.0), n_steps=4, step_size=0.25)
    np.testing.assert_allclose(away[1] - squared.points.mean(axis=0), 0.75**2 * (1 - squared.points.mean(axis=0)))


def test_rules_count_the_noise() -> None:
    risk, ball = InnerProduct(points(20)), Ball.around_zero(3, 1e6)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    out = run(risk, ball, n_steps=9, observer=lambda t, theta, released: seen.append((theta, released)))
    moment = 20.0**2 + 3 * out.noise_scale**2
    assert second_moment(risk, ball, out.noise_scale, 1.0, single=False) == pytest.approx(moment)
    before = np.zeros(3)
    for t, (theta, released) in enumerate(seen, start=1):
        np.testing.assert_allclose(theta, ball.project(before - 2e6 / math.sqrt(t * moment) * released))
        before = theta


@pytest.mark.parametrize("q", [0.25, 1.0])
def test_a_step_divides_by_the_public_size_of_a_sample(q: float) -> None:
    """A step of size s moves by s / (q n) times the released sum, however many records the sample holds."""
    risk, seen = InnerProduct(points(40)), []
    run(
        risk,
        Ball.around_zero(3, 1e6),
        n_steps=5,
        sampling_probability=q,
        step_size=2.0,
        observer=lambda t, theta, released: seen.append((theta, released)),
    )
    before = np.zeros(3)
    for theta, released in seen:
        np.testing.assert_allclose(theta - before, -2.0 / (q * 40.0) * released, rtol=1e-9)
        before = theta


def test_the_mean_of_the_second_half_or_the_last() -> None:
    risk = InnerProduct(points())
    path = iterates(risk, budget=BUDGET, n_steps=10)
    np.testing.assert_allclose(run(risk, n_steps=10).theta, np.mean(path[5:], axis=0))
    np.testing.assert_allclose(run(risk, n_steps=10, averaging="last").theta, path[-1])
    one = iterates(risk, budget=BUDGET, n_steps=1)
    np.testing.assert_allclose(run(risk, n_steps=1).theta, one[0])


def test_the_noise_of_many_steps_comes_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.classifiers import noisy_sgd as module

    monkeypatch.setattr(module, "_NOISE_BLOCK", 3 * 4)
    released: list[np.ndarray] = []
    run(InnerProduct(points(5)), n_steps=10, observer=lambda t, theta, sums: released.append(sums))
    assert len({tuple(sums) for sums in released}) == 10
    drawn = Logged(points(4))
    run(drawn, schedule="paper")
    assert len(drawn.asked) == 15


@pytest.mark.parametrize(
    "convex_set",
    [
        Ball(np.array([1.0, 0.0, -1.0]), 0.3),
        Box(np.array([-1.0, 0.0, 2.0]), np.array([0.0, 0.1, 5.0])),
        BallIntersection(Ball.around_zero(3, 1.0), Ball(np.array([0.0, 0.0, 0.9]), 0.5)),
    ],
    ids=["ball", "box", "intersection"],
)
@pytest.mark.parametrize(
    "options", [{"n_steps": 30}, {"n_steps": 30, "sampling_probability": 0.5}, {"schedule": "paper"}]
)
def test_iterates_never_leave_the_set(convex_set: Any, options: dict[str, Any]) -> None:
    path = iterates(AbsoluteDistance(points(8)), convex_set, BUDGET, **options)
    assert all(convex_set.contains(theta) for theta in path)
    assert convex_set.contains(run(AbsoluteDistance(points(8)), convex_set, **options).theta)


def test_poisson_samples_hold_each_record_with_exactly_that_probability() -> None:
    class Words:
        label = "fixed"

        def words(self, n_words: int) -> np.ndarray:
            return np.array([0, 2**62 - 1, 2**62, 2**64 - 1], dtype=np.uint64)[:n_words]

    assert poisson_sample(4, 0.25, Words()).tolist() == [0, 1]
    assert poisson_sample(4, 1.0, Words()).tolist() == [0, 1, 2, 3]
    assert poisson_sample(4, 2.0**-70, Words()).tolist() == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"schedule": "fast"}, "schedule"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 2.5}, "n_steps"),
        ({"sampling_probability": 0.0}, "sampling_probability"),
        ({"sampling_probability": 1.5}, "sampling_probability"),
        ({"adjacency": "cell"}, "adjacency"),
        ({"averaging": "all"}, "averaging"),
        ({"step_size": -1.0}, "step_size"),
        ({"step_size": "big"}, "step_size"),
        ({"step_size": "strongly-convex"}, "Delta is 0"),
        ({"step_size": "smooth"}, "smooth loss"),
        ({"schedule": "paper", "adjacency": "add_remove"}, "replace_one"),
        ({"schedule": "paper", "sampling_probability": 0.5}, "sampling_probability=0.5"),
        ({"budget": PrivacyBudget(1.0, 0.0)}, "delta=0"),
        ({"convex_set": Ball.around_zero(4, 1.0)}, "3 parameters, the set 4"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        run(AbsoluteDistance(points()), **options)


def test_the_paper_s_schedule_is_for_small_tables() -> None:
    with pytest.raises(ValueError, match="1001 would take 1002000 steps"):
        run(InnerProduct(points(1001)), schedule="paper")
    with pytest.raises(ValueError, match="2 to 1000"):
        run(InnerProduct(points(1)), schedule="paper")


# --- clipped gradients ------------------------------------------------------------------------------------------------


def clipped(rows: np.ndarray, k: int = 3, clip: float = 0.7, **options: Any) -> ClippedMarginRisk:
    signs = np.where(np.random.default_rng(5).random((len(rows), k)) < 0.5, -1.0, 1.0)
    return ClippedMarginRisk.of_rows(rows, signs, LogisticLoss(), clip, **options)


def test_clipping_is_per_record_and_what_is_short_stays() -> None:
    rows = np.random.default_rng(3).standard_normal((25, 4)) * np.geomspace(0.01, 100.0, 25)[:, None]
    risk, theta = clipped(rows), np.linspace(-1.0, 1.0, 12)
    each = [risk.loss_gradient(theta, np.array([i])) for i in range(25)]
    np.testing.assert_allclose(risk.loss_gradient(theta), np.sum(each, axis=0), atol=1e-12)
    own = []
    for x, sign in zip(rows, risk.signs, strict=True):
        whole = np.outer(sign * LogisticLoss().slope(sign * (theta.reshape(3, 4) @ x)), x).ravel()
        own.append(whole * min(1.0, 0.7 / np.linalg.norm(whole)))
    np.testing.assert_allclose(each, own, rtol=1e-5, atol=1e-6)  # rows are rounded at 2^-24
    norms = np.linalg.norm(each, axis=1)
    assert norms.max() <= 0.7 * (1.0 + 1e-12) and norms.max() > 0.69
    assert norms.min() < 0.1


@pytest.mark.parametrize(
    "row", [np.zeros(4), np.full(4, 1e308), np.full(4, 1e-320), np.array([1e200, 1.0, 0, -1e-200])]
)
def test_extreme_rows_are_clipped_too(row: np.ndarray) -> None:
    for theta in (np.zeros(12), np.full(12, 3.0)):
        gradient = clipped(row[None, :]).loss_gradient(theta)
        assert np.isfinite(gradient).all() and np.linalg.norm(gradient) <= 0.7 * (1.0 + 1e-12)


def test_constants_of_a_clipped_risk() -> None:
    rows = 0.5 * points()
    assert clipped(rows).lipschitz == 0.7 and clipped(rows).smoothness == math.inf
    bounded = clipped(rows, row_norm=1.0)
    assert bounded.lipschitz == 0.7 and bounded.smoothness == 0.25
    assert clipped(rows, clip=5.0, row_norm=1.0).lipschitz == math.sqrt(3.0)
    with pytest.raises(ValueError, match="row_norm"):
        clipped(3.0 * points(), row_norm=1.0)
    with pytest.raises(ValueError, match="clip_norm=0"):
        clipped(rows, clip=0)
    with pytest.raises(ValueError, match="norms of at most 1"):
        ClippedMarginRisk(2.0 * points(), np.ones(30), np.ones((30, 1)), LogisticLoss(), 1.0)


def test_margins_on_the_grid_are_exact_in_any_order() -> None:
    """So a record's margin is a function of the record alone, wherever its row stands."""
    rng = np.random.default_rng(7)
    rows = on_row_grid(points(40, 33, seed=2))
    radius = 10.0
    grid = 2.0**4 * ROW_GRID / 4.0
    weights = rng.standard_normal(33)
    weights = np.trunc(weights * (radius / np.linalg.norm(weights)) / grid) * grid
    together = rows @ weights
    for i in (0, 17, 39):
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(rows[i], weights, strict=True))
        assert Fraction(float(together[i])) == exact == Fraction(float(np.dot(rows[i, ::-1], weights[::-1])))
    assert (np.linalg.norm(rows, axis=1) <= np.linalg.norm(points(40, 33, seed=2), axis=1)).all()


# --- the classifier ---------------------------------------------------------------------------------------------------


def table(n: int = 400, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        n, 8, n_informative=6, n_redundant=0, n_classes=n_classes, class_sep=2.0, random_state=seed
    )


SAMPLE_WEIGHT = "takes no sample_weight: records must count alike for the noise to hide each of them"
NOT_FOR_US = {
    name: SAMPLE_WEIGHT
    for name in (
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_all_zero_sample_weights_error",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_classifiers_one_label_sample_weights",
    )
}


def test_it_is_an_estimator_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(
            NoisySGDClassifier(epsilon=20.0, n_steps=30, random_state=0),
            expected_failed_checks=NOT_FOR_US,
            on_skip=None,
        )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "hinge"},
        {"loss": "huberised-hinge"},
        {"data_norm": None},
        {"clip_norm": None},
        {"step_size": "smooth"},
    ],
    ids=str,
)
def test_it_learns(n_classes: int, options: dict[str, Any]) -> None:
    X, y = table(600, n_classes)
    model = NoisySGDClassifier(epsilon=6.0, random_state=0, feature_bounds=(-6, 6), **options).fit(X, y)
    assert model.score(X, y) > (0.82 if n_classes == 2 else 0.6)


def test_without_noise_it_is_regularised_logistic_regression() -> None:
    X, y = table(200, 2)
    model = NoisySGDClassifier(
        epsilon=math.inf,
        clip_norm=None,
        regularization=0.05,
        step_size="smooth",
        n_steps=600,
        averaging="last",
        fit_intercept=False,
    ).fit(X, y)
    rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    peer = LogisticRegression(C=1.0 / (200 * 0.05), fit_intercept=False, tol=1e-8).fit(rows, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-4)
    assert model.guarantee_ is None and model.noise_scale_ == 0.0
    assert type(model.dp_event_).__name__ == "NonPrivateDpEvent"


def test_what_a_fit_says_of_itself() -> None:
    X, y = table()
    model = NoisySGDClassifier(2.0, 1e-6, n_steps=25, random_state=3).fit(X, y)
    said = model.guarantee_
    assert said is not None
    assert (said.epsilon, said.delta, said.adjacency) == (2.0, 1e-6, "replace_one")
    assert said.randomness == "seeded (not private)" and not said.private
    assert composed_epsilon(said.events, 1e-6) == pytest.approx(2.0, rel=1e-6)
    assert said.events == [GaussianEvent(noise_multiplier=1.0 / gaussian_mu(2.0, 1e-6))]
    assert model.n_iter_ == 25
    assert model.noise_scale_ == pytest.approx(5.0 * 2.0 / gaussian_mu(2.0, 1e-6), rel=1e-5)  # clip_norm is 1
    again = NoisySGDClassifier(2.0, 1e-6, n_steps=25, random_state=3).fit(X, y)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    real = NoisySGDClassifier(2.0, 1e-6, n_steps=25).fit(X, y)
    assert real.guarantee_ is not None and real.guarantee_.private and not np.array_equal(real.coef_, model.coef_)


def test_noise_is_for_the_bound_that_is_enforced() -> None:
    X, y = table()
    scale = NoisySGDClassifier(n_steps=4, random_state=0).fit(X, y).noise_scale_
    for options, bound in (
        ({"clip_norm": 0.5}, 0.5),
        ({"clip_norm": None}, math.sqrt(3.0)),
        ({"clip_norm": 100.0}, math.sqrt(3.0)),
        ({"clip_norm": 100.0, "data_norm": None}, 100.0),
        ({"data_norm": 7.0}, 1.0),
        ({"adjacency": "add_remove"}, 0.5),
    ):
        other = NoisySGDClassifier(n_steps=4, random_state=0, **options).fit(X, y)
        assert other.noise_scale_ == pytest.approx(bound * scale, rel=1e-6), options


def test_the_paper_s_schedule_in_the_estimator() -> None:
    X, y = table(30, 2)
    model = NoisySGDClassifier(schedule="paper", random_state=0, regularization=0.1).fit(X, y)
    assert model.n_iter_ == 899
    assert model.guarantee_ is not None
    assert "algorithm 1 as published: 899 steps" in model.guarantee_.mechanism
    assert "theorem 9" in model.guarantee_.proof


def test_samples_in_the_estimator() -> None:
    X, y = table()
    model = NoisySGDClassifier(sampling_probability=0.2, n_steps=20, adjacency="add_remove", random_state=0).fit(X, y)
    assert type(model.dp_event_).__name__ == "SelfComposedDpEvent"
    assert not model._gaussian and NoisySGDClassifier()._gaussian
    assert not NoisySGDClassifier(schedule="paper")._gaussian


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"delta": 0.0}, "delta=0: its noise is Gaussian"),
        ({"radius": 0.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"clip_norm": -1.0}, "clip_norm=-1.0"),
        ({"clip_norm": "1"}, "clip_norm='1'"),
        ({"regularization": -0.1}, "regularization"),
        ({"loss": "squared"}, "loss='squared'"),
        ({"huber_width": 0.0, "loss": "huberised-hinge"}, "width"),
        ({"data_norm": None, "clip_norm": None}, "data_norm or a clip_norm"),
        ({"data_norm": None, "step_size": "smooth"}, "needs a data_norm"),
        ({"n_steps": 0}, "n_steps"),
        ({"schedule": "old"}, "schedule"),
        ({"loss": "hinge", "step_size": "smooth"}, "smooth loss"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, Any], match: str) -> None:
    X, y = table(40)
    with pytest.raises(ValueError, match=match):
        NoisySGDClassifier(**options).fit(X, y)


def test_bits_come_from_the_source_alone() -> None:
    """The operating system's by default; NumPy's global state is not touched."""
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    run(InnerProduct(points()), bits=OperatingSystemBits(), n_steps=3)
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]  # noqa: NPY002


def test_hinge_risk_runs_over_a_box() -> None:
    rows = points(50, 4)
    risk = MarginRisk(rows, np.where(rows[:, :1] > 0, 1.0, -1.0), HingeLoss())
    out = run(risk, Box.cube(4, 3.0), PrivacyBudget(8.0, 1e-5), n_steps=200)
    assert risk.value(out.theta) < 0.8 * risk.value(np.zeros(4))


@pytest.mark.parametrize("options", [{}, {"sampling_probability": 0.5}, {"schedule": "paper"}], ids=str)
def test_preprocessing_and_steps_together_stay_within_the_budget(options: dict[str, Any]) -> None:
    """Gaussian parts by their squares; otherwise both parts share epsilon and delta."""
    X, y = table(30, 2)
    model = NoisySGDClassifier(
        2.0, 1e-5, preprocessing_share=0.25, feature_bounds=(-6, 6), n_steps=5, random_state=0, **options
    ).fit(X, y)
    assert model.guarantee_ is not None
    first, second = model.guarantee_.events
    assert first.kind == "gaussian"
    if options:
        assert isinstance(second, ApproximateEvent)
        assert (second.epsilon, second.delta) == (pytest.approx(1.5), pytest.approx(0.75e-5))
        assert composed_epsilon([first], 0.25e-5) <= 0.5 * (1.0 + 1e-9)
    else:
        assert 1.99 < composed_epsilon([first, second], 1e-5) <= 2.0
