"""The hinge's minimiser: the gap is a proof for any dual point, and the certified distance holds."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.classifiers.certified import (
    _ROUNDING_PART,
    _rounding_of_distance,
    certified_minimum,
    gradient_rounding,
    largest_size,
    minimiser_norm_bound,
)
from tasks.classifiers.dual import DualMinimum, duality_gap, minimise_hinge, ridge_solver
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.risks import AbsoluteDistance, MarginRisk, SquaredDistance, total_strong_convexity
from tasks.classifiers.solver import Minimum, NotCertifiedError


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
    rough, fine = certified_minimum(risk, 0.05), certified_minimum(risk, 3e-6)
    assert rough.distance_upper_bound <= 0.05 and fine.distance_upper_bound <= 3e-6
    assert float(np.linalg.norm(rough.theta - fine.theta)) <= rough.distance_upper_bound + 3e-6
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


def _exact_gap(theta: float, alpha: list[float], vectors: list[float], m: float) -> Fraction:
    """P(theta) - D(alpha) of these very doubles, for d = 1."""
    t, strong = Fraction(theta), Fraction(m)
    primal = sum((max(Fraction(0), 1 - t * Fraction(a)) for a in vectors), strong * t * t / 2)
    total = sum((Fraction(x) * Fraction(a) for x, a in zip(alpha, vectors, strict=True)), Fraction(0))
    return primal - sum(map(Fraction, alpha), Fraction(0)) + total * total / (2 * strong)


def test_the_gap_covers_the_rounding_of_margins() -> None:
    """One record on its margin, v = 1e-17 or so: computed as 0, so that without allowance the gap would be 0."""
    fooled = 0
    for x in np.linspace(0.3, 0.99, 70):
        m = 0.5 * x * x
        theta = float(np.float64(0.5 * x) / m)
        exact = _exact_gap(theta, [0.5], [float(x)], float(m))
        fooled += theta * x == 1.0 and exact > Fraction(1, 2**60)
        assert exact <= duality_gap(np.array([theta]), np.array([0.5]), np.array([[x]]), float(m))
    assert fooled > 3


def test_the_gap_covers_the_rounding_of_theta() -> None:
    """1 + 2^-60 - 1 is 0 in doubles, and m is as small as that: all terms are 0, the gap is 2^-11."""
    vectors, m = [1.0, 2.0**-60, -1.0], 2.0**-110
    exact = _exact_gap(0.0, [1.0] * 3, vectors, m)
    assert exact == Fraction(1, 2**11)
    assert exact <= duality_gap(np.zeros(1), np.ones(3), np.array(vectors)[:, None], m)


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberisedHingeLoss(0.2)])
def test_the_certificate_holds_the_gradient_and_its_rounding(loss: MarginLoss) -> None:
    risk = _risk(loss, 0.05, 3)
    m = 200 * 0.05
    for tolerance in (0.1, 1e-9):
        found = certified_minimum(risk, tolerance)
        needed = float(np.linalg.norm(risk.gradient(found.theta))) + gradient_rounding(risk, found.theta)
        assert found.distance_upper_bound * m >= needed > 0.0


@pytest.mark.parametrize("k", [1, 5])
def test_the_hinges_problems_share_the_tolerance(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that stops exactly at the gap that it was asked for: all k distances together are within."""

    def exactly(vectors: np.ndarray, strong_convexity: float, *, gap: float) -> DualMinimum:
        return DualMinimum(np.zeros(5), np.zeros(200), gap, math.sqrt(2.0 * gap / strong_convexity))

    monkeypatch.setattr("tasks.classifiers.certified.minimise_hinge", exactly)
    found = certified_minimum(_risk(HingeLoss(), 0.05, k), 0.01)
    assert 0.9 * 0.01 < found.distance_upper_bound <= 0.01


