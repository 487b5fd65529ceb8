"""The seed paper's optimal noise: nothing at all with probability delta, else Laplace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource
from tasks.noise.exact import context, float_upper_bound, one_minus_exp
from tasks.noise.lattice import MAX_DIGITS, LatticeDiracLaplace
from tasks.noise.parameters import check_delta, check_epsilon, check_levels, check_loss, check_positive, steps_of

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["DiracLaplace"]

_DIGITS = 50
_SLACK = Decimal(10) ** -40
_LOG2_FINE_RATE = -30  # `sample` uses a lattice whose loss per step is at most 2^-30


@dataclass(frozen=True)
class DiracLaplace:
    """Additive noise with law delta Dirac(v) + (1 - delta) (epsilon / 2d) exp(-epsilon |v| / d).

    This object describes the law on the real line: for plans, figures and comparisons.  Releases draw from
    `on_lattice`, where the noise is a whole number of steps and the guarantee survives computer arithmetic.

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
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_positive("sensitivity", self.sensitivity))
        if not np.finfo(np.float64).tiny <= self.noise_scale < math.inf:
            raise ValueError(
                "sensitivity / epsilon must be a normal double, "
                f"got sensitivity={self.sensitivity!r}, epsilon={self.epsilon!r}"
            )

    @property
    def noise_scale(self) -> float:
        """d / epsilon, the scale of the Laplace part, in the unit of the data."""
        return self.sensitivity / self.epsilon

    @property
    def atom(self) -> float:
        """The probability of exactly no noise, P(V = 0) = delta; `pdf` leaves this part of the law out."""
        return self.delta

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density of the continuous part, which integrates to 1 - delta.

        Parameters
        ----------
        v : array-like of float
            In the unit of the data.

        Returns
        -------
        ndarray of float64, the shape of `v`
            At v = 0 too it is the continuous part only; the atom there is `atom`.
        """
        return np.asarray((1.0 - self.delta) / (2.0 * self.noise_scale) * self._decay(v))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v), atom included from v = 0 on.

        Parameters
        ----------
        v : array-like of float
            Infinities are allowed.

        Returns
        -------
        ndarray of float64, the shape of `v`
        """
        value = np.asarray(v, dtype=np.float64)
        tail = (1.0 - self.delta) / 2.0 * self._decay(value)
        return np.asarray(np.where(value < 0.0, tail, 1.0 - tail))

    def _decay(self, v: ArrayLike) -> NDArray[np.float64]:
        """exp(-epsilon |v| / d)"""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-np.abs(np.asarray(v, dtype=np.float64)) / self.noise_scale))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function, the least v with P(V <= v) >= t.

        Parameters
        ----------
        t : array-like of float
            In [0, 1].

        Returns
        -------
        ndarray of float64, the shape of `t`
            -infinity at 0, infinity at 1, exactly 0 for (1 - delta)/2 <= t <= (1 + delta)/2.

        Raises
        ------
        ValueError
            If a `t` lies outside [0, 1] or is not a number.

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

    def delta_at(self, epsilon: float, shift: float | None = None) -> float:
        """Give the exact privacy profile: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed.
        shift : float, default=None
            The distance s > 0 by which the cell may differ at most, in the unit of the data; None means
            `sensitivity`.  A larger one serves record-level accounting, where a cell may move by its full
            range.

        Returns
        -------
        float
            The supremum over the shifts in (0, s] of the hockey-stick divergence
            sup_E P(E) - exp(e) P(E - shift), rounded up: never below the true value, above it by about one
            unit in the last place.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.

        Notes
        -----
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
        loss = check_loss(epsilon)
        distance = self.sensitivity if shift is None else check_positive("shift", shift)
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
        return LatticeDiracLaplace(self.epsilon, self.delta, 2**-_LOG2_FINE_RATE).dp_event()

    def on_lattice(self, spacing: float) -> LatticeDiracLaplace:
        """Give the discrete law of the same epsilon and delta in whole steps of a public lattice.

        Parameters
        ----------
        spacing : float
            The step, a power of two such as 2^-16, in the unit of the data; the sensitivity must be a whole
            number of steps.

        Returns
        -------
        LatticeDiracLaplace
            Its values are steps: multiply by `spacing` for the unit of the data.

        Raises
        ------
        ValueError
            If `spacing` is not a power of two, the sensitivity is not a whole number of steps, or the noise
            would not fit in 64-bit integers.
        """
        return LatticeDiracLaplace(self.epsilon, self.delta, steps_of(self.sensitivity, spacing))

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.float64]:
        """Draw values for figures and simulations; a release draws from `on_lattice` instead.

        The values lie on a fine lattice (the sensitivity divided by a power of two of at most 2^61, at least
        2^30 steps per d / epsilon where that allows) and are drawn there exactly.  Added to data that are not
        on that lattice they carry no guarantee: low-order bits of the sum may show the data (Mironov 2012).

        Parameters
        ----------
        shape : int or tuple of int
        bits : BitSource, default=None
            None means `OperatingSystemBits()`.

        Returns
        -------
        ndarray of float64, of shape `shape`, in the unit of the data

        Raises
        ------
        ValueError
            If epsilon is below about 4e-17, or the bit source does not keep its promise.
        """
        log2_steps = min(max(0, math.frexp(self.epsilon)[1] - _LOG2_FINE_RATE), MAX_DIGITS)
        fine = LatticeDiracLaplace(self.epsilon, self.delta, 2**log2_steps)
        step = np.float64(math.ldexp(self.sensitivity, -log2_steps))
        return fine.sample(shape, bits=bits).astype(np.float64) * step
