"""Truncated Laplace noise: a Laplace law cut off where what lies beyond would cost delta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.lattice_truncated_laplace import LatticeTruncatedLaplace
from tasks.noise.line_law import LineLaw
from tasks.noise.parameters import check_levels, check_scale
from tasks.noise.truncated_laplace_profile import check_cut_delta, cut_laplace_divergence

__all__ = ["TruncatedLaplace"]


@dataclass(frozen=True)
class TruncatedLaplace(LineLaw[LatticeTruncatedLaplace]):
    """Additive noise with density proportional to exp(-epsilon |v| / d) on |v| <= A and none beyond.

    A = (d/epsilon) log(1 + (exp(epsilon) - 1)/(2 delta)).

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In (0, 0.5), the paper's range: at 0 the law is not truncated, from 1/2 on A would be below d.
    sensitivity : float
        d, finite, above 0, in the unit of the data.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, delta)-differential privacy for the adjacency "one cell moves by at most d", in exact real
    arithmetic.  Where both laws have a density their ratio is at most exp(epsilon); what lies beyond the other's
    support has probability at most delta.  `reach` is rounded upwards until that is so for the double.

    References
    ----------
    Geng, Ding, Guo, Kumar (AISTATS 2020), definition 3 and theorem 1.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scale(self.noise_scale, self.epsilon, self.sensitivity)
        check_scale(max(self.reach, self.noise_scale), self.epsilon, self.sensitivity)  # the reach must be finite too

    @staticmethod
    def _check_delta(value: object) -> float:
        return check_cut_delta(value)

    @property
    def noise_scale(self) -> float:
        """d / epsilon, in the unit of the data."""
        return self.sensitivity / self.epsilon

    @property
    def reach(self) -> float:
        """A, the largest magnitude, in the unit of the data."""
        return _reach(self.epsilon, self.delta, self.sensitivity)

    @property
    def _whole(self) -> float:
        """1 - exp(-A epsilon / d)"""
        return -math.expm1(-self.reach / self.noise_scale)

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density at `v`, in the unit of the data; 0 beyond `reach`."""
        magnitude = np.abs(np.asarray(v, dtype=np.float64))
        with np.errstate(under="ignore"):
            density = np.exp(-magnitude / self.noise_scale) / (2.0 * self.noise_scale * self._whole)
        return np.asarray(np.where(magnitude <= self.reach, density, 0.0))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v); infinities are allowed."""
        value = np.asarray(v, dtype=np.float64)
        inside = np.minimum(np.abs(value), self.reach)
        with np.errstate(under="ignore"):
            beyond = np.exp(-inside / self.noise_scale) * -np.expm1((inside - self.reach) / self.noise_scale)
        tail = 0.5 * beyond / self._whole
        return np.asarray(np.where(value < 0.0, tail, 1.0 - tail))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function at levels in [0, 1], from -A to A; ValueError outside."""
        level = check_levels(t)
        right = level > 0.5
        tail = np.where(right, 1.0 - level, level)
        end = math.exp(-self.reach / self.noise_scale)
        magnitude = np.minimum(-self.noise_scale * np.log(end + 2.0 * tail * self._whole), self.reach)
        value = np.maximum(magnitude, 0.0)
        return np.asarray(np.where(right, value, np.where(value == 0.0, 0.0, -value)))

    def expected_magnitude(self) -> float:
        """Give E|V| = (d/epsilon) (1 - x / (exp(x) - 1)) with x = A epsilon / d, in the unit of the data."""
        x = self.reach / self.noise_scale
        if x < 1e-3:
            return self.noise_scale * x * (0.5 - x / 12.0)
        return self.noise_scale * (1.0 - x * math.exp(-x) / -math.expm1(-x))

    def _divergence(self, loss: float, distance: float) -> float:
        """For the double `reach`; the largest shift is the worst, as the density is even and falls with |v|."""
        rate = Fraction(self.epsilon) / Fraction(self.sensitivity)
        return cut_laplace_divergence(rate, Fraction(self.reach), Fraction(distance), loss, lattice=False)

    def _in_steps(self, n_steps: int, spacing: float) -> LatticeTruncatedLaplace:
        return LatticeTruncatedLaplace(self.epsilon, self.delta, n_steps)


@lru_cache(maxsize=256)
def _reach(epsilon: float, delta: float, sensitivity: float) -> float:
    """A, the least double at which the exact delta is at most the nominal one, but for a few last places."""
    log_ratio = epsilon - math.log(2.0 * delta) + math.log1p((2.0 * delta - 1.0) * math.exp(-epsilon))
    if epsilon < 30.0:
        log_ratio = math.log1p(math.expm1(epsilon) / (2.0 * delta))
    reach = max(sensitivity, sensitivity / epsilon * log_ratio)
    rate, distance = Fraction(epsilon) / Fraction(sensitivity), Fraction(sensitivity)
    widening = 2.0**-52
    while (
        math.isfinite(reach) and cut_laplace_divergence(rate, Fraction(reach), distance, epsilon, lattice=False) > delta
    ):
        reach *= 1.0 + widening
        widening *= 2.0
    return reach
