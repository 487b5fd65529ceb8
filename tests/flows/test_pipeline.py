"""The bodies as plain functions: taken up after a crash, never noise twice, seeded never published, the border."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from flows import pipeline
from schemas.errors import ApprovalPending, BudgetRefused, FabricaError, IntegrityFailed, RequestRefused, StepFailed
from schemas.manifest import Manifest
from schemas.release import Candidate
from tasks.ledger import Ledger
from tasks.noise import SeededBits
from tasks.staging import Staging
from tasks.step import SilentObserver, observed_by, step, timed
from tasks.workspace import Workspace
from tests.conftest import leave_figures_blank, repeat_draws
from tests.projects import SPEC, changed, digits, write_project


def _staging(home: Path, release_id: str) -> Staging:
    return Staging(Workspace(home), "small-digits", release_id)


def _kinds(home: Path) -> list[str]:
    return [entry.kind for entry in Ledger(home / "data" / "ledger.sqlite").entries()]


@pytest.fixture(scope="module")
def proposed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Projects by what their specs say of approval, and homes in which release `a` of each waits to be published."""
    folder = tmp_path_factory.mktemp("proposed")
    with pytest.MonkeyPatch.context() as patched:
        leave_figures_blank(patched)
        for approval in ("none", "required"):
            patched.setenv("FABRICA_HOME", str(folder / approval / "home"))
            pipeline.propose(write_project(folder / approval / "p", changed(SPEC, "approval", approval)), "a")
    return folder


@pytest.fixture
def waiting(proposed: Path, home: Path, tmp_path: Path) -> Path:
    """The spec of a release `a` that waits to be published, which is this test's own copy."""
    shutil.copytree(proposed / "none", tmp_path, dirs_exist_ok=True)
    return tmp_path / "p" / "spec.yaml"


@pytest.fixture
def to_approve(proposed: Path, home: Path, tmp_path: Path) -> Path:
    """The same of a spec that requires approval."""
    shutil.copytree(proposed / "required", tmp_path, dirs_exist_ok=True)
    return tmp_path / "p" / "spec.yaml"


class _Crash(BaseException):
    """As good as a killed process: no `except Exception` sees it."""


