"""Checks of mechanism parameters, shared so that every mechanism refuses alike and in the same words."""

from __future__ import annotations

import math
from numbers import Integral, Real

__all__ = ["check_delta", "check_epsilon", "check_loss", "check_positive", "check_steps"]


def check_positive(name: str, value: object) -> float:
    """A finite number above 0, as a float; ValueError otherwise."""
    number = _as_float(value)
    if number is None or not (0.0 < number < math.inf):
        raise ValueError(f"{name} must be a finite number > 0, got {name}={value!r}")
    return number


def check_epsilon(value: object) -> float:
    """A mechanism's epsilon: finite and above 0; ValueError otherwise."""
    return check_positive("epsilon", value)


def check_delta(value: object) -> float:
    """A mechanism's delta: in [0, 1); ValueError otherwise."""
    number = _as_float(value)
    if number is None or not (0.0 <= number < 1.0):
        raise ValueError(f"delta must be a number in [0, 1), got delta={value!r}")
    return number


def check_loss(value: object) -> float:
    """The epsilon that a privacy profile is asked at: in [0, infinity]; ValueError otherwise."""
    number = _as_float(value)
    if number is None or not number >= 0.0:
        raise ValueError(f"epsilon must be a number >= 0, got epsilon={value!r}")
    return number


def check_steps(name: str, value: object, largest: int) -> int:
    """A whole number of lattice steps in [1, largest]; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= largest:
        raise ValueError(f"{name} must be a whole number of lattice steps in [1, {largest}], got {name}={value!r}")
    return int(value)


def _as_float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
