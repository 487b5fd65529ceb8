"""The additive noise with the least E|K| at a given (epsilon, delta), by linear programme, with an exact guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource
from tasks.noise.buckets import BucketSampler
from tasks.noise.cell_profile import MAX_EPSILON, largest_divergence, total_weight
from tasks.noise.exact import THRESHOLD_BITS
from tasks.noise.lattice_law import LatticeLaw
from tasks.noise.linear_programme import MAX_MAGNITUDE, least_magnitude
from tasks.noise.parameters import as_steps, check_delta, check_epsilon, check_steps

__all__ = ["LatticeOptimal"]


@dataclass(frozen=True)
class LatticeOptimal(LatticeLaw):
    """Noise in whole lattice steps, uniform on each of a few cells of neighbouring magnitudes, of finite support.

    `LatticeOptimal.solve` finds the weights that make E|K| least; the constructor takes any and keeps them only
    if they have the guarantee that is claimed.

    Parameters
    ----------
    epsilon : float
        Finite, above 0, at most 700.
    delta : float
        In (0, 1).
    sensitivity : int
        D, the number of lattice steps by which one cell may differ between adjacent tables.
    ends : tuple of int, shape (n_cells,)
        Cell i holds the magnitudes from ends[i - 1] (0 for the first) to ends[i] - 1; at most 2^50.
    weights : tuple of int, shape (n_cells,)
        P(k) is proportional to the weight of the cell that |k| lies in; below 2^53.

    Raises
    ------
    ValueError
        If a parameter is outside its range or the law is not (epsilon, delta)-differentially private.

    Notes
    -----
    Guarantee: (epsilon, delta_at(epsilon))-differential privacy, where the latter is at most delta, for the adjacency
    "one cell moves by at most D lattice steps".  Assumed: integer data on a lattice fixed in advance, integer sums,
    a uniform bit source.

    Proof.  Let I_i be the intervals of integers on which P is constant, with values p_i.  For a shift s

        H(s) = sum_k [P(k) - exp(e) P(k - s)]_+ = sum_(i,j) |I_i intersected with (I_j + s)| [p_i - exp(e) p_j]_+,

    where one of the I is what lies beyond the support, with value 0.  The size of the intersection of two intervals is
    a piecewise linear function of s, whose slope changes only where an end of I_i meets an end of I_j + s.  So between
    two neighbouring such shifts H is linear, H(s) is a convex combination of its values at the two, hence at most
    their maximum: the largest H over 1, ..., D is reached at a difference of two ends, or at D.  `delta_at` evaluates
    those, in whole numbers, with exp(e) rounded down.  (For cells of equal width w it says that a shift between two
    multiples of w is no worse than the worse of them.)

    The privacy loss takes finitely many values, infinity among them.  P need not fall with |k| everywhere.

    References
    ----------
    Geng, Viswanath (2016) for the linear programme at delta = 0, whose solution is the staircase; Ghosh,
    Roughgarden, Sundararajan (2012) for mechanisms by linear programming.
    """

    epsilon: float
    delta: float
    sensitivity: int
    ends: tuple[int, ...]
    weights: tuple[int, ...]

    name = "lattice-optimal"

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, MAX_MAGNITUDE))
        ends = tuple(check_steps("ends", end, MAX_MAGNITUDE) for end in self.ends)
        weights = tuple(int(weight) for weight in self.weights)
        if not ends or len(ends) != len(weights) or any(a >= b for a, b in pairwise(ends)):
            raise ValueError("ends must increase, and there must be as many weights")
        if any(not 0 <= weight < 2**53 for weight in weights) or not any(weights):
            raise ValueError("weights must lie in [0, 2^53) and not all be 0")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "weights", weights)
        exact = self.delta_at(self.epsilon)
        if exact > self.delta:
            raise ValueError(
                f"the weights give delta={exact!r} at epsilon={self.epsilon!r}, above the claimed {self.delta!r}"
            )

    @classmethod
    def solve(cls, epsilon: float, delta: float, sensitivity: int) -> LatticeOptimal:
        """Find the weights with the least E|K| among laws that are uniform on the cells chosen here.

        Parameters
        ----------
        epsilon : float
            Above 0, at most 700.
        delta : float
            In (0, 1); at 0 `LatticeStaircase` is optimal and nothing is to be solved.
        sensitivity : int
            D.  Up to 16 each magnitude is a cell, so the law is the best of all additive noise on the lattice (but for
            what the finite support costs); beyond, there are 2 to 22 cells to every D, fewer for a longer support.

        Returns
        -------
        LatticeOptimal
            The same for the same arguments in one process; manifests should keep `parameters()`, since another
            version of the solver may find other weights.

        Raises
        ------
        ValueError
            If an argument is outside its range, or delta is so small for this epsilon that the support would be
            too large for the programme.  (There the closed forms are within 0.1 % of the limit.)

        Notes
        -----
        `least_magnitude` has the programme.  Mean time 0.1 s, at most about 1 s.
        """
        _check(epsilon, delta)
        return _solve(float(epsilon), float(delta), check_steps("sensitivity", sensitivity, MAX_MAGNITUDE))

    @property
    def atom(self) -> float:
        """What P(0) has above P(1): the probability of no noise by design, beside the zero of a law without an atom."""
        masses = self._weight(np.array([0, 1]))
        return max(0.0, float(Fraction(int(masses[0]) - int(masses[1]), self._total)))

    @property
    def max_magnitude(self) -> int:
        """The largest |k|, in steps."""
        return self.ends[-1] - 1

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-119, of the total variation distance per value between `sample` and this law."""
        return _sampler(self.ends, self.weights).rounding_bias

    @property
    def _total(self) -> int:
        return total_weight(self.ends, self.weights)

    def _weight(self, k: ArrayLike) -> NDArray[np.int64]:
        as_steps(k)
        cell = np.searchsorted(np.array(self.ends), np.abs(np.asarray(k, dtype=np.int64)), side="right")
        return np.array([*self.weights, 0], dtype=np.int64)[cell]

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(k)."""
        return np.asarray(self._weight(k) / float(self._total))

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, -infinity where that is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.pmf(k)))

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""
        as_steps(k)
        steps = np.asarray(k, dtype=np.int64)
        ends = np.array([0, *self.ends], dtype=np.int64)
        sizes = [b - a for a, b in pairwise(ends.tolist())]
        masses = [size * weight for size, weight in zip(sizes, self.weights, strict=True)]
        tails = [0]
        for mass in reversed(masses):
            tails.append(tails[-1] + mass)
        at_start = np.array([tail / self._total for tail in reversed(tails)])  # P(K >= ends[i])
        first = np.minimum(np.where(steps < 0, -steps, steps + 1), ends[-1])
        cell = np.minimum(np.searchsorted(ends, first, side="right") - 1, len(self.weights) - 1)
        weight = np.array(self.weights, dtype=np.float64)[cell] / float(self._total)
        tail = at_start[cell + 1] + (ends[cell + 1] - first) * weight
        return np.asarray(np.where(steps < 0, tail, 1.0 - tail))

    def expected_magnitude(self) -> float:
        """Give E|K|, in steps."""
        start, weighted = 0, 0
        for end, weight in zip(self.ends, self.weights, strict=True):
            weighted += weight * (end - start) * (start + end - 1)  # twice the sum of the magnitudes
            start = end
        return float(Fraction(weighted, self._total))

    def _divergence(self, loss: float, shift: int) -> float:
        return largest_divergence(self.ends, self.weights, loss, shift)

    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values: a cell, a uniform place in it, a fair sign."""
        _sampler(self.ends, self.weights).fill(block, bits)


