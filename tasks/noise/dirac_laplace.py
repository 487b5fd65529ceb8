"""The seed paper's optimal noise: nothing at all with probability delta, else Laplace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.exact import context, float_upper_bound, one_minus_exp
from tasks.noise.lattice_dirac_laplace import LatticeDiracLaplace
from tasks.noise.line_law import FINE_BITS, LineLaw
from tasks.noise.parameters import LARGEST_MAGNITUDE, check_levels, check_scale

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["DiracLaplace"]

_DIGITS = 50
_SLACK = Decimal(10) ** -40
_MOST_LOG2_STEPS = LARGEST_MAGNITUDE.bit_length() - 1


@dataclass(frozen=True)
class DiracLaplace(LineLaw[LatticeDiracLaplace]):
    """Additive noise with law delta Dirac(v) + (1 - delta) (epsilon / 2d) exp(-epsilon |v| / d).

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In [0, 1); the probability of no noise.
    sensitivity : float
        d, finite, above 0, in the unit of the data.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or sensitivity / epsilon is not a normal double.

    Notes
    -----
    Guarantee: adding one value to a cell is (epsilon, delta)-differentially private for the adjacency "one
    cell moves by at most d", in exact real arithmetic.

    References
    ----------
    Kumar, Moser, Fischer (JAIR 2024), result 1 and equation (2); Fabrica design, section 6.

    Examples
    --------
    >>> law = DiracLaplace(epsilon=1.0, delta=0.0, sensitivity=2.0)
    >>> law.expected_magnitude()
    2.0
    >>> float(law.ppf(0.5))
    0.0
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scale(self.noise_scale, self.epsilon, self.sensitivity)

    @property
    def noise_scale(self) -> float:
        """d / epsilon, the scale of the Laplace part, in the unit of the data."""
        return self.sensitivity / self.epsilon

    @property
    def atom(self) -> float:
        """The probability of exactly no noise, P(V = 0) = delta; `pdf` leaves this part of the law out."""
        return self.delta

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density of the continuous part, which integrates to 1 - delta; at 0 too."""
        return np.asarray((1.0 - self.delta) / (2.0 * self.noise_scale) * self._decay(v))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v), atom included from v = 0 on."""
        value = np.asarray(v, dtype=np.float64)
        tail = (1.0 - self.delta) / 2.0 * self._decay(value)
        return np.asarray(np.where(value < 0.0, tail, 1.0 - tail))

    def _decay(self, v: ArrayLike) -> NDArray[np.float64]:
        """exp(-epsilon |v| / d)"""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-np.abs(np.asarray(v, dtype=np.float64)) / self.noise_scale))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the least v with P(V <= v) >= t, exactly 0 for (1 - delta)/2 <= t <= (1 + delta)/2.

        Notes
        -----
        Left of the atom v = (d/epsilon) log(2t/(1 - delta)), right of it the mirror image at 1 - t, which is
        exact in doubles there.  Near the atom the logarithm is log1p of (2t - (1 - delta))/(1 - delta), whose
        numerator is formed with a single rounding; so the edges of the atom are exact.
        """
        level = check_levels(t)
        right = level > 0.5
        lower = np.where(right, 1.0 - level, level)
        # 2t - (1 - delta) <= 0 outside the atom.  One of the two groupings has an exact first step: 1 - delta
        # for delta >= 1/2, and 2t - 1 for t >= 1/4; elsewhere the difference is far from 0.
        gap = 2.0 * lower - (1.0 - self.delta) if self.delta >= 0.5 else (2.0 * lower - 1.0) + self.delta
        gap = np.minimum(gap, 0.0)
        with np.errstate(divide="ignore"):
            far = np.log(2.0 * lower) - math.log1p(-self.delta)
            near = np.log1p(np.maximum(gap / (1.0 - self.delta), -0.5))
        magnitude = -self.noise_scale * np.where(gap > -0.5 * (1.0 - self.delta), near, far)
        value = np.where(right, magnitude, -magnitude)
        return np.asarray(np.where(gap == 0.0, 0.0, value))

    def expected_magnitude(self) -> float:
        """Give E|V| = (1 - delta) d / epsilon, in the unit of the data (equation 2 of the paper)."""
        return (1.0 - self.delta) * self.noise_scale

    def _divergence(self, loss: float, distance: float) -> float:
        """The supremum over the shifts is reached at the largest, s.

        For s > 0 the two atoms lie at different points, and neither law's continuous part charges a point.
        So the best event holds P's atom and not Q's, and is otherwise {p > exp(e) q} for the densities:

            H(s) = delta + (1 - delta) L(s),    L(s) = integral of (p_L - exp(e) q_L)_+

        with p_L, q_L Laplace densities of scale d/epsilon, s apart.  With x = epsilon s/d - e: if x <= 0,
        p_L <= exp(e) q_L everywhere and L = 0.  Otherwise p_L > exp(e) q_L left of w = x d/(2 epsilon), where
        P_L(V <= w) = 1 - exp(-epsilon w/d)/2 = 1 - exp(-x/2)/2 and exp(e) Q_L(V <= w) =
        exp(e) exp(-epsilon (s - w)/d)/2 = exp(-x/2)/2, so L = 1 - exp(-x/2).  This grows with s, so the
        supremum is H(s).  In particular `delta_at(epsilon)` of the mechanism's own epsilon is delta, and no
        loss is large enough to bring it below delta: the atom's loss is infinite.
        """
        if loss == math.inf:
            return self.delta
        excess = Fraction(self.epsilon) * Fraction(distance) / Fraction(self.sensitivity) - Fraction(loss)
        if excess <= 0:
            return self.delta
        exact = context(_DIGITS)
        delta = Decimal(self.delta)
        laplace = exact.multiply(exact.subtract(1, delta), one_minus_exp(excess / 2, _DIGITS))
        value = exact.multiply(exact.add(delta, laplace), exact.add(1, _SLACK))
        return min(1.0, float_upper_bound(value))

    def dp_event(self) -> DpEvent:
        """Give the event of one use: Laplace's for delta = 0, else that of the fine lattice's law."""
        if self.delta == 0.0:
            from dp_accounting import LaplaceDpEvent

            return LaplaceDpEvent(1.0 / self.epsilon)
        return LatticeDiracLaplace(self.epsilon, self.delta, 2**FINE_BITS).dp_event()

    def _in_steps(self, n_steps: int, spacing: float) -> LatticeDiracLaplace:
        return LatticeDiracLaplace(self.epsilon, self.delta, n_steps)

    def _fine(self) -> tuple[LatticeDiracLaplace, float]:
        """At least 2^30 steps per d / epsilon, as far as 2^61 per d allow that."""
        log2_steps = min(max(0, math.frexp(self.epsilon)[1] + FINE_BITS), _MOST_LOG2_STEPS)
        spacing = math.ldexp(self.sensitivity, -log2_steps)
        return self._in_steps(2**log2_steps, spacing), spacing
