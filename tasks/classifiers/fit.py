"""What an algorithm hands back to the estimator: weights, and what was run on the records to get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schemas.events import Event
from schemas.learning import Adjacency

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["Fit", "PoissonSampledGaussian", "dp_event_of"]

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


def dp_event_of(events: Sequence[Event], sampled: PoissonSampledGaussian | None, adjacency: Adjacency) -> DpEvent:
    """Everything that was run as dp_accounting describes it; importing that takes two seconds.

    Raises
    ------
    ValueError
        For an event that no classifier runs.

    Notes
    -----
    Our events count noise in sensitivities; dp_accounting counts it in norms of one record's part, of which replacing a
    record moves two. An accountant must be made for the relation of the fit.
    """
    import dp_accounting as dp

    parts = 2 if adjacency == "replace_one" else 1
    if sampled is not None:
        one = dp.PoissonSampledDpEvent(sampled.sampling_probability, dp.GaussianDpEvent(sampled.noise_multiplier))
        main: list[dp.DpEvent] = [dp.SelfComposedDpEvent(one, sampled.steps)]
        events = [event for event in events if event.kind != "approximate"]
    else:
        main = []
    for event in events:
        match event.kind:
            case "gaussian":
                single: dp.DpEvent = dp.GaussianDpEvent(parts * event.noise_multiplier)
            case "approximate":
                single = dp.EpsilonDeltaDpEvent(event.epsilon, event.delta)
            case _:
                raise ValueError(f"no classifier runs an event of kind {event.kind!r}")
        main.append(single if event.count == 1 else dp.SelfComposedDpEvent(single, event.count))
    if not main:
        return dp.NonPrivateDpEvent()
    return main[0] if len(main) == 1 else dp.ComposedDpEvent(main)
