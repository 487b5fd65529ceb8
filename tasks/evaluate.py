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


@dataclass(frozen=True, eq=False)
class TrainingSets:
    """The same rows as they are confidentially, noise-added and fabricated, in scaled units.

    Attributes
    ----------
    features : dict from "real", "noise-added" and "fabricated" to ndarray of float64, shape (n_rows, n_features)
    labels : ndarray of int64, shape (n_rows,)
    rows_left_out : int
        Members that are in no training set, because their class has more rows than a KAHM is trained on.
    """

    features: dict[TrainedOn, FloatArray]
    labels: IntArray
    rows_left_out: int


def training_sets(
    encoded: EncodedSource, noise_added: NoiseAddedTable, released: pd.DataFrame, table: TableSchema
) -> TrainingSets:
    """Members, their noise-added rows and the released rows, at most `LARGEST_KAHM_CLASS` of each class.

    The fabricated rows are encoded again from the released data, so that what is measured is what analysts get,
    rounding and clipping included.
    """
    fabricated = np.column_stack(
        [to_lattice(released[name].to_numpy(np.float64), column) for name, column in table.features.items()]
    )
    labels = encoded.members.labels
    kept = np.sort(
        np.concatenate([np.flatnonzero(labels == label)[:LARGEST_KAHM_CLASS] for label in np.unique(labels)])
    )
    return TrainingSets(
        features={
            "real": encoded.members.scaled[kept],
            "noise-added": noise_added.scaled[kept],
            "fabricated": fabricated[kept] * SPACING,
        },
        labels=labels[kept],
        rows_left_out=len(labels) - len(kept),
    )


@step("Train classifiers")
def train(sets: TrainingSets, encoded: EncodedSource, spec: ReleaseSpec, notes: list[str]) -> ClassifierComparison:
    """Train each classifier on each kind of data and test it on the real control rows.

    What a reader of the results must know is appended to `notes`.
    """
    from tasks.audit import compare_classifiers

    with threadpool_limits(1):
        return compare_classifiers(
            {kind: (features, sets.labels) for kind, features in sets.features.items()},
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
            classifier = KAHMClassifier(spec.fabrication.components).fit(features, sets.labels)
            attacks.append(
                membership_attack(
                    classifier.distances(members).min(axis=1),
                    classifier.distances(controls).min(axis=1),
                    kind,
                )
            )
    return MembershipInference(members=len(members), controls=len(controls), attacks=attacks)


@step("Measure utility")
def utility(encoded: EncodedSource, released: pd.DataFrame, table: TableSchema) -> Utility:
    """How the released columns compare with the members'."""
    from tasks.audit import compare_tables

    spans = np.array([upper - lower for lower, upper in (column.bounds for column in table.features.values())])
    starts = np.array([column.bounds[0] for column in table.features.values()])
    return compare_tables(
        starts + encoded.members.scaled * spans,
        released[list(table.features)].to_numpy(np.float64),
        list(table.features),
    )
