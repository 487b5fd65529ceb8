"""The release spec: what a steward writes, and the request that names it.

`unit`, `epsilon`, `delta` and `budget` have no defaults: whoever answers for the data states them.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError
from pydantic import Field, StrictBool, StrictInt, field_validator, model_validator

from schemas.base import Model, Number
from schemas.columns import DateColumn, IntegerColumn
from schemas.private_classifiers import PrivateTraining
from schemas.runner import Runner
from schemas.table import TableSchema

DATASET_PATTERN = r"^[a-z0-9-]+$"
RELEASE_ID_PATTERN = r"^[a-z0-9][a-z0-9-]{0,63}$"

Unit = Literal["element", "record"]
MechanismName = Literal[
    "optimal", "dirac-laplace", "staircase", "dirac-staircase", "truncated-laplace", "gaussian", "lattice-optimal",
    "private-moments",
]  # fmt: skip
ClassifierName = Literal["kahm", "nearest-neighbour", "logistic", "gradient-boosting"]


class Source(Model):
    """Where the confidential table is."""

    path: str = Field(min_length=1, max_length=1000)
    """A CSV (`.csv`) or Parquet (`.parquet`) file, relative to the spec's project root or absolute."""

    @field_validator("path")
    @classmethod
    def _known_format(cls, path: str) -> str:
        if not path.lower().endswith((".csv", ".parquet")):
            raise ValueError("the source must be a .csv or .parquet file")
        return path


class Budget(Model):
    """What a data set may spend over all its releases, at record level."""

    epsilon: Number = Field(gt=0, le=1e9)
    delta: Number = Field(ge=0, lt=1)


class LabelEpsilon(Model):
    """How strongly labels are protected."""

    epsilon: Number = Field(gt=0, le=40)
    """A label stays with e^epsilon times the probability of every single other one."""


class RandomizedResponse(Model):
    """Labels by randomised response."""

    randomized_response: LabelEpsilon


class Weights(Model):
    """How much of the budget each column gets, relative to the others."""

    weights: dict[str, Annotated[Number, Field(gt=0, le=1e6)]] = Field(min_length=1)
    """By feature; a column that is not named has weight 1."""


class Privacy(Model):
    """The guarantee asked for, and how it is bought."""

    unit: Unit
    """What epsilon and delta are about: one cell (`element`) or one whole row (`record`)."""
    epsilon: Number = Field(gt=0, le=1e6)
    delta: Number = Field(ge=0, lt=1)
    distance: Number = Field(default=1.0, gt=0, le=1)
    """How far one cell may move between adjacent tables, in scaled units; only for `unit: element`."""
    mechanism: MechanismName = "optimal"
    """Noise on every cell: one law by name, or `optimal`, the one with the smallest expected magnitude. Or
    `private-moments`, for `unit: record`: rows drawn from noisy moments, which covers the labels as well."""
    labels: Literal["public"] | RandomizedResponse = "public"
    """`public`: labels are released as they are. `{randomized_response: {epsilon: E}}`: each label is replaced at
    random, with a guarantee of its own. With `private-moments` labels are covered in any case."""
    split: Literal["equal", "optimal"] | Weights = "equal"
    """How cell noise shares epsilon out over the columns: `equal`ly, by {weights: {COLUMN: W}}, or, for `unit: record`,
    `optimal`ly for the expected error. For `unit: element` the column with the largest weight gets all of epsilon, and
    the others less in proportion."""
    budget: Budget
    allow_unperturbed_cells: StrictBool = False
    """Accept that more than one cell is expected to get no noise at all."""
    allow_uncovered: StrictBool = False
    """Accept a release that the guarantee does not cover (the paper's stop rule)."""

    @field_validator("labels", mode="before")
    @classmethod
    def _one_label_rule(cls, labels: Any) -> Any:
        if labels == "public" or isinstance(labels, RandomizedResponse):
            return labels
        if isinstance(labels, dict) and set(labels) == {"randomized_response"}:
            return RandomizedResponse(**labels)
        raise ValueError("labels must be `public` or {randomized_response: {epsilon: E}}")

    @field_validator("split", mode="before")
    @classmethod
    def _one_split(cls, split: Any) -> Any:
        if split in ("equal", "optimal") or isinstance(split, Weights):
            return split
        if isinstance(split, dict) and set(split) == {"weights"}:
            return Weights(**split)
        raise ValueError("split must be `equal`, `optimal` or {weights: {COLUMN: W}}")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.split == "optimal" and self.unit == "element":
            raise ValueError("split: optimal shares a record's epsilon out; it needs unit: record")
        if self.split != "equal" and self.mechanism == "private-moments":
            raise ValueError("split is for noise on cells; leave it out with private-moments")
        if self.unit == "record" and self.distance != 1.0:
            raise ValueError("distance is only for unit: element; a whole row may change by the full range")
        if self.mechanism in {"gaussian", "truncated-laplace", "private-moments"} and self.delta == 0:
            raise ValueError(f"mechanism {self.mechanism} needs delta above 0")
        if self.mechanism == "lattice-optimal" and self.unit == "record":
            raise ValueError("mechanism lattice-optimal is for unit: element")
        if self.mechanism == "private-moments":
            if self.unit != "record":
                raise ValueError("mechanism private-moments protects whole rows; it needs unit: record")
            if self.labels != "public":
                raise ValueError("mechanism private-moments covers the labels already; leave labels out")
        return self

    @property
    def label_epsilon(self) -> float | None:
        """Epsilon of randomised response on the labels, if that is asked for."""
        return None if self.labels == "public" else self.labels.randomized_response.epsilon

    @property
    def labels_public(self) -> bool:
        """Whether labels are released as they are."""
        return self.labels == "public" and self.mechanism != "private-moments"


