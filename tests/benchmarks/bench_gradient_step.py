"""Speed of a private gradient step: `python -m tests.benchmarks.bench_gradient_step [--json]`.

One epoch of PMSVM with adaptive gradient perturbation (one step over all records: clipped gradients, exact noise, Adam)
at the shape of USPS, against the same epoch with the gradient of each record formed, as tools do that work for any
model: n x c x d numbers, in blocks of records, here by plain NumPy. Rows are random; the time does not depend on their
values. Both sums are compared before they are timed. Processor time of all threads counts, the least of several runs,
so that the machine's other work hardly matters; for one thread set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers import gradient_perturbation
from tasks.classifiers.exact_rows import directions_and_lengths
from tasks.classifiers.gradient_perturbation import (
    GradientDescent,
    Regularizer,
    clipped_gradient_sum,
    noisy_gradient_descent,
)
from tasks.classifiers.multiclass_losses import AllPairsHinge, MulticlassLoss
from tasks.noise import OperatingSystemBits

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

N_RECORDS, N_FEATURES, N_CLASSES = 9298, 256, 10
RECORDS_AT_ONCE = 512  # 512 x 10 x 257 doubles are 10 MB
STEPS = 100  # of one fit, the estimator's default: what a fit does once is shared out over them
REPEATS = 3
AIM = 5.0
"""How many times faster a step shall be."""


def per_record_gradient_sum(
    directions: FloatArray,
    lengths: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    loss: MulticlassLoss,
    clip_norm: float,
) -> FloatArray:
    """What `clipped_gradient_sum` gives, with the gradient of each record in memory; the norms are taken from it."""
    total = np.zeros_like(weights)
    for first in range(0, len(directions), RECORDS_AT_ONCE):
        part = slice(first, first + RECORDS_AT_ONCE)
        own = directions[part] * lengths[part, None]
        slopes = loss.slopes(own @ weights.T, labels[part])
        gradients = np.einsum("ic,ij->icj", slopes, own)
        norms = np.sqrt(np.einsum("icj,icj->i", gradients, gradients))
        gradients *= np.minimum(1.0, clip_norm / np.maximum(norms, 1e-12))[:, None, None]
        total += gradients.sum(axis=0)
    return total


def best_cpu_seconds(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least processor time of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def measure(n_records: int) -> dict[str, object]:
    """Time both, and say by how much their sums differ."""
    generator = np.random.default_rng(1)
    rows = np.column_stack([generator.uniform(-1.0, 1.0, (n_records, N_FEATURES)) / 16.0, np.full(n_records, 0.1)])
    labels = generator.integers(0, N_CLASSES, n_records)
    weights = generator.standard_normal((N_CLASSES, N_FEATURES + 1))
    loss = AllPairsHinge()
    sums = [
        form(*directions_and_lengths(rows), labels, weights, loss, 1.0)
        for form in (clipped_gradient_sum, per_record_gradient_sum)
    ]
    difference = float(np.linalg.norm(sums[0] - sums[1]) / np.linalg.norm(sums[1]))
    epoch = partial(
        noisy_gradient_descent,
        rows,
        labels,
        N_CLASSES,
        loss,
        Regularizer(ridge=0.0, pairwise=1e-5, power=2.0, n_columns=N_FEATURES),
        GradientDescent(n_steps=STEPS, learning_rate=0.15, clip_norm=1.0, adaptive=True, averaging=0.5),
        noise_multiplier=10.0,
        parts=2,
        bits=OperatingSystemBits(),
    )
    epoch()  # sets up the noise sampler
    ours = best_cpu_seconds(epoch) / STEPS
    try:
        gradient_perturbation.clipped_gradient_sum = per_record_gradient_sum
        theirs = best_cpu_seconds(epoch) / STEPS
    finally:
        gradient_perturbation.clipped_gradient_sum = clipped_gradient_sum
    return {
        "n_records": n_records,
        "n_features": N_FEATURES,
        "n_classes": N_CLASSES,
        "epoch_cpu_s": round(ours, 5),
        "per_record_epoch_cpu_s": round(theirs, 5),
        "times_faster": round(theirs / ours, 2),
        "aim": AIM,
        "relative_difference_of_sums": difference,
    }


def main() -> None:
    """Print one line, or one JSON object with `--json`."""
    parser = argparse.ArgumentParser(description="Speed of a private gradient step.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--records", type=int, default=N_RECORDS, help=f"records (default {N_RECORDS})")
    arguments = parser.parse_args()
    result = measure(arguments.records)
    if arguments.json:
        print(json.dumps(result))
        return
    print(
        f"{result['n_records']} x {result['n_features']}, {result['n_classes']} classes: {result['epoch_cpu_s']} s of "
        f"processor time an epoch, {result['per_record_epoch_cpu_s']} s with the gradient of each record formed: "
        f"{result['times_faster']} times faster (aim {AIM:g}); the sums differ by a relative "
        f"{result['relative_difference_of_sums']:.1e}"
    )


if __name__ == "__main__":
    main()
