"""Encode the source onto the public lattice and part it into members and control rows; confidential side.

Rows are encoded where they are read, piece by piece, so there is no encoded table anywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from schemas.columns import BoundedColumn, LevelColumn, OrdinalColumn
from schemas.table import TableSchema
from tasks.accounting.lattice import LATTICE_STEPS, MISSING, SPACING
from tasks.columns.layout import Block, layout_of
from tasks.columns.values import level_codes, to_scaled
from tasks.tables import ConfidentialTable, IntArray, SourceTable

NOT_A_MEMBER = -1


@dataclass(frozen=True, eq=False)
class EncodedPiece:
    """Some rows of the source.

    Attributes
    ----------
    places : ndarray of int64, shape (n_rows,)
        The place of each row in the release; NOT_A_MEMBER of a control row.
    rows : ConfidentialTable
    frame : DataFrame
        The same rows as they were read.
    """

    places: IntArray
    rows: ConfidentialTable
    frame: pd.DataFrame


def encoded_pieces(
    source: SourceTable, table: TableSchema, places: IntArray, wanted: np.ndarray | None = None
) -> Iterator[EncodedPiece]:
    """The source on the lattice, piece by piece, in its own order.

    Parameters
    ----------
    source : SourceTable
        Validated: missing values only where the column is nullable, categories and labels among the declared ones.
    table : TableSchema
    places : ndarray of int64, shape (n_rows,)
        From `places_of`.
    wanted : ndarray of bool, shape (n_rows,), default=None
        Which rows; all members where it is left out.

    Yields
    ------
    EncodedPiece
        Cells outside their bounds are clipped to the nearest bound. Pieces without a wanted row are left out.
    """
    chosen = places != NOT_A_MEMBER if wanted is None else wanted
    start = 0
    for frame in source.pieces():
        rows = start + np.flatnonzero(chosen[start : start + len(frame)])
        own = frame.iloc[rows - start]
        start += len(frame)
        if len(rows):
            encoded = ConfidentialTable(encode_features(own, table), encode_labels(own, table), SPACING)
            yield EncodedPiece(places[rows], encoded, own)


def places_of(n_rows: int, member_rows: IntArray) -> IntArray:
    """The place of each source row in the release, where the members stand in the order given, or NOT_A_MEMBER."""
    places = np.full(n_rows, NOT_A_MEMBER, dtype=np.int64)
    places[member_rows] = np.arange(len(member_rows))
    return places


def encode_labels(frame: pd.DataFrame, table: TableSchema) -> IntArray:
    """The place of each row's label among the declared ones, shape (n_rows,)."""
    return level_codes(frame[table.label], table.classes)


def encode_features(frame: pd.DataFrame, table: TableSchema) -> IntArray:
    """The features as `layout_of` lays them out, in lattice steps, shape (n_rows, width)."""
    layout, features = layout_of(table), table.features
    lattice = np.empty((len(frame), layout.width), dtype=np.int64)
    for block in layout.blocks:
        lattice[:, block.place] = _encode_block(frame[block.column], features[block.column], block)
    return lattice


def _encode_block(values: pd.Series, column: BoundedColumn | LevelColumn, block: Block) -> IntArray:
    missing = values.isna().to_numpy()
    if block.kind == "missing":
        return missing[:, None] * np.int64(LATTICE_STEPS)
    if block.kind == "value":
        assert isinstance(column, BoundedColumn | OrdinalColumn)
        lattice = to_lattice(np.where(missing, 0.5, to_scaled(values, column)))
        return np.where(missing, MISSING, lattice)[:, None]
    assert not isinstance(column, BoundedColumn)
    codes = np.where(missing, len(column.levels), level_codes(values, column.levels))
    if block.width == 1:
        return codes[:, None] * np.int64(LATTICE_STEPS)
    return np.equal(codes[:, None], np.arange(block.width)) * np.int64(LATTICE_STEPS)


def to_lattice(scaled: np.ndarray) -> IntArray:
    """Scaled values in [0, 1] as whole lattice steps in [0, LATTICE_STEPS].

    Notes
    -----
    Rounding can take two cells one step further apart than they were; `lattice_distance` allows for it.
    """
    return np.floor(scaled * LATTICE_STEPS + 0.5).astype(np.int64)


def choose_members(labels: np.ndarray, fraction: float, random: np.random.Generator, *, by_class: bool) -> IntArray:
    """Positions of the members, drawn at random and in random order; the other rows are control rows.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
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
    groups = pd.Series(np.arange(len(labels))).groupby(labels if by_class else np.zeros(len(labels)))
    members = []
    for _, positions in sorted(groups.groups.items()):
        n_controls = min(max(round(fraction * len(positions)), 1), len(positions) - 2)
        members.append(random.permutation(np.asarray(positions, dtype=np.int64))[n_controls:])
    return random.permutation(np.concatenate(members))
