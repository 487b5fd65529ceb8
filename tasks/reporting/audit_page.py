"""The audit report as a page: what was guaranteed, what was measured, and how to check it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.audit import AuditReport, MembershipAttack, ValidationCheck
from tasks.reporting import figures
from tasks.reporting.columns import category_rows, column_figure, column_rows, correlation
from tasks.reporting.environment import page
from tasks.reporting.figure import Figure
from tasks.reporting.making import fabrication_rows, noise_figure
from tasks.reporting.numbers import (
    NBSP,
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
    utility_verdict,
)


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
        column_figure=column_figure(report),
        column_rows=column_rows(report),
        category_rows=category_rows(report),
        correlation=correlation(report),
        noise_figure=noise_figure(report),
        fabrication_rows=fabrication_rows(report),
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
