"""The part of the audit page that compares the released columns with the real ones, one by one."""

from dataclasses import dataclass
from statistics import median
from typing import Any

from markupsafe import Markup

from schemas.audit import AuditReport
from schemas.measures import FEWEST_ROWS
from schemas.utility import CategoryUtility, ColumnUtility
from tasks.reporting import figures
from tasks.reporting.figure import Figure
from tasks.reporting.figures.frame import short_name
from tasks.reporting.figures.small import MOST_CATEGORIES
from tasks.reporting.numbers import decimals_for, fixed, percent, plural, significant

LONGEST_NAME = 80
"""Letters of a name in a table; longer ones lose their middle."""
_NOT_COMPUTED = (
    f"Not computed: fewer than {FEWEST_ROWS} values are present in one of the tables, or differ from the most frequent "
    "real one."
)
_ONE_INTERVAL = "Too few real rows apart from one value to show a distribution."
MOST_OPEN = 12
"""Columns whose pictures stand open; those of more are folded."""


@dataclass(frozen=True)
class SmallFigure:
    """One column's picture with its sentence; `svg` is `None` where the report holds no distribution."""

    name: str
    svg: Markup | None
    reading: str


def sample_note(report: AuditReport) -> str:
    """The warning that columns were compared on a sample, or nothing."""
    return next((w for w in report.warnings if "column" in w and "compared on" in w), "")


def _ks_decimals(report: AuditReport) -> int:
    """Two samples of n rows of one law differ by about 1.36 sqrt(2/n) at most, in 95 of 100 cases."""
    return decimals_for(1.36 * (2 / max(report.rows, 1)) ** 0.5 / 2)


def _share_decimals(report: AuditReport) -> int:
    return decimals_for(0.5 / max(report.rows, 1) ** 0.5)


def column_figure(report: AuditReport) -> Figure:
    """Distances of the columns whose values have an order."""
    columns = [(c.name, c.kolmogorov_smirnov) for c in report.utility.columns if c.kolmogorov_smirnov is not None]
    heading = "How far each column whose values have an order moved"
    if not columns:
        return Figure(heading, None, "Not computed: the release has no feature whose values have an order.")
    decimals = _ks_decimals(report)
    ordered = sorted(columns, key=lambda c: -c[1])
    worst, largest = short_name(ordered[0][0], 40), fixed(ordered[0][1], decimals)
    if len(columns) == 1:
        reading = (
            f"The only column whose values have an order, {worst}, has a Kolmogorov-Smirnov distance of {largest}; 0 "
            "is equal, 1 is disjoint."
        )
    else:
        half = fixed(median(distance for _, distance in columns), decimals)
        reading = (
            f"Half of the {len(columns)} columns whose values have an order have a Kolmogorov-Smirnov distance of at "
            f"most {half}; the largest, {largest}, is that of {worst}."
        )
    named = {name for name, _ in columns}
    others = sum(c.name not in named for c in report.utility.categories)
    if others:
        reading += f" {plural(others, 'column')} of categories without an order {_is(others)} not drawn here."
    if len(columns) > figures.MOST_BARS:
        described = f"Histogram of the Kolmogorov-Smirnov distances. {reading}"
    else:
        each = "; ".join(f"{short_name(name, 40)} {fixed(distance, decimals)}" for name, distance in ordered)
        described = f"Bars, largest first: {each}. {reading}"
    svg = figures.column_fidelity(columns, "columns-ks", heading, described, "Kolmogorov-Smirnov distance")
    return Figure(heading, svg, reading)


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def small_figures(report: AuditReport) -> list[SmallFigure]:
    """A picture of each column, largest distance that counts first; ordered categories as categories."""
    decimals = _ks_decimals(report)
    categories = {c.name: c for c in report.utility.categories}
    made: list[tuple[float, SmallFigure]] = []
    for column in report.utility.columns:
        if column.name not in categories:
            made.append((_distance(column), _ordered(column, decimals)))
    ordered = {c.name: c.kolmogorov_smirnov for c in report.utility.columns}
    for category in report.utility.categories:
        smirnov = ordered.get(category.name)
        also = "" if smirnov is None else f" ; Kolmogorov-Smirnov {fixed(smirnov, decimals)}, which counts"
        distance = category.total_variation if smirnov is None else smirnov
        made.append((distance, _bars(category, _share_decimals(report), also)))
    return [figure for _, figure in sorted(made, key=lambda pair: -pair[0])]


def _ordered(column: ColumnUtility, decimals: int) -> SmallFigure:
    if column.kolmogorov_smirnov is None:
        return SmallFigure(_name(column), None, _NOT_COMPUTED)
    reading = f"Kolmogorov-Smirnov distance {fixed(column.kolmogorov_smirnov, decimals)}."
    if column.histogram is None:
        return SmallFigure(_name(column), None, f"{reading} The report holds no histogram.")
    if len(column.histogram.real) == 1:  # a full rectangle whatever the values are
        return SmallFigure(_name(column), None, f"{reading} {_ONE_INTERVAL}")
    apart = max(
        range(len(column.histogram.real)),
        key=lambda i: abs(column.histogram.real[i] - column.histogram.fabricated[i]) if column.histogram else 0.0,
        default=None,
    )
    if apart is not None and len(column.histogram.real) == len(column.histogram.fabricated):
        edges = column.histogram.edges[apart : apart + 2]
        real, made = column.histogram.real[apart], column.histogram.fabricated[apart]
        reading += (
            f" Most apart from {' to '.join(significant(e) for e in edges)}: {percent(made)}, real {percent(real)}."
        )
    label = f"Histograms of {short_name(column.name, 60)}, fabricated and real. {reading}"
    svg = figures.histogram_steps(column.histogram, label)
    return SmallFigure(_name(column), svg, reading if svg is not None else f"{reading} The histogram cannot be drawn.")


