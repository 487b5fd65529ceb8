"""Classification by the distance to one wide kernel affine hull machine per class."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tasks.kahm.checks import check_magnitude
from tasks.kahm.nearest import nearest
from tasks.kahm.wide import WideKernelAffineHullMachine


class PoleCounts(NamedTuple):
    """Queries near a pole, by class in the order of ``classes_``; see :meth:`KAHMClassifier.distances_and_poles`.

    Attributes
    ----------
    rejected : ndarray of shape (n_classes,)
        Queries whose nearest image was near a pole and was not used.
    unresolved : ndarray of shape (n_classes,)
        Those among them that had no well-conditioned image: their distance is one to a mean.
    """

    rejected: NDArray[np.intp]
    unresolved: NDArray[np.intp]


class KAHMClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that gives a point the class whose machine leaves it the nearest image (equation 66).

    Parameters
    ----------
    n_components : int
        Dimension of the encoding of every machine, at least 1.
    n_layers : int, default=1
        Layers of every machine, at least 1.
    n_branches : int or None, default=None
        Branches of every class; None takes ``ceil(N_c / 1000)`` for a class of N_c rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    machines_ : list of WideKernelAffineHullMachine
        In the order of ``classes_``, each fitted to the rows of its class.
    n_features_in_ : int

    Notes
    -----
    A class may have a single row (its machine maps everything to that row), and there may be a single class
    (it is then always predicted). Neither scale nor translation equivariant: use the scaling of the training
    data for the queries.

    *Poles.* Near a pole of a machine the image passes through everything, so the distance says nothing. Such
    branches and layers are passed over; a class without any other gets the distance to the nearest mean of its
    branches. :meth:`distances_and_poles` tells how often. The threshold is meant for data of size about 1: of
    data scaled to 0.1 and less, honest queries may be taken for such, and then their distances are to means.
    A query that is not cleared by a cheap bound, most often one far out, costs a factorisation of its own or with the
    others of its call.

    Queries are worked on in blocks: beside arrays of one number a query (and class), memory does not grow with
    their number.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, equations (48), (66), (67), (73).

    Examples
    --------
    >>> from tasks.kahm import KAHMClassifier
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.8]]
    >>> KAHMClassifier(n_components=1).fit(X, [0, 0, 1, 1]).predict([[0.1, 0.1]])
    array([0])
    """

    def __init__(self, n_components: int, n_layers: int = 1, n_branches: int | None = None) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.n_branches = n_branches

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit one machine to the rows of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If n_components, n_layers or n_branches is not a positive integer, X or y are not finite or do not
            match, or y is continuous.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_magnitude(rows, "X")
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        for code, label in enumerate(self.classes_.tolist()):
            check_magnitude(rows[codes == code], f"X, in class {label!r},")
        self.machines_ = [
            WideKernelAffineHullMachine(self.n_components, self.n_layers, self.n_branches).fit(rows[codes == code])
            for code in range(len(self.classes_))
        ]
        return self

    def distances(self, X: ArrayLike) -> NDArray[np.float64]:
        """Distance Gamma_c of each row to its image under the machine of each class, equation (48).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Finite, at least 0, columns in the order of ``classes_``.

        Raises
        ------
        ValueError
            If a value is NaN, infinite or above 1e100 in magnitude, or the number of columns differs.
        """
        return self.distances_and_poles(X)[0]

    def distances_and_poles(self, X: ArrayLike) -> tuple[NDArray[np.float64], PoleCounts]:
        """Distances, and how many queries met a pole in the machine of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        distances : ndarray of shape (n_samples, n_classes)
            As :meth:`distances`.
        counts : PoleCounts

        Raises
        ------
        ValueError
            As :meth:`distances`.
        """
        rows = self._queries(X)
        distances = np.empty((len(rows), len(self.machines_)))
        counts = np.empty((2, len(self.machines_)), np.intp)
        for column, machine in enumerate(self.machines_):
            found = nearest(machine._branches, rows)
            distances[:, column] = found.distances
            counts[:, column] = np.count_nonzero(found.rejected), np.count_nonzero(found.near_pole)
        return distances, PoleCounts(*counts)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class with the smallest distance, the first one on ties (equation 66).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            As :meth:`distances`.
        """
        closest = np.argmin(self.distances(X), axis=1)
        predicted: NDArray[Any] = self.classes_[closest]
        return predicted

    def matching_scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class-matching scores ``exp(-Gamma_c^2 / sum_c Gamma_c^2)``, equation (67).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In [exp(-1), 1]; 1 for every class if all distances of the row are zero.

        Raises
        ------
        ValueError
            As :meth:`distances`.
        """
        distances = self.distances(X)
        largest = distances.max(axis=1, keepdims=True)
        squares = (distances / np.where(largest > 0.0, largest, 1.0)) ** 2
        total = squares.sum(axis=1, keepdims=True)
        return np.exp(-squares / np.where(total > 0.0, total, 1.0))

    def membership_inference_score(self, X_members: ArrayLike, X_controls: ArrayLike, **kwargs: Any) -> Any:
        """Membership-inference score of this classifier, equation (73), on ``r = min_c Gamma_c``.

        Parameters
        ----------
        X_members : array-like of shape (n_members, n_features)
            Rows that the training data were made from.
        X_controls : array-like of shape (n_controls, n_features)
            Rows of the same kind that were kept out.
        **kwargs
            Passed on to :func:`tasks.audit.membership_inference_score`.

        Returns
        -------
        As :func:`tasks.audit.membership_inference_score`; in units of 1/distance, so not comparable across
        data sets.

        Raises
        ------
        ValueError
            As :meth:`distances`.
        """
        from tasks.audit import membership_inference_score

        r_members, r_controls = (self.distances(X).min(axis=1) for X in (X_members, X_controls))
        return membership_inference_score(r_members, r_controls, **kwargs)

    def _queries(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        rows: NDArray[np.float64] = validate_data(self, X, dtype=np.float64, reset=False)
        check_magnitude(rows, "X", allow_tiny=True)
        return rows
