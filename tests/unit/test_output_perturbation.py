"""Output perturbation: sensitivity, the law of the noise, what a bad solver may not do, and the estimator."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from schemas.events import ApproximateEvent, GaussianEvent
from schemas.learning import Adjacency
from tasks.accounting.composition import composed_delta
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import certified_minimum
from tasks.classifiers.convex_sets import Ball
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.output_perturbation import (
    OutputPerturbationClassifier,
    minimiser_sensitivity,
    perturbed_minimum,
)
from tasks.classifiers.risks import InnerProduct, MarginRisk, SquaredDistance
from tasks.classifiers.solver import Minimum, NotCertifiedError
from tasks.noise import SeededBits

NO_WEIGHTS = {
    name: "a record's weight multiplies its part in what is released"
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


def table(n: int = 300, d: int = 4, k: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(scale=0.25, size=(n, d)) + 0.6 * np.eye(d)[y % d], y


def _risk(rows: np.ndarray, signs: np.ndarray, loss: MarginLoss, regularization: float) -> MarginRisk:
    return MarginRisk(rows, signs, loss, regularization)


# Sensitivity --------------------------------------------------------------------------------------------------------


def test_known_sensitivities() -> None:
    """2 L / (n Delta) for replacing a record, L / (n Delta) for adding one; L = sqrt(k) for k classes."""
    rows, _ = table(100)
    rows = rows / 10.0
    one = _risk(rows, np.ones((100, 1)), LogisticLoss(), 0.02)
    nine = _risk(rows, np.ones((100, 9)), LogisticLoss(), 0.02)
    assert minimiser_sensitivity(one, "replace_one") == pytest.approx(1.0)
    assert minimiser_sensitivity(one, "add_remove") == pytest.approx(0.5)
    assert minimiser_sensitivity(nine, "replace_one") == pytest.approx(3.0)
    points = SquaredDistance(rows, point_norm=1.0, parameter_norm=1.0)
    assert minimiser_sensitivity(points, "replace_one") == pytest.approx(2 * 2 / 100)


@pytest.mark.parametrize("loss", [HingeLoss(), HuberisedHingeLoss(0.05), LogisticLoss()])
def test_neighbours_minimisers_are_no_farther_apart_and_the_hinge_reaches_it(loss: MarginLoss) -> None:
    """n = 1, Delta = 4: the hinge has its minimum at y / 4, so the minimisers lie 2 / Delta apart, all of it."""
    minima = [certified_minimum(_risk(np.array([[1.0]]), np.array([[y]]), loss, 4.0), 1e-7).theta for y in (1.0, -1.0)]
    apart = float(np.linalg.norm(minima[0] - minima[1]))
    bound = minimiser_sensitivity(_risk(np.array([[1.0]]), np.ones((1, 1)), loss, 4.0), "replace_one")
    assert apart <= bound + 2e-7
    if not isinstance(loss, LogisticLoss):
        assert apart >= 0.99 * bound  # half of it would be refuted here


def test_random_neighbours_of_several_classes_keep_to_it() -> None:
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(20):
        rows = rng.normal(size=(6, 3))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-15)
        signs = np.where(rng.integers(3, size=(6, 1)) == np.arange(3), 1.0, -1.0)
        risk = _risk(rows, signs, HuberisedHingeLoss(0.1), 1.0)
        other_rows, other_signs = rows.copy(), signs.copy()
        other_rows[0], other_signs[0] = -rows[0], np.roll(signs[0], 1)
        other = _risk(other_rows, other_signs, HuberisedHingeLoss(0.1), 1.0)
        apart = np.linalg.norm(certified_minimum(risk, 1e-7).theta - certified_minimum(other, 1e-7).theta)
        worst = max(worst, float(apart) / minimiser_sensitivity(risk, "replace_one"))
    assert 0.5 < worst <= 1.0  # L = 1 instead of sqrt(3) would be refuted: 0.5 sqrt(3) is close to 1


def test_adding_a_record_with_the_regulariser_held_keeps_to_half() -> None:
    """The regulariser weighs 4 in both tables, as `public_size` makes it."""
    two, one = (MarginRisk(np.ones((n, 1)), np.ones((n, 1)), HingeLoss(), 2.0, public_size=2) for n in (2, 1))
    apart = float(np.abs(certified_minimum(two, 1e-6).theta - certified_minimum(one, 1e-6).theta)[0])
    assert apart == pytest.approx(minimiser_sensitivity(one, "add_remove"), abs=4e-6)


def test_adding_a_point_moves_the_mean_by_no_more_whatever_set_is_searched() -> None:
    """1 and -1 against 1 alone, n = 2: the mean moves by 1, though no parameter beyond 0.1 is looked for."""
    both = SquaredDistance(np.array([[1.0], [-1.0]]), point_norm=1.0, parameter_norm=0.1)
    assert minimiser_sensitivity(both, "add_remove") >= 1.0


@pytest.mark.parametrize(("public_size", "k", "delta"), [(7, 2, 0.0), (100, 3, 0.0), (100, 2, 1e-5), (300, 3, 1e-5)])
def test_public_numbers_do_not_tell_the_number_of_records(public_size: int, k: int, delta: float) -> None:
    """Bit for bit; `radius_` shows in the weights themselves, since noise is mostly projected to it."""
    seen = []
    for n in (27, 28):
        fitted = OutputPerturbationClassifier(
            0.1, delta, adjacency="add_remove", public_size=public_size, classes=range(k), random_state=0
        ).fit(*table(n, k=k))
        seen.append((fitted.radius_, fitted.sensitivity_, fitted.noise_scale_, fitted.guarantee_))
    assert seen[0] == seen[1]
    guarantee = seen[0][3]
    assert guarantee is not None
    assert any("public_size was chosen" in text for text in guarantee.assumptions)
    assert not any("number of records is public" in text for text in guarantee.assumptions)


# Noise --------------------------------------------------------------------------------------------------------------


def test_noise_scales_are_the_closed_forms() -> None:
    """Gamma law of the norm: mean 2 L p / (n Delta epsilon); Gaussian: z(1, 1e-5) = 3.7306 (Balle, Wang 2018)."""
    X, y = table()
    pure = OutputPerturbationClassifier(2.0, 0.0, regularization=0.1, random_state=0).fit(X, y)
    exact = 2.0 / (300 * 0.1)
    assert pure.sensitivity_ == pytest.approx(exact * 1.02, rel=1e-9)
    assert pure.noise_scale_ == pytest.approx(exact * 1.02 / 2.0, rel=1e-5)
    gaussian = OutputPerturbationClassifier(1.0, 1e-5, regularization=0.1, random_state=0).fit(X, y)
    assert gaussian.noise_scale_ == pytest.approx(exact * 1.02 * 3.7306, rel=1e-4)
    doubled = OutputPerturbationClassifier(1.0, 1e-5, regularization=0.1, tolerance=0.5, random_state=0).fit(X, y)
    assert doubled.noise_scale_ == pytest.approx(exact * 2.0 * 3.7306, rel=1e-4)  # the solver's part is paid for


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_default_regulariser_is_for_a_noise_of_a_fifth(delta: float, adjacency: Adjacency) -> None:
    X, y = table()
    model = OutputPerturbationClassifier(2.0, delta, adjacency=adjacency, random_state=0).fit(X, y)
    size = model.noise_scale_ * (math.sqrt(model.coef_.size + 2.0) if delta == 0.0 else 1.0)
    assert size == pytest.approx(0.2 * 1.02, rel=1e-4)
    assert OutputPerturbationClassifier(math.inf).fit(X, y).regularization_ == 1e-3


def test_one_dimension_pure_is_private_exactly() -> None:
    """Two neighbours' densities, Laplace of the claimed scale about their minimisers: ratio e^epsilon at most."""
    minima, scales = [], []
    for y in (1.0, -1.0):
        risk = _risk(np.array([[1.0]]), np.array([[y]]), HingeLoss(), 4.0)
        minima.append(float(certified_minimum(risk, 0.01 * 0.5).theta[0]))
        found = perturbed_minimum(
            risk, None, PrivacyBudget(1.0), adjacency="replace_one", bits=SeededBits(0), tolerance=0.01
        )
        scales.append(found.noise_scale)
    assert scales[0] == scales[1]
    assert abs(minima[0] - minima[1]) / scales[0] <= 1.0
    assert abs(minima[0] - minima[1]) / (scales[0] / 2.0) > 1.5  # a factor 2 less noise is refuted


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_radius_is_the_exact_tail(delta: float) -> None:
    """p = 1: P(Exp > R) = fail, R = scale log(1 / fail); Gaussian R = 2.5758 standard deviations at 1 %."""
    risk = SquaredDistance(np.zeros((100, 1)))
    found = perturbed_minimum(risk, None, PrivacyBudget(1.0, delta), adjacency="replace_one", bits=SeededBits(0))
    factor = 2.5758293 if delta else math.log(100.0)
    assert found.radius(0.01) == pytest.approx(factor * found.noise_scale + found.tolerance, rel=1e-5)
    with pytest.raises(ValueError, match="failure_probability"):
        found.radius(0.0)


