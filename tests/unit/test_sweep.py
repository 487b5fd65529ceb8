"""Parts of a sweep: which epsilons, what is charged, which rows, the strongest attack, and the page."""

import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schemas.errors import BudgetRefused, RequestRefused, ValidationFailed
from schemas.events import ApproximateEvent, Event
from schemas.guarantee import BASIC_COMPOSITION_PROOF, Guarantee
from schemas.measures import Interval
from schemas.spec import Budget, ReleaseSpec
from schemas.sweep import Sweep, SweepPoint
from tasks import sweep_points
from tasks.audit import attack_auc
from tasks.ingest import ingest
from tasks.ledger import Ledger
from tasks.read_spec import read_spec
from tasks.reporting.sweep_page import attack_reading, sweep_html
from tasks.step import SilentObserver, observed_by
from tasks.sweep import latest_sweep, read_epsilons, refuse_sweep_id, settings_sha256, variants_of
from tasks.sweep_points import Rows, SweepRows, choose_rows, strongest_attack
from tests.factories import HEX, WHEN
from tests.projects import SPEC, changed, digits, write_project

BUDGET = Budget(epsilon=1.0, delta=1e-4)


def _interval(estimate: float, width: float = 0.05) -> Interval:
    ends = {"lower": max(0.0, estimate - width), "upper": min(1.0, estimate + width)}
    return Interval(estimate=estimate, confidence=0.95, method="Wilson", **ends)


def _sweep(**changes: Any) -> Sweep:
    points = [
        SweepPoint(
            epsilon=epsilon,
            record_epsilon=4 * epsilon,
            record_delta=4e-6,
            accuracy={"kahm": _interval(accuracy), "logistic": _interval(accuracy - 0.02)},
            attack_auc=_interval(area),
            attack="density-ratio",
        )
        for epsilon, accuracy, area in [(0.5, 0.34, 0.5), (2.0, 0.6, 0.53), (8.0, 0.9, 0.62)]
    ]
    fields: dict[str, Any] = {
        "sweep_id": "a",
        "dataset": "small-digits",
        "created_at": WHEN,
        "spec_sha256": HEX,
        "settings_sha256": "ef" * 32,
        "paid_by": "ledger",
        "rows": 105,
        "control_rows": 45,
        "unit": "element",
        "delta": 1e-6,
        "points": points,
        "real_accuracy": {"kahm": _interval(0.95), "logistic": _interval(0.93)},
        "majority_accuracy": 0.35,
    }
    return Sweep(**(fields | changes))


def _spec(folder: Path, spec: dict[str, Any] = SPEC) -> ReleaseSpec:
    return read_spec(write_project(folder, spec))


# Epsilons -----------------------------------------------------------------------------------------------------------


def test_epsilons_are_sorted() -> None:
    assert read_epsilons(" 8, 0.5,1e0 ") == [0.5, 1.0, 8.0]
    assert read_epsilons("3") == [3.0]
    assert len(read_epsilons(",".join(map(str, range(1, 51))))) == 50


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["'' is not a finite number of at least 1e-09"]),
        ("1,,2", ["'' is not"]),
        ("1,two,-3,0,inf,nan", ["'two'", "'-3'", "'0'", "'inf'", "'nan'"]),
        ("1,2,1.0", ["1 stands 2 times"]),
        (",".join(map(str, range(1, 52))), ["are 51, at most 50"]),
        ("1e-999,1e999", ["'1e-999'", "'1e999'"]),
    ],
)
def test_every_bad_epsilon_is_named(text: str, faults: list[str]) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_epsilons(text)
    for fault in faults:
        assert fault in str(refused.value)


def test_a_variant_is_the_spec_with_another_epsilon(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    first, second = variants_of(spec, [0.25, 8.0])
    assert (first.spec.privacy.epsilon, second.spec.privacy.epsilon) == (0.25, 8.0)
    back = first.spec.outcome_settings()
    back["privacy"]["epsilon"] = spec.privacy.epsilon
    assert back == spec.outcome_settings()
    assert first.mechanism.guarantees.element.epsilon == 0.25
    assert first.mechanism.guarantees.record.epsilon < second.mechanism.guarantees.record.epsilon


def test_epsilons_without_a_mechanism_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused) as refused:
        variants_of(_spec(tmp_path), [1.0, 1e5, 2e6])  # beyond the sampler, beyond the spec
    text = str(refused.value)
    assert "100000: " in text and "2e+06: " in text and "--epsilons: 1:" not in text and "Nothing was spent" in text


@pytest.mark.parametrize("sweep_id", ["", "A", "-a", "a" * 62, "a/b", "../a", "a\n"])
def test_ids_that_cannot_name_points_are_refused(sweep_id: str) -> None:
    with pytest.raises(RequestRefused, match="--sweep-id"):
        refuse_sweep_id(sweep_id)


def test_the_longest_id_can_name_points() -> None:
    refuse_sweep_id("a" * 61)


# Charges ------------------------------------------------------------------------------------------------------------


