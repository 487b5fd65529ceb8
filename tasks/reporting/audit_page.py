"""The audit report as a page: what was guaranteed, what was measured, and how to check it."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from schemas.audit import AuditReport, CategoryUtility, ColumnUtility, MembershipAttack, ValidationCheck
from schemas.guarantee import ComparedMechanism, MechanismRecord
from tasks.reporting import figures
from tasks.reporting.environment import page
from tasks.reporting.numbers import (
    NBSP,
    decimals_for,
    estimate,
    estimate_percent,
    fixed,
    interval_decimals,
    interval_range,
    interval_range_percent,
    percent,
    plural,
    share_of_rows,
    significant,
)
from tasks.reporting.words import (
    ATTACK_RULE,
    CLASSIFIERS,
    COIN_TOSS,
    GRADE_RULE,
    TRAINED_ON,
    UTILITY_RULE,
    attack_verdict,
    best_result,
    guarantee_verdict,
    not_covered,
    stop_rule,
    utility_verdict,
)


@dataclass(frozen=True)
class Figure:
    """A picture with its one-sentence reading; `svg` is `None` where the report holds no numbers for it."""

    heading: str
    svg: Markup | None
    reading: str


def audit_html(report: AuditReport) -> str:
    """The internal audit report as one self-contained HTML page.

    Parameters
    ----------
    report : AuditReport

    Returns
    -------
    str
        The page; it loads nothing, needs no JavaScript, and is the same for the same report.
    """
    written = report.model_dump_json(indent=2) + "\n"
    return page(
        "audit.html",
        report=report,
        element=guarantee_verdict(report.guarantee.element, report.uncovered),
        record=guarantee_verdict(report.guarantee.record, report.uncovered),
        attack=attack_verdict(report),
        usefulness=utility_verdict(report),
        moments=report.mechanism.name == "private-moments",
        not_covered=not_covered(report.rows, report.feature_columns, report.guarantee.element, report.mechanism),
        attack_rows=_attack_rows(report),
        accuracy_table=_accuracy_table(report),
        density_figures=[_density_figure(report, a) for a in report.membership_inference.attacks],
        roc_figure=_roc_figure(report),
        accuracy_figure=_accuracy_figure(report),
        column_figure=_column_figure(report),
        column_rows=_column_rows(report),
        category_rows=_category_rows(report),
        correlation=_correlation(report),
        noise_figure=_noise_figure(report),
        fabrication_rows=_fabrication_rows(report),
        check_rows=_check_rows(report.validation.checks),
        failed_checks=sum(not check.success for check in report.validation.checks),
        total_seconds=sum(step.seconds for step in report.step_times),
        rules=[GRADE_RULE, ATTACK_RULE, UTILITY_RULE],
        trained_on=TRAINED_ON,
        classifier_names=CLASSIFIERS,
        digest=hashlib.sha256(written.encode()).hexdigest(),
    )


def _attack_rows(report: AuditReport) -> list[dict[str, str]]:
    return [
        {
            "trained_on": TRAINED_ON[attack.trained_on],
            "auc": estimate(attack.auc),
            "range": interval_range(attack.auc, COIN_TOSS),
            "score": significant(attack.score, 2),
            "parameters": f"width {significant(attack.sigma, 2)}, ridge {significant(attack.regularization, 2)}"
            if attack.sigma > 0
            else "width, ridge: not computed, all distances are equal",
            "found": _found(attack, 0.01),
        }
        for attack in report.membership_inference.attacks
    ]


def _found(attack: MembershipAttack, false_positive_rate: float) -> str:
    """Share of members found at a rate of false accusations, from the report's curve."""
    false, true = attack.roc_false_positive_rate, attack.roc_true_positive_rate
    if not false or len(false) != len(true):
        return "not computed (no curve)"
    return percent(float(np.interp(false_positive_rate, false, true)))


def _accuracy_table(report: AuditReport) -> list[dict[str, Any]]:
    table: dict[str, dict[str, dict[str, str]]] = {}
    for result in report.classifiers.results:
        table.setdefault(CLASSIFIERS[result.name], {})[result.trained_on] = {
            "accuracy": estimate_percent(result.accuracy),
            "range": interval_range_percent(result.accuracy),
            "f1": fixed(result.macro_f1, interval_decimals(result.accuracy)),
        }
    return [{"name": name, "cells": cells} for name, cells in table.items()]


