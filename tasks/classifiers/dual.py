"""The support vector machine's minimiser with a duality gap: how near it is, although the hinge has no curvature.

P(w) = sum_i max(0, 1 - <w, a_i>) + (m / 2) |w|^2 with a_i = y_i x_i has the dual D(alpha) = sum_i alpha_i -
|sum_i alpha_i a_i|^2 / (2 m) over 0 <= alpha_i <= 1. P is m-strongly convex, so (m / 2) |w - minimiser|^2 is at most
P(w) - D(alpha) for *any* feasible alpha: whatever the search below does, the gap it ends with is a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["DualMinimum", "duality_gap", "gap_rounding", "minimise_hinge"]

FloatArray = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53
_MOST_STEPS = 120
_CENTRING = 0.1
_TO_THE_BOUNDARY = 0.995


@dataclass(frozen=True, eq=False)
class DualMinimum:
    """Where the search ended.

    Attributes
    ----------
    theta : ndarray of float64, shape (d,)
    alpha : ndarray of float64, shape (n,)
        The dual point, in [0, 1].
    gap_upper_bound : float
        Of P(theta) - D(alpha) in exact arithmetic.
    distance_upper_bound : float
        Of theta from the exact minimiser: sqrt(2 gap / m).
    """

    theta: FloatArray
    alpha: FloatArray
    gap_upper_bound: float
    distance_upper_bound: float


def duality_gap(theta: FloatArray, alpha: FloatArray, vectors: FloatArray, strong_convexity: float) -> float:
    """Upper bound of P(theta) - D(alpha), float rounding included.

    Parameters
    ----------
    theta : ndarray of float64, shape (d,)
        Taken for m^-1 sum_i alpha_i a_i as computed.
    alpha : ndarray of float64, shape (n,)
        In [0, 1].
    vectors : ndarray of float64, shape (n, d)
        a_i, with norms of at most 1.
    strong_convexity : float
        m, above 0.

    Notes
    -----
    With v_i = 1 - <theta, a_i>, the gap is exactly sum_i [max(0, v_i) - alpha_i v_i] + (m / 2) |theta - w(alpha)|^2,
    w(alpha) = m^-1 sum_i alpha_i a_i. No term is negative, so nothing cancels. Rounding, with unit roundoff u, moves
    v_i by at most (d + 3) u (1 + |theta|) and theta off w(alpha) by at most (n + 2) u sum_i alpha_i / m.
    """
    n, d = vectors.shape
    v = 1.0 - vectors @ theta
    terms = np.where(v > 0.0, (1.0 - alpha) * v, -alpha * v)
    rounding = gap_rounding(n, d, strong_convexity, float(np.linalg.norm(theta)), float(np.sum(alpha)))
    return float(np.sum(terms)) * (1.0 + (n + 8) * 1.1 * UNIT_ROUNDOFF) + rounding


def gap_rounding(n: int, d: int, strong_convexity: float, length: float, total_alpha: float) -> float:
    """The part of `duality_gap` that is there for rounding.

    Parameters
    ----------
    n, d : int
    strong_convexity : float
    length : float
        |theta|.
    total_alpha : float
        sum_i alpha_i.
    """
    u = 1.1 * UNIT_ROUNDOFF
    off = (n + 2) * u * total_alpha / strong_convexity
    return n * (d + 6) * u * (1.0 + length) + 0.5 * strong_convexity * off * off


def minimise_hinge(vectors: FloatArray, strong_convexity: float, *, gap: float) -> DualMinimum:
    """Minimise sum_i max(0, 1 - <w, a_i>) + (m / 2) |w|^2 by an interior-point method on the dual.

    Parameters
    ----------
    vectors : ndarray of float64, shape (n, d)
        a_i = y_i x_i, with norms of at most 1.
    strong_convexity : float
        m, above 0.
    gap : float
        Wanted; it need not be reached, what was reached is certified.

    Returns
    -------
    DualMinimum

    Raises
    ------
    ValueError
        If `strong_convexity` or `gap` is not above 0.

    Notes
    -----
    Each Newton step of the box-constrained quadratic programme costs n d^2 + d^3: its matrix is diagonal plus
    A A' / m, inverted through d x d (Woodbury). Some 20 to 40 steps reach a relative gap of 1e-10; coordinate ascent
    takes thousands of passes for that where m is small.
    """
    if not strong_convexity > 0.0 or not gap > 0.0:
        raise ValueError(f"need strong_convexity and gap above 0, got {strong_convexity=}, {gap=}")
    m, (n, d) = strong_convexity, vectors.shape
    alpha = np.full(n, 0.5)
    theta = vectors.T @ alpha / m
    v = 1.0 - vectors @ theta
    below, above = np.maximum(-v, 0.0) + 1.0, np.maximum(v, 0.0) + 1.0  # multipliers of alpha >= 0 and alpha <= 1
    best = _certified(theta, alpha, vectors, m)
    for _ in range(_MOST_STEPS):
        if best.gap_upper_bound <= gap:
            break
        rest = 1.0 - alpha
        barrier = _CENTRING * float(np.mean(alpha * below + rest * above)) / 2.0
        residual = v + below - above
        diagonal = below / alpha + above / rest
        right = residual + (barrier / alpha - below) - (barrier / rest - above)
        scaled = vectors / diagonal[:, None]
        try:
            core = linalg.cho_factor(m * np.eye(d) + vectors.T @ scaled, check_finite=False)
        except linalg.LinAlgError:
            break
        step = right / diagonal - scaled @ linalg.cho_solve(core, scaled.T @ right, check_finite=False)
        step_below = (barrier - below * step) / alpha - below
        step_above = (barrier + above * step) / rest - above
        primal = min(_reach(alpha, step), _reach(rest, -step))
        dual = min(_reach(below, step_below), _reach(above, step_above))
        size = min(primal, dual)
        if not math.isfinite(size) or size < 1e-10:
            break
        alpha = np.clip(alpha + size * step, 1e-300, np.nextafter(1.0, 0.0))
        below, above = below + size * step_below, above + size * step_above
        theta = vectors.T @ alpha / m
        v = 1.0 - vectors @ theta
        reached = _certified(theta, alpha, vectors, m)
        if reached.gap_upper_bound < best.gap_upper_bound:
            best = reached
    return best


def _certified(theta: FloatArray, alpha: FloatArray, vectors: FloatArray, m: float) -> DualMinimum:
    found = duality_gap(theta, alpha, vectors, m)
    return DualMinimum(theta, alpha, found, math.sqrt(2.0 * found / m) * (1.0 + 2.0**-50))


def _reach(values: FloatArray, step: FloatArray) -> float:
    """The largest step, at most 1, that keeps all values above 0 by a little."""
    falling = step < 0.0
    if not falling.any():
        return 1.0
    return min(1.0, _TO_THE_BOUNDARY * float(np.min(values[falling] / -step[falling])))
