"""Categories by optimised unary encoding: every possible category says yes or no, drawn exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource
from tasks.noise.categorical import ExactCategorical
from tasks.noise.exact import THRESHOLD_BITS, context, exp_minus, to_threshold
from tasks.noise.parameters import check_epsilon

__all__ = ["UnaryRandomizedResponse"]

_MOST_CATEGORIES = 65_000


@dataclass(frozen=True)
class UnaryRandomizedResponse:
    """The true category says yes with probability 1/2, each other one with probability 1 / (e^epsilon + 1).

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
    Guarantee: (epsilon, 0)-differential privacy of one category that changes arbitrarily. Two answers then have other
    probabilities, and their likelihood ratio is at most (1 - q) / q <= e^epsilon, with q rounded up to a multiple of
    2^-128; the law is exactly what is drawn. Of a true category a against b only the answers (yes, no) have the loss
    epsilon, with probability (1 - q) / 2.

    Its estimates have the same variance whatever k is, which makes it the better one of the two responses for many
    categories and small epsilon: where k > 3 e^epsilon + 2.

    References
    ----------
    Wang, Blocki, Li, Jha: Locally differentially private protocols for frequency estimation. USENIX Security 2017,
    section 4.3 (optimised unary encoding).
    """

    epsilon: float
    n_categories: int
    name = "unary-randomized-response"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if not 2 <= self.n_categories <= _MOST_CATEGORIES:
            raise ValueError(f"n_categories must be between 2 and {_MOST_CATEGORIES}, got {self.n_categories}")

    @property
    def false_yes_probability(self) -> float:
        """q, the probability that a category which is not the true one says yes."""
        return self._false_yes() / 2.0**THRESHOLD_BITS

    @property
    def change_probability(self) -> float:
        """Probability that the best guess from the answers, ties broken at random, is not the true category."""
        q, others = self.false_yes_probability, self.n_categories - 1
        true_yes = -math.expm1((others + 1) * math.log1p(-q)) / ((others + 1) * q)  # E[1 / (1 + yes answers of others)]
        all_no = (1.0 - q) ** others / (others + 1)
        return 1.0 - 0.5 * true_yes - 0.5 * all_no

    @property
    def estimate_variance(self) -> float:
        """Variance of an estimate, summed over the categories."""
        q = self.false_yes_probability
        return (0.25 + (self.n_categories - 1) * q * (1.0 - q)) / (0.5 - q) ** 2

    def _false_yes(self) -> int:
        """q in units of 2^-128, rounded up."""

        def probability(digits: int) -> Decimal:
            exact = context(digits + 10)
            a = exp_minus(Fraction(self.epsilon), digits + 10)
            return exact.divide(a, exact.add(1, a))

        return to_threshold(probability, "up") if self.epsilon < 1000 else 1

    def respond(self, codes: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Give each category's answer.

        Parameters
        ----------
        codes : ndarray of int64, shape (n,)
            In 0, ..., n_categories - 1.
        bits : BitSource

        Returns
        -------
        ndarray of int64, shape (n, n_categories)
            1 for yes, 0 for no.
        """
        n = codes.size
        yes = ExactCategorical([2**THRESHOLD_BITS - self._false_yes()]).draw(n * self.n_categories, bits)
        answers = yes.astype(np.int64).reshape(n, self.n_categories)
        answers[np.arange(n), codes] = ExactCategorical([2 ** (THRESHOLD_BITS - 1)]).draw(n, bits)
        return answers

    def estimate(self, answers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Unbiased estimates of the indicators of the true categories, shape (n, n_categories)."""
        q = self.false_yes_probability
        return np.asarray((answers - q) / (0.5 - q))
