"""Read the source into the declared columns and types; confidential side.

Everything that has no value of the declared type is counted by column and refused here, because later steps compute
with numbers: text that is not a number, a fraction in an integer column, NaN and infinity. Missing values, bounds and
categories are left to `validate`.
"""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from schemas.errors import RequestRefused, ValidationFailed
from schemas.table import CategoricalColumn, IntegerColumn, NumericColumn, TableSchema
from tasks.files import sha256_file
from tasks.step import step
from tasks.tables import SourceTable

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_NOT_FINITE = r"^[+-]?(nan|inf|infinity)$"
_WHOLE_NUMBER = r"^-?\d{1,18}$"
_LARGEST_ROW_BYTES = 16 * 2**20


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
        Columns in declared order; numeric columns are float64, integer columns float64 holding whole numbers,
        the label text or whole numbers as its categories are; missing values are null.

    Raises
    ------
    RequestRefused
        The file does not exist.
    ValidationFailed
        The file cannot be read as what its ending says, columns are missing, undeclared or doubled, or cells have no
        value of the declared type (by column and count).
    """
    if not _is_file(path):
        raise RequestRefused(f"{path}: no such file; correct source.path in the spec")
    arrow = _read_csv(path, table) if path.suffix.lower() == ".csv" else _read_parquet(path, table)
    _check_columns(path, arrow.column_names, table)
    if arrow.num_rows == 0:
        raise ValidationFailed(f"{path.name}: has no rows")
    faults: list[str] = []
    columns: dict[str, pd.Series] = {}
    for name in table.released:
        values, counts = _convert(arrow.column(name), table.columns[name])
        faults += [f"{path.name}: column `{name}`: {_rows(count)} {what}" for what, count in counts.items()]
        columns[name] = values
    if faults:
        raise ValidationFailed("\n".join([*faults, "correct the source, or the column's type in the spec"]))
    return SourceTable(frame=pd.DataFrame(columns), sha256=sha256_file(path))


def _read_csv(path: Path, declared: TableSchema) -> pa.Table:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), None)
    except UnicodeDecodeError:
        raise ValidationFailed(f"{path.name}: is not text in UTF-8; save it as UTF-8") from None
    except (OSError, csv.Error):
        raise ValidationFailed(f"{path.name}: cannot be read as CSV; check the file and its permissions") from None
    if not header:
        raise ValidationFailed(f"{path.name}: is empty, or its first line is; it must begin with a header line")
    _check_header(path, header, declared)
    broken: list[int] = []

    def count_broken(row: pa.csv.InvalidRow) -> str:
        broken.append(row.actual_columns)
        return "skip"

    try:
        table = pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=_LARGEST_ROW_BYTES),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=count_broken),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        )
    except (pa.ArrowException, OSError):
        raise ValidationFailed(
            f"{path.name}: cannot be read as CSV; it must be UTF-8 text with commas between the columns, and no row "
            f"may be longer than {_LARGEST_ROW_BYTES // 2**20} MiB"
        ) from None
    if broken:
        raise ValidationFailed(
            f"{path.name}: {_rows(len(broken))} with a number of columns other than the header's {len(header)}; "
            "look for stray or trailing commas and open quotes"
        )
    return table.rename_columns(header)


def _read_parquet(path: Path, declared: TableSchema) -> pa.Table:
    try:
        table = pa.parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError):
        raise ValidationFailed(f"{path.name}: cannot be read as Parquet; is the file whole?") from None
    _check_header(path, table.column_names, declared)
    return table


def _check_header(path: Path, names: list[str], table: TableSchema) -> None:
    """Refuse a file whose first line is not a header: then it is a row, and its cells must not be quoted."""
    if not set(names) & set(table.columns):
        hint = "; is the file separated by commas?" if len(names) == 1 else ""
        raise ValidationFailed(
            f"{path.name}: none of its {len(names)} column names is declared; does it begin with a header line?{hint}"
        )
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ValidationFailed(f"{path.name}: column names stand more than once: {_listed(doubled)}; rename them")


def _check_columns(path: Path, names: list[str], table: TableSchema) -> None:
    missing = [name for name in table.released if name not in names]
    extra = [name for name in names if name not in table.columns]
    faults = []
    if missing:
        faults.append(f"{path.name}: declared columns are missing: {_listed(missing)}")
    if extra:
        unnamed = " (a trailing comma makes an unnamed column)" if "" in extra else ""
        faults.append(
            f"{path.name}: columns are not declared: {_listed(extra)}{unnamed}; declare them, with `role: drop` to "
            "leave them out"
        )
    if faults:
        raise ValidationFailed("\n".join(faults))


def _convert(
    values: pa.ChunkedArray, column: NumericColumn | IntegerColumn | CategoricalColumn | object
) -> tuple[pd.Series, dict[str, int]]:
    """The column as pandas holds it from here on, and what could not be converted, by count."""
    values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if _is_text(values.type):
        values = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
    if isinstance(column, CategoricalColumn):
        return _convert_label(values, whole=isinstance(column.categories[0], int))
    return _convert_number(values, whole=isinstance(column, IntegerColumn))


def _convert_number(values: pa.Array, *, whole: bool) -> tuple[pd.Series, dict[str, int]]:
    counts: dict[str, int] = {}
    if _is_text(values.type):
        finite = _matches(values, _NUMBER)
        counts["with NaN or infinity"] = _count(_matches(values, _NOT_FINITE, ignore_case=True))
        counts["with text that is not a number"] = (
            len(values) - values.null_count - _count(finite) - counts["with NaN or infinity"]
        )
        values = pc.if_else(pc.fill_null(finite, False), values, pa.scalar(None, values.type))
    elif not (
        pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)
    ):
        counts[f"with values of type {values.type}, not numbers"] = len(values) - values.null_count
        values = pa.nulls(len(values), pa.float64())
    numbers = values.cast(pa.float64(), safe=False)
    not_finite = pc.invert(pc.is_finite(numbers))
    counts["with NaN or infinity"] = counts.get("with NaN or infinity", 0) + _count(not_finite)
    if whole:
        counts["with a fraction in an integer column"] = _count(
            pc.and_(pc.is_finite(numbers), pc.not_equal(pc.floor(numbers), numbers))
        )
    series = pd.Series(numbers.to_numpy(zero_copy_only=False).astype(np.float64))
    return series, {what: count for what, count in counts.items() if count}


def _convert_label(values: pa.Array, *, whole: bool) -> tuple[pd.Series, dict[str, int]]:
    if not whole:
        if not _is_text(values.type):
            try:
                values = values.cast(pa.large_string())
            except pa.ArrowException:
                return _none_of(values, "text")
        return values.to_pandas().astype("str"), {}
    counts: dict[str, int] = {}
    if _is_text(values.type):
        good = _matches(values, _WHOLE_NUMBER)
        counts["with text that is not a whole number"] = len(values) - values.null_count - _count(good)
        values = pc.if_else(pc.fill_null(good, False), values, pa.scalar(None, values.type)).cast(pa.int64())
    else:
        try:
            if not pa.types.is_integer(values.type):
                raise pa.ArrowTypeError
            values = values.cast(pa.int64())
        except pa.ArrowException:
            return _none_of(values, "whole numbers of 64 bits")
    series = pd.Series(pd.array(values.to_pylist(), dtype="Int64"))
    return series, {what: count for what, count in counts.items() if count}


def _none_of(values: pa.Array, wanted: str) -> tuple[pd.Series, dict[str, int]]:
    """A column of a type that cannot be what was declared: every value of it counts."""
    counts = {f"with values of type {values.type}, not {wanted}": len(values) - values.null_count}
    return pd.Series([None] * len(values)), counts


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _matches(values: pa.Array, pattern: str, *, ignore_case: bool = False) -> pa.Array:
    match: Callable[..., pa.Array] = pc.match_substring_regex
    return match(values, pattern, ignore_case=ignore_case)


def _count(flags: pa.Array) -> int:
    return int(pc.sum(pc.fill_null(flags, False).cast(pa.int64())).as_py() or 0)


def _rows(count: int) -> str:
    return f"{count} row(s)"


def _listed(names: list[str], most: int = 10) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
