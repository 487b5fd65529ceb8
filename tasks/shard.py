"""Part noise-added data into shards: k-means on Y+, class by class; released side (post-processing)."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.kahm.sharding import MOST_BRANCHES, SAMPLE_ROWS, branch_centres, nearest_centre, shard_rows
from tasks.noise_added import NoiseAdded
from tasks.pieces import Groups, Sequence, integers_of, matrix_of, piece_rows
from tasks.runner import Workers
from tasks.step import advanced, step
from tasks.tables import FloatArray, IntArray

TITLE = "Shard"
_STUCK = 0.9
"""A branch with more than this share of the rows says that branching does not get on."""


@dataclass(frozen=True, eq=False)
class Sharded:
    """Noise-added rows by shard; a shard never mixes labels.

    Attributes
    ----------
    shards : Sequence
        A piece is a shard; columns as in `NoiseAdded`.
    n_shards, n_rows : int
    class_rows : dict of int to int
        Rows of each class that has any, by label.
    spacing : float
    """

    shards: Sequence
    n_shards: int
    n_rows: int
    class_rows: dict[int, int]
    spacing: float


@step(TITLE)
def shard(noise_added: NoiseAdded, target_rows: int, workers: Workers, scratch: Path) -> Sharded:
    """Noise-added data by shard.

    Parameters
    ----------
    noise_added : NoiseAdded
    target_rows : int
        Rows a shard should have at most.
    workers : Workers
        They get noise-added rows.
    scratch : Path
        Folder for rows on their way.

    Returns
    -------
    Sharded
        Computed from Y+ and its labels only. Classes of more than 32 shards are first parted into branches by k-means
        on a sample, so no more than 32 shards are in a worker's memory.
    """
    classes = Groups(scratch / "classes")
    for piece in noise_added.pieces():
        classes.add(piece, integers_of(piece, "label"))
    waiting: deque[pa.Table] = deque()

    def items() -> Iterator[tuple[FloatArray, int]]:
        for label in classes.sizes():
            for part in _parts(classes, label, target_rows, noise_added.spacing, scratch / "branches"):
                waiting.append(part)
                yield matrix_of(part, "noise_added") * noise_added.spacing, target_rows

    def shards() -> Iterator[pa.Table]:
        done = 0
        for ids in workers.map(_ids, items()):
            part = waiting.popleft()
            done += len(part)
            sizes = np.bincount(ids)
            rows = part.take(pa.array(np.argsort(ids, kind="stable")))
            for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
                yield rows.slice(int(start), int(size))
            advanced(TITLE, done, noise_added.n_rows)

    sharded = Sequence(scratch / "shards.arrows")
    n_shards = sharded.write(shards())
    return Sharded(sharded, n_shards, noise_added.n_rows, classes.sizes(), noise_added.spacing)


def _ids(item: tuple[FloatArray, int]) -> IntArray:
    rows, target_rows = item
    return shard_rows(rows, target_rows)


def _parts(groups: Groups, group: int, target_rows: int, spacing: float, folder: Path) -> Iterator[pa.Table]:
    """The rows of a group in parts of at most 32 shards, each of rows that are near each other."""
    n_rows = groups.sizes()[group]
    width = next(groups.pieces(group)).column("noise_added").type.list_size
    most = max(2 * target_rows, min(MOST_BRANCHES * target_rows, piece_rows(width)))
    if n_rows <= most:
        yield groups.read(group)
        groups.drop(group)
        return
    sampled = np.linspace(0, n_rows - 1, min(SAMPLE_ROWS, n_rows)).astype(np.int64)
    sample, start = [], 0
    for piece in groups.pieces(group):
        own = sampled[(sampled >= start) & (sampled < start + len(piece))] - start
        sample.append(matrix_of(piece, "noise_added")[own] * spacing)
        start += len(piece)
    centres = branch_centres(np.concatenate(sample))
    branches, start = Groups(folder), 0
    for piece in groups.pieces(group):
        branches.add(piece, nearest_centre(matrix_of(piece, "noise_added") * spacing, centres))
    if max(branches.sizes().values()) > _STUCK * n_rows:  # nearly all rows alike: as they stand
        branches, even = Groups(folder), math.ceil(n_rows / math.ceil(n_rows / most))
        for piece in groups.pieces(group):
            branches.add(piece, (start + np.arange(len(piece))) // even)
            start += len(piece)
    groups.drop(group)
    for branch in branches.sizes():
        yield from _parts(branches, branch, target_rows, spacing, folder / f"{branch}")
