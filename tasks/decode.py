"""Decode fabricated data into the source's columns, types and domains; released side (post-processing)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from schemas.columns import (
    BooleanColumn,
    CategoricalColumn,
    DateColumn,
    DatetimeColumn,
    FeatureColumn,
    IdentifierColumn,
    IntegerColumn,
    NumericColumn,
    OrdinalColumn,
)
from schemas.table import TableSchema
from tasks.columns.categories import assign, scores_of
from tasks.columns.layout import Block, layout_of
from tasks.columns.values import from_scaled, level_values
from tasks.fabricate import Fabricated
from tasks.noise_added import public_of
from tasks.pieces import Groups, integers_of, piece_rows
from tasks.restore import Marginals, restored
from tasks.runner import Workers
from tasks.step import noted, step
from tasks.tables import FloatArray

_PLACE = "place in the release"


@dataclass(frozen=True, eq=False)
class Released:
    """The released rows, but for identifiers.

    Attributes
    ----------
    groups : Groups
        Group 0 holds the first places of the release, group 1 those that follow, and so on.
    n_rows : int
    rows_projected : int
        Rows that were moved to obey the declared constraints.
    """

    groups: Groups
    n_rows: int
    rows_projected: int

    def pieces(self) -> Iterator[pa.Table]:
        """The rows in the order of the release, piece by piece, without identifiers."""
        for group in self.groups.sizes():
            rows = self.groups.read(group)
            yield rows.take(pa.array(np.argsort(integers_of(rows, _PLACE)))).drop_columns([_PLACE])


@step("Decode")
def decode(
    fabricated: Fabricated, marginals: Marginals, table: TableSchema, workers: Workers, scratch: Path
) -> Released:
    """Fabricated data with the declared names and types, every value inside its domain, every constraint kept.

    Parameters
    ----------
    fabricated : Fabricated
    marginals : Marginals
        Within each class, a category, or a missing value, is as frequent as they say, and values are distributed so
        where they say.
    table : TableSchema
    workers : Workers
        They get fabricated rows, of one class each.
    scratch : Path
        Folder for rows on their way.

    Returns
    -------
    Released
    """

    def items() -> Iterator[tuple[pa.Table, Marginals, TableSchema]]:
        for group in fabricated.groups.sizes():
            yield fabricated.groups.read(group), marginals, table
            fabricated.groups.drop(group)

    released = Groups(scratch / "released")
    size = piece_rows(len(table.released))
    changed = 0
    for rows, n_changed in workers.map(_decode_group, items()):
        released.add(rows, integers_of(rows, _PLACE) // size)
        changed += n_changed
    if table.constraints:
        noted(f"{changed} of {fabricated.n_rows} fabricated rows were moved to obey the constraints")
    return Released(released, fabricated.n_rows, changed)


def _decode_group(item: tuple[pa.Table, Marginals, TableSchema]) -> tuple[pa.Table, int]:
    group, marginals, table = item
    frame, changed = decoded(group, marginals, table)
    schema = pa.schema([field for field in arrow_schema(table) if field.name in frame])
    rows = pa.Table.from_pandas(frame, schema, preserve_index=False).replace_schema_metadata(None)
    return rows.append_column(_PLACE, group.column("place")), changed


def decoded(group: pa.Table, marginals: Marginals, table: TableSchema) -> tuple[pd.DataFrame, int]:
    """Fabricated rows of one class in the declared columns.

    Parameters
    ----------
    group : Table
        As in `Fabricated`.
    marginals : Marginals
    table : TableSchema

    Returns
    -------
    frame : DataFrame
        Columns in declared order, without identifiers: float64 (numeric), int64 (integer), the categories' type, bool,
        datetime64; nullable types where a column is nullable.
    changed : int
        Rows that were moved to obey the constraints.
    """
    layout, features, known = layout_of(table), table.features, table.public
    scaled, labels = restored(group, marginals, table), integers_of(group, "label")
    public = public_of(group, table)
    columns: dict[str, pd.Series] = {}
    for name in table.released:
        if isinstance(table.columns[name], IdentifierColumn):
            continue
        if name == table.label:
            columns[name] = level_values(labels, table.classes)
        elif name in known:
            columns[name] = _as_declared(public[name], known[name])
        else:
            shares = {block.start: marginals.categories.get(block.start) for block in layout.of(name)}
            of_class = {start: own[int(labels[0])] for start, own in shares.items() if own is not None}
            columns[name] = _decode_column(scaled, of_class, features[name], layout.of(name))
    frame = pd.DataFrame(columns)
    if not table.constraints:
        return frame, 0
    from tasks.columns.projection import project

    return project(frame, table)


def with_identifiers(rows: pa.Table, start: int, n_rows: int, table: TableSchema) -> pa.Table:
    """Released rows with fresh identifiers in their declared places.

    Parameters
    ----------
    rows : Table
        Consecutive rows of the release.
    start : int
        Rows before them.
    n_rows : int
        Rows of the release.
    table : TableSchema
    """
    for name, column in table.columns.items():
        if isinstance(column, IdentifierColumn):
            field = arrow_schema(table).field(name)
            rows = rows.append_column(field, pa.array(surrogates(start, len(rows), n_rows, column), field.type))
    return rows.select(table.released)


def arrow_schema(table: TableSchema) -> pa.Schema:
    """Plain Parquet types of the released columns."""
    fields = []
    for name in table.released:
        match table.columns[name]:
            case NumericColumn():
                kind = pa.float64()
            case DateColumn():
                kind = pa.date32()
            case DatetimeColumn(timezone=timezone):
                kind = pa.timestamp("us", tz=timezone)
            case BooleanColumn():
                kind = pa.bool_()
            case IntegerColumn() | IdentifierColumn(surrogate="integer"):
                kind = pa.int64()
            case CategoricalColumn(levels=levels) | OrdinalColumn(levels=levels) if isinstance(levels[0], int):
                kind = pa.int64()
            case _:
                kind = pa.string()
        fields.append(pa.field(name, kind, nullable=table.columns[name].nullable))
    return pa.schema(fields)


def _decode_column(
    scaled: FloatArray, shares: dict[int, FloatArray], column: FeatureColumn, blocks: list[Block]
) -> pd.Series:
    n_rows = len(scaled)
    missing = np.zeros(n_rows, dtype=bool)
    if not blocks:
        assert not column.nullable  # a single possible value
        return _as_declared(level_values(np.zeros(n_rows, dtype=np.int64), column.levels), column)  # type: ignore[union-attr]
    values: pd.Series | None = None
    for block in blocks:
        part = scaled[:, block.place]
        if block.kind == "value":
            values = from_scaled(part[:, 0], column)  # type: ignore[arg-type]
            continue
        codes = assign(scores_of(part), shares[block.start])
        if block.kind == "missing":
            missing = np.equal(codes, 1)
        else:
            missing = np.equal(codes, len(column.levels))  # type: ignore[union-attr]
            values = level_values(np.where(missing, 0, codes), column.levels)  # type: ignore[union-attr]
    assert values is not None
    return _as_declared(values.mask(missing) if missing.any() else values, column)


def _as_declared(values: pd.Series, column: FeatureColumn) -> pd.Series:
    """The column in the type that a release has."""
    match column.type:
        case "integer":
            return values.astype("Int64" if column.nullable else "int64")
        case "boolean":
            return values.astype("boolean" if column.nullable else "bool")
        case "categorical" | "ordinal":
            assert isinstance(column, CategoricalColumn | OrdinalColumn)
            whole = isinstance(column.levels[0], int)
            return values.astype(("Int64" if column.nullable else "int64") if whole else "str")
        case _:
            return values


def surrogates(start: int, count: int, n_rows: int, column: IdentifierColumn) -> pd.Series:
    """Fresh identifiers of `count` rows after the first `start` of a release of `n_rows`.

    The rows are in random order, so their numbers tell nothing.
    """
    numbers = np.arange(start + 1, start + count + 1, dtype=np.int64)
    if column.surrogate == "integer":
        return pd.Series(numbers)
    digits = max(6, len(str(n_rows)))
    return pd.Series([f"r-{number:0{digits}d}" for number in numbers.tolist()], dtype="str")
