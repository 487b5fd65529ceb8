"""Exact sums of losses: additive to the last bit, as near to the losses as is said, within the range paid for."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from schemas.learning import Adjacency
from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet
from tasks.classifiers.exact_losses import ExactLosses, _exact_scores, on_exact_rows
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, LogisticLoss, MarginLoss
from tasks.classifiers.net_sampler import risk_values, scores_of
from tasks.classifiers.parameter_norms import norm_bounds
from tasks.classifiers.piecewise_sampler import PIECEWISE_ERROR, Pieces, pieces_of, segments_of
from tasks.classifiers.range_bounds import range_bound_of
from tasks.classifiers.risks import AbsoluteDistance, EmpiricalRisk, InnerProduct, MarginRisk, SquaredDistance

FloatArray = NDArray[np.float64]


def margins(n: int, p: int, loss: MarginLoss, k: int = 1, regularization: float = 0.3) -> MarginRisk:
    rng = np.random.default_rng(n + p)
    rows = rng.normal(size=(n, p))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True)) * (1.0 + 1e-15)
    return MarginRisk(rows, np.where(rng.random((n, k)) < 0.5, -1.0, 1.0), loss, regularization)


def points(n: int, p: int) -> FloatArray:
    drawn = np.random.default_rng(p).normal(size=(n, p))
    return drawn / np.maximum(1.0, np.linalg.norm(drawn, axis=1, keepdims=True)) * (1.0 - 1e-15)


def one_record(risk: EmpiricalRisk, i: int) -> EmpiricalRisk:
    return these_records(risk, np.array([i]))


def these_records(risk: EmpiricalRisk, chosen: NDArray[np.int64]) -> EmpiricalRisk:
    if isinstance(risk, MarginRisk):
        return replace(risk, rows=risk.rows[chosen], signs=risk.signs[chosen])
    assert isinstance(risk, AbsoluteDistance | SquaredDistance | InnerProduct)
    return replace(risk, points=risk.points[chosen])


def inside(convex_set: ConvexSet, count: int) -> FloatArray:
    rng = np.random.default_rng(1)
    drawn = convex_set.centre + convex_set.diameter * rng.uniform(-1.0, 1.0, (count, convex_set.dimension))
    return np.array([convex_set.project(theta) for theta in drawn])


FAR = np.vstack([points(20, 2), [[1e300, -1e300], [1e9, 0.0], [-1.7e308, 1.7e308], [3.0, 4.0], [0.0, 0.0]]])
CASES: list[tuple[EmpiricalRisk, ConvexSet]] = [
    (margins(30, 257, LogisticLoss()), Ball(np.full(257, 0.1), 2.0)),
    (margins(30, 9, LogisticLoss(), k=3), Ball.around_zero(27, 5.0)),
    (margins(30, 2, HingeLoss()), Ball(np.array([5.0, -3.0]), 1e-7)),
    (margins(30, 2, HuberisedHingeLoss(0.1)), BallIntersection(Ball.around_zero(2, 3.0), Ball(np.ones(2), 1.7))),
    (replace(margins(30, 3, LogisticLoss()), public_size=7), Ball.around_zero(3, 2.0)),
    (AbsoluteDistance(FAR), Ball(np.array([0.3, -0.2]), 0.9)),
    (SquaredDistance(points(25, 4), parameter_norm=9.0), Ball(np.ones(4), 2.0)),
    (InnerProduct(points(25, 3)), Box(np.array([-1.0, 0.0, 2.0]), np.array([0.5, 0.1, 7.0]))),
]


@pytest.mark.parametrize(("risk", "convex_set"), CASES)
def test_totals_are_the_sums_of_single_records_to_the_last_bit(risk: EmpiricalRisk, convex_set: ConvexSet) -> None:
    """Whatever stands beside a record, in whichever order, with one thread or two."""
    risk, thetas = on_exact_rows(risk), inside(convex_set, 12)
    each = [ExactLosses(one_record(risk, i), convex_set).totals(thetas) for i in range(risk.n_records)]
    summed = [sum(column) for column in zip(*each, strict=True)]
    if isinstance(risk, MarginRisk) and risk.public_size is not None:  # counted once, not for each record
        own = ExactLosses(MarginRisk(np.zeros((1, 3)), np.ones((1, 1)), risk.loss, 0.3, 7), convex_set).totals(thetas)
        summed = [total - (risk.n_records - 1) * once for total, once in zip(summed, own, strict=True)]
    for limit in (1, 2):
        with threadpool_limits(limit):
            assert ExactLosses(risk, convex_set).totals(thetas) == summed
    order = np.random.default_rng(0).permutation(risk.n_records)
    shuffled = these_records(risk, order)
    assert ExactLosses(shuffled, convex_set).totals(thetas) == summed
    assert ExactLosses(risk, convex_set).totals(np.array([convex_set.centre])) == [0]


def long_losses(risk: EmpiricalRisk, theta: FloatArray) -> NDArray[np.longdouble]:
    """Each record's loss in 64-bit mantissas, regulariser left out."""
    wide = theta.astype(np.longdouble)
    if isinstance(risk, MarginRisk):
        found = np.zeros(risk.n_records, dtype=np.longdouble)
        for k, weights in enumerate(wide.reshape(risk.n_problems, -1)):
            z = risk.signs[:, k] * np.sum(risk.rows.astype(np.longdouble) * weights, axis=1)
            match risk.loss:
                case LogisticLoss():
                    found += np.maximum(-z, 0) + np.log1p(np.exp(-np.abs(z)))
                case HingeLoss():
                    found += np.maximum(1 - z, 0)
                case HuberisedHingeLoss(h):
                    u = 1 - z
                    found += np.where(u >= h, u, np.where(u <= -h, 0, (u + h) ** 2 / (4 * np.longdouble(h))))
        return found
    assert isinstance(risk, AbsoluteDistance | SquaredDistance | InnerProduct)
    records = risk.points.astype(np.longdouble)
    if isinstance(risk, InnerProduct):
        return -(records @ wide)
    squares = np.sum((records - wide) ** 2, axis=1)
    return squares / 2 if isinstance(risk, SquaredDistance) else np.sqrt(squares)


