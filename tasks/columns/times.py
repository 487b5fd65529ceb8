"""Read dates and times: ISO text, and the date and timestamp types of Parquet."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import (
    DateColumn,
    DatetimeColumn,
)
from tasks.columns.cells import (
    Counts,
    Flags,
    Int,
    add_count,
    flags_of,
    is_text,
    series_of_days,
    series_of_times,
    tally_text,
    valid,
    wrong_type,
)

_TIME = (
    r"^(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?P<clock>[Tt ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?"
    r" ?(?P<zone>[Zz]|(?P<sign>[+-])(?P<hours>\d{2})(?::?(?P<minutes>\d{2}))?)?)?$"
)
_DAY = 86_400_000_000  # microseconds
_FIRST_DAY = int(np.datetime64("0001-01-01", "D").astype(np.int64))
_LAST_DAY = int(np.datetime64("9999-12-31", "D").astype(np.int64))


def in_utc(local: npt.NDArray[np.datetime64], timezone: str) -> npt.NDArray[np.datetime64]:
    """Local times of a time zone as times in UTC.

    Parameters
    ----------
    local : ndarray of datetime64[us]
        Times that clocks there show, from 0001-01-02 to 9999-12-30.
    timezone : str
        An IANA time zone.

    Returns
    -------
    ndarray of datetime64[us]
        Where clocks show a time twice, its first occurrence; where they leave it out, a later time.
    """
    first = np.ones(len(local), dtype=bool)
    zoned = pd.Series(local).dt.tz_localize(timezone, ambiguous=first, nonexistent="shift_forward")
    instants = zoned.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("datetime64[us]").copy()
    # where a zone left out a whole day, pandas 3.1 moves backward
    for row in np.flatnonzero(zoned.dt.tz_localize(None).to_numpy("datetime64[us]") < local):
        moment: datetime = local[row].item()
        instants[row] = np.datetime64(moment.replace(tzinfo=ZoneInfo(timezone)).astimezone(UTC).replace(tzinfo=None))
    return instants


_NOT_A_YEAR = "with a year outside 1 to 9999"
_NOT_IN_A_ZONE = "with a time that no time zone can be applied to, before 0001-01-02 or after 9999-12-30"


def read_dates(cells: pa.Array, column: DateColumn, tally: Counts) -> pd.Series:
    """Dates, and the count of what is none."""
    known = valid(cells)
    if is_text(cells.type):
        moments, known, has_clock, _, _ = _parsed(cells)
        known &= ~has_clock
        tally_text(cells, known, "a date (2020-01-31)", column, tally)
        return series_of_days(moments // _DAY, known)
    if pa.types.is_date(cells.type) or (pa.types.is_timestamp(cells.type) and cells.type.tz is None):
        counted, per_day = _counted(cells)
        clock = known & (counted % per_day != 0) & pa.types.is_timestamp(cells.type)
        add_count(tally, "with a time of day in a date column", int(clock.sum()))
        days = counted // per_day
        outside = known & ~clock & ((days < _FIRST_DAY) | (days > _LAST_DAY))
        add_count(tally, _NOT_A_YEAR, int(outside.sum()))
        return series_of_days(days, known & ~clock & ~outside)
    return wrong_type(cells, column, "dates", tally)


def read_datetimes(cells: pa.Array, column: DatetimeColumn, tally: Counts) -> pd.Series:
    """Times, and the count of what is none."""
    if is_text(cells.type):
        moments, known, _, offsets, has_offset = _parsed(cells)
        tally_text(cells, known, "a date and time (2020-01-31T12:00:00)", column, tally)
    elif pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type):
        known = valid(cells)
        counted, per_day = _counted(cells)
        outside = known & ((counted // per_day < _FIRST_DAY) | (counted // per_day > _LAST_DAY))
        add_count(tally, _NOT_A_YEAR, int(outside.sum()))
        known &= ~outside
        counted = np.where(known, counted, 0)
        moments = counted * (_DAY // per_day) if per_day <= _DAY else counted // (per_day // _DAY)
        offsets = np.zeros(len(moments), np.int64)
        zoned = pa.types.is_timestamp(cells.type) and cells.type.tz is not None
        has_offset = known & zoned
    else:
        return wrong_type(cells, column, "dates and times", tally)
    if column.timezone is None:
        add_count(tally, "with a time-zone offset; declare the column's timezone", int((known & has_offset).sum()))
        return series_of_times(moments, known & ~has_offset, None)
    days = (moments - offsets) // _DAY
    edge = known & ((days <= _FIRST_DAY) | (days >= _LAST_DAY))
    add_count(tally, _NOT_IN_A_ZONE, int(edge.sum()))
    known &= ~edge
    moments = np.where(known, moments - offsets, 0)
    local = known & ~has_offset
    moments[local] = in_utc(moments[local].view("datetime64[us]"), column.timezone).astype(np.int64)
    return series_of_times(moments, known, column.timezone)


def _parsed(text: pa.Array) -> tuple[Int, Flags, Flags, Int, Flags]:
    """Text as microseconds of local time, whether it is a date or time at all, whether it has a time of day, the
    offset in microseconds, and whether it has one."""
    parts = pc.extract_regex(text, _TIME)

    def part(name: str) -> Int:
        digits = pc.fill_null(pc.struct_field(parts, name), "")
        return pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).to_numpy()

    def present(name: str) -> Flags:
        return flags_of(pc.not_equal(pc.struct_field(parts, name), ""))

    known = valid(parts)
    year, month, day = (part(name) for name in ("year", "month", "day"))
    months = (np.where(known, year - 1970, 0) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    known &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("datetime64[M]") == months)
    hour, minute, second = (part(name) for name in ("hour", "minute", "second"))
    known &= (hour <= 23) & (minute <= 59) & (second <= 59)
    digits = pc.fill_null(pc.struct_field(parts, "fraction"), "")
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6)
    clock = ((hour * 60 + minute) * 60 + second) * 1_000_000 + digits.cast(pa.int64()).to_numpy()
    hours, minutes = part("hours"), part("minutes")
    known &= (hours <= 23) & (minutes <= 59)
    sign = np.where(flags_of(pc.equal(pc.struct_field(parts, "sign"), "-")), -1, 1)
    offsets = sign * (hours * 60 + minutes) * 60_000_000
    moments = np.where(known, days.astype(np.int64) * _DAY + clock, 0)
    return moments, known, present("clock"), offsets, present("zone")


def _counted(cells: pa.Array) -> tuple[Int, int]:
    """Dates or timestamps in whole units since 1970, and the units of a day; 0 where there is no value."""
    units = {"s": 86_400, "ms": 86_400_000, "us": _DAY, "ns": 1000 * _DAY}
    if pa.types.is_date32(cells.type):
        cells, per_day = cells.cast(pa.int32()), 1
    else:
        per_day = units["ms" if pa.types.is_date64(cells.type) else cells.type.unit]
    return pc.fill_null(cells.cast(pa.int64()), 0).to_numpy(), per_day
