"""Whether the intervals of the risks hold what they promise, over repetitions with known risks.

Each check counts the intervals at 95 % that hold the true risk, and fails where so few would have a probability below
`ALPHA`. Too narrow intervals must be convicted by the same check.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from scipy.stats import binom

from schemas.measures import Interval
from tasks.audit import risk as risk_module
from tasks.audit.columns_table import ColumnArray, ColumnsTable
from tasks.audit.proportion import wilson_interval
from tasks.audit.risk import privacy_risks, risk_beyond_controls
from tests.statistics import ALPHA

REPETITIONS = 200
NOMINAL = 0.95
FEWEST_HITS = int(binom.ppf(ALPHA, REPETITIONS, NOMINAL))
"""Fewer of 200 intervals at 95 % than this, 173, have probability below ALPHA."""

Compare = Callable[[Interval, Interval], Interval]


def half_as_wide(members: Interval, controls: Interval) -> Interval:
    right = risk_beyond_controls(members, controls)
    lower, upper = (right.lower + right.estimate) / 2, (right.upper + right.estimate) / 2
    return right.model_copy(update={"lower": lower, "upper": upper})


def without_width_of_controls(members: Interval, controls: Interval) -> Interval:
    scale = 1 - controls.estimate
    lower, upper = ((end - controls.estimate) / scale for end in (members.lower, members.upper))
    return risk_beyond_controls(members, controls).model_copy(update={"lower": lower, "upper": upper})


def hits(compare: Compare, members: float, controls: float, n: int, seed: int) -> int:
    """How many of the intervals hold the risk that two success rates mean."""
    generator = np.random.default_rng(seed)
    truth = (members - controls) / (1 - controls)
    found = 0
    for _ in range(REPETITIONS):
        right = [n, n]
        while right[1] == n:  # nothing is computed where every guess about control rows was right
            right = generator.binomial(n, [members, controls]).tolist()
        interval = compare(wilson_interval(right[0], n), wilson_interval(right[1], n))
        found += interval.lower <= truth <= interval.upper
    return found


@pytest.mark.parametrize("n", [30, 500])
@pytest.mark.parametrize(
    ("members", "controls"),
    [(0.05, 0.05), (0.5, 0.5), (0.3, 0.2), (0.95, 0.5), (0.9, 0.02), (0.1, 0.4), (1.0, 0.3), (0.0, 0.0), (0.8, 0.8)],
)
def test_interval_of_the_risk_covers(members: float, controls: float, n: int) -> None:
    assert hits(risk_beyond_controls, members, controls, n, seed=0) >= FEWEST_HITS


@pytest.mark.parametrize("broken", [half_as_wide, without_width_of_controls])
def test_too_narrow_intervals_are_convicted(broken: Compare) -> None:
    assert hits(broken, 0.5, 0.5, 500, seed=0) < FEWEST_HITS


# --- whole attacks ------------------------------------------------------------------------------------------------

ROWS, COLUMNS = 120, 4


def _rows(generator: np.random.Generator, n: int) -> list[ColumnArray]:
    base = generator.normal(size=(n, 2))
    x = base @ np.array([[1, 1, 0, 1], [0, 1, 1, -1]]) + generator.normal(size=(n, COLUMNS)) / 3
    return [x[:, 0], x[:, 1], np.round(4 * x[:, 2]), np.digitize(x[:, 3], [-1, 0, 1]).astype(np.int64)]


def _table(columns: list[ColumnArray]) -> ColumnsTable:
    return ColumnsTable(("a", "b", "c", "label"), tuple(columns), (False, False, False, True), columns[0].size)


def attack_hits(leaked: float) -> dict[tuple[str, str], tuple[int, int]]:
    """By attack, how often the interval held the risk `leaked`, and of how many."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for seed in range(REPETITIONS):
        generator = np.random.default_rng([7, seed])
        members, other = _rows(generator, ROWS), _rows(generator, ROWS)
        copied = generator.random(ROWS) < leaked
        held = [cast(ColumnArray, np.where(copied, m, o)) for m, o in zip(members, other, strict=True)]
        result = privacy_risks(
            _table(members), _table(_rows(generator, ROWS)), {"fabricated": _table(held)}, label="label", seed=seed
        )
        for risk in result.risks:
            interval = risk.risk_beyond_controls
            hit, of = found.get((risk.risk, risk.variant), (0, 0))
            found[risk.risk, risk.variant] = (hit + (interval.lower <= leaked <= interval.upper), of + 1)
    return found


@pytest.mark.parametrize("leaked", [0.0, 0.3])
def test_intervals_of_attacks_cover_a_known_leak(leaked: float) -> None:
    """Each member is copied with a known probability, which then is the risk; without copies it is 0.

    A conjunction misses some copies, since it matches other members as well: its risk is known without copies only.
    """
    found = attack_hits(leaked)
    assert len(found) == 8
    for attack, (hit, of) in found.items():
        assert of > REPETITIONS / 2, attack
        if attack[1] == "several columns" and leaked > 0:
            continue
        assert hit >= binom.ppf(ALPHA, of, NOMINAL), (attack, hit, of)


def test_too_narrow_intervals_of_attacks_are_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(risk_module, "risk_beyond_controls", half_as_wide)
    found = attack_hits(0.0)
    hit, of = found["attribute-inference", "label"]
    assert hit < binom.ppf(ALPHA, of, NOMINAL)
