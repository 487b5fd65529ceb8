"""The deep kernel affine hull machine: machines of falling dimension, one after the other."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from tasks.kahm.branched import BranchedMachine
from tasks.kahm.checks import check_magnitude, check_positive_integer
from tasks.kahm.hull import blocks
from tasks.kahm.layers import Layers, fit_layers


class DeepKernelAffineHullMachine(BranchedMachine):
    """Deep machine: of the images of its layers, a query gets the nearest.

    Layer l applies the machines of dimension n, n - 1, ..., n - l + 1 in turn, all fitted to the same rows:
    ``M_l = A_{n-l+1} o ... o A_n``. The image of y is ``M_l(y)`` of the layer with the smallest ``||y - M_l(y)||``
    (equations 50-52).

    Parameters
    ----------
    n_components : int
        Dimension n of the encoding of the first layer, at least 1. The machine uses
        ``n_eff = min(n, p, N - 1, rank)``.
    n_layers : int
        At least 1; at most n_eff layers are used (one if n_eff is 0).

    Attributes
    ----------
    components_ : ndarray of shape (n_eff, p)
        The encoding of the first layer; layer l uses all but the last l - 1 rows.
    covariance_ : ndarray of shape (n_eff, n_eff)
        Sample covariance of the encoded training rows; diagonal.
    mean_ : ndarray of shape (p,)
        Mean of the training rows.
    regularizations_ : ndarray of shape (n_layers_,)
        lambda* of each layer.
    n_layers_ : int
        Layers in use.
    n_features_in_ : int
        p.

    Notes
    -----
    *Poles.* A layer whose chain passes near a pole of one of its machines is left out (conditioning below
    ``POLE_CONDITIONING`` = 0.01, see :meth:`near_pole`). If the first layer does, all do: the image is the mean
    of the training rows. Elsewhere one layer gives :class:`KernelAffineHullMachine`.

    Neither scale nor translation equivariant. Fitting costs as much as n_layers machines but for the encoding,
    which they share.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, equations (50-52).

    Examples
    --------
    >>> import numpy as np
    >>> from tasks.kahm import DeepKernelAffineHullMachine
    >>> Y = np.array([[0.1, 0.2], [0.3, 0.1], [0.2, 0.4]])
    >>> DeepKernelAffineHullMachine(n_components=2, n_layers=2).fit(Y).transform(Y).shape
    (3, 2)
    """

    def __init__(self, n_components: int, n_layers: int) -> None:
        self.n_components = n_components
        self.n_layers = n_layers

    def fit(self, Y: ArrayLike, y: object = None) -> Self:
        """Fit every layer to the same rows.

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
            If n_components or n_layers is not a positive integer, a value is NaN or infinite, or the magnitudes
            lie outside [1e-100, 1e100].
        """
        n_components = check_positive_integer("n_components", self.n_components)
        n_layers = check_positive_integer("n_layers", self.n_layers)
        rows: NDArray[np.float64] = validate_data(self, Y, dtype=np.float64)
        check_magnitude(rows)
        return self._describe(fit_layers(rows, n_components, n_layers))

    def layer_distances(self, Y: ArrayLike) -> NDArray[np.float64]:
        """Distance ``||y - M_l(y)||`` of each query after each layer, poles or not.

        Parameters
        ----------
        Y : array-like of shape (m, p)

        Returns
        -------
        ndarray of shape (m, n_layers_)

        Raises
        ------
        ValueError
            As :meth:`transform`.
        """
        queries = self._queries(Y)
        layers = self._branches[0]
        distances = np.empty((len(queries), len(layers.hulls)))
        for rows in blocks(len(queries), layers.hulls[0].width):
            distances[rows] = np.column_stack([stage.distances for stage in layers.walk(queries[rows])])
        return distances

    def _describe(self, layers: Layers) -> Self:
        self._branches = (layers,)
        hulls = layers.hulls
        self.components_ = hulls[0].components
        self.covariance_ = np.diag(hulls[0].eigenvalues)
        self.mean_ = hulls[0].mean
        self.regularizations_ = np.array([hull.regularization for hull in hulls])
        self.n_layers_ = len(hulls)
        return self
