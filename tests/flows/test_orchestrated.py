"""Releases through a real Prefect server: on the command line, served, triggered by REST, refused by REST."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Manifest
from tests.conftest import PrefectServer
from tests.projects import SPEC, changed, write_project
from tests.waiting import comes_true


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return json.load(answer)


def _run(server: PrefectServer, home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", *map(str, arguments)],
        env=server.environment | {"FABRICA_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=600,
    )


def _runs_of(server: PrefectServer, spec: Path) -> list[Any]:
    """Flow runs that were begun with a spec; whatever else ran on the server is not looked at."""
    begun = {"state": {"type": {"any_": ["RUNNING", "COMPLETED", "FAILED", "CRASHED", "CANCELLED"]}}}
    found = server.post("flow_runs/filter", {"flow_runs": begun, "sort": "START_TIME_DESC"})[1]
    return [run for run in found if run["parameters"]["request"]["spec"] == str(spec)]


def _decimals(text: str) -> set[str]:
    return set(re.findall(r"\d*\.\d+", text))


def test_command_runs_the_flow_where_a_server_is_configured(prefect_server: PrefectServer, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SPEC, "dataset", "orchestrated"))
    home = tmp_path / "home"
    done = _run(prefect_server, home, "release", spec, "--release-id", "one")
    assert done.returncode == 0, done.stderr
    assert "running as a Prefect flow on the server at" in done.stderr
    assert (home / "data" / "releases" / "orchestrated" / "one" / "SHA256SUMS").is_file()
    # Prefect's own chatter does not drown ours: a note, a line a step, nothing else
    chatter = [line for line in done.stderr.splitlines() if not re.fullmatch(r"(running as .*|  .* \d+\.\d\d s)", line)]
    assert chatter == []

    runs = _runs_of(prefect_server, spec)
    states = {run["state"]["name"] for run in runs if "orchestrated/one" in (run["state"]["message"] or "")}
    assert states == {"Completed"}
    its_runs = {"flow_runs": {"id": {"any_": [run["id"] for run in runs]}}}

    def tasks_are_recorded() -> bool:  # by the server, from what it is told, soon after
        tasks = {run["name"] for run in prefect_server.post("task_runs/filter", its_runs)[1]}
        return {"Read source", "Validate source", "Add noise", "Fabricate", "Publish", "Attack"} <= tasks

    assert comes_true(tasks_are_recorded)

    # artifacts show the manifest's numbers and lead to the report; what was measured stays in the report
    found = prefect_server.post("artifacts/filter", its_runs)[1]
    artifacts = {one["key"]: one["data"] for one in found if one["key"].startswith("fabrica-orchestrated")}
    assert artifacts.keys() == {"fabrica-orchestrated", "fabrica-orchestrated-numbers"}
    summary = artifacts["fabrica-orchestrated"]
    links = re.findall(r"\(file://([^)]+)\)", summary)
    assert len(links) == 3 and all(Path(path).exists() for path in links) and "Published." in summary
    manifest = json.loads((home / "data" / "releases" / "orchestrated" / "one" / "manifest.json").read_text())
    numbers = {row["number"]: row["value"] for row in json.loads(artifacts["fabrica-orchestrated-numbers"])}
    assert numbers["epsilon, one cell"] == f"{manifest['guarantee']['element']['epsilon']:.4g} (delta 1e-06)"
    assert numbers["rows"] == str(manifest["rows"])
    from flows.artifacts import numbers as numbers_of

    checked = Manifest.model_validate(manifest)
    guarantee = checked.guarantee
    stated = [guarantee.element.sentence(), guarantee.record.sentence(), json.dumps(numbers_of(checked))]
    shown = json.dumps([one["data"] for one in found])
    assert _decimals(shown) <= _decimals(" ".join(stated)) and "accuracy" not in shown

    # a failing flow ends with our error: its kind, its text, its exit code, and a failed state on the server
    (tmp_path / "p" / "source.csv").write_text("r2c3\n1\n")
    failed = _run(prefect_server, home, "release", spec, "--release-id", "two", "--json")
    error = json.loads(failed.stdout)["error"]
    assert failed.returncode == error["exit_code"] == 3 and error["kind"] == "ValidationFailed"
    assert "declared columns are missing" in error["message"] and "Traceback" not in failed.stderr
    earlier = {run["id"] for run in runs}
    its_states = [run["state"] for run in _runs_of(prefect_server, spec) if run["id"] not in earlier]
    assert its_states and all("declared columns are missing" in state["message"] for state in its_states)
    assert {(state["type"], state["name"]) for state in its_states} == {("FAILED", "ValidationFailed")}


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p")
    dead = PrefectServer(
        "http://127.0.0.1:9/api", tmp_path, {**os.environ, "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    )
    done = _run(dead, tmp_path / "home", "release", spec)
    assert done.returncode == 2 and "does not answer" in done.stderr and "http://127.0.0.1:9/api" in done.stderr
    assert not (tmp_path / "home" / "data" / "ledger.sqlite").exists()


@pytest.fixture
def served(prefect_server: PrefectServer, tmp_path: Path) -> Iterator[Path]:
    """`fabrica serve` on two specs, one of them with a schedule; the home folder."""
    spec = write_project(tmp_path / "p", changed(SPEC, "dataset", "served"))
    scheduled = changed(
        changed(SPEC, "dataset", "nightly"), "schedule", {"cron": "0 2 * * 1", "timezone": "Europe/Vienna"}
    )
    specs = tmp_path / "p" / "specs"
    specs.mkdir()
    spec.rename(specs / "served.yaml")
    write_project(tmp_path / "q", scheduled).rename(specs / "nightly.yaml")
    (tmp_path / "p" / "source.csv").rename(specs / "source.csv")
    log = (tmp_path / "serve.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", "from flows.cli import main; main()", "serve", "--specs", str(specs)],
        env=prefect_server.environment | {"FABRICA_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        for name in ["served", "nightly"]:
            _wait(lambda name=name: _deployment(prefect_server, name), process, tmp_path / "serve.log")
        yield tmp_path / "home"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def _deployment(server: PrefectServer, name: str) -> Any:
    try:
        return _get(f"{server.api}/deployments/name/release/{name}")
    except urllib.error.HTTPError:
        return None


def _wait(look: Any, process: subprocess.Popen[bytes], log: Path) -> None:
    if comes_true(lambda: look() or process.poll() is not None) and process.poll() is None:
        return
    pytest.fail(f"waited in vain:\n{log.read_text(errors='replace')[-3000:]}")


def test_served_specs_are_triggered_by_rest_with_a_checked_form(
    prefect_server: PrefectServer, served: Path, tmp_path: Path
) -> None:
    nightly = _deployment(prefect_server, "nightly")
    assert [(s["schedule"]["cron"], s["schedule"]["timezone"]) for s in nightly["schedules"]] == [
        ("0 2 * * 1", "Europe/Vienna")
    ]
    deployment = _deployment(prefect_server, "served")
    assert deployment["schedules"] == []
    # the form is the pydantic model's: titles, help, bounds, nothing else accepted
    form = deployment["parameter_openapi_schema"]["definitions"]["ReleaseRequest"]
    assert form["properties"]["release_id"]["title"] == "Release id" and form["additionalProperties"] is False
    assert "leave empty for a new one" in form["properties"]["release_id"]["description"]

    create = f"deployments/{deployment['id']}/create_flow_run"
    spec = deployment["parameters"]["request"]["spec"]
    # of this deployment alone: the server's scheduler adds runs of the nightly one whenever it comes round
    its_runs = {"deployments": {"id": {"any_": [deployment["id"]]}}}
    for wrong in [
        {"spec": spec, "release_id": "../outside"},
        {"spec": spec, "release_id": 7},
        {"spec": "not a spec"},
        {"spec": spec, "epsilom": 1},
        {},
    ]:
        status, answer = prefect_server.post(create, {"parameters": {"request": wrong}})
        assert status == 409 and "alidation" in json.dumps(answer), (wrong, status, answer)
    assert prefect_server.post("flow_runs/filter", its_runs)[1] == []

    status, run = prefect_server.post(create, {"parameters": {"request": {"spec": spec, "release_id": "by-rest"}}})
    assert status == 201
    assert [one["id"] for one in prefect_server.post("flow_runs/filter", its_runs)[1]] == [run["id"]]

    def state() -> Any:
        return _get(f"{prefect_server.api}/flow_runs/{run['id']}")["state"]

    assert comes_true(lambda: state()["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}, within_s=300)
    assert state()["type"] == "COMPLETED", (state(), (tmp_path / "serve.log").read_text()[-3000:])
    release = served / "data" / "releases" / "served" / "by-rest"
    assert Manifest.model_validate_json((release / "manifest.json").read_bytes()).release_id == "by-rest"


def test_no_flow_or_task_of_ours_persists_results() -> None:
    from flows import release as flows

    every: list[Any] = [flows.propose, flows.publish, flows.release]
    for flow in every:
        assert flow.persist_result is False and flow.retries == 0 and flow.log_prints is False


def test_every_step_runs_as_a_task_that_persists_and_caches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.cache_policies import NO_CACHE

    from flows import release as flows
    from tasks.step import Step

    made: list[dict[str, Any]] = []

    def recorded(**options: Any) -> Any:
        made.append(options)
        raise KeyError

    monkeypatch.setattr(flows, "task", recorded)
    with pytest.raises(KeyError):
        flows.run_as_task(Step(int, "Anything"), (), {})
    assert made[0]["persist_result"] is False and made[0]["cache_policy"] is NO_CACHE and made[0]["retries"] == 0


def test_orchestrated_without_a_server_uses_a_temporary_one(tmp_path: Path) -> None:
    """What `make demo` does; the server's files lie under the home folder, and it is gone afterwards."""
    spec = write_project(tmp_path / "p")
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    server = PrefectServer("", tmp_path, alone | {"HOME": str(tmp_path / "user")})
    done = _run(server, tmp_path / "home", "release", spec, "--release-id", "one", "--orchestrated")
    assert done.returncode == 0, done.stderr
    assert "on a temporary server" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "home" / "data" / "releases" / "small-digits" / "one" / "SHA256SUMS").is_file()
    assert (tmp_path / "home" / "data" / "prefect" / "prefect.db").is_file()
    left_at_home = [path for path in (tmp_path / "user").rglob("*") if path.is_file()]
    assert all("matplotlib" in path.parts for path in left_at_home)  # its list of fonts
