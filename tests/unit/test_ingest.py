"""Reading whole files: columns, file faults, sizes."""

import tracemalloc
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import RequestRefused, ValidationFailed
from schemas.table import TableSchema
from tasks.columns.cells import LONGEST_TEXT_BYTES
from tasks.ingest import ingest
from tasks.tables import SourceTable
from tests.sources import frame_of

MIB = 2**20
COLUMNS: dict[str, Any] = {
    "age": {"type": "integer", "bounds": [0, 120]},
    "note": {"role": "drop"},
    "person": {"type": "identifier"},
    "town": {"type": "categorical", "categories": ["Linz", "Wien"], "other": "elsewhere"},
    "kind": {"type": "categorical", "categories": ["x", "y"]},
}
HEADER = "age,note,person,town,kind\n"


def schema(columns: dict[str, Any] | None = None) -> TableSchema:
    return TableSchema.model_validate({"label": "kind", "columns": columns or COLUMNS})


def read(folder: Path, content: str | bytes | pa.Table, table: TableSchema | None = None) -> SourceTable:
    path = folder / ("source.parquet" if isinstance(content, pa.Table) else "source.csv")
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return ingest(path, table or schema())


def refused(folder: Path, content: str | bytes | pa.Table, table: TableSchema | None = None) -> str:
    with pytest.raises(ValidationFailed) as caught:
        read(folder, content, table)
    assert str(caught.value).startswith("source.")
    return str(caught.value)


def parquet(**changes: Any) -> pa.Table:
    return pa.table({"age": [1], "note": ["n"], "person": ["p"], "town": ["Wien"], "kind": ["x"], **changes})


