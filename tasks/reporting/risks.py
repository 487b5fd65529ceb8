"""The part of the audit page on privacy risks, and on the empirical epsilon."""

import math
from typing import Any

from schemas.attacks import PrivacyRisk
from schemas.audit import AuditReport
from tasks.reporting import figures
from tasks.reporting.figure import Figure
from tasks.reporting.names import TRAINED_ON, risk_name
from tasks.reporting.numbers import (
    NBSP,
    count,
    estimate_percent,
    interval_range_percent,
    percent,
    plural,
    significant,
)
from tasks.reporting.verdict import NO_BETTER, better_than_guessing, lower_first, picked_from, widened
from tasks.reporting.verdicts import claimed_of, floor_significant, risks_on

MOST_OPEN = 6
"""Risks that stand open; more of them are folded."""


def _risk_groups(report: AuditReport) -> list[tuple[str, list[PrivacyRisk]]]:
    """Risks by what was attacked, the largest on fabricated data first; attacks that do not beat guessing come last.

    Those that stand open hold the largest of each of the three risks, and the next largest.
    """
    order = list(TRAINED_ON)
    groups: dict[tuple[str, str], list[PrivacyRisk]] = {}
    for risk in report.privacy_risks.risks:
        groups.setdefault((risk.risk, risk.variant), []).append(risk)

    def size(risks: list[PrivacyRisk]) -> float:
        made = [r for r in risks if r.trained_on == "fabricated" and better_than_guessing(r)]
        return max((r.risk_beyond_controls.estimate for r in made), default=-math.inf)

    named = [(risk_name(own[0]), sorted(own, key=lambda r: order.index(r.trained_on))) for own in groups.values()]
    named.sort(key=lambda group: -size(group[1]))
    first = {own[0].risk: position for position, (_, own) in reversed(list(enumerate(named)))}
    kept = [position in first.values() for position in range(len(named))]
    for position in range(len(named)):
        kept[position] = kept[position] or sum(kept) < MOST_OPEN
    return [g for g, open_ in zip(named, kept, strict=True) if open_] + [
        g for g, open_ in zip(named, kept, strict=True) if not open_
    ]


def risk_rows(report: AuditReport) -> list[dict[str, Any]]:
    """The risks as rows of a table, those of one attack below each other."""
    return [
        {
            "name": name,
            "first": position == 0,
            "group": len(own),
            "folded": place >= MOST_OPEN,
            "trained_on": risk.trained_on,
            "attacked": count(risk.attacked),
            "members": estimate_percent(risk.members),
            "members_range": interval_range_percent(risk.members),
            "controls": estimate_percent(risk.controls),
            "controls_range": interval_range_percent(risk.controls),
            "naive": estimate_percent(risk.naive),
            "no_better": "" if better_than_guessing(risk) else NO_BETTER,
            "risk": estimate_percent(risk.risk_beyond_controls),
            "risk_range": interval_range_percent(risk.risk_beyond_controls, 0.0),
        }
        for place, (name, own) in enumerate(_risk_groups(report))
        for position, risk in enumerate(own)
    ]


def risk_figure(report: AuditReport) -> Figure:
    """Dots with intervals, a group for each attack."""
    heading = "Risks beyond what control rows show"
    groups = _risk_groups(report)
    if not groups:
        return Figure(heading, None, "Not computed: no privacy risk was measured.")
    shown = groups[:MOST_OPEN]
    made = risks_on(report, "fabricated")
    if made:
        reading = _fabricated_reading(made, sum(r.trained_on == "fabricated" for r in report.privacy_risks.risks))
    else:
        reading = f"{plural(len(report.privacy_risks.risks), 'risk')} shown; none was measured on fabricated data."
    if len(groups) > len(shown):
        reading = (
            reading[:-1] + f"; {len(shown)} of {len(groups)} attacks are drawn, the largest of each risk among them."
        )
    each = "; ".join(
        f"{name}: " + ", ".join(f"{r.trained_on} {estimate_percent(r.risk_beyond_controls)}" for r in own)
        for name, own in shown
    )
    svg = figures.risks(shown, "risks", heading, f"Dots with intervals. {each}. {reading}")
    return Figure(heading, svg, reading)


def _fabricated_reading(judged: list[PrivacyRisk], tried: int) -> str:
    """The largest risk on fabricated data, and how many there are, in sentences."""
    largest, left = judged[0], tried - len(judged)
    if not better_than_guessing(largest):
        which = "the only attack is" if tried == 1 else f"all {count(tried)} attacks are"
        return f"On fabricated data {which} {NO_BETTER}."
    beyond = widened(largest.risk_beyond_controls, len(judged))
    above = sum(r.risk_beyond_controls.lower > 0 for r in judged)
    lie = f"{'no' if above == 0 else count(above)} {'interval lies' if above < 2 else 'intervals lie'}"
    reading = (
        f"On fabricated data {'the risk' if len(judged) == 1 else f'the largest of {count(len(judged))} risks'} is "
        f"{estimate_percent(beyond)} ({interval_range_percent(beyond, 0.0)}{picked_from(len(judged), 'attack')}), "
        f"{lower_first(risk_name(largest))}; taken alone, {lie} wholly above 0{NBSP}%."
    )
    if left:
        reading += f" {plural(left, 'attack')} {'is' if left == 1 else 'are'} left out: {NO_BETTER}."
    return reading


def together(report: AuditReport) -> str:
    """How sure the lower bounds are, in words."""
    empirical = report.empirical_epsilon
    sure = percent(empirical.confidence)
    if len(empirical.bounds) < 2:
        return f"it holds with {sure} confidence"
    return f"{'both' if len(empirical.bounds) == 2 else 'all'} hold together at {sure}"


def epsilon_figure(report: AuditReport) -> Figure:
    """Lower bounds beside the claimed epsilon."""
    empirical, heading = report.empirical_epsilon, "Epsilon that canaries prove, beside the claimed one"
    if not empirical.bounds:
        return Figure(heading, None, "Not computed: no canary audit was run.")
    parts = [
        f"{floor_significant(b.epsilon_lower_bound)} from {TRAINED_ON[b.seen]} ({count(b.correct)} of "
        f"{plural(b.guesses, 'guess').replace('guesss', 'guesses')} right)"
        for b in empirical.bounds
    ]
    claimed, of_what = significant(empirical.claimed_epsilon), claimed_of(report)
    reading = f"Epsilon is at least {' and at least '.join(parts)}; {together(report)}; {claimed} is claimed{of_what}."
    if all(bound.epsilon_lower_bound <= 0 for bound in empirical.bounds):
        right = " and ".join(
            f"{count(b.correct)} of {count(b.guesses)} on {TRAINED_ON[b.seen]}" for b in empirical.bounds
        )
        reading = (
            f"No epsilon is refuted; guesses that were right: {right}. The audit had no power and says nothing about "
            f"the claimed {claimed}{of_what}."
        )
    svg = figures.epsilons(empirical, "epsilon", heading, f"A bar for each bound, a line at the claim. {reading}")
    return Figure(heading, svg, reading)


def epsilon_rows(report: AuditReport) -> list[dict[str, str]]:
    """The bounds as rows of a table."""
    return [
        {
            "seen": TRAINED_ON[b.seen],
            "bound": floor_significant(b.epsilon_lower_bound),
            "correct": f"{count(b.correct)} of {count(b.guesses)}",
            "canaries": count(b.canaries),
        }
        for b in report.empirical_epsilon.bounds
    ]
