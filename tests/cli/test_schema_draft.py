"""`fabrica schema draft`: every name and type of the source in a spec to fill in, and nothing else of it."""

import json
import time
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import RequestRefused
from tasks.draft import DraftedColumn, draft_text, yaml_scalar
from tasks.read_spec import read_spec
from tasks.spec_faults import TODO
from tasks.spec_yaml import read_yaml
from tests.conftest import Outcome

Fabrica = Callable[..., Outcome]
BOUNDS = [TODO, TODO]
MARK = "7.0625031"
"""A value planted in cells; no draft and no message may quote it."""

ADULT = """\
age,work class,fnlwgt,capital gain,married,joined,seen,zip,note,income
39,State-gov,77516,2174.5,true,2020-01-31,2020-01-31T10:00:00,01234,,<=50K
,?, 83311 ,0,FALSE,2021-01-31,2020-01-31 10:00,02345,,>50K
"""
ADULT_COLUMNS: dict[str, Any] = {
    "age": {"type": "integer", "bounds": BOUNDS},
    "work class": {"type": "categorical", "categories": [TODO]},
    "fnlwgt": {"type": "integer", "bounds": BOUNDS},
    "capital gain": {"type": "numeric", "bounds": BOUNDS},
    "married": {"type": "boolean"},
    "joined": {"type": "date", "bounds": BOUNDS},
    "seen": {"type": "datetime", "bounds": BOUNDS},
    "zip": {"type": "categorical", "categories": [TODO]},
    "note": {"type": "categorical", "categories": [TODO]},
    "income": {"type": "categorical", "categories": [TODO]},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "adult.csv").write_text(ADULT)
    monkeypatch.chdir(folder)
    return folder


def _columns(fabrica: Fabrica, *arguments: str | Path) -> Any:
    outcome = fabrica("schema", "draft", *arguments)
    assert outcome.exit_code == 0, outcome.err
    return read_yaml(outcome.out)["table"]["columns"]


def test_a_csv_gives_a_whole_spec_with_todo_for_all_that_only_the_steward_knows(
    fabrica: Fabrica, project: Path
) -> None:
    outcome = fabrica("schema", "draft", "adult.csv")
    assert (outcome.exit_code, outcome.err) == (0, "")
    drafted = read_yaml(outcome.out)
    assert drafted == {
        "dataset": "adult",
        "source": {"path": "adult.csv"},
        "table": {"label": TODO, "columns": ADULT_COLUMNS},
        "privacy": {"unit": TODO, "epsilon": TODO, "delta": TODO, "budget": {"epsilon": TODO, "delta": TODO}},
    }
    assert list(drafted["table"]["columns"]) == list(ADULT_COLUMNS)
    assert yaml.safe_load(outcome.out) == drafted
    for text in ["Types were inferred from the rows; check them", "`nullable: true`", "never from the rows",
                 "free text must be role: drop"]:  # fmt: skip
        assert text in outcome.out
    for cell in ["39", "State-gov", "77516", "2174", "2020", "01234", "50K", "83311"]:
        assert cell not in outcome.out


def test_a_draft_filled_in_is_a_spec(fabrica: Fabrica, project: Path) -> None:
    text = fabrica("schema", "draft", "adult.csv", "--domain", "age=age", "--domain", "capital gain=currency").out
    for old, new in [
        ("label: TODO", "label: income"),
        ("joined: {type: date, bounds: [TODO, TODO]}", "joined: {type: date, bounds: [2000-01-01, 2026-12-31]}"),
        ("seen: {type: datetime, bounds: [TODO, TODO]}", "seen: {type: datetime, bounds: [2000-01-01, 2026-12-31]}"),
        ("unit: TODO", "unit: record"),
        ("delta: TODO", "delta: 1e-6"),
        ("epsilon: TODO", "epsilon: 1"),
        ("bounds: [TODO, TODO]", "bounds: [0, 2000000]"),
        ("categories: [TODO]", "categories: [<=50K, '>50K']"),
        ("# mechanism: ", "mechanism: "),
        ("# approval: ", "approval: "),
        ("# schedule: ", "schedule: "),
    ]:
        assert old in text
        text = text.replace(old, new)
    (project / "adult.yaml").write_text(text)
    spec = read_spec(project / "adult.yaml")
    assert spec.privacy.mechanism == "private-moments" and spec.approval == "required" and spec.schedule is not None
    assert spec.table.columns["age"].unit == "years"


