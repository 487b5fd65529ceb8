"""The Gaussian kernel of a KAHM, equation (35), on whitened rows.

Rows x of the encoded data are whitened and scaled to ``theta^(-1/2) x / sqrt(n)``, so that

    log k(x, x') = x.x' - x.x/2 - x'.x'/2

and a kernel matrix costs one matrix product and one exponential.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def whiten(encoded: NDArray[np.float64], eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    """Encoded rows, scaled so that half their squared distance is minus the log-kernel.

    Parameters
    ----------
    encoded : ndarray of shape (N, n)
        Centred encoded rows.
    eigenvalues : ndarray of shape (n,)
        Their variances, all positive; theta is their diagonal matrix.

    Returns
    -------
    ndarray of shape (N, n)
    """
    return encoded / np.sqrt(len(eigenvalues) * eigenvalues)


def kernel_matrix(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kernel matrix of whitened rows with themselves; a matrix of ones if they have no columns.

    Parameters
    ----------
    X : ndarray of shape (N, n)
        Whitened rows.

    Returns
    -------
    ndarray of shape (N, N)
        Symmetric up to rounding, with an exact unit diagonal.
    """
    minus_half = -0.5 * np.einsum("ij,ij->i", X, X)
    ones = np.ones_like(minus_half)
    K = np.column_stack([X, minus_half, ones]) @ np.column_stack([X, ones, minus_half]).T
    np.exp(K, out=K)
    np.fill_diagonal(K, 1.0)
    return K


def scaled_kernel_block(
    Z: NDArray[np.float64], X: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Kernel of queries with training rows, each row divided by its largest value.

    Normalised weights do not change under that scaling. It is found without the term ``z.z/2``, so a query at
    any distance keeps the differences between its log-kernels and no row is all zero.

    Parameters
    ----------
    Z : ndarray of shape (m, n)
        Whitened queries.
    X : ndarray of shape (N, n)
        Whitened training rows.

    Returns
    -------
    kernel : ndarray of shape (m, N)
        Values in [0, 1], the largest of each row exactly 1.
    log_largest : ndarray of shape (m,)
        Logarithm of what each row was divided by; at most 0 up to rounding.
    """
    k = Z @ X.T
    k -= 0.5 * np.einsum("ij,ij->i", X, X)
    largest = k.max(axis=1)
    k -= largest[:, None]
    return np.exp(k, out=k), largest - 0.5 * np.einsum("ij,ij->i", Z, Z)
