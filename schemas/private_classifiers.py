"""Private classifiers: what a spec asks for, and the file of one that learned from confidential rows."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, field_validator, model_validator

from schemas.base import Model, Number
from schemas.events import Event
from schemas.learning import FitGuarantee

PrivateClassifierName = Literal[
    "noisy-sgd", "exponential-sampling", "output-perturbation", "localization", "objective-perturbation",
    "pmsvm-weight", "pmsvm-gradient", "pmsvm-adaptive", "private-svm", "opera", "private-linear", "one-versus-rest",
]  # fmt: skip
MAY_BE_PURE = frozenset({"exponential-sampling", "output-perturbation", "objective-perturbation", "localization"})
"""Classifiers that can be trained with delta 0."""
ALWAYS_PURE = frozenset({"exponential-sampling"})
"""Classifiers whose training has no use for delta; only bought means and scales have."""
LEAST_SHARE = 0.001
"""The smallest `preprocessing_share` that is not 0; what a smaller one buys is noise."""
TrainedPrivatelyOn = Literal["fabricated", "confidential"]
ChosenOn = Literal["defaults", "fabricated rows"]
Hyperparameters = dict[str, float | int | str | bool | None]


class PrivateTraining(Model):
    """One private classifier that a spec asks for."""

    classifier: PrivateClassifierName
    trained_on: list[TrainedPrivatelyOn] = Field(default=["fabricated", "confidential"], min_length=1)
    """`confidential`: on the members' rows, with noise in the training; a second mechanism on the same records, which
    is charged and released. `fabricated`: on the release's rows, without noise: it costs nothing, and is only tested
    in the audit."""
    epsilon: Number | None = Field(default=None, gt=0, le=40)
    """Of one whole record, label included; stated where `confidential` is among `trained_on`, and only there."""
    delta: Number | None = Field(default=None, ge=0, lt=1)
    """The same. 0 for `exponential-sampling` without a `preprocessing_share`, above 0 for those that are not in
    `MAY_BE_PURE`."""
    preprocessing_share: Number = Field(default=0.0, ge=0, lt=1)
    """The part of the classifier's own budget that buys noisy means and scales to standardise the features by: 0, or at
    least 0.001."""
    hyperparameters: Literal["fixed", "fabricated"] = "fixed"
    """`fixed`: the classifier's defaults. `fabricated`: chosen from a small public grid by cross-validation on
    fabricated rows, with the noise of the training on confidential rows; never on confidential or control rows."""

    @field_validator("trained_on")
    @classmethod
    def _each_once(cls, kinds: list[str]) -> list[str]:
        if len(set(kinds)) != len(kinds):
            raise ValueError("each kind of rows may be named once")
        return kinds

    @field_validator("preprocessing_share")
    @classmethod
    def _worth_its_noise(cls, share: float) -> float:
        if 0.0 < share < LEAST_SHARE:
            raise ValueError(
                f"preprocessing_share must be 0 or at least {LEAST_SHARE}, got {share:g}: means and scales bought with "
                "less would be noise"
            )
        return share

    @model_validator(mode="after")
    def _stated_where_paid_for(self) -> Self:
        if self.confidential:
            if self.epsilon is None or self.delta is None:
                missing = " and ".join(n for n in ("epsilon", "delta") if getattr(self, n) is None)
                raise ValueError(
                    f"{self.classifier} is trained on confidential rows and needs {missing} of its own; there is no "
                    "default. Without a charge it can be `trained_on: [fabricated]`"
                )
            if self.delta == 0 and self.classifier not in MAY_BE_PURE:
                raise ValueError(
                    f"{self.classifier} needs delta above 0; with delta 0 there are {', '.join(sorted(MAY_BE_PURE))}"
                )
            if self.delta != 0 and self.classifier in ALWAYS_PURE and not self.preprocessing_share:
                raise ValueError(
                    f"{self.classifier} is purely private: write `delta: 0`. A delta is of use only with a "
                    "preprocessing_share, which buys means and scales"
                )
            if self.delta == 0 and self.preprocessing_share:
                raise ValueError("preprocessing_share needs delta above 0: means and scales get Gaussian noise")
        elif self.epsilon is not None or self.delta is not None:
            raise ValueError(
                f"{self.classifier} is trained on fabricated rows only, which costs nothing; leave epsilon and delta "
                "out, or name `confidential` in trained_on"
            )
        return self

    @property
    def confidential(self) -> bool:
        """Whether it is trained on confidential rows, and so is paid for and released."""
        return "confidential" in self.trained_on

    @property
    def paid(self) -> tuple[float, float]:
        """Epsilon and delta of one that is trained on confidential rows."""
        assert self.epsilon is not None and self.delta is not None
        return self.epsilon, self.delta


SCORING_STEPS = (
    "Write the row as coordinates, in the order of `features`. Where `what` is `value`: move the column's value to the "
    "nearer of `lower` and `upper` if it is not between them, and take (value - lower) / (upper - lower). With a "
    "`log_offset`, put the natural logarithm of (value + log_offset) in the value's place, and the same of lower and "
    "upper. Dates count in days. Times count as the clocks of `timezone` show them; without one, as they are written. "
    "Where there are `levels`: the value's place among them, the first being 0, over the last place. Where the value "
    "is missing: 1/2.",
    "Where `what` is `missing`: 1 where the column's value is missing, else 0. Where it is `category`: 1 where the "
    "cell holds that `category`, else 0; the category `null` is a cell that is missing. With `takes_undeclared` it is "
    "1 also where the cell holds something that is none of the categories and levels of the column's coordinates.",
    "Round each coordinate to the nearest multiple of 1/65536, halves upwards: so were the rows that it learned from.",
    "By `row_map`: move each coordinate x to the nearer of its `lower` and `upper` if it is not between them, and take "
    "z = 2 (x - lower) / (upper - lower) - 1. Where there are `centre` and `scale`: take (z - centre) / scale.",
    "Where there is a `norm`: if `rule` is `clip`, shorten the vector z to that length if it is longer; if it is "
    "`normalize`, bring it to that length (0 stays 0). Then divide it by norm, and where `intercept` is true by the "
    "square root of 2 too.",
    "For each row of `coefficients` the score is its product with z, plus its place in `intercepts`. The answer is the "
    "one of `classes` with the largest score, of equally large ones the first. With a single row of coefficients it is "
    "the second class if the score is above 0, else the first.",
)
"""How to classify a row with nothing but a released classifier's file; in every such file, and on the card.

