"""The grid walk: its chain, its certificate, and what it must not claim."""

import math

import numpy as np
import pytest
from scipy import integrate

from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet
from tasks.classifiers.exact_losses import ExactLosses, on_exact_rows
from tasks.classifiers.exponential_sampling import exponential_sample
from tasks.classifiers.grid_walk import CertifiedSteps, GridWalk, penalty_rate
from tasks.classifiers.losses import LogisticLoss
from tasks.classifiers.risks import AbsoluteDistance, EmpiricalRisk, MarginRisk
from tasks.noise import SeededBits
from tests.statistics import ALPHA, chi_square_p_value


def exact(risk: EmpiricalRisk, convex_set: ConvexSet) -> ExactLosses:
    return ExactLosses(on_exact_rows(risk), convex_set)


def median_risk() -> AbsoluteDistance:
    return AbsoluteDistance(np.random.default_rng(3).uniform(-1.0, 0.5, (20, 1)))


def margin_risk() -> MarginRisk:
    rows = np.random.default_rng(4).normal(size=(15, 2))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return MarginRisk(rows, np.where(rows[:, :1] > 0.1, 1.0, -1.0), LogisticLoss(), 0.1)


WALKS: list[tuple[EmpiricalRisk, ConvexSet, int]] = [
    (median_risk(), Ball.around_zero(1, 1.0), 16),
    (margin_risk(), Ball.around_zero(2, 3.0), 8),
    (margin_risk(), Box(np.array([-1.0, -2.0]), np.array([3.0, 1.0])), 7),
    (margin_risk(), BallIntersection(Ball.around_zero(2, 3.0), Ball(np.array([2.0, 1.0]), 2.0)), 9),
]


@pytest.mark.parametrize(("risk", "convex_set", "cells"), WALKS)
def test_chain_is_lazy_reversible_and_has_the_wanted_law(
    risk: EmpiricalRisk, convex_set: ConvexSet, cells: int
) -> None:
    walk = GridWalk(exact(risk, convex_set), 0.3, cells, 5.0)
    p, wanted = walk.transition_matrix().toarray(), walk.weights()
    flow = wanted[:, np.newaxis] * p
    assert p.sum(axis=1) == pytest.approx(1.0) and np.diag(p).min() >= 0.5
    assert flow == pytest.approx(flow.T, rel=1e-12, abs=0.0)
    assert wanted @ p == pytest.approx(wanted, rel=1e-12)
    # cells that meet the set have the risk's weight, without any penalty
    for cell, weight in zip(walk.cells(), wanted, strict=True):
        middle = walk._lower + (np.array(cell) + 0.5) * walk._side
        nearest = convex_set.project(middle)
        if np.all(np.abs(nearest - middle) <= 0.5 * walk._side):
            own = walk.losses.risk
            reference = own.value(convex_set.centre) - own.value(nearest)
            start = wanted[walk.cells().index(walk.start)]
            at_start = walk.exponent(walk.start)  # exponents are 0 at the set's centre
            assert math.log(weight / start) == pytest.approx(0.3 * reference + at_start, abs=1e-8)


@pytest.mark.parametrize(("risk", "convex_set", "cells"), WALKS)
def test_certificate_is_the_distance_of_the_power_of_the_matrix(
    risk: EmpiricalRisk, convex_set: ConvexSet, cells: int
) -> None:
    walk = GridWalk(exact(risk, convex_set), 0.3, cells, 5.0)
    certified = walk.certified_steps(0.1)
    power = np.linalg.matrix_power(walk.transition_matrix().toarray(), certified.steps)
    # a cell of which a point lies in the set must be among those the certificate is about
    places = np.linspace(-0.5, 0.5, 9)
    meets = []
    for cell in walk.cells():
        points = np.stack(np.meshgrid(*[places] * len(cell)), axis=-1).reshape(-1, len(cell)) * walk._side
        meets.append(any(convex_set.contains(point + walk._middle(cell)) for point in points))
        assert not meets[-1] or walk._beyond(cell) == 0.0
    covered = np.array([walk._beyond(cell) == 0.0 for cell in walk.cells()])
    ratio = np.log(power[walk.cells().index(walk.start)] / walk.weights())[covered]
    assert certified.error == pytest.approx(float(np.ptp(ratio)), abs=1e-9)
    assert np.ptp(ratio) <= 0.1
    assert 0.0 <= certified.outside < 0.9


