"""Numbers as people read them: rounded to what is known about them, never with more digits."""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from schemas.measures import Interval

NBSP = "\N{NO-BREAK SPACE}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MAX_DECIMALS = 6
_LEAST_DECIMALS = 2
"""Of areas and F1 scores: 0.545 shown as 0.5 would read as a coin toss."""


def significant(value: float, digits: int = 3) -> str:
    """`value` with so many significant digits; very large and very small ones as a power of ten."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if -4 < exponent < 6:
        return _minus(f"{rounded:,.{max(0, digits - 1 - exponent)}f}", trim=digits - 1 - exponent > 0)
    mantissa = rounded / 10.0**exponent if abs(exponent) < 300 else float(f"{rounded:e}".split("e")[0])
    text = _minus(f"{mantissa:.{digits - 1}f}", trim=digits > 1)
    return f"{text}{NBSP}×{NBSP}10{str(exponent).translate(_SUPERSCRIPT)}"


def _minus(text: str, trim: bool) -> str:
    if trim and "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "−")


def count(value: int) -> str:
    """A whole number with thousands set apart."""
    return f"{value:,}"


_BARE_NUMBER = re.compile(r"(?<![\w.,:/+-])\d{4,}(?![\w:/-]|[.,]\d)")


def with_thousands(text: str) -> str:
    """A sentence with the thousands of its whole numbers set apart; what may be a year, 1900 to 2099, stays."""

    def apart(found: re.Match[str]) -> str:
        value = int(found.group())
        return found.group() if 1900 <= value < 2100 else count(value)

    return _BARE_NUMBER.sub(apart, text)


def plural(value: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count(value)}{NBSP}{noun}{'' if value == 1 else 's'}"


def decimals_for(uncertainty: float) -> int:
    """How many decimals a number deserves whose uncertainty (half width, standard error) is this."""
    if not uncertainty > 0:
        return 3
    return min(_MAX_DECIMALS, max(0, -math.floor(math.log10(uncertainty))))


def fixed(value: float, decimals: int) -> str:
    """`value` with so many decimals and a proper minus sign; never `-0`."""
    text = f"{value:,.{decimals}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def _outward(value: float, decimals: int, up: bool) -> str:
    step = Decimal(1).scaleb(-decimals)
    rounded = Decimal(f"{value:.12g}").quantize(step, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return fixed(float(rounded), decimals)


def interval_decimals(interval: Interval, scale: float = 1.0) -> int:
    """Decimals that half the interval's width supports, for values multiplied by `scale`."""
    return decimals_for(scale * (interval.upper - interval.lower) / 2)


def estimate(interval: Interval) -> str:
    """The estimate of an area or an F1 score, rounded to what its interval supports, with two decimals at least."""
    return fixed(interval.estimate, _score_decimals(interval))


def _score_decimals(interval: Interval) -> int:
    return max(_LEAST_DECIMALS, interval_decimals(interval))


def _decimals_apart(lower: float, upper: float, decimals: int, reference: float | None) -> int:
    """More decimals where rounding would hide on which side of the reference an end lies."""
    if reference is not None:
        gaps = [abs(end - reference) for end in (lower, upper) if end != reference]
        while decimals < _MAX_DECIMALS and any(gap < 10.0**-decimals for gap in gaps):
            decimals += 1
    return decimals


def interval_range(interval: Interval, reference: float | None = None) -> str:
    """The ends of an area's or an F1 score's interval, rounded outwards so that it claims no more than it did.

    They have two decimals at least. With a `reference`, decimals are added where rounding would hide on which side of
    it an end lies.
    """
    decimals = _decimals_apart(interval.lower, interval.upper, _score_decimals(interval), reference)
    return f"{_outward(interval.lower, decimals, False)} to {_outward(interval.upper, decimals, True)}"


def estimate_percent(interval: Interval) -> str:
    """The estimate of a proportion in percent."""
    return f"{fixed(100 * interval.estimate, interval_decimals(interval, 100))}{NBSP}%"


def interval_range_percent(interval: Interval, reference: float | None = None) -> str:
    """The ends of a proportion's interval in percent, rounded outwards; `reference` as in `interval_range`."""
    lower, upper = 100 * interval.lower, 100 * interval.upper
    apart = None if reference is None else 100 * reference
    decimals = _decimals_apart(lower, upper, interval_decimals(interval, 100), apart)
    return f"{_outward(lower, decimals, False)} to {_outward(upper, decimals, True)}{NBSP}%"


def percent(share: float, decimals: int = 0) -> str:
    """A share in percent; what is not 0 or 1 never reads as exactly 0 or 100."""
    smallest = 10.0**-decimals
    if 0 < share < smallest / 200:
        return f"under {fixed(smallest, decimals)}{NBSP}%"
    if 1 - smallest / 200 < share < 1:
        return f"over {fixed(100 - smallest, decimals)}{NBSP}%"
    return f"{fixed(100 * share, decimals)}{NBSP}%"


def chance(share: float) -> str:
    """A chance near 1 in percent, rounded up, with as many decimals as keep it apart from 100 %."""
    missing = 100 * (1 - share)
    decimals = max(1, -math.floor(math.log10(missing))) if missing > 0 else 1
    return f"{_outward(100 * share, decimals, True)}{NBSP}%"


def share_of_rows(share: float, rows: int) -> str:
    """A share among so many rows in percent, without decimals that so few rows cannot support."""
    return percent(share, 1 if rows >= 1000 else 0)


def seconds(value: float) -> str:
    """A duration."""
    if value < 0.1:
        return f"under 0.1{NBSP}s"
    return f"{fixed(value, 1 if value < 100 else 0)}{NBSP}s"
