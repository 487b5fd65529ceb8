"""The hinge's minimiser: the gap is a proof for any dual point, and the certified distance holds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.classifiers.certified import certified_minimum, gradient_rounding, minimiser_norm_bound
from tasks.classifiers.dual import duality_gap, minimise_hinge
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.risks import AbsoluteDistance, MarginRisk, SquaredDistance
from tasks.classifiers.solver import NotCertifiedError


def _vectors(n: int = 200, d: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    signs = np.where(rows @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return rows * signs[:, None] * (1.0 - 1e-15)


def _risk(loss: MarginLoss, regularization: float, k: int = 1, n: int = 200, d: int = 5) -> MarginRisk:
    signs = np.ones((n, 1)) if k == 1 else np.where(np.arange(n)[:, None] % k == np.arange(k), 1.0, -1.0)
    return MarginRisk(_vectors(n, d), signs, loss, regularization)


@pytest.mark.parametrize(("m", "expected"), [(4.0, 0.25), (1.0, 1.0), (0.5, 1.0)])
def test_one_record_in_closed_form(m: float, expected: float) -> None:
    """max(0, 1 - w) + m w^2 / 2 has its minimum at min(1, 1 / m)."""
    found = minimise_hinge(np.array([[1.0]]), m, gap=1e-12)
    assert found.gap_upper_bound <= 1e-12
    assert abs(float(found.theta[0]) - expected) <= found.distance_upper_bound


@pytest.mark.parametrize("m", [0.2, 2.0, 20.0, 400.0])
def test_the_certified_distance_holds_against_a_far_more_exact_minimum(m: float) -> None:
    vectors = _vectors()
    exact = minimise_hinge(vectors, m, gap=1e-11)
    assert exact.gap_upper_bound <= 1e-11
    for gap in (1.0, 1e-2, 1e-5):
        rough = minimise_hinge(vectors, m, gap=gap)
        assert rough.gap_upper_bound <= gap
        off = float(np.linalg.norm(rough.theta - exact.theta))
        assert off <= rough.distance_upper_bound + exact.distance_upper_bound


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.1, 50.0), st.floats(-3.0, 3.0))
def test_the_gap_of_any_point_is_that_of_the_definition(seed: int, m: float, spread: float) -> None:
    """For w(alpha) of an arbitrary feasible alpha; and it is never below the true excess over the minimum."""
    vectors = _vectors(30, 3)
    alpha = 1.0 / (1.0 + np.exp(-spread * np.random.default_rng(seed).normal(size=30)))
    theta = vectors.T @ alpha / m

    def primal(w: np.ndarray) -> float:
        return float(np.sum(np.maximum(0.0, 1.0 - vectors @ w))) + 0.5 * m * float(w @ w)

    dual = float(np.sum(alpha)) - float(np.sum((vectors.T @ alpha) ** 2)) / (2.0 * m)
    gap = duality_gap(theta, alpha, vectors, m)
    assert gap == pytest.approx(primal(theta) - dual, rel=1e-9, abs=1e-10)
    best = minimise_hinge(vectors, m, gap=1e-9).theta
    assert primal(theta) - primal(best) <= gap + 1e-9
    assert float(np.linalg.norm(theta - best)) <= math.sqrt(2.0 * gap / m) + math.sqrt(2e-9 / m)


def test_a_spoilt_solver_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search stops at once; what is certified is the distance that is left, and the tolerance is refused."""
    monkeypatch.setattr("tasks.classifiers.dual._MOST_STEPS", 1)
    exact = _risk(HingeLoss(), 0.01)
    with pytest.raises(NotCertifiedError, match="nothing was released"):
        certified_minimum(exact, 1e-3)
    monkeypatch.undo()
    assert certified_minimum(exact, 1e-3).distance_upper_bound <= 1e-3


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberisedHingeLoss(0.2), HingeLoss()])
@pytest.mark.parametrize("k", [1, 3])
def test_the_minimum_is_certified_and_its_norm_bounded(loss: MarginLoss, k: int) -> None:
    risk = _risk(loss, 0.05, k)
    rough, fine = certified_minimum(risk, 0.05), certified_minimum(risk, 1e-6)
    assert rough.distance_upper_bound <= 0.05 and fine.distance_upper_bound <= 1e-6
    assert float(np.linalg.norm(rough.theta - fine.theta)) <= rough.distance_upper_bound + 1e-6
    assert float(np.linalg.norm(fine.theta)) <= minimiser_norm_bound(risk)


def test_a_linear_term_moves_the_minimum_where_it_must() -> None:
    risk = _risk(LogisticLoss(), 0.05)
    b = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    found = certified_minimum(risk, 1e-7, b)
    np.testing.assert_allclose(risk.gradient(found.theta), -b, atol=1e-5)
    with pytest.raises(ValueError, match="linear term"):
        certified_minimum(_risk(HingeLoss(), 0.05), 1e-3, b)


def test_rounding_covers_the_gradient_computed_in_longer_numbers() -> None:
    risk = _risk(LogisticLoss(), 0.01, n=3000, d=20)
    theta = 5.0 * np.random.default_rng(1).normal(size=20)
    rows, signs = risk.rows.astype(np.longdouble), risk.signs[:, 0].astype(np.longdouble)
    slopes = -signs / (1.0 + np.exp(signs * (rows @ theta.astype(np.longdouble))))
    exact = slopes @ rows + np.longdouble(3000) * np.longdouble(0.01) * theta.astype(np.longdouble)
    off = float(np.linalg.norm((risk.gradient(theta) - exact).astype(np.float64)))
    assert 0.0 < off <= gradient_rounding(risk, theta) < 1e-7


def test_the_mean_is_the_minimum_of_squared_distances() -> None:
    points = np.random.default_rng(2).uniform(-0.5, 0.5, size=(50, 3))
    found = certified_minimum(SquaredDistance(points), 1e-9)
    np.testing.assert_allclose(found.theta, points.mean(axis=0), atol=1e-15)
    assert found.distance_upper_bound < 1e-13


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="strong_convexity and gap above 0"):
        minimise_hinge(_vectors(), 0.0, gap=1.0)
    with pytest.raises(ValueError, match="strong_convexity and gap above 0"):
        minimise_hinge(_vectors(), 1.0, gap=0.0)
    with pytest.raises(ValueError, match="regularization must be above 0"):
        certified_minimum(_risk(LogisticLoss(), 0.0), 1e-3)
    with pytest.raises(ValueError, match="tolerance must be above 0"):
        certified_minimum(_risk(LogisticLoss(), 0.1), 0.0)
    with pytest.raises(ValueError, match="no certificate is known for the minimiser of AbsoluteDistance"):
        certified_minimum(AbsoluteDistance(np.zeros((2, 1))), 1e-3)
