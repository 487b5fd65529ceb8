"""Columns that are protected alike, and what protects one cell of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from schemas.columns import OrdinalColumn
from schemas.events import Event, RandomizedResponseEvent
from schemas.guarantee import MechanismPart
from schemas.spec import Weights
from schemas.table import TableSchema
from tasks.accounting.calibration import cell_noise_event
from tasks.accounting.composition import composed_epsilon
from tasks.accounting.lattice import LATTICE_STEPS, SPACING
from tasks.columns.layout import BlockKind, layout_of
from tasks.noise import LabelRandomizedResponse, LatticeNoise, UnaryRandomizedResponse

__all__ = ["Group", "Part", "groups_of", "nullable_epsilons", "part_events", "plain", "response_for"]

CategoryResponse = LabelRandomizedResponse | UnaryRandomizedResponse

HALF_RANGE = LATTICE_STEPS // 2
"""How far the coordinate of a value moves at most when the value goes missing, since the fill is in the middle."""

_SHARE_OF_MISSING = 0.4


@dataclass(frozen=True)
class Group:
    """Features with the same form and the same weight.

    Attributes
    ----------
    form : {"value", "nullable", "category"}
        `nullable` is a value that may be missing.
    levels : int
        Possibilities of a category.
    any_change : bool
        Whether the guarantee is about any change of the cell, whatever the spec's `distance` is: so it is for
        categories, ordered ones included, for values that may be missing, and for logarithmic columns, where a part
        of the range is no distance that people mean.
    weight : float
    columns : tuple of str
    """

    form: Literal["value", "nullable", "category"]
    levels: int
    any_change: bool
    weight: float
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What is run on some columns.

    Attributes
    ----------
    columns : tuple of str
    what : {"value", "category", "missing"}
    noise : lattice law or response
    """

    columns: tuple[str, ...]
    what: BlockKind
    noise: LatticeNoise | CategoryResponse

    @property
    def atom(self) -> float:
        """Probability that a value gets no noise by the law's atom; 0 for categories."""
        return 0.0 if isinstance(self.noise, CategoryResponse) else self.noise.atom

    def record(self) -> MechanismPart:
        """The part as manifests state it."""
        if isinstance(self.noise, CategoryResponse):
            return MechanismPart(
                columns=list(self.columns),
                what=self.what,
                name=self.noise.name,
                parameters={"epsilon": self.noise.epsilon, "n_categories": self.noise.n_categories},
                change_probability=self.noise.change_probability,
            )
        return MechanismPart(
            columns=list(self.columns),
            what=self.what,
            name=self.noise.name,
            parameters=dict(self.noise.parameters()),
            expected_magnitude=self.noise.expected_magnitude() * SPACING,
        )


def plain(n_features: int) -> tuple[Group, ...]:
    """Numbered columns of plain values."""
    return (Group("value", 0, False, 1.0, tuple(f"f{i}" for i in range(n_features))),)


def groups_of(table: TableSchema, split: str | Weights = "equal") -> tuple[Group, ...]:
    """The features of a table, grouped; those with a single possible value are in no group."""
    layout, features = layout_of(table), table.features
    weights = split.weights if isinstance(split, Weights) else {}
    found: dict[tuple[str, int, bool, float], list[str]] = {}
    blocks: dict[str, list[tuple[BlockKind, int]]] = {}
    for block in layout.blocks:
        blocks.setdefault(block.column, []).append((block.kind, block.levels))
    for name, own in blocks.items():
        kinds = [kind for kind, _ in own]
        form = "category" if "value" not in kinds else "nullable" if len(kinds) == 2 else "value"
        column = features[name]
        logarithmic = getattr(column, "log_offset", None) is not None
        any_change = form != "value" or isinstance(column, OrdinalColumn) or logarithmic
        levels = own[0][1] if form == "category" else 0
        found.setdefault((form, levels, any_change, weights.get(name, 1.0)), []).append(name)
    return tuple(
        Group(form, levels, any_change, weight, tuple(columns))  # type: ignore[arg-type]
        for (form, levels, any_change, weight), columns in found.items()
    )


@lru_cache(maxsize=1024)
def response_for(epsilon: float, levels: int) -> CategoryResponse:
    """The response whose estimates have the smaller variance (Wang et al. 2017: the unary one for k > 3 e^eps + 2)."""
    plain_response = LabelRandomizedResponse(epsilon, levels)
    if levels == 2:
        return plain_response
    unary = UnaryRandomizedResponse(epsilon, levels)
    return unary if unary.estimate_variance < plain_response.estimate_variance else plain_response


def response_event(response: CategoryResponse, count: int) -> RandomizedResponseEvent:
    """The event of a response in one record.

    For k-ary randomised response the loss epsilon has probability 1 / (1 + (k - 1) e^-epsilon); the unary one has
    1 / (2 + 2 e^-epsilon), which is at most that of a k-ary one with k - 1 = floor(e^epsilon) + 2.
    """
    categories = response.n_categories
    if isinstance(response, UnaryRandomizedResponse):
        categories = math.floor(math.exp(response.epsilon)) + 3
    return RandomizedResponseEvent(epsilon=response.epsilon, categories=categories, count=count)


def part_events(parts: Sequence[Part]) -> list[Event]:
    """What is run on the features of one record; a value that may be missing counts with both of its parts.

    Columns' cells may move over their whole range.
    """
    return [
        response_event(part.noise, len(part.columns))
        if isinstance(part.noise, CategoryResponse)
        else cell_noise_event(part.noise, LATTICE_STEPS, len(part.columns))
        for part in parts
    ]


def nullable_epsilons(law: LatticeNoise, epsilon: float, delta: float) -> float:
    """What is left of a cell's epsilon for the answer whether its value is missing.

    A cell changes from value to value: only the noise tells, as `law` has it for the whole range. Or it goes missing:
    the noise tells a change by half the range, which costs e at delta, and the answer tells the rest, epsilon - e
    (basic composition; Dwork, Roth 2014, theorem 3.16). At most 0 if nothing is left.
    """
    return epsilon - composed_epsilon([cell_noise_event(law, HALF_RANGE)], delta)


def nullable_parts(
    columns: tuple[str, ...], laws: Sequence[LatticeNoise], epsilon: float, delta: float
) -> tuple[Part, Part] | None:
    """The noise and the answer of values that may be missing: the first law that leaves the answer enough.

    Parameters
    ----------
    columns : tuple of str
    laws : sequence of lattice laws
        In falling epsilon.
    epsilon, delta : float
        What any change of one cell may cost.
    """
    for law in laws:
        left = nullable_epsilons(law, epsilon, delta)
        if left >= _SHARE_OF_MISSING * epsilon:
            return Part(columns, "missing", LabelRandomizedResponse(left, 2)), Part(columns, "value", law)
    return None
