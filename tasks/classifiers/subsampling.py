"""What Gaussian noise on sums over random samples of the records costs, and how much of it a budget asks for.

Two ways of sampling, each with the relation of neighbours that it is analysed under:

- Poisson: each record is in a step's sample with probability q, by itself. By adding or removing a record, the step is
  as hard to see as N(0, z^2) against (1 - q) N(0, z^2) + q N(1, z^2), one way or the other, and steps compose by
  convolving privacy losses. dp_accounting does that with losses rounded so that the answer is an upper bound.
- A single record, drawn uniformly: by replacing one of n records, a step is Gaussian noise after sampling one record
  without replacement, and steps compose by adding Renyi divergences.

dp_accounting is imported when it is first needed; that takes about a second.
"""

from __future__ import annotations

import math
from functools import lru_cache

from scipy import optimize

from schemas.learning import Adjacency
from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_epsilon, gaussian_mu
from tasks.classifiers.lattice import SLACK

__all__ = [
    "LEAST_SAMPLED_DELTA",
    "poisson_delta_upper_bound",
    "poisson_epsilon_upper_bound",
    "poisson_noise_multiplier",
    "single_draw_epsilon_upper_bound",
    "split_for_replacement",
]

_UNSEEN_MULTIPLIER = 0.5
LEAST_SAMPLED_DELTA = 1e-9
"""Smallest delta that is calibrated for: losses are convolved in doubles, whose rounding is far below this, not 0."""

_CONVOLUTION_ERROR = 1e-12  # allowed for that rounding: kept back from delta
_TOLERANCE = 1e-4  # relative, of a calibrated noise multiplier; it errs upwards
# of Renyi divergences: each gives a bound; the high ones, for a small epsilon, take longer
_ORDERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)
_HIGH_ORDERS = (128, 256, 512)


def split_for_replacement(epsilon: float, delta: float) -> tuple[float, float]:
    """The guarantee for adding or removing a record that gives (epsilon, delta) for replacing one.

    Parameters
    ----------
    epsilon, delta : float

    Returns
    -------
    (float, float)
        epsilon / 2 and delta / (1 + exp(epsilon / 2)).

    Notes
    -----
    Let D and D' differ in one record, E be D without it, and the mechanism (a, b)-differentially private for adding
    or removing a record. Removing: P(M(D) in S) <= e^a P(M(E) in S) + b. Adding: P(M(E) in S) <= e^a P(M(D') in S) + b.
    The second in the first: P(M(D) in S) <= e^(2a) P(M(D') in S) + (1 + e^a) b. M must be one mechanism on tables of
    all three sizes: its scales depend on a number n that is public and fixed, not on how many rows E has.
    """
    return epsilon / 2.0, delta * math.exp(-epsilon / 2.0) / (1.0 + math.exp(-epsilon / 2.0)) / SLACK


def poisson_delta_upper_bound(
    sampling_probability: float, noise_multiplier: float, steps: int, epsilon: float
) -> float:
    """An upper bound of the delta that goes with `epsilon`, for adding or removing a record.

    Parameters
    ----------
    sampling_probability : float
        q, in (0, 1].
    noise_multiplier : float
        z: standard deviation of the noise over the largest norm of a record's part in the sum; above 0.
    steps : int
        At least 1.
    epsilon : float
        At least 0.

    Returns
    -------
    float
        Closed form for q = 1, else by convolution with privacy losses rounded upwards (Doroshenko et al. 2022), and
        1e-12 for the rounding of doubles.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    _check(sampling_probability, noise_multiplier, steps)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0, got epsilon={epsilon!r}")
    if sampling_probability == 1.0:
        return float(gaussian_delta(SLACK * math.sqrt(steps) / noise_multiplier, epsilon))
    return _delta(sampling_probability, noise_multiplier, steps, epsilon, _interval(max(epsilon, 0.01), steps))


def poisson_epsilon_upper_bound(
    sampling_probability: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    adjacency: Adjacency = "add_remove",
) -> float:
    """An upper bound of the epsilon that goes with `delta`.

    Parameters
    ----------
    sampling_probability, noise_multiplier, steps
        As for `poisson_delta_upper_bound`.
    delta : float
        In (0, 1).
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        For "replace_one" by way of removing and adding a record, see `split_for_replacement`; for q = 1 in closed
        form, with a sensitivity of two records' parts.

    Returns
    -------
    float
        To within 1e-4 above what the rounded losses give.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    _check(sampling_probability, noise_multiplier, steps)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got delta={delta!r}")
    if sampling_probability == 1.0:
        parts = 1.0 if adjacency == "add_remove" else 2.0
        return gaussian_epsilon(SLACK * parts * math.sqrt(steps) / noise_multiplier, delta)
    if adjacency == "replace_one":
        return _replacement_epsilon(sampling_probability, noise_multiplier, steps, delta)
    if delta <= _CONVOLUTION_ERROR:
        return math.inf
    guess = _accountant(sampling_probability, noise_multiplier, steps, 1e-3).get_epsilon(delta)
    interval = _interval(max(guess, 0.01), steps)
    accountant = _accountant(sampling_probability, noise_multiplier, steps, interval)
    return float(accountant.get_epsilon(delta - _CONVOLUTION_ERROR))