def _charge(epsilon: float, delta: float = 1e-5) -> tuple[Guarantee, list[Event]]:
    guarantee = Guarantee(
        unit="record", epsilon=epsilon, delta=delta, distance=1.0, neighbouring="replace_one_record",
        labels="public", proof=BASIC_COMPOSITION_PROOF,
    )  # fmt: skip
    return guarantee, [ApproximateEvent(epsilon=epsilon, delta=delta)]


def test_several_charges_are_made_at_once_or_not_at_all(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(BudgetRefused, match=r"3 runs cost .* the first 2 of them would fit"):
        ledger.reserve_all("a", {f"s-{i}": _charge(0.4) for i in (1, 2, 3)}, BUDGET, "b")
    assert ledger.entries() == []
    entries = ledger.reserve_all("a", {f"s-{i}": _charge(0.4) for i in (1, 2)}, BUDGET, "b")
    assert [(e.kind, e.release_id) for e in ledger.entries()] == [
        ("budget", None), ("reserve", "s-1"), ("reserve", "s-2"),
    ]  # fmt: skip
    assert entries == ledger.entries()[1:] and ledger.verify() == 3
    assert ledger.balance("a", BUDGET).spent_epsilon == pytest.approx(0.8, abs=0.01)
    with pytest.raises(BudgetRefused, match="the first 1 of them"):
        ledger.reserve_all("a", {"t-1": _charge(0.1), "t-2": _charge(0.2)}, BUDGET, "b")
    assert len(ledger.entries()) == 3


def test_a_charge_is_never_taken_over_by_another_sweep_or_release(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.reserve_all("a", {"s-1": _charge(0.1)}, BUDGET, "sweep")
    with pytest.raises(RequestRefused, match="knows a/s-1 already"):
        ledger.reserve_all("a", {"s-0": _charge(0.1), "s-1": _charge(0.1)}, BUDGET, "sweep")
    guarantee, events = _charge(0.1)
    with pytest.raises(RequestRefused, match="other parameters"):
        ledger.reserve("a", "s-1", guarantee, events, BUDGET, "release")
    assert len(ledger.entries()) == 2
    ledger.void("a", "s-1", "test")
    with pytest.raises(RequestRefused, match="knows a/s-1 already"):
        ledger.reserve_all("a", {"s-1": _charge(0.1)}, BUDGET, "sweep")


def test_another_budget_than_the_ledgers_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.reserve_all("a", {"s-1": _charge(0.1)}, BUDGET, "b")
    with pytest.raises(RequestRefused, match="the ledger holds epsilon 1"):
        ledger.reserve_all("a", {"t-1": _charge(0.1)}, Budget(epsilon=2.0, delta=1e-4), "b")


# Rows and attacks ---------------------------------------------------------------------------------------------------


def test_rows_are_those_of_a_release_and_each_is_taken_once(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    source = ingest(tmp_path / "source.csv", spec.table)
    rows = choose_rows(source, spec)
    assert (len(rows.members), len(rows.controls), rows.notes) == (105, 45, [])
    taken = np.concatenate([rows.members.features, rows.controls.features])
    everybody = Rows.of(next(source.pieces()), spec.table).features
    assert sorted(map(tuple, taken)) == sorted(map(tuple, everybody))
    assert np.array_equal(Rows.of(rows.frame, spec.table).features, rows.members.features)
    assert np.array_equal(choose_rows(source, spec).members.features, rows.members.features)  # the seed is public


def test_rows_are_capped_and_the_result_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _spec(tmp_path)
    source = ingest(tmp_path / "source.csv", spec.table)
    whole = choose_rows(source, spec)
    monkeypatch.setattr(sweep_points, "MOST_ROWS", 40)
    rows = choose_rows(source, spec)
    assert (len(rows.members), len(rows.controls)) == (40, 40)
    assert np.array_equal(rows.members.features, whole.members.features[:40])
    assert "at most 40 members" in rows.notes[0] and "of 105 and 45" in rows.notes[0]


def test_rows_are_found_across_pieces(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    source = ingest(tmp_path / "source.csv", spec.table)
    frame = next(source.pieces())
    pieces = [frame[:1], frame[1:70], frame[70:]]
    cut = replace(source, pieces=lambda: iter([piece.reset_index(drop=True) for piece in pieces]))
    asked = np.array([149, 0, 70, 69, 1])
    found = sweep_points._rows_at(cut, asked)
    pd.testing.assert_frame_equal(found.reset_index(drop=True), frame.iloc[asked].reset_index(drop=True))


def test_too_few_rows_for_an_aggregate_are_refused(tmp_path: Path) -> None:
    spec = read_spec(write_project(tmp_path, SPEC, digits(60)))
    with pytest.raises(ValidationFailed, match=r"60 rows give 42 members and 18 control rows.* at least 10 and 20"):
        choose_rows(ingest(tmp_path / "source.csv", spec.table), spec)


def _random_rows(random: np.random.Generator, n_rows: int) -> Rows:
    return Rows(random.normal(size=(n_rows, 4)), np.zeros(n_rows, dtype=np.int64))


def test_the_strongest_attack_convicts_copies_and_acquits_strangers() -> None:
    random = np.random.default_rng(3)
    members, controls = _random_rows(random, 300), _random_rows(random, 200)
    rows = SweepRows(pd.DataFrame(), members, controls)
    name, area = strongest_attack(members, rows)  # held as they are
    assert name == "distance-to-closest-record" and area.estimate > 0.99 and area.lower > 0.9
    _, area = strongest_attack(_random_rows(random, 300), rows)
    assert area.lower < 0.5 < area.upper
    assert area.confidence == 0.95 and "largest of 3 (Bonferroni)" in area.method
    plain = attack_auc([1.0] * 300, [1.0] * 100)  # an area of 0.5 among as many rows
    assert area.upper - area.lower > 1.15 * (plain.upper - plain.lower)  # 2.39 against 1.96 standard errors


def test_the_interval_of_the_strongest_attack_covers_a_coin_toss() -> None:
    """Members and strangers are alike, so every area is 0.5."""
    misses = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows = SweepRows(pd.DataFrame(), _random_rows(random, 60), _random_rows(random, 80))
        _, area = strongest_attack(_random_rows(random, 60), rows)
        misses += not area.lower <= 0.5 <= area.upper
    assert misses <= 9  # 5 % of 60 are 3; more than 9 come by chance once in 2000 times


# Files and the page -------------------------------------------------------------------------------------------------


class _Notes(SilentObserver):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def noted(self, text: str) -> None:
        self.texts.append(text)


def _kept(reports: Path, sweep: Sweep, folder: str | None = None) -> Path:
    path = reports / "small-digits" / (folder or sweep.sweep_id) / "sweep.json"
    path.parent.mkdir(parents=True)
    path.write_text(sweep.model_dump_json())
    return path


def test_the_latest_sweep_is_found_and_broken_ones_are_left_out(tmp_path: Path) -> None:
    spec = ReleaseSpec.model_validate(SPEC)
    own = {"settings_sha256": settings_sha256(spec)}
    assert latest_sweep(tmp_path, spec) is None
    newest = _sweep(sweep_id="b", created_at=WHEN + timedelta(days=1), **own)
    for sweep in [newest, _sweep(sweep_id="c", **own), _sweep(sweep_id="h", created_at=WHEN + timedelta(days=9))]:
        _kept(tmp_path, sweep)
    _kept(tmp_path, _sweep(sweep_id="d", created_at=WHEN + timedelta(days=2))).write_text("{")
    _kept(tmp_path, _sweep(sweep_id="e", created_at=WHEN + timedelta(days=3)), folder="f")
    _kept(tmp_path, _sweep(sweep_id="g", dataset="other", created_at=WHEN + timedelta(days=4)))
    notes = _Notes()
    with observed_by(notes):
        assert latest_sweep(tmp_path, spec) == newest  # h is of other settings
    assert len(notes.texts) == 3 and all(text.startswith("left out: ") for text in notes.texts)
    for place, value in [("privacy.epsilon", 7.0), ("privacy.budget", {"epsilon": 9.0, "delta": 1e-3})]:
        assert latest_sweep(tmp_path, ReleaseSpec.model_validate(changed(SPEC, place, value))) == newest
    for place, value in [("dataset", "unknown"), ("privacy.unit", "record"), ("privacy.delta", 1e-7)]:
        assert latest_sweep(tmp_path, ReleaseSpec.model_validate(changed(SPEC, place, value))) is None


def test_the_page_says_who_paid_and_what_the_curve_shows() -> None:
    page = sweep_html(_sweep(notes=["mind the gap"]))
    assert "INTERNAL." in page and "Charged to the data set" in page and "Mind the gap." in page
    assert page.count("<svg") == 2 and "<script" not in page and "None" not in page
    assert "From epsilon 2 on" in page  # 0.34 +- 0.05 reaches 0.35, 0.6 +- 0.05 does not
    assert "The whole interval lies above it at epsilon 8." in page
    assert page == sweep_html(_sweep(notes=["mind the gap"]))
    public = sweep_html(_sweep(paid_by="stand-in", unit="record"))
    assert "INTERNAL." not in public and "public table took the source" in public and "one whole row" in public


def test_the_page_of_a_single_useless_point() -> None:
    point = _sweep().points[0].model_copy(update={"accuracy": {}})
    page = sweep_html(_sweep(points=[point]))
    assert "No accuracy was computed." in page and "not computed" in page and page.count("<svg") == 1
    assert "At no epsilon does the interval lie above it." in attack_reading(_sweep(points=[point]))


def test_names_on_the_page_are_escaped() -> None:
    point = _sweep().points[0].model_copy(update={"attack": "<b>loud</b>"})
    page = sweep_html(_sweep(points=[point]))
    assert "<b>loud" not in page and "&lt;b&gt;loud" in page


def test_a_sweep_holds_no_infinite_number() -> None:
    with pytest.raises(ValueError, match="finite"):
        _sweep(delta=math.inf)
