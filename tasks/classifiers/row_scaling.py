"""Public factors of a row's columns: how much of its norm the constant for the intercept takes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["column_factors"]

FloatArray = NDArray[np.float64]


def column_factors(
    n_columns: int, data_norm: float | None, fit_intercept: bool, intercept_scaling: float
) -> FloatArray:
    """What the columns of a `RowMap`'s rows are multiplied by, from public numbers.

    Parameters
    ----------
    n_columns : int
        Of the rows, the constant included.
    data_norm : float or None
        Of the row map. A `RowMap` with a norm and an intercept gives features of norm at most sqrt(1/2) beside a
        constant sqrt(1/2).
    fit_intercept : bool
        Whether the last column is the constant.
    intercept_scaling : float
        a in (0, 1): the constant afterwards.

    Returns
    -------
    ndarray of float64, shape (n_columns,)

    Notes
    -----
    With a norm, features get norms of at most sqrt(1 - a^2), so that whole rows stay within 1. Without one they are
    divided by the root of their number, which gives features of a size of about 1 a norm of about 1. Scores of weights
    W on the scaled rows are those of the weights W times the factors on the rows as they were.
    """
    n_features = n_columns - fit_intercept
    if data_norm is None:
        features, constant = 1.0 / math.sqrt(max(n_features, 1)), intercept_scaling
    elif fit_intercept:
        features = math.sqrt(2.0 * (1.0 - intercept_scaling) * (1.0 + intercept_scaling))
        constant = math.sqrt(2.0) * intercept_scaling
    else:
        return np.ones(n_columns)
    factors = np.full(n_columns, features * (1.0 - 2.0**-50))
    if fit_intercept:
        factors[-1] = constant * (1.0 - 2.0**-50)
    return factors
