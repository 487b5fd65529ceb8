"""Public constraints between columns: what they say, and which rows break them.

The same check is used on both sides of the border: on the source, where its counts are confidential, and on fabricated
rows. It sees numbers only: numbers themselves, dates as days, times as microseconds, categories by their place.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from schemas.columns import (
    BooleanColumn,
    CategoricalColumn,
    FeatureColumn,
    IntegerColumn,
    NumericColumn,
    OrdinalColumn,
)
from schemas.constraints import AtMost, Condition, Constraint, Implies, Range, SumsTo
from schemas.table import TableSchema
from tasks.columns.grids import step_of
from tasks.columns.numbers import FloatArray, as_numbers

BoolArray = npt.NDArray[np.bool_]
State = Mapping[str, FloatArray]
"""Columns by name as numbers, NaN where a value is missing."""


def violations(frame: pd.DataFrame, table: TableSchema) -> list[int]:
    """How many rows break each constraint of a table.

    Parameters
    ----------
    frame : DataFrame
        Source or released rows.
    table : TableSchema

    Returns
    -------
    list of int
        One count for each of `table.constraints`, in order. Of source rows they are confidential.
    """
    return [int(broken_rows(frame, constraint, table).sum()) for constraint in table.constraints]


def broken_rows(frame: pd.DataFrame, constraint: Constraint, table: TableSchema) -> BoolArray:
    """Which rows break a constraint.

    Parameters
    ----------
    frame : DataFrame
    constraint : Constraint
    table : TableSchema

    Returns
    -------
    ndarray of bool, shape (n_rows,)

    Notes
    -----
    A row with a missing value in any column of a comparison or sum obeys it, as with CHECK in SQL. Under `if` a missing
    value does not meet its condition, under `then` it does. Sums may be off by half of the finest `precision` of their
    columns; where none is declared, by half if all are integers, else by 1e-9 of the largest bound. Times with a
    zone are compared as points in time.
    """
    columns = {name: table.columns[name] for name in constraint.columns}
    state = {name: as_numbers(frame[name], column, instants=True) for name, column in columns.items()}  # type: ignore[arg-type]
    return breaks(constraint, state, columns)  # type: ignore[arg-type]


def describe(constraint: Constraint) -> str:
    """A constraint in words that people read, such as `start <= end` or `if sex is male then pregnant is false`."""
    match constraint:
        case AtMost(at_most=(first, second)):
            return f"{first} <= {second}"
        case SumsTo():
            return f"{' + '.join(constraint.sum)} = {constraint.equals}"
        case Implies():
            left, right = (
                " and ".join(_condition_words(name, condition) for name, condition in side.items())
                for side in (constraint.if_, constraint.then)
            )
            return f"if {left} then {right}"


def _condition_words(name: str, condition: Condition) -> str:
    if isinstance(condition, Range):
        lower, upper = (None if end is None else f"{end:.15g}" for end in (condition.at_least, condition.at_most))
        if lower is None:
            return f"{name} <= {upper}"
        return f"{name} >= {lower}" if upper is None else f"{name} in [{lower}, {upper}]"
    words = [str(value).lower() if isinstance(value, bool) else str(value) for value in condition]
    return f"{name} is {' or '.join([', '.join(words[:-1]), words[-1]] if len(words) > 1 else words)}"


def breaks(constraint: Constraint, state: State, columns: Mapping[str, FeatureColumn]) -> BoolArray:
    """Which rows of `state` break a constraint; see `broken_rows`."""
    match constraint:
        case AtMost(at_most=(first, second)):
            return state[first] > state[second]
        case SumsTo():
            difference = sum((state[name] for name in constraint.sum), -state[constraint.equals])
            return np.abs(difference) > sum_tolerance(constraint, columns)
        case Implies():
            met = all_hold(constraint.if_, state, columns)
            obeyed = [
                holds(condition, state[name], columns[name]) | np.isnan(state[name])
                for name, condition in constraint.then.items()
            ]
            return met & ~np.logical_and.reduce(obeyed)


def holds(condition: Condition, values: FloatArray, column: FeatureColumn) -> BoolArray:
    """Where a condition is met; nowhere where a value is missing."""
    if isinstance(condition, Range):
        lower = -math.inf if condition.at_least is None else condition.at_least
        upper = math.inf if condition.at_most is None else condition.at_most
        return (values >= lower) & (values <= upper)
    return np.isin(values, places(condition, column))


def all_hold(conditions: Mapping[str, Condition], state: State, columns: Mapping[str, FeatureColumn]) -> BoolArray:
    """Where all conditions are met."""
    return np.logical_and.reduce([holds(one, state[name], columns[name]) for name, one in conditions.items()])


def places(condition: Sequence[str | int | bool], column: FeatureColumn) -> list[float]:
    """The listed values as numbers, in the order in which they are listed."""
    assert isinstance(column, CategoricalColumn | OrdinalColumn | BooleanColumn)
    levels: list[str] | list[int] | list[bool] = column.levels
    place = dict(zip(levels, map(float, range(len(levels))), strict=True))
    return [place[value] for value in condition]


def sum_tolerance(constraint: SumsTo, columns: Mapping[str, FeatureColumn]) -> float:
    """By how much parts and total may differ."""
    numbers = [columns[name] for name in constraint.columns]
    assert all(isinstance(column, NumericColumn | IntegerColumn) for column in numbers)
    steps = [step_of(column) for column in numbers]
    if any(isinstance(column, NumericColumn) and column.precision for column in numbers) or all(steps):
        return min(step for step in steps if step) / 2
    return 1e-9 * max(abs(float(end)) for column in numbers for end in column.bounds)  # type: ignore[union-attr,arg-type]
