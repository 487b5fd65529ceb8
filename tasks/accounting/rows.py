"""Noise on cells for a guarantee about a whole row: one strength for all columns, found by tight composition."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from scipy.optimize import brentq

from schemas.errors import RequestRefused
from schemas.events import Event
from schemas.guarantee import ComparedMechanism
from schemas.spec import Privacy
from tasks.accounting.calibration import ATOM_FAMILIES, PRECISION, PURE_FAMILIES, calibrate_cell_noise
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.groups import Group, Part, part_events, response_for
from tasks.accounting.lattice import LATTICE_STEPS, SPACING
from tasks.noise import LabelRandomizedResponse, LatticeGaussian, LatticeNoise, law_from_parameters

__all__ = ["RECORD_FAMILIES", "optimal_weight", "parts_for_rows"]

RECORD_FAMILIES = ("dirac-laplace", "staircase", "truncated-laplace", "gaussian")
"""Laws that are compared for a whole row; others differ little from these and take long to calibrate."""

_MISSING_SHARE = 0.5
_CELL_DELTA_SHARE = 0.02  # of delta / columns, for the laws that need a delta of their own


def parts_for_rows(
    privacy: Privacy, groups: Sequence[Group], label_events: Sequence[Event]
) -> tuple[list[Part], list[ComparedMechanism]]:
    """Noise and responses that together protect a row whose every cell may change, and the families compared.

    Raises
    ------
    RequestRefused
        No law has the guarantee.
    """
    left = privacy.epsilon - (privacy.label_epsilon or 0.0)
    if left <= 0:
        raise RequestRefused(
            f"privacy: randomised response takes epsilon {privacy.label_epsilon:g} of the record's "
            f"{privacy.epsilon:g}; nothing is left for the features"
        )
    families: Sequence[str] = RECORD_FAMILIES if privacy.mechanism == "optimal" else (privacy.mechanism,)
    if all(group.form == "category" for group in groups):
        families = families[:1]  # none of them will be used
    found: list[tuple[float, list[Part]]] = []
    compared: list[ComparedMechanism] = []
    for family in families:
        try:
            parts = _calibrated(family, privacy, groups, left, label_events)
        except ValueError as error:
            compared.append(ComparedMechanism(name=family, expected_magnitude=None, reason=str(error)))
            continue
        size = expected_magnitude(parts)
        found.append((size or 0.0, parts))
        if size is not None:
            compared.append(ComparedMechanism(name=family, expected_magnitude=size))
    if not found:
        reasons = "; ".join(f"{row.name}: {row.reason}" for row in compared)
        raise RequestRefused(f"privacy: no mechanism has this guarantee ({reasons})")
    return min(found, key=lambda pair: pair[0])[1], compared


def expected_magnitude(parts: Sequence[Part]) -> float | None:
    """E|v| of a value, mean over the columns, in scaled units; None if there are only categories."""
    sizes = [(part.noise.expected_magnitude() * SPACING, len(part.columns)) for part in parts if part.what == "value"]  # type: ignore[union-attr]
    count = sum(n for _, n in sizes)
    return math.fsum(size * n for size, n in sizes) / count if count else None


def optimal_weight(group: Group) -> float:
    """The weight that makes the summed root mean square errors of all columns least, for a given cost of the row.

    With strength e a column errs by about a / e and costs about c e^2 / 2 (its mean privacy loss, of which many add
    up to a Gaussian one's mu^2 / 2). The sum of a / e for a given sum of c e^2 is least where e is in proportion to
    (a / c)^(1/3). With a = c = 1 for a value: the unary response has a = sqrt(2 k) and c = 1/2, a response between
    two has 1 and 1, and a value with an answer of half its strength, whether it is missing, has 3 and 5/4.
    """
    if group.form == "category":
        ratio = 1.0 if group.levels == 2 else 2.0 * math.sqrt(2.0 * group.levels)
    else:
        ratio = 3.0 / 1.25 if group.form == "nullable" else 1.0
    return math.cbrt(ratio)


def _calibrated(
    family: str, privacy: Privacy, groups: Sequence[Group], left: float, label_events: Sequence[Event]
) -> list[Part]:
    """The strongest parts of one family that the guarantee allows."""
    if len(groups) == 1 and groups[0].form == "value":
        columns = groups[0].columns
        return [Part(columns, "value", calibrate_cell_noise(family, left, privacy.delta, len(columns)))]
    build = partial(_at_strength, family, privacy, groups)

    def excess(log_strength: float) -> float:
        spent = composed_epsilon([*part_events(build(math.exp(log_strength))), *label_events], privacy.delta)
        return max(-50.0, min(50.0, math.log(max(spent, 1e-300)) - math.log(privacy.epsilon * (1 - 0.4 * PRECISION))))

    root = _root(excess, math.log(left / sum(len(group.columns) * group.weight for group in groups)))
    while excess(root) > math.log1p(0.4 * PRECISION):
        root -= 0.5 * PRECISION
    return build(math.exp(root))


def _root(excess: Callable[[float], float], start: float) -> float:
    """Where `excess`, which rises, is nearly 0."""
    low = high = start
    while excess(low) > 0.0:
        low -= 1.0
        if low < start - 40.0:
            raise ValueError("no strength is small enough for this guarantee")
    while excess(high) <= 0.0:
        high += 1.0
        if high > start + 40.0:
            raise ValueError("no strength is large enough for this guarantee")
    return float(brentq(excess, low, high, xtol=0.2 * PRECISION))


def _at_strength(family: str, privacy: Privacy, groups: Sequence[Group], strength: float) -> list[Part]:
    n_columns = sum(len(group.columns) for group in groups)
    parts: list[Part] = []
    for group in groups:
        epsilon = strength * group.weight
        if group.form == "category":
            parts.append(Part(group.columns, "category", response_for(epsilon, group.levels)))
            continue
        if group.form == "nullable":
            parts.append(Part(group.columns, "missing", LabelRandomizedResponse(_MISSING_SHARE * epsilon, 2)))
        parts.append(Part(group.columns, "value", _law(family, epsilon, _CELL_DELTA_SHARE * privacy.delta / n_columns)))
    return parts


def _law(family: str, epsilon: float, delta: float) -> LatticeNoise:
    if family == "gaussian":
        return LatticeGaussian(LATTICE_STEPS / epsilon, LATTICE_STEPS)
    own: dict[str, float | int] = {"epsilon": epsilon, "sensitivity": LATTICE_STEPS}
    if family not in PURE_FAMILIES:
        own["delta"] = 0.0 if family in ATOM_FAMILIES else delta
    return law_from_parameters(family, own)
