"""Check a release's claims from its manifest alone, as an auditor would: by proving them again, not by comparing.

A claim about noise on cells holds if what can be proved now is at least as strong. So a later version that proves more,
or a solver that finds other weights for `lattice-optimal`, does not turn an honest release into a forged one. Private
moments are compared as a whole: all their numbers follow from the spec and the number of rows.

Where classifiers trained on confidential rows are released, the data's own guarantee is checked so, against what the
spec asks for, and the release's against the composition of the data's with the classifiers'.
"""

import math
from collections.abc import Sequence
from typing import Any

from schemas.events import Event
from schemas.guarantee import PROOFS, Guarantee, MechanismPart, MechanismRecord
from schemas.manifest import Manifest
from schemas.spec import ReleaseSpec
from tasks.accounting.classifiers import classifier_events, events_of_classifiers, with_classifiers
from tasks.accounting.composition import composed_delta, composed_epsilon
from tasks.accounting.groups import HALF_RANGE, CategoryResponse, Part, groups_of, part_events, response_event
from tasks.accounting.lattice import LATTICE_STEPS, SPACING, lattice_distance
from tasks.accounting.mechanism import Moments, label_events, mechanism_of
from tasks.accounting.rows import expected_magnitude
from tasks.columns.layout import layout_of
from tasks.noise import LabelRandomizedResponse, LatticeNoise, UnaryRandomizedResponse, law_from_parameters

_ROUNDING = 1e-6
_RESPONSES = {law.name: law for law in (LabelRandomizedResponse, UnaryRandomizedResponse)}


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
    fault = _unproved_of_data(manifest, spec)
    return fault if fault is not None else _unproved_of_classifiers(manifest, spec)


def _unproved_of_classifiers(manifest: Manifest, spec: ReleaseSpec) -> str | None:
    entries = spec.evaluation.paid_classifiers
    stated = [(own.name, own.path, own.epsilon, own.delta) for own in manifest.classifiers]
    if stated != [(entry.classifier, classifier_path(entry.classifier), *entry.paid) for entry in entries]:
        return "the released classifiers are not those of the spec"
    for own, entry in zip(manifest.classifiers, entries, strict=True):
        if not same_events(own.events, classifier_events(entry)):
            return f"the events of classifier {entry.classifier} are not those of its epsilon and delta"
    if not entries:
        same = manifest.data_guarantee in (None, manifest.guarantee)
        return (
            None if same else "the data's guarantee is another one than the release's, though no classifier is released"
        )
    if manifest.data_guarantee is None:
        return "the data's own guarantee is missing"
    data = manifest.data_guarantee
    n_data = len(manifest.mechanism.events) - len(events_of_classifiers(entries))
    proved = with_classifiers(data, manifest.mechanism.events[:n_data], entries)
    for claim, least in ((manifest.guarantee.element, proved.element), (manifest.guarantee.record, proved.record)):
        numbers = ["epsilon", "delta", "label_epsilon", "label_delta"]
        kept = claim.model_dump(exclude={*numbers, "proof"}) == least.model_dump(exclude={*numbers, "proof"})
        if not kept or claim.proof not in PROOFS or (claim.label_epsilon is None) != (least.label_epsilon is None):
            return "the guarantee is about something else than the data's"
        if any((getattr(claim, n) or 0.0) * (1 + _ROUNDING) < (getattr(least, n) or 0.0) for n in numbers):
            return f"the {claim.unit}-level guarantee is stronger than composition with the classifiers gives"
    return None


def classifier_path(name: str) -> str:
    """Where a released classifier lies in the release folder."""
    return f"classifiers/{name}.json"


def same_events(stated: Sequence[Event], expected: Sequence[Event]) -> bool:
    """Whether events are the same ones in the same order, numbers up to rounding."""
    return _close([event.model_dump() for event in stated], [event.model_dump() for event in expected])