def _density_figure(report: AuditReport, attack: MembershipAttack) -> Figure:
    heading = f"Trained on {TRAINED_ON[attack.trained_on]}"
    shared = figures.overlap(attack)
    reading = (
        "Not computed: the report holds no densities for this attack."
        if shared is None
        else f"The two curves share {percent(shared)} of their area; the attack's area under the ROC curve is "
        f"{estimate(attack.auc)}."
    )
    description = (
        f"Smoothed densities of the distance to the nearest class, for members and for control rows, of a classifier "
        f"trained on {TRAINED_ON[attack.trained_on]}. {reading}"
    )
    name = f"density-{attack.trained_on}"
    return Figure(heading, figures.densities(attack, name, f"Distances, {heading.lower()}", description), reading)


def _roc_figure(report: AuditReport) -> Figure:
    inference = report.membership_inference
    found = [
        f"{_found(a, 0.01)} if trained on {TRAINED_ON[a.trained_on]}"
        for a in inference.attacks
        if a.roc_false_positive_rate and len(a.roc_false_positive_rate) == len(a.roc_true_positive_rate)
    ]
    if not found:
        return Figure("ROC curves", None, "Not computed: the report holds no ROC curve.")
    reading = f"While it accuses 1{NBSP}% of the control rows wrongly, the attack finds of the members " + ", ".join(
        found
    )
    reading += f"; a coin toss finds 1{NBSP}%."
    if inference.controls < 100:
        reading += (
            f" With {plural(inference.controls, 'control row')} rates below 1 in {inference.controls} are not resolved."
        )
    description = (
        "Share of members found against share of control rows wrongly accused, one curve for each kind of data. "
    )
    svg = figures.roc(inference.attacks, "roc", "ROC curves of the attack", description + reading)
    return Figure("Members found against rows wrongly accused", svg, reading)


def _accuracy_figure(report: AuditReport) -> Figure:
    comparison = report.classifiers
    heading = "Accuracy on real control rows"
    if not comparison.results:
        return Figure(heading, None, "Not computed: no classifier was evaluated.")
    parts = []
    for kind, words in TRAINED_ON.items():
        best = best_result(comparison.results, kind)
        if best is not None:
            parts.append(f"{estimate_percent(best.accuracy)} trained on {words} ({CLASSIFIERS[best.name]})")
    majority = share_of_rows(comparison.majority_accuracy, comparison.test_rows)
    reading = f"The best classifiers get {', '.join(parts)}; always answering the largest class gets {majority}."
    every = "; ".join(
        f"{CLASSIFIERS[r.name]} trained on {TRAINED_ON[r.trained_on]} {estimate_percent(r.accuracy)}"
        for r in comparison.results
    )
    svg = figures.accuracies(comparison, "accuracy", heading, f"Bars with intervals: {every}. {reading}")
    return Figure(heading, svg, reading)


def _ks_decimals(report: AuditReport) -> int:
    """Two samples of n rows of one law differ by about 1.36 sqrt(2/n) at most, in 95 of 100 cases."""
    return decimals_for(1.36 * (2 / max(report.rows, 1)) ** 0.5 / 2)


def _column_figure(report: AuditReport) -> Figure:
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


def _column_rows(report: AuditReport) -> list[dict[str, str]]:
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


def _category_rows(report: AuditReport) -> list[dict[str, str]]:
    """The columns of categories, largest distance first, with the categories that moved most."""
    decimals = decimals_for(0.5 / max(report.rows, 1) ** 0.5)

    def row(column: CategoryUtility) -> dict[str, str]:
        moves = sorted(
            zip(column.categories, column.shares_real, column.shares_fabricated, strict=True),
            key=lambda move: -abs(move[1] - move[2]),
        )
        shown = [f"{name} {percent(fabricated)}, {percent(real)}" for name, real, fabricated in moves[:3]]
        return {
            "name": column.name,
            "count": str(len(column.categories)),
            "distance": fixed(column.total_variation, decimals),
            "moved": "; ".join(shown),
        }

    return [row(c) for c in sorted(report.utility.categories, key=lambda c: -c.total_variation)]


def _correlation(report: AuditReport) -> str:
    utility = report.utility
    if utility.correlation_difference is None:
        return "Not computed: fewer than two columns vary in both tables."
    return (
        f"Pairwise correlations differ by {significant(utility.correlation_difference, 2)} on average over "
        f"{plural(utility.correlation_pairs, 'pair')} of columns that vary in both tables; 0 is equal, "
        "2 is the most possible."
    )


