"""Column declarations: each column's type, its role, and its *public* domain.

Bounds and categories are the steward's public knowledge. They are never computed from the source, since a bound
taken from the data would leak (design section 3, point 7).
"""

import math
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)

from schemas.base import Model, Number

OutsideBounds = Literal["clip", "refuse"]
DateResolution = Literal["day", "month", "year"]
DatetimeResolution = Literal["second", "minute", "hour", "day"]

_LARGEST_BOUND = 1e100
_SMALLEST_SPAN = 1e-100
_MOST_CATEGORIES = 65_000
_NO_PLACES = {"Factory", "localtime", "posixrules"}
"""Names that Python lists beside the time zones; other tools do not know them, or they differ by machine."""
_FIRST_IN_A_ZONE, _LAST_IN_A_ZONE = datetime(1, 1, 2), datetime(9999, 12, 31)
"""Between these every offset from UTC leads to a year from 1 to 9999."""


def _iso_date(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError("write a date as 2020-01-31") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise ValueError("write a date as 2020-01-31")


def _iso_datetime(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("write a date and time as 2020-01-31T12:00:00") from None
    if not isinstance(value, datetime):
        raise ValueError("write a date and time as 2020-01-31T12:00:00")
    if value.tzinfo is not None:
        raise ValueError("write bounds without an offset: they are in the column's own `timezone`")
    return value


IsoDate = Annotated[date, BeforeValidator(_iso_date)]
IsoDatetime = Annotated[datetime, BeforeValidator(_iso_datetime)]


class LogOffset(Model):
    """The public number that is added before the logarithm is taken."""

    offset: Number = 0.0


class Log(Model):
    """A column that is scaled by the logarithm of its values."""

    log: LogOffset


def _transformation(value: Any) -> Any:
    if value == "linear" or isinstance(value, Log):
        return value
    if value == "log":
        return Log(log=LogOffset())
    if isinstance(value, Mapping) and set(value) == {"log"}:
        return Log.model_validate(value)
    raise ValueError("transformation must be `linear`, `log` or {log: {offset: A}}")


Transformation = Annotated[Literal["linear"] | Log, BeforeValidator(_transformation)]


class _DeclaredColumn(Model):
    description: str = ""
    """What the column means, for people who read the release."""
    unit: str = ""
    """Unit of measurement, for people who read the release."""


class _ValueColumn(_DeclaredColumn):
    role: Literal["feature", "public"] = "feature"
    """`public`: everybody knows these values already; they are released as they are."""
    nullable: StrictBool = False
    """Whether values may be missing. Which ones are is confidential, as the values are."""


class _BoundedColumn(_ValueColumn):
    outside_bounds: OutsideBounds | None = None
    """What to do with values outside the bounds; without it the table's rule holds."""


class _NumberColumn(_BoundedColumn):
    transformation: Transformation = "linear"
    """How values are scaled to [0, 1]; the logarithm suits amounts that differ by powers of ten."""

    @property
    def log_offset(self) -> float | None:
        """The offset of a logarithmic column, None for a linear one."""
        return None if self.transformation == "linear" else self.transformation.log.offset


class NumericColumn(_NumberColumn):
    """A real-valued column with public bounds."""

    type: Literal["numeric"]
    bounds: tuple[Number, Number]
    """Lowest and highest value the domain allows."""
    precision: Number | None = Field(default=None, gt=0)
    """Released values are rounded to multiples of this, in the column's own unit."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        lower, upper = self.bounds
        _check_order(lower, upper)
        largest = max(abs(lower), abs(upper))
        if largest > _LARGEST_BOUND or not _SMALLEST_SPAN <= upper - lower:
            raise ValueError("bounds must be at most 1e100 in magnitude and at least 1e-100 apart; change the unit")
        if upper - lower < largest * 2.0**-32:
            raise ValueError("bounds are too close together for their size; subtract a public offset from the column")
        if self.precision is not None and not 2.0**-50 <= self.precision / (upper - lower) <= 1:
            raise ValueError("precision must be at most the distance between the bounds, and not absurdly small")
        if self.precision is not None and self.precision < largest * 2.0**-50:
            raise ValueError("precision is finer than numbers of this size can be; use a larger one")
        _check_log(self.log_offset, lower, upper)
        return self


class IntegerColumn(_NumberColumn):
    """A column of whole numbers with public bounds."""

    type: Literal["integer"]
    bounds: tuple[StrictInt, StrictInt]
    """Lowest and highest value the domain allows, both at most 2**53 in magnitude."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        lower, upper = self.bounds
        _check_order(lower, upper)
        if max(abs(lower), abs(upper)) > 2**53:
            raise ValueError("integer bounds beyond 2**53 are not supported; if these are numbers of things, not "
                             "quantities, use type: identifier")  # fmt: skip
        _check_log(self.log_offset, lower, upper)
        return self


class DateColumn(_BoundedColumn):
    """A column of calendar dates with public bounds."""

    type: Literal["date"]
    bounds: tuple[IsoDate, IsoDate]
    """First and last date the domain allows."""
    resolution: DateResolution = "day"
    """Released dates are days, or the first days of months or years."""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        _check_order(*self.bounds)
        return self


class DatetimeColumn(_BoundedColumn):
    """A column of points in time with public bounds."""

    type: Literal["datetime"]
    bounds: tuple[IsoDatetime, IsoDatetime]
    """First and last time the domain allows, in `timezone` where there is one."""
    resolution: DatetimeResolution = "second"
    """Released times are whole ones of these."""
    timezone: str | None = None
    """An IANA time zone. With it, times with an offset are converted, times without one are taken as local times
    there, and released times have it; without it, times must have no offset."""

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, timezone: str | None) -> str | None:
        if timezone is not None and (timezone not in available_timezones() or timezone in _NO_PLACES):
            raise ValueError("unknown time zone; use a name such as UTC or Europe/Vienna")
        return timezone

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        _check_order(*self.bounds)
        if self.bounds[1] - self.bounds[0] < timedelta(minutes=1):
            raise ValueError("bounds must be at least a minute apart")
        if self.timezone is None:
            return self
        zone = ZoneInfo(self.timezone)
        for bound in self.bounds:
            if not _FIRST_IN_A_ZONE <= bound < _LAST_IN_A_ZONE:
                raise ValueError("with a timezone bounds must lie between 0001-01-02 and 9999-12-30")
            there = bound.replace(tzinfo=zone)
            if there.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != bound:
                raise ValueError(f"clocks in {self.timezone} leave out {bound.isoformat()}; use another bound")
        return self


class _LevelColumn(_DeclaredColumn):
    role: Literal["feature", "label", "public"] = "feature"
    """`public`: everybody knows these values already; they are released as they are."""
    nullable: StrictBool = False
    """Whether values may be missing. Which ones are is confidential, as the values are."""


class CategoricalColumn(_LevelColumn):
    """A column with declared categories in no order."""

    type: Literal["categorical"]
    categories: list[StrictStr] | list[StrictInt] = Field(min_length=1, max_length=_MOST_CATEGORIES)
    """Every value the column may hold, all text or all whole numbers."""
    other: StrictStr | StrictInt | None = None
    """The category that takes every value that is not declared; without it such values refuse the source."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_categories(self.levels if self.other is not None else self.categories, declared=self.categories)
        return self

    @property
    def levels(self) -> list[str] | list[int]:
        """Every value a released cell may hold, missing ones aside, in order."""
        if self.other is None or self.other in self.categories:
            return self.categories
        return [*self.categories, self.other]


class OrdinalColumn(_LevelColumn):
    """A column with declared categories that have an order; neighbours are taken as equally far apart."""

    type: Literal["ordinal"]
    categories: list[StrictStr] | list[StrictInt] = Field(min_length=1, max_length=2**15)
    """Every value the column may hold, lowest first, all text or all whole numbers."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_categories(self.categories, declared=self.categories)
        return self

    @property
    def levels(self) -> list[str] | list[int]:
        """Every value a released cell may hold, missing ones aside, lowest first."""
        return self.categories


class BooleanColumn(_LevelColumn):
    """A column of truth values. Text and numbers are read as people write them: true, t, yes, y, 1 and their
    opposites, in upper or lower case."""

    type: Literal["boolean"]

    @property
    def levels(self) -> list[bool]:
        """False and true."""
        return [False, True]


class IdentifierColumn(_DeclaredColumn):
    """A column of names or numbers of things, replaced by fresh ones that have nothing to do with the source's."""

    type: Literal["identifier"]
    role: Literal["surrogate"] = "surrogate"
    surrogate: Literal["text", "integer"] = "text"
    """What fresh identifiers look like: `r-000001` and so on, or 1 and so on."""
    nullable: Literal[False] = False


class DroppedColumn(_DeclaredColumn):
    """A column of the source that no later step sees; its type does not matter."""

    role: Literal["drop"]
    type: str | None = None
    nullable: bool = True


def is_plain_text(text: str) -> bool:
    """Whether a text can be written in UTF-8: no halves of surrogate pairs."""
    return not any(unicodedata.category(character) == "Cs" for character in text)


def _check_order(lower: Any, upper: Any) -> None:
    if not lower < upper:
        texts = [f"{bound:g}" if isinstance(bound, float) else str(bound) for bound in (lower, upper)]
        raise ValueError(f"bounds must be [lower, upper] with lower < upper, got [{', '.join(texts)}]")


def _check_log(offset: float | None, lower: float, upper: float) -> None:
    if offset is None:
        return
    if not lower + offset > 0:
        raise ValueError("a logarithm needs lower bound + offset above 0; give {log: {offset: A}} with a larger A")
    if not math.isfinite(offset) or not 1e-12 < math.log((upper + offset) / (lower + offset)):
        raise ValueError("this offset leaves nothing of the bounds' distance; use a smaller one")


def _check_categories(categories: list[str] | list[int], *, declared: list[str] | list[int]) -> None:
    if len(set(categories)) != len(categories):
        raise ValueError("categories must differ from each other")
    if len({type(category) for category in categories}) > 1:
        raise ValueError("`other` must be of the categories' kind, text or a whole number")
    if any(isinstance(category, str) and category != category.strip() for category in categories):
        raise ValueError("categories must not begin or end with spaces; spaces around cells are ignored")
    if any(isinstance(category, str) and not is_plain_text(category) for category in categories):
        raise ValueError("categories must not hold halves of characters (lone surrogates)")
    if any(category == "" for category in categories):
        raise ValueError("an empty category cannot be told from a missing value; use nullable: true")
    if any(isinstance(category, int) and abs(category) > 2**53 for category in categories):
        raise ValueError("whole-number categories beyond 2**53 are not supported; use text")


BoundedColumn = NumericColumn | IntegerColumn | DateColumn | DatetimeColumn
LevelColumn = CategoricalColumn | OrdinalColumn | BooleanColumn
FeatureColumn = BoundedColumn | LevelColumn
"""What can be perturbed and fabricated."""

_TYPES: dict[str, type[Model]] = {
    "numeric": NumericColumn,
    "integer": IntegerColumn,
    "date": DateColumn,
    "datetime": DatetimeColumn,
    "categorical": CategoricalColumn,
    "ordinal": OrdinalColumn,
    "boolean": BooleanColumn,
    "identifier": IdentifierColumn,
}


def _column_kind(column: Any) -> str | None:
    role, kind = (
        (column.get("role"), column.get("type"))
        if isinstance(column, Mapping)
        else (getattr(column, "role", None), getattr(column, "type", None))
    )
    return "drop" if role == "drop" else kind if isinstance(kind, str) and kind in _TYPES else None


Column = Annotated[
    Annotated[NumericColumn, Tag("numeric")]
    | Annotated[IntegerColumn, Tag("integer")]
    | Annotated[DateColumn, Tag("date")]
    | Annotated[DatetimeColumn, Tag("datetime")]
    | Annotated[CategoricalColumn, Tag("categorical")]
    | Annotated[OrdinalColumn, Tag("ordinal")]
    | Annotated[BooleanColumn, Tag("boolean")]
    | Annotated[IdentifierColumn, Tag("identifier")]
    | Annotated[DroppedColumn, Tag("drop")],
    Discriminator(
        _column_kind,
        custom_error_type="column_type",
        custom_error_message="a column needs `type: numeric`, `integer`, `categorical`, `ordinal`, `boolean`, `date`, "
        "`datetime` or `identifier` (fresh identifiers are released), or `role: drop`; free text must be dropped",
    ),
]
