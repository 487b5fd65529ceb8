"""The budget ledger: what each data set may spend over all its releases, and what was charged.

A data set's budget is at record level. A release is charged by `reserve` before noise is drawn; from then on it counts
as spent, published or not, until a steward voids it because provably no noise was kept. Charges compose tightly: what
is compared with the budget is the (epsilon, delta) of everything together, never looser than the plain sum.
"""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from schemas.errors import BudgetRefused, IntegrityFailed, RequestRefused
from schemas.events import ApproximateEvent, Event
from schemas.guarantee import Guarantee
from schemas.ledger import Balance, EntryKind, LedgerEntry
from schemas.plan import MOST_RELEASES_COUNTED
from schemas.spec import Budget
from tasks.ledger.chain import next_entry, read_chain
from tasks.ledger.database import Database, Writer

_ROUNDING = 1e-9
"""Relative slack for sums in floating point: a budget of ten equal charges takes exactly ten."""


class Ledger:
    """The ledger in an SQLite file or a PostgreSQL database, which is created on the first write.

    Parameters
    ----------
    place : Path or str
        An SQLite file, or the URL of a PostgreSQL database.
    """

    def __init__(self, place: Path | str) -> None:
        self._database = Database(place)

    @classmethod
    def of(cls, path: Path) -> "Ledger":
        """The ledger that `FABRICA_LEDGER_URL` names, or else the one in the file `path`."""
        return cls(os.environ.get("FABRICA_LEDGER_URL") or path)

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self._database.name

    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        return self._database.exists()

    def entries(self, dataset: str | None = None) -> list[LedgerEntry]:
        """All entries in order, or those of one data set; empty if there is no ledger yet.

        Raises
        ------
        IntegrityFailed
            An entry was changed, removed, inserted or moved.
        """
        entries = read_chain(self._database.rows())
        return entries if dataset is None else [entry for entry in entries if entry.dataset == dataset]

    def verify(self) -> int:
        """Check the whole chain and return the number of entries; raises as `entries` does."""
        return len(self.entries())

    def set_budget(self, dataset: str, budget: Budget, reason: str) -> LedgerEntry:
        """A steward's decision: from now on the data set has this budget, for all its releases, past ones included."""
        with self._database.writing() as writer:
            return _append(writer, dataset, "budget", None, budget.epsilon, budget.delta, reason=reason)

    def reserve(
        self,
        dataset: str,
        release_id: str,
        charge: Guarantee,
        events: Sequence[Event],
        budget: Budget,
        binding: str = "",
    ) -> LedgerEntry:
        """Charge a release to its data set's budget; what is reserved counts as spent.

        Parameters
        ----------
        dataset, release_id : str
        charge : Guarantee
            The record-level guarantee that the release states.
        events : sequence of Event
            What will be run on one record; these are composed with everything charged before.
        budget : Budget
            The budget the spec states. The first release of a data set writes it down; later ones must agree.
        binding : str
            Digest of the spec and the source that the charge is for.

        Returns
        -------
        LedgerEntry
            The `reserve` entry. If the release was charged before for the same and is not published, that entry.

        Raises
        ------
        BudgetRefused
            The charge does not fit what is left; nothing is written.
        RequestRefused
            The spec's budget is not the ledger's, or the release was charged differently before.
        """
        with self._database.writing() as writer:
            entries = [entry for entry in read_chain(writer.rows()) if entry.dataset == dataset]
            recorded = _agreed_budget(dataset, entries, budget)
            charged = _charged(entries)
            if release_id in charged:
                entry = charged[release_id]
                if any(e.kind == "commit" and e.release_id == release_id for e in entries):
                    raise RequestRefused(f"release {dataset}/{release_id} is published already; use another release id")
                if list(entry.events) != list(events) or entry.binding != binding:
                    raise RequestRefused(
                        f"release {dataset}/{release_id} was charged for other parameters; use another release id"
                    )
                return entry
            if _fits([*_events(entries), *events], budget):
                if recorded is None:
                    _append(writer, dataset, "budget", None, budget.epsilon, budget.delta)
                return _append(
                    writer, dataset, "reserve", release_id, charge.epsilon, charge.delta, events=events, binding=binding
                )
        raise BudgetRefused(_refusal(dataset, entries, charge, budget))  # others need not wait for its text

    def reserve_all(
        self,
        dataset: str,
        charges: Mapping[str, tuple[Guarantee, Sequence[Event]]],
        budget: Budget,
        binding: str,
    ) -> list[LedgerEntry]:
        """Charge several runs of a data set in one decision: all of them or none.

        Parameters
        ----------
        dataset : str
        charges : mapping of release id to (Guarantee, sequence of Event)
            What each states and runs on one record, as for `reserve`.
        budget : Budget
            As for `reserve`.
        binding : str
            Digest of what the charges are for.

        Returns
        -------
        list of LedgerEntry
            The `reserve` entries, in the order of `charges`.

        Raises
        ------
        BudgetRefused
            Together they do not fit what is left; nothing is written.
        RequestRefused
            The spec's budget is not the ledger's, or the ledger knows one of the ids already.
        """
        with self._database.writing() as writer:
            entries = [entry for entry in read_chain(writer.rows()) if entry.dataset == dataset]
            recorded = _agreed_budget(dataset, entries, budget)
            known = {entry.release_id for entry in entries}
            if taken := [release_id for release_id in charges if release_id in known]:
                raise RequestRefused(
                    f"the ledger knows {dataset}/{taken[0]} already; use another id. Nothing was spent"
                )
            if _fits([*_events(entries), *(event for _, events in charges.values() for event in events)], budget):
                if recorded is None:
                    _append(writer, dataset, "budget", None, budget.epsilon, budget.delta)
                return [
                    _append(
                        writer, dataset, "reserve", own, charge.epsilon, charge.delta, events=events, binding=binding
                    )
                    for own, (charge, events) in charges.items()
                ]
        raise BudgetRefused(_refusal_of_all(dataset, entries, [events for _, events in charges.values()], budget))

    def draw(self, dataset: str, release_id: str) -> LedgerEntry:
        """Tell that a release's noise exists from now on. It can happen once for a charge, so noise is drawn once.

        Raises
        ------
        IntegrityFailed
            The release is not charged, or its noise was drawn before.
        """
        with self._database.writing() as writer:
            entries = [entry for entry in read_chain(writer.rows()) if entry.dataset == dataset]
            charge = _charged(entries).get(release_id)
            if charge is None:
                raise IntegrityFailed(f"ledger: release {dataset}/{release_id} is not charged; no noise may be drawn")
            if _marked("draw", entries, charge):
                raise IntegrityFailed(
                    f"ledger: noise was drawn before for release {dataset}/{release_id}, but is not in staging; it is "
                    "never drawn twice for the same cells. The charge stays; start a new release, and remove what is "
                    "left of this one in staging"
                )
            return _append(writer, dataset, "draw", release_id, charge.epsilon, charge.delta)

    def commit(self, dataset: str, release_id: str, content: str) -> LedgerEntry:
        """Mark a reserved release as published; doing it again changes nothing.

        Parameters
        ----------
        dataset, release_id : str
        content : str
            SHA-256 of the release's checksum file, so that the ledger vouches for every file of it.

        Raises
        ------
        IntegrityFailed
            The release is not charged.
        """
        with self._database.writing() as writer:
            entries = [entry for entry in read_chain(writer.rows()) if entry.dataset == dataset]
            charge = _charged(entries).get(release_id)
            if charge is None:
                raise IntegrityFailed(f"ledger: release {dataset}/{release_id} is not charged; do not publish it")
            for entry in entries:
                if entry.kind == "commit" and entry.release_id == release_id:
                    return entry
            return _append(writer, dataset, "commit", release_id, charge.epsilon, charge.delta, binding=content)

    def void(self, dataset: str, release_id: str, reason: str) -> LedgerEntry:
        """Take a charge back. The caller has made sure that no noise of it was kept anywhere.

        Raises
        ------
        RequestRefused
            The release is not charged, its noise was drawn, or it is published.
        """
        with self._database.writing() as writer:
            entries = [entry for entry in read_chain(writer.rows()) if entry.dataset == dataset]
            charge = _charged(entries).get(release_id)
            if charge is None:
                raise RequestRefused(f"ledger: release {dataset}/{release_id} is not charged, so nothing can be voided")
            if _marked("commit", entries, charge):
                raise RequestRefused(f"ledger: release {dataset}/{release_id} is published; its charge stays")
            if _marked("draw", entries, charge):
                raise RequestRefused(f"ledger: noise was drawn for release {dataset}/{release_id}; its charge stays")
            return _append(writer, dataset, "void", release_id, charge.epsilon, charge.delta, reason=reason)

    def is_published(self, dataset: str, release_id: str) -> bool:
        """Whether a release was ever published, wherever its folder is now."""
        return any(e.kind == "commit" and e.release_id == release_id for e in self.entries(dataset))

    def is_charged(self, dataset: str, release_id: str) -> bool:
        """Whether a release holds a charge."""
        return release_id in _charged(self.entries(dataset))

    def is_drawn(self, dataset: str, release_id: str) -> bool:
        """Whether the noise of a charged release was drawn."""
        entries = self.entries(dataset)
        charge = _charged(entries).get(release_id)
        return charge is not None and _marked("draw", entries, charge)

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

    def releases_left(self, dataset: str, events: Sequence[Event], budget: Budget) -> int:
        """How many more releases that each run `events` fit what the data set has left, counted up to 1000."""
        entries = self.entries(dataset)
        spent, held = _events(entries), _budget(entries) or budget
        fitting, refused = 0, MOST_RELEASES_COUNTED + 1
        step = 1
        while refused - fitting > 1:
            number = min(fitting + step, refused - 1)
            repeated = [event.model_copy(update={"count": event.count * number}) for event in events]
            if _fits([*spent, *repeated], held):
                fitting, step = number, 2 * step
            else:
                refused, step = number, max(1, (number - fitting) // 2)
        return fitting


def _append(
    writer: Writer,
    dataset: str,
    kind: EntryKind,
    release_id: str | None,
    epsilon: float,
    delta: float,
    *,
    events: Sequence[Event] = (),
    binding: str = "",
    reason: str = "",
) -> LedgerEntry:
    entries = read_chain(writer.rows())
    entry, content = next_entry(
        entries[-1] if entries else None,
        dataset=dataset,
        kind=kind,
        release_id=release_id,
        epsilon=epsilon,
        delta=delta,
        events=list(events),
        binding=binding,
        reason=reason,
    )
    writer.append(entry.sequence, content, entry.hash)
    return entry


def _budget(entries: Sequence[LedgerEntry]) -> Budget | None:
    stated = [entry for entry in entries if entry.kind == "budget"]
    return Budget(epsilon=stated[-1].epsilon, delta=stated[-1].delta) if stated else None


def _agreed_budget(dataset: str, entries: Sequence[LedgerEntry], budget: Budget) -> Budget | None:
    """The budget that the ledger holds, if any; refuses a spec that states another."""
    recorded = _budget(entries)
    if recorded is not None and recorded != budget:
        raise RequestRefused(
            f"privacy.budget: the ledger holds epsilon {recorded.epsilon:g} and delta {recorded.delta:g} for "
            f"data set {dataset}, the spec says epsilon {budget.epsilon:g} and delta {budget.delta:g}; a "
            "budget holds over all releases: write the ledger's into the spec, or change it with "
            "`fabrica ledger set-budget`"
        )
    return recorded


def _charged(entries: Sequence[LedgerEntry]) -> dict[str, LedgerEntry]:
    """The charges that stand, by release: reserved and not voided since."""
    charged: dict[str, LedgerEntry] = {}
    for entry in entries:
        if entry.kind == "reserve" and entry.release_id is not None:
            charged[entry.release_id] = entry
        elif entry.kind == "void" and entry.release_id is not None:
            charged.pop(entry.release_id, None)
    return charged


def _marked(kind: EntryKind, entries: Sequence[LedgerEntry], charge: LedgerEntry) -> bool:
    """Whether there is an entry of that kind for a charge."""
    return any(e.kind == kind and e.release_id == charge.release_id and e.sequence > charge.sequence for e in entries)


def _events(entries: Sequence[LedgerEntry]) -> list[Event]:
    return [event for entry in _charged(entries).values() for event in entry.events]


def _fits(events: Sequence[Event], budget: Budget) -> bool:
    from tasks.accounting.composition import basic_delta, composed_delta

    epsilon, delta = budget.epsilon * (1 + _ROUNDING), budget.delta * (1 + _ROUNDING)
    return basic_delta(events, epsilon) <= delta or composed_delta(events, epsilon) <= delta


def _balance(dataset: str, entries: Sequence[LedgerEntry], budget: Budget) -> Balance:
    from tasks.accounting.composition import composed_delta, composed_epsilon

    events = _events(entries)
    epsilon = composed_epsilon(events, budget.delta) if events else 0.0
    delta = composed_delta(events, budget.epsilon) if events else 0.0
    return Balance(
        dataset=dataset,
        budget=budget,
        spent_epsilon=epsilon if math.isfinite(epsilon) else None,
        spent_delta=delta,
        remaining_epsilon=max(0.0, budget.epsilon - epsilon),
        remaining_delta=max(0.0, budget.delta - delta),
        releases=len(_charged(entries)),
    )


def _refusal(dataset: str, entries: Sequence[LedgerEntry], charge: Guarantee, budget: Budget) -> str:
    balance = _balance(dataset, entries, budget)
    fitting = _largest_fitting(_events(entries), charge, budget)
    advice = (
        f"a release of epsilon {_down(fitting[0])} and delta {_down(fitting[1])} at record level would fit"
        if fitting
        else "nothing of its kind fits any more; ask the data's steward"
    )
    return (
        f"data set {dataset}: this release costs epsilon {charge.epsilon:.6g} and delta {charge.delta:.3g} at record "
        f"level; {balance.remaining_epsilon:.6g} and {balance.remaining_delta:.3g} of {budget.epsilon:g} and "
        f"{budget.delta:g} are left. Nothing was spent; {advice}"
    )


def _refusal_of_all(
    dataset: str, entries: Sequence[LedgerEntry], asked: Sequence[Sequence[Event]], budget: Budget
) -> str:
    from tasks.accounting.composition import composed_epsilon

    balance, spent = _balance(dataset, entries, budget), _events(entries)
    cost = composed_epsilon([event for events in asked for event in events], budget.delta)
    fitting = 0
    while fitting < len(asked) and _fits([*spent, *(e for events in asked[: fitting + 1] for e in events)], budget):
        fitting += 1
    together = f"epsilon {cost:.6g} at delta {budget.delta:.3g}" if math.isfinite(cost) else "more than any epsilon"
    return (
        f"data set {dataset}: {len(asked)} runs cost {together} at record level together; "
        f"{balance.remaining_epsilon:.6g} and {balance.remaining_delta:.3g} of {budget.epsilon:g} and "
        f"{budget.delta:g} are left. Nothing was spent; the first {fitting} of them would fit"
    )


def _largest_fitting(events: Sequence[Event], charge: Guarantee, budget: Budget) -> tuple[float, float] | None:
    """The largest share of a charge, epsilon and delta alike, that would still fit, to three digits, rounded down."""
    fitting, refused = 0.0, 1.0
    for _ in range(12):
        share = (fitting + refused) / 2
        event = ApproximateEvent(epsilon=share * charge.epsilon, delta=min(share * charge.delta, 0.999))
        fitting, refused = (share, refused) if _fits([*events, event], budget) else (fitting, share)
    return (fitting * charge.epsilon, fitting * charge.delta) if fitting > 0.001 else None


def _down(number: float) -> str:
    """Three significant digits, rounded down."""
    if number <= 0:
        return "0"
    place = 10.0 ** (2 - math.floor(math.log10(number)))
    return f"{math.floor(number * place) / place:.6g}"
