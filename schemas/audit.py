"""The audit report: what was guaranteed, what attacks achieved, and what the data are good for.

Evaluation looks at confidential rows on purpose, so the report is internal. It holds aggregates over rows, never a
cell's value. The HTML page is rendered from this model and nothing else.
"""

from datetime import datetime

from pydantic import Field

from schemas.attacks import EmpiricalEpsilon, MembershipInference, PrivacyRisks
from schemas.base import Model
from schemas.guarantee import Guarantees, MechanismRecord
from schemas.manifest import FabricationRecord, Randomness
from schemas.spec import DATASET_PATTERN, ReleaseId
from schemas.sweep import Sweep
from schemas.utility import ClassifierComparison, Utility


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
    """Of the release's noise."""
    audit_seed: int
    """Public, from the release's name: of everything that the audit draws, rehearsals included, so that its figures can
    be computed again."""
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
    privacy_risks: PrivacyRisks
    empirical_epsilon: EmpiricalEpsilon
    utility: Utility
    classifiers: ClassifierComparison
    data_guarantee: Guarantees | None = None
    """Of the fabricated data alone, where classifiers trained on confidential rows are released as well."""
    sweep: Sweep | None = None
    """The data set's latest sweep over epsilon, if there was one."""
    validation: ValidationOutcome
    warnings: list[str]
    """What a reader must know before trusting the numbers, one sentence each."""
    step_times: list[StepTime]
    reproduction: Reproduction