PARQUET: list[tuple[str, pa.Array, Any]] = [
    ("int", pa.array([1, None], pa.int8()), {"type": "integer", "bounds": BOUNDS}),
    ("unsigned", pa.array([1, 2], pa.uint64()), {"type": "integer", "bounds": BOUNDS}),
    ("float", pa.array([1.0, 2.0], pa.float32()), {"type": "numeric", "bounds": BOUNDS}),
    ("decimal", pa.array([Decimal("1.50"), None]), {"type": "numeric", "bounds": BOUNDS}),
    ("text", pa.array(["1", "2"]), {"type": "categorical", "categories": [TODO]}),
    ("large", pa.array(["1", "2"], pa.large_string()), {"type": "categorical", "categories": [TODO]}),
    ("dictionary", pa.array(["1", "2"]).dictionary_encode(), {"type": "categorical", "categories": [TODO]}),
    ("bool", pa.array([True, False]), {"type": "boolean"}),
    ("date", pa.array([date(2020, 1, 1), None]), {"type": "date", "bounds": BOUNDS}),
    ("time", pa.array([datetime(2020, 1, 1), None]), {"type": "datetime", "bounds": BOUNDS}),
    ("zoned", pa.array([0, 1], pa.timestamp("us", "Europe/Vienna")),
     {"type": "datetime", "bounds": BOUNDS, "timezone": "Europe/Vienna"}),
    ("offset", pa.array([0, 1], pa.timestamp("us", "+02:00")),
     {"type": "datetime", "bounds": BOUNDS, "timezone": TODO}),
    ("bytes", pa.array([b"a", b"b"]), {"role": "drop"}),
    ("list", pa.array([[1], [2]]), {"role": "drop"}),
    ("nothing", pa.nulls(2), {"role": "drop"}),
]  # fmt: skip


def test_a_parquet_file_has_its_types_in_its_schema(fabrica: Fabrica, project: Path) -> None:
    table = pa.table({name: values for name, values, _ in PARQUET})
    pq.write_table(table, "adult.parquet")
    outcome = fabrica("schema", "draft", "adult.parquet")
    assert read_yaml(outcome.out)["table"]["columns"] == {name: declared for name, _, declared in PARQUET}
    assert "inferred from the rows" not in outcome.out
    pq.write_table(table.slice(0, 0), "none.parquet")
    assert fabrica("schema", "draft", "none.parquet", "--dataset", "adult").out.splitlines()[4:] == [
        "source: {path: none.parquet}", *outcome.out.splitlines()[5:]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "declared"),
    [
        (["0", "-7", "+3"], "integer"),
        (["1", "2.5"], "numeric"),
        (["1e5", ".5", "2."], "numeric"),
        (["1", "abc"], "categorical"),
        (["007", "8"], "categorical"),
        (["1,000", "2"], "categorical"),
        (["NaN", "1"], "categorical"),
        (["2020-01-31", "20200131"], "categorical"),
        (["2020-01-31", "2020-01-31 10:00"], "datetime"),
        (["2020-01-31T10:00:00.5", ""], "datetime"),
        (["true", "False", ""], "boolean"),
        (["yes", "no"], "categorical"),
        (["", " "], "categorical"),
        (["true", "1"], "categorical"),
    ],
)
def test_type_of_csv_cells(fabrica: Fabrica, project: Path, cells: list[str], declared: str) -> None:
    rows = "".join(f'x,"{cell}"\n' for cell in cells)
    (project / "t.csv").write_text(f"other,cell\n{rows}")
    assert _columns(fabrica, "t.csv")["cell"]["type"] == declared


