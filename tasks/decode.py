"""Decode fabricated data into the source's columns, types and domains; released side (post-processing)."""

import math

import numpy as np
import pandas as pd

from schemas.table import IntegerColumn, NumericColumn, TableSchema
from tasks.step import step
from tasks.tables import FabricatedTable, FloatArray, IntArray


@step("Decode")
def decode(fabricated: FabricatedTable, table: TableSchema) -> pd.DataFrame:
    """Fabricated data with the declared names and types, every value inside its domain.

    Parameters
    ----------
    fabricated : FabricatedTable
    table : TableSchema

    Returns
    -------
    DataFrame
        Columns in declared order: float64 (numeric), int64 (integer), the categories' type (label).
    """
    position = {name: index for index, name in enumerate(table.features)}
    columns: dict[str, pd.Series] = {}
    for name in table.released:
        if name in table.features:
            values = from_scaled(fabricated.scaled[:, position[name]], table.features[name])
            columns[name] = pd.Series(values)
        else:
            categories = pd.Series(table.label_column.categories)
            columns[name] = categories.iloc[fabricated.labels].reset_index(drop=True)
    return pd.DataFrame(columns)


def from_scaled(scaled: FloatArray, column: NumericColumn | IntegerColumn) -> FloatArray | IntArray:
    """Scaled values in a column's own unit, clipped to its bounds and rounded to its precision."""
    lower, upper = column.bounds
    values = np.clip(lower + scaled * (upper - lower), lower, upper)
    if isinstance(column, IntegerColumn):
        return np.rint(values).astype(np.int64)
    if column.precision is None:
        return values
    first, last = math.ceil(lower / column.precision), math.floor(upper / column.precision)
    multiples = np.clip(np.rint(values / column.precision), min(first, last), max(first, last)) + 0.0  # no -0.0
    inverse = round(1 / column.precision)
    exact_inverse = inverse > 0 and math.isclose(inverse * column.precision, 1, rel_tol=1e-12)
    rounded = multiples / inverse if exact_inverse else multiples * column.precision
    return np.clip(rounded, lower, upper)