def _replacement_epsilon(sampling_probability: float, noise_multiplier: float, steps: int, delta: float) -> float:
    """The least epsilon, to 1e-4, whose halves keep the claim about adding and removing."""

    def holds(epsilon: float) -> bool:
        half, part = split_for_replacement(epsilon, delta)
        return poisson_delta_upper_bound(sampling_probability, noise_multiplier, steps, half) <= part

    high = 1.0
    while not holds(high):
        high *= 2.0
        if high > 1e3:
            return math.inf
    low = 0.0
    while high - low > _TOLERANCE * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def poisson_noise_multiplier(
    sampling_probability: float,
    steps: int,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "add_remove",
) -> float:
    """The least noise with which `steps` noisy sums over Poisson samples are (epsilon, delta)-private, rounded up.

    Parameters
    ----------
    sampling_probability : float
        q, in (0, 1].
    steps : int
        At least 1.
    epsilon, delta : float
        Above 0, delta below 1.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"

    Returns
    -------
    float
        z: standard deviation over the largest norm L of *one* record's part in the sum, under both relations. Up to a
        relative 1e-4 above the least that the rounded losses allow, or 1 / 2 where no noise would do. For q = 1 and
        "replace_one" the difference of two
        records' parts is what matters, of norm 2 L, so z is twice that of "add_remove".

    Raises
    ------
    ValueError
        If an argument is outside its range, or delta is too small for the accountant.

    Notes
    -----
    What is returned has itself been priced, and its price was within the budget: that does not rest on the search.
    """
    _check(sampling_probability, 1.0, steps)
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        raise ValueError(f"need a finite epsilon above 0 and delta in (0, 1), got {epsilon=}, {delta=}")
    if sampling_probability == 1.0:
        one = SLACK * math.sqrt(steps) / gaussian_mu(epsilon, delta)
        return one if adjacency == "add_remove" else 2.0 * one
    if adjacency == "replace_one":
        epsilon, delta = split_for_replacement(epsilon, delta)
    if delta < LEAST_SAMPLED_DELTA:
        raise ValueError(
            f"sampling_probability below 1 needs delta >= {LEAST_SAMPLED_DELTA:g} for adding or removing a record"
            f"{', which is delta / (1 + exp(epsilon / 2)) for replacing one' if adjacency == 'replace_one' else ''}; "
            f"it is {delta:.3g}: take a larger delta, or sampling_probability=1.0"
        )
    if -math.expm1(steps * math.log1p(-sampling_probability)) <= delta:
        return _UNSEEN_MULTIPLIER  # delta alone pays for being in a sample at all, whatever is released then
    interval = _interval(epsilon, steps)

    def excess(log_multiplier: float) -> float:
        return math.log(_delta(sampling_probability, math.exp(log_multiplier), steps, epsilon, interval) / delta)

    # what many steps with little of each need
    high = math.log(max(sampling_probability * math.sqrt(steps) / gaussian_mu(epsilon, delta), 0.5))
    while excess(high) > 0.0:
        high += 0.2
    low = high - 0.2
    while excess(low) <= 0.0:
        low, high = low - 0.2, low
    found = float(optimize.brentq(excess, low, high, xtol=_TOLERANCE / 4.0, rtol=1e-12))
    while excess(found) > 0.0:
        found += _TOLERANCE / 4.0
    return math.exp(found) * SLACK


