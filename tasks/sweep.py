"""What a sweep over epsilon may run on, what it costs, and where its result is kept.

A sweep looks at what releases at several epsilons would achieve. On the confidential table that spends all of these
epsilons, whether or not anything is published: whoever chooses by the results has seen them. So there are two ways, and
none that is free: a public stand-in takes the table's place, or the ledger is charged for every point. A sweep is about
the data alone: private classifiers are neither trained nor charged.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import ValidationError

from schemas.errors import BudgetRefused, RequestRefused, ValidationFailed
from schemas.spec import RELEASE_ID_PATTERN, Privacy, ReleaseSpec
from schemas.sweep import Sweep
from schemas.table import TableSchema
from tasks.accounting import Mechanism, mechanism_of
from tasks.files import move_folder, sha256_file, write_whole
from tasks.ingest import few, ingest
from tasks.ledger import Ledger
from tasks.plan import REFUSE_UNPERTURBED_CELLS
from tasks.reporting.sweep_page import sweep_html
from tasks.reserve import require_published_charged
from tasks.staging import binding, new_release_id
from tasks.step import noted, step
from tasks.tables import SourceTable
from tasks.workspace import Workspace, make_private

MOST_EPSILONS = 50
_LEAST_EPSILON = 1e-9
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MOST_SHARED = 0.5
"""Share of the rows that the source holds once which a stand-in may hold as well."""

NEVER_FREE = (
    "a sweep of the confidential table is never free: whoever looks at results of several epsilons on it has spent all "
    "of them. Give exactly one of --stand-in PATH (a public table with the same columns takes the source's place, "
    "nothing is charged) and --charge (every epsilon is charged to the data set's budget, at record level)"
)


# What is asked for --------------------------------------------------------------------------------------------------


def read_epsilons(text: str) -> list[float]:
    """The epsilons of a comma-separated list, smallest first.

    Raises
    ------
    RequestRefused
        One is not a finite number of at least 1e-9 or stands twice, or there are none or more than 50; every bad one is
        named.
    """
    parts = [part.strip() for part in text.split(",")]
    faults, epsilons = [], []
    for part in parts:
        epsilon = float(part) if _NUMBER.fullmatch(part) else math.nan
        if _LEAST_EPSILON <= epsilon < math.inf:
            epsilons.append(epsilon)
        else:
            faults.append(f"--epsilons: {ascii(part)[:42]} is not a finite number of at least {_LEAST_EPSILON:g}")
    faults += [f"--epsilons: {value:g} stands {n} times" for value, n in Counter(epsilons).items() if n > 1]
    if len(parts) > MOST_EPSILONS:
        faults.append(f"--epsilons: are {len(parts)}, at most {MOST_EPSILONS} can be swept")
    if faults:
        raise RequestRefused("\n".join([*few(faults), "write them as in --epsilons 0.5,1,2,4,8. Nothing was spent"]))
    return sorted(epsilons)


def new_sweep_id() -> str:
    """A fresh sweep id."""
    return f"sweep-{new_release_id()}"


def point_ids(sweep_id: str, n_points: int) -> list[str]:
    """The names of a sweep's points in the ledger."""
    return [f"{sweep_id}-{number}" for number in range(1, n_points + 1)]


def refuse_sweep_id(sweep_id: str) -> None:
    """Refuse an id that cannot be one, also with the points' numbers behind it.

    Raises
    ------
    RequestRefused
    """
    if not re.fullmatch(RELEASE_ID_PATTERN, point_ids(sweep_id, MOST_EPSILONS)[-1]):
        raise RequestRefused(
            "--sweep-id: use small letters, digits and hyphens, at most 61, beginning with a letter or digit"
        )


def refuse_taken(workspace: Workspace, ledger: Ledger, dataset: str, sweep_id: str) -> None:
    """Refuse a sweep id under which there is anything, in folders or in the ledger.

    Raises
    ------
    RequestRefused
    """
    ids = [sweep_id, *point_ids(sweep_id, MOST_EPSILONS)]
    known = {entry.release_id for entry in ledger.entries(dataset)}
    kept = (place(dataset, own) for own in ids for place in (workspace.report, workspace.release, workspace.staging))
    if known.intersection(ids) or any(path.exists() for path in kept):
        raise RequestRefused(
            f"sweep {dataset}/{sweep_id}: that id is taken, by a sweep or a release, finished or not, and a sweep is "
            "never taken up again; use another one"
        )


@dataclass(frozen=True)
class Variant:
    """The spec with one of the epsilons, and its mechanism."""

    epsilon: float
    spec: ReleaseSpec
    mechanism: Mechanism


