"""Guarantees and results in plain words, by rules that the pages show beside their verdicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from schemas.audit import AuditReport, ClassifierResult, MembershipAttack, TrainedOn
from schemas.guarantee import Guarantee, MechanismRecord
from tasks.audit.classifiers import reliably_above
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
)

Tone = Literal["good", "fair", "poor", "unknown"]

TRAINED_ON: dict[TrainedOn, str] = {
    "real": "real rows",
    "noise-added": "noise-added data",
    "fabricated": "fabricated data",
}
CLASSIFIERS = {"kahm": "KAHM", "nearest-neighbour": "nearest neighbour", "logistic": "logistic regression"}

COIN_TOSS = 0.5
"""Area under the ROC curve of an attack that knows nothing."""

GRADE_RULE = (
    "The words for a guarantee go by its epsilon: strong up to 1, moderate up to 3, weak up to 10, very weak up to 20, "
    "no practical guarantee above. A delta of 0.1 or more is no practical guarantee whatever epsilon is."
)
ATTACK_RULE = (
    "Clear advantage: the whole interval of the area is above 0.5 and the estimate is 0.6 or more. Slight advantage: "
    "the whole interval is above 0.5. Not conclusive: 0.5 is inside but so is more than 0.6. No advantage found: else."
)
UTILITY_RULE = (
    "Judged by the best classifier trained on fabricated data. Not useful: its interval reaches down to always "
    "answering the largest class. Close to real: it keeps at least 90 % of what the best classifier trained on real "
    "rows gains over that answer. Partly useful: else."
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


def guess_bound(guarantee: Guarantee) -> float:
    """Largest chance of telling two equally likely adjacent tables apart: (e^epsilon + delta) / (e^epsilon + 1).

    It follows from the total variation that (epsilon, delta) allows; with delta 0 it is Kairouz, Oh, Viswanath (2015).
    """
    return min(1.0, 1 - (1 - min(1.0, guarantee.delta)) / (math.exp(min(guarantee.epsilon, 700.0)) + 1))


def _grade(guarantee: Guarantee) -> tuple[str, Tone]:
    if guarantee.delta >= 1:
        return "No guarantee", "poor"
    if guarantee.delta >= 0.1 or guarantee.epsilon > 20:
        return "No practical guarantee", "poor"
    if guarantee.epsilon > 10:
        return "Very weak", "poor"
    if guarantee.epsilon > 3:
        return "Weak", "fair"
    return ("Moderate", "fair") if guarantee.epsilon > 1 else ("Strong", "good")


_MEANING = {
    "Does not cover this release": "Part of this release was computed from confidential rows outside the mechanism: "
    "the numbers hold for the noise-added rows only, not for what is released about {subject}.",
    "No guarantee": "A delta of 1 or more promises nothing: treat the release as unprotected for {subject}.",
    "No practical guarantee": "Numbers of this size rule out nothing that matters: as far as the guarantee goes, "
    "{subject} could be worked out with practical certainty. Protection beyond that may exist, but it is not proved.",
    "Very weak": "The guarantee leaves room for near certainty about {subject}.",
    "Weak": "The release may sharpen a guess about {subject} a lot; what is ruled out is certainty.",
    "Moderate": "The release may noticeably sharpen a guess about {subject}, within a proven limit.",
    "Strong": "Whatever anyone knows already, the release can tell them little more about {subject}.",
}


def guarantee_verdict(guarantee: Guarantee, uncovered: list[str]) -> Verdict:
    """What a guarantee is worth, bluntly; nothing for a release that it does not cover."""
    word, tone = _grade(guarantee)
    if uncovered:
        word, tone = "Does not cover this release", "poor"
    whole_row = guarantee.unit == "record"
    subject = "a whole row" if whole_row else "a single cell" if guarantee.label_epsilon is None else "a feature cell"
    meaning = _MEANING[word].format(subject=subject)
    if guarantee.delta < 1:
        pair = "rows" if whole_row else "values"
        reach = "" if guarantee.distance == 1 else f" no further apart than {guarantee.distance:g} of the range"
        bound = guess_bound(guarantee)
        if bound < 1 - 1e-6:
            meaning += (
                f" Someone who knows everything else and must guess which of two {pair}{reach} is the true one is "
                f"right in at most {chance(bound)} of cases; a coin is right in 50{NBSP}%."
            )
        else:
            meaning += (
                " The guarantee sets no limit worth stating on how often someone who knows everything else guesses "
                f"rightly which of two {pair}{reach} is the true one."
            )
    return Verdict(
        area="Guarantee for one whole row" if whole_row else "Guarantee for one cell",
        word=word,
        tone=tone,
        number=f"ε = {significant(guarantee.epsilon)}, δ = {significant(guarantee.delta)}",
        meaning=meaning,
    )


LABELS_IN_WORDS = {
    "public": "Labels are public: the label of every row is released unchanged.",
    "covered": "Labels are covered by the guarantee, as the feature values are.",
    "randomized_response": "Labels went through randomised response; their own noise is part of the row's guarantee.",
}


def not_covered(rows: int, features: int, element: Guarantee, mechanism: MechanismRecord) -> list[str]:
    """What the guarantee leaves out by its definition, a sentence each."""
    cells = rows * features
    sentences = [
        *([LABELS_IN_WORDS["public"]] if element.labels == "public" else []),
        *(f"Column {name} is public: its values are released unchanged." for name in element.public_columns),
        f"The number of rows is public: {count(rows)}.",
    ]
    if element.distance < 1:
        sentences.append(
            f"Changes of a cell by more than {element.distance:g} of its range are protected less than stated."
        )
    if mechanism.expected_unperturbed_cells is None:
        sentences.append("How many cells are expected to get no noise at all: not computed, the rows were not known.")
    elif mechanism.expected_magnitude is not None:
        sentences.append(
            f"Of {plural(cells, 'cell')}, {significant(mechanism.expected_unperturbed_cells, 2)} are expected to be "
            "passed over by the noise (cells × delta): nothing hides them. The noise on others can happen to be small."
        )
    sentences.append(
        "Other releases from the same source add to what is given away; the ledger adds up those "
        "under this data set's name."
    )
    return sentences


def stop_rule(stop: Any) -> str:
    """The stop rule of the smoothing in words."""
    if hasattr(stop, "model_dump"):
        stop = stop.model_dump()
    if isinstance(stop, dict) and set(stop) == {"steps"}:
        return f"a set number of steps ({stop['steps']})"
    if isinstance(stop, dict) and set(stop) == {"relative"}:
        return f"until the modeling error is at most {stop['relative']} times that of the noise-added data"
    if stop == "paper":
        return "the seed paper's rule, which looks at confidential rows and is not covered by the guarantee"
    return str(stop)


def attack_by(report: AuditReport, trained_on: TrainedOn) -> MembershipAttack | None:
    """The attack on the classifier trained on one kind of data."""
    return next((a for a in report.membership_inference.attacks if a.trained_on == trained_on), None)


def attack_verdict(report: AuditReport) -> Verdict:
    """Whether the attack told members from control rows on the fabricated data."""
    area = "Membership attack"
    attack = attack_by(report, "fabricated")
    if attack is None:
        return Verdict(area, "Not computed", "unknown", "", "No attack on fabricated data was run.")
    auc = attack.auc
    word: str
    tone: Tone
    if auc.lower > 0.5:
        word, tone = ("Clear advantage", "poor") if auc.estimate >= 0.6 else ("Slight advantage", "fair")
    else:
        word, tone = ("Not conclusive", "fair") if auc.upper > 0.6 else ("No advantage found", "good")
    real = attack_by(report, "real")
    against = (
        "" if real is None else f" Had the classifier learned from real rows, it would have been {estimate(real.auc)}."
    )
    meaning = (
        "Given one row used for fabrication and one that was not, the attack picks the right one with this "
        f"probability; 0.5 is a coin toss.{against} One kind of attack was tried: finding little does not prove that "
        "there is nothing to find."
    )
    comparison = ", ".join(f"{a.trained_on} {estimate(a.auc)}" for a in report.membership_inference.attacks)
    return Verdict(
        area, word, tone, f"area {estimate(auc)} ({interval_range(auc, COIN_TOSS)})", meaning, f"By data: {comparison}"
    )


def best_result(results: Sequence[ClassifierResult], trained_on: TrainedOn) -> ClassifierResult | None:
    """The most accurate classifier trained on one kind of data."""
    candidates = [r for r in results if r.trained_on == trained_on]
    return max(candidates, key=lambda r: r.accuracy.estimate) if candidates else None


def utility_verdict(report: AuditReport) -> Verdict:
    """Whether classifiers trained on the release predict real labels."""
    area = "Usefulness"
    comparison = report.classifiers
    best = best_result(comparison.results, "fabricated")
    if best is None:
        return Verdict(area, "Not computed", "unknown", "", "No classifier was trained on fabricated data.")
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
    meaning += f"always answering the largest class gets {percent(majority, 1 if comparison.test_rows >= 1000 else 0)}."
    number = f"{estimate_percent(best.accuracy)} right ({interval_range_percent(best.accuracy)})"
    each = [(kind, best_result(comparison.results, kind)) for kind in TRAINED_ON]
    shown = ", ".join(f"{kind} {estimate_percent(r.accuracy)}" for kind, r in each if r is not None)
    return Verdict(area, word, tone, number, meaning, f"By data: {shown}")
