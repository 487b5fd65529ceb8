"""Valid reports and manifests with defaults, so that a test shows only what it is about."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.attacks import (
    AttackName,
    CanaryBound,
    Density,
    DensityDifference,
    EmpiricalEpsilon,
    Found,
    MembershipAttack,
    MembershipInference,
    PrivacyRisk,
    PrivacyRisks,
    ReleasedClassifierAttack,
    RiskName,
)
from schemas.audit import AuditReport, Reproduction, StepTime, ValidationCheck, ValidationOutcome
from schemas.guarantee import BASIC_COMPOSITION_PROOF, ELEMENT_PROOF, Guarantee, Guarantees, MechanismRecord
from schemas.manifest import FabricationRecord, LedgerReference, Manifest, ReleasedColumn, ReleasedFile
from schemas.measures import Interval, NotComputed, TrainedOn
from schemas.private_classifiers import PrivateClassifierName
from schemas.spec import ClassifierName
from schemas.sweep import Sweep, SweepPoint
from schemas.utility import (
    CategoryUtility,
    ClassifierComparison,
    ClassifierResult,
    ColumnUtility,
    CorrelationMap,
    Histogram,
    PairUtility,
    Projection,
    Propensity,
    Utility,
)

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


def interval(estimate: float, lower: float, upper: float, method: str = "test") -> Interval:
    """A 95 % interval."""
    return Interval(estimate=estimate, lower=lower, upper=upper, confidence=0.95, method=method)


def wilson(hits: int, n: int) -> Interval:
    """A proportion with Wilson's interval."""
    z = NormalDist().inv_cdf(0.975)
    share, spread = hits / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / spread
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / spread
    return interval(share, max(0.0, middle - half), min(1.0, middle + half), "Wilson")


def around(estimate: float, half: float, method: str = "bootstrap, 1000 resamples") -> Interval:
    """A symmetric interval."""
    return interval(estimate, estimate - half, estimate + half, method)


def _scored(
    attack: AttackName, kind: TrainedOn, shift: float, seed: int, classifier: ClassifierName | None
) -> MembershipAttack:
    """An attack whose members' scores lie higher by a shift, in standard deviations of normal scores."""
    generator = np.random.default_rng(seed)
    members, controls = generator.normal(shift, 1, ROWS), generator.normal(0, 1, CONTROLS)
    auc = float((members[:, None] > controls[None, :]).mean())
    half = 1.96 * math.sqrt(auc * (1 - auc) / min(ROWS, CONTROLS))
    cuts = np.sort(np.concatenate([members, controls]))[::-1][::9]
    false = [float((controls >= cut).mean()) for cut in cuts]
    true = [float((members >= cut).mean()) for cut in cuts]
    found = [
        Found(
            false_positive_rate=rate,
            true_positive_rate=None
            if rate * CONTROLS < 1
            else wilson(int((members > np.quantile(controls, 1 - rate)).sum()), ROWS),
        )
        for rate in (0.001, 0.01)
    ]
    return MembershipAttack(
        attack=attack,
        trained_on=kind,
        classifier=classifier,
        members=ROWS,
        controls=CONTROLS - CONTROLS // 2 if attack == "density-ratio" else CONTROLS,
        auc=interval(auc, max(0.0, auc - half), min(1.0, auc + half), "Wilson's form with the larger variance"),
        found=found,
        roc_false_positive_rate=[0.0, *false, 1.0],
        roc_true_positive_rate=[0.0, *true, 1.0],
        most_exposed=[int(row) for row in np.argsort(-members)[:10]],
        density_difference=_difference(members, controls) if attack == "distance-to-class" else None,
    )


def _difference(members: NDArray[np.float64], controls: NDArray[np.float64]) -> DensityDifference:
    grid = np.linspace(0, 2, 101)

    def density(scores: NDArray[np.float64]) -> list[float]:
        centre, width = 1 - 0.22 * float(scores.mean()), 0.22 * float(scores.std())
        return [float(v) for v in np.exp(-0.5 * ((grid - centre) / width) ** 2) / (width * math.sqrt(2 * math.pi))]

    own = density(members), density(controls)
    score = float(np.trapezoid((np.array(own[0]) - np.array(own[1])) ** 2, grid))
    shown = Density(grid=[float(g) for g in grid], members=own[0], controls=own[1])
    return DensityDifference(score=score, sigma=0.21, regularization=0.01, density=shown)


