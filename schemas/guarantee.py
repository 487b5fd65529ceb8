"""A differential-privacy guarantee with everything a reader needs to judge it."""

from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.spec import Unit

ELEMENT_PROOF = "exact: hockey-stick divergence of the discrete noise law on the lattice"
BASIC_COMPOSITION_PROOF = "basic composition over the cells of a row (valid, not tight)"


class Guarantee(Model):
    """(epsilon, delta)-indistinguishability for one unit, with its adjacency and its proof method."""

    unit: Unit
    """What may differ between two adjacent tables: one cell, or one whole row."""
    epsilon: float = Field(gt=0)
    delta: float = Field(ge=0)
    """Below 1 for a meaningful guarantee; basic composition may reach 1, which is then no guarantee."""
    distance: float = Field(gt=0, le=1)
    """How far a cell may move between adjacent tables, in scaled units (the whole range is 1)."""
    neighbouring: Literal["replace_one_cell", "replace_one_record"]
    """Rows are replaced, never added or removed, so the row count is public."""
    labels: Literal["public"]
    """Labels are released unchanged and are the same in adjacent tables."""
    proof: str
    """How the numbers were obtained."""

    def sentence(self) -> str:
        """The guarantee in one plain sentence."""
        moved = "one cell" if self.unit == "element" else "all feature values of one record"
        reach = "its whole range" if self.distance == 1 else f"{self.distance:g} of its range"
        each = "" if self.unit == "element" else " each"
        return (
            f"{self.unit} level: changing {moved}{each} by up to {reach} changes the probability of any outcome by "
            f"at most a factor e^{self.epsilon:.6g} plus {self.delta:.3g} (labels and row count are public)"
        )


class Guarantees(Model):
    """Both units, always reported together."""

    element: Guarantee
    record: Guarantee


class MechanismRecord(Model):
    """The mechanism that was (or would be) run, per cell."""

    name: str
    chosen_from: list[str]
    """The mechanisms that were compared for the smallest expected magnitude."""
    parameters: dict[str, float | int]
    """Of the discrete law: epsilon and delta per cell, lattice spacing, sensitivity in lattice steps, and an upper
    bound of the total variation distance between the law and what the sampler draws, per cell."""
    expected_magnitude: float = Field(ge=0)
    """E|v| per cell in scaled units."""
    expected_unperturbed_cells: float | None = Field(ge=0)
    """Cells x delta: how many cells are expected to get no noise by the law's atom; `null` before rows are known."""
