"""Valid reports and manifests with defaults, so that a test shows only what it is about."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from schemas.audit import (
    AuditReport,
    ClassifierComparison,
    ClassifierResult,
    ColumnUtility,
    MembershipAttack,
    MembershipInference,
    Reproduction,
    StepTime,
    TrainedOn,
    Utility,
    ValidationCheck,
    ValidationOutcome,
)
from schemas.guarantee import BASIC_COMPOSITION_PROOF, ELEMENT_PROOF, Guarantee, Guarantees, MechanismRecord
from schemas.manifest import FabricationRecord, LedgerReference, Manifest, ReleasedColumn, ReleasedFile
from schemas.spec import ClassifierName
from tasks.audit import membership_attack, wilson_interval

KINDS: tuple[TrainedOn, ...] = ("real", "noise-added", "fabricated")
WHEN = datetime(2026, 3, 9, 14, 5, tzinfo=UTC)
ROWS, CONTROLS = 1258, 539
HEX = "0123456789abcdef" * 4


def guarantee(unit: str = "element", epsilon: float = 8.0, delta: float = 1e-5, distance: float = 1.0) -> Guarantee:
    """A guarantee of one unit."""
    element = unit == "element"
    return Guarantee.model_validate(
        {
            "unit": unit,
            "epsilon": epsilon,
            "delta": delta,
            "distance": distance,
            "neighbouring": "replace_one_cell" if element else "replace_one_record",
            "labels": "public",
            "proof": ELEMENT_PROOF if element else BASIC_COMPOSITION_PROOF,
        }
    )


def guarantees(epsilon: float = 8.0, columns: int = 30, delta: float = 1e-5, distance: float = 1.0) -> Guarantees:
    """Both units, the record's by basic composition."""
    return Guarantees(
        element=guarantee("element", epsilon, delta, distance),
        record=guarantee("record", epsilon * columns, min(1.0, delta * columns), distance),
    )


def mechanism(**changes: Any) -> MechanismRecord:
    """What was run per cell."""
    record = {
        "name": "dirac-laplace",
        "compared": [{"name": "dirac-laplace", "expected_magnitude": 0.125}],
        "events": [{"kind": "approximate", "epsilon": 8.0, "delta": 1e-5}],
        "parameters": {"epsilon": 8.0, "delta": 1e-5, "spacing": 2.0**-16, "sensitivity_steps": 65536},
        "expected_magnitude": 0.125,
        "expected_unperturbed_cells": 0.38,
    }
    return MechanismRecord.model_validate(record | changes)


def fabrication(**changes: Any) -> FabricationRecord:
    """How the data were smoothed."""
    record = {
        "components": 20,
        "stop": {"steps": 5},
        "shard_rows": 1000,
        "shards": 3,
        "steps": [5, 5, 5],
        "shards_unsettled": 0,
        "first_errors": [311.2, 298.4, 344.9],
    }
    return FabricationRecord.model_validate(record | changes)


@cache
def attacks() -> tuple[MembershipAttack, ...]:
    """Three attacks that look like real ones: memorised real rows, the other two hardly."""
    generator = np.random.default_rng(1)
    controls = generator.gamma(9, 0.1, CONTROLS)
    shapes: dict[TrainedOn, tuple[float, float]] = {"real": (3, 0.1), "noise-added": (8.6, 0.1), "fabricated": (9, 0.1)}
    with threadpool_limits(1):  # many small matrices: threads would only wait for each other
        return tuple(membership_attack(generator.gamma(*shapes[kind], ROWS), controls, kind) for kind in KINDS)


def comparison(names: Sequence[ClassifierName] = ("kahm", "nearest-neighbour", "logistic")) -> ClassifierComparison:
    """Every classifier on every kind of data."""
    hits = {"kahm": (526, 441, 507), "nearest-neighbour": (531, 243, 489), "logistic": (512, 470, 472)}
    return ClassifierComparison(
        train_rows=ROWS,
        test_rows=CONTROLS,
        majority_accuracy=61 / CONTROLS,
        results=[
            ClassifierResult(
                name=name, trained_on=kind, accuracy=wilson_interval(count, CONTROLS), macro_f1=count / CONTROLS - 0.004
            )
            for name in names
            for kind, count in zip(KINDS, hits[name], strict=True)
        ],
    )


