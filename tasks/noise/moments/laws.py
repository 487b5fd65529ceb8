"""The noise laws of private moments in integer units, and what they amount to in a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource
from tasks.noise.lattice_gaussian import LatticeGaussian
from tasks.noise.moments.released import HALF_RANGE

__all__ = ["MomentsNoise", "noise_laws", "symmetric_noise"]

_MARGIN = 1.0 + 2.0**-30  # on every standard deviation, for the float operations that lead to it


@dataclass(frozen=True)
class MomentsNoise:
    """What the noise will do, from public numbers alone; for a plan.

    Attributes
    ----------
    column_mean : float
        Standard deviation of the noise on a column's mean, in scaled units (a column's range is 1).
    class_mean : float
        The same for one column's mean within a class of mean size, scaled units.
    covariance : float
        The same for a covariance of two columns, scaled units.
    column_deviation : float
        The column standard deviation, in scaled units, that the two figures above assume; they grow with it.
    signal_to_noise : float
        A standardised column's variance over the largest eigenvalue of the noise in the covariance matrix: above 1 some
        correlations can be seen, above 10 most.
    class_signal_to_noise : float
        Standard deviation of a column over the noise of its mean within a class.
    """

    column_mean: float
    class_mean: float
    covariance: float
    column_deviation: float
    signal_to_noise: float
    class_signal_to_noise: float


def noise_laws(n_features: int, radius: int, first_mu: float, second_mu: float) -> dict[str, LatticeGaussian]:
    """The six laws as `PrivateMoments` derives them, by the statistic that each is for."""
    first = 2.0 * HALF_RANGE * math.sqrt(n_features) / first_mu
    second = math.sqrt(8.0) * radius**2 / second_mu
    deviations = {
        "sums": first,
        "squares": first * HALF_RANGE / math.sqrt(2.0),
        "counts": second / radius**2,
        "class_sums": second / (math.sqrt(2.0) * radius),
        "diagonal": second,
        "above_diagonal": second / math.sqrt(2.0),
    }
    return {name: LatticeGaussian(deviation * _MARGIN) for name, deviation in deviations.items()}


def symmetric_noise(
    laws: dict[str, LatticeGaussian], n_blocks: int, n_features: int, bits: BitSource
) -> NDArray[np.int64]:
    """Noise for symmetric matrices, mirrored from above the diagonal; shape (n_blocks, n_features, n_features)."""
    rows, columns = np.triu_indices(n_features, 1)
    along = np.arange(n_features)
    noise = np.zeros((n_blocks, n_features, n_features), dtype=np.int64)
    noise[:, along, along] = laws["diagonal"].sample((n_blocks, n_features), bits=bits)
    noise[:, rows, columns] = laws["above_diagonal"].sample((n_blocks, rows.size), bits=bits)
    noise[:, columns, rows] = noise[:, rows, columns]
    return noise
