"""What the index knows of one report: the headline numbers, each ready to be shown beside another report's.

Every report has the same facts in the same order. One that is missing says `not computed` and why.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.attacks import AnyAttack, PrivacyRisk
from schemas.audit import AuditReport
from schemas.guarantee import Guarantee
from schemas.measures import Interval, NotComputed, TrainedOn
from tasks.reporting.names import CLASSIFIERS, TRAINED_ON, attack_name, risk_name
from tasks.reporting.numbers import (
    NBSP,
    count,
    decimals_for,
    estimate,
    estimate_percent,
    fixed,
    interval_range,
    interval_range_percent,
    percent,
    significant,
)
from tasks.reporting.verdict import NO_BETTER, better_than_guessing
from tasks.reporting.verdicts import (
    COIN_TOSS,
    attack_interval,
    attacks_on,
    attacks_on_released_classifiers,
    best_result,
    column_distances,
    floor_significant,
    risks_on,
    widened,
)
from tasks.reporting.words import guarantee_verdict, stop_rule


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of a report, as it is shown and as it is compared."""

    text: str
    note: str = ""
    value: float | None = None
    """What decides whether another is higher; `None` for facts in words."""
    lower: float | None = None
    upper: float | None = None
    """The interval, where there is one."""
    items: tuple[str, ...] | None = None
    """Of a list: its entries, which are compared one by one."""
    missing: bool = False


def missing(reason: str) -> Fact:
    """A figure that was not computed, and why."""
    return Fact("not computed", reason, missing=True)


def reason(not_computed: Iterable[NotComputed], words: tuple[str, ...], otherwise: str) -> str:
    """Why a figure is missing: the reasons of what is called by one of the words, or else all that are given."""
    every = list(not_computed)
    told = [n for n in every if any(word in n.what.lower() for word in words)] or every
    return "; ".join(dict.fromkeys(f"{n.what}: {n.reason}" for n in told)) or otherwise


def attack_missing(report: AuditReport, trained_on: TrainedOn) -> str:
    """Why there is no attack on one kind of data."""
    return reason(
        report.membership_inference.not_computed,
        (trained_on,),
        f"the report holds no attack on {TRAINED_ON[trained_on]}",
    )


def risk_missing(report: AuditReport) -> str:
    """Why there is no risk of an attacker who holds the fabricated rows."""
    return reason(report.privacy_risks.not_computed, ("fabricated",), "the report holds no risk from fabricated data")


