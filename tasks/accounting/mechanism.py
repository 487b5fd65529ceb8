"""From a spec's privacy section to the mechanism, and from the mechanism to the guarantees at both units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby

from schemas.errors import RequestRefused
from schemas.events import Event, GaussianEvent, RandomizedResponseEvent
from schemas.guarantee import (
    BASIC_COMPOSITION_PROOF,
    CELL_OF_RECORD_PROOF,
    ELEMENT_PROOF,
    GAUSSIAN_PROOF,
    PART_OF_RECORD_PROOF,
    RESPONSE_PROOF,
    TIGHT_COMPOSITION_PROOF,
    ComparedMechanism,
    Guarantee,
    Guarantees,
    LabelRule,
    MechanismRecord,
)
from schemas.private_classifiers import PrivateTraining
from schemas.spec import Privacy, ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting.cells import full_range_epsilon, parts_for_cells
from tasks.accounting.classifiers import events_of_classifiers, with_classifiers
from tasks.accounting.composition import basic_epsilon, composed_epsilon
from tasks.accounting.groups import Group, Part, groups_of, part_events
from tasks.accounting.lattice import SPACING
from tasks.accounting.record_level import reported_guarantee
from tasks.accounting.rows import expected_magnitude, optimal_weight, parts_for_rows
from tasks.columns.layout import layout_of, n_values
from tasks.noise import LabelRandomizedResponse, LatticeNoise, PrivateMoments, gaussian_standard_deviation
from tasks.noise.moments import Block

LARGEST_CELL_EPSILON = 40.0
"""Up to here what is drawn keeps the law's guarantee but for less than 1e-17 of delta per value (bias below 2^-116)."""


@dataclass(frozen=True)
class CellNoise:
    """Integer noise on every value, a random response in every category's place, and perhaps in the label's.

    Attributes
    ----------
    parts : tuple of Part
        What is run on which columns.
    compared : tuple of ComparedMechanism
    label_epsilon : float or None
        Epsilon of randomised response on the label.
    n_classes : int
    data_guarantees : Guarantees
        Of the data alone.
    data_events : tuple of Event
        What is run on one record for the data.
    classifiers : tuple of PrivateTraining
        Those that are trained on the same records besides.
    """

    parts: tuple[Part, ...]
    compared: tuple[ComparedMechanism, ...]
    label_epsilon: float | None
    n_classes: int
    data_guarantees: Guarantees
    data_events: tuple[Event, ...]
    classifiers: tuple[PrivateTraining, ...] = ()

    @cached_property
    def guarantees(self) -> Guarantees:
        """Of data and classifiers together."""
        return with_classifiers(self.data_guarantees, self.data_events, self.classifiers)

    @property
    def events(self) -> tuple[Event, ...]:
        """What is run on one record, for data and classifiers."""
        return (*self.data_events, *events_of_classifiers(self.classifiers))

    @property
    def main(self) -> Part:
        """The first part with noise on values; if there is none, the first."""
        return next((part for part in self.parts if part.what == "value"), self.parts[0])

    @property
    def name(self) -> str:
        """The name of the law of the values, or of the response if there are none."""
        return self.main.noise.name

    @property
    def law(self) -> LatticeNoise:
        """The law of the first part with noise on values, in lattice steps."""
        law = self.main.noise
        assert self.main.what == "value"
        return law  # type: ignore[return-value]

    @property
    def unperturbed_per_row(self) -> float:
        """How many values of a row get no noise by their law's atom, on average."""
        return math.fsum(part.atom * len(part.columns) for part in self.parts)

    def record(self, rows: int | None) -> MechanismRecord:
        """The mechanism as plans, manifests and reports state it, for a table of `rows` members if that is known."""
        main = self.main.record()
        values = [part.noise for part in self.parts if part.what == "value"]
        bias = {"sampling_bias": max(law.sampling_bias for law in values)} if values else {}  # type: ignore[union-attr]
        return MechanismRecord(
            name=self.name,
            compared=list(self.compared),
            parameters={**main.parameters, "spacing": SPACING, **bias},
            expected_magnitude=expected_magnitude(self.parts),
            expected_unperturbed_cells=None if rows is None else rows * self.unperturbed_per_row,
            parts=[part.record() for part in self.parts],
            events=list(self.events),
        )


