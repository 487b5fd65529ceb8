"""The exponential mechanism over finitely many candidates, drawn from whole-number weights without any rounding."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource, draw_words

__all__ = [
    "DEEPEST",
    "EPSILON_SLACK",
    "LEAST_EPSILON",
    "draw_by_weight",
    "exponential_choice",
    "exponential_weights",
    "usable_epsilon",
    "whole_weights",
]

EPSILON_SLACK = 2.0**-20
"""The part of epsilon that is kept back for the rounding of scores and weights."""

LEAST_EPSILON = 2.0**-16
"""Below it the slack would not cover the weights' rounding."""

DEEPEST = 96.0 * math.log(2.0)
"""Where exponents are cut off: no candidate gets less than 2^-96 of the best one's probability."""

_WEIGHT_BITS = 200  # 2^-147 times this still has all 53 binary digits of a double before the point


def exponential_choice(
    scores_to_minimise: ArrayLike, range_bound: float, epsilon: float, bits: BitSource, *, log_sizes: ArrayLike = 0.0
) -> int:
    """Choose a candidate with probability proportional to exp(-epsilon score / range_bound): pure epsilon.

    Parameters
    ----------
    scores_to_minimise : array-like of shape (m,)
        Finite; small is good. Each is right to within range_bound times 2^-23.
    range_bound : float
        Bound of sup_j h_j - inf_j h_j over neighbouring tables, where h_j is the difference of the score of candidate
        j between them; above 0 and finite. For scores of sensitivity S it is 2 S, and S where a neighbour moves all
        scores the same way. For the risks of parameters in a set of diameter ||C|| it is 2 L ||C|| under
        "replace_one" and L ||C|| under "add_remove".
    epsilon : float
        At least 2^-16; infinite gives the first of the best candidates.
    bits : BitSource
    log_sizes : array-like of shape (m,), default=0.0
        Logarithms of public weights of the candidates, finite; independent of the records.

    Returns
    -------
    int
        From 0 to m - 1.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Guarantee. With a <= h_j <= b for all j the probability of j changes by a factor of at most
    exp(epsilon (b - a) / range_bound): the weight of j and the sum of all weights change by factors between
    exp(-epsilon b / range_bound) and exp(-epsilon a / range_bound), and what both have in common cancels. This is a
    *bounded range* of epsilon, so the choice also satisfies epsilon^2 / 8 zero-concentrated privacy.

    It holds for the numbers as they are drawn. Scores above the best one by more than `DEEPEST` range_bound / epsilon
    are taken down to there; as a minimum of functions whose differences lie in [a, b] the cut score has its
    differences there too. Then every weight is at least 2^-96 of the largest and becomes a whole number with all
    digits of its double; the draw from whole weights is exact. The exponents' and the exponential function's rounding
    (below 2^-44 in a weight) and that of the scores are paid for by `EPSILON_SLACK`.

    References
    ----------
    McSherry, Talwar (2007); Dong, Durfee, Rogers (2020) for the bounded range and its 1/8.
    """
    return draw_by_weight(exponential_weights(scores_to_minimise, range_bound, epsilon, log_sizes=log_sizes), bits)


def exponential_weights(
    scores_to_minimise: ArrayLike, range_bound: float, epsilon: float, *, log_sizes: ArrayLike = 0.0
) -> list[int]:
    """The whole-number weights that `exponential_choice` draws by; parameters and errors as there.

    Returns
    -------
    list of int, of length m
    """
    scores = np.asarray(scores_to_minimise, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0 or not np.isfinite(scores).all():
        raise ValueError("scores_to_minimise must be a vector of at least one finite number")
    if not 0.0 < range_bound < math.inf:
        raise ValueError(f"range_bound must be above 0 and finite, got range_bound={range_bound!r}")
    sizes = np.broadcast_to(np.asarray(log_sizes, dtype=np.float64), scores.shape)
    if not np.isfinite(sizes).all():
        raise ValueError("log_sizes must be finite")
    if epsilon == math.inf:
        best = int(np.argmin(scores))
        return [int(j == best) for j in range(scores.size)]
    rate = usable_epsilon(epsilon) / range_bound
    exponents = np.minimum((scores - scores.min()) * rate, DEEPEST)
    return whole_weights(sizes - exponents)


def usable_epsilon(epsilon: float) -> float:
    """What is left of epsilon for the law itself, after the slack for rounding.

    Raises
    ------
    ValueError
        If epsilon is below `LEAST_EPSILON`.
    """
    if not epsilon >= LEAST_EPSILON:
        raise ValueError(f"epsilon must be at least 2^-16, so that rounding can be paid for, got epsilon={epsilon!r}")
    return epsilon * (1.0 - EPSILON_SLACK)


def whole_weights(log_weights: NDArray[np.float64]) -> list[int]:
    """Whole numbers proportional to exp(log_weights), each with all digits of the double down to 2^-147 of the largest.

    Smaller ones lose digits, and below 2^-200 of the largest all of them.
    """
    relative = np.exp(log_weights - log_weights.max())
    mantissa, exponent = np.frexp(relative)
    digits = np.ldexp(mantissa, 53).astype(np.int64).tolist()
    return [
        whole << shift if shift >= 0 else whole >> -shift
        for whole, shift in zip(digits, (exponent + (_WEIGHT_BITS - 53)).tolist(), strict=True)
    ]


def draw_by_weight(weights: Sequence[int], bits: BitSource) -> int:
    """Draw j with probability exactly weights[j] / sum(weights).

    Parameters
    ----------
    weights : sequence of int
        At least 0, not all of them 0.
    bits : BitSource

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If there is no positive weight, or a negative one.
    """
    ends = list(accumulate(weights))
    if not ends or ends[-1] <= 0 or min(weights) < 0:
        raise ValueError("weights must be at least 0, and one of them above 0")
    return bisect_right(ends, _whole_below(ends[-1], bits))


def _whole_below(width: int, bits: BitSource) -> int:
    """A uniform whole number in 0, ..., width - 1, of any size: as many bits as it needs, again where too large."""
    n_bits = (width - 1).bit_length()
    n_words = -(-n_bits // 64)
    while True:
        drawn = int.from_bytes(draw_words(bits, n_words).astype("<u8").tobytes(), "little") >> (64 * n_words - n_bits)
        if drawn < width:
            return drawn
