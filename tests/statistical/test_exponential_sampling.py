"""The laws of the exponential samplers against densities normalised numerically, and against each other.

Each check is at level 1e-6 and must convict the same sampler with another epsilon or another set.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tasks.classifiers import exponential_sampling, net_sampler, rejection_sampler
from tasks.classifiers.ball_gaussian import BallGaussian
from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet
from tasks.classifiers.exponential_sampling import Sampler, exponential_sample, range_bound_of
from tasks.classifiers.grid_walk import GridWalk
from tasks.classifiers.losses import HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.net_sampler import risk_values
from tasks.classifiers.piecewise_sampler import sample_piecewise
from tasks.classifiers.risks import AbsoluteDistance, EmpiricalRisk, InnerProduct, MarginRisk
from tasks.noise import SeededBits
from tests.statistics import ALPHA, chi_square_p_value

FloatArray = NDArray[np.float64]


def margin_risk(n: int, p: int, loss: MarginLoss, regularization: float) -> MarginRisk:
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(n, p)) + 0.3
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return MarginRisk(rows, np.where(rows[:, :1] > 0.1, 1.0, -1.0), loss, regularization)


@pytest.fixture(autouse=True)
def anchors_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes most of a draw's time and draws nothing is done once for each risk: anchor, certificate, net."""
    monkeypatch.setattr(exponential_sampling, "on_exact_rows", cache(exponential_sampling.on_exact_rows))
    monkeypatch.setattr(exponential_sampling, "ExactLosses", cache(exponential_sampling.ExactLosses))
    monkeypatch.setattr(rejection_sampler, "_anchor", cache(rejection_sampler._anchor))
    monkeypatch.setattr(exponential_sampling, "grid_walk_for", cache(exponential_sampling.grid_walk_for))
    monkeypatch.setattr(net_sampler, "net_of", cache(net_sampler.net_of))
    monkeypatch.setattr(GridWalk, "certified_steps", cache(GridWalk.certified_steps))


def draws(
    count: int, risk: EmpiricalRisk, convex_set: ConvexSet, epsilon: float, sampler: Sampler, seed: int, **settings: Any
) -> FloatArray:
    bits = SeededBits(seed)
    return np.array(
        [
            exponential_sample(
                risk, convex_set, epsilon, adjacency="replace_one", bits=bits, sampler=sampler, **settings
            ).theta
            for _ in range(count)
        ]
    )


def line_cdf(risk: EmpiricalRisk, convex_set: ConvexSet, epsilon: float) -> Callable[[Any], Any]:
    """Of the density proportional to exp(-epsilon risk / k) on an interval, by the midpoint rule on 20000 cells."""
    low, high = convex_set.centre[0] - convex_set.diameter / 2, convex_set.centre[0] + convex_set.diameter / 2
    edges = np.linspace(low, high, 20001)
    exponent = risk_values(risk, (0.5 * (edges[1:] + edges[:-1]))[:, None]) * (
        epsilon / range_bound_of(risk, convex_set, "replace_one")
    )
    density = np.exp(exponent.min() - exponent)
    cumulated = np.concatenate([[0.0], np.cumsum(density)]) / density.sum()
    return lambda t: np.interp(t, edges, cumulated)


LINE = Ball(np.array([0.4]), 2.0)
SMOOTH = margin_risk(60, 1, LogisticLoss(), 0.05)
HUBER = margin_risk(60, 1, HuberisedHingeLoss(0.5), 0.1)
MEDIAN = AbsoluteDistance(np.random.default_rng(2).uniform(-1.0, 1.5, (40, 1)))


