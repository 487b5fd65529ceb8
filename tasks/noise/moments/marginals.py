"""The third release: histograms of the value coordinates, and drawn values moved to them by rank.

A replaced row takes 1 from one bin of a present value and adds 1 to another bin, or to a bin of another class: 2,
squared.  A value that becomes missing, or stops being so, moves one bin by 1 (missing ones are in no bin; their number
is the flags'), and two missing ones none.  So p_v value coordinates move, squared, by at most 2 p_v, attained where
each goes from one bin to another.  Neither the number of bins nor histograms by class change that.

Continuous coordinates have a bin for each end of the lattice, where bounds cut and zeros are, and bins of equal width
between them.  Those with levels have a bin for each.

Drawn values.  A histogram is read as its departure from that of the drawn normal values, in known noise.  Its Haar
contrasts are shrunk by a scale mixture of normal laws that all of them fit together (Donoho and Johnstone, Biometrika
1994; Stephens, Biostatistics 2017): where the noise is larger than what is seen the drawn values stay as they are, a
point mass stays almost whole, and the sum, which is known, is not moved by the noise of many bins.  Ranks
are kept: the drawn value of rank r goes to the same quantile of the wanted histogram.  Inside a bin values follow the
drawn ones there, or are spread evenly where these are few.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments.blocks import Layout, level_points
from tasks.noise.moments.released import COUNT_UNIT, HALF_RANGE, MomentsRelease

__all__ = ["bin_edges", "haar", "histograms", "level_edges", "shrunk", "snap", "to_marginals"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_ROUNDS = 50
_PRIOR_NOTHING = 10.0
"""Number of bins without a departure that the mixture is taken to have seen already."""

_CLEAR = 4.0
"""Deviations of the noise that a contrast must show where nearly no value was drawn on one of its sides."""

_FEW = 8  # drawn values in a bin, below which they are spread evenly


@lru_cache(maxsize=64)
def level_edges(levels: int) -> FloatArray:
    """Between the levels, and half a step beyond the ends; in lattice steps, shape (levels + 1,)."""
    points = level_points(levels)
    return np.concatenate([[-0.5], (points[1:] + points[:-1]) / 2.0, [2 * HALF_RANGE + 0.5]])


@lru_cache(maxsize=64)
def bin_edges(levels: int, bins: int) -> FloatArray:
    """Edges of one coordinate's bins, in lattice steps; no cell of a kept rule lies on one."""
    if levels:
        return level_edges(levels)
    inner = bins - 2
    starts = 1 - (-np.arange(inner + 1) * (2 * HALF_RANGE - 1) // inner)
    return np.concatenate([[-0.5], starts - 0.5, [2 * HALF_RANGE + 0.5]])


@lru_cache(maxsize=16)
def haar(bins: int) -> FloatArray:
    """Orthonormal contrasts of sum 0, shape (bins - 1, bins): either end beside the rest, then halves beside halves."""
    rows: list[FloatArray] = []

    def split(start: int, middle: int, stop: int) -> None:
        row = np.zeros(bins)
        left, right = middle - start, stop - middle
        row[start:middle] = math.sqrt(right / (left * (left + right)))
        row[middle:stop] = -math.sqrt(left / (right * (left + right)))
        rows.append(row)

    def halve(start: int, stop: int) -> None:
        if stop - start > 1:
            middle = (start + stop) // 2
            split(start, middle, stop)
            halve(start, middle)
            halve(middle, stop)

    split(0, 1, bins)
    if bins > 2:
        split(1, bins - 1, bins)
        halve(1, bins - 1)
    return np.array(rows)


def histograms(lattice: IntArray, groups: IntArray, n_groups: int, layout: Layout, bins: int) -> IntArray:
    """Counts of present values, shape (n_groups, total_bins): the coordinates' bins one after the other."""
    out = []
    for column, flag, levels in zip(layout.values, layout.flag_of, layout.levels, strict=True):
        edges = bin_edges(levels, bins)
        size = len(edges) - 1
        present = lattice[:, flag] == 0 if flag >= 0 else np.ones(len(lattice), dtype=bool)
        found = np.searchsorted(edges[1:-1], lattice[present, column], side="right")
        counts = np.bincount(groups[present] * size + found, minlength=n_groups * size)
        out.append(counts.reshape(n_groups, size))
    return np.hstack(out).astype(np.int64) if out else np.zeros((n_groups, 0), dtype=np.int64)


def to_marginals(
    cells: FloatArray,
    missing: BoolArray,
    labels: IntArray,
    release: MomentsRelease,
    layout: Layout,
    class_rows: IntArray | None = None,
) -> FloatArray:
    """Drawn values moved to the released histograms by rank: of all rows, then within classes if they are by class.

    Parameters
    ----------
    cells : ndarray of float64, shape (n_rows, number of value coordinates)
        In lattice steps from 0, not yet cut to the range.
    missing : ndarray of bool, same shape
    labels : ndarray of int64, shape (n_rows,)
    release : MomentsRelease
        With histograms.
    layout : Layout
    class_rows : ndarray of int64, shape (n_classes,), default=None
        Rows of each class in all pieces, where these are one piece of several; as many as the release is of. A row
        then counts for as many as its class has rows in all pieces for each one here.
    """
    noisy = release.marginals / float(COUNT_UNIT)
    noise = release.marginals_noise / COUNT_UNIT
    weights = np.full(len(cells), release.n_rows / len(cells))
    if class_rows is not None:
        weights = (class_rows / np.maximum(np.bincount(labels, minlength=len(class_rows)), 1))[labels]
    all_weights = weights * (release.n_rows / weights.sum())  # classes that are not in this piece have none
    everyone = [np.arange(len(cells))]
    moved = _moved(
        cells, missing, everyone, noisy.sum(axis=0)[None], noise * math.sqrt(len(noisy)), all_weights, release, layout
    )
    if len(noisy) == 1:
        return moved
    members = [np.flatnonzero(labels == label) for label in range(len(noisy))]
    return _moved(moved, missing, members, noisy, noise, weights, release, layout)


def _moved(
    cells: FloatArray,
    missing: BoolArray,
    members: list[IntArray],
    noisy: FloatArray,
    noise: float,
    weights: FloatArray,
    release: MomentsRelease,
    layout: Layout,
) -> FloatArray:
    """By rank within each group of rows, each of which stands for so many of the release's rows."""
    out = cells.copy()
    for group, rows in enumerate(members):
        sorts, shown, noises, sizes = [], [], [], []
        start = 0
        for number, levels in enumerate(layout.levels):
            edges = bin_edges(levels, release.marginal_bins)
            size = len(edges) - 1
            own = rows[~missing[rows, number]]
            own = own[np.argsort(cells[own, number], kind="stable")]
            mass = np.append(0.0, np.cumsum(weights[own]))
            drawn = np.diff(mass[np.searchsorted(cells[own, number], edges[1:-1])], prepend=0.0, append=mass[-1])
            expected = max(float(mass[-1]), 1.0)
            seen = noisy[group, start : start + size] / expected
            shown.append((drawn / (mass[-1] or 1.0), seen))
            noises.append(np.full(size - 1, noise / expected))
            sorts.append(own)
            sizes.append(size)
            start += size
        contrasts = [haar(size) @ (seen - drawn) for size, (drawn, seen) in zip(sizes, shown, strict=True)]
        deviations, all_contrasts = np.concatenate(noises), np.concatenate(contrasts)
        sides = np.concatenate([_lesser_side(haar(len(drawn)), drawn) for drawn, _ in shown])
        # A little noise far from all rows widens a column much.
        unclear = (sides < deviations) & (np.abs(all_contrasts) < _CLEAR * deviations)
        departures = np.where(unclear, 0.0, shrunk(all_contrasts, deviations))
        kept = np.split(departures, np.cumsum(np.array(sizes) - 1)[:-1])
        for number, (own, (drawn, _), departure) in enumerate(zip(sorts, shown, kept, strict=True)):
            if own.size:
                departure = departure @ haar(len(drawn))
                # In proportion: the nearest point of the simplex would put some into every empty bin.
                wanted = np.maximum(drawn + departure, 0.0)
                wanted = wanted / wanted.sum() if wanted.sum() > 0.0 else drawn
                edges = bin_edges(layout.levels[number], release.marginal_bins)
                ranks = np.cumsum(weights[own]) - weights[own] / 2.0
                ranks /= weights[own].sum()
                out[own, number] = _quantiles(cells[own, number], ranks, wanted, edges, layout.levels[number])
    return out


def _lesser_side(contrasts: FloatArray, drawn: FloatArray) -> FloatArray:
    """Share of the drawn values on that side of each contrast where they are fewer."""
    return np.asarray(np.minimum((contrasts > 0.0) @ drawn, (contrasts < 0.0) @ drawn))


def shrunk(departures: FloatArray, noise: FloatArray) -> FloatArray:
    """Posterior means of contrasts seen in noise, by a scale mixture whose weights they fit together."""
    least = float(noise.min())
    steps = max(1, math.ceil(math.log2(max(1.0 / least, 2.0))) + 2)
    signals = np.concatenate([[0.0], (least * 2.0 ** np.arange(-1, steps - 1)) ** 2])
    variances = signals[:, None] + noise**2
    evidence = -0.5 * (np.log(variances) + departures**2 / variances)
    prior = np.zeros(len(signals))
    prior[0] = _PRIOR_NOTHING
    weights = np.full(len(signals), 1.0 / len(signals))
    posterior = np.zeros_like(variances)
    for _ in range(_ROUNDS):
        logs = evidence + np.log(np.maximum(weights, 1e-300))[:, None]
        posterior = np.exp(logs - logs.max(axis=0))
        posterior /= posterior.sum(axis=0)
        weights = prior + posterior.sum(axis=1)
        weights /= weights.sum()
    return np.asarray(departures * np.sum(posterior * (signals[:, None] / variances), axis=0))


def _quantiles(
    ordered: FloatArray, ranks: FloatArray, wanted: FloatArray, edges: FloatArray, levels: int
) -> FloatArray:
    """What the drawn values, in order and with ranks from 0 to 1, become: as many in each bin as wanted."""
    n = len(ordered)
    ends = np.append(0.0, np.cumsum(wanted))
    ends[-1] = 1.0
    found = np.clip(np.searchsorted(ends, ranks, side="right") - 1, 0, len(wanted) - 1)
    if levels:
        return level_points(levels)[found].astype(np.float64)
    within = (ranks - ends[found]) / np.maximum(wanted[found], 1e-300)
    out = edges[found] + within * (edges[found + 1] - edges[found])
    first = np.append(0, np.append(np.searchsorted(ordered, edges[1:-1]), n))
    many = np.diff(first)[found] >= _FEW
    place = first[found] + within * np.diff(first)[found] - 0.5
    inside = np.clip(np.interp(place, np.arange(n), ordered), edges[found], np.nextafter(edges[found + 1], -np.inf))
    return np.where(many, inside, out)


def snap(cells: FloatArray, layout: Layout) -> None:
    """Move values of coordinates with levels to the nearest level, in place."""
    for number, levels in enumerate(layout.levels):
        if levels:
            found = np.searchsorted(level_edges(levels)[1:-1], cells[:, number], side="right")
            cells[:, number] = level_points(levels)[found]
