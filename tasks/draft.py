"""Draft a release spec from a source: names and types, and TODO for all that only the steward can state.

A bound or a category taken from the rows would leak, so a draft never holds one. The types of a Parquet file are in its
schema, and its rows are not read. A CSV file has none, so they are inferred from the cells: a fact about confidential
rows, which is why the draft says so, and stays with the steward. Whether values are missing is another such fact and is
not looked at; nor is anything guessed from a column's name.
"""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from zoneinfo import available_timezones

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import yaml

from schemas.domains import DOMAINS
from schemas.errors import RequestRefused, ValidationFailed
from schemas.spec import DATASET_PATTERN
from tasks.csv_rows import csv_header, csv_rows
from tasks.read_spec import LARGEST_SPEC_BYTES
from tasks.spec_faults import TODO
from tasks.workspace import project_root

DraftedType = Literal["integer", "numeric", "date", "datetime", "boolean", "categorical", "drop"]

_LONGEST_DATASET = 64
_LONGEST_SIMPLE_KEY = 1000
"""YAML takes a longer key only after a `? `."""

_WHOLE = r"[+-]?(0|[1-9]\d*)"
_DATE = r"\d{4}-\d{2}-\d{2}"
_TIME = r"([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)"
_PATTERNS: dict[DraftedType, str] = {
    "integer": rf"^{_WHOLE}$",
    "numeric": rf"^({_WHOLE}(\.\d*)?|[+-]?\.\d+)([eE][+-]?\d+)?$",
    "date": rf"^{_DATE}$",
    "datetime": rf"^{_DATE}{_TIME}?$",
    "boolean": r"^([tT]rue|TRUE|[fF]alse|FALSE)$",
}
"""What every cell of a CSV column looks like, the narrowest type first. A leading zero is a code's, not a number's."""
_OFFSET = r":\d{2}([.,]\d+)?(Z|[+-]\d{2}(:?\d{2})?)$"

_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*( [\w./-]+)*")
"""Text that is the same in YAML without quotes, unless it is one of YAML's words."""
_WORDS = yaml.resolver.Resolver()
"""Knows the words of every YAML reader, such as `yes`; our own reads fewer of them as something else than text."""


@dataclass(frozen=True)
class DraftedColumn:
    """A column's name and type, and the time zone of its times: None where they have none, TODO where they have an
    offset instead of a zone's name."""

    name: str
    type: DraftedType
    timezone: str | None = None


@dataclass(frozen=True)
class Draft:
    """The text of a drafted spec, and what it is about."""

    text: str
    dataset: str
    columns: list[DraftedColumn]


def draft_spec(
    source: Path, spec_folder: Path, *, dataset: str | None = None, domains: Mapping[str, str] | None = None
) -> Draft:
    """A spec for a source, with TODO wherever the steward has to state something.

    Parameters
    ----------
    source : Path
        A CSV or Parquet file.
    spec_folder : Path
        Where the spec will lie; the source's path in it is relative to that folder's project.
    dataset : str, optional
        The data set's name; by default made from the file's name.
    domains : mapping of str to str, optional
        Domain packs by column.

    Returns
    -------
    Draft

    Raises
    ------
    RequestRefused
        The file does not exist or is of another kind; the name of the data set, a column or a pack is not one; or the
        draft would be larger than a spec can be.
    ValidationFailed
        The file cannot be read as what its ending says, or has no header line or no usable column names.
    """
    dataset = _dataset_of(source) if dataset is None else dataset
    if not re.fullmatch(DATASET_PATTERN, dataset) or len(dataset) > _LONGEST_DATASET:
        raise RequestRefused(
            f"--dataset: write small letters a to z, digits and hyphens, at most {_LONGEST_DATASET} of them"
        )
    if source.suffix.lower() not in {".csv", ".parquet"}:
        raise RequestRefused(f"{source}: the source must be a .csv or .parquet file")
    if not _is_file(source):
        raise RequestRefused(f"{source}: no such file")
    inferred = source.suffix.lower() == ".csv"
    columns = _csv_columns(source) if inferred else _parquet_columns(source)
    _check_domains(domains or {}, columns)
    text = draft_text(dataset, _source_path(source, spec_folder), columns, domains or {}, inferred=inferred)
    if len(text.encode()) > LARGEST_SPEC_BYTES:
        raise RequestRefused(f"{source}: the draft would be larger than a spec can be (1 MiB); leave columns out of it")
    return Draft(text, dataset, columns)


