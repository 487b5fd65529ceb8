"""Whole releases of 10,000, 100,000 and 1,000,000 rows x 20 columns: rows a second, memory, steps, a second worker.

Run as `python -m tests.benchmarks.bench_scale [--json] [--quick]`. Each release runs in a process of its own; its time
is that of the steps, imports of our own modules aside. Peak memory is the largest resident set of that process, and of
its largest worker process where it has any. Ratios are of runs that follow each other.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import yaml

from tasks.step import SilentObserver, observed_by
from tests.benchmarks.scale_table import spec_of, write_table
from tests.memory import peak_mib

ROWS = (10_000, 100_000, 1_000_000)
RUNNERS = ("threads", "processes")


class _Watch(SilentObserver):
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.worker_peak_mib = 0

    def finished(self, step: str, seconds: float) -> None:
        self.seconds[step] = seconds
        peaks = [peak_mib(child.pid) for child in psutil.Process().children(recursive=True)]
        self.worker_peak_mib = max([self.worker_peak_mib, *peaks])


def release(source: Path, runner: str, workers: int) -> dict[str, Any]:
    """One release in this process, in a folder of its own."""
    from flows import pipeline

    watch = _Watch()
    with tempfile.TemporaryDirectory() as folder, observed_by(watch):
        os.environ["FABRICA_HOME"] = folder
        spec = Path(folder) / "spec.yaml"
        spec.write_text(yaml.safe_dump(spec_of(source, runner={runner: {"workers": workers}})))
        start = time.perf_counter()
        candidate = pipeline.propose(spec, "a")
        pipeline.publish(spec, "a", candidate.digest)
        seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "peak_mib": peak_mib(),
        "worker_peak_mib": watch.worker_peak_mib,
        "steps": watch.seconds,
    }


def _apart(source: Path, runner: str, workers: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.bench_scale", "--one", str(source), runner, str(workers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def measure(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Figures of each size with two workers, and of the largest one with one worker too."""
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, Any] = {}
        for n_rows in sizes:
            source = Path(folder) / f"{n_rows}.parquet"
            write_table(source, n_rows)
            runs[str(n_rows)] = _apart(source, "threads", 2) | {"bytes": source.stat().st_size}
        speed_up = {}
        for runner in RUNNERS:
            one, two = (_apart(source, runner, workers) for workers in (1, 2))
            speed_up[runner] = {
                "one_s": one["seconds"],
                "two_s": two["seconds"],
                "ratio": one["seconds"] / two["seconds"],
                "fabricate_ratio": one["steps"]["Fabricate"] / two["steps"]["Fabricate"],
                "peak_mib": two["peak_mib"],
                "worker_peak_mib": two["worker_peak_mib"],
            }
    per_row = {size: run["seconds"] / int(size) for size, run in runs.items()}
    return {
        "columns": 20,
        "cost_per_row_largest_over_smallest": per_row[str(sizes[-1])] / per_row[str(sizes[0])],
        "runs": runs,
        "speed_up_rows": sizes[-1],
        "speed_up": speed_up,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def _print(figures: dict[str, Any]) -> None:
    print(f"releases of 20 columns, two threads ({figures['machine']})")
    print(f"  cost per row, largest over smallest: {figures['cost_per_row_largest_over_smallest']:.2f}")
    for runner, found in figures["speed_up"].items():
        print(
            f"  two {runner} over one, {figures['speed_up_rows']} rows: {found['ratio']:.2f} "
            f"(smoothing alone {found['fabricate_ratio']:.2f})"
        )
    for size, run in figures["runs"].items():
        print(
            f"  {size} rows: {run['seconds']:.1f} s, {int(size) / run['seconds']:.0f} rows/s, {run['peak_mib']:.0f} MiB"
        )
        for step, seconds in run["steps"].items():
            print(f"    {step:<24} {seconds:7.2f}  {seconds / run['seconds']:5.0%}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="no more than 100,000 rows")
    parser.add_argument("--one", nargs=3, metavar=("SOURCE", "RUNNER", "WORKERS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        source, runner, workers = arguments.one
        print(json.dumps(release(Path(source), runner, int(workers))))
        return
    figures = measure(ROWS[:-1] if arguments.quick else ROWS)
    print(json.dumps(figures)) if arguments.json else _print(figures)


if __name__ == "__main__":
    main()
