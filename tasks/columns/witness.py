"""Whether public constraints can hold together: rows drawn from the declared domain that obey them."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from schemas.constraints import Constraint, Implies, Range
from schemas.table import TableSchema
from tasks.columns.constraints import State, holds
from tasks.columns.grids import Grid, grid_of
from tasks.columns.numbers import FloatArray, as_values
from tasks.columns.settle import Part, parts, preferences, settle, take

_SEED = 20_240_917
_DRAWS = (48, 1024)
_MOST_KEYS = 1024


def contradiction(table: TableSchema) -> str | None:
    """What is wrong with constraints that cannot hold together, as a sentence for the author of a spec, or None.

    It is found by drawing rows from the declared domain with a fixed public seed, and projecting them: constraints that
    leave no more than a few odd values may be taken for contradicting.
    """
    if _feasible(table, table.constraints):
        return None
    n_first = next(n for n in range(1, len(table.constraints) + 1) if not _feasible(table, table.constraints[:n]))
    guilty = list(range(n_first))
    for index in range(n_first - 1):
        without = [other for other in guilty if other != index]
        if not _feasible(table, [table.constraints[other] for other in without]):
            guilty = without
    if len(guilty) == 1:
        return f"constraint {n_first} cannot hold within the declared bounds; change it, or the bounds"
    numbers = ", ".join(str(index + 1) for index in guilty[:-1])
    return f"constraints {numbers} and {n_first} cannot hold together within the declared bounds; change one, or the bounds"  # noqa: E501 # fmt: skip


def witness(table: TableSchema) -> pd.DataFrame | None:
    """A few public rows that obey all constraints, some for every class, or None if they seem to contradict each other.

    No data have a part in them: they are drawn from the declared domain with a fixed public seed, and projected.
    """
    random = np.random.default_rng(_SEED)
    grids = {name: grid_of(table.columns[name]) for name in table.read}  # type: ignore[arg-type]
    n_rows = 4 * len(table.classes)
    state = {name: _uniform(grid, n_rows, random) for name, grid in grids.items()}
    state[table.label] = np.repeat(np.arange(len(table.classes), dtype=float), 4)
    for part in parts(table):
        pattern = part.pattern(state)
        for bits in np.unique(pattern, axis=0):
            rows = np.flatnonzero((pattern == bits).all(axis=1))
            found = search(part, take({name: state[name] for name in part.given}, rows[:1]))
            if found is None:
                return None
            for name in part.features:
                state[name][rows] = np.resize(found[name], len(rows))
    columns: dict[str, object] = {}
    for name in table.read:
        columns[name] = as_values(state[name], table.columns[name])  # type: ignore[arg-type]
    return pd.DataFrame(columns)


def search(part: Part, given: State) -> dict[str, FloatArray] | None:
    """Obeying rows for the given values of one row, drawn from the declared domain, or None if none is found."""
    for n_draws in _DRAWS:
        state = _draw(part, given, n_draws)
        found = settle(part, state, preferences(part, state))
        good = np.flatnonzero(~part.broken(found))
        if good.size:
            return take(found, good)
    return None


def _draw(part: Part, given: State, n_rows: int) -> dict[str, FloatArray]:
    """Rows drawn uniformly, in a quarter of which values are likely to be the ends of their domain."""
    random = np.random.default_rng(_SEED)
    state = {name: np.repeat(values, n_rows) for name, values in given.items()}
    for name in part.features:
        grid = part.grids[name]
        values = _uniform(grid, n_rows, random)
        ends = np.where(random.random(n_rows) < 0.5, grid.lower, grid.upper)
        state[name] = np.where((np.arange(n_rows) % 4 == 3) & (random.random(n_rows) < 0.7), ends, values)
    return state


def _uniform(grid: Grid, n_rows: int, random: np.random.Generator) -> FloatArray:
    return grid.nearest(grid.lower + random.random(n_rows) * (grid.upper - grid.lower))


def _feasible(table: TableSchema, constraints: Sequence[Constraint]) -> bool:
    return all(search(part, given) is not None for part in parts(table, constraints) for given in _cases(part))


def _cases(part: Part) -> Iterator[State]:
    """One row of given values for each way in which they can meet what `if` says of them."""
    if not part.given:
        yield {}
        return
    choices = [_representatives(name, part) for name in part.given]
    if math.prod(map(len, choices)) <= _MOST_KEYS:
        rows = np.array(list(itertools.product(*choices)))
    else:
        random = np.random.default_rng(_SEED)
        rows = np.column_stack([random.choice(choice, _MOST_KEYS) for choice in choices])
    state = {name: rows[:, place] for place, name in enumerate(part.given)}
    _, firsts = np.unique(part.pattern(state), axis=0, return_index=True)
    for first in firsts:
        yield take(state, np.array([first]))


def _representatives(name: str, part: Part) -> list[float]:
    """Values of a given column, one for each way in which they can meet the conditions on it."""
    grid, column = part.grids[name], part.columns[name]
    conditions = [rule.if_[name] for rule in part.rules if isinstance(rule, Implies) and name in rule.if_]
    values = [grid.lower, grid.upper]
    if column.type in {"numeric", "integer"}:
        ends = [e for c in conditions if isinstance(c, Range) for e in (c.at_least, c.at_most) if e is not None]
        for end in ends:
            beside = np.array([np.nextafter(end, -np.inf), end, np.nextafter(end, np.inf)])
            values += [*grid.floor(beside).tolist(), *grid.ceil(beside).tolist()]
    else:
        values = np.arange(grid.lower, grid.upper + 1).tolist()
    if column.nullable:
        values.append(np.nan)
    met = np.column_stack([holds(condition, np.array(values), column) for condition in conditions])
    _, firsts = np.unique(met, axis=0, return_index=True)
    return [values[first] for first in sorted(firsts.tolist())]
