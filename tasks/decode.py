"""Decode fabricated data into the source's columns, types and domains; released side (post-processing)."""

import numpy as np
import pandas as pd

from schemas.columns import CategoricalColumn, FeatureColumn, IdentifierColumn, OrdinalColumn
from schemas.table import TableSchema
from tasks.columns.categories import assign, class_shares, scores_of
from tasks.columns.layout import Block, layout_of
from tasks.columns.values import from_scaled, level_values
from tasks.step import noted, step
from tasks.tables import FabricatedTable, FloatArray, IntArray, NoiseAddedTable, ReleasedTable


@step("Decode")
def decode(
    fabricated: FabricatedTable, noise_added: NoiseAddedTable, public: pd.DataFrame, table: TableSchema
) -> ReleasedTable:
    """Fabricated data with the declared names and types, every value inside its domain, every constraint kept.

    Parameters
    ----------
    fabricated : FabricatedTable
    noise_added : NoiseAddedTable
        The rows it was made of: within each class, a category, or a missing value, is as frequent as they show.
    public : DataFrame
        The members' values of the public columns, in the order of the rows.
    table : TableSchema

    Returns
    -------
    ReleasedTable
        Columns in declared order: float64 (numeric), int64 (integer), the categories' type, bool, datetime64; nullable
        types where a column is nullable.
    """
    layout, features, known = layout_of(table), table.features, table.public
    columns: dict[str, pd.Series] = {}
    for name in table.released:
        column = table.columns[name]
        if isinstance(column, IdentifierColumn):
            columns[name] = surrogates(len(fabricated.labels), column)
        elif name == table.label:
            columns[name] = level_values(fabricated.labels, table.classes)
        elif name in known:
            columns[name] = _as_declared(public[name].reset_index(drop=True), known[name])
        else:
            columns[name] = _decode_column(fabricated, noise_added, features[name], layout.of(name))
    frame = pd.DataFrame(columns)
    if not table.constraints:
        return ReleasedTable(frame, rows_projected=0)
    from tasks.columns.projection import project

    projected, changed = project(frame, table)
    noted(f"{changed} of {len(frame)} fabricated rows were moved to obey the constraints")
    return ReleasedTable(projected, rows_projected=changed)


def _decode_column(
    fabricated: FabricatedTable, noise_added: NoiseAddedTable, column: FeatureColumn, blocks: list[Block]
) -> pd.Series:
    n_rows = len(fabricated.labels)
    missing = np.zeros(n_rows, dtype=bool)
    if not blocks:
        assert not column.nullable  # a single possible value
        return _as_declared(level_values(np.zeros(n_rows, dtype=np.int64), column.levels), column)  # type: ignore[union-attr]
    values: pd.Series | None = None
    for block in blocks:
        part = fabricated.scaled[:, block.place]
        if block.kind == "value":
            values = from_scaled(part[:, 0], column)  # type: ignore[arg-type]
            continue
        codes = _categories(part, noise_added.scaled[:, block.place], fabricated.labels)
        if block.kind == "missing":
            missing = np.equal(codes, 1)
        else:
            missing = np.equal(codes, len(column.levels))  # type: ignore[union-attr]
            values = level_values(np.where(missing, 0, codes), column.levels)  # type: ignore[union-attr]
    assert values is not None
    return _as_declared(values.mask(missing) if missing.any() else values, column)


def _categories(fabricated: FloatArray, noise_added: FloatArray, labels: IntArray) -> IntArray:
    """The category of each row, in each class as frequent as in the noise-added rows."""
    scores = scores_of(fabricated)
    codes = np.empty(len(labels), dtype=np.int64)
    for label, shares in class_shares(scores_of(noise_added), labels).items():
        rows = np.flatnonzero(labels == label)
        codes[rows] = assign(scores[rows], shares)
    return codes


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


def surrogates(n_rows: int, column: IdentifierColumn) -> pd.Series:
    """Fresh identifiers: the rows are in random order, so their numbers tell nothing."""
    numbers = np.arange(1, n_rows + 1, dtype=np.int64)
    if column.surrogate == "integer":
        return pd.Series(numbers)
    digits = max(6, len(str(n_rows)))
    return pd.Series([f"r-{number:0{digits}d}" for number in numbers.tolist()], dtype="str")
