"""Read the source into the declared columns and types; confidential side.

Everything that has no value of the declared type is counted by column and refused here, because later steps compute
with values: text that is not a number, a fraction in an integer column, an impossible date. Missing values, bounds and
categories are left to `validate`. Columns that are dropped, and identifiers, which are made anew, are not looked at.

The source is read in pieces and never held as a whole, unless a single piece holds it. Later steps read the file again.
"""

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from schemas.columns import DroppedColumn, IdentifierColumn
from schemas.errors import RequestRefused, ValidationFailed
from schemas.table import TableSchema
from tasks.columns.cells import LONGEST_TEXT_BYTES, is_text
from tasks.columns.reading import read_column, with_other
from tasks.columns.values import level_codes
from tasks.csv_rows import csv_header, csv_rows
from tasks.files import sha256_file
from tasks.pieces import piece_rows
from tasks.step import step
from tasks.tables import SourceTable

_LONGEST_NAME = 60
"""Characters of a column's name that a message shows."""


@step("Read source")
def ingest(path: Path, table: TableSchema) -> SourceTable:
    """The source's declared columns as a data frame.

    Parameters
    ----------
    path : Path
        A CSV file (comma, header line, UTF-8) or a Parquet file.
    table : TableSchema

    Returns
    -------
    SourceTable
        The columns that are read, in declared order and of the types that `tasks.columns.reading` gives; missing values
        are null.

    Raises
    ------
    RequestRefused
        The file does not exist.
    ValidationFailed
        The file cannot be read as what its ending says, columns are missing, undeclared or doubled, or cells have no
        value of the declared type (by column and count). Later, from `pieces`: the file was changed.
    """
    if not _is_file(path):
        raise RequestRefused(f"{path}: no such file, or a folder; correct source.path in the spec")
    version = _version(path)
    sha256 = sha256_file(path)
    faults: dict[tuple[str, str], int] = {}
    mapped: Counter[str] = Counter()
    labels: list[npt.NDArray[np.int32]] = []
    first: pd.DataFrame | None = None
    for arrow in _pieces(path, table):
        frame, counts, others = _declared(arrow, table)
        for fault, count in counts.items():
            faults[fault] = faults.get(fault, 0) + count
        mapped.update(others)
        labels.append(level_codes(frame[table.label], table.classes).astype(np.int32))
        first = frame if len(labels) == 1 else None
    if not labels:
        raise ValidationFailed(f"{path.name}: has no rows")
    if faults:
        in_order = sorted(faults.items(), key=lambda fault: table.read.index(fault[0][0]))
        lines = [f"{path.name}: column {_quoted(name)}: {_rows(count)} {what}" for (name, what), count in in_order]
        raise ValidationFailed("\n".join([*few(lines), "correct the source, or the column's declaration in the spec"]))

    def require_unchanged() -> None:
        if not _is_file(path) or _version(path) != version:
            raise ValidationFailed(
                f"{path.name}: was changed while the release was made; start a new release"
            ) from None

    def pieces() -> Iterator[pd.DataFrame]:
        if first is not None:
            yield first
            return
        require_unchanged()
        try:
            for arrow in _pieces(path, table):
                yield _declared(arrow, table)[0]
        except ValidationFailed:  # of a file that was good
            require_unchanged()
            raise
        require_unchanged()

    require_unchanged()
    codes = np.concatenate(labels)
    return SourceTable(pieces, len(codes), sha256, codes, dict(mapped))


def _declared(arrow: pa.Table, table: TableSchema) -> tuple[pd.DataFrame, dict[tuple[str, str], int], dict[str, int]]:
    """Rows in the declared types, what could not be read by column and words, and values that became `other`."""
    columns: dict[str, pd.Series] = {}
    faults: dict[tuple[str, str], int] = {}
    mapped: dict[str, int] = {}
    for name in table.read:
        column = table.columns[name]
        assert not isinstance(column, DroppedColumn | IdentifierColumn)
        values, counts = read_column(arrow.column(name), column, table.missing_values)
        faults |= {(name, what): count for what, count in counts.items()}
        columns[name], count = with_other(values, column)
        if count:
            mapped[name] = count
    return pd.DataFrame(columns), faults, mapped


