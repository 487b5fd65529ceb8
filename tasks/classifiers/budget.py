"""What a fit may spend, and how it is shared out over the steps of an algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from schemas.events import ApproximateEvent, GaussianEvent
from tasks.accounting.gaussian_profile import gaussian_epsilon, gaussian_mu

__all__ = ["PrivacyBudget"]


_LEAST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e6
_LEAST_DELTA = 1e-200


@dataclass(frozen=True)
class PrivacyBudget:
    """(epsilon, delta) for one fit.

    Parameters
    ----------
    epsilon : float
        In [1e-9, 1e6], or infinite for a fit without noise.
    delta : float
        In [0, 1); 0 asks for pure differential privacy.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or math.isnan(value):
                raise ValueError(f"{name} must be a number, got {name}={value!r}")
            object.__setattr__(self, name, float(value))
        if not (_LEAST_EPSILON <= self.epsilon <= _LARGEST_EPSILON or self.epsilon == math.inf):
            raise ValueError(
                f"epsilon must be above 0: in [{_LEAST_EPSILON:g}, {_LARGEST_EPSILON:g}], or infinite, got "
                f"epsilon={self.epsilon!r}"
            )
        if not 0.0 <= self.delta < 1.0:
            raise ValueError(f"delta must be in [0, 1), got delta={self.delta!r}")

    @property
    def is_infinite(self) -> bool:
        """Whether no noise is asked for."""
        return math.isinf(self.epsilon)

    @property
    def is_pure(self) -> bool:
        """Whether delta is 0."""
        return self.delta == 0.0

    @property
    def mu(self) -> float:
        """The largest parameter of Gaussian differential privacy with (epsilon, delta), rounded down.

        One Gaussian release of noise multiplier 1 / mu has it, and so have T of them with sqrt(T) / mu each (Dong,
        Roth, Su 2022, corollary 3.3; Balle, Wang 2018, theorem 8).

        Raises
        ------
        ValueError
            If delta is 0: no Gaussian noise is purely private.
        """
        if self.is_infinite:
            return math.inf
        return gaussian_mu(self.epsilon, self.delta)

    @classmethod
    def of_mu(cls, mu: float, delta: float) -> PrivacyBudget:
        """A budget whose own mu is at most `mu`; within 1e-3 of it, and within 2^-29 from epsilon 1e-3 up.

        Its delta is `delta`, or, where that alone would pay for `mu`, so small that epsilon counts.
        """
        least = max(1e-6 * mu, _LEAST_EPSILON)  # of an epsilon that the conversions keep
        wanted = mu * (1.0 - 2.0**-30)  # they lose less, but where epsilon is tiny
        while wanted > 0.999 * mu:
            own, epsilon = delta, gaussian_epsilon(wanted, delta)
            while not epsilon >= least and own > _LEAST_DELTA:
                own *= 0.5
                epsilon = gaussian_epsilon(wanted, own)
            if not _LEAST_EPSILON <= epsilon <= _LARGEST_EPSILON:
                break
            made = cls(epsilon, own)
            if made.mu <= mu:
                return made
            wanted *= 1.0 - 2.0**-16
        raise ValueError(f"the budget is too small or too large to be shared out: mu={mu:.3g} at delta={delta:.3g}")

    def share(self, part: float) -> PrivacyBudget:
        """A part of both epsilon and delta, for basic composition; `part` in (0, 1]."""
        return PrivacyBudget(self.epsilon * part, self.delta * part)

    def as_approximate(self) -> ApproximateEvent:
        """The event of which no more is known than (epsilon, delta)."""
        return ApproximateEvent(epsilon=self.epsilon, delta=self.delta)

    def as_gaussian(self) -> GaussianEvent:
        """The Gaussian release that spends all of it."""
        return GaussianEvent(noise_multiplier=1.0 / self.mu)
