"""`fabrica sweep`: what it prints, how it ends, and that it is never silently free."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from schemas.export import json_schema
from tests.conftest import Outcome
from tests.flows.test_sweep import SMALL, _stand_in
from tests.projects import changed, write_project

Fabrica = Callable[..., Outcome]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_project(tmp_path / "p", SMALL)


@pytest.mark.parametrize("both", [False, True])
def test_a_sweep_is_never_free(fabrica: Fabrica, home: Path, tmp_path: Path, spec: Path, both: bool) -> None:
    flags = ["--charge", "--stand-in", _stand_in(tmp_path)] if both else []
    outcome = fabrica("sweep", spec, "--epsilons", "1,2", *flags)
    assert outcome.exit_code == 2 and outcome.out == ""
    for text in ["never free", "has spent all of them", "--stand-in", "--charge"]:
        assert text in outcome.err
    assert list(home.rglob("*")) == []


def test_epsilons_must_be_given(fabrica: Fabrica, spec: Path) -> None:
    outcome = fabrica("sweep", spec, "--charge")
    assert outcome.exit_code == 2 and "--epsilons" in outcome.err


def test_a_stand_in_sweep_prints_a_line_for_each_point(
    fabrica: Fabrica, home: Path, tmp_path: Path, spec: Path
) -> None:
    outcome = fabrica("sweep", spec, "--epsilons", "8,0.5", "--stand-in", _stand_in(tmp_path), "--sweep-id", "s")
    assert outcome.exit_code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].split()[:2] == ["epsilon", "record"] and "nearest-neighbour" in lines[0]
    assert [line.split()[0] for line in lines[1:4]] == ["0.5", "8", "real"]
    assert "stand-in" in outcome.out and str(home / "reports" / "small-digits" / "s" / "sweep.html") in lines[-1]
    for step in ["Read source", "Validate source", "Epsilon 0.5", "Epsilon 8", "Write sweep"]:
        assert step in outcome.err
    assert "empty" in fabrica("ledger", "show").out


def test_json_prints_the_sweep_and_nothing_else(fabrica: Fabrica, home: Path, spec: Path) -> None:
    outcome = fabrica("sweep", spec, "--epsilons", "0.5,1", "--charge", "--sweep-id", "s", "--json")
    assert outcome.exit_code == 0 and outcome.err == ""
    printed = json.loads(outcome.out)
    assert printed == json.loads((home / "reports" / "small-digits" / "s" / "sweep.json").read_text())
    jsonschema.validate(printed, json.loads(json_schema("sweep")))
    shown = json.loads(fabrica("ledger", "show", "small-digits", "--json").out)
    kinds = [(entry["kind"], entry["release_id"]) for entry in shown["entries"]]
    assert kinds == [
        ("budget", None), ("reserve", "s-1"), ("reserve", "s-2"), ("draw", "s-1"), ("draw", "s-2"),
    ]  # fmt: skip
    assert "s-2" in fabrica("ledger", "show", "small-digits").out
    assert fabrica("ledger", "verify").exit_code == 0


def test_quiet_prints_where_the_page_is(fabrica: Fabrica, home: Path, tmp_path: Path, spec: Path) -> None:
    outcome = fabrica("sweep", spec, "--epsilons", "1", "--stand-in", _stand_in(tmp_path), "--quiet")
    assert outcome.exit_code == 0 and outcome.err == ""
    assert Path(outcome.out.strip()).is_file() and len(outcome.out.splitlines()) == 1


def test_release_and_verify_follow_a_charged_sweep(fabrica: Fabrica, home: Path, spec: Path) -> None:
    assert fabrica("sweep", spec, "--epsilons", "0.5,1", "--charge").exit_code == 0
    assert fabrica("release", spec, "--release-id", "a").exit_code == 0
    assert fabrica("verify", home / "data" / "releases" / "small-digits" / "a").exit_code == 0
    assert fabrica("ledger", "verify").exit_code == 0


def test_a_refused_budget_ends_with_4(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", changed(SMALL, "privacy.budget.epsilon", 5.0))
    outcome = fabrica("sweep", spec, "--epsilons", "0.5,1,2", "--charge", "--json")
    assert outcome.exit_code == 4 and "Nothing was spent" in outcome.err and "--stand-in" in outcome.err
    assert json.loads(outcome.out)["error"]["exit_code"] == 4
    assert "empty" in fabrica("ledger", "show").out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--epsilons", "0,x", "--charge"], 2, "'x' is not a finite number of at least 1e-09"),
        (["--epsilons", "1,1e9", "--charge"], 2, "--epsilons: 1e+09: "),
        (["--epsilons", "1", "--stand-in", "absent.csv"], 2, "absent.csv: no such file"),
        (["--epsilons", "1", "--stand-in", "spec.yaml"], 2, "must be a .csv or .parquet file"),
        (["--epsilons", "1", "--stand-in", "wrong.csv"], 3, "wrong.csv: none of its 1 column names is declared"),
        (["--epsilons", "1", "--stand-in", "source.csv"], 2, "is the confidential source itself"),
        (["--epsilons", "1", "--stand-in", "x" * 300], 2, "--stand-in"),
        (["--epsilons", "1", "--charge", "--sweep-id", "No"], 2, "--sweep-id: use small letters"),
    ],
)
def test_bad_requests_cost_nothing(
    fabrica: Fabrica,
    home: Path,
    spec: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    text: str,
) -> None:
    monkeypatch.chdir(spec.parent)
    (spec.parent / "wrong.csv").write_text("7.0625031\n7.0625031\n")
    outcome = fabrica("sweep", spec, *arguments)
    assert outcome.exit_code == code and text in outcome.err, outcome.err
    assert "7.0625" not in outcome.err and [path for path in home.rglob("*") if path.is_file()] == []
