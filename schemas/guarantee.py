"""A differential-privacy guarantee with everything a reader needs to judge it."""

from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.events import Event
from schemas.spec import Unit

ELEMENT_PROOF = "exact: hockey-stick divergence of the discrete noise law on the lattice"
RESPONSE_PROOF = (
    "exact: hockey-stick divergence of the discrete noise law on the lattice, and likelihood ratio of the response in "
    "a category's place; basic composition of both where a value may be missing"
)
BASIC_COMPOSITION_PROOF = "basic composition over the cells of a row (valid, not tight)"
TIGHT_COMPOSITION_PROOF = "tight composition over a row: privacy-loss distributions of the discrete laws, rounded up"
GAUSSIAN_PROOF = "Gaussian releases composed as one (Gaussian differential privacy), analytic delta"
PART_OF_RECORD_PROOF = "one cell is part of a record, so the record's guarantee covers it"

CELL_OF_RECORD_PROOF = "exact profile of one cell's noise or response, at the record's delta shared out over its cells"
DATA_AND_CLASSIFIERS_PROOF = (
    "tight composition of what was run for the data and for each classifier trained on confidential rows, rounded up"
)
CELL_AND_CLASSIFIERS_PROOF = (
    "composition of the cell's guarantee in the data with that of each classifier trained on confidential rows, which "
    "covers the whole record that the cell is a part of"
)
PROOFS = {
    ELEMENT_PROOF,
    RESPONSE_PROOF,
    BASIC_COMPOSITION_PROOF,
    TIGHT_COMPOSITION_PROOF,
    GAUSSIAN_PROOF,
    PART_OF_RECORD_PROOF,
    CELL_OF_RECORD_PROOF,
    DATA_AND_CLASSIFIERS_PROOF,
    CELL_AND_CLASSIFIERS_PROOF,
}

LabelRule = Literal["public", "covered", "randomized_response"]


class Guarantee(Model):
    """(epsilon, delta)-indistinguishability for one unit, with its adjacency and its proof method."""

    unit: Unit
    """What may differ between two adjacent tables: one cell, or one whole row."""
    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0)
    """Below 1 for a meaningful guarantee; basic composition may reach 1, which is then no guarantee."""
    distance: float = Field(gt=0, le=1)
    """How far a cell may move between adjacent tables, in scaled units (the whole range is 1)."""
    neighbouring: Literal["replace_one_cell", "replace_one_record"]
    """Rows are replaced, never added or removed, so the row count is public."""
    labels: LabelRule
    """`public`: labels are the same in adjacent tables. `covered`: a record's label may differ as well.
    `randomized_response`: the same, by noise of the label's own, which is composed in."""
    label_epsilon: float | None = None
    """With `randomized_response`: epsilon of one label. At element level the numbers above are about
    feature cells; at record level the label is composed in. With classifiers trained on confidential rows it includes
    theirs, and goes with `label_delta`."""
    label_delta: float = Field(default=0.0, ge=0)
    """The delta of one label; above 0 only with classifiers trained on confidential rows."""
    public_columns: list[str] = Field(default_factory=list)
    """Columns that are released as they are because everybody knows them; they are the same in adjacent tables."""
    proof: str
    """How the numbers were obtained."""

    def sentence(self) -> str:
        """The guarantee in one plain sentence."""
        reach = "its whole range" if self.distance == 1 else f"{self.distance:g} of its range"
        if self.unit == "element":
            changed = f"one {'cell' if self.label_epsilon is None else 'feature cell'} by up to {reach}"
        elif self.labels == "public" or self.public_columns:
            changed = f"all feature values of one record each by up to {reach}"
        else:
            changed = "one whole record, its label included,"
        known = ["labels"] if self.labels == "public" else []
        known += [f"column `{name}`" for name in self.public_columns]
        public = f"{', '.join(known)} and row count are public" if known else "the row count is public"
        if self.unit == "element" and self.label_epsilon is not None:
            public += f"; changing one label, by at most a factor e^{self.label_epsilon:.6g}"
            if self.label_delta:
                public += f" plus {self.label_delta:.3g}"
        return (
            f"{self.unit} level: changing {changed} changes the probability of any outcome by at most a factor "
            f"e^{self.epsilon:.6g} plus {self.delta:.3g} ({public})"
        )


class Guarantees(Model):
    """Both units, always reported together."""

    element: Guarantee
    record: Guarantee


class ComparedMechanism(Model):
    """One row of the comparison of mechanisms, which `mechanism: optimal` decides by."""

    name: str
    expected_magnitude: float | None = Field(ge=0)
    """E|v| per cell in scaled units; `null` where the mechanism has no law for the guarantee."""
    reason: str = ""
    """Why it has none."""


class MechanismPart(Model):
    """What was run on some columns: noise on values, or a random response in a category's place."""

    columns: list[str]
    what: Literal["value", "category", "missing"]
    """`missing`: whether the column's value is missing."""
    name: str
    """The noise law, or `randomized-response` or `unary-randomized-response`."""
    parameters: dict[str, float | int | bool | list[float] | list[int]]
    expected_magnitude: float | None = Field(default=None, ge=0)
    """Of a value: E|v| in scaled units."""
    change_probability: float | None = Field(default=None, ge=0, le=1)
    """Of a category: how often the response points to another one."""


class MechanismRecord(Model):
    """The mechanism that was (or would be) run."""

    name: str
    compared: list[ComparedMechanism]
    """The mechanisms with the wanted guarantee and their expected magnitudes; `optimal` takes the smallest. At record
    level only the one that was named, unless it was `optimal`."""
    parameters: dict[str, float | int | bool | list[float] | list[int]]
    """Public numbers: for cell noise those of its first part, as a rule a discrete law in lattice steps, with the
    lattice spacing and an upper bound of the total variation distance between the law and what the sampler draws; for
    private moments those of the releases."""
    expected_magnitude: float | None = Field(ge=0)
    """E|v| of a value, mean over the columns, in scaled units; `null` if there is none, as with private moments."""
    expected_unperturbed_cells: float | None = Field(ge=0)
    """How many cells are expected to get no noise by the law's atom; `null` before the number of rows is known."""
    parts: list[MechanismPart] = Field(default_factory=list)
    """Cell noise: what was run on which columns. Columns with a single possible value are in none."""
    events: list[Event]
    """What was run on one record, as the ledger charges it."""