def facts(report: AuditReport) -> dict[tuple[str, str], Fact]:
    """All facts of a report by group and name, in the order in which they are shown."""
    every: dict[tuple[str, str], Fact] = {}

    def add(group: str, name: str, fact: Fact) -> None:
        every[group, name] = fact

    inference, utility, making = report.membership_inference, report.utility, report.reproduction
    add("Release", "Data set", Fact(report.dataset))
    add("Release", "Rows", _counted(report.rows))
    add("Release", "Control rows", _counted(inference.controls))
    add("Release", "Feature columns", _counted(report.feature_columns))

    for of, guarantee in (("One cell", report.guarantee.element), ("One whole row", report.guarantee.record)):
        add("Guarantee", f"{of}, in words", Fact(guarantee_verdict(guarantee, report.uncovered).word))
        add("Guarantee", f"{of}, epsilon", Fact(significant(guarantee.epsilon, 6), value=guarantee.epsilon))
        add("Guarantee", f"{of}, delta", Fact(significant(guarantee.delta), value=guarantee.delta))
        add("Guarantee", f"{of}, proof", Fact(guarantee.proof))
    add("Guarantee", "Scope", _scope(report.guarantee.element))
    add("Guarantee", "Outside the guarantee", _listed(report.uncovered, "nothing"))

    mechanism, fabrication = report.mechanism, report.fabrication
    add("Mechanism", "Name", Fact(mechanism.name))
    size = mechanism.expected_magnitude
    none = f"{mechanism.name} adds no noise to single cells"
    add(
        "Mechanism",
        "Expected size of the noise on a cell",
        missing(none) if size is None else Fact(significant(size), "the whole range of a column is 1", size),
    )
    passed = mechanism.expected_unperturbed_cells
    add(
        "Mechanism",
        "Cells expected to get no noise",
        missing(none if size is None else "the rows were not known")
        if passed is None
        else Fact(significant(passed, 2), value=passed),
    )
    add("Mechanism", "Smoothing stops after", Fact(stop_rule(fabrication.stop)))
    add("Mechanism", "Components of a hull machine", _counted(fabrication.components))
    add("Mechanism", "Randomness", Fact(making.randomness))

    for kind, words in TRAINED_ON.items():
        attacks = attacks_on(report, kind)
        name = f"Strongest membership attack on {words}, area under the ROC curve"
        add("Attacks", name, _attack(attacks) if attacks else missing(attack_missing(report, kind)))
    released = attacks_on_released_classifiers(report)
    add(
        "Attacks",
        "Strongest membership attack on released classifiers, area under the ROC curve",
        _attack(released) if released else missing(_no_released(report)),
    )
    risks = risks_on(report, "fabricated")
    add(
        "Attacks",
        "Highest privacy risk beyond control rows, from fabricated data",
        _risk(risks) if risks else missing(risk_missing(report)),
    )
    for seen in ("noise-added", "fabricated"):
        add("Attacks", f"Lower bound of epsilon by canaries, {seen} data", _canary(report, seen))

    for kind, words in TRAINED_ON.items():
        best = best_result(report.classifiers.results, kind)
        why = reason(report.classifiers.not_computed, (kind,), f"no classifier was trained on {words}")
        add(
            "Usefulness",
            f"Best accuracy, trained on {words}",
            missing(why) if best is None else _interval(best.accuracy, CLASSIFIERS[best.name], share=True),
        )
    majority, test_rows = report.classifiers.majority_accuracy, report.classifiers.test_rows
    add(
        "Usefulness",
        "Accuracy of always answering the largest class",
        missing("too few control rows")
        if majority is None
        else Fact(percent(majority, 1 if test_rows >= 1000 else 0), value=majority),
    )
    add("Usefulness", "Propensity ratio (pMSE), the largest", _propensity(report))
    add("Usefulness", "Similarity of columns, mean", _column_similarity(report))
    why = reason(utility.not_computed, ("pair",), "the report holds no similarity of pairs of columns")
    similar = utility.pair_similarity
    add(
        "Usefulness",
        "Similarity of pairs of columns, mean",
        missing(why) if similar is None else _share(similar, report.rows, "1 is equal"),
    )
    moved = utility.correlation_difference
    add(
        "Usefulness",
        "Difference of correlations, mean",
        missing(reason(utility.not_computed, ("correlation",), "fewer than two columns vary in both tables"))
        if moved is None
        else _share(moved, report.rows, f"over {count(utility.correlation_pairs)} pairs; 0 is equal"),
    )

    add("Warnings", "Number of warnings", _counted(len(report.warnings)))
    add("Warnings", "Warnings", _listed(report.warnings, "none"))

    add("Versions", "Code", Fact(making.code_version))
    add("Versions", "Python", Fact(making.python))
    packages = [f"{name} {version}" for name, version in sorted(making.packages.items())]
    add("Versions", "Packages", _listed(packages, "none recorded"))
    add("Versions", "SHA-256 of the spec", Fact(making.spec_sha256))
    add("Versions", "SHA-256 of the source", Fact(making.source_sha256))
    return every


def _counted(number: int) -> Fact:
    return Fact(count(number), value=number)


def _listed(items: Iterable[str], nothing: str) -> Fact:
    every = tuple(items)
    return Fact("" if every else nothing, items=every)


