"""The bodies of the flows: plain functions that read as a table of contents.

Nothing here knows the orchestrator; `flows/release.py` wraps these functions in Prefect flows.
"""

from contextlib import suppress
from pathlib import Path

import numpy as np

from schemas.errors import ApprovalPending, IntegrityFailed, RequestRefused, StepFailed
from schemas.release import Candidate, Publication
from schemas.spec import ReleaseSpec
from tasks.accounting import mechanism_of
from tasks.assess_risks import assess_risks
from tasks.attack import attack
from tasks.decode import decode
from tasks.encode import choose_members, places_of
from tasks.evaluate import audit_seed, compare, train, train_kahm, training_sets, utility
from tasks.fabricate import fabricate, paper_thresholds, settled
from tasks.files import sha256_file
from tasks.ingest import ingest
from tasks.ledger import Ledger
from tasks.noise import BitSource, OperatingSystemBits
from tasks.perturb import perturb
from tasks.plan import refuse_contradiction
from tasks.plant_canaries import plant_canaries
from tasks.private_classifiers import refuse_untrainable
from tasks.publish import publish as publish_candidate
from tasks.read_spec import read_spec
from tasks.reserve import refuse_uncovered, reserve
from tasks.restore import estimate_marginals
from tasks.runner import usable_cores, workers_of
from tasks.sample import sample
from tasks.shard import shard
from tasks.stage import stage, staged_frames
from tasks.staging import Staging, binding, candidate_digest
from tasks.step import noted, timed
from tasks.sweep import is_sweep, latest_sweep
from tasks.train_private import ask_private, train_private
from tasks.train_shadows import train_shadows
from tasks.validate import validate, validate_release
from tasks.workspace import Workspace, project_root
from tasks.write_index import write_index
from tasks.write_report import Measured, read_report, write_report


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
    refuse_untrainable(spec)
    workspace = Workspace.find(spec_path)
    ledger = Ledger.of(workspace.ledger_path)
    staging = Staging(workspace, spec.dataset, release_id)
    with workspace.locked(spec.dataset, release_id):
        if ledger.is_published(spec.dataset, release_id):
            staging.discard()
            raise RequestRefused(f"release {spec.dataset}/{release_id} is published already; use another release id")
        if is_sweep(workspace.report(spec.dataset, release_id)):
            raise RequestRefused(f"{spec.dataset}/{release_id} is the id of a sweep; use another release id")
        try:
            return _make_candidate(spec, spec_path, staging, ledger, bits)
        except BaseException as error:
            if not ledger.is_charged(spec.dataset, release_id):
                staging.discard()
                raise
            if ledger.is_drawn(spec.dataset, release_id) and not staging.has_noise_added():
                resume = (
                    f"the noise of release {spec.dataset}/{release_id} was drawn and is lost, and its charge with it; "
                    "start a new release"
                )
            else:
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
    with timed() as times, workers_of(spec.runner) as workers:
        # confidential side
        source = ingest(source_path, spec.table)
        validation = validate(source, spec.table, source_path.name, labels_public=spec.privacy.labels_public)
        staging.start(spec, source.sha256)
        members = staging.member_rows()
        if members is None:
            chosen = choose_members(
                source.labels,
                spec.evaluation.control_fraction,
                np.random.default_rng(OperatingSystemBits().words(2)),
                by_class=spec.privacy.labels_public,
            )
            members = staging.keep_member_rows(chosen)
        places = places_of(source.n_rows, members)
        if not ledger.is_charged(spec.dataset, staging.release_id):
            refuse_untrainable(spec, len(members))
        entry = reserve(ledger, spec, staging, mechanism, len(members), binding(spec, source.sha256))

        # the border
        noise_added = staging.noise_added(places)
        if noise_added is None:
            noise_added = perturb(
                source,
                places,
                mechanism,
                spec.table,
                bits or OperatingSystemBits(),
                staging,
                now_drawn=lambda: ledger.draw(spec.dataset, staging.release_id),
            )

        # released side
        fabrication = settled(spec)
        sharded = shard(noise_added, fabrication.shard_rows, workers, staging.scratch)
        thresholds = None
        if fabrication.stop == "paper":
            thresholds = paper_thresholds(source, spec.table, places, sharded, fabrication.components or 1)
        fabricated = fabricate(sharded, fabrication, workers, staging.scratch, thresholds)
        marginals = estimate_marginals(noise_added, mechanism, fabrication, spec.table)
        released = decode(fabricated, marginals, spec.table, workers, staging.scratch)

        # the second border: classifiers that learn from confidential rows with noise in the training
        private = []
        if spec.evaluation.paid_classifiers:
            private = train_private(source, places, released, spec, bits or OperatingSystemBits(), staging)
        manifest = stage(staging, spec, released, mechanism, noise_added.randomness, fabricated, entry, private)
        validate_release(staged_frames(staging.release, spec.table), spec.table)

        # evaluation: confidential, for the internal report
        seed = audit_seed(spec.dataset, staging.release_id)
        compared = sample(source, places, noise_added, marginals, staging.release, spec.table)
        sets = training_sets(compared, spec.table)
        notes: list[str] = []
        n_threads = min(workers.count, usable_cores())
        kahm = train_kahm(sets, compared, spec, n_threads, notes)
        fitted = train(sets, spec, n_threads)
        answers = ask_private(compared, spec, mechanism, private) if spec.evaluation.private_classifiers else []
        classifiers = compare(sets, compared, kahm, fitted, spec, notes, answers)
        shadows = train_shadows(compared, spec, mechanism, seed, n_threads, staging.scratch)
        measured = Measured(
            classifiers=classifiers,
            membership_inference=attack(sets, compared, kahm, fitted, shadows, seed, n_threads, private),
            privacy_risks=assess_risks(compared, spec.table, seed),
            empirical_epsilon=plant_canaries(compared, spec, mechanism, seed, n_threads, staging.scratch),
            utility=utility(compared, spec.table, seed),
        )
        write_report(
            staging,
            manifest,
            mechanism,
            sets,
            compared,
            members,
            notes,
            source.sha256,
            str(spec_path),
            validation,
            measured,
            latest_sweep(staging.workspace.reports, spec),
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
    ledger = Ledger.of(workspace.ledger_path)
    with workspace.locked(spec.dataset, release_id):
        manifest = publish_candidate(staging, spec, digest, ledger)
        staging.discard()
    report = workspace.report(spec.dataset, release_id)
    write_index(workspace.reports, ledger)
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