@cache
def attacks() -> tuple[MembershipAttack, ...]:
    """Every attack on every kind of data: real rows are told apart, the other two hardly."""
    shifts: list[tuple[AttackName, ClassifierName | None, tuple[float, float, float]]] = [
        ("distance-to-class", "kahm", (2.4, 0.12, 0.02)),
        ("distance-to-closest-record", None, (3.6, 0.2, 0.06)),
        ("nearest-neighbour-ratio", None, (2.9, 0.1, 0.03)),
        ("density-ratio", None, (2.2, 0.16, 0.09)),
        ("loss", "gradient-boosting", (1.1, 0.1, 0.0)),
        ("likelihood-ratio", "gradient-boosting", (1.9, 0.14, 0.05)),
    ]
    return tuple(
        _scored(attack, kind, shift, 10 * i + j, classifier)
        for i, (attack, classifier, own) in enumerate(shifts)
        for j, (kind, shift) in enumerate(zip(KINDS, own, strict=True))
    )


def released_attack(shift: float = 0.05, classifier: PrivateClassifierName = "opera") -> ReleasedClassifierAttack:
    """An attack on a released classifier, of epsilon 1, whose members' scores lie higher by a shift."""
    scored = _scored("loss", "fabricated", shift, 97, None).model_dump()
    common = {key: scored[key] for key in scored if key in ReleasedClassifierAttack.model_fields}
    own = {"attack": "margin", "classifier": classifier, "epsilon": 1.0, "delta": 1e-5}
    return ReleasedClassifierAttack.model_validate(common | own)


def inference(**changes: Any) -> MembershipInference:
    """All attacks, and one that could not be run."""
    fields: dict[str, Any] = {
        "members": ROWS,
        "controls": CONTROLS,
        "attacks": list(attacks()),
        "not_computed": [
            NotComputed(
                what="the likelihood-ratio attack on KAHM", reason="its shadow models would take 209999 seconds"
            )
        ],
    }
    return MembershipInference(**(fields | changes))


def risk(
    name: RiskName, variant: str, kind: TrainedOn, members: int, controls: int, naive: int, attacked: int = 500
) -> PrivacyRisk:
    """A risk from counts of right guesses."""
    own, other = wilson(members, attacked), wilson(controls, attacked)
    beyond = (own.estimate - other.estimate) / (1 - other.estimate)
    half = math.hypot(own.upper - own.lower, other.upper - other.lower) / 2 / (1 - other.estimate)
    return PrivacyRisk(
        risk=name,
        variant=variant,
        trained_on=kind,
        attacked=attacked,
        members=own,
        controls=other,
        naive=wilson(naive, attacked),
        risk_beyond_controls=around(beyond, half, "error propagation"),
    )


def privacy_risks() -> PrivacyRisks:
    """All three, attribute inference for several columns."""
    counts: list[tuple[RiskName, str, tuple[int, int, int], int, int]] = [
        ("singling-out", "one column", (310, 24, 11), 9, 3),
        ("singling-out", "several columns", (420, 61, 38), 34, 6),
        ("linkability", "columns in two halves", (466, 22, 9), 8, 1),
        *[
            ("attribute-inference", f"pixel_{i}_3", (400 - 20 * i, 190 + 5 * i, 160 + 6 * i), 150 + 5 * i, 90 + i)
            for i in range(5)
        ],
        ("attribute-inference", "pixel_7_7", (212, 160, 140), 60, 150),
    ]
    return PrivacyRisks(
        risks=[
            risk(name, variant, kind, hits, controls, naive)
            for name, variant, own, controls, naive in counts
            for kind, hits in zip(KINDS, own, strict=True)
        ],
        not_computed=[NotComputed(what="attribute inference of pixel_0_0", reason="the column does not vary")],
    )


