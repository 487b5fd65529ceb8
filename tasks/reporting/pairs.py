"""The part of the audit page on what columns have to do with each other, and on the table as a whole."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.audit import AuditReport
from schemas.utility import CorrelationMap, Projection
from tasks.reporting import figures
from tasks.reporting.columns import LONGEST_NAME
from tasks.reporting.figure import Figure
from tasks.reporting.figures.frame import short_name
from tasks.reporting.figures.maps import MOST_NAMES
from tasks.reporting.numbers import count, decimals_for, fixed, percent, plural, significant
from tasks.reporting.worth import ratio_in_words

FloatArray = NDArray[np.float64]

MOST_MAPPED = 40
"""Columns of a correlation map."""
_MOST_PAIRS = 15
_MOST_LISTED = 1000
"""Pairs that a report lists at most; where it lists fewer they are all."""
_MOST_LEFT_OUT = 0.2
"""Share of the real rows in cells too thin to show, beyond which two maps of rows are not compared in a number."""


@dataclass(frozen=True)
class Correlations:
    """Three maps, the pairs that moved most, and what was left out."""

    figures: list[Figure]
    moved: list[dict[str, str]]
    key: list[str]
    """Names of the numbered columns; empty where names stand beside the maps."""
    rule: str
    reach: str
    """The difference with the darkest colour."""


def _array(rows: list[list[float | None]]) -> FloatArray:
    return np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)


def correlations(report: AuditReport) -> Correlations | None:
    """Maps of the real and the fabricated correlations and of their differences; `None` where there are none."""
    held = report.utility.correlations
    n = 0 if held is None else len(held.columns)
    if held is None or n < 2 or len(held.real) != n or len(held.fabricated) != n:
        return None
    real, made = _array(held.real), _array(held.fabricated)
    difference = made - real
    kept = _most_moved(held, difference)
    rule = ""
    if len(kept) < n:
        rule = (
            f"Of {plural(n, 'column')} whose values have an order, the maps show the {count(len(kept))} that have the "
            "largest difference in some pair, in the table's order."
        )
    names = [held.columns[i] for i in kept]
    where = np.ix_(kept, kept)
    upper = np.triu_indices(n, 1)
    gaps = np.abs(difference[upper])
    decimals = _decimals(report)
    largest = float(np.nan_to_num(gaps).max())
    reach = max(0.2, np.ceil(largest * 10 - 1e-9) / 10)
    made_figures = []
    for name, heading, values, limit in (
        ("correlation-real", "Real rows", real, 1.0),
        ("correlation-fabricated", "Fabricated rows", made, 1.0),
        ("correlation-difference", "Fabricated less real", difference, reach),
    ):
        reading = _map_reading(values[upper], name == "correlation-difference", decimals)
        description = f"Heat map of Pearson correlations, {heading.lower()}, {plural(len(kept), 'column')}. {reading}"
        svg = figures.correlations(values[where], names, limit, name, f"Correlations, {heading.lower()}", description)
        made_figures.append(Figure(heading, svg, reading))
    order = np.argsort(-np.nan_to_num(gaps, nan=-1.0), kind="stable")[:_MOST_PAIRS]
    moved = [
        {
            "first": short_name(held.columns[i], LONGEST_NAME),
            "second": short_name(held.columns[j], LONGEST_NAME),
            "real": fixed(float(real[i, j]), decimals),
            "fabricated": fixed(float(made[i, j]), decimals),
            "difference": fixed(float(difference[i, j]), decimals),
        }
        for i, j in ((int(upper[0][k]), int(upper[1][k])) for k in order)
        if np.isfinite(difference[i, j])
    ]
    key = [] if len(names) <= MOST_NAMES else [short_name(name, 60) for name in names]
    return Correlations(made_figures, moved, key, rule, significant(float(reach), 2))


def _map_reading(values: FloatArray, differences: bool, decimals: int) -> str:
    """What a map of these pairs shows, in a sentence."""
    sizes = np.abs(values[np.isfinite(values)])
    if not sizes.size:
        return f"Not computed for any of {plural(values.size, 'pair')}."
    if differences:
        return (
            f"The largest difference of {plural(sizes.size, 'pair')} is {fixed(float(sizes.max()), decimals)}, half of "
            f"them are at most {fixed(float(np.median(sizes)), decimals)}: pairs of columns that vary in both tables."
        )
    strong = int((sizes >= 0.5).sum())
    return (
        f"{plural(strong, 'pair')} of {count(sizes.size)} {_have(strong)} a correlation of 0.5 or more in size: "
        "pairs of columns that vary here."
    )


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _decimals(report: AuditReport) -> int:
    """A correlation of n rows has a standard error of about 1 / sqrt(n)."""
    return decimals_for(1 / max(report.rows, 1) ** 0.5)


def _most_moved(held: CorrelationMap, difference: FloatArray) -> list[int]:
    n = len(held.columns)
    if n <= MOST_MAPPED:
        return list(range(n))
    off = np.abs(np.nan_to_num(difference, nan=-1.0))
    np.fill_diagonal(off, -1.0)
    return sorted(np.argsort(-off.max(axis=1), kind="stable")[:MOST_MAPPED].tolist())


def correlation(report: AuditReport) -> str:
    """How far correlations moved, in a sentence."""
    utility = report.utility
    if utility.correlation_difference is None:
        return "Correlations were not computed: fewer than two columns vary in both tables."
    return (
        f"Pairwise correlations differ by {significant(utility.correlation_difference, 2)} on average over "
        f"{plural(utility.correlation_pairs, 'pair')} of features that vary in both tables, categories included; 0 is "
        "equal, 2 is the most possible. The maps show only columns whose values have an order, so fewer pairs."
    )


def pair_sentence(report: AuditReport) -> str:
    """The mean contingency similarity, in a sentence."""
    mean = report.utility.pair_similarity
    if mean is None:
        return "The similarity of pairs of columns was not computed."
    listed, columns = len(report.utility.pairs), report.feature_columns + 1
    number = listed if 0 < listed < _MOST_LISTED else columns * (columns - 1) // 2
    return (
        f"The contingency similarity of two columns is 1 less the total variation distance of their joint "
        f"distributions, numbers in intervals: 1 is equal, 0 is disjoint. Its mean is "
        f"{fixed(mean, min(3, _decimals(report)))}, over {plural(number, 'pair')}: all columns, the label included and "
        "those that do not vary as well."
    )


def pair_rows(report: AuditReport) -> list[dict[str, str]]:
    """The least similar pairs."""
    decimals = min(3, _decimals(report))
    return [
        {
            "first": short_name(p.first, LONGEST_NAME),
            "second": short_name(p.second, LONGEST_NAME),
            "similarity": fixed(p.similarity, decimals),
        }
        for p in sorted(report.utility.pairs, key=lambda p: p.similarity)[:_MOST_PAIRS]
    ]


def propensity_rows(report: AuditReport) -> list[dict[str, str]]:
    """Whether real and fabricated rows can be told apart, a model in each row."""
    return [
        {
            "model": p.model[:1].upper() + p.model[1:],
            "pmse": significant(p.pmse, 2),
            "expected": significant(p.expected, 2),
            "ratio": "not computed" if p.ratio is None else significant(p.ratio, 2),
            "words": "(nothing is expected)" if p.ratio is None else ratio_in_words(p.ratio),
        }
        for p in report.utility.propensity
    ]


def projection_figures(report: AuditReport) -> list[Figure]:
    """Two heat maps of the rows on the first two components of the fabricated ones."""
    held = report.utility.projection
    if held is None:
        return []
    shape = (len(held.y_edges) - 1, len(held.x_edges) - 1)
    cells: dict[str, Any] = {}
    for kind, values in (("real", held.real), ("fabricated", held.fabricated)):
        array = np.asarray(values, dtype=np.float64)
        if array.shape != shape or min(shape) < 1:
            return [Figure("Rows on two components", None, "Not computed: the report's cells do not fit its edges.")]
        cells[kind] = array
    most = max(float(array.max()) for array in cells.values())
    shared = float(np.minimum(cells["real"], cells["fabricated"]).sum())
    return [_projected(kind, array, held, most, shared) for kind, array in cells.items()]


def _projected(kind: str, cells: FloatArray, held: Projection, most: float, shared: float) -> Figure:
    heading = "Real rows" if kind == "real" else "Fabricated rows"
    used = int((cells > 0).sum())
    reading = f"{heading} fill {plural(used, 'cell')}, at most {percent(float(cells.max()), 1)} of them in one"
    if kind == "real":
        reading += f"; {percent(held.real_left_out)} lie in cells with too few real rows and are left out."
    elif held.real_left_out > _MOST_LEFT_OUT:
        reading += (
            f"; {percent(held.real_left_out)} of the real rows lie in cells too thin to show, too many to say how much "
            "the two have in common."
        )
    else:
        reading += f"; both kinds have {percent(shared)} of the rows in common, cell by cell."
    description = f"Heat map, darker where more rows are. {reading}"
    svg = figures.projection(cells, held, most, f"projection-{kind}", f"{heading} on two components", description)
    return Figure(heading, svg, reading)
