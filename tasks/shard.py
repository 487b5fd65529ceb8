"""Part noise-added data into shards: k-means on Y+, class by class; released side (post-processing)."""

import numpy as np

from tasks.kahm import shard_rows
from tasks.step import step
from tasks.tables import NoiseAddedTable, ShardedTable


@step("Shard")
def shard(noise_added: NoiseAddedTable, target_rows: int) -> ShardedTable:
    """Noise-added data with a shard number for each row.

    Parameters
    ----------
    noise_added : NoiseAddedTable
    target_rows : int
        Rows a shard should have at most.

    Returns
    -------
    ShardedTable
        Shards never mix labels; they are computed from Y+ and public labels only.
    """
    scaled = noise_added.scaled
    shards = np.empty(len(scaled), dtype=np.int64)
    n_shards = 0
    for label in np.unique(noise_added.labels):
        rows = np.flatnonzero(noise_added.labels == label)
        own = shard_rows(scaled[rows], target_rows)
        shards[rows] = own + n_shards
        n_shards += int(own.max()) + 1
    return ShardedTable(rows=noise_added, shards=shards)
