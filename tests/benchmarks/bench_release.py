"""One release of 1000 rows x 30 columns in this process: the time of each step, imports aside.

Run as `python -m tests.benchmarks.bench_release [--json]`. The steps run twice; the second run is reported, since the
first one also pays for imports.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import pandas as pd

from tasks.step import SilentObserver, observed_by
from tests.projects import PROJECT, SPEC, changed, write_project

ROWS, COLUMNS = 1000, 30


class _Watch(SilentObserver):
    """The time of each step, of the last run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def finished(self, step: str, seconds: float) -> None:
        self.seconds[step] = seconds


def measure() -> dict[str, float]:
    """Seconds of each step, by its title."""
    from flows import pipeline

    frame = pd.read_csv(PROJECT / "data" / "samples" / "digits.csv").head(ROWS)
    features = [name for name in frame.columns if name != "digit"][10 : 10 + COLUMNS]
    columns = {name: {"type": "integer", "bounds": [0, 16]} for name in features}
    columns["digit"] = {"type": "categorical", "categories": list(range(10))}
    spec = changed(changed(SPEC, "table.columns", columns), "privacy.budget", {"epsilon": 1e3, "delta": 0.1})
    spec = changed(changed(spec, "fabrication.components", 20), "fabrication.stop", {"steps": 5})
    watch = _Watch()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FABRICA_HOME"] = folder
        path = write_project(Path(folder) / "p", spec, frame[[*features, "digit"]])
        for release_id in ["first", "second"]:
            with observed_by(watch):
                candidate = pipeline.propose(path, release_id)
                pipeline.publish(path, release_id, candidate.digest)
    return watch.seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    times = measure()
    total = sum(times.values())
    if as_json:
        print(json.dumps({"rows": ROWS, "columns": COLUMNS, "seconds": times, "total_s": total}))
        return
    print(f"release of {ROWS} rows x {COLUMNS} columns, steps in seconds (share of the total)")
    for step, seconds in times.items():
        print(f"  {step:<24} {seconds:6.2f}  {seconds / total:5.0%}")
    print(f"  {'total':<24} {total:6.2f}")


if __name__ == "__main__":
    main()
