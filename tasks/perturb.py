"""The border: the only step that turns confidential rows into released ones.

What it returns is the output of the mechanism. Everything after it is post-processing, whatever it does.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from schemas.table import TableSchema
from tasks.accounting import CellNoise, Mechanism, Moments
from tasks.accounting.lattice import LATTICE_STEPS, SPACING
from tasks.columns.layout import Layout, layout_of
from tasks.encode import NOT_A_MEMBER, encoded_pieces
from tasks.noise import BitSource, LabelRandomizedResponse, UnaryRandomizedResponse
from tasks.noise.bits import draw_words
from tasks.noise_added import NoiseAdded, piece_of
from tasks.pieces import piece_rows
from tasks.step import step
from tasks.tables import ConfidentialTable, IntArray, NoiseAddedTable, SourceTable


class Keeper(Protocol):
    """Where noise-added rows are kept: a staging folder, or a rehearsal's own."""

    def keep_noise_added(
        self, pieces: Iterator[pa.Table], spacing: float, randomness: str, places: IntArray
    ) -> NoiseAdded:
        """Keep them."""


@step("Add noise")
def perturb(
    source: SourceTable,
    places: IntArray,
    mechanism: Mechanism,
    table: TableSchema,
    bits: BitSource,
    staging: Keeper,
    now_drawn: Callable[[], object],
) -> NoiseAdded:
    """Released rows Y+, kept in staging: the members' values with noise and estimates from responses in their
    categories' places, or rows drawn from their noisy moments.

    Parameters
    ----------
    source : SourceTable
    places : ndarray of int64, shape (n_rows,)
        The members' places in the release, from `places_of`.
    mechanism : CellNoise or Moments
        Calibrated for the table's features.
    table : TableSchema
    bits : BitSource
        `OperatingSystemBits` in production; anything else brands the release as not private.
    staging : Keeper
    now_drawn : callable
        Called once noise was drawn and before any is kept, so that it is recorded whatever happens after.

    Returns
    -------
    NoiseAdded
        What follows does not know which kind it was. Integers are added to integers, so no rounding of a sum can
        leak (Mironov 2012).
    """
    draw = _noise_on_pieces if isinstance(mechanism, CellNoise) else _drawn_from_moments
    pieces = draw(source, places, mechanism, table, bits)  # type: ignore[arg-type]
    first = next(pieces)
    now_drawn()

    def all_pieces() -> Iterator[pa.Table]:
        yield first
        yield from pieces

    return staging.keep_noise_added(all_pieces(), SPACING, bits.label, places)


def _noise_on_pieces(
    source: SourceTable, places: IntArray, noise: CellNoise, table: TableSchema, bits: BitSource
) -> Iterator[pa.Table]:
    layout = layout_of(table)
    for piece in encoded_pieces(source, table, places):
        yield piece_of(piece.places, noise_on_cells(piece.rows, noise, layout, bits), piece.frame[list(table.public)])


def noise_on_cells(members: ConfidentialTable, noise: CellNoise, layout: Layout, bits: BitSource) -> NoiseAddedTable:
    lattice = np.zeros_like(members.lattice)
    for part in noise.parts:
        blocks = [block for name in part.columns for block in layout.of(name) if block.kind == part.what]
        if isinstance(part.noise, LabelRandomizedResponse | UnaryRandomizedResponse):
            for block in blocks:
                lattice[:, block.place] = _estimates(members.lattice[:, block.place], part.noise, bits)
        else:
            places = [block.start for block in blocks]
            values = members.lattice[:, places]
            lattice[:, places] = values + part.noise.sample(values.shape, bits=bits)
    labels = members.labels
    if noise.label_epsilon is not None and noise.n_classes > 1:
        labels = LabelRandomizedResponse(noise.label_epsilon, noise.n_classes).respond(labels, bits)
    return NoiseAddedTable(lattice=lattice, labels=labels, spacing=members.spacing, randomness=bits.label)


def _estimates(
    coordinates: IntArray, response: LabelRandomizedResponse | UnaryRandomizedResponse, bits: BitSource
) -> IntArray:
    """What the response to each row's category says of the category's coordinates, unbiased, in lattice steps."""
    codes = coordinates[:, 0] // LATTICE_STEPS if coordinates.shape[1] == 1 else coordinates.argmax(axis=1)
    estimates = response.estimate(response.respond(codes.astype(np.int64), bits))
    if coordinates.shape[1] == 1:
        estimates = estimates[:, 1:]
    return np.rint(estimates * LATTICE_STEPS).astype(np.int64)


def _drawn_from_moments(
    source: SourceTable, places: IntArray, moments: Moments, table: TableSchema, bits: BitSource
) -> Iterator[pa.Table]:
    n_rows = int(np.count_nonzero(places != NOT_A_MEMBER))

    def pieces() -> Iterator[tuple[IntArray, IntArray]]:
        return ((piece.rows.lattice, piece.rows.labels) for piece in encoded_pieces(source, table, places))

    private_moments = moments.for_rows(n_rows)
    release = private_moments.release_from(pieces, bits)
    # a piece is a draw of its own, so its rows are spread over the release
    order = np.random.default_rng([int(word) for word in draw_words(bits, 4)]).permutation(n_rows)
    start = 0
    for lattice, labels in private_moments.draw_pieces(release, piece_rows(moments.width), bits):
        drawn = NoiseAddedTable(lattice, labels, SPACING, bits.label)
        own = order[start : start + len(labels)]
        start += len(labels)
        yield piece_of(own, drawn, pd.DataFrame(index=own))
