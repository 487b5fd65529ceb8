"""From a spec's privacy section to the mechanism, and from the mechanism to the guarantees at both units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from schemas.errors import RequestRefused
from schemas.events import Event, GaussianEvent, RandomizedResponseEvent
from schemas.guarantee import (
    BASIC_COMPOSITION_PROOF,
    ELEMENT_PROOF,
    GAUSSIAN_PROOF,
    PART_OF_RECORD_PROOF,
    TIGHT_COMPOSITION_PROOF,
    ComparedMechanism,
    Guarantee,
    Guarantees,
    LabelRule,
    MechanismRecord,
)
from schemas.spec import Privacy, ReleaseSpec
from tasks.accounting.calibration import calibrate_cell_noise, cell_noise_event
from tasks.accounting.composition import basic_epsilon, composed_epsilon
from tasks.accounting.lattice import LATTICE_STEPS, SPACING, lattice_distance
from tasks.accounting.record_level import reported_guarantee
from tasks.noise import (
    LabelRandomizedResponse,
    LatticeNoise,
    PrivateMoments,
    comparison,
    gaussian_standard_deviation,
    optimal_on_lattice,
)

LARGEST_CELL_EPSILON = 40.0
"""Up to here what is drawn keeps the law's guarantee but for less than 1e-17 of delta per value (bias below 2^-116)."""
UNBOUNDED = ("dirac-staircase", "dirac-laplace", "staircase", "gaussian")
"""Laws that give some guarantee at any distance. With a distance below the range, others may leave a whole row none."""
RECORD_FAMILIES = ("dirac-laplace", "staircase", "truncated-laplace", "gaussian")
"""Laws that are compared for a whole row; others differ little from these and take long to calibrate."""


@dataclass(frozen=True)
class CellNoise:
    """Independent integer noise on every feature cell, and perhaps randomised response on the label.

    Attributes
    ----------
    law : LatticeNoise
        In lattice steps.
    compared : tuple of ComparedMechanism
    label_epsilon : float or None
        Epsilon of randomised response on the label.
    n_classes : int
    guarantees : Guarantees
    events : tuple of Event
        What is run on one record.
    """

    law: LatticeNoise
    compared: tuple[ComparedMechanism, ...]
    label_epsilon: float | None
    n_classes: int
    guarantees: Guarantees
    events: tuple[Event, ...]

    @property
    def name(self) -> str:
        """The law's name."""
        return self.law.name

    @property
    def unperturbed_share(self) -> float:
        """Probability that a cell gets no noise by the law's atom."""
        return self.law.atom

    def record(self, cells: int | None) -> MechanismRecord:
        """The mechanism as plans, manifests and reports state it, for a table of `cells` cells if that is known."""
        return MechanismRecord(
            name=self.name,
            compared=list(self.compared),
            parameters={**self.law.parameters(), "spacing": SPACING, "sampling_bias": self.law.sampling_bias},
            expected_magnitude=self.law.expected_magnitude() * SPACING,
            expected_unperturbed_cells=None if cells is None else cells * self.law.atom,
            events=list(self.events),
        )


