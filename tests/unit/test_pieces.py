"""Rows on disk between two stages: each comes back once, in its group, in the order of adding, whatever its type."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks.pieces
from schemas.errors import IntegrityFailed
from schemas.table import TableSchema
from tasks.accounting.lattice import SPACING
from tasks.noise_added import NoiseAdded, piece_of, public_of, write_noise_added
from tasks.pieces import Groups, Sequence, integers_of, matrix_column, matrix_of, piece_rows
from tasks.staging import Staging
from tasks.tables import NoiseAddedTable
from tasks.workspace import Workspace

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("matrix", pa.list_(pa.int64(), 3)),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("share", pa.float64()),
        ("day", pa.date32()),
        ("seen", pa.timestamp("us", tz="Europe/Vienna")),
    ]
)
_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
ROW = st.tuples(
    st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3),
    st.none() | st.text(max_size=5),
    st.none() | st.booleans(),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.integers(0, 10_000).map(lambda days: date(2000, 1, 1) + timedelta(days)),
    st.none() | st.integers(0, 10**15).map(lambda us: _BEGIN + timedelta(microseconds=us)),
)
PIECES = st.lists(st.lists(st.tuples(st.integers(0, 5), ROW), max_size=6), max_size=8)


def _tables(pieces: list[list[tuple[int, Any]]]) -> list[tuple[pa.Table, np.ndarray]]:
    """Pieces with rows numbered through, and the group of each row."""
    tables, start = [], 0
    for piece in pieces:
        numbers = range(start, start + len(piece))
        start += len(piece)
        rows = [
            dict(zip(SCHEMA.names, (number, *row), strict=True))
            for number, (_, row) in zip(numbers, piece, strict=True)
        ]
        groups = np.array([group for group, _ in piece], dtype=np.int64)
        tables.append((pa.Table.from_pylist(rows, schema=SCHEMA), groups))
    return tables


@settings(max_examples=60)
@given(pieces=PIECES, most=st.integers(1, 20), in_pieces=st.booleans())
def test_each_row_comes_back_once_in_its_group_in_order_of_adding(
    pieces: list[list[tuple[int, Any]]], most: int, in_pieces: bool
) -> None:
    added = _tables(pieces)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(tasks.pieces, "PIECE_ROWS", most)
        groups = Groups(Path(folder) / "groups")
        for piece, own in added:
            groups.add(piece, own)
        expected: dict[int, list[Any]] = {}
        for piece, own in added:
            for group, row in zip(own.tolist(), piece.to_pylist(), strict=True):
                expected.setdefault(group, []).append(row)
        assert groups.sizes() == {group: len(expected[group]) for group in sorted(expected)}
        for group, rows in expected.items():
            read = pa.concat_tables(groups.pieces(group)) if in_pieces else groups.read(group)
            assert read.schema == SCHEMA and read.to_pylist() == rows
            groups.drop(group)
        assert list((Path(folder) / "groups").iterdir()) == []


@settings(max_examples=40)
@given(pieces=st.lists(st.lists(st.tuples(st.just(0), ROW), min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_sequence_gives_its_pieces_again_and_again(pieces: list[list[tuple[int, Any]]]) -> None:
    tables = [piece for piece, _ in _tables(pieces)]
    with TemporaryDirectory() as folder:
        sequence = Sequence(Path(folder) / "below" / "pieces.arrows")
        assert sequence.write(iter(tables)) == len(tables)
        for _ in range(2):
            assert [piece.to_pylist() for piece in sequence] == [piece.to_pylist() for piece in tables]
            assert all(piece.schema == SCHEMA for piece in sequence)


def test_slices_and_chunked_pieces_are_written_as_they_look(tmp_path: Path) -> None:
    rows = pa.table({"number": np.arange(10), "matrix": matrix_column(np.arange(30).reshape(10, 3))})
    chunked = pa.concat_tables([rows.slice(7), rows.slice(2, 3)])
    sequence = Sequence(tmp_path / "pieces.arrows")
    sequence.write(iter([rows.slice(4, 2), chunked]))
    first, second = sequence
    assert matrix_of(first, "matrix").tolist() == [[12, 13, 14], [15, 16, 17]]
    assert integers_of(second, "number").tolist() == [7, 8, 9, 2, 3, 4]
    groups = Groups(tmp_path / "groups")
    groups.add(rows.slice(4, 2), np.array([1, 0]))
    groups.add(chunked, np.array([0, 0, 1, 1, 0, 1]))
    assert matrix_of(groups.read(1), "matrix")[:, 0].tolist() == [12, 27, 6, 12]


def test_rows_that_wait_are_read_with_those_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.pieces, "PIECE_ROWS", 5)
    groups = Groups(tmp_path / "groups")
    for start in range(0, 12, 3):  # the second and fourth addition write, nothing waits; then one that waits
        groups.add(pa.table({"number": np.arange(start, start + 3)}), np.zeros(3, dtype=np.int64))
    groups.add(pa.table({"number": [12]}), np.array([0]))
    assert len(list(groups.pieces(0))) == 3
    assert integers_of(groups.read(0), "number").tolist() == list(range(13))
    groups.add(pa.table({"number": [13, 14]}), np.array([0, 7]))
    assert groups.sizes() == {0: 14, 7: 1}
    assert integers_of(groups.read(0), "number").tolist() == list(range(14))


def test_many_groups_of_one_row_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.pieces, "PIECE_ROWS", 64)
    order = np.random.default_rng(0).permutation(1000)
    groups = Groups(tmp_path / "groups")
    for own in np.array_split(order, 9):
        groups.add(pa.table({"number": own}), own)
    assert groups.sizes() == dict.fromkeys(range(1000), 1)
    assert [integers_of(groups.read(group), "number").tolist() for group in range(1000)] == [[n] for n in range(1000)]


def test_no_rows_are_no_groups_and_an_earlier_runs_rows_are_gone(tmp_path: Path) -> None:
    earlier = Groups(tmp_path / "groups")
    earlier.add(pa.table({"number": [1]}), np.array([3]))
    assert earlier.sizes() == {3: 1}
    groups = Groups(tmp_path / "groups")
    assert groups.sizes() == {}
    groups.add(pa.table({"number": pa.array([], pa.int64())}), np.array([], dtype=np.int64))
    assert groups.sizes() == {} and list((tmp_path / "groups").iterdir()) == []


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (4, 3)])
def test_matrices_are_columns_and_back(shape: tuple[int, int], dtype: npt.DTypeLike) -> None:
    values = np.arange(shape[0] * shape[1]).astype(dtype).reshape(shape)
    piece = pa.table({"matrix": matrix_column(values), "number": np.arange(len(values))})
    assert np.array_equal(matrix_of(piece, "matrix"), values) and matrix_of(piece, "matrix").dtype == dtype
    assert np.array_equal(matrix_of(piece.slice(1), "matrix"), values[1:])
    assert np.array_equal(matrix_of(pa.concat_tables([piece, piece]), "matrix"), np.vstack([values, values]))
    across = pa.table({"matrix": matrix_column(np.asfortranarray(values))})
    assert np.array_equal(matrix_of(across, "matrix"), values)


@pytest.mark.parametrize(("width", "rows"), [(0, 65536), (1, 65536), (64, 65536), (65, 64527), (2**22, 1), (2**30, 1)])
def test_wide_rows_make_short_pieces(width: int, rows: int) -> None:
    assert piece_rows(width) == rows


# noise-added data in a file

PUBLIC: dict[str, Any] = {
    "age": {"type": "integer", "bounds": [0, 120]},
    "rate": {"type": "numeric", "bounds": [0, 1]},
    "day": {"type": "date", "bounds": ["2015-01-01", "2025-12-31"]},
    "seen": {"type": "datetime", "bounds": ["2015-01-01T00:00", "2025-12-31T00:00"], "timezone": "Europe/Vienna"},
    "town": {"type": "categorical", "categories": ["Linz", "Wien"]},
    "size": {"type": "ordinal", "categories": [1, 2, 3]},
    "smoker": {"type": "boolean"},
}
VALUES: dict[str, list[Any]] = {
    "age": [3, 120, 0],
    "rate": [0.1, 1.0, 1 / 3],
    "day": [date(2015, 1, 1), date(2020, 2, 29), date(2025, 12, 31)],
    "seen": [datetime(2020, 10, 25, hour, 30, tzinfo=UTC) for hour in range(3)],  # clocks show 02:30 twice
    "town": ["Wien", "Linz", "Wien"],
    "size": [3, 1, 2],
    "smoker": [True, False, True],
}


def _declared(nullable: bool) -> TableSchema:
    public = {name: {**column, "role": "public", "nullable": nullable} for name, column in PUBLIC.items()}
    feature = {"x": {"type": "integer", "bounds": [0, 9]}, "y": {"type": "categorical", "categories": ["a", "b"]}}
    return TableSchema.model_validate({"label": "y", "columns": {**public, **feature}})


def _source(rows: list[list[Any]]) -> pa.Table:
    fields = {
        "age": pa.int64(), "rate": pa.float64(), "day": pa.date32(), "seen": pa.timestamp("us", "Europe/Vienna"),
        "town": pa.string(), "size": pa.int64(), "smoker": pa.bool_(),
    }  # fmt: skip
    columns = {name: pa.array([row[place] for row in rows], kind) for place, (name, kind) in enumerate(fields.items())}
    return pa.table(columns | {"x": [1] * len(rows), "y": ["a"] * len(rows)})


@pytest.mark.parametrize("nullable", [False, True])
def test_noise_added_rows_and_public_columns_of_every_type_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nullable: bool
) -> None:
    """Pieces of three rows: all values there, then (where they may be) all missing, then some missing, then some."""
    from tasks.ingest import ingest

    monkeypatch.setattr(tasks.pieces, "PIECE_ROWS", 3)
    table = _declared(nullable)
    full = [list(row) for row in zip(*VALUES.values(), strict=True)]
    rows = full
    if nullable:
        nothing: list[Any] = [None] * len(PUBLIC)
        rows = [*full, nothing, nothing, nothing, full[0], nothing, full[1], nothing, full[2], full[1]]
    pq.write_table(_source(rows), tmp_path / "source.parquet")
    source = ingest(tmp_path / "source.parquet", table)
    random = np.random.default_rng(1)
    places = random.permutation(len(rows))
    lattice, labels = random.integers(-(2**40), 2**40, (len(rows), 4)), random.integers(0, 2, len(rows))

    def pieces() -> Iterator[pa.Table]:
        start = 0
        for frame in source.pieces():
            own = slice(start, start + len(frame))
            start += len(frame)
            released = NoiseAddedTable(lattice[own], labels[own], SPACING, "operating system")
            yield piece_of(places[own], released, frame[list(table.public)])

    written = write_noise_added(tmp_path / "noise_added.parquet", pieces(), SPACING, "operating system", "members")
    opened = NoiseAdded.open(tmp_path / "noise_added.parquet")
    assert opened == written and (opened.n_rows, opened.spacing) == (len(rows), SPACING)
    assert [len(piece) for piece in opened.pieces()] == [3] * (len(rows) // 3)
    read = opened.read()
    assert np.array_equal(read.lattice[places], lattice) and np.array_equal(read.labels[places], labels)
    assert read.randomness == "operating system"
    shown = pd.concat([public_of(piece, table) for piece in opened.pieces()], ignore_index=True)
    for name in PUBLIC:
        found = [None if pd.isna(value) else value for value in shown[name]]
        wanted = [row[list(PUBLIC).index(name)] for row in rows]
        if name == "day":
            found = [None if value is None else pd.Timestamp(value).date() for value in found]
        elif name == "seen":  # a time that a clock shows twice is never equal to another zone's in Python
            found = [None if value is None else value.tz_convert(UTC) for value in found]
        assert found == wanted, name


def _noise_added(folder: Path) -> Staging:
    """Staging with 60 noise-added rows in two pieces."""
    staging = Staging(Workspace(folder), "small", "a")
    staging.folder.mkdir(parents=True)
    random = np.random.default_rng(0)

    def pieces() -> Iterator[pa.Table]:
        for start in (0, 30):
            released = NoiseAddedTable(random.integers(0, 2**16, (30, 3)), np.zeros(30, np.int64), SPACING, "seeded")
            yield piece_of(np.arange(start, start + 30), released, pd.DataFrame(index=range(30)))

    staging.keep_noise_added(pieces(), SPACING, "seeded", np.arange(60))
    return staging


def _unnoticed(staging: Staging, first: int, last: int) -> list[str]:
    """What comes of flipping each of some bytes of the noise-added data, but for a refusal or no change at all."""
    path = staging.folder / "noise_added.parquet"
    whole = path.read_bytes()
    before = staging.noise_added()
    assert before is not None
    rows = before.read()
    found = []
    for place in range(first, last):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            after = staging.noise_added()
            assert after == before
            read = after.read()
            assert np.array_equal(read.lattice, rows.lattice) and np.array_equal(read.labels, rows.labels)
        except IntegrityFailed as error:
            assert str(error).startswith(f"{path}: is missing or damaged")
        except Exception as error:
            found.append(f"byte {place}: {type(error).__name__}: {str(error)[:80]}")
    path.write_bytes(whole)
    assert staging.noise_added() is not None
    return found


def test_a_flipped_byte_of_a_page_is_found_or_changes_nothing(tmp_path: Path) -> None:
    staging = _noise_added(tmp_path)
    size = (staging.folder / "noise_added.parquet").stat().st_size
    assert _unnoticed(staging, 0, size - _footer_bytes(staging)) == []


def test_a_flipped_byte_of_the_footer_is_found_or_changes_nothing(tmp_path: Path) -> None:
    staging = _noise_added(tmp_path)
    size = (staging.folder / "noise_added.parquet").stat().st_size
    assert _unnoticed(staging, size - _footer_bytes(staging), size) == []


def _footer_bytes(staging: Staging) -> int:
    """The footer, its length, and the mark at the end."""
    content = (staging.folder / "noise_added.parquet").read_bytes()
    return int.from_bytes(content[-8:-4], "little") + 8


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 0.9999])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    staging = _noise_added(tmp_path)
    path = staging.folder / "noise_added.parquet"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(IntegrityFailed, match=r"noise_added\.parquet: is missing or damaged"):
        staging.noise_added()


def test_writing_that_is_cut_off_leaves_no_whole_file(tmp_path: Path) -> None:
    staging = Staging(Workspace(tmp_path), "small", "a")
    staging.folder.mkdir(parents=True)

    def pieces() -> Iterator[pa.Table]:
        released = NoiseAddedTable(np.zeros((2, 3), np.int64), np.zeros(2, np.int64), SPACING, "seeded")
        yield piece_of(np.arange(2), released, pd.DataFrame(index=range(2)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        staging.keep_noise_added(pieces(), SPACING, "seeded", np.arange(60))
    assert staging.noise_added() is None
    assert [path.name for path in staging.folder.iterdir()] == [".noise_added.parquet.part"]


def test_wide_rows_do_not_wait_in_memory(tmp_path: Path) -> None:
    groups = Groups(tmp_path / "groups")
    for _ in range(5):
        groups.add(pa.table({"m": matrix_column(np.zeros((1000, 2000)))}), np.zeros(1000, np.int64))  # 15 MiB each
        assert groups._bytes_waiting < 2**25
    assert groups.sizes() == {0: 5000}
