"""The support vector machine's minimiser with a duality gap: how near it is, although the hinge has no curvature.

P(w) = sum_i phi(<w, a_i>) + <b, w> + (m / 2) |w|^2 with a_i = y_i x_i and the hinge phi(z) = max(0, 1 - z) = max over 0
<= t <= 1 of t (1 - z) has the dual D(alpha) = sum_i alpha_i - |sum_i alpha_i a_i - b|^2 / (2 m) over 0 <= alpha_i <= 1.
P is m-strongly convex, so (m / 2) |w - minimiser|^2 is at most P(w) - D(alpha) for *any* w and any feasible alpha:
whatever the search below does, the gap it ends with is a proof. The Huberised hinge of half width h, max of t (1 + h -
z) - h t^2, has (1 + h) alpha_i - h alpha_i^2 in place of alpha_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["DualMinimum", "duality_gap", "gap_rounding", "minimise_hinge", "ridge_solver"]

FloatArray = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53
_MOST_STEPS = 500
_CENTRING = 0.1
_LEAST_PRODUCT = 1e-3  # of a coordinate and its multiplier, as a part of their mean
_TO_THE_BOUNDARY = 0.995
_LEAST_STEP = 1e-10
_SPENT = 1e-3  # of the gap that is wanted: where the products are below, only rounding is left


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


def duality_gap(
    theta: FloatArray,
    alpha: FloatArray,
    vectors: FloatArray,
    strong_convexity: float,
    *,
    width: float = 0.0,
    linear: FloatArray | None = None,
) -> float:
    """Upper bound of P(theta) - D(alpha), float rounding included.

    Parameters
    ----------
    theta : ndarray of float64, shape (d,)
    alpha : ndarray of float64, shape (n,)
        In [0, 1].
    vectors : ndarray of float64, shape (n, d)
        a_i, with norms of at most 1.
    strong_convexity : float
        m, above 0.
    width : float, default=0.0
        h of the Huberised hinge; 0 for the hinge.
    linear : ndarray of float64, shape (d,), default=None
        b; None: 0.

    Notes
    -----
    With v_i = 1 + h - <theta, a_i> - 2 h alpha_i and w = m^-1 (sum_i alpha_i a_i - b), the gap is exactly the sum over
    i of the maximum of s (v_i - h s) over -alpha_i <= s <= 1 - alpha_i, and (m / 2) |theta - w|^2. No term is
    negative, so nothing cancels, and theta's distance from w is squared. A maximum moves by at most as much as its v_i.
    Rounding, with unit roundoff u, moves v_i by at most (d + 5) u (1 + |theta| + 3 h), and w by at most (n + 4) u
    (sum_i alpha_i + |b|) / m.
    """
    n, d = vectors.shape
    b = np.zeros(d) if linear is None else linear
    v = _slack(theta, alpha, vectors, width)
    if width > 0.0:
        s = np.clip(v / (2.0 * width), -alpha, 1.0 - alpha)
        terms = s * (v - width * s)
    else:
        terms = np.where(v > 0.0, (1.0 - alpha) * v, -alpha * v)
    apart = float(np.linalg.norm(theta - (vectors.T @ alpha - b) / strong_convexity)) * (1.0 + (d + 8) * UNIT_ROUNDOFF)
    length, total = float(np.linalg.norm(theta)) + 3.0 * width, float(np.sum(alpha)) + float(np.linalg.norm(b))
    off = _rounding_of_sum(n, strong_convexity, total)
    together = 0.5 * strong_convexity * apart * (apart + 2.0 * off)  # and off^2, which is in the last term
    return (float(np.sum(terms)) + together) * (1.0 + (n + 8) * 1.1 * UNIT_ROUNDOFF) + gap_rounding(
        n, d, strong_convexity, length, total
    )


def gap_rounding(n: int, d: int, strong_convexity: float, length: float, total: float) -> float:
    """The part of `duality_gap` that is there for rounding.

    Parameters
    ----------
    n, d : int
    strong_convexity : float
    length : float
        |theta| + 3 h.
    total : float
        sum_i alpha_i + |b|.
    """
    off = _rounding_of_sum(n, strong_convexity, total)
    return n * (d + 6) * 1.1 * UNIT_ROUNDOFF * (1.0 + length) + 0.5 * strong_convexity * off * off


def minimise_hinge(
    vectors: FloatArray,
    strong_convexity: float,
    *,
    gap: float,
    width: float = 0.0,
    linear: FloatArray | None = None,
) -> DualMinimum:
    """Minimise sum_i phi(<w, a_i>) + <b, w> + (m / 2) |w|^2 by an interior-point method.

    Parameters
    ----------
    vectors : ndarray of float64, shape (n, d)
        a_i = y_i x_i, with norms of at most 1.
    strong_convexity : float
        m, above 0.
    gap : float
        Wanted; it need not be reached, what was reached is certified.
    width : float, default=0.0
        h of the Huberised hinge; 0 for the hinge.
    linear : ndarray of float64, shape (d,), default=None
        b; None: 0.

    Returns
    -------
    DualMinimum

    Raises
    ------
    ValueError
        If `strong_convexity` or `gap` is not above 0.

    Notes
    -----
    Long-step path following from a strictly feasible point: Newton steps towards a tenth of the mean product of
    coordinates and multipliers, each as long as the mean falls and no product is below a thousandth of it. In exact
    arithmetic every gap is reached, in O(n log(1 / gap)) steps whatever the records are; in practice in 10 to 70. theta
    is a coordinate of its own: recomputed from alpha, it would carry the rounding of n of them, divided by m.

    A step's linear system costs n d^2 + d^3 by normal equations. Where the search stalls with them it is made again
    with orthogonal factors, which lose half as many digits and take four times as long.

    References
    ----------
    Wright (1997), Primal-dual interior-point methods, theorem 5.11 and chapter 8.
    """
    if not strong_convexity > 0.0 or not gap > 0.0:
        raise ValueError(f"need strong_convexity and gap above 0, got {strong_convexity=}, {gap=}")
    b = np.zeros(vectors.shape[1]) if linear is None else linear
    found = _follow_path(vectors, strong_convexity, gap, width, b, orthogonal=False)
    if found.gap_upper_bound <= gap:
        return found
    again = _follow_path(vectors, strong_convexity, gap, width, b, orthogonal=True)
    return min(found, again, key=lambda one: one.gap_upper_bound)


def _follow_path(
    vectors: FloatArray, m: float, gap: float, width: float, linear: FloatArray, *, orthogonal: bool
) -> DualMinimum:
    n, nothing = len(vectors), np.zeros(len(vectors))
    alpha, rest = np.full(n, 0.5), np.full(n, 0.5)  # rest: 1 - alpha, with digits of its own
    theta = (vectors.T @ alpha - linear) / m
    v = _slack(theta, alpha, vectors, width)
    far = 1.0 + float(np.max(np.abs(v)))
    below, above = far + np.maximum(-v, 0.0), far + np.maximum(v, 0.0)  # multipliers of alpha >= 0 and alpha <= 1
    best = _certified(theta, alpha, vectors, m, width, linear)
    for _ in range(_MOST_STEPS):
        product = float(np.sum(alpha * below + rest * above))
        if best.gap_upper_bound <= gap or product <= _SPENT * gap:
            break
        barrier = _CENTRING * product / (2.0 * n)
        towards = v + barrier / alpha - barrier / rest
        diagonal = 2.0 * width + below / alpha + above / rest
        roots = np.sqrt(diagonal)
        pull = m * theta + linear - vectors.T @ alpha
        try:
            solve = ridge_solver(vectors / roots[:, None], m, orthogonal=orthogonal)
            step_theta = solve(towards / roots, pull)
            step = (towards - vectors @ step_theta) / diagonal
            # the diagonal is near 0 for alpha inside (0, 1), and its rounding would pull theta and alpha apart
            left = solve(nothing, pull + m * step_theta - vectors.T @ step)
        except linalg.LinAlgError:
            break
        step_theta, step = step_theta + left, step - (vectors @ left) / diagonal
        step_below = (barrier - below * step) / alpha - below
        step_above = (barrier + above * step) / rest - above
        steps = [(alpha, step), (rest, -step), (below, step_below), (above, step_above)]
        size = min(_reach(values, own) for values, own in steps)
        while size > _LEAST_STEP:
            moved = [values + size * own for values, own in steps]
            if _is_nearer(moved, (1.0 - 0.01 * size) * product):
                break
            size *= 0.7
        if not _LEAST_STEP < size <= 1.0:
            break
        alpha, rest, below, above = moved
        alpha, theta = np.minimum(alpha, 1.0), theta + size * step_theta
        v = _slack(theta, alpha, vectors, width)
        reached = _certified(theta, alpha, vectors, m, width, linear)
        if reached.gap_upper_bound < best.gap_upper_bound:
            best = reached
    return best


def ridge_solver(rows: FloatArray, m: float, *, orthogonal: bool) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """From target and linear to the minimiser of |rows x - target|^2 / 2 + (m / 2) |x|^2 + <linear, x>.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
    m : float
        Above 0.
    orthogonal : bool
        By orthogonal factors, whose error grows with the square root of the condition number only; else by normal
        equations.

    Raises
    ------
    LinAlgError
        If doubles cannot tell the matrix from a singular one.
    """
    d = rows.shape[1]
    if not orthogonal:
        core = linalg.cho_factor(m * np.eye(d) + rows.T @ rows, check_finite=False)
        return lambda target, linear: linalg.cho_solve(core, rows.T @ target - linear, check_finite=False)
    root = math.sqrt(m)
    q, upper = np.linalg.qr(np.concatenate([rows, root * np.eye(d)]))
    return lambda target, linear: linalg.solve_triangular(
        upper, q.T @ np.concatenate([target, -linear / root]), check_finite=False
    )


def _slack(theta: FloatArray, alpha: FloatArray, vectors: FloatArray, width: float) -> FloatArray:
    """v: 0 where alpha_i is a maximiser inside (0, 1), above 0 where it is 1, below where it is 0."""
    return 1.0 + width - vectors @ theta - 2.0 * width * alpha


def _rounding_of_sum(n: int, m: float, total: float) -> float:
    """Bound of the rounding of m^-1 (sum_i alpha_i a_i - b)."""
    return (n + 4) * 1.1 * UNIT_ROUNDOFF * total / m


def _certified(
    theta: FloatArray, alpha: FloatArray, vectors: FloatArray, m: float, width: float, linear: FloatArray
) -> DualMinimum:
    found = duality_gap(theta, alpha, vectors, m, width=width, linear=linear)
    return DualMinimum(theta, alpha, found, math.sqrt(2.0 * found / m) * (1.0 + 2.0**-50))


def _is_nearer(moved: list[FloatArray], most: float) -> bool:
    """Whether the products of coordinates and multipliers add up to at most this, none far below their mean."""
    alpha, rest, below, above = moved
    lower, upper = alpha * below, rest * above
    product = float(np.sum(lower + upper))
    least = min(float(np.min(lower)), float(np.min(upper)))
    return product <= most and least >= _LEAST_PRODUCT * product / (2.0 * len(alpha))


def _reach(values: FloatArray, step: FloatArray) -> float:
    """The largest step, at most 1, that keeps all values above 0 by a little."""
    falling = step < 0.0
    if not falling.any():
        return 1.0
    return min(1.0, _TO_THE_BOUNDARY * float(np.min(values[falling] / -step[falling])))