@dataclass(frozen=True)
class Moments:
    """Rows drawn from noisy moments; protects whole records, labels included.

    Attributes
    ----------
    epsilon, delta : float
    blocks : tuple of Block
        What the coordinates of an encoded row are.
    n_classes : int
    data_guarantees : Guarantees
        Of the data alone.
    data_events : tuple of Event
        What is run on one record for the data.
    classifiers : tuple of PrivateTraining
        Those that are trained on the same records besides.
    """

    epsilon: float
    delta: float
    blocks: tuple[Block, ...]
    n_classes: int
    data_guarantees: Guarantees
    data_events: tuple[Event, ...]
    classifiers: tuple[PrivateTraining, ...] = ()
    name = "private-moments"
    unperturbed_per_row = 0.0

    @cached_property
    def guarantees(self) -> Guarantees:
        """Of data and classifiers together."""
        return with_classifiers(self.data_guarantees, self.data_events, self.classifiers)

    @property
    def events(self) -> tuple[Event, ...]:
        """What is run on one record, for data and classifiers."""
        return (*self.data_events, *events_of_classifiers(self.classifiers))

    @property
    def width(self) -> int:
        """Coordinates of an encoded row."""
        return sum(block.width for block in self.blocks)

    def for_rows(self, n_rows: int) -> PrivateMoments:
        """The mechanism for a public number of rows.

        Raises
        ------
        RequestRefused
            There is none for these numbers.
        """
        try:
            return PrivateMoments(self.epsilon, self.delta, self.width, self.n_classes, n_rows, self.blocks)
        except ValueError as error:
            raise RequestRefused(
                f"mechanism private-moments: not possible for {n_rows} rows, {self.width} encoded columns, epsilon "
                f"{self.epsilon:g} and delta {self.delta:g} ({error}); use a larger epsilon or delta"
            ) from None

    def record(self, rows: int | None) -> MechanismRecord:
        """The mechanism as plans, manifests and reports state it."""
        parameters: dict[str, float | int | bool] = {"epsilon": self.epsilon, "delta": self.delta}
        if rows is not None:
            parameters |= self.for_rows(rows).parameters()
        return MechanismRecord(
            name=self.name,
            compared=[ComparedMechanism(name=self.name, expected_magnitude=None, reason="puts no noise on cells")],
            parameters=parameters,
            expected_magnitude=None,
            expected_unperturbed_cells=None if rows is None else 0.0,
            events=list(self.events),
        )


Mechanism = CellNoise | Moments


def mechanism_of(spec: ReleaseSpec) -> Mechanism:
    """The mechanism that a spec asks for: for the data, and for the classifiers that are trained on confidential rows.

    Raises
    ------
    RequestRefused
        There is none for the wanted guarantee; the text says why.
    """
    n_classes, classifiers = len(spec.table.classes), tuple(spec.evaluation.paid_classifiers)
    if spec.privacy.mechanism == "private-moments":
        made = private_moments(spec.privacy, moments_blocks(spec.table), n_classes)
        return _checked(replace(made, classifiers=classifiers))
    noise = cell_noise(spec.privacy, groups_of(spec.table, spec.privacy.split), n_classes)
    public, own = {"public_columns": list(spec.table.public)}, noise.data_guarantees
    element, record = (unit.model_copy(update=public) for unit in (own.element, own.record))
    return _checked(replace(noise, data_guarantees=Guarantees(element=element, record=record), classifiers=classifiers))


def _checked(mechanism: Mechanism) -> Mechanism:
    """The mechanism, once it is known to have a guarantee."""
    assert mechanism.guarantees is not None  # raises where there is none
    return mechanism


