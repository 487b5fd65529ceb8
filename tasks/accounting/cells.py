"""What protects one cell of each group of columns, for a guarantee about single cells."""

from collections.abc import Sequence

from schemas.errors import RequestRefused
from schemas.guarantee import ComparedMechanism
from schemas.spec import Privacy
from tasks.accounting.calibration import cell_noise_event
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.groups import Group, Part, nullable_parts, response_for
from tasks.accounting.lattice import LATTICE_STEPS, SPACING, lattice_distance
from tasks.noise import LatticeNoise, comparison, optimal_on_lattice

__all__ = ["full_range_epsilon", "parts_for_cells"]

UNBOUNDED = ("dirac-staircase", "dirac-laplace", "staircase", "gaussian")
"""Laws that give some guarantee at any distance. With a distance below the range, others may leave a whole row none."""

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Parts of a cell's epsilon that its value may get if it may be missing."""


def parts_for_cells(privacy: Privacy, groups: Sequence[Group]) -> tuple[list[Part], list[ComparedMechanism], float]:
    """Noise and responses for (epsilon, delta) of one cell, the laws compared, and the delta that is really needed.

    Raises
    ------
    RequestRefused
        No law of the family has the guarantee.
    """
    heaviest = max(group.weight for group in groups)
    parts: list[Part] = []
    compared: list[ComparedMechanism] = []
    delta = 0.0
    for group in groups:
        epsilon = privacy.epsilon * (group.weight / heaviest)
        distance = LATTICE_STEPS if group.any_change else lattice_distance(privacy.distance)
        try:
            match group.form:
                case "category":
                    parts.append(Part(group.columns, "category", response_for(epsilon, group.levels)))
                case "value":
                    names = _names(privacy, distance)
                    law = optimal_on_lattice(epsilon, privacy.delta, distance, names)
                    parts.append(Part(group.columns, "value", law))
                    delta = max(delta, law.delta_at(epsilon, distance))
                    compared = compared or _compared(privacy, epsilon, distance)
                case _:
                    parts += _nullable(privacy, group, epsilon)
                    delta = privacy.delta
        except ValueError as error:
            raise RequestRefused(f"privacy: {error}") from None
    return parts, compared, delta


def full_range_epsilon(privacy: Privacy, part: Part) -> float:
    """About what one value costs that moves by its whole range instead of by the spec's `distance`."""
    law = part.noise
    assert part.what == "value"
    if law.name == "gaussian":
        return composed_epsilon([cell_noise_event(law, LATTICE_STEPS)], privacy.delta)  # type: ignore[arg-type]
    return privacy.epsilon * LATTICE_STEPS / law.sensitivity  # type: ignore[union-attr]


def _names(privacy: Privacy, distance: int) -> Sequence[str] | None:
    if privacy.mechanism != "optimal":
        return [privacy.mechanism]
    return UNBOUNDED if distance < LATTICE_STEPS else None


def _compared(privacy: Privacy, epsilon: float, distance: int) -> list[ComparedMechanism]:
    names = _names(privacy, distance) if privacy.mechanism == "optimal" else None
    return [
        ComparedMechanism(
            name=row.name,
            expected_magnitude=None if row.expected_magnitude is None else row.expected_magnitude * SPACING,
            reason=row.reason or "",
        )
        for row in comparison(epsilon, privacy.delta, distance, names)
    ]


def _nullable(privacy: Privacy, group: Group, epsilon: float) -> tuple[Part, Part]:
    """The parts with the least noise on the value, over the families and the shares that its value may get."""
    families = UNBOUNDED if privacy.mechanism == "optimal" else (privacy.mechanism,)
    found: list[tuple[Part, Part]] = []
    reasons: list[str] = []
    for family in families:
        laws: list[LatticeNoise] = []
        for share in _SHARES:
            try:
                laws.append(optimal_on_lattice(share * epsilon, privacy.delta, LATTICE_STEPS, [family]))
            except ValueError as error:
                reasons.append(str(error))
        parts = nullable_parts(group.columns, laws, epsilon, privacy.delta)
        if parts is not None:
            found.append(parts)
    if not found:
        reason = reasons[0] if reasons else "the noise leaves nothing for the answer whether a value is missing"
        raise ValueError(f"columns that may be missing: {reason}; use mechanism: optimal or dirac-laplace")
    return min(found, key=lambda parts: parts[1].noise.expected_magnitude())  # type: ignore[union-attr]
