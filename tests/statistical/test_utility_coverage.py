"""Intervals of accuracy, macro-F1 and area cover as often as they say, and narrower ones are convicted.

200 simulated test sets for each case. A check fails if the Clopper-Pearson upper bound of the coverage at ALPHA is
below the nominal 95 %, which happens by chance with probability below ALPHA; that convicts coverage of 0.80.
"""

from collections.abc import Callable

import numpy as np
import pytest

from schemas.measures import Interval
from tasks.audit import auc_interval, macro_f1_interval, wilson_interval
from tests.statistics import proportion_interval

SIMULATIONS = 200
Draw = Callable[[np.random.Generator, int], Interval]


def intervals(draw: Draw) -> list[Interval]:
    generator = np.random.default_rng(20240101)
    return [draw(generator, seed) for seed in range(SIMULATIONS)]


def cover(drawn: list[Interval], truth: float) -> bool:
    hits = sum(one.lower <= truth <= one.upper for one in drawn)
    return proportion_interval(hits, SIMULATIONS)[1] >= 0.95


def narrowed(drawn: list[Interval], factor: float) -> list[Interval]:
    def narrow(one: Interval) -> Interval:
        lower, upper = (one.estimate + factor * (end - one.estimate) for end in (one.lower, one.upper))
        return one.model_copy(update={"lower": lower, "upper": upper})

    return [narrow(one) for one in drawn]


@pytest.mark.parametrize("probability", [0.08, 0.5, 0.93])
def test_wilson_interval_covers(probability: float) -> None:
    def draw(generator: np.random.Generator, seed: int) -> Interval:
        return wilson_interval(int(generator.binomial(120, probability)), 120)

    drawn = intervals(draw)
    assert cover(drawn, probability)
    assert not cover(narrowed(drawn, 0.5), probability)


def confusion(shares: list[float], right: list[float]) -> np.ndarray:
    """Probabilities of (true, answered); wrong answers are spread evenly over the other classes."""
    n = len(shares)
    wrong = (1 - np.array(right)) / (n - 1)
    table = np.where(np.eye(n, dtype=bool), np.array(right)[:, None], wrong[:, None])
    return np.array(shares)[:, None] * table


def f1_of(table: np.ndarray) -> float:
    return float(np.mean(2 * np.diag(table) / (table.sum(axis=0) + table.sum(axis=1))))


CONFUSIONS = {
    "two equal classes": (confusion([0.5, 0.5], [0.8, 0.7]), 150),
    "nearly all right": (confusion([0.5, 0.5], [0.97, 0.98]), 150),
    "a rare class": (confusion([0.93, 0.07], [0.97, 0.5]), 300),
    "three classes": (confusion([0.7, 0.2, 0.1], [0.9, 0.6, 0.5]), 200),
    "ten classes": (confusion([0.1] * 10, [0.8] * 10), 300),
}


@pytest.mark.parametrize("case", CONFUSIONS)
def test_macro_f1_interval_covers(case: str) -> None:
    table, n = CONFUSIONS[case]

    def draw(generator: np.random.Generator, seed: int) -> Interval:
        cells = generator.choice(table.size, n, p=table.ravel())
        return macro_f1_interval(cells // len(table), cells % len(table), seed=seed)

    drawn = intervals(draw)
    assert cover(drawn, f1_of(table))
    assert not cover(narrowed(drawn, 0.5), f1_of(table))


@pytest.mark.parametrize("right", [0.99, 0.995])
def test_macro_f1_interval_covers_where_plain_percentiles_have_no_width(right: float) -> None:
    table = confusion([0.5, 0.5], [right, right])

    def draw(generator: np.random.Generator, seed: int) -> Interval:
        cells = generator.choice(4, 60, p=table.ravel())
        return macro_f1_interval(cells // 2, cells % 2, seed=seed)

    def plain(generator: np.random.Generator, seed: int) -> Interval:
        one = draw(generator, seed)
        lower = one.lower if one.estimate < 1 else 1.0
        return one.model_copy(update={"lower": lower})

    assert cover(intervals(draw), right)
    assert not cover(intervals(plain), right)


AREAS = {
    "worthless": ([0.5, 0.5], 0.0, 100),
    "two classes": ([0.6, 0.4], 1.0, 120),
    "a rare class": ([0.9, 0.1], 1.0, 200),
    "three classes": ([0.3, 0.3, 0.4], 1.0, 150),
    "ten classes": ([0.1] * 10, 0.5, 300),
}


def scored(generator: np.random.Generator, shares: list[float], shift: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    true = generator.choice(len(shares), n, p=shares)
    scores = generator.normal(size=(n, len(shares))) + shift * np.eye(len(shares))[true]
    return true, scores - scores.mean(axis=1, keepdims=True)


def area_of(true: np.ndarray, scores: np.ndarray) -> Interval:
    found = auc_interval(true, scores, np.arange(scores.shape[1]))
    assert found is not None
    return found


@pytest.mark.parametrize("case", AREAS)
def test_area_interval_covers(case: str) -> None:
    shares, shift, n = AREAS[case]
    truth = area_of(*scored(np.random.default_rng(1), shares, shift, 200_000)).estimate

    def draw(generator: np.random.Generator, seed: int) -> Interval:
        return area_of(*scored(generator, shares, shift, n))

    drawn = intervals(draw)
    assert cover(drawn, truth)
    assert not cover(narrowed(drawn, 0.4), truth)


@pytest.mark.parametrize(("shares", "shift", "n"), [([0.5, 0.5], 2.5, 60), ([0.3, 0.3, 0.4], 4.0, 100)])
def test_area_interval_covers_near_one(shares: list[float], shift: float, n: int) -> None:
    truth = area_of(*scored(np.random.default_rng(1), shares, shift, 200_000)).estimate

    def draw(generator: np.random.Generator, seed: int) -> Interval:
        return area_of(*scored(generator, shares, shift, n))

    def resampled(generator: np.random.Generator, seed: int) -> Interval:
        """Resampled rows of separated classes are separated: percentiles have no width there."""
        one = draw(generator, seed)
        return one.model_copy(update={"lower": 1.0}) if one.estimate == 1 else one

    assert truth > 0.98
    assert cover(intervals(draw), truth)
    if shift > 3:
        assert not cover(intervals(resampled), truth)