def _pieces(path: Path, table: TableSchema) -> Iterator[pa.Table]:
    """The declared columns as the file holds them, in pieces of even size."""
    read = _read_csv if path.suffix.lower() == ".csv" else _read_parquet
    size = piece_rows(len(table.read))
    waiting: list[pa.Table] = []
    n_waiting = 0
    for batch in read(path, table, size):
        waiting.append(batch)
        n_waiting += len(batch)
        if n_waiting >= size:
            rows = pa.concat_tables(waiting)
            n_whole = n_waiting - n_waiting % size
            for start in range(0, n_whole, size):
                yield rows.slice(start, size)
            waiting, n_waiting = [rows.slice(n_whole)], n_waiting - n_whole
    if n_waiting:
        yield pa.concat_tables(waiting)


def _version(path: Path) -> tuple[int, int, int, int]:
    """What changes when a file is written to or put in another's place."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def few(faults: list[str], most: int = 20) -> list[str]:
    """As many lines as people read, and how many more there are."""
    return faults if len(faults) <= most else [*faults[: most - 1], f"and {len(faults) - most + 1} more of the kind"]


# Kinds of file ------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, declared: TableSchema, _: int) -> Iterator[pa.Table]:
    header = [name.strip() for name in csv_header(path)]  # as blanks around cells are
    _check_columns(path, header, declared)
    for rows in csv_rows(path, header):
        yield rows.select(declared.read)


def _read_parquet(path: Path, declared: TableSchema, n_rows: int) -> Iterator[pa.Table]:
    try:
        with pa.parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names, declared)
            _check_sizes(path, file, declared)
            for group in range(file.num_row_groups):  # one by one: a reader of several keeps what it has read
                for batch in file.iter_batches(n_rows, row_groups=[group], columns=declared.read):
                    yield pa.Table.from_batches([batch]).select(declared.read)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError):
        raise ValidationFailed(f"{path.name}: cannot be read as Parquet; is the file whole?") from None


def _check_sizes(path: Path, file: pa.parquet.ParquetFile, declared: TableSchema) -> None:
    """Refuse, before it is read, text so large that some cell must be too long."""
    metadata = file.metadata
    texts = {field.name for field in file.schema_arrow if is_text(_plain(field.type))} & set(declared.read)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema in texts and chunk.total_uncompressed_size > 2 * max(1, group.num_rows) * (
                LONGEST_TEXT_BYTES + 16
            ):
                raise ValidationFailed(
                    f"{path.name}: column {_quoted(chunk.path_in_schema)}: holds text longer than "
                    f"{LONGEST_TEXT_BYTES // 2**20} MiB; correct the source, or use role: drop"
                )


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


# Columns ------------------------------------------------------------------------------------------------------------


def _check_columns(path: Path, names: list[str], table: TableSchema) -> None:
    """Refuse columns that are doubled, missing or not declared.

    Where no name is known the first line is no header, but a row whose cells must not be quoted.
    """
    if not {_folded(name) for name in names} & {_folded(name) for name in table.columns}:
        hint = "; is the file separated by commas?" if len(names) == 1 else ""
        raise ValidationFailed(
            f"{path.name}: none of its {len(names)} column names is declared; does it begin with a header line?{hint}"
        )
    doubled = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
    if doubled:
        raise ValidationFailed(f"{path.name}: column names stand more than once: {_listed(doubled)}; rename them")
    missing = [name for name in table.released if name not in names]
    extra = [name for name in names if name not in table.columns]
    faults = []
    if missing:
        faults.append(f"{path.name}: declared columns are missing: {_listed(missing)}")
    if extra:
        absent = [name for name in table.columns if name not in names]
        unnamed = " (a trailing comma makes an unnamed column)" if any(not name.strip() for name in extra) else ""
        faults.append(
            f"{path.name}: columns are not declared: {_listed(extra, absent)}{unnamed}; declare them, with "
            "`role: drop` to leave them out"
        )
    if faults:
        raise ValidationFailed("\n".join(faults))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


def _rows(count: int) -> str:
    return f"{count} row(s)"


def _listed(names: list[str], meant: list[str] | None = None, most: int = 10) -> str:
    """Column names for a message, each with the one of `meant` that is nearly the same."""
    shown = ", ".join(f"{_quoted(name)}{_suggestion(name, meant or [])}" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _suggestion(name: str, meant: list[str]) -> str:
    folded = {_folded(other): other for other in meant}
    near = get_close_matches(_folded(name), folded, n=1, cutoff=0.75)
    return f" (did you mean {_quoted(folded[near[0]])}?)" if near else ""


def _folded(name: str) -> str:
    return name.strip().casefold()


def _quoted(name: str) -> str:
    """A column's name for a message, its first line: after an open quote the others may be rows."""
    shown = "".join(name.splitlines()[:1])[:_LONGEST_NAME]
    shown += "" if shown == name else "…"
    return "`" + "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in shown) + "`"
