"""What rows drawn from private moments are good for.

`python -m tests.benchmarks.bench_private_moments [--json] [--quick]`

Logistic regression and gradient boosting are trained on drawn rows and tested on real ones that had no part in the
release: means over 70/30 splits, delta = 1e-5, record level, label included.  Bounds are the file's minimum and
maximum, and the categories of mixed tables those that occur in the file: both *taken as public in this benchmark
only*.  Columns of two values are binary blocks, other categorical ones one-hot blocks, with a category for missing
ones; numbers that are missing somewhere are nullable blocks.  Means over 3 splits; adult has one, and boosting sees
8000 of its drawn rows.  `before` is what a first version reached (separate releases of class counts, class sums and
one second moment, no centring, columns of 0 and 1 as numbers; 3 splits).

Columns of whole numbers of a range up to 128 are blocks with levels.  ks is the mean Kolmogorov-Smirnov distance of
columns of numbers between members and drawn rows, tv the mean total variation distance of those with levels, share the
part of mu^2 that histograms get (0: none).

scikit-learn's tables always run; the others are read from the folder that FABRICA_BENCHDATA names, by default
`shared/benchdata` beside the project, and are left out where it is not.
"""

from __future__ import annotations

import argparse
import json
import math
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
from tasks.noise.private_moments import LATTICE_STEPS, Block, PrivateMoments

DELTA = 1e-5
EPSILONS = (1.0, 8.0)
MIXED_EPSILONS = (1.0, 4.0, 8.0, 16.0)
SPLITS = 3
FOLDER = Path(os.environ.get("FABRICA_BENCHDATA") or Path(__file__).resolve().parents[2].parent / "shared/benchdata")
FILES = {"vehicle": "vehicle", "satimage": "satimage", "letter": "letter"}
MIXED_FILES = {
    "heart disease": "heart_disease",
    "german credit": "german_credit",
    "credit approval": "credit_approval",
    "adult": "adult",
}
ONE_SPLIT = {"adult", "letter"}
MOST_LEVELS = 128
BOOSTING_ROWS = 8000
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
Blocks = tuple[Block, ...] | None


def tables() -> Iterator[tuple[str, IntArray, IntArray, Blocks]]:
    """Name, cells on the lattice, label codes and blocks (None: numbers only) of each table that is there."""
    for name, load in (("wine", load_wine), ("breast cancer", load_breast_cancer), ("digits", load_digits)):
        features, labels = load(return_X_y=True)
        yield name, on_lattice(features), labels.astype(np.int64), value_blocks(features)
    for name, file in {**FILES, **MIXED_FILES}.items():
        path = FOLDER / f"{file}.parquet"
        if path.exists():
            frame = pd.read_parquet(path)
            labels = pd.factorize(frame.pop("label"), sort=True)[0].astype(np.int64)
            if name in MIXED_FILES:
                lattice, blocks = encoded(frame)
                yield name, lattice, labels, blocks
            else:
                features = frame.to_numpy(np.float64)
                yield name, on_lattice(features), labels, value_blocks(features)


def encoded(frame: pd.DataFrame) -> tuple[IntArray, tuple[Block, ...]]:
    """Mixed columns on the lattice, and their blocks, by what occurs in the file."""
    parts: list[IntArray] = []
    blocks: list[Block] = []
    for _, column in frame.items():
        missing = column.isna().to_numpy()
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > 2:
            numbers = column.fillna(column.min()).to_numpy(np.float64)
            value = on_lattice(numbers[:, None])
            levels = levels_of(numbers)
            if missing.any():
                value[missing] = LATTICE_STEPS // 2
                parts.append(np.where(missing[:, None], LATTICE_STEPS, 0).astype(np.int64))
            parts.append(value)
            blocks.append(Block("nullable", 2, levels) if missing.any() else Block("value", 1, levels))
            continue
        codes = pd.factorize(column.astype(str).mask(missing, "missing"), sort=True)[0]
        width = int(codes.max()) + 1
        hot = np.eye(width, dtype=np.int64)[codes] * LATTICE_STEPS
        parts.append(hot if width > 2 else hot[:, 1:])
        blocks.append(Block("one-hot", width) if width > 2 else Block("binary", 1))
    return np.hstack(parts), tuple(blocks)


def value_blocks(features: FloatArray) -> Blocks:
    """Blocks of numbers only; None where none has few levels."""
    blocks = tuple(Block("value", 1, levels_of(column)) for column in features.T)
    return blocks if any(block.levels for block in blocks) else None


def levels_of(numbers: FloatArray) -> int:
    """Whole numbers of a short range are levels: 0 means that it is not such a column."""
    levels = int(numbers.max() - numbers.min()) + 1
    return levels if np.array_equal(numbers, np.rint(numbers)) and 2 <= levels <= MOST_LEVELS else 0


