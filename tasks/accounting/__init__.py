"""From the parameters of a release to its guarantees, at both units."""

from tasks.accounting.cell_noise import CellNoise as CellNoise
from tasks.accounting.cell_noise import cell_noise as cell_noise