def _unproved_of_data(manifest: Manifest, spec: ReleaseSpec) -> str | None:
    expected = mechanism_of(spec)
    element, record = manifest.of_the_data.element, manifest.of_the_data.record
    rules = {element.labels, record.labels, manifest.labels}
    if rules != {expected.data_guarantees.record.labels}:
        return "labels are not as the spec has them"
    if any(unit.public_columns != list(spec.table.public) for unit in (element, record)):
        return "public columns are not as the spec has them"
    asked = element if spec.privacy.unit == "element" else record
    if (asked.epsilon > spec.privacy.epsilon * (1 + _ROUNDING)) or asked.delta > spec.privacy.delta * (1 + _ROUNDING):
        return "the guarantee is weaker than the spec asks for"
    if (element.unit, record.unit, record.distance) != ("element", "record", 1.0):
        return "the units of the guarantee are mixed up"
    for stated, proved in (
        (element, expected.data_guarantees.element),
        (record, expected.data_guarantees.record),
    ):
        if (stated.label_epsilon, stated.label_delta, stated.neighbouring) != (
            proved.label_epsilon,
            proved.label_delta,
            proved.neighbouring,
        ):
            return "the guarantee's labels or neighbours are not those of the spec"
        if stated.proof not in PROOFS:
            return "the guarantee's proof is none that this version knows"
    if element.distance != (spec.privacy.distance if spec.privacy.unit == "element" else 1.0):
        return "the guarantee's distance is not the spec's"
    if isinstance(expected, Moments):
        same = _close(manifest.mechanism.model_dump(), expected.record(manifest.rows).model_dump())
        if not same or expected.data_guarantees != manifest.of_the_data:
            return "the guarantee does not follow from private moments with the spec's epsilon and delta"
        return None
    if manifest.mechanism.name != expected.name:
        return "the mechanism is not the one that the spec asks for"
    return _unproved_of_cells(manifest, spec)


def _unproved_of_cells(manifest: Manifest, spec: ReleaseSpec) -> str | None:
    stated = manifest.mechanism
    element, record = manifest.of_the_data.element, manifest.of_the_data.record
    try:
        parts = [_rebuilt(part) for part in stated.parts]
    except (ValueError, TypeError):
        return "the mechanism's parameters are not those of a noise law"
    if _covered(parts) != sorted((block.column, block.kind) for block in layout_of(spec.table).blocks):
        return "the mechanism does not cover every column once"
    if not _protects_cells(parts, spec, element):
        return "the element-level guarantee is stronger than the noise law gives"
    events: list[Event] = [*part_events(parts), *label_events(spec)]
    classifiers = events_of_classifiers(spec.evaluation.paid_classifiers)
    if list(stated.events[: len(events)]) != events or not same_events(stated.events[len(events) :], classifiers):
        return "the events are not those of the mechanism"
    if record.delta < 1 and not _proved(events, record.epsilon * (1 + _ROUNDING), record.delta * (1 + _ROUNDING)):
        return "the record-level guarantee is stronger than composition gives"
    atoms = math.fsum(part.atom * len(part.columns) for part in parts)
    return _wrong_figures(stated, parts, atoms * manifest.rows)


def _proved(events: list[Event], epsilon: float, delta: float) -> bool:
    """Whether the pair follows in one of two ways; they share basic composition out differently over the events."""
    return composed_delta(events, epsilon) <= delta or composed_epsilon(events, delta) <= epsilon


def _rebuilt(part: MechanismPart) -> Part:
    response = _RESPONSES.get(part.name)
    noise = law_from_parameters(part.name, part.parameters) if response is None else response(**part.parameters)  # type: ignore[arg-type]
    if isinstance(noise, CategoryResponse) == (part.what == "value"):
        raise ValueError("a value needs a noise law, a category a response")
    if not part.columns:
        raise ValueError("a part is about some columns")
    return Part(tuple(part.columns), part.what, noise)


def _covered(parts: list[Part]) -> list[tuple[str, str]]:
    return sorted((column, part.what) for part in parts for column in part.columns)


