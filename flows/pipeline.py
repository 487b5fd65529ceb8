"""The bodies of the flows: plain functions that read as a table of contents.

Nothing here knows the orchestrator; `flows/release.py` wraps these functions in Prefect flows.
"""

import os
from pathlib import Path

import numpy as np

from schemas.errors import ApprovalPending, FabricaError, RequestRefused
from schemas.release import Candidate, Publication
from schemas.spec import ReleaseSpec
from tasks.accounting import mechanism_of
from tasks.decode import decode
from tasks.encode import choose_control_rows, encode
from tasks.evaluate import attack, train, training_sets, utility
from tasks.fabricate import fabricate, paper_thresholds
from tasks.ingest import ingest
from tasks.ledger import Ledger
from tasks.noise import BitSource, OperatingSystemBits
from tasks.perturb import perturb
from tasks.publish import publish as publish_candidate
from tasks.read_spec import read_spec
from tasks.reserve import refuse_uncovered, reserve
from tasks.shard import shard
from tasks.stage import stage
from tasks.staging import Staging, candidate_digest
from tasks.step import timed
from tasks.validate import validate
from tasks.workspace import Workspace, project_root
from tasks.write_report import read_report, write_index, write_report


def propose(spec_path: Path, release_id: str, bits: BitSource | None = None) -> Candidate:
    """Everything up to a staged candidate with its digest and report.

    Parameters
    ----------
    spec_path : Path
    release_id : str
        An unfinished release of that name is taken up again: its noise-added data are read, not drawn anew.
    bits : BitSource, default=None
        None means the operating system's generator.

    Returns
    -------
    Candidate

    Raises
    ------
    FabricaError
        Of the kind that says what to do. Before the budget is charged nothing is left behind; after it, the text
        says how to go on.
    """
    spec = read_spec(spec_path)
    refuse_uncovered(spec)
    workspace = Workspace.find(spec_path)
    ledger = Ledger.of(workspace.ledger_path)
    staging = Staging(workspace, spec.dataset, release_id)
    if workspace.release(spec.dataset, release_id).exists() and not staging.folder.exists():
        raise RequestRefused(f"release {spec.dataset}/{release_id} is published already; use another release id")
    with workspace.locked(spec.dataset, release_id):
        try:
            return staging.candidate() or _make_candidate(spec, spec_path, staging, ledger, bits)
        except BaseException as error:
            charged = any(entry.release_id == release_id for entry in ledger.entries(spec.dataset))
            if not charged:
                staging.discard()
            elif isinstance(error, FabricaError):
                raise type(error)(
                    f"{error}\nthe budget of release {spec.dataset}/{release_id} is charged; go on at no further cost "
                    f"with --release-id {release_id}"
                ) from None
            raise


def _make_candidate(
    spec: ReleaseSpec, spec_path: Path, staging: Staging, ledger: Ledger, bits: BitSource | None
) -> Candidate:
    source_path = project_root(spec_path) / spec.source.path
    mechanism = mechanism_of(spec)
    with timed() as times:
        # confidential side
        source = ingest(source_path, spec.table)
        validation = validate(source, spec.table, source_path.name, labels_public=spec.privacy.labels_public)
        staging.start(spec, source.sha256)
        controls = staging.control_rows()
        if controls is None:
            drawn = choose_control_rows(
                source.frame[spec.table.label],
                spec.evaluation.control_fraction,
                np.random.default_rng(int.from_bytes(os.urandom(16))),
                by_class=spec.privacy.labels_public,
            )
            controls = staging.keep_control_rows(drawn)
        encoded = encode(source, spec.table, controls)
        entry = reserve(ledger, spec, staging.release_id, mechanism, encoded.members.lattice.size)

        # the border
        noise_added = staging.noise_added()
        if noise_added is None:
            noise_added = staging.keep_noise_added(
                perturb(encoded.members, mechanism, OperatingSystemBits() if bits is None else bits)
            )

        # released side
        sharded = shard(noise_added, spec.fabrication.shard_rows)
        thresholds = None
        if spec.fabrication.stop == "paper":
            thresholds = paper_thresholds(encoded.members, sharded, spec.fabrication.components)
        fabricated = fabricate(sharded, spec.fabrication, thresholds)
        released = decode(fabricated, spec.table)
        manifest = stage(staging, spec, released, mechanism, noise_added, fabricated, entry)

        # evaluation: confidential, for the internal report
        sets = training_sets(encoded, noise_added, released, spec.table)
        notes: list[str] = []
        classifiers = train(sets, encoded, spec, notes)
        membership_inference = attack(sets, encoded, spec)
        preserved = utility(encoded, released, spec.table)
        write_report(
            staging,
            manifest,
            mechanism,
            sets,
            notes,
            source.sha256,
            str(spec_path),
            validation,
            classifiers,
            membership_inference,
            preserved,
            list(times),
        )
    return staging.keep_candidate(
        Candidate(
            release_id=staging.release_id,
            dataset=staging.dataset,
            digest=candidate_digest(staging.release, staging.report),
            guarantee=manifest.guarantee,
            uncovered=manifest.uncovered,
            report=staging.report / "audit.html",
            needs_approval=spec.approval == "required",
        )
    )


def find_candidate(spec_path: Path, digest: str) -> str:
    """The id of the staged release with a given digest.

    Raises
    ------
    ApprovalPending
        No staged candidate of the spec's data set has it.
    """
    spec = read_spec(spec_path)
    folder = Workspace.find(spec_path).staging(spec.dataset, "any").parent
    for path in sorted(folder.glob("*/candidate.json")):
        candidate = Candidate.model_validate_json(path.read_bytes())
        if candidate.digest == digest:
            return candidate.release_id
    raise ApprovalPending(
        f"no staged candidate of data set {spec.dataset} has that digest; a candidate that was published or changed "
        "cannot be approved"
    )


def publish(spec_path: Path, release_id: str, digest: str) -> Publication:
    """Publish a staged candidate under its digest.

    Parameters
    ----------
    spec_path : Path
    release_id, digest : str

    Returns
    -------
    Publication

    Raises
    ------
    FabricaError
        See `tasks.publish.publish`.
    """
    spec = read_spec(spec_path)
    workspace = Workspace.find(spec_path)
    staging = Staging(workspace, spec.dataset, release_id)
    with workspace.locked(spec.dataset, release_id):
        candidate = publish_candidate(staging, spec, digest, Ledger.of(workspace.ledger_path))
        staging.discard()
    report = workspace.report(spec.dataset, release_id)
    write_index(workspace.reports)
    return Publication(
        release_id=release_id,
        dataset=spec.dataset,
        digest=digest,
        release=workspace.release(spec.dataset, release_id),
        report=report / "audit.html",
        guarantee=candidate.guarantee,
        uncovered=candidate.uncovered,
        step_times=read_report(report).step_times,
    )
