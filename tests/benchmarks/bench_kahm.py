"""Cost of one smoothing step, in units that travel between machines.

Run as `python -m tests.benchmarks.bench_kahm [--json] [--quick]`. On one BLAS thread, in the same run, it compares one
step of one shard (N = 1000 rows, p = 50 columns, n = 20 components) with

- the floor: one Cholesky factorisation (LAPACK dpotrf) of N x N plus one exponential over the kernel matrix;
- the naive oracle of `tests/oracles.py`: a double loop over pairs and an inverse per iteration. It is timed on fewer
  rows, and both ratios are given: at that size, and the floor's.

Times are medians; contenders alternate, so that other load on the machine hits all alike.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from tasks.kahm import smooth
from tests.oracles import naive_step

N, P, COMPONENTS = 1000, 50, 20
NAIVE_ROWS = 200


def noise_added(rows: int) -> NDArray[np.float64]:
    """Ten overlapping groups in [0, 1], with Laplace noise of a twentieth of the range."""
    rng = np.random.default_rng(0)
    return rng.random((10, P))[rng.integers(0, 10, rows)] + rng.laplace(scale=0.05, size=(rows, P))


def medians(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median duration of each in seconds, taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if turn:  # the first is warming up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def measure(rounds: int) -> dict[str, float]:
    """All figures of this benchmark."""
    Y, few = noise_added(N), noise_added(NAIVE_ROWS)
    exponents = -np.random.default_rng(1).random((N, N))
    scratch = np.empty((N, N))
    matrix = np.asfortranarray(np.exp(-np.abs(np.subtract.outer(np.arange(N), np.arange(N)) / 10.0)))
    matrix[np.diag_indices(N)] += 1.0
    work = np.empty_like(matrix, order="F")

    def dpotrf() -> None:
        work[...] = matrix
        lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)

    with threadpool_limits(limits=1):
        time_of = medians(
            {
                "dpotrf": dpotrf,
                "exp": lambda: np.exp(exponents, out=scratch),
                "step": lambda: smooth(Y, COMPONENTS, 2),
            },
            rounds,
        )
        time_of |= medians(
            {
                "small_step": lambda: smooth(few, COMPONENTS, 2),
                "naive": lambda: naive_step(few, COMPONENTS),
            },
            max(1, rounds // 10),
        )
    floor = time_of["dpotrf"] + time_of["exp"]
    return {
        "rows": N,
        "columns": P,
        "components": COMPONENTS,
        "ratio_to_floor": time_of["step"] / floor,
        "dpotrf_s": time_of["dpotrf"],
        "exp_s": time_of["exp"],
        "step_s": time_of["step"],
        "naive_rows": NAIVE_ROWS,
        "naive_s": time_of["naive"],
        "step_at_naive_rows_s": time_of["small_step"],
        "naive_over_step": time_of["naive"] / time_of["small_step"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of one smoothing step")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    arguments = parser.parse_args()
    figures = measure(rounds=10 if arguments.quick else 40)
    if arguments.json:
        print(json.dumps({**figures, "machine": platform.machine(), "python": platform.python_version()}))
        return
    print(f"one smoothing step, N={N} p={P} n={COMPONENTS}, one thread")
    print(f"  {figures['ratio_to_floor']:.2f} x (dpotrf + exp): {figures['step_s'] * 1e3:.1f} ms")
    print(f"  naive oracle at N={NAIVE_ROWS}: {figures['naive_over_step']:.0f} x the step at that size")


if __name__ == "__main__":
    main()
