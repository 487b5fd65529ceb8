"""How templates become pages: escaping always on, missing values never passed over."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tasks.reporting import numbers

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")


def _finalize(value: Any) -> Any:
    """Refuse to print a missing value, which would read `None`, and make control characters visible."""
    if value is None:
        raise TypeError("a template printed a missing value; say `not computed` and why instead")
    if isinstance(value, str) and not isinstance(value, Markup):
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return value


@cache
def _environment() -> Environment:
    """Templates, compiled once."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        count=numbers.count,
        significant=numbers.significant,
        estimate=numbers.estimate,
        interval_range=numbers.interval_range,
        estimate_percent=numbers.estimate_percent,
        interval_range_percent=numbers.interval_range_percent,
        percent=numbers.percent,
        seconds=numbers.seconds,
    )
    environment.globals["plural"] = numbers.plural
    return environment


def page(template: str, **context: Any) -> str:
    """One self-contained HTML page from a template of this package."""
    return _environment().get_template(template).render(context)
