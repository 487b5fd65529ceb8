"""Releases under every runner: the same files byte for byte, and whole whatever is killed in between."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from flows import pipeline
from schemas.errors import StepFailed
from tasks.ledger import Ledger
from tasks.read_spec import read_spec, spec_sha256
from tasks.staging import Staging
from tasks.workspace import Workspace
from tests.conftest import Outcome
from tests.projects import PROJECT, SPEC, changed, digits, write_project
from tests.waiting import comes_true

RUNNERS: dict[str, Any] = {
    "threads 1": {"threads": {"workers": 1}},
    "threads 2": {"threads": {"workers": 2}},
    "processes": {"processes": {"workers": 2}},
    "dask": {"dask": {"workers": 2}},
}


def _spec(runner: Any, **places: Any) -> dict[str, Any]:
    spec = changed(changed(SPEC, "fabrication.shard_rows", 30), "runner", runner)
    for place, value in places.items():
        spec = changed(spec, place.replace("__", "."), value)
    return spec


def _staged(home: Path, release_id: str = "a") -> Staging:
    return Staging(Workspace(home), "small-digits", release_id)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.parquet"))}


def _kinds(home: Path) -> list[str]:
    return [entry.kind for entry in Ledger(home / "data" / "ledger.sqlite").entries()]


def _cut_off(spec: Path, release_id: str, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a release until a step begins."""

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(f"flows.pipeline.{before}", crash)
        with pytest.raises(KeyboardInterrupt):
            pipeline.propose(spec, release_id)


