"""The part of the audit page on classifiers, and on what they would reach at other epsilons."""

from typing import Any

from schemas.attacks import AttackName
from schemas.audit import AuditReport
from schemas.measures import Interval
from schemas.private_classifiers import ChosenOn, TrainedPrivatelyOn
from schemas.sweep import Sweep
from schemas.utility import PrivateClassifierResult
from tasks.reporting import figures
from tasks.reporting.figure import Figure
from tasks.reporting.names import ATTACKS, CLASSIFIERS, PRIVATE_CLASSIFIERS, TRAINED_ON
from tasks.reporting.numbers import (
    count,
    estimate,
    estimate_percent,
    interval_range,
    interval_range_percent,
    percent,
    plural,
    share_of_rows,
    significant,
)
from tasks.reporting.verdicts import COIN_TOSS, best_result

SWEPT_ATTACKS: tuple[AttackName, ...] = ("distance-to-closest-record", "nearest-neighbour-ratio", "density-ratio")
"""Attacks of a sweep's points: those that look at rows only. The largest of their areas is picked."""
ONE_RUN = (
    "Each point is one run: intervals are about the test rows only, and another run would draw other noise and come "
    "out differently."
)
ATTACK_NAMES: dict[str, str] = {str(name): words for name, words in ATTACKS.items()}
PAID_BY = {
    "stand-in": "Paid by a stand-in: a table, public by the steward's word, stood in for the source, so no budget was "
    "charged; how well it foretells this source depends on how alike the two are.",
    "ledger": "Paid by the ledger: each point was a run on the source itself and was charged to the data set's budget.",
}


def accuracy_table(report: AuditReport) -> list[dict[str, Any]]:
    """Accuracy, macro-F1 and area of each classifier, by kind of data."""
    table: dict[str, dict[str, dict[str, str]]] = {}
    for result in report.classifiers.results:
        auc = result.auc
        table.setdefault(CLASSIFIERS[result.name], {})[result.trained_on] = {
            "accuracy": estimate_percent(result.accuracy),
            "range": interval_range_percent(result.accuracy),
            "f1": estimate(result.macro_f1),
            "f1_range": interval_range(result.macro_f1),
            "auc": "not computed" if auc is None else estimate(auc),
            "auc_range": "(too few control rows of a class)" if auc is None else interval_range(auc, COIN_TOSS),
        }
    return [{"name": name, "cells": cells} for name, cells in table.items()]


PRIVATELY_TRAINED: dict[TrainedPrivatelyOn, str] = {
    "confidential": "confidential rows, noise in the training",
    "fabricated": "fabricated rows, noise in the data",
}


def private_table(report: AuditReport) -> list[dict[str, Any]]:
    """Private classifiers as rows of a table, what each was trained on side by side."""
    table: dict[str, dict[str, dict[str, str]]] = {}
    for result in report.classifiers.private:
        auc = result.auc
        table.setdefault(PRIVATE_CLASSIFIERS[result.name], {})[result.trained_on] = {
            "accuracy": estimate_percent(result.accuracy),
            "range": interval_range_percent(result.accuracy),
            "f1": estimate(result.macro_f1),
            "f1_range": interval_range(result.macro_f1),
            "auc": "not computed" if auc is None else estimate(auc),
            "auc_range": "(too few control rows of a class)" if auc is None else interval_range(auc, COIN_TOSS),
            "guarantee": f"ε {significant(result.epsilon, 4)}, δ {significant(result.delta)}",
            "rows": plural(result.train_rows, "row"),
        }
    return [{"name": name, "cells": cells} for name, cells in table.items()]


CHOSEN_ON: dict[ChosenOn, str] = {
    "defaults": "fixed: the classifier's defaults",
    "fabricated rows": "chosen from a public grid by cross-validation on fabricated rows",
}


