"""The border: the only step that turns confidential rows into released ones.

What it returns is the output of the mechanism. Everything after it is post-processing, whatever it does.
"""

import numpy as np

from tasks.accounting import CellNoise, Mechanism, Moments
from tasks.accounting.lattice import LATTICE_STEPS, SPACING
from tasks.columns.layout import Layout
from tasks.noise import BitSource, LabelRandomizedResponse, UnaryRandomizedResponse
from tasks.step import step
from tasks.tables import ConfidentialTable, IntArray, NoiseAddedTable


@step("Add noise")
def perturb(members: ConfidentialTable, mechanism: Mechanism, layout: Layout, bits: BitSource) -> NoiseAddedTable:
    """Released rows Y+: the members' values with noise and estimates from responses in their categories' places, or
    rows drawn from their noisy moments.

    Parameters
    ----------
    members : ConfidentialTable
    mechanism : CellNoise or Moments
        Calibrated for the table's features.
    layout : Layout
        Where the features are in a row.
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
            return _noise_on_cells(members, mechanism, layout, bits)
        case Moments():
            return _drawn_from_moments(members, mechanism, bits)


def _noise_on_cells(members: ConfidentialTable, noise: CellNoise, layout: Layout, bits: BitSource) -> NoiseAddedTable:
    lattice = np.zeros_like(members.lattice)
    for part in noise.parts:
        blocks = [block for name in part.columns for block in layout.of(name) if block.kind == part.what]
        if isinstance(part.noise, LabelRandomizedResponse | UnaryRandomizedResponse):
            for block in blocks:
                lattice[:, block.place] = _estimates(members.lattice[:, block.place], part.noise, bits)
        else:
            places = [block.start for block in blocks]
            values = members.lattice[:, places]
            lattice[:, places] = values + part.noise.sample(values.shape, bits=bits)
    labels = members.labels
    if noise.label_epsilon is not None and noise.n_classes > 1:
        labels = LabelRandomizedResponse(noise.label_epsilon, noise.n_classes).respond(labels, bits)
    return NoiseAddedTable(lattice=lattice, labels=labels, spacing=members.spacing, randomness=bits.label)


def _estimates(
    coordinates: IntArray, response: LabelRandomizedResponse | UnaryRandomizedResponse, bits: BitSource
) -> IntArray:
    """What the response to each row's category says of the category's coordinates, unbiased, in lattice steps."""
    codes = coordinates[:, 0] // LATTICE_STEPS if coordinates.shape[1] == 1 else coordinates.argmax(axis=1)
    estimates = response.estimate(response.respond(codes.astype(np.int64), bits))
    if coordinates.shape[1] == 1:
        estimates = estimates[:, 1:]
    return np.rint(estimates * LATTICE_STEPS).astype(np.int64)


def _drawn_from_moments(members: ConfidentialTable, moments: Moments, bits: BitSource) -> NoiseAddedTable:
    n_rows = len(members.labels)
    private_moments = moments.for_rows(n_rows)
    release = private_moments.release(members.lattice, members.labels, bits)
    lattice, labels = private_moments.draw(release, n_rows, bits)
    return NoiseAddedTable(lattice=lattice, labels=labels, spacing=SPACING, randomness=bits.label)
