"""Constraints between columns: hand-computed tables for every kind, its edges, and what is asked of each row."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from schemas.table import TableSchema
from tasks.columns.constraints import broken_rows, describe, violations
from tasks.columns.grids import grid_of
from tasks.columns.projection import project
from tasks.columns.witness import contradiction, witness

INTEGER = {"type": "integer", "bounds": [0, 10]}
POSITIVE = {"type": "integer", "bounds": [1, 9]}
HIGH = {"type": "integer", "bounds": [6, 9]}
NUMBER = {"type": "numeric", "bounds": [0.0, 10.0]}
TENTHS = {**NUMBER, "precision": 0.1}
SEX = {"type": "categorical", "categories": ["female", "male", "other"]}
PREGNANT = {"type": "boolean"}
GRADE = {"type": "ordinal", "categories": ["low", "middle", "high"]}
LABEL = {"type": "categorical", "categories": ["u", "v"]}


def table_of(columns: dict[str, Any], *constraints: dict[str, Any]) -> TableSchema:
    return TableSchema.model_validate(
        {"label": "class", "columns": {**columns, "class": LABEL}, "constraints": list(constraints)}
    )


def frame_of(table: TableSchema, **columns: Any) -> pd.DataFrame:
    """Columns as given, and a label where none is given."""
    series = {name: values if isinstance(values, pd.Series) else pd.Series(values) for name, values in columns.items()}
    n_rows = len(next(iter(series.values())))
    series.setdefault("class", pd.Series(["u"] * n_rows, dtype="str"))
    return pd.DataFrame(series)[list(table.columns)]


def projected(columns: dict[str, Any], constraints: list[dict[str, Any]], **values: list[Any]) -> list[list[Any]]:
    """Each given column after projection of a table in which every cell is declared as in `columns`."""
    table = table_of(columns, *constraints)
    frame = frame_of(table, **values)
    result, _ = project(frame, table)
    assert violations(result, table) == [0] * len(constraints)
    return [result[name].tolist() for name in values]


# --- what breaks a constraint


@pytest.mark.parametrize(
    ("columns", "constraint", "values", "broken"),
    [
        ({"a": INTEGER, "b": NUMBER}, {"at_most": ["a", "b"]}, {"a": [1, 1, 1], "b": [1.0, 0.999, 2.0]}, [0, 1, 0]),
        ({"a": NUMBER, "b": NUMBER}, {"at_most": ["a", "b"]}, {"a": [np.nan, 5.0], "b": [0.0, np.nan]}, [0, 0]),
        ({"a": GRADE, "b": GRADE}, {"at_most": ["a", "b"]}, {"a": ["high", "low"], "b": ["low", "low"]}, [1, 0]),
        (
            dict.fromkeys("abc", INTEGER),
            {"sum": ["a", "b"], "equals": "c"},
            {"a": [1, 1], "b": [2, 2], "c": [3, 4]},
            [0, 1],
        ),
        (
            dict.fromkeys("abc", TENTHS),
            {"sum": ["a", "b"], "equals": "c"},
            {"a": [0.1, 0.1, 0.1], "b": [0.2, 0.24, 0.26], "c": [0.3, 0.3, 0.3]},
            [0, 0, 1],
        ),
        (
            dict.fromkeys("abc", NUMBER),
            {"sum": ["a", "b"], "equals": "c"},
            {"a": [1.0, 1.0, np.nan], "b": [2.0, 2.0, 1.0], "c": [3.0 + 9e-9, 3.0 + 11e-9, 9.0]},
            [0, 1, 0],
        ),
        (
            {"s": SEX, "p": PREGNANT},
            {"if": {"s": ["male", "other"]}, "then": {"p": [False]}},
            {"s": ["male", "female", "other", "male"], "p": [True, True, True, False]},
            [1, 0, 1, 0],
        ),
        (
            {"s": SEX, "p": PREGNANT},
            {"if": {"s": ["male"]}, "then": {"p": [False]}},
            {"s": pd.Series(["male", None], dtype="str"), "p": pd.Series([None, True], dtype="boolean")},
            [0, 0],
        ),
        (
            {"a": INTEGER, "b": NUMBER},
            {"if": {"a": {"at_least": 3, "at_most": 5}}, "then": {"b": {"at_most": 2}}},
            {"a": [2, 3, 5, 6, 4], "b": [9.0, 2.1, 2.1, 9.0, 2.0]},
            [0, 1, 1, 0, 0],
        ),
        ({"a": INTEGER, "b": NUMBER}, {"if": {"class": ["v"]}, "then": {"b": {"at_most": 2}}},
         {"a": [1, 1], "b": [9.0, 9.0], "class": ["u", "v"]}, [0, 1]),
    ],
)  # fmt: skip
def test_broken_rows(
    columns: dict[str, Any], constraint: dict[str, Any], values: dict[str, Any], broken: list[int]
) -> None:
    table = table_of(columns, constraint)
    frame = frame_of(table, **values)
    assert broken_rows(frame, table.constraints[0], table).tolist() == [bool(one) for one in broken]
    assert violations(frame, table) == [sum(broken)]


def test_finest_precision_decides_on_sums() -> None:
    mixed = {"a": {**NUMBER, "precision": 0.5}, "b": INTEGER, "c": NUMBER}
    table = table_of(mixed, {"sum": ["a", "b"], "equals": "c"})
    frame = frame_of(table, a=[0.5, 0.5], b=[1, 1], c=[1.75, 1.76])
    assert violations(frame, table) == [1]
    undeclared = table_of({"a": NUMBER, "b": INTEGER, "c": NUMBER}, {"sum": ["a", "b"], "equals": "c"})
    assert violations(frame, undeclared) == [2]


def test_times_are_compared_as_points_in_time() -> None:
    zone = "Europe/Vienna"
    column = {"type": "datetime", "bounds": ["2024-10-27T00:00:00", "2024-10-28T00:00:00"], "timezone": zone}
    table = table_of({"a": column, "b": column}, {"at_most": ["a", "b"]})
    # the clock shows 02:00 to 03:00 twice on that night; the first time in summer, two hours ahead of UTC
    utc = [["2024-10-27T00:30", "2024-10-27T01:10"], ["2024-10-27T01:10", "2024-10-27T00:30"]]
    a, b = (
        pd.Series(pd.to_datetime(times, utc=True)).dt.tz_convert(zone).dt.as_unit("us")
        for times in zip(*utc, strict=True)
    )
    frame = frame_of(table, a=a, b=b)
    assert frame["a"].dt.strftime("%H:%M").tolist() == ["02:30", "02:10"]
    assert broken_rows(frame, table.constraints[0], table).tolist() == [False, True]
    result, changed = project(frame, table)
    assert violations(result, table) == [0] and changed == 1
    pd.testing.assert_frame_equal(result[:1], frame[:1])
    assert result["a"].dtype == frame["a"].dtype


@pytest.mark.parametrize("resolution", ["second", "minute", "hour"])
def test_times_that_clocks_leave_out_become_the_next_there_is(resolution: str) -> None:
    zone = "Europe/Vienna"
    bounds = ["2024-03-30T00:00:00", "2024-04-02T00:00:00"]
    column = {"type": "datetime", "bounds": bounds, "timezone": zone, "resolution": resolution}
    table = table_of({"a": column, "b": column}, {"at_most": ["a", "b"]})
    times = pd.Series(pd.to_datetime(["2024-03-31T04:00", "2024-03-31T01:00"])).dt.as_unit("us").dt.tz_localize(zone)
    result, _ = project(frame_of(table, a=times[:1], b=times[1:].reset_index(drop=True)), table)
    assert violations(result, table) == [0]
    assert [result[name].dt.strftime("%H:%M").tolist() for name in "ab"] == [["03:00"], ["03:00"]]  # not 02:30


def test_undeclared_categories_count_as_other() -> None:
    kind = {"type": "categorical", "categories": ["x"], "other": "rest"}
    table = table_of({"k": kind, "n": INTEGER}, {"if": {"k": ["rest"]}, "then": {"n": {"at_most": 3}}})
    frame = frame_of(table, k=["x", "rest", "unheard of"], n=[9, 9, 9])
    assert broken_rows(frame, table.constraints[0], table).tolist() == [False, True, True]


# --- words


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ({"at_most": ["start", "end"]}, "start <= end"),
        ({"sum": ["a", "b"], "equals": "c"}, "a + b = c"),
        ({"if": {"sex": ["male"]}, "then": {"pregnant": [False]}}, "if sex is male then pregnant is false"),
        ({"if": {"b": {"at_most": 1}}, "then": {"a": {"at_least": 1, "at_most": 2.5}}}, "if b <= 1 then a in [1, 2.5]"),
        (
            {"if": {"sex": ["male", "female", "other"], "b": {"at_least": 1}}, "then": {"a": {"at_most": 7}}},
            "if sex is male, female or other and b >= 1 then a <= 7",
        ),
        ({"if": {"income": {"at_least": 1e6}}, "then": {"a": {"at_most": 7}}}, "if income >= 1000000 then a <= 7"),
    ],
)  # fmt: skip
def test_describe(constraint: dict[str, Any], words: str) -> None:
    day = {"type": "date", "bounds": ["2020-01-01", "2021-01-01"]}
    columns = {**dict.fromkeys("abc", INTEGER), "start": day, "end": day, "sex": SEX, "pregnant": PREGNANT}
    columns["income"] = {"type": "integer", "bounds": [0, 10_000_000]}
    assert describe(table_of(columns, constraint).constraints[0]) == words


# --- the values a cell may hold


@pytest.mark.parametrize(
    ("column", "ends", "value", "below", "above"),
    [
        ({**NUMBER, "precision": 0.1}, (0.0, 10.0), 0.31, 0.3, 0.4),
        ({**NUMBER, "precision": 0.1}, (0.0, 10.0), 0.3, 0.3, 0.3),
        ({"type": "numeric", "bounds": [0.05, 1.14], "precision": 0.1}, (0.1, 1.1), 0.05, 0.1, 0.1),
        ({"type": "numeric", "bounds": [1.1, 2.3], "precision": 0.1}, (1.1, 2.3), 2.31, 2.3, 2.3),
        ({"type": "numeric", "bounds": [-1.0, 1.0], "precision": 0.3}, (-3 * 0.3, 3 * 0.3), 0.5, 0.3, 0.6),
        ({"type": "integer", "bounds": [-3, 7]}, (-3, 7), -0.5, -1, 0),
        ({"type": "integer", "bounds": [2, 7]}, (2, 7), 0.5, 2, 2),
        (NUMBER, (0.0, 10.0), 3.3, 3.3, 3.3),
        (GRADE, (0, 2), 0.5, 0, 1),
    ],
)
def test_grid(column: dict[str, Any], ends: tuple[float, float], value: float, below: float, above: float) -> None:
    grid = grid_of(table_of({"x": column, "y": INTEGER}).features["x"])
    assert (grid.lower, grid.upper) == ends
    assert grid.floor(np.array([value])).tolist() == [below]
    assert grid.ceil(np.array([value])).tolist() == [above]


def test_months_begin_at_the_lower_bound_and_then_on_first_days() -> None:
    column = {"type": "date", "bounds": ["1969-12-15", "1970-03-10"], "resolution": "month"}
    grid = grid_of(table_of({"x": column, "y": INTEGER}).features["x"])
    assert (grid.lower, grid.upper) == (-17, 59)
    days = np.array([-17.0, -16.0, -1.0, 0.0, 30.0, 31.0, 60.0])
    assert grid.floor(days).tolist() == [-17, -17, -17, 0, 0, 31, 59]
    assert grid.ceil(days).tolist() == [-17, 0, 0, 0, 31, 31, 59]


# --- at most


@pytest.mark.parametrize(
    ("first", "second", "before", "after"),
    [
        (INTEGER, INTEGER, (7, 3), (5, 5)),
        (INTEGER, INTEGER, (7, 4), (5, 6)),  # 5.5, the first down and the second up
        (INTEGER, INTEGER, (10, 0), (5, 5)),
        (NUMBER, NUMBER, (7.0, 4.0), (5.5, 5.5)),
        (
            NUMBER,
            {"type": "numeric", "bounds": [0.0, 20.0]},
            (6.0, 1.0),
            (5.0, 5.0),
        ),  # the wide one moves 4 times as far
        (NUMBER, {"type": "numeric", "bounds": [0.0, 4.0]}, (10.0, 3.0), (3 + 7 * 16 / 116,) * 2),
        ({"type": "numeric", "bounds": [5.0, 15.0]}, NUMBER, (6.0, 0.0), (5.0, 5.0)),  # 3 is below the first's bound
        (NUMBER, {"type": "numeric", "bounds": [-8.0, 2.0]}, (9.0, 1.0), (2.0, 2.0)),  # 5 is above the second's
        (TENTHS, TENTHS, (0.7, 0.2), (0.4, 0.5)),  # 0.45
        (TENTHS, {**NUMBER, "precision": 0.5}, (0.9, 0.5), (0.7, 1.0)),
        ({**NUMBER, "precision": 0.5}, TENTHS, (1.0, 0.2), (0.5, 0.6)),
        (INTEGER, NUMBER, (5, 4.5), (4, 4.75)),
        (INTEGER, TENTHS, (5, 4.6), (4, 4.8)),
        (GRADE, GRADE, ("high", "low"), ("middle", "middle")),
        (GRADE, GRADE, ("high", "middle"), ("middle", "high")),
        ({**NUMBER, "transformation": {"log": {"offset": 1}}}, NUMBER, (8.0, 2.0), (5.0, 5.0)),
    ],
)
def test_at_most(first: dict[str, Any], second: dict[str, Any], before: Any, after: Any) -> None:
    (a,), (b,) = projected({"a": first, "b": second}, [{"at_most": ["a", "b"]}], a=[before[0]], b=[before[1]])
    assert (a, b) == (pytest.approx(after[0]), pytest.approx(after[1])) if isinstance(a, float) else (a, b) == after


@pytest.mark.parametrize(
    ("resolution", "before", "after"),
    [
        ("day", ("2020-03-09", "2020-03-01"), ("2020-03-05", "2020-03-05")),
        ("month", ("2020-05-01", "2020-03-01"), ("2020-03-31", "2020-04-01")),
        ("year", ("2021-01-01", "2020-01-01"), ("2020-07-02", "2021-01-01")),
    ],
)
def test_dates_of_two_resolutions(resolution: str, before: tuple[str, str], after: tuple[str, str]) -> None:
    column = {"type": "date", "bounds": ["2019-01-01", "2022-12-31"]}
    table = table_of({"a": column, "b": {**column, "resolution": resolution}}, {"at_most": ["a", "b"]})
    frame = frame_of(table, a=pd.Series(np.array(before[:1], "datetime64[s]")), b=pd.Series(np.array(before[1:], "datetime64[s]")))  # noqa: E501 # fmt: skip
    result, changed = project(frame, table)
    assert changed == 1 and violations(result, table) == [0]
    assert tuple(str(result[name][0].date()) for name in "ab") == after
    assert result["a"].dtype == result["b"].dtype == np.dtype("datetime64[s]")


def test_times_of_two_resolutions() -> None:
    column = {"type": "datetime", "bounds": ["2020-01-01T00:00:00", "2021-01-01T00:00:00"]}
    columns = {"a": {**column, "resolution": "minute"}, "b": {**column, "resolution": "day"}}
    table = table_of(columns, {"at_most": ["a", "b"]})
    a, b = (pd.Series(np.array([time], "datetime64[us]")) for time in ("2020-01-03T09:31", "2020-01-02"))
    result, _ = project(frame_of(table, a=a, b=b), table)
    assert [str(result[name][0]) for name in "ab"] == ["2020-01-02 16:45:00", "2020-01-03 00:00:00"]
    assert result["b"].dtype == np.dtype("datetime64[us]")


# --- sums


@pytest.mark.parametrize(
    ("kinds", "before", "after"),
    [
        ((INTEGER,) * 3, (1, 1, 5), (2, 2, 4)),
        ((INTEGER,) * 3, (1, 1, 4), (2, 2, 4)),  # 5/3, 5/3 and 10/3: the total follows the rounded parts
        ((INTEGER,) * 3, (1, 2, 4), (1, 2, 3)),  # 4/3, 7/3 and 11/3
        ((INTEGER,) * 3, (10, 10, 10), (5, 5, 10)),  # the total would be 40/3
        ((NUMBER,) * 3, (1.0, 1.0, 5.0), (2.0, 2.0, 4.0)),
        ((NUMBER,) * 3, (0.0, 9.0, 3.0), (0.0, 6.0, 6.0)),  # the first would be -2: it stays at its bound
        ((NUMBER,) * 3, (10.0, 10.0, 10.0), (5.0, 5.0, 10.0)),  # the total would be 40/3
        ((TENTHS,) * 3, (0.1, 0.2, 0.5), (0.2, 0.3, 0.5)),  # 1/6, 4/15 and 13/30
        (
            (NUMBER, NUMBER, {"type": "numeric", "bounds": [0.0, 20.0]}),
            (1.0, 1.0, 8.0),
            (2.0, 2.0, 4.0),
        ),  # moves 1 : 1 : 4
        ((INTEGER, TENTHS, TENTHS), (1, 1.0, 3.2), (1, 1.4, 2.4)),  # 1.4, 1.4 and 2.8
        ((INTEGER, INTEGER, {"type": "integer", "bounds": [0, 3]}), (8, 8, 3), (1, 1, 2)),  # 1.5, 1.5 and 3
        ((TENTHS, TENTHS, INTEGER), (1.2, 1.2, 3), (1.6, 1.4, 3)),  # 1.4, 1.4 and 2.8; 0.2 more is needed for 3
    ],
)
def test_sum_of_two(kinds: tuple[dict[str, Any], ...], before: tuple[float, ...], after: tuple[float, ...]) -> None:
    values = {name: [value] for name, value in zip("abc", before, strict=True)}
    columns = dict(zip("abc", kinds, strict=True))
    cells = [cell for (cell,) in projected(columns, [{"sum": ["a", "b"], "equals": "c"}], **values)]
    assert cells == pytest.approx(after)


def test_rounded_parts_that_pass_the_total_give_way() -> None:
    columns = {"a": INTEGER, "b": INTEGER, "c": INTEGER, "d": {"type": "integer", "bounds": [0, 8]}}
    rule = {"sum": ["a", "b", "c"], "equals": "d"}
    cells = projected(columns, [rule], a=[10], b=[10], c=[10], d=[8])  # 8/3 each would be rounded to 9 altogether
    assert cells == [[2], [3], [3], [8]]


def test_grids_that_meet_rarely_still_sum() -> None:
    columns = {"a": {**NUMBER, "precision": 0.5}, "b": {**NUMBER, "precision": 0.3}, "c": INTEGER}
    values: dict[str, list[Any]] = {"a": [3.5, 0.5, 10.0], "b": [0.3, 9.9, 9.9], "c": [9, 1, 10]}
    (a, b, c) = projected(columns, [{"sum": ["a", "b"], "equals": "c"}], **values)
    assert np.array(a) + np.array(b) == pytest.approx(c, abs=0.15)


# --- if, then


def test_numbers_go_to_the_nearest_end_of_their_range() -> None:
    rule = {"if": {"s": ["male"]}, "then": {"x": {"at_least": 2.05, "at_most": 3.98}}}
    sex = ["male", "male", "female", "male"]
    before = [0.0, 9.0, 9.0, 3.0]
    for kind, after in ((NUMBER, [2.05, 3.98, 9.0, 3.0]), (TENTHS, [2.1, 3.9, 9.0, 3.0])):
        (_, x) = projected({"s": SEX, "x": kind}, [rule], s=sex, x=before)
        assert x == after
    (_, n) = projected({"s": SEX, "x": INTEGER}, [rule], s=sex, x=[0, 9, 9, 3])
    assert n == [3, 3, 9, 3]


def test_categories_become_the_most_frequent_allowed_one_of_like_rows() -> None:
    rule = {"if": {"p": [True]}, "then": {"s": ["other", "female"]}}
    # males that are not pregnant, and females that are not, do not count
    p = [True, True, True, True, False, False, False]
    s = ["male", "female", "female", "other", "other", "other", "male"]
    (_, sex) = projected({"p": PREGNANT, "s": SEX}, [rule], p=p, s=s)
    assert sex == ["female", *s[1:]]
    (_, alone) = projected({"p": PREGNANT, "s": SEX}, [rule], p=[True, False], s=["male", "female"])
    assert alone == ["other", "female"]  # none to count: the first that is allowed


def test_label_and_public_columns_stay() -> None:
    site = {"type": "categorical", "categories": [1, 2], "role": "public"}
    size = {"type": "integer", "bounds": [0, 100], "role": "public"}
    columns = {"site": site, "size": size, "s": SEX, "n": INTEGER}
    rule = {"if": {"class": ["v"], "site": [2], "size": {"at_least": 50}}, "then": {"n": {"at_most": 4}}}
    table = table_of(columns, rule)
    frame = frame_of(
        table,
        site=[2, 2, 2, 1],
        size=[50, 49, 50, 50],
        s=["male"] * 4,
        n=[9, 9, 9, 9],
        **{"class": ["v", "v", "u", "v"]},
    )
    result, changed = project(frame, table)
    assert changed == 1
    pd.testing.assert_frame_equal(result, frame.assign(n=[4, 9, 9, 9]))


def test_types_and_missing_values_stay() -> None:
    columns = {
        "a": {**INTEGER, "nullable": True},
        "b": INTEGER,
        "s": {**SEX, "nullable": True},
        "k": {"type": "categorical", "categories": [7, 8], "nullable": True},
        "p": {**PREGNANT, "nullable": True},
    }
    table = table_of(
        columns,
        {"at_most": ["a", "b"]},
        {"if": {"b": {"at_least": 5}}, "then": {"p": [False], "k": [8], "s": ["male"]}},
    )
    frame = frame_of(
        table,
        a=pd.Series([9, None, 1], dtype="Int64"),
        b=pd.Series([4, 6, 1], dtype="int64"),
        s=pd.Series(["female", None, None], dtype="str"),
        k=pd.Series([None, 7, None], dtype="Int64"),
        p=pd.Series([True, None, True], dtype="boolean"),
    )
    result, changed = project(frame, table)
    expected = frame.copy()
    # the first row: 6.5, so 6 and 7, and then the other constraint holds of it
    for name, row, value in (("a", 0, 6), ("b", 0, 7), ("s", 0, "male"), ("p", 0, False), ("k", 1, 8)):
        expected.loc[row, name] = value
    assert changed == 2
    pd.testing.assert_frame_equal(result, expected)


def test_the_index_is_kept_and_no_rows_are_no_trouble() -> None:
    table = table_of({"a": INTEGER, "b": INTEGER}, {"at_most": ["a", "b"]})
    frame = frame_of(table, a=[9, 1], b=[1, 9]).set_index(pd.Index([5, 3]))
    result, _ = project(frame, table)
    assert result.index.tolist() == [5, 3] and result["a"].tolist() == [5, 1]
    empty, changed = project(frame[:0], table)
    assert changed == 0 and len(empty) == 0


# --- several constraints


def test_chains() -> None:
    chain = [{"at_most": ["a", "b"]}, {"at_most": ["b", "c"]}]
    assert projected(dict.fromkeys("abc", INTEGER), chain, a=[3, 9], b=[2, 5], c=[1, 5]) == [[2, 6], [2, 6], [2, 7]]
    a, b, c = (cell for (cell,) in projected(dict.fromkeys("abc", NUMBER), chain, a=[3.0], b=[2.0], c=[1.0]))
    assert a <= b <= c and [a, b, c] == pytest.approx([2.0, 2.0, 2.0], abs=0.1)


def test_sums_of_sums_and_comparisons_together() -> None:
    wide = {"type": "numeric", "bounds": [0.0, 40.0]}
    columns: dict[str, Any] = {**dict.fromkeys("ab", NUMBER), **dict.fromkeys("cde", wide)}
    rules: list[dict[str, Any]] = [
        {"sum": ["a", "b"], "equals": "c"},
        {"sum": ["c", "d"], "equals": "e"},
        {"at_most": ["a", "b"]},
        {"at_most": ["d", "c"]},
    ]
    random = np.random.default_rng(3)
    values = {name: (random.random(500) * columns[name]["bounds"][1]).tolist() for name in columns}
    projected(columns, rules, **values)


def test_the_if_side_gives_way_only_through_another_row() -> None:
    # rules 1 and 2 cannot both hold where a is high: such a row becomes the nearest one that obeys
    rules: list[dict[str, Any]] = [
        {"if": {"a": {"at_least": 5}}, "then": {"b": {"at_most": 2}}},
        {"if": {"a": {"at_least": 5}}, "then": {"b": {"at_least": 3}}},
    ]
    columns = {"a": INTEGER, "b": INTEGER, "c": INTEGER}
    a, b, c = projected(columns, rules, a=[8, 0, 4, 4], b=[9, 9, 1, 8], c=[7, 1, 1, 1])
    assert (a, b, c) == ([4, 0, 4, 4], [8, 9, 1, 8], [7, 1, 1, 1])
    alone = projected(columns, rules, a=[8, 9], b=[9, 9], c=[7, 7])  # no row obeys: public ones do
    assert max(alone[0]) < 5 and alone[2] == [7, 7]


def test_of_very_many_rows_some_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[dict[str, Any]] = [
        {"if": {"a": {"at_least": 5}}, "then": {"b": {"at_most": 2}}},
        {"if": {"a": {"at_least": 5}}, "then": {"b": {"at_least": 3}}},
    ]
    values: dict[str, list[Any]] = {"a": [8, 0, 1, 4, 3], "b": [9, 9, 1, 8, 5]}
    exact, _ = projected({"a": INTEGER, "b": INTEGER}, rules, **values)
    monkeypatch.setattr("tasks.columns.projection._MOST_DISTANCES", 1)
    rough, _ = projected({"a": INTEGER, "b": INTEGER}, rules, **values)  # every fifth of four
    assert (exact[0], rough[0]) == (4, 0)


def test_another_row_must_share_what_the_if_says_of_the_label() -> None:
    rules: list[dict[str, Any]] = [
        {"if": {"class": ["v"]}, "then": {"n": {"at_least": 8}}},
        {"if": {"a": {"at_least": 5}}, "then": {"n": {"at_most": 2}}},
        {"if": {"class": ["u"]}, "then": {"n": {"at_most": 4}}},
    ]
    table = table_of({"a": INTEGER, "n": INTEGER}, *rules)
    frame = frame_of(table, a=[9, 4, 0], n=[3, 3, 9], **{"class": ["v", "u", "v"]})
    result, changed = project(frame, table)
    assert changed == 1
    assert result.to_numpy().tolist() == [[0, 9, "v"], [4, 3, "u"], [0, 9, "v"]]
    lonely, _ = project(frame[:2], table)  # no row of class v obeys: a public row does
    assert violations(lonely, table) == [0, 0, 0] and lonely["class"].tolist() == ["v", "u"]


def test_missing_values_are_not_taken_from_another_row() -> None:
    rules: list[dict[str, Any]] = [
        {"if": {"a": {"at_least": 5}}, "then": {"b": {"at_most": 2}}},
        {"if": {"a": {"at_least": 5}}, "then": {"b": {"at_least": 3}}},
    ]
    nullable = {**INTEGER, "nullable": True}
    table = table_of({"a": nullable, "b": nullable}, *rules)
    cells = {"a": pd.Series([8, None, 1], dtype="Int64"), "b": pd.Series([9, 9, 1], dtype="Int64")}
    result, _ = project(frame_of(table, **cells), table)
    assert result["a"].tolist() == [1, pd.NA, 1] and result["b"].tolist() == [1, 9, 1]


# --- contradictions


@pytest.mark.parametrize(
    ("columns", "constraints", "numbers"),
    [
        (
            {"a": {"type": "integer", "bounds": [5, 9]}, "b": {"type": "integer", "bounds": [0, 4]}},
            [{"at_most": ["a", "b"]}],
            "1",
        ),
        (
            {"a": {"type": "integer", "bounds": [4, 9]}, "b": {"type": "integer", "bounds": [0, 4]}},
            [{"at_most": ["a", "b"]}],
            None,
        ),
        (
            {"a": HIGH, "b": HIGH, "c": INTEGER},
            [{"at_most": ["a", "c"]}, {"sum": ["a", "b"], "equals": "c"}],
            "2",
        ),
        (
            {"a": POSITIVE, "b": POSITIVE, "c": POSITIVE},
            [{"at_most": ["a", "b"]}, {"at_most": ["c", "b"]}, {"sum": ["b", "c"], "equals": "a"}],
            "1 and 3",
        ),
        (
            {"a": INTEGER, "s": SEX},
            [
                {"if": {"class": ["v"]}, "then": {"a": {"at_least": 6}}},
                {"if": {"class": ["u"]}, "then": {"a": {"at_least": 6}}},
                {"if": {"class": ["v"]}, "then": {"a": {"at_most": 5}}},
            ],
            "1 and 3",
        ),
        (
            {"a": INTEGER, "s": SEX, "site": {"type": "integer", "bounds": [0, 9], "role": "public"}},
            [
                {"if": {"site": {"at_most": 4}}, "then": {"a": {"at_least": 6}}},
                {"if": {"site": {"at_least": 4}}, "then": {"a": {"at_most": 5}}},
            ],
            "1 and 2",
        ),
        (
            {"a": INTEGER, "s": SEX, "site": {"type": "integer", "bounds": [0, 9], "role": "public"}},
            [
                {"if": {"site": {"at_most": 4}}, "then": {"a": {"at_least": 6}}},
                {"if": {"site": {"at_least": 5}}, "then": {"a": {"at_most": 5}}},
            ],
            None,
        ),
        (
            {"a": INTEGER, "s": SEX},
            [
                {"if": {"s": ["male"]}, "then": {"a": {"at_least": 6}}},
                {"if": {"s": ["male"]}, "then": {"a": {"at_most": 5}}},
            ],
            None,  # no row may be male
        ),
        ({"a": INTEGER, "s": SEX}, [{"if": {"class": ["v"]}, "then": {"a": {"at_least": 1.2, "at_most": 1.8}}}], "1"),
        (
            {"a": INTEGER, "b": INTEGER, "s": SEX},
            [
                {"if": {"class": ["u"]}, "then": {"a": {"at_least": 5}}},
                {"at_most": ["a", "b"]},
                {"if": {"class": ["u", "v"]}, "then": {"b": {"at_most": 4}}},
            ],
            "1, 2 and 3",
        ),
        (
            dict.fromkeys("abc", NUMBER),
            [
                {"sum": ["a", "b"], "equals": "c"},
                {"if": {"class": ["u"]}, "then": {"c": {"at_least": 4, "at_most": 4}}},
            ],
            None,  # a single total, to be met to 1e-8
        ),
        ({"a": INTEGER, "b": INTEGER}, [], None),
    ],
)  # fmt: skip
def test_contradiction(columns: dict[str, Any], constraints: list[dict[str, Any]], numbers: str | None) -> None:
    table = table_of(columns, *constraints)
    found = contradiction(table)
    rows = witness(table)
    if numbers is None:
        assert found is None and rows is not None
        assert violations(rows, table) == [0] * len(constraints)
        assert set(rows["class"]) == {"u", "v"} and list(rows.columns) == list(table.columns)
    elif "and" in numbers:
        assert found == (
            f"constraints {numbers} cannot hold together within the declared bounds; change one, or the bounds"
        )
    else:
        assert found == f"constraint {numbers} cannot hold within the declared bounds; change it, or the bounds"


def test_a_contradiction_is_not_projected_away() -> None:
    table = table_of(
        {"a": {"type": "integer", "bounds": [5, 9]}, "b": {"type": "integer", "bounds": [0, 4]}},
        {"at_most": ["a", "b"]},
    )
    assert witness(table) is None
    with pytest.raises(ValueError, match="cannot hold together"):
        project(frame_of(table, a=[5], b=[4]), table)
