"""Exponential sampling over a finite net of the set, fixed without a look at the records: exact in any dimension,
affordable in up to three."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet
from tasks.classifiers.exact_losses import ExactLosses
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk
from tasks.classifiers.selection_law import exponential_choice
from tasks.noise.bits import BitSource

__all__ = ["LARGEST_DIMENSION", "net_of", "risk_values", "sample_from_net", "scores_of"]

FloatArray = NDArray[np.float64]

LARGEST_DIMENSION = 3
_CELLS_AT_A_TIME = 2**20  # records times parameters in one matrix


def sample_from_net(
    losses: ExactLosses, range_bound: float, epsilon: float, bits: BitSource, net_points: int
) -> FloatArray:
    """Draw a point of `net_of(convex_set, net_points)`, proportionally to exp(-epsilon risk / range_bound).

    Parameters
    ----------
    losses : ExactLosses
        Of a risk and a set in at most three dimensions.
    range_bound, epsilon : float
        As in `exponential_choice`, for the totals of `losses` times their unit: its `range_excess` included.
    bits : BitSource
    net_points : int
        Size of the net, about; public.

    Returns
    -------
    ndarray of float64, shape (p,)

    Notes
    -----
    Purely epsilon private by `exponential_choice`, whatever the net: it is fixed by public numbers, and scores are
    exact sums of what single records contribute. A coarse net costs utility only: at most n L times the distance from
    the minimiser to the net, and for a smooth risk about its square times half the curvature.
    """
    net = net_of(losses.convex_set, net_points)
    return net[exponential_choice(scores_of(losses, net), range_bound, epsilon, bits)]


def scores_of(losses: ExactLosses, net: FloatArray) -> FloatArray:
    """By what the risk at each point exceeds the least one of all, shape (m,): one rounding of an exact difference."""
    totals = losses.totals(net)
    least = min(totals)
    return np.array([float(total - least) for total in totals]) * losses.unit


def net_of(convex_set: ConvexSet, net_points: int) -> FloatArray:
    """Points of a cubic grid about the set's centre that lie in the set, shape (m, p).

    Parameters
    ----------
    convex_set : ConvexSet
        A ball, a box or an intersection of balls, in at most three dimensions.
    net_points : int
        At least 3^p: the points of the grid over the box around the set; in the set there are fewer.

    Returns
    -------
    ndarray of float64, shape (m, p)
        The centre is one of them.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    dimension = convex_set.dimension
    if dimension > LARGEST_DIMENSION:
        raise ValueError(f"a net is for at most {LARGEST_DIMENSION} dimensions, got {dimension}")
    if (
        isinstance(net_points, bool)
        or not isinstance(net_points, int | np.integer)
        or not 3**dimension <= net_points <= 2**22
    ):
        raise ValueError(f"net_points must be a whole number from 3^p to 2^22, got net_points={net_points!r}")
    steps = (int(net_points ** (1.0 / dimension) + 1e-9) - 1) // 2
    lower, upper = bounding_box(convex_set)
    centre = convex_set.centre
    axes = [
        np.unique(np.concatenate([np.linspace(c, low, steps + 1), np.linspace(c, high, steps + 1)]))
        for low, c, high in zip(lower, centre, upper, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
    return grid[[convex_set.contains(point) for point in grid]]


def bounding_box(convex_set: ConvexSet) -> tuple[FloatArray, FloatArray]:
    """Corners of a box around a set.

    Raises
    ------
    ValueError
        For a set that is no ball, box or intersection of balls.
    """
    match convex_set:
        case Ball():
            return convex_set.centre - convex_set.radius, convex_set.centre + convex_set.radius
        case Box():
            return convex_set.lower, convex_set.upper
        case BallIntersection():
            first, second = bounding_box(convex_set.first), bounding_box(convex_set.second)
            return np.maximum(first[0], second[0]), np.minimum(first[1], second[1])
    raise ValueError(f"the set must be a Ball, Box or BallIntersection, got {type(convex_set).__name__}")


def risk_values(risk: EmpiricalRisk, thetas: FloatArray) -> FloatArray:
    """The risk of each parameter, thetas of shape (m, p); shape (m,). In doubles: not to draw by."""
    if not isinstance(risk, MarginRisk):
        return np.array([risk.value(theta) for theta in thetas])
    count = max(1, _CELLS_AT_A_TIME // (risk.n_records * risk.n_problems))
    own = 0.5 * risk.total_regularization * np.einsum("ij,ij->i", thetas, thetas)
    width = risk.rows.shape[1]
    for start in range(0, len(thetas), count):
        block = thetas[start : start + count]
        for k in range(risk.n_problems):
            margins = (block[:, k * width : (k + 1) * width] @ risk.rows.T) * risk.signs[:, k]
            own[start : start + count] += np.sum(risk.loss.value(margins), axis=1)
    return own
