"""Throughput of the exact noise samplers: `python -m tests.benchmarks.bench_noise [--json]`.

Each figure is the best of several runs on one thread, in million exact values per second.  `of_urandom` divides it
by the rate at which the operating system gives 8 bytes a value in the same run, which takes most of the
machine's own speed out of the comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial

from tasks.noise import LatticeDiracLaplace, OperatingSystemBits

CASES = [
    (1.0, 1e-5, 2**16),
    (1.0, 1e-5, 2**8),
    (8.0, 1e-5, 2**16),
    (0.1, 1e-5, 2**16),
    (1.0, 0.0, 2**30),
    (1e-9, 1e-5, 1),
]
REPEATS = 5


def best_seconds(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least wall time of several runs: what the code costs without the machine's other work."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(n_values: int) -> dict[str, object]:
    """Time all cases at `n_values` values each."""
    bits = OperatingSystemBits()
    urandom = n_values / best_seconds(lambda: os.urandom(8 * n_values)) / 1e6
    cases = []
    for epsilon, delta, sensitivity in CASES:
        law = LatticeDiracLaplace(epsilon, delta, sensitivity)
        setup = best_seconds(partial(law.sample, 1, bits=bits), 1)
        rate = n_values / best_seconds(partial(law.sample, n_values, bits=bits)) / 1e6
        cases.append(
            {
                "epsilon": epsilon,
                "delta": delta,
                "sensitivity_steps": sensitivity,
                "million_values_per_s": round(rate, 2),
                "of_urandom": round(rate / urandom, 3),
                "first_call_s": round(setup, 4),
            }
        )
    return {"n_values": n_values, "urandom_million_values_per_s": round(urandom, 2), "cases": cases}


def main() -> None:
    """Print a table, or one JSON object with `--json`."""
    parser = argparse.ArgumentParser(description="Throughput of the exact noise samplers.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--values", type=int, default=2_000_000, help="values per run (default 2000000)")
    arguments = parser.parse_args()
    result = measure(arguments.values)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"operating system, 8 bytes a value: {result['urandom_million_values_per_s']} M/s")
    print(f"{'epsilon':>10} {'delta':>8} {'D':>11} {'M values/s':>11} {'of urandom':>11} {'first call s':>13}")
    cases = result["cases"]
    assert isinstance(cases, list)
    for case in cases:
        print(
            f"{case['epsilon']:>10g} {case['delta']:>8g} {case['sensitivity_steps']:>11d} "
            f"{case['million_values_per_s']:>11.2f} {case['of_urandom']:>11.3f} {case['first_call_s']:>13.4f}"
        )


if __name__ == "__main__":
    main()
