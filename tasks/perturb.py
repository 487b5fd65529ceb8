"""The border: the only step that turns confidential rows into released ones.

What it returns is the output of the mechanism. Everything after it is post-processing, whatever it does.
"""

from tasks.accounting import CellNoise, Mechanism, Moments
from tasks.accounting.lattice import SPACING
from tasks.noise import BitSource, LabelRandomizedResponse
from tasks.step import step
from tasks.tables import ConfidentialTable, NoiseAddedTable


@step("Add noise")
def perturb(members: ConfidentialTable, mechanism: Mechanism, bits: BitSource) -> NoiseAddedTable:
    """Released rows Y+: noise-added cells of the members, or rows drawn from their noisy moments.

    Parameters
    ----------
    members : ConfidentialTable
    mechanism : CellNoise or Moments
        Calibrated for the members' number of features.
    bits : BitSource
        `OperatingSystemBits` in production; anything else brands the release as not private.

    Returns
    -------
    NoiseAddedTable
        What follows does not know which kind it was. Integers are added to integers, so no rounding of a sum can
        leak (Mironov 2012).
    """
    match mechanism:
        case CellNoise():
            return _noise_on_cells(members, mechanism, bits)
        case Moments():
            return _drawn_from_moments(members, mechanism, bits)


def _noise_on_cells(members: ConfidentialTable, noise: CellNoise, bits: BitSource) -> NoiseAddedTable:
    labels = members.labels
    if noise.label_epsilon is not None and noise.n_classes > 1:
        labels = LabelRandomizedResponse(noise.label_epsilon, noise.n_classes).respond(labels, bits)
    return NoiseAddedTable(
        lattice=members.lattice + noise.law.sample(members.lattice.shape, bits=bits),
        labels=labels,
        spacing=members.spacing,
        randomness=bits.label,
    )


def _drawn_from_moments(members: ConfidentialTable, moments: Moments, bits: BitSource) -> NoiseAddedTable:
    n_rows = len(members.labels)
    private_moments = moments.for_rows(n_rows)
    release = private_moments.release(members.lattice, members.labels, bits)
    lattice, labels = private_moments.draw(release, n_rows, bits)
    return NoiseAddedTable(lattice=lattice, labels=labels, spacing=SPACING, randomness=bits.label)
