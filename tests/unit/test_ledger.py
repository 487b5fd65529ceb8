"""The ledger: charges before noise, refuses over-spending, finds every tampering, survives races."""

import multiprocessing
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.errors import BudgetRefused, IntegrityFailed, RequestRefused
from schemas.guarantee import BASIC_COMPOSITION_PROOF, Guarantee
from schemas.spec import Budget
from tasks.ledger import Ledger

BUDGET = Budget(epsilon=1.0, delta=1e-4)


def _charge(epsilon: float, delta: float = 1e-5) -> Guarantee:
    return Guarantee(
        unit="record", epsilon=epsilon, delta=delta, distance=1.0, neighbouring="replace_one_record",
        labels="public", proof=BASIC_COMPOSITION_PROOF,
    )  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "data" / "ledger.sqlite")


def test_ten_tenths_fit_and_the_eleventh_does_not(ledger: Ledger) -> None:
    for number in range(10):
        ledger.reserve("a", f"r{number}", _charge(0.1), BUDGET)
    with pytest.raises(BudgetRefused, match=r"0 and 0 of 1 and 0.0001 are left"):
        ledger.reserve("a", "r10", _charge(0.1), BUDGET)
    assert len(ledger.entries()) == 11
    assert ledger.balance("a", BUDGET).spent_epsilon == pytest.approx(1.0)


def test_delta_alone_can_refuse(ledger: Ledger) -> None:
    with pytest.raises(BudgetRefused, match=r"multiplied by at most 0.5 would fit"):
        ledger.reserve("a", "r", _charge(0.1, 2e-4), BUDGET)
    assert ledger.entries() == []


def test_the_same_release_is_charged_once(ledger: Ledger) -> None:
    first = ledger.reserve("a", "r", _charge(0.6), BUDGET)
    assert ledger.reserve("a", "r", _charge(0.6), BUDGET) == first
    with pytest.raises(RequestRefused, match=r"charged for other parameters"):
        ledger.reserve("a", "r", _charge(0.1), BUDGET)
    assert len(ledger.entries()) == 2


def test_data_sets_have_budgets_of_their_own(ledger: Ledger) -> None:
    ledger.reserve("a", "r", _charge(1.0), BUDGET)
    ledger.reserve("b", "r", _charge(1.0), BUDGET)
    assert [balance.remaining_epsilon for balance in ledger.balances()] == [0.0, 0.0]


def test_a_spec_cannot_raise_its_budget(ledger: Ledger) -> None:
    ledger.reserve("a", "r", _charge(1.0), BUDGET)
    with pytest.raises(RequestRefused, match=r"the ledger holds epsilon 1 and delta 0.0001"):
        ledger.reserve("a", "s", _charge(1.0), Budget(epsilon=100.0, delta=1e-4))


def test_commit_needs_a_reservation_and_is_done_once(ledger: Ledger) -> None:
    with pytest.raises(IntegrityFailed, match=r"never charged"):
        ledger.commit("a", "r")
    ledger.reserve("a", "r", _charge(0.5), BUDGET)
    assert ledger.commit("a", "r") == ledger.commit("a", "r")
    assert [entry.kind for entry in ledger.entries()] == ["budget", "reserve", "commit"]


_COPY = "SELECT 6, dataset, kind, release_id, epsilon, delta, at, hash, hash FROM entries WHERE sequence = 5"
_MOVE = "UPDATE entries SET sequence = {} WHERE sequence = {}"
TAMPERINGS = {
    "edited": "UPDATE entries SET epsilon = 0.01 WHERE sequence = 2",
    "release renamed": "UPDATE entries SET release_id = 'x' WHERE sequence = 3",
    "removed": "DELETE FROM entries WHERE sequence = 2",
    "removed and renumbered": "DELETE FROM entries WHERE sequence = 2;"
    + ";".join(_MOVE.format(number - 1, number) for number in (3, 4, 5)),
    "first removed": "DELETE FROM entries WHERE sequence = 1",
    "inserted": f"INSERT INTO entries {_COPY}",
    "swapped": ";".join([_MOVE.format(9, 2), _MOVE.format(2, 3), _MOVE.format(3, 9)]),
}


@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=TAMPERINGS)
def test_verify_names_a_tampered_entry(ledger: Ledger, statements: str) -> None:
    for number in range(4):
        ledger.reserve("a", f"r{number}", _charge(0.1), BUDGET)
    assert ledger.verify() == 5
    with sqlite3.connect(ledger.path) as connection:
        connection.executescript(statements)
    connection.close()
    with pytest.raises(IntegrityFailed, match=r"ledger: entry [1-6] "):
        ledger.verify()


def test_a_file_that_is_no_ledger(ledger: Ledger) -> None:
    ledger.path.parent.mkdir(parents=True)
    ledger.path.write_text("not a database, but long enough to look at" * 40)
    actions: list[Callable[[], object]] = [ledger.entries, lambda: ledger.reserve("a", "r", _charge(0.1), BUDGET)]
    for action in actions:
        with pytest.raises(IntegrityFailed, match=r"cannot be read or written"):
            action()


def _race(path: Path, number: int) -> bool:
    try:
        Ledger(path).reserve("a", f"r{number}", _charge(0.1), BUDGET)
    except BudgetRefused:
        return False
    return True


def test_processes_that_race_never_overspend(ledger: Ledger) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        granted = pool.starmap(_race, [(ledger.path, number) for number in range(24)])
    assert sum(granted) == 10
    assert ledger.verify() == 11
