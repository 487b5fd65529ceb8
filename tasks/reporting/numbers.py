"""Numbers as people read them: rounded to what is known about them, never with more digits."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from schemas.audit import Interval

NBSP = "\N{NO-BREAK SPACE}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MAX_DECIMALS = 6


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
    """The estimate, rounded to what its interval supports."""
    return fixed(interval.estimate, interval_decimals(interval))


def interval_range(interval: Interval, reference: float | None = None) -> str:
    """The interval's ends, rounded outwards so that it claims no more than it did.

    With a `reference`, decimals are added where rounding would hide on which side of it an end lies.
    """
    decimals = interval_decimals(interval)
    if reference is not None:
        gaps = [abs(end - reference) for end in (interval.lower, interval.upper) if end != reference]
        while decimals < _MAX_DECIMALS and any(gap < 10.0**-decimals for gap in gaps):
            decimals += 1
    return f"{_outward(interval.lower, decimals, False)} to {_outward(interval.upper, decimals, True)}"


def estimate_percent(interval: Interval) -> str:
    """The estimate of a proportion in percent."""
    return f"{fixed(100 * interval.estimate, interval_decimals(interval, 100))}{NBSP}%"


def interval_range_percent(interval: Interval) -> str:
    """The ends of a proportion's interval in percent, rounded outwards."""
    decimals = interval_decimals(interval, 100)
    lower, upper = _outward(100 * interval.lower, decimals, False), _outward(100 * interval.upper, decimals, True)
    return f"{lower} to {upper}{NBSP}%"


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