def test_a_solver_that_does_not_arrive_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        label = "os-csprng"

        def words(self, n_words: int) -> np.ndarray:
            raise AssertionError("noise was drawn")

    def lazy(*arguments: Any, **options: Any) -> Minimum:
        return Minimum(np.zeros(4), 50.0, 50.0)

    monkeypatch.setattr("tasks.classifiers.certified.minimise", lazy)
    risk = _risk(table()[0] / 10, np.ones((300, 1)), LogisticLoss(), 0.1)
    with pytest.raises(NotCertifiedError, match="nothing was released"):
        perturbed_minimum(risk, None, PrivacyBudget(1.0, 1e-5), adjacency="replace_one", bits=Refused())


def test_projection_to_the_set_and_no_noise_at_infinite_epsilon() -> None:
    points = np.full((100, 2), 0.6)
    risk = SquaredDistance(points)
    free = perturbed_minimum(
        risk, Ball.around_zero(2, 0.5), PrivacyBudget(math.inf), adjacency="replace_one", bits=SeededBits(0)
    )
    np.testing.assert_allclose(free.theta, [0.35355339, 0.35355339], atol=1e-7)
    assert free.events == () and free.noise_scale == 0.0 and free.radius(0.5) == free.tolerance
    noisy = perturbed_minimum(
        risk, Ball.around_zero(2, 0.5), PrivacyBudget(0.01), adjacency="replace_one", bits=SeededBits(0)
    )
    assert np.linalg.norm(noisy.theta) <= 0.5 * (1 + 1e-12)


