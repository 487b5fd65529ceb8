"""Checks for statistical tests, shared so that each mechanism is judged by the same rules.

A p-value or level here is the chance that a test fails although the code is right.  Each check has a
broken sampler in `tests/statistical/` that it must convict.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

ALPHA = 1e-6
"""Level of one check: a suite of a hundred such checks, run daily for 25 years, fails once by chance."""

MIN_EXPECTED = 10.0
"""Least expected count of a chi-square bin; 5 is the usual rule, 10 keeps the approximation good at ALPHA."""

MAX_BINS = 2000
"""Bins of a chi-square; fewer bins see broad deviations better, more bins local ones."""

AUDIT_LEVEL = 1e-3
"""Level of a privacy check over all of its events: a 99.9 % confidence bound."""

Pmf = Callable[[NDArray[np.int64]], NDArray[np.float64]]


def variance_p_value(values: NDArray[np.float64]) -> float:
    """Two-sided, of the sum of squares of values that shall be standard normal."""
    squares = float(values @ values)
    return 2.0 * min(float(stats.chi2.cdf(squares, values.size)), float(stats.chi2.sf(squares, values.size)))


def proportion_interval(successes: int, trials: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Give the Clopper-Pearson interval of a proportion, which holds its level at any sample size.

    Returns
    -------
    lower, upper : float
        The true proportion is outside with probability at most `alpha`.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"need 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    return (
        float(_proportion_lower(successes, trials, alpha / 2)),
        float(_proportion_upper(successes, trials, alpha / 2)),
    )


def _proportion_lower(successes: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1), trials - k + 1, alpha), 0.0)


def _proportion_upper(successes: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k < trials, special.betainccinv(k + 1, np.maximum(trials - k, 1), alpha), 1.0)


def chi_square_p_value(samples: NDArray[np.int64], pmf: Pmf, window: tuple[int, int]) -> float:
    """Give Pearson's p-value for integer samples against a law.

    Parameters
    ----------
    samples : ndarray of int, shape (n_samples,)
    pmf : callable
        Probabilities of an array of integers.
    window : (int, int)
        First and last integer that get cells of their own, chosen without a look at the samples; all
        others share one cell.  Neighbouring cells are merged to an expected count of `MIN_EXPECTED` at least and
        `MAX_BINS` bins at most; a cell that has so many on its own is never merged with the one after it.
    """
    first, last = window
    probabilities = pmf(np.arange(first, last + 1))
    outside = max(0.0, 1.0 - float(probabilities.sum()))
    expected = np.append(probabilities, outside) * samples.size
    inside = (samples >= first) & (samples <= last)
    observed = np.append(
        np.bincount(samples[inside] - first, minlength=last - first + 1), np.count_nonzero(~inside)
    ).astype(np.float64)

    target = max(MIN_EXPECTED, samples.size / MAX_BINS)
    started_before = np.concatenate(([0.0], np.cumsum(expected)[:-1]))
    starts = np.flatnonzero(np.diff(np.floor(started_before / target), prepend=-1.0))
    coarse_expected = np.add.reduceat(expected, starts).tolist()
    coarse_observed = np.add.reduceat(observed, starts).tolist()
    bins: list[list[float]] = []
    for e, o in zip(coarse_expected, coarse_observed, strict=True):
        if bins and bins[-1][0] < MIN_EXPECTED:
            bins[-1] = [bins[-1][0] + e, bins[-1][1] + o]
        else:
            bins.append([e, o])
    if len(bins) > 1 and bins[-1][0] < MIN_EXPECTED:
        e, o = bins.pop()
        bins[-1] = [bins[-1][0] + e, bins[-1][1] + o]
    if len(bins) < 2:
        raise ValueError("the law leaves one bin only: nothing to test")
    table = np.array(bins)
    statistic = float(np.sum((table[:, 1] - table[:, 0]) ** 2 / table[:, 0]))
    return float(special.chdtrc(len(bins) - 1, statistic))


def independence_p_value(samples: NDArray[np.int64], lag: int = 1, n_classes: int = 8) -> float:
    """Give the chi-square p-value of the contingency table of values and the values `lag` places later.

    Values are classed by quantiles of the sample (equal values always together); the pairs do not overlap.
    """
    edges = np.unique(np.quantile(samples, np.arange(1, n_classes) / n_classes))
    classes = np.searchsorted(edges, samples, side="left")
    usable = samples.size // (2 * lag) * 2 * lag
    pairs = classes[:usable].reshape(-1, 2, lag)
    n = len(edges) + 1
    table = np.bincount((pairs[:, 0] * n + pairs[:, 1]).ravel(), minlength=n * n).reshape(n, n).astype(np.float64)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float(special.chdtrc(freedom, float(np.sum((table - expected) ** 2 / expected))))


class Violation(NamedTuple):
    """An event on which P <= exp(epsilon) Q + delta fails with confidence."""

    event: str
    p_lower: float
    """Lower confidence bound of the event's probability on the one neighbour."""
    q_upper: float
    """Upper confidence bound of its probability on the other."""
    excess: float
    """p_lower - exp(epsilon) q_upper - delta, above 0."""


