"""The suite on source and release, and what validation makes of its outcome; with Great Expectations itself."""

import logging
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schemas.errors import StepFailed, ValidationFailed
from schemas.table import TableSchema
from tasks.step import observed_by
from tasks.tables import SourceTable
from tasks.validate import run_suite, validate, validate_release
from tests.sources import source_of

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"
UNIQUE = "expect_column_values_to_be_unique"
COLUMNS_MATCH = "expect_table_columns_to_match_set"

KIND: dict[str, Any] = {"type": "categorical", "categories": ["x", "y"]}
NUMERIC: dict[str, Any] = {"type": "numeric", "bounds": [0.0, 10.0]}
INTEGER: dict[str, Any] = {"type": "integer", "bounds": [0, 10]}
DATE: dict[str, Any] = {"type": "date", "bounds": ["1950-01-01", "2020-12-31"]}
DATETIME: dict[str, Any] = {"type": "datetime", "bounds": ["1950-01-01", "2020-10-25T02:30:00"]}
VIENNA: dict[str, Any] = {**DATETIME, "timezone": "Europe/Vienna"}
ORDINAL: dict[str, Any] = {"type": "ordinal", "categories": [1, 2, 3]}
TEXT: dict[str, Any] = {"type": "categorical", "categories": ["a", "b"]}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
NULLABLE: dict[str, Any] = {"nullable": True}


def schema(columns: dict[str, Any], **more: Any) -> TableSchema:
    return TableSchema.model_validate({"label": "kind", "columns": {**columns, "kind": KIND}, **more})


def with_kinds(columns: dict[str, pd.Series]) -> pd.DataFrame:
    n_rows = len(next(iter(columns.values())))
    kinds = pd.Series((["x", "y"] * n_rows)[:n_rows], dtype="str")
    return pd.DataFrame({**columns, "kind": kinds})


def times(*values: str | None, zone: str | None = None) -> pd.Series:
    series = pd.Series(pd.to_datetime(pd.Series(list(values)), utc=zone is not None, format="ISO8601")).astype(
        "datetime64[us]" if zone is None else "datetime64[us, UTC]"
    )
    return series if zone is None else series.dt.tz_convert(zone)


def days(*values: str | None) -> pd.Series:
    return pd.Series(np.array([value or "NaT" for value in values], "datetime64[s]"))


OUTCOMES: list[tuple[dict[str, Any], pd.Series, dict[str, int]]] = [
    (NUMERIC, pd.Series([0.0, 10.0, 5.0]), {NOT_NULL: 0, BETWEEN: 0}),
    (NUMERIC, pd.Series([np.nextafter(0, -1), np.nextafter(10, 11), np.nan]), {NOT_NULL: 1, BETWEEN: 2}),
    (NUMERIC | NULLABLE, pd.Series([11.0, np.nan, np.nan]), {BETWEEN: 1}),
    (INTEGER, pd.Series([0.0, 10.0, np.nan]), {NOT_NULL: 1, BETWEEN: 0}),
    (INTEGER, pd.Series([0, 10, 11, -1]), {NOT_NULL: 0, BETWEEN: 2}),
    (INTEGER, pd.Series([0, 10, 11, None], dtype="Int64"), {NOT_NULL: 1, BETWEEN: 1}),
    (INTEGER | {"bounds": [0, 2**53]}, pd.Series([2.0**53, 2.0**53 + 2]), {NOT_NULL: 0, BETWEEN: 1}),
    (DATE, days("1950-01-01", "2020-12-31", "1949-12-31", "2021-01-01", None), {NOT_NULL: 1, BETWEEN: 2}),
    (DATE, days("0001-01-01", "9999-12-31"), {NOT_NULL: 0, BETWEEN: 2}),
    (DATETIME, times("1950-01-01", "2020-10-25T02:30:00"), {NOT_NULL: 0, BETWEEN: 0}),
    (DATETIME, times("1949-12-31T23:59:59.999999", "2020-10-25T02:30:00.000001", None), {NOT_NULL: 1, BETWEEN: 2}),
    # bounds are what clocks there show; 02:30 is shown twice that night
    (VIENNA, times("1949-12-31T23:00Z", "2020-10-25T00:30Z", "2020-10-25T01:30Z", zone="Europe/Vienna"),
     {NOT_NULL: 0, BETWEEN: 0}),
    (VIENNA, times("1949-12-31T22:59:59Z", "2020-10-25T01:30:01Z", None, zone="Europe/Vienna"),
     {NOT_NULL: 1, BETWEEN: 2}),
    (VIENNA | {"bounds": ["0001-01-02", "9999-12-30"]},
     times("2020-03-29T01:00Z", zone="Europe/Vienna"), {NOT_NULL: 0, BETWEEN: 0}),
    (ORDINAL, pd.Series([1, 2, 3, None, 4], dtype="Int64"), {NOT_NULL: 1, IN_SET: 1}),
    (ORDINAL, pd.Series([1, 2, 0]), {NOT_NULL: 0, IN_SET: 1}),
    (ORDINAL, pd.Series(["1", "2", "3"], dtype="str"), {NOT_NULL: 0, IN_SET: 3}),
    (TEXT, pd.Series(["a", "b", "A", "", None], dtype="str"), {NOT_NULL: 1, IN_SET: 2}),
    (TEXT | {"other": "z"}, pd.Series(["a", "z"], dtype="str"), {NOT_NULL: 0, IN_SET: 0}),
    (TEXT | NULLABLE, pd.Series([None, None], dtype="str"), {IN_SET: 0}),
    (BOOLEAN, pd.Series([True, False]), {NOT_NULL: 0, IN_SET: 0}),
    (BOOLEAN, pd.Series([True, None], dtype="boolean"), {NOT_NULL: 1, IN_SET: 0}),
    (BOOLEAN, pd.Series([1, 0]), {NOT_NULL: 0, IN_SET: 2}),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "values", "expected"), OUTCOMES)
