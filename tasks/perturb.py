"""The border: the only step that turns confidential rows into released ones.

What it returns is the output of the mechanism. Everything after it is post-processing, whatever it does.
"""

from tasks.accounting import CellNoise
from tasks.noise import BitSource
from tasks.step import step
from tasks.tables import ConfidentialTable, NoiseAddedTable


@step("Add noise")
def perturb(members: ConfidentialTable, noise: CellNoise, bits: BitSource) -> NoiseAddedTable:
    """Noise-added data Y+: each cell of the members plus independent integer noise on the lattice.

    Parameters
    ----------
    members : ConfidentialTable
    noise : CellNoise
        Calibrated for the members' number of features.
    bits : BitSource
        `OperatingSystemBits` in production; anything else brands the release as not private.

    Returns
    -------
    NoiseAddedTable
        Integers are added to integers, so no rounding of a sum can leak (Mironov 2012).
    """
    return NoiseAddedTable(
        lattice=members.lattice + noise.law.sample(members.lattice.shape, bits=bits),
        labels=members.labels,
        spacing=members.spacing,
        randomness=bits.label,
    )