def single_draw_epsilon_upper_bound(n_records: int, noise_multiplier: float, steps: int, delta: float) -> float:
    """An upper bound of epsilon for noisy gradients of single records, each drawn uniformly; for replacing a record.

    Parameters
    ----------
    n_records : int
        n, at least 2.
    noise_multiplier : float
        Standard deviation of the noise over the largest distance of two records' parts (2 n L for n times a gradient
        of norm at most L); above 0.
    steps : int
        At least 1.
    delta : float
        In (0, 1).

    Returns
    -------
    float

    Notes
    -----
    Drawing one index uniformly is sampling one of n records without replacement, whether or not later steps may draw
    the same one again: steps are independent draws, and the composition is adaptive. The Renyi divergences of such a
    step for whole orders are bounded by theorem 9 of Wang, Balle, Kasiviswanathan (2019), with replacing a record on
    both sides; they add up over the steps, and the conversion to (epsilon, delta) is dp_accounting's. It is not
    tight: for a single Gaussian, Renyi divergences give a larger epsilon than the closed form.

    References
    ----------
    Wang, Balle, Kasiviswanathan, "Subsampled Renyi differential privacy and analytical moments accountant" (AISTATS
    2019), theorem 9.
    """
    if n_records < 2 or steps < 1 or not 0.0 < noise_multiplier < math.inf or not 0.0 < delta < 1.0:
        raise ValueError(
            f"need n_records >= 2, steps >= 1, a finite noise_multiplier above 0 and delta in (0, 1), got "
            f"{n_records=}, {noise_multiplier=}, {steps=}, {delta=}"
        )
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    step = dp.SampledWithoutReplacementDpEvent(n_records, 1, dp.GaussianDpEvent(noise_multiplier))
    least = math.inf
    for orders in (_ORDERS, _HIGH_ORDERS):
        accountant = RdpAccountant(list(orders), neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
        accountant.compose(step, steps)
        epsilon, best = accountant.get_epsilon_and_optimal_order(delta)
        least = min(least, float(epsilon))
        if best < orders[-1]:
            break
    return least


def _check(sampling_probability: float, noise_multiplier: float, steps: int) -> None:
    if isinstance(sampling_probability, bool) or not 0.0 < sampling_probability <= 1.0:
        raise ValueError(f"sampling_probability must be in (0, 1], got sampling_probability={sampling_probability!r}")
    if not 0.0 < noise_multiplier < math.inf:
        raise ValueError(f"noise_multiplier must be above 0 and finite, got noise_multiplier={noise_multiplier!r}")
    if isinstance(steps, bool) or steps < 1 or steps != int(steps):
        raise ValueError(f"steps must be a whole number of at least 1, got steps={steps!r}")


def _interval(epsilon: float, steps: int) -> float:
    """Rounding of the losses: about a tenth of a step's typical loss, which costs less than 1 % of the noise."""
    return min(max(epsilon / (60.0 * math.sqrt(steps)), 1e-6), 1e-2)


def _accountant(sampling_probability: float, noise_multiplier: float, steps: int, interval: float):  # type: ignore[no-untyped-def]
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=interval)
    step = dp.PoissonSampledDpEvent(sampling_probability, dp.GaussianDpEvent(noise_multiplier))
    accountant.compose(step, steps)
    return accountant


def _delta(sampling_probability: float, noise_multiplier: float, steps: int, epsilon: float, interval: float) -> float:
    accountant = _accountant(sampling_probability, noise_multiplier, steps, interval)
    return float(accountant.get_delta(epsilon)) + _CONVOLUTION_ERROR
