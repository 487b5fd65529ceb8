"""Measure what an attacker and an analyst can do with the release; confidential, for the internal report only."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from threadpoolctl import threadpool_limits

from schemas.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from schemas.measures import FEWEST_ROWS, NotComputed, TrainedOn
from schemas.spec import ClassifierName, ReleaseSpec
from schemas.table import TableSchema
from schemas.utility import CategoryUtility, ClassifierComparison, ColumnUtility, Utility
from tasks.accounting.lattice import SPACING
from tasks.audit import PrivateAnswer, TrainedClassifier
from tasks.columns.layout import layout_of
from tasks.columns.values import comparable_bounds, level_codes, to_comparable
from tasks.encode import encode_features, encode_labels
from tasks.fabricate import DEFAULT_COMPONENTS
from tasks.kahm import KAHMClassifier
from tasks.sample import AuditSample
from tasks.step import step
from tasks.tables import FloatArray, IntArray

Fitted = Mapping[tuple[ClassifierName, TrainedOn], TrainedClassifier]
"""Classifiers by name and by the kind of data they learned from."""
LARGEST_KAHM_CLASS = 1000
"""Rows of one class that an evaluation's KAHM is trained on at most; its cost is cubic in them."""
_QUERIES = 4096
"""Rows whose distances a thread finds at a time."""
_ORDER_SEED = 20240513
"""Public: in which order rows are taken until a class is full."""


def audit_seed(dataset: str, release_id: str) -> int:
    """The seed of everything that a release's audit draws: public, so that whoever may see the source can repeat it.

    It differs from release to release, so that chance does not say the same of all of them.
    """
    return int.from_bytes(sha256(f"audit of {dataset}/{release_id}".encode()).digest()[:4])


@dataclass(frozen=True, eq=False)
class TrainingSets:
    """Equally many confidential, noise-added and fabricated rows, in scaled units. Rows of two kinds are not paired.

    Attributes
    ----------
    features : dict from "real", "noise-added" and "fabricated" to ndarray of float64, shape (n_rows, width)
    labels : dict from the same to ndarray of int64, shape (n_rows,)
    member_places : ndarray of int64, shape (n_rows,)
        Places of the real rows among the sample's members.
    rows_left_out : int
        Rows of each kind that are in no training set, because a class has more than a KAHM is trained on.
    """

    features: dict[TrainedOn, FloatArray]
    labels: dict[TrainedOn, IntArray]
    member_places: IntArray
    rows_left_out: int

    @property
    def rows(self) -> dict[TrainedOn, tuple[FloatArray, IntArray]]:
        """Features and labels of each kind."""
        return {kind: (features, self.labels[kind]) for kind, features in self.features.items()}


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
    kept = np.sort(order[: min(rows_before_a_class_is_full(own[order]) for own in labels.values())])
    return TrainingSets(
        features={kind: rows[kept] for kind, rows in features.items()},
        labels={kind: own[kept] for kind, own in labels.items()},
        member_places=kept,
        rows_left_out=sample.n_members - len(kept),
    )


def rows_before_a_class_is_full(labels: IntArray) -> int:
    """Rows, in their order, until some class has more than `LARGEST_KAHM_CLASS`."""
    overflows = [np.flatnonzero(labels == label)[LARGEST_KAHM_CLASS:] for label in np.unique(labels)]
    return min((int(rows[0]) for rows in overflows if rows.size), default=len(labels))


@dataclass(frozen=True, eq=False)
class KahmAnswers:
    """What a KAHM classifier that was trained on one kind of data says of members and control rows.

    Attributes
    ----------
    members, controls : ndarray of float64, shape (n_rows,)
        Distance of each row to the nearest class.
    classes : ndarray of int64, shape (n_classes,)
    scores : ndarray of float64, shape (n_controls, n_classes)
        Minus the distance of each control row to each class.
    rejected, unresolved : int
        Rows and classes whose nearest image was near a pole, and those among them without another image.
    """

    members: FloatArray
    controls: FloatArray
    classes: IntArray
    scores: FloatArray
    rejected: int
    unresolved: int

    @property
    def predicted(self) -> IntArray:
        """The nearest class of each control row; the first of equally near ones."""
        answers: IntArray = self.classes[self.scores.argmax(axis=1)]
        return answers


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
                classifiers[kind].classes_,
                -distances[len(members) :],
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
def train(sets: TrainingSets, spec: ReleaseSpec, n_threads: int) -> Fitted:
    """The other classifiers that the spec names, each trained on each kind of data."""
    from tasks.audit import train_classifiers

    asked = [(name, kind) for name in spec.evaluation.classifiers if name != "kahm" for kind in sets.features]
    with threadpool_limits(1), ThreadPoolExecutor(n_threads, initializer=threadpool_limits, initargs=(1,)) as pool:
        begun = [pool.submit(train_classifiers, {kind: sets.rows[kind]}, [name]) for name, kind in asked]
        return {one: fitted for part in begun for one, fitted in part.result().items()}


