"""Bad input: one clear message, the right exit code, nothing spent, nothing left half-written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import Outcome
from tests.projects import SPEC, changed, digits, write_project

MARK = "7.0625031"
"""A value planted in bad cells; no message may quote it."""

Fabrica = Callable[..., Outcome]


def _refused(fabrica: Fabrica, home: Path, spec: Path, exit_code: int, *texts: str) -> Outcome:
    outcome = fabrica("release", spec, "--release-id", "bad")
    assert outcome.exit_code == exit_code, outcome.err
    for text in texts:
        assert text in outcome.err
    assert "Traceback" not in outcome.err and MARK not in outcome.err + outcome.out
    faults = [line for line in outcome.err.splitlines() if line.startswith("fabrica: ")]
    assert 1 <= len(faults) <= 5
    left = [path for path in home.rglob("*") if path.is_file()]
    assert left == [], left
    assert not (home / "data" / "staging" / "small-digits" / "bad").exists()
    return outcome


SPEC_FAULTS: list[tuple[str, Any, list[str]]] = [
    ("privacy.epsilon", 0, ["privacy.epsilon", "greater than 0"]),
    ("privacy.epsilon", -1.0, ["privacy.epsilon", "greater than 0"]),
    ("privacy.epsilon", float("nan"), ["privacy.epsilon", "finite"]),
    ("privacy.epsilon", float("inf"), ["privacy.epsilon", "finite"]),
    ("privacy.epsilon", "much", ["privacy.epsilon", "valid number"]),
    ("privacy.epsilon", True, ["privacy.epsilon", "valid number"]),
    ("privacy.epsilon", ..., ["privacy.epsilon: missing; it has no default"]),
    ("privacy.delta", ..., ["privacy.delta: missing; it has no default"]),
    ("privacy.unit", ..., ["privacy.unit: missing; it has no default"]),
    ("privacy.budget", ..., ["privacy.budget: missing; it has no default"]),
    ("privacy.delta", 1.0, ["privacy.delta", "less than 1"]),
    ("privacy.delta", -1e-9, ["privacy.delta", "greater than or equal to 0"]),
    ("privacy.distance", 0.0, ["privacy.distance", "greater than 0"]),
    ("privacy.distance", 1.5, ["privacy.distance", "less than or equal to 1"]),
    ("privacy.distance", 0.01, ["privacy.distance: 0.01 of the range of column `r2c3` is less than one step"]),
    ("privacy.unit", "row", ["privacy.unit", "'element' or 'record'"]),
    ("privacy.epsilom", 1.0, ["privacy.epsilom: unknown key", "did you mean `epsilon`?"]),
    ("fabricaton", {}, ["fabricaton: unknown key", "did you mean `fabrication`?"]),
    ("epsilon", 1.0, ["epsilon: unknown key", "`privacy.epsilon`"]),
    ("table.columns.r2c3.bound", [0, 1], ["table.columns.r2c3.bound: unknown key", "did you mean `bounds`?"]),
    ("table.columns.r2c3.bounds", [16, 0], ["table.columns.r2c3", "lower < upper"]),
    ("table.columns.r2c3.bounds", [16, 16], ["table.columns.r2c3", "lower < upper"]),
    ("table.columns.r2c3.bounds", ..., ["table.columns.r2c3.bounds: missing"]),
    ("table.columns.r2c3.bounds", [0], ["table.columns.r2c3.bounds"]),
    ("table.columns.r2c3.bounds", [0.5, 3.5], ["table.columns.r2c3.bounds.1", "valid integer"]),
    ("table.columns.r2c3.type", "number", ["table.columns.r2c3", "`type: numeric`"]),
    ("table.columns.r2c3.nullable", "yes", ["table.columns.r2c3.nullable", "true or false"]),
    ("table.columns.r2c3", {"type": "text"}, ["table.columns.r2c3", "free text must be dropped"]),
    ("table.columns.digit.nullable", True, ["label `digit` cannot be nullable"]),
    ("table.columns.r2c3", {"type": "categorical", "categories": ["a", ""]}, ["cannot be told from a missing value"]),
    ("table.columns.r2c3", {"type": "date", "bounds": ["2020-02-30", "2021-01-01"]}, ["write a date as 2020-01-31"]),
    ("table.columns.r2c3", {"domain": "weight"}, ["unknown domain"]),
    ("table.columns.r2c3", {"type": "integer", "bounds": [0, 16], "transformation": "log"}, ["above 0"]),
    ("table.columns.r2c3", {"type": "integer", "bounds": [0, 2**60]}, ["2**53"]),
    (
        "table.constraints",
        [{"at_most": ["r2c3", "r9c9"]}],
        ["table.constraints.1: column `r9c9` is not"],
    ),
    ("table.constraints", [{"less": ["r2c3", "r3c4"]}], ["a constraint is {at_most: [a, b]}"]),
    ("table.constraints", [{"if": {"digit": [7]}, "then": {"r2c3": {"at_least": 3}}}], ["not among its categories"]),
    ("table.constraints", [{"sum": ["r2c3", "digit"], "equals": "r3c4"}], ["may only stand under `if`"]),
    ("privacy.split", "best", ["privacy.split", "{weights: {COLUMN: W}}"]),
    ("privacy.split", "optimal", ["needs unit: record"]),
    ("privacy.split", {"weights": {"digit": 2.0}}, ["`digit` is not a feature"]),
    ("table.columns.r2c3", {"type": "numeric", "bounds": [-8e307, 8e307]}, ["at most 1e100"]),
    ("table.columns.r2c3", {"type": "numeric", "bounds": [0, 16], "precision": 1e-308}, ["absurdly small"]),
    ("table.columns.r2c3", {"type": "numeric", "bounds": [1e15, 1e15 + 1]}, ["too close together"]),
    ("table.columns.digit.categories", ["a ", "b"], ["spaces"]),
    ("privacy.epsilon", 100.0, ["sampler cannot keep it"]),
    ("privacy.epsilon", 1e-300, ["privacy:"]),
    ("table.label", "color", ["label `color` is not among the columns"]),
    ("table.label", "r2c3", ["label `r2c3` must be a categorical column"]),
    ("table.columns.digit.categories", [], ["table.columns.digit.categories"]),
    ("table.columns.digit.categories", [0, 0, 1], ["categories must differ"]),
    ("dataset", "Small Digits", ["dataset"]),
    ("dataset", "../elsewhere", ["dataset"]),
    ("source.path", "source.xlsx", ["source.path", ".csv or .parquet"]),
    ("source.path", "nowhere.csv", ["no such file"]),
    ("privacy.mechanism", "magic", ["privacy.mechanism", "'optimal'"]),
    ("privacy.mechanism", "private-moments", ["needs unit: record"]),
    ("privacy.labels", {"randomized_response": {}}, ["privacy.labels"]),
    ("privacy.labels", {"randomized_response": {"epsilon": 0}}, ["privacy.labels"]),
    ("privacy.labels", "secret", ["privacy.labels", "must be `public`"]),
    ("fabrication.layers", 0, ["fabrication.layers"]),
    ("runner", "cluster", ["runner must be `threads`"]),
    ("runner", {"processes": {"workers": 0}}, ["runner.processes.workers"]),
    ("fabrication.stop", {"steps": 0}, ["fabrication.stop"]),
    ("fabrication.stop", {"relative": 0.05}, ["fabrication.stop"]),
    ("fabrication.stop", {"steps": 1, "relative": 0.5}, ["exactly one of"]),
    ("evaluation.control_fraction", 1.0, ["evaluation.control_fraction"]),
    ("evaluation.attacks", {"shadow_models": -1}, ["evaluation.attacks"]),
    ("evaluation.attacks", "all", ["evaluation.attacks"]),
    ("evaluation.attacks", {"shadows": 3}, ["evaluation.attacks"]),
    ("evaluation.classifiers", ["kahm", "forest"], ["evaluation.classifiers.2"]),
    ("schedule", {"cron": "every day"}, ["schedule.cron", "five fields"]),
    ("schedule", {"cron": "61 2 * * *"}, ["schedule.cron"]),
    ("schedule", {"cron": "0 2 * * 1", "timezone": "Mars/Base"}, ["schedule.timezone"]),
]


@pytest.mark.parametrize(("place", "value", "texts"), SPEC_FAULTS, ids=lambda v: str(v)[:40])
def test_spec_fault(fabrica: Fabrica, home: Path, tmp_path: Path, place: str, value: Any, texts: list[str]) -> None:
    _refused(fabrica, home, write_project(tmp_path / "p", changed(SPEC, place, value)), 2, *texts)


def test_distance_is_refused_for_records(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = changed(changed(SPEC, "privacy.unit", "record"), "privacy.distance", 0.5)
    _refused(fabrica, home, write_project(tmp_path / "p", spec), 2, "distance is only for unit: element")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{unclosed: [", "not valid YAML: line 1"),
        ("a: 1\nb: [1, 2\nc: 3\n", "not valid YAML: line 3"),
        ("just text", "a spec is a mapping"),
        ("", "a spec is a mapping"),
        ("dataset: a\ndataset: b\n", "line 2: key `dataset` stands twice"),
        ("1: a\n", "line 1: a key must be text"),
        ("dataset: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("a: &a [*a]\n", ""),
        ("a: *nowhere\n", "not valid YAML: line 1"),
        ("\tdataset: x", "not valid YAML: line 1"),
    ],
)
def test_spec_that_is_not_a_spec(fabrica: Fabrica, home: Path, tmp_path: Path, text: str, expected: str) -> None:
    _refused(fabrica, home, write_project(tmp_path / "p", text), 2, expected)


def test_spec_file_that_is_missing_a_folder_or_binary(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    _refused(fabrica, home, tmp_path / "none.yaml", 2, "no such file")
    (tmp_path / "folder.yaml").mkdir()
    _refused(fabrica, home, tmp_path / "folder.yaml", 2, "cannot be read")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    _refused(fabrica, home, tmp_path / "binary.yaml", 2, "not a text file")


def _cell(column: str, value: object, row: int = 3) -> pd.DataFrame:
    frame = digits().astype({column: object})
    cells = frame[column].tolist()
    cells[row] = value
    frame[column] = pd.Series(cells, dtype=object)
    return frame


SOURCE_FAULTS: list[tuple[str, pd.DataFrame | str | bytes, list[str]]] = [
    ("empty file", b"", ["is empty"]),
    ("header only", "r2c3,r3c4,r4c2,r5c5,digit\n", ["has no rows"]),
    ("binary file", bytes(range(256)) * 4, ["UTF-8"]),
    ("text that is not UTF-8", "r2c3,r3c4,r4c2,r5c5,digit\n1,1,1,1,0\n".encode("utf-16"), ["UTF-8"]),
    ("missing column", digits().drop(columns="r3c4"), ["declared columns are missing: `r3c4`"]),
    ("extra column", digits().assign(name="x"), ["columns are not declared: `name`", "role: drop"]),
    ("semicolons", digits().to_csv(index=False, sep=";"), ["separated by commas?", "none of its 1 column names"]),
    ("trailing comma", "r2c3,r3c4,r4c2,r5c5,digit,\n1,1,1,1,0,\n", ["unnamed column"]),
    ("doubled column", "r2c3,r2c3,r3c4,r4c2,r5c5,digit\n1,1,1,1,1,0\n", ["more than once: `r2c3`"]),
    ("short row", "r2c3,r3c4,r4c2,r5c5,digit\n1,1,1,1,0\n1,1\n", ["1 row(s) with a number of columns"]),
    ("text in a number", _cell("r2c3", f"about {MARK}"), ["column `r2c3`: 1 row(s) with text that is not a number"]),
    ("thousands separator", _cell("r2c3", "1,000"), ["column `r2c3`: 1 row(s) with thousands separators"]),
    ("fraction in an integer", _cell("r2c3", MARK), ["column `r2c3`: 1 row(s) with a fraction"]),
    ("NaN", _cell("r2c3", "NaN"), ["column `r2c3`: 1 row(s) with NaN or infinity"]),
    ("infinity", _cell("r2c3", "-inf"), ["column `r2c3`: 1 row(s) with NaN or infinity"]),
    ("overflow to infinity", _cell("r2c3", "1e999"), ["column `r2c3`: 1 row(s) with NaN or infinity"]),
    ("null", _cell("r2c3", None), ["column `r2c3`: 1 of 150 rows have no value"]),
    ("null label", _cell("digit", None), ["column `digit`: 1 of 150 rows have no value"]),
    ("unknown label", _cell("digit", 7), ["column `digit`: 1 of 150 rows hold a label"]),
    ("label text", _cell("digit", f"x{MARK}"), ["column `digit`: 1 row(s) with text that is not a whole number"]),
    ("class with one row", digits().query("digit != 2 or index == 2"), ["class `2` has 1 row(s)"]),
    ("one row", digits(1), ["class `0` has 1 row(s)"]),
    ("no header line", f"{MARK},1,1,1,0\n1,1,1,1,0\n", ["none of its 5 column names is declared"]),
    ("leading empty line", "\nr2c3,r3c4,r4c2,r5c5,digit\n1,1,1,1,0\n", ["begin with a header line"]),
    ("label with a plus", _cell("digit", "+1"), ["column `digit`: 1 row(s) with text that is not a whole number"]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "texts"), [fault[1:] for fault in SOURCE_FAULTS], ids=[f[0] for f in SOURCE_FAULTS])
def test_source_fault(
    fabrica: Fabrica, home: Path, tmp_path: Path, source: pd.DataFrame | str | bytes, texts: list[str]
) -> None:
    outcome = _refused(fabrica, home, write_project(tmp_path / "p", source=source), 3, *texts)
    assert "source.csv" in outcome.err


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        ("r2c3", float("nan"), "column `r2c3`: 1 row(s) with NaN or infinity"),
        ("r2c3", float("inf"), "column `r2c3`: 1 row(s) with NaN or infinity"),
        ("r2c3", 0.5, "column `r2c3`: 1 row(s) with a fraction"),
        ("r2c3", None, "column `r2c3`: 1 of 150 rows have no value"),
    ],
)
def test_parquet_cell_fault(
    fabrica: Fabrica, home: Path, tmp_path: Path, column: str, values: float | None, text: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    spec = write_project(tmp_path / "p", changed(SPEC, "source.path", "source.parquet"))
    frame = digits()
    columns = {name: frame[name].tolist() for name in frame}
    columns[column] = [values, *map(float, columns[column][1:])]
    pq.write_table(pa.table(columns), tmp_path / "p" / "source.parquet")
    _refused(fabrica, home, spec, 3, text)


def test_parquet_of_the_wrong_type_or_cut_off(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SPEC, "source.path", "source.parquet"))
    path = tmp_path / "p" / "source.parquet"
    digits().assign(r2c3=pd.Timestamp("2020-01-01")).to_parquet(path)
    _refused(fabrica, home, spec, 3, "column `r2c3`: 150 row(s) with values of type timestamp")
    path.write_bytes(path.read_bytes()[:-100])
    _refused(fabrica, home, spec, 3, "cannot be read as Parquet")
    path.write_bytes(b"")
    _refused(fabrica, home, spec, 3, "cannot be read as Parquet")


def test_outside_bounds_is_clipped_and_counted_or_refused(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    from schemas.audit import AuditReport

    source = digits()
    source.loc[:4, "r2c3"] = 99
    source.loc[7, "r3c4"] = -5
    for place in ["table.outside_bounds", "table.columns.r2c3.outside_bounds"]:
        spec = write_project(tmp_path / place, changed(SPEC, place, "refuse"), source)
        refused = _refused(fabrica, home, spec, 3, "column `r2c3`: 5 of 150 rows lie outside")
        assert ("r3c4" in refused.err) == (place == "table.outside_bounds")
    clipped = fabrica("release", write_project(tmp_path / "clip", source=source), "--release-id", "a")
    assert clipped.exit_code == 0 and "6 values outside their bounds are clipped, in 2 columns" in clipped.err
    audit = AuditReport.model_validate_json((home / "reports" / "small-digits" / "a" / "audit.json").read_bytes())
    assert audit.validation.clipped == {"r2c3": 5, "r3c4": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ["release"],
        ["release", "spec.yaml", "--wrong"],
        ["nonsense"],
        ["verify"],
        ["ledger", "show", "a", "b"],
        ["release", "spec.txt"],
        ["release", "spec.yaml", "--release-id", "../up"],
        ["release", "spec.yaml", "--approve", "short"],
        ["verify", "."],
        ["report", "."],
        ["ledger", "show", "nobody"],
        ["serve", "--specs", "nowhere"],
    ],
)
def test_usage_faults_end_with_2(
    fabrica: Fabrica, home: Path, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    outcome = fabrica(*arguments)
    assert outcome.exit_code == 2, outcome.err
    assert outcome.err and "Traceback" not in outcome.err
    assert [path for path in home.rglob("*") if path.is_file()] == []