def cell_noise(privacy: Privacy, groups: tuple[Group, ...], n_classes: int = 2) -> CellNoise:
    """Noise on every cell for the guarantee that a spec asks for.

    Parameters
    ----------
    privacy : Privacy
        For `unit: element`, epsilon and delta are those of one cell: a value that moves by at most `distance`, or any
        change of a category or of a value that may be missing. For `unit: record` the noise is calibrated so that a
        row whose every cell changes gets them by tight composition; randomised response on the label takes its epsilon
        of the record's.
    groups : tuple of Group
        The features, from `groups_of`.
    n_classes : int
        Declared classes.

    Returns
    -------
    CellNoise

    Raises
    ------
    RequestRefused
        No law of the family has the wanted guarantee.

    Notes
    -----
    Element level: neighbours differ in one cell. A value moves by at most D lattice steps, D from `lattice_distance`;
    the law's own delta at epsilon is claimed, rounded upwards. A category's response costs its epsilon and no delta.
    A value that may be missing: see `groups.nullable_epsilons`.

    Record level: a whole row is replaced, so each value may move by the full range and each category to any other.
    The privacy losses of its cells, and of its label, are composed by their distributions; the result is never
    looser than basic composition.
    """
    return _cell_noise(privacy.model_dump_json(), groups, n_classes)


@lru_cache(maxsize=32)
def _cell_noise(privacy_json: str, groups: tuple[Group, ...], n_classes: int) -> CellNoise:
    privacy = Privacy.model_validate_json(privacy_json)
    if privacy.split == "optimal":
        groups = tuple(replace(group, weight=optimal_weight(group)) for group in groups)
    label_rule: LabelRule = "public" if privacy.label_epsilon is None else "randomized_response"
    labels = _label_events(privacy, n_classes)
    n_cells = sum(len(group.columns) for group in groups)
    if privacy.unit == "record":
        parts, compared = parts_for_rows(privacy, groups, labels)
        element_delta = privacy.delta / n_cells
        element_epsilon = max(composed_epsilon(events, element_delta) for events in _events_of_cells(groups, parts))
    else:
        parts, compared, element_delta = parts_for_cells(privacy, groups)
        element_epsilon = privacy.epsilon
    advice = "Use a smaller epsilon" + (", or a larger distance" if privacy.distance < 1 else "")
    for part in parts:
        dearest = element_epsilon
        if privacy.unit == "element" and part.what == "value":
            dearest = full_range_epsilon(privacy, part)
        _refuse_beyond_sampler(dearest, advice)
    events = [*part_events(parts), *labels]
    record_epsilon, record_delta, proof = _record_level(events, privacy, n_cells)
    return CellNoise(
        parts=tuple(parts),
        compared=tuple(compared),
        label_epsilon=privacy.label_epsilon,
        n_classes=n_classes,
        data_events=tuple(events),
        data_guarantees=Guarantees(
            element=Guarantee(
                unit="element",
                epsilon=element_epsilon,
                delta=element_delta,
                distance=privacy.distance,  # not above the whole number of steps that the law is for
                neighbouring="replace_one_cell",
                labels=label_rule,
                label_epsilon=privacy.label_epsilon,
                proof=_element_proof(privacy, groups),
            ),
            record=Guarantee(
                unit="record",
                epsilon=record_epsilon,
                delta=record_delta,
                distance=1.0,
                neighbouring="replace_one_record",
                labels=label_rule,
                label_epsilon=privacy.label_epsilon,
                proof=proof,
            ),
        ),
    )


def _element_proof(privacy: Privacy, groups: Sequence[Group]) -> str:
    if all(group.form == "value" for group in groups):
        return ELEMENT_PROOF
    return CELL_OF_RECORD_PROOF if privacy.unit == "record" else RESPONSE_PROOF


def _events_of_cells(groups: Sequence[Group], parts: Sequence[Part]) -> list[list[Event]]:
    """What is run on one cell of each group."""
    return [
        part_events([replace(part, columns=group.columns[:1]) for part in parts if part.columns == group.columns])
        for group in groups
    ]


