"""From a column's own unit to [0, 1] and back, for columns whose values have an order."""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from schemas.columns import BoundedColumn, DateColumn, DatetimeColumn, IntegerColumn, NumericColumn, OrdinalColumn
from tasks.columns.grids import grid_of
from tasks.columns.numbers import FloatArray, as_numbers, as_values

OrderedColumn = BoundedColumn | OrdinalColumn

_DAY = 86_400e6  # microseconds


def to_scaled(values: pd.Series, column: OrderedColumn) -> FloatArray:
    """Values as parts of their domain, in [0, 1]; values outside the bounds are moved to the nearest one.

    Parameters
    ----------
    values : Series
        As `ingest` gives them.
    column : OrderedColumn

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        NaN where a value is missing. Ordered categories are evenly spaced.
    """
    lower, upper = _ends(column)
    numbers = np.clip(as_numbers(values, column), lower, upper)
    offset = _log_offset(column)
    if offset is None:
        return np.asarray((numbers - lower) / ((upper - lower) or 1.0))
    first, last = math.log(lower + offset), math.log(upper + offset)
    return np.clip((np.log(numbers + offset) - first) / (last - first), 0.0, 1.0)


def from_scaled(scaled: FloatArray, column: OrderedColumn) -> pd.Series:
    """Parts of a domain as values in the column's own unit, inside its bounds and rounded to its grid.

    Parameters
    ----------
    scaled : ndarray of float64, shape (n_rows,)
        Finite; what lies outside [0, 1] is moved to the nearest end.
    column : OrderedColumn

    Returns
    -------
    Series
        float64 (numeric), int64 (integer), datetime64 (dates and times; rounded down to their resolution), or the
        categories' type.
    """
    lower, upper = _ends(column)
    parts = np.clip(scaled, 0.0, 1.0)
    offset = _log_offset(column)
    if offset is None:
        numbers = lower + parts * (upper - lower)
    else:
        first, last = math.log(lower + offset), math.log(upper + offset)
        numbers = np.exp(first + parts * (last - first)) - offset
    numbers = np.clip(numbers, lower, upper)
    grid = grid_of(column)
    if isinstance(column, DateColumn | DatetimeColumn):
        on_grid = grid.floor(np.rint(numbers))
    else:
        on_grid = grid.nearest(numbers)
    return pd.Series(as_values(on_grid, column))


def to_comparable(values: pd.Series, column: OrderedColumn) -> FloatArray:
    """Values as numbers that people can compare, clipped to the bounds; NaN where a value is missing.

    In the column's own unit; dates and times in days after the lower bound, ordered categories numbered from 0.
    """
    lower, upper = _ends(column)
    numbers = np.clip(as_numbers(values, column), lower, upper)
    if isinstance(column, DateColumn | DatetimeColumn):
        return (numbers - lower) / (1.0 if isinstance(column, DateColumn) else _DAY)
    return numbers


def comparable_bounds(column: OrderedColumn) -> tuple[float, float]:
    """The bounds in the unit of `to_comparable`."""
    lower, upper = _ends(column)
    if isinstance(column, DateColumn | DatetimeColumn):
        return 0.0, (upper - lower) / (1.0 if isinstance(column, DateColumn) else _DAY)
    return lower, upper


def on_grid(values: pd.Series, column: OrderedColumn) -> bool:
    """Whether all values are ones that a release may hold: multiples of the precision, whole ones of the resolution."""
    numbers = as_numbers(values, column)
    present = numbers[~np.isnan(numbers)]
    grid = grid_of(column)
    if isinstance(column, DatetimeColumn):  # where clocks leave out a whole one, the next time that there is
        return bool(np.array_equal(as_numbers(pd.Series(as_values(grid.floor(present), column)), column), present))
    return bool(np.allclose(grid.nearest(present), present, rtol=1e-12, atol=0.0))


def level_codes(values: pd.Series, levels: list[str] | list[int] | list[bool]) -> npt.NDArray[np.int64]:
    """The place of each value among `levels`; -1 where it is missing or not among them."""
    index = pd.Index(levels, dtype="boolean" if isinstance(levels[0], bool) else None)
    kind = index.dtype if isinstance(levels[0], bool) else None
    return index.get_indexer(pd.Index(values if kind is None else values.astype(kind))).astype(np.int64)


def level_values(codes: npt.NDArray[np.int64], levels: list[str] | list[int] | list[bool]) -> pd.Series:
    """The level at each place."""
    return pd.Series(levels).iloc[codes].reset_index(drop=True)


def _ends(column: OrderedColumn) -> tuple[float, float]:
    """The bounds as numbers, local to the column's time zone."""
    match column:
        case OrdinalColumn():
            return 0.0, float(len(column.levels) - 1)
        case DateColumn():
            lower, upper = (float(np.datetime64(bound, "D").astype(np.int64)) for bound in column.bounds)
            return lower, upper
        case DatetimeColumn():
            lower, upper = (float(np.datetime64(bound, "us").astype(np.int64)) for bound in column.bounds)
            return lower, upper
        case _:
            return float(column.bounds[0]), float(column.bounds[1])


def _log_offset(column: OrderedColumn) -> float | None:
    return column.log_offset if isinstance(column, NumericColumn | IntegerColumn) else None
