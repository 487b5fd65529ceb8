"""Declarations that a later step could not keep are refused where they are written."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas.columns import Column

_column: TypeAdapter[Any] = TypeAdapter(Column)
VIENNA = {"type": "datetime", "timezone": "Europe/Vienna"}


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({**VIENNA, "bounds": ["2020-03-29T02:30:00", "2020-04-01"]}, "leave out 2020-03-29T02:30:00"),
        ({**VIENNA, "bounds": ["2020-03-01", "2020-03-29T02:30:00"]}, "leave out 2020-03-29T02:30:00"),
        ({**VIENNA, "timezone": "Pacific/Apia", "bounds": ["2011-12-30", "2012-01-02"]}, "leave out 2011-12-30"),
        ({**VIENNA, "bounds": ["2000-01-01", "9999-12-31T23:59:59"]}, "between 0001-01-02 and 9999-12-30"),
        ({**VIENNA, "bounds": ["0001-01-01", "2000-01-01"]}, "between 0001-01-02 and 9999-12-30"),
        ({**VIENNA, "timezone": "Factory", "bounds": ["2000-01-01", "2001-01-01"]}, "unknown time zone"),
        ({**VIENNA, "timezone": "localtime", "bounds": ["2000-01-01", "2001-01-01"]}, "unknown time zone"),
        ({"type": "datetime", "bounds": ["9000-01-01T00:00:00", "9000-01-01T00:00:00.001"]}, "at least a minute apart"),
        ({"type": "categorical", "categories": ["a", "\ud800"]}, "halves of characters"),
        ({"type": "categorical", "categories": ["a", "b"], "other": 3}, "categories' kind"),
        ({"type": "numeric", "bounds": [-1, 1], "transformation": {"log": {"offset": 1}}}, "above 0"),
        ({"type": "numeric", "bounds": [0, 1], "transformation": {"log": {"offset": 1e15}}}, "leaves nothing"),
    ],
)
def test_refused(declared: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        _column.validate_python(declared)


def test_the_doubled_hour_is_a_bound() -> None:
    assert _column.validate_python({**VIENNA, "bounds": ["2020-10-25T02:30:00", "2021-01-01"]}).timezone
