"""Noise-added data Y+ on disk: what the mechanism released, with each row's place in the release; released side.

A Parquet file with a row group for each piece. Columns: `place`, `label`, `noise_added` (the coordinates in lattice
steps), and the public columns, which are released as they are, each under its name after `public: `.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from schemas.table import TableSchema
from tasks.files import sha256_file, sync_folder, write_whole
from tasks.pieces import integers_of, matrix_column, matrix_of
from tasks.tables import IntArray, NoiseAddedTable

_PUBLIC = "public: "


@dataclass(frozen=True)
class NoiseAdded:
    """Noise-added data in a file.

    Attributes
    ----------
    path : Path
    n_rows : int
    spacing : float
        Lattice spacing in scaled units.
    randomness : str
        Label of the bit source that the noise came from.
    members : str
        Digest of who the members are and of their places in the release.
    """

    path: Path
    n_rows: int
    spacing: float
    randomness: str
    members: str

    @classmethod
    def open(cls, path: Path) -> "NoiseAdded":
        """The data in a file.

        Raises
        ------
        ValueError, OSError, KeyError
            The file is not whole or not of this kind.
        """
        if _digest_path(path).read_text() != sha256_file(path):
            raise ValueError("the file is not the one that was written")
        with pa.parquet.ParquetFile(path) as file:
            about = file.schema_arrow.metadata
            return cls(
                path,
                file.metadata.num_rows,
                float(about[b"spacing"]),
                about[b"randomness"].decode(),
                about[b"members"].decode(),
            )

    def pieces(self) -> Iterator[pa.Table]:
        """The rows as they were written, piece by piece."""
        with pa.parquet.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)

    def read(self) -> NoiseAddedTable:
        """All rows, in memory, in the order of the release."""
        rows = pa.concat_tables(self.pieces()).sort_by("place")
        return NoiseAddedTable(
            matrix_of(rows, "noise_added"), integers_of(rows, "label"), self.spacing, self.randomness
        )


def members_digest(places: IntArray) -> str:
    """SHA-256 of the members' places in the release, for each row of the source."""
    return hashlib.sha256(places.tobytes()).hexdigest()


def write_noise_added(
    path: Path, pieces: Iterator[pa.Table], spacing: float, randomness: str, members: str
) -> NoiseAdded:
    """Write a file that is whole or absent, with its digest beside it."""
    beside = path.with_name(f".{path.name}.part")
    writer: pa.parquet.ParquetWriter | None = None
    n_rows = 0
    with beside.open("wb") as file:
        try:
            for piece in pieces:
                if writer is None:
                    about = {"spacing": repr(spacing), "randomness": randomness, "members": members}
                    schema = piece.schema.with_metadata(about)
                    writer = pa.parquet.ParquetWriter(file, schema, compression="none", use_dictionary=False)
                writer.write_table(piece.replace_schema_metadata(about), row_group_size=len(piece))
                n_rows += len(piece)
        finally:
            if writer is not None:
                writer.close()
        file.flush()
        os.fsync(file.fileno())
    write_whole(_digest_path(path), sha256_file(beside).encode())
    beside.replace(path)
    sync_folder(path.parent)
    return NoiseAdded(path, n_rows, spacing, randomness, members)


def _digest_path(path: Path) -> Path:
    return path.with_suffix(".sha256")


def piece_of(places: IntArray, released: NoiseAddedTable, public: pd.DataFrame) -> pa.Table:
    """Noise-added rows as they lie in the file.

    Parameters
    ----------
    places : ndarray of int64, shape (n_rows,)
        In the release.
    released : NoiseAddedTable
    public : DataFrame
        The same rows' values of the public columns.
    """
    columns = {
        "place": pa.array(places),
        "label": pa.array(released.labels),
        "noise_added": matrix_column(released.lattice),
    }
    shown = pa.Table.from_pandas(public, preserve_index=False)
    return pa.table(columns | {f"{_PUBLIC}{name}": shown.column(name) for name in shown.column_names})


def public_of(piece: pa.Table, table: TableSchema) -> pd.DataFrame:
    """The public columns of rows in whatever file they came to lie in."""
    names = list(table.public)
    shown = piece.select([f"{_PUBLIC}{name}" for name in names]).rename_columns(names)
    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame: pd.DataFrame = shown.to_pandas(types_mapper=nullable.get)
    return frame