def variants_of(spec: ReleaseSpec, epsilons: Sequence[float]) -> list[Variant]:
    """The spec with each epsilon in its place, without private classifiers.

    Raises
    ------
    RequestRefused
        The spec does not hold with one of them, or no mechanism can be built for it; names each.
    """
    variants, faults = [], []
    for epsilon in epsilons:
        try:
            privacy = Privacy.model_validate(spec.privacy.model_dump(mode="json") | {"epsilon": epsilon})
            content = spec.data_alone().outcome_settings() | {"privacy": privacy.model_dump(mode="json")}
            changed = ReleaseSpec.model_validate(content)
            variants.append(Variant(epsilon, changed, mechanism_of(changed)))
        except ValidationError as error:
            reasons = "; ".join(fault["msg"] for fault in error.errors(include_url=False, include_input=False))
            faults.append(f"--epsilons: {epsilon:g}: {reasons}")
        except RequestRefused as error:
            faults.append(f"--epsilons: {epsilon:g}: {error}")
    if faults:
        raise RequestRefused("\n".join([*few(faults), "Nothing was spent"]))
    return variants


def what_is_left_out(spec: ReleaseSpec) -> list[str]:
    """What a sweep leaves out of a release by this spec, a sentence each, for readers of the curve."""
    left = [entry.classifier for entry in spec.evaluation.private_classifiers]
    if not left:
        return []
    return [
        f"the spec's private classifiers ({', '.join(left)}) were left out: the curve and its epsilons are about the "
        "data alone; what a release pays for classifiers trained on confidential rows is in `fabrica plan`"
    ]


def refuse_for_rows(variants: Sequence[Variant], rows: int) -> None:
    """Refuse epsilons whose mechanism cannot be built for so many rows.

    Raises
    ------
    RequestRefused
        Names each.
    """
    faults = []
    for variant in variants:
        try:
            variant.mechanism.record(rows)
        except RequestRefused as error:
            faults.append(f"--epsilons: {variant.epsilon:g}: {error}")
    if faults:
        raise RequestRefused("\n".join([*few(faults), "Nothing was spent"]))


# Who pays -----------------------------------------------------------------------------------------------------------


def stand_in_file(stand_in: Path, source: Path) -> Path:
    """The stand-in, once it is known to be another file than the source.

    Raises
    ------
    RequestRefused
        There is no such file, it is of no known kind, or it is the source.
    """
    try:
        if not stand_in.is_file():
            raise RequestRefused(f"--stand-in: {stand_in}: no such file, or a folder")
        if stand_in.suffix.lower() not in {".csv", ".parquet"}:
            raise RequestRefused(f"--stand-in: {stand_in}: must be a .csv or .parquet file")
        same = source.exists() and stand_in.samefile(source)
    except OSError as error:  # such as a name that is too long
        raise RequestRefused(f"--stand-in: cannot be read ({error.strerror})") from None
    if same:
        raise _stand_in_is_source(stand_in)
    return stand_in


def refuse_source_as_stand_in(stand_in: SourceTable, path: Path, source: Path, table: TableSchema) -> None:
    """Refuse a stand-in that is the source: by its digest, or because it holds most of the source's rows.

    Rows are compared in any order and kind of file, those that the source holds once: rows of few possible values recur
    in every table. Where the source is not at hand nothing is compared.

    Raises
    ------
    RequestRefused
    """
    if not source.is_file():
        return
    if stand_in.sha256 == sha256_file(source):
        raise _stand_in_is_source(path)
    try:
        own = ingest.function(source, table)
    except ValidationFailed:  # a source that no release could be made of
        return
    hashes, counts = np.unique(_row_hashes(own, table), return_counts=True)
    single = hashes[counts == 1]
    if np.count_nonzero(np.isin(single, _row_hashes(stand_in, table))) > _MOST_SHARED * len(single):
        raise _stand_in_is_source(path)


def _row_hashes(rows: SourceTable, table: TableSchema) -> npt.NDArray[np.uint64]:
    """A number for each row, equal for equal cells."""
    names = [*table.features, table.label]
    return np.concatenate([pd.util.hash_pandas_object(piece[names], index=False).to_numpy() for piece in rows.pieces()])


def _stand_in_is_source(stand_in: Path) -> RequestRefused:
    return RequestRefused(
        f"--stand-in: {stand_in}: is the confidential source itself, or holds most of its rows; use a public table, or "
        "pay with --charge. Nothing was spent"
    )


@step("Reserve budget")
def charge_points(
    ledger: Ledger,
    workspace: Workspace,
    spec: ReleaseSpec,
    variants: Sequence[Variant],
    sweep_id: str,
    source_sha256: str,
    rows: int,
) -> None:
    """Charge every point at record level, all of them or none, before any noise is drawn.

    Raises
    ------
    BudgetRefused
        Together they do not fit what is left of the budget.
    RequestRefused
        More than one cell is expected to get no noise and the spec does not accept that, or an id is taken.
    IntegrityFailed
        The ledger is broken, or lacks the charge of a release that lies published here.

    Notes
    -----
    The charges are bound to a sweep of this spec and source, so no release can be made with them.
    """
    for variant in variants:
        expected = rows * variant.mechanism.unperturbed_per_row
        if expected > REFUSE_UNPERTURBED_CELLS and not spec.privacy.allow_unperturbed_cells:
            raise RequestRefused(
                f"epsilon {variant.epsilon:g}: {expected:.3g} of the cells of {rows} rows would be expected to be "
                "passed over by the noise (cells x delta); use a smaller delta, or accept it with "
                "`allow_unperturbed_cells: true` under privacy. Nothing was spent"
            )
    require_published_charged(workspace, ledger, spec.dataset)
    charges = {
        own: (variant.mechanism.guarantees.record, variant.mechanism.events)
        for own, variant in zip(point_ids(sweep_id, len(variants)), variants, strict=True)
    }
    bound = hashlib.sha256(f"sweep {binding(spec, source_sha256)}".encode()).hexdigest()
    try:
        ledger.reserve_all(spec.dataset, charges, spec.privacy.budget, bound)
    except BudgetRefused as refusal:
        raise BudgetRefused(
            f"{refusal}, smallest epsilon first. Use fewer or smaller epsilons, or a public table with --stand-in"
        ) from None


