"""The interval of a proportion."""

import numpy as np
from scipy.stats import norm

from schemas.measures import Interval


def wilson_bounds(proportion: float, trials: float, z: float) -> tuple[float, float]:
    """Wilson (1927): all p with |proportion - p| <= z sqrt(p (1-p) / trials); `trials` need not be whole."""
    centre = proportion + z**2 / (2 * trials)
    half = z * float(np.sqrt(proportion * (1 - proportion) / trials + z**2 / (4 * trials**2)))
    scale = 1 + z**2 / trials
    # The ends at 0 and 1 are exact, and rounding must not exclude the estimate itself.
    lower = 0.0 if proportion == 0 else min((centre - half) / scale, proportion)
    upper = 1.0 if proportion == 1 else max((centre + half) / scale, proportion)
    return max(0.0, lower), min(1.0, upper)


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion.

    Parameters
    ----------
    successes : int
        Number of successes, 0 to n.
    n : int
        Number of trials, at least 1.
    confidence : float, default=0.95
        Between 0 and 1.

    Returns
    -------
    Interval
        The estimate is `successes / n`; the interval stays in [0, 1] and has width also at both ends.

    Raises
    ------
    ValueError
        If a number is outside its range.

    References
    ----------
    E. B. Wilson: Probable inference, the law of succession, and statistical inference. Journal of the American
    Statistical Association 22 (1927) 209-212.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got n={n}")
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be between 0 and n={n}, got successes={successes}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got confidence={confidence}")
    lower, upper = wilson_bounds(successes / n, n, float(norm.ppf((1 + confidence) / 2)))
    return Interval(estimate=successes / n, lower=lower, upper=upper, confidence=confidence, method="Wilson")