Names of the file's fields and values stand in backticks."""


class EncodedFeature(Model):
    """One coordinate of the row that a classifier takes, and all that is needed to compute it from a column's cell."""

    column: str
    what: Literal["value", "category", "missing"]
    """`value`: the value's part of its range, in [0, 1]; 1/2 where it is missing. `missing`: 1 where it is, else 0.
    `category`: 1 where the cell holds `category`, else 0. See `SCORING_STEPS`."""
    category: str | None = None
    """As text; `null` for the possibility that the cell is missing, and where `what` is not `category`."""
    type: str | None = None
    """Of the column, as the spec declares it."""
    lower: int | float | str | None = None
    """Bounds of a `value`, in the column's unit; dates and times as ISO text, times as the clocks of `timezone` show
    them. `null` where the value has `levels`."""
    upper: int | float | str | None = None
    log_offset: float | None = None
    """Of a `value` that is scaled by the logarithm: what is added to value and bounds before it is taken."""
    timezone: str | None = None
    levels: list[str | None] | None = None
    """Of a `value` with ordered categories, all of them, lowest first. Of a `category` that has two possibilities, and
    so a single coordinate, both of them. Else `null`."""
    takes_undeclared: bool = False
    """Whether a cell that holds none of the declared categories counts as `category`."""


class ReleasedRowMap(Model):
    """From the coordinates x, each in [0, 1], to the vector z that the coefficients multiply, in this order.

    1. Clip x to [lower, upper] and map it: z = 2 (x - lower) / (upper - lower) - 1.
    2. Where there are `centre` and `scale`: z = (z - centre) / scale.
    3. Where there is a `norm`: with `clip`, z = z min(1, norm / |z|), with `normalize`, z = z norm / |z| (0 stays 0);
       then z = z / norm, and with an `intercept` besides z = z / sqrt(2).
    """

    lower: list[float] | None
    upper: list[float] | None
    centre: list[float] | None
    """Released with noise that the classifier's budget paid for."""
    scale: list[PositiveFloat] | None
    norm: float | None = Field(gt=0)
    rule: Literal["clip", "normalize"]
    intercept: bool


class ReleasedClassifier(Model):
    """`classifiers/NAME.json` of a release folder: a linear classifier that was trained privately on confidential rows.

    `SCORING_STEPS` says how to classify a row by it. Everything here is released: it carries the noise.
    """

    name: PrivateClassifierName
    classes: list[str] | list[int] | list[bool] = Field(min_length=2)
    """In the order of the scores."""
    features: list[EncodedFeature] = Field(min_length=1)
    """In the order of the coordinates."""
    row_map: ReleasedRowMap
    coefficients: list[list[float]]
    """A row for each class, or a single one for two classes."""
    intercepts: list[float]
    hyperparameters: Hyperparameters
    """The classifier's own parameters; epsilon, delta and the public bounds stand elsewhere."""
    chosen_on: ChosenOn
    """Where the hyper-parameters come from; never from confidential rows."""
    guarantee: FitGuarantee
    """Of this classifier alone. The release's own guarantee covers data and classifiers together."""
    steps: list[str] = Field(default=list(SCORING_STEPS))
    """How to classify a row with what is in this file."""

    @model_validator(mode="after")
    def _shapes_agree(self) -> Self:
        n_scores, n_features = len(self.coefficients), len(self.features)
        if n_scores != len(self.classes) and not (n_scores == 1 and len(self.classes) == 2):
            raise ValueError("coefficients need a row for each class, or one for two classes")
        if len(self.intercepts) != n_scores or any(len(row) != n_features for row in self.coefficients):
            raise ValueError("coefficients and intercepts do not fit the features")
        maps = (self.row_map.lower, self.row_map.upper, self.row_map.centre, self.row_map.scale)
        if any(own is not None and len(own) != n_features for own in maps):
            raise ValueError("the row map does not fit the features")
        return self


class ClassifierRecord(Model):
    """A released classifier, as the manifest lists it."""

    name: PrivateClassifierName
    path: str
    """Of its file in the release folder, which `files` lists too."""
    epsilon: float = Field(gt=0)
    """Of one whole record, label included, among the rows that it was trained on; for this classifier alone."""
    delta: float = Field(ge=0, lt=1)
    events: list[Event] = Field(min_length=1)
    """What was charged for it; they are among the mechanism's events."""
