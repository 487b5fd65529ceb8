"""Noise mechanisms: laws, exact privacy profiles, and samplers that add whole lattice steps.

See README.md beside this file for how the pieces fit.
"""

from tasks.noise.bits import BitSource as BitSource
from tasks.noise.bits import OperatingSystemBits as OperatingSystemBits
from tasks.noise.bits import SeededBits as SeededBits
from tasks.noise.categorical import ExactCategorical as ExactCategorical
from tasks.noise.dirac_laplace import DiracLaplace as DiracLaplace
from tasks.noise.dirac_staircase import DiracStaircase as DiracStaircase
from tasks.noise.gaussian import Gaussian as Gaussian
from tasks.noise.gaussian_profile import gaussian_delta as gaussian_delta
from tasks.noise.gaussian_profile import gaussian_standard_deviation as gaussian_standard_deviation
from tasks.noise.lattice_dirac_laplace import LatticeDiracLaplace as LatticeDiracLaplace
from tasks.noise.lattice_dirac_staircase import LatticeDiracStaircase as LatticeDiracStaircase
from tasks.noise.lattice_gaussian import LatticeGaussian as LatticeGaussian
from tasks.noise.lattice_optimal import LatticeOptimal as LatticeOptimal
from tasks.noise.lattice_staircase import LatticeStaircase as LatticeStaircase
from tasks.noise.lattice_truncated_laplace import LatticeTruncatedLaplace as LatticeTruncatedLaplace
from tasks.noise.moments import MomentsRelease as MomentsRelease
from tasks.noise.optimal import MECHANISMS as MECHANISMS
from tasks.noise.optimal import Candidate as Candidate
from tasks.noise.optimal import comparison as comparison
from tasks.noise.optimal import law_from_parameters as law_from_parameters
from tasks.noise.optimal import optimal as optimal
from tasks.noise.optimal import optimal_on_lattice as optimal_on_lattice
from tasks.noise.private_moments import MomentsNoise as MomentsNoise
from tasks.noise.private_moments import PrivateMoments as PrivateMoments
from tasks.noise.protocol import LatticeNoise as LatticeNoise
from tasks.noise.randomized_response import LabelRandomizedResponse as LabelRandomizedResponse
from tasks.noise.staircase import Staircase as Staircase
from tasks.noise.truncated_laplace import TruncatedLaplace as TruncatedLaplace
from tasks.noise.unary_response import UnaryRandomizedResponse as UnaryRandomizedResponse

__all__ = [
    "MECHANISMS",
    "BitSource",
    "Candidate",
    "DiracLaplace",
    "DiracStaircase",
    "ExactCategorical",
    "Gaussian",
    "LabelRandomizedResponse",
    "LatticeDiracLaplace",
    "LatticeDiracStaircase",
    "LatticeGaussian",
    "LatticeNoise",
    "LatticeOptimal",
    "LatticeStaircase",
    "LatticeTruncatedLaplace",
    "MomentsNoise",
    "MomentsRelease",
    "OperatingSystemBits",
    "PrivateMoments",
    "SeededBits",
    "Staircase",
    "TruncatedLaplace",
    "UnaryRandomizedResponse",
    "comparison",
    "gaussian_delta",
    "gaussian_standard_deviation",
    "law_from_parameters",
    "optimal",
    "optimal_on_lattice",
]
