"""The points of a sweep: rows are chosen once, then released in memory at each epsilon, used and attacked.

All points share their members and control rows, so they differ by epsilon and by the noise that was drawn. At most
20,000 members and as many control rows are taken; classifiers learn from at most 1000 rows of a class.
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from schemas.errors import ValidationFailed
from schemas.measures import FEWEST_ROWS, Interval, TrainedOn
from schemas.spec import ClassifierName, ReleaseSpec
from schemas.sweep import SweepPoint
from schemas.table import TableSchema
from schemas.utility import ClassifierComparison
from tasks.accounting.lattice import SPACING
from tasks.encode import choose_members, encode_features, encode_labels
from tasks.evaluate import rows_before_a_class_is_full
from tasks.fabricate import DEFAULT_COMPONENTS
from tasks.kahm import KAHMClassifier
from tasks.noise import BitSource
from tasks.rehearse import rehearse
from tasks.runner import Workers
from tasks.step import Step, step
from tasks.sweep import Variant
from tasks.tables import FloatArray, IntArray, SourceTable

MOST_ROWS = 20_000
"""Members, and control rows, of a sweep."""
_SEED = 20241105
"""Public: who is a member, and in which order rows are taken."""
_QUERIES = 4096
"""Rows whose distances are found at a time."""
_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows with their labels.

    Attributes
    ----------
    features : ndarray of float64, shape (n_rows, width)
        In scaled units.
    labels : ndarray of int64, shape (n_rows,)
    """

    features: FloatArray
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> "Rows":
        return Rows(self.features[rows], self.labels[rows])

    @classmethod
    def of(cls, frame: pd.DataFrame, table: TableSchema) -> "Rows":
        """Rows of a frame in the types of a source."""
        return cls(encode_features(frame, table).astype(np.float64) * SPACING, encode_labels(frame, table))


@dataclass(frozen=True, eq=False)
class SweepRows:
    """Whom a sweep is about.

    Attributes
    ----------
    frame : DataFrame
        The members as they were read, in random order.
    members, controls : Rows
    notes : list of str
        What a reader of the results must know; added to by each measurement.
    """

    frame: pd.DataFrame
    members: Rows
    controls: Rows
    notes: list[str] = field(default_factory=list)


@step("Choose rows")
def choose_rows(source: SourceTable, spec: ReleaseSpec) -> SweepRows:
    """Members and control rows, chosen as for a release but with a public seed.

    Parameters
    ----------
    source : SourceTable
    spec : ReleaseSpec

    Returns
    -------
    SweepRows

    Raises
    ------
    ValidationFailed
        There are too few rows for figures that are aggregates over at least `FEWEST_ROWS` rows.
    """
    random = np.random.default_rng(_SEED)
    fraction, by_class = spec.evaluation.control_fraction, spec.privacy.labels_public
    members = choose_members(source.labels, fraction, random, by_class=by_class)
    controls = random.permutation(np.setdiff1d(np.arange(source.n_rows), members))
    if len(members) < FEWEST_ROWS or len(controls) < 2 * FEWEST_ROWS:
        raise ValidationFailed(
            f"{source.n_rows} rows give {len(members)} members and {len(controls)} control rows; a sweep needs at "
            f"least {FEWEST_ROWS} and {2 * FEWEST_ROWS}. Use a larger table, or another evaluation.control_fraction. "
            "Nothing was spent"
        )
    notes = []
    if len(members) > MOST_ROWS or len(controls) > MOST_ROWS:
        notes.append(
            f"at most {MOST_ROWS} members and as many control rows were taken, drawn at random with a public seed, of "
            f"{len(members)} and {len(controls)}; a release of all rows may do better"
        )
    members, controls = members[:MOST_ROWS], controls[:MOST_ROWS]
    frame = _rows_at(source, np.concatenate([members, controls]))
    own, others = (part.reset_index(drop=True) for part in (frame[: len(members)], frame[len(members) :]))
    return SweepRows(own, Rows.of(own, spec.table), Rows.of(others, spec.table), notes)


def _rows_at(source: SourceTable, rows: IntArray) -> pd.DataFrame:
    """Rows of the source at some positions, in the order given."""
    order = np.argsort(rows)
    ascending, pieces, start = rows[order], [], 0
    for frame in source.pieces():
        first, end = np.searchsorted(ascending, [start, start + len(frame)])
        pieces.append(frame.iloc[ascending[first:end] - start])
        start += len(frame)
    return pd.concat(pieces, ignore_index=True).iloc[np.argsort(order)]