def draft_text(
    dataset: str, path: str, columns: Sequence[DraftedColumn], domains: Mapping[str, str], *, inferred: bool
) -> str:
    """The spec's text."""
    types = (
        "Types were inferred from the rows; check them. This draft stays with you until you have."
        if inferred
        else "Types are those in the file; check that they are the ones you mean."
    )
    return f"""\
# Drafted by `fabrica schema draft`. Replace every TODO; `fabrica plan` on this file tells what is still missing.
# {types}
# A column in which values may be missing needs `nullable: true`; this draft did not look for missing values.
dataset: {yaml_scalar(dataset)}
source: {{path: {yaml_scalar(path)}}}
table:
  label: TODO  # the column that tells which class a row is of; categorical, ordinal or boolean
  # Bounds and categories are public and come from the table's documentation, never from the rows.
  # Names and numbers of things are {{type: identifier}} and get fresh values; free text must be {{role: drop}}.
  columns:
{"".join(_column_lines(columns, domains))}\
privacy:
  unit: TODO  # record: whole rows are protected; element: single cells are
  epsilon: TODO  # of one release; smaller is more private
  delta: TODO  # well below 1 / rows, such as 1.0e-6
  # mechanism: private-moments  # for unit: record; without it every cell gets noise
  budget: {{epsilon: TODO, delta: TODO}}  # of the data set over all its releases, at record level
# approval: required  # optional: a person approves each release before it is published
# schedule: {{cron: "0 2 * * 1", timezone: UTC}}  # optional: releases by `fabrica serve`
"""


def _column_lines(columns: Sequence[DraftedColumn], domains: Mapping[str, str]) -> Iterator[str]:
    for column in columns:
        key = yaml_scalar(column.name)
        value = _declaration(column, domains.get(column.name))
        yield f"    {key}: {value}\n" if len(key) <= _LONGEST_SIMPLE_KEY else f"    ? {key}\n    : {value}\n"


def _declaration(column: DraftedColumn, domain: str | None) -> str:
    bounds = f"bounds: [{TODO}, {TODO}]"
    if domain is not None:
        return f"{{domain: {domain}}}" if "bounds" in DOMAINS[domain] else f"{{domain: {domain}, {bounds}}}"
    match column.type:
        case "integer" | "numeric" | "date":
            return f"{{type: {column.type}, {bounds}}}"
        case "datetime" if column.timezone is None:
            return f"{{type: datetime, {bounds}}}"
        case "datetime" if column.timezone in available_timezones():
            return f"{{type: datetime, {bounds}, timezone: {yaml_scalar(column.timezone)}}}"
        case "datetime":
            return f"{{type: datetime, {bounds}, timezone: {TODO}}}  # its times have an offset; a name such as UTC"
        case "categorical":
            return f"{{type: categorical, categories: [{TODO}]}}  # or identifier; free text must be role: drop"
        case "boolean":
            return "{type: boolean}"
        case "drop":
            return "{role: drop}  # values of this kind cannot be released"


def yaml_scalar(text: str) -> str:
    """Text as YAML, in quotes where it would be read as something else without them."""
    if _PLAIN.fullmatch(text) and _WORDS.resolve(yaml.ScalarNode, text, (True, False)).endswith(":str"):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in {'"', "\\"}:
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _dataset_of(source: Path) -> str:
    letters = unicodedata.normalize("NFKD", source.stem.lower())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub("[^a-z0-9]+", "-", letters)[:_LONGEST_DATASET].strip("-") or "dataset"


def _source_path(source: Path, spec_folder: Path) -> str:
    """The source relative to the spec's project where it lies inside, its full path elsewhere. Links stay links."""
    root = project_root(spec_folder)
    whole = Path(os.path.normpath(source.absolute()))
    for candidate in [whole, source.resolve()]:
        if candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    return whole.as_posix()


def _check_domains(domains: Mapping[str, str], columns: Sequence[DraftedColumn]) -> None:
    names = [column.name for column in columns]
    for name, domain in domains.items():
        if domain not in DOMAINS:
            raise RequestRefused(f"--domain: there is no domain pack `{domain}`; known are {', '.join(DOMAINS)}")
        if name not in names:
            raise RequestRefused(
                f"--domain: there is no column `{name}`; the source has {_listed([f'`{n}`' for n in names])}"
            )


def _parquet_columns(path: Path) -> list[DraftedColumn]:
    try:
        schema = pa.parquet.read_schema(path)
    except (pa.ArrowException, OSError):
        raise ValidationFailed(f"{path.name}: cannot be read as Parquet; is the file whole?") from None
    _check_names(path, schema.names)
    return [_of_arrow(field.name, field.type) for field in schema]


