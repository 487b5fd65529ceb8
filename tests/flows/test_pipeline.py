"""The bodies as plain functions: taken up after a crash, never noise twice, seeded never published, the border."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows import pipeline
from schemas.errors import BudgetRefused, FabricaError, IntegrityFailed, RequestRefused, StepFailed
from schemas.manifest import Manifest
from schemas.release import Candidate
from tasks.ledger import Ledger
from tasks.noise import SeededBits
from tasks.staging import Staging
from tasks.step import SilentObserver, observed_by, step, timed
from tasks.workspace import Workspace
from tests.projects import SPEC, changed, digits, write_project


def _staging(home: Path, release_id: str) -> Staging:
    return Staging(Workspace(home), "small-digits", release_id)


def _kinds(home: Path) -> list[str]:
    return [entry.kind for entry in Ledger(home / "data" / "ledger.sqlite").entries()]


class _Crash(BaseException):
    """As good as a killed process: no `except Exception` sees it."""


CRASH_POINTS = [
    "flows.pipeline.perturb",
    "flows.pipeline.shard",
    "flows.pipeline.fabricate",
    "flows.pipeline.stage",
    "flows.pipeline.train",
    "flows.pipeline.write_report",
    "flows.pipeline.candidate_digest",
]


@pytest.mark.parametrize("place", CRASH_POINTS)
def test_a_run_cut_off_anywhere_is_taken_up_without_new_noise(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    spec = write_project(tmp_path / "p")

    def crash(*_: object, **__: object) -> None:
        raise _Crash

    with monkeypatch.context() as broken:
        broken.setattr(place, crash)
        with pytest.raises(_Crash):
            pipeline.propose(spec, "a")
    drawn = _staging(home, "a").noise_added()
    assert (drawn is None) == (place == "flows.pipeline.perturb")
    candidate = pipeline.propose(spec, "a")
    kept = _staging(home, "a").noise_added()
    assert kept is not None
    if drawn is not None:
        assert np.array_equal(kept.lattice, drawn.lattice)
    pipeline.publish(spec, "a", candidate.digest)
    assert _kinds(home) == ["budget", "reserve", "commit"]  # one charge
    assert not _staging(home, "a").folder.exists()


PUBLISH_CRASH_POINTS = ["tasks.publish._move", "tasks.ledger.Ledger.commit", "flows.pipeline.write_index"]


@pytest.mark.parametrize("place", PUBLISH_CRASH_POINTS)
@pytest.mark.parametrize("call", [1, 2])
def test_a_publication_cut_off_is_finished_by_doing_it_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, call: int
) -> None:
    import tasks.publish

    spec = write_project(tmp_path / "p")
    digest = pipeline.propose(spec, "a").digest
    calls = 0
    move = tasks.publish._move

    def crash(*arguments: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == call or place != "tasks.publish._move":
            raise _Crash
        move(*arguments)

    with monkeypatch.context() as broken:
        broken.setattr(place, crash)
        with pytest.raises(_Crash):
            pipeline.publish(spec, "a", digest)
    release = home / "data" / "releases" / "small-digits" / "a"
    if place == "flows.pipeline.write_index":  # the release is out; only the index is behind
        assert _kinds(home) == ["budget", "reserve", "commit"]
        return
    assert not release.exists() or (release / "SHA256SUMS").exists()
    pipeline.publish(spec, "a", digest)
    assert (release / "SHA256SUMS").exists() and _kinds(home) == ["budget", "reserve", "commit"]


def test_a_release_is_not_taken_up_with_another_spec_or_source(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_project(tmp_path / "p")
    monkeypatch.setattr("tasks.fabricate.fabricate_shard", None)
    with pytest.raises(StepFailed):
        pipeline.propose(spec, "a")
    monkeypatch.undo()
    monkeypatch.setenv("FABRICA_HOME", str(home))
    write_project(tmp_path / "p", source=digits(149))
    with pytest.raises(RequestRefused, match="begun with another source"):
        pipeline.propose(spec, "a")
    write_project(tmp_path / "p", changed(SPEC, "privacy.epsilon", 1.0))
    with pytest.raises(RequestRefused, match="begun with another spec"):
        pipeline.propose(spec, "a")
    write_project(tmp_path / "p")
    assert isinstance(pipeline.propose(spec, "a"), Candidate)


def test_seeded_noise_is_branded_and_never_published(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p")
    candidate = pipeline.propose(spec, "a", bits=SeededBits(1))
    manifest = Manifest.model_validate_json((_staging(home, "a").release / "manifest.json").read_bytes())
    assert manifest.randomness == "seeded (not private)"
    assert "seeded (not private)" in (_staging(home, "a").report / "audit.html").read_text()
    with pytest.raises(RequestRefused, match="seeded"):
        pipeline.publish(spec, "a", candidate.digest)
    assert not (home / "data" / "releases").exists()


def test_identical_noise_added_data_give_identical_data_whatever_the_raw_rows(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything right of `perturb` depends on Y+ and public labels alone."""
    first = write_project(tmp_path / "p")
    pipeline.propose(first, "a")
    kept = _staging(home, "a").noise_added()
    assert kept is not None
    other = digits()
    other["r2c3"] = 16 - other["r2c3"]
    second = write_project(tmp_path / "q", source=other)
    monkeypatch.setattr("flows.pipeline.perturb", lambda *_: kept)
    controls = _staging(home, "a").control_rows()
    monkeypatch.setattr("flows.pipeline.choose_control_rows", lambda *_, **__: controls)
    pipeline.propose(second, "b")
    frames = [pd.read_parquet(_staging(home, name).release / "data") for name in "ab"]
    assert frames[0].equals(frames[1])
    # and it is no accident: with Y+ of its own the release differs
    monkeypatch.undo()
    monkeypatch.setenv("FABRICA_HOME", str(home))
    pipeline.propose(second, "c")
    assert not pd.read_parquet(_staging(home, "c").release / "data").equals(frames[0])


def test_a_release_in_the_making_is_locked(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p")
    with Workspace(home).locked("small-digits", "a"), pytest.raises(RequestRefused, match="another process"):
        pipeline.propose(spec, "a")
    assert isinstance(pipeline.propose(spec, "a"), Candidate)


def test_a_deleted_or_edited_charge_stops_publication(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p")
    candidate = pipeline.propose(spec, "a")
    (home / "data" / "ledger.sqlite").unlink()
    with pytest.raises(IntegrityFailed, match="no entry charges release"):
        pipeline.publish(spec, "a", candidate.digest)


def test_refused_budget_leaves_nothing(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SPEC, "privacy.budget.epsilon", 1.0))
    with pytest.raises(BudgetRefused):
        pipeline.propose(spec, "a")
    assert not _staging(home, "a").folder.exists() and _kinds(home) == []


def test_steps_report_times_and_progress_and_hide_foreign_texts() -> None:
    told: list[str] = []

    class Listener(SilentObserver):
        def started(self, step: str) -> None:
            told.append(f"started {step}")

        def finished(self, step: str, seconds: float) -> None:
            told.append(f"finished {step}")

    @step("Divide")
    def divide(a: float, b: float) -> float:
        return a / b

    with observed_by(Listener()), timed() as times:
        assert divide(6, 3) == 2
        with pytest.raises(StepFailed, match="ZeroDivisionError") as failed:
            divide(1, 0)
    assert told == ["started Divide", "finished Divide", "started Divide"]
    assert [time.step for time in times] == ["Divide"]
    assert failed.value.__suppress_context__ and isinstance(failed.value, FabricaError)