def test_times_with_an_offset_need_a_time_zone(fabrica: Fabrica, project: Path) -> None:
    (project / "t.csv").write_text("a,t\nx,2020-01-31T10:00\ny,2020-01-31T10:00:00+01:00\n")
    assert _columns(fabrica, "t.csv")["t"] == {"type": "datetime", "bounds": BOUNDS, "timezone": TODO}


def test_a_late_cell_of_another_kind_counts(fabrica: Fabrica, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.csv_rows.LARGEST_ROW_BYTES", 2**12)
    (project / "t.csv").write_text("a,b\n" + "1,1\n" * 20_000 + "1,1.5\n")
    columns = _columns(fabrica, "t.csv")
    assert (columns["a"]["type"], columns["b"]["type"]) == ("integer", "numeric")


def test_domains_are_named_by_the_steward_only(fabrica: Fabrica, project: Path) -> None:
    columns = _columns(
        fabrica, "adult.csv", "--domain", "age=age", "--domain", "capital gain=currency", "--domain", "zip=percentage"
    )
    changed = {"age": {"domain": "age"}, "capital gain": {"domain": "currency", "bounds": BOUNDS}}
    assert columns == ADULT_COLUMNS | changed | {"zip": {"domain": "percentage"}}
    (project / "t.csv").write_text("a=b,c\n1,2\n")
    assert _columns(fabrica, "t.csv", "--domain", "a=b=age")["a=b"] == {"domain": "age"}


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        ("Adult Census (1994).csv", "adult-census-1994"),
        ("données.csv", "donnees"),
        ("007.csv", "007"),
        ("1e5.csv", "1e5"),
        ("null.csv", "null"),
        ("表.csv", "dataset"),
        (f"{'a' * 100}.CSV", "a" * 64),
    ],
)
def test_names_of_data_set_and_source_come_from_the_file(
    fabrica: Fabrica, project: Path, name: str, dataset: str
) -> None:
    (project / "data").mkdir()
    (project / "data" / name).write_text(ADULT)
    drafted = read_yaml(fabrica("schema", "draft", project / "data" / name).out)
    assert drafted["dataset"] == dataset and drafted["source"]["path"] == f"data/{name}"
    assert read_yaml(fabrica("schema", "draft", f"data/{name}", "--dataset", "other-1").out)["dataset"] == "other-1"


def test_output_is_written_once_and_its_place_decides_the_source_path(fabrica: Fabrica, project: Path) -> None:
    (project / "data" / "specs").mkdir(parents=True)
    outcome = fabrica("schema", "draft", "adult.csv", "--output", "data/specs/adult.yaml")
    assert outcome.exit_code == 0 and "fabrica plan data/specs/adult.yaml" in outcome.out
    path = project / "data" / "specs" / "adult.yaml"
    assert read_yaml(path.read_text())["source"] == {"path": "adult.csv"}
    path.write_text("mine")
    outcome = fabrica("schema", "draft", "adult.csv", "--output", path)
    assert outcome.exit_code == 2 and "exists and is kept" in outcome.err and path.read_text() == "mine"
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    assert fabrica("schema", "draft", "adult.csv", "--output", elsewhere / "a.yaml").exit_code == 0
    assert read_yaml((elsewhere / "a.yaml").read_text())["source"] == {"path": str(project / "adult.csv")}


def test_a_link_to_the_data_stays_a_link(fabrica: Fabrica, project: Path, tmp_path: Path) -> None:
    (tmp_path / "vault.csv").write_text(ADULT)
    (project / "link.csv").symlink_to(tmp_path / "vault.csv")
    assert read_yaml(fabrica("schema", "draft", "link.csv").out)["source"] == {"path": "link.csv"}