def _interval(interval: Interval, note: str, *, share: bool = False, reference: float | None = None) -> Fact:
    text = estimate_percent(interval) if share else estimate(interval)
    ends = interval_range_percent(interval) if share else interval_range(interval, reference)
    made = f"{ends} at {significant(100 * interval.confidence)}{NBSP}% ({interval.method})"
    return Fact(text, f"{made}; {note}", interval.estimate, interval.lower, interval.upper)


def _no_released(report: AuditReport) -> str:
    """Why there is no attack on a released classifier."""
    if report.data_guarantee is None:
        return "no classifier trained on confidential rows is released"
    return reason(report.membership_inference.not_computed, ("membership",), "the report holds no attack on them")


def _attack(attacks: Sequence[AnyAttack]) -> Fact:
    """The first of several attacks, the strongest; its interval is widened for that."""
    note = f"{attack_name(attacks[0])}{_picked(len(attacks), 'attack')}"
    return _interval(attack_interval(attacks[0], len(attacks)), note, reference=COIN_TOSS)


def _risk(risks: Sequence[PrivacyRisk]) -> Fact:
    """The first of several risks, the highest; its interval is widened for that."""
    note = f"{risk_name(risks[0])}{_picked(len(risks), 'risk')}"
    if not better_than_guessing(risks[0]):
        note += f"; {NO_BETTER}"
    return _interval(widened(risks[0].risk_beyond_controls, len(risks)), note, share=True)


def _picked(tried: int, noun: str) -> str:
    return f", interval widened for the largest of {count(tried)} {noun}s" if tried > 1 else ""


def _scope(element: Guarantee) -> Fact:
    labels = {"public": "labels are public", "covered": "labels are covered"}.get(
        element.labels, "labels by randomised response"
    )
    reach = "the whole range" if element.distance == 1 else f"{element.distance:g} of the range"
    columns = "".join(f"; column {name} is public" for name in element.public_columns)
    return Fact(f"changes of a cell by {reach}; {labels}{columns}")


def _canary(report: AuditReport, seen: str) -> Fact:
    empirical = report.empirical_epsilon
    bound = next((b for b in empirical.bounds if b.seen == seen), None)
    if bound is None:
        return missing(reason(empirical.not_computed, (seen,), f"no canaries were looked for in {seen} data"))
    proved = bound.epsilon_lower_bound
    text = f"at least {floor_significant(proved, 2)}" if proved > 0 else "0: no epsilon is refuted"
    note = (
        f"{count(bound.correct)} of {count(bound.guesses)} guesses right, {count(bound.canaries)} canaries; claimed "
        f"{significant(empirical.claimed_epsilon)} at {empirical.unit} level; confidence "
        f"{significant(100 * empirical.confidence)}{NBSP}%"
    )
    return Fact(text, note, proved)


def _propensity(report: AuditReport) -> Fact:
    every = report.utility.propensity
    told = [(p.ratio, p.model) for p in every if p.ratio is not None]
    if told:
        ratio, model = max(told)
        return Fact(significant(ratio, 2), f"{model}; 1 is indistinguishable", ratio)
    otherwise = "two samples of one law would give 0" if every else "the report holds no propensity scores"
    return missing(reason(report.utility.not_computed, ("propensity", "pmse"), otherwise))


def _column_similarity(report: AuditReport) -> Fact:
    """Mean over columns of one less the distance that the audit page shows of each."""
    distances = column_distances(report)
    if not distances:
        return missing(reason(report.utility.not_computed, ("column",), "the report compares no column"))
    similar = 1 - math.fsum(distance for _, distance in distances) / len(distances)
    note = f"1 less the distance (Kolmogorov-Smirnov, total variation of categories), {count(len(distances))} columns"
    return _share(similar, report.rows, note)


def _share(value: float, rows: int, note: str) -> Fact:
    """A share or distance among so many rows, whose standard error is at most 1/2 / sqrt(rows)."""
    return Fact(fixed(value, decimals_for(0.5 / max(rows, 1) ** 0.5)), note, value)
