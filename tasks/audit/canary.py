"""Empirical epsilon: a lower bound from one run of the mechanism on planted canaries (Steinke, Nasr, Jagielski 2023).

Each of m canaries is set to one of two neighbouring values by a fair coin of its own. The mechanism runs once. The
auditor looks at what was released and guesses the coins it feels surest of. Under (epsilon, delta)-differential
privacy with respect to flipping one coin, the number of right guesses among r is, up to a term in delta, dominated by
a binomial variable with success probability e^epsilon / (1 + e^epsilon); so many right guesses refute small epsilons.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import binom

_LARGEST_EPSILON = 100.0


class CanaryAudit(NamedTuple):
    """The outcome of a canary audit.

    Attributes
    ----------
    epsilon_lower_bound : float
        With the stated confidence the mechanism is not (epsilon, delta)-differentially private for any smaller
        epsilon; 0 if nothing can be refuted.
    correct : int
        Right guesses.
    guesses : int
        Guesses made, fixed before looking.
    canaries : int
    """

    epsilon_lower_bound: float
    correct: int
    guesses: int
    canaries: int


def canary_audit(
    coins: ArrayLike, evidence: ArrayLike, *, n_guesses: int, delta: float, confidence: float = 0.95
) -> CanaryAudit:
    """Guess the coins behind canaries from what was released, and bound epsilon from below.

    Parameters
    ----------
    coins : array-like of bool, shape (n_canaries,)
        What each coin showed; fair and independent of everything else.
    evidence : array-like of float, shape (n_canaries,)
        Computed from the release only: positive speaks for True, and the larger in magnitude, the surer.
    n_guesses : int
        How many of the surest to guess, 1 to n_canaries; to be fixed before looking at the release.
    delta : float
        In [0, 1).
    confidence : float, default=0.95

    Returns
    -------
    CanaryAudit

    Raises
    ------
    ValueError
        If shapes do not agree, evidence is not finite, or a number is outside its range.
    """
    truth, speaks = np.asarray(coins, dtype=bool), np.asarray(evidence, dtype=np.float64)
    if truth.ndim != 1 or truth.shape != speaks.shape:
        raise ValueError(f"coins {truth.shape} and evidence {speaks.shape} must be vectors of the same length")
    if not np.isfinite(speaks).all():
        raise ValueError("evidence must be finite")
    if not 1 <= n_guesses <= truth.size:
        raise ValueError(f"n_guesses must be between 1 and {truth.size}, got {n_guesses}")
    surest = np.argsort(-np.abs(speaks), kind="stable")[:n_guesses]
    correct = int(np.count_nonzero(guess(speaks[surest]) == truth[surest]))
    bound = epsilon_lower_bound(truth.size, n_guesses, correct, delta, confidence)
    return CanaryAudit(bound, correct, n_guesses, truth.size)


def guess(evidence: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The coin that the evidence speaks for."""
    return evidence > 0


def epsilon_lower_bound(n_canaries: int, n_guesses: int, n_correct: int, delta: float, confidence: float) -> float:
    """The smallest epsilon that `n_correct` right guesses do not refute.

    Parameters
    ----------
    n_canaries, n_guesses, n_correct : int
        m, r and v with 0 <= v <= r <= m.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        In [0, 100].

    Raises
    ------
    ValueError
        If a number is outside its range.

    References
    ----------
    Steinke, Nasr, Jagielski (NeurIPS 2023), theorem 5.2 and appendix D.
    """
    if not 0 <= n_correct <= n_guesses <= n_canaries:
        raise ValueError(
            f"0 <= n_correct <= n_guesses <= n_canaries does not hold for {n_correct}, {n_guesses}, {n_canaries}"
        )
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ValueError(f"delta must be in [0, 1) and confidence in (0, 1), got {delta} and {confidence}")

    def excess(epsilon: float) -> float:
        return p_value(n_canaries, n_guesses, n_correct, epsilon, delta) - (1 - confidence)

    if excess(0.0) >= 0:
        return 0.0
    if excess(_LARGEST_EPSILON) < 0:
        return _LARGEST_EPSILON
    return float(brentq(excess, 0.0, _LARGEST_EPSILON, xtol=1e-9)) - 1e-9


def p_value(n_canaries: int, n_guesses: int, n_correct: int, epsilon: float, delta: float) -> float:
    """An upper bound of the chance of that many right guesses under (epsilon, delta)-differential privacy.

    With W binomial(r, e^epsilon / (1 + e^epsilon)) it is P(W >= v) + 2 m delta max_i P(v - i <= W < v) / i.
    """
    if n_correct == 0:
        return 1.0
    success = 1.0 / (1.0 + np.exp(-epsilon))
    tail = float(binom.sf(n_correct - 1, n_guesses, success))
    below = np.cumsum(binom.pmf(n_correct - np.arange(1, n_correct + 1), n_guesses, success))
    steepest = float(np.max(below / np.arange(1, n_correct + 1)))
    return min(1.0, tail + 2.0 * n_canaries * delta * steepest)
