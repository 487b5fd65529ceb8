"""Which (epsilon, delta) a release states for a whole record, out of the many that hold."""

from collections.abc import Sequence

from schemas.events import Composition, Event
from tasks.accounting.composition import composed_delta, composed_epsilon, natural_guarantee
from tasks.accounting.profiles import profiles_of

__all__ = ["TIGHT_COMPOSITION_PROOF", "record_guarantee", "reported_guarantee"]

TIGHT_COMPOSITION_PROOF = (
    "tight composition: privacy-loss distributions of the exact discrete laws, rounded to an upper bound"
)


def record_guarantee(
    events: Sequence[Event] | Composition, *, epsilon: float | None = None, delta: float | None = None
) -> tuple[float, float]:
    """The other half of a guarantee: give exactly one of epsilon and delta.

    Returns
    -------
    (epsilon, delta)

    Raises
    ------
    ValueError
        If both or none are given, or the one given is outside its range.
    """
    if (epsilon is None) == (delta is None):
        raise ValueError("give exactly one of epsilon and delta")
    if epsilon is not None:
        return epsilon, composed_delta(events, epsilon)
    assert delta is not None
    return composed_epsilon(events, delta), delta


def reported_guarantee(events: Sequence[Event] | Composition, *, delta: float | None = None) -> tuple[float, float]:
    """The pair that a release states for a record.

    Parameters
    ----------
    events : sequence of Event, or Composition
    delta : float, default=None
        The delta to state; None leaves it to the events.

    Returns
    -------
    (epsilon, delta)
        Without `delta`: the delta of basic composition, that is the sum of the deltas by which the events are known,
        and the least epsilon that is proved for it. So neither number is above that of basic composition, and there is
        nothing to choose. Events without any delta give the sum of their epsilons and 0.

        With `delta`: that one, or the sum of the events' own deltas if that is larger, and the least epsilon for it.

    Raises
    ------
    ValueError
        If `delta` is left out though a Gaussian event is among them: those have no delta of their own.

    Notes
    -----
    The mass that cannot be bounded at any epsilon is 1 - prod(1 - delta_i), just below the sum of the deltas; on the
    lattice it is often far less, because a cell without noise looks like one whose noise happened to be zero.
    """
    own_epsilon, own_delta = natural_guarantee(events)
    if delta is None:
        if not _all_have_natural(events):
            raise ValueError("Gaussian events have no delta of their own: say which delta to state")
        return min(own_epsilon, composed_epsilon(events, own_delta)) if own_delta < 1.0 else own_epsilon, own_delta
    stated = max(delta, own_delta)
    return composed_epsilon(events, stated), stated


def _all_have_natural(events: Sequence[Event] | Composition) -> bool:
    return all(part.profile.natural is not None for part in profiles_of(events))