def distances(real: IntArray, drawn: IntArray, blocks: Blocks) -> tuple[float, float]:
    """Mean Kolmogorov-Smirnov distance over columns of numbers, and total variation over those with levels (or nan)."""
    ks, variation, at = [], [], 0
    for block in blocks or (Block("value", 1),) * real.shape[1]:
        at += block.width
        if block.kind not in {"value", "nullable"}:
            continue
        parts = []
        for rows in (real, drawn):
            present = rows[rows[:, at - 2] == 0] if block.kind == "nullable" else rows
            cells = present[:, at - 1] / LATTICE_STEPS
            if block.levels:  # nearest ones, for rows that were drawn without
                cells = np.floor(cells * (block.levels - 1) + 0.5)
            parts.append(np.sort(cells))
        if not all(part.size for part in parts):
            continue
        points = np.unique(np.concatenate(parts))
        below = [np.searchsorted(part, points, side="right") / len(part) for part in parts]
        ks.append(float(np.max(np.abs(below[0] - below[1]))))
        if block.levels:
            shares = [np.diff(part, prepend=0.0) for part in below]
            variation.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(ks)) if ks else math.nan, float(np.mean(variation)) if variation else math.nan


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
    some = slice(0, BOOSTING_ROWS)
    boosting = HistGradientBoostingClassifier(random_state=0, early_stopping=False)
    boosting.fit(rows[some] / LATTICE_STEPS, labels[some])
    return (
        float(logistic.score(test_rows / LATTICE_STEPS, test_labels)),
        float(boosting.score(test_rows / LATTICE_STEPS, test_labels)),
    )


def measure(name: str, lattice: IntArray, labels: IntArray, blocks: Blocks, splits: int) -> list[dict[str, object]]:
    """One line for each epsilon."""
    bits = OperatingSystemBits()
    n_classes = int(labels.max()) + 1
    parts = [
        train_test_split(np.arange(len(labels)), test_size=0.3, random_state=seed, stratify=labels)
        for seed in range(splits)
    ]
    real = np.mean([accuracies((lattice[a], labels[a]), (lattice[b], labels[b])) for a, b in parts], axis=0)
    lines: list[dict[str, object]] = []
    for epsilon in MIXED_EPSILONS if blocks else EPSILONS:
        reached, seconds, apart = [], [], []
        for members, controls in parts:
            start = time.perf_counter()
            mechanism = PrivateMoments(epsilon, DELTA, lattice.shape[1], n_classes, len(members), blocks)
            release = mechanism.release(lattice[members], labels[members], bits)
            drawn = mechanism.draw(release, len(members), bits)
            seconds.append(time.perf_counter() - start)
            apart.append(distances(lattice[members], drawn[0], blocks))
            reached.append(accuracies(drawn, (lattice[controls], labels[controls])))
        noise = mechanism.expected_noise()
        lines.append(
            {
                "table": name,
                "rows": len(labels),
                "columns": lattice.shape[1],
                "blocks": len(blocks) if blocks else None,
                "epsilon": epsilon,
                "majority": round(float(np.bincount(labels).max() / len(labels)), 3),
                "drawn": np.mean(reached, axis=0).round(3).tolist(),
                "spread": np.std(reached, axis=0).round(3).tolist(),
                "before": BEFORE.get((name, epsilon)),
                "real": real.round(3).tolist(),
                "kolmogorov_smirnov": rounded(apart, 0),
                "total_variation": rounded(apart, 1),
                "marginals_share": round(mechanism.marginals.share, 3),
                "marginals_by_class": mechanism.marginals.by_class,
                "covariance_by_class": mechanism.per_class,
                "signal_to_noise": round(noise.signal_to_noise, 2),
                "class_signal_to_noise": round(noise.class_signal_to_noise, 2),
                "release_s": round(min(seconds), 3),
            }
        )
    return lines


def rounded(pairs: list[tuple[float, float]], place: int) -> float | None:
    """Mean of one of each pair; None where it is not a number."""
    mean = float(np.mean([pair[place] for pair in pairs]))
    return round(mean, 3) if math.isfinite(mean) else None


def main() -> None:
    """Print a table, or one JSON object with `--json`."""
    parser = argparse.ArgumentParser(description="Utility of rows drawn from private moments.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="scikit-learn's two small tables, one split")
    arguments = parser.parse_args()
    lines: list[dict[str, object]] = []
    if not arguments.json:
        print("logistic regression / gradient boosting; before = a first version, real = trained on real rows")
        print(
            f"{'table':<16}{'eps':>4} {'majority':>9} {'drawn':>12} {'+-':>12} {'before':>12} {'real':>12} "
            f"{'ks':>5} {'tv':>5} {'share':>6} {'s':>6}"
        )
    with threadpool_limits(1):
        for name, lattice, labels, blocks in tables():
            if arguments.quick and name not in {"wine", "breast cancer"}:
                continue
            for line in measure(name, lattice, labels, blocks, 1 if arguments.quick or name in ONE_SPLIT else SPLITS):
                lines.append(line)
                if not arguments.json:
                    print_line(line)
    if arguments.json:
        print(json.dumps({"delta": DELTA, "splits": 1 if arguments.quick else SPLITS, "cases": lines}))


def distance(value: object) -> str:
    """With three digits, or a dash where there is none."""
    return f"{value:>5.3f}" if isinstance(value, float) else f"{'-':>5}"


def print_line(line: dict[str, object]) -> None:
    """One line of the table."""
    pairs = []
    for key in ("drawn", "spread", "before", "real"):
        pair = line[key]
        assert pair is None or isinstance(pair, list | tuple)
        pairs.append(f"{pair[0]:.2f} / {pair[1]:.2f}" if pair else "-")
    drawn, spread, before, real = pairs
    print(
        f"{line['table']:<16}{line['epsilon']:>4g} {line['majority']:>9.2f} {drawn:>12} {spread:>12} {before:>12} "
        f"{real:>12} {distance(line['kolmogorov_smirnov'])} {distance(line['total_variation'])} "
        f"{line['marginals_share']:>6} {line['release_s']:>6.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
