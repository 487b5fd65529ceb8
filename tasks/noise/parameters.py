"""Checks of mechanism parameters, shared so that every mechanism refuses alike and in the same words."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "LARGEST_MAGNITUDE",
    "as_steps",
    "check_delta",
    "check_epsilon",
    "check_fits",
    "check_levels",
    "check_loss",
    "check_positive",
    "check_scale",
    "check_steps",
    "steps_of",
]

LARGEST_MAGNITUDE = 2**61
"""Of noise, in lattice steps, so that a lattice index below 2^61 plus noise stays inside int64."""


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


def check_fits(max_magnitude: int, epsilon: float, sensitivity: int) -> None:
    """ValueError if the largest noise of a law of these parameters is above `LARGEST_MAGNITUDE`."""
    if max_magnitude > LARGEST_MAGNITUDE:
        raise ValueError(
            "epsilon / sensitivity is too small for noise in 64-bit integers: "
            f"got epsilon={epsilon!r}, sensitivity={sensitivity} lattice steps; "
            "choose a coarser lattice or a larger epsilon"
        )


def check_scale(noise_scale: float, epsilon: float, sensitivity: float) -> None:
    """ValueError if sensitivity / epsilon, the scale of Laplace noise, is not a normal double."""
    if not np.finfo(np.float64).tiny <= noise_scale < math.inf:
        raise ValueError(
            f"sensitivity / epsilon must be a normal double, got sensitivity={sensitivity!r}, epsilon={epsilon!r}"
        )


def check_levels(t: ArrayLike) -> NDArray[np.float64]:
    """Levels of an inverse distribution function: in [0, 1]; ValueError otherwise."""
    level = np.asarray(t, dtype=np.float64)
    if not np.all((level >= 0.0) & (level <= 1.0)):
        raise ValueError("t must lie in [0, 1] everywhere")
    return level


def as_steps(k: ArrayLike) -> NDArray[np.float64]:
    """Whole numbers of lattice steps as floats; ValueError for an array of another kind."""
    steps = np.asarray(k)
    if steps.dtype.kind not in "iu":
        raise ValueError(f"k must hold whole numbers of lattice steps, got an array of {steps.dtype}")
    return steps.astype(np.float64)


def steps_of(sensitivity: float, spacing: object) -> int:
    """The sensitivity in steps of a lattice whose spacing is a power of two; ValueError if it is not whole."""
    step = check_positive("spacing", spacing)
    if math.frexp(step)[0] != 0.5:
        raise ValueError(f"spacing must be a power of two, got spacing={spacing!r}")
    steps = Fraction(sensitivity) / Fraction(step)
    if steps.denominator != 1:
        raise ValueError(
            "sensitivity must be a whole number of lattice steps, "
            f"got sensitivity={sensitivity!r}, spacing={spacing!r}, that is {float(steps)!r} steps"
        )
    return int(steps)


def _as_float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
