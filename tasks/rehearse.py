"""Run some rows through mechanism, smoothing and decoding, to see what they would become; never published.

The audit learns from rehearsals what attackers could learn by running the same public steps on rows of their own, and
what canaries do. A rehearsal draws noise of its own, never the release's again. It is about the data alone: private
classifiers are not trained in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa

from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting import Mechanism
from tasks.columns.values import level_codes
from tasks.decode import decode, decoded
from tasks.encode import places_of
from tasks.fabricate import fabricate, paper_thresholds, settled
from tasks.noise import BitSource
from tasks.noise_added import NoiseAdded, members_digest, write_noise_added
from tasks.perturb import perturb
from tasks.pieces import integers_of, matrix_column, matrix_of
from tasks.restore import Marginals, estimate_marginals
from tasks.runner import Workers
from tasks.shard import shard
from tasks.stage import released_frame
from tasks.step import SilentObserver, observed_by
from tasks.tables import IntArray, NoiseAddedTable, SourceTable


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What became of rows, in the order in which they were given.

    Attributes
    ----------
    noise_added : NoiseAddedTable
    unsmoothed : DataFrame
        The noise-added rows, decoded as they are.
    released : DataFrame
        The fabricated rows, decoded as a release's are.
    """

    noise_added: NoiseAddedTable
    unsmoothed: pd.DataFrame
    released: pd.DataFrame


@dataclass(frozen=True)
class _Kept:
    """Where a rehearsal keeps its noise-added rows."""

    folder: Path

    def keep_noise_added(
        self, pieces: Iterator[pa.Table], spacing: float, randomness: str, places: IntArray
    ) -> NoiseAdded:
        return write_noise_added(self.folder / "y", pieces, spacing, randomness, members_digest(places))


def rehearse(
    frame: pd.DataFrame, spec: ReleaseSpec, mechanism: Mechanism, bits: BitSource, workers: Workers, scratch: Path
) -> Rehearsal:
    """What a release of some rows would hold.

    Parameters
    ----------
    frame : DataFrame
        Rows as `SourceTable.pieces` gives them.
    spec : ReleaseSpec
    mechanism : CellNoise or Moments
    bits : BitSource
    workers : Workers
    scratch : Path
        A folder, in which a rehearsal has one of its own while it lasts.

    Returns
    -------
    Rehearsal
        Confidential as long as its noise is not paid for.
    """
    table = spec.table
    labels = level_codes(frame[table.label], table.classes).astype(np.int32)
    source = SourceTable(lambda: iter([frame]), len(frame), "", labels)
    places, fabrication = places_of(len(frame), np.arange(len(frame))), settled(spec)
    with observed_by(SilentObserver()), TemporaryDirectory(dir=scratch) as own:
        folder = Path(own)
        noise_added = perturb.function(source, places, mechanism, table, bits, _Kept(folder), lambda: None)
        sharded = shard.function(noise_added, fabrication.shard_rows, workers, folder)
        thresholds = None
        if fabrication.stop == "paper":
            thresholds = paper_thresholds.function(source, table, places, sharded, fabrication.components or 1)
        fabricated = fabricate.function(sharded, fabrication, workers, folder, thresholds)
        marginals = estimate_marginals.function(noise_added, mechanism, fabrication, table)
        released = decode.function(fabricated, marginals, table, workers, folder)
        rows = pa.concat_tables(released.pieces())
        drawn = pa.concat_tables(noise_added.pieces()).sort_by("place")
    return Rehearsal(
        noise_added=NoiseAddedTable(
            matrix_of(drawn, "noise_added"), integers_of(drawn, "label"), noise_added.spacing, noise_added.randomness
        ),
        unsmoothed=unsmoothed(drawn, noise_added.spacing, marginals, table),
        released=released_frame(rows, table),
    )


def unsmoothed(rows: pa.Table, spacing: float, marginals: Marginals, table: TableSchema) -> pd.DataFrame:
    """Noise-added rows in the declared columns, without smoothing: values as they are, moved into their domain.

    Parameters
    ----------
    rows : Table
        Columns as in `NoiseAdded`, in the order of the release.
    spacing : float
    marginals : Marginals
        How frequent categories are; values are not reshaped.
    table : TableSchema

    Returns
    -------
    DataFrame
        In the types of a source, in the order of the rows, without identifiers.
    """
    as_they_are = replace(marginals, values={}, like_drawn=False)
    labels = integers_of(rows, "label")
    rows = rows.append_column("fabricated", matrix_column(matrix_of(rows, "noise_added") * spacing))
    frames, places = [], []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        frames.append(decoded(rows.take(pa.array(own)), as_they_are, table)[0])
        places.append(own)
    frame = pd.concat(frames, ignore_index=True)
    return frame.iloc[np.argsort(np.concatenate(places))].reset_index(drop=True)
