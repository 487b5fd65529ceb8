"""Measure what an attacker and an analyst can do with the release; confidential, for the internal report only."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from schemas.audit import ClassifierComparison, MembershipInference, TrainedOn, Utility
from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting.lattice import SPACING
from tasks.encode import EncodedSource, to_lattice
from tasks.step import step
from tasks.tables import FloatArray, IntArray, NoiseAddedTable

LARGEST_KAHM_CLASS = 1000
"""Rows of one class that an evaluation's KAHM is trained on at most; its cost is cubic in them."""
_ORDER_SEED = 20240513
"""Public: in which order rows are taken until a class is full."""


@dataclass(frozen=True, eq=False)
class TrainingSets:
    """Equally many confidential, noise-added and fabricated rows, in scaled units. Rows of two kinds are not paired.

    Attributes
    ----------
    features : dict from "real", "noise-added" and "fabricated" to ndarray of float64, shape (n_rows, n_features)
    labels : dict from the same to ndarray of int64, shape (n_rows,)
    rows_left_out : int
        Rows of each kind that are in no training set, because a class has more than a KAHM is trained on.
    """

    features: dict[TrainedOn, FloatArray]
    labels: dict[TrainedOn, IntArray]
    rows_left_out: int


def training_sets(
    encoded: EncodedSource, noise_added: NoiseAddedTable, released: pd.DataFrame, table: TableSchema
) -> TrainingSets:
    """As many members, noise-added rows and released rows as leave no class of any kind above `LARGEST_KAHM_CLASS`.

    The fabricated rows are encoded again from the released data, so that what is measured is what analysts get,
    rounding and clipping included.
    """
    codes = {category: code for code, category in enumerate(table.label_column.categories)}
    lattice = [to_lattice(released[name].to_numpy(np.float64), column) for name, column in table.features.items()]
    features: dict[TrainedOn, FloatArray] = {
        "real": encoded.members.scaled,
        "noise-added": noise_added.scaled,
        "fabricated": np.column_stack(lattice).astype(np.float64) * SPACING,
    }
    labels: dict[TrainedOn, IntArray] = {
        "real": encoded.members.labels,
        "noise-added": noise_added.labels,
        "fabricated": np.asarray(released[table.label].map(codes), dtype=np.int64),
    }
    n_rows = len(encoded.members.labels)
    order = np.random.default_rng(_ORDER_SEED).permutation(n_rows)
    kept = np.sort(order[: min(_rows_before_a_class_is_full(own[order]) for own in labels.values())])
    return TrainingSets(
        features={kind: rows[kept] for kind, rows in features.items()},
        labels={kind: own[kept] for kind, own in labels.items()},
        rows_left_out=n_rows - len(kept),
    )


def _rows_before_a_class_is_full(labels: IntArray) -> int:
    overflows = [np.flatnonzero(labels == label)[LARGEST_KAHM_CLASS:] for label in np.unique(labels)]
    return min((int(rows[0]) for rows in overflows if rows.size), default=len(labels))


@step("Train classifiers")
def train(sets: TrainingSets, encoded: EncodedSource, spec: ReleaseSpec, notes: list[str]) -> ClassifierComparison:
    """Train each classifier on each kind of data and test it on the real control rows.

    What a reader of the results must know is appended to `notes`.
    """
    from tasks.audit import compare_classifiers

    with threadpool_limits(1):
        return compare_classifiers(
            {kind: (features, sets.labels[kind]) for kind, features in sets.features.items()},
            encoded.controls.scaled,
            encoded.controls.labels,
            spec.evaluation.classifiers,
            n_components=spec.fabrication.components,
            notes=notes,
        )


@step("Attack")
def attack(sets: TrainingSets, encoded: EncodedSource, spec: ReleaseSpec) -> MembershipInference:
    """The seed paper's membership inference against a KAHM classifier trained on each kind of data."""
    from tasks.audit import membership_attack
    from tasks.kahm import KAHMClassifier

    members, controls = sets.features["real"], encoded.controls.scaled
    attacks = []
    with threadpool_limits(1):
        for kind, features in sets.features.items():
            classifier = KAHMClassifier(spec.fabrication.components).fit(features, sets.labels[kind])
            attacks.append(
                membership_attack(
                    classifier.distances(members).min(axis=1),
                    classifier.distances(controls).min(axis=1),
                    kind,
                )
            )
    return MembershipInference(members=len(members), controls=len(controls), attacks=attacks)


@step("Measure utility")
def utility(members: pd.DataFrame, released: pd.DataFrame, table: TableSchema) -> Utility:
    """How the released columns compare with the members', both in their own units, clipped to the bounds."""
    from tasks.audit import compare_tables

    names = list(table.features)
    real = [members[name].clip(*column.bounds).to_numpy(np.float64) for name, column in table.features.items()]
    return compare_tables(np.column_stack(real), released[names].to_numpy(np.float64), names)
