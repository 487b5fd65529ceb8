"""Losses and risks: derivatives against differences, and the constants that guarantees rest on against a search."""

import math

import numpy as np
import pytest
from scipy import optimize

from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss, margin_loss
from tasks.classifiers.risks import AbsoluteDistance, EmpiricalRisk, InnerProduct, MarginRisk, SquaredDistance
from tasks.classifiers.solver import minimise

LOSSES: list[MarginLoss] = [HingeLoss(), HuberisedHingeLoss(0.3), LogisticLoss()]
MARGINS = np.linspace(-4.0, 4.0, 4001) + 1e-7


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_slope_and_curvature_are_the_derivatives_and_stay_within_the_constants(loss: MarginLoss) -> None:
    step = MARGINS[1] - MARGINS[0]
    slope = np.gradient(loss.value(MARGINS), step)
    kinks = 3 if loss.name != "logistic" else 0
    assert np.count_nonzero(np.abs(slope - loss.slope(MARGINS)) > 1e-3) <= 2 * kinks
    assert np.max(np.abs(loss.slope(MARGINS))) <= loss.lipschitz
    assert np.all(np.diff(loss.slope(MARGINS)) >= 0.0)  # convex
    if math.isfinite(loss.smoothness):
        curvature = np.gradient(loss.slope(MARGINS), step)
        assert np.count_nonzero(np.abs(curvature - loss.curvature(MARGINS)) > 1e-3) <= 2 * kinks
        assert np.max(loss.curvature(MARGINS)) <= loss.smoothness
        assert np.max(loss.curvature(MARGINS)) >= 0.999 * loss.smoothness  # and the constant is no larger than needed


def test_the_huberised_hinge_is_above_the_hinge_by_at_most_a_quarter_of_its_width() -> None:
    for width in (0.05, 0.5, 1.0):
        above = HuberisedHingeLoss(width).value(MARGINS) - HingeLoss().value(MARGINS)
        assert -1e-12 <= above.min() and above.max() == pytest.approx(width / 4.0, rel=1e-3)


def _risk(name: str, seed: int = 0) -> EmpiricalRisk:
    generator = np.random.default_rng(seed)
    points = generator.standard_normal((40, 3))
    points /= np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))
    match name:
        case "median":
            return AbsoluteDistance(points)
        case "mean":
            return SquaredDistance(points, 1.0, 2.0)
        case "linear":
            return InnerProduct(points)
    signs = np.where(generator.random((40, 2)) < 0.5, -1.0, 1.0)
    return MarginRisk(points, signs, margin_loss(name, 0.4), regularization=0.3)


RISKS = ["median", "mean", "linear", "logistic", "huberised-hinge", "hinge"]


@pytest.mark.parametrize("name", RISKS)
def test_gradients_are_those_of_the_value_and_sum_over_records(name: str) -> None:
    risk = _risk(name)
    theta = 0.4 * np.random.default_rng(5).standard_normal(risk.dimension)
    numeric = optimize.approx_fprime(theta, risk.value, 1e-7)
    assert np.allclose(risk.gradient(theta), numeric, atol=2e-4)
    parts = [risk.loss_gradient(theta, np.array([i])) for i in range(risk.n_records)]
    assert np.allclose(np.sum(parts, axis=0), risk.loss_gradient(theta))
    assert np.allclose(risk.loss_gradient(theta) + risk.regularizer_gradient(theta), risk.gradient(theta))
    twice = risk.loss_gradient(theta, np.array([3, 3, 7]))
    assert np.allclose(twice, 2 * parts[3] + parts[7])


@pytest.mark.parametrize("name", RISKS)
def test_no_record_has_a_longer_gradient_than_the_lipschitz_constant(name: str) -> None:
    longest = 0.0
    for seed in range(30):
        risk = _risk(name, seed)
        theta = np.random.default_rng(seed).standard_normal(risk.dimension) * 3.0
        theta *= min(1.0, 2.0 / float(np.linalg.norm(theta)))
        for record in range(risk.n_records):
            longest = max(
                longest, float(np.linalg.norm(risk.loss_gradient(theta, np.array([record])))) / risk.lipschitz
            )
    assert 0.75 < longest <= 1.0 + 1e-12


def test_joint_one_versus_rest_counts_sqrt_k_and_rank_k() -> None:
    risk = _risk("hinge")
    assert isinstance(risk, MarginRisk)
    assert (risk.lipschitz, risk.hessian_rank, risk.problem(0).lipschitz) == (math.sqrt(2.0), 2, 1.0)
    assert risk.problem(1).dimension == 3 and risk.dimension == 6


@pytest.mark.parametrize("name", ["logistic", "huberised-hinge"])
def test_minimiser_is_as_near_as_certified(name: str) -> None:
    risk = _risk(name)
    assert isinstance(risk, MarginRisk)
    m = risk.n_records * risk.strong_convexity
    fun = lambda theta: (risk.value(theta), risk.gradient(theta))  # noqa: E731
    exact = minimise(fun, np.zeros(risk.dimension), m, risk.hessian_product, tolerance=1e-13)
    assert exact.distance_upper_bound < 1e-10
    for tolerance in (1e-1, 1e-3, 1e-6):
        rough = minimise(fun, np.ones(risk.dimension), m, tolerance=tolerance)
        distance = float(np.linalg.norm(rough.theta - exact.theta))
        assert distance <= rough.distance_upper_bound + exact.distance_upper_bound
        assert rough.distance_upper_bound <= tolerance


def test_rows_that_are_too_long_are_refused_since_the_guarantees_rest_on_their_norms() -> None:
    with pytest.raises(ValueError, match="norms of at most 1"):
        MarginRisk(np.array([[1.0, 0.1]]), np.ones((1, 1)), HingeLoss())
    with pytest.raises(ValueError, match="point_norm"):
        SquaredDistance(np.array([[1.0, 0.1]]), 1.0, 1.0)
    with pytest.raises(ValueError, match="point_norm"):
        InnerProduct(np.array([[1.0, 0.1]]))
    with pytest.raises(ValueError, match="finite"):
        AbsoluteDistance(np.array([[math.inf]]))
    with pytest.raises(ValueError, match="same records"):
        MarginRisk(np.zeros((2, 2)), np.ones((1, 1)), HingeLoss())
    with pytest.raises(ValueError, match="regularization"):
        MarginRisk(np.zeros((1, 2)), np.ones((1, 1)), HingeLoss(), -1.0)
    with pytest.raises(ValueError, match="loss must be"):
        margin_loss("squared-hinge")
    with pytest.raises(ValueError, match="width"):
        HuberisedHingeLoss(0.0)
    with pytest.raises(ValueError, match="strong_convexity"):
        minimise(lambda theta: (0.0, theta), np.zeros(1), 0.0, tolerance=1.0)
