"""What holds for every table, its constraints and its released rows after they were projected."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from schemas.columns import BooleanColumn, DateColumn, DatetimeColumn, IntegerColumn, NumericColumn
from schemas.constraints import AtMost, Condition, Constraint, Implies, Range
from schemas.table import TableSchema
from tasks.columns.constraints import broken_rows, violations
from tasks.columns.projection import project
from tasks.columns.witness import contradiction, witness

GRADES = ["low", "middle", "high"]
Project = Callable[[pd.DataFrame, TableSchema], tuple[pd.DataFrame, int]]


@st.composite
def _numbers(draw: st.DrawFn) -> dict[str, Any]:
    lower = draw(st.integers(-4, 4))
    upper = lower + draw(st.integers(4, 20))
    kind = draw(st.sampled_from(["integer", "continuous", 1.0, 0.5, 0.1, 0.3]))
    if kind == "integer":
        return {"type": "integer", "bounds": [lower, upper]}
    precision = {} if kind == "continuous" else {"precision": kind}
    scale = draw(st.sampled_from(["linear", {"log": {"offset": 5}}]))
    return {"type": "numeric", "bounds": [float(lower), float(upper)], "transformation": scale, **precision}


@st.composite
def _times(draw: st.DrawFn, zone: str | None) -> dict[str, Any]:
    first = pd.Timestamp("2024-10-01") + pd.Timedelta(hours=draw(st.integers(0, 500)))
    last = first + pd.Timedelta(hours=draw(st.integers(300, 2000)))
    resolution = draw(st.sampled_from(["second", "minute", "hour", "day"]))
    column = {"type": "datetime", "bounds": [first.isoformat(), last.isoformat()], "resolution": resolution}
    return column if zone is None else {**column, "timezone": zone}


@st.composite
def _dates(draw: st.DrawFn) -> dict[str, Any]:
    first = pd.Timestamp("1969-11-11") + pd.Timedelta(days=draw(st.integers(0, 100)))
    last = first + pd.Timedelta(days=draw(st.integers(200, 900)))
    resolution = draw(st.sampled_from(["day", "month", "year"]))
    return {"type": "date", "bounds": [str(first.date()), str(last.date())], "resolution": resolution}


def _ranges(bounds: list[float]) -> st.SearchStrategy[dict[str, float]]:
    inside = st.integers(math.ceil(bounds[0]), math.floor(bounds[1]))
    return st.builds(lambda a, b: {"at_least": min(a, b), "at_most": max(a, b)}, inside, inside)


@st.composite
def tables(draw: st.DrawFn) -> TableSchema:
    """Tables of every kind of column with one to four constraints that can hold together."""
    zone = draw(st.sampled_from([None, "Europe/Vienna"]))
    columns: dict[str, Any] = {name: draw(_numbers()) for name in ("a", "b", "c")}
    columns |= {name: draw(_dates()) for name in ("start", "end")}
    columns |= {name: draw(_times(zone)) for name in ("from", "to")}
    columns |= {name: {"type": "ordinal", "categories": GRADES} for name in ("least", "most")}
    columns |= {"sex": {"type": "categorical", "categories": ["f", "m", "x"]}, "ill": {"type": "boolean"}}
    for column in columns.values():
        column["nullable"] = draw(st.booleans())
    columns["site"] = {"type": "categorical", "categories": [1, 2], "role": "public"}
    columns["size"] = {"type": "integer", "bounds": [0, 9], "role": "public"}
    columns["class"] = {"type": "categorical", "categories": ["u", "v"]}
    ranges = {name: _ranges(columns[name]["bounds"]) for name in ("a", "b", "c", "size")}
    left = draw(
        st.sampled_from([{"sex": ["m"]}, {"ill": [True]}, {"class": ["u"]}, {"site": [1], "class": ["v"]}])
        | st.builds(lambda range_: {"size": range_}, ranges["size"])
        | st.builds(lambda range_: {"a": range_}, ranges["a"])
    )
    right = draw(
        st.sampled_from([{"least": ["low", "middle"]}, {"most": ["high"]}])
        | st.builds(lambda range_: {"b": range_}, ranges["b"])
        | st.builds(lambda range_: {"c": range_, "most": ["middle"]}, ranges["c"])
    )
    kinds: list[dict[str, Any]] = [
        {"at_most": ["a", "b"]},
        {"at_most": ["b", "c"]},
        {"at_most": ["start", "end"]},
        {"at_most": ["from", "to"]},
        {"at_most": ["least", "most"]},
        {"sum": ["a", "b"], "equals": "c"},
        {"if": left, "then": right},
    ]
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4, unique_by=str))
    table = TableSchema.model_validate({"label": "class", "columns": columns, "constraints": chosen})
    assume(contradiction(table) is None)
    return table


def frames(table: TableSchema, n_rows: int, seed: int) -> pd.DataFrame:
    """Released rows drawn from the domain without a look at the constraints."""
    random = np.random.default_rng(seed)
    columns: dict[str, pd.Series] = {}
    for name in table.read:
        column = table.columns[name]
        share = random.random(n_rows)
        values: Any
        match column:
            case IntegerColumn(bounds=(lower, upper)):
                values = pd.Series(np.rint(lower + share * (upper - lower)).astype(np.int64))
            case NumericColumn(bounds=(lower, upper)):
                values = pd.Series(lower + share * (upper - lower))
                if column.precision is not None:
                    first, last = math.ceil(lower / column.precision), math.floor(upper / column.precision)
                    values = pd.Series(random.integers(first, last + 1, n_rows) * column.precision).clip(lower, upper)
            case DateColumn(bounds=(first_day, last_day)):
                days = np.datetime64(first_day, "D") + (share * (last_day - first_day).days).astype(int)
                unit = {"day": "D", "month": "M", "year": "Y"}[column.resolution]
                days = np.maximum(days.astype(f"datetime64[{unit}]").astype("datetime64[D]"), np.datetime64(first_day))
                values = pd.Series(days.astype("datetime64[s]"))
            case DatetimeColumn(bounds=(first_time, last_time)):
                seconds = (share * (last_time - first_time).total_seconds()).astype(int)
                times = pd.Series(np.datetime64(first_time, "us") + seconds.astype("timedelta64[s]"))
                unit = {"second": "s", "minute": "min", "hour": "h", "day": "D"}[column.resolution]
                values = times.dt.floor(unit).clip(first_time, last_time).dt.as_unit("us")
                if column.timezone is not None:
                    earlier = np.ones(n_rows, dtype=bool)
                    values = values.dt.tz_localize(column.timezone, ambiguous=earlier, nonexistent="shift_forward")
            case _:
                values = pd.Series(column.levels).iloc[(share * len(column.levels)).astype(int)]  # type: ignore[union-attr]
                values = values.reset_index(drop=True)
        if column.nullable:
            if isinstance(column, IntegerColumn | BooleanColumn):
                values = values.astype("Int64" if isinstance(column, IntegerColumn) else "boolean")
            values = values.mask(pd.Series(random.random(n_rows) < 0.2))
        columns[name] = values
    return pd.DataFrame(columns)


def obeys(row: dict[str, Any], constraint: Constraint, table: TableSchema) -> bool:
    """The rule for one row in plain Python, as a second opinion."""

    def met(name: str, condition: Condition, if_missing: bool) -> bool:
        if pd.isna(row[name]):
            return if_missing
        if isinstance(condition, Range):
            lower, upper = condition.at_least, condition.at_most
            return (lower is None or row[name] >= lower) and (upper is None or row[name] <= upper)
        return row[name] in condition

    if isinstance(constraint, Implies):
        if not all(met(name, condition, False) for name, condition in constraint.if_.items()):
            return True
        return all(met(name, condition, True) for name, condition in constraint.then.items())
    values = [row[name] for name in constraint.columns]
    if any(pd.isna(value) for value in values):
        return True
    if isinstance(constraint, AtMost):
        first, second = (GRADES.index(value) if value in GRADES else value for value in values)
        return bool(first <= second)
    columns: list[Any] = [table.columns[name] for name in constraint.columns]
    declared = [column.precision for column in columns if column.type == "numeric" and column.precision]
    if declared or all(column.type == "integer" for column in columns):
        tolerance = min([*declared, *(1 for column in columns if column.type == "integer")]) / 2
    else:
        tolerance = 1e-9 * max(abs(end) for column in columns for end in column.bounds)
    return bool(
        abs(sum(Fraction(float(value)) for value in values[:-1]) - Fraction(float(values[-1])))
        <= tolerance * (1 + 1e-9)
    )


def in_domain(value: Any, column: Any) -> bool:
    """Whether one released value is inside its declared domain."""
    if pd.isna(value):
        return bool(column.nullable)
    match column:
        case IntegerColumn(bounds=(lower, upper)):
            return float(value).is_integer() and lower <= value <= upper
        case NumericColumn(bounds=(lower, upper)):
            multiples = value / (column.precision or 1)
            return lower <= value <= upper and (
                column.precision is None or math.isclose(multiples, round(multiples), abs_tol=1e-9)
            )
        case DateColumn() | DatetimeColumn():
            naive = value.tz_localize(None)
            first, last = (pd.Timestamp(bound) for bound in column.bounds)
            length = {"day": "D", "month": "M", "year": "Y", "hour": "h", "minute": "min", "second": "s"}
            start = naive.to_period(length[column.resolution]).start_time
            return first <= naive <= last and naive in (start, first)
        case _:
            return value in column.levels


def check(projection: Project, frame: pd.DataFrame, table: TableSchema) -> None:
    """All that a projection promises."""
    before = frame.copy(deep=True)
    result, changed = projection(frame, table)
    pd.testing.assert_frame_equal(frame, before)
    broken = np.logical_or.reduce([broken_rows(frame, constraint, table) for constraint in table.constraints])

    assert violations(result, table) == [0] * len(table.constraints)
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.itertuples(index=False, name=None)]
    for constraint in table.constraints:
        assert all(obeys(row, constraint, table) for row in rows)
    for name in table.read:
        assert all(in_domain(row[name], table.columns[name]) for row in rows), name
    assert changed == broken.sum()
    pd.testing.assert_frame_equal(result[~broken], frame[~broken])
    pd.testing.assert_frame_equal(result.isna(), frame.isna())
    fixed = [*table.public, table.label]
    pd.testing.assert_frame_equal(result[fixed], frame[fixed])
    pd.testing.assert_series_equal(result.dtypes, frame.dtypes)
    again, changed_again = projection(result, table)
    assert changed_again == 0
    pd.testing.assert_frame_equal(again, result)


@settings(max_examples=150, deadline=None)
@given(tables(), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_every_projected_row_obeys_inside_its_domain(table: TableSchema, n_rows: int, seed: int) -> None:
    check(project, frames(table, n_rows, seed), table)


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_violations_agree_with_a_plain_reading_of_each_row(table: TableSchema, n_rows: int, seed: int) -> None:
    frame = frames(table, n_rows, seed)
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]
    for constraint in table.constraints:
        expected = [not obeys(row, constraint, table) for row in rows]
        assert broken_rows(frame, constraint, table).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(tables())
def test_witnesses_obey_and_lie_in_the_domain(table: TableSchema) -> None:
    rows = witness(table)
    assert rows is not None and set(rows[table.label]) == set(table.classes)
    assert violations(rows, table) == [0] * len(table.constraints)
    for name in table.read:
        assert all(in_domain(value, table.columns[name]) for value in rows[name])


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.randoms(use_true_random=False), st.integers(0, 2**32 - 1))
def test_order_of_rows_is_irrelevant_where_none_takes_the_values_of_another(
    n_rows: int, random: Any, seed: int
) -> None:
    number = {"type": "integer", "bounds": [0, 30]}
    columns = {
        **dict.fromkeys(["a", "b", "c"], number),
        "x": {"type": "numeric", "bounds": [0.0, 3.0]},
        "y": {"type": "numeric", "bounds": [-1.0, 5.0], "precision": 0.1},
        "sex": {"type": "categorical", "categories": ["f", "m", "x"]},
        "class": {"type": "categorical", "categories": ["u", "v"]},
    }
    constraints = [
        {"sum": ["a", "b"], "equals": "c"},
        {"at_most": ["x", "y"]},
        {"if": {"class": ["u"]}, "then": {"sex": ["f", "x"]}},
    ]
    table = TableSchema.model_validate({"label": "class", "columns": columns, "constraints": constraints})
    frame = frames(table, n_rows, seed)
    order = list(range(n_rows))
    random.shuffle(order)
    direct, _ = project(frame, table)
    shuffled, _ = project(frame.iloc[order].reset_index(drop=True), table)
    pd.testing.assert_frame_equal(shuffled, direct.iloc[order].reset_index(drop=True))


def _identity(frame: pd.DataFrame, table: TableSchema) -> tuple[pd.DataFrame, int]:
    return frame.copy(), 0


def _swap_ends(frame: pd.DataFrame, table: TableSchema) -> tuple[pd.DataFrame, int]:
    """Obeys, but writes to rows that obeyed already."""
    return frame.assign(a=0, b=5), 1


def _leave_the_domain(frame: pd.DataFrame, table: TableSchema) -> tuple[pd.DataFrame, int]:
    broken = frame["a"] > frame["b"]
    return frame.assign(b=frame["b"].mask(broken, frame["a"])), int(broken.sum())


@pytest.mark.parametrize("wrong", [_identity, _swap_ends, _leave_the_domain])
def test_the_same_check_convicts_a_wrong_projection(wrong: Project) -> None:
    columns = {
        "a": {"type": "integer", "bounds": [0, 9]},
        "b": {"type": "integer", "bounds": [0, 5]},
        "class": {"type": "categorical", "categories": ["u", "v"]},
    }
    table = TableSchema.model_validate({"label": "class", "columns": columns, "constraints": [{"at_most": ["a", "b"]}]})
    frame = pd.DataFrame({"a": [9, 1], "b": [2, 3], "class": pd.Series(["u", "v"], dtype="str")})
    check(project, frame, table)
    with pytest.raises(AssertionError):
        check(wrong, frame, table)
