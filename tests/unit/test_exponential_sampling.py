"""Exponential sampling: the range bounds and the guarantee by exhaustive numerics, the dispatch, the classifier."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import check_estimator

from schemas.learning import Adjacency
from tasks.classifiers import rejection_sampler
from tasks.classifiers.ball_gaussian import BallGaussian, log_lower_gamma, uniforms
from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet
from tasks.classifiers.exact_losses import ExactLosses, on_exact_rows
from tasks.classifiers.exponential_classifier import ExponentialSamplingClassifier
from tasks.classifiers.exponential_sampling import (
    choose_sampler,
    exponential_sample,
    range_bound_of,
    regularization_of,
)
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.net_sampler import net_of, risk_values, scores_of
from tasks.classifiers.piecewise_sampler import PIECEWISE_ERROR, is_piecewise_linear, pieces_of, segments_of
from tasks.classifiers.rejection_sampler import (
    _anchor,
    _log_acceptance,
    acceptance_lower_bound,
    sample_by_rejection,
)
from tasks.classifiers.risks import AbsoluteDistance, EmpiricalRisk, InnerProduct, MarginRisk, SquaredDistance
from tasks.classifiers.selection_law import exponential_weights
from tasks.noise import SeededBits

FloatArray = NDArray[np.float64]
LOSSES: list[MarginLoss] = [LogisticLoss(), HingeLoss(), HuberisedHingeLoss(0.5)]
ADJACENCIES: list[Adjacency] = ["replace_one", "add_remove"]


def line_risk(factors: FloatArray, loss: MarginLoss, regularization: float = 0.0) -> MarginRisk:
    """One weight; a record is y x in [-1, 1]."""
    return MarginRisk(np.abs(factors)[:, None], np.where(factors < 0.0, -1.0, 1.0)[:, None], loss, regularization)


def plane_risk(n: int, regularization: float, loss: MarginLoss | None = None, p: int = 2, seed: int = 0) -> MarginRisk:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, p))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return MarginRisk(rows, np.where(rows[:, :1] > 0.2, 1.0, -1.0), loss or LogisticLoss(), regularization)


def exact(risk: EmpiricalRisk, convex_set: ConvexSet) -> ExactLosses:
    return ExactLosses(on_exact_rows(risk), convex_set)


# --- range bounds -----------------------------------------------------------------------------------------------------


def test_range_bounds_by_hand() -> None:
    ball = Ball.around_zero(1, 3.0)
    record = np.array([1.0])
    assert range_bound_of(AbsoluteDistance(np.zeros((1, 1))), ball, "replace_one") == 12.0  # 2 L ||C||, ||C|| = 6
    assert range_bound_of(AbsoluteDistance(np.zeros((1, 1))), ball, "add_remove") == 6.0
    # log(1 + e^3) - log(1 + e^-3) = 3; 1 + 3 for the hinge
    assert range_bound_of(line_risk(record, LogisticLoss()), ball, "replace_one") == pytest.approx(6.0)
    assert range_bound_of(line_risk(record, HingeLoss()), ball, "replace_one") == pytest.approx(8.0)
    assert range_bound_of(line_risk(record, HingeLoss()), Ball.around_zero(1, 0.5), "add_remove") == pytest.approx(1.0)
    # the regulariser cancels only where the numbers of records are equal: 0.4 / 2 x 9 more
    assert range_bound_of(line_risk(record, LogisticLoss(), 0.4), ball, "replace_one") == pytest.approx(6.0)
    assert range_bound_of(line_risk(record, LogisticLoss(), 0.4), ball, "add_remove") == pytest.approx(3.0 + 1.8)
    shifted = Ball(np.array([5.0]), 3.0)
    assert range_bound_of(line_risk(record, LogisticLoss(), 0.4), shifted, "add_remove") == pytest.approx(
        math.log1p(math.exp(8.0)) - math.log1p(math.exp(2.0)) + 0.2 * (64.0 - 4.0)
    )


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("regularization", [0.0, 0.3])
@pytest.mark.parametrize(
    "convex_set",
    [
        Ball.around_zero(2, 3.0),
        Ball(np.array([2.0, -1.0]), 1.5),
        Box(np.array([-1.0, 0.5]), np.array([2.0, 3.0])),
        BallIntersection(Ball.around_zero(2, 3.0), Ball(np.array([1.0, 2.0]), 1.5)),
    ],
    ids=["ball", "shifted", "box", "lens"],
)
def test_range_bounds_hold_for_all_records_and_are_tight_on_balls(
    loss: MarginLoss, adjacency: Adjacency, regularization: float, convex_set: ConvexSet
) -> None:
    angles = np.linspace(0.0, 2.0 * np.pi, 49)[:-1]
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    net = net_of(convex_set, 900)
    edge = np.array([convex_set.project(100.0 * row + convex_set.centre) for row in np.vstack([rows, -rows])])
    thetas = np.vstack([net, edge, convex_set.project(np.zeros(2))])
    losses = loss.value(thetas @ rows.T)  # labels are in the sign of the row
    if adjacency == "replace_one":
        differences = (losses[:, :, None] - losses[:, None, :]).reshape(len(thetas), -1)
    else:
        differences = losses + 0.5 * regularization * np.sum(thetas**2, axis=1, keepdims=True)
    widest = float(np.max(np.ptp(differences, axis=0)))
    risk = MarginRisk(rows, np.ones((len(rows), 1)), loss, regularization)
    bound = range_bound_of(risk, convex_set, adjacency)
    assert widest <= bound * (1.0 + 1e-9)
    if isinstance(convex_set, Ball) and not convex_set.centre.any() and adjacency == "replace_one":
        assert widest >= 0.99 * bound


def test_unknown_regulariser_and_adjacency_are_refused() -> None:
    class Odd(AbsoluteDistance):
        def regularizer_gradient(self, theta: FloatArray) -> FloatArray:
            return np.arange(1.0, theta.size + 1.0)

    odd = Odd(np.zeros((3, 2)))
    assert range_bound_of(odd, Ball.around_zero(2, 1.0), "replace_one") == 4.0
    with pytest.raises(ValueError, match="regulariser"):
        range_bound_of(odd, Ball.around_zero(2, 1.0), "add_remove")
    with pytest.raises(ValueError, match="adjacency='both'"):
        range_bound_of(odd, Ball.around_zero(2, 1.0), "both")  # type: ignore[arg-type]


# --- the guarantee, by exhaustive numerics in one dimension -----------------------------------------------------------


def worst_loss(law: Callable[[FloatArray], FloatArray], adjacency: Adjacency) -> float:
    """Largest |log density ratio| over neighbours: one record -1, 0 or 1 changed in tables that lie all on one side."""
    worst = 0.0
    for others in (np.full(400, 1.0), np.full(60, -1.0), np.full(60, 0.3), np.repeat([1.0, -1.0], 30), np.full(3, 1.0)):
        tables = [np.append(others, record) for record in (-1.0, 0.0, 0.5, 1.0)]
        laws = [law(table) for table in tables]
        pairs = [(a, b) for a in laws for b in laws] if adjacency == "replace_one" else [(law(others), b) for b in laws]
        worst = max(worst, *(float(np.abs(a - b).max()) for a, b in pairs))
    return worst


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_net_keeps_epsilon_and_half_the_range_does_not(adjacency: Adjacency, epsilon: float, loss: MarginLoss) -> None:
    ball, net = Ball.around_zero(1, 2.0), net_of(Ball.around_zero(1, 2.0), 201)

    def law(factor: float, regularization: float = 0.0) -> Callable[[FloatArray], FloatArray]:
        def log_probabilities(table: FloatArray) -> FloatArray:
            risk = line_risk(table, loss, regularization)
            k = factor * range_bound_of(risk, ball, adjacency)
            weights = np.array(exponential_weights(risk_values(risk, net), k, epsilon), dtype=float)
            return np.log(weights / weights.sum())

        return log_probabilities

    assert worst_loss(law(1.0), adjacency) <= epsilon
    assert worst_loss(law(1.0, 0.5), adjacency) <= epsilon
    assert worst_loss(law(0.5), adjacency) > epsilon
    if epsilon == 4.0:  # where the law is narrow, nothing is wasted: a tenth less would not do
        assert worst_loss(law(0.9), adjacency) > epsilon


def test_regulariser_left_out_of_the_range_breaks_add_remove() -> None:
    ball, net, epsilon = Ball.around_zero(1, 3.0), net_of(Ball.around_zero(1, 3.0), 201), 1.0
    tables = [np.repeat([1.0, -1.0], 20), np.append(np.repeat([1.0, -1.0], 20), 1.0)]
    ranges = [range_bound_of(line_risk(tables[0], LogisticLoss(), weight), ball, "add_remove") for weight in (1.0, 0.0)]
    losses = []
    for k in ranges:
        first, second = (
            np.array(exponential_weights(risk_values(line_risk(t, LogisticLoss(), 1.0), net), k, epsilon), dtype=float)
            for t in tables
        )
        losses.append(float(np.ptp(np.log(first) - np.log(second))))
    assert losses[0] <= epsilon < losses[1]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_piecewise_law_keeps_epsilon_and_half_the_range_does_not(adjacency: Adjacency) -> None:
    ball, epsilon = Ball.around_zero(1, 2.0), 2.0

    def law(factor: float) -> Callable[[FloatArray], FloatArray]:
        def log_probabilities(table: FloatArray) -> FloatArray:
            risk = line_risk(table, HingeLoss())
            k = factor * range_bound_of(risk, ball, adjacency)
            return _piecewise_law(risk, -2.0, 2.0, epsilon / k, 8)[1]

        return log_probabilities

    assert worst_loss(law(1.0), adjacency) <= epsilon * (1.0 + 1e-9)
    assert worst_loss(law(0.5), adjacency) > epsilon


def _piecewise_law(risk: EmpiricalRisk, low: float, high: float, scale: float, bits: int) -> tuple[FloatArray, Any]:
    """Points of the net and their log probabilities, from the segments that the sampler draws by."""
    s = segments_of(pieces_of(risk, low, high, bits), scale)
    places, logs = [], []
    for first, length, start, rate, reverse in zip(s.first, s.length, s.start, s.rate, s.reverse, strict=True):
        exponent = start + rate * np.arange(length)
        places.append(first + np.arange(length))
        logs.append(-(exponent[::-1] if reverse else exponent))
    log_weights = np.concatenate(logs)
    assert s.log_masses() == pytest.approx([np.log(np.sum(np.exp(part))) for part in logs], abs=1e-10)
    return np.concatenate(places) * s.spacing, log_weights - np.log(np.sum(np.exp(log_weights)))


@pytest.mark.parametrize(
    "risk",
    [
        AbsoluteDistance(np.array([[-0.5], [0.1], [0.1], [0.7], [5.0], [-0.9]])),
        line_risk(np.array([1.0, -0.7, 0.9, 0.0, 0.3, -1.0, 1e-300]), HingeLoss()),
        InnerProduct(np.array([[0.4], [-0.1]])),
    ],
)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 300.0])
def test_piecewise_segments_are_the_risk(risk: EmpiricalRisk, scale: float) -> None:
    low, high = -2.3, 1.7
    assert is_piecewise_linear(risk) and choose_sampler(risk, Box(np.array([low]), np.array([high]))) == "piecewise"
    points, log_probabilities = _piecewise_law(risk, low, high, scale, 8)
    assert points[0] >= low and points[-1] <= high and len(points) >= 2**8
    assert np.diff(points) == pytest.approx(points[1] - points[0])
    if isinstance(risk, AbsoluteDistance):  # records count as the nearest point of the net, a coarse one here
        risk = AbsoluteDistance(np.clip(np.rint(risk.points * 64.0) / 64.0, points[0], points[-1]))
    values = np.array([risk.value(np.array([t])) for t in points])
    wanted = -np.minimum(scale * (values - values.min()), 96.0 * math.log(2.0))
    # factors are rounded at 2^-32
    assert log_probabilities == pytest.approx(wanted - np.log(np.sum(np.exp(wanted))), abs=1e-9 * max(1.0, scale))


def test_expected_excess_is_within_the_bound_of_dimension() -> None:
    """E excess <= p k / epsilon = 2 p L ||C|| / epsilon, exactly computed, in two settings of one dimension."""
    rng = np.random.default_rng(1)
    for n, epsilon, bound in ((50, 1.0, 4.0), (200, 0.5, 8.0)):
        for points in (rng.uniform(-1.0, 1.0, (n, 1)), np.full((n, 1), 0.3), rng.choice([-1.0, 1.0], (n, 1))):
            risk = AbsoluteDistance(points)
            assert 4.0 / epsilon == bound == range_bound_of(risk, Ball.around_zero(1, 1.0), "replace_one") / epsilon
            thetas, logs = _piecewise_law(risk, -1.0, 1.0, epsilon / 4.0, 10)
            excess = np.array([risk.value(np.array([t])) for t in thetas])
            assert 0.2 * bound < float(np.exp(logs) @ (excess - excess.min())) <= bound


# --- rejection --------------------------------------------------------------------------------------------------------

SMOOTH: list[EmpiricalRisk] = [
    plane_risk(80, 0.05, p=4),
    plane_risk(80, 0.2, HuberisedHingeLoss(0.3), p=4),
    SquaredDistance(np.random.default_rng(0).uniform(-0.4, 0.4, (30, 4)), parameter_norm=2.0),
]


@pytest.mark.parametrize("risk", SMOOTH)
def test_proposals_times_acceptance_are_the_wanted_density_whatever_the_anchor(risk: EmpiricalRisk) -> None:
    ball, scale = Ball(np.array([0.3, 0.0, -0.2, 0.1]), 1.5), 0.7
    spread = 1.0 / math.sqrt(scale * risk.n_records * risk.strong_convexity)
    rng = np.random.default_rng(1)
    thetas = ball.centre + rng.uniform(-0.7, 0.7, (50, 4))
    anchor = _anchor(risk, ball, spread)
    elsewhere = anchor.theta + rng.uniform(-0.5, 0.5, 4)
    gradient = risk.gradient(elsewhere)
    convexity = risk.n_records * risk.strong_convexity
    law = BallGaussian((elsewhere - gradient / convexity - ball.centre) / spread, ball.radius / spread)
    for used in (anchor, anchor._replace(theta=elsewhere, gradient=gradient, law=law)):
        losses = exact(risk, ball)
        accepted = _log_acceptance(losses, scale, used, losses.totals(used.theta[None])[0], thetas)
        proposed = -0.5 * np.sum(((thetas - ball.centre) / spread - used.law.mean) ** 2, axis=1)
        total = accepted + proposed + scale * risk_values(losses.risk, thetas)
        assert np.ptp(total) < 1e-7 and accepted.max() <= 0.0
    assert anchor.distance < 0.1  # near the expectation of its own proposals, on which the acceptance bound rests


def test_a_proposal_is_taken_with_just_its_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """At acceptance .3 the first of the uniform numbers .31, .301, .299, .2 that is below it is the third."""
    risk = MarginRisk(np.eye(3), np.ones((3, 1)), LogisticLoss(), 0.5)
    monkeypatch.setattr(rejection_sampler, "_log_acceptance", lambda *given: np.full(len(given[-1]), math.log(0.3)))
    told = cycle([0.31, 0.301, 0.299, 0.2])
    monkeypatch.setattr(rejection_sampler, "uniforms", lambda n, _: np.array([next(told) for _ in range(n)]))
    drawn = sample_by_rejection(exact(risk, Ball.around_zero(3, 5.0)), 1.0, 1.0, SeededBits(1), regularization=0.5)
    assert drawn.n_proposals == 3


def test_acceptance_bound_holds_for_records_that_curve_most() -> None:
    """All records alike and undecided: the Hessian is beta n x x'; the bound's exponent is then tau / (2 Delta)."""
    risk = MarginRisk(
        np.tile([[1.0, 0.0, 0.0]], (400, 1)), np.repeat([[1.0], [-1.0]], 200, axis=0), LogisticLoss(), 0.05
    )
    assert acceptance_lower_bound(risk, 0.05) == pytest.approx(math.exp(-2.5))
    ball, bits = Ball.around_zero(3, 5.0), SeededBits(3)
    counts = [
        sample_by_rejection(exact(risk, ball), 20.0, 5.0, bits, regularization=0.05).n_proposals for _ in range(300)
    ]
    assert np.mean(counts) < math.exp(2.5)
    assert np.mean(counts) > 1.5  # det(I + H / m)^(1/2) = sqrt 6 in the normal limit
    assert acceptance_lower_bound(SMOOTH[2], 0.0) == 1.0
    assert acceptance_lower_bound(plane_risk(10, 0.0), 0.0) == 0.0
    assert acceptance_lower_bound(plane_risk(10, 0.1, HingeLoss()), 0.1) == 0.0


def test_rejection_refuses_what_could_take_for_ever() -> None:
    ball, bits = Ball.around_zero(2, 5.0), SeededBits(0)
    with pytest.raises(ValueError, match="as few as"):
        sample_by_rejection(exact(plane_risk(50, 0.25 / 24.0), ball), 1.0, 1.0, bits, regularization=0.25 / 24.0)
    with pytest.raises(ValueError, match="balls"):
        sample_by_rejection(exact(plane_risk(9, 0.1), Box.cube(2, 1.0)), 1.0, 1.0, bits, regularization=0.1)
    with pytest.raises(ValueError, match="too few in 400 dimensions"):
        BallGaussian(np.zeros(400), 1.0)


def test_logarithm_of_the_incomplete_gamma_function_far_out() -> None:
    """P(a, x) = P(a + 1, x) + x^a e^-x / Gamma(a + 1), also where P is 0 in doubles."""
    x = np.array([1e-3, 0.1, 1.0, 5.0, 30.0])
    for a in (0.5, 3.0, 80.0, 300.0):
        step = a * np.log(x) - x - math.lgamma(a + 1.0)
        assert log_lower_gamma(a, x) == pytest.approx(np.logaddexp(log_lower_gamma(a + 1.0, x), step), rel=1e-10)
    assert log_lower_gamma(2.0, np.array([0.0]))[0] == -math.inf


class Words:
    """A bit source of given words."""

    label = "fixed"

    def __init__(self, *words: int) -> None:
        self.own = np.array(words, dtype=np.uint64)

    def words(self, n_words: int) -> NDArray[np.uint64]:
        return self.own[:n_words]


def test_uniform_numbers_lie_strictly_between_0_and_1() -> None:
    """The odd multiples of 2^-53; the top word rounded up would give 1, which no law with a density gives."""
    drawn = uniforms(4, Words(0, 2**12, 2**63, 2**64 - 1))
    assert drawn.tolist() == [2.0**-53, 3.0 * 2.0**-53, 0.5 + 2.0**-53, 1.0 - 2.0**-53]


def narrow(n: int) -> tuple[MarginRisk, Ball]:
    """A small set far from 0, where risks are large and their differences small."""
    return plane_risk(n, 0.1, p=3), Ball(np.array([2.0, -2.0, 1.0]), 1e-4)


def test_density_by_rejection_has_no_error_that_grows_with_the_records() -> None:
    """Its logarithm is that of the exact sum to a quarter of what the slack pays for; plain sums are convicted."""
    risk, ball = narrow(40_000)
    losses, epsilon = exact(risk, ball), 10.0
    scale = epsilon / (2e-4 * 2.0)
    spread = 1.0 / math.sqrt(scale * risk.n_records * 0.1)
    anchor = _anchor(losses.risk, ball, spread)
    thetas = ball.centre + 1e-4 * np.random.default_rng(2).uniform(-0.5, 0.5, (16, 3))
    base = losses.totals(anchor.theta[None])[0]
    accepted = _log_acceptance(losses, scale, anchor, base, thetas)
    low = scale * ((thetas - anchor.theta) @ anchor.gradient + 2000.0 * np.sum((thetas - anchor.theta) ** 2, axis=1))
    wanted = scale * losses.unit * np.array([float(total - base) for total in losses.totals(thetas)])
    assert np.ptp(accepted - low + wanted) <= epsilon * 2.0**-23
    plain = scale * np.array([losses.risk.value(theta) for theta in thetas])
    assert np.ptp(accepted - low + plain) > epsilon * 2.0**-23


def test_the_envelope_is_above_the_density_everywhere() -> None:
    """Whatever rounding does, also at the anchor, where they touch: nothing is cut off."""
    for risk, ball in (narrow(3000), (plane_risk(3000, 0.1, HuberisedHingeLoss(0.5), p=3), Ball.around_zero(3, 2.0))):
        losses = exact(risk, ball)
        anchor = _anchor(losses.risk, ball, 0.1 * ball.radius)
        steps = np.vstack([np.zeros((1, 3)), np.random.default_rng(0).normal(size=(40, 3)) * 1e-6 * ball.radius])
        base = losses.totals(anchor.theta[None])[0]
        found = _log_acceptance(losses, 1.0 / ball.radius, anchor, base, anchor.theta + steps)
        assert -1e-2 < found.max() < 0.0


def test_tables_too_large_for_the_slack_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.classifiers import exact_losses

    risk, ball = narrow(30)
    arguments: dict[str, Any] = {"adjacency": "replace_one", "bits": SeededBits(0), "sampler": "rejection"}
    monkeypatch.setattr(exact_losses, "MOST_ROUNDINGS", 30 * 19 // 2)
    with pytest.raises(ValueError, match="cannot pay for rounding with 30 records, 3"):
        exponential_sample(risk, ball, 1.0, **arguments)
    monkeypatch.setattr(exact_losses, "MOST_RECORDS", 29)
    with pytest.raises(ValueError, match="got 30"):
        exponential_sample(risk, ball, 1.0, **arguments)


# --- the norm that a constant holds up to -----------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_set_beyond_the_parameter_norm_is_refused(adjacency: Adjacency) -> None:
    risk = SquaredDistance(np.full((5, 1), 0.5), parameter_norm=2.0)
    sets: list[ConvexSet] = [Ball(np.array([1.5]), 0.6), Box(np.array([-2.1]), np.array([0.0]))]
    for convex_set in sets:
        with pytest.raises(ValueError, match=r"parameter_norm=2.0 is too small"):
            exponential_sample(risk, convex_set, 1.0, adjacency=adjacency, bits=SeededBits(0))
    inside = exponential_sample(risk, Ball(np.array([1.5]), 0.5), 1.0, adjacency=adjacency, bits=SeededBits(0))
    assert inside.sampler == "net"


def test_squared_distances_keep_epsilon_up_to_the_parameter_norm_only() -> None:
    """Any record added, |d| <= 1; the constant of a shorter norm is convicted."""
    ball, net, epsilon = Ball.around_zero(1, 10.0), net_of(Ball.around_zero(1, 10.0), 201), 1.0
    table = np.array([[0.4], [-0.2]])
    for norm, holds in ((10.0, True), (1.0, False)):
        worst = 0.0
        k = range_bound_of(SquaredDistance(table, parameter_norm=10.0), ball, "add_remove") * (1.0 + norm) / 11.0
        for record in (-1.0, 0.0, 1.0):
            first, second = (
                np.array(
                    exponential_weights(scores_of(exact(SquaredDistance(t, 1.0, 10.0), ball), net), k, epsilon), float
                )
                for t in (table, np.vstack([table, [[record]]]))
            )
            worst = max(worst, float(np.abs(np.log(first / first.sum()) - np.log(second / second.sum())).max()))
        assert (worst <= epsilon) == holds


# --- dispatch ---------------------------------------------------------------------------------------------------------


def test_auto_takes_what_is_exact() -> None:
    ball = Ball.around_zero
    assert choose_sampler(AbsoluteDistance(np.zeros((2, 1))), ball(1, 1.0)) == "piecewise"
    assert choose_sampler(line_risk(np.ones(3), HingeLoss(), 0.1), ball(1, 1.0)) == "net"
    assert choose_sampler(AbsoluteDistance(np.zeros((2, 2))), ball(2, 1.0)) == "net"
    assert choose_sampler(plane_risk(9, 0.1, p=3), ball(3, 1.0)) == "rejection"
    for risk, convex_set in (
        (plane_risk(9, 0.001, p=3), ball(3, 1.0)),
        (plane_risk(9, 0.1, HingeLoss(), p=3), ball(3, 1.0)),
        (plane_risk(9, 0.1, p=3), Box.cube(3, 1.0)),
    ):
        with pytest.raises(ValueError, match="regularization of at least smoothness / 23"):
            choose_sampler(risk, convex_set)


def test_what_is_drawn_lies_on_a_public_lattice_or_net() -> None:
    bits, risk, ball = SeededBits(5), plane_risk(60, 0.1), Ball.around_zero(2, 3.0)
    drawn = exponential_sample(risk, ball, 1.0, adjacency="replace_one", bits=bits, sampler="rejection")
    assert drawn.pure and drawn.sampler == "rejection" and drawn.range_bound == pytest.approx(6.0)
    steps = drawn.theta * 2.0**28  # 2^-30 of the diameter 6, as a power of two
    assert np.array_equal(steps, np.rint(steps)) and drawn.theta.any()
    drawn = exponential_sample(risk, ball, 1.0, adjacency="replace_one", bits=bits, net_points=100)
    assert drawn.sampler == "net" and (net_of(ball, 100) == drawn.theta).all(axis=1).any()
    lens = BallIntersection(ball, Ball(np.array([2.0, 0.0]), 2.0))
    assert all(
        lens.contains(exponential_sample(risk, lens, 1.0, adjacency="add_remove", bits=bits, sampler=name).theta)
        for name in ("net", "rejection", "grid-walk")
    )
    joint = MarginRisk(risk.rows, np.hstack([risk.signs, -risk.signs]), LogisticLoss(), 0.1)
    drawn = exponential_sample(joint, Ball.around_zero(4, 3.0), 1.0, adjacency="replace_one", bits=bits)
    assert drawn.sampler == "rejection" and drawn.range_bound == pytest.approx(2.0 * math.sqrt(2.0) * 6.0)
    assert risk_values(joint, drawn.theta[None]) == pytest.approx(joint.value(drawn.theta))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("sampler", ["net", "rejection", "grid-walk", "piecewise"])
def test_what_rounding_adds_to_the_range_is_paid_for(adjacency: Adjacency, sampler: Any) -> None:
    risk = line_risk(np.array([0.5, -1.0, 0.7]), LogisticLoss(), 0.1)
    if sampler == "piecewise":
        risk = line_risk(np.array([0.5, -1.0, 0.7]), HingeLoss())
    ball, bits = Ball.around_zero(1, 2.0), SeededBits(1)
    cells = 8 if sampler == "grid-walk" else None
    drawn = exponential_sample(risk, ball, 1.0, adjacency=adjacency, bits=bits, sampler=sampler, cells_per_axis=cells)
    excess = exact(risk, ball).range_excess(adjacency)
    if sampler == "piecewise":
        excess = PIECEWISE_ERROR * (4.0 if adjacency == "replace_one" else 2.0)
    assert drawn.range_bound == range_bound_of(risk, ball, adjacency) + excess > range_bound_of(risk, ball, adjacency)


def test_range_excess_by_hand() -> None:
    """A record's whole number errs by `error` either way, so its range by twice that; two records' by four times."""
    ball, risk = Ball.around_zero(2, 2.0), plane_risk(9, 0.1)
    losses = exact(risk, ball)
    assert losses.range_excess("replace_one") == 4.0 * losses.error
    assert losses.range_excess("add_remove") == 2.0 * (losses.error + losses.regularizer_error)
    public = exact(replace(risk, public_size=100), ball)
    assert public.range_excess("add_remove") == 2.0 * losses.error
    assert range_bound_of(replace(risk, public_size=100), ball, "add_remove") == pytest.approx(2.0)
    assert range_bound_of(risk, ball, "add_remove") == pytest.approx(2.0 + 0.05 * 4.0)


def test_the_range_does_not_depend_on_the_number_of_records_in_any_bit() -> None:
    assert {regularization_of(plane_risk(n, 0.1)) for n in range(20, 60)} == {0.1}
    ball = Ball(np.array([0.3, -0.7]), 1.3)
    for public_size in (None, 30):
        risks = [replace(plane_risk(n, 0.013), public_size=public_size) for n in range(20, 60)]
        assert (
            len({range_bound_of(r, ball, "add_remove") + exact(r, ball).range_excess("add_remove") for r in risks}) == 1
        )


def test_net_covers_the_set() -> None:
    for convex_set in (Ball(np.array([1.0, 2.0, 3.0]), 2.0), Box(np.array([-1.0]), np.array([5.0]))):
        net = net_of(convex_set, 1000)
        assert all(convex_set.contains(point) for point in net)
        assert (net == convex_set.centre).all(axis=1).any() and 250 < len(net) <= 1000


def test_bad_arguments_are_named() -> None:
    risk, ball, bits = plane_risk(9, 0.1), Ball.around_zero(2, 1.0), SeededBits(0)
    for name, value in (
        ("epsilon", math.inf), ("epsilon", -1.0), ("epsilon", math.nan), ("sampler", "gibbs"), ("certify", False),
        ("adjacency", "some"), ("net_points", 3), ("net_points", 1e4), ("net_points", 2**23),
    ):  # fmt: skip
        arguments: dict[str, Any] = {"epsilon": 1.0, "adjacency": "replace_one", "bits": bits, name: value}
        with pytest.raises(ValueError, match=name):
            exponential_sample(risk, ball, **arguments)
    with pytest.raises(ValueError, match="3 dimensions"):
        exponential_sample(risk, Ball.around_zero(3, 1.0), 1.0, adjacency="replace_one", bits=bits)
    with pytest.raises(ValueError, match="piecewise linear"):
        exponential_sample(risk, ball, 1.0, adjacency="replace_one", bits=bits, sampler="piecewise")
    with pytest.raises(ValueError, match="at most 3 dimensions"):
        exponential_sample(
            plane_risk(9, 0.1, p=4), Ball.around_zero(4, 1.0), 1.0, adjacency="replace_one", bits=bits, sampler="net"
        )


# --- the classifier ---------------------------------------------------------------------------------------------------

NO_WEIGHTS = "a record's weight multiplies its part in what is released: refused, whatever it is"
EXPECTED_FAILURES = dict.fromkeys(
    [
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_all_zero_sample_weights_error",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_classifiers_one_label_sample_weights",
    ],
    NO_WEIGHTS,
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks() -> None:
    check_estimator(ExponentialSamplingClassifier(), expected_failed_checks=EXPECTED_FAILURES)


def three_groups(n: int, seed: int = 0) -> tuple[FloatArray, NDArray[np.str_]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    centres = np.array([[0.8, 0.0], [-0.6, 0.7], [-0.6, -0.7]])
    return centres[labels] + 0.15 * rng.normal(size=(n, 2)), np.array(["a", "b", "c"])[labels]


def test_classifier_learns_and_says_what_it_guarantees() -> None:
    X, y = three_groups(6000)
    fitted = ExponentialSamplingClassifier(epsilon=4.0, random_state=1).fit(X, y)
    assert fitted.score(*three_groups(500, 1)) > 0.9
    assert fitted.sampler_ == "rejection" and fitted.radius_ == pytest.approx(math.sqrt(2.0 * math.log(2.0) / 0.05))
    guarantee = fitted.guarantee_
    assert guarantee is not None and (guarantee.epsilon, guarantee.delta) == (4.0, 0.0)
    assert [(e.kind, e.epsilon, e.delta) for e in guarantee.events] == [("approximate", 4.0, 0.0)]  # type: ignore[union-attr]
    assert "epsilon / 3" in guarantee.mechanism and "basic composition" in guarantee.proof
    assert guarantee.randomness == "seeded (not private)"
    again = ExponentialSamplingClassifier(epsilon=4.0, random_state=1).fit(X, y)
    assert np.array_equal(again.coef_, fitted.coef_)
    two = ExponentialSamplingClassifier(epsilon=4.0, random_state=1, classes=["a", "b"]).fit(X[y != "c"], y[y != "c"])
    assert two.coef_.shape == (1, 2) and two.range_bound_ == pytest.approx(2.0 * two.radius_)
    assert not any("proposals" in name for name in vars(fitted))


def test_each_class_gets_its_share_of_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.classifiers import exponential_classifier as module

    seen: list[tuple[float, str]] = []

    def spy(risk: Any, ball: Any, epsilon: float, **rest: Any) -> Any:
        seen.append((epsilon, rest["adjacency"]))
        return exponential_sample(risk, ball, epsilon, **rest)

    monkeypatch.setattr(module, "exponential_sample", spy)
    X, y = three_groups(200)
    ExponentialSamplingClassifier(epsilon=3.0, adjacency="add_remove", random_state=0).fit(X, y)
    assert seen == [(1.0, "add_remove")] * 3
    seen.clear()
    ExponentialSamplingClassifier(epsilon=3.0, random_state=0).fit(X[y != "c"], y[y != "c"])
    assert seen == [(3.0, "replace_one")]


def test_preprocessing_makes_it_impure() -> None:
    X, y = three_groups(500)
    settings: dict[str, Any] = {"feature_bounds": (-2.0, 2.0), "random_state": 0}
    guarantee = ExponentialSamplingClassifier(2.0, 1e-6, preprocessing_share=0.25, **settings).fit(X, y).guarantee_
    assert guarantee is not None and (guarantee.epsilon, guarantee.delta) == (2.0, 1e-6)
    assert [event.kind for event in guarantee.events] == ["gaussian", "approximate"]
    assert guarantee.events[1].epsilon == 1.5  # type: ignore[union-attr]
    guarantee = ExponentialSamplingClassifier(2.0, 1e-6, **settings).fit(X, y).guarantee_
    assert guarantee is not None and guarantee.delta == 0.0
    with pytest.raises(ValueError, match="delta above 0"):
        ExponentialSamplingClassifier(2.0, preprocessing_share=0.25, **settings).fit(X, y)


@pytest.mark.parametrize("loss", ["logistic", "huberised-hinge", "hinge"])
def test_without_noise_it_gives_the_minimiser(loss: Any) -> None:
    X, y = three_groups(300)
    fitted = ExponentialSamplingClassifier(epsilon=math.inf, loss=loss).fit(X, y)
    assert fitted.guarantee_ is None and fitted.score(X, y) > 0.85
    rows = fitted.row_map_.rows(X)
    risk = MarginRisk(
        rows, np.where(y == "a", 1.0, -1.0)[:, None], HingeLoss() if loss == "hinge" else LogisticLoss(), 0.05
    )
    if loss == "logistic":
        theta = np.append(fitted.coef_[0], fitted.intercept_[0] / math.sqrt(0.5))
        assert np.linalg.norm(risk.gradient(theta)) < 1e-4 and np.linalg.norm(theta) < fitted.radius_


def test_default_radius_covers_the_minimiser() -> None:
    """n Delta / 2 |w|^2 <= risk(w) <= risk(0), and the gradient's norm is at most n."""
    cases: list[tuple[float, Any]] = [(0.05, "logistic"), (3.0, "logistic"), (0.2, "huberised-hinge")]
    for weight, loss in cases:
        X = np.array([[1.0], [1.0], [-1.0]])
        fitted = ExponentialSamplingClassifier(
            math.inf,
            regularization=weight,
            loss=loss,
            fit_intercept=False,
        ).fit(X, [1, 1, 0])
        assert abs(fitted.coef_[0, 0]) < fitted.radius_ <= 1.0 / weight