@step("Train on real rows")
def accuracy_of_members(rows: SweepRows, spec: ReleaseSpec) -> tuple[dict[ClassifierName, Interval], float]:
    """Accuracy on the control rows of each classifier trained on the members, and of the members' largest class."""
    compared = _compare("real", rows.members, rows, spec)
    assert compared.majority_accuracy is not None  # there are enough control rows
    return {result.name: result.accuracy for result in compared.results}, compared.majority_accuracy


def measure_point(variant: Variant, rows: SweepRows, bits: BitSource, workers: Workers, scratch: Path) -> SweepPoint:
    """Release the members at one epsilon in memory, and measure what the outcome is good for and what it gives away.

    Parameters
    ----------
    variant : Variant
    rows : SweepRows
    bits : BitSource
    workers : Workers
    scratch : Path
        A folder; nothing stays in it.

    Returns
    -------
    SweepPoint
    """
    return Step(_measured, f"Epsilon {variant.epsilon:g}")(variant, rows, bits, workers, scratch)


def _measured(variant: Variant, rows: SweepRows, bits: BitSource, workers: Workers, scratch: Path) -> SweepPoint:
    spec, record = variant.spec, variant.mechanism.guarantees.record
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        released = rehearse(rows.frame, spec, variant.mechanism, bits, workers, Path(folder)).released
    fabricated = Rows.of(released, spec.table)
    compared = _compare("fabricated", fabricated, rows, spec, f"at epsilon {variant.epsilon:g}, ")
    attack, auc = strongest_attack(fabricated, rows)
    return SweepPoint(
        epsilon=variant.epsilon,
        record_epsilon=record.epsilon,
        record_delta=record.delta,
        accuracy={result.name: result.accuracy for result in compared.results},
        attack_auc=auc,
        attack=attack,
    )


def _compare(kind: TrainedOn, held: Rows, rows: SweepRows, spec: ReleaseSpec, where: str = "") -> ClassifierComparison:
    from tasks.audit import compare_classifiers

    train = held[: rows_before_a_class_is_full(held.labels)]
    names, notes = spec.evaluation.classifiers, list[str]()
    with threadpool_limits(1):
        compared = compare_classifiers(
            {kind: (train.features, train.labels)},
            rows.controls.features,
            rows.controls.labels,
            names,
            kahm={kind: _kahm_answer(train, rows.controls, spec)} if "kahm" in names else None,
            notes=notes,
        )
    rows.notes.extend(f"{where}{note}" for note in notes)
    return compared


def _kahm_answer(train: Rows, controls: Rows, spec: ReleaseSpec) -> tuple[IntArray, IntArray, FloatArray]:
    """Classes, answers and scores of a KAHM classifier on the control rows."""
    components = spec.fabrication.components or DEFAULT_COMPONENTS
    classifier = KAHMClassifier(components, spec.fabrication.layers).fit(train.features, train.labels)
    blocks = np.array_split(controls.features, max(1, len(controls) // _QUERIES))
    distances = np.concatenate([classifier.distances_and_poles(block)[0] for block in blocks])
    return classifier.classes_, classifier.classes_[distances.argmin(axis=1)], -distances


def strongest_attack(held: Rows, rows: SweepRows) -> tuple[str, Interval]:
    """The record attack with the largest area under its ROC curve, and that area.

    Half of the control rows are the attacker's reference, the other half the non-members.

    Notes
    -----
    The largest of k areas is picked after all were seen, so each interval is made at confidence 1 - 0.05 / k
    (Bonferroni): that of the picked one covers its area with 95 %.
    """
    from tasks.audit import attack_auc
    from tasks.audit.record_attacks import record_attack_scores

    half = len(rows.controls) // 2
    reference, others = rows.controls[:half], rows.controls[half:]
    n_members = len(rows.members)
    with threadpool_limits(1):
        scores = record_attack_scores(
            held.features,
            held.labels,
            np.concatenate([rows.members.features, others.features]),
            np.concatenate([rows.members.labels, others.labels]),
            reference=reference.features,
            reference_labels=reference.labels,
        )
    level = 1 - (1 - _CONFIDENCE) / len(scores)
    areas = {name: attack_auc(own[:n_members], own[n_members:], confidence=level) for name, own in scores.items()}
    name = max(areas, key=lambda attack: areas[attack].estimate)
    method = f"{areas[name].method}, widened for the largest of {len(scores)} (Bonferroni)"
    return name, areas[name].model_copy(update={"confidence": _CONFIDENCE, "method": method})
