"""The part of the audit page on membership inference."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.attacks import AnyAttack, Found, MembershipAttack, ReleasedClassifierAttack
from schemas.audit import AuditReport
from schemas.measures import TrainedOn
from tasks.reporting import figures
from tasks.reporting.figure import Figure
from tasks.reporting.figures.attacks import has_curve
from tasks.reporting.names import ATTACKS, PRIVATE_CLASSIFIERS, TRAINED_ON, attack_name
from tasks.reporting.numbers import (
    NBSP,
    chance,
    count,
    estimate,
    estimate_percent,
    interval_range,
    interval_range_percent,
    percent,
    plural,
    significant,
    with_thousands,
)
from tasks.reporting.verdict import lower_first
from tasks.reporting.verdicts import COIN_TOSS, attacks_on_release, attacks_on_released_classifiers
from tasks.reporting.words import guess_bound

MOST_OPEN = 6
"""ROC curves that stand open; more of them are folded."""


@dataclass(frozen=True)
class AttackGroup:
    """One attack, on each kind of data that it was run on."""

    name: str
    attacks: dict[TrainedOn, MembershipAttack]


def attack_groups(report: AuditReport) -> list[AttackGroup]:
    """The attacks, the strongest on fabricated data first."""
    groups: dict[str, AttackGroup] = {}
    for attack in report.membership_inference.attacks:
        name = attack_name(attack)
        groups.setdefault(name, AttackGroup(name, {})).attacks[attack.trained_on] = attack

    def strength(group: AttackGroup) -> float:
        made = group.attacks.get("fabricated")
        return -1.0 if made is None else made.auc.estimate

    return sorted(groups.values(), key=lambda g: -strength(g))


def attack_table(groups: Sequence[AttackGroup], members: int, controls: int) -> list[dict[str, Any]]:
    """Area and its interval, attack by kind of data, with the rows where an attack looks at fewer than there are."""
    return [
        {
            "name": group.name,
            "judged_on": _judged_on(group.attacks.values(), (members, controls)),
            "cells": {kind: _area(attack) for kind, attack in group.attacks.items()},
        }
        for group in groups
    ]


def _area(attack: AnyAttack) -> dict[str, str]:
    side = ""
    if attack.auc.lower > COIN_TOSS:
        side = "above 0.5"
    elif attack.auc.upper < COIN_TOSS:
        side = "below 0.5"
    return {"value": estimate(attack.auc), "range": interval_range(attack.auc, COIN_TOSS), "side": side}


def _judged_on(attacks: Iterable[AnyAttack], whole: tuple[int, int]) -> str:
    """On how many rows attacks were judged, where these are not all; nothing where they are."""
    sizes = {(a.members, a.controls) for a in attacks} - {whole}
    return "; ".join(f"on {plural(m, 'member')}, {plural(c, 'control row')}" for m, c in sorted(sizes))


def found_tables(groups: Sequence[AttackGroup], controls: int) -> list[dict[str, Any]]:
    """Members found, a table for each rate of wrong accusations; rates that nobody resolves hold a reason instead."""
    rates = sorted(
        {f.false_positive_rate for g in groups for a in g.attacks.values() for f in a.found},
    )
    tables = []
    for rate in rates:
        cells = [{kind: _found(attack, rate) for kind, attack in group.attacks.items()} for group in groups]
        resolved = any(not cell["missing"] for own in cells for cell in own.values())
        rows = [{"name": group.name, "cells": own} for group, own in zip(groups, cells, strict=True)]
        tables.append(
            {
                "rate": _percent_of(rate),
                "rows": rows if resolved else [],
                "reason": f"{_unresolved(rate)}; {_had(groups, controls)}.",
            }
        )
    return tables


def _unresolved(rate: float) -> str:
    return f"not resolved: needs at least {plural(math.ceil(1 / rate - 1e-9), 'control row')}"


def _found(attack: AnyAttack, rate: float) -> dict[str, Any]:
    """Share of members found at one rate of wrong accusations, or why there is none."""
    found = _at(attack.found, rate)
    if found is None or found.true_positive_rate is None:
        why = f"{_unresolved(rate)}; this attack has {count(attack.controls)}" if found else "not computed"
        return {"value": why, "range": "", "missing": True}
    share = found.true_positive_rate
    return {"value": estimate_percent(share), "range": interval_range_percent(share, rate), "missing": False}


def released_rates(report: AuditReport) -> list[str]:
    """Rates of wrong accusations at which attacks on released classifiers say how many members they find."""
    return [_percent_of(rate) for rate in _rates(report)]


def _rates(report: AuditReport) -> list[float]:
    attacks = report.membership_inference.released_classifiers
    return sorted({f.false_positive_rate for a in attacks for f in a.found})


def released_table(report: AuditReport) -> list[dict[str, Any]]:
    """Attacks on released classifiers: area, members found, and what each classifier's guarantee allows."""
    inference = report.membership_inference
    return [
        {
            "name": _classifier(attack),
            "judged_on": _judged_on([attack], (inference.members, inference.controls)),
            "area": _area(attack),
            "found": [_found(attack, rate) for rate in _rates(report)],
            "guarantee": f"ε {significant(attack.epsilon, 4)}, δ {significant(attack.delta)}",
            "allowed": _allowed(guess_bound(attack)),
        }
        for attack in attacks_on_released_classifiers(report)
    ]


