"""Files of quotes, commas and line ends, as the standard library's reader has them."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from schemas.errors import ValidationFailed
from tasks.csv_rows import csv_rows

HEADER = ["a", "b"]


def is_open(text: str) -> bool:
    """Whether the text ends in a quoted cell: one state, changed by each character."""
    inside = quoted = was_quoted = False  # in a cell; in its quoted part; was it quoted until just now
    for character in text:
        if quoted:
            quoted = character != '"'
            was_quoted = not quoted
        elif character == '"' and (was_quoted or not inside):
            inside = quoted = True
        else:
            inside = character not in ",\n"
            was_quoted = False
    return quoted


@settings(max_examples=600, deadline=None)
@given(st.text('",\nx', max_size=14))
@example('1,"x')
@example('1,""""')
@example('1,"""')
@example('1,"')
@example('1,""')
@example('1,x"x')
@example('1,"x\n"\n')
@example('1,"x""\n')
def test_rows_are_those_of_the_standard_reader_and_open_quotes_are_found(text: str) -> None:
    expected = [row for row in csv.reader(io.StringIO(text)) if row]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_text("a,b\n" + text, encoding="utf-8")
        if is_open(text):
            with pytest.raises(ValidationFailed, match="never closed"):
                list(csv_rows(path, HEADER))
        elif broken := sum(len(row) != 2 for row in expected):
            with pytest.raises(ValidationFailed, match=rf"{broken} row\(s\) with a number"):
                list(csv_rows(path, HEADER))
        else:
            rows = [list(row.values()) for piece in csv_rows(path, HEADER) for row in piece.to_pylist()]
            assert rows == [[cell or None for cell in row] for row in expected]
