"""Exponential sampling on a line for piecewise linear risks, over a net of 2^30 points, summed in closed form."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.convex_sets import ConvexSet
from tasks.classifiers.losses import HingeLoss
from tasks.classifiers.net_sampler import bounding_box
from tasks.classifiers.risks import AbsoluteDistance, EmpiricalRisk, InnerProduct, MarginRisk
from tasks.classifiers.selection_law import DEEPEST, draw_by_weight, usable_epsilon, whole_weights
from tasks.noise.bits import BitSource

__all__ = ["PiecewiseLinear", "Segments", "is_piecewise_linear", "sample_piecewise", "segments_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_WEIGHT_BITS = 200
LATTICE_BITS = 30
"""The net has between 2^30 and 2^31 points."""


class PiecewiseLinear(NamedTuple):
    """A continuous function on an interval: `values` at `knots` (m + 1,), `slopes` between them (m,)."""

    knots: FloatArray
    values: FloatArray
    slopes: FloatArray


class Segments(NamedTuple):
    """Runs of points of the net along which the exponent is linear.

    `first` and `length` are in steps of `spacing`; the exponent is `start` at the end where it is least, and grows by
    `rate` >= 0 a step from there, downwards where `reverse`.
    """

    spacing: float
    first: IntArray
    length: IntArray
    start: FloatArray
    rate: FloatArray
    reverse: NDArray[np.bool_]

    def log_masses(self) -> FloatArray:
        """Logarithm of the sum of exp(-exponent) over each run."""
        return _log_sums(self.rate, self.length.astype(np.float64)) - self.start


def is_piecewise_linear(risk: EmpiricalRisk) -> bool:
    """Whether `sample_piecewise` knows the risk: one parameter, and a loss of straight pieces without a regulariser."""
    if risk.dimension != 1:
        return False
    if isinstance(risk, MarginRisk):
        return isinstance(risk.loss, HingeLoss) and risk.regularization == 0.0
    return isinstance(risk, AbsoluteDistance | InnerProduct)


def sample_piecewise(
    risk: EmpiricalRisk,
    convex_set: ConvexSet,
    range_bound: float,
    epsilon: float,
    bits: BitSource,
    *,
    lattice_bits: int = LATTICE_BITS,
) -> FloatArray:
    """Draw a multiple of the lattice's spacing with probability proportional to exp(-epsilon risk / range_bound).

    Parameters
    ----------
    risk : EmpiricalRisk
        One for which `is_piecewise_linear`.
    convex_set : ConvexSet
        Of one dimension.
    range_bound, epsilon : float
        As in `exponential_choice`, whose cut of the exponents and slack for rounding are used here as well.
    bits : BitSource
    lattice_bits : int, default=30
        The spacing is the largest power of two up to 2^-lattice_bits of the interval.

    Returns
    -------
    ndarray of float64, shape (1,)

    Notes
    -----
    This is the exponential mechanism over a public net, hence purely epsilon private. Between two kinks the weights
    of the net's points are a geometric sequence. A run of points is drawn by its sum; in it a block of 2^k points, the
    run being split by its length's binary digits; in the block the k binary digits of the place, which are
    independent. Each draw is exact for whole-number weights whose relative error is below 2^-44; together below 2^-38,
    which `EPSILON_SLACK` pays for.
    """
    if not is_piecewise_linear(risk):
        raise ValueError("the piecewise sampler is for piecewise linear risks of one parameter without a regulariser")
    lower, upper = (float(side[0]) for side in bounding_box(convex_set))
    segments = segments_of(_pieces(risk, lower, upper), usable_epsilon(epsilon) / range_bound, lattice_bits)
    j = draw_by_weight(whole_weights(segments.log_masses()), bits)
    place = _place(float(segments.rate[j]), int(segments.length[j]), bits)
    if segments.reverse[j]:
        place = int(segments.length[j]) - 1 - place
    return np.array([(int(segments.first[j]) + place) * segments.spacing])


def segments_of(function: PiecewiseLinear, scale: float, lattice_bits: int) -> Segments:
    """The net's runs with the exponent min(scale (f - min f), DEEPEST), for a convex f."""
    knots, values, slopes = function
    heights = (values - values.min()) * scale
    slopes = slopes * scale
    # where the exponent is cut off: at most once on each side of the minimum
    left, right = heights[:-1], heights[1:]
    crosses = np.flatnonzero((left - DEEPEST) * (right - DEEPEST) < 0.0)
    at = knots[crosses] + (DEEPEST - left[crosses]) / slopes[crosses]
    all_knots = np.insert(knots, crosses + 1, at)
    all_heights = np.minimum(np.insert(heights, crosses + 1, DEEPEST), DEEPEST)
    all_slopes = np.insert(slopes, crosses, slopes[crosses])
    all_slopes[(all_heights[:-1] >= DEEPEST) & (all_heights[1:] >= DEEPEST)] = 0.0

    spacing = 2.0 ** np.floor(np.log2((knots[-1] - knots[0]) * 2.0**-lattice_bits))
    ends = np.ceil(all_knots / spacing).astype(np.int64)
    ends[-1] = np.int64(np.floor(all_knots[-1] / spacing)) + 1
    first, count = ends[:-1], np.diff(ends)
    some = count > 0
    first, count = first[some], count[some]
    slope, knot, height = all_slopes[some], all_knots[:-1][some], all_heights[:-1][some]
    reverse = slope < 0.0
    least = np.where(reverse, first + count - 1, first)
    start = np.clip(height + slope * (least * spacing - knot), 0.0, DEEPEST)
    return Segments(float(spacing), first, count, start, np.abs(slope) * spacing, reverse)


