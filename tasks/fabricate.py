"""Smooth each shard into fabricated data (KAHM, definitions 13 and 14); released side (post-processing)."""

import os
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
from threadpoolctl import threadpool_limits

from schemas.spec import Relative, ReleaseSpec, Steps, StopRule
from tasks.columns.layout import layout_of
from tasks.kahm import FabricationResult, KernelAffineHullMachine, StopRuleNotReached
from tasks.kahm import fabricate as fabricate_shard
from tasks.step import advanced, step
from tasks.tables import ConfidentialTable, FabricatedTable, FloatArray, ShardedTable

TITLE = "Fabricate"
DEFAULT_COMPONENTS = 20


def components_of(spec: ReleaseSpec) -> int:
    """The dimension that shards are smoothed with: the spec's, or the default of its mechanism."""
    if spec.fabrication.components is not None:
        return spec.fabrication.components
    return layout_of(spec.table).width if spec.privacy.mechanism == "private-moments" else DEFAULT_COMPONENTS


@step(TITLE)
def fabricate(
    sharded: ShardedTable, stop: StopRule, components: int, uncovered_thresholds: list[float] | None = None
) -> FabricatedTable:
    """Fabricated data from sharded noise-added data.

    Parameters
    ----------
    sharded : ShardedTable
    stop : StopRule
    components : int
        Dimension n of the machines.
    uncovered_thresholds : list of float, default=None
        The paper's threshold of each shard, from `paper_thresholds`; only for `stop: paper`, and not covered by the
        guarantee.

    Returns
    -------
    FabricatedTable
        Rows in the order of the noise-added data. Shards are independent, so the outcome does not depend on the
        number of workers.
    """
    scaled = sharded.rows.scaled
    rows_of = [np.flatnonzero(sharded.shards == number) for number in range(sharded.n_shards)]

    def one_shard(number: int) -> tuple[FabricationResult, bool]:
        rows = scaled[rows_of[number]]
        try:
            threshold = None if uncovered_thresholds is None else uncovered_thresholds[number]
            return _fabricate_shard(rows, stop, components, threshold), True
        except StopRuleNotReached as outcome:
            return fabricate_shard(rows, components, steps=len(outcome.errors)), False

    results: dict[int, tuple[FabricationResult, bool]] = {}
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(one_shard, number): number for number in range(len(rows_of))}
        for finished in as_completed(running):
            results[running[finished]] = finished.result()
            advanced(TITLE, len(results), len(rows_of))
    data: FloatArray = np.empty_like(scaled)
    for number, rows in enumerate(rows_of):
        data[rows] = results[number][0].data
    return FabricatedTable(
        scaled=data,
        labels=sharded.rows.labels,
        components=components,
        steps=[results[number][0].steps for number in range(len(rows_of))],
        shards_unsettled=sum(not settled for _, settled in results.values()),
        first_errors=[float(results[number][0].errors[0]) for number in range(len(rows_of))],
    )


def _fabricate_shard(rows: FloatArray, stop: StopRule, components: int, threshold: float | None) -> FabricationResult:
    match stop:
        case Steps(steps=steps):
            return fabricate_shard(rows, components, steps=steps)
        case Relative(relative=relative):
            return fabricate_shard(rows, components, relative=relative)
        case _:
            return fabricate_shard(rows, components, threshold=threshold)


@step("Paper's stop rule (not covered by the guarantee)")
def paper_thresholds(members: ConfidentialTable, sharded: ShardedTable, components: int) -> list[float]:
    """The modeling error of each shard's *raw* rows: the seed paper's threshold r.

    This reads confidential rows right of the border. It exists to reproduce the paper, and a release that uses it is
    marked as not covered.
    """
    scaled = members.scaled
    return [
        KernelAffineHullMachine(components).fit(scaled[sharded.shards == number]).modeling_error_
        for number in range(sharded.n_shards)
    ]
