"""The budget ledger: append-only, hash-chained, one writer at a time.

A data set's budget is at record level and holds over all its releases. A release is charged by `reserve` before noise
is drawn; from then on it counts as spent, published or not. Charges are added up (basic composition: valid, not
tight). Each entry's hash covers the entry before it, so an edited, removed or reordered entry is found by `verify`.
Cutting off the newest entries is not found by the chain alone; manifests hold the hash of their entry for that.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    inspect,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from schemas.errors import BudgetRefused, IntegrityFailed, RequestRefused
from schemas.guarantee import Guarantee
from schemas.ledger import Balance, EntryKind, LedgerEntry
from schemas.spec import Budget

_GENESIS = "0" * 64
_ROUNDING = 1e-9
"""Relative slack for adding charges in floating point: a budget of ten equal charges takes exactly ten."""

_metadata = MetaData()
_entries = Table(
    "entries",
    _metadata,
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("dataset", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("release_id", String),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("at", String, nullable=False),
    Column("previous_hash", String, nullable=False),
    Column("hash", String, nullable=False),
)


class Ledger:
    """The ledger in an SQLite file, which is created on the first write.

    Parameters
    ----------
    path : Path
        The SQLite file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def reserve(self, dataset: str, release_id: str, charge: Guarantee, budget: Budget) -> LedgerEntry:
        """Charge a release to its data set's budget; what is reserved counts as spent.

        Parameters
        ----------
        dataset, release_id : str
        charge : Guarantee
            The record-level guarantee of the release.
        budget : Budget
            The budget the spec states. The first release of a data set writes it down; later ones must agree.

        Returns
        -------
        LedgerEntry
            The `reserve` entry. If the release was charged before and the charge is the same, that entry.

        Raises
        ------
        BudgetRefused
            The charge does not fit what is left; nothing is written.
        RequestRefused
            The spec's budget is not the ledger's, or the release was charged differently before.
        """
        with self._writing() as connection:
            entries = self._read(connection, dataset)
            recorded = _budget(entries)
            if recorded is not None and recorded != budget:
                raise RequestRefused(
                    f"privacy.budget: the ledger holds epsilon {recorded.epsilon:g} and delta {recorded.delta:g} for "
                    f"data set {dataset}, the spec says epsilon {budget.epsilon:g} and delta {budget.delta:g}; "
                    "a budget holds over all releases, so write the ledger's into the spec"
                )
            for entry in _open_reservations(entries):
                if entry.release_id == release_id:
                    if (entry.epsilon, entry.delta) != (charge.epsilon, charge.delta):
                        raise RequestRefused(
                            f"release {dataset}/{release_id} was charged for other parameters; use another release id"
                        )
                    return entry
            balance = _balance(dataset, entries, budget)
            _refuse_overspending(balance, charge)
            if recorded is None:
                self._append(connection, dataset, "budget", None, budget.epsilon, budget.delta)
            return self._append(connection, dataset, "reserve", release_id, charge.epsilon, charge.delta)

    def commit(self, dataset: str, release_id: str) -> LedgerEntry:
        """Mark a reserved release as published; doing it again changes nothing.

        Raises
        ------
        IntegrityFailed
            The release was never reserved.
        """
        with self._writing() as connection:
            entries = self._read(connection, dataset)
            reserved = [e for e in _open_reservations(entries) if e.release_id == release_id]
            if not reserved:
                raise IntegrityFailed(f"ledger: release {dataset}/{release_id} was never charged; do not publish it")
            committed = [e for e in entries if e.kind == "commit" and e.release_id == release_id]
            if committed:
                return committed[0]
            charge = reserved[0]
            return self._append(connection, dataset, "commit", release_id, charge.epsilon, charge.delta)

    def entries(self, dataset: str | None = None) -> list[LedgerEntry]:
        """All entries in order, or those of one data set; empty if there is no ledger yet."""
        if not self.path.exists():
            return []
        with self._connected("BEGIN") as connection:
            written = inspect(connection).has_table(_entries.name)
            return self._read(connection, dataset) if written else []

    def balance(self, dataset: str, budget: Budget) -> Balance:
        """What a data set has spent and has left; `budget` holds where the ledger does not know the data set yet."""
        entries = self.entries(dataset)
        return _balance(dataset, entries, _budget(entries) or budget)

    def balances(self) -> list[Balance]:
        """The balance of every data set in the ledger."""
        entries = self.entries()
        return [
            _balance(dataset, own, budget)
            for dataset in dict.fromkeys(entry.dataset for entry in entries)
            if (budget := _budget(own := [e for e in entries if e.dataset == dataset])) is not None
        ]

    def verify(self) -> int:
        """Check the chain of hashes and return the number of entries.

        Raises
        ------
        IntegrityFailed
            An entry was changed, removed, inserted or moved; the text names the first one that does not fit.
        """
        previous = _GENESIS
        entries = self.entries()
        for position, entry in enumerate(entries, start=1):
            if entry.sequence != position:
                raise IntegrityFailed(f"ledger: entry {position} is missing; the next one is {entry.sequence}")
            if entry.previous_hash != previous:
                raise IntegrityFailed(f"ledger: entry {position} does not follow entry {position - 1}")
            if entry.hash != _hash(entry.model_dump(mode="json", exclude={"hash"})):
                raise IntegrityFailed(f"ledger: entry {position} was changed after it was written")
            previous = entry.hash
        return len(entries)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A connection that holds the write lock from its first read to its commit."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestRefused(f"{self.path}: the ledger cannot be created ({error.strerror})") from None
        with self._connected("BEGIN IMMEDIATE") as connection:
            _metadata.create_all(connection)
            yield connection

    @contextmanager
    def _connected(self, begin: str) -> Iterator[Connection]:
        """A connection in one transaction, committed at the end if nothing was raised."""
        engine = create_engine(f"sqlite:///{self.path}", connect_args={"timeout": 60})
        event.listen(engine, "connect", _sqlite_connected)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        try:
            with engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise IntegrityFailed(
                f"{self.path}: the ledger cannot be read or written ({type(error).__name__}); is it a ledger, and may "
                "you write to it?"
            ) from None
        finally:
            engine.dispose()

    @staticmethod
    def _read(connection: Connection, dataset: str | None) -> list[LedgerEntry]:
        query = select(_entries).order_by(_entries.c.sequence)
        if dataset is not None:
            query = query.where(_entries.c.dataset == dataset)
        return [LedgerEntry.model_validate(dict(row._mapping)) for row in connection.execute(query)]

    @staticmethod
    def _append(
        connection: Connection,
        dataset: str,
        kind: EntryKind,
        release_id: str | None,
        epsilon: float,
        delta: float,
    ) -> LedgerEntry:
        last = connection.execute(select(_entries).order_by(_entries.c.sequence.desc()).limit(1)).mappings().first()
        content: dict[str, Any] = {
            "sequence": last["sequence"] + 1 if last else 1,
            "dataset": dataset,
            "kind": kind,
            "release_id": release_id,
            "epsilon": epsilon,
            "delta": delta,
            "at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "previous_hash": last["hash"] if last else _GENESIS,
        }
        content = LedgerEntry(**content, hash="").model_dump(mode="json", exclude={"hash"})
        content["hash"] = _hash(content)
        connection.execute(_entries.insert().values(**content))
        return LedgerEntry.model_validate(content)


