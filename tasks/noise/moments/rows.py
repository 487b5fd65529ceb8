"""Rows drawn from released moments; post-processing, so any good generator will do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource, draw_words
from tasks.noise.moments.blocks import Layout, layout_of
from tasks.noise.moments.categories import calibrated_root, to_blocks
from tasks.noise.moments.model import MomentsModel
from tasks.noise.moments.released import HALF_RANGE, Standardization

__all__ = ["draw_rows"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_BLOCK_CELLS = 2**20
_MATCH_CELLS = 2**22  # larger classes fit their moments well enough without matching


def draw_rows(
    model: MomentsModel, how: Standardization, n_rows: int, bits: BitSource, layout: Layout | None = None
) -> tuple[IntArray, IntArray]:
    """Draw `n_rows` rows in random order: cells in [0, 2^16], and labels.

    Notes
    -----
    Class sizes are the shares' whole parts, the rest by largest remainder.  Classes of moderate size are drawn with
    sample moments equal to the law's (mean always, covariance where there are more than 2p rows), which takes
    the draw's own sampling error off.  The generator is PCG64, seeded with 256 bits of the source.
    """
    seed = [int(word) for word in draw_words(bits, 4)]
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    p = model.means.shape[1]
    layout = layout or layout_of(None, p)
    sizes = _whole_sizes(model.shares, n_rows)
    lattice = np.empty((n_rows, p), dtype=np.int64)
    labels = np.empty(n_rows, dtype=np.int64)
    place = random.permutation(n_rows)
    start = 0
    for label, size in enumerate(sizes.tolist()):
        root = model.roots[label if len(model.roots) > 1 else 0]
        matched = size * p <= _MATCH_CELLS
        step = size if matched else max(1, _BLOCK_CELLS // p)
        for first in range(0, size, max(step, 1)):
            normal = random.standard_normal((min(step, size - first), p))
            if matched:
                normal = _match(normal)
            if first == 0 and not layout.numeric:
                root = calibrated_root(root, normal, model.frequencies[label], model.means[label], how, layout)
            scores = normal @ root.T
            cells = how.centre + (model.means[label] + scores) * how.scale
            if not layout.numeric:
                to_blocks(cells, scores, model.frequencies[label], layout)
            rounded = np.floor(np.clip(cells, -HALF_RANGE, HALF_RANGE) + 0.5).astype(np.int64) + HALF_RANGE
            rows = place[start + first : start + first + len(normal)]
            lattice[rows], labels[rows] = rounded, label
        start += size
    return lattice, labels


def _whole_sizes(shares: FloatArray, n_rows: int) -> IntArray:
    """Whole numbers of sum `n_rows` in proportion to the shares, by largest remainder."""
    wanted = shares * n_rows
    sizes = np.floor(wanted).astype(np.int64)
    order = np.argsort(sizes - wanted, kind="stable")
    sizes[order[: n_rows - int(sizes.sum())]] += 1
    return sizes


def _match(normal: FloatArray) -> FloatArray:
    """Standard normal rows with sample mean 0 and, where they are enough, sample covariance the identity."""
    size, p = normal.shape
    if size < 2:
        return normal
    centred = normal - normal.mean(axis=0)
    if size <= 2 * p:
        return np.asarray(centred * np.sqrt(size / (size - 1)))
    values, vectors = np.linalg.eigh(centred.T @ centred / size)
    return np.asarray(centred @ (vectors / np.sqrt(values)) @ vectors.T)
