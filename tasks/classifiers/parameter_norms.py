"""How long the parameters of a set may be, for constants of a loss that hold up to a norm only."""

from __future__ import annotations

import numpy as np

from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet
from tasks.classifiers.risks import EmpiricalRisk, SquaredDistance

__all__ = ["norm_bounds", "refuse_beyond_parameter_norm"]


def norm_bounds(convex_set: ConvexSet) -> tuple[float, float]:
    """Bounds of |theta| over a set: below and above.

    Raises
    ------
    ValueError
        For a set that is no ball, box or intersection of balls.
    """
    match convex_set:
        case Ball():
            middle = float(np.linalg.norm(convex_set.centre))
            return max(0.0, middle - convex_set.radius), middle + convex_set.radius
        case Box():
            nearest = convex_set.project(np.zeros(convex_set.dimension))
            farthest = np.maximum(np.abs(convex_set.lower), np.abs(convex_set.upper))
            return float(np.linalg.norm(nearest)), float(np.linalg.norm(farthest))
        case BallIntersection():
            first, second = norm_bounds(convex_set.first), norm_bounds(convex_set.second)
            return max(first[0], second[0]), min(first[1], second[1])
    raise ValueError(f"the set must be a Ball, Box or BallIntersection, got {type(convex_set).__name__}")


def refuse_beyond_parameter_norm(risk: EmpiricalRisk, convex_set: ConvexSet) -> None:
    """Refuse a set with parameters longer than those for which the risk's Lipschitz constant holds.

    Only `SquaredDistance` has such a limit. Both are public.

    Raises
    ------
    ValueError
        If the set goes beyond `parameter_norm`.
    """
    if not isinstance(risk, SquaredDistance):
        return
    longest = norm_bounds(convex_set)[1]
    if not longest <= risk.parameter_norm * (1.0 + 1e-12):
        raise ValueError(
            f"parameter_norm={risk.parameter_norm!r} is too small for a set that reaches out to norm {longest:.6g}: "
            "the loss's Lipschitz constant would not hold there, and with it no guarantee"
        )
