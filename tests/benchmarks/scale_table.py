"""A made-up table of 20 columns of mixed types, in any number of rows, and its spec; written piece by piece."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

CLASSES = ["a", "b", "c", "d"]
CATEGORIES = {"colour": ["red", "green", "blue"], "region": ["n", "e", "s", "w"], "grade": ["1", "2", "3", "4", "5"]}
N_NUMERIC, N_INTEGER = 10, 4
ROWS_A_GROUP = 50_000


def write_table(path: Path, n_rows: int, seed: int = 20240513) -> None:
    """A Parquet file of `n_rows` rows: four classes, each a bent sheet of three factors in 14 numbers, and categories
    that depend on the factors."""
    structure = np.random.default_rng(seed)
    mixing = structure.normal(size=(len(CLASSES), 3, N_NUMERIC + N_INTEGER))
    random = np.random.default_rng(seed + 1)
    writer: pa.parquet.ParquetWriter | None = None
    try:
        for start in range(0, n_rows, ROWS_A_GROUP):
            group = _group(min(ROWS_A_GROUP, n_rows - start), mixing, random)
            writer = writer or pa.parquet.ParquetWriter(path, group.schema)
            writer.write_table(group)
    finally:
        if writer is not None:
            writer.close()


def _group(n_rows: int, mixing: npt.NDArray[np.float64], random: np.random.Generator) -> pa.Table:
    codes = random.choice(len(CLASSES), size=n_rows, p=[0.4, 0.3, 0.2, 0.1])
    factors = random.normal(size=(n_rows, 3))
    numbers = np.einsum("if,ifj->ij", factors, mixing[codes]) + 0.3 * factors[:, :1] ** 2
    numbers = np.clip(50 + 10 * numbers + random.normal(scale=2, size=numbers.shape), 0, 100)
    columns: dict[str, Any] = {f"x{place:02d}": numbers[:, place] for place in range(N_NUMERIC)}
    for place in range(N_INTEGER):
        columns[f"k{place:02d}"] = np.rint(numbers[:, N_NUMERIC + place]).astype(np.int64)
    columns["flag"] = factors[:, 0] + random.normal(scale=0.5, size=n_rows) > 0
    days = np.clip(1000 + 300 * factors[:, 1] + random.normal(scale=50, size=n_rows), 0, 2000).astype("timedelta64[D]")
    columns["day"] = pa.array(np.datetime64("2020-01-01") + days, pa.date32())
    for name, levels in CATEGORIES.items():
        score = factors[:, 2] + random.normal(scale=0.7, size=n_rows)
        codes_of_level = np.clip(np.floor((score + 2) / 4 * len(levels)), 0, len(levels) - 1).astype(np.int64)
        columns[name] = np.array(levels)[codes_of_level]
    columns["group"] = np.array(CLASSES)[codes]
    return pa.table(columns)


def spec_of(source: Path, **changes: Any) -> dict[str, Any]:
    """The spec of the table, at element level with noise on cells; `changes` replace whole top-level keys."""
    columns: dict[str, Any] = {f"x{place:02d}": {"type": "numeric", "bounds": [0, 100]} for place in range(N_NUMERIC)}
    columns |= {f"k{place:02d}": {"type": "integer", "bounds": [0, 100]} for place in range(N_INTEGER)}
    columns |= {"flag": {"type": "boolean"}, "day": {"type": "date", "bounds": ["2020-01-01", "2025-12-31"]}}
    columns |= {name: {"type": "categorical", "categories": levels} for name, levels in CATEGORIES.items()}
    columns["group"] = {"type": "categorical", "categories": CLASSES}
    return {
        "dataset": "scale",
        "source": {"path": str(source)},
        "table": {"label": "group", "columns": columns},
        "privacy": {
            "unit": "element",
            "epsilon": 4.0,
            "delta": 1e-9,
            "mechanism": "optimal",
            "budget": {"epsilon": 1000, "delta": 0.01},
        },
        **changes,
    }
