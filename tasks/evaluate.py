"""Measure what an attacker and an analyst can do with the release; confidential, for the internal report only."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from schemas.audit import (
    CategoryUtility,
    ClassifierComparison,
    ColumnUtility,
    MembershipInference,
    TrainedOn,
    Utility,
)
from schemas.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting.lattice import SPACING
from tasks.columns.layout import layout_of
from tasks.columns.values import level_codes, to_comparable
from tasks.encode import encode_features, encode_labels
from tasks.fabricate import DEFAULT_COMPONENTS
from tasks.kahm import KAHMClassifier
from tasks.sample import AuditSample
from tasks.step import step
from tasks.tables import FloatArray, IntArray

LARGEST_KAHM_CLASS = 1000
"""Rows of one class that an evaluation's KAHM is trained on at most; its cost is cubic in them."""
_QUERIES = 4096
"""Rows whose distances a thread finds at a time."""
_ORDER_SEED = 20240513
"""Public: in which order rows are taken until a class is full."""


@dataclass(frozen=True, eq=False)
class TrainingSets:
    """Equally many confidential, noise-added and fabricated rows, in scaled units. Rows of two kinds are not paired.

    Attributes
    ----------
    features : dict from "real", "noise-added" and "fabricated" to ndarray of float64, shape (n_rows, width)
    labels : dict from the same to ndarray of int64, shape (n_rows,)
    rows_left_out : int
        Rows of each kind that are in no training set, because a class has more than a KAHM is trained on.
    """

    features: dict[TrainedOn, FloatArray]
    labels: dict[TrainedOn, IntArray]
    rows_left_out: int


def training_sets(sample: AuditSample, table: TableSchema) -> TrainingSets:
    """As many members, noise-added rows and released rows as leave no class of any kind above `LARGEST_KAHM_CLASS`.

    The fabricated rows are encoded again from the released data, so that what is measured is what analysts get,
    rounding and clipping included.
    """
    features: dict[TrainedOn, FloatArray] = {
        "real": sample.members.scaled,
        "noise-added": sample.noise_added.scaled,
        "fabricated": encode_features(sample.released, table).astype(np.float64) * SPACING,
    }
    labels: dict[TrainedOn, IntArray] = {
        "real": sample.members.labels,
        "noise-added": sample.noise_added.labels,
        "fabricated": encode_labels(sample.released, table),
    }
    order = np.random.default_rng(_ORDER_SEED).permutation(len(sample.members.labels))
    kept = np.sort(order[: min(_rows_before_a_class_is_full(own[order]) for own in labels.values())])
    return TrainingSets(
        features={kind: rows[kept] for kind, rows in features.items()},
        labels={kind: own[kept] for kind, own in labels.items()},
        rows_left_out=sample.n_members - len(kept),
    )


def _rows_before_a_class_is_full(labels: IntArray) -> int:
    overflows = [np.flatnonzero(labels == label)[LARGEST_KAHM_CLASS:] for label in np.unique(labels)]
    return min((int(rows[0]) for rows in overflows if rows.size), default=len(labels))


@dataclass(frozen=True, eq=False)
class KahmAnswers:
    """What a KAHM classifier that was trained on one kind of data says of members and control rows.

    Attributes
    ----------
    members, controls : ndarray of float64, shape (n_rows,)
        Distance of each row to the nearest class.
    predicted : ndarray of int64, shape (n_controls,)
    rejected, unresolved : int
        Rows and classes whose nearest image was near a pole, and those among them without another image.
    """

    members: FloatArray
    controls: FloatArray
    predicted: IntArray
    rejected: int
    unresolved: int


