"""The intervals of membership attacks cover the truth as often as they say, over data sets of known laws.

Scores of control rows are standard normal, those of members normal with another mean and spread, so that the area and
the share found at a rate of false accusations have formulas.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, norm

from schemas.measures import Interval
from tasks.audit import attack_auc, found_at, wilson_interval
from tasks.audit.bootstrap import bootstrap_areas
from tests.statistics import ALPHA

Scores = np.ndarray
Method = Callable[[Scores, Scores, int], Interval]

DATA_SETS = 200
FEWEST_HITS = int(binom.ppf(ALPHA, DATA_SETS, 0.95))
"""Of 200 intervals that cover with probability 0.95, fewer than this cover with probability below 1e-6: 173."""
RATE = 0.01


def shift_for(area: float, spread: float) -> float:
    """Mean of the members' scores that gives this area."""
    return float(norm.ppf(area) * np.sqrt(1 + spread**2))


def hits(method: Method, truth: float, area: float, spread: float, rows: int) -> int:
    generator = np.random.default_rng([20240101, rows, round(1000 * area)])
    shift = shift_for(area, spread)
    count = 0
    for seed in range(DATA_SETS):
        one = method(generator.normal(shift, spread, rows), generator.normal(0, 1, rows), seed)
        count += one.lower <= truth <= one.upper
    return count


def by_area(members: Scores, controls: Scores, seed: int) -> Interval:
    return attack_auc(members, controls, seed=seed)


def by_share(members: Scores, controls: Scores, seed: int) -> Interval:
    found = found_at(members, controls, RATE).true_positive_rate
    assert found is not None
    return found


def share_truth(area: float, spread: float) -> float:
    return float(norm.sf((norm.isf(RATE) - shift_for(area, spread)) / spread))


def halved(method: Method) -> Method:
    def narrow(members: Scores, controls: Scores, seed: int) -> Interval:
        one = method(members, controls, seed)
        lower, upper = (one.estimate + (end - one.estimate) / 2 for end in (one.lower, one.upper))
        return one.model_copy(update={"lower": lower, "upper": upper})

    return narrow


def by_percentiles(members: Scores, controls: Scores, seed: int) -> Interval:
    """The plain bootstrap that the docstring warns of."""
    areas = bootstrap_areas(np.sort(members), np.sort(controls), seed)
    lower, upper = np.quantile(areas, [0.025, 0.975])
    return Interval(estimate=(lower + upper) / 2, lower=lower, upper=upper, confidence=0.95, method="percentiles")


def by_members_alone(members: Scores, controls: Scores, seed: int) -> Interval:
    """As if the control rows' quantile were the population's."""
    threshold = np.quantile(controls, 1 - RATE)
    return wilson_interval(int(np.count_nonzero(members > threshold)), len(members))


@pytest.mark.parametrize(
    ("area", "spread", "rows"),
    [(area, 1.0, rows) for area in (0.5, 0.75, 0.99) for rows in (60, 200)]
    + [(0.5, 3.0, 60), (0.998, 1.0, 20), (0.99, 1.0, 1000)],
)
def test_area_interval_covers(area: float, spread: float, rows: int) -> None:
    assert hits(by_area, area, area, spread, rows) >= FEWEST_HITS


@pytest.mark.parametrize("area", [0.5, 0.75, 0.99])
@pytest.mark.parametrize("rows", [200, 1000])
def test_interval_of_members_found_covers(area: float, rows: int) -> None:
    for spread in (1.0, 2.0):
        assert hits(by_share, share_truth(area, spread), area, spread, rows) >= FEWEST_HITS


@pytest.mark.parametrize(
    ("method", "area", "rows"),
    [
        (halved(by_area), 0.75, 60),
        (halved(by_area), 0.75, 200),
        (by_percentiles, 0.998, 20),
    ],
    ids=["half the width at 60 rows", "half the width at 200 rows", "percentiles near 1"],
)
def test_too_narrow_intervals_of_the_area_are_convicted(method: Method, area: float, rows: int) -> None:
    assert hits(method, area, area, 1.0, rows) < FEWEST_HITS


@pytest.mark.parametrize(
    ("method", "rows"),
    [(halved(by_share), 1000), (by_members_alone, 200), (by_members_alone, 1000)],
    ids=["half the width", "threshold taken as known, 200 rows", "threshold taken as known, 1000 rows"],
)
def test_too_narrow_intervals_of_members_found_are_convicted(method: Method, rows: int) -> None:
    assert hits(method, share_truth(0.75, 1.0), 0.75, 1.0, rows) < FEWEST_HITS