def _protects_cells(parts: list[Part], spec: ReleaseSpec, element: Guarantee) -> bool:
    """Whether any change of one cell costs at most what is stated, and at most its column's weighted part of it."""
    table, delta = spec.table, element.delta * (1 + _ROUNDING)
    weights = {column: group.weight for group in groups_of(table, spec.privacy.split) for column in group.columns}
    heaviest = max(weights.values()) if spec.privacy.unit == "element" else 0.0

    def allowed(part: Part) -> float:
        """Epsilon of the part's columns: with weights for cells, each has its own."""
        share = min(weights[column] for column in part.columns) / heaviest if heaviest else 1.0
        return element.epsilon * share * (1 + _ROUNDING)

    answers = {column: part.noise for part in parts if part.what == "missing" for column in part.columns}
    levels = {group.columns: group.levels for group in groups_of(table) if group.form == "category"}
    levels_of = {column: count for columns, count in levels.items() for column in columns}
    any_change = {column for group in groups_of(table) if group.any_change for column in group.columns}
    for part in parts:
        if isinstance(part.noise, CategoryResponse):
            wanted = {levels_of.get(column, 2) for column in part.columns}
            spends = composed_delta([response_event(part.noise, 1)], allowed(part))
            if spends > delta or wanted != {part.noise.n_categories}:
                return False
            continue
        shifts = {LATTICE_STEPS if name in any_change else lattice_distance(element.distance) for name in part.columns}
        if any(part.noise.delta_at(allowed(part), shift) > delta for shift in shifts):
            return False
        for answer in {answers[column] for column in part.columns if column in answers}:
            if _going_missing(part.noise, answer, allowed(part)) > delta:
                return False
    return True


def _going_missing(law: LatticeNoise, answer: LatticeNoise | CategoryResponse, epsilon: float) -> float:
    """The exact delta of a value that goes missing: the answer's two outcomes, each with the law's profile at what it
    leaves of epsilon."""
    assert isinstance(answer, LabelRandomizedResponse)
    stay = answer.keep_probability
    return stay * _profile(law, epsilon - answer.epsilon) + (1 - stay) * _profile(law, epsilon + answer.epsilon)


def _profile(law: LatticeNoise, loss: float) -> float:
    """The hockey-stick divergence of a law moved by half the range, at any loss: H(-e) = 1 - exp(-e) + exp(-e) H(e)."""
    if loss >= 0.0:
        return law.delta_at(loss, HALF_RANGE)
    return -math.expm1(loss) + math.exp(loss) * law.delta_at(-loss, HALF_RANGE)


def _close(stated: Any, expected: Any) -> bool:
    """Whether two JSON values agree, numbers up to rounding."""
    match stated, expected:
        case dict(), dict():
            return stated.keys() == expected.keys() and all(_close(stated[key], expected[key]) for key in expected)
        case list(), list():
            return len(stated) == len(expected) and all(map(_close, stated, expected))
        case float(), float():
            return math.isclose(stated, expected, rel_tol=1e-9)
        case _:
            return bool(stated == expected)


def _wrong_figures(stated: MechanismRecord, parts: list[Part], unperturbed: float) -> str | None:
    magnitude = expected_magnitude(parts)
    if (magnitude is None) != (stated.expected_magnitude is None) or not math.isclose(
        stated.expected_magnitude or 0.0, magnitude or 0.0, rel_tol=_ROUNDING
    ):
        return "the mechanism's expected magnitude is not that of its law"
    if stated.expected_unperturbed_cells is None or not math.isclose(
        stated.expected_unperturbed_cells, unperturbed, rel_tol=_ROUNDING, abs_tol=1e-12
    ):
        return "the mechanism's expected number of unperturbed cells is not that of its law and rows"
    for part, rebuilt in zip(stated.parts, parts, strict=True):
        if part != rebuilt.record():
            return "the figures of the mechanism's parts are not those of their laws"
    biases = [part.noise.sampling_bias for part in parts if part.what == "value"]  # type: ignore[union-attr]
    if biases and not math.isclose(float(stated.parameters.get("sampling_bias", 0.0)), max(biases), rel_tol=_ROUNDING):  # type: ignore[arg-type]
        return "the sampling bias is not that of the laws"
    if stated.parameters.get("spacing") != SPACING:
        return "the lattice spacing is not the one that values are snapped to"
    main = next((part for part in parts if part.what == "value"), parts[0]).record()
    if any(stated.parameters.get(name) != value for name, value in main.parameters.items()):
        return "the mechanism's parameters are not those of its first part"
    return None
