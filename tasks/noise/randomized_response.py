"""Labels and categories by k-ary randomised response, drawn exactly."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS, context, exp_minus, to_threshold
from tasks.noise.parameters import check_epsilon

__all__ = ["LabelRandomizedResponse"]

_MOST_CATEGORIES = 65_000


@dataclass(frozen=True)
class LabelRandomizedResponse:
    """A label stays with e^epsilon times the probability of every single other one.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    n_categories : int
        k, 2 to 65,000.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Guarantee: (epsilon, 0)-differential privacy of one label that changes arbitrarily. Each other label has
    probability 1 / (e^epsilon + k - 1), rounded up to a multiple of 2^-128, and the true one the rest; so the ratio is
    at most e^epsilon, and the law is exactly what is drawn.

    References
    ----------
    Warner (1965); Kairouz, Oh, Viswanath (2016) for k categories; Wang, Blocki, Li, Jha (2017), section 4.1, for the
    estimates.
    """

    epsilon: float
    n_categories: int
    name = "randomized-response"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if not 2 <= self.n_categories <= _MOST_CATEGORIES:
            raise ValueError(f"n_categories must be between 2 and {_MOST_CATEGORIES}, got {self.n_categories}")

    @property
    def keep_probability(self) -> float:
        """Probability that a label stays as it is."""
        return 1.0 - (self.n_categories - 1) * self._other() / 2.0**THRESHOLD_BITS

    @property
    def change_probability(self) -> float:
        """Probability that a label is replaced by another one."""
        return (self.n_categories - 1) * self._other() / 2.0**THRESHOLD_BITS

    @property
    def estimate_variance(self) -> float:
        """Variance of an estimate, summed over the categories."""
        kept, other = self.keep_probability, self._other() / 2.0**THRESHOLD_BITS
        spread = kept * (1.0 - kept) + (self.n_categories - 1) * other * (1.0 - other)
        return spread / (kept - other) ** 2

    def estimate(self, responses: NDArray[np.int64]) -> NDArray[np.float64]:
        """Unbiased estimates of the indicators of the true labels, shape (n, n_categories)."""
        kept, other = self.keep_probability, self._other() / 2.0**THRESHOLD_BITS
        shown = responses[:, None] == np.arange(self.n_categories)
        return np.asarray((shown - other) / (kept - other))

    def _other(self) -> int:
        """The probability of one other label, in units of 2^-128."""

        def probability(digits: int) -> Decimal:
            exact = context(digits + 10)
            a = exp_minus(Fraction(self.epsilon), digits + 10)
            return exact.divide(a, exact.add(1, exact.multiply(self.n_categories - 1, a)))

        # Beyond 1000 the probability lies between 0 and 2^-128 without a look at its digits.
        return to_threshold(probability, "up") if self.epsilon < 1000 else 1

    def respond(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Give each label its response.

        Parameters
        ----------
        labels : ndarray of int64, shape (n,)
            In 0, ..., n_categories - 1.
        bits : BitSource

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        other = self._other()
        kept = 2**THRESHOLD_BITS - (self.n_categories - 1) * other
        law = ExactCategorical([kept + step * other for step in range(self.n_categories - 1)])
        return (labels + law.draw(labels.size, bits).astype(np.int64)) % self.n_categories
