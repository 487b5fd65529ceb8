"""Sources from frames, and frames from sources."""

import pandas as pd

from schemas.table import TableSchema
from tasks.columns.values import level_codes
from tasks.tables import SourceTable


def source_of(
    frame: pd.DataFrame, table: TableSchema, mapped: dict[str, int] | None = None, rows: int = 10**9
) -> SourceTable:
    """A frame as `ingest` would give it, in pieces of `rows` rows."""
    return SourceTable(
        pieces=lambda: (frame.iloc[start : start + rows] for start in range(0, len(frame), rows)),
        n_rows=len(frame),
        sha256="",
        labels=level_codes(frame[table.label], table.classes).astype("int32"),
        mapped_to_other=mapped or {},
    )


def frame_of(source: SourceTable) -> pd.DataFrame:
    """All rows of a source."""
    return pd.concat(source.pieces(), ignore_index=True)
