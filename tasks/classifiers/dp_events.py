"""What a fit ran, in dp_accounting's vocabulary; importing that takes two seconds, so it is done when asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attr
import dp_accounting as dp

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.classifiers.fit import PoissonSampledGaussian

__all__ = ["ApproximateDpEvent", "dp_event_of"]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ApproximateDpEvent(dp.DpEvent):
    """Anything of which no more is known than that it is (epsilon, delta)-differentially private.

    dp_accounting 0.6 has no such event, so that its accountants answer that they do not know it;
    `tasks.accounting.composed_epsilon` prices it in `guarantee_.events`.

    Attributes
    ----------
    epsilon, delta : float
    """

    epsilon: float
    delta: float


def dp_event_of(events: Sequence[Event], sampled: PoissonSampledGaussian | None, adjacency: Adjacency) -> dp.DpEvent:
    """Everything that was run, so that no accountant prices it below what it costs.

    Parameters
    ----------
    events : sequence of Event
        As `Fit` has them; none stands for a fit without noise.
    sampled : PoissonSampledGaussian or None
        What stands for the approximate event among them, more finely.
    adjacency : {"replace_one", "add_remove"}

    Raises
    ------
    ValueError
        For an event that no classifier runs.

    Notes
    -----
    Noise is counted in sensitivities of the fit's own relation: so an accountant for adding or removing a record prices
    a Gaussian event exactly, whatever the relation of the fit is. For replacing one, dp_accounting's accountant of
    privacy losses takes the sensitivity twice and overstates; its Renyi accountant does not look at the relation.
    Poisson samples are named for adding or removing only. What is purely epsilon private is dominated, for replacing a
    record, by a randomised response between two answers with ratio e^epsilon (Kairouz, Oh, Viswanath 2015), and is
    called so.
    """
    if adjacency == "replace_one":
        sampled = None  # is priced by its (epsilon, delta)
    run: list[dp.DpEvent] = []
    if sampled is not None:
        one = dp.PoissonSampledDpEvent(sampled.sampling_probability, dp.GaussianDpEvent(sampled.noise_multiplier))
        run.append(dp.SelfComposedDpEvent(one, sampled.steps))
    for event in events:
        if event.kind == "gaussian":
            single: dp.DpEvent = dp.GaussianDpEvent(event.noise_multiplier)
        elif event.kind != "approximate":
            raise ValueError(f"no classifier runs an event of kind {event.kind!r}")
        elif sampled is not None:
            continue
        elif event.delta == 0.0 and adjacency == "replace_one":
            single = dp.RandomizedResponseDpEvent(2.0 * math.exp(-event.epsilon) / (1.0 + math.exp(-event.epsilon)), 2)
        else:
            single = ApproximateDpEvent(event.epsilon, event.delta)
        run.append(single if event.count == 1 else dp.SelfComposedDpEvent(single, event.count))
    if not run:
        return dp.NonPrivateDpEvent()
    return run[0] if len(run) == 1 else dp.ComposedDpEvent(run)
