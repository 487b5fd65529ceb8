"""Newton steps for sums of losses of several classes: the Hessian, and its inverse times a vector."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from tasks.classifiers.multiclass_losses import AllPairsHinge, CrammerSingerHinge, MulticlassLoss

__all__ = ["loss_hessian", "newton_solve"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def newton_solve(
    rows: FloatArray, labels: IntArray, loss: MulticlassLoss, weights: FloatArray, scale: float, vector: FloatArray
) -> FloatArray:
    """(I + scale H)^-1 vector, shape (c d,), with H from `loss_hessian`; parameters as there."""
    hessian = np.eye(weights.size) + scale * loss_hessian(rows, labels, loss, weights)
    try:
        solved: FloatArray = linalg.cho_solve(linalg.cho_factor(hessian, check_finite=False), vector)
    except linalg.LinAlgError:  # rounding took its definiteness
        solved = linalg.lstsq(hessian, vector)[0]
    return solved


def loss_hessian(rows: FloatArray, labels: IntArray, loss: MulticlassLoss, weights: FloatArray) -> FloatArray:
    """The Hessian of sum_i loss(W x_i, y_i) in W, handled row by row; where a slope has a kink, one of its limits.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
    labels : ndarray of int64, shape (n,)
    loss : AllPairsHinge, CrammerSingerHinge or CrossEntropy
    weights : ndarray of float64, shape (c, d)
        W.

    Returns
    -------
    ndarray of float64, shape (c d, c d)

    Notes
    -----
    With the wrong classes' slopes a and m_p = s_p - s_y, all three losses have da = (diag(w) - w w' / t) dm, and the
    true class's slope is minus the sum of the others: w = (4 a (1 - a))^(3/2) / (2 v) and no second term for the
    all-pairs hinge; w = 1 / v where a > 0 for the Crammer-Singer hinge, with t = sum w where a sums to 1 and no second
    term else; w = a, t = 1 for cross-entropy.

    Cost: n (c d)^2 operations.
    """
    c, d = weights.shape
    records = np.arange(len(rows))
    a = loss.slopes(rows @ weights.T, labels)
    total = -a[records, labels]
    a[records, labels] = 0.0
    inverse = np.zeros(len(rows))  # 1 / t
    if isinstance(loss, AllPairsHinge):
        w = (4.0 * a * (1.0 - a)) ** 1.5 / (2.0 * loss.smoothing)
    elif isinstance(loss, CrammerSingerHinge):
        w = (a > 0.0) / loss.smoothing
        np.divide(1.0, w.sum(axis=1), out=inverse, where=total >= 1.0 - 1e-12)
    else:
        w, inverse = a, np.ones(len(rows))
    hessian = np.empty((c, d, c, d))
    for q in range(c):
        dm = np.zeros((len(rows), c))
        dm[:, q] = 1.0
        dm -= (labels == q)[:, None]
        slopes = w * dm
        slopes -= w * (slopes.sum(axis=1) * inverse)[:, None]
        slopes[records, labels] = 0.0
        slopes[records, labels] = -slopes.sum(axis=1)
        for p in range(q + 1):
            hessian[p, :, q, :] = rows.T @ (rows * slopes[:, [p]])
            hessian[q, :, p, :] = hessian[p, :, q, :].T
    return hessian.reshape(c * d, c * d)