def private_settings(report: AuditReport) -> list[dict[str, str]]:
    """Hyper-parameters of the private classifiers, and what their features are standardised by, as rows of a table."""
    firsts: dict[str, PrivateClassifierResult] = {}
    for result in report.classifiers.private:
        firsts.setdefault(PRIVATE_CLASSIFIERS[result.name], result)
    return [
        {
            "name": name,
            "hyperparameters": ", ".join(
                f"{own} {_setting(value)}"
                for own, value in result.hyperparameters.items()
                if own != "preprocessing_share"
            ),
            "chosen_on": CHOSEN_ON[result.chosen_on],
            "preprocessing": _preprocessing(result.preprocessing_share),
        }
        for name, result in firsts.items()
    ]


def _setting(value: float | int | str | bool | None) -> str:
    if value is None or isinstance(value, bool | str):
        return {None: "none", True: "yes", False: "no"}.get(value, str(value))  # type: ignore[arg-type]
    return significant(value)


def _preprocessing(share: float) -> str:
    if share == 0.0:
        return "no"
    return (
        f"by noisy means and scales, for {percent(share, 1)} of the training's budget (preprocessing_share "
        f"{significant(share)}); on fabricated rows by exact ones"
    )


def private_sentences(report: AuditReport) -> list[str]:
    """What the table of private classifiers compares, in plain words."""
    comparison = report.classifiers
    by_name: dict[str, dict[TrainedPrivatelyOn, PrivateClassifierResult]] = {}
    for result in comparison.private:
        by_name.setdefault(PRIVATE_CLASSIFIERS[result.name], {})[result.trained_on] = result
    said = []
    for name, own in by_name.items():
        confidential, fabricated = own.get("confidential"), own.get("fabricated")
        if confidential is None or fabricated is None:
            continue
        equal = (confidential.epsilon, confidential.delta) == (fabricated.epsilon, fabricated.delta)
        at = "at the same epsilon and delta of one whole row"
        if not equal:
            at = (
                f"at different guarantees for one whole row (ε {significant(confidential.epsilon, 4)} against "
                f"{significant(fabricated.epsilon, 4)}, δ {significant(confidential.delta)} against "
                f"{significant(fabricated.delta)}), so not on equal terms"
            )
        first, second = confidential.accuracy, fabricated.accuracy
        which = "; their intervals overlap"
        if first.lower > second.upper or second.lower > first.upper:
            which = f"; better on {'confidential' if first.estimate > second.estimate else 'fabricated'} rows"
        said.append(
            f"{name[:1].upper()}{name[1:]}: {estimate_percent(first)} with noise in the training, "
            f"{estimate_percent(second)} with noise in the data, {at}{which}."
        )
    if said and report.guarantee.record.labels == "public":
        said.append("Labels are public and released as they are, so that in this release neither way protects them.")
    if comparison.majority_accuracy is not None and comparison.private:
        majority = share_of_rows(comparison.majority_accuracy, comparison.test_rows)
        said.append(f"Always answering the largest class gets {majority}.")
    return said


def private_intervals(report: AuditReport) -> list[tuple[str, list[Interval]]]:
    """The intervals of each measure of private classifiers, to say how they were made."""
    results = report.classifiers.private
    return [
        ("accuracy", [r.accuracy for r in results]),
        ("macro-F1", [r.macro_f1 for r in results]),
        ("area", [r.auc for r in results if r.auc is not None]),
    ]


def classifier_intervals(report: AuditReport) -> list[tuple[str, list[Interval]]]:
    """The intervals of each measure, to say how they were made."""
    results = report.classifiers.results
    return [
        ("accuracy", [r.accuracy for r in results]),
        ("macro-F1", [r.macro_f1 for r in results]),
        ("area", [r.auc for r in results if r.auc is not None]),
    ]


