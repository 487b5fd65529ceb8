"""Rows as directions and lengths: norms at every size, and contributions that do not depend on a row's place."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from tasks.classifiers import gradient_perturbation
from tasks.classifiers.exact_rows import (
    ROW_GRID,
    directions_and_lengths,
    euclidean_norms,
    on_row_grid,
    on_weight_grid,
    query_grid,
)
from tasks.classifiers.gradient_perturbation import clipped_gradient_sum, gradient_sensitivity
from tasks.classifiers.multiclass_losses import AllPairsHinge, CrammerSingerHinge, CrossEntropy, MulticlassLoss
from tasks.classifiers.row_map import RowMap
from tasks.noise import SeededBits

SIZES = [0.0, 5e-324, 1e-310, 1.5e-162, 1e-150, 1e-99, 1.0, 1e99, 1e150, 1e200, 1.7e308]


@pytest.mark.parametrize("size", SIZES)
def test_norms_are_right_at_every_size(size: float) -> None:
    rows = np.array([[3.0, -4.0], [1.0, 0.0], [0.0, 0.0]]) * np.minimum(size, 1.7e308 / 5.0)
    exact = np.abs(rows).max(axis=1) * np.array([1.25, 1.0, 0.0])
    # denormal numbers have no more digits themselves
    assert euclidean_norms(rows) == pytest.approx(np.minimum(exact, 1.7976931348623157e308), rel=1e-14, abs=1e-323)


def test_a_norm_that_no_double_holds_is_the_largest_double() -> None:
    assert euclidean_norms(np.full((1, 4), 1.7e308))[0] == np.finfo(np.float64).max


@pytest.mark.parametrize("d", [1, 3, 17, 4096, 5000, 9000, 20_000])
def test_a_rows_norm_depends_on_nothing_but_the_row(d: int) -> None:
    """Neither on other rows nor on how the matrix lies in memory; einsum alone fills its buffer over a row's end."""
    rows = np.random.default_rng(3).standard_normal((7, d)) * np.logspace(-110, 110, 7)[:, None]
    alone = [euclidean_norms(row[None])[0] for row in rows]
    for matrix in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2]):
        for n in range(1, 8):
            assert euclidean_norms(matrix[:n]).tolist() == alone[:n]
        assert euclidean_norms(matrix[::-1]).tolist() == alone[::-1]


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.lists(st.floats(-1.7e308, 1.7e308), min_size=3, max_size=3), min_size=1, max_size=4))
def test_directions_are_no_longer_than_one_and_give_the_rows_back(rows: list[list[float]]) -> None:
    given_rows = np.array(rows)
    directions, lengths = directions_and_lengths(given_rows)
    assert np.all(np.linalg.norm(directions, axis=1) <= 1.0)
    assert np.array_equal(directions, on_row_grid(directions))
    assert np.all(np.isfinite(lengths)) and np.all(lengths >= 0.0)
    again = directions * np.minimum(lengths, 1e307)[:, None]
    near = np.minimum(np.abs(given_rows).max(axis=1), 1e307)
    usual = (lengths > 1e-300) & (lengths < 1e307)
    assert np.all(np.abs(again - given_rows)[usual] <= 3.0 * ROW_GRID * near[usual, None])


@settings(max_examples=60, deadline=None)
@given(
    row=st.lists(st.floats(-1.7e308, 1.7e308), min_size=4, max_size=4),
    norm=st.sampled_from([1e-100, 1e-3, 1.0, 1e100]),
    rule=st.sampled_from(["clip", "normalize"]),
)
def test_a_row_map_never_gives_a_row_longer_than_one(row: list[float], norm: float, rule: str) -> None:
    for intercept in (False, True):
        rows = RowMap(norm=norm, rule=rule, intercept=intercept).rows(np.array([row]))  # type: ignore[arg-type]
        assert np.isfinite(rows).all()
        assert float(np.linalg.norm(rows)) <= 1.0 + 1e-15


def test_many_tiny_coordinates_do_not_pass_for_a_short_row() -> None:
    """Their squares underflow: a plain norm is far too small, and the row would come out fifteen times too long."""
    row = np.full((1, 1000), 1.5e-162)
    row[0, 0] = 2.6e-162
    for rule in ("clip", "normalize"):
        assert float(np.linalg.norm(RowMap(norm=1.0, rule=rule, intercept=False).rows(row))) <= 1.0
    assert float(np.linalg.norm(RowMap(norm=1.0, rule="normalize", intercept=False).rows(row))) > 0.999


def test_scores_are_the_same_wherever_a_row_stands() -> None:
    generator = np.random.default_rng(3)
    directions, _ = directions_and_lengths(generator.standard_normal((37, 257)))
    weights = on_weight_grid(generator.standard_normal((10, 257)) * 1e3)
    whole = directions @ weights.T
    for limit in (1, 2):
        with threadpool_limits(limit):
            for n in (1, 2, 5, 36):
                for first in (0, 1):
                    assert np.array_equal(directions[first : first + n] @ weights.T, whole[first : first + n])
    assert query_grid(3.0) == 4.0 * ROW_GRID / 4.0


