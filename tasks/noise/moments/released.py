"""What private moments release: whole numbers only, to inspect, to keep, and to draw rows from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COUNT_UNIT", "HALF_RANGE", "FirstMoments", "MomentsRelease", "Standardization"]

IntArray = NDArray[np.int64]

HALF_RANGE = 2**15
"""Cells are taken from the middle of the lattice: index - 2^15, in [-2^15, 2^15]."""

COUNT_UNIT = 2**10
"""One row in a histogram, so that its noise is fine beside the rounding."""


@dataclass(frozen=True, eq=False)
class FirstMoments:
    """The first release: noisy sums over all rows, column by column.

    Attributes
    ----------
    sums, squares : ndarray of int64, shape (n_features,)
        Of the cells v in [-2^15, 2^15] and of v^2.
    sums_noise, squares_noise : float
        Standard deviation of the noise on an entry.
    """

    sums: IntArray
    squares: IntArray
    sums_noise: float
    squares_noise: float


@dataclass(frozen=True, eq=False)
class Standardization:
    """How rows are standardised before the second release; computed from the first release, hence released.

    Attributes
    ----------
    centre : ndarray of int64, shape (n_features,)
        In lattice steps from the middle.
    factor : ndarray of int64, shape (n_features,)
        Grid steps a lattice step, times 2^24.
    unit : int
        Grid steps that make one column standard deviation, nearly.
    radius : int
        G, the Euclidean norm in grid steps that no row exceeds.
    """

    centre: IntArray
    factor: IntArray
    unit: int
    radius: int

    FACTOR_BITS = 24

    @property
    def scale(self) -> NDArray[np.float64]:
        """Lattice steps that make one column standard deviation, shape (n_features,)."""
        return np.asarray(self.unit * 2.0**self.FACTOR_BITS / self.factor)


@dataclass(frozen=True, eq=False)
class MomentsRelease:
    """Everything that a `PrivateMoments.release` reveals; rows drawn from it are post-processing.

    Attributes
    ----------
    n_rows : int
        Public.
    first : FirstMoments
    standardization : Standardization
    counts : ndarray of int64, shape (n_classes,)
        Noisy; may be negative.
    class_sums : ndarray of int64, shape (n_classes, n_features)
        Noisy sums of the standardised rows of each class, in grid steps.
    second_moments : ndarray of int64, shape (n_blocks, n_features, n_features)
        Noisy sums of products of grid steps, symmetric: of all rows (one block) or of each class.
    counts_noise, class_sums_noise, second_moments_noise : float
        Standard deviations of the noise on an entry; off the diagonal for the second moments, on the diagonal it is
        sqrt 2 times that.
    randomness : str
        Label of the bit source that the noise came from.
    marginals : ndarray of int64, shape (n_groups, n_bins)
        Noisy histograms of the values in 2^-10 rows, those of the coordinates one after the other: of all rows (one
        group) or of each class; empty where none are released.
    marginals_noise : float
        Standard deviation of the noise on an entry, in 2^-10 rows; 0 where none are released.
    marginal_bins : int
        Bins of a coordinate without levels; 0 where none are released.
    """

    n_rows: int
    first: FirstMoments
    standardization: Standardization
    counts: IntArray
    class_sums: IntArray
    second_moments: IntArray
    counts_noise: float
    class_sums_noise: float
    second_moments_noise: float
    randomness: str
    marginals: IntArray = field(default_factory=lambda: np.zeros((1, 0), dtype=np.int64))
    marginals_noise: float = 0.0
    marginal_bins: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Give the release as numbers, strings, lists and dicts, as JSON has them; exact."""
        return {name: _plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> MomentsRelease:
        """Give the release again from `to_dict`."""
        return cls(
            **_arrays(
                {
                    **plain,
                    "first": FirstMoments(**_arrays(plain["first"])),
                    "standardization": Standardization(**_arrays(plain["standardization"])),
                }
            )
        )


def _arrays(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.array(v, dtype=np.int64) if isinstance(v, list) else v for name, v in plain.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, FirstMoments | Standardization):
        return {name: _plain(part) for name, part in vars(value).items()}
    return value
