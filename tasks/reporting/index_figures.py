"""Figures of the index of reports: each data set's budget, spent step by step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from markupsafe import Markup

from tasks.reporting.figure import Figure
from tasks.reporting.figures.frame import COLOURS, HAIR, INK, inline, panel, short_name
from tasks.reporting.numbers import plural, significant

if TYPE_CHECKING:
    from tasks.ledger.history import BudgetHistory, BudgetPoint

MOST_FIGURES = 24
"""Data sets whose budget is drawn, those charged last; of the others the numbers are told."""
_UNITS = {"reserve": "charged", "void": "charge taken back", "budget": "budget set"}


@dataclass(frozen=True)
class BudgetView:
    """One data set's budget as the page shows it."""

    dataset: str
    figure: Figure
    rows: list[tuple[str, str, str, str]]
    """When, what happened, epsilon spent, delta spent; newest first."""
    passed_over: int
    """Entries of the ledger that have no row here."""
    releases: int


def utc(when: datetime) -> datetime:
    """The time in UTC; one without a zone is taken as UTC."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def budget_views(histories: Sequence["BudgetHistory"]) -> list[BudgetView]:
    """Budgets of all data sets by name; the `MOST_FIGURES` that were charged last with a picture."""
    latest = sorted(histories, key=lambda h: (utc(h.points[-1].at), h.dataset), reverse=True)
    drawn = {h.dataset for h in latest[:MOST_FIGURES]}
    return [
        _view(h, f"budget-{position}", h.dataset in drawn)
        for position, h in enumerate(sorted(histories, key=lambda h: h.dataset))
    ]


def _view(history: "BudgetHistory", name: str, drawn: bool) -> BudgetView:
    reading = budget_reading(history)
    heading = short_name(history.dataset, 40)
    svg = _budget_steps(history, name, f"Budget of {heading}", reading) if drawn else None
    rows = [
        (f"{utc(p.at):%Y-%m-%d %H:%M}", _what(p), _epsilon(p.epsilon_spent), significant(p.delta_spent))
        for p in reversed(history.points)
    ]
    return BudgetView(
        history.dataset,
        Figure(history.dataset, svg, reading),
        rows,
        history.changes - len(history.points),
        history.points[-1].releases,
    )


def _what(point: "BudgetPoint") -> str:
    return _UNITS[point.kind] if point.release_id is None else f"{point.release_id}: {_UNITS[point.kind]}"


def _epsilon(spent: float | None) -> str:
    return "not computed: no finite epsilon goes with the budget's delta" if spent is None else significant(spent, 4)


def budget_reading(history: "BudgetHistory") -> str:
    """What was spent of a budget and what is left, in one sentence; spent is rounded up, left is rounded down."""
    last = history.points[-1]
    charges = plural(last.releases, "charge")
    budget, delta = history.epsilon_budget, significant(history.delta_budget)
    if last.epsilon_spent is None:
        return (
            f"{charges} spent epsilon: not computed, no finite one goes with the budget's delta of {delta}; the "
            f"budget is epsilon {significant(budget, 6)}."
        )
    left = budget - last.epsilon_spent
    decimals = min(8, max(0, 3 - math.floor(math.log10(budget))))
    spent = f"{charges} spent epsilon {_rounded(last.epsilon_spent, decimals, up=True)} of {significant(budget, 6)}"
    rest = (
        f"{_rounded(left, decimals, up=False)} are left"
        if left >= 0
        else f"that is {_rounded(-left, decimals, up=True)} more than the budget, and nothing is left"
    )
    return f"{spent}; {rest} (all together, at delta {delta})."


def _rounded(value: float, decimals: int, *, up: bool) -> str:
    step = Decimal(1).scaleb(-decimals)
    rounded = Decimal(f"{value:.12g}").quantize(step, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _budget_steps(history: "BudgetHistory", name: str, title: str, reading: str) -> Markup:
    """Epsilon spent as a step curve under the budget, both over time."""
    points, budgets = history.points, history.budgets
    times = [utc(p.at) for p in points]
    start, last = min(times[0], utc(budgets[0].at)), times[-1]
    end = last + max(0.06 * (last - start), timedelta(hours=6))
    begin = start - max(0.03 * (end - start), timedelta(hours=1))
    spent = [math.nan if p.epsilon_spent is None else p.epsilon_spent for p in points]
    limits = [b.epsilon for b in budgets]
    described = "; ".join(f"{utc(p.at):%Y-%m-%d} {_epsilon(p.epsilon_spent)}" for p in points if p.kind != "budget")
    description = (
        f"Step curve of the epsilon spent over time, below the budget as a dashed line: {described}. {reading}"
    )
    with panel(2.6) as (figure, axes):
        from matplotlib.dates import date2num

        steps, shown = date2num([*times, end]), [*spent, spent[-1]]
        axes.fill_between(steps, shown, step="post", color=COLOURS["fabricated"], alpha=0.16, linewidth=0)
        axes.step(steps, shown, where="post", color=COLOURS["fabricated"], linewidth=2.2, label="spent")
        charges = [(date2num(t), y) for t, y, p in zip(times, spent, points, strict=True) if p.kind != "budget"]
        axes.plot([t for t, _ in charges], [y for _, y in charges], "o", color=COLOURS["fabricated"], markersize=4)
        axes.step(
            date2num([*(utc(b.at) for b in budgets), end]),
            [*limits, limits[-1]],
            where="post",
            color=INK,
            linewidth=1.6,
            linestyle=(0, (5, 2)),
            label="budget",
        )
        axes.set_xlim(date2num(begin), date2num(end))
        axes.set_ylim(0, 1.3 * max([*limits, *(y for y in spent if math.isfinite(y))]))
        axes.set_xticks(*_ticks(times[0], last))
        axes.set_ylabel("epsilon, record level")
        axes.locator_params(axis="y", nbins=5)
        axes.grid(axis="y", color=HAIR, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.legend(loc="upper left", ncols=2, handlelength=2.4, borderaxespad=0.1)
        return inline(figure, name, title, description)


def _ticks(first: datetime, last: datetime) -> tuple[list[float], list[str]]:
    """Three times from the first entry to the last, with their dates, or their hours where days would not do."""
    from matplotlib.dates import date2num

    span = last - first
    times = [first, first + span / 2, last] if span else [last]
    days = span >= timedelta(days=3) or not span
    return [float(date2num(t)) for t in times], [f"{t:%Y-%m-%d}" if days else f"{t:%m-%d %H:%M}" for t in times]
