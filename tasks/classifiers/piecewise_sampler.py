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

__all__ = [
    "PIECEWISE_ERROR",
    "Pieces",
    "Segments",
    "is_piecewise_linear",
    "pieces_of",
    "sample_piecewise",
    "segments_of",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_WEIGHT_BITS = 200
_SLOPE_BITS = 32
LATTICE_BITS = 30
"""The net has between 2^30 and 2^31 points."""

MOST_RECORDS = 2**28
PIECEWISE_ERROR = 2.0**-50
"""By how much a record's loss on the net may differ from one of the loss's own kind, see `sample_piecewise`."""


class Pieces(NamedTuple):
    """What each record contributes at the net's points j spacing, in whole numbers: a line on either side of a kink.

    Record i has value (constant[i, s] one + slope[i, s] (j - origin)) unit, s = 0 for j below `kink[i]` and 1 from
    there on. `first` and `last` are the net's ends.
    """

    spacing: float
    unit: float
    one: int
    origin: int
    first: int
    last: int
    kink: IntArray
    constant: IntArray
    slope: IntArray


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

    Raises
    ------
    ValueError
        If the risk is of another kind or has more than 2^28 records, or the set's size is beyond 2^30 or below 2^-900.

    Notes
    -----
    This is the exponential mechanism over a public net, hence purely epsilon private. Risks on the net are exact sums
    of whole numbers, one for each record (`Pieces`): points of an absolute distance are moved into the interval, which
    changes their loss by a constant, and to the nearest point of the net; factors of a hinge or an inner product are
    rounded towards 0 to multiples of 2^-32 of their bound. Where a hinge's kink falls between two points of the net is
    found in doubles, so that one point next to it may be counted to the wrong side, where the hinge is at most 2^-51
    off: `PIECEWISE_ERROR`, which the caller adds to the range.

    Between two kinks the weights of the net's points are a geometric sequence. A run of points is drawn by its sum; in
    it a block of 2^k points, the run being split by its length's binary digits; in the block the k binary digits of the
    place, which are independent. Each draw is exact for whole-number weights whose relative error is below 2^-44;
    together below 2^-38, which `EPSILON_SLACK` pays for.
    """
    if not is_piecewise_linear(risk):
        raise ValueError("the piecewise sampler is for piecewise linear risks of one parameter without a regulariser")
    lower, upper = (float(side[0]) for side in bounding_box(convex_set))
    segments = segments_of(pieces_of(risk, lower, upper, lattice_bits), usable_epsilon(epsilon) / range_bound)
    j = draw_by_weight(whole_weights(segments.log_masses()), bits)
    place = _place(float(segments.rate[j]), int(segments.length[j]), bits)
    if segments.reverse[j]:
        place = int(segments.length[j]) - 1 - place
    return np.array([(int(segments.first[j]) + place) * segments.spacing])


def pieces_of(risk: EmpiricalRisk, lower: float, upper: float, lattice_bits: int) -> Pieces:
    """The risk on an interval's net, see `sample_piecewise`."""
    spacing = 2.0 ** math.floor(math.log2((upper - lower) * 2.0**-lattice_bits))
    n = risk.n_records
    if n > MOST_RECORDS or not 2.0**-960 < spacing < 2.0 ** (30 - lattice_bits):
        raise ValueError(
            f"the piecewise sampler is for at most 2^28 records and a length from 2^-900 to 2^30, got {n} records "
            f"and the interval from {lower!r} to {upper!r}"
        )
    if not max(abs(lower), abs(upper)) < spacing * 2.0**52:
        raise ValueError(f"the interval from {lower!r} to {upper!r} is too short for doubles where it lies")
    first, last = math.ceil(lower / spacing), math.floor(upper / spacing)
    constant, slope = np.zeros((n, 2), dtype=np.int64), np.zeros((n, 2), dtype=np.int64)
    kink = np.full(n, first, dtype=np.int64)
    unit, one, origin = spacing, 1, 0
    match risk:
        case AbsoluteDistance():
            with np.errstate(over="ignore"):
                kink = np.rint(np.clip(risk.points[:, 0] / spacing, first, last)).astype(np.int64)
            origin, along = first, kink - first
            constant, slope = np.column_stack([along, -along]), np.tile([-1, 1], (n, 1))
        case InnerProduct():
            grid = 2.0 ** (math.ceil(math.log2(risk.point_norm)) - _SLOPE_BITS)
            slope[:, 1] = -np.trunc(risk.points[:, 0] / grid).astype(np.int64)
            unit = grid * spacing
        case MarginRisk():
            factors = np.trunc(risk.signs[:, 0] * risk.rows[:, 0] * 2.0**_SLOPE_BITS)
            with np.errstate(divide="ignore", over="ignore"):
                places = np.where(factors != 0.0, 2.0**_SLOPE_BITS / factors, math.inf) / spacing
            kink = np.ceil(np.clip(places, first, last + 1)).astype(np.int64)
            steep = factors.astype(np.int64)
            # max(0, 1 - factor t): on the left of its kink for a factor above 0, on the right for one below
            left, right = (steep >= 0).astype(np.int64), (steep < 0).astype(np.int64)
            constant, slope = np.column_stack([left, right]), np.column_stack([-steep * left, -steep * right])
            unit, one = spacing * 2.0**-_SLOPE_BITS, int(2.0**_SLOPE_BITS / spacing)
        case _:
            raise ValueError("the piecewise sampler is for piecewise linear risks of one parameter")
    return Pieces(spacing, unit, one, origin, first, last, kink, constant, slope)


def segments_of(pieces: Pieces, scale: float) -> Segments:
    """The net's runs with the exponent min(scale (f - min f), DEEPEST), f the sum over all records."""
    order = np.argsort(pieces.kink, kind="stable")
    kink = pieces.kink[order]
    inner = (kink > pieces.first) & (kink <= pieces.last)
    firsts = np.unique(np.concatenate([[pieces.first], kink[inner]]))
    passed = np.searchsorted(kink, firsts, side="right")  # so many records have their kink behind them

    def at_runs(columns: IntArray) -> list[int]:
        changes = np.concatenate([[0], np.cumsum((columns[:, 1] - columns[:, 0])[order])])
        sums: list[int] = (columns[:, 0].sum() + changes[passed]).tolist()
        return sums

    constants, slopes = at_runs(pieces.constant), at_runs(pieces.slope)
    lasts = np.append(firsts[1:] - 1, pieces.last)
    # whole numbers of any size: no rounding until the least value is taken off
    ends = [
        tuple(constant * pieces.one + slope * (place - pieces.origin) for place in (start, stop))
        for constant, slope, start, stop in zip(constants, slopes, firsts.tolist(), lasts.tolist(), strict=True)
    ]
    least = min(min(pair) for pair in ends)
    factor = pieces.unit * scale
    start = np.minimum(np.array([float(min(pair) - least) for pair in ends]) * factor, DEEPEST)
    rate = np.array([float(abs(slope)) for slope in slopes]) * factor
    reverse, length = np.array([slope < 0 for slope in slopes]), lasts - firsts + 1
    # from the lower end on: so many points below the depth at which exponents are cut off
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reach = np.where(rate > 0.0, (DEEPEST - start) / np.where(rate > 0.0, rate, 1.0), math.inf)
    near = np.minimum(np.ceil(np.minimum(reach, 2.0**40)), length).astype(np.int64)
    far = length - near
    all_first = np.concatenate([np.where(reverse, firsts + far, firsts), np.where(reverse, firsts, firsts + near)])
    all_length = np.concatenate([near, far])
    some = np.flatnonzero(all_length > 0)
    some = some[np.argsort(all_first[some])]
    nothing = np.zeros(far.size)
    return Segments(
        pieces.spacing,
        all_first[some],
        all_length[some],
        np.concatenate([start, nothing + DEEPEST])[some],
        np.concatenate([rate, nothing])[some],
        np.concatenate([reverse, nothing.astype(bool)])[some],
    )


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