def _points(number: int) -> str:
    return "one point" if number == 1 else f"{number} points"


def what_was_spent(ledger: Ledger, dataset: str, sweep_id: str, n_points: int) -> str | None:
    """What an unfinished sweep has cost, and what can be given back; `None` where nothing was charged."""
    charged = [own for own in point_ids(sweep_id, n_points) if ledger.is_charged(dataset, own)]
    if not charged:
        return None
    text = (
        f"{_points(len(charged))} of sweep {dataset}/{sweep_id} stay charged, without a result; a sweep "
        "is not taken up again, so start a new one with another id"
    )
    undrawn = [own for own in charged if not ledger.is_drawn(dataset, own)]
    if undrawn:
        text += (
            f". No noise was drawn for {', '.join(undrawn)}: a steward can give these back with `fabrica ledger void "
            f"{dataset} ID --reason TEXT`"
        )
    return text


# Where it is kept ---------------------------------------------------------------------------------------------------


@contextmanager
def scratch_of(workspace: Workspace, dataset: str, sweep_id: str) -> Iterator[Path]:
    """A private, empty folder for a sweep while it is made; removed at the end, or by the next run after a kill."""
    folder = workspace.staging(dataset, f".{sweep_id}.sweep")
    shutil.rmtree(folder, ignore_errors=True)
    make_private(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@step("Write sweep")
def write_sweep(sweep: Sweep, scratch: Path, workspace: Workspace) -> Path:
    """Write `sweep.json` and `sweep.html` into the sweep's folder, which appears whole or not at all.

    Returns
    -------
    Path
        The folder.
    """
    made, place = scratch / "report", workspace.report(sweep.dataset, sweep.sweep_id)
    make_private(made)
    write_whole(made / "sweep.json", (sweep.model_dump_json(indent=2) + "\n").encode())
    write_whole(made / "sweep.html", sweep_html(sweep).encode())
    make_private(place.parent)
    move_folder(made, place)
    return place


def prepare_place(workspace: Workspace, dataset: str, sweep_id: str) -> None:
    """Make the folder above the sweep's, so that a place that cannot be written is found before a charge."""
    make_private(workspace.report(dataset, sweep_id).parent)


def forget_place(workspace: Workspace, dataset: str, sweep_id: str) -> None:
    """Take away what `prepare_place` made, where nothing came to stand in it."""
    folder = workspace.report(dataset, sweep_id).parent
    with suppress(OSError):  # a folder that holds something stays
        folder.rmdir()
        folder.parent.rmdir()


def settings_sha256(spec: ReleaseSpec) -> str:
    """SHA-256 of a spec but for epsilon and budget, which a sweep's points do not share, and private classifiers."""
    settings = spec.data_alone().outcome_settings()
    del settings["privacy"]["epsilon"], settings["privacy"]["budget"]
    return hashlib.sha256(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def is_sweep(folder: Path) -> bool:
    """Whether a report folder is a sweep's."""
    return (folder / "sweep.json").exists()


def sweeps_below(reports: Path, dataset: str = "*") -> list[Sweep]:
    """The sweeps of a data set, or of all, below `reports`; files that cannot be read are left out with a note."""
    found = []
    for path in sorted(reports.glob(f"{dataset}/*/sweep.json")):
        try:
            sweep = Sweep.model_validate_json(path.read_bytes())
        except (OSError, ValueError):
            noted(f"left out: {os.fspath(path)} is not a valid sweep; it was changed or cut off")
            continue
        if (sweep.dataset, sweep.sweep_id) != (path.parent.parent.name, path.parent.name):
            noted(f"left out: {os.fspath(path)} is of another sweep than its folder says")
            continue
        found.append(sweep)
    return found


def latest_sweep(reports: Path, spec: ReleaseSpec) -> Sweep | None:
    """The newest sweep of a spec's data set below `reports`, of those that differ in nothing but epsilon and budget."""
    wanted = settings_sha256(spec)
    found = [sweep for sweep in sweeps_below(reports, spec.dataset) if sweep.settings_sha256 == wanted]
    return max(found, key=lambda sweep: (sweep.created_at, sweep.sweep_id), default=None)
