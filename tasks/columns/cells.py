"""The cells of one column of the source as plain text or numbers, and the count of those that cannot be read."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import (
    BooleanColumn,
    DateColumn,
    DatetimeColumn,
    FeatureColumn,
    IntegerColumn,
    NumericColumn,
)

_ADVICE = "leave such cells empty, or list it under table.missing_values"
LONGEST_TEXT_BYTES = 2**20
"""Longest text of a cell that is read; longer ones are no category, number or date."""
MISSING_MARKS = ("NA", "N/A", "#N/A", "<NA>", "NaT", "?", "null", "None", "-")
"""What people write for a missing value, in upper or lower case. Such cells are refused where the mark is no declared
category, since only the steward knows what was meant."""
_PLAIN_NUMBER = r"[+-]?\d+(\.\d*)?"
NOT_A_NUMBER = r"^[+-]?nan$"
TRUE = ("true", "t", "yes", "y", "1", "1.0")
FALSE = ("false", "f", "no", "n", "0", "0.0")

Int = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Counts = dict[str, int]


def is_text(kind: pa.DataType) -> bool:
    """Whether an arrow type is one of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def cells_of(values: pa.ChunkedArray, tally: Counts) -> pa.Array | None:
    """The cells as one array of a plain type, text trimmed; None if the column has text that is not looked at."""
    if too_long := sum(_rows_too_long(chunk) for chunk in values.chunks):
        tally[f"with text longer than {LONGEST_TEXT_BYTES // 2**20} MiB"] = too_long
        return None
    if pa.types.is_dictionary(values.type):
        kind = values.type.value_type
        values = pa.chunked_array([chunk.dictionary_decode() for chunk in values.chunks], type=kind)
    if not is_text(values.type):
        return values.combine_chunks()
    text = values.cast(pa.large_string()).combine_chunks()
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        tally["with text that is not UTF-8"] = sum(not _is_utf8(cell) for cell in text.cast(pa.large_binary()))
        return None
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)


def without_marks(text: pa.Array, column: FeatureColumn, missing_values: Sequence[str]) -> pa.Array:
    """Cells in which declared marks of a missing value are null, but for those that are values of the column."""
    levels = {str(level).lower() for level in getattr(column, "levels", [])}
    if isinstance(column, BooleanColumn):
        levels = {*TRUE, *FALSE}
    marks = [mark.strip().lower() for mark in missing_values if mark.strip().lower() not in levels]
    kept = {float(level) for level in levels if re.fullmatch(_PLAIN_NUMBER, level)}
    numbers = {float(mark) for mark in marks if re.fullmatch(_PLAIN_NUMBER, mark)} - kept
    if is_text(text.type):
        marked = pc.is_in(pc.utf8_lower(text), pa.array(marks, text.type))
        if numbers and isinstance(column, NumericColumn | IntegerColumn):  # -999.0 where -999 is the mark
            plain = pa.array(matches(text, f"^{_PLAIN_NUMBER}$"))
            values = pc.if_else(plain, text, pa.scalar(None, text.type)).cast(pa.float64())
            marked = pc.or_(marked, pc.fill_null(pc.is_in(values, pa.array(numbers, pa.float64())), False))
    elif numbers and (
        pa.types.is_integer(text.type) or pa.types.is_floating(text.type) or pa.types.is_decimal(text.type)
    ):
        single = {float(np.float32(number)) for number in numbers} if text.type == pa.float32() else set()
        marked = pc.is_in(text.cast(pa.float64(), safe=False), pa.array(numbers | single, pa.float64()))
    else:
        return text
    return pc.if_else(marked, pa.scalar(None, text.type), text)


def _rows_too_long(chunk: pa.Array) -> int:
    texts = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
    if not is_text(texts.type):
        return 0
    if pa.types.is_string_view(texts.type):  # pyarrow cannot measure these
        texts = texts.cast(pa.large_string())
    long = pc.fill_null(pc.greater(pc.binary_length(texts), LONGEST_TEXT_BYTES), False)
    if pa.types.is_dictionary(chunk.type) and pc.any(long).as_py():
        long = pc.is_in(chunk.indices, pc.indices_nonzero(long).cast(chunk.indices.type))
    return count_of(long)


