"""Publish a staged candidate: all or nothing, once, under the digest that was approved."""

from pathlib import Path

from schemas.errors import ApprovalPending, IntegrityFailed, RequestRefused
from schemas.ledger import LedgerEntry
from schemas.manifest import Manifest
from schemas.spec import ReleaseSpec
from tasks.files import CHECKSUMS, checksum_lines, move_folder, sha256_file
from tasks.ledger import Ledger
from tasks.read_spec import spec_sha256
from tasks.staging import Staging, candidate_digest
from tasks.step import step
from tasks.workspace import make_private


@step("Publish")
def publish(staging: Staging, spec: ReleaseSpec, digest: str, ledger: Ledger) -> Manifest:
    """Move a staged candidate to its place, with its report, and commit its charge.

    Parameters
    ----------
    staging : Staging
    spec : ReleaseSpec
    digest : str
        The digest that the approver read; the candidate must still have it.
    ledger : Ledger

    Returns
    -------
    Manifest

    Raises
    ------
    ApprovalPending
        The digest is not that of the files in staging.
    IntegrityFailed
        The staged files do not agree with each other, or the ledger does not hold the candidate's charge.
    RequestRefused
        There is no such candidate, its spec was changed since, its randomness is not private, or the guarantee does
        not cover it.

    Notes
    -----
    Each part is done once: a publication that was cut off is finished by doing it again.
    """
    if not staging.is_complete():
        raise RequestRefused(
            f"there is no staged candidate {staging.dataset}/{staging.release_id}; "
            "run the release without --approve first"
        )
    place = staging.workspace.release(staging.dataset, staging.release_id)
    report_place = staging.workspace.report(staging.dataset, staging.release_id)
    release = staging.release if staging.release.exists() else place
    report = staging.report if staging.report.exists() else report_place
    if candidate_digest(release, report) != digest:
        raise ApprovalPending(
            f"the digest given is not that of candidate {staging.dataset}/{staging.release_id} as it lies in staging; "
            f"read its report ({report / 'audit.html'}) and approve the digest that `fabrica release` shows. If files "
            "in staging were changed, start a new release"
        )
    if checksum_lines(release) != (release / CHECKSUMS).read_text():
        raise IntegrityFailed(
            f"candidate {staging.dataset}/{staging.release_id} was changed after it was staged; it is not published. "
            "Its budget stays spent; start a new release"
        )
    manifest = Manifest.model_validate_json((release / "manifest.json").read_bytes())
    if manifest.spec_sha256 != spec_sha256(spec):
        raise RequestRefused(
            f"candidate {staging.dataset}/{staging.release_id} was made with another spec than this one is now; put "
            "the spec back, or use another release id"
        )
    if manifest.randomness != "os-csprng":
        raise RequestRefused("the candidate's noise is seeded (not private); it is for tests and never published")
    if manifest.uncovered and not spec.privacy.allow_uncovered:
        raise RequestRefused(
            "the guarantee does not cover this candidate: " + "; ".join(manifest.uncovered) + ". It is published only "
            "with `allow_uncovered: true` under privacy"
        )
    check_charged(manifest, ledger.entries(staging.dataset))
    make_private(staging.workspace.report(staging.dataset, staging.release_id).parent)
    if report != report_place:
        _move(report, report_place)
    if release != place:
        _move(release, place)
    ledger.commit(staging.dataset, staging.release_id, sha256_file(place / CHECKSUMS))
    return manifest


def check_charged(manifest: Manifest, entries: list[LedgerEntry]) -> LedgerEntry:
    """The ledger entry that charged a release.

    Raises
    ------
    IntegrityFailed
        There is none, or it is not the one the manifest names, or it charged less than the release claims.
    """
    for entry in entries:
        if entry.sequence == manifest.ledger_entry.sequence and entry.kind == "reserve":
            charge = manifest.guarantee.record
            if (
                entry.hash == manifest.ledger_entry.hash
                and entry.release_id == manifest.release_id
                and entry.dataset == manifest.dataset
                and (entry.epsilon, entry.delta) == (charge.epsilon, charge.delta)
                and entry.events == manifest.mechanism.events
            ):
                return entry
    raise IntegrityFailed(
        f"ledger: no entry charges release {manifest.dataset}/{manifest.release_id} as its manifest says"
    )


def _move(source: Path, target: Path) -> None:
    try:
        move_folder(source, target)
    except FileExistsError:
        raise IntegrityFailed(f"{target}: exists already; a release is never overwritten") from None
