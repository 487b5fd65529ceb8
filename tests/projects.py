"""Small projects for tests: rows of the real sample table, and a spec that tests change in one place."""

import copy
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

PROJECT = Path(__file__).resolve().parents[1]
FEATURES = ["r2c3", "r3c4", "r4c2", "r5c5"]
CLASSES = [0, 1, 2]

SPEC: dict[str, Any] = {
    "dataset": "small-digits",
    "source": {"path": "source.csv"},
    "table": {
        "label": "digit",
        "columns": {
            **{name: {"type": "integer", "bounds": [0, 16]} for name in FEATURES},
            "digit": {"type": "categorical", "categories": CLASSES},
        },
    },
    "privacy": {
        "unit": "element",
        "epsilon": 2.0,
        "delta": 1e-6,
        "mechanism": "dirac-laplace",
        "budget": {"epsilon": 80.0, "delta": 1e-3},
    },
    "fabrication": {"components": 3, "stop": {"steps": 2}},
    # shadow models would take longer than all else together
    "evaluation": {"classifiers": ["kahm", "nearest-neighbour", "logistic"], "attacks": {"shadow_models": 0}},
}


def digits(rows: int = 150) -> pd.DataFrame:
    """The first `rows` rows of three classes of the sample, four of its columns and the label."""
    frame = pd.read_csv(PROJECT / "data" / "samples" / "digits.csv")
    return frame.loc[frame["digit"].isin(CLASSES), [*FEATURES, "digit"]].head(rows).reset_index(drop=True)


def changed(spec: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """A copy of a spec with the value at a dotted place replaced, or removed where `value` is `...`."""
    copied = copy.deepcopy(spec)
    here = copied
    *path, last = place.split(".")
    for key in path:
        here = here.setdefault(key, {})
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return copied


def write_project(
    folder: Path, spec: dict[str, Any] | str | None = None, source: pd.DataFrame | str | bytes | None = None
) -> Path:
    """Write a spec and its source into a folder and return the spec's path."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(source, bytes):
        (folder / "source.csv").write_bytes(source)
    elif isinstance(source, str):
        (folder / "source.csv").write_text(source, encoding="utf-8")
    else:
        (digits() if source is None else source).to_csv(folder / "source.csv", index=False)
    path = folder / "spec.yaml"
    text = spec if isinstance(spec, str) else yaml.safe_dump(SPEC if spec is None else spec, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path