def test_outcomes(declared: dict[str, Any], values: pd.Series, expected: dict[str, int]) -> None:
    frame = with_kinds({"c": values})
    checks = run_suite(frame, schema({"c": declared, "n": NUMERIC}), ["c", "kind"])
    assert {check.expectation: check.unexpected_count for check in checks if check.column == "c"} == expected
    assert all(check.success == (check.unexpected_count == 0) for check in checks if check.column == "c")
    assert all(check.element_count == len(values) for check in checks if check.column == "c")
    assert all(check.success for check in checks if check.column != "c")


def test_every_column_has_its_own_count_whatever_the_order_and_names() -> None:
    """Columns that are evaluated together do not get into each other's counts."""
    names = ["A", "a", "with blank", 'q"uote', "`t`", "two\nlines", "values", "lower", "$x", "ß", "SS", "[a]", "0"]
    generator = np.random.default_rng(5)
    declared: dict[str, Any] = {}
    columns: dict[str, pd.Series] = {}
    expected: dict[tuple[str, str], int] = {}
    for place, name in enumerate(names):
        below, missing = place, 20 - place
        declared[name] = {"type": "integer", "bounds": [10 * place + 1, 10 * place + 5], **NULLABLE}
        numbers = np.concatenate([np.full(below, 10 * place), np.full(missing, np.nan), np.full(10, 10 * place + 3)])
        columns[name] = pd.Series(generator.permutation(numbers))
        expected[name, BETWEEN] = below
        declared[f"{name} set"] = {"type": "categorical", "categories": [f"{place}", "all"]}
        cells = [f"{place + 1}"] * below + [f"{place}"] * missing + ["all"] * 10
        columns[f"{name} set"] = pd.Series(generator.permutation(np.array(cells, dtype=object)), dtype="str")
        expected[f"{name} set", IN_SET] = below
        expected[f"{name} set", NOT_NULL] = 0
    frame = with_kinds(columns)[[*reversed(columns), "kind"]]
    checks = run_suite(frame, schema(declared))
    found = {(c.column, c.expectation): c.unexpected_count for c in checks if c.column not in (None, "kind")}
    assert found == expected
    assert checks[0].expectation == COLUMNS_MATCH and checks[0].success


def test_columns_in_more_than_one_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.validate._MOST_CELLS", 25)  # two columns at a time
    frame = with_kinds({f"c{n}": pd.Series([11.0] * n + [1.0] * (10 - n)) for n in range(7)})
    checks = run_suite(frame, schema({f"c{n}": NUMERIC for n in range(7)}))
    assert [c.unexpected_count for c in checks if c.expectation == BETWEEN] == list(range(7))


