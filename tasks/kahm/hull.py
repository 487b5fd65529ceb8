"""One fitted kernel affine hull: the arithmetic behind the machine and the smoother.

The image of a point (equation 33) is a quotient of two products with the same coefficients,

    A(y) = k(y)' C_Y / k(y)' c_1,      [C_Y, c_1] = (K + lambda* I)^-1 [Y, 1],

so one solve with p + 1 right sides serves every later query and the factor of K need not be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.kahm.encoding import principal_encoding
from tasks.kahm.kernel import kernel_matrix, scaled_kernel_block, whiten
from tasks.kahm.regularization import fixed_point_regularization, solve_regularized, solve_shifted

_EPS = float(np.finfo(np.float64).eps)

#: Numbers in the temporary kernel of one block of queries: 32 MiB of float64.
_BLOCK_SIZE = 2**22


@dataclass(frozen=True)
class Hull:
    """A kernel affine hull of N rows of dimension p with n_eff components.

    Attributes
    ----------
    mean : ndarray of shape (p,)
    components : ndarray of shape (n_eff, p)
    eigenvalues : ndarray of shape (n_eff,)
    whitened : ndarray of shape (N, n_eff)
        Training rows in the coordinates of the kernel.
    coefficients : ndarray of shape (N, p + 1), or (0, p + 1) if n_eff is 0
        ``(K + lambda* I)^-1 [Y, 1]``.
    regularization : float
        lambda*.
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    whitened: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    regularization: float

    def images(self, Y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Images A(y) of the rows of Y, shape (m, p); finite for every finite Y."""
        images = np.empty(Y.shape)
        if len(self.eigenvalues) == 0:
            images[:] = self.mean
            return images
        for rows, kernel in self._kernel_blocks(Y):
            images[rows] = _quotient(kernel, self.coefficients)
        return images

    def weight_blocks(self, Y: NDArray[np.float64]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of rows and their weights h(y), up to a positive factor a row, shape (block, N).

        Costs one factorisation of K + lambda* I and 2 N^2 operations a query.
        """
        N = len(self.whitened)
        if len(self.eigenvalues) == 0:
            for rows in _blocks(len(Y), N):
                yield rows, np.full((rows.stop - rows.start, N), 1.0 / N)
            return
        K = kernel_matrix(self.whitened)
        for rows, kernel in self._kernel_blocks(Y):
            yield rows, solve_shifted(K, self.regularization, kernel.T).T

    def _kernel_blocks(self, Y: NDArray[np.float64]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        for rows in _blocks(len(Y), len(self.whitened)):
            encoded = (Y[rows] - self.mean) @ self.components.T
            yield rows, scaled_kernel_block(whiten(encoded, self.eigenvalues), self.whitened)


def fit_hull(Y: NDArray[np.float64], n_components: int) -> tuple[Hull, NDArray[np.float64]]:
    """The hull of a point set and the images of its own rows.

    Parameters
    ----------
    Y : ndarray of shape (N, p)
        Finite, magnitudes checked.
    n_components : int

    Returns
    -------
    hull : Hull
    images : ndarray of shape (N, p)
    """
    encoding = principal_encoding(Y, n_components)
    X = whiten(encoding.encoded, encoding.eigenvalues) if encoding.eigenvalues.size else encoding.encoded
    K = kernel_matrix(X)
    if encoding.eigenvalues.size:
        regularization, coefficients = solve_regularized(K, Y)
        images = _quotient(K, coefficients)
    else:
        regularization, coefficients = fixed_point_regularization(K, Y), np.empty((0, Y.shape[1] + 1))
        images = np.broadcast_to(encoding.mean, Y.shape).copy()
    hull = Hull(encoding.mean, encoding.components, encoding.eigenvalues, X, coefficients, regularization)
    return hull, images


def row_distances(Y: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances between the rows of two arrays, equation (48); shape (m,)."""
    difference = Y - images
    return np.sqrt(np.einsum("ij,ij->i", difference, difference))


def _blocks(n_queries: int, n_rows: int) -> Iterator[slice]:
    size = max(1, _BLOCK_SIZE // max(n_rows, 1))
    for start in range(0, n_queries, size):
        yield slice(start, min(start + size, n_queries))


def _quotient(kernel: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted rows over the sum of weights, which is kept above its rounding so that poles stay finite."""
    weighted = kernel @ coefficients
    total = weighted[:, -1:]
    floor = _EPS * float(np.max(np.abs(coefficients[:, -1])))
    total = np.where(np.abs(total) < floor, np.copysign(floor, total), total)
    return weighted[:, :-1] / total
