"""The tables that steps hand to each other, on both sides of the border.

The type says on which side a table lies. `perturb` is the only step that takes a confidential table and gives
noise-added rows; every step after it is typed to take released rows, so a wrong call does not pass the type checker.
Evaluation takes both, on purpose, and its results are internal.

Tables may be larger than memory: a step gets something to read pieces from. What is a piece in memory is called so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceTable:
    """The confidential source, read from its file as often as it is needed.

    Attributes
    ----------
    pieces : callable
        Gives an iterator over data frames of consecutive rows, with the declared columns and types.
    n_rows : int
    sha256 : str
        Digest of the source file.
    labels : ndarray of int32, shape (n_rows,)
        The place of each row's label among the declared ones; -1 where it is missing or not among them.
    mapped_to_other : dict of str to int
        Number of values that are not declared and became their column's `other`, by column; without zeros.
    """

    pieces: Callable[[], Iterator[pd.DataFrame]]
    n_rows: int
    sha256: str
    labels: npt.NDArray[np.int32]
    mapped_to_other: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ConfidentialTable:
    """Confidential rows on the public lattice; a piece in memory.

    Attributes
    ----------
    lattice : ndarray of int64, shape (n_rows, width)
        Each coordinate of the encoded features as a whole number of lattice steps in [0, 1 / spacing].
    labels : ndarray of int64, shape (n_rows,)
        Index of each row's label in the declared categories.
    spacing : float
        Lattice spacing in scaled units, a power of two.
    """

    lattice: IntArray
    labels: IntArray
    spacing: float

    @property
    def scaled(self) -> FloatArray:
        """The coordinates in scaled units, shape (n_rows, width), in [0, 1]."""
        return self.lattice.astype(np.float64) * self.spacing


@dataclass(frozen=True, eq=False)
class NoiseAddedTable:
    """Released rows Y+: values plus integer noise and estimates from categories' responses, or drawn rows; in memory.

    Attributes
    ----------
    lattice : ndarray of int64, shape (n_rows, width)
        Coordinates in lattice steps; not clipped to the domain.
    labels : ndarray of int64, shape (n_rows,)
    spacing : float
    randomness : str
        Label of the bit source that the noise came from.
    """

    lattice: IntArray
    labels: IntArray
    spacing: float
    randomness: str

    @property
    def scaled(self) -> FloatArray:
        """The coordinates in scaled units, shape (n_rows, width)."""
        return self.lattice.astype(np.float64) * self.spacing
