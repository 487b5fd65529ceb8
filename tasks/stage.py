"""Write the release folder in staging, complete and with its checksums; released side."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from schemas.columns import (
    DateColumn,
    DatetimeColumn,
    DroppedColumn,
    IdentifierColumn,
    IntegerColumn,
    NumericColumn,
)
from schemas.errors import IntegrityFailed
from schemas.guarantee import Guarantees
from schemas.ledger import LedgerEntry
from schemas.manifest import FabricationRecord, LedgerReference, Manifest, ReleasedColumn, ReleasedFile
from schemas.private_classifiers import ClassifierRecord, ReleasedClassifier
from schemas.spec import Fabrication, ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting import Mechanism, classifier_events
from tasks.accounting.recheck import classifier_path
from tasks.columns.reading import read_column
from tasks.decode import Released, arrow_schema, with_identifiers
from tasks.fabricate import Fabricated, settled
from tasks.files import CHECKSUMS, checksum_lines, sha256_file, write_whole
from tasks.pieces import piece_rows
from tasks.provenance import code_version
from tasks.read_spec import spec_sha256
from tasks.staging import Staging
from tasks.step import step

ROWS_PER_PART = 2**18
"""About so many; a piece is never parted."""
_FRICTIONLESS_TYPES = {
    "numeric": "number",
    "integer": "integer",
    "date": "date",
    "datetime": "datetime",
    "boolean": "boolean",
}


@step("Stage release")
def stage(
    staging: Staging,
    spec: ReleaseSpec,
    released: Released,
    mechanism: Mechanism,
    randomness: str,
    fabricated: Fabricated,
    entry: LedgerEntry,
    classifiers: Sequence[ReleasedClassifier] = (),
) -> Manifest:
    """The release folder: Parquet data, released classifiers, manifest, data package, card and checksums.

    Parameters
    ----------
    staging : Staging
    spec : ReleaseSpec
    released : Released
        The decoded fabricated data.
    mechanism : CellNoise or Moments
    randomness : str
        Where the noise came from.
    fabricated : Fabricated
    entry : LedgerEntry
        The entry that charged the release.
    classifiers : sequence of ReleasedClassifier, default=()
        From `train_private`, in the spec's order.

    Returns
    -------
    Manifest
        As written; everything in it is released or public.
    """
    from tasks.reporting import release_card_html

    folder = staging.release
    (folder / "data").mkdir(parents=True, exist_ok=True)
    columns = released_columns(spec.table)
    files = _write_parts(folder, released, spec.table, staging, mechanism.guarantees)
    files += [_write_classifier(folder, own) for own in classifiers]
    write_whole(folder / "datapackage.json", _pretty(_data_package(spec, columns, files)))
    files.append(_released_file(folder, "datapackage.json"))
    manifest = Manifest(
        release_id=staging.release_id,
        dataset=staging.dataset,
        created_at=datetime.now(UTC),
        spec=spec.outcome_settings(),
        spec_sha256=spec_sha256(spec),
        code_version=code_version(),
        rows=released.n_rows,
        columns=columns,
        guarantee=mechanism.guarantees,
        mechanism=mechanism.record(released.n_rows),
        fabrication=fabrication_record(settled(spec), fabricated, released),
        labels=mechanism.guarantees.record.labels,
        randomness=_whole_randomness(randomness, classifiers),
        uncovered=spec.uncovered,
        ledger_entry=LedgerReference(sequence=entry.sequence, hash=entry.hash),
        files=files,
        data_guarantee=mechanism.data_guarantees if classifiers else None,
        classifiers=_classifier_records(spec),
    )
    write_whole(folder / "manifest.json", _pretty(manifest.model_dump(mode="json")))
    write_whole(folder / "card.html", release_card_html(manifest).encode())
    write_whole(folder / CHECKSUMS, checksum_lines(folder).encode())
    return manifest


def _write_classifier(folder: Path, classifier: ReleasedClassifier) -> ReleasedFile:
    path = classifier_path(classifier.name)
    (folder / path).parent.mkdir(exist_ok=True)
    write_whole(folder / path, _pretty(classifier.model_dump(mode="json")))
    return _released_file(folder, path)


def _classifier_records(spec: ReleaseSpec) -> list[ClassifierRecord]:
    records = []
    for entry in spec.evaluation.paid_classifiers:
        epsilon, delta = entry.paid
        records.append(
            ClassifierRecord(
                name=entry.classifier,
                path=classifier_path(entry.classifier),
                epsilon=epsilon,
                delta=delta,
                events=list(classifier_events(entry)),
            )
        )
    return records


def _whole_randomness(of_the_data: str, classifiers: Sequence[ReleasedClassifier]) -> str:
    """That of the data, unless a classifier's is not private, which brands the release."""
    return next((own.guarantee.randomness for own in classifiers if not own.guarantee.private), of_the_data)