def _of_arrow(name: str, kind: pa.DataType) -> DraftedColumn:
    types = pa.types
    if types.is_integer(kind):
        return DraftedColumn(name, "integer")
    if types.is_floating(kind) or types.is_decimal(kind):
        return DraftedColumn(name, "numeric")
    if types.is_boolean(kind):
        return DraftedColumn(name, "boolean")
    if types.is_date(kind):
        return DraftedColumn(name, "date")
    if types.is_timestamp(kind):
        return DraftedColumn(name, "datetime", kind.tz)
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return DraftedColumn(name, "categorical")
    return DraftedColumn(name, "drop")


def _csv_columns(path: Path) -> list[DraftedColumn]:
    header = csv_header(path)
    _check_names(path, header)
    columns = _infer(path, header)
    _check_header(path, columns)
    return columns


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse names that no spec can hold, without quoting them: they may be the cells of a file without a header."""
    if len(names) < 2:
        raise ValidationFailed(
            f"{path.name}: has {len(names)} column(s), and a table needs two at least; is the file separated by commas?"
        )
    blank = [number for number, name in enumerate(names, start=1) if not name.strip()]
    if blank:
        raise ValidationFailed(
            f"{path.name}: column {_listed(blank)} has no name; name it or leave it out (a trailing comma makes such a "
            "column, and so does an index that was saved with the rows)"
        )
    counts = Counter(names)
    doubled = [number for number, name in enumerate(names, start=1) if counts[name] > 1]
    if doubled:
        raise ValidationFailed(
            f"{path.name}: columns {_listed(doubled)} have names that stand more than once; rename them; or does the "
            "file not begin with a header line?"
        )


def _infer(path: Path, header: list[str]) -> list[DraftedColumn]:
    """The narrowest type of each column that all its cells have, a part of the file at a time."""
    possible: list[list[DraftedType]] = [list(_PATTERNS) for _ in header]
    offsets = [False] * len(header)
    filled = [False] * len(header)
    n_rows = 0
    for rows in csv_rows(path, header):
        n_rows += len(rows)
        for number, cells in enumerate(rows.columns):
            if not possible[number]:
                continue
            cells = pc.drop_null(pc.utf8_trim_whitespace(cells))
            cells = cells.filter(pc.not_equal(cells, ""))
            filled[number] |= len(cells) > 0
            possible[number] = [kind for kind in possible[number] if _all(cells, _PATTERNS[kind])]
            if "datetime" in possible[number]:
                offsets[number] |= not _all(cells, _OFFSET, holds=False)
    if n_rows == 0:
        raise ValidationFailed(f"{path.name}: has no rows")
    kinds: list[DraftedType] = [
        kinds[0] if kinds and full else "categorical" for kinds, full in zip(possible, filled, strict=True)
    ]
    return [
        DraftedColumn(name, kind, TODO if kind == "datetime" and offset else None)
        for name, kind, offset in zip([name.strip() for name in header], kinds, offsets, strict=True)
    ]


def _all(cells: pa.Array, pattern: str, *, holds: bool = True) -> bool:
    match: Callable[..., pa.Array] = pc.match_substring_regex
    matches = match(cells, pattern)
    return bool(pc.all(matches if holds else pc.invert(matches), min_count=0).as_py())


def _check_header(path: Path, columns: Sequence[DraftedColumn]) -> None:
    """Refuse a first line that looks like the rows below it: it is one, and its cells must not be shown.

    Every column of numbers, dates or truth values speaks for a header if its name is not such a value. Names that
    count, as 0, 1, 2 do, or that are years, are no evidence against one.
    """
    typed = [column for column in columns if column.type != "categorical"]
    if not typed or not all(re.fullmatch(_PATTERNS[column.type].strip("^$"), column.name.strip()) for column in typed):
        return
    if all(re.fullmatch(r"\d{1,18}", column.name) for column in typed):
        numbers = [int(column.name) for column in typed]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))) or all(1000 <= n < 3000 for n in numbers):
            return
    raise ValidationFailed(
        f"{path.name}: its first line looks like a row, not like the names of {len(columns)} columns; it must begin "
        "with a header line; if it does, put a letter before the names"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # such as a name that is too long, or has a null in it
        return False


def _listed(things: Sequence[object], most: int = 10) -> str:
    shown = ", ".join(map(str, things[:most]))
    return shown + (f" and {len(things) - most} more" if len(things) > most else "")
