"""What was run on confidential data, apart from what it cost.

A ledger keeps events, not prices: a later version may price the same events more tightly, and an auditor may price
them with another tool. All of them are about neighbouring tables in which one record is replaced.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from schemas.base import Model, Number

Count = Annotated[StrictInt, Field(ge=1)]


class CellNoiseEvent(Model):
    """Independent integer noise on `count` cells, each of which differs by at most `shift_steps` lattice steps."""

    kind: Literal["cell_noise"] = "cell_noise"
    law: str = Field(min_length=1)
    """The name of the discrete noise law, such as `dirac-laplace`."""
    parameters: dict[str, float | int | list[int]]
    """What the law is built from, in lattice steps and nats."""
    shift_steps: StrictInt = Field(ge=1)
    """How far one cell may move between neighbouring tables, in lattice steps."""
    count: Count = 1
    """The number of cells of one record that get such noise."""


class GaussianEvent(Model):
    """Gaussian noise on a vector, `count` times."""

    kind: Literal["gaussian"] = "gaussian"
    noise_multiplier: Number = Field(gt=0)
    """Standard deviation of the noise divided by the vector's l2 sensitivity."""
    count: Count = 1


class RandomizedResponseEvent(Model):
    """A category that stays with e^epsilon times the probability of every single other one, `count` times."""

    kind: Literal["randomized_response"] = "randomized_response"
    epsilon: Number = Field(gt=0)
    categories: StrictInt = Field(ge=2)
    count: Count = 1


class ApproximateEvent(Model):
    """Anything of which no more is known than that it is (epsilon, delta)-differentially private, `count` times."""

    kind: Literal["approximate"] = "approximate"
    epsilon: Number = Field(ge=0)
    delta: Number = Field(ge=0, lt=1)
    count: Count = 1


Event = Annotated[
    CellNoiseEvent | GaussianEvent | RandomizedResponseEvent | ApproximateEvent, Field(discriminator="kind")
]


class Composition(Model):
    """Everything that was run, in any order; later steps may depend on the outcomes of earlier ones."""

    events: list[Event] = Field(min_length=1)
