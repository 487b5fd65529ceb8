"""What a privately trained classifier guarantees, apart from how it was trained."""

from typing import Literal

from pydantic import Field

from schemas.base import Model
from schemas.events import Event

Adjacency = Literal["replace_one", "add_remove"]


class FitGuarantee(Model):
    """What a fitted private classifier says of the rows it was fitted to."""

    epsilon: float = Field(gt=0)
    delta: float = Field(ge=0, lt=1)
    adjacency: Adjacency
    """`replace_one`: neighbouring tables differ in one whole record, label included, and have equally many.
    `add_remove`: one of them has one record more."""
    mechanism: str
    """What was run, in words."""
    proof: str
    """How the numbers were obtained, with the theorem or equation."""
    events: list[Event] = Field(min_length=1)
    """What was run on one record, priced under `adjacency`."""
    randomness: Literal["os-csprng", "seeded (not private)"]
    assumptions: list[str] = Field(default_factory=list)
    """What must be public knowledge for the numbers to hold, besides the parameters of the classifier."""

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: never for a seeded fit, whose noise anybody can draw again."""
        return self.randomness == "os-csprng"

    def sentence(self) -> str:
        """The guarantee in one plain sentence."""
        if not self.private:
            return "no guarantee: the noise was drawn from a seed, so that whoever knows it can take the noise off"
        changed = "replacing one record" if self.adjacency == "replace_one" else "adding or removing one record"
        rest = f" plus {self.delta:.3g}" if self.delta else ""
        return (
            f"record level: {changed} changes the probability of any outcome by at most a factor "
            f"e^{self.epsilon:.6g}{rest}"
        )
