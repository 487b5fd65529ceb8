"""One fitted kernel affine hull: the arithmetic behind the machines and the smoother.

The image of a point (equation 33) is a quotient of two products with the same coefficients,

    A(y) = k(y)' C_Y / k(y)' c_1,      [C_Y, c_1] = (K + lambda* I)^-1 [Y, 1],

so one solve with p + 1 right sides serves every later query and the factor of K need not be kept.

The conditioning ``|sum h| / sum |h|`` of a query needs the weights h = (K + lambda* I)^-1 k themselves, at the
price of a factorisation and 2 N^2 operations. A lower bound comes free with the image: the kernel is positive
semi-definite, so k = K^(1/2) u with ||u|| <= 1, hence ||h|| <= max_mu sqrt(mu) / (mu + lambda*) and

    sum |h| <= sqrt(N) ||h|| <= sqrt(N) / (2 sqrt(lambda*)),      sum h = k' c_1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.kahm.encoding import Encoding, principal_encoding
from tasks.kahm.kernel import kernel_matrix, scaled_kernel_block, whiten
from tasks.kahm.regularization import fixed_point_regularization, solve_regularized, solve_shifted

_EPS = float(np.finfo(np.float64).eps)

#: Numbers in the temporaries of one block of queries: 8 MiB of float64; where weights are solved for, four times.
_BLOCK_SIZE = 2**20


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

    @property
    def width(self) -> int:
        """Temporary numbers that one query costs."""
        return len(self.whitened) + len(self.eigenvalues) + 3 * (len(self.mean) + 1)

    def image_block(self, Y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Images A(y) of few enough rows, and a lower bound of their conditioning.

        Parameters
        ----------
        Y : ndarray of shape (m, p)

        Returns
        -------
        images : ndarray of shape (m, p)
            Finite for every finite Y.
        conditioning_lower_bound : ndarray of shape (m,)
        """
        if len(self.eigenvalues) == 0:
            return np.broadcast_to(self.mean, Y.shape), np.ones(len(Y))
        kernel, log_largest = self._kernel(Y)
        weighted = kernel @ self.coefficients
        largest_sum = np.sqrt(len(self.whitened) / self.regularization) / 2.0
        bound = np.abs(weighted[:, -1]) * np.exp(np.minimum(log_largest, 0.0)) / largest_sum
        return _quotient(weighted, self.coefficients), np.minimum(bound, 1.0)

    def images(self, Y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Images A(y) of the rows of Y, shape (m, p)."""
        images = np.empty(Y.shape)
        for rows in blocks(len(Y), self.width):
            images[rows] = self.image_block(Y[rows])[0]
        return images

    def distances(self, Y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distances of the rows of Y to their images, shape (m,)."""
        distances = np.empty(len(Y))
        for rows in blocks(len(Y), self.width):
            distances[rows] = row_distances(Y[rows], self.image_block(Y[rows])[0])
        return distances

    def conditioning(self, Y: NDArray[np.float64]) -> NDArray[np.float64]:
        """``|sum h| / sum |h|`` of the rows of Y, exactly; shape (m,)."""
        ratios = np.empty(len(Y))
        for rows, h in self.weight_blocks(Y):
            ratios[rows] = np.abs(h.sum(axis=1)) / np.abs(h).sum(axis=1)
        return np.minimum(ratios, 1.0)

    def weight_blocks(self, Y: NDArray[np.float64]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of rows and their weights h(y), up to a positive factor a row, shape (block, N).

        Costs one factorisation of K + lambda* I and 2 N^2 operations a query.
        """
        N = len(self.whitened)
        if len(self.eigenvalues) == 0:
            for rows in blocks(len(Y), self.width):
                yield rows, np.full((rows.stop - rows.start, N), 1.0 / N)
            return
        K = kernel_matrix(self.whitened)
        for rows in blocks(len(Y), self.width):
            yield rows, solve_shifted(K, self.regularization, self._kernel(Y[rows])[0].T).T

    def _kernel(self, Y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        encoded = (Y - self.mean) @ self.components.T
        return scaled_kernel_block(whiten(encoded, self.eigenvalues), self.whitened)


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
    return fit_encoded(Y, principal_encoding(Y, n_components))


def fit_encoded(Y: NDArray[np.float64], encoding: Encoding) -> tuple[Hull, NDArray[np.float64]]:
    """As :func:`fit_hull`, for an encoding that was learned from Y before."""
    X = whiten(encoding.encoded, encoding.eigenvalues) if encoding.eigenvalues.size else encoding.encoded
    K = kernel_matrix(X)
    if encoding.eigenvalues.size:
        regularization, coefficients = solve_regularized(K, Y)
        images = _quotient(K @ coefficients, coefficients)
    else:
        regularization, coefficients = fixed_point_regularization(K, Y), np.empty((0, Y.shape[1] + 1))
        images = np.broadcast_to(encoding.mean, Y.shape).copy()
    hull = Hull(encoding.mean, encoding.components, encoding.eigenvalues, X, coefficients, regularization)
    return hull, images


def row_distances(Y: NDArray[np.float64], images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances between the rows of two arrays, equation (48); shape (m,)."""
    difference = Y - images
    return np.sqrt(np.einsum("ij,ij->i", difference, difference))


def blocks(n_queries: int, width: int) -> Iterator[slice]:
    """Slices of queries of which each costs ``width`` temporary numbers."""
    size = max(1, _BLOCK_SIZE // width)
    for start in range(0, n_queries, size):
        yield slice(start, min(start + size, n_queries))


def _quotient(weighted: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted rows over the sum of weights, which is kept above its rounding so that poles stay finite."""
    total = weighted[:, -1:]
    floor = _EPS * float(np.max(np.abs(coefficients[:, -1])))
    total = np.where(np.abs(total) < floor, np.copysign(floor, total), total)
    return weighted[:, :-1] / total
