"""Reading one column: every awkward cell is a value, a missing one, or counted, and no message quotes it."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from schemas.columns import CategoricalColumn, Column, IntegerColumn, NumericColumn
from tasks.columns.cells import LONGEST_TEXT_BYTES
from tasks.columns.reading import read_column, with_other
from tasks.columns.times import in_utc

_column: TypeAdapter[Any] = TypeAdapter(Column)

NUMERIC: dict[str, Any] = {"type": "numeric", "bounds": [0.0, 100.0]}
INTEGER: dict[str, Any] = {"type": "integer", "bounds": [0, 2**53]}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
DATE: dict[str, Any] = {"type": "date", "bounds": ["1900-01-01", "2100-01-01"]}
DATETIME: dict[str, Any] = {"type": "datetime", "bounds": ["1900-01-01", "2100-01-01"]}
VIENNA: dict[str, Any] = {**DATETIME, "timezone": "Europe/Vienna"}
TEXT: dict[str, Any] = {"type": "categorical", "categories": ["a", "b", "1"]}
WHOLE: dict[str, Any] = {"type": "categorical", "categories": [0, 1, -2]}
ORDINAL: dict[str, Any] = {"type": "ordinal", "categories": ["low", "high"]}

NAN_OR_INFINITY = "with NaN or infinity"
NO_NUMBER = "with text that is not a number"
THOUSANDS = "with thousands separators; write numbers without them"
FRACTION = "with a fraction in an integer column"
NO_DATE = "with text that is not a date (2020-01-31)"
NO_TIME = "with text that is not a date and time (2020-01-31T12:00:00)"
CLOCK = "with a time of day in a date column"
OFFSET = "with a time-zone offset; declare the column's timezone"
YEAR = "with a year outside 1 to 9999"
EDGE = "with a time that no time zone can be applied to, before 0001-01-02 or after 9999-12-30"
NO_FLAG = "with text that is not true or false, yes or no, 1 or 0"


def mark(sign: str) -> str:
    return f"with `{sign}`, a mark of a missing value; leave such cells empty, or list it under table.missing_values"


def column(declared: dict[str, Any], **more: Any) -> Any:
    return _column.validate_python({**declared, **more})


def text(*cells: str | None) -> pa.ChunkedArray:
    """Cells as a CSV file gives them."""
    return pa.chunked_array([pa.array(cells, pa.string())])


def read(values: pa.ChunkedArray, declared: Any) -> tuple[list[Any], dict[str, int]]:
    series, counts = read_column(values, declared)
    assert len(series) == len(values)
    return [None if missing else value for value, missing in zip(series.tolist(), series.isna(), strict=True)], counts


def parquet(values: Any, kind: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


# Numbers ------------------------------------------------------------------------------------------------------------

NUMBERS: list[tuple[dict[str, Any], pa.ChunkedArray, list[float | None], dict[str, int]]] = [
    (NUMERIC, text("1", " 2.5 ", "-3", "+4", ".5", "6.", "1e2", "1E-2"), [1, 2.5, -3, 4, 0.5, 6, 100, 0.01], {}),
    (NUMERIC, text("1", None, "", "  "), [1, None, None, None], {}),
    (NUMERIC, text("1,000", "1,234,567.8", "1.000,5", "1.000.000", "1 000", "1'000", "1_000", "-1,000"), [None] * 8,
     {THOUSANDS: 8}),
    (NUMERIC, text("1.000"), [1.0], {}),  # a decimal point
    (NUMERIC, text("1,00", "1,5", "1,0000", "0x10", "１"), [None] * 5, {NO_NUMBER: 5}),
    (NUMERIC, text("nan", "inf", "-Infinity", "1e999", "2"), [None] * 4 + [2], {NAN_OR_INFINITY: 4}),
    (NUMERIC | {"nullable": True}, text("nan", "NaN", "inf", "2"), [None, None, None, 2], {NAN_OR_INFINITY: 1}),
    (NUMERIC, text("NA", "n/a", "?", "NULL", "None", "-", "?", "<NA>", "#N/A", "NaT"), [None] * 10,
     {mark("NA"): 1, mark("N/A"): 1, mark("?"): 2, mark("null"): 1, mark("None"): 1, mark("-"): 1, mark("<NA>"): 1,
      mark("#N/A"): 1, mark("NaT"): 1}),
    (NUMERIC, text("1", "x", "1,000", "inf", "?", None, "true"), [1] + [None] * 6,
     {NO_NUMBER: 2, THOUSANDS: 1, NAN_OR_INFINITY: 1, mark("?"): 1}),
    (NUMERIC, parquet([1.5, None, float("nan"), float("inf")]), [1.5, None, None, None], {NAN_OR_INFINITY: 2}),
    (NUMERIC | {"nullable": True}, parquet([1.5, None, float("nan"), float("inf")]), [1.5, None, None, None],
     {NAN_OR_INFINITY: 1}),
    (NUMERIC, parquet([1.5, 2.0, None], pa.float16()), [1.5, 2, None], {}),
    (NUMERIC | {"bounds": [0.1, 0.7]}, parquet([0.1, 0.7, 0.5], pa.float32()), [0.1, 0.7, 0.5], {}),
    (NUMERIC | {"bounds": [-1e100, 1e100]}, parquet([float("inf"), 1.0], pa.float32()), [None, 1],
     {NAN_OR_INFINITY: 1}),
    *[(NUMERIC, parquet([Decimal("1.5"), None], kind), [1.5, None], {}) for kind in
      (pa.decimal32(5, 1), pa.decimal64(12, 3), pa.decimal128(20, 2), pa.decimal256(60, 4))],
    *[(INTEGER, parquet([1, 0, None], kind), [1.0, 0.0, None], {}) for kind in
      (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())],
    (NUMERIC, parquet([True, None]), [None, None], {"with values of type bool, not numbers": 1}),
    (NUMERIC, parquet([[1], [2]]), [None, None], {"with values of a nested or extended kind, not numbers": 2}),
    (NUMERIC, parquet([date(2020, 1, 1)]), [None], {"with values of type date32[day], not numbers": 1}),
    (NUMERIC, parquet([None, None], pa.null()), [None, None], {}),
    (NUMERIC, text(None, None), [None, None], {}),
    (INTEGER, text("1", "2.0", "3e2", "2.5", "-1"), [1, 2, 300, None, -1], {FRACTION: 1}),
    (INTEGER, parquet([1.0, 2.5, float("nan"), float("inf")]), [1, None, None, None],
     {FRACTION: 1, NAN_OR_INFINITY: 2}),
    (INTEGER, parquet([Decimal("1.0"), Decimal("1.5")]), [1, None], {FRACTION: 1}),
    # beyond 2**53 whole numbers are outside any bounds, and stay so
    (INTEGER, parquet([2**53, 2**53 + 1, 2**64 - 1], pa.uint64()), [2**53, 2**53 + 2, 2.0**64], {}),
    (INTEGER, parquet([-(2**53), -(2**53) - 1], pa.int64()), [-(2**53), -(2**53) - 2], {}),
    (INTEGER, text("9007199254740992", "9007199254740993", "9007199254740992.0"), [2**53, 2**53 + 2, 2**53], {}),
    (INTEGER, parquet([Decimal(2**53), Decimal(2**53 + 1)]), [2**53, 2**53 + 2], {}),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "values", "expected", "counts"), NUMBERS)
def test_numbers(
    declared: dict[str, Any], values: pa.ChunkedArray, expected: list[Any], counts: dict[str, int]
) -> None:
    assert read(values, column(declared)) == (expected, counts)
    assert read_column(values, column(declared))[0].dtype == np.float64


@pytest.mark.parametrize("values", [text("-0", "-0.0", "-1e-400"), parquet([-0.0, -0.0, -0.0])])
def test_no_number_is_a_negative_zero(values: pa.ChunkedArray) -> None:
    series, counts = read_column(values, column(NUMERIC))
    assert counts == {} and not np.signbit(series.to_numpy()).any()


# Truth values -------------------------------------------------------------------------------------------------------

BOOLEANS: list[tuple[pa.ChunkedArray, list[bool | None], dict[str, int]]] = [
    (text("true", "T", "Yes", "y", "1", "1.0", " TRUE "), [True] * 7, {}),
    (text("false", "F", "No", "n", "0", "0.0", "FALSE"), [False] * 7, {}),
    (text("true", None, "", "maybe", "2", "?", "nan"), [True] + [None] * 6,
     {NO_FLAG: 2, mark("?"): 1, mark("NaN"): 1}),
    (parquet([True, False, None]), [True, False, None], {}),
    (parquet([1, 0, None, 2, -1], pa.int8()), [True, False, None, None, None], {"with a number that is not 0 or 1": 2}),
    (parquet([1, 0], pa.uint64()), [True, False], {}),
    (parquet([1.0, 0.0, -0.0, 0.5, float("nan"), None]), [True, False, False, None, None, None],
     {"with a number that is not 0 or 1": 2}),
    (parquet([Decimal("1.0"), Decimal("0.0")]), [True, False], {}),
    (parquet(["yes", "no", None]).dictionary_encode(), [True, False, None], {}),
    (parquet(["yes", "no"], pa.string_view()), [True, False], {}),
    (parquet(["yes", "no"], pa.large_string()), [True, False], {}),
    (parquet([date(2020, 1, 1)]), [None], {"with values of type date32[day], not true or false": 1}),
    (parquet([None, None], pa.null()), [None, None], {}),
]  # fmt: skip


@pytest.mark.parametrize(("values", "expected", "counts"), BOOLEANS)
def test_booleans(values: pa.ChunkedArray, expected: list[Any], counts: dict[str, int]) -> None:
    assert read(values, column(BOOLEAN)) == (expected, counts)
    assert read_column(values, column(BOOLEAN))[0].dtype == "boolean"


# Categories ---------------------------------------------------------------------------------------------------------

LEVELS: list[tuple[dict[str, Any], pa.ChunkedArray, list[Any], dict[str, int]]] = [
    (TEXT, text("a", " b ", "1", "c", None, " "), ["a", "b", "1", "c", None, None], {}),
    (TEXT, text("A", "?", "none", "NaN"), ["A", None, None, None], {mark("?"): 1, mark("None"): 1, mark("NaN"): 1}),
    (TEXT | {"nullable": True}, text("a", "nan", "?"), ["a", None, None], {mark("?"): 1}),
    (TEXT | {"categories": ["NA", "none", "nan"]}, text("NA", "none", "nan", "na"), ["NA", "none", "nan", None],
     {mark("NA"): 1}),
    (TEXT | {"other": "?"}, text("a", "?"), ["a", "?"], {}),
    (TEXT, parquet(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None], {}),
    (TEXT, parquet([1, 2, None]), ["1", "2", None], {}),
    (TEXT | {"nullable": True}, parquet([1.0, float("nan")]), ["1", None], {}),
    (TEXT, parquet([1.0, float("nan")]), ["1", None], {mark("NaN"): 1}),
    (TEXT, parquet([["a"]]), [None], {"with values of a nested or extended kind, not text": 1}),
    (TEXT, parquet([None], pa.null()), [None], {}),
    (TEXT, text(None, None), [None, None], {}),
    (ORDINAL, text("low", "high", "middle", "-"), ["low", "high", "middle", None], {mark("-"): 1}),
    (WHOLE, text("0", "1.0", "-2", "7", None), [0, 1, -2, 7, None], {}),
    (WHOLE, text("+1", "1.5", "x", "1,000", "?", "9" * 19), [None] * 6,
     {"with text that is not a whole number": 5, mark("?"): 1}),
    (WHOLE | {"nullable": True}, text("1", "nan"), [1, None], {}),
    (WHOLE, parquet([1, 0, None], pa.uint8()), [1, 0, None], {}),
    (WHOLE, parquet([1, 2**64 - 1], pa.uint64()), [1, 2**53 + 1], {}),  # no category either way
    (WHOLE, parquet([1.0, None, 0.0]), [1, None, 0], {}),
    (WHOLE, parquet([1.0, 0.5, float("nan"), float("inf"), 1e300]), [1, None, None, None, 2**53 + 1],
     {"with a fraction in a column of whole numbers": 1, NAN_OR_INFINITY: 2}),
    (WHOLE, parquet([Decimal("1.0")]), [1], {}),
    (WHOLE, parquet([1, 0, None]).dictionary_encode(), [1, 0, None], {}),
    (WHOLE, parquet([True, False]), [None, None], {"with values of type bool, not whole numbers": 2}),
    (WHOLE, parquet([None], pa.null()), [None], {}),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "values", "expected", "counts"), LEVELS)
def test_categories(
    declared: dict[str, Any], values: pa.ChunkedArray, expected: list[Any], counts: dict[str, int]
) -> None:
    assert read(values, column(declared)) == (expected, counts)
    kind = "Int64" if isinstance(declared["categories"][0], int) else "str"
    assert read_column(values, column(declared))[0].dtype == kind


@pytest.mark.parametrize(
    ("declared", "values", "expected", "mapped", "counts"),
    [
        (TEXT, text("a", "c", None), ["a", "c", None], 0, {}),  # no `other`
        (ORDINAL, text("low", "c"), ["low", "c"], 0, {}),
        (TEXT | {"other": "b"}, text("a", "b", "c", "d", None), ["a", "b", "b", "b", None], 2, {}),
        (TEXT | {"other": "z"}, text("a", "z", "y"), ["a", "z", "z"], 1, {}),
        (TEXT | {"other": "z"}, text("a", "?"), ["a", None], 0, {mark("?"): 1}),
        (WHOLE | {"other": 9}, text("1", "7", "x", "1.5", "9", None), [1, 9, 9, 9, 9, None], 3, {}),
        (WHOLE | {"other": 9}, text("1", "NA"), [1, None], 0, {mark("NA"): 1}),
        (WHOLE | {"other": 9, "nullable": True}, text("1", "nan"), [1, None], 0, {}),
        (WHOLE | {"other": 9}, parquet([1.0, 0.5, 1e300, None]), [1, 9, 9, None], 2, {}),
        (WHOLE | {"other": 9}, parquet([1, 2**63], pa.uint64()), [1, 9], 1, {}),
    ],
)
def test_other(
    declared: dict[str, Any], values: pa.ChunkedArray, expected: list[Any], mapped: int, counts: dict[str, int]
) -> None:
    series, found = read_column(values, column(declared))
    changed, count = with_other(series, column(declared))
    assert [None if pd.isna(value) else value for value in changed.tolist()] == expected
    assert (count, found, changed.dtype) == (mapped, counts, series.dtype)


# Dates and times ----------------------------------------------------------------------------------------------------

DATES: list[tuple[pa.ChunkedArray, list[str | None], dict[str, int]]] = [
    (text("2020-01-31", "1969-12-31", "0001-01-01", "9999-12-31", "2020-02-29"),
     ["2020-01-31", "1969-12-31", "0001-01-01", "9999-12-31", "2020-02-29"], {}),
    (text("2021-02-29", "2020-13-01", "2020-00-10", "2020-01-00", "0000-01-01", "10000-01-01", "31.01.2020",
          "2020-1-31", "20200131", "2020-01-31T00:00", "2020-01-31Z", "12"), [None] * 12, {NO_DATE: 12}),
    (text("2020-01-31", None, "", "?", "nan"), ["2020-01-31", None, None, None, None],
     {mark("?"): 1, mark("NaN"): 1}),
    (parquet([date(2020, 1, 31), date(1900, 2, 28), None]), ["2020-01-31", "1900-02-28", None], {}),
    (parquet([date(2020, 1, 31), date(1950, 1, 1)], pa.date64()), ["2020-01-31", "1950-01-01"], {}),
    *[(parquet([datetime(2020, 1, 31), datetime(1950, 1, 1), datetime(1950, 1, 1, 1), None], pa.timestamp(unit)),
       ["2020-01-31", "1950-01-01", None, None], {CLOCK: 1}) for unit in ("s", "ms", "us", "ns")],
    (parquet([0], pa.timestamp("us", "UTC")), [None], {"with values of type timestamp[us, tz=UTC], not dates": 1}),
    (parquet([20200131]), [None], {"with values of type int64, not dates": 1}),
    (parquet([2932896, 2932897, -719162, -719163], pa.int32()).cast(pa.date32()),
     ["9999-12-31", None, "0001-01-01", None], {YEAR: 2}),
    (parquet([10**15, -(10**15)], pa.timestamp("s")), [None, None], {CLOCK: 2}),
    (parquet([86400 * 10**10], pa.timestamp("s")), [None], {YEAR: 1}),
    (parquet([None], pa.null()), [None], {}),
]  # fmt: skip


@pytest.mark.parametrize(("values", "expected", "counts"), DATES)
def test_dates(values: pa.ChunkedArray, expected: list[str | None], counts: dict[str, int]) -> None:
    series, found = read_column(values, column(DATE))
    assert series.dtype == "datetime64[s]" and found == counts
    assert series.tolist() == [pd.NaT if day is None else pd.Timestamp(day) for day in expected]


TIMES: list[tuple[pa.ChunkedArray, list[str | None], dict[str, int]]] = [
    (text("2020-01-31T12:30:15", "2020-01-31 12:30", "2020-01-31", "1969-12-31T23:59:59.5", "2020-01-31t01:02:03,25"),
     ["2020-01-31T12:30:15", "2020-01-31T12:30:00", "2020-01-31T00:00:00", "1969-12-31T23:59:59.500",
      "2020-01-31T01:02:03.250"], {}),
    (text("2020-01-31T12:30:15.123456789"), ["2020-01-31T12:30:15.123456"], {}),
    (text("0001-01-01T00:00", "9999-12-31T23:59:59"), ["0001-01-01T00:00", "9999-12-31T23:59:59"], {}),
    (text("2020-01-31T24:00", "2020-01-31T12:60", "2020-01-31T12:00:60", "2020-02-30T00:00", "12:00", "2020-01-31T12",
          "2020-01-31T12:00:00.", "2020-01-31T1:00", "0000-01-01T00:00"), [None] * 9, {NO_TIME: 9}),
    (text("2020-01-31T12:00Z", "2020-01-31 12:00+01:00", "2020-01-31T12:00 -0500", "2020-01-31T12:00"),
     [None, None, None, "2020-01-31T12:00"], {OFFSET: 3}),
    (text("2020-01-31T12:00", None, "?", ""), ["2020-01-31T12:00", None, None, None], {mark("?"): 1}),
    *[(parquet([datetime(2020, 1, 31, 12), datetime(1950, 1, 1, 1), None], pa.timestamp(unit)),
       ["2020-01-31T12:00", "1950-01-01T01:00", None], {}) for unit in ("s", "ms", "us", "ns")],
    (parquet([-1, 1999], pa.timestamp("ns")), ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00.000001"], {}),
    (parquet([date(2020, 1, 31), None]), ["2020-01-31", None], {}),
    (parquet([date(2020, 1, 31)], pa.date64()), ["2020-01-31"], {}),
    (parquet([0, None], pa.timestamp("us", "UTC")), [None, None], {OFFSET: 1}),
    (parquet([2**62, -(2**62), 0], pa.timestamp("s")), [None, None, "1970-01-01"], {YEAR: 2}),
    (parquet([2**62, 0], pa.timestamp("us")), [None, "1970-01-01"], {YEAR: 1}),
    (parquet([12.5]), [None], {"with values of type double, not dates and times": 1}),
    (parquet([None], pa.null()), [None], {}),
]  # fmt: skip


@pytest.mark.parametrize(("values", "expected", "counts"), TIMES)
def test_times_without_a_zone(values: pa.ChunkedArray, expected: list[str | None], counts: dict[str, int]) -> None:
    series, found = read_column(values, column(DATETIME))
    assert series.dtype == "datetime64[us]" and found == counts
    assert series.tolist() == [pd.NaT if time is None else pd.Timestamp(time) for time in expected]


ZONED: list[tuple[pa.ChunkedArray, list[str | None], dict[str, int]]] = [
    (text("2020-01-31T12:00", "2020-07-31T12:00"), ["2020-01-31T12:00+01:00", "2020-07-31T12:00+02:00"], {}),
    (text("2020-01-31T12:00Z", "2020-01-31T12:00-05:00", "2020-01-31 12:00 +0530", "2020-01-31T12:00+01"),
     ["2020-01-31T13:00+01:00", "2020-01-31T18:00+01:00", "2020-01-31T07:30+01:00", "2020-01-31T12:00+01:00"], {}),
    (text("2020-10-25T02:30", "2020-03-29T02:30"), ["2020-10-25T02:30+02:00", "2020-03-29T03:00+02:00"], {}),
    (text("2020-01-31T12:00+24:00", "2020-01-31T12:00+01:60"), [None, None], {NO_TIME: 2}),
    (parquet([datetime(2020, 10, 25, 2, 30), None], pa.timestamp("ms")), ["2020-10-25T02:30+02:00", None], {}),
    (parquet([datetime(2020, 1, 31, 12)], pa.timestamp("ns", "America/New_York")), ["2020-01-31T13:00+01:00"], {}),
    (parquet([date(2020, 7, 31)]), ["2020-07-31T00:00+02:00"], {}),
    (text("0001-01-01T00:00", "9999-12-31T12:00", "9999-12-31T00:00Z", "0001-01-02T00:00", "9999-12-30T23:00"),
     [None, None, None, "0001-01-02T00:00", "9999-12-30T23:00"], {EDGE: 3}),
    (parquet([2**62, 0], pa.timestamp("s", "UTC")), [None, "1970-01-01T01:00+01:00"], {YEAR: 1}),
]  # fmt: skip


@pytest.mark.parametrize(("values", "expected", "counts"), ZONED)
def test_times_with_a_zone(values: pa.ChunkedArray, expected: list[str | None], counts: dict[str, int]) -> None:
    series, found = read_column(values, column(VIENNA))
    assert series.dtype == "datetime64[us, Europe/Vienna]" and found == counts
    for got, time in zip(series.tolist(), expected, strict=True):
        if time is None or not time.startswith(("0001", "9999")):
            assert got is pd.NaT if time is None else got == pd.Timestamp(time)
        else:
            assert got.tz_localize(None) == pd.Timestamp(time)


@pytest.mark.parametrize(
    ("zone", "local", "instant"),
    [
        ("UTC", "2020-03-29T02:30", "2020-03-29T02:30"),
        ("Europe/Vienna", "2020-10-25T02:30", "2020-10-25T00:30"),  # shown twice: the first, in summer time
        ("Europe/Dublin", "2020-10-25T01:30", "2020-10-25T00:30"),  # whose winter time is the odd one
        ("Europe/Moscow", "2014-10-26T01:30", "2014-10-25T21:30"),  # not because of summer time
        ("Europe/Vienna", "2020-03-29T02:30", "2020-03-29T01:00"),  # left out: 03:00 in summer time
        ("Pacific/Apia", "2011-12-30T10:00", "2011-12-30T20:00"),  # a day left out: 10:00 the day after
        ("America/New_York", "9999-12-30T23:59", "9999-12-31T04:59"),
    ],
)
def test_local_times_in_utc(zone: str, local: str, instant: str) -> None:
    assert in_utc(np.array([local], "datetime64[us]"), zone).tolist() == [np.datetime64(instant, "us").item()]


@pytest.mark.parametrize("zone", ["Europe/Vienna", "America/New_York", "Asia/Kathmandu", "UTC"])
def test_local_times_agree_with_the_standard_library(zone: str) -> None:
    start = datetime(2019, 12, 31)
    times = [start + timedelta(minutes=37 * step) for step in range(2 * 14_000)]
    expected = [time.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc) for time in times]  # noqa: UP017
    found = in_utc(np.array(times, "datetime64[us]"), zone)
    differ = [e.replace(tzinfo=None) != f for e, f in zip(expected, found.tolist(), strict=True)]
    # in the hour that clocks leave out the library moves by the hour, we to its end
    assert sum(differ) <= 8


# Whatever the type ----------------------------------------------------------------------------------------------------

ALL = [NUMERIC, INTEGER, BOOLEAN, DATE, DATETIME, VIENNA, TEXT, WHOLE, ORDINAL]


@pytest.mark.parametrize("declared", ALL, ids=lambda d: str(d)[:40])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.null(), pa.float64()], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_column_without_values(declared: dict[str, Any], kind: pa.DataType, rows: int) -> None:
    for values in [parquet([None] * rows, kind), pa.chunked_array([], kind)]:
        series, counts = read_column(values, column(declared, nullable=True))
        assert len(series) == len(values) and series.isna().all() and counts == {}
        assert series.dtype == read_column(text("x"), column(declared))[0].dtype
    gaps = read_column(parquet([float("nan")] * rows, pa.float32()), column(declared, nullable=True))
    assert gaps[0].isna().all() and gaps[1] == {}


@pytest.mark.parametrize("declared", ALL, ids=lambda d: str(d)[:40])
@pytest.mark.parametrize("encode", [False, True])
def test_huge_text_is_refused_whatever_the_type(declared: dict[str, Any], encode: bool) -> None:
    values = pa.chunked_array([["x" * LONGEST_TEXT_BYTES, "x" * (LONGEST_TEXT_BYTES + 1), None], ["1"]])
    if encode:
        values = values.dictionary_encode()
    series, counts = read_column(values, column(declared))
    assert counts == {"with text longer than 1 MiB": 1} and series.isna().all()


def test_text_of_the_longest_size_is_read() -> None:
    assert read(text("x" * LONGEST_TEXT_BYTES), column(NUMERIC)) == ([None], {NO_NUMBER: 1})


@pytest.mark.parametrize("declared", ALL, ids=lambda d: str(d)[:40])
def test_text_that_is_not_utf8(declared: dict[str, Any]) -> None:
    wrong = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 3], "i4")), pa.py_buffer(b"\xff\xfe1")]
    )
    series, counts = read_column(pa.chunked_array([wrong]), column(declared))
    assert counts == {"with text that is not UTF-8": 1} and series.isna().all()


@pytest.mark.parametrize(
    ("declared", "series", "expected"),
    [
        (INTEGER, pd.Series([1, None], dtype="Int64"), [1, None]),
        (INTEGER, pd.Series([1, None], dtype="UInt8"), [1, None]),
        (NUMERIC, pd.Series([1.5, None], dtype="Float32"), [1.5, None]),
        (NUMERIC, pd.Series([1.5, 2.5]).astype("category"), [1.5, 2.5]),
        (BOOLEAN, pd.Series([True, None], dtype="boolean"), [True, None]),
        (BOOLEAN, pd.Series([True, False]).astype("category"), [True, False]),
        (TEXT, pd.Series(["a", None], dtype="str"), ["a", None]),
        (TEXT, pd.Series(["a", None], dtype="string"), ["a", None]),
        (TEXT, pd.Series(["a", None], dtype=object), ["a", None]),
        (TEXT, pd.Series(["a", None, "b"]).astype("category"), ["a", None, "b"]),
        (ORDINAL, pd.Series(pd.Categorical(["low", "high"], ["low", "high"], ordered=True)), ["low", "high"]),
        (WHOLE, pd.Series([1, None, 0]).astype("category"), [1, None, 0]),
        (WHOLE, pd.Series([1, None], dtype="int64[pyarrow]"), [1, None]),
        (DATE, pd.Series([date(2020, 1, 31), None]), [pd.Timestamp(2020, 1, 31), None]),
        (DATE, pd.to_datetime(pd.Series(["2020-01-31", None])), [pd.Timestamp(2020, 1, 31), None]),
        (VIENNA, pd.to_datetime(pd.Series(["2020-01-31T12:00Z", None])),
         [pd.Timestamp("2020-01-31T13:00+01:00"), None]),
        (TEXT, pd.Series([None, None]), [None, None]),
    ],
)  # fmt: skip
def test_what_pandas_writes_to_parquet_is_read(
    declared: dict[str, Any], series: pd.Series, expected: list[Any], tmp_path: Any
) -> None:
    pd.DataFrame({"c": series}).to_parquet(tmp_path / "a.parquet")
    values = pq.read_table(tmp_path / "a.parquet").column("c")
    assert read(values, column(declared, nullable=True)) == (expected, {})


def test_several_chunks_with_dictionaries_of_their_own() -> None:
    chunks = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", None]).dictionary_encode()])
    assert read(chunks, column(TEXT)) == (["a", "b", "b", None], {})


def test_no_message_quotes_a_cell() -> None:
    for declared in ALL:
        _, counts = read_column(text("sentinel-5f3a9c", "7.0625031e999", "1,777,333"), column(declared))
        assert not any(sign in what for what in counts for sign in ("sentinel", "0625031", "777"))


def test_declared_marks_of_a_missing_value_are_missing() -> None:
    town = CategoricalColumn(type="categorical", categories=["Graz", "none"], nullable=True)
    cells = pa.chunked_array([["Graz", " ? ", "none", "na", None]])
    series, counts = read_column(cells, town, ["?", "none", "NA"])
    assert series.isna().tolist() == [False, True, False, True, True]  # `none` is a category here
    assert counts == {} and series[2] == "none"
    age = IntegerColumn(type="integer", bounds=(0, 120), nullable=True)
    series, counts = read_column(pa.chunked_array([["12", "NA", "?"]]), age, ["?"])
    assert series.isna().tolist() == [False, True, True]
    assert list(counts.values()) == [1] and "table.missing_values" in next(iter(counts))


@pytest.mark.parametrize(
    "cells",
    [
        pa.chunked_array([["1", "-999.0", " -999", "2"]]),
        pa.chunked_array([[1.0, -999.0, -999.0, 2.0]]),
        pa.chunked_array([pa.array([1, -999, -999, 2], pa.int32())]),
        pa.chunked_array([pa.array([1, -999, -999, 2], pa.float32())]),
        pa.chunked_array([pa.array([Decimal("1.0"), Decimal("-999.0"), Decimal("-999.0"), Decimal("2.0")])]),
    ],
)
def test_a_number_that_stands_for_a_missing_value_does_so_in_every_form(cells: pa.ChunkedArray) -> None:
    amount = NumericColumn(type="numeric", bounds=(0.0, 10.0), nullable=True)
    series, counts = read_column(cells, amount, ["-999"])
    assert series.isna().tolist() == [False, True, True, False] and counts == {}


def test_a_declared_whole_number_category_is_no_mark() -> None:
    code = CategoricalColumn(type="categorical", categories=[1, 9], nullable=True)
    for cells in (pa.chunked_array([["1", "9"]]), pa.chunked_array([[1, 9]]), pa.chunked_array([[1.0, 9.0]])):
        for mark in ("9", "9.0"):
            series, _ = read_column(cells, code, [mark])
            assert series.tolist() == [1, 9]
    flag = _column.validate_python({**BOOLEAN, "nullable": True})
    assert read_column(pa.chunked_array([["Y", "N"]]), flag, ["n"])[0].tolist() == [True, False]
