"""Private classifiers around their algorithms: what may be asked for, what it costs, what is released and checked."""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from schemas.errors import IntegrityFailed, RequestRefused
from schemas.events import ApproximateEvent, Event, GaussianEvent
from schemas.guarantee import PROOFS, Guarantees
from schemas.manifest import Manifest
from schemas.private_classifiers import (
    ALWAYS_PURE,
    MAY_BE_PURE,
    SCORING_STEPS,
    ClassifierRecord,
    PrivateTraining,
    ReleasedClassifier,
)
from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting import classifier_events, is_covered, mechanism_of, unproved_claim
from tasks.accounting.classifiers import with_classifiers
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_mu
from tasks.accounting.recheck import classifier_path
from tasks.audit.classifiers import PrivateAnswer, private_not_above, private_results
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.row_map import RowMap
from tasks.encode import encode_features, places_of
from tasks.noise import SeededBits
from tasks.private_classifiers import (
    ESTIMATORS,
    GRIDS,
    choose_settings,
    estimator_of,
    guarantee_of_training,
    refuse_untrainable,
    stated_parameters,
)
from tasks.read_spec import spec_sha256
from tasks.reporting.usefulness import private_settings
from tasks.reporting.verdicts import epsilon_verdict
from tasks.sweep import settings_sha256, variants_of, what_is_left_out
from tasks.tables import SourceTable
from tasks.train_private import (
    _both_classes,
    _members,
    _settings_again,
    encoded_features,
    released_form,
    scores_of_released,
)
from tasks.verify_classifier import as_proved
from tests import factories, mixed_table
from tests.projects import FEATURES, SPEC, changed, digits
from tests.stand_in_classifier import stand_in, trainings

PLACE = "evaluation.private_classifiers"
ONE = {"classifier": "pmsvm-adaptive", "epsilon": 4.0, "delta": 1e-5}
PURE = {"classifier": "exponential-sampling", "epsilon": 1.0, "delta": 0.0, "trained_on": ["confidential"]}
FREE = {"classifier": "noisy-sgd", "trained_on": ["fabricated"]}
RECORD = {"unit": "record", "epsilon": 4.0, "delta": 1e-5, "budget": {"epsilon": 500.0, "delta": 1e-2}}
MOMENTS = changed(SPEC, "privacy", {**RECORD, "mechanism": "private-moments"})


def _spec(*entries: dict[str, Any], base: dict[str, Any] = SPEC) -> ReleaseSpec:
    return ReleaseSpec.model_validate(changed(base, PLACE, list(entries)))


def _entry(**changes: Any) -> PrivateTraining:
    if changes.get("classifier") in ALWAYS_PURE and not changes.get("preprocessing_share"):
        changes = {"delta": 0.0} | changes
    return PrivateTraining.model_validate(ONE | changes)


