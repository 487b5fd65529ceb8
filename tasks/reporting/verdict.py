"""What a result in a word is made of, and how an interval is widened for having been picked."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from schemas.attacks import PrivacyRisk
from schemas.measures import Interval
from tasks.reporting.numbers import plural

Tone = Literal["good", "fair", "poor", "unknown"]

NO_BETTER = "no better than guessing without the data"
"""What is said of a risk's attack that is worth nothing."""


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


def picked_from(tried: int, noun: str) -> str:
    """Words to stand behind an interval's ends that was widened for having been picked; nothing for a single one."""
    return f", widened for {plural(tried, noun)}" if tried > 1 else ""


def grade_of_largest(interval: Interval, nothing: float, clear: float) -> int:
    """0: clear, 1: slight, 2: not conclusive, 3: nothing found."""
    if interval.lower > nothing:
        return 0 if interval.estimate >= clear else 1
    return 2 if interval.upper > clear else 3


def lower_first(text: str) -> str:
    """A name as it stands inside a sentence."""
    return text[:1].lower() + text[1:]


def better_than_guessing(risk: PrivacyRisk) -> bool:
    """Whether an attack is worth anything: right more often than a guess without the data.

    References
    ----------
    Giomi et al. (2023): an attack that does no better than the naive one says nothing about a risk, however many of
    its guesses are right.
    """
    return risk.members.estimate > risk.naive.estimate
