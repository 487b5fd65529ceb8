"""The values that a released cell may hold: bounds, precision, resolution, categories."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from schemas.columns import DateColumn, DatetimeColumn, FeatureColumn, IntegerColumn, NumericColumn
from tasks.columns.numbers import FloatArray

_MICROSECONDS = {"second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86400 * 10**6}


@dataclass(frozen=True)
class Grid:
    """The values a released cell may hold, as numbers: all between two ends.

    Attributes
    ----------
    lower, upper : float
        The smallest and the largest of them.
    span : float
        What 1 in scaled units is. A logarithmic column is taken as a linear one here: any obeying value would do.
    step : float
        Their distance; 0 if they are continuous.
    """

    lower: float
    upper: float
    span: float
    step: float = 0.0

    def floor(self, values: FloatArray) -> FloatArray:
        """The largest value that is not above; the smallest there is where none is."""
        return np.clip(values, self.lower, self.upper)

    def ceil(self, values: FloatArray) -> FloatArray:
        """The smallest value that is not below; the largest there is where none is."""
        return np.clip(values, self.lower, self.upper)

    def nearest(self, values: FloatArray) -> FloatArray:
        """The nearest value; of two, the smaller."""
        below, above = self.floor(values), self.ceil(values)
        return np.where(above - values < values - below, above, below)


@dataclass(frozen=True)
class _NumberedGrid(Grid):
    """Single values, by whole numbers from `first` to `last`."""

    first: int = 0
    last: int = 0
    value: Callable[[FloatArray], FloatArray] = field(kw_only=True)
    number: Callable[[FloatArray], FloatArray] = field(kw_only=True)
    """The number of the value that is not above, give or take one."""

    def floor(self, values: FloatArray) -> FloatArray:
        return self.value(self._below(values))

    def ceil(self, values: FloatArray) -> FloatArray:
        below = self._below(values)
        floor = self.value(below)
        return np.where(floor >= values, floor, self.value(np.minimum(below + 1, self.last)))

    def _below(self, values: FloatArray) -> FloatArray:
        guess = np.clip(self.number(values), self.first, self.last)
        guess = np.where(self.value(guess) > values, guess - 1, guess)
        guess = np.where(self.value(guess + 1) <= values, guess + 1, guess)
        return np.clip(guess, self.first, self.last)


def grid_of(column: FeatureColumn) -> Grid:
    """The values that a released cell of a column may hold."""
    match column:
        case NumericColumn(precision=None):
            return Grid(*column.bounds, span=column.bounds[1] - column.bounds[0])
        case NumericColumn() | IntegerColumn():
            lower, upper = (float(bound) for bound in column.bounds)
            return _multiples(lower, upper, step_of(column) or 1.0)
        case DateColumn():
            unit = {"day": "D", "month": "M", "year": "Y"}[column.resolution]
            lower, upper = (float(np.datetime64(bound, "D").astype(np.int64)) for bound in column.bounds)
            return _periods(
                lower,
                upper,
                value=lambda k: k.astype(np.int64).astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(float),
                number=lambda x: x.astype(np.int64).astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(float),
            )
        case DatetimeColumn():
            step = _MICROSECONDS[column.resolution]
            lower, upper = (float(np.datetime64(bound, "us").astype(np.int64)) for bound in column.bounds)
            return _periods(lower, upper, value=lambda k: k * step, number=lambda x: np.floor(x / step))
        case _:
            return _multiples(0.0, float(len(column.levels) - 1), 1.0)


def _multiples(lower: float, upper: float, step: float) -> Grid:
    """Multiples of a decimal number such as 0.1, each the double nearest to it."""
    inverse = round(1 / step)
    exact = inverse > 0 and math.isclose(inverse * step, 1, rel_tol=1e-12)

    def value(k: FloatArray) -> FloatArray:
        return np.clip(np.rint(k) / inverse if exact else np.rint(k) * step, lower, upper) + 0.0  # no -0.0

    ends = [end / step for end in (lower, upper)]
    first, last = (
        round(end) if abs(round(end) - end) <= 1e-9 + 2 * math.ulp(end) else outside(end)
        for end, outside in zip(ends, (math.ceil, math.floor), strict=True)
    )
    last = max(first, last)
    low, high = value(np.array([first, last], dtype=float)).tolist()
    span = (upper - lower) or 1.0
    return _NumberedGrid(low, high, span, step, first, last, value=value, number=lambda x: np.floor(x / step))


def _periods(
    lower: float, upper: float, value: Callable[[FloatArray], FloatArray], number: Callable[[FloatArray], FloatArray]
) -> Grid:
    """Starts of periods; the first period starts at the lower bound."""
    first, last = number(np.array([lower, upper])).astype(int).tolist()

    def bounded(k: FloatArray) -> FloatArray:
        return np.clip(value(k), lower, upper)

    low, high = bounded(np.array([first, last], dtype=float)).tolist()
    return _NumberedGrid(low, high, upper - lower, 1.0, first, last, value=bounded, number=number)


def step_of(column: FeatureColumn) -> float | None:
    """The distance of a number column's values, None if they are continuous."""
    return 1.0 if isinstance(column, IntegerColumn) else getattr(column, "precision", None)
