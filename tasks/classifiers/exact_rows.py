"""Rows as directions on a grid and lengths, so that what a record contributes does not depend on its place in a matrix.

A library may add up a scalar product in one order for one row of a matrix and in another order for the next, or for a
matrix with one row more. With rows and weights on grids all partial sums are whole multiples of one number that doubles
hold exactly, so every order gives the same result. What is left are operations on one row alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROW_GRID", "directions_and_lengths", "euclidean_norms", "on_row_grid", "on_weight_grid", "query_grid"]

FloatArray = NDArray[np.float64]

ROW_GRID = 2.0**-24
"""Rows of norm at most 1 are rounded to multiples of this."""

_SAFE = 1e100  # norms between its inverse and this have squares that neither overflow nor lose digits
_SHORT = 1.0 - 2.0**-50
_BLOCK = 4096  # columns that are added up at once


def euclidean_norms(rows: FloatArray) -> FloatArray:
    """Norms of rows, shape (n,), with a relative error of at most about d 2^-53 whatever their size.

    A norm that doubles cannot hold is given as the largest double. Each row's result depends on that row alone.
    """
    rows = np.ascontiguousarray(rows)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        norms: FloatArray = np.sqrt(_squares(rows))
    odd = np.flatnonzero(~((norms > 1.0 / _SAFE) & (norms < _SAFE)))
    if odd.size:
        largest = np.max(np.abs(rows[odd]), axis=1)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.divide(rows[odd], largest[:, None], out=np.zeros_like(rows[odd]), where=largest[:, None] > 0.0)
            own = largest * np.sqrt(_squares(scaled))
        norms[odd] = np.minimum(own, np.finfo(np.float64).max)
    return norms


def _squares(rows: FloatArray) -> FloatArray:
    """Sums of squares of rows, shape (n,), of a matrix in C's order: in blocks, and these in their order.

    einsum adds a row up in one way whatever the other rows are, but for its buffer of 8192 numbers, which it fills over
    the end of a row; and in another way where the rows are not contiguous.
    """
    total = np.zeros(len(rows))
    for start in range(0, rows.shape[1], _BLOCK):
        block = np.ascontiguousarray(rows[:, start : start + _BLOCK])
        total += np.einsum("ij,ij->i", block, block)
    return total


def on_row_grid(rows: FloatArray) -> FloatArray:
    """Rows with each coordinate rounded towards 0 to a multiple of `ROW_GRID`: no row gets longer.

    With weights on a grid of 2^-26 of a power of two that bounds their norm (`query_grid`), all products and partial
    sums of a score are multiples of one number and at most 2^50 of them, so doubles hold them exactly.
    """
    return np.trunc(rows / ROW_GRID) * ROW_GRID


def directions_and_lengths(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows of any finite size as directions of norm at most 1 on the grid, and the lengths that they had.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        Finite.

    Returns
    -------
    directions : ndarray of float64, shape (n, d)
    lengths : ndarray of float64, shape (n,)
        At least 0; one that doubles cannot hold is given as the largest double.
    """
    lengths = euclidean_norms(rows)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        directions = rows * (_SHORT / lengths)[:, None]
    odd = np.flatnonzero(~((lengths > 1.0 / _SAFE) & (lengths < _SAFE)))
    if odd.size:
        largest = np.max(np.abs(rows[odd]), axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            scaled = np.divide(rows[odd], largest, out=np.zeros_like(rows[odd]), where=largest > 0.0)
        norms = euclidean_norms(scaled)[:, None]
        directions[odd] = np.divide(scaled, norms, out=np.zeros_like(scaled), where=norms > 0.0) * _SHORT
    directions *= 1.0 / ROW_GRID
    np.trunc(directions, out=directions)
    directions *= ROW_GRID
    return directions, lengths


def query_grid(norm_bound: float) -> float:
    """The grid for weights of at most this norm; above 0 and finite."""
    return 2.0 ** math.ceil(math.log2(norm_bound)) * ROW_GRID / 4.0


def on_weight_grid(weights: FloatArray) -> FloatArray:
    """Released weights (k, d) rounded towards 0 on a grid that their own size gives."""
    largest = float(np.max(np.abs(weights), initial=0.0))
    if not 1e-280 < largest < 1e280:  # nothing to round, or nothing that can be asked at
        return weights if largest >= 1e280 else np.zeros_like(weights)
    grid = query_grid(largest * math.sqrt(weights.shape[1]))
    rounded: FloatArray = np.trunc(weights / grid) * grid
    return rounded
