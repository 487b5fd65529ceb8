"""The wide kernel affine hull machine: a deep machine for each of several subsets of the rows."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from tasks.kahm.branched import BranchedMachine
from tasks.kahm.checks import SMALLEST_MAGNITUDE, check_magnitude, check_positive_integer
from tasks.kahm.layers import Layers, fit_layers
from tasks.kahm.nearest import nearest
from tasks.kahm.sharding import k_means, shard_rows

#: Rows of a branch that ``n_branches=None`` aims at.
ROWS_PER_BRANCH = 1000


class WideKernelAffineHullMachine(BranchedMachine):
    """Wide machine: of the images of its branches, a query gets the nearest (equations 57-61).

    Each branch is a :class:`DeepKernelAffineHullMachine` of one cluster of the training rows.

    Parameters
    ----------
    n_components : int
        Dimension of the encoding of every branch, at least 1.
    n_layers : int, default=1
        Layers of every branch, at least 1.
    n_branches : int, default=None
        Number of k-means clusters; at most as many as there are distinct rows are used. None takes
        ``ceil(N / 1000)`` and halves what is far larger, see :func:`shard_rows`.
    assignments : array-like of shape (N,), default=None
        Branch of each training row, integers; takes the place of k-means.

    Attributes
    ----------
    assignments_ : ndarray of shape (N,)
        Branch of each training row, 0 to n_branches_ - 1; given numbers keep their order.
    n_branches_ : int
        Branches in use, none of them empty.
    n_features_in_ : int
        p.

    Notes
    -----
    *Poles.* A branch, or a layer of it, counts for a query only if it is well conditioned there (see
    ``POLE_CONDITIONING``); a query without any gets the nearest mean of a branch. :meth:`near_pole` tells which.

    Deterministic: k-means has a fixed public seed and one thread. Queries cost memory for one block only,
    whatever the number of branches.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, equations (57-61) and remark 4.

    Examples
    --------
    >>> import numpy as np
    >>> from tasks.kahm import WideKernelAffineHullMachine
    >>> Y = np.array([[0.1, 0.2], [0.2, 0.1], [0.8, 0.9], [0.9, 0.8]])
    >>> machine = WideKernelAffineHullMachine(n_components=1, assignments=[0, 0, 1, 1]).fit(Y)
    >>> machine.branch_index([[0.1, 0.1], [1.0, 1.0]])
    array([0, 1])
    """

    def __init__(
        self,
        n_components: int,
        n_layers: int = 1,
        n_branches: int | None = None,
        assignments: ArrayLike | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.n_branches = n_branches
        self.assignments = assignments

    def fit(self, Y: ArrayLike, y: object = None) -> Self:
        """Divide the rows and fit a branch to each part.

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
            If n_components, n_layers or n_branches is not a positive integer, assignments are not N integers or
            come together with n_branches, a value is NaN or infinite, or the magnitudes lie outside
            [1e-100, 1e100].
        """
        n_components = check_positive_integer("n_components", self.n_components)
        n_layers = check_positive_integer("n_layers", self.n_layers)
        n_branches = None if self.n_branches is None else check_positive_integer("n_branches", self.n_branches)
        rows: NDArray[np.float64] = validate_data(self, Y, dtype=np.float64)
        check_magnitude(rows)
        if self.assignments is not None:
            if n_branches is not None:
                raise ValueError("give n_branches or assignments, not both")
            numbers = _check_assignments(self.assignments, len(rows))
        elif n_branches is None:
            numbers = shard_rows(rows, ROWS_PER_BRANCH)
        else:
            numbers = _cluster(rows, n_branches)
        names, assigned = np.unique(numbers, return_inverse=True)
        branches = []
        for branch in range(len(names)):
            part = rows[assigned == branch]
            if np.max(np.abs(part)) < SMALLEST_MAGNITUDE:
                part[:] = 0.0  # beside the rows of other branches, which are larger
            branches.append(fit_layers(part, n_components, n_layers))
        return self._describe(tuple(branches), assigned)

    def branch_index(self, Y: ArrayLike) -> NDArray[np.intp]:
        """Branch that each image comes from, the first on ties.

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
        return nearest(self._branches, queries).branches

    def _describe(self, branches: tuple[Layers, ...], assigned: NDArray[np.intp]) -> Self:
        self._branches = branches
        self.assignments_ = assigned
        self.n_branches_ = len(branches)
        return self


def _check_assignments(assignments: ArrayLike, n_rows: int) -> NDArray[np.integer]:
    numbers = np.asarray(assignments)
    if numbers.shape != (n_rows,) or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(
            f"assignments must be {n_rows} integers, one for each row; got {numbers.dtype} of shape {numbers.shape}"
        )
    return numbers


def _cluster(rows: NDArray[np.float64], n_branches: int) -> NDArray[np.integer]:
    labels: NDArray[np.integer] = k_means(rows, n_branches).labels_
    return labels
