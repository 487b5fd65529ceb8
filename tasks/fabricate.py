"""Smooth each shard into fabricated data (KAHM, definitions 13 and 14); released side (post-processing)."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas.spec import Fabrication, Relative, ReleaseSpec, Steps, StopRule
from schemas.table import TableSchema
from tasks.columns.layout import layout_of
from tasks.encode import encoded_pieces
from tasks.kahm import FabricationResult, KernelAffineHullMachine, StopRuleNotReached
from tasks.kahm import fabricate as fabricate_shard
from tasks.pieces import Groups, integers_of, matrix_column, matrix_of, piece_rows
from tasks.runner import Workers
from tasks.shard import Sharded
from tasks.step import advanced, step
from tasks.tables import FloatArray, IntArray, SourceTable

TITLE = "Fabricate"
DEFAULT_COMPONENTS = 20
_IN_FLIGHT = 16
"""Shards a worker that are in memory; the cost is cubic in the rows, and a shard may have twice its target."""


@dataclass(frozen=True, eq=False)
class Fabricated:
    """Fabricated rows, and how each shard was smoothed.

    Attributes
    ----------
    groups : Groups
        Rows of one class each, and of a large class a random part; columns as in `NoiseAdded` and `fabricated`, the
        coordinates in scaled units.
    n_rows : int
    steps : list of int
        Smoothing steps of each shard.
    shards_unsettled : int
        Shards in which the stop rule was not met after the most steps that are taken.
    first_errors : list of float
        Modeling error of each shard's noise-added rows.
    """

    groups: Groups
    n_rows: int
    steps: list[int] = field(default_factory=list)
    shards_unsettled: int = 0
    first_errors: list[float] = field(default_factory=list)


def settled(spec: ReleaseSpec) -> Fabrication:
    """How a spec's shards are smoothed, with the defaults of its mechanism filled in."""
    drawn = spec.privacy.mechanism == "private-moments"
    defaults = {
        "components": layout_of(spec.table).width if drawn else DEFAULT_COMPONENTS,
        "stop": Steps(steps=1 if drawn else 5),
        "marginals": "smoothed" if drawn else "restored",
    }
    left_out = {name: value for name, value in defaults.items() if getattr(spec.fabrication, name) is None}
    return spec.fabrication.model_copy(update=left_out)


@dataclass(frozen=True, eq=False)
class _Shard:
    """What a worker gets."""

    rows: FloatArray
    components: int
    stop: StopRule | None
    threshold: float | None


@step(TITLE)
def fabricate(
    sharded: Sharded,
    fabrication: Fabrication,
    workers: Workers,
    scratch: Path,
    uncovered_thresholds: list[float] | None = None,
) -> Fabricated:
    """Fabricated data from sharded noise-added data.

    Parameters
    ----------
    sharded : Sharded
    fabrication : Fabrication
        From `settled`: with components and stop rule.
    workers : Workers
        They get noise-added rows, a shard each. Shards are independent, so the outcome does not depend on them.
    scratch : Path
        Folder for rows on their way.
    uncovered_thresholds : list of float, default=None
        The paper's threshold of each shard, from `paper_thresholds`; only for `stop: paper`, and not covered by the
        guarantee.

    Returns
    -------
    Fabricated
    """
    waiting: deque[pa.Table] = deque()

    def items() -> Iterator[_Shard]:
        for number, shard in enumerate(sharded.shards):
            waiting.append(shard)
            threshold = None if uncovered_thresholds is None else uncovered_thresholds[number]
            rows = matrix_of(shard, "noise_added") * sharded.spacing
            yield _Shard(rows, fabrication.components or 1, fabrication.stop, threshold)

    groups = Groups(scratch / "fabricated")
    steps, first_errors, unsettled = [], [], 0
    first_group: dict[int, tuple[int, int]] = {}
    n_groups = 0
    for result, settled in workers.map(_fabricate_shard, items(), _IN_FLIGHT):
        shard = waiting.popleft()
        label = int(shard.column("label")[0].as_py())
        if label not in first_group:
            parts = -(-sharded.class_rows[label] // piece_rows(result.data.shape[1]))
            first_group[label] = n_groups, parts
            n_groups += parts
        first, parts = first_group[label]
        rows = shard.append_column("fabricated", matrix_column(result.data))
        groups.add(rows, first + integers_of(shard, "place") * parts // sharded.n_rows)
        steps.append(result.steps)
        first_errors.append(float(result.errors[0]))
        unsettled += not settled
        advanced(TITLE, len(steps), sharded.n_shards)
    sharded.shards.drop()
    return Fabricated(groups, sharded.n_rows, steps, unsettled, first_errors)


def _fabricate_shard(shard: _Shard) -> tuple[FabricationResult, bool]:
    """The fabricated rows of a shard, and whether the stop rule was met."""
    try:
        match shard.stop:
            case Steps(steps=steps):
                return fabricate_shard(shard.rows, shard.components, steps=steps), True
            case Relative(relative=relative):
                return fabricate_shard(shard.rows, shard.components, relative=relative), True
            case _:
                return fabricate_shard(shard.rows, shard.components, threshold=shard.threshold), True
    except StopRuleNotReached as outcome:
        return fabricate_shard(shard.rows, shard.components, steps=len(outcome.errors)), False


@step("Paper's stop rule (not covered by the guarantee)")
def paper_thresholds(
    source: SourceTable, table: TableSchema, places: IntArray, sharded: Sharded, components: int
) -> list[float]:
    """The modeling error of each shard's *raw* rows: the seed paper's threshold r.

    This reads confidential rows right of the border. It exists to reproduce the paper, and a release that uses it is
    marked as not covered. All members are in memory meanwhile.
    """
    scaled = np.empty((sharded.n_rows, layout_of(table).width))
    for piece in encoded_pieces(source, table, places):
        scaled[piece.places] = piece.rows.scaled
    return [
        KernelAffineHullMachine(components).fit(scaled[integers_of(shard, "place")]).modeling_error_
        for shard in sharded.shards
    ]
