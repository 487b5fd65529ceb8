"""What releases of the benchmark tables are good for: whole releases, from the specs in `data/specs/benchmarks`.

`python -m tests.benchmarks.bench_tables [TABLE ...] [--json] [--runs N]`

For each table, at record level (private moments, epsilon 1, 4 and 16, delta 1e-5) and at element level (noise on cells,
the best law, epsilon 0.5, 1 and 4, delta 1e-7), the four widest tables at one epsilon each: the accuracy on real
control rows of the better one of logistic regression and nearest neighbour, trained on fabricated rows, on real rows,
and on the naive table: every cell with noise for that guarantee, at record level too (where `optimal` noise on cells
takes the place of private moments). `majority` is always answering the members' largest class.

The tables are read from the folder that FABRICA_BENCHDATA names, by default `shared/benchdata` beside the project.
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from threadpoolctl import threadpool_limits

from schemas.audit import AuditReport
from schemas.plan import Plan
from tasks.step import SilentObserver, observed_by
from tests.projects import PROJECT, changed

FOLDER = Path(os.environ.get("FABRICA_BENCHDATA") or PROJECT.parent / "shared" / "benchdata")
SPECS = PROJECT / "data" / "specs" / "benchmarks"
RECORD, ELEMENT = (1.0, 4.0, 16.0), (0.5, 1.0, 4.0)
WIDE = {"cornell": (4.0, 4.0), "isolet": (4.0, 4.0), "mnist5k": (4.0, 4.0), "usps": (4.0, 4.0)}
"""The widest tables and the one epsilon that each is released at, for records and for elements."""
LABELS = {"cornell": {"randomized_response": {"epsilon": 2.0}}}
"""Noise on cells takes labels for public, and then every class needs three rows; one of these has a single row."""
CLASSIFIERS = ("logistic", "nearest-neighbour")


@dataclass
class Row:
    """One guarantee on one table: mean accuracies over the runs."""

    table: str
    unit: str
    epsilon: float
    majority: float
    naive: float
    fabricated: float
    real: float
    useless: bool
    """Whether a run's report says that no classifier was reliably better than the largest class."""
    foretold: float | None
    """Signal-to-noise in the plan."""
    record_epsilon: float
    seconds: float


def _spec(table: str, privacy: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load((SPECS / f"{table}.yaml").read_text(encoding="utf-8"))
    spec = changed(spec, "source.path", str((FOLDER / f"{table.replace('-', '_')}.parquet").resolve()))
    spec = changed(changed(spec, "evaluation.classifiers", list(CLASSIFIERS)), "evaluation.attacks.shadow_models", 0)
    budget = {"budget": {"epsilon": 1e7, "delta": 0.5}}
    return changed(spec, "privacy", {**privacy, **budget})


def _best(report: AuditReport, kind: str) -> float:
    return max(r.accuracy.estimate for r in report.classifiers.results if r.trained_on == kind)


def _run(folder: Path, spec: dict[str, Any], release_id: str) -> tuple[AuditReport, Plan, float]:
    from flows import pipeline
    from tasks.ledger import Ledger
    from tasks.plan import make_plan
    from tasks.read_spec import read_spec
    from tasks.workspace import Workspace

    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False, allow_unicode=True), encoding="utf-8")
    plan = make_plan(read_spec(path), Ledger.of(Workspace.find(path).ledger_path))
    start = time.perf_counter()
    with observed_by(SilentObserver()):
        candidate = pipeline.propose(path, release_id)
        seconds = time.perf_counter() - start
        pipeline.publish(path, release_id, candidate.digest)
    report = folder / "reports" / spec["dataset"] / release_id / "audit.json"
    return AuditReport.model_validate_json(report.read_bytes()), plan, seconds


def measure(table: str, unit: str, epsilon: float, runs: int) -> Row:
    """Release a table `runs` times and give the means."""
    if unit == "record":
        privacy: dict[str, Any] = {"unit": unit, "epsilon": epsilon, "delta": 1e-5, "mechanism": "private-moments"}
    else:
        labels = LABELS.get(table, "public")
        privacy = {"unit": unit, "epsilon": epsilon, "delta": 1e-7, "mechanism": "optimal", "labels": labels}
    found: list[tuple[AuditReport, Plan, float]] = []
    naive: list[float] = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["FABRICA_HOME"] = home
        for run in range(runs):
            found.append(_run(Path(home), _spec(table, privacy), f"r{run}"))
            report = found[-1][0]
            if unit == "record":
                cells = {**privacy, "mechanism": "optimal", "labels": LABELS.get(table, "public")}
                report = _run(Path(home), changed(_spec(table, cells), "dataset", "naive"), f"n{run}")[0]
            naive.append(_best(report, "noise-added"))
    reports = [report for report, _, _ in found]
    return Row(
        table=table,
        unit=unit,
        epsilon=epsilon,
        majority=_mean([own for report in reports if (own := report.classifiers.majority_accuracy) is not None]),
        naive=_mean(naive),
        fabricated=_mean([_best(report, "fabricated") for report in reports]),
        real=_mean([_best(report, "real") for report in reports]),
        useless=any("no classifier trained on the fabricated" in w for report in reports for w in report.warnings),
        foretold=found[0][1].signal_to_noise,
        record_epsilon=reports[0].guarantee.record.epsilon,
        seconds=_mean([seconds for _, _, seconds in found]),
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tables = arguments.tables or sorted(path.stem for path in SPECS.glob("*.yaml"))
    if not FOLDER.is_dir():
        print(f"the tables are not here: put them into {FOLDER} or name their folder in FABRICA_BENCHDATA")
        return
    if not arguments.json:
        print("table           unit       eps  major.  naive  fabr.   real    s/n      s")
    for table in tables:
        record, element = ((WIDE[table][0],), (WIDE[table][1],)) if table in WIDE else (RECORD, ELEMENT)
        for unit, epsilon in [*(("record", e) for e in record), *(("element", e) for e in element)]:
            with threadpool_limits(1):
                row = measure(table, unit, epsilon, arguments.runs)
            if arguments.json:
                print(json.dumps(asdict(row)), flush=True)
                continue
            ratio = "" if row.foretold is None else f"{row.foretold:.2f}"
            verdict = "  not above the largest class" if row.useless else ""
            print(
                f"{table:<16}{unit:<9}{epsilon:>5g} {row.majority:>7.3f} {row.naive:>6.3f} {row.fabricated:>6.3f} "
                f"{row.real:>6.3f} {ratio:>6} {row.seconds:>6.1f}{verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