@step("Train KAHM classifiers")
def train_kahm(
    sets: TrainingSets, sample: AuditSample, spec: ReleaseSpec, n_threads: int, notes: list[str]
) -> dict[TrainedOn, KahmAnswers]:
    """A KAHM classifier on each kind of data, and its distances to members and control rows.

    What a reader of the results must know is appended to `notes`.
    """
    members, controls = sets.features["real"], sample.controls.scaled
    queries = np.concatenate([members, controls])
    blocks = np.array_split(queries, max(1, len(queries) // _QUERIES))
    with threadpool_limits(1), ThreadPoolExecutor(n_threads) as pool:  # threads, since these rows stay in this process
        fits = {
            kind: pool.submit(_classifier(spec).fit, features, sets.labels[kind])
            for kind, features in sets.features.items()
        }
        classifiers = {kind: fit.result() for kind, fit in fits.items()}
        asked = {
            kind: [pool.submit(classifier.distances_and_poles, block) for block in blocks]
            for kind, classifier in classifiers.items()
        }
        answers: dict[TrainedOn, KahmAnswers] = {}
        for kind, parts in asked.items():
            distances = np.concatenate([part.result()[0] for part in parts])
            nearest = distances.min(axis=1)
            answers[kind] = KahmAnswers(
                nearest[: len(members)],
                nearest[len(members) :],
                classifiers[kind].classes_[distances[len(members) :].argmin(axis=1)],
                sum(int(part.result()[1].rejected.sum()) for part in parts),
                sum(int(part.result()[1].unresolved.sum()) for part in parts),
            )
    for kind, own in answers.items():
        if own.rejected:
            notes.append(
                f"the kahm classifier trained on {kind} data met a pole at {own.rejected} of "
                f"{len(queries) * len(classifiers[kind].classes_)} pairs of row and class and took the nearest other "
                f"image; {own.unresolved} of them had none, and their distance is one to a mean"
            )
    return answers


def _classifier(spec: ReleaseSpec) -> KAHMClassifier:
    return KAHMClassifier(spec.fabrication.components or DEFAULT_COMPONENTS, spec.fabrication.layers)


@step("Train other classifiers")
def train(
    sets: TrainingSets,
    sample: AuditSample,
    kahm: dict[TrainedOn, KahmAnswers],
    spec: ReleaseSpec,
    notes: list[str],
) -> ClassifierComparison:
    """Train each classifier on each kind of data and test it on the real control rows.

    What a reader of the results must know is appended to `notes`.
    """
    from tasks.audit import compare_classifiers

    with threadpool_limits(1):
        return compare_classifiers(
            {kind: (features, sets.labels[kind]) for kind, features in sets.features.items()},
            sample.controls.scaled,
            sample.controls.labels,
            spec.evaluation.classifiers,
            kahm={kind: own.predicted for kind, own in kahm.items()},
            notes=notes,
        )


@step("Attack")
def attack(kahm: dict[TrainedOn, KahmAnswers], n_threads: int) -> MembershipInference:
    """The seed paper's membership inference against a KAHM classifier trained on each kind of data."""
    from tasks.audit import membership_attack

    with threadpool_limits(1), ThreadPoolExecutor(n_threads) as pool:
        begun = [pool.submit(membership_attack, own.members, own.controls, kind) for kind, own in kahm.items()]
        attacks = [one.result() for one in begun]
    one = next(iter(kahm.values()))
    return MembershipInference(members=len(one.members), controls=len(one.controls), attacks=attacks)


@step("Measure utility")
def utility(sample: AuditSample, table: TableSchema) -> Utility:
    """How the released columns compare with the members', both in their own units, clipped to the bounds."""
    from tasks.audit import compare_categories, compare_column, correlation_difference

    members, released = sample.member_frame, sample.released
    columns: list[ColumnUtility] = []
    categories: list[CategoryUtility] = []
    for name, column in table.features.items():
        if isinstance(column, CategoricalColumn | BooleanColumn | OrdinalColumn):
            shown = [str(level).lower() if isinstance(level, bool) else str(level) for level in column.levels]
            real, made = (level_codes(frame[name], column.levels) for frame in (members, released))
            categories.append(compare_categories(real, made, shown, nullable=column.nullable, name=name))
        if not isinstance(column, CategoricalColumn | BooleanColumn):
            columns.append(
                compare_column(name, to_comparable(members[name], column), to_comparable(released[name], column))
            )
    encoded = [encode_features(frame, table).astype(np.float64) for frame in (members, released)]
    names = [block.column for block in layout_of(table).blocks for _ in range(block.width)]
    difference, pairs = correlation_difference(encoded[0], encoded[1], names)
    return Utility(columns=columns, categories=categories, correlation_difference=difference, correlation_pairs=pairs)
