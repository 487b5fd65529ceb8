"""Write the internal audit report: JSON first, and the HTML page rendered from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from schemas.attacks import EmpiricalEpsilon, MembershipInference, PrivacyRisks
from schemas.audit import AuditReport, Reproduction, StepTime, ValidationOutcome
from schemas.errors import IntegrityFailed
from schemas.manifest import Manifest
from schemas.sweep import Sweep
from schemas.utility import ClassifierComparison, Utility
from tasks.accounting import Mechanism
from tasks.assess_risks import MOST_ROWS as MOST_HELD
from tasks.attack import MOST_SIDE_ROWS as MOST_ATTACKED
from tasks.audit import private_not_above, reliably_above
from tasks.evaluate import LARGEST_KAHM_CLASS, TrainingSets, audit_seed
from tasks.files import write_whole
from tasks.pieces import PIECE_ROWS
from tasks.plan import guarantee_warnings, unperturbed_warning
from tasks.provenance import code_version, package_versions, python_version
from tasks.sample import AuditSample
from tasks.staging import Staging
from tasks.step import step
from tasks.tables import IntArray
from tasks.workspace import make_private

_MANY_MOVED = 0.1
"""Share of the rows above which a reader is told that constraints moved them."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What the evaluation found."""

    classifiers: ClassifierComparison
    membership_inference: MembershipInference
    privacy_risks: PrivacyRisks
    empirical_epsilon: EmpiricalEpsilon
    utility: Utility


@step("Write report")
def write_report(
    staging: Staging,
    manifest: Manifest,
    mechanism: Mechanism,
    sets: TrainingSets,
    sample: AuditSample,
    member_rows: IntArray,
    notes: list[str],
    source_sha256: str,
    spec_path: str,
    validation: ValidationOutcome,
    measured: Measured,
    sweep: Sweep | None,
    step_times: list[StepTime],
) -> AuditReport:
    """The audit report of a staged release, as `audit.json` and `audit.html` in staging.

    Beside them `members.json` says which rows of the source were members, in the order of the noise-added rows, so that
    an auditor who may see the source can compute every figure again.
    """
    n_features = sum(column.role == "feature" for column in manifest.columns)
    report = AuditReport(
        release_id=manifest.release_id,
        dataset=manifest.dataset,
        created_at=datetime.now(UTC),
        rows=manifest.rows,
        feature_columns=n_features,
        uncovered=manifest.uncovered,
        guarantee=manifest.guarantee,
        data_guarantee=manifest.data_guarantee,
        mechanism=manifest.mechanism,
        fabrication=manifest.fabrication,
        membership_inference=measured.membership_inference,
        privacy_risks=measured.privacy_risks,
        empirical_epsilon=measured.empirical_epsilon,
        utility=measured.utility,
        classifiers=measured.classifiers,
        sweep=sweep,
        validation=validation,
        warnings=_warnings(manifest, mechanism, sets, sample, validation, measured.classifiers, n_features) + notes,
        step_times=step_times,
        reproduction=Reproduction(
            command=f"fabrica release {spec_path}",
            code_version=code_version(),
            spec_sha256=manifest.spec_sha256,
            source_sha256=source_sha256,
            randomness=manifest.randomness,
            audit_seed=audit_seed(manifest.dataset, manifest.release_id),
            python=python_version(),
            packages=package_versions(),
        ),
    )
    make_private(staging.report)
    write_whole(staging.report / "audit.json", (report.model_dump_json(indent=2) + "\n").encode())
    write_whole(staging.report / "members.json", _members(member_rows))
    render_report(staging.report)
    return report


def _members(rows: IntArray) -> Iterator[bytes]:
    yield b'{"member_rows": ['
    for start in range(0, len(rows), PIECE_ROWS):
        yield (b", " if start else b"") + ", ".join(map(str, rows[start : start + PIECE_ROWS].tolist())).encode()
    yield b"]}"


def render_report(folder: Path) -> Path:
    """Render `audit.html` from the `audit.json` beside it.

    Raises
    ------
    IntegrityFailed
        The JSON is missing or does not fit the report's model.
    """
    from tasks.reporting import audit_html

    report = read_report(folder)
    page = folder / "audit.html"
    write_whole(page, audit_html(report).encode())
    return page


