"""The noise laws of private moments in integer units, and what they amount to in a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource
from tasks.noise.lattice_gaussian import LatticeGaussian
from tasks.noise.moments.blocks import Block, Layout
from tasks.noise.moments.released import COUNT_UNIT, HALF_RANGE

__all__ = ["BlockNoise", "MomentsNoise", "moments_noise", "noise_laws", "symmetric_noise"]

_MARGIN = 1.0 + 2.0**-30  # on every standard deviation, for the float operations that lead to it


@dataclass(frozen=True)
class BlockNoise:
    """What the noise will do to the columns of one block.

    Attributes
    ----------
    kind : str
    width : int
    column_mean : float
        Standard deviation of the noise on a column's mean in the first release, in scaled units; for a category or a
        flag, of its frequency.
    class_mean : float
        The same for the mean within a class of mean size, in the second release.
    class_signal_to_noise : float
        A column's standard deviation over `class_mean`.

    Notes
    -----
    A value has the deviation that the plan assumes, a binary column 1/2, and the k categories of a one-hot block
    are equally frequent; for a nullable block the figures are the value's.
    """

    kind: str
    width: int
    column_mean: float
    class_mean: float
    class_signal_to_noise: float


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
        Standard deviation of a value over the noise of its mean within a class.
    marginal : float
        Standard deviation of the noise on a bin of a histogram, as a share of the rows (of a class of mean size where
        they are by class); 0 where none are released.
    blocks : tuple of BlockNoise
        Figures for each block of a mixed row; empty where no blocks were given.
    """

    column_mean: float
    class_mean: float
    covariance: float
    column_deviation: float
    signal_to_noise: float
    class_signal_to_noise: float
    marginal: float = 0.0
    blocks: tuple[BlockNoise, ...] = ()


def noise_laws(
    first_cost: int, radius: int, n_values: int, first_mu: float, second_mu: float, third_mu: float
) -> dict[str, LatticeGaussian]:
    """The six or seven laws as `PrivateMoments` derives them, by the statistic that each is for."""
    first = HALF_RANGE * math.sqrt(first_cost) / first_mu
    second = math.sqrt(8.0) * radius**2 / second_mu
    deviations = {
        "sums": first,
        "squares": first * HALF_RANGE / math.sqrt(2.0),
        "counts": second / radius**2,
        "class_sums": second / (math.sqrt(2.0) * radius),
        "diagonal": second,
        "above_diagonal": second / math.sqrt(2.0),
    }
    if third_mu:
        deviations["marginals"] = COUNT_UNIT * math.sqrt(2.0 * n_values) / third_mu
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


def moments_noise(
    laws: dict[str, LatticeGaussian],
    layout: Layout,
    *,
    n_rows: int,
    n_classes: int,
    per_class: bool,
    unit: int,
    column_deviation: float,
    by_block: bool,
    n_groups: int,
) -> MomentsNoise:
    """The plan's figures, as `MomentsNoise` describes them."""
    column_mean = laws["sums"].standard_deviation / (n_rows * 2 * HALF_RANGE)
    class_mean = laws["class_sums"].standard_deviation / (n_rows / n_classes * unit)
    parts = n_classes if per_class else 1
    covariance = laws["above_diagonal"].standard_deviation * math.sqrt(parts) / (n_rows * unit**2)
    return MomentsNoise(
        column_mean=column_mean,
        class_mean=class_mean * column_deviation,
        covariance=covariance * column_deviation**2,
        column_deviation=column_deviation,
        signal_to_noise=1.0 / (2.0 * math.sqrt(layout.dimension) * covariance),
        class_signal_to_noise=1.0 / class_mean,
        marginal=laws["marginals"].standard_deviation / COUNT_UNIT * n_groups / n_rows if "marginals" in laws else 0.0,
        blocks=tuple(_block_noise(block, column_mean, class_mean, column_deviation) for block in layout.blocks)
        if by_block
        else (),
    )


def _block_noise(block: Block, column_mean: float, class_mean: float, column_deviation: float) -> BlockNoise:
    """Of one block, from the noise on a standardised column's mean within a class."""
    deviation = {"binary": 0.5}.get(block.kind, column_deviation)
    standardised = 1.0
    if block.kind == "one-hot":
        # Noise along (1, ..., 1) is taken out, and the block's variances add up to its weight.
        share = 1.0 - 1.0 / block.width
        class_mean *= math.sqrt(share)
        deviation = math.sqrt(share / block.width)
        standardised = math.sqrt(block.weight / block.width)
    return BlockNoise(
        kind=block.kind,
        width=block.width,
        column_mean=column_mean,
        class_mean=class_mean * deviation / standardised,
        class_signal_to_noise=standardised / class_mean,
    )
