"""Staircase noise with an atom at zero: nothing with probability delta, else the staircase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.lattice_dirac_staircase import LatticeDiracStaircase
from tasks.noise.line_law import LineLaw
from tasks.noise.parameters import check_levels
from tasks.noise.staircase import Staircase
from tasks.noise.staircase_profile import divergence_with_atom

__all__ = ["DiracStaircase"]


@dataclass(frozen=True)
class DiracStaircase(LineLaw[LatticeDiracStaircase]):
    """Additive noise with law delta Dirac(v) + (1 - delta) staircase(v), the staircase for the same epsilon.

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
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, delta)-differential privacy for the adjacency "one cell moves by at most d", in exact real
    arithmetic.  Proof.  Let S be the staircase's law, P = delta Dirac(0) + (1 - delta) S, and P' and S' the same moved
    by s, 0 < s <= d.  For any event E, P(E) <= delta + (1 - delta) S(E), and S(E) <= exp(epsilon) S'(E) since S is
    (epsilon, 0)-private, and (1 - delta) S'(E) <= P'(E).  Together P(E) <= delta + exp(epsilon) P'(E).  The same holds
    for moves to the other side, S being even.  Equality is reached for s = d by the event that holds 0 and nothing of
    P' but its null sets, {0}: so delta is exact.  The atom takes the place of the noise in a share delta of the cells,
    hence E|V| is (1 - delta) times the staircase's.

    References
    ----------
    Geng, Viswanath (2016) for the staircase; Kumar, Moser, Fischer (JAIR 2024), result 1, for the mixture with an
    atom, there with the Laplace law.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        Staircase(self.epsilon, self.delta, self.sensitivity)  # has the same ranges
        super().__post_init__()

    @property
    def staircase(self) -> Staircase:
        """The law of the noise where there is any."""
        return Staircase(self.epsilon, 0.0, self.sensitivity)

    @property
    def atom(self) -> float:
        """The probability of exactly no noise, P(V = 0) = delta; `pdf` leaves this part of the law out."""
        return self.delta

    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density of the continuous part, which integrates to 1 - delta."""
        return np.asarray((1.0 - self.delta) * self.staircase.pdf(v))

    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v), atom included from v = 0 on; infinities are allowed."""
        value = np.asarray(v, dtype=np.float64)
        tail = (1.0 - self.delta) * self.staircase.cdf(-np.abs(value))
        return np.asarray(np.where(value < 0.0, tail, 1.0 - tail))

    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function, 0 for levels within the atom; ValueError outside [0, 1]."""
        level = check_levels(t)
        right = level > 0.5
        lower = np.minimum(np.where(right, 1.0 - level, level) / (1.0 - self.delta), 0.5)
        value = self.staircase.ppf(lower)
        return np.asarray(np.where(value == 0.0, 0.0, np.where(right, -value, value)))

    def expected_magnitude(self) -> float:
        """Give E|V| = (1 - delta) d exp(epsilon/2) / (exp(epsilon) - 1), in the unit of the data."""
        return (1.0 - self.delta) * self.staircase.expected_magnitude()

    def _divergence(self, loss: float, distance: float) -> float:
        """delta + (1 - delta) times the staircase's.

        The two atoms lie at different points, which neither density charges; so the best event holds P's atom, not
        Q's, and is the staircase's own elsewhere.  No loss brings it below delta.
        """
        terms = self.staircase.profile_terms(loss, distance)
        return self.delta if terms is None else divergence_with_atom(terms, self.delta)

    def _in_steps(self, n_steps: int, spacing: float) -> LatticeDiracStaircase:
        return LatticeDiracStaircase(self.epsilon, self.delta, n_steps)
