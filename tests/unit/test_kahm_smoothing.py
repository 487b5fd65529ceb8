"""Smoother and fabricated data: counting of steps, stop rules, against the naive smoother."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.kahm import (
    MAX_STEPS,
    KernelAffineHullMachine,
    StopRuleNotReached,
    fabricate,
    fabricate_by_shard,
    smooth,
)
from tests.oracles import naive_step

Array = NDArray[np.float64]


def rows(seed: int, N: int = 25, p: int = 4) -> Array:
    return np.random.default_rng(seed).random((N, p))


def test_counts_from_one() -> None:
    Y = rows(18)
    np.testing.assert_array_equal(smooth(Y, 2, 1), Y)
    np.testing.assert_allclose(smooth(Y, 2, 2), KernelAffineHullMachine(2).fit(Y).transform(Y), atol=1e-13)


def test_is_the_naive_smoother() -> None:
    Y = rows(19, 12, 3)
    expected = Y
    for m in range(4):
        np.testing.assert_allclose(smooth(Y, 2, m + 1), expected, rtol=0, atol=1e-9)
        expected = naive_step(expected, 2)
    assert np.max(np.abs(smooth(Y, 2, 4) - expected)) > 1e-3  # one step more is told apart


def test_leaves_its_input_alone() -> None:
    Y = rows(20)
    before = Y.copy()
    returned = smooth(Y, 2, 1)
    returned[:] = 0.0
    fabricate(Y, 2, steps=2)
    np.testing.assert_array_equal(Y, before)


def test_fixed_steps() -> None:
    Y = rows(21)
    result = fabricate(Y, 2, steps=3)
    np.testing.assert_array_equal(result.data, smooth(Y, 2, 4))
    assert result.steps == 3 and result.errors.shape == (3,)
    errors = [KernelAffineHullMachine(2).fit(smooth(Y, 2, m + 1)).modeling_error_ for m in range(3)]
    np.testing.assert_allclose(result.errors, errors, rtol=1e-12)


def test_threshold_takes_the_first_error_that_is_small_enough() -> None:
    Y = rows(22)
    errors = fabricate(Y, 2, steps=6).errors
    assert np.all(np.diff(errors) < 0)
    for m in range(1, 7):
        at_most = fabricate(Y, 2, threshold=float(errors[m - 1]))
        assert at_most.steps == m
        np.testing.assert_array_equal(at_most.data, smooth(Y, 2, m + 1))


def test_at_least_one_step() -> None:
    Y = rows(23)
    result = fabricate(Y, 2, threshold=1e9)
    assert result.steps == 1
    np.testing.assert_array_equal(result.data, smooth(Y, 2, 2))


def test_relative_is_a_threshold_on_released_data() -> None:
    Y = rows(24)
    first = fabricate(Y, 2, steps=1).errors[0]
    relative, threshold = fabricate(Y, 2, relative=0.4), fabricate(Y, 2, threshold=0.4 * first)
    assert relative.steps == threshold.steps > 1
    np.testing.assert_array_equal(relative.data, threshold.data)
    assert relative.errors[-1] <= 0.4 * first < relative.errors[-2]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "exactly one of steps, relative, threshold; got none"),
        ({"steps": 2, "relative": 0.5}, "exactly one of steps, relative, threshold; got steps, relative"),
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"steps": 2.5}, "steps must be an integer"),
        ({"steps": True}, "steps must be an integer"),
        ({"relative": 0.0999}, "relative must be at least 0.1 and below 1, got 0.0999"),
        ({"relative": 1.0}, "relative must be"),
        ({"relative": math.nan}, "relative must be"),
        ({"relative": True}, "relative must be"),
        ({"threshold": -1.0}, "threshold must be a finite number of at least 0"),
        ({"threshold": math.inf}, "threshold must be"),
    ],
)
def test_value_errors(rule: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fabricate(rows(0), 2, **rule)  # type: ignore[arg-type]


def test_smooth_value_errors() -> None:
    with pytest.raises(ValueError, match="steps must be an integer of at least 1, got 0"):
        smooth(rows(0), 2, 0)
    with pytest.raises(ValueError, match="n_components"):
        smooth(rows(0), 0, 1)
    with pytest.raises(ValueError, match="NaN"):
        smooth(np.array([[np.nan]]), 1, 1)


def test_an_error_out_of_reach_ends_with_a_named_outcome() -> None:
    Y = 1e-3 * rows(25, 5, 6)  # a small mean square: the smoother hardly moves
    with pytest.raises(StopRuleNotReached, match=f"after {MAX_STEPS - 1} smoothing steps") as caught:
        fabricate(Y, 4, relative=0.1)
    assert caught.value.errors.shape == (MAX_STEPS,)
    assert caught.value.errors[-1] > caught.value.target
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_zero_threshold_is_reached_by_identical_rows() -> None:
    assert fabricate(np.ones((4, 2)), 1, threshold=0.0).steps == 1
    assert fabricate(np.ones((4, 2)), 1, relative=0.5).steps == 1


def test_many_rows_are_fabricated_shard_by_shard() -> None:
    Y = np.random.default_rng(4).normal(size=(700, 3)) + 3.0 * np.repeat(np.eye(3), [300, 300, 100], axis=0)
    made = fabricate_by_shard(Y, 2, max_rows=100, steps=2)
    sizes = np.bincount(made.shards)
    assert sizes.max() <= 200 and sizes.sum() == 700 and len(made.results) == len(sizes) >= 7
    for number, result in enumerate(made.results):
        own = made.shards == number
        np.testing.assert_array_equal(made.data[own], fabricate(Y[own], 2, steps=2).data)
        np.testing.assert_array_equal(made.data[own], result.data)
    few = fabricate_by_shard(Y[:90], 2, relative=0.5)
    np.testing.assert_array_equal(few.data, fabricate(Y[:90], 2, relative=0.5).data)
    with pytest.raises(ValueError, match="exactly one"):
        fabricate_by_shard(Y, 2)
