"""The audit report: what was guaranteed, what attacks achieved, and what the data are good for.

Evaluation looks at confidential rows on purpose, so the report is internal. It holds aggregates over rows, never a
cell's value. The HTML page is rendered from this model and nothing else.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.guarantee import Guarantees, MechanismRecord
from schemas.manifest import FabricationRecord, Randomness
from schemas.spec import DATASET_PATTERN, ClassifierName, ReleaseId

TrainedOn = Literal["real", "noise-added", "fabricated"]


class Interval(Model):
    """An estimate with its confidence interval."""

    estimate: float
    lower: float
    upper: float
    confidence: float = Field(gt=0, lt=1)
    method: str
    """How the interval was made, for example `Wilson` or `bootstrap, 1000 resamples`."""


class Density(Model):
    """Smoothed densities of the attack's distances on a common grid, for the figure."""

    grid: list[float]
    members: list[float]
    controls: list[float]


class MembershipAttack(Model):
    """The seed paper's attack on a KAHM classifier trained on one kind of data."""

    trained_on: TrainedOn
    score: float = Field(ge=0)
    """Integral of the squared difference of the two distance densities (73); has units 1/distance."""
    sigma: float
    """Width of the Gaussian basis that cross-validation chose."""
    regularization: float
    """Ridge term that cross-validation chose."""
    auc: Interval
    """How well the distance tells members from control rows; 0.5 is a coin toss, above it members are nearer."""
    roc_false_positive_rate: list[float]
    roc_true_positive_rate: list[float]
    density: Density


class MembershipInference(Model):
    """Members (rows used for fabrication) against control rows (kept out of it)."""

    members: int
    controls: int
    attacks: list[MembershipAttack]


class ClassifierResult(Model):
    """One classifier trained on one kind of data and tested on real control rows."""

    name: ClassifierName
    trained_on: TrainedOn
    accuracy: Interval
    macro_f1: float = Field(ge=0, le=1)


class ClassifierComparison(Model):
    """Every classifier on every kind of training data, against always answering the largest class."""

    train_rows: int
    test_rows: int
    majority_accuracy: float = Field(ge=0, le=1)
    """Accuracy on the control rows of always answering the members' largest class."""
    results: list[ClassifierResult]


class ColumnUtility(Model):
    """How one released feature compares with the members' values, in the column's own unit.

    Dates and times are in days after the lower bound, ordered categories are numbered from 0. Figures are about the
    values that are present, and `null` where none is, in either table.
    """

    name: str
    mean_real: float | None
    mean_fabricated: float | None
    std_real: float | None
    std_fabricated: float | None
    kolmogorov_smirnov: float | None = Field(ge=0, le=1)
    """Largest distance between the two distribution functions; 0 is equal."""
    missing_real: float = Field(default=0.0, ge=0, le=1)
    """Share of the values that are missing."""
    missing_fabricated: float = Field(default=0.0, ge=0, le=1)


class CategoryUtility(Model):
    """How often a released feature's categories occur, beside the members'."""

    name: str
    categories: list[str]
    """As text; a last one, `missing`, where the column is nullable."""
    shares_real: list[float]
    shares_fabricated: list[float]
    total_variation: float = Field(ge=0, le=1)
    """Half the summed differences of the shares; 0 is equal."""


class Utility(Model):
    """What the release preserves of the members' table."""

    columns: list[ColumnUtility]
    """Features whose values have an order."""
    categories: list[CategoryUtility] = Field(default_factory=list)
    """Features of categories, ordered ones included."""
    correlation_difference: float | None = Field(ge=0, le=2)
    """Mean absolute difference of the correlations over pairs of columns that vary in both; `null` for fewer than two.
    A category counts by an indicator for each possibility, and the pair of indicators that differs most."""
    correlation_pairs: int
    """How many pairs of columns that mean is over."""


class ValidationCheck(Model):
    """One expectation about the source: an allow-list of its outcome, without any value."""

    expectation: str
    column: str | None
    success: bool
    element_count: int | None
    unexpected_count: int | None


class ValidationOutcome(Model):
    """How the source met its declaration."""

    rows: int
    checks: list[ValidationCheck]
    clipped: dict[str, int]
    """Number of values moved to the nearest bound, by column; columns without any are left out."""
    mapped_to_other: dict[str, int] = Field(default_factory=dict)
    """Number of values that are no declared category and became the column's `other`."""
    broken_constraints: dict[str, int] = Field(default_factory=dict)
    """Number of rows that break a constraint which allows it, by the constraint in words."""


class StepTime(Model):
    """How long one step took."""

    step: str
    seconds: float = Field(ge=0)


class Reproduction(Model):
    """What is needed to repeat or check the run."""

    command: str
    code_version: str
    spec_sha256: str
    source_sha256: str
    """Digest of the confidential source file, to recognise it; internal."""
    randomness: Randomness
    python: str
    packages: dict[str, str]
    """Versions of the libraries that computed the figures."""


class AuditReport(Model):
    """`audit.json`: one release's audit, internal."""

    release_id: ReleaseId
    dataset: str = Field(pattern=DATASET_PATTERN)
    created_at: datetime
    rows: int
    """Released rows, as many as there are members."""
    feature_columns: int
    uncovered: list[str]
    guarantee: Guarantees
    mechanism: MechanismRecord
    fabrication: FabricationRecord
    membership_inference: MembershipInference
    utility: Utility
    classifiers: ClassifierComparison
    validation: ValidationOutcome
    warnings: list[str]
    """What a reader must know before trusting the numbers, one sentence each."""
    step_times: list[StepTime]
    reproduction: Reproduction
