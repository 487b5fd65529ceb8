"""How far the risks of neighbouring tables may differ over a set, up to a constant, at most."""

from __future__ import annotations

import numpy as np

from schemas.learning import Adjacency
from tasks.classifiers.convex_sets import BallIntersection, ConvexSet
from tasks.classifiers.parameter_norms import norm_bounds, refuse_beyond_parameter_norm
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk

__all__ = ["range_bound_of", "regularization_of"]


def range_bound_of(risk: EmpiricalRisk, convex_set: ConvexSet, adjacency: Adjacency) -> float:
    """How far h = L(.; D) - L(.; D') ranges over the set for neighbouring tables, at most: sup h - inf h.

    Of the exact risks. What is drawn by is slightly wider, see `ExactLosses`.

    Parameters
    ----------
    risk : EmpiricalRisk
        Its constants alone are used.
    convex_set : ConvexSet
    adjacency : {"replace_one", "add_remove"}

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If adjacency is another one, under "add_remove" for a regulariser that is not a multiple of |theta|^2, or if the
        set goes beyond the norm up to which the risk's Lipschitz constant holds.

    Notes
    -----
    One record's loss ranges over at most R = L ||C||, with the diameter ||C||. A loss phi of a margin <theta, x> with
    |x| <= 1 is convex and non-increasing: on a ball of radius r about c the margin takes an interval of length 2 r at
    most, and the fall of phi over it is largest for the leftmost one, R = phi(-|c| - r) - phi(-|c| + r). That is at
    most 2 L r, and for the logistic loss on a ball about 0 half of it, r.

    "replace_one": h is the difference of two records' losses, and the regulariser cancels: 2 R. "add_remove": h is one
    record's loss and its share of the regulariser, (lambda / 2) |theta|^2, which does *not* cancel because it is
    counted once for each record: R + (lambda / 2) (sup |theta|^2 - inf |theta|^2). No public number of records is
    needed for that. With one (`MarginRisk.public_size`) the regulariser is the same in both tables, and cancels: R.
    """
    refuse_beyond_parameter_norm(risk, convex_set)
    own = _range_of_one(risk, convex_set)
    if adjacency == "replace_one":
        return 2.0 * own
    if adjacency != "add_remove":
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got adjacency={adjacency!r}")
    if isinstance(risk, MarginRisk) and risk.public_size is not None:
        return own
    smallest, largest = norm_bounds(convex_set)
    return own + 0.5 * regularization_of(risk) * (largest**2 - smallest**2)


def _range_of_one(risk: EmpiricalRisk, convex_set: ConvexSet) -> float:
    """Bound of sup - inf over the set of one record's loss, without the regulariser."""
    if isinstance(convex_set, BallIntersection):
        return min(_range_of_one(risk, convex_set.first), _range_of_one(risk, convex_set.second))
    general = risk.lipschitz * convex_set.diameter
    if not isinstance(risk, MarginRisk) or risk.n_problems > 1:
        return general
    radius, middle = 0.5 * convex_set.diameter, float(np.linalg.norm(convex_set.centre))
    left, right = risk.loss.value(np.array([-middle - radius, -middle + radius]))
    return min(general, float(left - right) * (1.0 + 2.0**-40))


def regularization_of(risk: EmpiricalRisk) -> float:
    """The lambda of a regulariser n (lambda / 2) |theta|^2; 0 for none. For margins without any arithmetic on n.

    Raises
    ------
    ValueError
        If the regulariser has another form.
    """
    if isinstance(risk, MarginRisk):
        return risk.strong_convexity
    rest = np.linspace(1.0, 2.0, risk.dimension)
    gradient = risk.regularizer_gradient(rest)
    weight = float(gradient @ rest) / float(rest @ rest)
    first = np.zeros(risk.dimension)
    first[0] = 1.0
    other = risk.regularizer_gradient(first)
    if not (np.allclose(gradient, weight * rest, rtol=1e-9) and np.allclose(other, weight * first, rtol=1e-9)):
        raise ValueError("exponential sampling is for a regulariser n (lambda / 2) |theta|^2 or none")
    return weight / risk.n_records
