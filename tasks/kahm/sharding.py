"""Sharding of noise-added data: subsets small enough for a kernel matrix of their own.

Cost and memory of a machine grow with the cube and the square of its rows. The paper splits large data by
k-means (remark 4) into ``S = ceil(N / 1000)`` clusters; here only released data are clustered, and no shard
is large. Plain k-means costs N S operations a round; where S is large, data are parted into some 32 branches, fitted to
a sample, and each branch is clustered by itself. That costs N times the sum of the branchings, and rows need not be in
memory together: :func:`branch_centres` and :func:`nearest_centre` are for those who keep them on disk.
"""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans
from sklearn.utils import check_array

from tasks.kahm.checks import check_magnitude
from tasks.kahm.shared import NO_CONVERGENCE_WARNINGS, ONE_BLAS_THREAD

#: Seed of the k-means initialisation: public and fixed, sharding is post-processing of released data.
SHARDING_SEED = 20240513

#: Clusters that are sought at once at most.
MOST_BRANCHES = 32

#: Rows that the centres of branches are fitted to.
SAMPLE_ROWS = 20_000

Members = NDArray[np.intp]


def shard_rows(Y_plus: ArrayLike, max_rows: int = 1000) -> NDArray[np.int64]:
    """Shard of each row of noise-added data.

    Rows are clustered by k-means into ``S = ceil(N / max_rows)`` clusters; where S is above 32, into 32 branches first,
    and each branch likewise. A cluster of more than ``2 * max_rows`` rows is halved at the median of its leading
    principal component until none is left.

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
        If max_rows is not a positive integer, or a value is NaN, infinite or above 1e100 in magnitude.

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
    check_magnitude(rows, "Y_plus", allow_tiny=True)
    with ONE_BLAS_THREAD:
        shards = _shards(rows, int(max_rows))
    ids = np.empty(len(rows), dtype=np.int64)
    for shard, members in enumerate(sorted(shards, key=lambda members: int(members[0]))):
        ids[members] = shard
    return ids


def branch_centres(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centres of the branches of large data, by k-means on a sample.

    Parameters
    ----------
    sample : ndarray of shape (m, p)
        Some rows, finite; not the first ones of data that are in any order.

    Returns
    -------
    ndarray of shape (MOST_BRANCHES, p), or fewer rows where fewer are distinct
    """
    return np.asarray(k_means(sample, MOST_BRANCHES).cluster_centers_)


def nearest_centre(rows: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """The number of the centre next to each row, the first one on ties; a matrix product."""
    with ONE_BLAS_THREAD:
        scores = rows @ centres.T - 0.5 * np.einsum("ij,ij->i", centres, centres)
    return np.argmax(scores, axis=1)


def _shards(rows: NDArray[np.float64], max_rows: int) -> list[Members]:
    """Ascending row numbers of each shard."""
    shards: list[Members] = []
    pending: list[Members] = [np.arange(len(rows))]
    while pending:
        members = pending.pop()
        n_clusters = math.ceil(len(members) / max_rows)
        if n_clusters == 1:
            shards.append(members)
        elif n_clusters <= MOST_BRANCHES:
            labels = k_means(rows[members], n_clusters).labels_
            shards += _halved(rows, _parts(members, labels), 2 * max_rows)
        else:
            branches = _parts(members, nearest_centre(rows[members], branch_centres(rows[_sample(members)])))
            pending += branches if len(branches) > 1 else _halves(rows, members)
    return shards


def _sample(members: Members) -> Members:
    """Some of them, evenly spread."""
    return members[np.linspace(0, len(members) - 1, min(SAMPLE_ROWS, len(members))).astype(np.intp)]


def k_means(rows: NDArray[np.float64], n_clusters: int) -> KMeans:
    """k-means with the public seed; clusters stay empty, without a warning, where rows coincide."""
    with ONE_BLAS_THREAD, NO_CONVERGENCE_WARNINGS:
        return KMeans(min(n_clusters, len(rows)), n_init=1, random_state=SHARDING_SEED).fit(rows)


def _parts(members: Members, labels: NDArray[np.integer]) -> list[Members]:
    """The members with each label that occurs."""
    order = np.argsort(labels, kind="stable")
    return [part for part in np.split(members[order], np.cumsum(np.bincount(labels))[:-1]) if len(part)]


def _halved(rows: NDArray[np.float64], parts: list[Members], most: int) -> list[Members]:
    small: list[Members] = []
    while parts:
        part = parts.pop()
        if len(part) > most:
            parts.extend(_halves(rows, part))
        else:
            small.append(part)
    return small


def _halves(rows: NDArray[np.float64], members: Members) -> list[Members]:
    """The members below and above the median of their leading principal component, ties in row order."""
    centred = rows[members] - rows[members].mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axis = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
    order = np.argsort(centred @ axis, kind="stable")
    middle = len(members) // 2
    return [np.sort(members[order[:middle]]), np.sort(members[order[middle:]])]
