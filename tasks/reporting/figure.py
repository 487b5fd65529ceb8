"""A picture with the sentence that says what it shows."""

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Figure:
    """A picture with its one-sentence reading; `svg` is `None` where the report holds no numbers for it."""

    heading: str
    svg: Markup | None
    reading: str
