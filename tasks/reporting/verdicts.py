"""Results of an audit in a word each, by rules that the page shows beside them."""

import math
from collections.abc import Sequence

from schemas.attacks import (
    ACCUSATION_CONFIDENCE,
    AnyAttack,
    CanaryBound,
    MembershipAttack,
    PrivacyRisk,
    ReleasedClassifierAttack,
)
from schemas.audit import AuditReport
from schemas.measures import Interval, TrainedOn
from tasks.reporting.names import TRAINED_ON, attack_name, risk_name
from tasks.reporting.numbers import (
    estimate,
    estimate_percent,
    interval_range,
    interval_range_percent,
    percent,
    plural,
    significant,
)
from tasks.reporting.rules import ATTACK_RULE, DISTRIBUTION_RULE, EPSILON_RULE, RISK_RULE, UTILITY_RULE
from tasks.reporting.verdict import (
    NO_BETTER,
    Tone,
    Verdict,
    better_than_guessing,
    grade_of_largest,
    lower_first,
    picked_from,
    widened,
)
from tasks.reporting.worth import (
    CLOSE_COLUMN,
    CLOSE_RATIO,
    best_result,
    column_distances,
    distribution_verdict,
    ratio_in_words,
    utility_verdict,
)

__all__ = [
    "ATTACK_RULE",
    "CLOSE_COLUMN",
    "CLOSE_RATIO",
    "COIN_TOSS",
    "DISTRIBUTION_RULE",
    "EPSILON_RULE",
    "NO_BETTER",
    "RISK_RULE",
    "UTILITY_RULE",
    "Tone",
    "Verdict",
    "attack_interval",
    "attack_verdict",
    "attacks_on",
    "attacks_on_release",
    "attacks_on_released_classifiers",
    "below_a_coin_toss",
    "best_result",
    "better_than_guessing",
    "claimed_of",
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

COIN_TOSS = 0.5
"""Area under the ROC curve of an attack that knows nothing."""

_ATTACK_LINE = (
    "Good: the strongest attack's widened interval reaches down to 0.5, not up to 0.6. Poor: all above 0.5, estimate "
    "0.6 or more."
)
_RISK_LINE = (
    "Good: the largest risk's widened interval reaches down to 0, not up to 10 %. Poor: all above 0, estimate 10 % or "
    "more."
)


def attacks_on(report: AuditReport, trained_on: TrainedOn) -> list[MembershipAttack]:
    """All attacks on one kind of data, the largest area first."""
    found = [a for a in report.membership_inference.attacks if a.trained_on == trained_on]
    return sorted(found, key=lambda a: -a.auc.estimate)


def attacks_on_released_classifiers(report: AuditReport) -> list[ReleasedClassifierAttack]:
    """All attacks on classifiers that are released with the data, the largest area first."""
    return sorted(report.membership_inference.released_classifiers, key=lambda a: -a.auc.estimate)


def attacks_on_release(report: AuditReport) -> list[AnyAttack]:
    """All attacks on what anybody may read, the fabricated data and released classifiers, the largest area first."""
    found: list[AnyAttack] = [*attacks_on(report, "fabricated"), *attacks_on_released_classifiers(report)]
    return sorted(found, key=lambda a: -a.auc.estimate)


def attack_interval(attack: AnyAttack, tried: int) -> Interval:
    """The area's interval, widened for so many attacks."""
    return widened(attack.auc, tried, 0.0, 1.0)


def below_a_coin_toss(report: AuditReport) -> list[AnyAttack]:
    """Attacks on what is released whose whole widened interval is below 0.5."""
    found = attacks_on_release(report)
    return [a for a in found if attack_interval(a, len(found)).upper < COIN_TOSS]


def attack_verdict(report: AuditReport) -> Verdict:
    """Whether the strongest of the attacks on what is released told members from control rows."""
    area, rule = "Membership attacks", _ATTACK_LINE
    found = attacks_on_release(report)
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
    grade = grade_of_largest(auc, COIN_TOSS, 0.6)
    word, tone = words[grade]
    below = below_a_coin_toss(report)
    if below and grade > 1:
        word, tone = "Below a coin toss", "fair"
    picked = (
        f"The strongest of {tried} attacks, {lower_first(attack_name(strongest))}, was given"
        if tried > 1
        else f"The attack by {lower_first(attack_name(strongest))} was given"
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
    each: list[tuple[str, Sequence[AnyAttack]]] = [(kind, attacks_on(report, kind)) for kind in TRAINED_ON]
    each.append(("released classifiers", attacks_on_released_classifiers(report)))
    shown = ", ".join(f"{kind} {estimate(attacks[0].auc)}" for kind, attacks in each if attacks)
    number = f"area {estimate(auc)} ({interval_range(auc, COIN_TOSS)}{picked_from(tried, 'attack')})"
    return Verdict(area, word, tone, number, meaning, f"Strongest by data: {shown}", rule)


def _joined(attacks: Sequence[AnyAttack]) -> str:
    return ", ".join(lower_first(attack_name(a)) for a in attacks)


def risks_on(report: AuditReport, trained_on: TrainedOn) -> list[PrivacyRisk]:
    """Risks on one kind of data, the largest first: of the attacks that beat guessing, or of all where none does."""
    found = [r for r in report.privacy_risks.risks if r.trained_on == trained_on]
    judged = [r for r in found if better_than_guessing(r)] or found
    return sorted(judged, key=lambda r: -r.risk_beyond_controls.estimate)


def risk_verdict(report: AuditReport) -> Verdict:
    """Whether the data let an attacker say more about members than about control rows."""
    area, rule = "Privacy risks", _RISK_LINE
    found = risks_on(report, "fabricated")
    if not found:
        return Verdict(area, "Not computed", "unknown", "", "No risk was measured on fabricated data.", rule=rule)
    all_run = sum(r.trained_on == "fabricated" for r in report.privacy_risks.risks)
    largest, tried = found[0], len(found)
    comparison = f"Largest by data: {_largest_by_data(report)}"
    if not better_than_guessing(largest):
        which = "The only attack on fabricated data is"
        if all_run > 1:
            which = f"All {all_run} attacks on fabricated data are"
        meaning = (
            f"{which} {NO_BETTER}, and such an attack shows no risk: whoever guesses needs no release for it. Finding "
            "little does not prove that there is nothing to find."
        )
        number = "none right more often than without the data"
        return Verdict(area, "No attack beats guessing", "good", number, meaning, comparison, rule)
    beyond = widened(largest.risk_beyond_controls, tried)
    words: list[tuple[str, Tone]] = [
        ("Clear risk", "poor"),
        ("Slight risk", "fair"),
        ("Not conclusive", "fair"),
        ("No risk found", "good"),
    ]
    word, tone = words[grade_of_largest(beyond, 0.0, 0.1)]
    name = lower_first(risk_name(largest))
    meaning = (f"The largest of {tried} risks is {name}" if tried > 1 else f"The risk is {name}") + (
        f": guesses about members are right in {estimate_percent(largest.members)} of "
        f"{plural(largest.attacked, 'case')}, the "
        f"same guesses about control rows in {estimate_percent(largest.controls)}. The number is what lies "
        "beyond control rows: 0 is none, 100 % is certainty."
    )
    if all_run > tried:
        left = all_run - tried
        meaning += f" {plural(left, 'other attack')} {'is' if left == 1 else 'are'} left out: {NO_BETTER}."
    number = f"risk {estimate_percent(beyond)} ({interval_range_percent(beyond, 0.0)}{picked_from(tried, 'attack')})"
    return Verdict(area, word, tone, number, meaning, comparison, rule)


def _largest_by_data(report: AuditReport) -> str:
    each = [(kind, risks_on(report, kind)) for kind in TRAINED_ON]
    return ", ".join(
        f"{kind} {estimate_percent(r[0].risk_beyond_controls) if better_than_guessing(r[0]) else 'none'}"
        for kind, r in each
        if r
    )


def largest_bound(report: AuditReport) -> CanaryBound | None:
    """The largest lower bound of epsilon."""
    return max(report.empirical_epsilon.bounds, key=lambda b: b.epsilon_lower_bound, default=None)


def epsilon_verdict(report: AuditReport) -> Verdict:
    """Whether planted canaries refute the claimed epsilon."""
    area, rule = (
        "Empirical epsilon",
        "Good: the lower bound is above 0, not above the claim. Poor: the claim is refuted.",
    )
    bound, empirical = largest_bound(report), report.empirical_epsilon
    if bound is None:
        return Verdict(area, "Not computed", "unknown", "", "No canary audit was run.", rule=rule)
    claimed = significant(empirical.claimed_epsilon)
    proved = floor_significant(bound.epsilon_lower_bound)
    of = "one whole row" if empirical.unit == "record" else "one cell"
    of_what = claimed_of(report)
    of += of_what
    number = f"at least {proved}, claimed {claimed}{of_what}"
    if any(b.contradicts_claim for b in empirical.bounds):
        meaning = (
            f"Planted canaries show that epsilon of {of} is at least {proved}; that it is more than the claimed "
            f"{claimed} holds with {percent(ACCUSATION_CONFIDENCE, 2)} confidence. Either the mechanism or its "
            "implementation is wrong: do not rely on the guarantee."
        )
        return Verdict(area, "Contradicts the claim", "poor", number, meaning, rule=rule)
    if bound.epsilon_lower_bound > empirical.claimed_epsilon:
        meaning = (
            f"Planted canaries give a lower bound of {proved} for epsilon of {of}, which is more than the claimed "
            f"{claimed}. At {percent(empirical.confidence)} that happens to a few sound releases as well, and at "
            f"{percent(ACCUSATION_CONFIDENCE, 2)} the claim is not refuted. Run another audit before relying on it."
        )
        return Verdict(area, "Not conclusive", "fair", number, meaning, rule=rule)
    if bound.epsilon_lower_bound <= 0:
        meaning = (
            f"Planted canaries refute no epsilon of {of}, however small: this audit had no power, and a mechanism that "
            f"breaks the claim of {claimed} could have looked the same."
        )
        return Verdict(
            area, "Says nothing", "unknown", f"nothing refuted, claimed {claimed}{of_what}", meaning, rule=rule
        )
    meaning = (
        f"Planted canaries show that epsilon of {of} is at least {proved}; the claim is {claimed}. A low bound does "
        "not prove that the guarantee is better than claimed: it is what this audit could see."
    )
    return Verdict(area, "Agrees with the claim", "good", number, meaning, rule=rule)


def claimed_of(report: AuditReport) -> str:
    """What the claim of the canaries is about where the release's guarantee is about more."""
    return "" if report.data_guarantee is None else " for the data alone"


def floor_significant(value: float, digits: int = 3) -> str:
    """A lower bound, rounded down so that it claims no more than was shown."""
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return significant(math.floor(value / step * (1 + 1e-12)) * step, digits)
