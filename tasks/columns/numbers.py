"""Columns as numbers that can be compared: numbers themselves, dates as days and times as microseconds since 1970, and
categories by their place among the declared ones."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from schemas.columns import (
    BooleanColumn,
    CategoricalColumn,
    DateColumn,
    DatetimeColumn,
    FeatureColumn,
    IntegerColumn,
    NumericColumn,
)

FloatArray = npt.NDArray[np.float64]


def as_numbers(series: pd.Series, column: FeatureColumn, *, instants: bool = False) -> FloatArray:
    """A column as numbers, NaN where a value is missing or not among the categories.

    With `instants` times with a zone are points in time, without it what the clock there shows.
    """
    match column:
        case NumericColumn() | IntegerColumn() | BooleanColumn():
            return series.to_numpy(np.float64, na_value=np.nan)
        case DateColumn() | DatetimeColumn():
            if getattr(series.dt, "tz", None) is not None:
                series = series.dt.tz_convert("UTC").dt.tz_localize(None) if instants else series.dt.tz_localize(None)
            unit = "D" if isinstance(column, DateColumn) else "us"
            stamps = series.to_numpy(dtype="datetime64[us]").astype(f"datetime64[{unit}]")
            return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64).astype(np.float64))
        case _:
            found = pd.Index(column.levels).get_indexer(pd.Index(series)).astype(np.float64)
            unknown = np.nan
            if isinstance(column, CategoricalColumn) and column.other is not None:
                unknown = column.levels.index(column.other)  # type: ignore[arg-type]
            return np.where(series.isna(), np.nan, np.where(found < 0, unknown, found))


def as_values(numbers: FloatArray, column: FeatureColumn) -> object:
    """The inverse of `as_numbers` without missing values, to be written into a column of the released type.

    An hour that clocks show twice is the first one; a time that they leave out is the next that there is.
    """
    match column:
        case NumericColumn():
            return numbers
        case IntegerColumn():
            return np.rint(numbers).astype(np.int64)
        case DateColumn():
            return np.rint(numbers).astype(np.int64).astype("datetime64[D]").astype("datetime64[s]")
        case DatetimeColumn():
            stamps = pd.DatetimeIndex(np.rint(numbers).astype(np.int64).astype("datetime64[us]"))
            if column.timezone is None:
                return stamps
            first = np.ones(len(stamps), dtype=bool)
            return stamps.tz_localize(column.timezone, ambiguous=first, nonexistent="shift_forward")
        case _:
            return pd.Series(column.levels).iloc[numbers.astype(np.int64)].array
