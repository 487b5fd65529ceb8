"""Write the JSON Schemas of the files that people and programs outside rely on: `python -m schemas.export`."""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from schemas.audit import AuditReport
from schemas.manifest import Manifest
from schemas.private_classifiers import ReleasedClassifier
from schemas.spec import ReleaseSpec
from schemas.sweep import Sweep

FOLDER = Path(__file__).parent / "json"
PUBLISHED: dict[str, type[BaseModel]] = {
    "spec": ReleaseSpec,
    "manifest": Manifest,
    "audit": AuditReport,
    "sweep": Sweep,
    "classifier": ReleasedClassifier,
}


def json_schema(name: str) -> str:
    """The JSON Schema of one published model, as text."""
    mode: Literal["validation", "serialization"] = "validation" if name == "spec" else "serialization"
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(schema | PUBLISHED[name].model_json_schema(mode=mode), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every schema file."""
    FOLDER.mkdir(exist_ok=True)
    for name in PUBLISHED:
        (FOLDER / f"{name}.schema.json").write_text(json_schema(name), encoding="utf-8")


if __name__ == "__main__":
    main()
