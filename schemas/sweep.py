"""`sweep.json`: what a release would achieve at several epsilons, on a stand-in or charged to the ledger."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.measures import Interval
from schemas.spec import DATASET_PATTERN, ClassifierName, ReleaseId


class SweepPoint(Model):
    """One epsilon."""

    epsilon: float
    """Of the spec's unit."""
    record_epsilon: float
    record_delta: float
    accuracy: dict[ClassifierName, Interval]
    """Trained on fabricated data, tested on control rows."""
    attack_auc: Interval
    """Of the strongest attack on the fabricated rows."""
    attack: str
    """Which one that was."""


class Sweep(Model):
    """A privacy-utility curve over epsilon."""

    sweep_id: ReleaseId
    dataset: str = Field(pattern=DATASET_PATTERN)
    created_at: datetime
    spec_sha256: str
    settings_sha256: str
    """Digest of the spec but for epsilon and budget: an audit shows sweeps of its own settings only."""
    paid_by: Literal["stand-in", "ledger"]
    """A public table in the source's place, or the data set's budget."""
    rows: int
    control_rows: int
    unit: Literal["element", "record"]
    delta: float
    points: list[SweepPoint]
    real_accuracy: dict[ClassifierName, Interval]
    """Trained on the real rows; on a stand-in's where that paid."""
    majority_accuracy: float = Field(ge=0, le=1)
    """Accuracy on the control rows of always answering the members' largest class."""
    notes: list[str] = Field(default_factory=list)
    """What a reader must know before trusting the curve, one sentence each."""