@pytest.mark.parametrize(
    "loss", [AllPairsHinge(), CrammerSingerHinge(0.5), CrossEntropy()], ids=lambda x: type(x).__name__
)
def test_taking_one_huge_record_away_moves_the_sum_by_no_more_than_its_own_part(loss: MulticlassLoss) -> None:
    """Rows of size 1e19 whose scores nearly cancel: rounded sums would turn over the slopes of all others."""
    generator = np.random.default_rng(5)
    weights = generator.standard_normal((10, 257))
    away = generator.standard_normal(257)
    away -= weights.T @ np.linalg.solve(weights @ weights.T, weights @ away)  # no class scores it
    rows = np.tile(1e19 * away, (205, 1))
    labels = generator.integers(0, 10, 205)
    grid = on_weight_grid(weights)
    for limit in (1, 2):
        with threadpool_limits(limit):
            sums = [
                clipped_gradient_sum(*directions_and_lengths(rows[:n]), labels[:n], grid, loss, 1.0) for n in (205, 204)
            ]
        assert float(np.linalg.norm(sums[0] - sums[1])) <= gradient_sensitivity(205, 1.0, 1)


@pytest.mark.parametrize("exponent", [-320, -200, -160, -150, 0, 150, 200, 300])
def test_no_record_has_more_than_the_clip_norm_whatever_underflows(exponent: int) -> None:
    """Slopes and rows of opposite, extreme sizes: squares of the one underflow while the other is huge."""
    rows = np.array([[10.0 ** max(exponent, -308), 0.0]])
    for scale in (1e-198, 1e-160, 1.0, 1e150):
        for loss in (CrossEntropy(), AllPairsHinge(), CrammerSingerHinge(1e6)):
            weights = on_weight_grid(np.array([[scale, 0.0], [0.0, 0.0], [-scale, scale]]))
            for label in range(3):
                part = clipped_gradient_sum(*directions_and_lengths(rows), np.array([label]), weights, loss, 0.5)
                assert float(np.linalg.norm(part)) <= 0.5 * (1.0 + 1e-12)


def test_the_sensitivity_covers_the_rounding_of_the_sum() -> None:
    """Sums of the same records in another order differ by some of what is added for it."""
    assert gradient_sensitivity(1, 2.0, 2) > 4.0
    generator = np.random.default_rng(7)
    rows, labels = generator.standard_normal((3000, 5)), generator.integers(0, 3, 3000)
    weights, order = on_weight_grid(generator.standard_normal((3, 5))), generator.permutation(3000)
    sums = [
        clipped_gradient_sum(*directions_and_lengths(rows[own]), labels[own], weights, AllPairsHinge(), 1.0)
        for own in (np.arange(3000), order)
    ]
    moved = float(np.linalg.norm(sums[0] - sums[1]))
    assert 0.0 < moved <= gradient_sensitivity(3000, 1.0, 2) - 2.0


def test_gradients_are_asked_at_weights_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[np.ndarray] = []
    real = gradient_perturbation.clipped_gradient_sum

    def listening(
        directions: np.ndarray, lengths: np.ndarray, labels: np.ndarray, weights: np.ndarray, *rest: Any
    ) -> Any:
        asked.append(weights)
        return real(directions, lengths, labels, weights, *rest)

    monkeypatch.setattr(gradient_perturbation, "clipped_gradient_sum", listening)
    generator = np.random.default_rng(2)
    gradient_perturbation.noisy_gradient_descent(
        generator.standard_normal((40, 3)),
        np.arange(40) % 2,
        2,
        CrossEntropy(),
        gradient_perturbation.Regularizer(ridge=0.0, pairwise=0.0, power=2.0, n_columns=3),
        gradient_perturbation.GradientDescent(
            n_steps=4, learning_rate=0.3, clip_norm=1.0, adaptive=False, averaging=0.0
        ),
        noise_multiplier=0.0,
        parts=1,
        bits=SeededBits(1),
    )
    assert len(asked) == 4 and all(np.array_equal(own, on_weight_grid(own)) for own in asked)
    assert np.count_nonzero(asked[3]) == 6


def test_a_step_divides_by_the_expected_size_of_its_sample_and_not_by_the_real_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real size of a Poisson sample is confidential; the expected one is public."""
    generator = np.random.default_rng(2)
    rows, labels = generator.standard_normal((40, 3)), np.arange(40) % 2
    monkeypatch.setattr(gradient_perturbation, "poisson_sample", lambda *_: np.array([0, 5, 11]))
    found = gradient_perturbation.noisy_gradient_descent(
        rows,
        labels,
        2,
        CrossEntropy(),
        gradient_perturbation.Regularizer(ridge=0.0, pairwise=0.0, power=2.0, n_columns=3),
        gradient_perturbation.GradientDescent(
            n_steps=1, learning_rate=1.0, clip_norm=1.0, adaptive=False, averaging=0.0
        ),
        noise_multiplier=0.0,
        parts=1,
        sampling_probability=0.25,
        bits=SeededBits(1),
    )
    own = [0, 5, 11]
    part = clipped_gradient_sum(*directions_and_lengths(rows[own]), labels[own], np.zeros((2, 3)), CrossEntropy(), 1.0)
    assert np.allclose(found, -part / (0.25 * 40))
