"""The declared table: every column's type and its *public* domain.

Bounds and categories are the steward's public knowledge. They are never computed from the source, since a bound
taken from the data would leak (design section 3, point 7).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StrictInt, StrictStr, Tag, field_validator, model_validator

from schemas.base import Model, Number

OutsideBounds = Literal["clip", "refuse"]
_LARGEST_BOUND = 1e100
_SMALLEST_SPAN = 1e-100


class _DeclaredColumn(Model):
    description: str = ""
    """What the column means, for people who read the release."""
    unit: str = ""
    """Unit of measurement, for people who read the release."""


class _BoundedColumn(_DeclaredColumn):
    role: Literal["feature"] = "feature"
    nullable: bool = False
    """Missing values are not supported yet, so only `false` is accepted."""
    outside_bounds: OutsideBounds | None = None
    """What to do with values outside the bounds; without it the table's rule holds."""

    @field_validator("nullable")
    @classmethod
    def _no_missing_values_yet(cls, nullable: bool) -> bool:
        if nullable:
            raise ValueError("missing values are not supported yet; use nullable: false, or role: drop")
        return nullable


class NumericColumn(_BoundedColumn):
    """A real-valued feature with public bounds."""

    type: Literal["numeric"]
    bounds: tuple[Number, Number]
    """Lowest and highest value the domain allows."""
    precision: Number | None = Field(default=None, gt=0)
    """Released values are rounded to multiples of this, in the column's own unit."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        lower, upper = self.bounds
        if not lower < upper:
            raise ValueError(f"bounds must be [lower, upper] with lower < upper, got [{lower:g}, {upper:g}]")
        largest = max(abs(lower), abs(upper))
        if largest > _LARGEST_BOUND or not _SMALLEST_SPAN <= upper - lower:
            raise ValueError("bounds must be at most 1e100 in magnitude and at least 1e-100 apart; change the unit")
        if upper - lower < largest * 2.0**-32:
            raise ValueError("bounds are too close together for their size; subtract a public offset from the column")
        if self.precision is not None and not 2.0**-50 <= self.precision / (upper - lower) <= 1:
            raise ValueError("precision must be at most the distance between the bounds, and not absurdly small")
        if self.precision is not None and self.precision < largest * 2.0**-50:
            raise ValueError("precision is finer than numbers of this size can be; use a larger one")
        return self


class IntegerColumn(_BoundedColumn):
    """A whole-number feature with public bounds."""

    type: Literal["integer"]
    bounds: tuple[StrictInt, StrictInt]
    """Lowest and highest value the domain allows, both at most 2**53 in magnitude."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        lower, upper = self.bounds
        if not lower < upper:
            raise ValueError(f"bounds must be [lower, upper] with lower < upper, got [{lower}, {upper}]")
        if max(abs(lower), abs(upper)) > 2**53:
            raise ValueError("integer bounds beyond 2**53 are not supported")
        return self


class CategoricalColumn(_DeclaredColumn):
    """A column with declared categories; in this version only the label may be one."""

    type: Literal["categorical"]
    categories: list[StrictStr] | list[StrictInt] = Field(min_length=1)
    """Every value the column may hold, all text or all whole numbers."""
    role: Literal["feature", "label"] = "feature"
    nullable: Literal[False] = False

    @field_validator("categories")
    @classmethod
    def _distinct(cls, categories: list[str] | list[int]) -> list[str] | list[int]:
        if len(set(categories)) != len(categories):
            raise ValueError("categories must differ from each other")
        if any(isinstance(category, str) and category != category.strip() for category in categories):
            raise ValueError("categories must not begin or end with spaces; spaces around cells are ignored")
        if any(isinstance(category, int) and abs(category) > 2**53 for category in categories):
            raise ValueError("whole-number categories beyond 2**53 are not supported; use text")
        return categories


class DroppedColumn(_DeclaredColumn):
    """A column of the source that no later step sees; its type does not matter."""

    role: Literal["drop"]
    type: str | None = None
    nullable: bool = True


def _column_kind(column: Any) -> str | None:
    role, kind = (
        (column.get("role"), column.get("type"))
        if isinstance(column, Mapping)
        else (getattr(column, "role", None), getattr(column, "type", None))
    )
    return "drop" if role == "drop" else kind


Column = Annotated[
    Annotated[NumericColumn, Tag("numeric")]
    | Annotated[IntegerColumn, Tag("integer")]
    | Annotated[CategoricalColumn, Tag("categorical")]
    | Annotated[DroppedColumn, Tag("drop")],
    Discriminator(
        _column_kind,
        custom_error_type="column_type",
        custom_error_message="a column needs `type: numeric`, `integer` or `categorical`, or `role: drop`",
    ),
]


class TableSchema(Model):
    """The columns of the source in the order in which they are released, and which of them is the label."""

    label: str
    """Name of the label, a categorical column."""
    columns: dict[str, Column] = Field(min_length=2)
    """Each column of the source by name. A column that is in the source and not here is an error."""
    outside_bounds: OutsideBounds = "clip"
    """What to do with values outside their bounds: `clip` them and count them, or `refuse` the source."""

    @model_validator(mode="after")
    def _label_and_features(self) -> Self:
        if any(not name.strip() for name in self.columns):
            raise ValueError("a column needs a name")
        if self.label not in self.columns:
            raise ValueError(f"label `{self.label}` is not among the columns; declare it as a categorical column")
        if not isinstance(self.columns[self.label], CategoricalColumn):
            raise ValueError(f"label `{self.label}` must be a categorical column with its categories listed")
        for name, column in self.columns.items():
            if isinstance(column, CategoricalColumn) and name != self.label:
                raise ValueError(
                    f"column `{name}`: categorical features are not supported yet; "
                    "only the label may be categorical. Use role: drop"
                )
        if not self.features:
            raise ValueError("at least one numeric or integer feature is needed")
        return self

    @property
    def features(self) -> dict[str, NumericColumn | IntegerColumn]:
        """The columns that are perturbed and fabricated, in order."""
        return {
            name: column for name, column in self.columns.items() if isinstance(column, NumericColumn | IntegerColumn)
        }

    @property
    def label_column(self) -> CategoricalColumn:
        """The label's declaration."""
        column = self.columns[self.label]
        assert isinstance(column, CategoricalColumn)
        return column

    @property
    def released(self) -> list[str]:
        """Names of the released columns (features and label), in declared order."""
        return [name for name, column in self.columns.items() if not isinstance(column, DroppedColumn)]

    def refuses_outside(self, name: str) -> bool:
        """Whether a value of feature `name` outside its bounds refuses the source."""
        return (self.features[name].outside_bounds or self.outside_bounds) == "refuse"