class Steps(Model):
    """Stop after a set number of smoothing steps."""

    steps: StrictInt = Field(ge=1, le=1000)


class Relative(Model):
    """Stop when the modeling error is at most `relative` times the error of the noise-added data."""

    relative: Number = Field(ge=0.1, lt=1)


StopRule = Steps | Relative | Literal["paper"]


class Fabrication(Model):
    """How noise-added data become fabricated data."""

    components: StrictInt | None = Field(default=None, ge=1)
    """Dimension n of the kernel affine hull machines; capped by encoded columns, rows and rank. Left out: 20 with noise
    on cells, which few components smooth away; all with private moments, whose rows have none to be smoothed away."""
    stop: StopRule | None = None
    """When to stop smoothing. Left out: after 5 steps with noise on cells, after 1 with private moments."""
    shard_rows: StrictInt = Field(default=1000, ge=10, le=5000)
    """Target number of rows a shard; the cost of a step is cubic in it."""
    marginals: Literal["restored", "smoothed"] | None = None
    """`restored`: within each class, values take on the distribution that the noise-added data show, in the order that
    smoothing left them in. `smoothed`: they stay as smoothing left them, as in the seed paper. Left out: restored
    with noise on cells, smoothed with private moments."""
    layers: StrictInt = Field(default=1, ge=1, le=100)
    """Layers of the KAHM classifier that the audit trains; data are smoothed with one, as in the seed paper."""

    @field_validator("stop", mode="before")
    @classmethod
    def _one_stop_rule(cls, stop: Any) -> Any:
        if stop is None or isinstance(stop, Steps | Relative):
            return stop
        if stop == "paper" or (isinstance(stop, dict) and set(stop) in ({"steps"}, {"relative"})):
            return Steps(**stop) if "steps" in stop else Relative(**stop) if "relative" in stop else stop
        raise ValueError("give exactly one of {steps: m}, {relative: rho} and paper")


class Attacks(Model):
    """How hard the audit tries."""

    shadow_models: int = Field(default=8, ge=0, le=1000, strict=True)
    """Classifiers that the likelihood-ratio attack trains beside the attacked one; with 0 it is left out."""


class Evaluation(Model):
    """What the audit measures."""

    control_fraction: Number = Field(default=0.3, gt=0, lt=1)
    """Share of rows kept out of fabrication, as test rows and as the attack's non-members."""
    classifiers: list[ClassifierName] = Field(
        default=["kahm", "nearest-neighbour", "logistic", "gradient-boosting"], min_length=1
    )
    attacks: Literal["default"] | Attacks = "default"
    private_classifiers: list[PrivateTraining] = Field(default=[])
    """Linear classifiers that are trained with noise on confidential rows, which is charged and released besides the
    data, or without noise on fabricated rows, or both, to be compared."""

    @field_validator("attacks", mode="before")
    @classmethod
    def _default_or_mapping(cls, attacks: Any) -> Any:
        if attacks == "default" or isinstance(attacks, Attacks):
            return attacks
        if isinstance(attacks, dict) and set(attacks) == {"shadow_models"}:
            return Attacks(**attacks)
        raise ValueError("attacks must be `default` or {shadow_models: N}")

    @property
    def shadow_models(self) -> int:
        """Shadow models of the likelihood-ratio attack."""
        return (Attacks() if self.attacks == "default" else self.attacks).shadow_models

    @field_validator("classifiers")
    @classmethod
    def _each_once(cls, classifiers: list[str]) -> list[str]:
        if len(set(classifiers)) != len(classifiers):
            raise ValueError("each classifier may be named once")
        return classifiers

    @field_validator("private_classifiers")
    @classmethod
    def _each_private_one_once(cls, entries: list[PrivateTraining]) -> list[PrivateTraining]:
        names = [entry.classifier for entry in entries]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"each private classifier may be named once, `{twice}` is named more often")
        return entries

    @property
    def paid_classifiers(self) -> list[PrivateTraining]:
        """Those that are trained on confidential rows."""
        return [entry for entry in self.private_classifiers if entry.confidential]


