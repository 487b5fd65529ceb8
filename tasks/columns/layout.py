"""How columns become coordinates: which places in an encoded row belong to which feature, and what they hold."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from schemas.columns import BooleanColumn, CategoricalColumn, FeatureColumn, IntegerColumn, OrdinalColumn
from schemas.table import TableSchema

MOST_VALUES = 128
"""Columns of whole numbers with more values than these are as good as continuous."""
BlockKind = Literal["value", "category", "missing"]


@dataclass(frozen=True)
class Block:
    """Neighbouring coordinates that encode one thing about one column.

    Attributes
    ----------
    column : str
    kind : {"value", "category", "missing"}
        `value`: one coordinate anywhere in [0, 1]. `category`: one coordinate, 0 or 1, for two possibilities; else
        one for each, of which one is 1. `missing`: one coordinate, 1 where the column's value is missing.
    start, width : int
    levels : int
        Possibilities of a category, 2 for `missing`; 0 for a value.
    """

    column: str
    kind: BlockKind
    start: int
    width: int
    levels: int

    @property
    def place(self) -> slice:
        """Where its coordinates are in a row."""
        return slice(self.start, self.start + self.width)


@dataclass(frozen=True)
class Layout:
    """The blocks of an encoded row, in order.

    Notes
    -----
    A column with bounds, or with ordered categories, is one `value`; if it is nullable, a `missing` block stands before
    it, and where a value is missing its coordinate is 1/2, whatever the data are. Unordered categories and truth
    values are one `category` block, in which a missing value is one more possibility. A column with a single possible
    value has no block.
    """

    blocks: tuple[Block, ...]

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return self.blocks[-1].start + self.blocks[-1].width

    def of(self, column: str) -> list[Block]:
        """The blocks of one column; empty if it has a single possible value."""
        return self._by_column.get(column, [])

    @cached_property
    def _by_column(self) -> dict[str, list[Block]]:
        found: dict[str, list[Block]] = {}
        for block in self.blocks:
            found.setdefault(block.column, []).append(block)
        return found


def layout_of(table: TableSchema) -> Layout:
    """The layout of a table's features."""
    blocks: list[Block] = []
    for name, column in table.features.items():
        for kind, width, levels in _parts(column):
            start = blocks[-1].start + blocks[-1].width if blocks else 0
            blocks.append(Block(name, kind, start, width, levels))
    return Layout(tuple(blocks))


def n_values(column: FeatureColumn) -> int:
    """How many evenly spaced values a column may have; 0 if it is as good as continuous."""
    if isinstance(column, OrdinalColumn):
        found = len(column.levels)
    elif isinstance(column, IntegerColumn) and column.log_offset is None:
        found = column.bounds[1] - column.bounds[0] + 1
    else:
        return 0
    return found if 2 <= found <= MOST_VALUES else 0


def _parts(column: FeatureColumn) -> list[tuple[BlockKind, int, int]]:
    if isinstance(column, CategoricalColumn | BooleanColumn):
        possible = len(column.levels) + column.nullable
        return [] if possible == 1 else [("category", 1 if possible == 2 else possible, possible)]
    value: tuple[BlockKind, int, int] = ("value", 1, 0)
    if column.type == "ordinal" and len(column.levels) == 1:
        return [("category", 1, 2)] if column.nullable else []
    return [("missing", 1, 2), value] if column.nullable else [value]