@pytest.mark.parametrize(
    ("risk", "sampler"),
    [
        (SMOOTH, "net"),
        (SMOOTH, "rejection"),
        (SMOOTH, "grid-walk"),
        (HUBER, "rejection"),
        (MEDIAN, "net"),
        (MEDIAN, "piecewise"),
    ],
)
def test_law_on_a_line(risk: EmpiricalRisk, sampler: Sampler) -> None:
    """300 draws each at epsilon 4 (250 of the walk, 500 by rejection); the same draws convict epsilon 1 and 16."""
    # a grid or net so coarse moves the distribution function by less than the check can see
    settings = {"cells_per_axis": 24} if sampler == "grid-walk" else {"net_points": 101} if sampler == "net" else {}
    drawn = draws({"grid-walk": 250, "rejection": 500}.get(sampler, 300), risk, LINE, 4.0, sampler, 7, **settings)[:, 0]
    # the walk runs at nine tenths of epsilon
    epsilon = 3.6 if sampler == "grid-walk" else 4.0
    assert stats.kstest(drawn, line_cdf(risk, LINE, epsilon)).pvalue > ALPHA
    for wrong in (1.0, 16.0):
        assert stats.kstest(drawn, line_cdf(risk, LINE, wrong)).pvalue < ALPHA


def polar_cells(thetas: FloatArray, middle: FloatArray) -> NDArray[np.int64]:
    """Eight directions from a point times three distances."""
    offset = thetas - middle
    direction = np.floor((np.arctan2(offset[:, 1], offset[:, 0]) + np.pi) / (2.0 * np.pi) * 8.0).clip(0, 7)
    return (direction * 3 + np.digitize(np.hypot(offset[:, 0], offset[:, 1]), [0.7, 1.4])).astype(np.int64)


def plane_law(risk: EmpiricalRisk, convex_set: ConvexSet, scale: float, middle: FloatArray) -> FloatArray:
    """Probabilities of the 24 cells, by summing over a grid of 150^2 points."""
    axis = np.linspace(-0.5, 0.5, 151)[:-1] + 0.5 / 150
    x, y = np.meshgrid(axis, axis)
    grid = convex_set.centre + 1.2 * convex_set.diameter * np.column_stack([x.ravel(), y.ravel()])
    grid = grid[[convex_set.contains(point) for point in grid]]
    exponent = scale * risk_values(risk, grid)
    return (
        np.bincount(polar_cells(grid, middle), np.exp(exponent.min() - exponent), 24)
        / np.exp(exponent.min() - exponent).sum()
    )


PLANE = margin_risk(80, 2, LogisticLoss(), 0.05)
DISC = Ball.around_zero(2, 2.0)
LENS = BallIntersection(Ball.around_zero(2, 2.0), Ball(np.array([1.2, 1.2]), 1.5))


@pytest.mark.parametrize("convex_set", [DISC, LENS], ids=["disc", "lens"])
def test_law_in_the_plane(convex_set: ConvexSet) -> None:
    """1500 draws by rejection, 150 by the net; a law of half the epsilon and the other set's are convicted."""
    epsilon, middle = 1.5, np.array([0.6, 0.5])
    k = range_bound_of(PLANE, convex_set, "replace_one")
    law = plane_law(PLANE, convex_set, epsilon / k, middle)
    other = plane_law(PLANE, LENS if convex_set is DISC else DISC, epsilon / k, middle)
    cells = polar_cells(draws(1500, PLANE, convex_set, epsilon, "rejection", 3), middle)
    assert chi_square_p_value(cells, lambda j: law[j], (0, 23)) > ALPHA
    assert chi_square_p_value(cells, lambda j: other[j], (0, 23)) < ALPHA
    halved = plane_law(PLANE, convex_set, 0.5 * epsilon / k, middle)
    assert chi_square_p_value(cells, lambda j: halved[j], (0, 23)) < ALPHA
    from_net = polar_cells(draws(150, PLANE, convex_set, epsilon, "net", 4, net_points=2500), middle)
    assert chi_square_p_value(from_net, lambda j: law[j], (0, 23)) > ALPHA


def test_samplers_agree_in_the_plane() -> None:
    """The certified grid walk at epsilon 4 against rejection at its nine tenths: 300 and 1000 draws."""
    walked = draws(300, PLANE, DISC, 4.0, "grid-walk", 5, cells_per_axis=10)
    rejected = draws(1000, PLANE, DISC, 3.6, "rejection", 6)
    for direction in (np.array([1.0, 0.0]), np.array([0.6, -0.8])):
        assert stats.ks_2samp(walked @ direction, rejected @ direction).pvalue > ALPHA
    uniform = draws(1000, PLANE, DISC, 0.01, "rejection", 6)
    assert stats.ks_2samp(walked[:, 0], uniform[:, 0]).pvalue < ALPHA


