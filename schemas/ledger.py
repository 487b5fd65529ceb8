"""Ledger entries: the append-only record of what was reserved and spent."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.spec import Budget

EntryKind = Literal["budget", "reserve", "commit", "void"]


class LedgerEntry(Model):
    """One line of the ledger; its hash covers its content and the hash of the line before."""

    sequence: int = Field(ge=1)
    dataset: str
    kind: EntryKind
    """`budget` sets a data set's budget, `reserve` charges a release, `commit` marks it published, `void` takes a
    charge back when provably no noise was kept."""
    release_id: str | None
    epsilon: float
    delta: float
    """Record level: the budget of a `budget` entry, the charge of the others."""
    at: datetime
    previous_hash: str
    hash: str


class Balance(Model):
    """What a data set's budget is, and what is left of it by basic composition."""

    dataset: str
    budget: Budget
    spent_epsilon: float
    spent_delta: float
    remaining_epsilon: float
    remaining_delta: float
    releases: int
    """Releases charged, published or not."""
