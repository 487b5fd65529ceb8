"""Cost of distances to a classifier of many branches, in units that travel between machines.

Run as `python -m tests.benchmarks.bench_kahm_prediction [--json] [--quick]`. On one BLAS thread, in the same run, it
compares the distances of queries to all classes with

- the kernel: the matrix product and the exponential of the same blocks, query by training row, and nothing else;
- kernel and image: those, and the product of the kernel with the coefficients, which no method can leave out.

Times are medians; contenders alternate, so that other load on the machine hits all alike. Peak memory is what
`distances` allocates at once beyond its result, as traced by Python: measured for two numbers of queries, since it
should not depend on it but for a few numbers a query. The last figure is an extrapolation, by kernel values, to
100,000 queries and ten classes of 20 branches of 1000 rows.
"""

from __future__ import annotations

import argparse
import json
import platform
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tasks.kahm import KAHMClassifier
from tasks.kahm.hull import Hull, blocks
from tests.benchmarks.bench_kahm import COMPONENTS, medians, noise_added

CLASSES, BRANCHES, BRANCH_ROWS, QUERIES = 4, 5, 1000, 10_000
LARGE_QUERIES, LARGE_ROWS = 100_000, 10 * 20 * 1000


def fitted(classes: int, branches: int) -> KAHMClassifier:
    """A classifier of branches of about BRANCH_ROWS rows."""
    rows = classes * branches * BRANCH_ROWS
    return KAHMClassifier(COMPONENTS, n_branches=branches).fit(noise_added(rows), np.arange(rows) % classes)


def hulls_of(classifier: KAHMClassifier) -> list[Hull]:
    return [hull for machine in classifier.machines_ for layers in machine._branches for hull in layers.hulls]


def kernel_only(hulls: list[Hull], queries: NDArray[np.float64], *, image: bool) -> None:
    """The same blocks without anything around them."""
    for hull in hulls:
        for rows in blocks(len(queries), hull.width):
            kernel = queries[rows, :COMPONENTS] @ hull.whitened.T
            np.negative(kernel, out=kernel)
            np.exp(kernel, out=kernel)
            if image:
                kernel @ hull.coefficients


def peak_bytes(run: Callable[[], NDArray[np.float64]]) -> int:
    """Most bytes allocated at once beside the result."""
    tracemalloc.start()
    try:
        result = run()
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


def measure(quick: bool) -> dict[str, float]:
    """All figures of this benchmark."""
    classes, branches = (2, 2) if quick else (CLASSES, BRANCHES)
    queries = noise_added(QUERIES)
    with threadpool_limits(limits=1):
        classifier = fitted(classes, branches)
        hulls = hulls_of(classifier)
        time_of = medians(
            {
                "distances": lambda: classifier.distances(queries),
                "kernel": lambda: kernel_only(hulls, queries, image=False),
                "kernel_and_image": lambda: kernel_only(hulls, queries, image=True),
            },
            rounds=3 if quick else 5,
        )
        peaks = [peak_bytes(lambda m=m: classifier.distances(queries[:m])) for m in (QUERIES // 4, QUERIES)]  # type: ignore[misc]
    rows = sum(len(hull.whitened) for hull in hulls)
    return {
        "classes": classes,
        "branches": len(hulls),
        "training_rows": rows,
        "queries": QUERIES,
        "queries_per_s": QUERIES / time_of["distances"],
        "ns_per_kernel_value": 1e9 * time_of["distances"] / (QUERIES * rows),
        "ratio_to_kernel": time_of["distances"] / time_of["kernel"],
        "ratio_to_kernel_and_image": time_of["distances"] / time_of["kernel_and_image"],
        "peak_mib_quarter_of_queries": peaks[0] / 2**20,
        "peak_mib": peaks[1] / 2**20,
        "extrapolated_large_s": time_of["distances"] * (LARGE_QUERIES / QUERIES) * (LARGE_ROWS / rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of distances to a classifier of many branches")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="fewer branches and rounds")
    arguments = parser.parse_args()
    figures = measure(arguments.quick)
    if arguments.json:
        print(json.dumps({**figures, "machine": platform.machine(), "python": platform.python_version()}))
        return
    print(f"distances of {QUERIES} queries to {figures['branches']} branches of about {BRANCH_ROWS} rows, one thread")
    print(
        f"  {figures['queries_per_s']:.0f} queries/s, {figures['ns_per_kernel_value']:.2f} ns a query and training row"
    )
    print(f"  {figures['ratio_to_kernel']:.2f} x kernel, {figures['ratio_to_kernel_and_image']:.2f} x kernel and image")
    print(f"  peak memory beside the result: {figures['peak_mib']:.1f} MiB")
    print(f"  {LARGE_QUERIES} queries, {LARGE_ROWS} training rows: about {figures['extrapolated_large_s']:.0f} s")


if __name__ == "__main__":
    main()