def _is_utf8(cell: pa.Scalar) -> bool:
    try:
        (cell.as_py() or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def missing_column(rows: int, column: FeatureColumn) -> pd.Series:
    """A column of missing values."""
    match column:
        case NumericColumn() | IntegerColumn():
            return pd.Series(np.full(rows, np.nan))
        case BooleanColumn():
            return pd.Series(pd.array([None] * rows, dtype="boolean"))
        case DateColumn():
            return series_of_days(np.zeros(rows, np.int64), np.zeros(rows, bool))
        case DatetimeColumn():
            return series_of_times(np.zeros(rows, np.int64), np.zeros(rows, bool), column.timezone)
        case _ if isinstance(column.levels[0], str):
            return pd.Series([None] * rows, dtype="str")
        case _:
            return pd.Series(pd.array([None] * rows, dtype="Int64"))


def wrong_type(cells: pa.Array, column: FeatureColumn, wanted: str, tally: Counts) -> pd.Series:
    """A column of a type that cannot be what was declared: every value of it counts."""
    nested = pa.types.is_nested(cells.type) or isinstance(cells.type, pa.BaseExtensionType)
    kind = "a nested or extended kind" if nested else f"type {cells.type}"  # the names of inner fields may be data
    tally[f"with values of {kind}, not {wanted}"] = len(cells) - cells.null_count
    return missing_column(len(cells), column)


def tally_text(text: pa.Array, read: Flags, what: str, column: FeatureColumn, tally: Counts) -> None:
    """Count the text cells that were not read as `what`, marks of missing values apart."""
    rest = text.filter(pa.array(~read & valid(text)))
    nan = matches(rest, NOT_A_NUMBER)
    if column.nullable:
        nan = np.zeros(len(nan), dtype=bool)
        rest = rest.filter(pa.array(~matches(rest, NOT_A_NUMBER)))
    elif isinstance(column, NumericColumn | IntegerColumn):
        add_count(tally, "with NaN or infinity", int(nan.sum()))
        rest = rest.filter(pa.array(~nan))
    marks = ("NaN", *MISSING_MARKS)
    which = pc.index_in(pc.utf8_lower(rest), pa.array([mark.lower() for mark in marks], text.type))
    for mark, count in zip(marks, np.bincount(which.drop_null().to_numpy(), minlength=len(marks)), strict=True):
        add_count(
            tally,
            f"with `{mark}`, a mark of a missing value; {_ADVICE}",
            int(count),
        )
    add_count(tally, f"with text that is not {what}", which.null_count)


def not_a_number_in(text: pa.Array, column: FeatureColumn) -> Flags:
    """Where text is NaN that stands for a missing value."""
    return matches(text, NOT_A_NUMBER) if column.nullable else np.zeros(len(text), dtype=bool)


def matches(text: pa.Array, pattern: str) -> Flags:
    """Where text matches a pattern; nowhere where it is null."""
    match: Callable[..., pa.Array] = pc.match_substring_regex
    return flags_of(match(text, pattern, ignore_case=True))


def flags_of(flags: pa.Array) -> Flags:
    """As numpy holds them, false where there is no value."""
    return np.array(pc.fill_null(flags, False).to_numpy(zero_copy_only=False), dtype=bool)


def valid(cells: pa.Array) -> Flags:
    """Where cells are not null."""
    return flags_of(cells.is_valid())


def count_of(flags: pa.Array) -> int:
    """How many are true."""
    return int(flags_of(flags).sum())


def add_count(tally: Counts, what: str, count: int) -> None:
    """Add to a tally, if there is something to add."""
    tally[what] = tally.get(what, 0) + count


def series_of_days(days: Int, known: Flags) -> pd.Series:
    """Dates from days since 1970."""
    return pd.Series(np.where(known, days.astype("datetime64[D]"), np.datetime64("NaT")).astype("datetime64[s]"))


def series_of_times(moments: Int, known: Flags, timezone: str | None) -> pd.Series:
    """Microseconds since 1970, of UTC if there is a time zone."""
    series: pd.Series = pd.Series(np.where(known, moments.astype("datetime64[us]"), np.datetime64("NaT")))
    return series if timezone is None else series.dt.tz_localize("UTC").dt.tz_convert(timezone)
