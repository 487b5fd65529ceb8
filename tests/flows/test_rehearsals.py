"""Rehearsals for the audit: the same steps as a release's, on rows of the audit's choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows import pipeline
from schemas.measures import NotComputed
from schemas.spec import ReleaseSpec
from tasks.accounting import mechanism_of
from tasks.attack import attack
from tasks.evaluate import train, train_kahm, training_sets
from tasks.ingest import ingest
from tasks.noise import SeededBits
from tasks.rehearse import rehearse
from tasks.runner.processes import _ProcessWorkers
from tasks.runner.workers import thread_workers
from tasks.sample import AuditSample
from tasks.staging import Staging
from tasks.step import SilentObserver, observed_by
from tasks.train_shadows import Shadows, train_shadows
from tasks.workspace import Workspace
from tests.mixed_table import SPEC as MIXED
from tests.mixed_table import mixed
from tests.projects import SPEC, changed, digits, write_project
from tests.stand_in_classifier import stand_in

RECORD = {"unit": "record", "epsilon": 4.0, "delta": 1e-5, "mechanism": "private-moments"}


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        (SPEC, digits(150)),
        (MIXED, mixed(200)),
        (changed(SPEC, "privacy", {**RECORD, "budget": {"epsilon": 80.0, "delta": 1e-3}}), digits(150)),
    ],
    ids=["element", "mixed", "record"],
)
def test_a_rehearsal_makes_the_rows_that_a_release_makes(
    home: Path, tmp_path: Path, spec: dict[str, Any], source: pd.DataFrame
) -> None:
    """With the same noise, byte for byte; so what is learned from rehearsals is true of releases."""
    path = write_project(tmp_path / "p", spec, source)
    pipeline.propose(path, "a", bits=SeededBits(3))
    staging = Staging(Workspace(home), spec["dataset"], "a")
    members, kept = staging.member_rows(), staging.noise_added()
    assert members is not None and kept is not None
    checked = ReleaseSpec.model_validate(spec)
    frame = next(ingest.function(tmp_path / "p" / "source.csv", checked.table).pieces())
    # noise is drawn in the order of the source, and a row's place in the release decides where it stands
    in_order = np.sort(members)
    (tmp_path / "scratch").mkdir()
    with thread_workers(1) as workers:
        rehearsal = rehearse(
            frame.iloc[in_order].reset_index(drop=True), checked, mechanism_of(checked), SeededBits(3), workers,
            tmp_path / "scratch",
        )  # fmt: skip
    assert list((tmp_path / "scratch").iterdir()) == []
    released = pd.read_parquet(staging.release / "data")
    if spec["privacy"]["unit"] == "element":
        places = np.argsort(np.argsort(members))
        np.testing.assert_array_equal(rehearsal.noise_added.lattice[places], kept.read().lattice)
        own = rehearsal.released.iloc[places].reset_index(drop=True)
        assert (own[checked.table.label].to_numpy() == released[checked.table.label].to_numpy()).all()
    else:
        np.testing.assert_array_equal(rehearsal.noise_added.lattice, kept.read().lattice)
    label = checked.table.label
    assert rehearsal.released[label].value_counts().to_dict() == released[label].value_counts().to_dict()
    for name, column in checked.table.features.items():
        if column.type in ("integer", "numeric"):  # within a class the same values, in another order of ties
            assert sorted(rehearsal.released[name].dropna()) == pytest.approx(sorted(released[name].dropna()), abs=1e-9)


def audited(spec: dict[str, Any], source: pd.DataFrame, folder: Path) -> tuple[AuditSample, ReleaseSpec]:
    """What the audit of a release looks at."""
    seen: list[AuditSample] = []
    path = write_project(folder / "p", spec, source)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FABRICA_HOME", str(folder))
        sound = pipeline.training_sets
        patched.setattr(pipeline, "training_sets", lambda sample, table: seen.append(sample) or sound(sample, table))  # type: ignore[func-returns-value]
        pipeline.propose(path, "a", bits=SeededBits(3))
    return seen[0], ReleaseSpec.model_validate(spec)


def shadows_of(spec: dict[str, Any], source: pd.DataFrame, folder: Path, n: int) -> Shadows | NotComputed:
    sample, checked = audited(spec, source, folder)
    wanted = ReleaseSpec.model_validate(changed(spec, "evaluation.attacks", {"shadow_models": n}))
    (folder / "scratch").mkdir()
    found = train_shadows.function(sample, wanted, mechanism_of(checked), 5, 2, folder / "scratch")
    assert list((folder / "scratch").iterdir()) == []
    return found


def test_the_likelihood_ratio_attack_finds_members_in_raw_rows_and_not_behind_much_noise(tmp_path: Path) -> None:
    """Labels are drawn at random, so whatever a classifier knows of a row's label it has learned by heart."""
    spec = changed(SPEC, "evaluation", {"control_fraction": 0.5, "attacks": {"shadow_models": 0}})
    source = digits(450)
    source["digit"] = np.random.default_rng(8).permutation(source["digit"])
    sample, checked = audited(spec, source, tmp_path)
    wanted = ReleaseSpec.model_validate(changed(spec, "evaluation.attacks", {"shadow_models": 8}))
    shadows = train_shadows.function(sample, wanted, mechanism_of(checked), 5, 2, tmp_path)
    assert isinstance(shadows, Shadows) and shadows.classifier == "gradient-boosting"
    assert shadows.trained_with.shape == (8, 2 * shadows.n_members)
    sets, notes = training_sets(sample, checked.table), list[str]()
    kahm = train_kahm.function(sets, sample, checked, 1, notes)
    fitted = train.function(sets, checked, 2)
    inference = attack.function(sets, sample, kahm, fitted, shadows, 5, 2, [])
    areas = {one.trained_on: one.auc for one in inference.attacks if one.attack == "likelihood-ratio"}
    assert areas["real"].lower > 0.7
    assert areas["noise-added"].estimate < 0.65
    losses = {
        one.trained_on: one.auc.estimate
        for one in inference.attacks
        if one.attack == "loss" and one.classifier == "gradient-boosting"
    }
    assert losses["real"] > 0.7


