"""Take a sample of everything that the audit compares; confidential, for the internal report only.

The audit's cost must not grow with the table, so it looks at 50,000 members and 50,000 control rows at most, drawn at
random; where there are no more, it looks at all.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from schemas.table import TableSchema
from tasks.accounting.lattice import SPACING
from tasks.encode import NOT_A_MEMBER, encoded_pieces
from tasks.noise_added import NoiseAdded
from tasks.pieces import integers_of, matrix_of
from tasks.rehearse import unsmoothed
from tasks.restore import Marginals
from tasks.stage import staged_frames
from tasks.step import step
from tasks.tables import ConfidentialTable, IntArray, NoiseAddedTable, SourceTable

MOST_ROWS = 50_000
"""Members, and control rows, that an audit looks at."""

_SEED = 20240513
"""Public: which control rows are taken."""


@dataclass(frozen=True, eq=False)
class AuditSample:
    """Rows that the audit compares; those of the members, noise-added and released ones have the same places.

    Attributes
    ----------
    members, controls : ConfidentialTable
    member_frame, control_frame : DataFrame
        As they were read.
    member_rows : ndarray of int64
        Each member's row of the source, counted from 0.
    noise_added : NoiseAddedTable
    unsmoothed : DataFrame
        The noise-added rows, decoded as they are; in the types of the source.
    released : DataFrame
        In the types of the source.
    n_members, n_controls : int
        How many there are in all.
    """

    members: ConfidentialTable
    controls: ConfidentialTable
    member_frame: pd.DataFrame
    control_frame: pd.DataFrame
    member_rows: IntArray
    noise_added: NoiseAddedTable
    unsmoothed: pd.DataFrame
    released: pd.DataFrame
    n_members: int
    n_controls: int


@step("Sample for the audit")
def sample(
    source: SourceTable,
    places: IntArray,
    noise_added: NoiseAdded,
    marginals: Marginals,
    release: Path,
    table: TableSchema,
) -> AuditSample:
    """The first rows of the release, which stand in random order, the members in their places, and control rows.

    Parameters
    ----------
    source : SourceTable
    places : ndarray of int64, shape (n_rows,)
        From `places_of`.
    noise_added : NoiseAdded
    marginals : Marginals
        From `estimate_marginals`.
    release : Path
        The staged release folder.
    table : TableSchema

    Returns
    -------
    AuditSample
    """
    controls = np.flatnonzero(places == NOT_A_MEMBER)
    n_controls = len(controls)
    if n_controls > MOST_ROWS:
        controls = np.random.default_rng(_SEED).choice(controls, MOST_ROWS, replace=False)
    wanted = (places != NOT_A_MEMBER) & (places < MOST_ROWS)
    wanted[controls] = True
    pieces = list(encoded_pieces(source, table, places, wanted))
    at = np.concatenate([piece.places for piece in pieces])
    lattice = np.concatenate([piece.rows.lattice for piece in pieces])
    labels = np.concatenate([piece.rows.labels for piece in pieces])
    members, others = np.flatnonzero(at != NOT_A_MEMBER), np.flatnonzero(at == NOT_A_MEMBER)
    members = members[np.argsort(at[members])]
    frame = pd.concat([piece.frame for piece in pieces], ignore_index=True)
    shown = pa.concat_tables(
        piece.filter(pa.array(integers_of(piece, "place") < MOST_ROWS)) for piece in noise_added.pieces()
    ).sort_by("place")
    released: list[pd.DataFrame] = []
    for piece in staged_frames(release, table):
        released.append(piece)
        if sum(map(len, released)) >= MOST_ROWS:
            break
    return AuditSample(
        members=ConfidentialTable(lattice[members], labels[members], SPACING),
        controls=ConfidentialTable(lattice[others], labels[others], SPACING),
        member_frame=frame.iloc[members].reset_index(drop=True),
        control_frame=frame.iloc[others].reset_index(drop=True),
        member_rows=np.flatnonzero(wanted)[members],
        noise_added=NoiseAddedTable(
            matrix_of(shown, "noise_added"), integers_of(shown, "label"), noise_added.spacing, noise_added.randomness
        ),
        unsmoothed=unsmoothed(shown, noise_added.spacing, marginals, table),
        released=pd.concat(released, ignore_index=True).head(MOST_ROWS),
        n_members=noise_added.n_rows,
        n_controls=n_controls,
    )
