"""The audit of one release of 5000 rows x 30 columns with default attacks: the time of each part, and its share.

Run as `python -m tests.benchmarks.bench_audit [--json] [--rows N]`. Shares are of the whole audit in the same run.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from tasks.step import SilentObserver, observed_by
from tests.benchmarks.scale_table import spec_of, write_table

ROWS, MORE_COLUMNS = 5000, 11
AUDIT = [
    "Sample for the audit", "Train KAHM classifiers", "Train other classifiers", "Test classifiers",
    "Train shadow models", "Attack", "Assess risks", "Plant canaries", "Measure utility", "Write report",
]  # fmt: skip


class _Watch(SilentObserver):
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def finished(self, step: str, seconds: float) -> None:
        self.seconds[step] = seconds


def measure(n_rows: int) -> tuple[dict[str, float], int]:
    """Seconds of each part of the audit, and the page's bytes."""
    from flows import pipeline

    watch = _Watch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["FABRICA_HOME"] = name
        write_table(folder / "table.parquet", n_rows)
        frame = pd.read_parquet(folder / "table.parquet")
        spec = spec_of(folder / "table.parquet")
        random = np.random.default_rng(3)
        for place in range(MORE_COLUMNS):
            mixed = frame[f"x{place % 10:02d}"] + frame[f"k{place % 4:02d}"] + random.normal(scale=5, size=n_rows)
            frame[f"y{place:02d}"] = np.clip(mixed / 2, 0, 100)
            spec["table"]["columns"][f"y{place:02d}"] = {"type": "numeric", "bounds": [0, 100]}
        frame.to_parquet(folder / "table.parquet")
        (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
        with observed_by(watch):
            candidate = pipeline.propose(folder / "spec.yaml", "a")
        return {step: watch.seconds[step] for step in AUDIT}, candidate.report.stat().st_size


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    seconds, page = measure(arguments.rows)
    total = sum(seconds.values())
    if arguments.json:
        print(json.dumps({"rows": arguments.rows, "seconds": seconds, "total_s": total, "page_bytes": page}))
        return
    print(f"audit of {arguments.rows} rows x 31 columns: {total:.1f} s; page {page / 1e6:.2f} MB")
    for step, own in seconds.items():
        print(f"  {own / total:6.1%}  {own:7.2f} s  {step}")


if __name__ == "__main__":
    main()