def read_report(folder: Path) -> AuditReport:
    """The audit report in a report folder.

    Raises
    ------
    IntegrityFailed
        It is missing or does not fit the report's model.
    """
    path = folder / "audit.json"
    try:
        return AuditReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise IntegrityFailed(f"{path}: no such file; the report of this release is not here") from None
    except OSError as error:
        raise IntegrityFailed(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise IntegrityFailed(
            f"{path}: is not an audit report of this version; it was made by another one, changed or cut off"
        ) from None


def _warnings(
    manifest: Manifest,
    mechanism: Mechanism,
    sets: TrainingSets,
    sample: AuditSample,
    validation: ValidationOutcome,
    classifiers: ClassifierComparison,
    n_features: int,
) -> list[str]:
    warnings = [f"not covered by the guarantee: {what}" for what in manifest.uncovered]
    if manifest.randomness != "os-csprng":
        warnings.append("the noise came from a seeded generator: this release is for tests and is not private")
    warnings += guarantee_warnings(mechanism)
    if few_unperturbed := unperturbed_warning(manifest.rows, mechanism):
        warnings.append(few_unperturbed)
    best = max(
        (result for result in classifiers.results if result.trained_on == "fabricated"),
        key=lambda result: result.accuracy.estimate,
        default=None,
    )
    size = manifest.mechanism.expected_magnitude
    if size is not None and size > 1:
        warnings.append(f"the noise on a cell is typically {size:.3g} times its column's whole range")
    if best is not None and not reliably_above(best, classifiers):
        warnings.append(
            "no classifier trained on the fabricated data is reliably better than always answering the largest class"
        )
    for own in private_not_above(classifiers):
        warnings.append(
            f"the private classifier {own.name}, trained on confidential rows at epsilon {own.epsilon:g}, is not "
            "reliably better than always answering the largest class"
        )
    declared_rows = manifest.spec["table"].get("rows")
    if declared_rows is not None and not 0.8 <= validation.rows / declared_rows <= 1.25:
        warnings.append(
            f"the spec declares {declared_rows:,} rows, the source has {validation.rows:,}: what the plan foretold was "
            "for another table"
        )
    if validation.clipped:
        warnings.append(
            f"{sum(validation.clipped.values()):,} source values in {len(validation.clipped)} columns lay outside "
            "their bounds and were clipped"
        )
    moved = manifest.fabrication.rows_projected
    if moved > _MANY_MOVED * manifest.rows:
        warnings.append(
            f"{moved:,} of {manifest.rows:,} fabricated rows broke a declared constraint and were moved to obey it; "
            "their columns are less like the real ones than noise alone would make them"
        )
    if manifest.fabrication.shards_unsettled:
        warnings.append(
            f"in {manifest.fabrication.shards_unsettled:,} of {manifest.fabrication.shards:,} shards the stop rule was "
            "not met after the most steps that are taken; they were smoothed that often"
        )
    if sets.rows_left_out:
        warnings.append(
            f"the evaluation trained on at most {LARGEST_KAHM_CLASS:,} rows of a class and attacked those rows; "
            f"{sets.rows_left_out:,} of {manifest.rows:,} rows are released but were not evaluated this way"
        )
    measured, controls = len(sample.members.labels), len(sample.controls.labels)
    if measured < sample.n_members or controls < sample.n_controls:
        warnings.append(
            f"columns, categories and correlations are compared on {measured:,} of {sample.n_members:,} members and "
            f"released rows, drawn at random; classifiers are tested, and attacks are judged, on {controls:,} of "
            f"{sample.n_controls:,} control rows"
        )
    if len(sets.member_places) > MOST_ATTACKED or measured > MOST_HELD:
        warnings.append(
            f"attacks on rows are tried on {MOST_ATTACKED:,} members and as many control rows at most, drawn at "
            f"random, and the three risks are those of someone who holds {MOST_HELD:,} rows"
        )
    return warnings