# What a spec may ask for --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([{"classifier": "pmsvm-adaptive", "delta": 1e-5}], "needs epsilon of its own; there is no default"),
        ([{"classifier": "pmsvm-adaptive"}], "needs epsilon and delta of its own"),
        ([ONE | {"trained_on": ["fabricated"]}], "costs nothing; leave epsilon and delta out"),
        ([ONE | {"delta": 0.0}], "pmsvm-adaptive needs delta above 0"),
        ([PURE | {"preprocessing_share": 0.1}], "preprocessing_share needs delta above 0"),
        ([ONE | {"preprocessing_share": 1.0}], "less than 1"),
        ([ONE | {"preprocessing_share": 1e-300}], "must be 0 or at least 0.001, got 1e-300"),
        ([ONE | {"preprocessing_share": 0.0009}], "must be 0 or at least 0.001, got 0.0009"),
        ([ONE | {"epsilon": 40.5}], "less than or equal to 40"),
        ([ONE, FREE, ONE], "`pmsvm-adaptive` is named more often"),
        ([ONE | {"trained_on": []}], "at least 1 item"),
        ([ONE | {"trained_on": ["fabricated", "fabricated"]}], "each kind of rows may be named once"),
        ([ONE | {"classifier": "svm"}], "Input should be"),
        ([ONE | {"hyperparameters": "confidential"}], "'fixed' or 'fabricated'"),
        ([ONE | {"trained_on": ["control"]}], "'fabricated' or 'confidential'"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(entries: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        _spec(*entries)


def test_both_kinds_are_the_default_and_a_single_class_is_refused() -> None:
    assert _entry().trained_on == ["fabricated", "confidential"]
    assert _entry(preprocessing_share=0.001).preprocessing_share == 0.001
    columns = {"x": {"type": "boolean"}, "y": {"type": "categorical", "categories": ["only"]}}
    single = changed(SPEC, "table", {"label": "y", "columns": columns})
    with pytest.raises(ValidationError, match="a single class"):
        _spec(FREE, base=single)


def test_a_spec_without_them_is_stated_and_digested_as_before_there_were_any() -> None:
    """Digests computed at commit 914ca32, before there were any: published manifests hold such."""
    plain, mixed = (ReleaseSpec.model_validate(own) for own in (SPEC, mixed_table.SPEC))
    assert spec_sha256(plain) == "b244eb08f75d6d82a3bbcf04adcbcfd508b69538d0834fa385cf063d19006a9c"
    assert spec_sha256(mixed) == "c9536bf5ad712d8a014ae2b0befb159fa7f602c06c7e3b3d30bddd4c05de97bb"
    assert settings_sha256(plain) == "9e23968a07ce2cb7bae4821fe47b9544201a567059eef1f61de5d7f0950dd6f7"
    assert spec_sha256(_spec(FREE)) != spec_sha256(plain)


def test_a_sweep_leaves_them_out_and_says_so() -> None:
    spec = _spec(ONE, FREE)
    (note,) = what_is_left_out(spec)
    assert "(pmsvm-adaptive, noisy-sgd) were left out" in note and what_is_left_out(_spec()) == []
    (variant,) = variants_of(spec, [1.0])
    assert variant.spec.evaluation.private_classifiers == [] and variant.mechanism.classifiers == ()
    assert settings_sha256(spec) == settings_sha256(ReleaseSpec.model_validate(SPEC))


# What they cost -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_charge_is_the_gaussian_release_or_the_pair(name: str) -> None:
    (event,) = classifier_events(_entry(classifier=name, preprocessing_share=0.2))
    budget = PrivacyBudget(4.0, 1e-5)
    approximate = name in {"objective-perturbation", "exponential-sampling"}
    assert event == (budget.as_approximate() if approximate else budget.as_gaussian())
    assert composed_epsilon([event], 1e-5) <= 4.0 * (1 + 1e-12)


def test_pure_ones_are_charged_their_epsilon_and_free_ones_nothing() -> None:
    assert classifier_events(PrivateTraining.model_validate(PURE)) == (ApproximateEvent(epsilon=1.0, delta=0.0),)
    assert classifier_events(PrivateTraining.model_validate(FREE)) == ()


def test_two_gaussian_releases_of_one_mu_are_one_of_root_two() -> None:
    """Dong, Roth, Su 2022, corollary 3.3: moments and a classifier, each (4, 1e-5), at 2e-5."""
    mechanism = mechanism_of(_spec(ONE, base=MOMENTS))
    record, element = mechanism.guarantees.record, mechanism.guarantees.element
    mu = math.sqrt(2.0) * gaussian_mu(4.0, 1e-5)
    assert record.delta == 2e-5 and record.epsilon < 8.0
    assert gaussian_delta(mu, record.epsilon) == pytest.approx(2e-5, rel=1e-4)
    assert (element.epsilon, element.delta) == (record.epsilon, record.delta)
    assert mechanism.data_guarantees.record.epsilon == 4.0 and mechanism.data_guarantees.record.delta == 1e-5
    assert len(mechanism.events) == 2 and mechanism.events[:1] == mechanism.data_events
    assert mechanism.record(None).events == list(mechanism.events)


def test_pure_classifiers_add_their_epsilon_to_pure_data() -> None:
    base = changed(changed(SPEC, "privacy.delta", 0.0), "privacy.mechanism", "staircase")
    alone, both = mechanism_of(_spec(base=base)).guarantees, mechanism_of(_spec(PURE, base=base)).guarantees
    for unit in ("element", "record"):
        own, together = getattr(alone, unit), getattr(both, unit)
        assert together.delta == 0.0 and together.epsilon == pytest.approx(own.epsilon + 1.0, rel=1e-12)


@pytest.mark.parametrize("entries", [[ONE], [ONE, PURE], [ONE | {"classifier": "objective-perturbation"}, FREE]])
def test_together_costs_no_more_than_the_sum_and_no_less_than_the_data(entries: list[dict[str, Any]]) -> None:
    mechanism = mechanism_of(_spec(*entries))
    paid = [own["epsilon"] for own in entries if "epsilon" in own], [own["delta"] for own in entries if "delta" in own]
    for unit in ("element", "record"):
        data, both = getattr(mechanism.data_guarantees, unit), getattr(mechanism.guarantees, unit)
        assert data.epsilon < both.epsilon <= (data.epsilon + sum(paid[0])) * (1 + 1e-12)
        assert both.delta == pytest.approx(data.delta + sum(paid[1]), rel=1e-12)
        assert both.proof in PROOFS and both.proof != data.proof


def test_a_label_costs_what_the_classifier_learns_of_it_too() -> None:
    base = changed(SPEC, "privacy.labels", {"randomized_response": {"epsilon": 2.0}})
    element = mechanism_of(_spec(ONE, base=base)).guarantees.element
    assert (element.label_epsilon, element.label_delta) == (6.0, 1e-5)
    assert "changing one label, by at most a factor e^6 plus 1e-05" in element.sentence()


def test_deltas_never_add_up_to_a_guarantee_of_one() -> None:
    guarantees = mechanism_of(_spec(ONE | {"delta": 0.7}, ONE | {"classifier": "opera", "delta": 0.7})).guarantees
    assert guarantees.record.delta == guarantees.element.delta == 0.5 and math.isfinite(guarantees.record.epsilon)
    worthless = mechanism_of(_spec()).guarantees
    record = worthless.record.model_copy(update={"delta": 1.0})
    together = with_classifiers(Guarantees(element=worthless.element, record=record), [], [_entry()])
    assert (together.record.epsilon, together.record.delta) == (record.epsilon + 4.0, 1.0)


G = PrivacyBudget(4.0, 1e-5).as_gaussian()
STEPS = GaussianEvent(noise_multiplier=10.0 * G.noise_multiplier, count=100)


@pytest.mark.parametrize(
    ("run", "covered"),
    [
        ([G], True),
        ([STEPS], True),
        ([STEPS.model_copy(update={"count": 101})], False),
        ([STEPS, STEPS], False),
        ([G.model_copy(update={"noise_multiplier": 0.999 * G.noise_multiplier})], False),
        ([ApproximateEvent(epsilon=4.0, delta=1e-5)], False),  # its profile elsewhere is not a Gaussian's
        ([], False),
    ],
)
def test_what_was_run_is_held_against_a_gaussian_charge(run: list[Event], covered: bool) -> None:
    assert is_covered(run, [G]) is covered


def test_what_was_run_is_held_against_a_charged_pair() -> None:
    pair = [ApproximateEvent(epsilon=4.0, delta=1e-5)]
    half = ApproximateEvent(epsilon=2.0, delta=5e-6)
    assert is_covered(pair, pair) and is_covered([half, half], pair) and is_covered([G], pair)
    assert not is_covered([half, *pair], pair) and not is_covered([G, G], pair) and not is_covered([], pair)
    assert is_covered([ApproximateEvent(epsilon=1.0, delta=0.0)], [ApproximateEvent(epsilon=1.0, delta=0.0)])
    assert not is_covered([G], [ApproximateEvent(epsilon=4.0, delta=0.0)])


# What an auditor proves again ---------------------------------------------------------------------------------------


def _manifest(*entries: dict[str, Any], base: dict[str, Any]) -> tuple[Manifest, ReleaseSpec]:
    spec = _spec(*entries, base=base)
    mechanism, paid = mechanism_of(spec), spec.evaluation.paid_classifiers
    records = [
        ClassifierRecord(
            name=own.classifier, path=classifier_path(own.classifier), epsilon=own.paid[0], delta=own.paid[1],
            events=list(classifier_events(own)),
        )
        for own in paid
    ]  # fmt: skip
    return factories.manifest(
        spec=spec.outcome_settings(), rows=210, guarantee=mechanism.guarantees, mechanism=mechanism.record(210),
        labels=mechanism.data_guarantees.record.labels, data_guarantee=mechanism.data_guarantees if paid else None,
        classifiers=records,
    ), spec  # fmt: skip


BASES = {
    "cells": SPEC,
    "rows": changed(SPEC, "privacy", RECORD),
    "moments": MOMENTS,
    "labels": changed(SPEC, "privacy.labels", {"randomized_response": {"epsilon": 2.0}}),
    "mixed": mixed_table.SPEC,
}


@pytest.mark.parametrize("base", BASES)
def test_an_honest_claim_with_classifiers_holds(base: str) -> None:
    assert unproved_claim(*_manifest(ONE, PURE, FREE, base=BASES[base])) is None
    manifest, spec = _manifest(FREE, base=BASES[base])
    assert unproved_claim(manifest, spec) is None
    assert unproved_claim(manifest.model_copy(update={"data_guarantee": manifest.guarantee}), spec) is None


def _smaller(what: str, unit: str, **changes: float) -> Callable[[Manifest], Manifest]:
    def forge(manifest: Manifest) -> Manifest:
        units = getattr(manifest, what)
        own = getattr(units, unit).model_copy(update=changes)
        return manifest.model_copy(update={what: units.model_copy(update={unit: own})})

    return forge


def _record(**changes: Any) -> Callable[[Manifest], Manifest]:
    return lambda m: m.model_copy(update={"classifiers": [m.classifiers[0].model_copy(update=changes)]})


def _events(events: Callable[[list[Event]], list[Event]]) -> Callable[[Manifest], Manifest]:
    return lambda m: m.model_copy(
        update={"mechanism": m.mechanism.model_copy(update={"events": events(m.mechanism.events)})}
    )


FORGED: dict[str, tuple[Callable[[Manifest], Manifest], str]] = {
    "record epsilon of the data alone": (
        lambda m: m.model_copy(update={"guarantee": m.guarantee.model_copy(update={"record": m.of_the_data.record})}),
        "record-level guarantee is stronger than composition",
    ),
    "element epsilon of the data alone": (
        lambda m: m.model_copy(update={"guarantee": m.guarantee.model_copy(update={"element": m.of_the_data.element})}),
        "element-level guarantee is stronger than composition",
    ),
    "record epsilon a little smaller": (
        lambda m: _smaller("guarantee", "record", epsilon=m.guarantee.record.epsilon * 0.999)(m), "stronger",
    ),
    "record delta a little smaller": (
        lambda m: _smaller("guarantee", "record", delta=m.guarantee.record.delta * 0.999)(m), "stronger",
    ),
    "no guarantee of the data": (lambda m: m.model_copy(update={"data_guarantee": None}), ""),
    "weaker data than asked for": (
        lambda m: m.model_copy(update={"data_guarantee": m.guarantee}), "weaker than the spec asks for|does not follow",
    ),
    "labels of another kind": (
        lambda m: _smaller("guarantee", "record", labels="randomized_response")(m), "something else than the data's",  # type: ignore[arg-type]
    ),
    "smaller epsilon of the classifier": (_record(epsilon=3.0), "not those of the spec"),
    "another name": (_record(name="pmsvm-weight"), "not those of the spec"),
    "another path": (_record(path="classifiers/other.json"), "not those of the spec"),
    "less noise charged": (
        _record(events=[G.model_copy(update={"noise_multiplier": 2.0 * G.noise_multiplier})]), "events of classifier",
    ),
    "classifier left out": (lambda m: m.model_copy(update={"classifiers": []}), "not those of the spec"),
    "event left out": (_events(lambda events: events[:-1]), "events are not|does not follow"),
    "event of more noise": (
        _events(lambda events: [*events[:-1], GaussianEvent(noise_multiplier=5.0)]), "events are not|does not follow",
    ),
}  # fmt: skip


@pytest.mark.parametrize("base", ["cells", "moments"])
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_claim_is_named(name: str, base: str) -> None:
    forge, text = FORGED[name]
    manifest, spec = _manifest(ONE, base=BASES[base])
    fault = unproved_claim(forge(manifest), spec)
    assert fault is not None and re.search(text, fault), fault


def test_a_classifier_in_a_release_that_asks_for_none_is_named() -> None:
    (manifest, _), spec = _manifest(ONE, base=SPEC), _spec()
    plain = _manifest(base=SPEC)[0]
    extra = plain.model_copy(update={"classifiers": manifest.classifiers})
    assert "not those of the spec" in str(unproved_claim(extra, spec))
    other = plain.model_copy(update={"data_guarantee": manifest.guarantee})
    assert unproved_claim(other, spec) is not None


# What is released ---------------------------------------------------------------------------------------------------


def _rows(n: int = 240, width: int = 4, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    labels = np.arange(n) % n_classes
    return np.clip(0.2 * random.random((n, width)) + 0.25 * labels[:, None] * np.eye(width)[0], 0, 1), labels


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "fixed",
    [{}, {"fit_intercept": False}, {"norm_rule": "normalize"}, {"data_norm": 0.3}, {"preprocessing_share": 0.4}],
)
def test_the_released_file_scores_rows_as_the_fitted_estimator(
    fixed: dict[str, Any], n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = fixed.pop("preprocessing_share", 0.0)
    stand_in(monkeypatch, **fixed)
    spec = _spec(ONE | {"preprocessing_share": share})
    if n_classes == 2:
        spec = _spec(ONE | {"preprocessing_share": share}, base=changed(SPEC, "table.columns.digit.categories", [0, 1]))
    (entry,) = spec.evaluation.paid_classifiers
    rows, labels = _rows(n_classes=n_classes)
    fitted = estimator_of(entry, n_classes, SeededBits(1), noise=True).fit(rows, labels)
    made = released_form(entry, fitted, spec.table)
    again = ReleasedClassifier.model_validate_json(made.model_dump_json())
    assert again == made and (made.row_map.centre is not None) == (share > 0)
    scores = scores_of_released(again, rows)
    assert scores.shape == (240, n_classes)
    assert np.array_equal(scores.argmax(axis=1), fitted.predict(rows))
    # by hand, as the file's own documentation says
    z = 2 * rows - 1
    if made.row_map.centre is not None:
        z = (z - np.array(made.row_map.centre)) / np.array(made.row_map.scale)
    norm = made.row_map.norm
    assert norm is not None
    length = np.linalg.norm(z, axis=1, keepdims=True)
    z = z * (np.minimum(1, norm / length) if made.row_map.rule == "clip" else norm / length) / norm
    if made.row_map.intercept:
        z = z / np.sqrt(2)
    by_hand = z @ np.array(made.coefficients).T + np.array(made.intercepts)
    lead = by_hand if n_classes > 2 else by_hand[:, -1] - (by_hand[:, 0] if by_hand.shape[1] == 2 else 0.0)
    np.testing.assert_allclose(scores if n_classes > 2 else scores[:, 1], lead, rtol=1e-9, atol=1e-12)
    # the estimator rounds rows and weights to grids first
    np.testing.assert_allclose(fitted.decision_function(rows), lead, atol=1e-6)
    assert np.array_equal(by_hand.argmax(axis=1) if by_hand.shape[1] > 1 else by_hand[:, 0] > 0, fitted.predict(rows))
    assert made.hyperparameters["shift"] == 0.0 and "epsilon" not in made.hyperparameters


def test_features_are_named_as_rows_are_encoded() -> None:
    """One row of each possibility is encoded, and each coordinate is as its description says."""
    table = TableSchema.model_validate(mixed_table.SPEC["table"])
    features = encoded_features(table)
    assert [(own.column, own.what, own.category) for own in features] == [
        ("age", "value", None), ("costs", "missing", None), ("costs", "value", None), ("height (m)", "value", None),
        ("admitted", "value", None), ("left", "missing", None), ("left", "value", None), ("seen", "value", None),
        ("triage", "value", None), *(("town", "category", t) for t in [*mixed_table.TOWNS, "elsewhere", None]),
        *(("smoker", "category", t) for t in ["false", "true", None]), ("select", "category", "true"),
    ]  # fmt: skip
    assert features[1].lower is None and features[2].lower == 0 and features[2].upper == 100_000
    frame = pd.DataFrame(
        {
            "age": pd.array([60], "Int64"), "costs": [np.nan], "height (m)": [2.5],
            "admitted": pd.to_datetime(["2015-01-01"]), "left": pd.to_datetime(["NaT"]),
            "seen": pd.to_datetime(["2025-12-31T23:59"]), "triage": ["red"], "town": [None],
            "smoker": pd.array([True], "boolean"), "select": pd.array([True], "boolean"), "constant": ["one"],
        }
    )  # fmt: skip
    row = encode_features(frame, table)[0] / 65536
    expected = [0.5, 1, 0.5, 1, 0, 1, 0.5, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1]
    assert row.tolist() == expected


def _by_hand(file: dict[str, Any], row: dict[str, Any]) -> str:
    """The class of a row by the steps in a released file, in plain Python: it knows nothing of the spec or the code.

    Cells are numbers, ISO text, categories as text, or None.
    """
    clocks = {"date": lambda t: float(date.fromisoformat(t).toordinal()),
              "datetime": lambda t: datetime.fromisoformat(t).replace(tzinfo=UTC).timestamp()}  # fmt: skip
    own_of: dict[str, list[dict[str, Any]]] = {}
    for feature in file["features"]:
        own_of.setdefault(feature["column"], []).append(feature)
    coordinates = []
    for feature in file["features"]:
        cell, levels = row[feature["column"]], feature["levels"]
        if feature["what"] == "missing":
            x = float(cell is None)
        elif feature["what"] == "category":
            known = {own["category"] for own in own_of[feature["column"]]} | set(levels or [])
            x = float(cell == feature["category"] or (feature["takes_undeclared"] and cell not in known))
        elif cell is None:
            x = 0.5
        elif levels is not None:
            x = levels.index(cell) / (len(levels) - 1)
        else:
            number = clocks.get(feature["type"], float)
            value, lower, upper = (number(own) for own in (cell, feature["lower"], feature["upper"]))
            value = min(max(value, lower), upper)
            if feature["log_offset"] is not None:
                value, lower, upper = (math.log(own + feature["log_offset"]) for own in (value, lower, upper))
            x = (value - lower) / (upper - lower)
        coordinates.append(math.floor(x * 65536 + 0.5) / 65536)
    mapped, z = file["row_map"], []
    for k, x in enumerate(coordinates):
        lower, upper = mapped["lower"][k], mapped["upper"][k]
        z.append(2 * (min(max(x, lower), upper) - lower) / (upper - lower) - 1)
        if mapped["centre"] is not None:
            z[k] = (z[k] - mapped["centre"][k]) / mapped["scale"][k]
    if mapped["norm"] is not None:
        length = math.hypot(*z)
        shorter = min(1.0, mapped["norm"] / length) if mapped["rule"] == "clip" else mapped["norm"] / length
        z = [own * shorter / mapped["norm"] / (math.sqrt(2) if mapped["intercept"] else 1.0) for own in z]
    scores = [
        math.fsum(a * b for a, b in zip(own, z, strict=True)) + constant
        for own, constant in zip(file["coefficients"], file["intercepts"], strict=True)
    ]
    best = int(scores[0] > 0) if len(scores) == 1 else scores.index(max(scores))
    return f"{file['classes'][best]} {max(scores, key=abs):.9f}"


def _plain(frame: pd.DataFrame, table: TableSchema) -> list[dict[str, Any]]:
    """Rows as somebody has them who knows the columns' meaning: numbers, ISO text, categories as text."""
    rows = []
    for row in frame.astype(object).to_dict("records"):
        plain: dict[str, Any] = {}
        for name in table.features:
            cell = row[name]
            plain[name] = (
                None if pd.isna(cell) else str(cell).lower() if isinstance(cell, bool) else
                cell.date().isoformat() if table.columns[name].type == "date" else
                cell.isoformat() if isinstance(cell, pd.Timestamp) else cell
            )  # fmt: skip
        rows.append(plain)
    return rows


def test_the_file_alone_is_enough_to_score_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every type of column: logarithm, missing values, order, dates, times, categories, undeclared ones."""
    stand_in(monkeypatch)
    own = changed(mixed_table.SPEC, "table.columns.ward", {"type": "categorical", "categories": ["a"], "other": "b"})
    own = changed(own, "table.columns.costs.transformation", {"log": {"offset": 10.0}})
    spec = _spec(ONE | {"preprocessing_share": 0.3}, base=own)
    (entry,) = spec.evaluation.paid_classifiers
    random, n = np.random.default_rng(9), 40
    times = pd.Series(pd.Timestamp("2015-03-01T10:20") + pd.to_timedelta(random.integers(0, 5_000_000, n), unit="min"))
    frame = pd.DataFrame(
        {
            "age": pd.array(random.integers(-5, 140, n), "Int64"), "costs": np.exp(random.normal(6, 4, n)),
            "height (m)": random.normal(1.7, 0.6, n), "admitted": times.dt.normalize(), "left": times.dt.normalize(),
            "seen": times, "triage": random.choice(["green", "yellow", "orange", "red"], n),
            "town": random.choice([*mixed_table.TOWNS, "elsewhere"], n), "constant": "one",
            "smoker": pd.array(random.random(n) < 0.5, "boolean"),
            "select": pd.array(random.random(n) < 0.5, "boolean"),
            "ward": random.choice(["a", "b"], n),
        }
    )  # fmt: skip
    for name in ("costs", "left", "town", "smoker"):
        frame.loc[random.random(n) < 0.3, name] = None
    rows = encode_features(frame, spec.table) / 65536
    fitted = estimator_of(entry, 2, SeededBits(1), noise=True).fit(rows, np.arange(n) % 2)
    file = json.loads(released_form(entry, fitted, spec.table).model_dump_json())
    assert file["steps"] == list(SCORING_STEPS)
    plain = _plain(frame, spec.table)
    scores = mapped_scores(file, rows)
    for row, own_scores in zip(plain, scores, strict=True):
        if row["town"] == "elsewhere":
            row["town"] = "Bregenz"  # which nobody declared
        if row["ward"] == "b":
            row["ward"] = "another"
        expected = spec.table.classes[int(own_scores.argmax())]
        assert _by_hand(file, row) == f"{expected} {max(own_scores, key=abs):.9f}"


def mapped_scores(file: dict[str, Any], rows: np.ndarray) -> np.ndarray:
    """Scores of encoded rows by the estimator's own map, before the lead of two classes is taken."""
    own = ReleasedClassifier.model_validate(file).row_map
    numbers = {n: np.array(getattr(own, n)) for n in ("lower", "upper", "centre", "scale")}
    mapped = RowMap(**numbers, norm=own.norm, rule=own.rule, intercept=own.intercept).rows(rows)[:, :-1]
    return mapped @ np.array(file["coefficients"]).T + np.array(file["intercepts"])


def test_shapes_that_do_not_agree_are_refused() -> None:
    own = {
        "name": "opera", "classes": ["a", "b", "c"], "features": [{"column": "x", "what": "value"}],
        "row_map": {"lower": [0.0], "upper": [1.0], "centre": None, "scale": None, "norm": None, "rule": "clip",
                    "intercept": True},
        "coefficients": [[1.0], [2.0], [3.0]], "intercepts": [0.0, 0.0, 0.0], "hyperparameters": {},
        "chosen_on": "defaults",
        "guarantee": {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace_one", "mechanism": "m", "proof": "p",
                      "events": [{"kind": "approximate", "epsilon": 1.0, "delta": 1e-5}], "randomness": "os-csprng"},
    }  # fmt: skip
    ReleasedClassifier.model_validate(own)
    for place, value in [
        ("coefficients", [[1.0]]), ("coefficients", [[1.0, 2.0]] * 3), ("intercepts", [0.0]), ("classes", ["a"]),
        ("row_map.scale", [0.0]), ("row_map.scale", [-1.0]), ("row_map.lower", [0.0, 0.0]),
        ("guarantee.delta", 1.0), ("coefficients", [[float("nan")], [2.0], [3.0]]),
    ]:  # fmt: skip
        with pytest.raises(ValidationError):
            ReleasedClassifier.model_validate(changed(own, place, value))


# How hyper-parameters are chosen, and what is refused ---------------------------------------------------------------


def test_settings_are_chosen_from_the_grid_on_the_rows_given(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    monkeypatch.setitem(GRIDS, "pmsvm-adaptive", [{"shift": 30.0}, {"shift": 0.0}, {"shift": -30.0}])
    rows, labels = _rows()
    entry = _entry(hyperparameters="fabricated", epsilon=40.0)
    assert choose_settings(entry, rows, labels, 3) == {"shift": 0.0}
    assert trainings == ["with noise"] * 9
    assert choose_settings(entry, rows, labels, 3) == choose_settings(entry, rows, labels, 3)
    assert choose_settings(_entry(), rows, labels, 3) == {}  # fixed: the defaults
    trainings.clear()
    free = PrivateTraining(classifier="pmsvm-adaptive", trained_on=["fabricated"], hyperparameters="fabricated")
    assert choose_settings(free, rows, labels, 3) == {"shift": 0.0} and set(trainings) == {"without"}


@pytest.mark.parametrize("name", GRIDS)
def test_the_settings_of_a_released_classifier_are_found_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the grid: what is trained on fabricated rows beside it takes the same ones."""
    entry, fixed = _entry(classifier=name, hyperparameters="fabricated"), _entry(classifier=name)
    for settings in GRIDS[entry.classifier]:
        estimator = estimator_of(entry, 3, SeededBits(0), noise=True, settings=settings)
        made = ReleasedClassifier.model_validate_json(
            _released(hyperparameters=stated_parameters(estimator), classes=[0, 1, 2]).model_dump_json()
        )
        again = estimator_of(entry, 3, SeededBits(0), noise=False, settings=_settings_again(entry, made))
        assert stated_parameters(again) == stated_parameters(estimator), settings
        if settings:
            with pytest.raises(IntegrityFailed, match="none that this version"):
                _settings_again(fixed, made)
        else:
            assert _settings_again(fixed, made) == {}


def _released(**changes: Any) -> ReleasedClassifier:
    classes = changes.pop("classes", [0, 1])
    own = {
        "name": "opera", "classes": classes, "features": [{"column": "x", "what": "value"}],
        "row_map": {"lower": [0.0], "upper": [1.0], "centre": None, "scale": None, "norm": None, "rule": "clip",
                    "intercept": False},
        "coefficients": [[1.0]] * len(classes), "intercepts": [0.0] * len(classes), "hyperparameters": {},
        "chosen_on": "defaults",
        "guarantee": {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace_one", "mechanism": "m", "proof": "p",
                      "events": [{"kind": "approximate", "epsilon": 1.0, "delta": 1e-5}], "randomness": "os-csprng"},
    }  # fmt: skip
    return ReleasedClassifier.model_validate(own | changes)


def test_grids_begin_with_the_defaults_and_hold_what_the_estimators_take() -> None:
    assert set(GRIDS) == set(ESTIMATORS)
    for name, grid in GRIDS.items():
        assert grid[0] == {} and 1 < len(grid) <= 8, name
        for settings in grid:
            estimator_of(_entry(classifier=name), 3, SeededBits(0), noise=True, settings=settings)._checked(None)


def test_what_public_numbers_tell_is_refused_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, norm_rule="longest")
    with pytest.raises(RequestRefused, match=r"pmsvm-adaptive cannot be trained here: norm_rule .*Nothing was spent"):
        refuse_untrainable(_spec(ONE))
    stand_in(monkeypatch, least_rows=100)
    refuse_untrainable(_spec(ONE))
    refuse_untrainable(_spec(ONE), 100)
    with pytest.raises(RequestRefused, match="needs 100 rows, got 99"):
        refuse_untrainable(_spec(ONE), 99)
    trainings.clear()
    refuse_untrainable(_spec(), 5)
    assert trainings == []


@pytest.mark.parametrize("error", [OverflowError("too large"), RuntimeError("not certified"), ZeroDivisionError()])
def test_whatever_fails_on_made_up_rows_is_a_refusal(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    stand_in(monkeypatch)
    monkeypatch.setattr("tests.stand_in_classifier.StandInClassifier._fit_rows", fail)
    text = "not certified" if isinstance(error, RuntimeError) else "leave the range of doubles"
    with pytest.raises(RequestRefused, match=f"pmsvm-adaptive cannot be trained here: .*{text}.*Nothing was spent"):
        refuse_untrainable(_spec(ONE), 100)


# How they are compared ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[[2.0]], [[0.0], [2.0]], [[3.0], [5.0]]])
def test_areas_of_two_classes_are_those_of_scikit_learn(weights: list[list[float]]) -> None:
    """Scores that rank some rows wrongly: one row of coefficients, or two of which the difference counts."""
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(12)
    truth = np.arange(80) % 2
    rows = np.clip(0.4 * random.random((80, 1)) + 0.15 * truth[:, None] + 0.2, 0, 1)
    made = _released(coefficients=weights, intercepts=[-0.1] if len(weights) == 1 else [0.7, 0.6])
    lead = 2.0 * (2.0 * rows[:, 0] - 1.0) - 0.1
    expected = roc_auc_score(truth, lead)
    assert 0.6 < expected < 0.9
    for scores in (scores_of_released(made, rows), _both_classes(lead), _both_classes(lead[:, None])):
        answer = PrivateAnswer("opera", "confidential", 105, 4.0, 1e-5, np.arange(2), scores)
        (result,) = private_results([answer], truth)
        assert result.auc is not None and result.auc.estimate == pytest.approx(expected, abs=1e-9)
        assert result.accuracy.estimate == np.mean((lead > 0) == truth)


def test_the_settings_are_shown_and_where_they_come_from() -> None:
    shown = PrivateAnswer(
        "opera", "confidential", 105, 4.0, 1e-5, np.arange(3), np.eye(3)[np.arange(60) % 3],
        hyperparameters={"C": 10.0, "loss": "auto", "n": None, "preprocessing_share": 0.25},
        chosen_on="fabricated rows", preprocessing_share=0.25,
    )  # fmt: skip
    comparison = factories.comparison().model_copy(update={"private": private_results([shown], np.arange(60) % 3)})
    report = factories.audit_report()
    report = report.model_copy(update={"classifiers": comparison})
    (row,) = private_settings(report)
    assert row["hyperparameters"] == "C 10, loss auto, n none"
    assert (
        "cross-validation on fabricated rows" in row["chosen_on"] and "preprocessing_share 0.25" in row["preprocessing"]
    )


def test_the_claim_of_the_canaries_is_said_to_be_the_datas() -> None:
    report = factories.audit_report()
    both = report.model_copy(update={"data_guarantee": report.guarantee})
    assert "claimed" in epsilon_verdict(report).number and "data alone" not in epsilon_verdict(report).number
    assert epsilon_verdict(both).number == f"{epsilon_verdict(report).number} for the data alone"
    assert "for the data alone" in epsilon_verdict(both).meaning


def test_results_are_those_of_the_scores() -> None:
    truth = np.arange(60) % 3
    right, wrong = np.eye(3)[truth], np.tile([1.0, 0.0, 0.0], (60, 1))
    answers = [
        PrivateAnswer("opera", "confidential", 105, 4.0, 1e-5, np.arange(3), right),
        PrivateAnswer("opera", "fabricated", 105, 8.0, 2e-5, np.arange(3), wrong),
        PrivateAnswer("private-svm", "confidential", 105, 1.0, 1e-5, np.arange(3), wrong),
    ]
    results = private_results(answers, truth)
    assert [own.accuracy.estimate for own in results] == [1.0, pytest.approx(1 / 3), pytest.approx(1 / 3)]
    assert results[0].auc is not None and results[0].auc.estimate == 1.0
    comparison = factories.comparison().model_copy(
        update={"private": results, "test_rows": 60, "majority_accuracy": 1 / 3}
    )
    assert [own.name for own in private_not_above(comparison)] == ["private-svm"]


def test_a_single_row_of_coefficients_answers_the_second_class_above_zero() -> None:
    table = _spec().table
    made = ReleasedClassifier.model_validate(
        {
            "name": "opera", "classes": [0, 1], "features": [own.model_dump() for own in encoded_features(table)],
            "row_map": {"lower": [0.0] * 4, "upper": [1.0] * 4, "centre": None, "scale": None, "norm": None,
                        "rule": "clip", "intercept": True},
            "coefficients": [[1.0, 0.0, 0.0, 0.0]], "intercepts": [0.5], "hyperparameters": {},
            "chosen_on": "defaults",
            "guarantee": {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace_one", "mechanism": "m", "proof": "p",
                          "events": [{"kind": "approximate", "epsilon": 1.0, "delta": 1e-5}],
                          "randomness": "os-csprng"},
        }
    )  # fmt: skip
    rows = np.array([[0.0, 1, 1, 1], [0.25, 1, 1, 1], [0.26, 0, 0, 0], [1.0, 0, 0, 0]])
    assert scores_of_released(made, rows).argmax(axis=1).tolist() == [0, 0, 1, 1]  # z = 2 x - 1, at x = 1/4 equal


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("delta", "share"), [(0.0, 0.0), (1e-5, 0.0), (1e-5, 0.3)])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_spends_its_charge_and_is_released_as_it_is(
    name: str, delta: float, share: float, classes: int
) -> None:
    """On the real estimators: made-up rows, with every kind of budget that a spec may ask for."""
    asked = ONE | {"classifier": name, "delta": delta, "preprocessing_share": share}
    if (delta == 0.0 and name not in MAY_BE_PURE) or (delta > 0.0 == share and name in ALWAYS_PURE):
        with pytest.raises(ValidationError, match=r"needs delta above 0|is purely private: write `delta: 0`"):
            PrivateTraining.model_validate(asked)
        return
    base = changed(SPEC, "table.columns.digit.categories", list(range(classes)))
    (entry,) = _spec(asked, base=base).evaluation.paid_classifiers
    rows, labels = _rows(60, n_classes=classes)
    fitted = estimator_of(entry, classes, SeededBits(2), noise=True).fit(rows, labels)
    made = released_form(entry, fitted, _spec(base=base).table)
    assert (made.guarantee.epsilon, made.guarantee.delta) == entry.paid  # as `verify` asks
    assert made.guarantee.adjacency == "replace_one"
    assert is_covered(made.guarantee.events, classifier_events(entry))
    if classes == 3:  # which an auditor finds again without the rows, of other ones and another number of them
        again = guarantee_of_training(_spec(asked, base=base), entry, 33, {})
        assert as_proved(made.guarantee, again)
    assert np.array_equal(scores_of_released(made, rows).argmax(axis=1), fitted.predict(rows))
    free = PrivateTraining.model_validate({"classifier": name, "trained_on": ["fabricated"]})
    plain = estimator_of(free, classes, SeededBits(2), noise=False).fit(rows, labels)
    assert plain.guarantee_ is None and plain.score(rows, labels) > 0.6


def test_members_are_taken_from_all_pieces_in_the_order_of_the_release() -> None:
    """From the values of the source, not through `encode`: an integer of 0 to 16 is its sixteenth part."""
    table, frame = _spec().table, digits(20)
    pieces = [frame[:7], frame[7:13], frame[13:]]
    source = SourceTable(lambda: iter(pieces), 20, "", frame["digit"].to_numpy(dtype=np.int32))
    order = np.array([15, 3, 8, 0, 19, 12, 6])
    rows, labels = _members(source, places_of(20, order), table)
    assert np.array_equal(rows, frame[FEATURES].to_numpy()[order] / 16)
    assert labels.tolist() == frame["digit"].to_numpy()[order].tolist()
