"""Cholesky factor of a shifted kernel matrix, and solves with it, that let other threads run.

SciPy's wrappers of `dpotrf` and `dtrsm` hold the interpreter lock for the whole call, NumPy's matrix product does
not. Shards are spread over threads, so both are written as matrix products of panels around calls for small
blocks. Measured at N = 1000 on one thread this costs an eighth more than the plain calls.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

#: Rows of a block; anything from 64 to 200 is about as fast at N = 1000.
_BLOCK = 96


class ShiftedCholesky:
    """Lower Cholesky factor L of ``K + shift I``; made by :meth:`factorise`.

    Parameters
    ----------
    lower : ndarray of shape (N, N)
        Row-major, float64 or float32; L in the lower triangle, anything above it.
    shift : float
        Positive.
    """

    def __init__(self, lower: NDArray[Any], shift: float) -> None:
        self._lower = lower
        self._root = lower.dtype.type(math.sqrt(shift))
        self._trsm = blas.strsm if lower.dtype == np.float32 else blas.dtrsm
        self._blocks = _blocks(len(lower))
        self._triangles = [np.asfortranarray(lower[block, block]) for block in self._blocks]

    @classmethod
    def factorise(cls, K: NDArray[np.float64], shift: float, dtype: type[Any] = np.float64) -> Self | None:
        """Factor of K + shift I, None if that is not positive definite in ``dtype``.

        Parameters
        ----------
        K : ndarray of shape (N, N)
            Row-major; the lower triangle is read.
        shift : float
            Positive.
        dtype : {numpy.float64, numpy.float32}
        """
        L = K.astype(dtype)
        L.ravel()[:: len(L) + 1] += dtype(shift)
        potrf, trsm = (lapack.spotrf, blas.strsm) if L.dtype == np.float32 else (lapack.dpotrf, blas.dtrsm)
        for block in _blocks(len(L)):
            panel = L[block.start :, block]
            if block.start:
                panel = panel - L[block.start :, : block.start] @ L[block, : block.start].T
            size = block.stop - block.start
            triangle, info = potrf(panel[:size], lower=1, clean=0)
            if info:
                return None
            L[block, block] = triangle
            if block.stop < len(L):
                L[block.stop :, block] = trsm(1.0, triangle, panel[size:].T, lower=1).T
        return cls(L, shift)

    def forward(self, B: NDArray[Any]) -> NDArray[Any]:
        """``sqrt(shift) L^-1 B`` for row-major B of shape (N, m)."""
        X = B * self._root
        for block, triangle in zip(self._blocks, self._triangles, strict=True):
            if block.start:
                X[block] -= self._lower[block, : block.start] @ X[: block.start]
            X[block] = self._trsm(1.0, triangle, X[block].T, side=1, lower=1, trans_a=1).T
        return X

    def backward(self, B: NDArray[Any]) -> NDArray[Any]:
        """``sqrt(shift) L^-T B`` for row-major B of shape (N, m)."""
        X = B * self._root
        for block, triangle in zip(reversed(self._blocks), reversed(self._triangles), strict=True):
            if block.stop < len(X):
                X[block] -= self._lower[block.stop :, block].T @ X[block.stop :]
            X[block] = self._trsm(1.0, triangle, X[block].T, side=1, lower=1).T
        return X


def _blocks(size: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK)]
