"""Move rows onto public constraints, one after the other, in the groups of constraints that hang together."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from schemas.columns import FeatureColumn
from schemas.constraints import AtMost, Constraint, Implies, Range, SumsTo
from schemas.table import TableSchema
from tasks.columns.constraints import BoolArray, State, all_hold, breaks, holds, places, sum_tolerance
from tasks.columns.grids import Grid, grid_of
from tasks.columns.numbers import FloatArray

IntArray = npt.NDArray[np.int64]

Side = Literal["both", "left", "right"]
"""Which side of a comparison or a sum is moved."""

_ONE_SIDED: tuple[tuple[tuple[Side, ...], float], ...] = (
    (("right",), 0.0),
    (("left",), 0.0),
    (("right", "left"), 0.0),
    (("left", "right"), 0.0),
)
_ROUNDS: tuple[tuple[tuple[Side, ...], float], ...] = (
    *((("both",), 0.0),) * 4,
    *_ONE_SIDED,
    (("both",), 1e-2),
    *_ONE_SIDED,
    (("both",), 1e-1),
    *_ONE_SIDED,
)
"""For each round which sides are moved, in turn over the constraints, and with which margin (in scaled units).
Alternating projections only tend to where all constraints hold; moving one side only ends chains, and a margin gets
inside where there is an inside."""


@dataclass(frozen=True)
class Part:
    """Constraints that hang together by their features.

    Attributes
    ----------
    rules : list of Constraint
    columns : dict of str to FeatureColumn
    features : list of str
        What may be moved.
    given : list of str
        Public columns and the label, which stand under `if`.
    """

    rules: list[Constraint]
    columns: dict[str, FeatureColumn]
    features: list[str]
    given: list[str]

    @cached_property
    def grids(self) -> dict[str, Grid]:
        """By column, what a cell may hold."""
        return {name: grid_of(column) for name, column in self.columns.items()}

    def broken(self, state: State) -> BoolArray:
        """Which rows break any of the constraints."""
        return np.logical_or.reduce([breaks(rule, state, self.columns) for rule in self.rules])

    def pattern(self, state: State) -> BoolArray:
        """For each row and constraint, whether all that `if` says of given columns holds; all of a row that matters."""
        n_rows = len(next(iter(state.values()))) if state else 1
        bits = []
        for rule in self.rules:
            on_given = {n: c for n, c in rule.if_.items() if n in self.given} if isinstance(rule, Implies) else {}
            bits.append(all_hold(on_given, state, self.columns) if on_given else np.ones(n_rows, dtype=bool))
        return np.column_stack(bits)


def parts(table: TableSchema, constraints: Sequence[Constraint] | None = None) -> list[Part]:
    """A table's constraints, grouped by the features they share."""
    groups: list[list[Constraint]] = []
    for rule in table.constraints if constraints is None else constraints:
        mine = set(rule.columns) & set(table.features)
        joined = [group for group in groups if any(mine & set(other.columns) for other in group)]
        groups = [group for group in groups if group not in joined] + [[*itertools.chain(*joined), rule]]
    found = []
    for group in groups:
        names = list(dict.fromkeys(name for rule in group for name in rule.columns))
        columns: dict[str, FeatureColumn] = {name: table.columns[name] for name in names}  # type: ignore[misc]
        features = [name for name in names if name in table.features]
        found.append(Part(group, columns, features, [name for name in names if name not in features]))
    return found


def preferences(part: Part, state: State) -> dict[tuple[int, str], float]:
    """For each list of categories under `then`, the one that is set: the most frequent in rows that meet the whole
    constraint, else the first listed."""
    chosen = {}
    for index, rule in enumerate(part.rules):
        if not isinstance(rule, Implies):
            continue
        both = all_hold(rule.if_, state, part.columns) & all_hold(rule.then, state, part.columns)
        for name, condition in rule.then.items():
            if not isinstance(condition, Range):
                allowed = places(condition, part.columns[name])
                counts = np.bincount(state[name][both].astype(int), minlength=int(part.grids[name].upper) + 1)
                chosen[index, name] = max(allowed, key=lambda place: counts[int(place)])
    return chosen


def settle(part: Part, state: State, chosen: Mapping[tuple[int, str], float]) -> dict[str, FloatArray]:
    """Rows after some rounds of projections, in most of which all constraints hold."""
    settled = {name: values.copy() for name, values in state.items()}
    rows = np.flatnonzero(part.broken(settled))
    for sides, margin in _ROUNDS:
        if not rows.size:
            break
        active = take(settled, rows)
        for index, rule in enumerate(part.rules):
            bad = np.flatnonzero(breaks(rule, active, part.columns))
            if bad.size:
                cells = {name: active[name][bad] for name in rule.columns}
                for name, values in _move(part, index, cells, sides[index % len(sides)], margin, chosen).items():
                    active[name][bad] = values
        for name in part.features:
            settled[name][rows] = active[name]
        rows = rows[part.broken(active)]
    return settled


def _move(
    part: Part, index: int, cells: State, side: Side, margin: float, chosen: Mapping[tuple[int, str], float]
) -> dict[str, FloatArray]:
    """Cells of rows that break one constraint, moved so that they obey it where that is possible."""
    match part.rules[index]:
        case AtMost() as rule:
            return _move_at_most(rule, part.grids, cells, side, margin)
        case SumsTo() as rule:
            return _move_sum(rule, part, cells, side)
        case Implies() as rule:
            return _move_then(rule, index, part, cells, chosen)