def _check_rows(checks: Sequence[ValidationCheck]) -> list[dict[str, Any]]:
    """Checks that found something one by one and first; those of one kind that found nothing in one row together."""

    def clean(check: ValidationCheck) -> bool:
        return check.success and check.unexpected_count == 0 and check.column is not None

    def row(check: ValidationCheck, column: str | None, checked: int | None) -> dict[str, Any]:
        return {
            "expectation": check.expectation.replace("_", " "),
            "column": column,
            "success": check.success,
            "checked": checked,
            "unexpected": check.unexpected_count,
        }

    rows = [row(check, check.column, check.element_count) for check in checks if not clean(check)]
    together: dict[str, list[ValidationCheck]] = {}
    for check in filter(clean, checks):
        together.setdefault(check.expectation, []).append(check)
    for alike in together.values():
        counts = [check.element_count for check in alike]
        checked = None if None in counts else sum(count for count in counts if count is not None)
        column = alike[0].column if len(alike) == 1 else plural(len(alike), "column")
        rows.append(row(alike[0], column, checked))
    return rows


def _noise_figure(report: AuditReport) -> Figure:
    heading = "Noise on a cell beside the range of its column"
    size = report.mechanism.expected_magnitude
    if size is None and report.mechanism.name != "private-moments":
        return Figure(heading, None, "The features are categories: random responses took their places.")
    if size is None:
        reading = "No cell got noise of its own: rows were drawn from noisy sums over all rows (private moments)."
        return Figure(heading, None, reading)
    reading = (
        f"On average the noise moved a cell by {significant(100 * size, 3)}{NBSP}% of its column's whole range, before "
        "smoothing."
    )
    description = "Two bars: the whole range of a column, which is 1, and the expected size of the noise on one cell. "
    return Figure(heading, figures.noise_size(size, "noise", heading, description + reading), reading)


def _parameter(value: float | list[float] | list[int]) -> str:
    return plural(len(value), "number") if isinstance(value, list) else significant(value, 6)


def _compared(row: ComparedMechanism) -> str:
    if row.expected_magnitude is None:
        return f"not computed ({row.reason})"
    return f"{significant(row.expected_magnitude)} (the whole range of a column is 1)"


def _part_rows(mechanism: MechanismRecord) -> list[tuple[str, str]]:
    """What was run on which columns, where that was not the same for all."""
    if len(mechanism.parts) < 2:
        return []
    rows = []
    for part in mechanism.parts:
        columns = plural(len(part.columns), "column") if len(part.columns) > 3 else ", ".join(part.columns)
        if part.change_probability is None:
            effect = f"E|v| {significant(part.expected_magnitude or 0.0)}"
        else:
            effect = f"another answer in {percent(part.change_probability)} of the rows"
        what = {"value": "Values", "category": "Categories", "missing": "Whether values are missing"}[part.what]
        rows.append((f"{what} of {columns}", f"{part.name}, {effect}"))
    return rows


def _fabrication_rows(report: AuditReport) -> list[tuple[str, str]]:
    fabrication, mechanism = report.fabrication, report.mechanism
    rows = [
        ("Mechanism", mechanism.name),
        *((f"Parameter {key.replace('_', ' ')}", _parameter(value)) for key, value in mechanism.parameters.items()),
        *((f"E|v| of {row.name}", _compared(row)) for row in mechanism.compared),
        *_part_rows(mechanism),
        ("Dimension of the affine hull machines", str(fabrication.components)),
        ("Smoothing stops after", stop_rule(fabrication.stop)),
        ("Shards", f"{fabrication.shards}, of about {fabrication.shard_rows} rows at most"),
    ]
    if fabrication.steps:
        tally = sorted(Counter(fabrication.steps).items())
        rows.append(
            ("Smoothing steps taken", ", ".join(f"{plural(s, 'step')} in {plural(n, 'shard')}" for s, n in tally))
        )
    else:
        rows.append(("Smoothing steps taken", "not computed (no shard was smoothed)"))
    if fabrication.rows_projected:
        rows.append(("Fabricated rows moved to obey the constraints", str(fabrication.rows_projected)))
    if fabrication.shards_unsettled:
        rows.append(("Shards in which the stop rule was not met", str(fabrication.shards_unsettled)))
    errors = fabrication.first_errors
    rows.append(
        (
            "Modeling error of the noise-added shards (summed distance, scaled units)",
            "not computed (no shard was smoothed)"
            if not errors
            else significant(errors[0])
            if len(errors) == 1
            else f"{significant(min(errors))} to {significant(max(errors))}",
        )
    )
    return rows
