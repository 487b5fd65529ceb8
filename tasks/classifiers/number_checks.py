"""Checks of single parameters that several estimators share."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

__all__ = ["check_count", "check_flag", "check_number"]

Interval = Literal[
    "(0, inf)", "[0, inf)", "[1, inf)", "(0, 1)", "(0, 1]", "[0, 1]", "[0, 1)", "[1e-6, 1e6]", "[0, 1e6]",
    "[1e-100, 1e100]", "[0, 1e100]",
]  # fmt: skip


def check_number(name: str, value: object, interval: Interval) -> float:
    """A finite number within an interval, as a float.

    Raises
    ------
    ValueError
        That names the parameter and the value.
    """
    low, high = (float(end) for end in interval[1:-1].split(", "))
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{name} must be a number in {interval}, got {name}={value!r}")
    number = float(value)
    above = number >= low if interval[0] == "[" else number > low
    below = number <= high if interval[-1] == "]" else number < high
    if not (above and below and math.isfinite(number)):
        raise ValueError(f"{name} must be in {interval}, got {name}={value!r}")
    return number


def check_count(name: str, value: object) -> int:
    """A whole number of at least 1.

    Raises
    ------
    ValueError
        That names the parameter and the value.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {name}={value!r}")
    return int(value)


def check_flag(name: str, value: object) -> bool:
    """True or False.

    Raises
    ------
    ValueError
        That names the parameter and the value.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {name}={value!r}")
    return bool(value)