def moments_blocks(table: TableSchema) -> tuple[Block, ...]:
    """A table's layout as private moments count it."""
    blocks: list[Block] = []
    features = table.features
    for name, group in groupby(layout_of(table).blocks, key=lambda block: block.column):
        own = list(group)
        if len(own) == 2:
            blocks.append(Block("nullable", 2, n_values(features[name])))
        elif own[0].kind == "value":
            blocks.append(Block("value", 1, n_values(features[name])))
        else:
            blocks.append(Block("binary", 1) if own[0].width == 1 else Block("one-hot", own[0].width))
    return tuple(blocks)


def private_moments(privacy: Privacy, blocks: tuple[Block, ...], n_classes: int) -> Moments:
    """Private moments for the record-level guarantee that a spec asks for."""
    _refuse_beyond_sampler(privacy.epsilon, "Use a smaller epsilon")
    rule: LabelRule = "covered"
    stated = {"epsilon": privacy.epsilon, "delta": privacy.delta, "labels": rule, "distance": 1.0}
    return Moments(
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        blocks=blocks,
        n_classes=n_classes,
        data_events=(GaussianEvent(noise_multiplier=gaussian_standard_deviation(privacy.epsilon, privacy.delta, 1.0)),),
        data_guarantees=Guarantees(
            element=Guarantee.model_validate(
                stated | {"unit": "element", "neighbouring": "replace_one_cell", "proof": PART_OF_RECORD_PROOF}
            ),
            record=Guarantee.model_validate(
                stated | {"unit": "record", "neighbouring": "replace_one_record", "proof": GAUSSIAN_PROOF}
            ),
        ),
    )


def _refuse_beyond_sampler(epsilon: float, advice: str) -> None:
    """Refuse what the sampler cannot keep: its deviation adds (1 + e^epsilon) times its bias to delta."""
    if not epsilon <= LARGEST_CELL_EPSILON:
        raise RequestRefused(
            f"privacy: this would cost epsilon {epsilon:.4g} for one cell that moves by its whole range, or one "
            f"record, more than {LARGEST_CELL_EPSILON:g}; such a guarantee protects nothing, and the sampler cannot "
            f"keep it. {advice}"
        )


def label_events(spec: ReleaseSpec) -> list[Event]:
    """What is run on the label of one record."""
    return _label_events(spec.privacy, len(spec.table.classes))


def _label_events(privacy: Privacy, n_classes: int) -> list[Event]:
    if privacy.label_epsilon is None or n_classes == 1:
        return []
    try:
        LabelRandomizedResponse(privacy.label_epsilon, n_classes)
    except ValueError as error:
        raise RequestRefused(f"privacy.labels: randomised response is not possible: {error}") from None
    return [RandomizedResponseEvent(epsilon=privacy.label_epsilon, categories=n_classes)]


def _record_level(events: list[Event], privacy: Privacy, n_cells: int) -> tuple[float, float, str]:
    """The pair that a release states for a record, and how it is proved."""
    if privacy.unit == "record":
        delta = privacy.delta
        epsilon = composed_epsilon(events, delta)
    elif any(event.kind == "cell_noise" and event.law == "gaussian" for event in events):
        delta = min(0.5, n_cells * privacy.delta)
        epsilon = composed_epsilon(events, delta)
    else:
        epsilon, delta = reported_guarantee(events)
    if not math.isfinite(epsilon):
        raise RequestRefused("privacy: no record-level guarantee goes with this delta; use a larger delta")
    if all(event.kind == "cell_noise" and event.law == "gaussian" for event in events):
        return epsilon, delta, GAUSSIAN_PROOF
    tight = delta < 1 and epsilon < basic_epsilon(events, delta) * (1 - 1e-9)
    return epsilon, min(1.0, delta), TIGHT_COMPOSITION_PROOF if tight else BASIC_COMPOSITION_PROOF
