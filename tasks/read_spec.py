"""Read a spec file and say precisely what is wrong with it."""

import difflib
import hashlib
import json
import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from schemas.errors import RequestRefused
from schemas.spec import ReleaseSpec

LARGEST_SPEC_BYTES = 2**20
_MOST_FAULTS_SHOWN = 20


class _SpecLoader(yaml.SafeLoader):
    """YAML as people expect it: only `true` and `false` are booleans, `1e-5` is a number, no dates, keys once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: list[Any] = []
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise yaml.YAMLError(f"line {line}: a key must be text; put it in quotes")
            if key in keys:
                raise yaml.YAMLError(f"line {line}: key `{key}` stands twice")
            keys.append(key)
        return super().construct_mapping(node, deep)


_SpecLoader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in {"bool", "float", "timestamp"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SpecLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False|TRUE|FALSE)$"), list("tTfF")
)
_SpecLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:\.\d+|\d+\.\d*)(?:[eE][-+]?\d+)?$|^[-+]?\d+[eE][-+]?\d+$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def read_spec(path: Path) -> ReleaseSpec:
    """The release spec in a YAML file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    ReleaseSpec

    Raises
    ------
    RequestRefused
        The file is missing, is not YAML, or does not fit the spec's model. The text names each fault by its place
        in the file and, for an unknown key, the nearest known one.
    """
    try:
        if path.stat().st_size > LARGEST_SPEC_BYTES:
            raise RequestRefused(f"{path}: larger than a spec can be (1 MiB); is it the data file?")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RequestRefused(f"{path}: no such file; give the path of a spec, such as data/specs/digits.yaml") from None
    except UnicodeDecodeError:
        raise RequestRefused(f"{path}: not a text file in UTF-8; is it a spec?") from None
    except OSError as error:
        raise RequestRefused(f"{path}: cannot be read ({error.strerror})") from None
    try:
        content = yaml.load(text, Loader=_SpecLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise RequestRefused(f"{path}: not valid YAML: {_yaml_fault(error)}") from None
    if not isinstance(content, dict):
        raise RequestRefused(f"{path}: a spec is a mapping of keys such as dataset, source, table and privacy")
    try:
        return ReleaseSpec.model_validate(content)
    except ValidationError as error:
        raise RequestRefused("\n".join(f"{path}: {fault}" for fault in spec_faults(error))) from None


def spec_sha256(spec: ReleaseSpec) -> str:
    """SHA-256 of the spec as canonical JSON, the same for every way to write the same spec."""
    return hashlib.sha256(
        json.dumps(spec.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def spec_faults(error: ValidationError) -> list[str]:
    """What is wrong with a spec, a line for each fault, at most 20."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    shown = faults[:_MOST_FAULTS_SHOWN]
    lines = [_fault_line(ReleaseSpec, fault["loc"], fault["type"], fault["msg"]) for fault in shown]
    return lines + ([f"and {len(faults) - len(shown)} more faults"] if len(faults) > len(shown) else [])


def _fault_line(root: type[BaseModel], loc: Sequence[int | str], kind: str, message: str) -> str:
    place, known = _follow(root, loc, last_is_key=kind in {"extra_forbidden", "missing"})
    where = ".".join(place) or "the spec"
    if kind == "extra_forbidden":
        return f"{where}: unknown key{_suggestion(str(loc[-1]), known)}"
    if kind == "missing":
        return f"{where}: missing; it has no default"
    return f"{where}: {message.removeprefix('Value error, ')}"


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

    for key in loc:
        branches = [r for part in here for r in resolved(part)]
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
        elif last_is_key and key == loc[-1] and properties:
            place.append(str(key))
            known = list(properties)
        # anything else is the tag of a union, which nobody wrote
    return place, known


def _suggestion(key: str, known: list[str]) -> str:
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


def _yaml_fault(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return str(error) or type(error).__name__


def request_refused(error: ValidationError) -> RequestRefused:
    """The refusal of a request whose values do not fit, a line for each."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return RequestRefused("\n".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults))
