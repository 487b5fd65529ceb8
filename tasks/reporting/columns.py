"""The part of the audit page that compares the released columns with the real ones."""

import numpy as np

from schemas.audit import AuditReport, CategoryUtility, ColumnUtility
from tasks.reporting import figures
from tasks.reporting.figure import Figure
from tasks.reporting.numbers import (
    decimals_for,
    fixed,
    percent,
    plural,
    significant,
)


def _ks_decimals(report: AuditReport) -> int:
    """Two samples of n rows of one law differ by about 1.36 sqrt(2/n) at most, in 95 of 100 cases."""
    return decimals_for(1.36 * (2 / max(report.rows, 1)) ** 0.5 / 2)


def column_figure(report: AuditReport) -> Figure:
    """Distances of the columns whose values have an order."""
    columns = [c for c in report.utility.columns if c.kolmogorov_smirnov is not None]
    heading = "How far each column's distribution moved"
    if not columns:
        return Figure(heading, None, "Not computed: the release has no feature whose values have an order.")
    decimals = _ks_decimals(report)
    values = [_distance(c) for c in columns]
    worst = max(columns, key=_distance)
    worst_name = figures.short_name(worst.name, 40)
    if len(columns) == 1:
        reading = (
            f"The only column, {worst_name}, has a distance of {fixed(values[0], decimals)}; 0 is equal, 1 is disjoint."
        )
    else:
        reading = (
            f"Half of the {len(columns)} columns have a distance of at most "
            f"{fixed(float(np.median(values)), decimals)}; "
            f"the largest, {fixed(_distance(worst), decimals)}, is that of {worst_name}."
        )
    if len(columns) > figures.MOST_BARS:
        kind, each = "Histogram of the Kolmogorov-Smirnov distances. ", ""
    else:
        kind = "Bars, largest first: "
        ordered = sorted(columns, key=lambda c: -_distance(c))
        each = "; ".join(f"{figures.short_name(c.name, 40)} {fixed(_distance(c), decimals)}" for c in ordered)
        each += ". "
    svg = figures.column_fidelity(columns, "columns-ks", heading, f"{kind}{each}{reading}")
    return Figure(heading, svg, reading)


def column_rows(report: AuditReport) -> list[dict[str, str]]:
    """The columns, largest distance first, rounded to what so many rows support."""
    rows = max(report.rows, 1)
    ks_decimals = _ks_decimals(report)

    def row(column: ColumnUtility) -> dict[str, str]:
        real, fabricated = column.std_real, column.std_fabricated
        # Standard errors: std / sqrt(n) of a mean, and of a normal sample's standard deviation std / sqrt(2n).
        mean_decimals = [decimals_for((std or 0.0) / rows**0.5) for std in (real, fabricated)]
        std_decimals = [decimals_for((std or 0.0) / (2 * rows) ** 0.5) for std in (real, fabricated)]

        def shown(value: float | None, decimals: int) -> str:
            if value is None:
                return "no values"
            return significant(value) if 0 < abs(value) < 1e-5 or abs(value) >= 1e9 else fixed(value, decimals)

        return {
            "name": column.name if column.name.strip() else "(no name)",
            "mean_real": shown(column.mean_real, mean_decimals[0]),
            "mean_fabricated": shown(column.mean_fabricated, mean_decimals[1]),
            "std_real": shown(real, std_decimals[0]),
            "std_fabricated": shown(fabricated, std_decimals[1]),
            "ks": "not computed" if column.kolmogorov_smirnov is None else fixed(_distance(column), ks_decimals),
            "missing_fabricated": percent(column.missing_fabricated) if _has_missing(column) else "none",
            "missing_real": percent(column.missing_real) if _has_missing(column) else "",
        }

    return [row(c) for c in sorted(report.utility.columns, key=lambda c: -_distance(c))]


def _distance(column: ColumnUtility) -> float:
    return 1.0 if column.kolmogorov_smirnov is None else column.kolmogorov_smirnov


def _has_missing(column: ColumnUtility) -> bool:
    return column.missing_real > 0 or column.missing_fabricated > 0


def category_rows(report: AuditReport) -> list[dict[str, str]]:
    """The columns of categories, largest distance first, with the categories that moved most."""
    decimals = decimals_for(0.5 / max(report.rows, 1) ** 0.5)

    def row(column: CategoryUtility) -> dict[str, str]:
        moves = sorted(
            zip(column.categories, column.shares_real, column.shares_fabricated, strict=True),
            key=lambda move: -abs(move[1] - move[2]),
        )
        shown = [f"{name} {percent(fabricated, 1)}, {percent(real, 1)}" for name, real, fabricated in moves[:3]]
        return {
            "name": column.name,
            "count": str(len(column.categories)),
            "distance": fixed(column.total_variation, decimals),
            "moved": "; ".join(shown),
        }

    return [row(c) for c in sorted(report.utility.categories, key=lambda c: -c.total_variation)]


def correlation(report: AuditReport) -> str:
    """How far correlations moved, in a sentence."""
    utility = report.utility
    if utility.correlation_difference is None:
        return "Not computed: fewer than two columns vary in both tables."
    return (
        f"Pairwise correlations differ by {significant(utility.correlation_difference, 2)} on average over "
        f"{plural(utility.correlation_pairs, 'pair')} of columns that vary in both tables; 0 is equal, "
        "2 is the most possible."
    )
