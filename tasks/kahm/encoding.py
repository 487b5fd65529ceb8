"""The linear encoding P of a point set: its leading principal components, with an honest rank.

The seed paper divides by the eigenvalues of the sample covariance, so a direction without variance
must never count as a component. Singular values decide, and what is only rounding does not count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

_EPS = float(np.finfo(np.float64).eps)

#: Above this ratio of the smallest wanted to the largest eigenvalue, the Gram matrix gives the
#: eigenvalues to about 1e-13 and is several times cheaper than a singular value decomposition.
_GRAM_IS_SAFE = 1e-3


class Encoding(NamedTuple):
    """Result of :func:`principal_encoding` for N rows of dimension p.

    Attributes
    ----------
    mean : ndarray of shape (p,)
    components : ndarray of shape (n_eff, p)
        Orthonormal rows, by falling eigenvalue; the largest entry of each row is positive.
    eigenvalues : ndarray of shape (n_eff,)
        Of the sample covariance, divisor N - 1; the variances of the encoded rows.
    encoded : ndarray of shape (N, n_eff)
        Encoded rows ``P (y - mean)``.
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    encoded: NDArray[np.float64]

    def leading(self, n: int) -> Encoding:
        """The encoding of the same rows by their first n components."""
        return Encoding(self.mean, self.components[:n], self.eigenvalues[:n], self.encoded[:, :n])


def principal_encoding(Y: NDArray[np.float64], n_components: int) -> Encoding:
    """Mean, leading principal components and encoded rows of a point set.

    Parameters
    ----------
    Y : ndarray of shape (N, p)
        Finite values, N >= 1.
    n_components : int
        Wanted number of components, at least 1.

    Returns
    -------
    Encoding
        With ``n_eff = min(n_components, p, N - 1, rank)`` components. The rank counts the singular
        values of the centred rows above ``max(N, p) * eps`` times the largest one and above
        ``4 * eps * ||Y||_F``, the rounding that centring leaves behind.

    Notes
    -----
    The mean is corrected once by the mean of the residuals, so identical rows are centred to exact
    zeros and their mean is the row itself.
    """
    N, p = Y.shape
    mean = Y.mean(axis=0)
    mean += (Y - mean).mean(axis=0)
    centred = Y - mean
    wanted = min(n_components, p, N - 1)
    if wanted == 0:
        return Encoding(mean, np.zeros((0, p)), np.zeros(0), np.zeros((N, 0)))
    floor = 4.0 * _EPS * float(np.linalg.norm(Y))
    decomposed = _leading_by_gram(centred, wanted, floor)
    if decomposed is None:
        singular, rows = _svd(centred)
        threshold = max(max(N, p) * _EPS * singular[0], floor)
        n_eff = min(wanted, int(np.count_nonzero(singular > threshold)))
        decomposed = singular[:n_eff], rows[:n_eff]
    singular, components = decomposed
    largest_entry = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest_entry])
    components = np.ascontiguousarray(components * signs[:, None])
    return Encoding(mean, components, singular**2 / (N - 1), centred @ components.T)


def _leading_by_gram(
    centred: NDArray[np.float64], wanted: int, floor: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Leading singular values and right vectors from the smaller Gram matrix, None if it is too coarse."""
    N, p = centred.shape
    gram = centred.T @ centred if p <= N else centred @ centred.T
    size = len(gram)
    try:
        values, vectors = linalg.eigh(gram, subset_by_index=(size - wanted, size - 1), check_finite=False)
    except np.linalg.LinAlgError:
        return None
    if not values[0] > max(_GRAM_IS_SAFE * values[-1], (16.0 * floor) ** 2):
        return None
    singular = np.sqrt(values[::-1])
    rows = vectors[:, ::-1].T
    return singular, rows if p <= N else (rows @ centred) / singular[:, None]


def _svd(centred: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Singular values and right singular vectors (rows), with a slower method if the fast one fails."""
    try:
        _, singular, rows = linalg.svd(centred, full_matrices=False, check_finite=False)
    except np.linalg.LinAlgError:
        _, singular, rows = linalg.svd(centred, full_matrices=False, check_finite=False, lapack_driver="gesvd")
    return singular, rows
