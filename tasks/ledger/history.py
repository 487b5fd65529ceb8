"""How a data set's budget was spent over time: `fabrica ledger show` as it would have answered after each entry."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from schemas.ledger import EntryKind, LedgerEntry
from tasks.ledger.ledger import _balance, _budget

MOST_POINTS = 24
"""Points of a history that are computed: composing many different charges takes up to half a second."""

_CHANGES: frozenset[EntryKind] = frozenset({"budget", "reserve", "void"})


@dataclass(frozen=True)
class BudgetSet:
    """A budget, and since when it holds."""

    at: datetime
    epsilon: float
    delta: float


@dataclass(frozen=True)
class BudgetPoint:
    """What was spent after one entry of the ledger."""

    at: datetime
    epsilon_spent: float | None
    """By tight composition of everything charged, at the delta of the budget that held then; `None` if no finite
    epsilon goes with it."""
    delta_spent: float
    """The same at that budget's epsilon."""
    releases: int
    """Releases charged, without the voided ones."""
    kind: EntryKind
    release_id: str | None
    """`None` where the entry sets a budget."""


@dataclass(frozen=True)
class BudgetHistory:
    """A data set's budget and what was spent of it; the last point is what `fabrica ledger show` says."""

    dataset: str
    budgets: tuple[BudgetSet, ...]
    """Oldest first, at least one; the last one holds."""
    points: tuple[BudgetPoint, ...]
    """Oldest first, at least one."""
    changes: int
    """Entries that changed what is spent or left; more than there are points where some were passed over."""

    @property
    def epsilon_budget(self) -> float:
        """Epsilon of the budget that holds."""
        return self.budgets[-1].epsilon

    @property
    def delta_budget(self) -> float:
        """Delta of the budget that holds."""
        return self.budgets[-1].delta


def budget_histories(entries: Iterable[LedgerEntry], most_points: int = MOST_POINTS) -> list[BudgetHistory]:
    """The history of every data set that has a budget, in the order in which the ledger came to know them.

    Parameters
    ----------
    entries : iterable of LedgerEntry
        In the ledger's order, as `Ledger.entries` gives them.
    most_points : int, default=24
        At least 2. Where more entries changed a budget, so many are taken at even distances, the last one always.

    Returns
    -------
    list of BudgetHistory

    Raises
    ------
    ValueError
        If `most_points` is below 2.

    Notes
    -----
    Costs one composition in epsilon and one in delta for each point: a millisecond where all charges run the same
    noise, up to half a second for sixty charges that all differ.
    """
    if most_points < 2:
        raise ValueError(f"most_points must be at least 2, got {most_points=}")
    by_dataset: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        by_dataset.setdefault(entry.dataset, []).append(entry)
    return [history for dataset, own in by_dataset.items() if (history := _history(dataset, own, most_points))]


def _history(dataset: str, entries: list[LedgerEntry], most_points: int) -> BudgetHistory | None:
    budgets = tuple(BudgetSet(e.at, e.epsilon, e.delta) for e in entries if e.kind == "budget")
    if not budgets:
        return None
    first = next(i for i, entry in enumerate(entries) if entry.kind == "budget")
    changes = [i for i, entry in enumerate(entries) if i >= first and entry.kind in _CHANGES]
    taken = sorted(set(np.linspace(0, len(changes) - 1, min(most_points, len(changes))).round().astype(int).tolist()))
    return BudgetHistory(
        dataset, budgets, tuple(_point(dataset, entries[: changes[i] + 1]) for i in taken), len(changes)
    )


def _point(dataset: str, entries: list[LedgerEntry]) -> BudgetPoint:
    budget = _budget(entries)
    assert budget is not None
    balance = _balance(dataset, entries, budget)
    last = entries[-1]
    return BudgetPoint(
        at=last.at,
        epsilon_spent=balance.spent_epsilon,
        delta_spent=balance.spent_delta,
        releases=balance.releases,
        kind=last.kind,
        release_id=last.release_id,
    )
