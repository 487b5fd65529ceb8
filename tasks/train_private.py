"""The second border: classifiers that learn from confidential rows with noise in the training.

What `train_private` returns is the output of a mechanism, as what `perturb` returns is; like it, it is charged before
anything is drawn, written to staging as soon as it exists, and read from there by a run that is taken up again. One
that was never written was never shown to anybody, so that training it again spends nothing twice. It draws upon the
members' rows a second time; the release's guarantee is that of both mechanisms together.

All members' encoded rows are in memory here, 8 bytes a coordinate, several times over while they are prepared.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from schemas.columns import (
    BoundedColumn,
    CategoricalColumn,
    DatetimeColumn,
    FeatureColumn,
    IntegerColumn,
    LevelColumn,
    NumericColumn,
)
from schemas.errors import IntegrityFailed
from schemas.private_classifiers import EncodedFeature, PrivateTraining, ReleasedClassifier, ReleasedRowMap
from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting import Mechanism, classifier_events, is_covered
from tasks.accounting.lattice import SPACING
from tasks.audit.classifiers import PrivateAnswer
from tasks.columns.layout import layout_of
from tasks.decode import Released
from tasks.encode import encode_features, encode_labels, encoded_pieces
from tasks.noise import BitSource, SeededBits
from tasks.private_classifiers import choose_settings, estimator_of, settings_of, stated_parameters
from tasks.sample import MOST_ROWS, AuditSample
from tasks.stage import released_frame
from tasks.staging import Staging
from tasks.step import advanced, step
from tasks.tables import FloatArray, IntArray, SourceTable

if TYPE_CHECKING:
    from tasks.classifiers.base import PrivateClassifier

_TITLE = "Train private classifiers"


@step(_TITLE)
def train_private(
    source: SourceTable,
    places: IntArray,
    released: Released,
    spec: ReleaseSpec,
    bits: BitSource,
    staging: Staging,
) -> list[ReleasedClassifier]:
    """Every classifier that the spec has trained on confidential rows, trained on all members and kept in staging.

    Parameters
    ----------
    source : SourceTable
    places : ndarray of int64, shape (n_rows,)
        From `places_of`.
    released : Released
        The fabricated rows, for what hyper-parameters are chosen on.
    spec : ReleaseSpec
    bits : BitSource
        `OperatingSystemBits` in production; anything else brands the release as not private.
    staging : Staging
        One that is kept there is taken up and not trained again.

    Returns
    -------
    list of ReleasedClassifier
        In the spec's order.

    Raises
    ------
    IntegrityFailed
        What was run is more than what was charged, or a kept classifier is damaged or of other members.
    """
    entries = spec.evaluation.paid_classifiers
    kept = {entry.classifier: staging.classifier(entry.classifier, places) for entry in entries}
    missing = [entry for entry in entries if kept[entry.classifier] is None]
    if missing:
        settings = _settings(missing, released, spec.table)
        rows, labels = _members(source, places, spec.table)
        with threadpool_limits(1):
            for done, (entry, own) in enumerate(zip(missing, settings, strict=True)):
                advanced(_TITLE, done, len(missing))
                estimator = estimator_of(entry, len(spec.table.classes), bits, noise=True, settings=own)
                made = released_form(entry, estimator.fit(rows, labels), spec.table)
                _require_charged(entry, made, bits)
                kept[entry.classifier] = staging.keep_classifier(made, places)
    return [own for own in kept.values() if own is not None]


def _require_charged(entry: PrivateTraining, made: ReleasedClassifier, bits: BitSource) -> None:
    own = made.guarantee
    no_more = own.epsilon <= entry.paid[0] and own.delta <= entry.paid[1]
    as_asked = no_more and own.adjacency == "replace_one" and own.randomness == bits.label
    if not as_asked or not is_covered(own.events, classifier_events(entry)):
        raise IntegrityFailed(
            f"classifier {entry.classifier}: what was run is not covered by what was charged for it; it is not "
            "released. This is a fault of the program"
        )


def _members(source: SourceTable, places: IntArray, table: TableSchema) -> tuple[FloatArray, IntArray]:
    """All members' rows in scaled units, and the places of their labels, in the order of the release."""
    n_members = int(places.max()) + 1
    rows = np.empty((n_members, layout_of(table).width))
    labels = np.empty(n_members, dtype=np.int64)
    for piece in encoded_pieces(source, table, places):
        rows[piece.places], labels[piece.places] = piece.rows.scaled, piece.rows.labels
    return rows, labels


