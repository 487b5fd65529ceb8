"""Certified minimisers: reached for whatever table, and true by references that share no code with the search."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from tasks.classifiers.certified import _ROUNDING_PART, _rounding_of_distance, certified_minimum
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.risks import MarginRisk, total_strong_convexity

COORDINATE = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 1e-9]) | st.floats(-1.0, 1.0)
LOSSES = st.sampled_from(
    [LogisticLoss(), HuberisedHingeLoss(0.5), HuberisedHingeLoss(1e-3), HuberisedHingeLoss(1e-5), HingeLoss()]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """1 to 5 different rows in 1 to 3 columns, some repeated: zero rows, equal rows and contradictions among them."""
    d, n = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    rows = np.array(draw(st.lists(st.lists(COORDINATE, min_size=d, max_size=d), min_size=n, max_size=n)))
    rows /= max(1.0, float(np.max(np.linalg.norm(rows, axis=1))) * (1.0 + 1e-15))
    chosen = np.array(draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5)))
    signs = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=len(chosen), max_size=len(chosen))))
    return rows[chosen], signs[:, None]


def exact_minimiser(vectors: np.ndarray, m: float, loss: MarginLoss) -> tuple[np.ndarray, float]:
    """The best of the stationary points that the divisions of the records into pieces of the loss have, and how far off
    rounding may put it."""
    n, d = vectors.shape
    best, least = np.zeros(d), math.inf
    for pieces in itertools.product((0, 1, 2), repeat=n):  # flat, in between, slope -1
        between, steep = vectors[np.equal(pieces, 1)], vectors[np.equal(pieces, 2)]
        pull = np.sum(steep, axis=0)
        if isinstance(loss, HuberisedHingeLoss):  # slopes (1 + h - z) / (2 h) in between
            h = loss.width
            matrix = m * np.eye(d) + between.T @ between / (2.0 * h)
            w = np.linalg.solve(matrix, pull + (1.0 + h) / (2.0 * h) * np.sum(between, axis=0))
            off = float(np.linalg.norm(m * w + loss.slope(vectors @ w) @ vectors)) / m
        else:  # margins of 1 in between: the point of that plane that is nearest to where the steep ones pull
            w = pull / m + np.linalg.pinv(between) @ (1.0 - between @ pull / m)
            off = float(np.sum(loss.value(vectors @ w))) + 0.5 * m * float(w @ w)
        if off < least:
            best, least = w, off
    margins = 1.0 + float(np.linalg.norm(best))
    if isinstance(loss, HuberisedHingeLoss):
        return best, least + 1e-15 * margins * n / loss.width / m
    return best, math.sqrt(1e-14 * n * margins / m)  # of a value that is so far off


@settings(max_examples=60, deadline=None)
@given(tables(), LOSSES, st.floats(-7.0, 1.0), st.sampled_from([1.0, 10.0, 1e4]))
def test_what_is_not_refused_is_reached_and_true(
    table: tuple[np.ndarray, np.ndarray], loss: MarginLoss, exponent: float, factor: float
) -> None:
    rows, signs = table
    risk = MarginRisk(rows, signs, loss, 10.0**exponent)
    m, tolerance = total_strong_convexity(risk), 1e-16
    while not _rounding_of_distance(risk, m, tolerance, 0.0) <= _ROUNDING_PART * tolerance:
        tolerance *= 1.1
        if tolerance > 1e6:
            return  # refused whatever the tolerance
    found = certified_minimum(risk, factor * tolerance)
    assert found.distance_upper_bound <= factor * tolerance
    if isinstance(loss, LogisticLoss):  # the gradient in numbers of more digits
        wide, theta = (rows * signs).astype(np.longdouble), found.theta.astype(np.longdouble)
        gradient = m * theta - (1.0 / (1.0 + np.exp(wide @ theta))) @ wide
        assert float(np.sqrt(np.sum(gradient**2))) / m <= found.distance_upper_bound
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # of candidates far away
            exact, known = exact_minimiser(rows * signs, m, loss)
        assert float(np.linalg.norm(found.theta - exact)) <= found.distance_upper_bound + known


@pytest.mark.parametrize("loss", [HingeLoss(), HuberisedHingeLoss(0.1)])
def test_the_reference_is_the_minimum(loss: MarginLoss) -> None:
    """Against a general solver without derivatives, to its own accuracy."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        vectors = rng.uniform(-0.7, 0.7, size=(4, 2))
        value = lambda w: float(np.sum(loss.value(vectors @ w)) + 0.15 * w @ w)  # noqa: E731, B023
        found = optimize.minimize(value, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13})
        np.testing.assert_allclose(exact_minimiser(vectors, 0.3, loss)[0], found.x, atol=1e-5)