class Schedule(Model):
    """When the release runs by itself under `fabrica serve`."""

    cron: str
    timezone: str = "UTC"

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, cron: str) -> str:
        try:
            CronSim(cron, datetime.now(UTC))
        except CronSimError:
            raise ValueError(
                "cron needs five fields: minute, hour, day of month, month, day of week, such as `0 2 * * 1`"
            ) from None
        return cron

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, timezone: str) -> str:
        if timezone not in available_timezones():
            raise ValueError("timezone is not known; use a name such as Europe/Vienna or UTC")
        return timezone


class ReleaseSpec(Model):
    """One spec file: a table, the privacy asked for, and how to fabricate and evaluate."""

    dataset: str = Field(pattern=DATASET_PATTERN, max_length=64)
    """The name in the ledger and in folders."""
    source: Source
    table: TableSchema
    privacy: Privacy
    fabrication: Fabrication = Fabrication()
    evaluation: Evaluation = Evaluation()
    runner: Runner = "threads"
    """Where shards are smoothed: `threads`, `processes`, `dask`, or one of them with its settings, such as
    {processes: {workers: 2}} or {dask: {scheduler: "tcp://host:8786"}}. The outcome is the same under every one."""
    schedule: Schedule | None = None
    approval: Literal["none", "required"] = "none"
    """`required` stops at the staged candidate until a person approves its digest."""

    @model_validator(mode="after")
    def _columns_fit_privacy(self) -> Self:
        if isinstance(self.privacy.split, Weights):
            unknown = [name for name in self.privacy.split.weights if name not in self.table.features]
            if unknown:
                raise ValueError(f"privacy.split: `{unknown[0]}` is not a feature of the table")
        if self.table.public and self.privacy.mechanism == "private-moments":
            raise ValueError(
                f"table.columns.{next(iter(self.table.public))}.role: is public, but private-moments draws new rows, "
                "which have no public values; use role: drop, or noise on cells"
            )
        return self

    @model_validator(mode="after")
    def _distance_is_a_step(self) -> Self:
        for name, column in self.table.features.items():
            if isinstance(column, DateColumn):
                steps = (column.bounds[1] - column.bounds[0]).days
            elif isinstance(column, IntegerColumn) and column.log_offset is None:
                steps = column.bounds[1] - column.bounds[0]
            else:
                continue
            if self.privacy.distance * steps < 1:
                raise ValueError(
                    f"privacy.distance: {self.privacy.distance:g} of the range of column `{name}` is less than one "
                    "step, so no change of its cells would be covered; use a larger distance"
                )
        return self

    @model_validator(mode="after")
    def _paper_needs_paired_rows(self) -> Self:
        if self.fabrication.stop == "paper" and not self.privacy.labels_public:
            raise ValueError("stop: paper compares raw and noise-added rows; it needs cell noise and labels: public")
        return self

    @model_validator(mode="after")
    def _classes_to_tell_apart(self) -> Self:
        if self.evaluation.private_classifiers and len(self.table.classes) < 2:
            raise ValueError("evaluation.private_classifiers: the label has a single class, so nothing can be learned")
        return self

    def outcome_settings(self) -> dict[str, Any]:
        """The spec as manifests state it: without the runner, which has no part in the outcome and may name a host.

        A spec without private classifiers is stated, and has the digest, as before there were any.
        """
        settings = self.model_dump(mode="json", exclude={"runner"})
        if not self.evaluation.private_classifiers:
            del settings["evaluation"]["private_classifiers"]
        return settings

    def data_alone(self) -> "ReleaseSpec":
        """The spec without its private classifiers, for what is about the fabricated data only."""
        evaluation = self.evaluation.model_copy(update={"private_classifiers": []})
        return self.model_copy(update={"evaluation": evaluation})

    @property
    def uncovered(self) -> list[str]:
        """What of this release the guarantee does not cover, in words; empty where it covers everything."""
        if self.fabrication.stop == "paper":
            return [
                "the stop rule `paper` chooses the number of smoothing steps from confidential rows, "
                "outside the mechanism"
            ]
        return []


ReleaseId = Annotated[str, Field(pattern=RELEASE_ID_PATTERN)]


class ReleaseRequest(Model):
    """What a person, a schedule or a form asks for: a spec by its path, never data."""

    spec: str = Field(min_length=1, pattern=r"\.ya?ml$", title="Spec file")
    """Path of the spec, relative to the project folder."""
    release_id: ReleaseId | None = Field(default=None, title="Release id")
    """Name of the release; leave empty for a new one. An unfinished release of that name is taken up again."""