def _settings(entries: Sequence[PrivateTraining], released: Released, table: TableSchema) -> list[dict[str, Any]]:
    if all(entry.hyperparameters == "fixed" for entry in entries):
        return [{} for _ in entries]
    rows, labels = fabricated_rows((released_frame(piece, table) for piece in released.pieces()), table)
    with threadpool_limits(1):
        return [choose_settings(entry, rows, labels, len(table.classes)) for entry in entries]


def fabricated_rows(pieces: Iterator[pd.DataFrame], table: TableSchema) -> tuple[FloatArray, IntArray]:
    """The first 50,000 released rows, encoded again in scaled units, and the places of their labels."""
    frames: list[pd.DataFrame] = []
    for piece in pieces:
        frames.append(piece)
        if sum(map(len, frames)) >= MOST_ROWS:
            break
    frame = pd.concat(frames, ignore_index=True).head(MOST_ROWS)
    return encode_features(frame, table).astype(np.float64) * SPACING, encode_labels(frame, table)


def released_form(entry: PrivateTraining, fitted: "PrivateClassifier", table: TableSchema) -> ReleasedClassifier:
    """A fitted classifier as it is released: public and released numbers only."""
    row_map = fitted.row_map_
    lists = {
        name: None if (own := getattr(row_map, name)) is None else own.tolist()
        for name in ("lower", "upper", "centre", "scale")
    }
    assert fitted.guarantee_ is not None
    return ReleasedClassifier(
        name=entry.classifier,
        classes=table.classes,
        features=encoded_features(table),
        row_map=ReleasedRowMap(**lists, norm=row_map.norm, rule=row_map.rule, intercept=row_map.intercept),
        coefficients=fitted.coef_.tolist(),
        intercepts=fitted.intercept_.tolist(),
        hyperparameters=stated_parameters(fitted),
        chosen_on="defaults" if entry.hyperparameters == "fixed" else "fabricated rows",
        guarantee=fitted.guarantee_,
    )


def encoded_features(table: TableSchema) -> list[EncodedFeature]:
    """What each coordinate of an encoded row is, with all that is needed to compute it from a cell."""
    features: list[EncodedFeature] = []
    for block in layout_of(table).blocks:
        column = table.features[block.column]
        if block.kind == "missing":
            features.append(EncodedFeature(column=block.column, what="missing", type=column.type))
        elif block.kind == "value":
            features.append(EncodedFeature(column=block.column, what="value", type=column.type, **_range(column)))
        else:
            assert not isinstance(column, BoundedColumn)
            possible = [*_texts(column), None][: block.levels]
            other = column.other if isinstance(column, CategoricalColumn) else None
            features += [
                EncodedFeature(
                    column=block.column,
                    what="category",
                    type=column.type,
                    category=level,
                    levels=possible if block.width == 1 else None,
                    takes_undeclared=other is not None and level == str(other),
                )
                for level in (possible[1:] if block.width == 1 else possible)
            ]
    return features


def _texts(column: LevelColumn) -> list[str]:
    return [str(level).lower() if isinstance(level, bool) else str(level) for level in column.levels]


def _range(column: FeatureColumn) -> dict[str, Any]:
    """What a column's values are parts of."""
    if not isinstance(column, BoundedColumn):
        return {"levels": _texts(column)}
    lower, upper = (own if isinstance(own, int | float) else own.isoformat() for own in column.bounds)
    made: dict[str, Any] = {"lower": lower, "upper": upper}
    if isinstance(column, NumericColumn | IntegerColumn):
        made["log_offset"] = column.log_offset
    elif isinstance(column, DatetimeColumn):
        made["timezone"] = column.timezone
    return made


