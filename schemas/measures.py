"""What all measurements of an audit are made of: estimates with intervals, and reasons why one is missing."""

from typing import Literal

from pydantic import Field

from schemas.base import Model

TrainedOn = Literal["real", "noise-added", "fabricated"]
"""The kind of data that a classifier learned from, or that an attacker holds."""

FEWEST_ROWS = 10
"""Rows that a figure of an audit is an aggregate over at least; below that it is not computed."""


class Interval(Model):
    """An estimate with its confidence interval."""

    estimate: float
    lower: float
    upper: float
    confidence: float = Field(gt=0, lt=1)
    method: str
    """How the interval was made, for example `Wilson` or `bootstrap, 1000 resamples`."""


class NotComputed(Model):
    """A figure that is missing, and why."""

    what: str
    """Which figure, in words that can stand before `was not computed`."""
    reason: str
