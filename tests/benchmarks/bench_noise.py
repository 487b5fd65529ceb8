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

from tasks.noise import (
    LatticeDiracLaplace,
    LatticeDiracStaircase,
    LatticeGaussian,
    LatticeNoise,
    LatticeOptimal,
    LatticeStaircase,
    LatticeTruncatedLaplace,
    OperatingSystemBits,
)

CASES: list[tuple[str, Callable[[], LatticeNoise]]] = [
    *(
        (
            f"epsilon {epsilon:g}, delta {delta:g}, D {sensitivity}",
            partial(LatticeDiracLaplace, epsilon, delta, sensitivity),
        )
        for epsilon, delta, sensitivity in (
            (1.0, 1e-5, 2**16),
            (1.0, 1e-5, 2**8),
            (8.0, 1e-5, 2**16),
            (0.1, 1e-5, 2**16),
            (1.0, 0.0, 2**30),
            (1e-9, 1e-5, 1),
        )
    ),
    *(
        (f"standard deviation {deviation:g}", partial(LatticeGaussian, deviation))
        for deviation in (0.3, 5.0, 40.0, 2.0**16, 1e12)
    ),
    ("epsilon 1, D 65536", partial(LatticeStaircase, 1.0, 2**16)),
    ("epsilon 4, D 8", partial(LatticeStaircase, 4.0, 8)),
    ("epsilon 1, delta 1e-05, D 65536", partial(LatticeDiracStaircase, 1.0, 1e-5, 2**16)),
    ("epsilon 1, delta 1e-05, D 65536", partial(LatticeTruncatedLaplace, 1.0, 1e-5, 2**16)),
    ("epsilon 1, delta 0.01, D 65536", partial(LatticeOptimal.solve, 1.0, 1e-2, 2**16)),
    ("epsilon 1, delta 0.01, D 8", partial(LatticeOptimal.solve, 1.0, 1e-2, 8)),
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
    for description, build in CASES:
        start = time.perf_counter()
        law = build()
        law.sample(1, bits=bits)
        setup = time.perf_counter() - start
        rate = n_values / best_seconds(partial(law.sample, n_values, bits=bits)) / 1e6
        cases.append(
            {
                "mechanism": law.name,
                "law": description,
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
    print(f"{'mechanism':<18} {'law':<36} {'M values/s':>11} {'of urandom':>11} {'first call s':>13}")
    cases = result["cases"]
    assert isinstance(cases, list)
    for case in cases:
        print(
            f"{case['mechanism']:<18} {case['law']:<36} {case['million_values_per_s']:>11.2f} "
            f"{case['of_urandom']:>11.3f} {case['first_call_s']:>13.4f}"
        )


if __name__ == "__main__":
    main()
