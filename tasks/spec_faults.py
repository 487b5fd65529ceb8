"""What is wrong with a spec: the place as it is written in the file, and what to write there.

Whoever writes a spec for the first time has these messages and the table's documentation.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any

from pydantic import BaseModel, ValidationError

from schemas.domains import DOMAINS
from schemas.spec import ReleaseSpec

TODO = "TODO"
"""What a draft holds where only the steward knows what belongs there."""
MOST_FAULTS_SHOWN = 20
_FROM_DOCUMENTATION = "from the table's documentation, never from the rows"
_TYPES = ("numeric", "integer", "categorical", "ordinal", "boolean", "date", "datetime", "identifier")
_EVERY_TYPE = (
    "a column needs `type: numeric`, `integer`, `categorical`, `ordinal`, `boolean`, `date`, `datetime` or "
    "`identifier`, or `role: drop`"
)
_TYPES_ELSEWHERE = {
    **dict.fromkeys(["int", "int32", "int64", "long", "whole", "whole number", "count"], "integer"),
    **dict.fromkeys(["float", "float32", "float64", "double", "real", "decimal", "money"], "numeric"),
    **dict.fromkeys(["number", "num", "continuous", "quantitative"], "numeric` or, for whole numbers, `integer"),
    **dict.fromkeys(
        ["category", "categories", "enum", "factor", "nominal", "discrete", "class", "label"], "categorical"
    ),
    **dict.fromkeys(["ordered", "rank", "ranked", "likert"], "ordinal"),
    **dict.fromkeys(["bool", "binary", "logical", "flag"], "boolean"),
    **dict.fromkeys(["date-time", "date_time", "timestamp", "time"], "datetime"),
    **dict.fromkeys(["id", "key", "uuid", "name"], "identifier"),
}
_TEXT_TYPES = {"text", "string", "str", "varchar", "char", "object", "free text", "freetext"}
_TEXT_HINT = (
    "free text must be dropped: `role: drop`; or is it one of a list of values (`type: categorical`), or the name or "
    "number of a thing (`type: identifier`)?"
)
_KEYS_ELSEWHERE = {
    **dict.fromkeys(["min", "max", "minimum", "maximum", "lower", "upper", "low", "high", "range", "limits"], "bounds"),
    **dict.fromkeys(["values", "levels", "classes", "choices", "options", "enum", "allowed"], "categories"),
    **dict.fromkeys(["missing", "null", "optional", "na"], "nullable"),
    **dict.fromkeys(["decimals", "digits", "step", "rounding"], "precision"),
    **dict.fromkeys(["tz", "zone"], "timezone"),
    **dict.fromkeys(["scale", "transform"], "transformation"),
}
_HOW_WRITTEN = {"bounds": "[lowest, highest]", "categories": "[a, b]", "nullable": "true"}
_WORDS = {"string_type": "text", "int_type": "a whole number", "float_type": "a number", "bool_type": "true or false"}
_STILL_TODO = {
    "label": "write the name of the column that tells which class a row is of; it is categorical, ordinal or boolean",
    "bounds": f"write the public lowest and highest value, {_FROM_DOCUMENTATION}",
    "categories": f"list every value the column may hold, {_FROM_DOCUMENTATION}",
    "type": _EVERY_TYPE,
    "timezone": "write a name such as UTC or Europe/Vienna",
    "precision": "write what released values are rounded to multiples of, or remove the key",
    "privacy.unit": "write `record` to protect whole rows, or `element` to protect single cells",
    "privacy.epsilon": "write the privacy loss of one release, such as 1.0; smaller is more private",
    "privacy.delta": "write the probability that may escape epsilon, such as 1.0e-6; well below 1 / rows",
    "privacy.budget": "write {epsilon: E, delta: D}: what the data set may spend over all its releases",
    "privacy.budget.epsilon": "write what the data set may spend over all its releases, at record level",
    "privacy.budget.delta": "write what the data set may spend over all its releases, at record level",
}


def todo_places(content: Any, place: tuple[str, ...] = (), seen: set[int] | None = None) -> Iterator[tuple[str, ...]]:
    """Where `TODO` is written: each place once, however often the rest of the file refers to it."""
    seen = set() if seen is None else seen
    if content == TODO:
        yield place
    if not isinstance(content, dict | list) or id(content) in seen:
        return
    seen.add(id(content))
    if isinstance(content, list) and TODO in [item for item in content if isinstance(item, str)]:
        yield place
    for key, value in content.items() if isinstance(content, dict) else enumerate(content, start=1):
        if not (isinstance(content, list) and value == TODO):
            yield from todo_places(value, (*place, str(key)), seen)


def todo_hint(place: Sequence[str]) -> str:
    """What to write instead of a TODO."""
    if place[:2] == ("table", "columns"):
        if len(place) == 3:
            return _EVERY_TYPE
        return _STILL_TODO.get(place[-1], "write what belongs there, or remove the key")
    return _STILL_TODO.get(".".join(place)) or _STILL_TODO.get(place[-1], "write what belongs there")


def unreadable_types(content: dict[str, Any]) -> list[str]:
    """Columns whose type is no word, a line each."""
    table = content.get("table")
    columns = table.get("columns") if isinstance(table, dict) else None
    return [
        f"table.columns.{name}.type: write one word; {_EVERY_TYPE}"
        for name, column in (columns.items() if isinstance(columns, dict) else ())
        if isinstance(column, dict) and isinstance(column.get("type"), list | dict)
    ]


def _with_place(text: str) -> str:
    """A fault of the whole spec, whose text may begin with the place that it is about."""
    return text if re.match(r"(privacy|table|fabrication)\.[^:]+: ", text) else f"the spec: {text}"


def spec_faults(error: ValidationError, content: Mapping[str, Any]) -> list[str]:
    """What is wrong with a spec's content, a line for each fault."""
    lines: dict[tuple[str, str], None] = {}
    wanted: dict[str, list[str]] = {}  # where a value may be of several types: what each of them would be
    faults = error.errors(include_url=False, include_context=False)
    for fault in faults:
        for place, message in _explained(fault["loc"], fault["type"], fault["msg"], fault["input"], content):
            lines[place, message] = None
            if fault["type"] in _WORDS and not place.endswith(".categories"):
                wanted.setdefault(place, []).append(_WORDS[fault["type"]])
    several = {place: list(dict.fromkeys(words)) for place, words in wanted.items() if len(set(words)) > 1}
    lines = {(place, _one_of(several[place]) if place in several else text): None for place, text in lines}
    return [f"{place}: {text}" if place else _with_place(text) for place, text in lines] or [
        str(fault["msg"]) for fault in faults
    ]


