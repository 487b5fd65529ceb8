"""From normal scores to categories, flags and missing values; post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments.blocks import Layout
from tasks.noise.moments.released import HALF_RANGE, Standardization

__all__ = ["calibrated_root", "to_blocks"]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_ROUNDS = 60
_CALIBRATIONS = 2
_LEAST_EIGENVALUE = 0.02
_NOTHING = 1e-3  # correlations that are not worth a calibration
_MOST_MISSING = 0.95  # share up to which the rest of a column is spread to make up for the missing rows


def to_blocks(cells: FloatArray, scores: FloatArray, frequencies: FloatArray, layout: Layout) -> None:
    """Turn drawn rows of one class, in place, into rows that keep their blocks' rules.

    Parameters
    ----------
    cells : ndarray of float64, shape (n_rows, n_features)
        From the middle of the range, in lattice steps; changed.
    scores : ndarray of float64, shape (n_rows, n_features)
        Normal, of mean 0.
    frequencies : ndarray of float64, shape (n_features,)
        Wanted in coordinates of two values.
    layout : Layout
    """
    for column in layout.binaries:
        cells[:, column] = np.where(highest(scores[:, column], frequencies[column]), HALF_RANGE, -HALF_RANGE)
    for column in layout.flags:
        missing = highest(scores[:, column], frequencies[column])
        cells[:, column] = np.where(missing, HALF_RANGE, -HALF_RANGE)
        cells[:, column + 1] = _filled(cells[:, column + 1], missing)
    for block in layout.one_hots:
        chosen = categories(scores[:, block], frequencies[block])
        cells[:, block] = -HALF_RANGE
        cells[np.arange(len(cells)), block.start + chosen] = HALF_RANGE


def highest(scores: FloatArray, frequency: float) -> BoolArray:
    """Which rows are among the given share of highest scores."""
    wanted = int(np.floor(frequency * len(scores) + 0.5))
    chosen = np.zeros(len(scores), dtype=bool)
    if wanted:
        chosen[np.argpartition(scores, len(scores) - wanted)[len(scores) - wanted :]] = True
    return chosen


def categories(scores: FloatArray, frequencies: FloatArray) -> IntArray:
    """Category of each row: the highest of its scores, each in units of its deviation and moved by an offset.

    The offsets are fitted so that the categories come as often as wanted, to a few rows.
    """
    n_rows, k = scores.shape
    deviations = np.sqrt(np.mean(scores**2, axis=0))
    scaled = scores / np.where(deviations > 0.0, deviations, 1.0)
    wanted = frequencies * n_rows
    offsets = np.where(wanted > 0.0, np.log(np.maximum(frequencies, 1e-9)), -np.inf)
    best, least = np.zeros(n_rows, dtype=np.int64), np.inf
    for turn in range(_ROUNDS):
        chosen = np.argmax(scaled + offsets, axis=1)
        seen = np.bincount(chosen, minlength=k)
        wrong = float(np.abs(seen - wanted).sum())
        if wrong < least:
            best, least = chosen, wrong
        if wrong <= k / 2:
            break
        step = 0.7 if turn < _ROUNDS // 2 else 0.3
        offsets = offsets + step * (np.log(wanted + 0.5) - np.log(seen + 0.5))
    return np.asarray(best, dtype=np.int64)


def _filled(cells: FloatArray, missing: BoolArray) -> FloatArray:
    """A column with 0 where it is missing, the others spread so that mean and mean square stay the same."""
    out = np.where(missing, 0.0, cells)
    present = ~missing
    share = max(float(np.mean(present)), 1.0 - _MOST_MISSING)
    own = cells[present]
    if missing.any() and len(own) > 1 and own.std() > 0.0:
        mean = cells.mean() / share
        variance = max(float(np.mean(cells**2)) / share - mean**2, 0.25 * float(cells.var()))
        out[present] = mean + (own - own.mean()) * np.sqrt(variance) / own.std()
    return np.asarray(out)


def calibrated_root(
    root: FloatArray,
    normal: FloatArray,
    frequencies: FloatArray,
    means: FloatArray,
    how: Standardization,
    layout: Layout,
) -> FloatArray:
    """A root by which rows have the wanted correlations between blocks after they became categories.

    A category, or a binary column, keeps about 0.8 of its score's correlations.  So the correlations of scores are
    moved by what is missing from those of the rows made of them, here rows of one class from standard normal ones;
    twice.  Left as it is with 2p rows or fewer, whose correlations are mostly chance.
    """
    deviations = np.linalg.norm(root, axis=1)
    wanted = (root @ root.T) / np.outer(deviations, deviations)
    number = np.repeat(np.arange(len(layout.blocks)), [block.width for block in layout.blocks])
    apart = number[:, None] != number
    if len(normal) <= 2 * len(root) or np.max(np.abs(wanted[apart]), initial=0.0) < _NOTHING:
        return root
    scores = wanted
    for _ in range(_CALIBRATIONS):
        moved = normal @ root.T
        cells = how.centre + (means + moved) * how.scale
        to_blocks(cells, moved, frequencies, layout)
        made = np.clip(cells, -HALF_RANGE, HALF_RANGE)
        made -= made.mean(axis=0)
        spread = np.linalg.norm(made, axis=0)
        seen = (made.T @ made) / np.maximum(np.outer(spread, spread), 1e-300)
        usable = apart & np.logical_and.outer(spread > 0.0, spread > 0.0)
        values, vectors = np.linalg.eigh(scores + np.where(usable, wanted - seen, 0.0))
        part = vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE))
        part /= np.linalg.norm(part, axis=1, keepdims=True)
        scores = part @ part.T
        root = part * deviations[:, None]
    return root
