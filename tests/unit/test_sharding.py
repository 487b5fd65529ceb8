"""Shards of noise-added data: sizes, determinism, degenerate data."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from tasks.accounting.lattice import SPACING
from tasks.kahm import shard_rows
from tasks.kahm.sharding import MOST_BRANCHES, branch_centres, nearest_centre
from tasks.noise_added import NoiseAdded, piece_of, write_noise_added
from tasks.pieces import integers_of, matrix_of
from tasks.runner import workers_of
from tasks.shard import Sharded, shard
from tasks.tables import NoiseAddedTable


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


# more clusters than are sought at once


@pytest.mark.parametrize(("n_rows", "max_rows"), [(3300, 100), (4000, 20), (2500, 1)])
def test_large_data_are_branched_first(n_rows: int, max_rows: int) -> None:
    Y = np.random.default_rng(6).normal(size=(n_rows, 4))
    assert n_rows / max_rows > MOST_BRANCHES
    shards = shard_rows(Y, max_rows)
    check(shards, n_rows, max_rows)
    assert shards.max() + 1 >= np.ceil(n_rows / max_rows)
    np.testing.assert_array_equal(shard_rows(Y, max_rows), shards)


def test_branched_shards_are_of_rows_that_are_near_each_other() -> None:
    """Sixty-four clusters far apart, of fifty rows each: no shard spans two."""
    rng = np.random.default_rng(7)
    cluster = rng.permutation(np.repeat(np.arange(64), 50))
    Y = np.column_stack([cluster % 8, cluster // 8]) + 0.01 * rng.normal(size=(3200, 2))
    shards = shard_rows(Y, 50)
    spread = np.array([np.ptp(Y[shards == shard], axis=0).max() for shard in range(shards.max() + 1)])
    assert np.median(spread) < 0.1


@pytest.mark.parametrize("n_rows", [1700, 6400])
def test_identical_rows_beyond_the_branches_are_split_in_order(n_rows: int) -> None:
    shards = shard_rows(np.full((n_rows, 2), 0.7), 50)
    check(shards, n_rows, 50)
    assert np.all(np.diff(shards) >= 0)


def test_one_huge_cluster_of_duplicates_among_others() -> None:
    rng = np.random.default_rng(8)
    Y = rng.permutation(np.vstack([np.full((3000, 3), 0.5), rng.random((400, 3))]))
    check(shard_rows(Y, 40), 3400, 40)
    check(shard_rows(np.vstack([np.full((3399, 3), 0.5), np.ones((1, 3))]), 40), 3400, 40)


@pytest.mark.parametrize(("n_rows", "n_centres", "width"), [(500, 32, 5), (50, 1, 3), (1, 7, 1)])
def test_nearest_centre_is_that_of_brute_force(n_rows: int, n_centres: int, width: int) -> None:
    rng = np.random.default_rng(9)
    rows, centres = rng.normal(size=(n_rows, width)), rng.normal(size=(n_centres, width))
    distances = ((rows[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest_centre(rows, centres), distances.argmin(axis=1))
    assert nearest_centre(np.zeros((2, width)), np.ones((4, width))).tolist() == [0, 0], "the first one on ties"


def test_there_are_no_more_centres_than_rows_or_branches() -> None:
    rng = np.random.default_rng(10)
    assert branch_centres(rng.random((7, 2))).shape == (7, 2)
    assert branch_centres(rng.random((400, 2))).shape == (MOST_BRANCHES, 2)


# the step, whose rows are on disk


def _noise_added(folder: Path, lattice: NDArray[np.int64], labels: NDArray[np.int64], size: int = 100) -> NoiseAdded:
    """In pieces, with places in random order."""
    places = np.random.default_rng(11).permutation(len(labels))

    def piece(start: int) -> NoiseAddedTable:
        own = slice(start, start + size)
        return NoiseAddedTable(lattice[own], labels[own], SPACING, "seeded")

    pieces = (
        piece_of(
            places[start : start + size], piece(start), pd.DataFrame(index=range(len(labels[start : start + size])))
        )
        for start in range(0, len(labels), size)
    )
    return write_noise_added(folder / "noise_added.parquet", pieces, SPACING, "seeded", "members")


def _check_step(sharded: Sharded, kept: NoiseAdded, target_rows: int) -> None:
    """Each row is in one shard as it was, no shard mixes labels, and none is too large."""
    whole = kept.read()
    seen: list[NDArray[np.int64]] = []
    for rows in sharded.shards:
        assert 1 <= len(rows) <= 2 * target_rows
        places, labels = integers_of(rows, "place"), integers_of(rows, "label")
        assert len(np.unique(labels)) == 1
        np.testing.assert_array_equal(labels, whole.labels[places])
        np.testing.assert_array_equal(matrix_of(rows, "noise_added"), whole.lattice[places])
        seen.append(places)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(kept.n_rows))
    assert (sharded.n_shards, sharded.n_rows) == (len(seen), kept.n_rows)
    assert sharded.class_rows == {int(label): int((whole.labels == label).sum()) for label in np.unique(whole.labels)}


def _lattice(kind: str, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    lattice = rng.integers(-(2**17), 2**18, (n_rows, 3))
    if kind == "identical":
        lattice[:] = 5
    elif kind == "nearly identical":
        lattice[rng.random(n_rows) < 0.95] = 5
    elif kind == "two values":
        lattice = np.where(rng.random((n_rows, 1)) < 0.5, 5, 2**16) * np.ones((1, 3), dtype=np.int64)
    return lattice


@pytest.mark.parametrize("kind", ["random", "identical", "nearly identical", "two values"])
def test_classes_of_more_shards_than_branches(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of two rows, one of a few shards, and a large one; four branches, and pieces of 100 rows."""
    monkeypatch.setattr("tasks.kahm.sharding.MOST_BRANCHES", 4)
    monkeypatch.setattr("tasks.shard.MOST_BRANCHES", 4)
    monkeypatch.setattr("tasks.shard.SAMPLE_ROWS", 200)
    monkeypatch.setattr("tasks.pieces.PIECE_ROWS", 100)
    rng = np.random.default_rng(12)
    labels = rng.permutation(np.repeat([0, 2, 3], [2, 98, 1400]))
    kept = _noise_added(tmp_path, _lattice(kind, 1500, rng), labels)
    found = []
    with workers_of("threads") as workers:
        for run in range(2):
            sharded = shard(kept, 10, workers, tmp_path / f"scratch-{run}")
            _check_step(sharded, kept, 10)
            found.append([integers_of(rows, "place").tolist() for rows in sharded.shards])
    assert found[0] == found[1] and len(found[0]) >= 75
    rest = {path.name for path in (tmp_path / "scratch-0").rglob("*") if path.is_file()}
    assert rest == {"shards.arrows"}, "rows on their way are gone"


def test_a_class_that_fits_into_one_worker_is_sharded_as_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    lattice, labels = rng.integers(0, 2**16, (700, 3)), np.ones(700, dtype=np.int64)
    kept = _noise_added(tmp_path, lattice, labels)
    places = np.random.default_rng(11).permutation(700)
    with workers_of("threads") as workers:
        sharded = shard(kept, 50, workers, tmp_path / "scratch")
    _check_step(sharded, kept, 50)
    expected = shard_rows(lattice * SPACING, 50)
    found = [set(integers_of(rows, "place").tolist()) for rows in sharded.shards]
    assert found == [set(places[expected == number].tolist()) for number in range(expected.max() + 1)]


def test_threads_that_shard_at_once_leave_no_warning_behind() -> None:
    """Filters of warnings belong to the process: what one thread sets, another's end takes away."""
    filters = list(warnings.filters)
    with workers_of("threads") as workers:
        for ids in workers.map(_shards_of_few_distinct_rows, range(200)):
            check(ids, 120, 10)
    assert list(warnings.filters) == filters


def _shards_of_few_distinct_rows(seed: int) -> NDArray[np.int64]:
    return shard_rows(np.random.default_rng(seed).integers(0, 2, (120, 2)).astype(np.float64), 10)
