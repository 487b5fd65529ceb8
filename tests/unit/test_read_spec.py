"""What is wrong with a spec, said so that a newcomer can mend it: the place as written, and what to write there."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import RequestRefused
from schemas.spec import ReleaseSpec
from tasks.read_spec import read_spec
from tasks.spec_faults import TODO
from tasks.spec_yaml import read_yaml
from tests.projects import SPEC, changed

TEXT = """\
dataset: small
source: {path: source.csv}
table:
  label: y
  columns:
    x: {type: integer, bounds: [0, 9]}
    age: COLUMN
    y: {type: categorical, categories: [a, b]}
privacy: {unit: record, epsilon: 1, delta: 1e-6, mechanism: private-moments, budget: {epsilon: 9, delta: 1e-3}}
"""
DOCUMENTATION = "from the table's documentation, never from the rows"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spec.yaml"


def _faults(path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RequestRefused) as refused:
        read_spec(path)
    return [line.removeprefix(f"{path}: ") for line in str(refused.value).splitlines()]


def _with_column(column: str) -> str:
    return TEXT.replace("COLUMN", column)


def _without_column(extra: str) -> str:
    """The spec without column `age`, and a line in its place."""
    return TEXT.replace("    age: COLUMN\n", extra)


GOOD_COLUMNS: dict[str, Any] = {
    "{type: categorical, categories: [yes, no, on, off]}": ["yes", "no", "on", "off"],
    "{type: categorical, categories: [<=50K, '>50K', =, a-b, -, 1:30]}": ["<=50K", ">50K", "=", "a-b", "-", "1:30"],
    "{type: categorical, categories: [01, 02, 08, 0x1f, 1_000]}": ["01", "02", "08", "0x1f", "1_000"],
    "{type: categorical, categories: [2020-01-31, 'null', '?', '1', '1e5']}": ["2020-01-31", "null", "?", "1", "1e5"],
    "{type: categorical, categories: [-1, 0, +2, 10]}": [-1, 0, 2, 10],
    '{type: categorical, categories: ["true", "false"]}': ["true", "false"],
}


@pytest.mark.parametrize(("column", "categories"), GOOD_COLUMNS.items())
def test_categories_are_read_as_they_are_written(path: Path, column: str, categories: list[Any]) -> None:
    path.write_text(_with_column(column))
    read = read_spec(path).table.columns["age"]
    assert read.type == "categorical" and getattr(read, "categories") == categories  # noqa: B009


COLUMN_FAULTS: list[tuple[str, list[str]]] = [
    # types
    ("{type: int, bounds: [0, 1]}", [".type: did you mean `type: integer`?"]),
    ("{type: Integer, bounds: [0, 1]}", [".type: did you mean `type: integer`?"]),
    ("{type: intger, bounds: [0, 1]}", [".type: did you mean `type: integer`?"]),
    ("{type: float, bounds: [0, 1]}", [".type: did you mean `type: numeric`?"]),
    ("{type: number, bounds: [0, 1]}", [".type: did you mean `type: numeric` or, for whole numbers, `integer`?"]),
    ("{type: continuous}", [".type: did you mean `type: numeric` or, for whole numbers, `integer`?"]),
    ("{type: category}", [".type: did you mean `type: categorical`?"]),
    ("{type: bool}", [".type: did you mean `type: boolean`?"]),
    ("{type: date-time}", [".type: did you mean `type: datetime`?"]),
    ("{type: timestamp}", [".type: did you mean `type: datetime`?"]),
    ("{type: id}", [".type: did you mean `type: identifier`?"]),
    ("{type: drop}", [".type: did you mean `role: drop`?"]),
    ("{type: str}", [".type: free text must be dropped: `role: drop`; or is it one of a list of values (`type: "
                     "categorical`), or the name or number of a thing (`type: identifier`)?"]),
    ("{type: text}", [".type: free text must be dropped"]),
    ("{type: string}", [".type: free text must be dropped"]),
    ("{type: colour}", [".type: unknown; a column needs `type: numeric`"]),
    ("{type: 5}", [".type: unknown; a column needs `type: numeric`"]),
    ("{type: [a, b]}", [".type: write one word; a column needs `type: numeric`"]),
    ("{type: {a: b}}", [".type: write one word"]),
    ("{bounds: [0, 1]}", [".type: missing; a column needs `type: numeric`"]),
    ("{type:integer, bounds: [0, 1]}", [": write a space after the colon of `type: `"]),
    ("{role: dropped}", [".role: did you mean `role: drop`?"]),
    ("{type: numeric, bounds: [0, 1], role: dropped}", [".role: Input should be 'feature' or 'public'; did you mean "
                                                        "`drop`?"]),
    ("{type: numeric, bounds: [0, 1], role: label}", [".role: Input should be 'feature' or 'public'; the label must "
                                                      "be `type: categorical`, `ordinal` or `boolean`"]),
    ("integer", [": write a mapping, such as {type: integer, bounds: [0, 120]}"]),
    ("", [": write a mapping, such as"]),
    ("[0, 1]", [": write a mapping, such as"]),
    ("{domain: aeg}", [".domain: unknown domain; did you mean `age`?; known are age, percentage, currency"]),
    ("{domain: [age]}", [".domain: unknown domain; known are"]),
    ("{domain: currency}", [f".bounds: missing; it has no default; write the public lowest and highest value, "
                            f"{DOCUMENTATION}"]),
    # bounds
    ("{type: integer}", [f".bounds: missing; it has no default; write the public lowest and highest value, "
                         f"{DOCUMENTATION}"]),
    ("{type: integer, bounds: [5, 1]}", [".bounds: bounds must be [lower, upper] with lower < upper, got [5, 1]; swap "
                                         "them"]),
    ("{type: date, bounds: [2021-01-01, 2020-01-01]}", [".bounds: bounds must be [lower, upper] with lower < upper, "
                                                        "got [2021-01-01, 2020-01-01]; swap them"]),
    ("{type: numeric, bounds: [5, 5]}", [".bounds: bounds must be [lower, upper] with lower < upper, got [5, 5]; a "
                                         "column with a single value can be left out, with `role: drop`"]),
    ('{type: integer, bounds: ["0", 5 years]}', [
        ".bounds.1: Input should be a valid integer; write it without quotes, unit or thousands separator",
        ".bounds.2: Input should be a valid integer; write it without quotes, unit or thousands separator"]),
    ("{type: numeric, bounds: [0, 1_000]}", [".bounds.2: Input should be a valid number; write it without quotes"]),
    ("{type: integer, bounds: [0.5, 9]}", [".bounds.1: Input should be a valid integer; a column with fractions is "
                                           "`type: numeric`"]),
    ("{type: numeric, bounds: [0, .inf]}", [".bounds.2: Input should be a finite number"]),
    *((f"{{type: numeric, bounds: {bounds}}}", [".bounds: write two values, [lowest, highest], without thousands "
                                                "separators"])
      for bounds in ["5", "[5]", "[]", "[1, 2, 3]", "[1,000, 2]", "{min: 0, max: 1}", "0-99", "null"]),
    ("{type: numeric, min: 0, max: 9}", [".min: unknown key; did you mean `bounds: [lowest, highest]`?",
                                         ".max: unknown key; did you mean `bounds: [lowest, highest]`?"]),
    ("{type: numeric, bound: [0, 9]}", [".bounds: missing", ".bound: unknown key; did you mean `bounds`?"]),
    ("{type: categorical, categories: [a], bounds: [0, 1]}", [
        ".bounds: unknown key here; bounds are for numeric, integer, date and datetime columns, and this type has "
        "categories"]),
    ("{type: integer, bounds: [0, 1], categories: [0, 1]}", [
        ".categories: unknown key here; categories are for categorical and ordinal columns, and this type has bounds"]),
    ("{type: identifier, bounds: [0, 1]}", [".bounds: unknown key here; this type needs no bounds"]),
    ("{role: drop, categories: [a]}", [".categories: unknown key here; this type needs no categories"]),
    ("{type: boolean, values: [a, b]}", [".values: unknown key here; this type needs no categories"]),
    ("{type: integer, bounds: [0, 99999999999999999999]}", [".bounds: integer bounds beyond 2**53"]),
    ("{type: date, bounds: [31.01.2020, 2021]}", [".bounds.1: write a date as 2020-01-31",
                                                  ".bounds.2: write a date as 2020-01-31"]),
    ("{type: datetime, bounds: [2020-01-01T00:00Z, 2021-01-01]}", [".bounds.1: write bounds without an offset"]),
    # categories
    ("{type: categorical}", [f".categories: missing; it has no default; list every value the column may hold, "
                             f"{DOCUMENTATION}"]),
    ("{type: categorical, values: [a, b]}", [".values: unknown key; did you mean `categories: [a, b]`?"]),
    ("{type: ordinal, levels: [a, b]}", [".levels: unknown key; did you mean `categories: [a, b]`?"]),
    ("{type: categorical, categories: {a: one, b: two}}", [".categories: write a list, [a, b]; what the categories "
                                                           "mean can stand in `description`"]),
    ("{type: categorical, categories: a}", [".categories: write a list, [a, b]"]),
    ("{type: categorical, categories: Private, State-gov, Other}", [".categories: write a list, [a, b]"]),
    ("{type: integer, bounds: (0, 100)}", [".bounds: write two values, [lowest, highest]"]),
    ("{type: categorical, categories: []}", [".categories: the list is empty; list every value"]),
    ("{type: categorical, categories: [1, 2, other]}", [".categories: text and numbers are mixed; put the numbers in "
                                                        "quotes (items 1, 2)"]),
    ("{type: categorical, categories: [1, 2, 3, 4, 5, 6, 7, x]}", [".categories: text and numbers are mixed; put the "
                                                                   "numbers in quotes (items 1, 2, 3, 4, 5 and 2 "
                                                                   "more)"]),
    ("{type: ordinal, categories: [0.5, 1.5]}", [".categories: items 1, 2: a number with a fraction; put in quotes, or "
                                                 "write `type: numeric` with bounds"]),
    ("{type: categorical, categories: [true, false]}", [
        ".categories: true and false are truth values; write `type: boolean` without categories, or put them in "
        "quotes"]),
    ("{type: categorical, categories: [a, true]}", [".categories: item 2: read as a truth value; put in quotes"]),
    ("{type: categorical, categories: [a, null, ~]}", [".categories: items 2, 3: read as nothing; put in quotes"]),
    ("{type: categorical, categories: [&a, b]}", [".categories: item 1: read as nothing; put in quotes"]),
    ("{type: categorical, categories: [a: b, c]}", [".categories: item 1: read as a mapping because of a `: ` or `?`; "
                                                    "put in quotes"]),
    ("{type: categorical, categories: [[a], c]}", [".categories: item 1: read as a list; put in quotes"]),
    ("{type: categorical, categories: [a, a]}", [".categories: categories must differ from each other"]),
    ('{type: categorical, categories: [a, ""]}', [".categories: an empty category cannot be told from a missing"]),
    ("{type: categorical, categories: [a], other: 1}", [".other: `other` must be of the categories' kind"]),
    ("{type: categorical, categories: [a], other: true}", [".other: write text or a whole number"]),
    # the rest
    ("{type: integer, bounds: [0, 9], nullable: yes}", [".nullable: write true or false"]),
    ("{type: integer, bounds: [0, 9], missing: true}", [".missing: unknown key; did you mean `nullable: true`?"]),
    ("{type: identifier, nullable: true}", [".nullable: an identifier has a value in every released row; leave "
                                            "nullable out"]),
    ("{type: numeric, bounds: [0, 9], precision: 0}", [".precision: Input should be greater than 0; leave precision "
                                                       "out to round nothing"]),
    ("{type: numeric, bounds: [0, 9], precision: 10}", [".precision: precision must be at most the distance"]),
    ("{type: numeric, bounds: [0, 9], decimals: 2}", [".decimals: unknown key; did you mean `precision`?"]),
    ("{type: numeric, bounds: [0, 9], transformation: log}", [".transformation: a logarithm needs lower bound"]),
    ("{type: numeric, bounds: [0, 9], transformation: {log: {offset: x}}}", [
        ".transformation.log.offset: Input should be a valid number"]),
    ("{type: numeric, bounds: [0, 9], unit: 5}", [".unit: write text; put it in quotes"]),
    ("{type: date, bounds: [2020-01-01, 2021-01-01], resolution: days}", [".resolution: Input should be 'day', 'month' "
                                                                          "or 'year'; did you mean `day`?"]),
    ("{type: datetime, bounds: [2020-01-01, 2021-01-01], timezone: Vienna}", [".timezone: unknown time zone"]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "lines"), COLUMN_FAULTS, ids=[column for column, _ in COLUMN_FAULTS])
def test_column_fault(path: Path, column: str, lines: list[str]) -> None:
    faults = _faults(path, _with_column(column))
    assert len(faults) == len(lines), faults
    for fault, line in zip(faults, lines, strict=True):
        assert fault.startswith(f"table.columns.age{line}"), fault


def test_known_keys_are_those_of_the_column_s_own_type(path: Path) -> None:
    faults = _faults(path, _with_column("{type: boolean, zzz: 1}"))
    assert faults == ["table.columns.age.zzz: unknown key; known here: description, unit, role, nullable, type"]


COLUMN = "{type: integer, bounds: [1, 2]}"
TABLE_FAULTS: list[tuple[str, list[str]]] = [
    (_without_column("").replace("  columns:", f"  age: {COLUMN}\n  columns:"),
     ["table.age: unknown key here; a column stands in `table.columns`: indent it below `columns:`"]),
    (_without_column("").replace("    x: {type: integer, bounds: [0, 9]}\n", ""),
     ["table.columns: declare two columns at least: the label and another one"]),
    (_with_column(COLUMN).replace("    x:", "    - x:").replace("    age:", "    - age:").replace("    y:", "    - y:"),
     ["table.columns: write a line for each column, `name: {type: ...}`, without a dash before it"]),
    (_with_column(COLUMN).replace("label: y", "label: Y"),
     ["table.label: label `Y` is not among the columns; declare it as a categorical, ordinal or boolean column; did "
      "you mean `y`?"]),
    (_with_column(COLUMN).replace("label: y", "label: age"), ["table.label: label `age` must be a categorical"]),
    (_with_column(COLUMN).replace("label: y", "label: 1"), ["table.label: write text; put it in quotes"]),
    (_with_column(COLUMN).replace("label: y", "label:"), ["table.label: write text; null, ~ and nothing at all"]),
    (_with_column(COLUMN).replace("unit: record", "unit: records"),
     ["privacy.unit: Input should be 'element' or 'record'; did you mean `record`?"]),
    (_with_column(COLUMN).replace("dataset: small", "dataset: My Data"),
     ["dataset: write small letters a to z, digits and hyphens only"]),
    (_with_column(COLUMN).replace("source: {path: source.csv}", "source: source.csv"),
     ["source: write a mapping, with a `key: value` for each of its keys"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), TABLE_FAULTS, ids=[lines[0] for _, lines in TABLE_FAULTS])
def test_table_fault(path: Path, text: str, lines: list[str]) -> None:
    faults = _faults(path, text)
    assert len(faults) == len(lines), faults
    for fault, line in zip(faults, lines, strict=True):
        assert fault.startswith(line), fault


CONSTRAINTS: list[tuple[str, list[str]]] = [
    ("{at_most: [x, age], violated: x}", ["1.violated: Input should be 'refuse' or 'allow'"]),
    ("{at_most: [x, 3], vilated: allow}", ["1.at_most.2: write text", "1.vilated: unknown key; did you mean `viol"]),
    ("{at_most: [x]}", ["1.at_most: write two column names, [lower, higher]"]),
    ("{at_most: x}", ["1.at_most: write two column names, [lower, higher]"]),
    ("{at_most: [x, z]}", ["1: column `z` is not among the columns"]),
    ("{sum: [x], equals: age}", ["1.sum: List should have at least 2 items, not 1"]),
    ("{sum: [x, age]}", ["1.equals: missing; it has no default"]),
    ("{if: {y: a}, then: {x: [1]}}", ["1.if.y: write a mapping"]),
    ("{if: {values: [1.5]}, then: {range: {at_least: a}}}",
     ["1.if.values.1: write true or false, a whole number or text", "1.then.range.at_least: Input should be a valid"]),
    ("{if: {y: [a]}, then: {x: {at_leest: 1}}}", ["1.then.x.at_leest: unknown key; did you mean `at_least`?"]),
    ("{less: [x, y]}", ["1: a constraint is {at_most: [a, b]}, "]),
]  # fmt: skip


@pytest.mark.parametrize(("constraint", "lines"), CONSTRAINTS, ids=[constraint for constraint, _ in CONSTRAINTS])
def test_constraint_fault(path: Path, constraint: str, lines: list[str]) -> None:
    text = _with_column(COLUMN).replace("  columns:", f"  constraints: [{constraint}]\n  columns:")
    faults = _faults(path, text)
    assert len(faults) == len(lines), faults
    for fault, line in zip(faults, lines, strict=True):
        assert fault.startswith(f"table.constraints.{line}"), fault


@pytest.mark.parametrize("name", ["integer", "at_most", "values", "range", "sum", "columns", "TODO", "type", "a.b"])
def test_columns_named_like_tags_and_keys_have_their_place(path: Path, name: str) -> None:
    text = TEXT.replace("age: COLUMN", f"{name}: {{type: integer, bounds: [0, x]}}")
    assert [fault.partition(": ")[0] for fault in _faults(path, text)] == [f"table.columns.{name}.bounds.2"]


YAML_FAULTS: list[tuple[str, str, list[str]]] = [
    ("question mark", _with_column("{type: categorical, categories: [a, ?]}"), ["line 7: `?` must be put in quotes"]),
    ("question mark first", _with_column("{type: categorical, categories: [?, a]}"), ["line 7: `?` must be put"]),
    ("question mark in a list", _with_column("\n      categories:\n        - ?\n"), ["line 9: `?` must be put in"]),
    *(
        (f"text that begins with {sign}", _with_column(f"{{type: categorical, categories: [a, {sign}b]}}"),
         ["line 7: ", f"text that begins with {'a backtick' if sign == '`' else f'`{sign}`'} must be put in quotes"])
        for sign in ["*", "@", "%", "`", ">", "|"]
    ),
    ("exclamation mark", _with_column("{type: categorical, categories: [!a, b]}"), ["line 7", "begins with `!` must"]),
    ("exclamation mark last", _with_column("{type: categorical, categories: [!a]}"), ["line 7", "`!` must be put in"]),
    ("dash", _with_column("{type: categorical, categories: [a, - b]}"), ["line 7", "begins with `-` must be put in q"]),
    ("greater in a list", _with_column("\n      categories:\n        - a\n        - >50K"),
     ["line 10", "text that begins with `>` or `|` must be put in quotes"]),
    ("hash", _with_column("{type: categorical, categories: [a #1, b]}"),
     ["line 7", "` #` begins a comment; text that holds it must be put in quotes"]),
    ("colon", _with_column("{type: categorical, description: a: b}"), ["line 7", "text that holds `: `"]),
    ("colon in a line", TEXT.replace("source.csv}", "source.csv}\ndescription: a: b"),
     ["line 3", "text that holds `: ` must be put in quotes"]),
    ("open bracket", _with_column("{type: categorical, categories: [a, b}"), ["line 7", "bracket in line 7 is not cl"]),
    ("open quote", _with_column('{type: categorical, categories: ["a, b]}'), ["line 7", "a quote is not closed"]),
    ("backslash", TEXT.replace("source.csv", '"C:\\data.csv"'), ["line 2", "in double quotes a backslash is special"]),
    ("tab", _with_column(f"{COLUMN}\n\tz: {COLUMN}"), ["line 8: a tab; indent with spaces"]),
    ("indentation", TEXT.replace("  columns:", " columns:"), ["line 5", "indent the line as the lines above"]),
    ("no space", TEXT.replace("dataset: small", "dataset:small"), ["space after a colon"]),
    ("doubled key", _with_column(f"{COLUMN}\n    x: {COLUMN}"), ["line 8: key `x` stands twice; remove or rename"]),
    ("no brackets", _with_column("{type: integer, bounds: 0, 100}"), ["line 7: several values need brackets, such as"]),
    ("number as a key", _with_column(f"{COLUMN}\n    1: {COLUMN}"), ["line 8: a key must be text; put it in quotes"]),
    ("null as a key", _with_column(f"{COLUMN}\n    null: {COLUMN}"), ["line 8: a key must be text; put it in quotes"]),
    ("two documents", TEXT + "---\na: b\n", ["line 10", "a spec is one document"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), [f[1:] for f in YAML_FAULTS], ids=[f[0] for f in YAML_FAULTS])
def test_yaml_fault(path: Path, text: str, parts: list[str]) -> None:
    (fault,) = _faults(path, text)
    assert fault.startswith("not valid YAML: line ")
    for part in parts:
        assert part in fault, fault


def test_todo_is_reported_first_and_only(path: Path) -> None:
    spec = changed(changed(SPEC, "table.columns.r2c3.bounds", [TODO, 16]), "table.columns.r3c4.bounds", [5, 1])
    for place in ["table.label", "privacy.unit", "privacy.epsilon", "privacy.delta", "privacy.budget.epsilon"]:
        spec = changed(spec, place, TODO)
    spec = changed(spec, "table.columns.digit.categories", [TODO])
    spec = changed(spec, "unheard_of", 1)
    assert sorted(_faults(path, yaml.safe_dump(spec, sort_keys=False))) == sorted(
        [
            "table.label: still TODO; write the name of the column that tells which class a row is of; it is "
            "categorical, ordinal or boolean",
            f"table.columns.r2c3.bounds: still TODO; write the public lowest and highest value, {DOCUMENTATION}",
            f"table.columns.digit.categories: still TODO; list every value the column may hold, {DOCUMENTATION}",
            "privacy.unit: still TODO; write `record` to protect whole rows, or `element` to protect single cells",
            "privacy.epsilon: still TODO; write the privacy loss of one release, such as 1.0; smaller is more private",
            "privacy.delta: still TODO; write the probability that may escape epsilon, such as 1.0e-6; well below 1 / "
            "rows",
            "privacy.budget.epsilon: still TODO; write what the data set may spend over all its releases, at record "
            "level",
        ]
    )


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        ("table.columns.r2c3", TODO, "table.columns.r2c3: still TODO; a column needs `type: numeric`"),
        ("table.columns.r2c3.type", TODO, "table.columns.r2c3.type: still TODO; a column needs `type: numeric`"),
        ("table.columns.r2c3.unit", TODO, "table.columns.r2c3.unit: still TODO; write what belongs there, or remove"),
        ("table.columns.r2c3.bounds", TODO, "table.columns.r2c3.bounds: still TODO; write the public lowest"),
        ("privacy.budget", TODO, "privacy.budget: still TODO; write {epsilon: E, delta: D}"),
        ("privacy.labels", {"randomized_response": {"epsilon": TODO}}, "privacy.labels.randomized_response.epsilon: "),
        ("table.constraints", [{"at_most": ["a", TODO]}], "table.constraints.1.at_most: still TODO; write what"),
        ("dataset", TODO, "dataset: still TODO; write what belongs there"),
        ("unheard_of", TODO, "unheard_of: still TODO"),
    ],
)
def test_todo_anywhere(path: Path, place: str, value: Any, line: str) -> None:
    (fault,) = _faults(path, yaml.safe_dump(changed(SPEC, place, value)))
    assert fault.startswith(line), fault


def test_todo_that_many_places_refer_to_is_reported_where_it_is_written(path: Path) -> None:
    text = _with_column("&a {type: integer, bounds: [TODO, TODO]}\n    b: *a\n    c: *a")
    assert [fault.partition(": ")[0] for fault in _faults(path, text)] == ["table.columns.age.bounds"]
    nested = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert _faults(path, nested + "b: &b {c: *b, d: TODO}\n") == ["b.d: still TODO; write what belongs there"]


@pytest.mark.parametrize("value", ["todo", "TODO later", " TODO", "TODOs"])
def test_only_the_word_alone_is_a_todo(path: Path, value: str) -> None:
    path.write_text(yaml.safe_dump(changed(SPEC, "table.columns.r2c3.description", value)))
    assert read_spec(path).table.columns["r2c3"].description == value


def test_at_most_twenty_lines_are_shown(path: Path) -> None:
    cases: list[tuple[list[Any], str]] = [([TODO, TODO], "still TODO"), ([5, 1], "swap them")]
    for bounds, word in cases:
        columns = {f"c{n}": {"type": "integer", "bounds": list(bounds)} for n in range(30)}
        faults = _faults(path, yaml.safe_dump(changed(SPEC, "table.columns", SPEC["table"]["columns"] | columns)))
        assert len(faults) == 21 and faults[-1] == "and 10 more"
        assert all(word in fault for fault in faults[:-1])


def test_a_spec_of_anything_is_refused_or_read_but_never_breaks(path: Path) -> None:
    """Each value of a good spec is replaced by some of everything else that YAML can hold."""
    nonsense: list[Any] = [None, True, 0, -1, 1.5, float("nan"), 10**30, "", "x", "a\nb", [], [None], [1, "x"], [[]],
                           {}, {"x": None}, {"type": []}, {"log": 1}, {"if": 1}, "2020-01-01"]  # fmt: skip
    full: Any = read_yaml(_with_column("{type: numeric, bounds: [0, 9], precision: 1, transformation: linear}"))
    full["table"]["columns"]["d"] = {"type": "date", "bounds": ["2020-01-01", "2021-01-01"], "nullable": True}
    full["table"]["columns"]["t"] = {"type": "datetime", "bounds": ["2020-01-01", "2021-01-01"], "timezone": "UTC"}
    full["table"]["columns"]["o"] = {"type": "ordinal", "categories": [1, 2], "role": "feature"}
    full["table"]["constraints"] = [
        {"at_most": ["x", "age"], "violated": "allow"},
        {"sum": ["x", "age"], "equals": "age"},
        {"if": {"y": ["a"]}, "then": {"x": {"at_least": 1}}},
    ]
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(full)
    chance = random.Random(0)
    assert len(places) > 50
    for node, key in places:
        before = node[key]
        for value in chance.sample(nonsense, 6):
            node[key] = value
            path.write_text(yaml.safe_dump(full))
            try:
                assert isinstance(read_spec(path), ReleaseSpec)
            except RequestRefused as refused:
                for line in str(refused).splitlines():
                    assert line.startswith(f"{path}: ") and not line.startswith(f"{path}: the spec: "), line
        node[key] = before
