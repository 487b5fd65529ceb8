"""A table as the attacks on rows see it: columns of numbers or codes, and how far apart two rows are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.audit.density_difference import FloatArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
ColumnArray = FloatArray | IntArray

MISSING_CODE = -1
_BLOCK_CELLS = 2**16
"""Distances that are computed at a time: half a megabyte, so that they stay in the processor's cache."""
_DISTANCE_STEP = 2.0**-30
"""Distances that differ by less are ties: the order in which columns are summed must not decide."""


@dataclass(frozen=True, eq=False)
class ColumnsTable:
    """A table without types of its own, so that every kind of data is attacked by the same code.

    Attributes
    ----------
    names : tuple of str
        Different from each other; they say what a figure is about and decide nothing.
    values : tuple of ndarray of shape (n_rows,)
        float64 for a column with an order, in any unit, NaN where a value is missing; int64 codes from 0 for a column
        of categories, -1 where a value is missing.
    is_category : tuple of bool
    n_rows : int

    Raises
    ------
    ValueError
        If the parts do not fit each other, or a column holds an infinite number or a code below -1.
    """

    names: tuple[str, ...]
    values: tuple[ColumnArray, ...]
    is_category: tuple[bool, ...]
    n_rows: int

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.values) == len(self.is_category):
            raise ValueError(
                "names, values and is_category must be equally many, "
                f"got {len(self.names)}, {len(self.values)} and {len(self.is_category)}"
            )
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"names must differ from each other, got {self.names}")
        for name, column, is_category in zip(self.names, self.values, self.is_category, strict=True):
            if column.shape != (self.n_rows,):
                raise ValueError(f"values of {name!r} must have shape ({self.n_rows},), got {column.shape}")
            wanted = np.int64 if is_category else np.float64
            if column.dtype != wanted:
                raise ValueError(f"values of {name!r} must be {np.dtype(wanted)}, got {column.dtype}")
            if np.isinf(column).any() if not is_category else (column < MISSING_CODE).any():
                raise ValueError(f"values of {name!r} must be finite or missing")

    def missing(self, column: int) -> BoolArray:
        """Which rows of a column are missing, as an array of shape (n_rows,)."""
        values = self.values[column]
        return np.asarray(values == MISSING_CODE if self.is_category[column] else np.isnan(values))

    def take(self, rows: IntArray) -> "ColumnsTable":
        """Give the table of these rows, in their order."""
        return ColumnsTable(self.names, tuple(v[rows] for v in self.values), self.is_category, rows.size)

    def in_order(self) -> "ColumnsTable":
        """Give the same rows in an order that depends on nothing but their values."""
        return self.take(np.lexsort(self.values)) if self.values else self


def check_same_columns(first: ColumnsTable, second: ColumnsTable) -> None:
    """Raise `ValueError` unless two tables have the same columns in the same order."""
    if (first.names, first.is_category) != (second.names, second.is_category):
        raise ValueError(f"tables must have the same columns, got {first.names} and {second.names}")


class GowerDistance:
    """Gower's distances of target rows from held rows, column by column.

    A column with an order counts by the absolute difference over the held rows' range, a category by 0 or 1; of two
    missing values the distance is 0, of a missing and a present one it is 1. A target beyond the held range is moved
    to its end: that takes the same amount off its distance to every held row, so the order of the held rows stays.

    Parameters
    ----------
    held, targets : ColumnsTable
        With the same columns, and at least one held row.

    References
    ----------
    J. C. Gower: A general coefficient of similarity and some of its properties. Biometrics 27 (1971) 857-871.
    """

    def __init__(self, held: ColumnsTable, targets: ColumnsTable) -> None:
        check_same_columns(held, targets)
        if held.n_rows < 1:
            raise ValueError("held must have at least one row, got 0")
        self.n_held, self.n_targets = held.n_rows, targets.n_rows
        self._is_category = held.is_category
        self._held, self._targets, self._missing = [], [], []
        for column, is_category in enumerate(held.is_category):
            one, two = held.values[column], targets.values[column]
            missing = (held.missing(column), targets.missing(column))
            if not is_category:
                one, two = _scaled(one, two)
            self._held.append(one)
            self._targets.append(two)
            self._missing.append(missing if not is_category and (missing[0].any() or missing[1].any()) else None)

    def blocks(self) -> Iterator[slice]:
        """Give ranges of targets that are small enough to be compared with all held rows at once."""
        size = max(1, _BLOCK_CELLS // self.n_held)
        for start in range(0, self.n_targets, size):
            yield slice(start, min(start + size, self.n_targets))

    def column(self, column: int, block: slice) -> FloatArray:
        """Give one column's part of the distance, an array of shape (targets of the block, n_held) in [0, 1]."""
        one, two = self._held[column], self._targets[column][block, None]
        if self._is_category[column]:
            return (one != two).astype(np.float64)
        distance = np.subtract(one, two)
        np.abs(distance, out=distance)
        missing = self._missing[column]
        if missing is not None:
            here, there = missing[0], missing[1][block, None]
            distance[here | there] = 1.0
            distance[here & there] = 0.0
        return np.asarray(distance)

    def total(self, columns: Sequence[int], block: slice) -> FloatArray:
        """Give the sum over some columns, an array of shape (targets of the block, n_held)."""
        total = np.zeros((block.stop - block.start, self.n_held))
        for column in columns:
            total += self.column(column, block)
        return total


def _scaled(held: ColumnArray, targets: ColumnArray) -> tuple[FloatArray, FloatArray]:
    """Both columns in units of the held range, moved into it; of a held constant, others are at distance 1."""
    present = held[~np.isnan(held)]
    if not present.size:
        return np.zeros(held.size), np.zeros(targets.size)
    lowest, highest = float(present.min()), float(present.max())
    if lowest == highest:
        return np.zeros(held.size), (targets != lowest).astype(np.float64)
    width = highest / 2 - lowest / 2  # halves, as the range of finite numbers need not be finite
    if width == 0:  # the range is the smallest number there is
        return (held > lowest).astype(np.float64), (targets > lowest).astype(np.float64)
    scaled = [
        np.asarray((np.clip(values, lowest, highest) / 2 - lowest / 2) / width, dtype=np.float64)
        for values in (held, targets)
    ]
    return scaled[0], scaled[1]


def nearest_rows(distances: FloatArray, k: int, generator: np.random.Generator) -> IntArray:
    """Give the k nearest held rows of each target, nearest first; ties are drawn for each target anew.

    Parameters
    ----------
    distances : ndarray of shape (n_targets, n_held)
        Non-negative sums of `GowerDistance` columns.
    k : int
        From 1 to n_held.
    generator : numpy.random.Generator

    Returns
    -------
    ndarray of int, shape (n_targets, k)

    Notes
    -----
    A fixed rule for ties, such as the first row, would link every row of a table with few different values to the same
    held row by both of its parts.
    """
    order = np.rint(distances / _DISTANCE_STEP)
    order += generator.random(order.shape) / 2
    if k == 1:
        return order.argmin(axis=1)[:, None]
    nearest = np.argpartition(order, k - 1, axis=1)[:, :k]
    by_distance = np.argsort(np.take_along_axis(order, nearest, axis=1), axis=1)
    return np.take_along_axis(nearest, by_distance, axis=1)
