"""What deep and wide machines share: a query gets the nearest image over layers and branches."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tasks.kahm.checks import check_magnitude
from tasks.kahm.layers import Layers
from tasks.kahm.nearest import conditioning, nearest


class BranchedMachine(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base class of machines that choose among several images of a query; `fit` sets `_branches`."""

    _branches: tuple[Layers, ...]

    def transform(self, Y: ArrayLike) -> NDArray[np.float64]:
        """The nearest image of each query.

        Parameters
        ----------
        Y : array-like of shape (m, p)
            Queries, finite, magnitudes up to 1e100.

        Returns
        -------
        ndarray of shape (m, p)
            Finite. Where nothing is well conditioned (:meth:`near_pole`), the nearest mean of a branch.

        Raises
        ------
        ValueError
            If a value is NaN, infinite or above 1e100 in magnitude, or the number of columns differs.
        """
        queries = self._queries(Y)
        images = np.empty(queries.shape)
        nearest(self._branches, queries, images)
        return images

    def distance(self, Y: ArrayLike) -> NDArray[np.float64]:
        """Distances of the queries to their nearest images.

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
        return nearest(self._branches, queries).distances

    def layer_index(self, Y: ArrayLike) -> NDArray[np.intp]:
        """Layer that each image comes from, counted from 0; the first on ties.

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)

        Raises
        ------
        ValueError
            As :meth:`transform`.
        """
        queries = self._queries(Y)
        return nearest(self._branches, queries).layers

    def conditioning(self, Y: ArrayLike) -> NDArray[np.float64]:
        """Smallest ``|sum h| / sum |h|`` on the way to the image of each query.

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)
            In [0, 1]. Of the layer and branch in use; for the queries of :meth:`near_pole`, of the first layer of
            the branch whose mean they get.

        Raises
        ------
        ValueError
            As :meth:`transform`.

        Notes
        -----
        Costs a factorisation a layer and 2 N^2 operations a query and layer, far more than the image itself.
        """
        queries = self._queries(Y)
        return conditioning(self._branches, queries, nearest(self._branches, queries), np.arange(len(queries)))

    def near_pole(self, Y: ArrayLike) -> NDArray[np.bool_]:
        """Whether a query is near a pole of every branch, so that its image is only a mean.

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)

        Raises
        ------
        ValueError
            As :meth:`transform`.
        """
        queries = self._queries(Y)
        return nearest(self._branches, queries).near_pole

    def _queries(self, Y: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        queries: NDArray[np.float64] = validate_data(self, Y, dtype=np.float64, reset=False)
        check_magnitude(queries, allow_tiny=True)
        return queries
