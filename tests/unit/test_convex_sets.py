"""Balls, boxes and what two balls share: nearest points against a general solver, gauges against the boundary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet

SETS: dict[str, ConvexSet] = {
    "ball": Ball(np.array([1.0, -2.0, 0.5]), 1.5),
    "box": Box(np.array([-1.0, 0.0, -3.0]), np.array([2.0, 0.5, 3.0])),
    "lens": BallIntersection(Ball(np.zeros(3), 2.0), Ball(np.array([1.5, 0.5, 0.0]), 1.2)),
    "inner ball": BallIntersection(Ball(np.zeros(3), 2.0), Ball(np.array([0.3, 0.0, 0.0]), 0.5)),
}


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_no_point_of_the_set_is_nearer_than_the_projection(name: str, seed: int) -> None:
    own, generator = SETS[name], np.random.default_rng(seed)
    theta = own.centre + 4.0 * generator.standard_normal(3)
    nearest = own.project(theta)
    assert own.contains(nearest)
    for point in own.centre + generator.standard_normal((50, 3)):
        inside = point if own.contains(point) else own.centre + (point - own.centre) / (own.gauge(point) + 1e-9)
        # the variational inequality that marks the projection on a convex set
        assert float((theta - nearest) @ (inside - nearest)) <= 1e-7


def _squared(theta: np.ndarray, centre: np.ndarray) -> float:
    return float((theta - centre) @ (theta - centre))


def _inside(theta: np.ndarray, centre: np.ndarray, radius: float) -> float:
    return radius**2 - _squared(theta, centre)


def test_projection_on_a_lens_agrees_with_a_general_solver() -> None:
    lens = SETS["lens"]
    assert isinstance(lens, BallIntersection)
    for theta in np.random.default_rng(1).standard_normal((12, 3)) * 3.0:
        found = optimize.minimize(
            _squared,
            lens.centre,
            (theta,),
            constraints=[
                {"type": "ineq", "fun": _inside, "args": (ball.centre, ball.radius)}
                for ball in (lens.first, lens.second)
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 300},
        )
        assert np.allclose(lens.project(theta), found.x, atol=2e-5)


@pytest.mark.parametrize("name", SETS)
def test_the_gauge_is_one_on_the_boundary(name: str) -> None:
    own = SETS[name]
    for theta in own.centre + np.random.default_rng(2).standard_normal((30, 3)):
        gauge = own.gauge(theta)
        edge = own.centre + (theta - own.centre) / gauge
        assert own.contains(own.centre + 0.9999999 * (edge - own.centre))
        assert not own.contains(own.centre + 1.000001 * (edge - own.centre))
        assert own.gauge(own.centre + 2.0 * (edge - own.centre)) == pytest.approx(2.0)
    assert own.gauge(own.centre) == 0.0


@pytest.mark.parametrize("name", SETS)
def test_no_two_points_are_further_apart_than_the_diameter(name: str) -> None:
    own = SETS[name]
    points = [own.project(theta) for theta in own.centre + 9.0 * np.random.default_rng(3).standard_normal((80, 3))]
    furthest = max(float(np.linalg.norm(a - b)) for a in points for b in points)
    assert furthest <= own.diameter * (1.0 + 1e-9)
    if name != "lens":  # of which only a bound is stated
        assert furthest > 0.6 * own.diameter


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Ball(np.zeros(2), 0.0), "radius"),
        (lambda: Ball(np.zeros(0), 1.0), "centre"),
        (lambda: Ball(np.array([np.nan]), 1.0), "centre"),
        (lambda: Box(np.zeros(2), np.zeros(2)), "lower"),
        (lambda: Box(np.zeros(2), np.ones(3)), "length"),
        (lambda: BallIntersection(Ball(np.zeros(2), 1.0), Ball(np.array([3.0, 0.0]), 5.0)), "centre"),
        (lambda: BallIntersection(Ball(np.zeros(2), 1.0), Ball(np.zeros(3), 1.0)), "dimension"),
    ],
)
def test_what_is_no_such_set_is_refused(make: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()  # type: ignore[operator]
