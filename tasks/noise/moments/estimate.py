"""What the first release says about columns: means, standard deviations, frequencies; post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments import blocks
from tasks.noise.moments.blocks import Layout
from tasks.noise.moments.released import HALF_RANGE, FirstMoments

__all__ = ["column_scales", "discrete_frequencies", "first_estimate", "simplex"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

LEAST_DEVIATION = 0.03
"""Least column standard deviation, in half ranges: it bounds the factor of a cell, also for constant columns."""

_PRIOR_MEAN_VARIANCE = 0.1  # of a table's mean cell, in half ranges squared: only felt where the noise is as large
_PRIOR_VARIANCE, _PRIOR_VARIANCE_VARIANCE = 0.15, 0.01
_LEAST_BINARY_DEVIATION = 0.3  # in half ranges: 1 in 45 rows
_LEAST_DIVERSITY = 0.1  # of a one-hot block: 1 less the sum of the squared frequencies
_PRIOR_MISSING = 0.1


def first_estimate(first: FirstMoments, n_rows: int, layout: Layout | None = None) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of the columns in half ranges, each of shape (n_features,).

    Values are shrunk to their common mean by the known noise (James and Stein's positive part), and the common mean
    itself to a fixed prior, so that pure noise gives sensible values too.  Frequencies are shrunk to 1 / k in a block
    of k categories, to 1 / 2 in binary ones and to 1 / 10 for flags; they give the standard deviations exactly.
    """
    if layout is None or layout.numeric:
        return _values(first, n_rows)
    means, deviations = np.zeros(len(first.sums)), np.ones(len(first.sums))
    if layout.values.size:
        own = layout.values
        part = FirstMoments(first.sums[own], first.squares[own], first.sums_noise, first.squares_noise)
        means[own], deviations[own] = _values(part, n_rows)
    noise = (first.sums_noise / (2.0 * n_rows * HALF_RANGE)) ** 2
    noisy = (first.sums / (n_rows * float(HALF_RANGE)) + 1.0) / 2.0
    frequencies = np.zeros(len(noisy))
    for pairs, prior in ((layout.binaries, 0.5), (layout.flags, _PRIOR_MISSING)):
        if pairs.size:
            apart = noisy[pairs] - prior
            kept = max(0.0, 1.0 - noise / max(float(np.mean(apart**2)), 1e-300))
            frequencies[pairs] = np.clip(prior + kept * apart, 0.0, 1.0)
    for block in layout.one_hots:
        k = block.stop - block.start
        apart = noisy[block] - noisy[block].mean()
        kept = max(0.0, 1.0 - noise * (k - 1) / max(float(np.sum(apart**2)), 1e-300))
        frequencies[block] = simplex(1.0 / k + kept * apart)
    known = discrete_frequencies(layout)
    means[known] = 2.0 * frequencies[known] - 1.0
    deviations[known] = 2.0 * np.sqrt(frequencies * (1.0 - frequencies))[known]
    return means, deviations


def column_scales(deviations: FloatArray, layout: Layout) -> FloatArray:
    """Half ranges that make one unit of a standardised column: common to a one-hot block, so that its squared norm
    has its weight as expectation."""
    scales = deviations.copy()
    pairs = np.concatenate([layout.binaries, layout.flags])
    scales[pairs] = np.maximum(deviations[pairs], _LEAST_BINARY_DEVIATION)
    for block in layout.one_hots:
        scales[block] = np.sqrt(
            max(float(np.sum(deviations[block] ** 2)), 4.0 * _LEAST_DIVERSITY) / blocks.ONE_HOT_WEIGHT
        )
    return scales


def discrete_frequencies(layout: Layout) -> IntArray:
    """Coordinates of two values."""
    one_hots = [np.arange(block.start, block.stop) for block in layout.one_hots]
    return np.concatenate([layout.binaries, layout.flags, *one_hots])


def simplex(rows: FloatArray) -> FloatArray:
    """The nearest frequencies: none below 0, in sum 1 along the last axis."""
    ordered = -np.sort(-rows, axis=-1)
    excess = (np.cumsum(ordered, axis=-1) - 1.0) / np.arange(1, rows.shape[-1] + 1)
    last = np.count_nonzero(ordered > excess, axis=-1) - 1
    level = np.take_along_axis(excess, np.expand_dims(last, -1), axis=-1)
    projected = np.maximum(rows - level, 0.0)
    return np.asarray(projected / projected.sum(axis=-1, keepdims=True))


def _values(first: FirstMoments, n_rows: int) -> tuple[FloatArray, FloatArray]:
    p = len(first.sums)
    mean_noise = (first.sums_noise / (n_rows * HALF_RANGE)) ** 2
    square_noise = (first.squares_noise / (n_rows * float(HALF_RANGE) ** 2)) ** 2
    noisy = first.sums / (n_rows * float(HALF_RANGE))
    common = noisy.mean() * _PRIOR_MEAN_VARIANCE / (_PRIOR_MEAN_VARIANCE + mean_noise / p)
    means = np.clip(common + _kept(noisy - noisy.mean(), mean_noise) * (noisy - noisy.mean()), -0.95, 0.95)

    variances = first.squares / (n_rows * float(HALF_RANGE) ** 2) - means**2
    noise = square_noise + 4.0 * float(np.mean(means**2)) * mean_noise
    weight = _PRIOR_VARIANCE_VARIANCE / (_PRIOR_VARIANCE_VARIANCE + noise / p)
    common_variance = max(0.01, weight * variances.mean() + (1.0 - weight) * _PRIOR_VARIANCE)
    apart = variances - variances.mean()
    shrunk = np.maximum(common_variance + _kept(apart, noise) * apart, 0.1 * common_variance)
    return means, np.sqrt(np.clip(shrunk, LEAST_DEVIATION**2, 1.0))


def _kept(deviations: FloatArray, noise_variance: float) -> float:
    """James and Stein's positive-part factor for deviations from a mean of as many entries."""
    observed = float(np.sum(deviations**2)) / max(deviations.size - 1, 1)
    return max(0.0, 1.0 - noise_variance / observed) if observed > 0.0 else 0.0
