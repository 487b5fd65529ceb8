"""Make fabricated rows obey public constraints; released side (post-processing).

Nothing is read but the released rows and the public declaration, so the guarantee is not touched. Rows that break
something are projected onto one constraint after the other; rows that still break something take the constrained
values of the nearest released row that obeys, or of a public row drawn from the declared domain. Constraints that
share no feature have nothing to do with each other and are treated apart.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from schemas.columns import FeatureColumn
from schemas.table import TableSchema
from tasks.columns.constraints import State
from tasks.columns.numbers import FloatArray, as_numbers, as_values
from tasks.columns.settle import Part, parts, preferences, settle, take
from tasks.columns.witness import search

IntArray = npt.NDArray[np.int64]

_MOST_DISTANCES = 10**8
_GIVEN_WEIGHT = 100.0
"""Of public columns and the label in a distance, so that a row that shares them comes before those that do not."""


def project(frame: pd.DataFrame, table: TableSchema) -> tuple[pd.DataFrame, int]:
    """Released rows that obey all constraints of a table.

    Parameters
    ----------
    frame : DataFrame
        Decoded rows, every value inside its domain.
    table : TableSchema

    Returns
    -------
    frame : DataFrame
        Every value inside its domain. Rows that obey, missing values, public columns, the label and the types are as
        they were.
    changed : int
        Number of rows that were changed.

    Raises
    ------
    ValueError
        Some row cannot obey, whatever its values are; `contradiction` tells so beforehand.

    Notes
    -----
    A row's outcome depends on its own values only, but for a category that is set (the most frequent one in the rows
    that meet the same constraint) and for rows that take another row's values.
    """
    result = frame.copy()
    changed = np.zeros(len(frame), dtype=bool)
    for part in parts(table):
        instants = {name: as_numbers(frame[name], column, instants=True) for name, column in part.columns.items()}
        broken = part.broken(instants)
        if not broken.any():
            continue
        state = {name: as_numbers(frame[name], column).copy() for name, column in part.columns.items()}
        rows = np.flatnonzero(broken)
        settled = settle(part, take(state, rows), preferences(part, state))
        for name in part.features:
            state[name][rows] = settled[name]
        _replace(part, state, rows[part.broken(settled)], frame)
        for name in part.features:
            written = rows[~np.isnan(state[name][rows])]
            column = result[name].copy()
            column.iloc[written] = as_values(state[name][written], part.columns[name])
            result[name] = column
        changed |= broken
    return result, int(changed.sum())


def _replace(part: Part, state: dict[str, FloatArray], rows: IntArray, frame: pd.DataFrame) -> None:
    """Give rows that could not be settled the values of the nearest row that obeys, else of a drawn one."""
    if not rows.size:
        return
    original = {name: as_numbers(frame[name].iloc[rows], column) for name, column in part.columns.items()}
    absent = np.column_stack([np.isnan(original[name]) for name in part.features])
    obeying = np.flatnonzero(~part.broken(state))
    patterns = part.pattern(state)
    kinds, kind_of = np.unique(np.column_stack([patterns[rows], absent]), axis=0, return_inverse=True)
    replaced = {}
    for kind, bits in enumerate(kinds):
        mine = np.flatnonzero(kind_of.ravel() == kind)
        needed = [name for name, gone in zip(part.features, bits[len(part.rules) :], strict=True) if not gone]
        fits = (patterns[obeying] == bits[: len(part.rules)]).all(axis=1)
        for name in needed:
            fits &= ~np.isnan(state[name][obeying])
        donors: State | None = take(state, obeying[fits])
        if not fits.any():
            donors = search(part, take({name: original[name] for name in part.given}, mine[:1]))
        if donors is None:
            raise ValueError("constraints cannot hold together within the declared bounds")
        compared = {name: part.columns[name] for name in [*part.given, *needed]}
        nearest = _nearest(take(original, mine), donors, compared, part)
        replaced[kind] = (rows[mine], needed, {name: donors[name][nearest] for name in needed})
    for places_, needed, values in replaced.values():
        for name in needed:
            state[name][places_] = values[name]


def _nearest(queries: State, donors: State, columns: Mapping[str, FeatureColumn], part: Part) -> IntArray:
    """For each query the position of the nearest donor; among some only, evenly spaced, where there are very many."""
    n_queries, n_donors = (len(next(iter(state.values()))) for state in (queries, donors))
    some = np.arange(0, n_donors, 1 + n_donors * n_queries // _MOST_DISTANCES)
    nearest = np.zeros(n_queries, dtype=np.int64)
    chunk = max(1, 2**18 // len(some))
    for start in range(0, n_queries, chunk):
        distances = np.zeros((min(chunk, n_queries - start), len(some)))
        for name, column in columns.items():
            left, right = queries[name][start : start + chunk, None], donors[name][None, some]
            if column.type in {"categorical", "boolean"}:
                apart = (left != right).astype(float)
            else:
                apart = ((left - right) / part.grids[name].span) ** 2
            if name in part.given:
                one_missing = np.isnan(left) != np.isnan(right)
                apart = _GIVEN_WEIGHT * np.where(np.isnan(left) | np.isnan(right), one_missing, apart)
            distances += apart
        nearest[start : start + chunk] = some[distances.argmin(axis=1)]
    return nearest