def accuracy_figure(report: AuditReport) -> Figure:
    """Accuracies as bars."""
    comparison = report.classifiers
    heading = "Accuracy on real control rows"
    if not comparison.results:
        return Figure(heading, None, "Not computed: no classifier was evaluated.")
    parts = []
    for kind, words in TRAINED_ON.items():
        best = best_result(comparison.results, kind)
        if best is not None:
            parts.append(f"{estimate_percent(best.accuracy)} trained on {words} ({CLASSIFIERS[best.name]})")
    assert comparison.majority_accuracy is not None  # since there are results
    majority = share_of_rows(comparison.majority_accuracy, comparison.test_rows)
    reading = f"The best classifiers get {', '.join(parts)}; always answering the largest class gets {majority}."
    every = "; ".join(
        f"{CLASSIFIERS[r.name]} trained on {TRAINED_ON[r.trained_on]} {estimate_percent(r.accuracy)}"
        for r in comparison.results
    )
    svg = figures.accuracies(comparison, "accuracy", heading, f"Bars with intervals: {every}. {reading}")
    return Figure(heading, svg, reading)


def sweep_figures(sweep: Sweep) -> list[Figure]:
    """Accuracy, and the strongest attack, over epsilon."""
    points = sorted(sweep.points, key=lambda p: p.epsilon)
    made = []
    heading = "Accuracy over epsilon"
    ends = [p for p in points if p.accuracy]
    if ends:
        said = []
        for point in dict.fromkeys((ends[0].epsilon, ends[-1].epsilon)):
            best = next(p for p in ends if p.epsilon == point).accuracy
            name = max(best, key=lambda c: best[c].estimate)
            said.append(f"{estimate_percent(best[name])} at epsilon {significant(point)} ({CLASSIFIERS[name]})")
        majority = share_of_rows(sweep.majority_accuracy, sweep.control_rows)
        reading = f"The best classifier gets {', and '.join(said)}; always answering the largest class gets {majority}."
        svg = figures.sweep_accuracy(sweep, "sweep-accuracy", heading, f"A line for each classifier. {reading}")
        made.append(Figure(heading, svg, reading))
    else:
        made.append(Figure(heading, None, "Not computed: no classifier was evaluated in the sweep."))
    heading = "Strongest attack over epsilon"
    if points:
        worst = max(points, key=lambda p: p.attack_auc.estimate)
        reading = (
            f"The largest of the areas that were measured is {estimate(worst.attack_auc)} "
            f"({interval_range(worst.attack_auc, COIN_TOSS)}, widened for {plural(len(SWEPT_ATTACKS), 'attack')}), at "
            f"epsilon {significant(worst.epsilon)}; 0.5 is a coin toss. It is an estimate, not a bound."
        )
        svg = figures.sweep_attack(sweep, "sweep-attack", heading, f"A line with intervals. {reading}")
        made.append(Figure(heading, svg, reading))
    else:
        made.append(Figure(heading, None, "Not computed: the sweep has no points."))
    return made


def sweep_rows(sweep: Sweep) -> list[dict[str, str]]:
    """The points as rows of a table."""
    rows = []
    for point in sorted(sweep.points, key=lambda p: p.epsilon):
        best = max(point.accuracy, key=lambda name: point.accuracy[name].estimate, default=None)
        rows.append(
            {
                "epsilon": significant(point.epsilon),
                "record": f"ε {significant(point.record_epsilon, 4)}, δ {significant(point.record_delta)}",
                "accuracy": "not computed" if best is None else estimate_percent(point.accuracy[best]),
                "accuracy_range": ""
                if best is None
                else f"{interval_range_percent(point.accuracy[best])}, {CLASSIFIERS[best]}",
                "auc": estimate(point.attack_auc),
                "auc_range": interval_range(point.attack_auc, COIN_TOSS),
                "attack": ATTACK_NAMES.get(point.attack, point.attack),
            }
        )
    return rows


def sweep_facts(sweep: Sweep) -> str:
    """Which rows the sweep is about, in a sentence."""
    return (
        f"Sweep {sweep.sweep_id} of {sweep.created_at.strftime('%-d %B %Y')}: {count(sweep.rows)} rows, tested on "
        f"{count(sweep.control_rows)} control rows. Epsilon is of one {'cell' if sweep.unit == 'element' else 'row'}, "
        f"at delta {significant(sweep.delta)}. {PAID_BY[sweep.paid_by]} {ONE_RUN}"
    )