def test_what_is_read(tmp_path: Path) -> None:
    source = read(tmp_path, HEADER + '17,free text,p1,Wien,x\n 18 ,"a, ""b""\nc",p2,Graz,y\n,,,,x\n')
    assert frame_of(source).columns.tolist() == ["age", "town", "kind"]  # neither dropped columns nor identifiers
    assert frame_of(source)["age"].tolist()[:2] == [17.0, 18.0] and frame_of(source)["age"].isna().tolist()[2]
    assert frame_of(source)["town"].tolist()[:2] == ["Wien", "elsewhere"]
    assert frame_of(source)["kind"].tolist() == ["x", "y", "x"]
    assert source.mapped_to_other == {"town": 1}
    assert len(source.sha256) == 64


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    table = pa.table(
        {
            "kind": ["x", "y", "x"],
            "person": [[1], [2], [3]],
            "age": pa.array([17, 18, None], pa.uint8()),
            "town": pa.array(["Wien", "Graz", None]).dictionary_encode(),
            "note": pa.array([None, None, None], pa.null()),
        }
    )
    csv = HEADER + "17,,1,Wien,x\n18,,2,Graz,y\n,,3,,x\n"
    for columns in [table, table.select(["note", "town", "age", "person", "kind"])]:
        source = read(tmp_path, columns)
        pd.testing.assert_frame_equal(frame_of(source), frame_of(read(tmp_path, csv)))
        assert source.mapped_to_other == {"town": 1}


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_are_read(tmp_path: Path, rows: int) -> None:
    assert len(frame_of(read(tmp_path, HEADER + "1,,,Wien,x\n" * rows))) == rows


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_ends_of_csv_files(tmp_path: Path, start: str, end: str) -> None:
    assert frame_of(read(tmp_path, start + HEADER + "1,,,Wien,x\n2,,,Linz,y" + end))["age"].tolist() == [1.0, 2.0]
    lines = (start + HEADER + "1,,,Wien,x\n2,,,Linz,y").replace("\n", "\r\n")
    assert frame_of(read(tmp_path, lines + end))["kind"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", ["is empty"]),
        ("\n" + HEADER, ["begin with a header line"]),
        (HEADER, ["has no rows"]),
        (HEADER + "\n\n", ["has no rows"]),
        ((HEADER + "1,,,Wien,x\n").encode("utf-16"), ["UTF-8"]),
        (HEADER.encode() + b"1,,,\xff,x\n", ["UTF-8"]),
        # delimiters at the end: in the header, in rows, in both
        ("age,note,person,town,kind,\n1,,,Wien,x\n", ["columns are not declared: ``", "unnamed column"]),
        (HEADER + "1,,,Wien,x,\n" * 3, ["3 row(s) with a number of columns other than the", "trailing commas"]),
        ("age,note,person,town,kind,\n1,,,Wien,x,\n", ["unnamed column"]),
        ("age,note,person,town,kind,,\n1,,,Wien,x,,\n", ["unnamed column"]),
        (HEADER.replace(",", ";") + "1;;;Wien;x\n", ["separated by commas?"]),
        # quotes that are never closed
        (HEADER + '1,,,Wien,"x\n2,,,Linz,y\n3,,,Linz,y\n', ["a quote is opened and never closed"]),
        (HEADER + '1,"note,,Wien,x\n2,,,Linz,y\n', ["a quote is opened and never closed"]),
        ('age,note,person,town,"kind\n1,,,Wien,x\n', ["header line for an open quote"]),
        ('age,note,person,town,"kind\n1,,,Wien,"x"\n', ["header line for an open quote"]),
        ('age,note,person,town,"kind\n1,,,Wien,",x\n', ["not declared: `kind…`, `x`"]),
        (HEADER + '1,,,Wien,"x\n' + "2,,,Linz,y\n" * (2 * MIB), ["cannot be read as CSV", "open quote"]),
        # columns
        ("age,note,person,town\n1,,,Wien\n", ["declared columns are missing: `kind`"]),
        ("age,note,town,kind\n1,,Wien,x\n", ["declared columns are missing: `person`"]),
        ("age,age,note,person,town,kind\n1,1,,,Wien,x\n", ["more than once: `age`"]),
        ("age,note,person,town,kind,what\n1,,,Wien,x,1\n", ["not declared: `what`;", "role: drop"]),
        ("Age,note,person,town,kind\n1,,,Wien,x\n", ["missing: `age`", "`Age` (did you mean `age`?)"]),
        ("age,note,persom,town,kind\n1,,,Wien,x\n", ["`persom` (did you mean `person`?)"]),
        ("age,Note,person,town,kind\n1,,,Wien,x\n", ["`Note` (did you mean `note`?)"]),
        ('age,note,person,town,kind,"a\nb"\n1,,,Wien,x,1\n', ["`a…`"]),
        ("age,note,person,town,kind,a\x1bb\n1,,,Wien,x,1\n", ["`a\\x1bb`"]),
        (f"age,note,person,town,kind,{'long' * 100}\n1,,,Wien,x,1\n", ["`" + "long" * 15 + "…`"]),
        # cells, several columns at once
        (HEADER + "?,,,Wien,x\n1.5,,,NA,-\nx,,,Wien,x\n",
         ["`age`: 1 row(s) with `?`, a mark", "`age`: 1 row(s) with text that is not a number",
          "`age`: 1 row(s) with a fraction", "`town`: 1 row(s) with `NA`", "`kind`: 1 row(s) with `-`"]),
        # sizes
        (HEADER + f"1,{'x' * 40 * MIB},,Wien,x\n", ["no row may be longer than 16 MiB"]),
        (HEADER + f"1,,,{'x' * 40 * MIB},x\n", ["no row may be longer than 16 MiB"]),
        (HEADER + f"1,,,{'x' * 2 * MIB},x\n", ["`town`: 1 row(s) with text longer than 1 MiB"]),
        ("x" * 40 * MIB, ["cannot be read as CSV"]),
        ('"' + "x\n" * 20 * MIB, ["cannot be read as CSV"]),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, list) else "",
)  # fmt: skip
def test_csv_that_is_refused(tmp_path: Path, content: str | bytes, texts: list[str]) -> None:
    message = refused(tmp_path, content)
    for text in texts:
        assert text in message
    assert len(message) < 1500


