"""Results of an audit in a word each, by rules that the page shows beside them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Literal

from schemas.attacks import CanaryBound, MembershipAttack, PrivacyRisk
from schemas.audit import AuditReport
from schemas.measures import Interval, TrainedOn
from schemas.utility import ClassifierResult
from tasks.audit.classifiers import reliably_above
from tasks.reporting.names import CLASSIFIERS, TRAINED_ON, attack_name, risk_name
from tasks.reporting.numbers import (
    estimate,
    estimate_percent,
    fixed,
    interval_range,
    interval_range_percent,
    plural,
    share_of_rows,
    significant,
)
from tasks.reporting.rules import ATTACK_RULE, DISTRIBUTION_RULE, EPSILON_RULE, RISK_RULE, UTILITY_RULE

__all__ = [
    "ATTACK_RULE",
    "CLOSE_COLUMN",
    "CLOSE_RATIO",
    "COIN_TOSS",
    "DISTRIBUTION_RULE",
    "EPSILON_RULE",
    "RISK_RULE",
    "UTILITY_RULE",
    "Tone",
    "Verdict",
    "attack_interval",
    "attack_verdict",
    "attacks_on",
    "below_a_coin_toss",
    "best_result",
    "column_distances",
    "distribution_verdict",
    "epsilon_verdict",
    "floor_significant",
    "largest_bound",
    "ratio_in_words",
    "risk_verdict",
    "risks_on",
    "utility_verdict",
    "widened",
]

Tone = Literal["good", "fair", "poor", "unknown"]

COIN_TOSS = 0.5
"""Area under the ROC curve of an attack that knows nothing."""
CLOSE_RATIO, CLOSE_COLUMN = 3.0, 0.1
"""Largest pMSE ratio, and largest distance of a column, that count as close to real."""


_ATTACK_LINE = (
    "Good: the strongest attack's widened interval reaches down to 0.5, not up to 0.6. Poor: all above 0.5, estimate "
    "0.6 or more."
)
_RISK_LINE = (
    "Good: the largest risk's widened interval reaches down to 0, not up to 10 %. Poor: all above 0, estimate 10 % or "
    "more."
)


@dataclass(frozen=True)
class Verdict:
    """A result in a word, with its tone, its number and what it means."""

    area: str
    word: str
    tone: Tone
    number: str
    meaning: str
    comparison: str = ""
    """The same number for the other kinds of data, in a few words."""
    rule: str = ""
    """The rule behind the word, in a line; the whole of it stands under the page's methods."""


def widened(interval: Interval, tried: int, least: float = -math.inf, most: float = 1.0) -> Interval:
    """The interval of the largest of so many estimates (Bonferroni), by the normal quantiles of the two confidences.

    Parameters
    ----------
    interval : Interval
        Of one estimate alone.
    tried : int
        Estimates that it was picked from, at least 1.
    least, most : float
        Ends of what is possible.

    Returns
    -------
    Interval
        With the same confidence, which now holds for all of them together.
    """
    if tried < 1:
        raise ValueError(f"tried must be at least 1, got tried={tried}")
    half = (1 - interval.confidence) / 2
    factor = NormalDist().inv_cdf(half / tried) / NormalDist().inv_cdf(half)
    lower = max(least, interval.estimate - factor * (interval.estimate - interval.lower))
    upper = min(most, interval.estimate + factor * (interval.upper - interval.estimate))
    return interval.model_copy(update={"lower": lower, "upper": upper})


def attacks_on(report: AuditReport, trained_on: TrainedOn) -> list[MembershipAttack]:
    """All attacks on one kind of data, the largest area first."""
    found = [a for a in report.membership_inference.attacks if a.trained_on == trained_on]
    return sorted(found, key=lambda a: -a.auc.estimate)


def attack_interval(attack: MembershipAttack, tried: int) -> Interval:
    """The area's interval, widened for so many attacks."""
    return widened(attack.auc, tried, 0.0, 1.0)


def below_a_coin_toss(report: AuditReport) -> list[MembershipAttack]:
    """Attacks on fabricated data whose whole widened interval is below 0.5."""
    found = attacks_on(report, "fabricated")
    return [a for a in found if attack_interval(a, len(found)).upper < COIN_TOSS]


