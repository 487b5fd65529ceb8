"""Domain packs: public domains that many tables share, to be named instead of written out."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

DOMAINS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "age": {"type": "integer", "bounds": [0, 120], "unit": "years"},
        "percentage": {"type": "numeric", "bounds": [0, 100], "precision": 0.1, "unit": "%"},
        "currency": {"type": "numeric", "precision": 0.01, "transformation": {"log": {"offset": 1}}},
    }
)
"""By name, the keys that a pack gives a column. An amount of money has no bounds that everybody knows, so `currency`
leaves them to the steward; its logarithmic scale suits amounts from nothing to millions."""


def with_domain(column: Any) -> Any:
    """A column's declaration with the keys of its `domain` filled in; keys that stand beside it have precedence.

    Raises
    ------
    ValueError
        The domain is not known.
    """
    if not isinstance(column, Mapping) or "domain" not in column:
        return column
    name = column["domain"]
    if not isinstance(name, str) or name not in DOMAINS:
        raise ValueError(f"unknown domain; known are {', '.join(DOMAINS)}")
    return {**DOMAINS[name], **{key: value for key, value in column.items() if key != "domain"}}
