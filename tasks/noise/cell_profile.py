"""The exact privacy profile of a law that is constant on cells of neighbouring magnitudes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tasks.noise.exact import context, exp_minus

__all__ = ["MAX_EPSILON", "critical_shifts", "largest_divergence", "overlaps", "signed_edges", "total_weight"]

MAX_EPSILON = 700.0
"""exp of it is a double; a law's epsilon is at most this, while its profile may be asked for at any loss."""

_FACTOR_BITS = 96  # exp(loss) is rounded down to a multiple of 2^-96
_HIGH_LOSS = 40.0  # exp(40) is above 2^53, hence above the ratio of any two weights that are not 0


def total_weight(ends: tuple[int, ...], weights: tuple[int, ...]) -> int:
    """The sum of the weights of all integers."""
    sizes = [ends[0], *(b - a for a, b in pairwise(ends))]
    return 2 * sum(size * weight for size, weight in zip(sizes, weights, strict=True)) - weights[0]


def signed_edges(ends: Sequence[int]) -> NDArray[np.int64]:
    """First integers of the intervals on which the law is constant, and the first beyond its support."""
    positive = np.array(ends, dtype=np.int64)
    return np.concatenate((1 - positive[::-1], positive))


def critical_shifts(ends: Sequence[int], largest: int) -> NDArray[np.int64]:
    """The shifts up to `largest` at which the divergence may be largest, in descending order."""
    edges = signed_edges(ends)
    shifts = np.unique(edges[None, :] - edges[:, None])
    shifts = shifts[(shifts > 0) & (shifts < largest)]
    return np.concatenate(([largest], shifts[::-1]))


def overlaps(edges: NDArray[np.int64], shift: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cells of the law, cells of the law moved by `shift` (n_cells: beyond the support), sizes of intersections."""
    moved = edges + shift
    cuts = np.unique(np.concatenate((edges, moved)))
    size, first = np.diff(cuts), cuts[:-1]
    n_cells = len(edges) // 2

    def cell(of: NDArray[np.int64]) -> NDArray[np.int64]:
        index = np.searchsorted(of, first, side="right") - 1
        inside = (index >= 0) & (index < len(of) - 1)
        return np.where(inside, np.abs(index - (n_cells - 1)), n_cells).astype(np.int64)

    return cell(edges), cell(moved), size


@lru_cache(maxsize=1024)
def largest_divergence(ends: tuple[int, ...], weights: tuple[int, ...], loss: float, largest: int) -> float:
    """The largest divergence over the shifts 1 to `largest`, exactly, rounded up to a double."""
    if largest >= 2 * ends[-1] - 1:
        return 1.0  # the supports are disjoint at that shift
    edges, total = signed_edges(ends), total_weight(ends, weights)
    falling = all(a >= b for a, b in pairwise(weights))
    # A law that falls with |k| has its worst shift at the end: each positive term grows with it.
    shifts = np.array([largest]) if falling else critical_shifts(ends, largest)
    pairs = [overlaps(edges, int(shift)) for shift in shifts]
    factor = math.exp(min(loss, MAX_EPSILON))
    value = np.array([*weights, 0], dtype=np.float64) / total
    rough = np.array([float(np.sum(np.maximum(value[i] - factor * value[j], 0.0) * n)) for i, j, n in pairs])
    # Doubles are off by less than 1e-13 here; what they cannot tell apart is computed in integers.
    worst = max(
        _exact_divergence(pairs[index], weights, loss) for index in np.flatnonzero(rough >= rough.max() - 1e-13)
    )
    return min(1.0, _up(Fraction(worst, total << _FACTOR_BITS)))


def _exact_divergence(
    intersections: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], weights: tuple[int, ...], loss: float
) -> int:
    """The divergence times the total weight times 2^96, where exp(loss) is rounded down."""
    scaled = [*weights, 0]
    if loss > _HIGH_LOSS:
        return sum(
            (scaled[i] << _FACTOR_BITS) * n for i, j, n in zip(*map(_ints, intersections), strict=True) if not scaled[j]
        )
    factor = _factor(loss)
    return sum(
        max(0, (scaled[i] << _FACTOR_BITS) - factor * scaled[j]) * n
        for i, j, n in zip(*map(_ints, intersections), strict=True)
    )


def _ints(values: NDArray[np.int64]) -> list[int]:
    return [int(value) for value in values]


@lru_cache(maxsize=1024)
def _factor(loss: float) -> int:
    """exp(loss) 2^96, rounded down."""
    digits = 45 + math.ceil(loss / 2.3)
    with localcontext(context(digits)):
        power = exp_minus(-Fraction(loss), digits - 10)
        lower = power * (1 - Decimal(10) ** (12 - digits)) * 2**_FACTOR_BITS if loss else Decimal(2**_FACTOR_BITS)
        return int(lower.to_integral_value(rounding=ROUND_FLOOR))


def _up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