@pytest.mark.parametrize(
    ("table", "texts"),
    [
        (parquet().slice(0, 0), ["has no rows"]),
        (parquet().drop_columns("kind"), ["missing: `kind`"]),
        (parquet(what=[1]), ["not declared: `what`;"]),
        (parquet().rename_columns(["age", "note", "person", "town", "age"]), ["more than once: `age`"]),
        (parquet().rename_columns(["AGE", "note", "person", "town", "kind"]), ["`AGE` (did you mean `age`?)"]),
        (parquet(age=[[1]]), ["`age`: 1 row(s) with values of a nested or extended kind, not numbers"]),
        (parquet(age=[True]), ["`age`: 1 row(s) with values of type bool, not numbers"]),
        (pa.table({"a": [1]}), ["none of its 1 column names is declared"]),
    ],
)
def test_parquet_that_is_refused(tmp_path: Path, table: pa.Table, texts: list[str]) -> None:
    message = refused(tmp_path, table)
    for text in texts:
        assert text in message


def test_huge_text_in_parquet_is_refused_before_it_is_read(tmp_path: Path) -> None:
    cell = "x" * (40 * MIB)
    path = tmp_path / "source.parquet"
    for dictionary in [True, False]:
        pq.write_table(parquet(town=[cell]), path, use_dictionary=dictionary)
        before = pa.total_allocated_bytes()
        with pytest.raises(ValidationFailed, match="column `town`: holds text longer than 1 MiB"):
            ingest(path, schema())
        assert pa.total_allocated_bytes() - before < MIB
    read(tmp_path, parquet(note=[cell], person=[cell]))  # nobody looks at these
    many = 100
    town = ["Wien"] * (many - 1) + ["x" * (2 * LONGEST_TEXT_BYTES)]
    table = pa.table({name: [value] * many for name, value in parquet().to_pylist()[0].items()} | {"town": town})
    assert "column `town`: 1 row(s) with text longer than 1 MiB" in refused(tmp_path, table)


def test_a_huge_cell_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "source.csv"
    with path.open("w") as file:
        file.write(HEADER + "1,,,")
        for _ in range(200):
            file.write("x" * MIB)
        file.write(",x\n")
    pool = pa.system_memory_pool()
    earlier = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        with pytest.raises(ValidationFailed, match="16 MiB"):
            ingest(path, schema())
        _, most = tracemalloc.get_traced_memory()
        assert most < 80 * MIB and (pool.max_memory() or 0) < 120 * MIB
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(earlier)


NAMES = [
    "with blanks in it", 'with "quotes"', "it's", "`ticks`", "select", "größe µ 数", "two\nlines", "a,b", "a.b", "$x",
    "{}", "[0]", "%s", "\\", "A", "a", "nan", "0", "index", "__index_level_0__", "🙂", "tab\there", "=1+1", "values",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_any_column_name_works(tmp_path: Path, kind: str) -> None:
    columns = {name: {"type": "integer", "bounds": [0, 1000]} for name in NAMES}
    table = schema(columns | {"kind": COLUMNS["kind"]})
    frame = pd.DataFrame({name: [place, place + 1] for place, name in enumerate(NAMES)} | {"kind": ["x", "y"]})
    path = tmp_path / f"source.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    source = ingest(path, table)
    assert frame_of(source).columns.tolist() == [*NAMES, "kind"]
    assert frame_of(source)[NAMES].to_numpy().tolist() == frame[NAMES].to_numpy().tolist()


def test_a_file_that_is_not_there_or_not_parquet(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="no such file"):
        ingest(tmp_path / "none.csv", schema())
    with pytest.raises(RequestRefused, match="no such file"):
        ingest(tmp_path / ("x" * 5000), schema())
    (tmp_path / "source.parquet").write_bytes(b"PAR1 and so on")
    with pytest.raises(ValidationFailed, match="cannot be read as Parquet"):
        ingest(tmp_path / "source.parquet", schema())
