"""`fabrica release` in process, from a real table to a published release."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schemas.audit import AuditReport
from schemas.manifest import Manifest
from tasks.ledger import Ledger
from tests.conftest import Outcome
from tests.projects import CLASSES, FEATURES, SPEC, changed, digits, write_project

Fabrica = Callable[..., Outcome]


def _entries(home: Path) -> list[Any]:
    return Ledger(home / "data" / "ledger.sqlite").entries()


def test_release_publishes_data_manifest_and_report(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "project")
    outcome = fabrica("release", spec, "--release-id", "first")
    assert outcome.exit_code == 0, outcome.err
    release = home / "data" / "releases" / "small-digits" / "first"
    assert {p.relative_to(release).as_posix() for p in release.rglob("*") if p.is_file()} == {
        "data/part-00000.parquet", "manifest.json", "datapackage.json", "SHA256SUMS", "card.html"
    }  # fmt: skip
    data = pd.read_parquet(release / "data")
    assert list(data.columns) == [*FEATURES, "digit"]
    assert (data.dtypes == "int64").all()
    assert data[FEATURES].to_numpy().min() >= 0 and data[FEATURES].to_numpy().max() <= 16
    assert set(data["digit"]) == set(CLASSES)
    manifest = Manifest.model_validate_json((release / "manifest.json").read_bytes())
    assert manifest.rows == len(data) == 105
    assert manifest.guarantee.element.epsilon == 2.0 and manifest.guarantee.element.delta == 1e-6
    assert manifest.guarantee.record.epsilon == pytest.approx(
        8.0, rel=1e-5
    ) and manifest.guarantee.record.delta == pytest.approx(4e-6)
    assert manifest.randomness == "os-csprng" and manifest.uncovered == []
    report = home / "reports" / "small-digits" / "first"
    audit = AuditReport.model_validate_json((report / "audit.json").read_bytes())
    assert audit.guarantee == manifest.guarantee
    assert audit.membership_inference.members == 105 and audit.membership_inference.controls == 45
    assert (report / "audit.html").read_text().startswith("<!DOCTYPE html>")
    assert (home / "reports" / "index.html").is_file()
    # the closing lines
    assert str(release) in outcome.out and str(report / "audit.html") in outcome.out
    assert "element level" in outcome.out and "epsilon = 7.9999" in outcome.out
    # nothing is left in staging, and the ledger shows one charge
    assert not (home / "data" / "staging" / "small-digits" / "first").exists()
    assert [entry.kind for entry in _entries(home)] == ["budget", "reserve", "draw", "commit"]
    assert fabrica("verify", release).exit_code == 0


def test_parquet_source_gives_the_same_columns_as_csv(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    spec = write_project(project, changed(SPEC, "source.path", "source.parquet"))
    digits().to_parquet(project / "source.parquet")
    assert fabrica("release", spec, "--release-id", "a").exit_code == 0
    data = pd.read_parquet(home / "data" / "releases" / "small-digits" / "a" / "data")
    assert list(data.columns) == [*FEATURES, "digit"] and len(data) == 105


def test_text_labels_and_precision_come_back_as_declared(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    source = digits().assign(digit=lambda f: "class " + f["digit"].astype(str), r2c3=lambda f: f["r2c3"] / 10)
    spec = changed(SPEC, "table.columns.digit.categories", ["class 0", "class 1", "class 2"])
    spec = changed(spec, "table.columns.r2c3", {"type": "numeric", "bounds": [-0.5, 1.6], "precision": 0.1})
    assert fabrica("release", write_project(tmp_path / "p", spec, source), "--release-id", "a").exit_code == 0
    data = pd.read_parquet(home / "data" / "releases" / "small-digits" / "a" / "data")
    assert set(data["digit"]) == {"class 0", "class 1", "class 2"}
    assert set(data["r2c3"]) <= {k / 10 for k in range(-5, 17)}
    assert not np.signbit(data.loc[data["r2c3"] == 0, "r2c3"]).any()


@pytest.mark.parametrize("stop", [{"steps": 1}, {"relative": 0.5}])
def test_stop_rules_on_released_data(fabrica: Fabrica, home: Path, tmp_path: Path, stop: dict[str, Any]) -> None:
    spec = write_project(tmp_path / "p", changed(SPEC, "fabrication.stop", stop))
    assert fabrica("release", spec, "--release-id", "a").exit_code == 0
    manifest = _manifest(home, "a")
    assert manifest.uncovered == [] and manifest.fabrication.stop == stop
    assert all(1 <= steps <= 200 for steps in manifest.fabrication.steps)


def test_paper_stop_rule_is_refused_for_publication(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = changed(SPEC, "fabrication.stop", "paper")
    refused = fabrica("release", write_project(tmp_path / "p", spec), "--release-id", "a")
    assert refused.exit_code == 2 and "allow_uncovered" in refused.err and _entries(home) == []
    accepted = changed(spec, "privacy.allow_uncovered", True)
    outcome = fabrica("release", write_project(tmp_path / "p", accepted), "--release-id", "a")
    assert outcome.exit_code == 0 and "not covered by the guarantee" in outcome.out
    assert len(_manifest(home, "a").uncovered) == 1
    audit = AuditReport.model_validate_json((home / "reports" / "small-digits" / "a" / "audit.json").read_bytes())
    assert audit.uncovered and any("not covered" in warning for warning in audit.warnings)


def test_budget_is_refused_before_noise_is_drawn(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SPEC, "privacy.budget", {"epsilon": 17.0, "delta": 1e-3}))
    assert fabrica("release", spec, "--release-id", "a").exit_code == 0
    assert fabrica("release", spec, "--release-id", "b").exit_code == 0
    refused = fabrica("release", spec, "--release-id", "c")
    assert refused.exit_code == 4
    assert "of 17 and 0.001 are left" in refused.err and "at record level would fit" in refused.err
    assert [entry.kind for entry in _entries(home)] == ["budget", *["reserve", "draw", "commit"] * 2]
    assert not (home / "data" / "staging" / "small-digits" / "c").exists()
    assert not (home / "data" / "releases" / "small-digits" / "c").exists()


def test_expected_unperturbed_cells_warn_and_refuse(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    # 105 members x 4 columns = 420 cells
    warned = write_project(tmp_path / "p", changed(SPEC, "privacy.delta", 5e-4))
    warned = write_project(tmp_path / "p", changed(changed(SPEC, "privacy.delta", 5e-4), "privacy.budget.delta", 0.5))
    assert fabrica("release", warned, "--release-id", "a").exit_code == 0
    audit = AuditReport.model_validate_json((home / "reports" / "small-digits" / "a" / "audit.json").read_bytes())
    assert any("0.21 of the cells of 105 rows" in warning for warning in audit.warnings)
    many = changed(changed(SPEC, "privacy.delta", 5e-3), "privacy.budget.delta", 0.5)
    refused = fabrica("release", write_project(tmp_path / "p", many), "--release-id", "b")
    assert refused.exit_code == 2 and "allow_unperturbed_cells" in refused.err
    accepted = changed(many, "privacy.allow_unperturbed_cells", True)
    assert fabrica("release", write_project(tmp_path / "p", accepted), "--release-id", "b").exit_code == 0


def test_a_release_is_never_published_twice(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p")
    assert fabrica("release", spec, "--release-id", "a").exit_code == 0
    before = (home / "data" / "releases" / "small-digits" / "a" / "SHA256SUMS").read_bytes()
    again = fabrica("release", spec, "--release-id", "a")
    assert again.exit_code == 2 and "published already" in again.err
    assert (home / "data" / "releases" / "small-digits" / "a" / "SHA256SUMS").read_bytes() == before
    assert len(_entries(home)) == 4


def test_approval_stands_between_candidate_and_publication(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SPEC, "approval", "required"))
    waiting = fabrica("release", spec, "--release-id", "a")
    assert waiting.exit_code == 6
    assert not (home / "data" / "releases").exists()
    digest = waiting.err.split("--approve ")[1].split()[0]
    assert (home / "data" / "staging" / "small-digits" / "a" / "report" / "audit.html").is_file()
    wrong = fabrica("release", spec, "--release-id", "a", "--approve", "0" * 64)
    assert wrong.exit_code == 6 and not (home / "data" / "releases").exists()
    unknown = fabrica("release", spec, "--approve", "0" * 64)
    assert unknown.exit_code == 6
    assert fabrica("release", spec, "--approve", "not-a-digest", "--release-id", "a").exit_code == 2
    approved = fabrica("release", spec, "--approve", digest)
    assert approved.exit_code == 0, approved.err
    assert fabrica("verify", home / "data" / "releases" / "small-digits" / "a").exit_code == 0


def test_a_changed_candidate_is_not_published(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SPEC, "approval", "required"))
    digest = fabrica("release", spec, "--release-id", "a").err.split("--approve ")[1].split()[0]
    part = home / "data" / "staging" / "small-digits" / "a" / "release" / "data" / "part-00000.parquet"
    part.write_bytes(part.read_bytes() + b"x")
    outcome = fabrica("release", spec, "--approve", digest)
    assert outcome.exit_code == 6 and "no staged candidate" in outcome.err
    named = fabrica("release", spec, "--release-id", "a", "--approve", digest)
    assert named.exit_code == 6 and "as it lies in staging" in named.err
    assert not (home / "data" / "releases" / "small-digits" / "a").exists()


def test_json_prints_one_object_and_nothing_else(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p")
    outcome = fabrica("release", spec, "--json")
    assert outcome.exit_code == 0 and outcome.err == ""
    published = json.loads(outcome.out)
    assert Path(published["release"]).is_dir() and published["guarantee"]["record"]["epsilon"] == pytest.approx(
        8.0, rel=1e-5
    )
    refused = fabrica("release", spec, "--json", "--release-id", published["release_id"])
    assert json.loads(refused.out)["error"]["exit_code"] == refused.exit_code == 2


def test_quiet_prints_the_outcome_only(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    outcome = fabrica("release", write_project(tmp_path / "p"), "--quiet", "--release-id", "a")
    assert outcome.err == ""
    assert outcome.out.strip() == str(home / "data" / "releases" / "small-digits" / "a")


def test_debug_shows_where_and_plain_mode_does_not(
    fabrica: Fabrica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret cell 12345.678")

    monkeypatch.setattr("tasks.fabricate.fabricate_shard", broken)
    spec = write_project(tmp_path / "p")
    plain = fabrica("release", spec, "--release-id", "a")
    assert plain.exit_code == 1 and "Traceback" not in plain.err and "12345.678" not in plain.err
    assert "ZeroDivisionError" in plain.err and "--release-id a" in plain.err  # how to go on at no further cost
    debug = fabrica("release", spec, "--release-id", "a", "--debug")
    assert "Traceback" in debug.err and "ZeroDivisionError" in debug.err


def _manifest(home: Path, release_id: str) -> Manifest:
    path = home / "data" / "releases" / "small-digits" / release_id / "manifest.json"
    return Manifest.model_validate_json(path.read_bytes())
