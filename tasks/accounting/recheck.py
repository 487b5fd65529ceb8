"""Check a release's claims from its manifest alone, as an auditor would: by proving them again, not by comparing.

A claim holds if what can be proved now is at least as strong. So a later version that proves more, or a solver that
finds other weights for `lattice-optimal`, does not turn an honest release into a forged one.
"""

import math

from schemas.events import Event
from schemas.guarantee import MechanismRecord
from schemas.manifest import Manifest
from schemas.spec import ReleaseSpec
from tasks.accounting.calibration import cell_noise_event
from tasks.accounting.composition import composed_delta
from tasks.accounting.lattice import LATTICE_STEPS, SPACING, lattice_distance
from tasks.accounting.mechanism import CellNoise, Moments, label_events, mechanism_of
from tasks.noise import law_from_parameters

_ROUNDING = 1e-6
_NOT_OF_THE_LAW = {"spacing", "sampling_bias"}


def unproved_claim(manifest: Manifest, spec: ReleaseSpec) -> str | None:
    """The first claim of a manifest that does not follow from its spec and its mechanism; None if all do.

    Parameters
    ----------
    manifest : Manifest
    spec : ReleaseSpec
        The spec in the manifest.

    Returns
    -------
    str or None
    """
    expected = mechanism_of(spec)
    n_features = len(spec.table.features)
    element, record = manifest.guarantee.element, manifest.guarantee.record
    rules = {element.labels, record.labels, manifest.labels}
    if rules != {expected.guarantees.record.labels}:
        return "labels are not as the spec has them"
    asked = element if spec.privacy.unit == "element" else record
    if (asked.epsilon > spec.privacy.epsilon * (1 + _ROUNDING)) or asked.delta > spec.privacy.delta * (1 + _ROUNDING):
        return "the guarantee is weaker than the spec asks for"
    if (element.unit, record.unit, record.distance) != ("element", "record", 1.0):
        return "the units of the guarantee are mixed up"
    if isinstance(expected, Moments):
        same = expected.record(manifest.rows * n_features).model_dump() == manifest.mechanism.model_dump()
        if not same or expected.guarantees != manifest.guarantee:
            return "the guarantee does not follow from private moments with the spec's epsilon and delta"
        return None
    return _unproved_of_cells(manifest, spec, expected)


def _unproved_of_cells(manifest: Manifest, spec: ReleaseSpec, expected: CellNoise) -> str | None:
    stated, n_features = manifest.mechanism, len(spec.table.features)
    element, record = manifest.guarantee.element, manifest.guarantee.record
    if stated.name != expected.name:
        return "the mechanism is not the one that the spec asks for"
    parameters = {name: value for name, value in stated.parameters.items() if name not in _NOT_OF_THE_LAW}
    try:
        law = law_from_parameters(stated.name, parameters)
    except ValueError:
        return "the mechanism's parameters are not those of a noise law"
    if element.distance > spec.privacy.distance:
        return "the guarantee reaches further than the spec says"
    shift = lattice_distance(element.distance)
    if law.delta_at(element.epsilon, shift) > element.delta * (1 + _ROUNDING):
        return "the element-level guarantee is stronger than the noise law gives"
    events: list[Event] = [cell_noise_event(law, LATTICE_STEPS, n_features), *label_events(spec)]
    if list(stated.events) != events:
        return "the events are not those of the mechanism"
    if record.delta < 1 and composed_delta(events, record.epsilon * (1 + _ROUNDING)) > record.delta * (1 + _ROUNDING):
        return "the record-level guarantee is stronger than composition gives"
    return _wrong_figures(stated, law.expected_magnitude() * SPACING, law.atom * manifest.rows * n_features)


def _wrong_figures(stated: MechanismRecord, magnitude: float, unperturbed: float) -> str | None:
    if stated.expected_magnitude is None or not math.isclose(stated.expected_magnitude, magnitude, rel_tol=_ROUNDING):
        return "the mechanism's expected magnitude is not that of its law"
    if stated.expected_unperturbed_cells is None or not math.isclose(
        stated.expected_unperturbed_cells, unperturbed, rel_tol=_ROUNDING, abs_tol=1e-12
    ):
        return "the mechanism's expected number of unperturbed cells is not that of its law and rows"
    return None