def empirical_epsilon(bound: float = 3.2185, claimed: float = 8.0, contradicts: bool | None = None) -> EmpiricalEpsilon:
    """A canary audit; it contradicts the claim where the bound is above it, if nothing else is said."""
    return EmpiricalEpsilon(
        unit="element",
        claimed_epsilon=claimed,
        delta=1e-5,
        confidence=0.95,
        bounds=[
            CanaryBound(
                contradicts_claim=bound > claimed if contradicts is None else contradicts,
                seen="noise-added",
                epsilon_lower_bound=bound,
                correct=97,
                guesses=100,
                canaries=300,
            ),
            CanaryBound(
                contradicts_claim=False,
                seen="fabricated",
                epsilon_lower_bound=0.41,
                correct=68,
                guesses=100,
                canaries=300,
            ),
        ],
    )


CLASSIFIERS: tuple[ClassifierName, ...] = ("kahm", "nearest-neighbour", "logistic", "gradient-boosting")


def comparison(names: Sequence[ClassifierName] = CLASSIFIERS) -> ClassifierComparison:
    """Every classifier on every kind of data."""
    hits = {
        "kahm": (526, 441, 507),
        "nearest-neighbour": (531, 243, 489),
        "logistic": (512, 470, 472),
        "gradient-boosting": (521, 402, 455),
    }
    return ClassifierComparison(
        train_rows=ROWS,
        test_rows=CONTROLS,
        majority_accuracy=61 / CONTROLS,
        results=[
            ClassifierResult(
                name=name,
                trained_on=kind,
                accuracy=wilson(count, CONTROLS),
                macro_f1=around(count / CONTROLS - 0.01, 0.019),
                auc=around(0.5 + count / CONTROLS / 2 - 0.003, 0.006),
            )
            for name in names
            for kind, count in zip(KINDS, hits[name], strict=True)
        ],
    )


def histogram(distance: float = 0.12, scale: float = 1.0, bins: int = 16) -> Histogram:
    """Two histograms, the fabricated one smeared and shifted."""
    edges = np.linspace(0, 16 * scale, bins + 1)
    middle = (edges[:-1] + edges[1:]) / 2 / scale
    real = np.exp(-0.5 * ((middle - 5) / 3) ** 2) + 0.5 * (middle < 1)
    made = np.exp(-0.5 * ((middle - 5 - 5 * distance) / 4) ** 2)
    return Histogram(
        edges=[float(e) for e in edges],
        real=[float(v) for v in real / real.sum()],
        fabricated=[float(v) for v in made / made.sum()],
    )


def column(name: str = "pixel", distance: float = 0.12, scale: float = 1.0) -> ColumnUtility:
    """One column that moved a little."""
    real = [0.0, 1.2, 4.9, 8.7, 13.1]
    return ColumnUtility(
        name=name,
        mean_real=5.184 * scale,
        mean_fabricated=5.402 * scale,
        std_real=4.754 * scale,
        std_fabricated=3.911 * scale,
        quantiles=[0.05, 0.25, 0.5, 0.75, 0.95],
        quantiles_real=[v * scale for v in real],
        quantiles_fabricated=[(v * 0.9 + distance) * scale for v in real],
        kolmogorov_smirnov=distance,
        histogram=histogram(distance, scale),
    )


def columns(n: int = 30) -> list[ColumnUtility]:
    """Columns with different distances."""
    return [column(f"pixel_{i // 8}_{i % 8}", round(0.04 + 0.41 * (i * 37 % n) / n, 4)) for i in range(n)]


def category(
    name: str = "workclass", categories: Sequence[str] = ("Private", "State-gov", "missing")
) -> CategoryUtility:
    """A column of categories whose first lost some of its share."""
    n = len(categories)
    real = np.arange(n, 0, -1) / (n * (n + 1) / 2)
    made = 0.8 * real + 0.2 / n
    return CategoryUtility(
        name=name,
        categories=list(categories),
        shares_real=[float(v) for v in real],
        shares_fabricated=[float(v) for v in made],
        total_variation=float(np.abs(real - made).sum() / 2),
    )


def correlation_map(names: Sequence[str]) -> CorrelationMap:
    """Correlations that fall with the distance of two columns; the last column does not vary."""
    n = len(names)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    real = np.cos(apart / 3.0) * np.exp(-apart / 12.0)
    made = real * (0.4 + 0.6 * (apart == 0))

    def rows(values: NDArray[np.float64]) -> list[list[float | None]]:
        return [
            [None if n > 2 and (i == n - 1 or j == n - 1) else float(values[i, j]) for j in range(n)] for i in range(n)
        ]

    return CorrelationMap(columns=list(names), real=rows(real), fabricated=rows(made))