def hockey_stick_violation(
    on_first: NDArray[np.int64],
    on_second: NDArray[np.int64],
    epsilon: float,
    delta: float,
    *,
    level: float = AUDIT_LEVEL,
    n_bins: int = 200,
) -> Violation | None:
    """Look for an event that refutes (epsilon, delta)-differential privacy of a mechanism with integer output.

    Parameters
    ----------
    on_first, on_second : ndarray of int, shape (n_samples,)
        Independent outputs on two neighbouring inputs.
    epsilon, delta : float
        The claim.
    level : float, default=AUDIT_LEVEL
        The chance that a mechanism that keeps its claim is convicted.
    n_bins : int, default=200
        Bins of the histogram; values that are frequent by themselves get a bin of their own besides.

    Returns
    -------
    Violation or None
        The worst violation, if any.

    Notes
    -----
    The first half of the samples chooses the events, the second half tests them, so the choice costs no
    confidence: every bin, every union of bins below or above an edge, and the union of all bins whose
    estimated ratio speaks against the claim; in both directions.  Clopper-Pearson bounds at level / (2 x number
    of events x 2 directions) on both probabilities make `level` hold for all of them together.
    """
    half_first, half_second = on_first.size // 2, on_second.size // 2
    choose = (on_first[:half_first], on_second[:half_second])
    test = (on_first[half_first:], on_second[half_second:])
    edges = _edges(np.concatenate(choose), n_bins)
    guess = [_histogram(part, edges) for part in choose]
    counts = [_histogram(part, edges) for part in test]

    worst: Violation | None = None
    for p, q in ((0, 1), (1, 0)):
        against = guess[p] / choose[p].size > np.exp(epsilon) * guess[q] / choose[q].size
        events = _events(counts[p], against), _events(counts[q], against)
        names = _event_names(edges)
        each = level / (4 * len(names))
        p_lower = _proportion_lower(events[0], test[p].size, each)
        q_upper = _proportion_upper(events[1], test[q].size, each)
        excess = p_lower - np.exp(epsilon) * q_upper - delta
        i = int(np.argmax(excess))
        if excess[i] > 0 and (worst is None or excess[i] > worst.excess):
            worst = Violation(names[i], float(p_lower[i]), float(q_upper[i]), float(excess[i]))
    return worst


def _edges(samples: NDArray[np.int64], n_bins: int) -> NDArray[np.int64]:
    """First integers of the bins but the first: quantiles, and both sides of each frequent value."""
    ordered = np.sort(samples)
    quantiles = ordered[(np.arange(1, n_bins) * samples.size) // n_bins]
    values, counts = np.unique(ordered, return_counts=True)
    order = np.argsort(counts)[::-1][:n_bins]
    frequent = values[order[counts[order] >= MIN_EXPECTED]]
    return np.unique(np.concatenate((quantiles, frequent, frequent + 1)))


def _histogram(samples: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(edges, samples, side="right"), minlength=len(edges) + 1)


def _events(counts: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Counts of each bin, of the unions below and above each edge, and of the chosen union."""
    below = np.cumsum(counts)[:-1]
    return np.concatenate((counts, below, counts.sum() - below, [counts[chosen].sum()]))


def _event_names(edges: NDArray[np.int64]) -> list[str]:
    bins = [f"v < {edges[0]}"]
    bins += [f"{a} <= v < {b}" for a, b in pairwise(edges)]
    bins += [f"v >= {edges[-1]}"]
    return [*bins, *(f"v < {e}" for e in edges), *(f"v >= {e}" for e in edges), "union of suspicious bins"]
