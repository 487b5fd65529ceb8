"""What a release would do, told before anything is read or spent."""

from schemas.base import Model
from schemas.guarantee import Guarantees, MechanismRecord
from schemas.ledger import Balance


class PlannedColumn(Model):
    """One feature and the noise each of its cells will get."""

    name: str
    type: str
    bounds: tuple[float, float]
    unit: str
    expected_error: float | None
    """E|v| in the column's own unit: what the noise typically changes a cell by, before smoothing; `null` for private
    moments, which put no noise on cells."""


class Plan(Model):
    """The outcome of `fabrica plan`."""

    dataset: str
    spec_sha256: str
    columns: list[PlannedColumn]
    label: str
    mechanism: MechanismRecord
    guarantee: Guarantees
    balance: Balance
    fits_budget: bool
    releases_left: int
    """How many more releases of this spec fit the budget, 1000 at most."""
    unperturbed_cells_per_row: float
    rows_before_warning: int | None
    """Member rows from which more than 0.1 cells are expected without noise; `null` for delta = 0."""
    rows_before_refusal: int | None
    """Member rows from which more than 1 cell is expected without noise; `null` for delta = 0."""
    uncovered: list[str]
    warnings: list[str]