def test_json_holds_the_text_or_its_path(fabrica: Fabrica, project: Path) -> None:
    text = fabrica("schema", "draft", "adult.csv").out
    printed = json.loads(fabrica("schema", "draft", "adult.csv", "--json").out)
    assert printed == {"spec": text, "dataset": "adult", "columns": 10}
    written = json.loads(fabrica("schema", "draft", "adult.csv", "--json", "--output", "a.yaml").out)
    assert written == {"spec": "a.yaml", "dataset": "adult", "columns": 10}
    assert (project / "a.yaml").read_text() == text


ROW = f"39,State-gov,{MARK},<=50K\n"
SOURCE_FAULTS: list[tuple[str, str, bytes | None, int, str]] = [
    ("missing", "none.csv", None, 2, "none.csv: no such file"),
    ("folder", "folder.csv", None, 2, "folder.csv: no such file"),
    ("other kind", "t.xlsx", b"x", 2, "must be a .csv or .parquet file"),
    ("empty", "t.csv", b"", 3, "is empty"),
    ("empty first line", "t.csv", b"\na,b\n1,2\n", 3, "is empty, or its first line is"),
    ("header only", "t.csv", b"a,b\n", 3, "has no rows"),
    ("no header", "t.csv", (ROW * 3).encode(), 3, "looks like a row"),
    ("no header, doubled cells", "t.csv", f"0,{MARK},0\n".encode() * 2, 3, "columns 1, 3 have names that stand more"),
    ("no name", "t.csv", b",a,b\n0,1,2\n", 3, "column 1 has no name"),
    ("trailing comma", "t.csv", b"a,b,\n0,1,\n", 3, "column 3 has no name"),
    ("semicolons", "t.csv", b"a;b\n1;2\n", 3, "separated by commas?"),
    ("UTF-16", "t.csv", "a,b\n1,2\n".encode("utf-16"), 3, "UTF-8"),
    ("late bytes", "t.csv", b"a,b\n1,2\n" * 9000 + b"\xff,3\n", 3, "UTF-8"),
    ("ragged", "t.csv", f"a,b\n1,2\n{MARK}\n".encode(), 3, "1 row(s) with a number of columns"),
    ("not Parquet", "t.parquet", MARK.encode(), 3, "cannot be read as Parquet"),
    ("empty Parquet", "t.parquet", b"", 3, "cannot be read as Parquet"),
]


@pytest.mark.parametrize(("name", "content", "code", "text"), [f[1:] for f in SOURCE_FAULTS],
                         ids=[f[0] for f in SOURCE_FAULTS])  # fmt: skip
def test_source_fault(fabrica: Fabrica, project: Path, name: str, content: bytes | None, code: int, text: str) -> None:
    (project / "folder.csv").mkdir()
    if content is not None:
        (project / name).write_bytes(content)
    outcome = fabrica("schema", "draft", name, "--output", "a.yaml")
    assert outcome.exit_code == code and text in outcome.err, outcome.err
    assert "Traceback" not in outcome.err and MARK not in outcome.err + outcome.out and "State-gov" not in outcome.err
    assert not (project / "a.yaml").exists()
    assert json.loads(fabrica("schema", "draft", name, "--json").out)["error"]["exit_code"] == code


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--domain", "age=aeg"], "no domain pack `aeg`; known are age, percentage, currency"),
        (["--domain", "Age=age"], "no column `Age`; the source has `age`, `work class`"),
        (["--domain", "age"], "write COLUMN=PACK"),
        (["--domain", "=age"], "write COLUMN=PACK"),
        (["--domain", "age=age", "--domain", "age=currency"], "given twice"),
        (["--dataset", "My Data"], "--dataset: write small letters"),
        (["--dataset", ""], "--dataset: write small letters"),
        (["--dataset", "a" * 65], "at most 64"),
        (["--dataset", "a\n"], "--dataset: write small letters"),
        (["--output", "adult.csv"], "ends in .yaml"),
        (["--output", "nowhere/a.yaml"], "cannot be written (No such file"),
        (["--output", "a" * 300 + ".yaml"], "cannot be written (File name too long"),
        (["--unheard"], "No such option"),
    ],
)
def test_usage_fault(fabrica: Fabrica, project: Path, arguments: list[str], text: str) -> None:
    before = sorted(project.rglob("*"))
    outcome = fabrica("schema", "draft", "adult.csv", *arguments)
    assert outcome.exit_code == 2 and text in outcome.err, outcome.err
    assert outcome.out == "" and sorted(project.rglob("*")) == before