@pytest.mark.parametrize(("risk", "convex_set"), CASES)
def test_whole_numbers_are_within_the_error_of_the_losses(risk: EmpiricalRisk, convex_set: ConvexSet) -> None:
    risk = on_exact_rows(risk)
    if isinstance(risk, AbsoluteDistance):
        risk = AbsoluteDistance(risk.points[np.abs(risk.points).max(axis=1) < 1e5])  # others count as nearer ones
    losses, thetas = ExactLosses(risk, convex_set), inside(convex_set, 12)
    at_centre = long_losses(risk, losses.reference)
    largest = 0.0
    for theta, wholes in zip(thetas, losses._wholes(thetas).T, strict=True):
        apart = np.abs(wholes * np.longdouble(losses.unit) - (long_losses(risk, theta) - at_centre))
        largest = max(largest, float(apart.max()))
    assert 0.0 < largest <= losses.error
    # next to nothing of the range, but for the smallest set, far from 0
    assert losses.error < (1e-6 if convex_set.diameter < 1e-5 else 1e-7) * risk.lipschitz * convex_set.diameter


def test_scores_are_the_same_wherever_a_row_stands_and_rounded_once() -> None:
    rows = np.trunc(points(37, 257) * 2.0**24) * 2.0**-24
    weights = np.random.default_rng(3).normal(size=(5, 257))
    weights *= 3.0 / np.linalg.norm(weights, axis=1, keepdims=True)
    for limit in (1, 2):
        with threadpool_limits(limit):
            whole = _exact_scores(rows, weights, 3.0)
            for first, n in ((0, 1), (0, 5), (1, 36), (3, 2)):
                for m in (1, 2, 5):
                    block = _exact_scores(rows[first : first + n], weights[:m], 3.0)
                    assert np.array_equal(block, whole[first : first + n, :m])
    for i in (0, 36):
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(rows[i], weights[0], strict=True))
        assert abs(Fraction(float(whole[i, 0])) - exact) <= 257 * 2.0**-50 * 3.0 + 2.0**-53 * 3.0


