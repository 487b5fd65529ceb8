"""Public constraints between columns: what every row of the source must obey, and every released row will."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, StrictBool, StrictInt, StrictStr, Tag, model_validator

from schemas.base import Model, Number

Violated = Literal["refuse", "allow"]


class _Constraint(Model):
    violated: Violated = "refuse"
    """What rows of the source that break it do: `refuse` the source, or are allowed and counted."""


class AtMost(_Constraint):
    """The first column is at most the second."""

    at_most: tuple[str, str]
    """Two number columns, two date or datetime columns, or two ordinal columns with the same categories."""

    @property
    def columns(self) -> list[str]:
        """The columns it is about."""
        return list(self.at_most)


class SumsTo(_Constraint):
    """The sum of some number columns is another one."""

    sum: list[str] = Field(min_length=2)
    equals: str

    @property
    def columns(self) -> list[str]:
        """The columns it is about."""
        return [*self.sum, self.equals]


class Range(Model):
    """Values between two ends, both included; one may be left out."""

    at_least: Number | None = None
    at_most: Number | None = None

    @model_validator(mode="after")
    def _some_end(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a range needs `at_least`, `at_most` or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("`at_least` must not be above `at_most`")
        return self


Condition = Annotated[
    Annotated[list[StrictBool | StrictInt | StrictStr], Field(min_length=1), Tag("values")]
    | Annotated[Range, Tag("range")],
    Discriminator(
        lambda value: "values" if isinstance(value, list | tuple) else "range",
    ),
]
"""A list of categories, or a range of numbers."""


class Implies(_Constraint):
    """Where all conditions on the left hold, all those on the right do."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    if_: dict[str, Condition] = Field(alias="if", min_length=1)
    then: dict[str, Condition] = Field(min_length=1)

    @property
    def columns(self) -> list[str]:
        """The columns it is about."""
        return [*self.if_, *self.then]


def _kind(value: Any) -> str | None:
    keys = set(value) if isinstance(value, Mapping) else set(vars(value)) if isinstance(value, Model) else set()
    for key, kind in (("at_most", "at_most"), ("sum", "sum"), ("equals", "sum"), ("if", "if"), ("if_", "if"), ("then", "if")):  # noqa: E501 # fmt: skip
        if key in keys:
            return kind
    return None


Constraint = Annotated[
    Annotated[AtMost, Tag("at_most")] | Annotated[SumsTo, Tag("sum")] | Annotated[Implies, Tag("if")],
    Discriminator(
        _kind,
        custom_error_type="constraint_kind",
        custom_error_message="a constraint is {at_most: [a, b]}, {sum: [a, b], equals: c} or {if: {a: [x]}, then: "
        "{b: [y]}}",
    ),
]
