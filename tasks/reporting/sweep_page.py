"""The page of a sweep over epsilon; internal like an audit, unless a stand-in took the table's place."""

import re

from schemas.measures import Interval
from schemas.sweep import Sweep
from tasks.reporting.environment import page
from tasks.reporting.figure import Figure
from tasks.reporting.figures import sweep_accuracy, sweep_attack
from tasks.reporting.names import ATTACK_MEANINGS, ATTACKS, CLASSIFIERS
from tasks.reporting.numbers import (
    estimate,
    estimate_percent,
    interval_range,
    interval_range_percent,
    percent,
    plural,
    significant,
)
from tasks.reporting.usefulness import ONE_RUN, SWEPT_ATTACKS


def sweep_html(sweep: Sweep) -> str:
    """The curve of a sweep as one self-contained HTML page.

    Parameters
    ----------
    sweep : Sweep

    Returns
    -------
    str
        The page; it loads nothing, needs no JavaScript, and is the same for the same sweep.
    """
    accuracy, attack = accuracy_reading(sweep), attack_reading(sweep)
    areas = "Strongest membership attack"
    return page(
        "sweep.html",
        sweep=sweep,
        names={name: CLASSIFIERS[name] for name in sweep.real_accuracy},
        attacks={str(name): shown for name, shown in ATTACKS.items()},
        swept_attacks=[(ATTACKS[name], re.sub(r" \[\d+\]$", "", ATTACK_MEANINGS[name])) for name in SWEPT_ATTACKS],
        one_run=ONE_RUN,
        unit="one cell" if sweep.unit == "element" else "one whole row",
        figures=[
            Figure("Accuracy", sweep_accuracy(sweep, "sweep-accuracy", "Accuracy over epsilon", accuracy), accuracy),
            Figure(areas, sweep_attack(sweep, "sweep-attack", f"{areas} over epsilon", attack), attack),
        ],
    )


# Sentences ----------------------------------------------------------------------------------------------------------


def accuracy_reading(sweep: Sweep) -> str:
    """What the curve of accuracy shows, in sentences."""
    ends = [sweep.points[0], *sweep.points[1:][-1:]]
    parts = []
    for point in ends:
        if not point.accuracy:
            continue
        best = max(point.accuracy, key=lambda name: point.accuracy[name].estimate)
        shown = f"{_share(point.accuracy[best])} at epsilon {significant(point.epsilon)}, by {CLASSIFIERS[best]}"
        parts.append(shown)
    if not parts:
        return "No accuracy was computed."
    text = f"Control rows classified rightly by the best classifier trained on fabricated data: {'; '.join(parts)}"
    if sweep.real_accuracy:
        best = max(sweep.real_accuracy, key=lambda name: sweep.real_accuracy[name].estimate)
        text += f". Trained on real rows: {_share(sweep.real_accuracy[best])}, by {CLASSIFIERS[best]}"
    useful = None
    for point in reversed(sweep.points):
        if not any(accuracy.lower > sweep.majority_accuracy for accuracy in point.accuracy.values()):
            break
        useful = point.epsilon
    majority = f"always answering the largest class, which is right on {percent(sweep.majority_accuracy, 1)}"
    if useful is None:
        return f"{text}. At the largest epsilon no classifier's interval lies above {majority}."
    return f"{text}. From epsilon {significant(useful)} on, some classifier's interval lies above {majority}."


def attack_reading(sweep: Sweep) -> str:
    """What the curve of the attack shows, in sentences."""
    first, last = sweep.points[0], sweep.points[-1]
    text = f"The largest of {plural(len(SWEPT_ATTACKS), 'area')}, with its interval widened for that: at epsilon "
    text += f"{significant(first.epsilon)} it is {_area(first.attack_auc)}"
    if len(sweep.points) > 1:
        text += f", at epsilon {significant(last.epsilon)} it is {_area(last.attack_auc)}"
    above = [point.epsilon for point in sweep.points if point.attack_auc.lower > 0.5]
    text += "; 0.5 is a coin toss. "
    if not above:
        return text + "At no epsilon does the interval lie above it."
    shown = ", ".join(significant(epsilon) for epsilon in above)
    return text + f"The whole interval lies above it at epsilon {shown}."


def _share(interval: Interval) -> str:
    return f"{estimate_percent(interval)} ({interval_range_percent(interval)})"


def _area(interval: Interval) -> str:
    return f"{estimate(interval)} ({interval_range(interval, 0.5)})"
