"""Private classifiers from the command line: refused with a place and a reason, planned with their cost."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.accounting import mechanism_of
from tasks.read_spec import read_spec
from tests.conftest import Outcome
from tests.projects import SPEC, changed, write_project
from tests.stand_in_classifier import stand_in

Fabrica = Callable[..., Outcome]
ONE = {"classifier": "pmsvm-adaptive", "epsilon": 4.0, "delta": 1e-5}
PLACE = "evaluation.private_classifiers"


def _with(*entries: Any, base: dict[str, Any] = SPEC) -> dict[str, Any]:
    return changed(base, PLACE, list(entries))


@pytest.mark.parametrize(
    ("entry", "texts"),
    [
        ({"classifier": "pmsvm-adaptive"}, [f"{PLACE}.1", "needs epsilon and delta of its own; there is no default"]),
        (ONE | {"trained_on": ["fabricated"]}, [f"{PLACE}.1", "costs nothing; leave epsilon and delta out"]),
        (ONE | {"classifier": "pmsvm-adaptiv"}, [f"{PLACE}.1.classifier", "did you mean `pmsvm-adaptive`?"]),
        (ONE | {"epsilom": 1.0}, [f"{PLACE}.1.epsilom: unknown key", "did you mean `epsilon`?"]),
        (ONE | {"delta": 0.0}, [f"{PLACE}.1", "needs delta above 0"]),
        (ONE | {"epsilon": "four"}, [f"{PLACE}.1.epsilon", "valid number"]),
        (ONE | {"trained_on": "confidential"}, [f"{PLACE}.1.trained_on", "write a list"]),
    ],
)
def test_a_wrong_entry_is_named(
    fabrica: Fabrica, home: Path, tmp_path: Path, entry: dict[str, Any], texts: list[str]
) -> None:
    outcome = fabrica("release", write_project(tmp_path / "p", _with(entry)), "--release-id", "bad")
    assert outcome.exit_code == 2, outcome.err
    for text in texts:
        assert text in outcome.err, outcome.err
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_what_cannot_be_trained_costs_nothing(
    fabrica: Fabrica, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, least_rows=1000)
    outcome = fabrica("release", write_project(tmp_path / "p", _with(ONE)), "--release-id", "bad")
    assert outcome.exit_code == 2 and "pmsvm-adaptive cannot be trained here" in outcome.err
    assert "Nothing was spent" in outcome.err
    assert [path for path in home.rglob("*") if path.is_file()] == []
    planned = write_project(tmp_path / "q", _with(ONE, base=changed(SPEC, "table.rows", 150)))
    assert fabrica("plan", planned).exit_code == 2  # where the rows are declared, the plan says so too


@pytest.mark.parametrize(
    "entry", [{"epsilon": 1e-9, "delta": 1e-5, "preprocessing_share": 0.3}, {"epsilon": 2.0, "delta": 0.99}]
)
def test_extreme_budgets_are_planned_or_refused(
    fabrica: Fabrica, home: Path, tmp_path: Path, entry: dict[str, Any]
) -> None:
    base = changed(SPEC, "table.rows", 150)
    outcome = fabrica(
        "plan", write_project(tmp_path / "p", _with({"classifier": "pmsvm-adaptive", **entry}, base=base))
    )
    assert outcome.exit_code in {0, 2}, outcome.err
    assert (outcome.exit_code == 0) != ("evaluation.private_classifiers" in outcome.err)


def test_the_plan_shows_each_cost_and_the_whole(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p", _with(ONE, {"classifier": "opera", "trained_on": ["fabricated"]}))
    text = fabrica("plan", spec).out
    assert (
        "pmsvm-adaptive, trained on fabricated rows and on confidential rows; released; costs epsilon 4, delta" in text
    )
    assert "opera, trained on fabricated rows; costs nothing" in text and "the data     alone" in text
    plan = json.loads(fabrica("plan", spec, "--json").out)
    mechanism = mechanism_of(read_spec(spec))
    assert plan["guarantee"]["record"]["epsilon"] == mechanism.guarantees.record.epsilon
    assert plan["data_guarantee"]["element"]["epsilon"] == 2.0
    assert [own["name"] for own in plan["classifiers"]] == ["pmsvm-adaptive", "opera"]
    alone = json.loads(fabrica("plan", write_project(tmp_path / "q"), "--json").out)
    assert plan["releases_left"] < alone["releases_left"]
    assert alone["data_guarantee"] is None and alone["classifiers"] == []
    assert alone["guarantee"] == plan["data_guarantee"]


def test_a_plan_warns_where_only_the_classifier_does_not_fit(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    base = changed(SPEC, "privacy.budget", {"epsilon": 9.0, "delta": 1e-3})
    assert json.loads(fabrica("plan", write_project(tmp_path / "p", base), "--json").out)["fits_budget"]
    assert not json.loads(fabrica("plan", write_project(tmp_path / "q", _with(ONE, base=base)), "--json").out)[
        "fits_budget"
    ]