def _bars(column: CategoryUtility, decimals: int, also: str) -> SmallFigure:
    reading = f"Total variation distance {fixed(column.total_variation, decimals)}{also}."
    hidden = len(column.categories) - MOST_CATEGORIES
    if hidden > 0:
        reading += f" The {MOST_CATEGORIES} most frequent of {len(column.categories)} categories."
    shares = "; ".join(
        f"{short_name(name, 30)} {percent(made, 1)}, real {percent(real, 1)}" for name, real, made in _moved(column)[:3]
    )
    label = f"Shares of the categories of {short_name(column.name, 60)}. Moved most: {shares}. {reading}"
    svg = figures.category_bars(column.categories, column.shares_real, column.shares_fabricated, label)
    return SmallFigure(_name(column), svg, reading)


def _name(column: ColumnUtility | CategoryUtility) -> str:
    return short_name(column.name, LONGEST_NAME)


def _moved(column: CategoryUtility) -> list[tuple[str, float, float]]:
    """Categories with their real and fabricated shares, the one that moved most first."""
    shares = zip(column.categories, column.shares_real, column.shares_fabricated, strict=True)
    return sorted(shares, key=lambda move: -abs(move[1] - move[2]))


def _shown(value: float | None, decimals: int) -> str:
    if value is None:
        return "not computed"
    return significant(value) if 0 < abs(value) < 1e-5 or abs(value) >= 1e9 else fixed(value, decimals)


def _mean_decimals(column: ColumnUtility, rows: int) -> list[int]:
    """A mean's standard error is std / sqrt(n); of real, and of fabricated rows."""
    return [decimals_for((std or 0.0) / rows**0.5) for std in (column.std_real, column.std_fabricated)]


def column_rows(report: AuditReport) -> list[dict[str, str]]:
    """The columns, largest distance first, rounded to what so many rows support."""
    rows = max(report.rows, 1)
    ks_decimals = _ks_decimals(report)

    def row(column: ColumnUtility) -> dict[str, str]:
        real, fabricated = column.std_real, column.std_fabricated
        mean_decimals = _mean_decimals(column, rows)
        # A normal sample's standard deviation has standard error std / sqrt(2n).
        std_decimals = [decimals_for((std or 0.0) / (2 * rows) ** 0.5) for std in (real, fabricated)]
        return {
            "name": _name(column),
            "mean_real": _shown(column.mean_real, mean_decimals[0]),
            "mean_fabricated": _shown(column.mean_fabricated, mean_decimals[1]),
            "std_real": _shown(real, std_decimals[0]),
            "std_fabricated": _shown(fabricated, std_decimals[1]),
            "ks": "not computed" if column.kolmogorov_smirnov is None else fixed(_distance(column), ks_decimals),
            "missing_fabricated": percent(column.missing_fabricated) if _has_missing(column) else "none",
            "missing_real": _missing_real(column) if _has_missing(column) else "",
        }

    return [row(c) for c in sorted(report.utility.columns, key=lambda c: -_distance(c))]


def quantile_table(report: AuditReport) -> dict[str, Any]:
    """Quantiles of the columns, largest distance first: `levels`, and `rows` of cells (fabricated, real)."""
    levels = sorted({level for c in report.utility.columns for level in c.quantiles})
    rows = []
    for column in sorted(report.utility.columns, key=lambda c: -_distance(c)):
        # A quantile's standard error is of the order of 1.5 std / sqrt(n) for common laws and levels.
        decimals = _mean_decimals(column, max(report.rows, 1))
        own = dict(
            zip(column.quantiles, zip(column.quantiles_fabricated, column.quantiles_real, strict=False), strict=False)
        )
        cells = [
            (_shown(own[level][0], decimals[1]), _shown(own[level][1], decimals[0])) if level in own else None
            for level in levels
        ]
        rows.append({"name": _name(column), "cells": cells})
    return {"levels": [percent(level) for level in levels], "rows": rows if levels else []}


def _distance(column: ColumnUtility) -> float:
    """For sorting; what was not computed comes last."""
    return -1.0 if column.kolmogorov_smirnov is None else column.kolmogorov_smirnov


def _has_missing(column: ColumnUtility) -> bool:
    return column.missing_real != 0 or column.missing_fabricated > 0


def _missing_real(column: ColumnUtility) -> str:
    return "not computed (too few)" if column.missing_real is None else percent(column.missing_real)


def category_rows(report: AuditReport) -> list[dict[str, str]]:
    """The columns of categories, largest distance first, with the categories that moved most."""
    decimals = _share_decimals(report)

    def row(column: CategoryUtility) -> dict[str, str]:
        shown = [
            f"{short_name(name, 40)} {percent(made, 1)}, {percent(real, 1)}" for name, real, made in _moved(column)[:3]
        ]
        return {
            "name": _name(column),
            "count": plural(len(column.categories), "category").replace("categorys", "categories"),
            "distance": fixed(column.total_variation, decimals),
            "moved": "; ".join(shown),
        }

    return [row(c) for c in sorted(report.utility.categories, key=lambda c: -c.total_variation)]