def _sqlite_connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself
    connection.execute("PRAGMA synchronous = FULL")


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _budget(entries: list[LedgerEntry]) -> Budget | None:
    stated = [entry for entry in entries if entry.kind == "budget"]
    return Budget(epsilon=stated[-1].epsilon, delta=stated[-1].delta) if stated else None


def _open_reservations(entries: list[LedgerEntry]) -> list[LedgerEntry]:
    void = {entry.release_id for entry in entries if entry.kind == "void"}
    return [entry for entry in entries if entry.kind == "reserve" and entry.release_id not in void]


def _balance(dataset: str, entries: list[LedgerEntry], budget: Budget) -> Balance:
    charges = _open_reservations(entries)
    epsilon, delta = math.fsum(e.epsilon for e in charges), math.fsum(e.delta for e in charges)
    return Balance(
        dataset=dataset,
        budget=budget,
        spent_epsilon=epsilon,
        spent_delta=delta,
        remaining_epsilon=max(0.0, budget.epsilon - epsilon),
        remaining_delta=max(0.0, budget.delta - delta),
        releases=len(charges),
    )


def fits(balance: Balance, charge: Guarantee) -> bool:
    """Whether a charge fits what is left, up to rounding of sums."""
    return balance.spent_epsilon + charge.epsilon <= balance.budget.epsilon * (
        1 + _ROUNDING
    ) and balance.spent_delta + charge.delta <= balance.budget.delta * (1 + _ROUNDING)


def _refuse_overspending(balance: Balance, charge: Guarantee) -> None:
    if fits(balance, charge):
        return
    share = min(
        balance.remaining_epsilon / charge.epsilon,
        balance.remaining_delta / charge.delta if charge.delta else math.inf,
    )
    factor = math.floor(share * 1000 + 1e-6) / 1000
    fitting = (
        f"the same release with epsilon and delta multiplied by at most {factor:g} would fit"
        if share >= 0.001
        else "ask the data's steward; a budget is never raised by a release"
    )
    raise BudgetRefused(
        f"data set {balance.dataset}: this release costs epsilon {charge.epsilon:.6g} and delta {charge.delta:.3g} "
        f"at record level; {balance.remaining_epsilon:.6g} and {balance.remaining_delta:.3g} of "
        f"{balance.budget.epsilon:g} and {balance.budget.delta:g} are left. Nothing was spent; {fitting}"
    )
