"""The public lattice that cells are snapped to before integer noise is added."""

import math

LATTICE_BITS = 16
LATTICE_STEPS = 2**LATTICE_BITS
"""Steps over a column's whole range: finer than any noise worth adding, coarse enough for exact integers."""
MISSING = LATTICE_STEPS // 2
"""The coordinate of a missing value: the middle of the range, whatever the data are."""
SPACING = 2.0**-LATTICE_BITS
"""One step in scaled units; a power of two, so that scaled values are exact doubles."""


def lattice_distance(distance: float) -> int:
    """Sensitivity in lattice steps for cells that move by at most `distance` in scaled units.

    Rounded up, and one more for distances below the whole range: snapping two cells to the lattice in floating point
    can take them one step further apart than they were.
    """
    return LATTICE_STEPS if distance >= 1 else min(LATTICE_STEPS, math.ceil(distance * LATTICE_STEPS) + 1)
