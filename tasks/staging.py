"""The staging folder: where a release is made, and taken up again after a crash.

Noise-added data, and classifiers that were trained on confidential rows, are kept here as soon as they exist. A run
that is taken up again reads them instead of drawing noise for the same records a second time, and it keeps the same
members.
"""

import hashlib
import io
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas.errors import IntegrityFailed, RequestRefused
from schemas.manifest import Manifest
from schemas.private_classifiers import ReleasedClassifier
from schemas.release import Candidate, StagingState
from schemas.spec import ReleaseSpec
from tasks.files import CHECKSUMS, checksum_lines, sha256_file, write_whole
from tasks.noise_added import NoiseAdded, members_digest, write_noise_added
from tasks.read_spec import spec_sha256
from tasks.tables import IntArray
from tasks.workspace import Workspace, make_private


def new_release_id() -> str:
    """A fresh release id: the time in UTC and four random hexadecimal digits."""
    return f"{datetime.now(UTC):%Y%m%dt%H%M%Sz}-{secrets.token_hex(2)}"


@dataclass(frozen=True)
class Staging:
    """The staging folder of one release."""

    workspace: Workspace
    dataset: str
    release_id: str

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return self.workspace.staging(self.dataset, self.release_id)

    @property
    def release(self) -> Path:
        """The release folder as it will be published."""
        return self.folder / "release"

    @property
    def report(self) -> Path:
        """The report folder as it will be published."""
        return self.folder / "report"

    def start(self, spec: ReleaseSpec, source_sha256: str) -> StagingState:
        """Begin a release here, or take up the one that was begun with the same spec and source.

        Raises
        ------
        RequestRefused
            The release was begun with another spec or another source.
        """
        path = self.folder / "state.json"
        if self.noise_added() is not None and not path.exists():
            raise IntegrityFailed(f"{path}: is missing beside noise-added data; the staging folder was changed")
        if path.exists():
            with _read_whole(path):
                state = StagingState.model_validate_json(path.read_bytes())
            changed = [
                what
                for what, same in [
                    ("spec", state.spec_sha256 == spec_sha256(spec)),
                    ("source", state.source_sha256 == source_sha256),
                ]
                if not same
            ]
            if changed:
                raise RequestRefused(
                    f"release {self.dataset}/{self.release_id} was begun with another {' and '.join(changed)}; "
                    "use another release id"
                )
            return state
        make_private(self.folder)
        state = StagingState(
            release_id=self.release_id,
            dataset=self.dataset,
            spec=spec.outcome_settings(),
            spec_sha256=spec_sha256(spec),
            source_sha256=source_sha256,
            started_at=datetime.now(UTC),
        )
        write_whole(path, state.model_dump_json(indent=1).encode())
        return state

    def member_rows(self) -> IntArray | None:
        """Positions of the members in their order, once they were chosen."""
        path = self.folder / "members.npy"
        if not path.exists():
            return None
        with _read_whole(path):
            rows: IntArray = np.load(path)
            return rows

    def keep_member_rows(self, rows: IntArray) -> IntArray:
        """Keep the positions of the members for a run that takes this one up."""
        content = io.BytesIO()
        np.save(content, rows)
        write_whole(self.folder / "members.npy", content.getvalue())
        return rows

    @property
    def scratch(self) -> Path:
        """Where steps leave released rows for the next step, and rehearsals, while they last, what is not released."""
        return self.folder / "scratch"

    @property
    def _noise_added_path(self) -> Path:
        return self.folder / "noise_added.parquet"

    def has_noise_added(self) -> bool:
        """Whether there are noise-added data, whole or damaged."""
        return self._noise_added_path.exists()

    def noise_added(self, places: IntArray | None = None) -> NoiseAdded | None:
        """The noise-added data, once they were drawn; with `places`, of the members in these places and no others.

        Raises
        ------
        IntegrityFailed
            They are damaged, or of other members.
        """
        path = self._noise_added_path
        if not path.exists():
            return None
        with _read_whole(path):
            kept = NoiseAdded.open(path)
        if places is not None and kept.members != members_digest(places):
            raise IntegrityFailed(
                f"{path}: is of other members than {self.folder / 'members.npy'} says; the staging folder was changed"
            )
        return kept

    def keep_noise_added(
        self, pieces: Iterator[pa.Table], spacing: float, randomness: str, places: IntArray
    ) -> NoiseAdded:
        """Keep the noise-added data of the members, so that noise is never drawn twice for the same cells."""
        return write_noise_added(self._noise_added_path, pieces, spacing, randomness, members_digest(places))

    def _classifier_path(self, name: str) -> Path:
        return self.folder / "classifiers" / f"{name}.json"

    def classifier(self, name: str, places: IntArray) -> ReleasedClassifier | None:
        """The classifier of that name, once it was trained on the members in these places.

        Raises
        ------
        IntegrityFailed
            It is damaged, or of other members.
        """
        path = self._classifier_path(name)
        if not path.exists():
            return None
        with _read_whole(path):
            digest, members = path.with_suffix(".kept").read_text().split()
            if digest != sha256_file(path):
                raise ValueError("the file is not the one that was written")
            kept = ReleasedClassifier.model_validate_json(path.read_bytes())
        if members != members_digest(places) or kept.name != name:
            raise IntegrityFailed(f"{path}: is of other members or another classifier; the staging folder was changed")
        return kept

    def keep_classifier(self, classifier: ReleasedClassifier, places: IntArray) -> ReleasedClassifier:
        """Keep a classifier that was trained on confidential rows, so that it is never trained twice."""
        path, content = self._classifier_path(classifier.name), classifier.model_dump_json(indent=1).encode() + b"\n"
        make_private(path.parent)
        write_whole(
            path.with_suffix(".kept"), f"{hashlib.sha256(content).hexdigest()} {members_digest(places)}".encode()
        )
        write_whole(path, content)
        return classifier

    def require_no_noise_kept(self) -> None:
        """Refuse unless provably no noise of this release was kept: neither here, whole or cut off, nor published.

        Raises
        ------
        RequestRefused
        """
        kept = [
            *self.folder.glob("*noise_added*"),
            *self.folder.glob("classifiers/*"),
            self.release,
            self.workspace.release(self.dataset, self.release_id),
        ]
        if any(path.exists() for path in kept):
            raise RequestRefused(
                f"release {self.dataset}/{self.release_id}: noise-added data of it were kept, whole or in part, so its "
                f"charge stays; finish it with --release-id {self.release_id} if they are whole, or start a new release"
            )

    def is_complete(self) -> bool:
        """Whether the candidate is complete. What it is, is read from its files, never from this mark."""
        return (self.folder / "complete").exists()

    def mark_complete(self) -> None:
        """Mark the candidate as complete."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        write_whole(self.folder / "complete", b"")

    def manifest(self) -> Manifest:
        """The candidate's manifest.

        Raises
        ------
        IntegrityFailed
            It is missing or not valid.
        """
        path = self.release / "manifest.json"
        with _read_whole(path):
            return Manifest.model_validate_json(path.read_bytes())

    def candidate(self, spec: ReleaseSpec) -> Candidate:
        """The staged candidate, as its files are."""
        manifest = self.manifest()
        return Candidate(
            release_id=self.release_id,
            dataset=self.dataset,
            digest=candidate_digest(self.release, self.report),
            guarantee=manifest.guarantee,
            uncovered=manifest.uncovered,
            report=self.report / "audit.html",
            needs_approval=spec.approval == "required",
        )

    def discard(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def _read_whole(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file raises into our error."""
    try:
        yield
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise IntegrityFailed(f"{path}: is missing or damaged; the staging folder was changed") from None


def candidate_digest(release: Path, report: Path) -> str:
    """SHA-256 over the checksums of every file of the release and of its report: what an approver approves.

    Raises
    ------
    IntegrityFailed
        A folder is missing, or holds anything but plain files.
    """
    text = f"release\n{checksum_lines(release)}report\n{checksum_lines(report)}"
    for path in [release / CHECKSUMS, release / "manifest.json", report / "audit.json", report / "audit.html"]:
        if not path.is_file():
            raise IntegrityFailed(f"{path}: is missing; the candidate is not whole")
    return hashlib.sha256(text.encode()).hexdigest()


def binding(spec: ReleaseSpec, source_sha256: str) -> str:
    """Digest of what a charge is for: the spec and the source."""
    return hashlib.sha256(f"{spec_sha256(spec)} {source_sha256}".encode()).hexdigest()
