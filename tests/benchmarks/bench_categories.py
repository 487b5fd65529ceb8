"""How to protect a category at element level: noise on its indicators, or a random response in its place?

`python -m tests.benchmarks.bench_categories [--json]`

For each table, epsilon and way: the root mean square error of a category's indicators (summed over its possibilities,
mean over the columns), and the accuracy on real rows of logistic regression trained on the noise-added rows, values
having the same noise in every way; mean of 5 splits. The ways are

- `indicators`: the best noise law on each of k indicators, at epsilon / 2, since a change moves two of them;
- `k-ary`: generalised randomised response, as unbiased indicators;
- `unary`: optimised unary encoding, as unbiased indicators;
- `chosen`: of the two responses the one whose estimates vary less, which is what releases take.

The tables are read from the folder that FABRICA_BENCHDATA names, by default `shared/benchdata` beside the project.
"""

import argparse
import json
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import yaml
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from schemas.table import TableSchema
from tasks.accounting.groups import response_for
from tasks.accounting.lattice import LATTICE_STEPS
from tasks.columns.layout import Block, layout_of
from tasks.encode import encode_features, encode_labels
from tasks.ingest import ingest
from tasks.noise import LabelRandomizedResponse, OperatingSystemBits, UnaryRandomizedResponse, optimal_on_lattice
from tests.benchmarks.bench_tables import FOLDER, SPECS
from tests.sources import frame_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TABLES = ("german-credit", "credit-approval", "adult")
EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-7
SPLITS = 5
_CLOSED_FORMS = ("dirac-staircase", "dirac-laplace", "staircase")


def _indicators(codes: IntArray, block: Block, epsilon: float) -> FloatArray:
    law = optimal_on_lattice(epsilon / 2, DELTA, LATTICE_STEPS, _CLOSED_FORMS)
    exact = np.eye(block.levels)[codes]
    return exact + law.sample(exact.shape) / LATTICE_STEPS


def _k_ary(codes: IntArray, block: Block, epsilon: float) -> FloatArray:
    response = LabelRandomizedResponse(epsilon, block.levels)
    return response.estimate(response.respond(codes, OperatingSystemBits()))


def _unary(codes: IntArray, block: Block, epsilon: float) -> FloatArray:
    response = UnaryRandomizedResponse(epsilon, block.levels)
    return response.estimate(response.respond(codes, OperatingSystemBits()))


def _chosen(codes: IntArray, block: Block, epsilon: float) -> FloatArray:
    response = response_for(epsilon, block.levels)
    return response.estimate(response.respond(codes, OperatingSystemBits()))


WAYS: dict[str, Callable[[IntArray, Block, float], FloatArray]] = {
    "indicators": _indicators,
    "k-ary": _k_ary,
    "unary": _unary,
    "chosen": _chosen,
}


def measure(name: str, epsilon: float) -> dict[str, tuple[float, float]]:
    """Error of the indicators and accuracy, by way."""
    declared = yaml.safe_load((SPECS / f"{name}.yaml").read_text(encoding="utf-8"))["table"]
    table = TableSchema.model_validate(declared)
    frame = frame_of(ingest.function(FOLDER / f"{name.replace('-', '_')}.parquet", table))
    lattice, labels = encode_features(frame, table), encode_labels(frame, table)
    law = optimal_on_lattice(epsilon, DELTA, LATTICE_STEPS, _CLOSED_FORMS)
    found: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in WAYS}
    for split in range(SPLITS):
        train, test = train_test_split(np.arange(len(labels)), test_size=0.3, random_state=split, stratify=labels)
        train = train[:8000]
        values = lattice[train] + law.sample((len(train), lattice.shape[1]))
        for way, draw in WAYS.items():
            rows, errors = values / LATTICE_STEPS, []
            for block in layout_of(table).blocks:
                if block.kind != "category":
                    continue
                own = lattice[train][:, block.place] // LATTICE_STEPS
                codes = own[:, 0] if block.width == 1 else own.argmax(axis=1)
                estimates = draw(codes, block, epsilon)
                errors.append(float(np.mean(np.sum((estimates - np.eye(block.levels)[codes]) ** 2, axis=1)) ** 0.5))
                rows[:, block.place] = estimates[:, 1:] if block.width == 1 else estimates
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(rows, labels[train])
            found[way][0].append(float(np.mean(errors)))
            found[way][1].append(float(model.score(lattice[test] / LATTICE_STEPS, labels[test])))
    return {way: (float(np.mean(errors)), float(np.mean(right))) for way, (errors, right) in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    if not FOLDER.is_dir():
        print(f"the tables are not here: put them into {FOLDER} or name their folder in FABRICA_BENCHDATA")
        return
    for table in TABLES:
        for epsilon in EPSILONS:
            with threadpool_limits(1):
                rows = measure(table, epsilon)
            if as_json:
                print(json.dumps({"table": table, "epsilon": epsilon, "error_and_accuracy": rows}), flush=True)
            else:
                shown = ", ".join(f"{way} {error:.2f} / {right:.3f}" for way, (error, right) in rows.items())
                print(f"{table:<16} epsilon {epsilon:>3g}: error / accuracy: {shown}", flush=True)


if __name__ == "__main__":
    main()