def released_columns(table: TableSchema) -> list[ReleasedColumn]:
    """The declaration of each released column."""
    columns = []
    for name in table.released:
        column = table.columns[name]
        assert not isinstance(column, DroppedColumn)
        domain: dict[str, Any] = {}
        if isinstance(column, DateColumn | DatetimeColumn):
            domain["bounds"] = tuple(bound.isoformat() for bound in column.bounds)
        elif isinstance(column, NumericColumn | IntegerColumn):
            domain["bounds"] = column.bounds
        elif not isinstance(column, IdentifierColumn):
            domain["categories"] = column.levels
        columns.append(
            ReleasedColumn(
                name=name,
                type=column.type,
                role="label" if name == table.label else column.role,
                nullable=column.nullable,
                timezone=column.timezone if isinstance(column, DatetimeColumn) else None,
                **domain,
            )
        )
    return columns


def fabrication_record(fabrication: Fabrication, fabricated: Fabricated, released: Released) -> FabricationRecord:
    """How the data were fabricated, for manifest and report."""
    return FabricationRecord(
        components=fabrication.components or 1,
        stop=fabrication.model_dump(mode="json")["stop"],
        shard_rows=fabrication.shard_rows,
        marginals=fabrication.marginals or "smoothed",
        shards=len(fabricated.steps),
        steps=fabricated.steps,
        shards_unsettled=fabricated.shards_unsettled,
        rows_projected=released.rows_projected,
        first_errors=fabricated.first_errors,
    )


def _write_parts(
    folder: Path, released: Released, declared: TableSchema, staging: Staging, guarantees: Guarantees
) -> list[ReleasedFile]:
    metadata = {
        "fabrica.dataset": staging.dataset,
        "fabrica.release_id": staging.release_id,
        "fabrica.guarantee": guarantees.model_dump_json(),
    }
    schema = arrow_schema(declared)
    parts: dict[str, int] = {}
    writer: pa.parquet.ParquetWriter | None = None
    n_rows = 0
    try:
        for piece in released.pieces():
            rows = with_identifiers(piece, n_rows, released.n_rows, declared)
            path = f"data/part-{n_rows // ROWS_PER_PART:05d}.parquet"
            if path not in parts:
                if writer is not None:
                    writer.close()
                writer = pa.parquet.ParquetWriter(folder / path, schema.with_metadata(metadata), compression="zstd")
            assert writer is not None
            writer.write_table(rows.replace_schema_metadata(metadata))
            parts[path] = parts.get(path, 0) + len(rows)
            n_rows += len(rows)
    finally:
        if writer is not None:
            writer.close()
    if n_rows != released.n_rows:
        raise IntegrityFailed(f"{folder}: the written parts do not hold all rows")
    return [_released_file(folder, path, rows=rows) for path, rows in parts.items()]


def staged_frames(folder: Path, table: TableSchema) -> Iterator[pd.DataFrame]:
    """The rows of a release folder as its files hold them, piece by piece."""
    for path in sorted((folder / "data").glob("*.parquet")):
        with pa.parquet.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(piece_rows(len(table.released)), row_groups=[group]):
                    yield released_frame(pa.Table.from_batches([batch]), table)


def released_frame(rows: pa.Table, table: TableSchema) -> pd.DataFrame:
    """Released rows in the types in which a source's rows are read; identifiers, if there are any, as they are."""
    columns = {}
    for name in rows.column_names:
        column = table.columns[name]
        if isinstance(column, IdentifierColumn):
            columns[name] = rows.column(name).to_pandas()
        else:
            assert not isinstance(column, DroppedColumn)
            columns[name] = read_column(rows.column(name), column)[0]
    return pd.DataFrame(columns)


def _released_file(folder: Path, path: str, rows: int | None = None) -> ReleasedFile:
    full = folder / path
    return ReleasedFile(path=path, sha256=sha256_file(full), bytes=full.stat().st_size, rows=rows)


def _data_package(spec: ReleaseSpec, columns: list[ReleasedColumn], files: list[ReleasedFile]) -> dict[str, Any]:
    """The release as a Frictionless data package, for tools that read that form."""
    fields: list[dict[str, Any]] = []
    for column in columns:
        declared = spec.table.columns[column.name]
        constraints: dict[str, Any] = {"required": not column.nullable}
        if column.type in _FRICTIONLESS_TYPES:
            kind = _FRICTIONLESS_TYPES[column.type]
        else:
            whole = column.categories is not None and isinstance(column.categories[0], int)
            kind = "integer" if whole or getattr(declared, "surrogate", "text") == "integer" else "string"
        if column.bounds is not None:
            constraints |= {"minimum": column.bounds[0], "maximum": column.bounds[1]}
        elif column.type == "identifier":
            constraints["unique"] = True
        elif column.type != "boolean":
            constraints["enum"] = column.categories
        field: dict[str, Any] = {"name": column.name, "type": kind, "constraints": constraints}
        if declared.description:
            field["description"] = declared.description
        fields.append(field)
    return {
        "profile": "data-package",
        "name": spec.dataset,
        "resources": [
            {
                "name": spec.dataset,
                "path": [file.path for file in files if file.rows is not None],
                "format": "parquet",
                "mediatype": "application/vnd.apache.parquet",
                "schema": {"fields": fields},
            },
            *(
                {"name": Path(file.path).stem, "path": file.path, "format": "json", "mediatype": "application/json"}
                for file in files
                if file.rows is None
            ),
        ],
    }


def _pretty(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
