"""Check a release folder from its own files, as a stranger would, and against the ledger where there is one."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from schemas.base import Model
from schemas.columns import BooleanColumn, CategoricalColumn, IdentifierColumn
from schemas.errors import IntegrityFailed, RequestRefused
from schemas.guarantee import Guarantees
from schemas.manifest import Manifest, ReleasedColumn
from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting import unproved_claim
from tasks.columns.values import on_grid
from tasks.decode import arrow_schema, surrogates
from tasks.fabricate import settled
from tasks.files import CHECKSUMS, checksum_lines, sha256_file
from tasks.ledger import Ledger
from tasks.publish import check_charged
from tasks.read_spec import spec_sha256
from tasks.stage import released_columns, released_frame
from tasks.verify_classifier import verify_classifier

_OF_CLASSIFIERS = "the classifiers' shapes, bounds, settings and guarantees follow from the manifest and its spec"


class VerifiedCheck(Model):
    """One thing that was checked."""

    check: str
    outcome: str
    """`passed`, or `not checked` and why."""


def verify(folder: Path, ledger: Ledger) -> list[VerifiedCheck]:
    """Check a release folder.

    Parameters
    ----------
    folder : Path
        The release folder.
    ledger : Ledger
        The ledger of the workspace; its checks are reported as not made where it does not exist.

    Returns
    -------
    list of VerifiedCheck

    Raises
    ------
    RequestRefused
        `folder` is not a release folder.
    IntegrityFailed
        A check failed; the text says which file and what.
    """
    if not (folder / "manifest.json").is_file():
        raise RequestRefused(f"{folder}: is not a release folder (it has no manifest.json)")
    _verify_checksums(folder)
    manifest = _read_manifest(folder)
    try:
        _verify_claims(folder, manifest)
        start = 0
        for file in manifest.files:
            if file.rows is not None:
                _verify_part(folder / file.path, manifest, file.rows, start)
                start += file.rows
        for record in manifest.classifiers:
            verify_classifier(folder / record.path, record, manifest)
    except IntegrityFailed:
        raise
    except (ValueError, ArithmeticError, TypeError, KeyError, pa.ArrowException, RequestRefused):
        # what cannot even be computed was not written by a release
        raise IntegrityFailed(f"{folder / 'manifest.json'}: its claims cannot be checked; it was changed") from None
    if not 0 < manifest.rows == sum(file.rows or 0 for file in manifest.files):
        raise IntegrityFailed(f"{folder}: the manifest's row count is not that of its data files")
    checks = [
        VerifiedCheck(check=check, outcome="passed")
        for check in [
            "every file is listed in SHA256SUMS and has its checksum",
            "the manifest fits its schema, its files and its spec's digest",
            "the guarantee and the noise follow from the spec",
            "Parquet columns, types, rows, domains and metadata are the manifest's",
            *([_OF_CLASSIFIERS] if manifest.classifiers else []),
        ]
    ]
    if not ledger.exists():
        outcome = f"not checked: there is no ledger at {ledger.name}"
    else:
        _verify_ledger(folder, manifest, ledger)
        outcome = "passed"
    return [
        *checks,
        VerifiedCheck(check="the ledger is unbroken, charges this release, and vouches for its files", outcome=outcome),
    ]


def _verify_ledger(folder: Path, manifest: Manifest, ledger: Ledger) -> None:
    entries = ledger.entries(manifest.dataset)
    check_charged(manifest, entries)
    published = [e for e in entries if e.kind == "commit" and e.release_id == manifest.release_id]
    if not published:
        raise IntegrityFailed(f"ledger: release {manifest.dataset}/{manifest.release_id} is charged but not published")
    if published[-1].binding != sha256_file(folder / CHECKSUMS):
        raise IntegrityFailed(f"{folder / CHECKSUMS}: is not the one that was published under this name")


def _verify_checksums(folder: Path) -> None:
    path = folder / CHECKSUMS
    if not path.is_file():
        raise IntegrityFailed(f"{path}: is missing")
    try:
        stated, actual = _by_name(path.read_text(encoding="utf-8")), _by_name(checksum_lines(folder))
    except UnicodeDecodeError:
        raise IntegrityFailed(f"{path}: is not text; it was changed") from None
    faults = (
        [f"{folder / name}: is missing" for name in stated if name not in actual]
        + [f"{folder / name}: is not listed in {CHECKSUMS}" for name in actual if name not in stated]
        + [f"{folder / name}: was changed" for name in actual if name in stated and actual[name] != stated[name]]
    )
    if faults:
        raise IntegrityFailed("\n".join(faults))


def _by_name(checksums: str) -> dict[str, str]:
    lines = [line.partition("  ") for line in checksums.splitlines()]
    return {name: digest for digest, _, name in lines}


def _read_manifest(folder: Path) -> Manifest:
    path = folder / "manifest.json"
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValueError:
        raise IntegrityFailed(f"{path}: is not a valid manifest") from None


def _verify_claims(folder: Path, manifest: Manifest) -> None:
    path = folder / "manifest.json"
    try:
        spec = ReleaseSpec.model_validate(manifest.spec)
    except ValueError:
        raise IntegrityFailed(f"{path}: its spec is not valid for this version of Fabrica") from None
    if manifest.randomness != "os-csprng":
        raise IntegrityFailed(f"{path}: the noise was seeded (not private); such a release is never published")
    if released_columns(spec.table) != manifest.columns:
        raise IntegrityFailed(f"{path}: its columns are not those of its spec")
    if spec_sha256(spec) != manifest.spec_sha256:
        raise IntegrityFailed(f"{path}: the spec is not the one its digest was made of")
    if (spec.dataset, spec.uncovered) != (manifest.dataset, manifest.uncovered):
        raise IntegrityFailed(f"{path}: data set or uncovered parts are not those of its spec")
    unproved = unproved_claim(manifest, spec)
    if unproved is not None:
        raise IntegrityFailed(f"{path}: {unproved}")
    stated = settled(spec)
    made = (manifest.fabrication.components, manifest.fabrication.stop, manifest.fabrication.marginals)
    if made != (stated.components, stated.model_dump(mode="json")["stop"], stated.marginals):
        raise IntegrityFailed(f"{path}: fabrication is not as the spec has it")
    present = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    if present != {*(file.path for file in manifest.files), "manifest.json", "card.html", CHECKSUMS}:
        raise IntegrityFailed(f"{folder}: the files are not those of the manifest")
    besides = sorted(file.path for file in manifest.files if file.rows is None)
    if besides != sorted(["datapackage.json", *(own.path for own in manifest.classifiers)]):
        raise IntegrityFailed(f"{path}: its files are not data, data package and the classifiers that it lists")
    for file in manifest.files:
        if (folder / file.path).stat().st_size != file.bytes or sha256_file(folder / file.path) != file.sha256:
            raise IntegrityFailed(f"{folder / file.path}: is not the file in the manifest")


def _verify_part(path: Path, manifest: Manifest, rows: int, start: int) -> None:
    try:
        table = pa.parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError):
        raise IntegrityFailed(f"{path}: cannot be read as Parquet") from None
    declared = TableSchema.model_validate(manifest.spec["table"])
    if table.num_rows != rows or table.column_names != [column.name for column in manifest.columns]:
        raise IntegrityFailed(f"{path}: rows or columns are not the manifest's")
    for field in arrow_schema(declared):
        if table.schema.field(field.name) != field:
            raise IntegrityFailed(f"{path}: column `{field.name}` is not of its declared type ({field.type})")
    try:
        metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        guarantee = Guarantees.model_validate_json(metadata.get("fabrica.guarantee", "null"))
    except ValueError:
        raise IntegrityFailed(f"{path}: its metadata are not those of a release") from None
    if (metadata.get("fabrica.dataset"), metadata.get("fabrica.release_id")) != (manifest.dataset, manifest.release_id):
        raise IntegrityFailed(f"{path}: its metadata name another release")
    if guarantee != manifest.guarantee:
        raise IntegrityFailed(f"{path}: its metadata state another guarantee")
    for column in manifest.columns:
        if not _inside(table.column(column.name).combine_chunks(), column):
            raise IntegrityFailed(f"{path}: column `{column.name}` has values outside its declared domain")
    for name, identifier in declared.columns.items():
        if isinstance(identifier, IdentifierColumn):
            fresh = surrogates(start, rows, manifest.rows, identifier)
            if table.column(name).to_pylist() != fresh.tolist():
                raise IntegrityFailed(f"{path}: column `{name}` does not hold fresh identifiers")
    frame = released_frame(table, declared)
    for name, feature in declared.features.items():
        if not isinstance(feature, CategoricalColumn | BooleanColumn) and not on_grid(frame[name], feature):
            raise IntegrityFailed(f"{path}: column `{name}` has values that are finer than its declared precision")
    if declared.constraints:
        from tasks.columns.constraints import violations

        if any(violations(frame, declared)):
            raise IntegrityFailed(f"{path}: rows break a declared constraint")


def _inside(values: pa.Array, column: ReleasedColumn) -> bool:
    """Whether every value of a released column lies in its domain; missing ones only where they may be."""
    if not column.nullable and values.null_count:
        return False
    present = values.drop_null()
    if column.bounds is not None:
        if pa.types.is_temporal(present.type):
            present = present.cast(pa.timestamp("us")) if column.timezone is None else pc.local_timestamp(present)
            lower, upper = (
                pa.scalar(datetime.fromisoformat(str(bound)), pa.timestamp("us")) for bound in column.bounds
            )
        else:
            lower, upper = (pa.scalar(bound) for bound in column.bounds)
        inside = pc.and_(pc.greater_equal(present, lower), pc.less_equal(present, upper))
    elif column.categories is not None:
        inside = pc.is_in(present, pa.array(column.categories, present.type))
    else:  # fresh identifiers
        return len(present.unique()) == len(present)
    return bool(pc.all(inside).as_py() is not False)