def test_too_short_a_walk_is_refused() -> None:
    walk = GridWalk(exact(median_risk(), Ball.around_zero(1, 1.0)), 0.3, 32, 5.0)
    enough = walk.certified_steps(0.05).steps
    assert walk.certified_steps(0.05, enough).error <= 0.05
    for steps in (1, enough // 8):
        with pytest.raises(ValueError, match=f"after {steps} steps the grid walk is not certified"):
            walk.certified_steps(0.05, steps)
    with pytest.raises(ValueError, match="not certified"):
        exponential_sample(
            median_risk(),
            Ball.around_zero(1, 1.0),
            1.0,
            adjacency="replace_one",
            bits=SeededBits(0),
            sampler="grid-walk",
            walk_steps=10,
        )


def test_an_uncertified_walk_claims_nothing() -> None:
    rows = np.eye(3)
    risk = MarginRisk(rows, np.ones((3, 1)), LogisticLoss(), 0.1)
    ball, bits = Ball.around_zero(3, 2.0), SeededBits(0)
    with pytest.raises(ValueError, match="at most two dimensions"):
        exponential_sample(risk, ball, 1.0, adjacency="replace_one", bits=bits, sampler="grid-walk")
    with pytest.raises(ValueError, match="walk_steps"):
        exponential_sample(risk, ball, 1.0, adjacency="replace_one", bits=bits, sampler="grid-walk", certify=False)
    drawn = exponential_sample(
        risk, ball, 1.0, adjacency="replace_one", bits=bits, sampler="grid-walk", certify=False, walk_steps=200
    )
    assert not drawn.pure and ball.contains(drawn.theta)


def test_the_steps_taken_are_the_matrix() -> None:
    """Positions after 40 steps, far from settled, against the 40th power; a chain that is not lazy is convicted."""
    walk = GridWalk(exact(median_risk(), Ball.around_zero(1, 1.0)), 0.3, 12, 5.0)
    matrix = walk.transition_matrix().toarray()
    power, eager = (
        np.linalg.matrix_power(m, 40)[walk.cells().index(walk.start)] for m in (matrix, 2.0 * matrix - np.eye(12))
    )
    bits = SeededBits(2)
    ended = np.array([walk.walk(40, bits)[0] for _ in range(4000)])
    assert chi_square_p_value(ended, lambda k: power[k], (0, 11)) > ALPHA
    assert chi_square_p_value(ended, lambda k: eager[k], (0, 11)) < ALPHA


@pytest.mark.parametrize("dimension", [1, 2, 5])
@pytest.mark.parametrize("slope", [0.1, 3.0, 100.0])
def test_penalty_leaves_at_most_half_outside(dimension: int, slope: float) -> None:
    a = penalty_rate(slope, dimension)
    outside = integrate.quad(lambda s: math.exp(-a * (s - 1.0)) * s ** (dimension - 1), 1.0, 1.0 + 200.0 / a)[0]
    near = max(0.0, 1.0 - 60.0 / slope)
    inside = integrate.quad(lambda s: math.exp(-slope * (1.0 - s)) * s ** (dimension - 1), near, 1.0)[0]
    assert inside / 1.7 <= outside * 1.25 ** (dimension + 1) and outside <= inside * (1.0 + 1e-6)


def test_bad_arguments_are_named() -> None:
    risk, ball, bits = median_risk(), Ball.around_zero(1, 1.0), SeededBits(0)
    for name, value in (("cells_per_axis", 1), ("cells_per_axis", 2.5), ("walk_steps", 0), ("error_share", 1.0)):
        with pytest.raises(ValueError, match=name):
            exponential_sample(
                risk,
                ball,
                1.0,
                adjacency="replace_one",
                bits=bits,
                sampler="grid-walk",
                **{name: value},  # type: ignore[arg-type]
            )
    with pytest.raises(ValueError, match="too large"):
        exponential_sample(
            risk, ball, 1.0, adjacency="replace_one", bits=bits, sampler="grid-walk", cells_per_axis=5000
        )


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_law_and_error_together_cost_epsilon(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law's range at scale k is epsilon (1 - share); each table's walk may be off by half of epsilon share."""
    seen: list[tuple[float, float]] = []
    honest = GridWalk.certified_steps

    def spy(self: GridWalk, error: float, steps: int | None = None) -> CertifiedSteps:
        seen.append((self.scale, error))
        return honest(self, error, steps)

    monkeypatch.setattr(GridWalk, "certified_steps", spy)
    drawn = exponential_sample(
        median_risk(),
        Ball.around_zero(1, 1.0),
        2.0,
        adjacency="replace_one",
        bits=SeededBits(0),
        sampler="grid-walk",
        cells_per_axis=8,
        error_share=share,
    )
    ((scale, error),) = seen
    law, both = scale * drawn.range_bound, 2.0 * error
    assert law == pytest.approx(2.0 * (1.0 - share), rel=1e-5) and law <= 2.0 * (1.0 - share) * (1.0 - 2.0**-20)
    assert both == pytest.approx(2.0 * share, rel=1e-6) and both < 2.0 * share
    assert law + both <= 2.0 and drawn.range_bound >= 4.0
    assert drawn.details["error"] <= error


def test_exponents_too_large_for_doubles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.classifiers import exponential_sampling as module

    monkeypatch.setattr(module, "EPSILON_SLACK", 2.0**-50)
    with pytest.raises(ValueError, match="cannot pay for rounding"):
        exponential_sample(
            median_risk(),
            Ball.around_zero(1, 1.0),
            1.0,
            adjacency="replace_one",
            bits=SeededBits(0),
            sampler="grid-walk",
        )


def test_what_is_returned_lies_in_the_set_also_when_no_run_did() -> None:
    disc, bits = Ball(np.array([0.5, 0.0]), 3.0), SeededBits(4)
    walk = GridWalk(exact(margin_risk(), disc), 0.01, 5, 0.5)
    points = [walk.sample_uncertified(30, 64, bits) for _ in range(150)]
    assert all(disc.contains(point) for point in points)
    assert max(float(np.linalg.norm(point - disc.centre)) for point in points) > 2.5  # runs do end in corner cells
    fallback = walk.sample_uncertified(30, 0, bits)
    assert disc.contains(fallback) and np.abs(fallback - disc.centre).max() < 2.0**-17
