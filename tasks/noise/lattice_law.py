"""What all laws on whole lattice steps have in common: the block loop, the checks and the words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource, OperatingSystemBits
from tasks.noise.parameters import check_loss, check_steps

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["LatticeLaw"]

_BLOCK = 1 << 16  # values per pass: its buffers (2 MB) stay in the cache and bound the memory
_LARGEST_SHIFT = 2**62


class LatticeLaw(ABC):
    """A `LatticeNoise` whose parameters are the fields of a frozen dataclass, `sensitivity` among them."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]
    """What specs and manifests call the mechanism."""
    sensitivity: int

    def parameters(self) -> dict[str, Any]:
        """Give what `law_from_parameters` needs to build this law again: numbers and lists of them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self._fields()}

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        return tuple((field.name, getattr(self, field.name)) for field in fields(self))

    @property
    def atom(self) -> float:
        """0: no value is left without noise by design; the law has a zero of its own."""
        return 0.0

    @property
    @abstractmethod
    def max_magnitude(self) -> int:
        """The largest |k| that `sample` can return, in steps."""

    @property
    @abstractmethod
    def sampling_bias(self) -> float:
        """A bound of the total variation distance per value between `sample` and this law.

        One value drawn by `sample` is (e, delta_at(e) + (1 + exp(e)) sampling_bias)-differentially private.
        """

    @abstractmethod
    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the probability of each number of steps.

        Parameters
        ----------
        k : array-like of int

        Returns
        -------
        ndarray of float64, the shape of `k`

        Raises
        ------
        ValueError
            If `k` is not of an integer type.
        """

    @abstractmethod
    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, -infinity only where that is exactly 0."""

    @abstractmethod
    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""

    @abstractmethod
    def expected_magnitude(self) -> float:
        """Give E|K|, in steps."""

    def delta_at(self, epsilon: float, shift: int | None = None) -> float:
        """Give the exact privacy profile of this discrete law: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed, and leaves what lies beyond the other's support.
        shift : int, default=None
            The number of steps s >= 1 by which the cell may differ at most; None means `sensitivity`.
            A larger one serves record-level accounting, where a cell may move by its full range.

        Returns
        -------
        float
            The maximum over the shifts 1 to s, in both directions, of sum_k [P(k) - exp(e) P(k - shift)]_+,
            rounded up: never below the true value, above it by about one unit in the last place.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.
        """
        loss = check_loss(epsilon)
        return self._divergence(
            loss, check_steps("shift", self.sensitivity if shift is None else shift, _LARGEST_SHIFT)
        )

    @abstractmethod
    def _divergence(self, loss: float, shift: int) -> float:
        """The profile at a loss and for shifts that are within their ranges."""

    def dp_event(self) -> DpEvent:
        """Give the event of one use at `sensitivity`."""
        from tasks.noise.event import LatticeNoiseDpEvent

        return LatticeNoiseDpEvent(self.name, self._fields(), self.sensitivity)

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.int64]:
        """Draw independent values, as `fill` does.

        Parameters
        ----------
        shape : int or tuple of int
        bits : BitSource, default=None
            None means `OperatingSystemBits()`.  Anything else is for tests and brands the release.

        Returns
        -------
        ndarray of int64, of shape `shape`
            In lattice steps, between -`max_magnitude` and `max_magnitude`.

        Raises
        ------
        ValueError
            If `shape` has a negative entry or the bit source does not keep its promise.
        """
        source = OperatingSystemBits() if bits is None else bits
        values = np.empty(shape, dtype=np.int64)
        flat = values.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            self.fill(flat[start : start + _BLOCK], source)
        return values

    @abstractmethod
    def fill(self, block: NDArray[np.int64], bits: BitSource) -> None:
        """Write independent values over `block`, one dimension of moderate size."""
