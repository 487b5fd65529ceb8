"""What all laws on the real line have in common: their parameters, their way to the lattice, and the words."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource
from tasks.noise.lattice_law import LatticeLaw
from tasks.noise.parameters import check_delta, check_epsilon, check_loss, check_positive, steps_of

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["FINE_BITS", "LineLaw"]

FINE_BITS = 30
"""`LineLaw.sample` uses a lattice of 2^30 steps per sensitivity."""

OnLattice = TypeVar("OnLattice", bound=LatticeLaw)


class LineLaw(ABC, Generic[OnLattice]):
    """A law on the real line, for plans, figures and comparisons.

    Releases draw from `on_lattice`, where the noise is a whole number of steps and the guarantee survives computer
    arithmetic.  Each law is a frozen dataclass of the three fields below.
    """

    epsilon: float
    delta: float
    sensitivity: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", self._check_delta(self.delta))
        object.__setattr__(self, "sensitivity", check_positive("sensitivity", self.sensitivity))

    @staticmethod
    def _check_delta(value: object) -> float:
        return check_delta(value)

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design."""
        return 0.0

    @abstractmethod
    def pdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give the density at `v`; it leaves out the atom at 0, if there is one.

        Parameters
        ----------
        v : array-like of float
            In the unit of the data.

        Returns
        -------
        ndarray of float64, the shape of `v`
        """

    @abstractmethod
    def cdf(self, v: ArrayLike) -> NDArray[np.float64]:
        """Give P(V <= v), an atom included from v = 0 on; infinities are allowed."""

    @abstractmethod
    def ppf(self, t: ArrayLike) -> NDArray[np.float64]:
        """Give the inverse of the distribution function, the least v with P(V <= v) >= t.

        Parameters
        ----------
        t : array-like of float
            In [0, 1].

        Returns
        -------
        ndarray of float64, the shape of `t`
            The ends of the support at 0 and 1, exactly 0 for levels within the atom.

        Raises
        ------
        ValueError
            If a `t` lies outside [0, 1] or is not a number.
        """

    @abstractmethod
    def expected_magnitude(self) -> float:
        """Give E|V|, in the unit of the data."""

    def delta_at(self, epsilon: float, shift: float | None = None) -> float:
        """Give the exact privacy profile: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed, and leaves what lies beyond the other's support.
        shift : float, default=None
            The distance s > 0 by which the cell may differ at most, in the unit of the data; None means
            `sensitivity`.  A larger one serves record-level accounting, where a cell may move by its full range.

        Returns
        -------
        float
            The supremum over the shifts in (0, s] of the hockey-stick divergence sup_E P(E) - exp(e) P(E - shift),
            rounded up: never below the true value, above it by about one unit in the last place.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.
        """
        loss = check_loss(epsilon)
        return self._divergence(loss, self.sensitivity if shift is None else check_positive("shift", shift))

    @abstractmethod
    def _divergence(self, loss: float, distance: float) -> float:
        """The profile at a loss and a distance that are within their ranges."""

    def on_lattice(self, spacing: float) -> OnLattice:
        """Give the discrete law of the same noise in whole steps of a public lattice.

        Parameters
        ----------
        spacing : float
            The step, a power of two such as 2^-16, in the unit of the data; the sensitivity must be a whole
            number of steps.

        Returns
        -------
        LatticeLaw
            Its epsilon is the same, its delta at most the same.  Its values are steps: multiply by `spacing` for the
            unit of the data.

        Raises
        ------
        ValueError
            If `spacing` is not a power of two, the sensitivity is not a whole number of steps, or the noise
            would not fit in 64-bit integers.
        """
        return self._in_steps(steps_of(self.sensitivity, spacing), spacing)

    @abstractmethod
    def _in_steps(self, n_steps: int, spacing: float) -> OnLattice:
        """The law in steps of `spacing`, `n_steps` of which are the sensitivity."""

    def _fine(self) -> tuple[OnLattice, float]:
        """The law on the fine lattice that `sample` draws from, and the spacing of that."""
        spacing = math.ldexp(self.sensitivity, -FINE_BITS)
        return self._in_steps(2**FINE_BITS, spacing), spacing

    def dp_event(self) -> DpEvent:
        """Give the event of one use: that of the fine lattice's law."""
        return self._fine()[0].dp_event()

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.float64]:
        """Draw values for figures and simulations; a release draws from `on_lattice` instead.

        The values lie on a fine lattice and are drawn there exactly.  Added to data that are not on that lattice they
        carry no guarantee: low-order bits of the sum may show the data (Mironov 2012).

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
            If the noise would not fit in 64-bit integers, or the bit source does not keep its promise.
        """
        law, spacing = self._fine()
        return law.sample(shape, bits=bits).astype(np.float64) * np.float64(spacing)
