"""Staircase noise on the real line: the least E|v| that pure differential privacy allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.lattice_staircase import LatticeStaircase
from tasks.noise.line_law import LineLaw
from tasks.noise.parameters import check_epsilon, check_levels
from tasks.noise.staircase_profile import StaircaseTerms, divergence, terms_on_line

__all__ = ["Staircase", "staircase_rise"]

_MAX_EPSILON = 1300.0  # the higher level's width, a share exp(-epsilon/2) of d, is a normal double up to there


def staircase_rise(epsilon: float) -> float:
    """Give gamma = 1 / (1 + exp(epsilon/2)), the share of a step at the higher level that makes E|v| least."""
    return 1.0 / (1.0 + math.exp(epsilon / 2.0))


@dataclass(frozen=True)
class Staircase(LineLaw[LatticeStaircase]):
    """Additive noise whose density falls by exp(-epsilon) once in every d, and is flat in between.

    With gamma = 1/(1 + exp(epsilon/2)) the density is a exp(-j epsilon) on j d <= |v| < (j + gamma) d and
    a exp(-(j + 1) epsilon) on (j + gamma) d <= |v| < (j + 1) d.

    Parameters
    ----------
    epsilon : float
        Above 0, at most 1300.
    delta : float
        In [0, 1).  Taken so that all mechanisms are called alike, and not used: the noise is (epsilon, 0)-private.
    sensitivity : float
        d, finite, above 0, in the unit of the data.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, 0)-differential privacy for the adjacency "one cell moves by at most d", in exact real
    arithmetic: two magnitudes at most d apart lie at most one step of the staircase apart.

    References
    ----------
    Geng, Viswanath (IEEE Transactions on Information Theory 2016; ISIT 2014), theorems 1 and 3.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        epsilon = check_epsilon(self.epsilon)
        if epsilon > _MAX_EPSILON:
            raise ValueError(
                f"epsilon must be at most 1300 for the staircase on the line, got epsilon={epsilon!r}; "
                "its noise is below every double's resolution there"
            )
        super().__post_init__()

    @property
    def rise(self) -> float:
        """gamma, the share of each step at its higher level."""
        return staircase_rise(self.epsilon)

    @property
    def _height(self) -> float:
        """a, the density at zero: the half line's mass, a d (gamma + b (1 - gamma)) / (1 - b), is 1/2."""
        kept = self.rise + math.exp(-self.epsilon) * (1.0 - self.rise)
        return -math.expm1(-self.epsilon) / (2.0 * self.sensitivity * kept)

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density at `v`, in the unit of the data."""
        x = np.abs(np.asarray(v, dtype=np.float64)) / self.sensitivity
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            density = self._height * np.exp(-self.epsilon * np.floor(x + (1.0 - self.rise)))
        return np.asarray(np.where(np.isinf(x), 0.0, density))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v); infinities are allowed."""
        value = np.asarray(v, dtype=np.float64)
        tail = self._tail(np.abs(value))
        return np.asarray(np.where(value < 0.0, tail, 1.0 - tail))

    def _tail(self, magnitude: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(V > magnitude)"""
        b, gamma = math.exp(-self.epsilon), self.rise
        x = magnitude / self.sensitivity
        step = np.floor(np.where(np.isinf(x), 0.0, x))
        part = np.where(np.isinf(x), 0.0, x - step)
        kept = gamma + b * (1.0 - gamma)
        passed = np.minimum(part, gamma) + b * np.maximum(part - gamma, 0.0)
        share = 1.0 - passed / kept * (1.0 - b)
        with np.errstate(under="ignore", invalid="ignore"):
            tail = 0.5 * np.exp(-self.epsilon * step) * share
        return np.asarray(np.where(np.isinf(x), 0.0, tail))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function at levels in [0, 1]; ValueError outside."""
        level = check_levels(t)
        right = level > 0.5
        tail = np.where(right, 1.0 - level, level)
        b, gamma = math.exp(-self.epsilon), self.rise
        kept = gamma + b * (1.0 - gamma)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_tail = np.log(2.0 * tail)
            step = np.floor(-log_tail / self.epsilon)
            rest = -np.expm1(log_tail + self.epsilon * step) * kept / -math.expm1(-self.epsilon)  # within the step
            rest = np.clip(rest, 0.0, kept)
            part = np.where(rest <= gamma, rest, gamma + (rest - gamma) / b)
            magnitude = np.where(tail == 0.0, np.inf, self.sensitivity * (step + np.minimum(part, 1.0)))
        return np.asarray(np.where(right, magnitude, np.where(level == 0.5, 0.0, -magnitude)))

    def expected_magnitude(self) -> float:
        """Give E|V| = d exp(epsilon/2) / (exp(epsilon) - 1), in the unit of the data."""
        return self.sensitivity * math.exp(-self.epsilon / 2.0) / -math.expm1(-self.epsilon)

    def _divergence(self, loss: float, distance: float) -> float:
        """The largest shift is the worst, for the double `rise`.

        The density is even and falls with |v|, so every positive term p(v) - exp(e) p(v - s) has v <= s/2 and grows
        with s.  `staircase_profile` has the sums.
        """
        terms = self.profile_terms(loss, distance)
        return 0.0 if terms is None else divergence(terms)

    def profile_terms(self, loss: float, distance: float) -> StaircaseTerms | None:
        """Give the parts of the divergence, for a mixture with an atom; None at an infinite loss."""
        return terms_on_line(self.epsilon, loss, self.sensitivity, self.rise, distance)

    def _in_steps(self, n_steps: int, spacing: float) -> LatticeStaircase:
        return LatticeStaircase(self.epsilon, n_steps)
