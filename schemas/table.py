"""The declared table: its columns in order, which of them is the label, and what its rows obey."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from schemas.base import Model
from schemas.columns import (
    BooleanColumn,
    BoundedColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    DatetimeColumn,
    DroppedColumn,
    FeatureColumn,
    IdentifierColumn,
    LevelColumn,
    OrdinalColumn,
    OutsideBounds,
    is_plain_text,
)
from schemas.constraints import AtMost, Condition, Constraint, Implies, Range, SumsTo
from schemas.domains import with_domain


class TableSchema(Model):
    """The columns of the source in the order in which they are released, and which of them is the label."""

    label: str
    """Name of the label, a categorical, ordinal or boolean column."""
    columns: dict[str, Column] = Field(min_length=2)
    """Each column of the source by name. A column that is in the source and not here is an error."""
    outside_bounds: OutsideBounds = "clip"
    """What to do with values outside their bounds: `clip` them and count them, or `refuse` the source."""
    missing_values: list[StrictStr] = Field(default_factory=list)
    """Texts that stand for a missing value, such as `?` or `NA`, besides an empty cell; in upper or lower case. A
    column of which such a text is a declared category keeps it."""
    rows: StrictInt | None = Field(default=None, ge=1)
    """About how many rows the source has. The row count is public; with it a plan can tell what a release will be
    good for."""
    constraints: list[Constraint] = Field(default_factory=list)
    """What every row obeys."""

    @field_validator("columns", mode="before")
    @classmethod
    def _domains(cls, columns: Any) -> Any:
        if not isinstance(columns, Mapping):
            return columns
        filled = {}
        for name, column in columns.items():
            try:
                filled[name] = with_domain(column)
            except ValueError as error:
                raise ValueError(f"column `{name}`: {error}") from None
        return filled

    @model_validator(mode="after")
    def _label_and_features(self) -> Self:
        if any(not name.strip() for name in self.columns):
            raise ValueError("a column needs a name")
        if not all(map(is_plain_text, self.columns)):
            raise ValueError("names of columns must not hold halves of characters (lone surrogates)")
        if self.label not in self.columns:
            raise ValueError(
                f"label `{self.label}` is not among the columns; declare it as a categorical, ordinal or boolean column"
            )
        label = self.columns[self.label]
        if not isinstance(label, CategoricalColumn | OrdinalColumn | BooleanColumn) or label.role == "public":
            raise ValueError(
                f"label `{self.label}` must be a categorical column with its categories listed, or an ordinal or "
                "boolean one; it has no role of its own"
            )
        if label.nullable:
            raise ValueError(
                f"label `{self.label}` cannot be nullable; remove rows without one, or fill them with a category"
            )
        for name, column in self.columns.items():
            if column.role == "label" and name != self.label:
                raise ValueError(f"column `{name}`: role label is for `{self.label}` only, which `label` names")
        if not any(_possible_values(column) > 1 for column in self.features.values()):
            raise ValueError("at least one feature is needed that may have more than one value")
        return self

    @model_validator(mode="after")
    def _constraints_fit(self) -> Self:
        for number, constraint in enumerate(self.constraints, start=1):
            try:
                self._check_constraint(constraint)
            except ValueError as error:
                raise ValueError(f"constraint {number}: {error}") from None
        return self

    def _check_constraint(self, constraint: Constraint) -> None:
        for name in constraint.columns:
            if name not in self.columns:
                raise ValueError(f"column `{name}` is not among the columns")
            if isinstance(self.columns[name], DroppedColumn | IdentifierColumn):
                raise ValueError(f"column `{name}` is not released as it is in the source")
        given = constraint.if_ if isinstance(constraint, Implies) else {}
        for name in constraint.columns:
            if name not in self.features and name not in given:
                raise ValueError(f"column `{name}` is public or the label; such a column may only stand under `if`")
        if len(set(constraint.columns)) != len(constraint.columns):
            raise ValueError("a column may stand in it only once")
        match constraint:
            case AtMost(at_most=(first, second)):
                _check_comparable(self.columns[first], self.columns[second])
            case SumsTo():
                for name in constraint.columns:
                    if self.columns[name].type not in {"numeric", "integer"}:
                        raise ValueError(f"column `{name}` is not a number column")
            case Implies():
                for name, condition in [*constraint.if_.items(), *constraint.then.items()]:
                    _check_condition(name, self.columns[name], condition)

    @property
    def features(self) -> dict[str, FeatureColumn]:
        """The columns that are perturbed and fabricated, in order."""
        return {
            name: column
            for name, column in self.columns.items()
            if not isinstance(column, DroppedColumn | IdentifierColumn)
            and name != self.label
            and column.role == "feature"
        }

    @property
    def public(self) -> dict[str, FeatureColumn]:
        """The columns that are released as they are, because everybody knows them, in order."""
        return {
            name: column
            for name, column in self.columns.items()
            if not isinstance(column, DroppedColumn | IdentifierColumn) and column.role == "public"
        }

    @property
    def label_column(self) -> LevelColumn:
        """The label's declaration."""
        column = self.columns[self.label]
        assert isinstance(column, CategoricalColumn | OrdinalColumn | BooleanColumn)
        return column

    @property
    def classes(self) -> list[str] | list[int] | list[bool]:
        """Every value of the label."""
        return self.label_column.levels

    @property
    def released(self) -> list[str]:
        """Names of the released columns, in declared order."""
        return [name for name, column in self.columns.items() if not isinstance(column, DroppedColumn)]

    @property
    def read(self) -> list[str]:
        """Names of the columns of the source that are read, in declared order."""
        return [name for name in self.released if not isinstance(self.columns[name], IdentifierColumn)]

    def refuses_outside(self, name: str) -> bool:
        """Whether a value of a column outside its bounds refuses the source."""
        own = getattr(self.columns[name], "outside_bounds", None)
        return (own or self.outside_bounds) == "refuse"


