"""What attackers achieved: membership inference, the three risks of anonymisation, and the canary audit."""

from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.measures import Interval, NotComputed, TrainedOn
from schemas.private_classifiers import PrivateClassifierName
from schemas.spec import ClassifierName

AttackName = Literal[
    "distance-to-class",
    "distance-to-closest-record",
    "nearest-neighbour-ratio",
    "density-ratio",
    "loss",
    "likelihood-ratio",
]
"""`distance-to-class` is the seed paper's; the next three look at released rows, the last two at a classifier."""

ACCUSATION_CONFIDENCE = 0.9999
"""Of the statement that a mechanism does not keep its claim."""

RiskName = Literal["singling-out", "linkability", "attribute-inference"]


class Density(Model):
    """Smoothed densities of the attack's distances on a common grid, for the figure."""

    grid: list[float]
    members: list[float]
    controls: list[float]


class DensityDifference(Model):
    """The seed paper's membership-inference score of the distances to the nearest class."""

    score: float = Field(ge=0)
    """Integral of the squared difference of the two distance densities (73); has units 1/distance."""
    sigma: float
    """Width of the Gaussian basis that cross-validation chose; 0 where all distances are equal."""
    regularization: float
    """Ridge term that cross-validation chose."""
    density: Density


class Found(Model):
    """Share of the members that an attack finds while it wrongly accuses a small share of the control rows."""

    false_positive_rate: float = Field(gt=0, lt=1)
    true_positive_rate: Interval | None
    """`null` where fewer control rows than 1 / `false_positive_rate` cannot resolve it."""


class MembershipAttack(Model):
    """One attack on one kind of data: how well it tells members from control rows.

    Attacked classifiers are trained for the audit; they are not released. See `ReleasedClassifierAttack`.
    """

    attack: AttackName
    trained_on: TrainedOn
    """What the attacker holds, or what the attacked classifier learned from."""
    classifier: ClassifierName | None = None
    """The attacked classifier; `null` for attacks on rows."""
    members: int
    controls: int
    """Rows that it was judged on: some attacks look at fewer than there are."""
    auc: Interval
    """Chance that a random member gets a higher score than a random control row; 0.5 is a coin toss."""
    found: list[Found]
    """At 0.1 % and 1 % of the control rows."""
    roc_false_positive_rate: list[float]
    roc_true_positive_rate: list[float]
    most_exposed: list[int]
    """At most ten rows of the source file, counted from 0 after the header, of the members with the highest scores,
    highest first; never a value."""
    density_difference: DensityDifference | None = None
    """Only for `distance-to-class`."""


class ReleasedClassifierAttack(Model):
    """One attack on a released classifier, by what is in its file and nothing else.

    The classifier was trained with noise on all members, so this is an attack on something that anybody may read, as
    attacks on fabricated data are.
    """

    attack: Literal["margin"]
    """How far the score of a row's label is ahead of all others."""
    classifier: PrivateClassifierName
    epsilon: float = Field(gt=0)
    """Of one whole record, label included, for this classifier alone; neighbouring tables replace a record."""
    delta: float = Field(ge=0, lt=1)
    members: int
    controls: int
    auc: Interval
    """As in `MembershipAttack`, and so are all that follow."""
    found: list[Found]
    roc_false_positive_rate: list[float]
    roc_true_positive_rate: list[float]
    most_exposed: list[int]


AnyAttack = MembershipAttack | ReleasedClassifierAttack


class MembershipInference(Model):
    """Members (rows used for fabrication) against control rows (kept out of it)."""

    members: int
    controls: int
    attacks: list[MembershipAttack]
    released_classifiers: list[ReleasedClassifierAttack] = Field(
        default_factory=list, exclude_if=lambda attacks: not attacks
    )
    """In the release's order; left out where it holds no classifier, or where nothing was attacked."""
    not_computed: list[NotComputed] = Field(default_factory=list)


class PrivacyRisk(Model):
    """One of the risks of Giomi et al. (2023): how often an attacker is right about members, beyond what is right of
    control rows as well."""

    risk: RiskName
    variant: str
    """What was attacked, for example `one column`, or the name of the guessed column."""
    trained_on: TrainedOn
    """The rows that the attacker holds."""
    attacked: int = Field(ge=1)
    """Guesses about members, and as many about control rows."""
    members: Interval
    """Share of right guesses about members."""
    controls: Interval
    """The same guesses about control rows: what the data teach about everyone."""
    naive: Interval
    """Share of right guesses without the data: a random guess, or for a column its most frequent value."""
    risk_beyond_controls: Interval
    """(members - controls) / (1 - controls): 0 is none, 1 is certainty; negative where control rows fare worse."""


class PrivacyRisks(Model):
    """Singling out, linkability and attribute inference."""

    risks: list[PrivacyRisk]
    not_computed: list[NotComputed] = Field(default_factory=list)


class CanaryBound(Model):
    """What planted canaries prove about one kind of data."""

    seen: Literal["noise-added", "fabricated"]
    epsilon_lower_bound: float = Field(ge=0)
    """With the stated confidence, no smaller epsilon holds; 0 where nothing can be refuted."""
    contradicts_claim: bool
    """Whether the claimed epsilon is refuted at `ACCUSATION_CONFIDENCE`. At the stated confidence alone, one sound
    release in twenty is."""
    correct: int
    guesses: int
    """The surest; their number is fixed before looking."""
    canaries: int


class EmpiricalEpsilon(Model):
    """One run of the same mechanism on canaries (Steinke, Nasr, Jagielski 2023), never on the release's own noise.

    Canaries are values and categories of features, or whole rows of them. Labels, and whether a value is missing, are
    not tried, and private moments, which are sums over all rows, hardly show a single one.
    """

    unit: Literal["element", "record"]
    claimed_epsilon: float
    delta: float
    confidence: float
    """That all bounds hold together."""
    bounds: list[CanaryBound]
    not_computed: list[NotComputed] = Field(default_factory=list)