@pytest.mark.parametrize("header", ["0,1,2,class", "2011,2016,2021,region", "1,label", "yes,null,1,1e5"])
def test_names_that_are_numbers_may_be_names(fabrica: Fabrica, project: Path, header: str) -> None:
    names = header.split(",")
    rows = "".join(",".join([*["5"] * (len(names) - 1), "x"]) + "\n" for _ in range(3))
    (project / "t.csv").write_text(f"{header}\n{rows}")
    assert list(_columns(fabrica, "t.csv")) == [name.strip() for name in names]


def test_four_thousand_columns(fabrica: Fabrica, project: Path) -> None:
    names = [f"column {number}" for number in range(4000)]
    (project / "wide.csv").write_text(f"{','.join(names)}\n" + f"{','.join(['1.5', 'a'] * 2000)}\n" * 5)
    start = time.perf_counter()
    outcome = fabrica("schema", "draft", "wide.csv", "--output", "wide.yaml")
    assert outcome.exit_code == 0, outcome.err
    assert time.perf_counter() - start < 20
    columns = read_yaml((project / "wide.yaml").read_text())["table"]["columns"]
    assert list(columns) == names
    with pytest.raises(RequestRefused, match="and 3986 more"):
        read_spec(project / "wide.yaml")


def test_a_draft_that_no_spec_can_be_is_refused(fabrica: Fabrica, project: Path) -> None:
    names = [f"{'a' * 500}{number}" for number in range(3000)]
    pq.write_table(pa.table({name: [1] for name in names}), "t.parquet")
    outcome = fabrica("schema", "draft", "t.parquet")
    assert outcome.exit_code == 2 and "larger than a spec can be" in outcome.err


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), NAMES)
@example(["yes", "null", "1", "1e5", "true", "~", "=", "<<", "2020-01-01", "1:30", "0x1f", "1_000"], "off")
@example(
    ["a: b", "a #b", "#a", "- a", "-", "?", "? a", "*a", "&a", "!a", "%a", "@a", "`a", ">a", "|a", "{a", "[a"], "a"
)
@example(['"', "'", "\\", "\n", "\t", "\r", "\x00", "\x85", "\u2028", "\ufeff", "\U0001f600", " a", "a ", "TODO"], "é")
@example(["a" * 1500, '"' * 800, "\n" * 400, "---", "...", "a\n---\nb", "a, b", "type:x"], "x" * 1100)
def test_names_read_back_as_they_are(names: list[str], path: str) -> None:
    columns = [DraftedColumn(name, "categorical") for name in names]
    text = draft_text("1e5", path, columns, {names[0]: "age"}, inferred=False)
    for load in [read_yaml, yaml.safe_load]:
        drafted = load(text)
        assert list(drafted["table"]["columns"]) == names
        assert drafted["source"] == {"path": path} and drafted["dataset"] == "1e5"


def test_plain_names_stay_plain() -> None:
    for name in ["age", "work class", "data/raw/adult.csv", "Größe", "a-b_c.d"]:
        assert yaml_scalar(name) == name


def test_odd_names_of_a_csv_read_back(fabrica: Fabrica, project: Path) -> None:
    names = ["a: b", " age", 'say "x"', "two\nlines", "null", "yes", "1e5", "Größe", "#", "it's, so"]
    header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    (project / "t.csv").write_text(f"{header}\n{','.join('1' * len(names))}\n", encoding="utf-8-sig")
    assert list(_columns(fabrica, "t.csv")) == [name.strip() for name in names]