def test_the_release_has_identifiers_and_other_types() -> None:
    table = schema({"id": {"type": "identifier"}, "n": INTEGER, "b": BOOLEAN, "gone": {"role": "drop"}})
    frame = with_kinds({"id": pd.Series(["r-1", "r-2", "r-3"], dtype="str"), "n": pd.Series([1, 2, 3]),
                        "b": pd.Series([True, False, True])})  # fmt: skip
    checks = run_suite(frame, table, table.released)
    assert all(check.success for check in checks)
    assert [(c.expectation, c.column) for c in checks] == [
        (COLUMNS_MATCH, None), (NOT_NULL, "id"), (NOT_NULL, "n"), (NOT_NULL, "b"), (NOT_NULL, "kind"),
        (BETWEEN, "n"), (IN_SET, "b"), (IN_SET, "kind"), (UNIQUE, "id"),
    ]  # fmt: skip
    validate_release([frame], table)
    assert all(check.success for check in run_suite(frame.drop(columns="id"), table))  # as the source has them
    for name, values, fault in [
        ("id", pd.Series(["r-1", "r-1", None], dtype="str"), f"{NOT_NULL} of column `id`; {UNIQUE} of column `id`"),
        ("n", pd.Series([1, 2, 11]), f"{BETWEEN} of column `n`"),
        ("gone", pd.Series([1, 2, 3]), COLUMNS_MATCH),
    ]:
        with pytest.raises(StepFailed, match=fault):
            validate_release([frame.assign(**{name: values})], table)


@pytest.mark.parametrize(
    ("columns", "matches"),
    [
        (["a", "b", "kind"], True),
        (["kind", "b", "a"], True),
        (["a", "kind"], False),
        (["a", "b", "kind", "c"], False),
        (["A", "b", "kind"], False),
        (["a", "a", "b", "kind"], False),
    ],
)
def test_columns_must_match(columns: list[str], matches: bool) -> None:
    frame = pd.DataFrame({"a": [1.0], "b": [1.0], "kind": ["x"], "c": [1.0], "A": [1.0]})[columns]
    checks = run_suite(frame, schema({"a": NUMERIC, "b": NUMERIC}))
    assert checks[0].expectation == COLUMNS_MATCH and checks[0].success is matches


def test_a_frame_without_rows() -> None:
    checks = run_suite(with_kinds({"a": pd.Series([], dtype=float)}), schema({"a": NUMERIC}))
    assert all(check.success for check in checks)