def _largest(lower: float, upper: float, value: float, nothing: float, clear: float) -> int:
    """0: clear, 1: slight, 2: not conclusive, 3: nothing found."""
    if lower > nothing:
        return 0 if value >= clear else 1
    return 2 if upper > clear else 3


def attack_verdict(report: AuditReport) -> Verdict:
    """Whether the strongest of the attacks told members from control rows on the fabricated data."""
    area, rule = "Membership attacks", _ATTACK_LINE
    found = attacks_on(report, "fabricated")
    if not found:
        return Verdict(area, "Not computed", "unknown", "", "No attack on fabricated data was run.", rule=rule)
    strongest, tried = found[0], len(found)
    auc = attack_interval(strongest, tried)
    words: list[tuple[str, Tone]] = [
        ("Clear advantage", "poor"),
        ("Slight advantage", "fair"),
        ("Not conclusive", "fair"),
        ("No advantage found", "good"),
    ]
    grade = _largest(auc.lower, auc.upper, auc.estimate, COIN_TOSS, 0.6)
    word, tone = words[grade]
    below = below_a_coin_toss(report)
    if below and grade > 1:
        word, tone = "Below a coin toss", "fair"
    picked = (
        f"The strongest of {tried} attacks, {_lower_first(attack_name(strongest))}, was given"
        if tried > 1
        else f"The attack by {_lower_first(attack_name(strongest))} was given"
    )
    meaning = (
        f"{picked} one row used for fabrication and one that was not, and picks the right one with this probability; "
        "0.5 is a coin toss."
    )
    real = attacks_on(report, "real")
    if real:
        meaning += f" On the real rows themselves the strongest attack gets {estimate(real[0].auc)}."
    if below:
        meaning += (
            f" The area of {_joined(below)} lies wholly below 0.5: members look less like members than control rows "
            "do, and an attacker who turned the attack round would gain. It should be understood before relying on "
            "this result."
        )
    meaning += " Finding little does not prove that there is nothing to find."
    each = [(kind, attacks_on(report, kind)) for kind in TRAINED_ON]
    shown = ", ".join(f"{kind} {estimate(attacks[0].auc)}" for kind, attacks in each if attacks)
    number = f"area {estimate(auc)} ({interval_range(auc, COIN_TOSS)})"
    return Verdict(area, word, tone, number, meaning, f"Strongest by data: {shown}", rule)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _joined(attacks: Sequence[MembershipAttack]) -> str:
    return ", ".join(_lower_first(attack_name(a)) for a in attacks)


def risks_on(report: AuditReport, trained_on: TrainedOn) -> list[PrivacyRisk]:
    """All risks on one kind of data, the largest first."""
    found = [r for r in report.privacy_risks.risks if r.trained_on == trained_on]
    return sorted(found, key=lambda r: -r.risk_beyond_controls.estimate)


def risk_verdict(report: AuditReport) -> Verdict:
    """Whether the data let an attacker say more about members than about control rows."""
    area, rule = "Privacy risks", _RISK_LINE
    found = risks_on(report, "fabricated")
    if not found:
        return Verdict(area, "Not computed", "unknown", "", "No risk was measured on fabricated data.", rule=rule)
    largest, tried = found[0], len(found)
    beyond = widened(largest.risk_beyond_controls, tried)
    words: list[tuple[str, Tone]] = [
        ("Clear risk", "poor"),
        ("Slight risk", "fair"),
        ("Not conclusive", "fair"),
        ("No risk found", "good"),
    ]
    word, tone = words[_largest(beyond.lower, beyond.upper, beyond.estimate, 0.0, 0.1)]
    name = _lower_first(risk_name(largest))
    meaning = (f"The largest of {tried} risks is {name}" if tried > 1 else f"The risk that was measured is {name}") + (
        f": guesses about members are right in {estimate_percent(largest.members)} of "
        f"{plural(largest.attacked, 'case')}, the "
        f"same guesses about control rows in {estimate_percent(largest.controls)}. The number is what lies "
        "beyond control rows: 0 is none, 100 % is certainty."
    )
    each = [(kind, risks_on(report, kind)) for kind in TRAINED_ON]
    shown = ", ".join(f"{kind} {estimate_percent(r[0].risk_beyond_controls)}" for kind, r in each if r)
    number = f"risk {estimate_percent(beyond)} ({interval_range_percent(beyond, 0.0)})"
    return Verdict(area, word, tone, number, meaning, f"Largest by data: {shown}", rule)


