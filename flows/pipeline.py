"""The bodies of the flows: plain functions that read as a table of contents.

Nothing here knows the orchestrator; `flows/release.py` wraps these functions in Prefect flows.
"""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from schemas.errors import ApprovalPending, IntegrityFailed, RequestRefused, StepFailed
from schemas.release import Candidate, Publication
from schemas.spec import ReleaseSpec
from tasks.accounting import mechanism_of
from tasks.columns.layout import layout_of
from tasks.decode import decode
from tasks.encode import choose_members, encode
from tasks.evaluate import attack, train, training_sets, utility
from tasks.fabricate import fabricate, paper_thresholds, settled
from tasks.files import sha256_file
from tasks.ingest import ingest
from tasks.ledger import Ledger
from tasks.noise import BitSource, OperatingSystemBits
from tasks.perturb import perturb
from tasks.plan import refuse_contradiction
from tasks.publish import publish as publish_candidate
from tasks.read_spec import read_spec
from tasks.reserve import refuse_uncovered, reserve
from tasks.restore import restore
from tasks.shard import shard
from tasks.stage import stage
from tasks.staging import Staging, binding, candidate_digest
from tasks.step import noted, timed
from tasks.validate import validate, validate_release
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
    refuse_contradiction(spec)
    workspace = Workspace.find(spec_path)
    ledger = Ledger.of(workspace.ledger_path)
    staging = Staging(workspace, spec.dataset, release_id)
    with workspace.locked(spec.dataset, release_id):
        if ledger.is_published(spec.dataset, release_id):
            staging.discard()
            raise RequestRefused(f"release {spec.dataset}/{release_id} is published already; use another release id")
        try:
            return _make_candidate(spec, spec_path, staging, ledger, bits)
        except BaseException as error:
            if not ledger.is_charged(spec.dataset, release_id):
                staging.discard()
                raise
            resume = (
                f"the budget of release {spec.dataset}/{release_id} is charged; go on at no further cost with "
                f"--release-id {release_id}"
            )
            if isinstance(error, StepFailed):
                raise StepFailed(f"{error}\n{resume}") from error
            if not isinstance(error, IntegrityFailed):
                noted(resume)
            raise


def _make_candidate(
    spec: ReleaseSpec, spec_path: Path, staging: Staging, ledger: Ledger, bits: BitSource | None
) -> Candidate:
    source_path = project_root(spec_path) / spec.source.path
    mechanism = mechanism_of(spec)
    if staging.is_complete():
        staging.start(spec, sha256_file(source_path) if source_path.is_file() else "")
        return staging.candidate(spec)
    with timed() as times:
        # confidential side
        source = ingest(source_path, spec.table)
        validation = validate(source, spec.table, source_path.name, labels_public=spec.privacy.labels_public)
        staging.start(spec, source.sha256)
        members = staging.member_rows()
        if members is None:
            chosen = choose_members(
                source.frame[spec.table.label],
                spec.evaluation.control_fraction,
                np.random.default_rng(int.from_bytes(os.urandom(16))),
                by_class=spec.privacy.labels_public,
            )
            members = staging.keep_member_rows(chosen)
        encoded = encode(source, spec.table, members)
        rows = len(encoded.members.labels)
        entry = reserve(ledger, spec, staging, mechanism, rows, binding(spec, source.sha256))

        # the border
        noise_added = staging.noise_added()
        if noise_added is None:
            drawn = perturb(encoded.members, mechanism, layout_of(spec.table), bits or OperatingSystemBits())
            ledger.draw(spec.dataset, staging.release_id)
            noise_added = staging.keep_noise_added(drawn)

        # released side
        sharded = shard(noise_added, spec.fabrication.shard_rows)
        fabrication = settled(spec)
        thresholds = None
        if spec.fabrication.stop == "paper":
            thresholds = paper_thresholds(encoded.members, sharded, fabrication.components or 1)
        fabricated = fabricate(sharded, fabrication, thresholds)
        if fabrication.marginals == "restored":
            fabricated = restore(fabricated, noise_added, mechanism, spec.table)
        released = decode(fabricated, noise_added, source.frame.loc[members, list(spec.table.public)], spec.table)
        validate_release(released.frame, spec.table)
        manifest = stage(staging, spec, released, mechanism, noise_added, fabricated, entry)

        # evaluation: confidential, for the internal report
        sets = training_sets(encoded, noise_added, released.frame, spec.table)
        notes: list[str] = []
        classifiers = train(sets, encoded, spec, notes)
        membership_inference = attack(sets, encoded, spec)
        preserved = utility(source.frame.iloc[members], released.frame, spec.table)
        write_report(
            staging,
            manifest,
            mechanism,
            sets,
            members,
            notes,
            source.sha256,
            str(spec_path),
            validation,
            classifiers,
            membership_inference,
            preserved,
            list(times),
        )
    staging.mark_complete()
    return staging.candidate(spec)


def find_candidate(spec_path: Path, digest: str) -> str:
    """The id of the staged release with a given digest.

    Raises
    ------
    ApprovalPending
        No staged candidate of the spec's data set has it.
    """
    spec = read_spec(spec_path)
    folder = Workspace.find(spec_path).staging(spec.dataset, "any").parent
    for path in sorted(folder.glob("*/complete")):
        with suppress(IntegrityFailed):  # another candidate that was changed; it can never have this digest
            if candidate_digest(path.parent / "release", path.parent / "report") == digest:
                return path.parent.name
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
        manifest = publish_candidate(staging, spec, digest, Ledger.of(workspace.ledger_path))
        staging.discard()
    report = workspace.report(spec.dataset, release_id)
    write_index(workspace.reports)
    return Publication(
        release_id=release_id,
        dataset=spec.dataset,
        digest=digest,
        release=workspace.release(spec.dataset, release_id),
        report=report / "audit.html",
        guarantee=manifest.guarantee,
        uncovered=manifest.uncovered,
        step_times=read_report(report).step_times,
    )
