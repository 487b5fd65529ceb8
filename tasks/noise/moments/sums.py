"""The exact integer statistics of confidential rows; no value here is ever rounded in a sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments.released import HALF_RANGE, Standardization

__all__ = ["first_sums", "second_sums", "standardize"]

IntArray = NDArray[np.int64]

_BLOCK_CELLS = 2**20
_EXACT_FLOAT = 2**53


def first_sums(lattice: IntArray) -> tuple[IntArray, IntArray]:
    """Sums of v = index - 2^15 and of v^2 over the rows, each of shape (n_features,)."""
    sums = np.zeros(lattice.shape[1], dtype=np.int64)
    squares = np.zeros(lattice.shape[1], dtype=np.int64)
    for rows in _blocks(lattice):
        cells = lattice[rows] - HALF_RANGE
        sums += cells.sum(axis=0)
        squares += np.einsum("ij,ij->j", cells, cells)
    return sums, squares


def standardize(lattice: IntArray, how: Standardization) -> IntArray:
    """Rows on the grid, of norm at most `how.radius`; each depends on its own cells only.

    t0 = round((v - centre) factor / 2^24), and rows longer than G are scaled down by G / r with r >= |t0|, cut toward
    zero, so that |t|^2 <= |t0|^2 G^2 / r^2 <= G^2.  The last line makes the bound hold whatever the lines before it do.
    """
    half = 1 << (how.FACTOR_BITS - 1)
    grid = ((lattice - HALF_RANGE - how.centre) * how.factor + half) >> how.FACTOR_BITS
    squared = np.einsum("ij,ij->i", grid, grid)
    long = squared > how.radius**2
    # The square root is correctly rounded, so its integer part plus 1 is not below the true root.
    above_norm = np.sqrt(squared[long].astype(np.float64)).astype(np.int64) + 1
    grid[long] = np.sign(grid[long]) * (np.abs(grid[long]) * how.radius // above_norm[:, None])
    grid[np.einsum("ij,ij->i", grid, grid) > how.radius**2] = 0
    return grid


def second_sums(
    lattice: IntArray, labels: IntArray, n_classes: int, how: Standardization, *, per_class: bool
) -> tuple[IntArray, IntArray, IntArray]:
    """Class counts, sums of standardised rows by class, and second moments of all rows or by class.

    Notes
    -----
    Products are summed by matrix products in doubles, block by block.  Every partial sum, in whatever order, is
    a whole number of magnitude at most (rows of the block) G^2 <= 2^53, so each is exact; blocks are added as integers.
    """
    p = lattice.shape[1]
    counts = np.bincount(labels, minlength=n_classes).astype(np.int64)
    class_sums = np.zeros((n_classes, p), dtype=np.int64)
    seconds = np.zeros((n_classes if per_class else 1, p, p), dtype=np.int64)
    for rows in _blocks(lattice, most=max(1, _EXACT_FLOAT // how.radius**2)):
        grid = standardize(lattice[rows], how)
        own = labels[rows]
        np.add.at(class_sums, own, grid)
        parts = [grid[own == label] for label in range(n_classes)] if per_class else [grid]
        for block, part in enumerate(parts):
            exact = part.astype(np.float64)
            seconds[block] += (exact.T @ exact).astype(np.int64)
    return counts, class_sums, seconds


def _blocks(lattice: IntArray, most: int = _BLOCK_CELLS) -> Iterator[slice]:
    n_rows, n_features = lattice.shape
    step = max(1, min(most, _BLOCK_CELLS // n_features))
    return (slice(start, start + step) for start in range(0, n_rows, step))
