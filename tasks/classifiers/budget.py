"""What a fit may spend, and how it is shared out over the steps of an algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from schemas.events import ApproximateEvent, GaussianEvent
from tasks.accounting.gaussian_profile import gaussian_epsilon, gaussian_mu

__all__ = ["PrivacyBudget"]


@dataclass(frozen=True)
class PrivacyBudget:
    """(epsilon, delta) for one fit.

    Parameters
    ----------
    epsilon : float
        Above 0; infinite for a fit without noise.
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
        if not self.epsilon > 0.0:
            raise ValueError(f"epsilon must be above 0, got epsilon={self.epsilon!r}")
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
        """A budget whose own mu is at most `mu`, and as near to it as a relative 2^-30.

        Its delta is `delta`, or, where that alone would pay for `mu`, so small that epsilon counts.
        """
        mu *= 1.0 - 2.0**-30  # more than the conversions there and back can lose
        while not gaussian_epsilon(mu, delta) > 0.0:
            delta *= 0.5
        return cls(gaussian_epsilon(mu, delta), delta)

    def share(self, part: float) -> PrivacyBudget:
        """A part of both epsilon and delta, for basic composition; `part` in (0, 1]."""
        return PrivacyBudget(self.epsilon * part, self.delta * part)

    def as_approximate(self) -> ApproximateEvent:
        """The event of which no more is known than (epsilon, delta)."""
        return ApproximateEvent(epsilon=self.epsilon, delta=self.delta)

    def as_gaussian(self) -> GaussianEvent:
        """The Gaussian release that spends all of it."""
        return GaussianEvent(noise_multiplier=1.0 / self.mu)