@pytest.mark.parametrize(("loss", "tolerance"), [(LogisticLoss(), 5e-12), (HingeLoss(), 1.5e-6)])
def test_what_doubles_cannot_certify_is_refused_before_any_solving(
    loss: MarginLoss, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By public numbers: for every table alike, and with the same text; so that up to four times as many records as
    `public_size` says are refused as one. 200 records by themselves would be certified."""

    alone = certified_minimum(MarginRisk(_vectors(200), np.ones((200, 1)), loss, 0.05), tolerance)
    assert alone.distance_upper_bound <= tolerance

    def never(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("the records were looked at")

    monkeypatch.setattr("tasks.classifiers.certified.minimise", never)
    monkeypatch.setattr("tasks.classifiers.certified.minimise_hinge", never)
    texts = set()
    for n in (200, 201):
        vectors = _vectors(n, seed=n)
        with pytest.raises(ValueError, match="less than doubles can certify") as caught:
            certified_minimum(MarginRisk(vectors, np.ones((n, 1)), loss, 0.05, public_size=200), tolerance)
        texts.add(str(caught.value))
    assert len(texts) == 1
    with pytest.raises(ValueError, match="less than doubles can certify"):
        certified_minimum(SquaredDistance(np.zeros((50, 3))), 1e-16)


def test_a_solver_that_fails_tells_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.classifiers.certified.minimise", lambda *_, **__: Minimum(np.zeros(5), 1.2345, 0.12345))
    with pytest.raises(NotCertifiedError) as caught:
        certified_minimum(_risk(LogisticLoss(), 0.05), 1e-3)
    assert not re.search(r"\d", str(caught.value))


def test_bounds_count_the_public_number_of_records() -> None:
    """n = 200 or 201 of a regulariser for 150: the same weight, norm bound and allowance for rounding, to the bit."""
    risks = [MarginRisk(_vectors(n), np.ones((n, 1)), LogisticLoss(), 0.07, public_size=150) for n in (200, 201)]
    for give in (minimiser_norm_bound, largest_size, total_strong_convexity):
        assert len({give(risk) for risk in risks}) == 1
    assert total_strong_convexity(risks[0]) == 150 * 0.07 and largest_size(risks[0]) == 600
    for risk in risks:
        np.testing.assert_array_equal(risk.regularizer_gradient(np.ones(5)), 150 * 0.07)
        assert risk.value(np.ones(5)) - MarginRisk(risk.rows, risk.signs, risk.loss).value(np.ones(5)) == pytest.approx(
            0.5 * 10.5 * 5
        )
        step = risk.gradient(np.ones(5) + 1e-6) - risk.gradient(np.ones(5))
        np.testing.assert_allclose(risk.hessian_product(np.ones(5), np.full(5, 1e-6)), step, rtol=1e-4)
        assert risk.problem(0).public_size == 150


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


# Tables on which a search may stall ----------------------------------------------------------------------------------


def _least_tolerance(risk: MarginRisk, linear_norm: float = 0.0) -> float:
    """What is just not refused by public numbers."""
    m, (low, high) = total_strong_convexity(risk), (1e-18, 1e12)
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        fits = _rounding_of_distance(risk, m, middle, linear_norm) <= _ROUNDING_PART * middle
        low, high = (low, middle) if fits else (middle, high)
    return high


def _hard_table(kind: str, n: int, d: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows: np.ndarray = rng.normal(size=(n, d))
    labels = rng.integers(0, max(k, 2), n)
    match kind:
        case "positive":
            rows = np.abs(rows) + 0.1
        case "equal":
            rows, labels = np.tile(rows[:1], (n, 1)), np.arange(n) % max(k, 2)
        case "grid":
            rows = rng.integers(0, 2, size=(n, d)).astype(np.float64)  # some are zero
        case "columns":
            rows = rows * 10.0 ** np.linspace(0.0, -8.0, d)
        case "axes":
            rows = np.eye(d)[rng.integers(0, d, n)] * rng.choice([-1.0, 1.0], size=(n, 1))
        case "repeated":
            rows = rows[rng.integers(0, 2, n)]
        case "one class":
            labels = np.where(np.arange(n) == 0, 1, 0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / (np.where(norms > 0.0, norms, 1.0) * (1.0 + 1e-15))
    return rows, np.where(labels[:, None] == np.arange(1, k + 1), 1.0, -1.0)


HINGE, HUBER = HingeLoss(), HuberisedHingeLoss


@pytest.mark.parametrize(
    ("kind", "n", "d", "k", "loss", "regularization", "seeds"),
    [
        ("equal", 300, 1, 3, HINGE, 1e-6, 2),
        ("repeated", 40, 5, 1, HINGE, 1e-13, 4),  # directions that no record has are lost in normal equations
        ("repeated", 10, 2, 1, HINGE, 1e-10, 4),  # contradictions: alpha is not unique, and drifts away from theta
        ("axes", 10, 2, 1, HINGE, 1e-6, 4),
        ("grid", 10, 5, 1, HINGE, 1e-14, 2),
        ("positive", 100, 1, 3, HINGE, 1e-13, 2),
        ("positive", 5, 5, 3, HUBER(0.5), 2e-9, 2),
        ("one class", 10, 20, 3, HUBER(1e-2), 1e-7, 1),
        ("axes", 3, 5, 5, HUBER(1e-4), 6e-4, 6),
        ("random", 40, 20, 3, HUBER(1e-6), 1e-4, 1),
        ("equal", 10, 1, 3, HUBER(1e-6), 1e-5, 4),
        ("one class", 30, 20, 1, HUBER(1e-9), 1e-2, 1),
        ("columns", 100, 20, 2, LogisticLoss(), 1e-8, 2),
        ("columns", 20, 10, 1, LogisticLoss(), 1e-14, 2),
    ],
)
def test_what_is_not_refused_is_reached(
    kind: str, n: int, d: int, k: int, loss: MarginLoss, regularization: float, seeds: int
) -> None:
    """At the least tolerance that is taken, at three and at a hundred times as much."""
    for seed in range(seeds):
        risk = MarginRisk(*_hard_table(kind, n, d, k, seed), loss, regularization)
        for factor in (1.0, 3.0, 100.0):
            tolerance = factor * _least_tolerance(risk)
            assert certified_minimum(risk, tolerance).distance_upper_bound <= tolerance


@pytest.mark.parametrize("width", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("regularization", [1e-5, 1e-3, 1e-1])
def test_two_opposite_records_in_closed_form(width: float, regularization: float) -> None:
    """2 phi(w) + m w^2 / 2 with m < 1: its minimum is on the parabola, where 1 + h - w = m h w; linear term as well."""
    risk = MarginRisk(np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]]), HuberisedHingeLoss(width), regularization)
    m = 2.0 * regularization
    for b in (0.0, 0.5):
        exact = (1.0 + width - b * width) / (1.0 + m * width)
        tolerance = 3.0 * _least_tolerance(risk, b)
        found = certified_minimum(risk, tolerance, np.array([b]))
        assert abs(float(found.theta[0]) - exact) <= found.distance_upper_bound + 1e-15
        assert found.distance_upper_bound <= tolerance


def test_an_ill_conditioned_logistic_risk_takes_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curvatures apart by 1e15: by conjugate gradients a Newton step alone takes thousands of passes over the rows."""
    passes = 0
    real = MarginRisk.margins

    def counted(risk: MarginRisk, theta: np.ndarray) -> np.ndarray:
        nonlocal passes
        passes += 1
        return real(risk, theta)

    monkeypatch.setattr(MarginRisk, "margins", counted)
    risk = MarginRisk(*_hard_table("columns", 200, 40, 3, 0), LogisticLoss(), 1e-12)
    tolerance = 0.01 * 2.0 * risk.lipschitz / total_strong_convexity(risk)
    assert certified_minimum(risk, tolerance).distance_upper_bound <= tolerance
    assert passes < 3000


@pytest.mark.parametrize("width", [0.0, 0.3])
def test_the_gap_holds_for_a_theta_that_alpha_does_not_give(width: float) -> None:
    """P(theta) - D(alpha) of the definition, with a linear term, for any pair; and a search gets it below the least."""
    rng = np.random.default_rng(4)
    vectors, m, b = _vectors(30, 3), 0.7, rng.normal(size=3)
    loss = HuberisedHingeLoss(width) if width else HingeLoss()
    best = minimise_hinge(vectors, m, gap=1e-9, width=width, linear=b)
    assert best.gap_upper_bound <= 1e-9
    for _ in range(50):
        alpha, theta = rng.uniform(size=30) ** rng.integers(0, 4), 2.0 * rng.normal(size=3)
        primal = float(np.sum(loss.value(vectors @ theta))) + float(b @ theta) + 0.5 * m * float(theta @ theta)
        dual = float(np.sum((1.0 + width) * alpha - width * alpha**2))
        dual -= float(np.sum((vectors.T @ alpha - b) ** 2)) / (2.0 * m)
        gap = duality_gap(theta, alpha, vectors, m, width=width, linear=b)
        assert gap == pytest.approx(primal - dual, rel=1e-9)
        assert float(np.linalg.norm(theta - best.theta)) <= math.sqrt(2.0 * gap / m) + math.sqrt(2e-9 / m)


@pytest.mark.parametrize("orthogonal", [False, True])
def test_the_ridge_minimum_has_no_gradient(orthogonal: bool) -> None:
    rng = np.random.default_rng(0)
    rows, target, linear = rng.normal(size=(30, 4)), rng.normal(size=30), rng.normal(size=4)
    x = ridge_solver(rows, 0.3, orthogonal=orthogonal)(target, linear)
    np.testing.assert_allclose(rows.T @ (rows @ x - target) + 0.3 * x + linear, 0.0, atol=1e-13)


def test_rounding_costs_so_little_that_a_rounded_exact_minimum_is_certified() -> None:
    """w = 1 exactly, on the hinge's kink, with alpha = m / n: at the least tolerance the gap is a quarter rounding."""
    n, regularization = 1000, 1e-3
    risk = MarginRisk(np.ones((n, 1)), np.ones((n, 1)), HingeLoss(), regularization)
    m, tolerance = total_strong_convexity(risk), _least_tolerance(risk)
    gap = duality_gap(np.ones(1), np.full(n, m / n), risk.rows, m)
    assert 0.0 < gap <= 0.45 * m * tolerance**2
