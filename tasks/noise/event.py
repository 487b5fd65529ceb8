"""What a use of lattice noise is called in dp_accounting's vocabulary.

Importing this module imports dp_accounting, which takes two seconds: the laws do so only when asked for an event.
"""

from __future__ import annotations

import attr
from dp_accounting import DpEvent

__all__ = ["LatticeNoiseDpEvent"]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class LatticeNoiseDpEvent(DpEvent):
    """One value of integer noise added to one cell that moves by at most `shift` lattice steps.

    It says what was run; an accountant that knows the laws by `name` and `parameters` prices it.

    Attributes
    ----------
    name : str
        As in `law_from_parameters`.
    parameters : tuple of (str, value) pairs
        What `law_from_parameters` builds the law from, in a form that can be compared and hashed.
    shift : int
        Lattice steps.
    """

    name: str
    parameters: tuple[tuple[str, object], ...]
    shift: int
