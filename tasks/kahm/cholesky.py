"""Cholesky factor of a shifted kernel matrix, and solves with it that let other threads run.

SciPy's wrappers of `dpotrf` and `dtrsm` hold the interpreter lock for the whole call, NumPy's do not. Shards are
spread over threads, so the factor is NumPy's, and a triangular solve is a sequence of matrix products (NumPy)
around solves with small diagonal blocks (SciPy). Measured at N = 1000 this costs a tenth more than the plain calls.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

#: Rows of a diagonal block; fastest at N = 1000 with 51 right sides.
_BLOCK = 128


class ShiftedCholesky:
    """Lower Cholesky factor L of ``K + shift I``.

    Parameters
    ----------
    lower : ndarray of shape (N, N)
        L, row-major, in float64 or float32.
    shift : float
        Positive.

    See Also
    --------
    factorise : Makes one from K.
    """

    def __init__(self, lower: NDArray[Any], shift: float) -> None:
        self._lower = lower
        self._root = math.sqrt(shift)
        self._trsm = blas.strsm if lower.dtype == np.float32 else blas.dtrsm
        starts = range(0, len(lower), _BLOCK)
        self._blocks = [slice(start, min(start + _BLOCK, len(lower))) for start in starts]
        self._triangles = [np.asfortranarray(lower[block, block]) for block in self._blocks]

    @classmethod
    def factorise(cls, K: NDArray[np.float64], shift: float, dtype: type[np.floating[Any]] = np.float64) -> Self | None:
        """Factor of K + shift I, reading the lower triangle of K; None if it is not positive definite in ``dtype``."""
        shifted = K.astype(dtype)
        shifted.ravel()[:: len(K) + 1] += dtype(shift)
        try:
            return cls(np.linalg.cholesky(shifted), shift)
        except np.linalg.LinAlgError:
            return None

    def forward(self, B: NDArray[Any]) -> NDArray[Any]:
        """``sqrt(shift) L^-1 B`` for row-major B of shape (N, m)."""
        X = B * B.dtype.type(self._root)
        for block, triangle in zip(self._blocks, self._triangles, strict=True):
            if block.start:
                X[block] -= self._lower[block, : block.start] @ X[: block.start]
            X[block] = self._trsm(1.0, triangle, X[block].T, side=1, lower=1, trans_a=1).T
        return X

    def backward(self, B: NDArray[Any]) -> NDArray[Any]:
        """``sqrt(shift) L^-T B`` for row-major B of shape (N, m)."""
        X = B * B.dtype.type(self._root)
        for block, triangle in zip(reversed(self._blocks), reversed(self._triangles), strict=True):
            if block.stop < len(X):
                X[block] -= self._lower[block.stop :, block].T @ X[block.stop :]
            X[block] = self._trsm(1.0, triangle, X[block].T, side=1, lower=1).T
        return X