def _one_of(words: Sequence[str]) -> str:
    return f"write {', '.join(words[:-1])} or {words[-1]}"


def _explained(
    loc: Sequence[int | str], kind: str, message: str, value: Any, content: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """The places of a fault as they are written in the file, and what to do there."""
    place, known = _follow(ReleaseSpec, loc, last_is_key=kind in {"extra_forbidden", "missing"})
    key = place[-1] if place else ""
    in_column = place[:2] == ["table", "columns"] and len(place) > 3
    message = message.removeprefix("Value error, ")
    where = ".".join(place)
    if "categories" in place[3:4] and in_column and kind not in {"missing", "extra_forbidden"}:
        written = _value_at(content, place[:4])
        yield ".".join(place[:4]), _categories_fault(written, message)
    elif kind == "extra_forbidden" and in_column and value is None and _has_loose_values(_value_at(content, place[:3])):
        return  # the rest of a list without brackets, of which another fault tells
    elif kind == "extra_forbidden":
        yield where, f"unknown key{_suggestion(place, value, known)}"
    elif kind == "missing" and isinstance(loc[-1], int):  # an end of the bounds
        yield ".".join(place[:-1]), _pair(place[-2])
    elif kind == "missing":
        if not any(_KEYS_ELSEWHERE.get(str(near)) == key for near in (value if isinstance(value, Mapping) else ())):
            hint = _STILL_TODO.get(key if in_column else where)
            yield where, f"missing; it has no default{f'; {hint}' if hint else ''}"
    elif kind == "column_type":
        yield from _type_fault(where, value)
    elif place == ["table", "columns"] and kind == "value_error":  # of a domain pack
        for name, column in value.items():
            if isinstance(column, Mapping) and "domain" in column and column["domain"] not in list(DOMAINS):
                hint = f"unknown domain{_nearest(column['domain'], DOMAINS)}; known are {', '.join(DOMAINS)}"
                yield f"{where}.{name}.domain", hint
    elif kind == "value_error":
        yield _narrowed(where, place, message), re.sub(r"^constraint \d+: ", "", message) + _after(message, value)
    else:
        yield where, _plain(place, kind, message, value)


def _has_loose_values(column: Any) -> bool:
    return isinstance(column, Mapping) and any(
        isinstance(column.get(key), str | int | float) for key in ("bounds", "categories")
    )


def _plain(place: Sequence[str], kind: str, message: str, value: Any) -> str:
    """A fault of pydantic's in words for people who have never heard of it."""
    key = place[-1] if place else ""
    match kind:
        case "int_type" | "float_type" if isinstance(value, str):
            return f"{message}; write it without quotes, unit or thousands separator"
        case "int_type" if isinstance(value, float) and "bounds" in place:
            return f"{message}; a column with fractions is `type: numeric`"
        case "string_type" if value is not None:
            return "write text; put it in quotes"
        case "string_type":
            return "write text; null, ~ and nothing at all are text only in quotes"
        case "bool_type":
            return "write true or false"
        case "tuple_type" | "too_long" | "too_short" if key in {"bounds", "at_most"}:
            return _pair(key)
        case "list_type":
            return "write a list, such as [a, b]"
        case "dict_type" if key == "columns":
            return "write a line for each column, `name: {type: ...}`, without a dash before it"
        case "model_type" | "dict_type" | "model_attributes_type":
            return "write a mapping, with a `key: value` for each of its keys"
        case "string_pattern_mismatch" if key == "dataset":
            return "write small letters a to z, digits and hyphens only"
        case "too_short" if key == "columns":
            return "declare two columns at least: the label and another one"
        case "too_short" | "too_long":
            return message.replace(" after validation", "")
        case "literal_error" if key == "nullable":
            return "an identifier has a value in every released row; leave nullable out"
        case "literal_error":
            if key == "role" and value == "label":
                return f"{message}; the label must be `type: categorical`, `ordinal` or `boolean`"
            words = [*re.findall(r"'([^']*)'", message), *(["drop"] if key == "role" else [])]
            return f"{message}{_nearest(value, words)}"
        case "greater_than" if key == "precision":
            return f"{message}; leave precision out to round nothing"
    return message


def _pair(key: str) -> str:
    if key == "at_most":
        return "write two column names, [lower, higher]"
    return "write two values, [lowest, highest], without thousands separators"


def _categories_fault(written: Any, message: str) -> str:
    if not isinstance(written, list):
        return "write a list, [a, b]; what the categories mean can stand in `description`"
    if not written:
        return f"the list is empty; {_STILL_TODO['categories']}"
    if all(isinstance(item, bool) for item in written):
        return "true and false are truth values; write `type: boolean` without categories, or put them in quotes"
    reasons: list[tuple[type, str]] = [
        (Mapping, "read as a mapping because of a `: ` or `?`; put in quotes"),
        (list, "read as a list; put in quotes"),
        (
            NoneType,
            "read as nothing; put in quotes (null, ~ and what begins with & or # need them), and for missing values "
            "write nullable: true",
        ),
        (bool, "read as a truth value; put in quotes"),
        (float, "a number with a fraction; put in quotes, or write `type: numeric` with bounds"),
    ]
    for kind, reason in reasons:
        if numbers := [number for number, item in enumerate(written, start=1) if isinstance(item, kind)]:
            return f"{_items(numbers)}: {reason}"
    whole = [number for number, item in enumerate(written, start=1) if isinstance(item, int)]
    if 0 < len(whole) < len(written):
        return f"text and numbers are mixed; put the numbers in quotes ({_items(whole)})"
    return message


def _type_fault(where: str, column: Any) -> Iterator[tuple[str, str]]:
    """What to write instead of a type that does not exist."""
    if not isinstance(column, Mapping):
        yield where, f"write a mapping, such as {{type: integer, bounds: [0, 120]}}; {_EVERY_TYPE}"
        return
    kind, role = column.get("type"), column.get("role")
    lowered = kind.strip().lower() if isinstance(kind, str) else ""
    if kind is None and any(isinstance(key, str) and key.startswith("type:") for key in column):
        yield where, "write a space after the colon of `type: `"
    elif kind is None and difflib.get_close_matches(str(role).lower(), ["drop"], cutoff=0.5):
        yield f"{where}.role", "did you mean `role: drop`?"
    elif kind is None:
        yield f"{where}.type", f"missing; {_EVERY_TYPE}"
    elif lowered == "drop":
        yield f"{where}.type", "did you mean `role: drop`?"
    elif lowered in _TEXT_TYPES:
        yield f"{where}.type", _TEXT_HINT
    elif lowered in _TYPES_ELSEWHERE:
        yield f"{where}.type", f"did you mean `type: {_TYPES_ELSEWHERE[lowered]}`?"
    elif near := difflib.get_close_matches(lowered, _TYPES, n=1):
        yield f"{where}.type", f"did you mean `type: {near[0]}`?"
    else:
        yield f"{where}.type", f"unknown; {_EVERY_TYPE}; free text must be dropped"


_ABOUT = {
    "bounds ": "bounds",
    "integer bounds ": "bounds",
    "precision ": "precision",
    "a logarithm ": "transformation",
    "this offset ": "transformation",
    "`other` ": "other",
}


def _narrowed(where: str, place: Sequence[str], message: str) -> str:
    """The place that a message of a whole mapping is about."""
    if place[:2] == ["table", "columns"] and len(place) == 3:
        key = next((key for start, key in _ABOUT.items() if message.startswith(start)), None)
        if key is None and "categor" in message:
            key = "categories"
        return f"{where}.{key}" if key else where
    if place == ["table"]:
        if message.startswith("label "):
            return "table.label"
        if number := re.match(r"constraint (\d+): ", message):
            return f"table.constraints.{number[1]}"
    return where


def _after(message: str, value: Any) -> str:
    """What a message of the models can add when it sees what stands around the fault."""
    if message.startswith("bounds must be [lower, upper]") and isinstance(value, Mapping):
        lower, upper = value["bounds"]
        return "; a column with a single value can be left out, with `role: drop`" if lower == upper else "; swap them"
    if message.startswith("label `") and "is not among the columns" in message:
        columns = value.get("columns") if isinstance(value, Mapping) else None
        return _nearest(value.get("label"), columns) if isinstance(columns, Mapping) else ""
    return ""


def _nearest(value: Any, known: Any) -> str:
    if not isinstance(value, str):
        return ""
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(value.lower(), list(lowered), n=1)
    return f"; did you mean `{lowered[near[0]]}`?" if near else ""


def _value_at(content: Any, place: Sequence[str]) -> Any:
    for key in place:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


@cache
def _json_schema(root: type[BaseModel]) -> dict[str, Any]:
    return root.model_json_schema()


def _follow(
    root: type[BaseModel], loc: Sequence[int | str], *, last_is_key: bool = True
) -> tuple[list[str], list[str]]:
    """The place as a person wrote it (union tags left out), and the keys known at its last level."""
    place: list[str] = []
    schema = _json_schema(root)
    definitions = schema.get("$defs", {})
    here: list[dict[str, Any]] = [schema]
    known: list[str] = []

    def resolved(part: Mapping[str, Any]) -> list[dict[str, Any]]:
        if "$ref" in part:
            return resolved(definitions[part["$ref"].rpartition("/")[2]])
        branches = part.get("anyOf") or part.get("oneOf")
        return [r for branch in branches for r in resolved(branch)] if branches else [dict(part)]

    def tagged(branch: Mapping[str, Any], tag: int | str) -> bool:
        properties = branch.get("properties", {})
        if branch.get("type") == "array":
            return tag == "values"
        named = {properties.get(key, {}).get("const") for key in ("type", "role")}
        return tag in named or tag in properties or (tag == "range" and "at_least" in properties)

    for number, key in enumerate(loc):
        branches = [r for part in here for r in resolved(part)]
        if any("oneOf" in part for part in here):  # a union by tag, and the next part of `loc` is the tag
            here = [branch for branch in branches if tagged(branch, key)] or branches
            continue
        properties = {name: sub for part in branches for name, sub in part.get("properties", {}).items()}
        additional = [
            part["additionalProperties"] for part in branches if isinstance(part.get("additionalProperties"), dict)
        ]
        items = [part.get("prefixItems", [part.get("items")]) for part in branches if part.get("type") == "array"]
        if key in properties:
            place.append(str(key))
            here = [properties[str(key)]]
        elif additional and isinstance(key, str):
            place.append(key)
            here = additional
        elif items and isinstance(key, int):
            place.append(str(key + 1))
            here = [item for group in items for item in group if isinstance(item, dict)]
        elif last_is_key and number == len(loc) - 1 and properties:
            place.append(str(key))
            known = list(properties)
        # anything else is the tag of a union, which nobody wrote
    return place, known


def _suggestion(place: Sequence[str], value: Any, known: Sequence[str]) -> str:
    key = place[-1]
    if ":" in key and value is None:
        return "; write a space after the colon"
    meant = _KEYS_ELSEWHERE.get(key.lower())
    if meant in known:
        return f"; did you mean `{meant}{f': {_HOW_WRITTEN[meant]}' if meant in _HOW_WRITTEN else ''}`?"
    if place[:2] == ["table", "columns"] and (meant or key) in {"bounds", "categories"}:
        if (meant or key) == "bounds" and "categories" in known:
            return " here; bounds are for numeric, integer, date and datetime columns, and this type has categories"
        if (meant or key) == "categories" and "bounds" in known:
            return " here; categories are for categorical and ordinal columns, and this type has bounds"
        return f" here; this type needs no {meant or key}"
    if place[0] == "table" and isinstance(value, Mapping) and {"type", "role", "domain"} & set(value):
        return " here; a column stands in `table.columns`: indent it below `columns:`"
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean `{near[0]}`?"
    elsewhere = [place for place in _all_keys() if place.rpartition(".")[2] == key]
    if elsewhere:
        return f" here; it belongs at `{elsewhere[0]}`"
    return f"; known here: {', '.join(known)}" if known else ""


def _all_keys() -> list[str]:
    sections = list(ReleaseSpec.model_fields)
    return sections + [f"{section}.{key}" for section in sections for key in _follow(ReleaseSpec, [section, ""])[1]]


def _items(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")
    return f"item {shown}" if len(numbers) == 1 else f"items {shown}"