def test_the_suite_quotes_and_logs_nothing(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    frame = with_kinds({"a": pd.Series([7.0625031, 99.0]), "t": pd.Series(["sentinel-5f3a9c", "a"], dtype="str")})
    with caplog.at_level(logging.INFO):
        checks = run_suite(frame, schema({"a": NUMERIC, "t": TEXT}))
    said = capfd.readouterr()
    for text in [repr(checks), caplog.text, said.out, said.err]:
        assert "sentinel" not in text and "0625031" not in text


@pytest.mark.parametrize("n_columns", [500])
def test_many_columns_are_asked_about_together(n_columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One expectation a column takes above 3 s for 500 columns, and about a minute for 4000."""
    from great_expectations.datasource.fluent.interfaces import Batch

    evaluated: list[str] = []
    evaluate = Batch.validate

    def noted(batch: Batch, suite: Any, **options: Any) -> Any:
        evaluated.extend(type(expectation).__name__ for expectation in suite.expectations)
        return evaluate(batch, suite, **options)

    monkeypatch.setattr(Batch, "validate", noted)
    generator = np.random.default_rng(0)
    frame = with_kinds({f"c{n}": pd.Series(generator.random(800)) for n in range(n_columns)})
    declared = {f"c{n}": {"type": "numeric", "bounds": [0.0, 0.5 + n / 1000]} for n in range(n_columns)}
    checks = run_suite(frame, schema(declared))
    assert sorted(evaluated) == [
        *["ExpectColumnPairValuesAToBeGreaterThanB"] * 2,  # both bounds
        "ExpectColumnValuesToBeInSet",  # the label
        "ExpectColumnValuesToNotBeNull",
        "ExpectTableColumnsToMatchSet",
    ]
    outside = [int((frame[f"c{n}"] > 0.5 + n / 1000).sum()) for n in range(n_columns)]
    assert [check.unexpected_count for check in checks if check.expectation == BETWEEN] == outside


# What validation makes of it -----------------------------------------------------------------------------------------


class _Notes:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def started(self, step: str) -> None: ...

    def advanced(self, step: str, done: int, total: int) -> None: ...

    def finished(self, step: str, seconds: float) -> None: ...

    def noted(self, text: str) -> None:
        self.texts.append(text)


def source(columns: dict[str, pd.Series], mapped: dict[str, int] | None = None) -> SourceTable:
    return source_of(with_kinds(columns), schema({"n": NUMERIC}), mapped, rows=4)  # in pieces


def padded(*values: Any, rows: int = 10, fill: Any = 1.0, dtype: str | None = None) -> pd.Series:
    return pd.Series([*values, *[fill] * (rows - len(values))], dtype=dtype)


FAULTS: list[tuple[dict[str, Any], pd.Series, str]] = [
    (NUMERIC, padded(np.nan, np.nan), "source.csv: column `c`: 2 of 10 rows have no value; fill or remove them, or use "
     "nullable: true or role: drop"),
    (NUMERIC | {"outside_bounds": "refuse"}, padded(-1.0, 11.0, 12.0),
     "`c`: 3 of 10 rows lie outside the declared bounds; correct them or the bounds, or use outside_bounds: clip"),
    (DATE | {"outside_bounds": "refuse"}, days("1900-01-01", *["2000-01-01"] * 9),
     "column `c`: 1 of 10 rows lie outside the declared bounds"),
    (VIENNA | {"outside_bounds": "refuse"}, times("2030-01-01T00Z", *["2000-01-01T00Z"] * 9, zone="Europe/Vienna"),
     "column `c`: 1 of 10 rows lie outside the declared bounds"),
    (NUMERIC | {"role": "public"}, padded(-1.0), "column `c`: 1 of 10 rows lie outside the declared bounds; correct "
     "them or the bounds, since public values are released as they are"),
    (TEXT, padded("c", "d", "c", fill="a", dtype="str"), "`c`: 3 of 10 rows hold a value that is not among the 2 "
     "declared categories; correct them, declare the category, or name an `other`"),
    (ORDINAL, padded(7, fill=1, dtype="Int64"), "`c`: 1 of 10 rows hold a value that is not among the 3 declared "
     "categories; correct them, or declare the category"),
    (BOOLEAN, padded(None, fill=True, dtype="boolean"), "column `c`: 1 of 10 rows have no value"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "values", "fault"), FAULTS)
def test_faults(declared: dict[str, Any], values: pd.Series, fault: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        validate(source({"c": values, "n": padded()}), schema({"c": declared, "n": NUMERIC}), "source.csv")
    assert fault in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_faults_of_the_label() -> None:
    frame = with_kinds({"n": padded()})
    table = schema({"n": NUMERIC})
    for value, fault in [
        ("z", "column `kind`: 1 of 10 rows hold a label that is not among the 2 declared categories; correct them, "
              "declare the category, or name an `other`"),
        (None, "column `kind`: 1 of 10 rows have no value; fill or remove them"),
    ]:  # fmt: skip
        kinds = frame["kind"].mask(frame.index == 0, value)
        with pytest.raises(ValidationFailed, match=fault) as caught:
            validate(source_of(frame.assign(kind=kinds), table), table, "source.csv")
        assert "nullable" not in str(caught.value)


def test_values_outside_bounds_are_clipped_counted_and_noted() -> None:
    notes = _Notes()
    columns = {
        "n": padded(-1.0, 11.0),
        "d": days("1900-01-01", *["2000-01-01"] * 9),
        "t": times("2030-01-01T00:00Z", None, *["2000-01-01T00:00Z"] * 8, zone="Europe/Vienna"),
        "c": padded("z", "z", fill="a", dtype="str"),
    }
    table = schema({"n": NUMERIC, "d": DATE, "t": VIENNA | NULLABLE, "c": TEXT | {"other": "z"}})
    with observed_by(notes):
        outcome = validate(source(columns, {"c": 2}), table, "source.csv")
    assert outcome.rows == 10
    assert outcome.clipped == {"n": 2, "d": 1, "t": 1}
    assert outcome.mapped_to_other == {"c": 2}
    assert outcome.broken_constraints == {}
    assert notes.texts == [
        "4 values outside their bounds are clipped, in 3 columns",
        "column `c`: 2 values that are not declared became `z`",
    ]


def test_constraints_are_refused_or_allowed_and_counted() -> None:
    columns = {"a": padded(5.0, 6.0, np.nan), "b": padded(1.0, 2.0, 3.0, fill=4.0)}
    declared = {"a": NUMERIC | NULLABLE, "b": NUMERIC}
    rules: list[dict[str, Any]] = [{"at_most": ["b", "a"], "violated": "allow"}, {"at_most": ["a", "b"]}]
    with pytest.raises(ValidationFailed) as caught:
        validate(source(columns), schema(declared, constraints=rules), "source.csv")
    assert str(caught.value) == (
        "source.csv: constraint 2 (a <= b): 2 of 10 rows break it; correct them, or use violated: allow"
    )
    notes = _Notes()
    allowed = [rule | {"violated": "allow"} for rule in rules]
    with observed_by(notes):
        outcome = validate(source(columns), schema(declared, constraints=allowed), "source.csv")
    assert outcome.broken_constraints == {"b <= a": 7, "a <= b": 2}
    assert notes.texts == [
        "7 rows break a constraint that allows it: b <= a",
        "2 rows break a constraint that allows it: a <= b",
    ]


def test_many_faults_are_told_in_few_lines() -> None:
    columns = {f"c{n}": padded(np.nan) for n in range(30)}
    with pytest.raises(ValidationFailed) as caught:
        validate(source(columns), schema({name: NUMERIC for name in columns}), "source.csv")
    lines = str(caught.value).splitlines()
    assert len(lines) == 20 and "`c18`" in lines[18] and lines[19] == "and 11 more of the kind"


LABELS: list[tuple[dict[str, Any], list[Any], str, list[str]]] = [
    (KIND, ["x"] * 3 + ["y"] * 3, "str", []),
    (KIND, ["x"] * 3, "str", []),  # a class that does not occur needs no rows
    (KIND, ["x"] * 3 + ["y"] * 2, "str", ["class `y` has 2 row(s), at least 3 are needed"]),
    (KIND, ["x"], "str", ["class `x` has 1 row(s)"]),
    (ORDINAL, [1, 1, 1, 3, 3], "Int64", ["class `3` has 2 row(s)"]),
    (KIND | {"other": "z"}, ["x"] * 3 + ["z"], "str", ["class `z` has 1 row(s)"]),
    (BOOLEAN, [True, True, True, False], "boolean", ["class `false` has 1 row(s)"]),
    (BOOLEAN, [True, False], "boolean", ["class `false` has 1 row(s)", "class `true` has 1 row(s)"]),
    (BOOLEAN, [False] * 3, "boolean", []),
]


@pytest.mark.parametrize(("label", "values", "dtype", "faults"), LABELS)
def test_small_classes(label: dict[str, Any], values: list[Any], dtype: str, faults: list[str]) -> None:
    table = TableSchema.model_validate({"label": "kind", "columns": {"n": NUMERIC, "kind": label}})
    frame = pd.DataFrame({"n": [1.0] * len(values), "kind": pd.Series(values, dtype=dtype)})
    given = source_of(frame, table)
    if faults:
        with pytest.raises(ValidationFailed) as caught:
            validate(given, table, "source.csv")
        lines = str(caught.value).splitlines()
        assert len(lines) == len(faults) and all(text in line for text, line in zip(faults, lines, strict=True))
    else:
        assert validate(given, table, "source.csv").rows == len(values)
    # labels that are not public decide nothing, but there must be some rows
    if len(values) >= 3:
        assert validate(given, table, "source.csv", labels_public=False).rows == len(values)
    else:
        with pytest.raises(ValidationFailed, match=rf"has {len(values)} row\(s\), at least 3 are needed"):
            validate(given, table, "source.csv", labels_public=False)


def test_dates_of_the_schema_are_what_the_suite_compares_with() -> None:
    all_dates = {"type": "date", "bounds": [date(1, 1, 1), date(9999, 12, 31)]}
    all_times = {"type": "datetime", "bounds": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)]}
    table = schema({"d": all_dates, "t": all_times})
    edges = ["0001-01-01", "9999-12-31"]
    frame = with_kinds({"d": days(*edges), "t": pd.Series(np.array(edges, "datetime64[us]"))})
    assert all(check.success for check in run_suite(frame, table))
