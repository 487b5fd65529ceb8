"""The tables that steps hand to each other, on both sides of the border.

The type says on which side a table lies. `perturb` is the only function that takes a `ConfidentialTable` and gives a
`NoiseAddedTable`; every step after it is typed to take released tables, so a wrong call does not pass the type
checker. Evaluation takes both, on purpose, and its results are internal.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceTable:
    """The confidential source as read, with the declared columns and types."""

    frame: pd.DataFrame
    sha256: str
    """Digest of the source file."""
    mapped_to_other: dict[str, int] = field(default_factory=dict)
    """Number of values that are not declared and became their column's `other`, by column; without zeros."""


@dataclass(frozen=True, eq=False)
class ConfidentialTable:
    """Confidential rows on the public lattice.

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
    """Released rows Y+: values plus integer noise and estimates from categories' responses, or drawn rows.

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


@dataclass(frozen=True, eq=False)
class ShardedTable:
    """Released rows with the shard of each; a shard never mixes labels.

    Attributes
    ----------
    rows : NoiseAddedTable
    shards : ndarray of int64, shape (n_rows,)
        Shard number of each row, from 0 without gaps.
    """

    rows: NoiseAddedTable
    shards: IntArray

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return int(self.shards.max()) + 1


@dataclass(frozen=True, eq=False)
class FabricatedTable:
    """Fabricated rows in scaled units with their labels, and how each shard was smoothed.

    Attributes
    ----------
    scaled : ndarray of float64, shape (n_rows, width)
    labels : ndarray of int64, shape (n_rows,)
    steps : list of int
        Smoothing steps of each shard.
    shards_unsettled : int
        Shards in which the stop rule was not met after the most steps that are taken.
    first_errors : list of float
        Modeling error of each shard's noise-added rows.
    """

    scaled: FloatArray
    labels: IntArray
    steps: list[int]
    shards_unsettled: int
    first_errors: list[float]


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """The release as analysts get it.

    Attributes
    ----------
    frame : DataFrame
        The released columns in declared order.
    rows_projected : int
        Rows that were moved to obey the declared constraints.
    """

    frame: pd.DataFrame
    rows_projected: int