def test_law_in_six_dimensions() -> None:
    """1000 draws: the risk and two coordinates against 100000 weighted uniform points of the ball (NumPy's)."""
    risk, ball, epsilon = margin_risk(50, 6, LogisticLoss(), 0.1), Ball.around_zero(6, 1.5), 6.0
    drawn = draws(1000, risk, ball, epsilon, "rejection", 8)
    rng = np.random.default_rng(9)
    uniform = rng.normal(size=(100_000, 6))
    uniform *= 1.5 * (rng.random((100_000, 1)) ** (1 / 6)) / np.linalg.norm(uniform, axis=1, keepdims=True)
    risks = risk_values(risk, uniform)
    for scale, fits in ((1.0, True), (0.5, False)):
        weights = np.exp((risks.min() - risks) * (scale * epsilon / range_bound_of(risk, ball, "replace_one")))
        p_values = []
        for mine, reference in (
            (risk_values(risk, drawn), risks),
            (drawn[:, 0], uniform[:, 0]),
            (np.linalg.norm(drawn, axis=1), np.linalg.norm(uniform, axis=1)),
        ):
            order = np.argsort(reference)
            cumulated = np.cumsum(weights[order]) / weights.sum()
            distance = np.max(
                np.abs(np.interp(np.sort(mine), reference[order], cumulated) - np.arange(0.5, 1000) / 1000)
            )
            p_values.append(float(stats.kstwobign.sf(distance * np.sqrt(1000))))
        assert min(p_values) > ALPHA if fits else p_values[0] < ALPHA


@pytest.mark.parametrize(
    ("length", "radius", "p"), [(0.0, 1.5, 3), (1.5, 2.0, 3), (3.0, 4.0, 12), (0.7, 0.5, 1), (9.0, 9.0, 2)]
)
def test_normal_vectors_in_a_ball(length: float, radius: float, p: int) -> None:
    """4000 draws against NumPy's normal vectors, those outside the ball rejected; a mean moved by 0.8 is convicted."""
    direction = np.ones(p) / np.sqrt(p)
    rng = np.random.default_rng(1)
    plain = rng.normal(size=(60_000, p)) + length * direction
    plain = plain[np.linalg.norm(plain, axis=1) <= radius]
    for mean, fits in ((length, True), (length + 0.8, False)):
        law = BallGaussian(mean * direction, radius)
        drawn = law.sample(4000, SeededBits(2))
        assert np.linalg.norm(drawn, axis=1).max() <= radius * (1.0 + 1e-12)
        values = [
            stats.ks_2samp(f(drawn), f(plain)).pvalue
            for f in (lambda a: a @ direction, lambda a: np.linalg.norm(a, axis=1), lambda a: a[:, -1])
        ]
        assert min(values) > ALPHA if fits else values[0] < ALPHA
        standard_error = np.sqrt(np.var(drawn @ direction) / 4000)
        assert abs((law.expectation - drawn.mean(axis=0)) @ direction) < 5.0 * standard_error


@pytest.mark.parametrize("slope", [3.0, -3.0, 0.2])
def test_places_inside_a_run_follow_its_slope(slope: float) -> None:
    """600 draws over a net of 97 points in one run, uneven in length; the reversed and the even law are convicted."""
    risk, interval = InnerProduct(np.array([[-slope]]), point_norm=3.0), Box(np.array([-1.0]), np.array([2.0]))
    bits = SeededBits(12)
    drawn = [sample_piecewise(risk, interval, 3.0, 3.0 * 3.0 / abs(slope), bits, lattice_bits=6) for _ in range(600)]
    places = np.rint(np.concatenate(drawn) * 32.0).astype(np.int64) + 32
    law = np.exp(-3.0 * np.sign(slope) * np.arange(97) / 32.0)
    law /= law.sum()
    assert chi_square_p_value(places, lambda j: law[j], (0, 96)) > ALPHA
    assert chi_square_p_value(places, lambda j: law[::-1][j], (0, 96)) < ALPHA
    assert chi_square_p_value(places, lambda j: np.full(j.size, 1.0 / 97.0), (0, 96)) < ALPHA
