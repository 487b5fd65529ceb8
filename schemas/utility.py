"""What a release is good for: classifiers, columns, pairs of columns, and the table as a whole."""

from pydantic import Field

from schemas.base import Model
from schemas.measures import Interval, NotComputed, TrainedOn
from schemas.private_classifiers import ChosenOn, Hyperparameters, PrivateClassifierName, TrainedPrivatelyOn
from schemas.spec import ClassifierName


class ClassifierResult(Model):
    """One classifier trained on one kind of data and tested on real control rows."""

    name: ClassifierName
    trained_on: TrainedOn
    accuracy: Interval
    macro_f1: Interval
    """Mean of the F1 scores of the classes that have control rows."""
    auc: Interval | None
    """Area under the ROC curve, one class against the rest, mean over the classes that have at least
    `schemas.measures.FEWEST_ROWS` control rows and as many others; `null` where there is none."""


class PrivateClassifierResult(Model):
    """One private classifier, trained on one kind of rows and tested on real control rows."""

    name: PrivateClassifierName
    trained_on: TrainedPrivatelyOn
    """`confidential`: with noise in the training. `fabricated`: without, on rows that carry the noise themselves."""
    train_rows: int
    epsilon: float
    """At record level: of the training for `confidential`, of the fabricated data for `fabricated`."""
    delta: float
    accuracy: Interval
    macro_f1: Interval
    auc: Interval | None
    """As in `ClassifierResult`."""
    hyperparameters: Hyperparameters = Field(default_factory=dict)
    """All of the classifier's own parameters."""
    chosen_on: ChosenOn = "defaults"
    """Where they come from; never from confidential or control rows."""
    preprocessing_share: float = Field(default=0.0, ge=0, lt=1)
    """The part of the training's budget that bought means and scales of the features. On fabricated rows they are taken
    without noise."""


class ClassifierComparison(Model):
    """Every classifier on every kind of training data, against always answering the largest class."""

    train_rows: int
    test_rows: int
    majority_accuracy: float | None = Field(ge=0, le=1)
    """Accuracy on the control rows of always answering the members' largest class; `null` where there are too few."""
    results: list[ClassifierResult]
    not_computed: list[NotComputed] = Field(default_factory=list)
    private: list[PrivateClassifierResult] = Field(default_factory=list)
    """Private classifiers that the spec names, in its order; they learn from all members, or from as many fabricated
    rows as the audit looks at."""


class Histogram(Model):
    """Shares of values in intervals of a column's bounds, in both tables.

    Intervals with too few real values are joined with their neighbours, so that every real share is one of at least
    `schemas.measures.FEWEST_ROWS` rows, or of none.
    """

    edges: list[float]
    """One more than there are intervals."""
    real: list[float]
    fabricated: list[float]


class ColumnUtility(Model):
    """How one released feature compares with the members' values, in the column's own unit.

    Dates and times are in days after the lower bound, ordered categories are numbered from 0. Figures are about the
    values that are present, and `null` where fewer than `schemas.measures.FEWEST_ROWS` are, in either table, or where
    fewer real ones differ from the most frequent value.
    """

    name: str
    mean_real: float | None
    mean_fabricated: float | None
    std_real: float | None
    std_fabricated: float | None
    quantiles: list[float] = Field(default_factory=list)
    """Levels of the quantiles below, for example 0.05, 0.25, 0.5, 0.75, 0.95."""
    quantiles_real: list[float] = Field(default_factory=list)
    """Each a mean over the rows around it, at least `schemas.measures.FEWEST_ROWS`; empty where there are too few."""
    quantiles_fabricated: list[float] = Field(default_factory=list)
    kolmogorov_smirnov: float | None = Field(ge=0, le=1)
    """Largest distance between the two distribution functions; 0 is equal."""
    histogram: Histogram | None = None
    missing_real: float | None = Field(default=0.0, ge=0, le=1)
    """Share of the values that are missing; `null` where fewer than `schemas.measures.FEWEST_ROWS` are, or are
    present."""
    missing_fabricated: float = Field(default=0.0, ge=0, le=1)


class CategoryUtility(Model):
    """How often a released feature's categories occur, beside the members'.

    Categories with some real rows but fewer than `schemas.measures.FEWEST_ROWS` are shown as one entry, together with
    the rarest of the others if they have too few rows among themselves; so every real share is one of enough rows, or
    of none.
    """

    name: str
    categories: list[str]
    """As text, the names of joined ones with commas between; a last one, `missing`, where the column is nullable."""
    shares_real: list[float]
    shares_fabricated: list[float]
    total_variation: float = Field(ge=0, le=1)
    """Half the summed differences of the shares that are listed; 0 is equal."""


class CorrelationMap(Model):
    """Pearson correlations of the released columns that have an order, in both tables."""

    columns: list[str]
    real: list[list[float | None]]
    """`null` where a column does not vary, or the two have too few rows in common."""
    fabricated: list[list[float | None]]


class PairUtility(Model):
    """How the joint distribution of two columns compares, by contingency similarity (1 is equal, 0 disjoint)."""

    first: str
    second: str
    similarity: float = Field(ge=0, le=1)


class Propensity(Model):
    """Whether a classifier can tell real from fabricated rows (pMSE, Snoke et al. 2018)."""

    model: str
    """The model of the propensity score, in words."""
    pmse: float = Field(ge=0, le=0.25)
    """Mean squared distance of the propensity scores from the share of fabricated rows; 0 is indistinguishable."""
    expected: float = Field(ge=0)
    """What two samples of one law would give."""
    ratio: float | None = Field(ge=0)
    """`pmse / expected`: 1 is indistinguishable."""


class Projection(Model):
    """Real and fabricated rows on the first two principal components, as shares of rows in square cells.

    The axes are those of the fabricated rows. Cells with too few real rows are left out.
    """

    x_edges: list[float]
    y_edges: list[float]
    real: list[list[float]]
    """Shares by cell, `real[i][j]` between `y_edges[i]`, `y_edges[i+1]` and `x_edges[j]`, `x_edges[j+1]`."""
    fabricated: list[list[float]]
    real_left_out: float = Field(ge=0, le=1)
    """Share of the real rows that are in cells with too few of them."""
    explained: float = Field(ge=0, le=1)
    """Share of the fabricated rows' variance along the two axes."""


class Utility(Model):
    """What the release preserves of the members' table."""

    columns: list[ColumnUtility]
    """Features whose values have an order."""
    categories: list[CategoryUtility] = Field(default_factory=list)
    """Features of categories, ordered ones included."""
    correlation_difference: float | None = Field(ge=0, le=2)
    """Mean absolute difference of the correlations over pairs of columns that vary in both; `null` for fewer than two.
    A category counts by an indicator for each possibility, and the pair of indicators that differs most."""
    correlation_pairs: int
    """How many pairs of columns that mean is over."""
    correlations: CorrelationMap | None = None
    pairs: list[PairUtility] = Field(default_factory=list)
    """Least similar first; at most 1000."""
    pair_similarity: float | None = Field(default=None, ge=0, le=1)
    """Mean over all pairs of columns, the label included."""
    propensity: list[Propensity] = Field(default_factory=list)
    projection: Projection | None = None
    not_computed: list[NotComputed] = Field(default_factory=list)
