"""Staircase noise with an atom at zero: nothing with probability delta, else the staircase."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource, OperatingSystemBits
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS, context, float_upper_bound
from tasks.noise.parameters import as_steps, check_delta, check_levels, steps_of
from tasks.noise.staircase import LatticeStaircase, Staircase, StaircaseTerms

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["DiracStaircase", "LatticeDiracStaircase"]

_DIGITS = 60
_SLACK = Decimal(10) ** -40
_FINE_BITS = 30  # `DiracStaircase.sample` uses a lattice of 2^30 steps per sensitivity
_BLOCK = 1 << 16


@dataclass(frozen=True)
class DiracStaircase:
    """Additive noise with law delta Dirac(v) + (1 - delta) staircase(v), the staircase for the same epsilon.

    This object describes the law on the real line: for plans, figures and comparisons.  Releases draw from
    `on_lattice`.

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
        shape = Staircase(self.epsilon, self.delta, self.sensitivity)
        object.__setattr__(self, "epsilon", shape.epsilon)
        object.__setattr__(self, "delta", shape.delta)
        object.__setattr__(self, "sensitivity", shape.sensitivity)

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

    def delta_at(self, epsilon: float, shift: float | None = None) -> float:
        """Give the exact privacy profile, delta + (1 - delta) times the staircase's, rounded up.

        The two atoms lie at different points, which neither density charges; so the best event holds P's atom, not
        Q's, and is the staircase's own elsewhere.  No loss brings it below delta.
        """
        terms = self.staircase.profile_terms(epsilon, shift)
        if terms is None:
            return self.delta
        return _mixed(StaircaseTerms(terms.elsewhere, Decimal(0)), self.delta)

    def dp_event(self) -> DpEvent:
        """Give the event of one use: that of the fine lattice's law."""
        return LatticeDiracStaircase(self.epsilon, self.delta, 2**_FINE_BITS).dp_event()

    def on_lattice(self, spacing: float) -> LatticeDiracStaircase:
        """Give the discrete law of the same epsilon and delta in whole steps of a public lattice.

        Raises
        ------
        ValueError
            If `spacing` is not a power of two, the sensitivity is not a whole number of steps, or the noise would not
            fit in 64-bit integers.
        """
        return LatticeDiracStaircase(self.epsilon, self.delta, steps_of(self.sensitivity, spacing))

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.float64]:
        """Draw values for figures and simulations, on a fine lattice; a release draws from `on_lattice` instead."""
        steps = LatticeDiracStaircase(self.epsilon, self.delta, 2**_FINE_BITS).sample(shape, bits=bits)
        return steps.astype(np.float64) * np.float64(math.ldexp(self.sensitivity, -_FINE_BITS))


@dataclass(frozen=True)
class LatticeDiracStaircase:
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
    def name(self) -> str:
        """`dirac-staircase`."""
        return "dirac-staircase"

    def parameters(self) -> dict[str, float | int]:
        """Give what `law_from_parameters` needs to build this law again."""
        assert self.rise is not None
        return {"epsilon": self.epsilon, "delta": self.delta, "sensitivity": self.sensitivity, "rise": self.rise}

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
        """Give the probability of each number of steps, an array of integers; ValueError for other types."""
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

    def delta_at(self, epsilon: float, shift: int | None = None) -> float:
        """Give the exact privacy profile of this discrete law: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed.
        shift : int, default=None
            The number of steps s >= 1 by which the cell may differ at most, smaller or larger than D; None means D.

        Returns
        -------
        float
            The maximum over the shifts 1 to s, in both directions, of sum_k [P(k) - exp(e) P(k - shift)]_+,
            rounded up: never below the true value, above it by about one unit in the last place.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.

        Notes
        -----
        P is even and falls with |k|, so as for the staircase the largest shift is the worst.  Every term is 1 - delta
        times the staircase's but those at 0 and s: the one at 0 is [delta + (1 - delta) (S(0) - exp(e) S(s))]_+, the
        one at s vanishes, since P(s) <= P(0).
        """
        terms = self.staircase.profile_terms(epsilon, shift)
        return 0.0 if terms is None else _mixed(terms, self.delta)

    def dp_event(self) -> DpEvent:
        """Give the event of one use at D."""
        from tasks.noise.event import LatticeNoiseDpEvent

        return LatticeNoiseDpEvent(self.name, tuple(self.parameters().items()), self.sensitivity)

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.int64]:
        """Draw independent values: staircase noise, replaced by 0 with probability delta.

        That probability is rounded down to a multiple of 2^-128, so it is never above its nominal value.  Parameters,
        result and errors are those of `LatticeStaircase.sample`; 2 more random bytes a value.
        """
        source = OperatingSystemBits() if bits is None else bits
        values = np.empty(shape, dtype=np.int64)
        flat = values.reshape(-1)
        keep, staircase = _atom(self.delta), self.staircase
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            block[...] = staircase.sample(block.size, bits=source)
            block *= keep.draw(block.size, source)
        return values


def _mixed(terms: StaircaseTerms, delta: float) -> float:
    """(1 - delta) elsewhere + [delta + (1 - delta) at_zero]_+, rounded up."""
    with localcontext(context(_DIGITS)) as exact:
        atom = Decimal(delta)
        if terms.elsewhere == 0 and terms.at_zero == 0:
            return delta
        exact.prec = 4 * _DIGITS  # keeps the slack visible beside the atom
        kept = 1 - atom
        at_zero = max(Decimal(0), atom + kept * terms.at_zero + abs(terms.at_zero) * _SLACK)
        value = kept * terms.elsewhere * (1 + _SLACK) + at_zero
        exact.prec = _DIGITS
        return min(1.0, float_upper_bound(value))


@lru_cache(maxsize=32)
def _atom(delta: float) -> ExactCategorical:
    """0 with probability delta, rounded down, else 1."""
    return ExactCategorical([math.floor(Fraction(delta) * 2**THRESHOLD_BITS)])