# The estimator ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "huberised-hinge", "hinge"])
@pytest.mark.parametrize("k", [2, 3])
def test_it_learns_and_says_what_it_cost(loss: Any, k: int) -> None:
    X, y = table(2000, k=k)
    fitted = OutputPerturbationClassifier(4.0, 1e-6, loss=loss, random_state=0).fit(X, y)
    assert fitted.score(X, y) > 0.85
    guarantee = fitted.guarantee_
    assert guarantee is not None and guarantee.randomness == "seeded (not private)" and not guarantee.private
    (event,) = guarantee.events
    assert isinstance(event, GaussianEvent) and composed_delta([event], 4.0) <= 1e-6
    assert OutputPerturbationClassifier(loss=loss).fit(X, y).guarantee_.private  # type: ignore[union-attr]


def test_pure_guarantee_and_the_ceiling_without_noise() -> None:
    X, y = table()
    pure = OutputPerturbationClassifier(3.0, 0.0, random_state=0).fit(X, y)
    assert pure.guarantee_ is not None and pure.guarantee_.delta == 0.0
    assert list(pure.guarantee_.events) == [ApproximateEvent(epsilon=3.0, delta=0.0)]
    free = OutputPerturbationClassifier(math.inf).fit(X, y)
    assert free.guarantee_ is None and free.noise_scale_ == 0.0 and free.score(X, y) > 0.95


def test_rows_are_clipped_before_anything() -> None:
    """A row a million times too long moves the weights no more than the sensitivity."""
    X, y = table()
    far = X.copy()
    far[0] = -1e6
    fits = [OutputPerturbationClassifier(math.inf, tolerance=1e-4).fit(rows, y) for rows in (X, far)]
    weights = [np.append(one.coef_, one.intercept_ / math.sqrt(0.5)) for one in fits]
    assert np.linalg.norm(weights[0] - weights[1]) <= fits[0].sensitivity_


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"loss": "squared"}, "loss must be"),
        ({"regularization": 0.0}, "regularization must be in"),
        ({"regularization": math.inf}, "regularization must be in"),
        ({"huber_width": 0.0, "loss": "huberised-hinge"}, "width"),
        ({"tolerance": 0.0}, "tolerance must be in"),
        ({"tolerance": 2.0}, "tolerance must be in"),
        ({"public_size": 0}, "public_size"),
        ({"public_size": math.inf}, "public_size must be a whole number"),
        ({"public_size": 300.7}, "public_size must be a whole number"),
        ({"public_size": True}, "public_size must be a whole number"),
        ({"data_norm": None}, "needs a data_norm"),
        ({"adjacency": "both"}, "adjacency must be"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        OutputPerturbationClassifier(random_state=0, **changes).fit(*table())


def test_bad_risks() -> None:
    with pytest.raises(ValueError, match="strongly convex"):
        minimiser_sensitivity(InnerProduct(np.zeros((3, 2))), "replace_one")
    with pytest.raises(ValueError, match="adjacency must be"):
        minimiser_sensitivity(SquaredDistance(np.zeros((3, 2))), "swap")  # type: ignore[arg-type]


def test_scikit_learns_checks() -> None:
    check_estimator(OutputPerturbationClassifier(random_state=0), expected_failed_checks=NO_WEIGHTS, on_skip=None)
