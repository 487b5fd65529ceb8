"""Rows of a CSV file as text, block by block; confidential side.

Arrow reads ahead on threads of its own, which go on for a moment after an error and even while the program ends. A
thread that then enters Python aborts the program. So Arrow is given a path and no Python object: what it cannot tell,
how many rows are broken and whether a quote stays open, is found out afterwards, from the file.
"""

import csv
import io
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from schemas.errors import ValidationFailed

LARGEST_ROW_BYTES = 16 * 2**20
_MOST_COUNTED = 1_000_000
"""Rows that are looked at to say how many are broken."""


def csv_header(path: Path) -> list[str]:
    """Names of the columns, as the first line has them.

    Raises
    ------
    ValidationFailed
        The file is empty or cannot be read, is not UTF-8, or the first line has an open quote or a NUL character.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(_lines(file), strict=True), None)
    except UnicodeDecodeError:
        raise ValidationFailed(f"{path.name}: is not text in UTF-8; save it as UTF-8") from None
    except (OSError, csv.Error):
        raise ValidationFailed(
            f"{path.name}: cannot be read as CSV; check the file and its permissions, and its header line for an open "
            "quote"
        ) from None
    if any("\0" in name for name in header or []):  # which Arrow takes for the end of the line
        raise ValidationFailed(f"{path.name}: the header line holds a NUL character; take it out")
    if not header:
        raise ValidationFailed(f"{path.name}: is empty, or its first line is; it must begin with a header line")
    return header


def csv_rows(path: Path, header: list[str]) -> Iterator[pa.Table]:
    """The rows after the header line.

    Parameters
    ----------
    path : Path
    header : list of str
        Names that the columns get, whatever they are.

    Yields
    ------
    pyarrow.Table
        All columns as text; empty cells are null. At most `LARGEST_ROW_BYTES` of the file.

    Raises
    ------
    ValidationFailed
        The file is not UTF-8, a row is too long or has another number of columns than the header (how many), or a quote
        is never closed. Rows before the fault may have been given.
    """
    if _is_one_line(path):
        return
    places = [str(place) for place in range(len(header))]  # pyarrow's names, whatever the header holds
    last: pa.Table | None = None
    try:
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=LARGEST_ROW_BYTES, column_names=places, skip_rows_after_names=1),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        ) as reader:
            for batch in reader:
                if batch.num_rows:
                    if last is not None:
                        yield last.rename_columns(header)
                    last = pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, OSError):
        raise _fault(path, len(header)) from None
    if last is None:
        return
    if _ends_in_quote(path, last.column(len(header) - 1)[-1].as_py()):
        raise _open_quote(path)
    yield last.rename_columns(header)


def _fault(path: Path, n_columns: int) -> ValidationFailed:
    """Why Arrow would not read a file, as far as it can be seen."""
    n_broken, whole = 0, False
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(chain(_lines(file), ["\n", "end"]))
            next(rows)
            row: list[str] = []
            for row in islice(rows, _MOST_COUNTED):
                n_broken += len(row) not in (0, n_columns)
            whole = row == ["end"] or next(rows, None) is None
        if whole and row != ["end"]:
            return _open_quote(path)
        n_broken -= whole and n_columns > 1
    except (OSError, ValueError, csv.Error):
        n_broken = 0
    if n_broken:
        return ValidationFailed(
            f"{path.name}: {'' if whole else 'at least '}{n_broken} row(s) with a number of columns other than the "
            f"header's {n_columns}; look for stray or trailing commas and open quotes"
        )
    return ValidationFailed(
        f"{path.name}: cannot be read as CSV; it must be UTF-8 text with commas between the columns, and no row "
        f"may be longer than {LARGEST_ROW_BYTES // 2**20} MiB; look for an open quote"
    )


def _open_quote(path: Path) -> ValidationFailed:
    return ValidationFailed(f"{path.name}: a quote is opened and never closed, so rows are taken for one cell")


def _ends_in_quote(path: Path, last_cell: str | None) -> bool:
    """Whether the file ends inside a quoted cell, which Arrow takes for a whole one.

    Then, and only then, the file ends with that cell as it was written, from the comma and the quote before it.
    """
    written = b',"' + (last_cell or "").replace('"', '""').encode()
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, io.SEEK_END) - len(written)))
        return file.read() == written


def _is_one_line(path: Path) -> bool:
    """Whether a file with a header has nothing after it, not even the end of the line."""
    if path.stat().st_size > LARGEST_ROW_BYTES:
        return False
    return not {b"\n"[0], b"\r"[0]} & set(path.read_bytes())


def _lines(file: io.TextIOBase) -> Iterator[str]:
    while line := file.readline(LARGEST_ROW_BYTES):  # one line may be the whole file
        yield line