def test_scores_over_a_net_are_the_differences_of_the_risk() -> None:
    risk, ball = on_exact_rows(margins(30, 2, LogisticLoss())), Ball(np.array([1.0, 2.0]), 3.0)
    net = inside(ball, 20)
    values = risk_values(risk, net)
    assert scores_of(ExactLosses(risk, ball), net) == pytest.approx(values - values.min(), abs=1e-7)


def test_the_regulariser_is_counted_for_each_record_or_once() -> None:
    theta, ball = np.array([[1.0, 2.0]]), Ball(np.array([0.5, 0.5]), 3.0)
    gain = 0.5 * 0.3 * (5.0 - 0.5)
    for public_size, times in ((None, 30), (7, 7)):
        risk = replace(margins(30, 2, HingeLoss()), public_size=public_size)
        with_it, without = ExactLosses(risk, ball), ExactLosses(replace(risk, regularization=0.0), ball)
        difference = (with_it.totals(theta)[0] - without.totals(theta)[0]) * with_it.unit
        assert difference == pytest.approx(times * gain, rel=1e-7)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("radius", [1e-8, 1.0])
def test_neighbours_differ_by_no_more_than_what_is_paid_for(adjacency: Adjacency, radius: float) -> None:
    """In a small set far from 0 risks in doubles do not keep to the range and its slack of 2^-20; the exact ones do."""
    ball, rng = Ball(np.array([6.0, 2.0]), radius), np.random.default_rng(4)
    others = on_exact_rows(margins(3000, 2, LogisticLoss()))
    assert isinstance(others, MarginRisk)
    along = ball.centre / np.linalg.norm(ball.centre) * (1.0 - 1e-7)
    # where the losses of such records range most: both ends of the line through 0, and near by
    ends = np.outer(np.repeat([1.0, -1.0], 60), along) + 1e-3 * rng.uniform(-1.0, 1.0, (120, 2))
    thetas = np.array([ball.project(ball.centre + radius * offset) for offset in ends])
    exact, plain = 0.0, 0.0
    for first, second in ((along, -along), (-along, np.zeros(2))):
        tables = [replace(others, rows=np.vstack([others.rows, x]), signs=np.ones((3001, 1))) for x in (first, second)]
        if adjacency == "add_remove":
            tables[1] = replace(tables[0], rows=tables[0].rows[:-1], signs=tables[0].signs[:-1])
        tables = [on_exact_rows(table) for table in tables]  # type: ignore[misc]
        one, two = (ExactLosses(table, ball) for table in tables)
        apart = [a - b for a, b in zip(one.totals(thetas), two.totals(thetas), strict=True)]
        exact = max(exact, (max(apart) - min(apart)) * one.unit)
        plain = max(plain, float(np.ptp(risk_values(tables[0], thetas) - risk_values(tables[1], thetas))))
    bound = range_bound_of(others, ball, adjacency)
    excess = ExactLosses(others, ball).range_excess(adjacency)
    assert exact <= bound + excess
    assert excess < (1e-4 if radius < 1e-5 else 1e-7) * bound
    if radius < 1e-5 and adjacency == "add_remove":  # the tight one; two records' slopes are not both 1 there
        assert plain > (bound + excess) * (1.0 + 2.0**-20)


