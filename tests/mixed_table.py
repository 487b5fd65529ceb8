"""A small table with columns of every type, made up by rule, and the spec that declares it."""

from typing import Any

import numpy as np
import pandas as pd

TOWNS = ["Graz", "Linz", "Wien", 'St. "Pölten"']
COLUMNS: dict[str, Any] = {
    "patient": {"type": "identifier"},
    "age": {"domain": "age"},
    "costs": {"domain": "currency", "bounds": [0, 100_000], "nullable": True, "unit": "EUR"},
    "height (m)": {"type": "numeric", "bounds": [0.5, 2.5], "precision": 0.01},
    "admitted": {"type": "date", "bounds": ["2015-01-01", "2025-12-31"]},
    "left": {"type": "date", "bounds": ["2015-01-01", "2025-12-31"], "nullable": True},
    "seen": {
        "type": "datetime",
        "bounds": ["2015-01-01T00:00", "2025-12-31T23:59"],
        "timezone": "Europe/Vienna",
        "resolution": "minute",
    },
    "triage": {"type": "ordinal", "categories": ["green", "yellow", "orange", "red"]},
    "town": {"type": "categorical", "categories": TOWNS, "other": "elsewhere", "nullable": True},
    "smoker": {"type": "boolean", "nullable": True},
    "select": {"type": "boolean"},
    "constant": {"type": "categorical", "categories": ["one"]},
    "outcome": {"type": "categorical", "categories": ["home", "ward"]},
    "notes": {"role": "drop"},
}
SPEC: dict[str, Any] = {
    "dataset": "mixed",
    "source": {"path": "source.csv"},
    "table": {
        "label": "outcome",
        "columns": COLUMNS,
        "missing_values": ["?"],
        "rows": 300,
        "constraints": [
            {"at_most": ["admitted", "left"]},
            {"if": {"triage": ["red"]}, "then": {"age": {"at_least": 18}}},
        ],
    },
    "privacy": {
        "unit": "element",
        "epsilon": 3.0,
        "delta": 1e-6,
        "budget": {"epsilon": 500.0, "delta": 1e-2},
    },
    "fabrication": {"components": 5, "stop": {"steps": 1}},
    "evaluation": {"classifiers": ["kahm", "logistic"], "attacks": {"shadow_models": 0}},
}


def mixed(rows: int = 300) -> pd.DataFrame:
    """The table as text, as a CSV file has it; every constraint holds."""
    random = np.random.default_rng(4)
    home = random.random(rows) < 0.5
    age = np.where(home, random.integers(18, 60, rows), random.integers(40, 100, rows))
    admitted = pd.Timestamp("2018-01-01") + pd.to_timedelta(random.integers(0, 1500, rows), unit="D")
    left = admitted + pd.to_timedelta(random.integers(0, 400, rows), unit="D")
    frame = pd.DataFrame(
        {
            "patient": [f"P{number:05d}" for number in random.permutation(rows)],
            "age": age.astype(str),
            "costs": np.round(np.exp(random.normal(6, 1.5, rows)).clip(0, 1e5), 2).astype(str),
            "height (m)": np.round(random.normal(1.7, 0.1, rows), 2).astype(str),
            "admitted": admitted.strftime("%Y-%m-%d"),
            "left": left.strftime("%Y-%m-%d"),
            "seen": admitted.strftime("%Y-%m-%dT13:30:00+00:00"),
            "triage": random.choice(["green", "yellow", "orange", "red"], rows),
            "town": random.choice([*TOWNS, "Bregenz"], rows, p=[0.2, 0.2, 0.4, 0.1, 0.1]),
            "smoker": random.choice(["Y", "n"], rows),
            "select": random.choice(["true", "FALSE"], rows),
            "constant": "one",
            "outcome": np.where(home, "home", "ward"),
            "notes": "free, text",
        }
    )
    for name, share in [("costs", 0.3), ("left", 0.1), ("town", 0.1), ("smoker", 0.2)]:
        gone = random.random(rows) < np.where(home, share / 2, share * 1.5)
        frame.loc[gone, name] = "?" if name == "town" else ""
    return frame
