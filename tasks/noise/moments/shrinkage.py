"""How far noisy class means are to be trusted, block by block; post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments.blocks import Layout

__all__ = ["block_factors", "noise_shares"]

FloatArray = NDArray[np.float64]

_GRID = np.array([0.001, 0.004, 0.016, 0.064, 0.256, 1.0])
"""Variances between classes that a block may have, in total variances of its columns."""

_PRIOR = 1.0
"""Number of blocks that each of these is taken to have shown already."""

_ROUNDS = 30


def noise_shares(layout: Layout) -> FloatArray:
    """Variance of the noise on each coordinate, after projection, where that on a value has 1."""
    shares = np.ones(sum(block.width for block in layout.blocks))
    for block in layout.one_hots:
        shares[block] = 1.0 - 1.0 / (block.stop - block.start)
    return shares


def block_factors(apart: FloatArray, noise: FloatArray, totals: FloatArray, layout: Layout) -> FloatArray:
    """Factors toward 0 of class means' departures from the grand mean, shape (n_classes, n_features).

    Each block's variance between classes is one of a grid's, with weights that all blocks fit together (a scale
    mixture of normal laws, by EM): most columns tell little about the class, a few much.

    Parameters
    ----------
    apart : ndarray of float64, shape (n_classes, n_features)
    noise : ndarray of float64, shape (n_classes,)
        Variance of the noise on an entry of each.
    totals : ndarray of float64, shape (n_features,)
        Total variances of the columns.
    layout : Layout

    References
    ----------
    Stephens (Biostatistics 2017), for the mixture.
    """
    own = noise[:, None] * noise_shares(layout)
    signals = _GRID[:, None] * totals
    variances = signals[:, None, :] + own
    terms = (-0.5 * (np.log(variances) + apart**2 / variances)).mean(axis=1) * max(len(apart) - 1, 1)
    # One coordinate of a one-hot block follows from the others.
    ends = np.cumsum([block.width for block in layout.blocks])
    starts = ends - [block.width for block in layout.blocks]
    degrees = np.array([block.dimension / block.width for block in layout.blocks])
    evidence = np.add.reduceat(terms, starts, axis=1) * degrees
    weights = np.full(len(_GRID), 1.0 / len(_GRID))
    for _ in range(_ROUNDS):
        logs = evidence + np.log(weights)[:, None]
        posterior = np.exp(logs - logs.max(axis=0))
        posterior /= posterior.sum(axis=0)
        weights = (_PRIOR + posterior.sum(axis=1)) / (_PRIOR * len(_GRID) + len(ends))
    spread = np.repeat(posterior, [block.width for block in layout.blocks], axis=1)
    return np.asarray(np.einsum("gj,gcj->cj", spread, signals[:, None, :] / variances))
