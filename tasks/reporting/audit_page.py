"""The audit report as a page: what was guaranteed, what was measured, and how to check it."""

import hashlib
from collections.abc import Sequence
from typing import Any

from schemas.attacks import AnyAttack
from schemas.audit import AuditReport, ValidationCheck
from schemas.measures import NotComputed
from tasks.reporting import attacks, columns, pairs, risks, usefulness
from tasks.reporting.environment import page
from tasks.reporting.making import fabrication_rows, noise_figure
from tasks.reporting.names import ATTACK_MEANINGS, ATTACKS, CLASSIFIERS, RISK_MEANINGS, RISKS, TRAINED_ON
from tasks.reporting.numbers import plural, significant, with_thousands
from tasks.reporting.verdicts import (
    ATTACK_RULE,
    DISTRIBUTION_RULE,
    EPSILON_RULE,
    RISK_RULE,
    UTILITY_RULE,
    attack_verdict,
    below_a_coin_toss,
    distribution_verdict,
    epsilon_verdict,
    risk_verdict,
    utility_verdict,
)
from tasks.reporting.words import (
    GRADE_RULE,
    guarantee_verdict,
    in_plain_words,
    not_covered,
    of_data_and_classifiers,
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
    element = guarantee_verdict(report.guarantee.element, report.uncovered)
    record = guarantee_verdict(report.guarantee.record, report.uncovered)
    measured = {
        "attack": attack_verdict(report),
        "risks": risk_verdict(report),
        "epsilon": epsilon_verdict(report),
        "usefulness": utility_verdict(report),
        "distributions": distribution_verdict(report),
    }
    return page(
        "audit.html",
        report=report,
        with_classifiers=of_data_and_classifiers(report.data_guarantee),
        plainly=in_plain_words(report.guarantee.element, report.guarantee.record, report.uncovered),
        element=element,
        record=record,
        measured=measured,
        tiles=[(element, "#guarantee"), (record, "#guarantee"), *((v, f"#{name}") for name, v in measured.items())],
        warnings=[_sentence(with_thousands(warning)) for warning in report.warnings],
        not_covered=not_covered(report.rows, report.feature_columns, report.guarantee.element, report.mechanism),
        trained_on=TRAINED_ON,
        **_attack_parts(report),
        **_usefulness_parts(report),
        **_column_parts(report),
        moments=report.mechanism.name == "private-moments",
        noise_figure=noise_figure(report),
        fabrication_rows=fabrication_rows(report),
        check_rows=_check_rows(report.validation.checks),
        failed_checks=sum(not check.success for check in report.validation.checks),
        total_seconds=sum(step.seconds for step in report.step_times),
        rules=[GRADE_RULE, ATTACK_RULE, RISK_RULE, EPSILON_RULE, UTILITY_RULE, DISTRIBUTION_RULE],
        digest=hashlib.sha256(written.encode()).hexdigest(),
    )


def _attack_parts(report: AuditReport) -> dict[str, Any]:
    inference, empirical = report.membership_inference, report.empirical_epsilon
    groups = attacks.attack_groups(report)
    roc = attacks.roc_figures(groups)
    risk_rows = risks.risk_rows(report)
    held = report.privacy_risks.risks
    every: list[AnyAttack] = [*inference.attacks, *inference.released_classifiers]
    return {
        "attack_meanings": [(ATTACKS[name], ATTACK_MEANINGS[name]) for name in attacks.attacks_run(report)],
        "attack_table": attacks.attack_table(groups, inference.members, inference.controls),
        "found_tables": attacks.found_tables(groups, inference.controls),
        "released_table": attacks.released_table(report),
        "released_rates": attacks.released_rates(report),
        "released_figures": attacks.released_figures(report),
        "area_methods": attacks.interval_methods([a.auc for a in every]),
        "found_methods": attacks.interval_methods(
            [f.true_positive_rate for a in every for f in a.found if f.true_positive_rate is not None]
        ),
        "below": below_a_coin_toss(report),
        "roc_figures": roc[: attacks.MOST_OPEN],
        "more_roc_figures": roc[attacks.MOST_OPEN :],
        "density_figures": attacks.density_figures(report),
        "score_rows": attacks.score_rows(report),
        "exposed_rows": attacks.exposed_rows(report),
        "attacks_missing": _missing(inference.not_computed),
        "risk_meanings": [(RISKS[name], RISK_MEANINGS[name]) for name in RISKS if any(r.risk == name for r in held)],
        "risk_figure": risks.risk_figure(report),
        "risk_rows": [row for row in risk_rows if not row["folded"]],
        "more_risk_rows": [row for row in risk_rows if row["folded"]],
        "rate_methods": attacks.interval_methods([i for r in held for i in (r.members, r.controls, r.naive)]),
        "risk_methods": attacks.interval_methods([r.risk_beyond_controls for r in held]),
        "risks_missing": _missing(report.privacy_risks.not_computed),
        "epsilon_figure": risks.epsilon_figure(report),
        "epsilon_rows": risks.epsilon_rows(report),
        "together": risks.together(report),
        "claimed": f"ε = {significant(empirical.claimed_epsilon)}, δ = {significant(empirical.delta)}",
        "epsilon_missing": _missing(empirical.not_computed),
    }


def _usefulness_parts(report: AuditReport) -> dict[str, Any]:
    sweep = report.sweep
    return {
        "accuracy_figure": usefulness.accuracy_figure(report),
        "accuracy_table": usefulness.accuracy_table(report),
        "classifier_methods": [
            (name, attacks.interval_methods(found)) for name, found in usefulness.classifier_intervals(report) if found
        ],
        "private_table": usefulness.private_table(report),
        "private_sentences": usefulness.private_sentences(report),
        "private_settings": usefulness.private_settings(report),
        "privately_trained": usefulness.PRIVATELY_TRAINED,
        "private_methods": [
            (name, attacks.interval_methods(found)) for name, found in usefulness.private_intervals(report) if found
        ],
        "classifiers_missing": _missing(report.classifiers.not_computed),
        "classifier_names": CLASSIFIERS,
        "sweep_figures": [] if sweep is None else usefulness.sweep_figures(sweep),
        "sweep_rows": [] if sweep is None else usefulness.sweep_rows(sweep),
        "swept_attacks": [ATTACKS[name] for name in usefulness.SWEPT_ATTACKS],
        "sweep_facts": "" if sweep is None else usefulness.sweep_facts(sweep),
    }


def _column_parts(report: AuditReport) -> dict[str, Any]:
    small = columns.small_figures(report)
    return {
        "sample_note": _sentence(with_thousands(columns.sample_note(report))),
        "column_figure": columns.column_figure(report),
        "small_figures": small[: columns.MOST_OPEN],
        "more_small_figures": small[columns.MOST_OPEN :],
        "column_rows": columns.column_rows(report),
        "quantiles": columns.quantile_table(report),
        "category_rows": columns.category_rows(report),
        "correlation": pairs.correlation(report),
        "correlations": pairs.correlations(report),
        "pair_sentence": pairs.pair_sentence(report),
        "pair_rows": pairs.pair_rows(report),
        "propensity_rows": pairs.propensity_rows(report),
        "projection_figures": pairs.projection_figures(report),
        "utility_missing": _missing(report.utility.not_computed),
    }


def _end(text: str) -> str:
    return text if not text or text.endswith(".") else f"{text}."


def _sentence(text: str) -> str:
    return _end(text[:1].upper() + text[1:])


def _missing(parts: Sequence[NotComputed]) -> list[str]:
    """What was not computed and why; those with one reason together."""
    return [f"{_sentence(part.what)[:-1]} was not computed: {_end(with_thousands(part.reason))}" for part in parts]


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
