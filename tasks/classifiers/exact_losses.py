"""Sums of losses without an error that grows with the number of records: whole numbers, one for each record.

A mechanism that weighs parameters by their risk presumes that a record moves the risk by what its own loss is. Sums of
doubles do not keep to that: their rounding depends on all records, and grows with their number. Here each record's loss
is compared with its loss at a public reference, and the difference is rounded to whole units of a public size. Whole
numbers add up exactly. So the total *is* a sum of functions of one record each, and a mechanism that works on it has
its guarantee with the range of those functions, which is the range of the losses and a millionth of it or less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from schemas.learning import Adjacency
from tasks.classifiers.clipped_risk import ClippedMarginRisk
from tasks.classifiers.convex_sets import ConvexSet
from tasks.classifiers.exact_rows import on_row_grid, query_grid
from tasks.classifiers.risks import AbsoluteDistance, EmpiricalRisk, InnerProduct, MarginRisk, SquaredDistance

__all__ = ["MOST_RECORDS", "MOST_ROUNDINGS", "ExactLosses", "on_exact_rows"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_RECORDS = 2**27
"""Of tables whose totals are formed: so few that 64-bit numbers hold them."""

MOST_ROUNDINGS = 2**29
"""Records times (parameters + 16): the slack of a draw by rejection pays for their roundings."""

_UNIT = 2.0**-32  # of the largest difference of a record's loss
_FAR = 2.0**20  # diameters beyond which a record's distance is measured from nearer by
_LARGEST_SIZE = 1e100  # of what is squared
_CELLS_AT_A_TIME = 2**20  # records times parameters in one matrix


def on_exact_rows(risk: EmpiricalRisk) -> EmpiricalRisk:
    """The risk with its rows rounded towards 0 to multiples of 2^-24, row by row; other risks as they are."""
    if not isinstance(risk, MarginRisk | ClippedMarginRisk):
        return risk
    return replace(risk, rows=on_row_grid(risk.rows))


@dataclass(frozen=True, eq=False)
class ExactLosses:
    """Whole-number differences of losses from those at the centre of a set, for parameters of the set.

    Parameters
    ----------
    risk : EmpiricalRisk
        A `MarginRisk`, `AbsoluteDistance`, `SquaredDistance` or `InnerProduct`; of margins, with rows as
        `on_exact_rows` gives them.
    convex_set : ConvexSet
        Public or released. With D for its diameter no parameter may be farther than D from its centre.

    Raises
    ------
    ValueError
        If the risk is of another kind, has more than 2^27 records, or sizes are too extreme for squares.

    Notes
    -----
    Record i contributes l_i(theta) = round((loss_i(theta) - loss_i(centre)) / unit), computed from that record alone.

    - Margins: rows are multiples of 2^-24; the offset theta - centre is split into two parts on grids of their own, so
      that a matrix product forms both scalar products without rounding, whatever the order (see `exact_rows`). All
      else is done element by element.
    - Distances and inner products: coordinate by coordinate, in one order. A point farther than 2^20 D from the centre
      counts as the one at that distance in its direction: its distance remains a function of Lipschitz constant 1.

    `error` bounds |unit l_i - (loss_i(theta) - loss_i(centre))|, for points as they count: half a unit (2^-33 of L D or
    less), and for the doubles in between, with B = |centre| + D and unit roundoff u = 2^-53,

    - margins: what is cut off from the offset and from the centre is below p 2^-50 B each, and all roundings of a
      margin together move it by at most 4 u B; each value of the loss has 32 u of its own relative error, which is more
      than logarithm and exponential of any library in use have;
    - others: 4 (p + 8) u times the size of the largest term.

    The ranges of l_i and of the loss then differ by at most 2 `error`, and those of differences of two records by 4.
    """

    risk: EmpiricalRisk
    convex_set: ConvexSet

    def __post_init__(self) -> None:
        if not isinstance(self.risk, MarginRisk | AbsoluteDistance | SquaredDistance | InnerProduct):
            raise ValueError(f"no exact sums of losses are known for {type(self.risk).__name__}")
        if self.risk.n_records > MOST_RECORDS:
            raise ValueError(f"exact sums of losses are for at most 2^27 records, got {self.risk.n_records}")
        sizes = (self.convex_set.diameter, self.risk.lipschitz, 1.0 + float(np.linalg.norm(self.reference)))
        if not all(1.0 / _LARGEST_SIZE < size < _LARGEST_SIZE for size in sizes):
            raise ValueError(
                "the set's diameter and the loss's Lipschitz constant must lie between 1e-100 and 1e100, and the set "
                f"within 1e100 of 0, got {sizes}"
            )

    @cached_property
    def reference(self) -> FloatArray:
        """The set's centre."""
        return np.asarray(self.convex_set.centre, dtype=np.float64)

    @cached_property
    def unit(self) -> float:
        """A power of two, up to 2^-32 of the Lipschitz constant times the diameter."""
        return float(2.0 ** math.floor(math.log2(self.risk.lipschitz * self.convex_set.diameter * _UNIT)))

    @cached_property
    def error(self) -> float:
        """Bound of how far a record's whole number, times the unit, is from its difference of losses."""
        risk, diameter, p, u = self.risk, self.convex_set.diameter, self.risk.dimension, 2.0**-53
        reach = float(np.linalg.norm(self.reference)) + diameter
        if isinstance(risk, MarginRisk):
            largest = float(risk.loss.value(np.array([-reach]))[0])
            margins = 2.0 * p * 2.0**-50 * reach + 4.0 * u * reach
            doubles = risk.n_problems * (2.0 * risk.loss.lipschitz * margins + 80.0 * u * largest)
        elif isinstance(risk, SquaredDistance):
            doubles = 4.0 * (p + 8) * u * (reach + risk.point_norm) ** 2
        elif isinstance(risk, InnerProduct):
            doubles = 4.0 * (p + 8) * u * reach * risk.point_norm
        else:
            doubles = 4.0 * (p + 8) * u * (reach + _FAR * diameter)
        return 0.5 * self.unit + doubles

    def range_excess(self, adjacency: Adjacency) -> float:
        """By how much the differences of neighbouring tables' totals may range beyond those of the exact risks."""
        own = 2.0 * self.error
        if adjacency == "replace_one":
            return 2.0 * own
        cancels = isinstance(self.risk, MarginRisk) and self.risk.public_size is not None
        return own if cancels else own + 2.0 * self.regularizer_error

    def refuse_unpaid_rounding(self, range_bound: float) -> None:
        """Refuse tables that are too large for a draw by rejection, by public numbers; see `sample_by_rejection`.

        Raises
        ------
        ValueError
            If n (p + 16) (L + Delta B) ||C|| / range_bound is above 2^29, B the largest norm.
        """
        risk, diameter = self.risk, self.convex_set.diameter
        reach = float(np.linalg.norm(self.reference)) + diameter
        largest = (risk.lipschitz + risk.strong_convexity * reach) * diameter / range_bound
        if not risk.n_records * (risk.dimension + 16) * largest <= MOST_ROUNDINGS:
            raise ValueError(
                f"rejection sampling cannot pay for rounding with {risk.n_records} records, {risk.dimension} "
                f"parameters: their number times (p + 16) times {largest:.3g} must be at most 2^29; take output or "
                "objective perturbation, or a part of the records"
            )

    @cached_property
    def regularizer_error(self) -> float:
        """Bound of the error in a record's share of the regulariser."""
        reach = float(np.linalg.norm(self.reference)) + self.convex_set.diameter
        weight = self.risk.strong_convexity if isinstance(self.risk, MarginRisk) else 0.0
        return 0.5 * self.unit + 4.0 * (self.risk.dimension + 8) * 2.0**-53 * weight * reach**2

    def totals(self, thetas: FloatArray) -> list[int]:
        """The risk at each parameter less that at the centre, in units; regulariser included.

        Parameters
        ----------
        thetas : ndarray of float64, shape (m, p)

        Returns
        -------
        list of int, of length m
        """
        n = self.risk.n_records
        count = max(1, _CELLS_AT_A_TIME // n)
        sums: list[int] = []
        for start in range(0, len(thetas), count):
            sums += self._wholes(thetas[start : start + count]).sum(axis=0).tolist()
        if not isinstance(self.risk, MarginRisk) or self.risk.regularization == 0.0:
            return sums
        # the regulariser: equal for all records, or one public number times |theta|^2
        per_record = self.risk.public_size is None
        weight = self.risk.regularization if per_record else self.risk.total_regularization
        times = n if per_record else 1
        gains = np.zeros(len(thetas))
        for there, here in zip(np.asarray(thetas, dtype=np.float64).T, self.reference, strict=True):
            gains += (there - here) * (there + here)
        own = np.rint(0.5 * weight * gains / self.unit).tolist()
        return [total + times * int(whole) for total, whole in zip(sums, own, strict=True)]

    def _wholes(self, thetas: FloatArray) -> IntArray:
        """What each record contributes, shape (n, m)."""
        match self.risk:
            case MarginRisk():
                differences = self._margin_differences(self.risk, thetas)
            case AbsoluteDistance() | SquaredDistance() | InnerProduct():
                differences = self._location_differences(thetas)
        differences *= 1.0 / self.unit
        return np.rint(differences, out=differences).astype(np.int64)

    # --- margins --------------------------------------------------------------------------------------------------

    def _margin_differences(self, risk: MarginRisk, thetas: FloatArray) -> FloatArray:
        width = risk.rows.shape[1]
        offsets = thetas - self.reference
        total: FloatArray = np.zeros((risk.n_records, len(thetas)))
        for k in range(risk.n_problems):
            signs = risk.signs[:, [k]]
            here, base = self._at_reference[k]
            block = offsets[:, k * width : (k + 1) * width]
            moved = signs * _exact_scores(risk.rows, block, self.convex_set.diameter)
            total += risk.loss.value(here + moved) - base
        return total

    @cached_property
    def _at_reference(self) -> list[tuple[FloatArray, FloatArray]]:
        """Margins and losses at the centre, for each problem; shapes (n, 1)."""
        risk = self.risk
        assert isinstance(risk, MarginRisk)
        length = float(np.linalg.norm(self.reference))
        found = []
        for k, weights in enumerate(risk.weights(self.reference)):
            scores = _exact_scores(risk.rows, weights[None, :], length) if length > 0.0 else 0.0
            margins = risk.signs[:, [k]] * scores
            found.append((margins, risk.loss.value(margins)))
        return found

    # --- points ---------------------------------------------------------------------------------------------------

    def _location_differences(self, thetas: FloatArray) -> FloatArray:
        risk, here = self.risk, self.reference
        assert isinstance(risk, AbsoluteDistance | SquaredDistance | InnerProduct)
        if isinstance(risk, AbsoluteDistance):
            base, points = self._base, self._near_points
            return np.sqrt(_squares(points, thetas)) - base
        total: FloatArray = np.zeros((risk.n_records, len(thetas)))
        for point, there, centre in zip(risk.points.T, thetas.T, here, strict=True):
            if isinstance(risk, InnerProduct):
                total -= point[:, None] * (there - centre)
            else:
                total += (there - centre) * (0.5 * (there + centre) - point[:, None])
        return total

    @cached_property
    def _near_points(self) -> FloatArray:
        """Points seen from the centre, those beyond 2^20 diameters moved to there."""
        assert isinstance(self.risk, AbsoluteDistance)
        farthest = _FAR * self.convex_set.diameter
        with np.errstate(over="ignore"):
            offsets = np.clip(self.risk.points - self.reference, -1e300, 1e300)
        largest = np.max(np.abs(offsets), axis=1, keepdims=True)
        scaled = np.divide(offsets, largest, out=np.zeros_like(offsets), where=largest > 0.0)
        lengths = np.sqrt(_squares(scaled, np.zeros((1, offsets.shape[1]))))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            factors = np.where(largest * lengths > farthest, farthest / lengths, largest)
        return scaled * factors + self.reference

    @cached_property
    def _base(self) -> FloatArray:
        return np.sqrt(_squares(self._near_points, self.reference[None, :]))


def _squares(points: FloatArray, thetas: FloatArray) -> FloatArray:
    """Squared distances, shape (n, m), added up coordinate by coordinate."""
    total: FloatArray = np.zeros((len(points), len(thetas)))
    for point, there in zip(points.T, thetas.T, strict=True):
        total += (there - point[:, None]) ** 2
    return total


def _exact_scores(rows: FloatArray, weights: FloatArray, bound: float) -> FloatArray:
    """<row, weights>, shape (n, m), for rows on their grid and weights (m, d) of at most this norm: one rounding each.

    The weights are cut at 2^-50 of the bound, times sqrt(d).
    """
    coarse_grid = query_grid(bound)
    fine_grid = query_grid(coarse_grid * math.sqrt(rows.shape[1]))
    coarse = np.trunc(weights / coarse_grid) * coarse_grid
    fine = np.trunc((weights - coarse) / fine_grid) * fine_grid
    scores: FloatArray = rows @ coarse.T + rows @ fine.T
    return scores
