"""What the step that adds noise, the plan and the accountant ask of a mechanism's lattice law."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource

__all__ = ["LatticeNoise"]


class LatticeNoise(Protocol):
    """Additive noise in whole steps of a public lattice.  Units: lattice steps, probabilities, nats."""

    @property
    def name(self) -> str:
        """What specs and manifests call the mechanism."""
        ...

    def parameters(self) -> Mapping[str, Any]:
        """Give numbers (and lists of them) from which `law_from_parameters` builds this law again."""
        ...

    @property
    def sensitivity(self) -> int:
        """The number of steps by which one cell may differ between adjacent tables."""
        ...

    @property
    def atom(self) -> float:
        """The probability of no noise by design, for the expected number of unperturbed cells."""
        ...

    @property
    def max_magnitude(self) -> int:
        """The largest magnitude that `sample` can return."""
        ...

    @property
    def sampling_bias(self) -> float:
        """An upper bound of the total variation distance between `sample` and the law, per value."""
        ...

    def expected_magnitude(self) -> float:
        """Give the mean of the noise's magnitude, in steps."""
        ...

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the probability of each number of steps."""
        ...

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give its logarithm, -infinity only where the probability is exactly 0."""
        ...

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the probability of at most `k`."""
        ...

    def delta_at(self, epsilon: float, shift: int | None = None) -> float:
        """Give the hockey-stick divergence for shifts up to `shift` (None: `sensitivity`), rounded up."""
        ...

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.int64]:
        """Draw independent values; None means the operating system's generator."""
        ...
