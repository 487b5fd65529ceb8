"""What classifiers trained on confidential rows cost, and what they and the data guarantee together.

A classifier is a second mechanism on the records that the data are made of, chosen by the spec alone. Its guarantee is
about replacing one whole record, label included. So it adds to the data's guarantee at both units: a cell is a part of
a record.
"""

import math
from collections.abc import Sequence

from schemas.errors import RequestRefused
from schemas.events import ApproximateEvent, Event, GaussianEvent
from schemas.guarantee import CELL_AND_CLASSIFIERS_PROOF, DATA_AND_CLASSIFIERS_PROOF, Guarantee, Guarantees
from schemas.private_classifiers import PrivateTraining
from tasks.accounting.composition import composed_delta, composed_epsilon
from tasks.accounting.gaussian_profile import gaussian_mu

_NOT_GAUSSIAN = frozenset({"objective-perturbation", "exponential-sampling"})
"""Of these no more is known than (epsilon, delta)."""
_ROUNDING = 1e-9
_LARGEST_DELTA = 0.5
"""To which a sum of deltas is cut, where the data's own is not above it: a larger one is no guarantee."""


def classifier_events(entry: PrivateTraining) -> tuple[Event, ...]:
    """What is charged for one record of a classifier; nothing where it is not trained on confidential rows.

    Notes
    -----
    Algorithms that are Gaussian releases throughout are one Gaussian release of noise multiplier 1 / mu, with the
    largest mu that epsilon and delta allow (Dong, Roth, Su 2022, corollary 3.3; Balle, Wang 2018, theorem 8). Of the
    others no more is known than their epsilon and delta.
    """
    if not entry.confidential:
        return ()
    epsilon, delta = entry.paid
    if delta == 0.0 or entry.classifier in _NOT_GAUSSIAN:
        return (ApproximateEvent(epsilon=epsilon, delta=delta),)
    return (GaussianEvent(noise_multiplier=1.0 / gaussian_mu(epsilon, delta)),)


def events_of_classifiers(entries: Sequence[PrivateTraining]) -> tuple[Event, ...]:
    """What is charged for one record of all of them, in their order."""
    return tuple(event for entry in entries for event in classifier_events(entry))


def is_covered(run: Sequence[Event], charged: Sequence[Event]) -> bool:
    """Whether what was run for one classifier is no more than what was charged for it.

    Notes
    -----
    A charge of Gaussian events stands for a whole privacy profile, so what was run must be Gaussian with no larger mu.
    A charge of one (epsilon, delta) covers whatever composes to it.
    """
    if all(event.kind == "gaussian" for event in charged):
        if not run or any(event.kind != "gaussian" for event in run):
            return False
        return _squared_mu(run) <= _squared_mu(charged) * (1 + _ROUNDING)
    (whole,) = charged
    assert isinstance(whole, ApproximateEvent)
    return bool(run) and composed_delta(run, whole.epsilon * (1 + _ROUNDING)) <= whole.delta * (1 + _ROUNDING)


def _squared_mu(events: Sequence[Event]) -> float:
    return math.fsum(event.count / event.noise_multiplier**2 for event in events if isinstance(event, GaussianEvent))


def with_classifiers(data: Guarantees, run: Sequence[Event], entries: Sequence[PrivateTraining]) -> Guarantees:
    """The guarantees of the data and the classifiers together.

    Parameters
    ----------
    data : Guarantees
        Of the data alone.
    run : sequence of Event
        What is run on one record for the data.
    entries : sequence of PrivateTraining
        Those trained on confidential rows; with none the data's guarantees are returned.

    Returns
    -------
    Guarantees

    Raises
    ------
    RequestRefused
        No finite epsilon goes with the sum of the deltas.

    Notes
    -----
    Deltas add up, and epsilon is the least that is proved for the sum; never more than the sum of the epsilons.
    """
    if not entries:
        return data
    charged = events_of_classifiers(entries)
    own_epsilon = math.fsum(entry.paid[0] for entry in entries)
    own_delta = math.fsum(entry.paid[1] for entry in entries)
    record = _together(data.record, run, charged, own_epsilon, own_delta)
    if _same_numbers(data):
        element = record  # the data's element level is their record level, and so are the sums
    else:
        cell = ApproximateEvent(epsilon=data.element.epsilon, delta=min(data.element.delta, math.nextafter(1.0, 0.0)))
        element = _together(data.element, [cell], charged, own_epsilon, own_delta)
    label: dict[str, float] = {}
    if data.element.label_epsilon is not None:
        label = {"label_epsilon": data.element.label_epsilon + own_epsilon, "label_delta": own_delta}
    return Guarantees(
        element=data.element.model_copy(
            update={
                "epsilon": element[0],
                "delta": element[1],
                "proof": CELL_AND_CLASSIFIERS_PROOF,
                **label,
            }
        ),
        record=data.record.model_copy(
            update={"epsilon": record[0], "delta": record[1], "proof": DATA_AND_CLASSIFIERS_PROOF, **label}
        ),
    )


def _same_numbers(data: Guarantees) -> bool:
    element, record = data.element, data.record
    return element.labels == "covered" and (element.epsilon, element.delta) == (record.epsilon, record.delta)


def _together(
    unit: Guarantee, run: Sequence[Event], charged: Sequence[Event], own_epsilon: float, own_delta: float
) -> tuple[float, float]:
    """The pair for one unit: the sum of the deltas, and the least epsilon that is proved for it."""
    sums = unit.epsilon + own_epsilon
    if unit.delta >= 1.0:
        return sums, 1.0
    delta, most = unit.delta + own_delta, max(unit.delta, _LARGEST_DELTA)
    epsilon = composed_epsilon([*run, *charged], min(delta, most))
    if delta <= most:
        epsilon = min(epsilon, sums)
    if not math.isfinite(epsilon):
        raise RequestRefused(
            "evaluation.private_classifiers: no guarantee goes with the sum of the deltas of data and classifiers; use "
            "smaller ones"
        )
    return epsilon, min(delta, most)