def _classifier(attack: ReleasedClassifierAttack) -> str:
    name = PRIVATE_CLASSIFIERS[attack.classifier]
    return name[:1].upper() + name[1:]


def _allowed(bound: float) -> str:
    return f"at most {chance(bound)} of pairs" if bound < 1 - 1e-6 else "no limit worth stating"


def released_figures(report: AuditReport) -> list[Figure]:
    """A panel for each released classifier, with the ROC curve of the attack on it."""
    made = []
    for position, attack in enumerate(attacks_on_released_classifiers(report)):
        heading = _classifier(attack)
        reading = f"Area {estimate(attack.auc)}; the diagonal is a coin toss, {COIN_TOSS:g}."
        title = f"ROC curve: {lower_first(attack_name(attack))}"
        description = f"Share of members found against share of control rows wrongly accused. {reading}"
        svg = figures.roc([attack], f"roc-released-{position}", title, description)
        if svg is None:
            reading = "Not computed: the report holds no ROC curve of this attack."
        made.append(Figure(heading, svg, reading))
    return made


def _had(groups: Sequence[AttackGroup], controls: int) -> str:
    """How many control rows there are, and for which attacks it was fewer."""
    fewer = {
        f"{count(attack.controls)} for {lower_first(group.name)}"
        for group in groups
        for attack in group.attacks.values()
        if attack.controls < controls
    }
    return ", and ".join([f"there are {count(controls)}", *([", ".join(sorted(fewer))] if fewer else [])])


def _at(found: Sequence[Found], rate: float) -> Found | None:
    return next((f for f in found if f.false_positive_rate == rate), None)


def _percent_of(rate: float) -> str:
    return f"{significant(100 * rate, 2)}{NBSP}%"


def interval_methods(intervals: Sequence[Any]) -> str:
    """How intervals were made, each way once, in words."""
    ways = dict.fromkeys(f"{percent(i.confidence)}, {with_thousands(i.method)}" for i in intervals)
    return "; ".join(ways)


def roc_figures(groups: Sequence[AttackGroup]) -> list[Figure]:
    """A panel for each attack, with a curve for each kind of data."""
    made = []
    for position, group in enumerate(groups):
        attacks = [group.attacks[kind] for kind in TRAINED_ON if kind in group.attacks]
        curves = [a for a in attacks if has_curve(a)]
        if not curves:
            made.append(Figure(group.name, None, "Not computed: the report holds no ROC curve of this attack."))
            continue
        areas = ", ".join(f"{estimate(a.auc)} on {TRAINED_ON[a.trained_on]}" for a in curves)
        reading = f"Area {areas}; the diagonal is a coin toss, {COIN_TOSS:g}."
        description = (
            "Share of members found against share of control rows wrongly accused, a curve for each kind of data. "
        )
        svg = figures.roc(curves, f"roc-{position}", f"ROC curves: {group.name}", description + reading)
        made.append(Figure(group.name, svg, reading))
    return made


def density_figures(report: AuditReport) -> list[Figure]:
    """Densities of the seed paper's distances, for each kind of data."""
    made = []
    for attack in _with_densities(report):
        assert attack.density_difference is not None
        difference = attack.density_difference
        heading = f"Trained on {TRAINED_ON[attack.trained_on]}"
        shared = figures.overlap(difference)
        reading = (
            "Not computed: the report holds no densities for this attack."
            if shared is None
            else f"The two curves share {percent(shared)} of their area; the attack's area under the ROC curve is "
            f"{estimate(attack.auc)}."
        )
        description = (
            "Smoothed densities of the distance to the nearest class, for members and for control rows, of a "
            f"classifier trained on {TRAINED_ON[attack.trained_on]}. {reading}"
        )
        title = f"Distances, {heading.lower()}"
        svg = figures.densities(difference, attack.trained_on, f"density-{attack.trained_on}", title, description)
        made.append(Figure(heading, svg, reading))
    return made


def _with_densities(report: AuditReport) -> list[MembershipAttack]:
    order = list(TRAINED_ON)
    found = [a for a in report.membership_inference.attacks if a.density_difference is not None]
    return sorted({a.trained_on: a for a in found}.values(), key=lambda a: order.index(a.trained_on))


def score_rows(report: AuditReport) -> list[dict[str, str]]:
    """The seed paper's score, for each kind of data."""
    rows = []
    for attack in _with_densities(report):
        own = attack.density_difference
        assert own is not None
        rows.append(
            {
                "trained_on": TRAINED_ON[attack.trained_on],
                "score": significant(own.score, 2),
                "parameters": f"width {significant(own.sigma, 2)}, ridge {significant(own.regularization, 2)}"
                if own.sigma > 0
                else "width, ridge: not computed, all distances are equal",
            }
        )
    return rows


def exposed_rows(report: AuditReport) -> list[dict[str, str]]:
    """Rows of the source that each attack on what is released ranks highest, by index only."""
    return [
        {"name": attack_name(attack), "rows": "; ".join(count(row) for row in attack.most_exposed[:20])}
        for attack in attacks_on_release(report)
        if attack.most_exposed
    ]


def attacks_run(report: AuditReport) -> list[Any]:
    """Names of the attacks that were run, each once, in a fixed order."""
    run = {attack.attack for attack in report.membership_inference.attacks}
    return [name for name in ATTACKS if name in run]
