"""Shards of noise-added data: sizes, determinism, degenerate data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.kahm import shard_rows


def check(shards: NDArray[np.int64], n_rows: int, max_rows: int) -> None:
    assert shards.shape == (n_rows,) and shards.dtype == np.int64
    sizes = np.bincount(shards)
    assert sizes.min() >= 1, "no shard is empty"
    assert sizes.max() <= 2 * max_rows
    first_rows = [int(np.argmax(shards == shard)) for shard in range(len(sizes))]
    assert first_rows == sorted(first_rows), "shards are numbered by first appearance"


def test_few_rows_are_one_shard() -> None:
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(shard_rows(rng.random((30, 2)), 30), np.zeros(30))
    np.testing.assert_array_equal(shard_rows(rng.random((1, 2)), 1), [0])
    np.testing.assert_array_equal(shard_rows(np.zeros((1000, 1))), np.zeros(1000))


@pytest.mark.parametrize(("n_rows", "max_rows"), [(31, 30), (200, 30), (500, 20), (90, 1)])
def test_sizes(n_rows: int, max_rows: int) -> None:
    Y = np.random.default_rng(1).random((n_rows, 3))
    shards = shard_rows(Y, max_rows)
    check(shards, n_rows, max_rows)
    assert shards.max() + 1 >= np.ceil(n_rows / max_rows)


def test_clusters_are_found() -> None:
    rng = np.random.default_rng(2)
    centre = rng.permutation(np.repeat([0.0, 10.0, 20.0], 50))
    shards = shard_rows(centre[:, None] + 0.1 * rng.random((150, 2)), 50)
    assert len(np.unique(np.column_stack([centre, shards]), axis=0)) == 3


def test_a_dominant_cluster_is_halved() -> None:
    rng = np.random.default_rng(3)
    Y = np.vstack([0.01 * rng.random((400, 2)), 100.0 * rng.random((20, 2)) + 50.0])
    check(shard_rows(Y, 60), 420, 60)


@pytest.mark.parametrize("n_rows", [101, 250, 1000])
def test_identical_rows_are_split_in_order(n_rows: int) -> None:
    shards = shard_rows(np.full((n_rows, 3), 0.3), 50)
    check(shards, n_rows, 50)
    assert np.all(np.diff(shards) >= 0)


def test_duplicates() -> None:
    Y = np.repeat(np.random.default_rng(4).random((3, 2)), 200, axis=0)
    check(shard_rows(Y, 40), 600, 40)


def test_deterministic_and_without_global_random_state() -> None:
    Y = np.random.default_rng(5).random((700, 4))
    first = shard_rows(Y, 50)
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    np.testing.assert_array_equal(shard_rows(Y, 50), first)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    np.testing.assert_equal(after, before)


def test_warnings_are_left_as_they_were() -> None:
    filters = list(warnings.filters)
    shard_rows(np.repeat([[0.0], [1.0]], 50, axis=0), 10)
    assert list(warnings.filters) == filters


@pytest.mark.parametrize("max_rows", [0, -3, 2.5, True, "9"])
def test_max_rows_value_errors(max_rows: object) -> None:
    with pytest.raises(ValueError, match="max_rows must be an integer of at least 1"):
        shard_rows(np.zeros((3, 1)), max_rows)  # type: ignore[arg-type]


def test_not_finite_value_error() -> None:
    with pytest.raises(ValueError, match="NaN"):
        shard_rows(np.array([[np.nan], [1.0]]), 1)
