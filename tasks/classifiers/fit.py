"""What an algorithm hands back to the estimator: weights, and what was run on the records to get them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.events import Event, GaussianEvent
from tasks.accounting.composition import composed_delta
from tasks.classifiers.budget import PrivacyBudget

__all__ = ["Fit", "PoissonSampledGaussian", "refuse_unproven"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PoissonSampledGaussian:
    """`steps` Gaussian releases, each of a Poisson sample of the records; neighbours by adding or removing one.

    Attributes
    ----------
    sampling_probability : float
        With which each record is in a step's sample, independently.
    noise_multiplier : float
        Standard deviation of the noise over the largest norm of a record's part in the sum.
    steps : int
    """

    sampling_probability: float
    noise_multiplier: float
    steps: int


@dataclass(frozen=True, eq=False)
class Fit:
    """The outcome of one private fit.

    Attributes
    ----------
    weights : ndarray of float64, shape (k, d)
        k = 1 for two classes by one vector, else one vector a class. Released: it carries the noise.
    mechanism, proof : str
        In words, for `FitGuarantee`.
    events : sequence of Event
        What was run on one record, priced under the estimator's adjacency; empty for a fit without noise.
    sampled : PoissonSampledGaussian or None
        The finer event, where `events` only holds its (epsilon, delta).
    pure : bool
        Whether the fit is purely private, at delta 0.
    attributes : dict
        Further attributes of the fitted estimator, by name with the trailing underscore; never confidential.
    """

    weights: FloatArray
    mechanism: str
    proof: str
    events: Sequence[Event] = ()
    sampled: PoissonSampledGaussian | None = None
    pure: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)


def refuse_unproven(name: str, events: Sequence[Event], budget: PrivacyBudget) -> None:
    """Never claim what does not follow from the events, whatever an algorithm did with its budget.

    Raises
    ------
    RuntimeError
        Together they are not (epsilon, delta)-private.

    Notes
    -----
    Gaussian releases compose to one whose mu is compared with the budget's. The privacy profile that prices all others
    loses digits where epsilon is below some 1e-4, and would refuse sound ones.
    """
    if budget.is_infinite:
        return
    if not _is_proven(events, budget):
        raise RuntimeError(
            f"{name} spent more than epsilon={budget.epsilon:g}, delta={budget.delta:g}; this is a fault of the "
            "algorithm, and the fit is thrown away"
        )


def _is_proven(events: Sequence[Event], budget: PrivacyBudget) -> bool:
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    if not events:
        return False
    if len(gaussian) == len(events) and not budget.is_pure:
        squared = math.fsum(event.count / event.noise_multiplier**2 for event in gaussian)
        return squared <= budget.mu**2 * (1.0 + 1e-9)
    return composed_delta(events, budget.epsilon * (1.0 + 1e-9)) <= budget.delta * (1.0 + 1e-6)