def projection(cells: int = 20) -> Projection:
    """Rows on two components, the fabricated ones closer to the middle."""
    axis = np.linspace(-3, 3, cells)
    x, y = np.meshgrid(axis, axis)
    real = np.exp(-((x - 1) ** 2) - y**2) + 0.6 * np.exp(-2 * ((x + 1.2) ** 2) - (y - 1) ** 2)
    real = np.where(real > 0.02, real, 0)
    made = np.exp(-0.5 * (x**2 + y**2))
    edges = [float(v) for v in np.linspace(-3.1, 3.1, cells + 1)]
    return Projection(
        x_edges=edges,
        y_edges=edges,
        real=[[float(v) for v in row] for row in 0.94 * real / real.sum()],
        fabricated=[[float(v) for v in row] for row in made / made.sum()],
        real_left_out=0.06,
        explained=0.31,
    )


def utility(own: Sequence[ColumnUtility] | None = None, **changes: Any) -> Utility:
    """Everything that is measured about columns, pairs and rows."""
    made = columns(30) if own is None else list(own)
    names = [c.name for c in made]
    fields: dict[str, Any] = {
        "columns": made,
        "categories": [
            category(),
            category("education", [f"level {i}" for i in range(16)]),
        ],
        "correlation_difference": 0.1834,
        "correlation_pairs": 435,
        "correlations": correlation_map(names) if len(names) > 1 else None,
        "pairs": [
            PairUtility(first=names[i], second=names[i + 1], similarity=0.31 + 0.5 * i / len(names))
            for i in range(len(names) - 1)
        ],
        "pair_similarity": 0.712,
        "propensity": [
            Propensity(model="logistic regression with pairs", pmse=0.0213, expected=0.0061, ratio=3.49),
            Propensity(model="gradient boosting, cross-validated", pmse=0.0871, expected=0.0049, ratio=17.78),
        ],
        "projection": projection(),
        "not_computed": [],
    }
    return Utility(**(fields | changes))


def sweep(**changes: Any) -> Sweep:
    """Five epsilons on a stand-in."""
    points = [(0.5, 0.14, 0.502), (1.0, 0.31, 0.505), (2.0, 0.62, 0.509), (4.0, 0.83, 0.521), (8.0, 0.92, 0.548)]
    fields: dict[str, Any] = {
        "sweep_id": "2026-03-01-s",
        "dataset": "digits",
        "created_at": WHEN,
        "spec_sha256": HEX,
        "settings_sha256": "ef" * 32,
        "paid_by": "stand-in",
        "rows": ROWS,
        "control_rows": CONTROLS,
        "unit": "element",
        "delta": 1e-5,
        "points": [
            SweepPoint(
                epsilon=epsilon,
                record_epsilon=30 * epsilon,
                record_delta=3e-4,
                accuracy={
                    name: wilson(round(CONTROLS * accuracy * (1 - 0.05 * i)), CONTROLS)
                    for i, name in enumerate(CLASSIFIERS)
                },
                attack_auc=around(auc, 0.024, "Wilson's form"),
                attack="density-ratio",
            )
            for epsilon, accuracy, auc in points
        ],
        "real_accuracy": {name: wilson(525 - 4 * i, CONTROLS) for i, name in enumerate(CLASSIFIERS)},
        "majority_accuracy": 61 / CONTROLS,
    }
    return Sweep(**(fields | changes))


def nothing_measured() -> dict[str, Any]:
    """Fields of a report in which nothing could be measured."""
    return {
        "membership_inference": MembershipInference(members=5, controls=3, attacks=[]),
        "privacy_risks": PrivacyRisks(risks=[]),
        "empirical_epsilon": EmpiricalEpsilon(
            unit="element", claimed_epsilon=8.0, delta=1e-5, confidence=0.95, bounds=[]
        ),
        "utility": Utility(columns=[], correlation_difference=None, correlation_pairs=0),
        "classifiers": ClassifierComparison(train_rows=5, test_rows=3, majority_accuracy=0.5, results=[]),
    }


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
        "membership_inference": inference(),
        "privacy_risks": privacy_risks(),
        "empirical_epsilon": empirical_epsilon(),
        "utility": utility(),
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
            audit_seed=20261130,
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