def _check(epsilon: object, delta: object) -> None:
    loss, probability = check_epsilon(epsilon), check_delta(delta)
    if loss > MAX_EPSILON:
        raise ValueError(f"epsilon must be at most 700 for the linear programme, got epsilon={epsilon!r}")
    if probability == 0.0:
        raise ValueError("delta must be above 0 for the linear programme; at delta=0 LatticeStaircase is optimal")


@lru_cache(maxsize=64)
def _solve(epsilon: float, delta: float, sensitivity: int) -> LatticeOptimal:
    return LatticeOptimal(epsilon, delta, sensitivity, *least_magnitude(epsilon, delta, sensitivity))


@lru_cache(maxsize=32)
def _sampler(ends: tuple[int, ...], weights: tuple[int, ...]) -> BucketSampler:
    """Zero, and the cells without it."""
    total = total_weight(ends, weights)
    starts, widths, thresholds = [], [], []
    passed, start = weights[0], 1
    for end, weight in zip(ends, weights, strict=True):
        if end > start and weight:
            thresholds.append(((passed << (THRESHOLD_BITS + 1)) + total) // (2 * total))
            starts.append(start)
            widths.append(end - start)
            passed += 2 * (end - start) * weight
        start = max(start, end)
    return BucketSampler(thresholds, starts, widths)
