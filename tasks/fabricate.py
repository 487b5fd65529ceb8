"""Smooth each shard into fabricated data (KAHM, definitions 13 and 14); released side (post-processing)."""

import os
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
from threadpoolctl import threadpool_limits

from schemas.spec import Fabrication, Relative, ReleaseSpec, Steps
from tasks.columns.layout import layout_of
from tasks.kahm import FabricationResult, KernelAffineHullMachine, StopRuleNotReached
from tasks.kahm import fabricate as fabricate_shard
from tasks.step import advanced, step
from tasks.tables import ConfidentialTable, FabricatedTable, FloatArray, ShardedTable

TITLE = "Fabricate"
DEFAULT_COMPONENTS = 20


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


@step(TITLE)
def fabricate(
    sharded: ShardedTable, fabrication: Fabrication, uncovered_thresholds: list[float] | None = None
) -> FabricatedTable:
    """Fabricated data from sharded noise-added data.

    Parameters
    ----------
    sharded : ShardedTable
    fabrication : Fabrication
        From `settled`: with components and stop rule.
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
            return _fabricate_shard(rows, fabrication, threshold), True
        except StopRuleNotReached as outcome:
            return fabricate_shard(rows, fabrication.components or 1, steps=len(outcome.errors)), False

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
        steps=[results[number][0].steps for number in range(len(rows_of))],
        shards_unsettled=sum(not settled for _, settled in results.values()),
        first_errors=[float(results[number][0].errors[0]) for number in range(len(rows_of))],
    )


def _fabricate_shard(rows: FloatArray, fabrication: Fabrication, threshold: float | None) -> FabricationResult:
    components = fabrication.components
    assert components is not None
    match fabrication.stop:
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