def _move_at_most(
    rule: AtMost, grids: Mapping[str, Grid], cells: State, side: Side, margin: float
) -> dict[str, FloatArray]:
    """Both to the same place, the first rounded down and the second up."""
    (first, second), (left, right) = (grids[name] for name in rule.at_most), (cells[name] for name in rule.at_most)
    if first.lower > second.upper:
        return {}
    largest = max(first.span, second.span)
    weights = [(grid.span / largest) ** 2 for grid in (second, first)]
    middle = (left * weights[0] + right * weights[1]) / sum(weights)
    place = np.clip({"both": middle, "left": right, "right": left}[side], first.lower, second.upper)
    slack = margin * min(first.span, second.span)
    return {rule.at_most[0]: first.floor(place - slack), rule.at_most[1]: second.ceil(place + slack)}


def _move_sum(rule: SumsTo, part: Part, cells: State, side: Side) -> dict[str, FloatArray]:
    """Euclidean projection in scaled units within the bounds, then onto the grids."""
    tolerance = sum_tolerance(rule, part.columns)
    grids = [part.grids[name] for name in rule.columns]
    values = np.column_stack([np.clip(cells[n], g.lower, g.upper) for n, g in zip(rule.columns, grids, strict=True)])
    signs = np.array([1.0] * len(rule.sum) + [-1.0])
    if side != "right":
        _onto_hyperplane(values, signs, grids, total_moves=side == "both")
    summands = np.column_stack([grid.nearest(values[:, place]) for place, grid in enumerate(grids[:-1])])
    total_grid = grids[-1]
    best, open_rows = np.column_stack([summands, values[:, -1]]), np.ones(len(values), dtype=bool)
    for offset in (0, 1, -1, 2, -2) if total_grid.step else (0,):
        rows = np.flatnonzero(open_rows)
        if not rows.size:
            break
        wanted = values[rows, -1] if side == "left" else summands[rows].sum(axis=1)
        total = total_grid.nearest(wanted + offset * total_grid.step)
        tried = _fill(summands[rows], total, grids[:-1], tolerance)
        fits = np.abs(tried.sum(axis=1) - total) <= tolerance
        best[rows[fits]] = np.column_stack([tried, total])[fits]
        open_rows[rows[fits]] = False
    return {name: best[:, place] for place, name in enumerate(rule.columns)}


def _onto_hyperplane(values: FloatArray, signs: FloatArray, grids: list[Grid], *, total_moves: bool) -> None:
    """Move `values` to the nearest place in scaled units where their signed sum is 0, within the bounds.

    Each round is exact for the cells that are not yet at a bound, and brings at least one more there or ends.
    """
    lower, upper = (np.array([getattr(grid, end) for grid in grids]) for end in ("lower", "upper"))
    spans = np.array([grid.span for grid in grids])
    weights = (spans / spans.max()) ** 2
    weights[-1] *= total_moves
    for _ in range(len(grids) + 1):
        excess = values @ signs
        if np.abs(excess).max() <= 1e-12 * spans.max():
            break
        down = np.sign(excess)[:, None] * signs
        free = weights * np.where(down > 0, values > lower, values < upper)
        total = free.sum(axis=1)
        share = np.divide(excess, total, out=np.zeros_like(excess), where=total > 0)
        values[:] = np.clip(values - signs * free * share[:, None], lower, upper)


def _fill(summands: FloatArray, total: FloatArray, grids: list[Grid], tolerance: float) -> FloatArray:
    """Summands moved along their grids until they sum to `total`: one of them if that is enough, the finest first, else
    several, the coarsest first."""
    filled = summands.copy()
    order = sorted(range(len(grids)), key=lambda place: grids[place].step)
    for places_, alone in ((order, True), (order[::-1], False)):
        for place in places_:
            missing = total - filled.sum(axis=1)
            moved = grids[place].nearest(filled[:, place] + missing)
            use = np.abs(missing) > tolerance
            if alone:
                use &= np.abs(missing - (moved - filled[:, place])) <= tolerance
            filled[:, place] = np.where(use, moved, filled[:, place])
    return filled


def _move_then(
    rule: Implies, index: int, part: Part, cells: State, chosen: Mapping[tuple[int, str], float]
) -> dict[str, FloatArray]:
    """What `then` names: numbers to the nearest end of their range, categories to the chosen one."""
    moved = {}
    for name, condition in rule.then.items():
        values = cells[name]
        fits = holds(condition, values, part.columns[name]) | np.isnan(values)
        if isinstance(condition, Range):
            grid, target = part.grids[name], values
            if condition.at_least is not None:
                target = np.where(values < condition.at_least, grid.ceil(np.array([condition.at_least])), target)
            if condition.at_most is not None:
                target = np.where(values > condition.at_most, grid.floor(np.array([condition.at_most])), target)
            moved[name] = np.where(fits, values, target)
        else:
            moved[name] = np.where(fits, values, chosen[index, name])
    return moved


def take(state: State, rows: IntArray) -> dict[str, FloatArray]:
    """Some rows of a state."""
    return {name: values[rows] for name, values in state.items()}