def column(name: str = "pixel", distance: float = 0.12, scale: float = 1.0) -> ColumnUtility:
    """One column that moved a little."""
    return ColumnUtility(
        name=name,
        mean_real=5.184 * scale,
        mean_fabricated=5.402 * scale,
        std_real=4.754 * scale,
        std_fabricated=3.911 * scale,
        kolmogorov_smirnov=distance,
    )


def columns(n: int = 30) -> list[ColumnUtility]:
    """Columns with different distances."""
    return [column(f"pixel_{i // 8}_{i % 8}", round(0.04 + 0.41 * (i * 37 % n) / n, 4)) for i in range(n)]


def audit_report(**changes: Any) -> AuditReport:
    """A valid audit report; keyword arguments replace its fields."""
    n = 30
    fields: dict[str, Any] = {
        "release_id": "2026-03-09-a",
        "dataset": "digits",
        "created_at": WHEN,
        "rows": ROWS,
        "feature_columns": n,
        "uncovered": [],
        "guarantee": guarantees(columns=n),
        "mechanism": mechanism(),
        "fabrication": fabrication(),
        "membership_inference": MembershipInference(members=ROWS, controls=CONTROLS, attacks=list(attacks())),
        "utility": Utility(columns=columns(n), correlation_difference=0.1834, correlation_pairs=435),
        "classifiers": comparison(),
        "validation": ValidationOutcome(
            rows=ROWS + CONTROLS,
            checks=[
                ValidationCheck(
                    expectation="expect_table_columns_to_match_set",
                    column=None,
                    success=True,
                    element_count=None,
                    unexpected_count=None,
                ),
                ValidationCheck(
                    expectation="expect_column_values_to_not_be_null",
                    column="pixel_0_0",
                    success=True,
                    element_count=ROWS + CONTROLS,
                    unexpected_count=0,
                ),
            ],
            clipped={"pixel_0_3": 4},
        ),
        "warnings": [
            "0.38 cells are expected to get no noise at all (1,258 rows x 30 columns x delta)",
            "4 source values in 1 columns lay outside their bounds and were clipped",
        ],
        "step_times": [
            StepTime(step="Ingest", seconds=0.04),
            StepTime(step="Validate", seconds=1.31),
            StepTime(step="Fabricate", seconds=2.06),
        ],
        "reproduction": Reproduction(
            command="fabrica release data/specs/digits.yaml",
            code_version="0.1.0",
            spec_sha256=HEX,
            source_sha256=HEX[::-1],
            randomness="os-csprng",
            python="3.11.2",
            packages={"numpy": "2.4.0", "scikit-learn": "1.9.0", "scipy": "1.17.0"},
        ),
    }
    return AuditReport(**(fields | changes))


def manifest(**changes: Any) -> Manifest:
    """A valid release manifest; keyword arguments replace its fields."""
    fields: dict[str, Any] = {
        "release_id": "2026-03-09-a",
        "dataset": "digits",
        "created_at": WHEN,
        "spec": {"dataset": "digits", "source": {"path": "data/samples/digits.csv"}},
        "spec_sha256": HEX,
        "code_version": "0.1.0",
        "rows": ROWS,
        "columns": [
            ReleasedColumn(name="pixel_0_0", type="integer", role="feature", bounds=(0, 16)),
            ReleasedColumn(name="weight", type="numeric", role="feature", bounds=(0.5, 120)),
            ReleasedColumn(name="digit", type="categorical", role="label", categories=["0", "1", "2"]),
        ],
        "guarantee": guarantees(columns=2),
        "mechanism": mechanism(),
        "fabrication": fabrication(),
        "labels": "public",
        "randomness": "os-csprng",
        "uncovered": [],
        "ledger_entry": LedgerReference(sequence=7, hash=HEX),
        "files": [
            ReleasedFile(path="data/part-00000.parquet", sha256=HEX, bytes=48211, rows=ROWS),
            ReleasedFile(path="datapackage.json", sha256=HEX, bytes=2210),
        ],
    }
    return Manifest(**(fields | changes))
