"""Rows drawn from released moments; post-processing, so any good generator will do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource, draw_words
from tasks.noise.moments.blocks import Layout, layout_of
from tasks.noise.moments.categories import calibrated_root, to_blocks
from tasks.noise.moments.marginals import snap, to_marginals
from tasks.noise.moments.model import MomentsModel
from tasks.noise.moments.released import HALF_RANGE, MomentsRelease, Standardization

__all__ = ["draw_rows"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_BLOCK_CELLS = 2**20
_LEAST_VARIANCE = 0.5  # within a class, of the mean class's
_LEAST_OF_A_CLASS = 64
_MATCH_CELLS = 2**22  # larger classes fit their moments well enough without matching


def draw_rows(
    model: MomentsModel,
    how: Standardization,
    n_rows: int,
    bits: BitSource,
    layout: Layout | None = None,
    marginals: MomentsRelease | None = None,
) -> tuple[IntArray, IntArray]:
    """Draw `n_rows` rows in random order: cells in [0, 2^16], and labels.

    Notes
    -----
    Class sizes are the shares' whole parts, the rest by largest remainder.  Classes of moderate size are drawn with
    sample moments equal to the law's (mean always, covariance where there are more than 2p rows), which takes
    the draw's own sampling error off.  The generator is PCG64, seeded with 256 bits of the source.

    With histograms in `marginals` the values are moved to them by rank.  Ranks among few rows say little, so no fewer
    rows than the release is of are drawn, and the first in random order are kept.
    """
    random = _generator(bits)
    p = model.means.shape[1]
    layout = layout or layout_of(None, p)
    if marginals is not None and not marginals.marginals.size:
        marginals = None
    n_kept = n_rows
    if marginals is not None:
        n_rows = max(n_rows, marginals.n_rows)
        if len(marginals.marginals) > 1 and len(model.roots) > 1:
            model = _with_own_parts(model, layout)
    lattice, labels, values = _drawn(
        model, how, _whole_sizes(model.shares, n_rows), random, layout, later=marginals is not None
    )
    _finish_values(lattice, values, labels, layout, marginals)
    return lattice[:n_kept], labels[:n_kept]


def draw_pieces(
    model: MomentsModel,
    how: Standardization,
    n_rows: int,
    bits: BitSource,
    layout: Layout,
    marginals: MomentsRelease | None,
    most: int,
) -> Iterator[tuple[IntArray, IntArray]]:
    """Draw `n_rows` rows as `draw_rows` does, some `most` at a time: each piece is a draw of its own.

    Notes
    -----
    A class is in so many pieces only that it has at least 64 rows in each, since ranks and sample moments of fewer say
    little. In which pieces smaller classes are is drawn, so that each piece has about the mix of classes of all rows.
    """
    n_pieces = math.ceil(n_rows / most)
    if n_pieces == 1:
        yield draw_rows(model, how, n_rows, bits, layout, marginals)
        return
    if marginals is not None and not marginals.marginals.size:
        marginals = None
    if marginals is not None and len(marginals.marginals) > 1 and len(model.roots) > 1:
        model = _with_own_parts(model, layout)
    parts = np.zeros((n_pieces, len(model.shares)), dtype=np.int64)
    class_rows = _whole_sizes(model.shares, n_rows)
    starts = _generator(bits).integers(0, n_pieces, len(class_rows))
    for label, size in enumerate(class_rows.tolist()):
        n_parts = min(n_pieces, max(1, size // _LEAST_OF_A_CLASS))
        ends = np.arange(n_parts + 1) * size // n_parts
        parts[(starts[label] + np.arange(n_parts)) % n_pieces, label] = np.diff(ends)
    for sizes in parts:
        if sizes.any():
            drawn = _drawn(model, how, sizes, _generator(bits), layout, later=marginals is not None)
            lattice, labels, values = drawn
            _finish_values(lattice, values, labels, layout, marginals, class_rows)
            yield lattice, labels


def _generator(bits: BitSource) -> np.random.Generator:
    """PCG64, seeded with 256 bits of the source."""
    seed = [int(word) for word in draw_words(bits, 4)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def _drawn(
    model: MomentsModel,
    how: Standardization,
    sizes: IntArray,
    random: np.random.Generator,
    layout: Layout,
    *,
    later: bool,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows of the normal laws, so many of each class, rounded; labels; and, if wanted later, the values before that."""
    p = model.means.shape[1]
    n_rows = int(sizes.sum())
    later = later or any(layout.levels)
    values = np.empty((n_rows if later else 0, layout.values.size))
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
            if later:
                values[rows] = cells[:, layout.values] + HALF_RANGE
        start += size
    return lattice, labels, values


def _with_own_parts(model: MomentsModel, layout: Layout) -> MomentsModel:
    """The laws of values that are moved to histograms class by class, where only their order within a class matters.

    A column that hardly varies in a class has correlations there that are mostly error: the less it varies, the larger.
    In the other draws they do not show, here they would; so its variance is made up by an independent part.
    """
    own = layout.values
    covariances = model.roots @ model.roots.swapaxes(1, 2)
    variances = covariances[:, own, own]
    lacking = np.maximum(_LEAST_VARIANCE * variances.mean(axis=0) - variances, 0.0)
    covariances[:, own, own] += lacking
    roots = [
        np.linalg.cholesky(c).astype(np.float64) if missing.any() else root
        for c, missing, root in zip(covariances, lacking, model.roots, strict=True)
    ]
    return replace(model, roots=np.stack(roots))


def _finish_values(
    lattice: IntArray,
    values: FloatArray,
    labels: IntArray,
    layout: Layout,
    marginals: MomentsRelease | None,
    class_rows: IntArray | None = None,
) -> None:
    """Put the values in their final form into `lattice`; missing ones stay where they are."""
    if not len(values):
        return
    missing = np.zeros(values.shape, dtype=bool)
    for number, flag in enumerate(layout.flag_of):
        if flag >= 0:
            missing[:, number] = lattice[:, flag] > 0
    if marginals is not None:
        values = to_marginals(values, missing, labels, marginals, layout, class_rows)
    snap(values, layout)
    whole = np.floor(np.clip(values, 0, 2 * HALF_RANGE) + 0.5).astype(np.int64)
    lattice[:, layout.values] = np.where(missing, HALF_RANGE, whole)


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
