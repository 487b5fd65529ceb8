"""Encode the source onto the public lattice in [0, 1] and part it into members and control rows; confidential side."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from schemas.table import IntegerColumn, NumericColumn, TableSchema
from tasks.accounting.lattice import LATTICE_STEPS, SPACING
from tasks.step import step
from tasks.tables import ConfidentialTable, FloatArray, IntArray, SourceTable


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """Members (used for fabrication) and control rows (kept out of it)."""

    members: ConfidentialTable
    controls: ConfidentialTable


@step("Encode")
def encode(source: SourceTable, table: TableSchema, member_rows: IntArray) -> EncodedSource:
    """The source on the lattice, parted into members and control rows.

    Parameters
    ----------
    source : SourceTable
        Validated: no missing values, labels among the categories.
    table : TableSchema
    member_rows : ndarray of int64
        Positions of the members, in the order in which they go on; all other rows are control rows.

    Returns
    -------
    EncodedSource
        Cells outside their bounds are clipped to the nearest bound.
    """
    lattice = np.column_stack(
        [to_lattice(source.frame[name].to_numpy(np.float64), column) for name, column in table.features.items()]
    )
    codes = {category: code for code, category in enumerate(table.label_column.categories)}
    labels = np.asarray(source.frame[table.label].map(codes), dtype=np.int64)
    control_rows = np.setdiff1d(np.arange(len(labels)), member_rows)
    return EncodedSource(
        members=ConfidentialTable(lattice[member_rows], labels[member_rows], SPACING),
        controls=ConfidentialTable(lattice[control_rows], labels[control_rows], SPACING),
    )


def to_lattice(values: FloatArray, column: NumericColumn | IntegerColumn) -> IntArray:
    """Values in a column's own unit as whole lattice steps in [0, LATTICE_STEPS], clipped to the bounds.

    Notes
    -----
    Rounding can take two cells one step further apart than they were; `lattice_distance` allows for it.
    """
    lower, upper = column.bounds
    scaled = (np.clip(values, lower, upper) - lower) / (upper - lower)
    return np.floor(scaled * LATTICE_STEPS + 0.5).astype(np.int64)


def choose_members(labels: pd.Series, fraction: float, random: np.random.Generator, *, by_class: bool) -> IntArray:
    """Positions of the members, drawn at random and in random order; the other rows are control rows.

    Parameters
    ----------
    labels : Series
        The label of each row; at least three rows, and with `by_class` at least three of every class that occurs.
    fraction : float
        Share of control rows, in (0, 1).
    random : Generator
        Who is chosen and in which order; it has no part in the guarantee.
    by_class : bool
        Draw that share of each class. Only where labels are public: then how many rows of each class are members
        depends on nothing confidential. Otherwise the labels are not looked at, so that tables that differ in one row
        have members that differ in at most one row, and their number is public.

    Returns
    -------
    ndarray of int64
        It leaves at least one row and holds at least two, of each class with `by_class`, else altogether. The order is
        random, so that a released row's place tells nothing of a row's place in the source.
    """
    groups = pd.Series(np.arange(len(labels))).groupby(labels.to_numpy() if by_class else np.zeros(len(labels)))
    members = []
    for _, positions in sorted(groups.groups.items()):
        n_controls = min(max(round(fraction * len(positions)), 1), len(positions) - 2)
        members.append(random.permutation(np.asarray(positions, dtype=np.int64))[n_controls:])
    return random.permutation(np.concatenate(members))
