"""Gaussian noise on the real line, with the analytic calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tasks.noise.gaussian_profile import check_gaussian_delta, gaussian_delta, gaussian_standard_deviation
from tasks.noise.lattice_gaussian import LatticeGaussian
from tasks.noise.line_law import LineLaw
from tasks.noise.parameters import check_levels

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["Gaussian"]

_FINE_STEPS = 2.0**32


@dataclass(frozen=True)
class Gaussian(LineLaw[LatticeGaussian]):
    """Gaussian noise with the least variance that gives (epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : float
        Finite, above 0; may be above 1 (the calibration is the exact one).
    delta : float
        In (0, 1).
    sensitivity : float
        d, finite, above 0, in the unit of the data.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, delta)-differential privacy for the adjacency "the values noise is added to move by at most
    d in Euclidean (l2) distance", in exact real arithmetic; for one cell that is its largest change.

    References
    ----------
    Balle and Wang (ICML 2018), theorem 8 and algorithm 1.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        super().__post_init__()
        gaussian_standard_deviation(self.epsilon, self.delta, self.sensitivity)

    @staticmethod
    def _check_delta(value: object) -> float:
        return check_gaussian_delta(value)

    @property
    def standard_deviation(self) -> float:
        """sigma, in the unit of the data."""
        return gaussian_standard_deviation(self.epsilon, self.delta, self.sensitivity)

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density at `v`, in the unit of the data."""
        z = np.asarray(v, dtype=np.float64) / self.standard_deviation
        return np.asarray(np.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * self.standard_deviation))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v); infinities are allowed."""
        return np.asarray(special.ndtr(np.asarray(v, dtype=np.float64) / self.standard_deviation))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function at levels in [0, 1]; ValueError outside."""
        return np.asarray(special.ndtri(check_levels(t)) * self.standard_deviation)

    def expected_magnitude(self) -> float:
        """Give E|V| = sigma sqrt(2/pi), in the unit of the data."""
        return self.standard_deviation * math.sqrt(2.0 / math.pi)

    def _divergence(self, loss: float, distance: float) -> float:
        return gaussian_delta(loss, self.standard_deviation, distance)

    def dp_event(self) -> DpEvent:
        """Give dp_accounting's event for one use at the mechanism's own sensitivity."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.standard_deviation / self.sensitivity)

    def _in_steps(self, n_steps: int, spacing: float) -> LatticeGaussian:
        return LatticeGaussian(self.standard_deviation / spacing, n_steps)

    def _fine(self) -> tuple[LatticeGaussian, float]:
        """2^32 steps per standard deviation, whatever the sensitivity."""
        return LatticeGaussian(_FINE_STEPS), self.standard_deviation / _FINE_STEPS
