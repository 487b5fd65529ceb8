"""The kernel affine hull machine (KAHM): a point set, and the map onto its kernel affine hull."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tasks.kahm.checks import check_magnitude, check_positive_integer
from tasks.kahm.hull import Hull, fit_hull, row_distances
from tasks.kahm.layers import Layers
from tasks.kahm.nearest import nearest

#: Rows like the training rows, of data of size about 1, were seen above this ratio of |sum h| to sum |h|.
IN_RANGE_CONDITIONING = 0.08


class KernelAffineHullMachine(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Kernel affine hull machine: maps a point to its image in the kernel affine hull of the training rows.

    The image is ``A(y) = sum_i h_i(y) y_i / sum_i h_i(y)`` with ``h(y) = (K + lambda* I)^-1 k(P y)``
    (equation 33); the distance of a point to its image, ``||y - A(y)||`` (equation 48), says how little the
    point is like the training rows.

    Parameters
    ----------
    n_components : int
        Dimension n of the encoding, at least 1. The machine uses ``min(n, p, N - 1, rank)``.

    Attributes
    ----------
    components_ : ndarray of shape (n_eff, p)
        The encoding P: leading eigenvectors of the sample covariance, by falling eigenvalue.
    covariance_ : ndarray of shape (n_eff, n_eff)
        theta, the sample covariance of the encoded training rows; diagonal.
    mean_ : ndarray of shape (p,)
        Mean of the training rows.
    regularization_ : float
        lambda*, see :func:`fixed_point_regularization`.
    modeling_error_ : float
        Sum of the distances of the training rows to their images; the paper's r.
    n_features_in_ : int
        p.

    Notes
    -----
    *Scaling is part of the model.* The method is neither scale nor translation equivariant: the kernel does
    not change when the data are scaled, lambda* grows with their square; and lambda* uses the uncentred data.

    *A has poles.* The weights h may be negative, so their sum may vanish for a query outside the data; the
    bounds of the paper's theorems 2 and 3 do not hold there. :meth:`conditioning` tells how near a pole a
    query is, :meth:`near_pole` whether it is too near. The image itself is always that of the formula; at a pole
    the sum is replaced by its rounding error: the image is huge, and finite.

    *Degenerate data.* One row, or identical rows, leave no component (n_eff = 0): every image is that row.

    Fitting costs one or two Cholesky factorisations of an N x N matrix; an image N (n + p) operations.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, equations (28), (33), (35), (40-44), (48).

    Examples
    --------
    >>> import numpy as np
    >>> from tasks.kahm import KernelAffineHullMachine
    >>> Y = np.array([[0.1, 0.2], [0.3, 0.1], [0.2, 0.4]])
    >>> machine = KernelAffineHullMachine(n_components=1).fit(Y)
    >>> machine.transform(Y).shape, machine.distance(Y).shape
    ((3, 2), (3,))
    """

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def fit(self, Y: ArrayLike, y: object = None) -> Self:
        """Learn encoding, regularization and coefficients from training rows.

        Parameters
        ----------
        Y : array-like of shape (N, p)
            Training rows, N >= 1, finite.
        y : Ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If n_components is not a positive integer, a value is NaN or infinite, or the magnitudes lie
            outside [1e-100, 1e100].
        """
        n_components = check_positive_integer("n_components", self.n_components)
        rows: NDArray[np.float64] = validate_data(self, Y, dtype=np.float64)
        check_magnitude(rows)
        hull, images = fit_hull(rows, n_components)
        return self._describe(hull, float(np.sum(row_distances(rows, images))))

    def transform(self, Y: ArrayLike) -> NDArray[np.float64]:
        """Images A(y), equation (33).

        Parameters
        ----------
        Y : array-like of shape (m, p)
            Queries, finite, magnitudes up to 1e100.

        Returns
        -------
        ndarray of shape (m, p)
            Finite, also for queries so far away that every kernel value underflows.

        Raises
        ------
        ValueError
            If a value is NaN, infinite or above 1e100 in magnitude, or the number of columns differs.
        """
        queries = self._queries(Y)
        return self._hull.images(queries)

    def distance(self, Y: ArrayLike) -> NDArray[np.float64]:
        """Distances ``||y - A(y)||``, equation (48).

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)
            Finite, at least 0, in the units of the data.

        Raises
        ------
        ValueError
            As :meth:`transform`.
        """
        queries = self._queries(Y)
        return self._hull.distances(queries)

    def weights(self, Y: ArrayLike) -> NDArray[np.float64]:
        """Affine weights ``h_i(y) / sum_j h_j(y)`` of the training rows.

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m, N)
            Rows sum to 1; entries may be negative. Memory m x N: meant for a look, not for large m.

        Raises
        ------
        ValueError
            As :meth:`transform`.
        """
        queries = self._queries(Y)
        weights = np.empty((len(queries), len(self._hull.whitened)))
        for rows, h in self._hull.weight_blocks(queries):
            total = h.sum(axis=1, keepdims=True)
            floor = np.finfo(np.float64).eps * np.abs(h).sum(axis=1, keepdims=True)
            weights[rows] = h / np.where(np.abs(total) < floor, np.copysign(floor, total), total)
        return weights

    def conditioning(self, Y: ArrayLike) -> NDArray[np.float64]:
        """How far each query is from a pole of A: ``|sum_i h_i(y)| / sum_i |h_i(y)|``.

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)
            In [0, 1]; 1 if all weights have one sign, 0 at a pole. Rows like the training rows, of data of size
            about 1, stay above about ``IN_RANGE_CONDITIONING`` = 0.08; see :meth:`near_pole` for what should not be
            trusted.

        Raises
        ------
        ValueError
            As :meth:`transform`.

        Notes
        -----
        Costs a factorisation and 2 N^2 operations a query, far more than the image itself.
        """
        queries = self._queries(Y)
        return self._hull.conditioning(queries)

    def near_pole(self, Y: ArrayLike) -> NDArray[np.bool_]:
        """Whether each query is so near a pole of A that its image and distance say nothing.

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)
            Whether :meth:`conditioning` is below ``POLE_CONDITIONING`` = 0.01.

        Raises
        ------
        ValueError
            As :meth:`transform`.

        Notes
        -----
        Cheap for queries like the training rows: a bound clears them, and only the others are looked at closely.
        """
        queries = self._queries(Y)
        return nearest((Layers((self._hull,)),), queries).near_pole

    def _describe(self, hull: Hull, modeling_error: float) -> Self:
        self._hull = hull
        self.components_ = hull.components
        self.covariance_ = np.diag(hull.eigenvalues)
        self.mean_ = hull.mean
        self.regularization_ = hull.regularization
        self.modeling_error_ = modeling_error
        return self

    def _queries(self, Y: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        queries: NDArray[np.float64] = validate_data(self, Y, dtype=np.float64, reset=False)
        check_magnitude(queries, allow_tiny=True)
        return queries