def test_files_are_the_same_byte_for_byte_under_every_runner(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that was begun once is taken up in copies of its home, each under another runner."""
    monkeypatch.setattr("tasks.stage.ROWS_PER_PART", 200)
    path = write_project(tmp_path / "p", _spec("threads"), digits(530))
    _cut_off(path, "a", "shard", monkeypatch)
    assert _staged(home).noise_added() is not None
    found = {}
    for name, runner in RUNNERS.items():
        copied = tmp_path / name
        shutil.copytree(home, copied)
        monkeypatch.setenv("FABRICA_HOME", str(copied))
        write_project(tmp_path / "p", _spec(runner), digits(530))
        _cut_off(path, "a", "sample", monkeypatch)
        assert _kinds(copied) == ["budget", "reserve", "draw"]
        manifest = _staged(copied).manifest()
        assert manifest.fabrication.shards >= 12 and "runner" not in manifest.spec
        found[name] = _digests(_staged(copied).release / "data")
    assert len({json.dumps(digests) for digests in found.values()}) == 1, found
    write_project(tmp_path / "p", _spec("threads"), digits(530))
    _cut_off(path, "b", "sample", monkeypatch)  # with Y+ of its own
    assert _digests(_staged(copied, "b").release / "data") != found["dask"]


def test_the_runner_has_no_part_in_the_specs_digest(tmp_path: Path) -> None:
    specs = [SPEC, *(_spec(runner, fabrication__shard_rows=1000) for runner in RUNNERS.values())]
    read = [read_spec(write_project(tmp_path / str(place), spec)) for place, spec in enumerate(specs)]
    assert len({spec_sha256(spec) for spec in read}) == 1
    assert all("runner" not in spec.outcome_settings() for spec in read)
    other = read_spec(write_project(tmp_path / "other", changed(SPEC, "fabrication.shard_rows", 999)))
    assert spec_sha256(other) != spec_sha256(read[0])


def test_a_release_is_taken_up_and_published_under_another_runner(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_project(tmp_path / "p", _spec({"processes": {"workers": 1}}))
    with monkeypatch.context() as broken:
        broken.setattr("flows.pipeline.stage", lambda *_: 1 / 0)
        with pytest.raises((StepFailed, ZeroDivisionError)):
            pipeline.propose(path, "a")
    drawn = (_staged(home).folder / "noise_added.parquet").read_bytes()
    write_project(tmp_path / "p", _spec("threads"))
    digest = pipeline.propose(path, "a").digest
    assert (_staged(home).folder / "noise_added.parquet").read_bytes() == drawn
    write_project(tmp_path / "p", _spec({"threads": {"workers": 3}}))
    publication = pipeline.publish(path, "a", digest)
    assert "runner" not in json.loads((publication.release / "manifest.json").read_text())["spec"]
    assert "runner" not in json.loads((publication.report.parent / "audit.json").read_text())
    assert _kinds(home) == ["budget", "reserve", "draw", "commit"]


# killed


def _runs(process: Any) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _workers_of(parent: int) -> list[Any]:
    """Processes below another one, but for the servers of `multiprocessing`."""
    found = []
    for process in psutil.Process(parent).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            server = any(name in " ".join(process.cmdline()) for name in ["forkserver", "resource_tracker"])
            if _runs(process) and not (server and process.ppid() == parent):
                found.append(process)
    return found


def _at_work(parent: int) -> Any:
    """The worker that has computed most."""

    def spent(process: Any) -> float:
        with suppress(psutil.NoSuchProcess):
            return float(process.cpu_times().user)
        return -1.0

    return max(_workers_of(parent), key=spent, default=None)


class _Release:
    """A release by the command line, in a session of its own, that takes some seconds to fabricate."""

    def __init__(self, home: Path, spec: Path, release_id: str) -> None:
        self.staging = _staged(home, release_id)
        self._process = subprocess.Popen(
            [str(Path(sys.executable).with_name("fabrica")), "release", str(spec), "--release-id", release_id],
            cwd=PROJECT,
            env=os.environ | {"FABRICA_HOME": str(home), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def wait_until_fabricating(self) -> None:
        """Until shards are written and being smoothed."""
        shards, fabricated = self.staging.scratch / "shards.arrows", self.staging.scratch / "fabricated"
        deadline = time.monotonic() + 300
        while not (shards.exists() and fabricated.exists()):
            assert self._process.poll() is None and time.monotonic() < deadline, self._process.communicate()[0]
            time.sleep(0.005)
        assert not (self.staging.scratch / "released").exists()

    def kill(self) -> None:
        """Kill it with all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._process.returncode is None:
            self._process.communicate()

    def ended(self) -> tuple[int, str]:
        told = self._process.communicate(timeout=600)[0]
        return self._process.returncode, told


@pytest.fixture
def slow(tmp_path: Path) -> Callable[[Any], Path]:
    """Projects by runner whose shards take a second or more to smooth, with two workers."""

    def write(runner: Any) -> Path:
        spec = _spec(runner, fabrication__shard_rows=60, fabrication__stop={"steps": 150})
        return write_project(tmp_path / "slow", spec, digits(530))

    return write


@pytest.fixture
def started() -> Iterator[list[_Release]]:
    releases: list[_Release] = []
    yield releases
    for release in releases:
        release.kill()


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_worker_killed_in_the_middle_costs_nothing(
    fabrica: Callable[..., Outcome], home: Path, slow: Callable[[Any], Path], kind: str, started: list[_Release]
) -> None:
    release = _Release(home, slow(RUNNERS[kind]), "a")
    started.append(release)
    release.wait_until_fabricating()
    victim = _at_work(release.pid)
    assert victim is not None
    victim.send_signal(signal.SIGKILL)
    assert not (release.staging.scratch / "released").exists(), "fabricating was over before the worker was killed"
    code, told = release.ended()
    assert code == 0, told
    assert _kinds(home) == ["budget", "reserve", "draw", "commit"]
    published = home / "data" / "releases" / "small-digits" / "a"
    verified = fabrica("verify", published)
    assert verified.exit_code == 0, verified.out + verified.err


def test_a_run_killed_while_it_fabricates_is_taken_up_from_what_was_drawn(
    fabrica: Callable[..., Outcome],
    home: Path,
    slow: Callable[[Any], Path],
    started: list[_Release],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All its processes at once, as at the end of a session; it goes on under another runner."""
    spec = slow(RUNNERS["processes"])
    release = _Release(home, spec, "a")
    started.append(release)
    release.wait_until_fabricating()
    below = psutil.Process(release.pid).children(recursive=True)
    assert len(_workers_of(release.pid)) == 2
    release.kill()
    assert comes_true(lambda: not any(map(_runs, below))), f"still there: {list(filter(_runs, below))}"
    drawn = (release.staging.folder / "noise_added.parquet").read_bytes()
    members = release.staging.member_rows()
    assert members is not None and release.staging.noise_added() is not None and not release.staging.is_complete()
    assert _kinds(home) == ["budget", "reserve", "draw"]

    slow("threads")
    read: list[bytes] = []
    mark_complete = Staging.mark_complete

    def noting(staging: Staging) -> None:
        read.append((staging.folder / "noise_added.parquet").read_bytes())
        mark_complete(staging)

    monkeypatch.setattr(Staging, "mark_complete", noting)
    outcome = fabrica("release", spec, "--release-id", "a")
    assert outcome.exit_code == 0, outcome.err
    assert read == [drawn]
    assert _kinds(home) == ["budget", "reserve", "draw", "commit"]
    published = home / "data" / "releases" / "small-digits" / "a"
    assert fabrica("verify", published).exit_code == 0
    report = json.loads((home / "reports" / "small-digits" / "a" / "members.json").read_text())
    assert report["member_rows"] == members.tolist()
    assert not release.staging.folder.exists()
