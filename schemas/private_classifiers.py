"""Private classifiers: what a spec asks for, and the file of one that learned from confidential rows."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from schemas.base import Model, Number
from schemas.events import Event
from schemas.learning import FitGuarantee

PrivateClassifierName = Literal[
    "noisy-sgd", "exponential-sampling", "output-perturbation", "localization", "objective-perturbation",
    "pmsvm-weight", "pmsvm-gradient", "pmsvm-adaptive", "private-svm", "opera", "private-linear", "one-versus-rest",
]  # fmt: skip
MAY_BE_PURE = frozenset({"exponential-sampling", "output-perturbation", "objective-perturbation", "localization"})
"""Classifiers that can be trained with delta 0."""
TrainedPrivatelyOn = Literal["fabricated", "confidential"]


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
    """The same. 0 for the classifiers in `MAY_BE_PURE` only."""
    preprocessing_share: Number = Field(default=0.0, ge=0, lt=1)
    """The part of the classifier's own budget that buys noisy means and scales to standardise the features by."""
    hyperparameters: Literal["fixed", "fabricated"] = "fixed"
    """`fixed`: the classifier's defaults. `fabricated`: chosen from a small public grid by cross-validation on
    fabricated rows, with the noise of the training on confidential rows; never on confidential or control rows."""

    @field_validator("trained_on")
    @classmethod
    def _each_once(cls, kinds: list[str]) -> list[str]:
        if len(set(kinds)) != len(kinds):
            raise ValueError("each kind of rows may be named once")
        return kinds

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


class EncodedFeature(Model):
    """One coordinate of the row that a classifier takes, and how it follows from a column's value."""

    column: str
    what: Literal["value", "category", "missing"]
    """`value`: (value - lower bound) / (upper - lower), of the logarithm where the column has one, and of an ordered
    category its place over the last place; 1/2 where the value is missing. `missing`: 1 where it is, else 0.
    `category`: 1 where the cell holds `category`, else 0."""
    category: str | None = None
    """As text; `null` for the possibility that the cell is missing, and where `what` is not `category`."""


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
    scale: list[float] | None
    norm: float | None = Field(gt=0)
    rule: Literal["clip", "normalize"]
    intercept: bool


class ReleasedClassifier(Model):
    """`classifiers/NAME.json` of a release folder: a linear classifier that was trained privately on confidential rows.

    To classify a row: encode it as `features` say, map it as `row_map` says, and take the class with the largest score
    `coefficients[k] . z + intercepts[k]`; of equally large ones the first. With a single row of coefficients the answer
    is the second class where the score is above 0, else the first. Everything here is released: it carries the noise.
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
    hyperparameters: dict[str, float | int | str | bool | None]
    """The classifier's own parameters; epsilon, delta and the public bounds stand elsewhere."""
    chosen_on: Literal["defaults", "fabricated rows"]
    """Where the hyper-parameters come from; never from confidential rows."""
    guarantee: FitGuarantee
    """Of this classifier alone. The release's own guarantee covers data and classifiers together."""

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
