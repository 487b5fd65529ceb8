"""Canaries planted in members' rows: which cells move, by how much, and what a rehearsal refutes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tasks.plant_canaries
from schemas.attacks import EmpiricalEpsilon
from schemas.spec import ReleaseSpec
from tasks.accounting import mechanism_of
from tasks.columns.values import to_scaled
from tasks.encode import encode_features
from tasks.ingest import ingest
from tasks.plant_canaries import _pair, plant_canaries
from tests.mixed_table import SPEC as MIXED
from tests.mixed_table import mixed
from tests.projects import FEATURES, SPEC, changed, digits, write_project


def audited(spec: dict[str, Any], frame: pd.DataFrame, folder: Path, seed: int = 5) -> EmpiricalEpsilon:
    checked = ReleaseSpec.model_validate(spec)
    folder.mkdir(exist_ok=True)
    sample = SimpleNamespace(member_frame=frame)
    return plant_canaries.function(sample, checked, mechanism_of(checked), seed, 1, folder)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["element", "record"])
def test_bounds_lie_below_the_claim_and_above_nothing(tmp_path: Path, unit: str) -> None:
    spec = changed(SPEC, "privacy.unit", unit)
    found = audited(spec, digits(450), tmp_path)
    assert found.claimed_epsilon == pytest.approx(2.0, abs=0.01) and found.unit == unit
    assert [bound.seen for bound in found.bounds] == ["noise-added", "fabricated"]
    for bound in found.bounds:
        assert bound.canaries == 450 and bound.guesses == 150
        assert bound.epsilon_lower_bound <= found.claimed_epsilon
    assert found.bounds[0].epsilon_lower_bound > 0.5


@pytest.mark.parametrize("broken", ["no noise in a column", "a third of the noise"])
def test_a_broken_mechanism_is_convicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    import tasks.perturb

    sound = tasks.perturb.noise_on_cells

    def weak(members: Any, *more: Any) -> Any:
        released = sound(members, *more)
        lattice = released.lattice.copy()
        if broken == "no noise in a column":
            lattice[:, 1] = members.lattice[:, 1]
        else:
            lattice = members.lattice + (lattice - members.lattice) // 3
        return type(released)(lattice, released.labels, released.spacing, released.randomness)

    assert audited(SPEC, digits(450), tmp_path / "sound").bounds[0].epsilon_lower_bound < 2.0
    monkeypatch.setattr(tasks.perturb, "noise_on_cells", weak)
    found = audited(SPEC, digits(450), tmp_path / "broken")
    assert found.bounds[0].epsilon_lower_bound > 2.0


def planted_frames(
    spec: dict[str, Any], frame: pd.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> pd.DataFrame:
    seen: list[pd.DataFrame] = []
    rehearse = tasks.plant_canaries.rehearse

    def watched(rows: pd.DataFrame, *more: Any) -> Any:
        seen.append(rows)
        return rehearse(rows, *more)

    monkeypatch.setattr(tasks.plant_canaries, "rehearse", watched)
    audited(spec, frame, folder)
    return seen[0]


@pytest.mark.parametrize("distance", [0.07, 0.25, 1.0])
def test_one_cell_of_a_row_moves_and_no_farther_than_the_guarantee_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distance: float
) -> None:
    spec, frame = changed(SPEC, "privacy.distance", distance), digits(120)
    table = ReleaseSpec.model_validate(spec).table
    planted = planted_frames(spec, frame, tmp_path, monkeypatch)
    moved = (planted[FEATURES] != frame[FEATURES]).sum(axis=1)
    assert moved.max() == 1
    for place, name in enumerate(FEATURES):
        cells = planted[name].iloc[place :: len(FEATURES)].unique()
        assert len(cells) == 2
        apart = np.ptp(to_scaled(pd.Series(cells), table.features[name]))  # type: ignore[arg-type]
        assert 0.5 * distance < apart <= distance + 1e-12


def test_every_cell_of_a_row_moves_where_epsilon_is_about_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = planted_frames(changed(SPEC, "privacy.unit", "record"), digits(60), tmp_path, monkeypatch)
    assert set(np.unique(planted[FEATURES])) == {0, 16}


def test_columns_of_all_kinds_can_hold_canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ReleaseSpec.model_validate(MIXED).table
    write_project(tmp_path / "p", MIXED, mixed(200))
    frame = next(ingest.function(tmp_path / "p" / "source.csv", table).pieces())
    planted = planted_frames(MIXED, frame, tmp_path / "scratch", monkeypatch)
    assert (encode_features(planted, table) != encode_features(frame, table)).any()
    pd.testing.assert_series_equal(planted.dtypes, frame.dtypes)
    pairs = {name: _pair(column, 1.0) for name, column in table.features.items()}
    assert [name for name, pair in pairs.items() if pair is None] == ["constant"]


def test_reasons_why_nothing_was_computed(tmp_path: Path) -> None:
    few = audited(SPEC, digits(9), tmp_path)
    assert few.bounds == [] and "fewer than 10 members" in few.not_computed[0].reason
