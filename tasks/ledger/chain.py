"""The hash chain: each entry's hash covers its content and the hash of the entry before.

An edited, removed, inserted or moved entry breaks the chain. Cutting off the newest entries does not; the manifests of
published releases hold the hash of their entry for that.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from schemas.errors import IntegrityFailed
from schemas.ledger import LedgerEntry

_GENESIS = "0" * 64


def next_entry(last: LedgerEntry | None, **content: Any) -> tuple[LedgerEntry, str]:
    """The entry that follows `last`, and its content as it is kept and hashed."""
    entry = LedgerEntry(
        sequence=last.sequence + 1 if last else 1,
        nonce=secrets.token_hex(32),
        at=datetime.now(UTC),
        previous_hash=last.hash if last else _GENESIS,
        hash="",
        **content,
    )
    text = json.dumps(entry.model_dump(mode="json", exclude={"hash"}), sort_keys=True, separators=(",", ":"))
    return entry.model_copy(update={"hash": _hash(text)}), text


def read_chain(rows: Sequence[tuple[int, str, str]]) -> list[LedgerEntry]:
    """The entries of a ledger, each checked against the one before.

    Parameters
    ----------
    rows : sequence of (sequence, content, hash)
        In order.

    Raises
    ------
    IntegrityFailed
        An entry was changed, removed, inserted or moved; the text names the first one that does not fit.
    """
    entries: list[LedgerEntry] = []
    previous = _GENESIS
    for position, (sequence, content, line_hash) in enumerate(rows, start=1):
        if sequence != position:
            raise IntegrityFailed(f"ledger: entry {position} is missing; the next one is {sequence}")
        if _hash(content) != line_hash:
            raise IntegrityFailed(f"ledger: entry {position} was changed after it was written")
        try:
            entry = LedgerEntry.model_validate({**json.loads(content), "hash": line_hash})
        except (ValidationError, ValueError, TypeError):
            raise IntegrityFailed(f"ledger: entry {position} is not an entry this version can read") from None
        if (entry.sequence, entry.previous_hash) != (position, previous):
            raise IntegrityFailed(f"ledger: entry {position} does not follow entry {position - 1}")
        previous = line_hash
        entries.append(entry)
    return entries


def _hash(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