def _possible_values(column: FeatureColumn) -> int:
    """How many values a cell may have, missing as one; 2 stands for all that have bounds."""
    if isinstance(column, CategoricalColumn | OrdinalColumn | BooleanColumn):
        return len(column.levels) + column.nullable
    return 2


def _check_comparable(first: Any, second: Any) -> None:
    kinds = {first.type, second.type}
    if isinstance(first, OrdinalColumn) and isinstance(second, OrdinalColumn):
        if first.categories != second.categories:
            raise ValueError("ordinal columns can be compared only if they have the same categories")
        return
    if kinds <= {"numeric", "integer"}:
        return
    if isinstance(first, DateColumn) and isinstance(second, DateColumn):
        return
    if isinstance(first, DatetimeColumn) and isinstance(second, DatetimeColumn) and first.timezone == second.timezone:
        return
    raise ValueError(
        "`at_most` compares two number columns, two date columns, two datetime columns of one time zone, or two "
        "ordinal columns"
    )


def _check_condition(name: str, column: Any, condition: Condition) -> None:
    if isinstance(condition, Range):
        if column.type not in {"numeric", "integer"}:
            raise ValueError(f"column `{name}`: a range is for number columns; list the categories instead")
        lower, upper = column.bounds
        ends = (lower if condition.at_least is None else condition.at_least,
                upper if condition.at_most is None else condition.at_most)  # fmt: skip
        if ends[0] > upper or ends[1] < lower:
            raise ValueError(f"column `{name}`: the range lies outside the column's bounds")
    elif isinstance(column, BoundedColumn):
        raise ValueError(f"column `{name}`: a list of values is for categorical, ordinal and boolean columns; give a "
                         "range such as {at_least: 0}")  # fmt: skip
    elif unknown := [value for value in condition if value not in column.levels or type(value) is not type(column.levels[0])]:  # noqa: E501 # fmt: skip
        raise ValueError(f"column `{name}`: {len(unknown)} of the listed values are not among its categories")
