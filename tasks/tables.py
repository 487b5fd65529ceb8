"""The tables that steps hand to each other, on both sides of the border.

The type says on which side a table lies. `perturb` is the only function that takes a `ConfidentialTable` and gives a
`NoiseAddedTable`; every step after it is typed to take released tables, so a wrong call does not pass the type
checker. Evaluation takes both, on purpose, and its results are internal.
"""

from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class ConfidentialTable:
    """Confidential rows on the public lattice.

    Attributes
    ----------
    lattice : ndarray of int64, shape (n_rows, n_features)
        Each cell as a whole number of lattice steps in [0, 1 / spacing].
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
        """The cells in scaled units, shape (n_rows, n_features), in [0, 1]."""
        return self.lattice.astype(np.float64) * self.spacing


@dataclass(frozen=True, eq=False)
class NoiseAddedTable:
    """Released rows Y+: lattice cells plus integer noise, with public labels.

    Attributes
    ----------
    lattice : ndarray of int64, shape (n_rows, n_features)
        Cells in lattice steps; not clipped to the domain.
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
        """The cells in scaled units, shape (n_rows, n_features)."""
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
    scaled : ndarray of float64, shape (n_rows, n_features)
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