def scores_of_released(classifier: ReleasedClassifier, rows: FloatArray) -> FloatArray:
    """Scores of encoded rows by what is in the released file, and nothing else.

    Parameters
    ----------
    classifier : ReleasedClassifier
    rows : ndarray of float64, shape (n_rows, n_features)
        Coordinates in [0, 1].

    Returns
    -------
    ndarray of float64, shape (n_rows, n_classes)
        Of two classes the second one's score is its lead over the first, the first one's the negative of that.
    """
    from tasks.classifiers.row_map import RowMap

    stated = classifier.row_map
    mapped = RowMap(
        lower=_array(stated.lower),
        upper=_array(stated.upper),
        centre=_array(stated.centre),
        scale=_array(stated.scale),
        norm=stated.norm,
        rule=stated.rule,
        intercept=stated.intercept,
    ).rows(rows)
    if stated.intercept:
        mapped = mapped[:, :-1]
    return _both_classes(mapped @ np.asarray(classifier.coefficients).T + np.asarray(classifier.intercepts))


def _array(numbers: list[float] | None) -> FloatArray | None:
    return None if numbers is None else np.asarray(numbers, dtype=np.float64)


def _both_classes(scores: FloatArray) -> FloatArray:
    """Scores with a column for each class; each class's column orders the rows by how much they are that class.

    For two classes that is the second one's lead over the first, and its negative: an area under the curve is taken of
    each column alone.
    """
    if scores.ndim == 2 and scores.shape[1] > 2:
        return scores
    lead = scores.reshape(-1) if scores.ndim == 1 or scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
    return np.column_stack([-lead, lead])


@step("Train on fabricated rows")
def ask_private(
    sample: AuditSample, spec: ReleaseSpec, mechanism: Mechanism, released: Sequence[ReleasedClassifier]
) -> list[PrivateAnswer]:
    """What every private classifier of the spec says of the control rows; internal.

    Parameters
    ----------
    sample : AuditSample
    spec : ReleaseSpec
    mechanism : CellNoise or Moments
    released : sequence of ReleasedClassifier
        Those trained on confidential rows. They are asked by what is in their files.

    Returns
    -------
    list of PrivateAnswer
        Those trained on fabricated rows have no noise of their own: these rows carry it. Hyper-parameters are those of
        the one trained on confidential rows, or else chosen on the same fabricated rows.
    """
    made = {own.name: own for own in released}
    tested, n_classes = sample.controls.scaled, len(spec.table.classes)
    codes = np.arange(n_classes)
    rows, labels = fabricated_rows(iter([sample.released]), spec.table)
    of_data, answers = mechanism.data_guarantees.record, []
    with threadpool_limits(1):
        for entry in spec.evaluation.private_classifiers:
            own = made.get(entry.classifier)
            said: dict[str, Any] = {
                "chosen_on": "defaults" if entry.hyperparameters == "fixed" else "fabricated rows",
                "preprocessing_share": entry.preprocessing_share,
            }
            if own is not None:
                scores = scores_of_released(own, tested)
                answers.append(
                    PrivateAnswer(
                        entry.classifier, "confidential", sample.n_members, *entry.paid, codes, scores,
                        hyperparameters=own.hyperparameters, **said,
                    )
                )  # fmt: skip
            if "fabricated" in entry.trained_on:
                settings = (
                    choose_settings(entry, rows, labels, n_classes) if own is None else _settings_again(entry, own)
                )
                estimator = estimator_of(entry, n_classes, SeededBits(0), noise=False, settings=settings)
                scores = _both_classes(estimator.fit(rows, labels).decision_function(tested))
                answers.append(
                    PrivateAnswer(
                        entry.classifier, "fabricated", len(labels), of_data.epsilon, of_data.delta, codes, scores,
                        hyperparameters=stated_parameters(estimator), **said,
                    )
                )  # fmt: skip
    return answers


def _settings_again(entry: PrivateTraining, own: ReleasedClassifier) -> dict[str, Any]:
    """The settings that a released classifier was trained with."""
    settings = settings_of(entry, own.hyperparameters, len(own.classes))
    if settings is None:
        raise IntegrityFailed(
            f"classifier {own.name}: its hyper-parameters are none that this version of Fabrica chooses for the spec"
        )
    return settings
