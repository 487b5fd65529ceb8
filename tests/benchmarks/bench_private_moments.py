"""What rows drawn from private moments are good for.

`python -m tests.benchmarks.bench_private_moments [--json] [--quick]`

Logistic regression and gradient boosting are trained on drawn rows and tested on real ones that had no part in the
release: means over 70/30 splits, delta = 1e-5, record level, label included.  Bounds are the file's minimum and
maximum, *taken as public in this benchmark only*; categorical columns are 0/1 columns.  `before` is what a first
version reached (separate releases of class counts, class sums and one second moment, no centring; 3 splits).

scikit-learn's tables always run; the others are read from the folder that FABRICA_BENCHDATA names, by default
`shared/benchdata` beside the project, and are left out where it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from tasks.noise import OperatingSystemBits
from tasks.noise.private_moments import LATTICE_STEPS, PrivateMoments

DELTA = 1e-5
EPSILONS = (1.0, 8.0)
SPLITS = 3
FOLDER = Path(os.environ.get("FABRICA_BENCHDATA") or Path(__file__).resolve().parents[2].parent / "shared/benchdata")
FILES = {
    "heart disease": "heart_disease",
    "vehicle": "vehicle",
    "german credit": "german_credit",
    "satimage": "satimage",
}
BEFORE = {
    ("heart disease", 1.0): (0.54, 0.65),
    ("heart disease", 8.0): (0.80, 0.77),
    ("wine", 1.0): (0.33, 0.43),
    ("wine", 8.0): (0.88, 0.78),
    ("breast cancer", 1.0): (0.74, 0.78),
    ("breast cancer", 8.0): (0.94, 0.92),
    ("vehicle", 1.0): (0.38, 0.30),
    ("vehicle", 8.0): (0.60, 0.48),
    ("german credit", 1.0): (0.60, 0.67),
    ("german credit", 8.0): (0.67, 0.71),
    ("satimage", 1.0): (0.79, 0.78),
    ("satimage", 8.0): (0.82, 0.81),
    ("digits", 1.0): (0.56, 0.46),
    ("digits", 8.0): (0.88, 0.85),
}

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def tables() -> Iterator[tuple[str, IntArray, IntArray]]:
    """Name, cells on the lattice and label codes of each table that is there."""
    for name, load in (("wine", load_wine), ("breast cancer", load_breast_cancer), ("digits", load_digits)):
        features, labels = load(return_X_y=True)
        yield name, on_lattice(features), labels.astype(np.int64)
    for name, file in FILES.items():
        path = FOLDER / f"{file}.parquet"
        if path.exists():
            frame = pd.read_parquet(path).dropna()
            labels = pd.factorize(frame.pop("label"), sort=True)[0]
            yield name, on_lattice(pd.get_dummies(frame, dtype=float).to_numpy(np.float64)), labels.astype(np.int64)


def on_lattice(features: FloatArray) -> IntArray:
    """Columns scaled to [0, 2^16] by their own extremes."""
    least, most = features.min(axis=0), features.max(axis=0)
    scaled = (features - least) / np.where(most > least, most - least, 1.0)
    return np.floor(scaled * LATTICE_STEPS + 0.5).astype(np.int64)


def accuracies(trained_on: tuple[IntArray, IntArray], tested_on: tuple[IntArray, IntArray]) -> tuple[float, float]:
    """Of logistic regression and of gradient boosting, in scaled units."""
    (rows, labels), (test_rows, test_labels) = trained_on, tested_on
    if len(np.unique(labels)) == 1:
        same = float(np.mean(test_labels == labels[0]))
        return same, same
    logistic = LogisticRegression(max_iter=1000).fit(rows / LATTICE_STEPS, labels)
    boosting = HistGradientBoostingClassifier(random_state=0, early_stopping=False).fit(rows / LATTICE_STEPS, labels)
    return (
        float(logistic.score(test_rows / LATTICE_STEPS, test_labels)),
        float(boosting.score(test_rows / LATTICE_STEPS, test_labels)),
    )


def measure(name: str, lattice: IntArray, labels: IntArray, splits: int) -> list[dict[str, object]]:
    """One line for each epsilon."""
    bits = OperatingSystemBits()
    n_classes = int(labels.max()) + 1
    parts = [
        train_test_split(np.arange(len(labels)), test_size=0.3, random_state=seed, stratify=labels)
        for seed in range(splits)
    ]
    real = np.mean([accuracies((lattice[a], labels[a]), (lattice[b], labels[b])) for a, b in parts[:1]], axis=0)
    lines: list[dict[str, object]] = []
    for epsilon in EPSILONS:
        reached, seconds = [], []
        for members, controls in parts:
            start = time.perf_counter()
            mechanism = PrivateMoments(epsilon, DELTA, lattice.shape[1], n_classes, len(members))
            release = mechanism.release(lattice[members], labels[members], bits)
            drawn = mechanism.draw(release, len(members), bits)
            seconds.append(time.perf_counter() - start)
            reached.append(accuracies(drawn, (lattice[controls], labels[controls])))
        noise = mechanism.expected_noise()
        lines.append(
            {
                "table": name,
                "rows": len(labels),
                "columns": lattice.shape[1],
                "epsilon": epsilon,
                "majority": round(float(np.bincount(labels).max() / len(labels)), 3),
                "drawn": np.mean(reached, axis=0).round(3).tolist(),
                "spread": np.std(reached, axis=0).round(3).tolist(),
                "before": BEFORE[name, epsilon],
                "real": real.round(3).tolist(),
                "covariance_by_class": mechanism.per_class,
                "signal_to_noise": round(noise.signal_to_noise, 2),
                "class_signal_to_noise": round(noise.class_signal_to_noise, 2),
                "release_s": round(min(seconds), 3),
            }
        )
    return lines


def main() -> None:
    """Print a table, or one JSON object with `--json`."""
    parser = argparse.ArgumentParser(description="Utility of rows drawn from private moments.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="scikit-learn's two small tables, one split")
    arguments = parser.parse_args()
    lines: list[dict[str, object]] = []
    if not arguments.json:
        print("logistic regression / gradient boosting; before = a first version, real = trained on real rows")
        print(f"{'table':<14}{'eps':>4} {'majority':>9} {'drawn':>12} {'+-':>12} {'before':>12} {'real':>12} {'s':>6}")
    with threadpool_limits(1):
        for name, lattice, labels in tables():
            if arguments.quick and name not in {"wine", "breast cancer"}:
                continue
            for line in measure(name, lattice, labels, 1 if arguments.quick else SPLITS):
                lines.append(line)
                if not arguments.json:
                    print_line(line)
    if arguments.json:
        print(json.dumps({"delta": DELTA, "splits": 1 if arguments.quick else SPLITS, "cases": lines}))


def print_line(line: dict[str, object]) -> None:
    """One line of the table."""
    pairs = []
    for key in ("drawn", "spread", "before", "real"):
        pair = line[key]
        assert isinstance(pair, list | tuple)
        pairs.append(f"{pair[0]:.2f} / {pair[1]:.2f}")
    drawn, spread, before, real = pairs
    print(
        f"{line['table']:<14}{line['epsilon']:>4g} {line['majority']:>9.2f} {drawn:>12} {spread:>12} {before:>12} "
        f"{real:>12} {line['release_s']:>6.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