CRASH_POINTS = [
    "flows.pipeline.perturb",
    "flows.pipeline.shard",
    "flows.pipeline.fabricate",
    "flows.pipeline.stage",
    "flows.pipeline.train",
    "flows.pipeline.write_report",
    "tasks.staging.Staging.mark_complete",
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
    before = _staging(home, "a").noise_added()
    drawn = None if before is None else before.read()
    assert (drawn is None) == (place == "flows.pipeline.perturb")
    candidate = pipeline.propose(spec, "a")
    kept = _staging(home, "a").noise_added()
    assert kept is not None
    if drawn is not None:
        assert np.array_equal(kept.read().lattice, drawn.lattice)
    pipeline.publish(spec, "a", candidate.digest)
    assert _kinds(home) == ["budget", "reserve", "draw", "commit"]  # one charge
    assert not _staging(home, "a").folder.exists()


PUBLISH_CRASH_POINTS = ["tasks.publish._move", "tasks.ledger.Ledger.commit", "flows.pipeline.write_index"]


@pytest.mark.parametrize("place", PUBLISH_CRASH_POINTS)
@pytest.mark.parametrize("call", [1, 2])
def test_a_publication_cut_off_is_finished_by_doing_it_again(
    home: Path, waiting: Path, monkeypatch: pytest.MonkeyPatch, place: str, call: int
) -> None:
    import tasks.publish

    digest = pipeline.propose(waiting, "a").digest
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
            pipeline.publish(waiting, "a", digest)
    release = home / "data" / "releases" / "small-digits" / "a"
    if place == "flows.pipeline.write_index":  # the release is out; only the index is behind
        assert _kinds(home) == ["budget", "reserve", "draw", "commit"]
        return
    assert not release.exists() or (release / "SHA256SUMS").exists()
    pipeline.publish(waiting, "a", digest)
    assert (release / "SHA256SUMS").exists() and _kinds(home) == ["budget", "reserve", "draw", "commit"]


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


def test_a_full_disk_is_told_before_anything_is_spent(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_project(tmp_path / "p")
    monkeypatch.setattr("tasks.reserve.shutil.disk_usage", lambda _: SimpleNamespace(free=10_000))
    with pytest.raises(RequestRefused, match=r"free space.*needs about .* GiB.*No noise was drawn"):
        pipeline.propose(spec, "a")
    assert _kinds(home) == [] and not _staging(home, "a").folder.exists()


def test_noise_that_was_drawn_but_not_kept_is_not_said_to_cost_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_project(tmp_path / "p")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("tasks.staging.write_noise_added", full)
    with pytest.raises(
        StepFailed, match="was drawn and is lost, and its charge with it; start a new release"
    ) as caught:
        pipeline.propose(spec, "a")
    assert "at no further cost" not in str(caught.value)
    monkeypatch.undo()
    monkeypatch.setenv("FABRICA_HOME", str(home))
    with pytest.raises(IntegrityFailed, match="never drawn twice"):
        pipeline.propose(spec, "a")


@pytest.mark.parametrize("change", ["removed", "permuted"])
def test_other_members_beside_kept_noise_are_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    spec = write_project(tmp_path / "p")
    with monkeypatch.context() as broken:
        broken.setattr("flows.pipeline.shard", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.propose(spec, "a")
    path = _staging(home, "a").folder / "members.npy"
    if change == "removed":
        path.unlink()
    else:
        np.save(path, np.load(path)[::-1])
    with pytest.raises(IntegrityFailed, match="is of other members"):
        pipeline.propose(spec, "a")


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
    monkeypatch.setattr("flows.pipeline.perturb", lambda *_, **__: kept)
    members = _staging(home, "a").member_rows()
    monkeypatch.setattr("flows.pipeline.choose_members", lambda *_, **__: members)
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


def test_a_deleted_or_edited_charge_stops_publication(home: Path, waiting: Path) -> None:
    candidate = pipeline.propose(waiting, "a")
    (home / "data" / "ledger.sqlite").unlink()
    with pytest.raises(IntegrityFailed, match="no entry charges release"):
        pipeline.publish(waiting, "a", candidate.digest)


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


# What an impatient steward or a forger might do between the steps


def test_noise_that_was_drawn_and_lost_is_never_drawn_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_project(tmp_path / "p")

    def crash(*_: object) -> None:
        raise _Crash

    with monkeypatch.context() as broken:
        broken.setattr("tasks.staging.Staging.keep_noise_added", crash)
        with pytest.raises(_Crash):
            pipeline.propose(spec, "a")
    with pytest.raises(IntegrityFailed, match="never drawn twice"):
        pipeline.propose(spec, "a")
    assert _kinds(home) == ["budget", "reserve", "draw"]


@pytest.mark.parametrize("removed", ["all", "noise_added.parquet", "state.json"])
def test_removing_staged_files_buys_no_second_draw(home: Path, to_approve: Path, removed: str) -> None:
    pipeline.propose(to_approve, "a")
    staging = _staging(home, "a")
    (staging.folder / "complete").unlink()
    if removed == "all":
        staging.discard()
    else:
        (staging.folder / removed).unlink()
    with pytest.raises(IntegrityFailed):
        pipeline.propose(to_approve, "a")
    assert _kinds(home) == ["budget", "reserve", "draw"]


def test_a_published_release_is_not_made_again_wherever_its_folder_is(
    home: Path, tmp_path: Path, waiting: Path
) -> None:
    pipeline.publish(waiting, "a", pipeline.propose(waiting, "a").digest)
    _staging(home, "a").folder.mkdir(parents=True)  # as a kill while it was removed leaves it
    with pytest.raises(RequestRefused, match="published already"):
        pipeline.propose(waiting, "a")
    assert not _staging(home, "a").folder.exists()
    (home / "data" / "releases").rename(tmp_path / "elsewhere")
    write_project(tmp_path / "p", source=digits(149))
    with pytest.raises(RequestRefused, match="published already"):
        pipeline.propose(waiting, "a")
    assert _kinds(home) == ["budget", "reserve", "draw", "commit"]


def test_a_spec_changed_after_staging_is_neither_taken_up_nor_published(tmp_path: Path, to_approve: Path) -> None:
    digest = pipeline.propose(to_approve, "a").digest
    write_project(tmp_path / "p", changed(SPEC, "privacy.epsilon", 0.5))  # and approval: none
    with pytest.raises(RequestRefused, match="begun with another spec"):
        pipeline.propose(to_approve, "a")
    with pytest.raises(RequestRefused, match="with another spec"):
        pipeline.publish(to_approve, "a", digest)
    write_project(tmp_path / "p", changed(SPEC, "approval", "required"))
    assert pipeline.publish(to_approve, "a", digest).digest == digest


FORGERIES: dict[str, Callable[[Staging], object]] = {
    "page of the report": lambda s: (s.report / "audit.html").write_text("all is well"),
    "figures of the report": lambda s: (s.report / "audit.json").write_text("{}"),
    "file beside the report": lambda s: (s.report / "note.txt").write_text("x"),
    "file in the release": lambda s: (s.release / "data" / "note.txt").write_text("x"),
    "empty folder": lambda s: (s.release / "empty").mkdir(),
    "link to a folder": lambda s: (s.release / "extra").symlink_to("/etc"),
    "link to a file": lambda s: (s.release / "hosts").symlink_to("/etc/hosts"),
    "link to nothing": lambda s: (s.release / "nothing").symlink_to(s.release / "nowhere"),
    "pipe": lambda s: os.mkfifo(s.release / "pipe"),
    "the release is a link": lambda s: _link_away(s.release, s.folder / "away"),
    "data are a link": lambda s: _link_away(s.release / "data" / "part-00000.parquet", s.folder / "away"),
    "data": lambda s: (s.release / "data" / "part-00000.parquet").write_bytes(b"x"),
}


def _link_away(path: Path, target: Path) -> None:
    path.rename(target)
    path.symlink_to(target)


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_what_was_approved_is_what_is_published(
    home: Path, to_approve: Path, forge: Callable[[Staging], object]
) -> None:
    digest = pipeline.propose(to_approve, "a").digest
    forge(_staging(home, "a"))
    with pytest.raises((ApprovalPending, IntegrityFailed)):
        pipeline.publish(to_approve, "a", digest)
    assert not (home / "data" / "releases").exists()


@pytest.mark.parametrize("lost", ["deleted", "emptied", "cut off"])
def test_nothing_is_charged_to_a_ledger_that_lacks_a_published_release(home: Path, waiting: Path, lost: str) -> None:
    pipeline.publish(waiting, "a", pipeline.propose(waiting, "a").digest)
    path = home / "data" / "ledger.sqlite"
    if lost == "deleted":
        path.unlink()
    elif lost == "emptied":
        path.write_bytes(b"")
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM fabrica_ledger WHERE sequence > 1")
        connection.close()
    with pytest.raises(IntegrityFailed, match="restore it before anything is released"):
        pipeline.propose(waiting, "b")
    assert not _staging(home, "b").folder.exists()


@pytest.mark.parametrize("name", ["state.json", "members.npy", "noise_added.parquet"])
def test_damaged_staging_files_are_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    spec = write_project(tmp_path / "p")
    monkeypatch.setattr("tasks.fabricate.fabricate_shard", None)
    with pytest.raises(StepFailed):
        pipeline.propose(spec, "a")
    (_staging(home, "a").folder / name).write_bytes(b"damaged")
    with pytest.raises(IntegrityFailed, match=name):
        pipeline.propose(spec, "a")


def test_record_level_release_by_private_moments(home: Path, tmp_path: Path) -> None:
    """The other kind of mechanism goes the same way; labels are covered, so the split does not look at them."""
    spec = changed(changed(SPEC, "privacy.unit", "record"), "privacy.mechanism", "private-moments")
    path = write_project(tmp_path / "p", changed(changed(spec, "privacy.delta", 1e-5), "privacy.epsilon", 4.0))
    publication = pipeline.publish(path, "a", pipeline.propose(path, "a").digest)
    assert publication.guarantee.record.epsilon == 4.0 and publication.guarantee.record.labels == "covered"
    manifest = Manifest.model_validate_json((publication.release / "manifest.json").read_bytes())
    assert manifest.mechanism.name == "private-moments" and manifest.mechanism.expected_magnitude is None
    assert manifest.rows == 150 - round(0.3 * 150)
    data = pd.read_parquet(publication.release / "data")
    assert set(data["digit"]) <= {0, 1, 2} and data.drop(columns="digit").to_numpy().max() <= 16
    assert "private moments" in publication.report.read_text()


def test_labels_by_randomised_response(home: Path, tmp_path: Path) -> None:
    spec = changed(SPEC, "privacy.labels", {"randomized_response": {"epsilon": 0.1}})
    path = write_project(tmp_path / "p", spec)
    publication = pipeline.publish(path, "a", pipeline.propose(path, "a").digest)
    assert publication.guarantee.record.labels == "randomized_response"
    assert publication.guarantee.record.epsilon > 8.0  # the cells' and the label's
    counts = pd.read_parquet(publication.release / "data")["digit"].value_counts()
    assert counts.sum() == 105 and len(counts) == 3


@pytest.mark.parametrize(
    ("privacy", "by_class"),
    [
        ({}, True),
        ({"labels": {"randomized_response": {"epsilon": 1.0}}}, False),
        ({"unit": "record", "mechanism": "private-moments"}, False),
    ],
)
def test_only_public_labels_have_a_part_in_who_is_a_member(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, privacy: dict[str, object], by_class: bool
) -> None:
    asked: list[object] = []

    def spy(*_: object, **options: object) -> None:
        asked.append(options["by_class"])
        raise _Crash

    monkeypatch.setattr("flows.pipeline.choose_members", spy)
    spec = SPEC
    for key, value in privacy.items():
        spec = changed(spec, f"privacy.{key}", value)
    with pytest.raises(_Crash):
        pipeline.propose(write_project(tmp_path / "p", spec), "a")
    assert asked == [by_class]


def test_what_cannot_be_built_is_refused_before_it_is_charged(home: Path, tmp_path: Path) -> None:
    spec = changed(changed(SPEC, "privacy.unit", "record"), "privacy.mechanism", "private-moments")
    path = write_project(tmp_path / "p", changed(changed(spec, "privacy.epsilon", 1e-9), "privacy.delta", 1e-9))
    with pytest.raises(RequestRefused, match="not possible for 105 rows"):
        pipeline.propose(path, "a")
    assert _kinds(home) == [] and not _staging(home, "a").folder.exists()


def test_members_are_drawn_anew_from_the_operating_systems_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which tests let repeat themselves, so that no test of what noise does fails by chance."""
    spec, drawn = write_project(tmp_path / "p"), []
    for home in (tmp_path / "one", tmp_path / "two"):
        monkeypatch.setenv("FABRICA_HOME", str(home))
        repeat_draws(monkeypatch)
        for name in ("a", "b"):
            pipeline.propose(spec, name)
            members = _staging(home, name).member_rows()
            assert members is not None
            drawn.append(members.tolist())
    assert drawn[:2] == drawn[2:] and drawn[0] != drawn[1]