def test_the_width_of_the_parabola_is_called_as_elsewhere() -> None:
    """Boosting compares fits by `huber_width`."""
    assert ExponentialSamplingClassifier(huber_width=2.0).get_params()["huber_width"] == 2.0
    assert "width" not in ExponentialSamplingClassifier().get_params()


def test_hinge_needs_few_dimensions() -> None:
    X, y = three_groups(300)
    fitted = ExponentialSamplingClassifier(20.0, loss="hinge", fit_intercept=False, random_state=0).fit(X, y)
    assert fitted.sampler_ == "net" and fitted.score(X, y) > 0.6
    line = ExponentialSamplingClassifier(
        5.0, loss="hinge", fit_intercept=False, regularization=0.0, radius=2.0, random_state=0
    ).fit(X[:, :1], y == "a")
    assert line.sampler_ == "piecewise" and line.coef_[0, 0] > 0.0
    with pytest.raises(ValueError, match="no exact sampler"):
        ExponentialSamplingClassifier(loss="hinge", random_state=0).fit(X, y)
    four = np.hstack([X, X])
    with pytest.raises(ValueError, match="no exact sampler"):
        ExponentialSamplingClassifier(math.inf, loss="hinge").fit(four, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", "squared"), ("huber_width", 0.0), ("regularization", -1.0), ("regularization", True), ("radius", 0.0),
        ("radius", math.inf), ("radius", True), ("sampler", "gibbs"), ("net_points", 0.5), ("data_norm", None),
        ("epsilon", 0.0), ("delta", 1.0), ("adjacency", "other"), ("regularization", 0.0),
    ],
)  # fmt: skip
def test_bad_parameters_are_named(name: str, value: Any) -> None:
    X, y = np.linspace(-1.0, 1.0, 10)[:, None], np.arange(10) > 4
    settings = {"loss": "huberised-hinge"} if name == "huber_width" else {}
    with pytest.raises(ValueError, match=name.removeprefix("huber_")):
        ExponentialSamplingClassifier(random_state=0, **{**settings, name: value}).fit(X, y)
    if name == "sampler":
        with pytest.raises(ValueError, match="smooth loss"):
            ExponentialSamplingClassifier(sampler="rejection", loss="hinge").fit(X, y)
