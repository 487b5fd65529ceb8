"""Staircase noise with an atom at zero on whole lattice steps, drawn exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS
from tasks.noise.lattice_law import LatticeLaw
from tasks.noise.lattice_staircase import LatticeStaircase
from tasks.noise.parameters import as_steps, check_delta
from tasks.noise.staircase_profile import divergence_with_atom

__all__ = ["LatticeDiracStaircase"]


@dataclass(frozen=True)
class LatticeDiracStaircase(LatticeLaw):
    """Noise in whole lattice steps: none with probability delta, else `LatticeStaircase` noise.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In [0, 1).
    sensitivity : int
        D, the number of lattice steps by which one cell may differ between adjacent tables.
    rise : int, default=None
        The staircase's r, in 1, ..., D; None means the one with the least E|K|.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the noise would not fit in 64-bit integers.

    Notes
    -----
    Guarantee: (epsilon, delta)-differential privacy for the adjacency "one cell moves by at most D lattice steps".  The
    proof is that of `DiracStaircase`, which uses of the staircase only that it is (epsilon, 0)-private and even; delta
    is exact, as P(0) - exp(epsilon) P(0 - D) = delta.  `delta_at` gives the whole privacy profile.  Assumed: integer
    data on a lattice fixed in advance, integer sums, a uniform bit source.  The privacy loss takes finitely many
    values and is not monotone in k.
    """

    epsilon: float
    delta: float
    sensitivity: int
    rise: int | None = None

    name = "dirac-staircase"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_delta(self.delta))
        shape = LatticeStaircase(self.epsilon, self.sensitivity, self.rise)
        object.__setattr__(self, "epsilon", shape.epsilon)
        object.__setattr__(self, "sensitivity", shape.sensitivity)
        object.__setattr__(self, "rise", shape.rise)

    @property
    def staircase(self) -> LatticeStaircase:
        """The law of the noise where there is any."""
        return LatticeStaircase(self.epsilon, self.sensitivity, self.rise)

    @property
    def atom(self) -> float:
        """The probability delta of no noise by design, beside the staircase's own zero."""
        return self.delta

    @property
    def max_magnitude(self) -> int:
        """The largest |k| that `sample` can return, in steps."""
        return self.staircase.max_magnitude

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-116, of the total variation distance per value between `sample` and this law."""
        return self.staircase.sampling_bias + math.ldexp(1.0, -THRESHOLD_BITS)

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(k)."""
        return np.asarray((1.0 - self.delta) * self.staircase.pmf(k) + np.where(as_steps(k) == 0.0, self.delta, 0.0))

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, finite everywhere."""
        away = math.log1p(-self.delta) + self.staircase.log_pmf(k)
        return np.asarray(np.where(as_steps(k) == 0.0, math.log(float(self.pmf(0))), away))

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""
        steps = as_steps(k)
        below = (1.0 - self.delta) * self.staircase.cdf(k)
        above = (1.0 - self.delta) * self.staircase.cdf(-np.asarray(k, dtype=np.int64) - 1)
        return np.asarray(np.where(steps < 0.0, below, 1.0 - above))

    def expected_magnitude(self) -> float:
        """Give E|K|, 1 - delta times the staircase's, in steps."""
        return (1.0 - self.delta) * self.staircase.expected_magnitude()

    def _divergence(self, loss: float, shift: int) -> float:
        """The largest shift is the worst.

        P is even and falls with |k|, as for the staircase.  Every term is 1 - delta times the staircase's but those at
        0 and s: the one at 0 is [delta + (1 - delta) (S(0) - exp(e) S(s))]_+, the one at s vanishes, as P(s) <= P(0).
        """
        terms = self.staircase.profile_terms(loss, shift)
        return 0.0 if terms is None else divergence_with_atom(terms, self.delta)

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values: staircase noise, replaced by 0 with probability delta.

        That probability is rounded down to a multiple of 2^-128, so it is never above its nominal value.  Cost: 2 more
        random bytes a value than the staircase's.
        """
        self.staircase.fill(block, bits)
        block *= _atom(self.delta).draw(block.size, bits)


@lru_cache(maxsize=32)
def _atom(delta: float) -> ExactCategorical:
    """0 with probability delta, rounded down, else 1."""
    return ExactCategorical([math.floor(Fraction(delta) * 2**THRESHOLD_BITS)])
