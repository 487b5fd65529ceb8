"""Checks of parameters and data that every estimator and function of this package makes."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray

#: Squares and their quotients stay finite and normal for magnitudes within these bounds.
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = 1e-100, 1e100


def check_positive_integer(name: str, value: object) -> int:
    """``value`` as an int, or a ValueError that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return int(value)


def check_magnitude(Y: NDArray[np.float64], name: str = "Y", *, allow_tiny: bool = False) -> None:
    """Refuse values whose squares leave the range of float64.

    Raises
    ------
    ValueError
        If the largest absolute value exceeds 1e100, or is below 1e-100 without being zero.
    """
    largest = max(float(np.max(Y)), -float(np.min(Y)))
    if largest > LARGEST_MAGNITUDE:
        raise ValueError(f"{name} holds magnitudes above {LARGEST_MAGNITUDE:g}: scale the data first")
    if not allow_tiny and 0.0 < largest < SMALLEST_MAGNITUDE:
        raise ValueError(f"{name} holds only magnitudes below {SMALLEST_MAGNITUDE:g}: scale the data first")
