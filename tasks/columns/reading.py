"""Read one column of the source as its declared type says; confidential side.

Every cell becomes a value of the declared type or a missing one, or it is counted under the words for what is wrong
with it. The words name no value: where they quote something, as the marks of a missing value, it comes from a fixed
public list. Bounds, missing values and undeclared categories are left to `tasks/validate.py`.

What text is read as: numbers with a decimal point and without thousands separators; truth values as people write
them; dates as 2020-01-31; times as 2020-01-31T12:00:00 with a fraction and an offset if there are any. Blanks around
cells are ignored, and a cell of blanks is a missing one.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import (
    BooleanColumn,
    CategoricalColumn,
    DateColumn,
    DatetimeColumn,
    FeatureColumn,
    IntegerColumn,
    NumericColumn,
)
from tasks.columns.cells import (
    FALSE,
    MISSING_MARKS,
    TRUE,
    Counts,
    Flags,
    Int,
    add_count,
    cells_of,
    flags_of,
    is_text,
    matches,
    missing_column,
    not_a_number_in,
    tally_text,
    valid,
    without_marks,
    wrong_type,
)
from tasks.columns.times import read_dates, read_datetimes

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_INFINITY = r"^[+-]?inf(inity)?$"
_THOUSANDS = (
    r"^[+-]?(\d{1,3}(,\d{3})+(\.\d+)?"  # 1,000.5
    r"|\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}"  # 1.000,5 and 1.000.000
    r"|\d{1,3}([ '’_\x{a0}\x{202f}]\d{3})+([.,]\d+)?)$"  # 1 000.5 with some kind of blank, quote or underscore
)
_WHOLE_NUMBER = r"^-?\d{1,18}(\.0*)?$"
_LARGEST_WHOLE = 2**53
"""Up to here every whole number is a double; bounds and categories are not larger."""
_NO_CATEGORY = _LARGEST_WHOLE + 1
"""A whole number that is no category."""


def read_column(
    values: pa.ChunkedArray, column: FeatureColumn, missing_values: Sequence[str] = ()
) -> tuple[pd.Series, Counts]:
    """The column as pandas holds it from here on, and what could not be read.

    Parameters
    ----------
    values : pyarrow.ChunkedArray
        As the file holds them; all text if it is CSV.
    column : FeatureColumn
        The declaration, of any column that is read.
    missing_values : sequence of str, default=()
        Texts that the table declares to stand for a missing value.

    Returns
    -------
    series : pandas.Series
        By type: numeric and integer float64; boolean `boolean`; date datetime64[s]; datetime datetime64[us] in the
        declared time zone or without one; categorical and ordinal `str` or `Int64` as their categories are. Missing
        values are null, and so is every cell that is counted.
    counts : dict of str to int
        Words for what is wrong, such as `with text that is not a number`, and the number of rows it is wrong in;
        empty if nothing is.

    Notes
    -----
    NaN is a missing value of a nullable column, and a fault of any other.
    """
    tally: Counts = {}
    cells = cells_of(values, tally)
    if cells is not None and missing_values:
        cells = without_marks(cells, column, missing_values)
    if cells is not None and column.nullable and pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, cells.type), cells)
    if cells is None or cells.null_count == len(cells):
        return missing_column(len(values), column), tally
    if isinstance(column, NumericColumn | IntegerColumn):
        series = _numbers(cells, column, tally)
    elif isinstance(column, BooleanColumn):
        series = _booleans(cells, column, tally)
    elif isinstance(column, DateColumn):
        series = read_dates(cells, column, tally)
    elif isinstance(column, DatetimeColumn):
        series = read_datetimes(cells, column, tally)
    else:
        series = _levels(cells, column, tally)
    return series, {what: count for what, count in tally.items() if count}


def with_other(series: pd.Series, column: FeatureColumn) -> tuple[pd.Series, int]:
    """A column in which `other` stands for values that are not declared, and how many rows that concerns.

    Parameters
    ----------
    series : pandas.Series
        As `read_column` gives it.
    column : FeatureColumn
        Only categorical columns with an `other` are changed.
    """
    if not isinstance(column, CategoricalColumn) or column.other is None:
        return series, 0
    known = series.isin(column.levels) | series.isna()
    return series.where(known, column.other), int((~known).sum())


def _numbers(cells: pa.Array, column: NumericColumn | IntegerColumn, tally: Counts) -> pd.Series:
    source = cells
    if is_text(cells.type):
        finite, infinite, thousands = (
            matches(cells, pattern) for pattern in (_NUMBER, _INFINITY, _THOUSANDS)
        )  # fmt: skip
        thousands &= ~finite
        add_count(tally, "with NaN or infinity", int(infinite.sum()))
        add_count(tally, "with thousands separators; write numbers without them", int(thousands.sum()))
        tally_text(cells, finite | infinite | thousands, "a number", column, tally)
        cells = pc.if_else(pa.array(finite), cells, pa.scalar(None, cells.type))
    elif not _is_number(cells.type):
        return wrong_type(cells, column, "numbers", tally)
    present = valid(cells)
    numbers = _floats(cells)
    not_finite = present & ~np.isfinite(numbers)
    add_count(tally, "with NaN or infinity", int(not_finite.sum()))
    numbers[not_finite] = np.nan
    if cells.type in (pa.float16(), pa.float32()):
        _restore_bounds(numbers, cells, column)
    if isinstance(column, IntegerColumn):
        with np.errstate(invalid="ignore"):
            fraction = present & ~not_finite & (np.floor(numbers) != numbers)
        add_count(tally, "with a fraction in an integer column", int(fraction.sum()))
        numbers[fraction] = np.nan
        if not pa.types.is_floating(cells.type):
            _keep_beyond(numbers, source)
    return pd.Series(numbers + 0.0)  # no negative zero


def _restore_bounds(numbers: npt.NDArray[np.float64], cells: pa.Array, column: NumericColumn | IntegerColumn) -> None:
    """Short floats cannot hold every bound; a cell that holds the nearest one they can means the bound itself."""
    short = np.float16 if cells.type == pa.float16() else np.float32
    with np.errstate(over="ignore"):
        for bound in column.bounds:
            if np.isfinite(nearest := short(bound)):
                numbers[numbers == float(nearest)] = bound


def _keep_beyond(numbers: npt.NDArray[np.float64], source: pa.Array) -> None:
    """Numbers just beyond 2**53 must not be rounded to it, since that may be a bound."""
    for row in np.flatnonzero(np.abs(numbers) == _LARGEST_WHOLE):
        if abs(Decimal(source[int(row)].as_py())) > _LARGEST_WHOLE:
            numbers[row] = np.copysign(_LARGEST_WHOLE + 2, numbers[row])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _floats(cells: pa.Array) -> npt.NDArray[np.float64]:
    """The nearest doubles, NaN where there is no value."""
    return np.array(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _booleans(cells: pa.Array, column: BooleanColumn, tally: Counts) -> pd.Series:
    if pa.types.is_boolean(cells.type):
        true = flags_of(cells)
        known = valid(cells)
    elif is_text(cells.type):
        lower = pc.utf8_lower(cells)
        true = flags_of(pc.is_in(lower, pa.array(TRUE, cells.type)))
        known = true | flags_of(pc.is_in(lower, pa.array(FALSE, cells.type)))
        tally_text(cells, known, "true or false, yes or no, 1 or 0", column, tally)
    elif _is_number(cells.type):
        numbers = _floats(cells)
        true = numbers == 1
        known = true | (numbers == 0)
        add_count(tally, "with a number that is not 0 or 1", int((valid(cells) & ~known).sum()))
    else:
        return wrong_type(cells, column, "true or false", tally)
    return pd.Series(pd.arrays.BooleanArray(true & known, ~known))


def _levels(cells: pa.Array, column: Any, tally: Counts) -> pd.Series:
    if isinstance(column.levels[0], str):
        return _text_levels(cells, column, tally)
    if is_text(cells.type):
        numbers = _whole_text(cells, column, tally)
    elif _is_number(cells.type):
        numbers = _whole_numbers(cells, column, tally)
    else:
        return wrong_type(cells, column, "whole numbers", tally)
    return pd.Series(pd.arrays.IntegerArray(*numbers))


def _text_levels(cells: pa.Array, column: Any, tally: Counts) -> pd.Series:
    if not is_text(cells.type):
        try:
            cells = cells.cast(pa.large_string())
        except pa.ArrowException:
            return wrong_type(cells, column, "text", tally)
    declared = flags_of(pc.is_in(cells, pa.array(column.levels, pa.large_string())))
    lower = pc.utf8_lower(cells)
    marks = pa.array([mark.lower() for mark in ("NaN", *MISSING_MARKS)], pa.large_string())
    marked = flags_of(pc.is_in(lower, marks)) & ~declared
    tally_text(cells, ~marked, "", column, tally)
    return pd.Series(pc.if_else(pa.array(marked), pa.scalar(None, cells.type), cells).to_pandas(), dtype="str")


def _whole_text(cells: pa.Array, column: Any, tally: Counts) -> tuple[Int, Flags]:
    whole = matches(cells, _WHOLE_NUMBER)
    text = pc.replace_substring_regex(cells, r"\.0*$", "")
    numbers = pc.if_else(pa.array(whole), text, pa.scalar("0", text.type)).cast(pa.int64()).to_numpy()
    unread = ~whole & valid(cells) & ~not_a_number_in(cells, column)
    if getattr(column, "other", None) is not None:  # any text but a mark of a missing value is some other value
        marks = pa.array([mark.lower() for mark in ("NaN", *MISSING_MARKS)], cells.type)
        some_other = unread & ~flags_of(pc.is_in(pc.utf8_lower(cells), marks))
        numbers = np.where(some_other, _NO_CATEGORY, numbers)
        whole |= some_other
    tally_text(cells, whole, "a whole number", column, tally)
    return numbers, ~whole


def _whole_numbers(cells: pa.Array, column: Any, tally: Counts) -> tuple[Int, Flags]:
    present = valid(cells)
    if pa.types.is_integer(cells.type):
        numbers = pc.fill_null(cells, 0).to_numpy()
        beyond = (numbers > _LARGEST_WHOLE) | (numbers < -_LARGEST_WHOLE)
        return np.where(beyond, _NO_CATEGORY, numbers).astype(np.int64), ~present
    floats = _floats(cells)
    not_finite = present & ~np.isfinite(floats)
    add_count(tally, "with NaN or infinity", int(not_finite.sum()))
    known = present & ~not_finite
    floats[~known] = 0.0
    fraction = known & (np.floor(floats) != floats)
    beyond = known & (np.abs(floats) > _LARGEST_WHOLE)
    if getattr(column, "other", None) is None:
        add_count(tally, "with a fraction in a column of whole numbers", int(fraction.sum()))
        known &= ~fraction
    whole = np.where(beyond, 0.0, floats).astype(np.int64)
    return np.where(fraction | beyond, _NO_CATEGORY, whole), ~known
