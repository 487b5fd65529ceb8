"""What the models share: strict, immutable, and documented by their attribute docstrings."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[float, Field(strict=True)]
"""A finite number; text and booleans are refused instead of converted."""


class Model(BaseModel):
    """A model that refuses unknown keys, cannot be changed, and never quotes its input in error texts."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )
