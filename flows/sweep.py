"""The body of a sweep over epsilon: a plain function that reads as a table of contents."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from schemas.errors import FabricaError, IntegrityFailed, StepFailed
from schemas.spec import ReleaseSpec
from schemas.sweep import Sweep
from tasks.ingest import ingest
from tasks.ledger import Ledger
from tasks.noise import BitSource, OperatingSystemBits
from tasks.plan import refuse_contradiction
from tasks.read_spec import read_spec, spec_sha256
from tasks.reserve import refuse_uncovered
from tasks.runner import workers_of
from tasks.step import noted
from tasks.sweep import (
    Variant,
    charge_points,
    forget_place,
    point_ids,
    prepare_place,
    refuse_for_rows,
    refuse_source_as_stand_in,
    refuse_sweep_id,
    refuse_taken,
    scratch_of,
    settings_sha256,
    stand_in_file,
    variants_of,
    what_is_left_out,
    what_was_spent,
    write_sweep,
)
from tasks.sweep_points import accuracy_of_members, choose_rows, measure_point
from tasks.validate import validate
from tasks.workspace import Workspace, project_root
from tasks.write_index import write_index

_ON_A_STAND_IN = (
    "the curve is about a stand-in, by the steward's word a public table, that took the source's place, and not about "
    "the data set's own table: it shows how the settings work there, and the data set's releases may do better or worse"
)
_NOT_COMPARED = "the source was not at hand, so whether the stand-in is another table was not looked at"
_ON_THE_TABLE = (
    "the data set's budget was charged for the noise of every point; the curve itself is computed from confidential "
    "rows outside any guarantee: it is internal, and a choice that is made by it is not covered either"
)


def sweep(
    spec_path: Path,
    epsilons: Sequence[float],
    sweep_id: str,
    *,
    stand_in: Path | None,
    bits: BitSource | None = None,
) -> Sweep:
    """A privacy-utility curve over epsilon, written to the sweep's report folder.

    Parameters
    ----------
    spec_path : Path
    epsilons : sequence of float
        Positive, distinct, ascending, as `tasks.sweep.read_epsilons` gives them.
    sweep_id : str
        A new one.
    stand_in : Path or None
        A public table that takes the source's place; None charges every point to the ledger.
    bits : BitSource, default=None
        None means the operating system's generator.

    Returns
    -------
    Sweep

    Raises
    ------
    FabricaError
        Of the kind that says what to do. Before the budget is charged nothing is left behind; after it, the charge
        stays and the text says so.
    """
    refuse_sweep_id(sweep_id)
    spec = read_spec(spec_path)
    refuse_uncovered(spec)
    refuse_contradiction(spec)
    variants = variants_of(spec, epsilons)
    source_path = project_root(spec_path) / spec.source.path
    if stand_in is not None:
        stand_in_file(stand_in, source_path)
    workspace = Workspace.find(spec_path)
    ledger = Ledger.of(workspace.ledger_path)
    with workspace.locked(spec.dataset, sweep_id), scratch_of(workspace, spec.dataset, sweep_id) as scratch:
        refuse_taken(workspace, ledger, spec.dataset, sweep_id)
        try:
            return _swept(spec, variants, source_path, stand_in, sweep_id, workspace, ledger, bits, scratch)
        except BaseException as error:
            forget_place(workspace, spec.dataset, sweep_id)
            spent = what_was_spent(ledger, spec.dataset, sweep_id, len(variants)) if stand_in is None else None
            if spent is None:
                raise
            if isinstance(error, FabricaError):
                kind = IntegrityFailed if isinstance(error, IntegrityFailed) else StepFailed
                raise kind(f"{error}\n{spent}") from error
            noted(spent)
            raise


def _swept(
    spec: ReleaseSpec,
    variants: Sequence[Variant],
    source_path: Path,
    stand_in: Path | None,
    sweep_id: str,
    workspace: Workspace,
    ledger: Ledger,
    bits: BitSource | None,
    scratch: Path,
) -> Sweep:
    path = stand_in or source_path
    with workers_of(spec.runner) as workers:
        # the rows, confidential or a stand-in's
        source = ingest(path, spec.table)
        if stand_in is not None:
            refuse_source_as_stand_in(source, stand_in, source_path, spec.table)
        validate(source, spec.table, path.name, labels_public=spec.privacy.labels_public)
        rows = choose_rows(source, spec)
        refuse_for_rows(variants, len(rows.members))
        real_accuracy, majority_accuracy = accuracy_of_members(rows, spec)

        prepare_place(workspace, spec.dataset, sweep_id)

        # who pays
        if stand_in is None:
            charge_points(ledger, workspace, spec, variants, sweep_id, source.sha256, len(rows.members))

        # one point after the other
        points = []
        for variant, point_id in zip(variants, point_ids(sweep_id, len(variants)), strict=True):
            if stand_in is None:
                ledger.draw(spec.dataset, point_id)
            points.append(measure_point(variant, rows, bits or OperatingSystemBits(), workers, scratch))

        made = Sweep(
            sweep_id=sweep_id,
            dataset=spec.dataset,
            created_at=datetime.now(UTC),
            spec_sha256=spec_sha256(spec),
            settings_sha256=settings_sha256(spec),
            paid_by="ledger" if stand_in is None else "stand-in",
            rows=len(rows.members),
            control_rows=len(rows.controls),
            unit=spec.privacy.unit,
            delta=spec.privacy.delta,
            points=points,
            real_accuracy=real_accuracy,
            majority_accuracy=majority_accuracy,
            notes=[
                _ON_THE_TABLE if stand_in is None else _ON_A_STAND_IN,
                *([_NOT_COMPARED] if stand_in is not None and not source_path.is_file() else []),
                *what_is_left_out(spec),
                *(f"not covered by the guarantee: {what}" for what in spec.uncovered),
                *rows.notes,
            ],
        )
        write_sweep(made, scratch, workspace)
    write_index(workspace.reports, ledger)
    return made