@step("Test classifiers")
def compare(
    sets: TrainingSets,
    sample: AuditSample,
    kahm: dict[TrainedOn, KahmAnswers],
    fitted: Fitted,
    spec: ReleaseSpec,
    notes: list[str],
    private: Sequence[PrivateAnswer] = (),
) -> ClassifierComparison:
    """Every classifier, trained on each kind of data, and every private one, on the real control rows.

    What a reader of the results must know is appended to `notes`.
    """
    from tasks.audit import compare_classifiers, private_results

    if len(sample.controls.labels) < FEWEST_ROWS:
        reason = f"there are fewer than {FEWEST_ROWS} control rows"
        return ClassifierComparison(
            train_rows=len(sets.labels["real"]),
            test_rows=len(sample.controls.labels),
            majority_accuracy=None,
            results=[],
            not_computed=[NotComputed(what="the accuracy of classifiers", reason=reason)],
        )
    with threadpool_limits(1):
        compared = compare_classifiers(
            sets.rows,
            sample.controls.scaled,
            sample.controls.labels,
            spec.evaluation.classifiers,
            kahm={kind: (own.classes, own.predicted, own.scores) for kind, own in kahm.items()},
            fitted=fitted,
            notes=notes,
        )
        return compared.model_copy(update={"private": private_results(private, sample.controls.labels)})


@step("Measure utility")
def utility(sample: AuditSample, table: TableSchema, seed: int) -> Utility:
    """How the released table compares with the members': columns, pairs, and rows as a whole.

    Values are in the columns' own units, clipped to the bounds. Pairs are of features and label.
    """
    from tasks.audit import (
        compare_categories,
        compare_column,
        contingency_similarities,
        correlation_difference,
        correlation_map,
        cut,
        join_rare,
        project_rows,
        propensity,
        varies_enough,
    )

    frames = sample.member_frame, sample.released
    missing: list[NotComputed] = []
    columns: list[ColumnUtility] = []
    categories: list[CategoryUtility] = []
    ordered: dict[str, list[FloatArray]] = {}
    codes: dict[str, list[IntArray]] = {}
    for name, column in [*table.features.items(), (table.label, table.columns[table.label])]:
        if isinstance(column, CategoricalColumn | BooleanColumn | OrdinalColumn):
            real, made = (level_codes(frame[name], column.levels) for frame in frames)
            codes[name] = [np.where(own < 0, len(column.levels), own) for own in (real, made)]
            joined = len(np.unique(codes[name][0])) > len(np.unique(join_rare(*codes[name])[0]))
            if name != table.label:
                shown = [str(level).lower() if isinstance(level, bool) else str(level) for level in column.levels]
                categories.append(
                    compare_categories(real, made, shown, nullable=column.nullable, name=name, not_computed=missing)
                )
        if not isinstance(column, CategoricalColumn | BooleanColumn) and name != table.label:
            ordered[name] = [to_comparable(frame[name], column) for frame in frames]  # type: ignore[arg-type]
            bounds = None
            if not isinstance(column, OrdinalColumn):
                bounds = comparable_bounds(column)  # type: ignore[arg-type]
                codes[name] = [cut(own, bounds) for own in ordered[name]]
            if isinstance(column, OrdinalColumn) and joined:
                columns.append(_untold(name, missing))
            else:
                columns.append(compare_column(name, ordered[name][0], ordered[name][1], bounds, missing))
    encoded = [encode_features(frame, table).astype(np.float64) * SPACING for frame in frames]
    names = [block.column for block in layout_of(table).blocks for _ in range(block.width)]
    told = varies_enough(encoded[0])
    difference, n_pairs = correlation_difference(
        encoded[0][:, told], encoded[1][:, told], [name for name, kept in zip(names, told, strict=True) if kept]
    )
    joined_codes = {name: join_rare(own[0], own[1]) for name, own in codes.items()}
    pairs, similarity = contingency_similarities(
        list(joined_codes), *([own[side] for own in joined_codes.values()] for side in range(2))
    )
    correlations = None
    if len(ordered) > 1:
        correlations = correlation_map(
            list(ordered), *(np.column_stack([own[side] for own in ordered.values()]) for side in range(2))
        )
    with threadpool_limits(1):
        whole = propensity(encoded[0], encoded[1], seed=seed, not_computed=missing)
    return Utility(
        columns=columns,
        categories=categories,
        correlation_difference=difference,
        correlation_pairs=n_pairs,
        correlations=correlations,
        pairs=pairs,
        pair_similarity=similarity,
        propensity=whole,
        projection=project_rows(encoded[0], encoded[1], missing),
        not_computed=missing,
    )


def _untold(name: str, missing: list[NotComputed]) -> ColumnUtility:
    """An ordered column of categories of which some are rare: with its moments, their joined share would be told."""
    reason = f"some of its categories have fewer than {FEWEST_ROWS} real rows, and these figures would tell how many"
    missing.append(NotComputed(what=f"the comparison of the values of column `{name}`", reason=reason))
    return ColumnUtility(
        name=name, mean_real=None, mean_fabricated=None, std_real=None, std_fabricated=None, kolmogorov_smirnov=None,
        missing_real=None,
    )  # fmt: skip