def largest_bound(report: AuditReport) -> CanaryBound | None:
    """The largest lower bound of epsilon."""
    return max(report.empirical_epsilon.bounds, key=lambda b: b.epsilon_lower_bound, default=None)


def epsilon_verdict(report: AuditReport) -> Verdict:
    """Whether planted canaries refute the claimed epsilon."""
    area, rule = "Empirical epsilon", "Good: the lower bound does not exceed the claimed epsilon. Poor: it does."
    bound, empirical = largest_bound(report), report.empirical_epsilon
    if bound is None:
        return Verdict(area, "Not computed", "unknown", "", "No canary audit was run.", rule=rule)
    claimed = significant(empirical.claimed_epsilon)
    proved = floor_significant(bound.epsilon_lower_bound)
    of = "one whole row" if empirical.unit == "record" else "one cell"
    number = f"at least {proved}, claimed {claimed}"
    if bound.epsilon_lower_bound > empirical.claimed_epsilon:
        meaning = (
            f"Planted canaries show that epsilon of {of} is at least {proved}, which is more than the claimed {claimed}"
            ". Either the mechanism or its implementation is wrong: do not rely on the guarantee."
        )
        return Verdict(area, "Contradicts the claim", "poor", number, meaning, rule=rule)
    meaning = (
        f"Planted canaries show that epsilon of {of} is at least {proved}"
        if bound.epsilon_lower_bound > 0
        else f"Planted canaries refute no epsilon of {of}"
    ) + (
        f"; the claim is {claimed}. A low bound does not prove that the guarantee is better than claimed: it is what "
        "this audit could see."
    )
    return Verdict(area, "Agrees with the claim", "good", number, meaning, rule=rule)


def floor_significant(value: float, digits: int = 3) -> str:
    """A lower bound, rounded down so that it claims no more than was shown."""
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return significant(math.floor(value / step * (1 + 1e-12)) * step, digits)


def best_result(results: Sequence[ClassifierResult], trained_on: TrainedOn) -> ClassifierResult | None:
    """The most accurate classifier trained on one kind of data."""
    candidates = [r for r in results if r.trained_on == trained_on]
    return max(candidates, key=lambda r: r.accuracy.estimate) if candidates else None


def utility_verdict(report: AuditReport) -> Verdict:
    """Whether classifiers trained on the release predict real labels."""
    area, rule = "Usefulness", "Good: keeps 90 % of what real rows gain over the largest class. Poor: gains nothing."
    comparison = report.classifiers
    best = best_result(comparison.results, "fabricated")
    if best is None:
        why = "No classifier was trained on fabricated data."
        return Verdict(area, "Not computed", "unknown", "", why, rule=rule)
    majority = comparison.majority_accuracy
    real = best_result(comparison.results, "real")
    gain = None if real is None else real.accuracy.estimate - majority
    kept = (best.accuracy.estimate - majority) / gain if gain is not None and gain > 0 else None
    word: str
    tone: Tone
    if not reliably_above(best, comparison):
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
    meaning += f"always answering the largest class gets {share_of_rows(majority, comparison.test_rows)}."
    number = f"{estimate_percent(best.accuracy)} right ({interval_range_percent(best.accuracy)})"
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
        meaning = (
            f"Where a classifier tries to tell real from fabricated rows, it succeeds {ratio_in_words(max(ratios))}. "
        )
    if distances:
        half = fixed(float(median(distances)), 2)
        meaning += f"Half of the columns have a distance of at most {half} from the real ones; 0 is equal, 1 disjoint."
    else:
        meaning += "No column's distance was computed."
    numbers = [f"pMSE ratio {significant(max(ratios), 2)}"] if ratios else []
    numbers += [f"half of the columns within {fixed(float(median(distances)), 2)}"] if distances else []
    return Verdict(area, word, tone, ", ".join(numbers), meaning, rule=rule)


def ratio_in_words(ratio: float) -> str:
    """A pMSE ratio as what it says about telling real from fabricated rows."""
    if ratio <= 1.5:
        return "no better than on two samples of one population"
    times = f"{significant(ratio, 2)} times as well as on two samples of one population"
    return f"hardly, {times}" if ratio <= CLOSE_RATIO else times
