"""Give smoothed rows the distributions back that noise-added data show; released side (post-processing).

First the noise-added data are read once for what they show of each column within each class; then fabricated rows take
it on, a group of one class at a time.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from schemas.columns import FeatureColumn
from schemas.spec import Fabrication
from schemas.table import TableSchema
from tasks.accounting import CellNoise, Mechanism
from tasks.accounting.lattice import LATTICE_STEPS, MISSING, SPACING
from tasks.columns.categories import ScoreSums, scores_of
from tasks.columns.layout import Block, layout_of, n_values
from tasks.columns.marginals import POINTS, ValueCounts, deconvolve, like, reshaped
from tasks.noise_added import NoiseAdded
from tasks.pieces import integers_of, matrix_of
from tasks.step import step
from tasks.tables import FloatArray, IntArray


@dataclass(frozen=True)
class Marginals:
    """What noise-added data show of columns within each class.

    Attributes
    ----------
    categories : dict from a block's first coordinate to dict from label to ndarray of shape (n_categories,)
        Frequencies of categories, or of (present, missing).
    values : dict from a block's first coordinate to dict from label to ndarray of shape (n_points,)
        Probabilities of the points where values may be; only where fabricated values are to take them on.
    like_drawn : bool
        Fabricated values take on the distribution of the rows that were drawn, which have no noise to be taken off.
    """

    categories: dict[int, dict[int, FloatArray]] = field(default_factory=dict)
    values: dict[int, dict[int, FloatArray]] = field(default_factory=dict)
    like_drawn: bool = False


@step("Estimate marginals")
def estimate_marginals(
    noise_added: NoiseAdded, mechanism: Mechanism, fabrication: Fabrication, table: TableSchema
) -> Marginals:
    """What noise-added data show of each column within each class.

    Parameters
    ----------
    noise_added : NoiseAdded
    mechanism : CellNoise or Moments
        For the law of the noise, which is public.
    fabrication : Fabrication
        From `settled`.
    table : TableSchema

    Returns
    -------
    Marginals
    """
    layout, features = layout_of(table), table.features
    restored = fabrication.marginals == "restored"
    sums = {block.start: ScoreSums() for block in layout.blocks if block.kind != "value"}
    counts: dict[int, ValueCounts] = {}
    if restored and isinstance(mechanism, CellNoise):
        laws = {name: part.noise for part in mechanism.parts if part.what == "value" for name in part.columns}
        counts = {block.start: ValueCounts(laws[block.column]) for block in layout.blocks if block.kind == "value"}  # type: ignore[arg-type]
    for piece in noise_added.pieces():
        lattice, labels = matrix_of(piece, "noise_added"), integers_of(piece, "label")
        for block in layout.blocks:
            if block.start in sums:
                sums[block.start].add(scores_of(lattice[:, block.place] * noise_added.spacing), labels)
            elif block.start in counts:
                counts[block.start].add(lattice[:, block.start], labels)
    categories = {start: own.shares() for start, own in sums.items()}
    values = {}
    for block in layout.blocks:
        if block.start in counts:
            missing = _missing(layout.of(block.column))
            fill = None
            if missing is not None:
                fill = {label: float(share[1]) for label, share in categories[missing.start].items()}
            support, _ = _support(features[block.column])
            values[block.start] = deconvolve(counts[block.start], support, fill, MISSING)
    return Marginals(categories, values, like_drawn=restored and not isinstance(mechanism, CellNoise))


def restored(group: pa.Table, marginals: Marginals, table: TableSchema) -> FloatArray:
    """Fabricated coordinates whose values have the distribution that the noise-added rows show.

    Parameters
    ----------
    group : Table
        Fabricated rows of one class.
    marginals : Marginals
    table : TableSchema

    Returns
    -------
    ndarray of float64, shape (n_rows, width)
        The order of the values of a column is as smoothing left it. Categories and missing values are left to `decode`.
    """
    scaled: FloatArray = matrix_of(group, "fabricated").copy()
    layout, features = layout_of(table), table.features
    label = int(group.column("label")[0].as_py())
    for block in layout.blocks:
        own = scaled[:, block.start]
        if block.start in marginals.values:
            support, spread = _support(features[block.column])
            points = (support * SPACING).astype(np.float64)
            scaled[:, block.start] = reshaped(own, points, marginals.values[block.start][label], spread=spread)
        elif marginals.like_drawn and block.kind == "value":
            lattice = matrix_of(group, "noise_added")
            missing = _missing(layout.of(block.column))
            present = slice(None) if missing is None else lattice[:, missing.start] < LATTICE_STEPS // 2
            sample = lattice[present, block.start] * SPACING
            if sample.size:
                scaled[:, block.start] = like(own, sample)
    return scaled


def _missing(blocks: list[Block]) -> Block | None:
    """The block of a column that tells where a value is missing."""
    return next((other for other in blocks if other.kind == "missing"), None)


def _support(column: FeatureColumn) -> tuple[IntArray, float]:
    """Where a column's values may be, in lattice steps, and over which part of the range each of these is spread."""
    if count := n_values(column):
        return np.floor(np.linspace(0, LATTICE_STEPS, count) + 0.5).astype(np.int64), 0.0
    centres = (np.arange(POINTS) + 0.5) / POINTS
    return np.floor(centres * LATTICE_STEPS + 0.5).astype(np.int64), 1.0 / POINTS
