"""Noise mechanisms: laws, exact privacy profiles, and samplers that add whole lattice steps.

See README.md beside this file for how the pieces fit.
"""

from tasks.noise.bits import BitSource as BitSource
from tasks.noise.bits import OperatingSystemBits as OperatingSystemBits
from tasks.noise.bits import SeededBits as SeededBits
from tasks.noise.categorical import ExactCategorical as ExactCategorical
from tasks.noise.dirac_laplace import DiracLaplace as DiracLaplace
from tasks.noise.lattice import LatticeDiracLaplace as LatticeDiracLaplace
from tasks.noise.protocol import LatticeNoise as LatticeNoise

__all__ = [
    "BitSource",
    "DiracLaplace",
    "ExactCategorical",
    "LatticeDiracLaplace",
    "LatticeNoise",
    "OperatingSystemBits",
    "SeededBits",
]
