"""What a release is good for, in a word: the verdicts on usefulness and on distributions."""

from collections.abc import Sequence
from statistics import median

from schemas.audit import AuditReport
from schemas.measures import Interval, TrainedOn
from schemas.utility import ClassifierComparison, ClassifierResult
from tasks.audit.proportion import wilson_interval
from tasks.reporting.names import CLASSIFIERS, TRAINED_ON
from tasks.reporting.numbers import (
    estimate_percent,
    fixed,
    interval_range_percent,
    share_of_rows,
    significant,
)
from tasks.reporting.verdict import Tone, Verdict, picked_from

CLOSE_RATIO, CLOSE_COLUMN = 3.0, 0.1
"""Largest pMSE ratio, and largest distance of a column, that count as close to real."""


def best_result(results: Sequence[ClassifierResult], trained_on: TrainedOn) -> ClassifierResult | None:
    """The most accurate classifier trained on one kind of data."""
    candidates = [r for r in results if r.trained_on == trained_on]
    return max(candidates, key=lambda r: r.accuracy.estimate) if candidates else None


def useful_interval(best: ClassifierResult, comparison: ClassifierComparison) -> tuple[Interval, int]:
    """The best classifier's accuracy with Wilson's interval, widened for the number of classifiers, and that number.

    It is the interval that `tasks.audit.reliably_above` compares with the largest class.
    """
    tried = len({other.name for other in comparison.results})
    right = round(best.accuracy.estimate * comparison.test_rows)
    level = 1 - (1 - best.accuracy.confidence) / tried
    interval = wilson_interval(right, comparison.test_rows, level)
    return interval.model_copy(update={"estimate": best.accuracy.estimate}), tried


def utility_verdict(report: AuditReport) -> Verdict:
    """Whether classifiers trained on the release predict real labels."""
    area = "Usefulness"
    rule = (
        "Good: keeps 90 % of what real rows gain over the largest class. Poor: the interval reaches down to the "
        "largest class."
    )
    comparison = report.classifiers
    best = best_result(comparison.results, "fabricated")
    if best is None:
        why = "No classifier was trained on fabricated data."
        return Verdict(area, "Not computed", "unknown", "", why, rule=rule)
    majority = comparison.majority_accuracy
    assert majority is not None  # since there are results
    real = best_result(comparison.results, "real")
    gain = None if real is None else real.accuracy.estimate - majority
    kept = (best.accuracy.estimate - majority) / gain if gain is not None and gain > 0 else None
    word: str
    tone: Tone
    judged, tried = useful_interval(best, comparison)
    if not judged.lower > majority:
        word, tone = "Not useful", "poor"
    elif kept is None or kept < 0.9:
        word, tone = "Partly useful", "fair"
    else:
        word, tone = "Close to real", "good"
    meaning = (
        f"Share of real control rows whose label {CLASSIFIERS[best.name]} gets right after learning from the release. "
    )
    if real is not None:
        learned = CLASSIFIERS[real.name] if real.name != best.name else "it"
        meaning += f"Learning from real rows, {learned} gets {estimate_percent(real.accuracy)}; "
    meaning += (
        f"always answering the largest class gets {share_of_rows(majority, comparison.test_rows)}. The interval is "
        "about the test rows only: another release would draw other noise and come out differently."
    )
    ends = interval_range_percent(judged, majority) + picked_from(tried, "classifier")
    number = f"{estimate_percent(best.accuracy)} right ({ends})"
    each = [(kind, best_result(comparison.results, kind)) for kind in TRAINED_ON]
    shown = ", ".join(f"{kind} {estimate_percent(r.accuracy)}" for kind, r in each if r is not None)
    return Verdict(area, word, tone, number, meaning, f"Best by data: {shown}", rule)


def column_distances(report: AuditReport) -> list[tuple[str, float]]:
    """Distance of every column: Kolmogorov-Smirnov where values have an order, else total variation."""
    utility = report.utility
    ordered = [(c.name, c.kolmogorov_smirnov) for c in utility.columns if c.kolmogorov_smirnov is not None]
    named = {name for name, _ in ordered}
    return ordered + [(c.name, c.total_variation) for c in utility.categories if c.name not in named]


def distribution_verdict(report: AuditReport) -> Verdict:
    """Whether rows and columns of the release look like the real ones."""
    area = "Distributions"
    rule = "Good: pMSE ratio up to 3, and half of the columns within 0.1. Poor: neither."
    ratios = [p.ratio for p in report.utility.propensity if p.ratio is not None]
    distances = [distance for _, distance in column_distances(report)]
    close = [
        *([max(ratios) <= CLOSE_RATIO] if ratios else []),
        *([median(distances) <= CLOSE_COLUMN] if distances else []),
    ]
    if not close:
        why = "Neither a pMSE ratio nor a column's distance was computed."
        return Verdict(area, "Not computed", "unknown", "", why, rule=rule)
    word: str
    tone: Tone
    word, tone = ("Close to real", "good") if all(close) else ("Moved", "fair")
    if not any(close):
        word, tone = "Far from real", "poor"
    meaning = "A pMSE ratio was not computed. "
    if ratios:
        meaning = f"{ratio_in_words(max(ratios))}. "
    if distances:
        half = fixed(float(median(distances)), 2)
        meaning += (
            f"Half of the {len(distances)} columns that could be compared have a distance of at most {half} from the "
            "real ones; 0 is equal, 1 disjoint. It is the Kolmogorov-Smirnov distance where values have an order, else "
            "the total variation distance."
        )
    else:
        meaning += "No column's distance was computed."
    numbers = [f"pMSE ratio {significant(max(ratios), 2)}"] if ratios else []
    if distances:
        numbers.append(f"half of {len(distances)} columns within {fixed(float(median(distances)), 2)}")
    return Verdict(area, word, tone, ", ".join(numbers), meaning, rule=rule)


def ratio_in_words(ratio: float) -> str:
    """A pMSE ratio as what it says about telling real from fabricated rows."""
    said = f"pMSE is {significant(ratio, 2)} times what two samples of one population give"
    if ratio <= 1.5:
        return f"{said}, so real and fabricated rows were not told apart"
    return f"{said}, so real and fabricated rows were hardly told apart" if ratio <= CLOSE_RATIO else said
