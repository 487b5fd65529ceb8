"""Guarantees in plain words, by rules that the pages show beside their verdicts."""

import math
from typing import Any

from schemas.attacks import ReleasedClassifierAttack
from schemas.guarantee import Guarantee, Guarantees, MechanismRecord
from tasks.reporting.numbers import NBSP, chance, count, plural, significant
from tasks.reporting.verdicts import (
    ATTACK_RULE,
    UTILITY_RULE,
    Tone,
    Verdict,
    attack_verdict,
    best_result,
    utility_verdict,
)

__all__ = [
    "ATTACK_RULE",
    "GRADE_RULE",
    "LABELS_IN_WORDS",
    "UTILITY_RULE",
    "Verdict",
    "attack_verdict",
    "best_result",
    "guarantee_verdict",
    "guess_bound",
    "in_plain_words",
    "not_covered",
    "of_data_and_classifiers",
    "stop_rule",
    "utility_verdict",
]

GRADE_RULE = (
    "The words for a guarantee go by its epsilon: strong up to 1, moderate up to 3, weak up to 10, very weak up to 20, "
    "no practical guarantee above. A delta of 0.1 or more is no practical guarantee whatever epsilon is."
)
_GRADE_LINE = "Strong up to ε 1, moderate 3, weak 10, very weak 20."


def guess_bound(guarantee: Guarantee | ReleasedClassifierAttack) -> float:
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
        rule=_GRADE_LINE,
    )


def in_plain_words(element: Guarantee, record: Guarantee, uncovered: list[str]) -> str:
    """Both guarantees in two sentences, as what someone who knows everything else can still not find out."""
    if uncovered:
        return (
            "Part of this release was computed from confidential rows outside the mechanism, so no guarantee holds for "
            "the release as a whole."
        )
    said = []
    for guarantee, secret in ((element, "which of two values a cell had"), (record, "which of two rows was in it")):
        bound = guess_bound(guarantee)
        proved = guarantee.delta < 1 and bound < 1 - 1e-6
        limit = f"right in at most {chance(bound)} of cases" if proved else "no limit worth stating"
        said.append(f"{secret}: {limit}")
    return (
        f"Proved limits for a guesser who knows all the rest of the table: {'; '.join(said)}. A coin is right in "
        f"50{NBSP}%."
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


def of_data_and_classifiers(data: Guarantees | None) -> str:
    """What a release's guarantee is about where classifiers are released with the data; else nothing."""
    if data is None:
        return ""
    return (
        "These numbers are about everything that is released: the fabricated data, and the classifiers that were "
        "trained with noise on the same confidential rows. Of the data alone: one cell ε "
        f"{significant(data.element.epsilon, 4)}, δ {significant(data.element.delta)}; one whole row ε "
        f"{significant(data.record.epsilon, 4)}, δ {significant(data.record.delta)}."
    )


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
