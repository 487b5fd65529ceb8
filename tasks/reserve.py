"""Charge the budget before noise is drawn, and refuse what must not be drawn."""

import shutil
from pathlib import Path

from schemas.columns import Column
from schemas.errors import BudgetRefused, IntegrityFailed, RequestRefused
from schemas.ledger import LedgerEntry
from schemas.manifest import Manifest
from schemas.spec import ReleaseSpec
from schemas.table import TableSchema
from tasks.accounting import Mechanism
from tasks.columns.layout import layout_of
from tasks.ledger import Ledger
from tasks.plan import REFUSE_UNPERTURBED_CELLS
from tasks.publish import check_charged
from tasks.staging import Staging
from tasks.step import step
from tasks.workspace import Workspace

_BYTES_A_CELL = 32
"""Of disk space at most, for noise-added and fabricated rows in their order and by shard and class."""


def refuse_uncovered(spec: ReleaseSpec) -> None:
    """Refuse a release that the guarantee does not cover, unless the spec accepts it.

    Raises
    ------
    RequestRefused
    """
    if spec.uncovered and not spec.privacy.allow_uncovered:
        raise RequestRefused(
            "the guarantee does not cover this release: " + "; ".join(spec.uncovered) + ". Use stop: {steps: m} or "
            "{relative: rho}, or accept it with `allow_uncovered: true` under privacy. Nothing was spent"
        )


@step("Reserve budget")
def reserve(
    ledger: Ledger, spec: ReleaseSpec, staging: Staging, mechanism: Mechanism, rows: int, binding: str
) -> LedgerEntry:
    """Charge the release, data and private classifiers together, at record level.

    Parameters
    ----------
    ledger : Ledger
    spec : ReleaseSpec
    staging : Staging
    mechanism : CellNoise or Moments
    rows : int
        Number of members.
    binding : str
        Digest of spec and source.

    Returns
    -------
    LedgerEntry

    Raises
    ------
    RequestRefused
        More than one cell is expected to get no noise and the spec does not accept that, or the disk is too full.
    BudgetRefused
        The budget does not allow it.
    IntegrityFailed
        The ledger is broken, or lacks the charge of a release that lies published here.
    """
    mechanism.record(rows)  # refuses what cannot be built for so many rows
    if not staging.has_noise_added():  # else it is charged, and part of the space taken
        _require_space(staging.folder, rows, spec.table)
    expected = rows * mechanism.unperturbed_per_row
    if expected > REFUSE_UNPERTURBED_CELLS and not spec.privacy.allow_unperturbed_cells:
        raise RequestRefused(
            f"{expected:.3g} of the cells of {rows} rows would be expected to be passed over by the noise (cells x "
            "delta); use a "
            "smaller delta, or accept it with `allow_unperturbed_cells: true` under privacy. Nothing was spent"
        )
    charge = mechanism.guarantees.record
    require_published_charged(staging.workspace, ledger, spec.dataset)
    try:
        return ledger.reserve(spec.dataset, staging.release_id, charge, mechanism.events, spec.privacy.budget, binding)
    except BudgetRefused as refusal:
        notes = []
        if spec.privacy.unit == "element":
            ratio = mechanism.data_guarantees.record.epsilon / spec.privacy.epsilon
            notes.append(f"a record costs about {ratio:.3g} times the spec's privacy.epsilon, which is about a cell")
        if mechanism.classifiers:
            names = ", ".join(own.classifier for own in mechanism.classifiers)
            notes.append(f"the charge includes what is trained on confidential rows: {names}")
        if not notes:
            raise
        raise BudgetRefused(f"{refusal} ({'; '.join(notes)})") from None


def _require_space(folder: Path, rows: int, table: TableSchema) -> None:
    """Refuse a release that will not find the disk space for its rows on their way."""
    width = layout_of(table).width + 8 + sum(_numbers(table.columns[name]) for name in table.released)
    needed, free = rows * width * _BYTES_A_CELL, shutil.disk_usage(folder).free
    if needed > free:
        raise RequestRefused(
            f"{folder}: has {free / 2**30:.3g} GiB of free space, the release needs about {needed / 2**30:.3g} GiB "
            "while it is made; make room, or set FABRICA_HOME elsewhere. No noise was drawn"
        )


def _numbers(column: Column) -> float:
    """How many numbers take as much space as a released value, at most."""
    levels = getattr(column, "levels", [])
    return 1.0 + max((len(level.encode()) for level in levels if isinstance(level, str)), default=0) / 8.0


def require_published_charged(workspace: Workspace, ledger: Ledger, dataset: str) -> None:
    """Refuse to charge a ledger that lacks the charge of a published release: it was cut off, swapped or lost.

    Raises
    ------
    IntegrityFailed
    """
    entries = ledger.entries(dataset)
    for path in sorted(workspace.release(dataset, "any").parent.glob("*/manifest.json")):
        try:
            check_charged(Manifest.model_validate_json(path.read_bytes()), entries)
        except ValueError:
            raise IntegrityFailed(f"{path}: is not a valid manifest; the release was changed") from None
        except IntegrityFailed as error:
            raise IntegrityFailed(
                f"{error}. The ledger at {ledger.name} is not the whole one: restore it before anything is released"
            ) from None
