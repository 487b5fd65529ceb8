"""Released rows on disk, read and written in pieces that fit into memory.

Context: a table may be larger than memory, and every stage wants its rows grouped in another way: as they stand in the
source, by shard, by class, in the order of the release. Decision: between two stages the rows lie in Arrow files;
a stage reads one piece after the other and spreads its rows over the groups that the next stage wants. What we gave up:
each row is written some three times. What we got: memory that depends on the size of a piece, never on the table's.

Only released rows are kept here. Confidential ones are read anew from the source wherever they are needed.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.tables import IntArray

PIECE_ROWS = 2**16
_WAITING_BYTES = 2**25
_PIECE_CELLS = 2**22
"""32 MiB of numbers."""


def piece_rows(width: int) -> int:
    """Rows of a piece: 65,536, or fewer of more than 64 columns, so that a piece has at most 2^22 cells."""
    return max(1, min(PIECE_ROWS, _PIECE_CELLS // max(1, width)))


def matrix_column(values: npt.NDArray[Any]) -> pa.Array:
    """A matrix as an Arrow column, a list of fixed size in each row."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


def integers_of(piece: pa.Table, name: str) -> IntArray:
    """A column of whole numbers, shape (n_rows,)."""
    numbers: IntArray = piece.column(name).to_numpy()
    return numbers


def matrix_of(piece: pa.Table, name: str) -> npt.NDArray[Any]:
    """A matrix column, shape (n_rows, width)."""
    column = piece.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no chunk
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), column.type.list_size)


class Sequence:
    """Pieces in one file, one after the other; written once, then read any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, pieces: Iterator[pa.Table]) -> int:
        """Write all pieces, at least one; gives their number."""
        number = 0
        writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("wb") as file:
            try:
                for piece in pieces:
                    number += 1
                    writer = writer or pa.ipc.new_stream(file, piece.schema)
                    writer.write_batch(piece.combine_chunks().to_batches()[0])
            finally:
                if writer is not None:
                    writer.close()
        return number

    def drop(self) -> None:
        """Remove the pieces from disk."""
        self._path.unlink()

    def __iter__(self) -> Iterator[pa.Table]:
        with self._path.open("rb") as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


class Groups:
    """Rows spread over numbered groups, each in a file of its own.

    Parameters
    ----------
    folder : Path
        Made anew; what an earlier run left there is removed.

    Notes
    -----
    Up to `PIECE_ROWS` rows, or 32 MiB, wait in memory before they are written.
    """

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        self._folder = folder
        self._waiting: list[tuple[pa.Table, IntArray]] = []
        self._n_waiting = 0
        self._bytes_waiting = 0
        self._sizes: dict[int, int] = {}

    def add(self, piece: pa.Table, groups: IntArray) -> None:
        """Put each row of a piece into its group."""
        self._waiting.append((piece, groups))
        self._n_waiting += len(groups)
        self._bytes_waiting += piece.nbytes
        if self._n_waiting >= PIECE_ROWS or self._bytes_waiting >= _WAITING_BYTES:
            self._flush()

    def sizes(self) -> dict[int, int]:
        """Rows of each group that has any, by its number in ascending order."""
        self._flush()
        return dict(sorted(self._sizes.items()))

    def pieces(self, group: int) -> Iterator[pa.Table]:
        """The rows of a group in pieces, in the order in which they were added."""
        self._flush()
        with self._path(group).open("rb") as file:
            size = self._path(group).stat().st_size
            while file.tell() < size:
                with pa.ipc.open_stream(file) as reader:
                    yield reader.read_all()

    def read(self, group: int) -> pa.Table:
        """All rows of a group, in the order in which they were added."""
        return pa.concat_tables(self.pieces(group)).combine_chunks()

    def drop(self, group: int) -> None:
        """Remove a group's rows from disk."""
        self._path(group).unlink()

    def _path(self, group: int) -> Path:
        return self._folder / f"{group:06d}.arrows"

    def _flush(self) -> None:
        if not self._n_waiting:
            return
        rows = pa.concat_tables(piece for piece, _ in self._waiting)
        groups = np.concatenate([groups for _, groups in self._waiting])
        self._waiting, self._n_waiting, self._bytes_waiting = [], 0, 0
        order = np.argsort(groups, kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        found, first, sizes = np.unique(groups[order], return_index=True, return_counts=True)
        for group, start, size in zip(found.tolist(), first.tolist(), sizes.tolist(), strict=True):
            with self._path(group).open("ab") as file, pa.ipc.new_stream(file, rows.schema) as writer:
                writer.write_table(rows.slice(start, size))
            self._sizes[group] = self._sizes.get(group, 0) + size