@pytest.mark.parametrize(
    ("place", "value", "n", "reason"),
    [
        ("dataset", "small-digits", 0, "asks for 0 shadow models"),
        ("dataset", "small-digits", 1, "asks for 1 shadow models"),
        ("evaluation.classifiers", ["kahm", "nearest-neighbour"], 4, "none of gradient-boosting and logistic"),
        ("evaluation.control_fraction", 0.05, 4, "fewer than 10 members or control rows"),
    ],
)
def test_reasons_why_there_are_no_shadow_models(tmp_path: Path, place: str, value: Any, n: int, reason: str) -> None:
    found = shadows_of(changed(SPEC, place, value), digits(150), tmp_path, n)
    assert isinstance(found, NotComputed) and reason in found.reason


def test_too_few_control_rows_leave_attacks_and_risks_out_with_the_reason(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    entry = {"classifier": "opera", "trained_on": ["confidential"], "epsilon": 2.0, "delta": 1e-6}
    spec = changed(changed(SPEC, "evaluation.control_fraction", 0.05), "evaluation.private_classifiers", [entry])
    path = write_project(tmp_path / "p", spec)
    candidate = pipeline.propose(path, "a")
    audit = json.loads(candidate.report.with_suffix(".json").read_text())
    assert audit["membership_inference"]["attacks"] == [] and audit["privacy_risks"]["risks"] == []
    assert "released_classifiers" not in audit["membership_inference"]
    for part in ("membership_inference", "privacy_risks"):
        assert "fewer than 10" in audit[part]["not_computed"][0]["reason"]
    page = candidate.report.read_text()
    assert "fewer than 10" in page and "AUC of 0" not in page
    assert "were not\nattacked" in page


class _Watch(SilentObserver):
    current = ""

    def started(self, step: str) -> None:
        self.current = step


def test_rehearsed_rows_stay_in_this_process(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their noise has a public seed and can be taken off, so they are as confidential as the rows it was added to."""
    watch, steps = _Watch(), list[str]()
    submit = _ProcessWorkers._submit

    def watched(self: _ProcessWorkers, *errand: Any) -> Any:
        steps.append(watch.current)
        return submit(self, *errand)

    monkeypatch.setattr(_ProcessWorkers, "_submit", watched)
    spec = changed(changed(SPEC, "runner", {"processes": {"workers": 1}}), "evaluation.attacks", {"shadow_models": 2})
    with observed_by(watch):
        pipeline.propose(write_project(tmp_path / "p", changed(spec, "evaluation.classifiers", ["logistic"])), "a")
    assert set(steps) == {"Shard", "Fabricate", "Decode"} and watch.current == "Write report"
