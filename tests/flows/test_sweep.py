"""A sweep's body: charged before noise, all or nothing, whole or absent; and it measures what epsilon does."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tasks.sweep_points
from flows import pipeline
from flows.sweep import sweep
from schemas.errors import BudgetRefused, IntegrityFailed, RequestRefused, StepFailed, ValidationFailed
from schemas.sweep import Sweep
from tasks.ledger import Ledger
from tasks.noise import SeededBits
from tasks.rehearse import rehearse
from tasks.step import SilentObserver, observed_by
from tasks.workspace import Workspace
from tests.projects import CLASSES, FEATURES, PROJECT, SPEC, changed, digits, write_project

SMALL = changed(SPEC, "evaluation", {"classifiers": ["nearest-neighbour", "logistic"]})


def _ledger(home: Path) -> Ledger:
    return Ledger(home / "data" / "ledger.sqlite")


def _entries(home: Path) -> list[tuple[str, str | None]]:
    return [(entry.kind, entry.release_id) for entry in _ledger(home).entries()]


def _stand_in(folder: Path, name: str = "public.csv") -> Path:
    frame = pd.read_csv(PROJECT / "data" / "samples" / "digits.csv")
    other = frame.loc[frame["digit"].isin(CLASSES), [*FEATURES, "digit"]][150:]
    other.to_csv(folder / name, index=False)
    return folder / name


class _Crash(BaseException):
    """As good as a killed process: no `except Exception` sees it."""


def test_a_charged_sweep_spends_exactly_its_points(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    made = sweep(spec, [0.5, 2.0], "s", stand_in=None)
    assert _entries(home) == [
        ("budget", None), ("reserve", "s-1"), ("reserve", "s-2"), ("draw", "s-1"), ("draw", "s-2"),
    ]  # fmt: skip
    charges = [(e.epsilon, e.delta) for e in _ledger(home).entries() if e.kind == "reserve"]
    assert charges == [(p.record_epsilon, p.record_delta) for p in made.points]
    assert charges[0][0] == pytest.approx(2.0, rel=1e-3) and charges[1][0] == pytest.approx(8.0, rel=1e-3)
    assert (made.paid_by, made.rows, made.control_rows) == ("ledger", 105, 45)
    index = (home / "reports" / "index.html").read_text(encoding="utf-8")
    assert "small-digits/s/sweep.html" in index and "2\xa0charges spent" in index
    assert "internal" in made.notes[0]
    folder = home / "reports" / "small-digits" / "s"
    assert Sweep.model_validate_json((folder / "sweep.json").read_bytes()) == made
    assert "INTERNAL" in (folder / "sweep.html").read_text()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["sweep.html", "sweep.json"]
    assert not (home / "data" / "staging").exists() and not (home / "data" / "releases").exists()


def test_a_release_and_its_verification_work_after_a_sweep(home: Path, tmp_path: Path) -> None:
    from tasks.verify import verify

    spec = write_project(tmp_path / "p", SMALL)
    sweep(spec, [0.5, 2.0], "s", stand_in=None)
    candidate = pipeline.propose(spec, "a")
    published = pipeline.publish(spec, "a", candidate.digest)
    assert all(check.outcome == "passed" for check in verify(published.release, _ledger(home)))
    sweep(spec, [0.5], "t", stand_in=None)  # and a sweep after a release
    assert all(check.outcome == "passed" for check in verify(published.release, _ledger(home)))
    balance = _ledger(home).balances()[0]
    assert balance.releases == 4 and balance.spent_epsilon is not None and balance.spent_epsilon > 16


def test_the_audit_of_a_release_shows_the_latest_sweep_and_its_id_is_taken(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    sweep(spec, [0.5], "old", stand_in=_stand_in(tmp_path))
    made = sweep(spec, [0.5, 4.0], "new", stand_in=_stand_in(tmp_path))
    with pytest.raises(RequestRefused, match="is the id of a sweep"):
        pipeline.propose(spec, "new")
    assert _entries(home) == []
    audit = json.loads(pipeline.propose(spec, "a").report.with_suffix(".json").read_text())
    assert Sweep.model_validate(audit["sweep"]) == made


def test_a_ledger_that_lost_a_release_pays_for_no_sweep(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    pipeline.publish(spec, "a", pipeline.propose(spec, "a").digest)
    (home / "data" / "ledger.sqlite").unlink()
    with pytest.raises(IntegrityFailed, match="not the whole one"):
        sweep(spec, [0.5], "s", stand_in=None)
    assert _entries(home) == []


def test_no_noise_is_drawn_before_every_point_is_charged(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[tuple[str, str | None]]] = []

    def watched(*arguments: Any) -> Any:
        seen.append(_entries(home))
        return rehearse(*arguments)

    monkeypatch.setattr(tasks.sweep_points, "rehearse", watched)
    sweep(write_project(tmp_path / "p", SMALL), [0.5, 1.0], "s", stand_in=None)
    charged: list[tuple[str, str | None]] = [("budget", None), ("reserve", "s-1"), ("reserve", "s-2")]
    assert seen == [[*charged, ("draw", "s-1")], [*charged, ("draw", "s-1"), ("draw", "s-2")]]


def test_a_place_that_cannot_be_written_is_found_before_a_charge(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    (home / "reports").write_text("")
    with pytest.raises(RequestRefused, match="cannot be created"):
        sweep(spec, [1.0], "s", stand_in=None)
    assert _entries(home) == []


def test_a_refused_budget_spends_nothing(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.sweep_points, "rehearse", lambda *_: pytest.fail("noise was drawn"))
    spec = write_project(tmp_path / "p", SMALL)  # the budget is 80, a record costs four times a cell
    with pytest.raises(BudgetRefused, match=r"3 runs cost .* the first 2 of them would fit, smallest epsilon first"):
        sweep(spec, [0.5, 2.0, 30.0], "s", stand_in=None)
    assert _entries(home) == [] and not (home / "reports").exists() and not (home / "data" / "staging").exists()


@pytest.mark.parametrize(("place", "drawn"), [("measure_point", 1), ("write_sweep", 2)])
def test_a_killed_run_leaves_the_charge_and_no_half_result(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, drawn: int
) -> None:
    spec = write_project(tmp_path / "p", SMALL)

    def crash(*_: object, **__: object) -> None:
        raise _Crash

    with monkeypatch.context() as broken, pytest.raises(_Crash):
        broken.setattr(f"flows.sweep.{place}", crash)
        sweep(spec, [0.5, 2.0], "s", stand_in=None)
    charged = [("budget", None), ("reserve", "s-1"), ("reserve", "s-2")]
    assert _entries(home) == [*charged, *[("draw", f"s-{n + 1}") for n in range(drawn)]]
    assert not (home / "reports").exists() and not list(home.rglob("*noise*"))
    with pytest.raises(RequestRefused, match="that id is taken"):
        sweep(spec, [0.5, 2.0], "s", stand_in=None)
    with pytest.raises(RequestRefused, match="other parameters"):  # a sweep's charge makes no release
        pipeline.propose(spec, "s-2")  # whose epsilon is the spec's own


def test_the_text_of_a_failure_says_what_stays_charged(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_project(tmp_path / "p", SMALL)

    def fail(*_: object) -> None:
        raise ValueError("cell 7.0625")

    monkeypatch.setattr(tasks.sweep_points, "rehearse", fail)
    with pytest.raises(StepFailed) as failed:
        sweep(spec, [0.5, 1.0], "s", stand_in=None)
    text = str(failed.value)
    assert "2 points of sweep small-digits/s stay charged" in text
    assert "No noise was drawn for s-2" in text and "7.0625" not in text
    _ledger(home).void("small-digits", "s-2", "never drawn")  # what the text promises
    with pytest.raises(RequestRefused, match="its charge stays"):
        _ledger(home).void("small-digits", "s-1", "drawn")


def test_what_a_run_left_when_it_was_killed_is_cleared(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    left = Workspace(home).staging("small-digits", ".s.sweep") / "report"
    left.mkdir(parents=True)
    (left / "sweep.json").write_text("half")
    made = sweep(spec, [2.0], "s", stand_in=_stand_in(tmp_path))
    assert made.paid_by == "stand-in" and not left.exists()


def test_a_stand_in_costs_nothing_and_the_result_is_about_it(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    made = sweep(spec, [0.5, 2.0], "s", stand_in=_stand_in(tmp_path))
    assert not (home / "data" / "ledger.sqlite").exists()
    assert made.paid_by == "stand-in" and "stand-in" in made.notes[0] and made.rows == 272
    page = (home / "reports" / "small-digits" / "s" / "sweep.html").read_text()
    assert "INTERNAL" not in page and "About a stand-in" in page


def test_a_stand_in_needs_no_source(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    (tmp_path / "p" / "source.csv").unlink()
    assert sweep(spec, [2.0], "s", stand_in=_stand_in(tmp_path)).points


def _itself(source: Path, tmp_path: Path) -> Path:
    return source


def _symbolic_link(source: Path, tmp_path: Path) -> Path:
    (tmp_path / "link.csv").symlink_to(source)
    return tmp_path / "link.csv"


def _hard_link(source: Path, tmp_path: Path) -> Path:
    os.link(source, tmp_path / "hard.csv")
    return tmp_path / "hard.csv"


def _copy(source: Path, tmp_path: Path) -> Path:
    (tmp_path / "copy.csv").write_bytes(source.read_bytes())
    return tmp_path / "copy.csv"


def _shuffled(source: Path, tmp_path: Path) -> Path:
    pd.read_csv(source).sample(frac=1, random_state=1).to_csv(tmp_path / "shuffled.csv", index=False)
    return tmp_path / "shuffled.csv"


def _as_parquet_with_a_row_changed(source: Path, tmp_path: Path) -> Path:
    frame = pd.read_csv(source)
    frame.loc[3, "r2c3"] = 16 - int(frame["r2c3"].iloc[3])
    frame.to_parquet(tmp_path / "changed.parquet")
    return tmp_path / "changed.parquet"


@pytest.mark.parametrize(
    "make", [_itself, _symbolic_link, _hard_link, _copy, _shuffled, _as_parquet_with_a_row_changed]
)
def test_the_source_is_no_stand_in(home: Path, tmp_path: Path, make: Callable[[Path, Path], Path]) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    with pytest.raises(RequestRefused, match="is the confidential source itself"):
        sweep(spec, [1.0], "s", stand_in=make(tmp_path / "p" / "source.csv", tmp_path))
    assert not (home / "reports").exists()


def test_a_stand_in_with_other_columns_is_refused(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    digits().rename(columns={"r2c3": "other"}).to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(ValidationFailed, match=r"public\.csv: declared columns are missing: `r2c3`"):
        sweep(spec, [1.0], "s", stand_in=tmp_path / "public.csv")
    assert not (home / "reports").exists() and not (home / "data" / "staging").exists()


def test_an_id_that_is_taken_is_refused(home: Path, tmp_path: Path) -> None:
    spec, stand_in = write_project(tmp_path / "p", SMALL), _stand_in(tmp_path)
    sweep(spec, [1.0], "s", stand_in=stand_in)
    before = (home / "reports" / "small-digits" / "s" / "sweep.json").read_bytes()
    for paid in (stand_in, None):
        with pytest.raises(RequestRefused, match="that id is taken"):
            sweep(spec, [1.0], "s", stand_in=paid)
    assert (home / "reports" / "small-digits" / "s" / "sweep.json").read_bytes() == before
    pipeline.propose(spec, "a-1")  # staged and charged
    with pytest.raises(RequestRefused, match="that id is taken"):
        sweep(spec, [1.0], "a", stand_in=stand_in)


def test_an_uncovered_spec_is_refused(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SMALL, "fabrication.stop", "paper"))
    with pytest.raises(RequestRefused, match="does not cover"):
        sweep(spec, [1.0], "s", stand_in=None)


def test_too_many_cells_without_noise_are_refused(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SMALL, "privacy.delta", 0.01))
    with pytest.raises(RequestRefused, match=r"epsilon 1: .* passed over by the noise"):
        sweep(spec, [1.0], "s", stand_in=None)
    assert _entries(home) == []


def test_accuracy_rises_from_tiny_to_huge_epsilon(home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", SMALL)
    made = sweep(spec, [0.001, 40.0], "s", stand_in=_stand_in(tmp_path), bits=SeededBits(5))
    tiny, huge = made.points
    for name in ("nearest-neighbour", "logistic"):
        assert tiny.accuracy[name].upper < huge.accuracy[name].lower
        assert tiny.accuracy[name].estimate < 0.6
    assert max(a.estimate for a in huge.accuracy.values()) > max(a.estimate for a in made.real_accuracy.values()) - 0.1
    assert tiny.attack_auc.lower < 0.5
    assert tiny.attack_auc.estimate < huge.attack_auc.estimate


def test_at_record_level_points_are_the_records(home: Path, tmp_path: Path) -> None:
    raised = changed(changed(SMALL, "privacy.unit", "record"), "privacy.mechanism", "private-moments")
    made = sweep(write_project(tmp_path / "p", raised), [1.0, 4.0], "s", stand_in=None)
    assert made.unit == "record"
    assert [(p.epsilon, p.record_epsilon, p.record_delta) for p in made.points] == [(1.0, 1.0, 1e-6), (4.0, 4.0, 1e-6)]


def test_no_cell_of_the_table_is_in_the_result(home: Path, tmp_path: Path) -> None:
    marker = 77.0625031  # which no time of day ends with
    raised = changed(SMALL, "table.columns.r2c3", {"type": "numeric", "bounds": [0, 99]})
    source = digits().astype({"r2c3": float})
    source.loc[np.arange(0, 150, 3), "r2c3"] = marker
    spec = write_project(tmp_path / "p", raised, source)
    said: list[str] = []

    class Heard(SilentObserver):
        def noted(self, text: str) -> None:
            said.append(text)

    with observed_by(Heard()):
        sweep(spec, [0.5, 8.0], "s", stand_in=None)
    for path in [path for path in home.rglob("*") if path.is_file()]:
        assert b"77.06250" not in path.read_bytes(), path
    assert "77.06250" not in " ".join(said)
    kept = json.loads((home / "reports" / "small-digits" / "s" / "sweep.json").read_text())
    assert set(kept) == set(Sweep.model_fields)
