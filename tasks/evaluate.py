"""Measure what an attacker and an analyst can do with the release; confidential, for the internal report only."""

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
from tasks.sample import AuditSample
from tasks.step import step
from tasks.tables import FloatArray, IntArray

LARGEST_KAHM_CLASS = 1000
"""Rows of one class that an evaluation's KAHM is trained on at most; its cost is cubic in them."""
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


@step("Train classifiers")
def train(sets: TrainingSets, sample: AuditSample, spec: ReleaseSpec, notes: list[str]) -> ClassifierComparison:
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
            n_components=spec.fabrication.components or DEFAULT_COMPONENTS,
            notes=notes,
        )


@step("Attack")
def attack(sets: TrainingSets, sample: AuditSample, spec: ReleaseSpec) -> MembershipInference:
    """The seed paper's membership inference against a KAHM classifier trained on each kind of data."""
    from tasks.audit import membership_attack
    from tasks.kahm import KAHMClassifier

    members, controls = sets.features["real"], sample.controls.scaled
    n_components = spec.fabrication.components or DEFAULT_COMPONENTS
    attacks = []
    with threadpool_limits(1):
        for kind, features in sets.features.items():
            classifier = KAHMClassifier(n_components).fit(features, sets.labels[kind])
            attacks.append(
                membership_attack(
                    classifier.distances(members).min(axis=1),
                    classifier.distances(controls).min(axis=1),
                    kind,
                )
            )
    return MembershipInference(members=len(members), controls=len(controls), attacks=attacks)


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
