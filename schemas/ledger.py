"""Ledger entries: the append-only record of what was reserved and spent."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.events import Event
from schemas.spec import Budget

EntryKind = Literal["budget", "reserve", "draw", "commit", "void"]


class LedgerEntry(Model):
    """One line of the ledger; its hash covers its content and the hash of the line before."""

    sequence: int = Field(ge=1)
    dataset: str
    kind: EntryKind
    """`budget` sets a data set's budget, `reserve` charges a release, `draw` tells that its noise exists from now on,
    `commit` marks it published, `void` takes a charge back because its noise was never kept."""
    release_id: str | None
    epsilon: float
    delta: float
    """Record level: the budget of a `budget` entry, the charge's stated guarantee of the others."""
    events: list[Event] = Field(default_factory=list)
    """What a `reserve` entry charges for; the budget is checked against the composition of these."""
    binding: str = ""
    """`reserve`: digest of the spec and the source that it is for; the charge buys nothing else. `commit`: SHA-256 of
    the release's SHA256SUMS, so that the ledger vouches for every file of it."""
    reason: str = ""
    """Why a steward set a budget or voided a charge."""
    nonce: str = ""
    """256 random bits. The hash is published in manifests, and the binding is a function of the source: without
    these bits anybody could try out sources until the hash fits."""
    at: datetime
    previous_hash: str
    hash: str


class Balance(Model):
    """What a data set's budget is, and what is left of it, by tight composition of everything charged."""

    dataset: str
    budget: Budget
    spent_epsilon: float | None
    """Epsilon of everything charged, at the budget's delta; `null` if no epsilon goes with that delta."""
    spent_delta: float
    """Delta of everything charged, at the budget's epsilon."""
    remaining_epsilon: float
    """Budget less spent. Composition is not a sum: a release of somewhat more may fit."""
    remaining_delta: float
    releases: int
    """Releases charged, published or not, without the voided ones."""
