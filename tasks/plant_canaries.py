"""Plant canaries in members' rows, rehearse the release with them, and see what it gives away; internal.

A canary is a cell (or, where epsilon is about records, a row) that a fair coin sets to one of two values which the
guarantee calls adjacent. Whoever can tell the coins from what the mechanism released refutes small epsilons. The
rehearsal draws noise of its own: the release itself holds no canary, and its noise is not drawn a second time.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from schemas.attacks import ACCUSATION_CONFIDENCE, CanaryBound, EmpiricalEpsilon
from schemas.columns import BooleanColumn, CategoricalColumn, FeatureColumn
from schemas.measures import FEWEST_ROWS, NotComputed
from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting import CellNoise, Mechanism
from tasks.accounting.lattice import SPACING
from tasks.audit.canary import canary_audit, epsilon_lower_bound
from tasks.columns.categories import scores_of
from tasks.columns.layout import layout_of
from tasks.columns.values import from_scaled, level_values, to_scaled
from tasks.encode import encode_features, encode_labels
from tasks.noise import SeededBits
from tasks.rehearse import rehearse
from tasks.runner.workers import thread_workers
from tasks.sample import AuditSample
from tasks.step import step
from tasks.tables import FloatArray, IntArray

MOST_CANARIES = 3000
_CONFIDENCE = 0.95
_GUESSED = 3
"""One canary in so many is guessed, the surest; fixed, since a choice after looking would not be at that confidence."""
_EXACT, _SUREST = 1e-6, 1e6


@step("Plant canaries")
def plant_canaries(
    sample: AuditSample,
    spec: ReleaseSpec,
    mechanism: Mechanism,
    seed: int,
    n_threads: int,
    scratch: Path,
) -> EmpiricalEpsilon:
    """The epsilons that a rehearsal with canaries refutes, beside the one that is claimed.

    Parameters
    ----------
    sample : AuditSample
        Canaries are planted in its first members.
    spec : ReleaseSpec
    mechanism : CellNoise or Moments
    seed : int
        Of coins and of the rehearsal's noise, which are independent of each other.
    n_threads : int
        Threads, not the release's workers: noise of a public seed can be taken off again, so these rows are as
        confidential as the members' and stay in this process.
    scratch : Path
        Folder for the rehearsal.

    Returns
    -------
    EmpiricalEpsilon
        One bound from the noise-added rows, one from the fabricated ones.
    """
    unit, table = spec.privacy.unit, spec.table
    of_data = mechanism.data_guarantees  # a rehearsal trains no private classifiers
    claimed = of_data.element if unit == "element" else of_data.record
    about = {"unit": unit, "claimed_epsilon": claimed.epsilon, "delta": claimed.delta, "confidence": _CONFIDENCE}
    frame = sample.member_frame.head(MOST_CANARIES)
    distance = spec.privacy.distance if unit == "element" else 1.0
    pairs = {name: _pair(column, distance) for name, column in table.features.items()}
    values = {name: pair for name, pair in pairs.items() if pair is not None}
    reason = None
    if claimed.delta >= 1:
        reason = "the guarantee has a delta of 1 or more, which nothing can refute"
    elif len(frame) < FEWEST_ROWS:
        reason = f"there are fewer than {FEWEST_ROWS} members"
    elif not values:
        reason = "no feature has two values that are as far apart as the guarantee allows"
    if reason:
        return EmpiricalEpsilon(
            **about, bounds=[], not_computed=[NotComputed(what="the lower bound of epsilon", reason=reason)]
        )
    columns, coins, bits = list(values), np.random.default_rng([seed, 1]), SeededBits(seed)
    sides = coins.integers(0, 2, (len(frame), len(columns))).astype(bool)  # which of a pair a coin's True stands for
    tossed = coins.integers(0, 2, len(frame)).astype(bool)
    planted = np.ones(sides.shape, dtype=bool)
    if unit == "element":  # one cell a row
        planted = np.arange(len(columns)) == (np.arange(len(frame)) % len(columns))[:, None]
    with_canaries = frame.copy()
    for place, name in enumerate(columns):
        rows = planted[:, place]
        chosen = np.where(tossed == sides[:, place], 1, 0)
        cells = pd.Series(values[name].iloc[chosen].to_numpy(), index=frame.index).astype(frame[name].dtype)
        with_canaries[name] = frame[name].where(~rows, cells)
    with thread_workers(n_threads) as workers:
        rehearsal = rehearse(with_canaries, spec, mechanism, bits, workers, scratch)
    seen = {
        "noise-added": rehearsal.noise_added.scaled,
        "fabricated": encode_features(rehearsal.released, table).astype(np.float64) * SPACING,
    }
    labels = {"noise-added": rehearsal.noise_added.labels, "fabricated": encode_labels(rehearsal.released, table)}
    bounds = []
    for kind, rows in seen.items():
        if not isinstance(mechanism, CellNoise):  # no row belongs to a row of the source
            rows = _class_means(rows, labels[kind], encode_labels(with_canaries, table))
        evidence = np.where(sides, 1.0, -1.0) * planted * _leanings(rows, values, table)
        outcome = canary_audit(
            tossed, evidence.sum(axis=1), n_guesses=max(1, len(frame) // _GUESSED), delta=claimed.delta,
            confidence=1 - (1 - _CONFIDENCE) / len(seen),  # all hold together (Bonferroni)
        )  # fmt: skip
        bounds.append(
            CanaryBound(
                seen=kind,
                epsilon_lower_bound=outcome.epsilon_lower_bound,
                contradicts_claim=epsilon_lower_bound(
                    outcome.canaries,
                    outcome.guesses,
                    outcome.correct,
                    claimed.delta,
                    1 - (1 - ACCUSATION_CONFIDENCE) / len(seen),
                )
                > claimed.epsilon,
                correct=outcome.correct,
                guesses=outcome.guesses,
                canaries=outcome.canaries,
            )
        )
    return EmpiricalEpsilon(**about, bounds=bounds)


def _pair(column: FeatureColumn, distance: float) -> pd.Series | None:
    """Two values of a column, as far apart as the guarantee allows and no farther; `None` if it has no such two."""
    if isinstance(column, CategoricalColumn | BooleanColumn):
        return level_values(np.arange(2), column.levels) if len(column.levels) > 1 else None
    ends = from_scaled(np.linspace(0.0, min(1.0, distance), 1001), column)
    scaled = to_scaled(ends, column)
    near = np.flatnonzero(scaled - scaled[0] <= distance)
    last = near[np.argmax(scaled[near])]
    return ends.iloc[[0, last]] if scaled[last] > scaled[0] else None


def _leanings(rows: FloatArray, values: dict[str, pd.Series], table: TableSchema) -> FloatArray:
    """How far each cell lies toward the second of its column's two values, in their distance from each other.

    A value that is exactly one of the two is the surest sign of all, since hardly any noise is 0.
    """
    found = np.empty((len(rows), len(values)))
    for place, (name, pair) in enumerate(values.items()):
        block, column = layout_of(table).of(name)[-1], table.features[name]
        if block.kind == "value":
            low, high = to_scaled(pair, column)  # type: ignore[arg-type]
            own = (rows[:, block.start] - (low + high) / 2) / (high - low)
            found[:, place] = np.where(np.abs(np.abs(own) - 0.5) < _EXACT, np.sign(own) * _SUREST, own)
        else:
            scores = scores_of(rows[:, block.place])
            found[:, place] = (scores[:, 1] - scores[:, 0]) / 2
    return found


def _class_means(rows: FloatArray, labels: IntArray, wanted: IntArray) -> FloatArray:
    """The mean row of each wanted label, or of all rows where a label has none."""
    means = {label: rows[labels == label].mean(axis=0) for label in np.unique(labels)}
    overall = rows.mean(axis=0)
    return np.stack([means.get(label, overall) for label in wanted])
