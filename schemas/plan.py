"""What a release would do, told before anything is read or spent."""

from pydantic import Field

from schemas.base import Model
from schemas.guarantee import Guarantees, MechanismRecord
from schemas.ledger import Balance
from schemas.private_classifiers import PrivateClassifierName, TrainedPrivatelyOn
from schemas.spec import Unit

MOST_RELEASES_COUNTED = 1000
"""To which the releases that fit a budget are counted; so many stand for at least so many."""


class PlannedColumn(Model):
    """One feature and the noise it will get."""

    name: str
    type: str
    domain: str
    """Bounds, or the number of categories, in words."""
    unit: str
    expected_error: float | None
    """E|v| of a cell in the column's own unit, before smoothing: days for dates, places for ordered categories. `null`
    where noise has no size in that unit: for categories, logarithmic columns and private moments."""
    expected_change: float | None
    """How often a category's response points to another one; `null` for columns without."""
    error: str
    """What the noise does, in words."""
    epsilon: float | None
    """What a change of the cell costs, where columns have weights of their own; `null` where all cost the same."""
    signal_to_noise: float | None
    """A difference of a tenth of the range, or of the frequency, between two classes of mean size, over the standard
    deviation with which the released rows show it; `null` while the number of rows is not declared."""


class PlannedClassifier(Model):
    """One private classifier and what it will cost, at record level."""

    name: PrivateClassifierName
    trained_on: list[TrainedPrivatelyOn]
    epsilon: float | None
    """Of its own, before it is composed with the data's; `null` where it is trained on fabricated rows only, which is
    free."""
    delta: float | None


class Plan(Model):
    """The outcome of `fabrica plan`."""

    dataset: str
    spec_sha256: str
    columns: list[PlannedColumn]
    label: str
    unit: Unit
    """What the spec's epsilon and delta are about."""
    public_columns: list[str]
    surrogate_columns: list[str]
    dropped_columns: list[str]
    encoded_columns: int
    """Coordinates of an encoded row: one for a value, one for each possibility of a category, and so on."""
    mechanism: MechanismRecord
    guarantee: Guarantees
    """Of the data and the released classifiers together: what is charged."""
    data_guarantee: Guarantees | None = None
    """Of the data alone, where classifiers are trained on confidential rows as well."""
    classifiers: list[PlannedClassifier] = Field(default_factory=list)
    """Private classifiers."""
    balance: Balance
    fits_budget: bool
    releases_left: int
    """How many more releases of this spec fit the budget; 1000 stands for at least so many."""
    unperturbed_cells_per_row: float
    rows_before_warning: int | None
    """Member rows from which more than 0.1 cells are expected without noise; `null` for delta = 0."""
    rows_before_refusal: int | None
    """Member rows from which more than 1 cell is expected without noise; `null` for delta = 0."""
    signal_to_noise: float | None
    """The columns' signals over their noise, each root of the sum of squares; `null` while the number of rows is not
    declared (`table.rows`)."""
    uncovered: list[str]
    warnings: list[str]