def _pieces(risk: EmpiricalRisk, lower: float, upper: float) -> PiecewiseLinear:
    """The risk on an interval."""
    match risk:
        case AbsoluteDistance():
            kinks, jumps = risk.points[:, 0], np.full(risk.n_records, 2.0)
        case MarginRisk():
            factors = risk.signs[:, 0] * risk.rows[:, 0]
            factors = factors[factors != 0.0]
            with np.errstate(over="ignore"):  # a kink so far out is outside the interval
                kinks, jumps = 1.0 / factors, np.abs(factors)
        case _:
            kinks, jumps = np.empty(0), np.empty(0)
    inside = (kinks > lower) & (kinks < upper)
    order = np.argsort(kinks[inside], kind="stable")
    knots = np.concatenate([[lower], kinks[inside][order], [upper]])
    # half of the interval before the first kink: no kink is there, and the slope is right whatever a kink's is
    before = float(risk.gradient(np.array([0.5 * (knots[0] + knots[1])]))[0])
    slopes = before + np.concatenate([[0.0], np.cumsum(jumps[inside][order])])
    values = risk.value(np.array([lower])) + np.concatenate([[0.0], np.cumsum(slopes * np.diff(knots))])
    return PiecewiseLinear(knots, values, slopes)


def _log_sums(rate: FloatArray, count: FloatArray) -> FloatArray:
    """log of 1 + exp(-rate) + ... + exp(-rate (count - 1))."""
    safe = np.where(rate > 1e-300, rate, 1.0)
    return np.where(rate > 1e-300, np.log(np.expm1(-safe * count) / np.expm1(-safe)), np.log(count))


def _place(rate: float, count: int, bits: BitSource) -> int:
    """Draw 0, ..., count - 1 with probability proportional to exp(-rate place)."""
    sizes = [1 << k for k in reversed(range(count.bit_length())) if count >> k & 1]
    starts = np.cumsum([0, *sizes[:-1]])
    n_steps = np.array(sizes, dtype=np.float64)
    block = draw_by_weight(whole_weights(_log_sums(np.full(len(sizes), rate), n_steps) - rate * starts), bits)
    place = int(starts[block])
    for k in range(sizes[block].bit_length() - 1):
        other = int(math.ldexp(math.exp(-rate * 2.0**k), _WEIGHT_BITS))  # all digits of the double
        place += draw_by_weight([1 << _WEIGHT_BITS, other], bits) << k
    return place
