"""The release manifest: what was released, under which guarantee, by which code, and the files' checksums.

Everything in it is released or public; nothing is computed from confidential data outside a mechanism.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from schemas.base import Model
from schemas.guarantee import Guarantees, LabelRule, MechanismRecord
from schemas.private_classifiers import ClassifierRecord
from schemas.spec import DATASET_PATTERN, ReleaseId

Randomness = Literal["os-csprng", "seeded (not private)"]
Sha256 = str


class ReleasedColumn(Model):
    """One column of the released Parquet data."""

    name: str
    type: Literal["numeric", "integer", "date", "datetime", "categorical", "ordinal", "boolean", "identifier"]
    role: Literal["feature", "label", "public", "surrogate"]
    """`public`: the values are the source's. `surrogate`: the values are made up."""
    nullable: bool = False
    bounds: tuple[float, float] | tuple[str, str] | None = None
    """Of dates and times in ISO form, in the column's time zone."""
    categories: list[str] | list[int] | list[bool] | None = None
    timezone: str | None = None


class FabricationRecord(Model):
    """How the fabricated data were made; computed from released data and public parameters only."""

    components: int
    stop: Any
    shard_rows: int
    marginals: Literal["restored", "smoothed"] = "smoothed"
    """Whether values took on the distribution that the noise-added data show."""
    shards: int
    """Number of shards over all classes."""
    steps: list[int]
    """Smoothing steps of each shard."""
    shards_unsettled: int
    """Shards in which the stop rule was not met after the most steps that are taken."""
    rows_projected: int = 0
    """Rows that were moved to obey the declared constraints."""
    first_errors: list[float]
    """Modeling error of each shard's noise-added data, the summed distance to its affine hull, in scaled units."""


class LedgerReference(Model):
    """The ledger entry that charged this release."""

    sequence: int
    hash: str


class ReleasedFile(Model):
    """One file of the release folder."""

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int
    rows: int | None = None
    """Rows of a data file; `null` for other files."""


class Manifest(Model):
    """`manifest.json` of a release folder."""

    release_id: ReleaseId
    dataset: str = Field(pattern=DATASET_PATTERN)
    created_at: datetime
    spec: dict[str, Any]
    spec_sha256: str
    """Digest of the spec as canonical JSON (sorted keys, no spaces)."""
    code_version: str
    rows: int
    columns: list[ReleasedColumn]
    guarantee: Guarantees
    """Of everything in this folder, released classifiers included."""
    mechanism: MechanismRecord
    fabrication: FabricationRecord
    labels: LabelRule
    """Whether labels were released as they are, are covered by the mechanism, or went through randomised response."""
    randomness: Randomness
    uncovered: list[str]
    """What the guarantee does not cover; empty where it covers the whole release."""
    ledger_entry: LedgerReference
    files: list[ReleasedFile]
    data_guarantee: Guarantees | None = None
    """Of the fabricated data alone, which is what the spec's `privacy` asks for; `null` where no classifier is
    released, since it is `guarantee` then."""
    classifiers: list[ClassifierRecord] = Field(default_factory=list)
    """Classifiers that were trained privately on confidential rows and are released with the data."""

    @property
    def of_the_data(self) -> Guarantees:
        """The guarantee of the fabricated data alone."""
        return self.data_guarantee or self.guarantee