@dataclass(frozen=True)
class Moments:
    """Rows drawn from noisy moments; protects whole records, labels included.

    Attributes
    ----------
    epsilon, delta : float
    n_features, n_classes : int
    guarantees : Guarantees
    events : tuple of Event
    """

    epsilon: float
    delta: float
    n_features: int
    n_classes: int
    guarantees: Guarantees
    events: tuple[Event, ...]
    name = "private-moments"
    unperturbed_share = 0.0

    def for_rows(self, n_rows: int) -> PrivateMoments:
        """The mechanism for a public number of rows.

        Raises
        ------
        RequestRefused
            There is none for these numbers.
        """
        try:
            return PrivateMoments(self.epsilon, self.delta, self.n_features, self.n_classes, n_rows)
        except ValueError as error:
            raise RequestRefused(
                f"mechanism private-moments: not possible for {n_rows} rows, {self.n_features} columns, epsilon "
                f"{self.epsilon:g} and delta {self.delta:g} ({error}); use a larger epsilon or delta"
            ) from None

    def record(self, cells: int | None) -> MechanismRecord:
        """The mechanism as plans, manifests and reports state it."""
        parameters: dict[str, float | int | bool] = {"epsilon": self.epsilon, "delta": self.delta}
        if cells is not None:
            parameters |= self.for_rows(cells // self.n_features).parameters()
        return MechanismRecord(
            name=self.name,
            compared=[ComparedMechanism(name=self.name, expected_magnitude=None, reason="puts no noise on cells")],
            parameters=parameters,
            expected_magnitude=None,
            expected_unperturbed_cells=None if cells is None else 0.0,
            events=list(self.events),
        )


Mechanism = CellNoise | Moments


def mechanism_of(spec: ReleaseSpec) -> Mechanism:
    """The mechanism that a spec asks for.

    Raises
    ------
    RequestRefused
        There is none for the wanted guarantee; the text says why.
    """
    n_features, n_classes = len(spec.table.features), len(spec.table.label_column.categories)
    if spec.privacy.mechanism == "private-moments":
        return private_moments(spec.privacy, n_features, n_classes)
    return cell_noise(spec.privacy, n_features, n_classes)


@lru_cache(maxsize=32)
def cell_noise(privacy: Privacy, n_features: int, n_classes: int = 2) -> CellNoise:
    """Noise on every cell for the guarantee that a spec asks for.

    Parameters
    ----------
    privacy : Privacy
        For `unit: element`, epsilon and delta are those of one cell that moves by at most `distance`; for
        `unit: record` the law is calibrated so that a row of `n_features` cells, each moving by its whole range, gets
        them by tight composition; randomised response on the label takes its epsilon of the record's.
    n_features, n_classes : int
        Cells of a row, and declared classes.

    Returns
    -------
    CellNoise

    Raises
    ------
    RequestRefused
        No law of the family has the wanted guarantee.

    Notes
    -----
    Element level: neighbours differ in one cell by at most D lattice steps, D from `lattice_distance`. The law's own
    delta at epsilon is claimed, rounded upwards.

    Record level: a whole row is replaced, so each of its cells may move by the full range. The privacy losses of its
    cells, and of its label, are composed by their distributions; the result is never looser than basic composition.
    """
    label_rule: LabelRule = "public" if privacy.label_epsilon is None else "randomized_response"
    if privacy.unit == "record":
        law, compared = _law_for_records(privacy, n_features)
        distance = LATTICE_STEPS
        element_delta = privacy.delta / n_features
        element_epsilon = composed_epsilon([cell_noise_event(law, LATTICE_STEPS)], element_delta)
    else:
        distance = lattice_distance(privacy.distance)
        law, compared = _law_for_cells(privacy, distance)
        element_epsilon, element_delta = privacy.epsilon, law.delta_at(privacy.epsilon)
    advice = "Use a smaller epsilon" + (", or a larger distance" if privacy.distance < 1 else "")
    _refuse_beyond_sampler(_full_range_epsilon(law, element_epsilon, privacy.delta, distance), advice)
    events: list[Event] = [cell_noise_event(law, LATTICE_STEPS, n_features), *_label_events(privacy, n_classes)]
    record_epsilon, record_delta, proof = _record_level(events, privacy, n_features)
    return CellNoise(
        law=law,
        compared=tuple(compared),
        label_epsilon=privacy.label_epsilon,
        n_classes=n_classes,
        events=tuple(events),
        guarantees=Guarantees(
            element=Guarantee(
                unit="element",
                epsilon=element_epsilon,
                delta=element_delta,
                distance=privacy.distance,  # not above the whole number of steps that the law is for
                neighbouring="replace_one_cell",
                labels=label_rule,
                label_epsilon=privacy.label_epsilon,
                proof=ELEMENT_PROOF,
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


def private_moments(privacy: Privacy, n_features: int, n_classes: int) -> Moments:
    """Private moments for the record-level guarantee that a spec asks for."""
    _refuse_beyond_sampler(privacy.epsilon, "Use a smaller epsilon")
    rule: LabelRule = "covered"
    stated = {"epsilon": privacy.epsilon, "delta": privacy.delta, "labels": rule, "distance": 1.0}
    return Moments(
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        n_features=n_features,
        n_classes=n_classes,
        events=(GaussianEvent(noise_multiplier=gaussian_standard_deviation(privacy.epsilon, privacy.delta, 1.0)),),
        guarantees=Guarantees(
            element=Guarantee.model_validate(
                stated | {"unit": "element", "neighbouring": "replace_one_cell", "proof": PART_OF_RECORD_PROOF}
            ),
            record=Guarantee.model_validate(
                stated | {"unit": "record", "neighbouring": "replace_one_record", "proof": GAUSSIAN_PROOF}
            ),
        ),
    )


def _full_range_epsilon(law: LatticeNoise, epsilon: float, delta: float, distance: int) -> float:
    """What one cell costs that moves by its whole range instead of by `distance` steps."""
    if law.name == "gaussian":
        return composed_epsilon([cell_noise_event(law, LATTICE_STEPS)], delta)
    return epsilon * LATTICE_STEPS / distance


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
    return _label_events(spec.privacy, len(spec.table.label_column.categories))


def _label_events(privacy: Privacy, n_classes: int) -> list[Event]:
    if privacy.label_epsilon is None or n_classes == 1:
        return []
    try:
        LabelRandomizedResponse(privacy.label_epsilon, n_classes)
    except ValueError as error:
        raise RequestRefused(f"privacy.labels: randomised response is not possible: {error}") from None
    return [RandomizedResponseEvent(epsilon=privacy.label_epsilon, categories=n_classes)]


def _law_for_cells(privacy: Privacy, distance: int) -> tuple[LatticeNoise, list[ComparedMechanism]]:
    names: Sequence[str] | None = None if privacy.mechanism == "optimal" else [privacy.mechanism]
    if privacy.mechanism == "optimal" and privacy.distance < 1:
        names = UNBOUNDED
    try:
        law = optimal_on_lattice(privacy.epsilon, privacy.delta, distance, names)
    except ValueError as error:
        raise RequestRefused(f"privacy: {error}") from None
    return law, [
        ComparedMechanism(
            name=row.name,
            expected_magnitude=None if row.expected_magnitude is None else row.expected_magnitude * SPACING,
            reason=row.reason or "",
        )
        for row in comparison(
            privacy.epsilon, privacy.delta, distance, names if privacy.mechanism == "optimal" else None
        )
    ]


def _law_for_records(privacy: Privacy, n_features: int) -> tuple[LatticeNoise, list[ComparedMechanism]]:
    families: Sequence[str] = RECORD_FAMILIES if privacy.mechanism == "optimal" else [privacy.mechanism]
    epsilon = privacy.epsilon - (privacy.label_epsilon or 0.0)
    if epsilon <= 0:
        raise RequestRefused(
            f"privacy: randomised response takes epsilon {privacy.label_epsilon:g} of the record's "
            f"{privacy.epsilon:g}; nothing is left for the features"
        )
    laws: list[LatticeNoise] = []
    compared: list[ComparedMechanism] = []
    for family in families:
        try:
            law: LatticeNoise = calibrate_cell_noise(family, epsilon, privacy.delta, n_features)
        except ValueError as error:
            compared.append(ComparedMechanism(name=family, expected_magnitude=None, reason=str(error)))
            continue
        laws.append(law)
        compared.append(ComparedMechanism(name=family, expected_magnitude=law.expected_magnitude() * SPACING))
    if not laws:
        reasons = "; ".join(f"{row.name}: {row.reason}" for row in compared)
        raise RequestRefused(f"privacy: no mechanism has this guarantee ({reasons})")
    return min(laws, key=lambda law: law.expected_magnitude()), compared


def _record_level(events: list[Event], privacy: Privacy, n_features: int) -> tuple[float, float, str]:
    """The pair that a release states for a record, and how it is proved."""
    if privacy.unit == "record":
        delta = privacy.delta
        epsilon = composed_epsilon(events, delta)
    elif any(event.kind == "cell_noise" and event.law == "gaussian" for event in events):
        delta = min(0.5, n_features * privacy.delta)
        epsilon = composed_epsilon(events, delta)
    else:
        epsilon, delta = reported_guarantee(events)
    if not math.isfinite(epsilon):
        raise RequestRefused("privacy: no record-level guarantee goes with this delta; use a larger delta")
    if all(event.kind == "cell_noise" and event.law == "gaussian" for event in events):
        return epsilon, delta, GAUSSIAN_PROOF
    tight = delta < 1 and epsilon < basic_epsilon(events, delta) * (1 - 1e-9)
    return epsilon, min(1.0, delta), TIGHT_COMPOSITION_PROOF if tight else BASIC_COMPOSITION_PROOF
