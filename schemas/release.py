"""What the two stages of a release hand on: a staged candidate, and a publication."""

from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from schemas.audit import StepTime
from schemas.base import Model
from schemas.guarantee import Guarantees
from schemas.spec import ReleaseId


class StagingState(Model):
    """`state.json` of a staging folder: what the release was started with. Internal."""

    release_id: ReleaseId
    dataset: str
    spec: dict[str, Any]
    spec_sha256: str
    source_sha256: str
    started_at: datetime


class Candidate(Model):
    """A staged release that waits for publication under its digest."""

    release_id: ReleaseId
    dataset: str
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 over the checksums of every file of the release and its report: what an approver approves."""
    guarantee: Guarantees
    uncovered: list[str]
    report: Path
    """The audit report to read before approving."""
    needs_approval: bool
    """Whether a person must approve the digest before publication."""

    def approval_text(self, spec: str) -> str:
        """What a person is told who is to approve the candidate."""
        return (
            f"candidate {self.dataset}/{self.release_id} waits for approval: read {self.report}, then run\n"
            f"fabrica release {spec} --release-id {self.release_id} --approve {self.digest}"
        )


class Publication(Model):
    """The outcome of a published release."""

    release_id: ReleaseId
    dataset: str
    digest: str
    release: Path
    report: Path
    guarantee: Guarantees
    uncovered: list[str]
    step_times: list[StepTime]


class PublishRequest(Model):
    """What a person approves: a staged candidate by its digest."""

    spec: str = Field(min_length=1, pattern=r"\.ya?ml$", title="Spec file")
    release_id: ReleaseId = Field(title="Release id")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$", title="Digest of the candidate")
