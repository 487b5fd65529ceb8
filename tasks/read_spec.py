"""Read a spec file."""

import hashlib
import json
from pathlib import Path

import yaml
from pydantic import ValidationError

from schemas.errors import RequestRefused
from schemas.spec import ReleaseSpec
from tasks.spec_faults import MOST_FAULTS_SHOWN, spec_faults, todo_hint, todo_places, unreadable_types
from tasks.spec_yaml import read_yaml, yaml_fault

LARGEST_SPEC_BYTES = 2**20


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
        The file is missing, is not YAML, still holds a TODO, or does not fit the spec's model. The text names each
        fault by its place in the file and, for an unknown key, the nearest known one.
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
        content = read_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise RequestRefused(f"{path}: not valid YAML: {yaml_fault(error, text)}") from None
    if not isinstance(content, dict):
        raise RequestRefused(f"{path}: a spec is a mapping of keys such as dataset, source, table and privacy")
    faults = [f"{'.'.join(place)}: still TODO; {todo_hint(place)}" for place in todo_places(content)]
    faults = faults or unreadable_types(content)
    if not faults:
        try:
            return ReleaseSpec.model_validate(content)
        except ValidationError as error:
            faults = spec_faults(error, content)
    lines = [f"{path}: {fault}".replace("\n", "\\n") for fault in faults[:MOST_FAULTS_SHOWN]]  # a line for each
    if len(faults) > len(lines):
        lines.append(f"and {len(faults) - len(lines)} more")
    raise RequestRefused("\n".join(lines))


def spec_sha256(spec: ReleaseSpec) -> str:
    """SHA-256 of the spec as canonical JSON, the same for every way to write the same spec and for every runner."""
    return hashlib.sha256(
        json.dumps(spec.outcome_settings(), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def request_refused(error: ValidationError) -> RequestRefused:
    """The refusal of a request whose values do not fit, a line for each."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return RequestRefused("\n".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults))