def test_pieces_are_whole_numbers_of_one_record_each() -> None:
    for risk in (
        AbsoluteDistance(np.array([[-3.0], [0.1], [1e300], [0.7], [0.7]])),
        MarginRisk(
            np.array([[1.0], [0.3], [1e-300], [0.0], [0.9]]), np.array([[1.0], [-1], [1], [1], [-1]]), HingeLoss()
        ),
        InnerProduct(np.array([[0.3], [-0.9], [1.0]])),
    ):
        pieces = pieces_of(risk, -1.7, 2.3, 8)
        places = np.arange(pieces.first, pieces.last + 1)
        steps = (places - pieces.origin)[:, None]
        side = (places[:, None] >= pieces.kink).astype(int)
        record = np.arange(risk.n_records)
        values = (pieces.constant[record, side] * pieces.one + pieces.slope[record, side] * steps) * pieces.unit
        exact = np.array([long_losses(risk, np.array([place * pieces.spacing])) for place in places])
        if isinstance(risk, AbsoluteDistance):  # moved to the net, which is coarse here, and into the interval
            near = np.rint(np.clip(risk.points / pieces.spacing, pieces.first, pieces.last)) * pieces.spacing
            exact = np.abs(places[:, None] * pieces.spacing - near[:, 0])
        assert np.abs(values - exact).max() <= PIECEWISE_ERROR + 2.0**-32 * 2.3
        # runs: the sum of all records, less its least value
        runs = segments_of(pieces, 0.25)
        total = values.sum(axis=1) * 0.25
        found = np.concatenate(
            [
                start + rate * np.arange(length)[:: -1 if reverse else 1]
                for start, rate, length, reverse in zip(runs.start, runs.rate, runs.length, runs.reverse, strict=True)
            ]
        )
        assert found == pytest.approx(np.minimum(total - total.min(), 96.0 * math.log(2.0)), abs=1e-12)


def test_a_record_moves_the_sum_of_pieces_by_itself_alone() -> None:
    """20000 records at random: exponents of tables with and without one record, bit for bit by whole numbers."""
    rng = np.random.default_rng(6)
    for risk in (
        AbsoluteDistance(rng.uniform(-2.0, 2.0, (20_000, 1))),
        MarginRisk(rng.uniform(0.0, 1.0, (20_000, 1)), rng.choice([-1.0, 1.0], (20_000, 1)), HingeLoss()),
    ):
        whole, single = pieces_of(risk, -1.0, 1.0, 30), pieces_of(one_record(risk, 17), -1.0, 1.0, 30)
        assert [column[17].tolist() for column in (whole.kink, whole.constant, whole.slope)] == [
            column[0].tolist() for column in (single.kink, single.constant, single.slope)
        ]
        order = rng.permutation(20_000)
        shuffled = Pieces(*whole[:6], whole.kink[order], whole.constant[order], whole.slope[order])
        one, two = segments_of(whole, 1.0), segments_of(shuffled, 1.0)
        assert np.array_equal(one.start, two.start) and np.array_equal(one.rate, two.rate)


def test_sizes_that_doubles_cannot_square_are_refused() -> None:
    for diameter in (1e-101, 1e101):
        with pytest.raises(ValueError, match="1e-100"):
            ExactLosses(AbsoluteDistance(np.zeros((2, 1))), Ball.around_zero(1, diameter))
    for low, high, match in ((0.0, 2.0**40, "2\\^30"), (2.0**60, 2.0**60 + 512.0, "too short")):
        with pytest.raises(ValueError, match=match):
            pieces_of(AbsoluteDistance(np.zeros((2, 1))), low, high, 30)

    class Other(AbsoluteDistance):
        pass

    assert ExactLosses(Other(np.zeros((2, 1))), Ball.around_zero(1, 1.0)).unit == 2.0**-31
    with pytest.raises(ValueError, match="object"):
        ExactLosses(object(), Ball.around_zero(1, 1.0))  # type: ignore[arg-type]


def test_norms_over_sets() -> None:
    assert norm_bounds(Ball(np.array([3.0, 4.0]), 2.0)) == (3.0, 7.0)
    assert norm_bounds(Box(np.array([-1.0, 2.0]), np.array([2.0, 3.0]))) == (2.0, math.sqrt(13.0))
    assert norm_bounds(BallIntersection(Ball.around_zero(2, 3.0), Ball(np.array([2.0, 0.0]), 2.0))) == (0.0, 3.0)
    with pytest.raises(ValueError, match="object"):
        norm_bounds(object())  # type: ignore[arg-type]
