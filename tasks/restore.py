"""Give smoothed values the distribution back that noise-added data show; released side (post-processing)."""

from collections.abc import Mapping

import numpy as np

from schemas.columns import FeatureColumn
from schemas.table import TableSchema
from tasks.accounting import Mechanism, Moments
from tasks.accounting.lattice import LATTICE_STEPS, MISSING, SPACING
from tasks.columns.categories import class_shares, scores_of
from tasks.columns.layout import Block, layout_of, n_values
from tasks.columns.marginals import POINTS, deconvolve, like, reshaped
from tasks.noise import LatticeNoise
from tasks.step import step
from tasks.tables import FabricatedTable, FloatArray, IntArray, NoiseAddedTable


@step("Restore marginals")
def restore(
    fabricated: FabricatedTable, noise_added: NoiseAddedTable, mechanism: Mechanism, table: TableSchema
) -> FabricatedTable:
    """Fabricated rows whose values have, within each class, the distribution that the noise-added rows show.

    Parameters
    ----------
    fabricated : FabricatedTable
    noise_added : NoiseAddedTable
        The rows it was made of.
    mechanism : CellNoise or Moments
        For the law of the noise, which is public.
    table : TableSchema

    Returns
    -------
    FabricatedTable
        Within a class the order of the values of a column is as smoothing left it. Categories and missing values are
        left to `decode`.
    """
    laws = _laws(mechanism)
    layout, features = layout_of(table), table.features
    scaled = fabricated.scaled.copy()
    for block in layout.blocks:
        if block.kind == "value":
            missing = next((other for other in layout.of(block.column) if other.kind == "missing"), None)
            column = features[block.column]
            if isinstance(mechanism, Moments):
                own = _like_drawn(scaled[:, block.start], noise_added, block, missing)
            else:
                own = _deconvolved(scaled[:, block.start], noise_added, block, missing, column, laws[block.column])
            scaled[:, block.start] = own
    return FabricatedTable(
        scaled=scaled,
        labels=fabricated.labels,
        steps=fabricated.steps,
        shards_unsettled=fabricated.shards_unsettled,
        first_errors=fabricated.first_errors,
    )


def _laws(mechanism: Mechanism) -> Mapping[str, LatticeNoise]:
    if isinstance(mechanism, Moments):
        return {}
    return {name: part.noise for part in mechanism.parts if part.what == "value" for name in part.columns}  # type: ignore[misc]


def _like_drawn(values: FloatArray, noise_added: NoiseAddedTable, block: Block, missing: Block | None) -> FloatArray:
    """Rows that were drawn have no noise to be taken off: their own distribution."""
    present = np.ones(len(values), dtype=bool)
    if missing is not None:
        present = noise_added.lattice[:, missing.start] < LATTICE_STEPS // 2
    result = values.copy()
    for label in np.unique(noise_added.labels):
        rows = noise_added.labels == label
        sample = noise_added.scaled[rows & present, block.start]
        if sample.size:
            result[rows] = like(values[rows], sample)
    return result


def _deconvolved(
    values: FloatArray,
    noise_added: NoiseAddedTable,
    block: Block,
    missing: Block | None,
    column: FeatureColumn,
    law: LatticeNoise,
) -> FloatArray:
    support, spread = _support(column)
    fill = None
    if missing is not None:
        shares = class_shares(scores_of(noise_added.scaled[:, missing.place]), noise_added.labels)
        fill = {label: float(share[1]) for label, share in shares.items()}
    found = deconvolve(noise_added.lattice[:, block.start], noise_added.labels, law, support, fill, MISSING)
    result = values.copy()
    for label, probabilities in found.items():
        rows = noise_added.labels == label
        result[rows] = reshaped(values[rows], (support * SPACING).astype(np.float64), probabilities, spread=spread)
    return result


def _support(column: FeatureColumn) -> tuple[IntArray, float]:
    """Where a column's values may be, in lattice steps, and over which part of the range each of these is spread."""
    if count := n_values(column):
        return np.floor(np.linspace(0, LATTICE_STEPS, count) + 0.5).astype(np.int64), 0.0
    centres = (np.arange(POINTS) + 0.5) / POINTS
    return np.floor(centres * LATTICE_STEPS + 0.5).astype(np.int64), 1.0 / POINTS
