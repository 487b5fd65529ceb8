"""Sharding of noise-added data: subsets small enough for a kernel matrix of their own.

Cost and memory of a machine grow with the cube and the square of its rows. The paper splits large data by
k-means (remark 4) into ``S = ceil(N / 1000)`` clusters; here only released data are clustered, and no shard
is large.
"""

from __future__ import annotations

import math
import warnings
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from threadpoolctl import threadpool_limits

#: Seed of the k-means initialisation: public and fixed, sharding is post-processing of released data.
SHARDING_SEED = 20240513


def shard_rows(Y_plus: ArrayLike, max_rows: int = 1000) -> NDArray[np.int64]:
    """Shard of each row of noise-added data.

    Rows are clustered by k-means into ``S = ceil(N / max_rows)`` clusters. A cluster of more than
    ``2 * max_rows`` rows is halved at the median of its leading principal component until none is left.

    Parameters
    ----------
    Y_plus : array-like of shape (N, p)
        Noise-added data, finite. Never the confidential data: the shards would leak them.
    max_rows : int, default=1000
        Target size of a shard, at least 1.

    Returns
    -------
    ndarray of shape (N,)
        Shard ids 0 to S' - 1, numbered by first appearance; every shard has between 1 and ``2 * max_rows``
        rows.

    Raises
    ------
    ValueError
        If max_rows is not a positive integer, or a value is NaN or infinite.

    Notes
    -----
    Deterministic given Y_plus: fixed public seed, one thread (k-means adds in the order in which threads
    finish, so more would change last bits and with them border rows). Identical rows cannot be told apart by
    k-means; they are split in the order in which they stand.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, remark 4 and equation (57).
    """
    if isinstance(max_rows, bool) or not isinstance(max_rows, Integral) or max_rows < 1:
        raise ValueError(f"max_rows must be an integer of at least 1, got {max_rows!r}")
    rows: NDArray[np.float64] = check_array(Y_plus, dtype=np.float64, input_name="Y_plus")
    n_shards = math.ceil(len(rows) / max_rows)
    if n_shards == 1:
        return np.zeros(len(rows), dtype=np.int64)
    with threadpool_limits(limits=1):
        pending = [members for members in _k_means(rows, n_shards) if len(members)]
        shards: list[NDArray[np.intp]] = []
        while pending:
            members = pending.pop()
            if len(members) > 2 * max_rows:
                pending.extend(_halves(rows, members))
            else:
                shards.append(members)
    ids = np.empty(len(rows), dtype=np.int64)
    for shard, members in enumerate(sorted(shards, key=lambda members: int(members[0]))):
        ids[members] = shard
    return ids


def _k_means(rows: NDArray[np.float64], n_clusters: int) -> list[NDArray[np.intp]]:
    """Ascending row numbers of each cluster; clusters may be empty where rows coincide."""
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: the answer has empty clusters, which the caller expects.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = KMeans(n_clusters, n_init=1, random_state=SHARDING_SEED).fit(rows).labels_
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=n_clusters))[:-1])


def _halves(rows: NDArray[np.float64], members: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The members below and above the median of their leading principal component, ties in row order."""
    centred = rows[members] - rows[members].mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axis = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
    order = np.argsort(centred @ axis, kind="stable")
    middle = len(members) // 2
    return [np.sort(members[order[:middle]]), np.sort(members[order[middle:]])]
