"""Vectors released with noise on a public lattice: Gaussian noise, and noise with the density exp(-|b| / scale).

A vector in doubles plus noise in doubles leaks through its low-order bits (Mironov 2012). Here the vector is rounded
to whole steps of a lattice that public numbers fix, and the noise is whole steps drawn exactly, so what is released is
the ideal mechanism's output, rounded. Rounding moves each coordinate by up to half a step, which widens the
sensitivity by sqrt(p) steps; the lattice is so fine that this is less than a millionth of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource
from tasks.noise.lattice_gaussian import LatticeGaussian

__all__ = ["SLACK", "VectorLattice", "lattice_for", "norm_noise"]

FloatArray = NDArray[np.float64]

SLACK = 1.0 + 2.0**-40
"""What a sensitivity is taken larger by, for the rounding of a few float operations on one record."""

_FINENESS = 2.0**20  # steps in a sensitivity, over sqrt(p)
_LARGEST_DEVIATION = 2.0**44  # of the noise, in steps
_LARGEST_STEP = 2.0**52  # of a vector's coordinate; beyond, it is moved there, which lengthens no distance
_FINE = 2.0**45  # steps in a standard deviation of the normal numbers that `norm_noise` takes a root of


@dataclass(frozen=True)
class VectorLattice:
    """A lattice for vectors of p coordinates that differ by at most `sensitivity` between neighbouring tables.

    Parameters
    ----------
    dimension : int
        p, at least 1.
    sensitivity : float
        In the l2 norm, above 0.
    spacing : float
        Of the lattice, a power of two; from public numbers only.

    Notes
    -----
    `steps` is the sensitivity of the rounded vector in whole steps, a bound: two vectors at distance S, rounded to
    spacing g, are at most S / g + sqrt(p) steps apart. Moving coordinates to [-2^52, 2^52] before is a projection.
    """

    dimension: int
    sensitivity: float
    spacing: float

    @property
    def steps(self) -> float:
        """l2 sensitivity of the rounded vector, in steps, rounded up."""
        return (self.sensitivity / self.spacing + math.sqrt(self.dimension)) * SLACK

    def snap(self, vector: ArrayLike) -> NDArray[np.int64]:
        """Round to whole steps, shape (dimension,)."""
        flat = np.asarray(vector, dtype=np.float64).ravel()
        if flat.shape != (self.dimension,):
            raise ValueError(f"vector must have {self.dimension} coordinates, got {flat.size}")
        steps = np.nan_to_num(flat / self.spacing, nan=0.0, posinf=_LARGEST_STEP, neginf=-_LARGEST_STEP)
        return np.rint(np.clip(steps, -_LARGEST_STEP, _LARGEST_STEP)).astype(np.int64)

    def gaussian_law(self, noise_multiplier: float) -> LatticeGaussian:
        """The noise of each coordinate, whose standard deviation is `noise_multiplier` sensitivities."""
        return LatticeGaussian(noise_multiplier * self.steps)

    def add_gaussian(self, vector: ArrayLike, noise_multiplier: float, bits: BitSource) -> FloatArray:
        """Release a vector with Gaussian noise: Gaussian differential privacy with mu = 1 / noise_multiplier.

        Parameters
        ----------
        vector : array-like of p coordinates, of any shape
        noise_multiplier : float
            Standard deviation of the noise in each coordinate, in sensitivities; above 0.
        bits : BitSource

        Returns
        -------
        ndarray of float64, in the shape of `vector`
            Whole multiples of the spacing.
        """
        law = self.gaussian_law(noise_multiplier)
        return self._released(vector, law.sample(self.dimension, bits=bits))

    def add_norm_noise(self, vector: ArrayLike, epsilon: float, bits: BitSource) -> FloatArray:
        """Release a vector with noise of density proportional to exp(-epsilon |b| / sensitivity): pure epsilon.

        Its norm has a Gamma law of shape p and scale sensitivity / epsilon, its direction is uniform.

        Parameters
        ----------
        vector : array-like of p coordinates, of any shape
        epsilon : float
            Above 0 and finite.
        bits : BitSource

        Returns
        -------
        ndarray of float64, in the shape of `vector`
        """
        return self._released(vector, norm_noise(self.dimension, self.steps / epsilon, bits))

    def _released(self, vector: ArrayLike, noise: NDArray[np.int64]) -> FloatArray:
        released: FloatArray = (self.snap(vector) + noise).astype(np.float64) * self.spacing
        return released.reshape(np.shape(vector))


def lattice_for(dimension: int, sensitivity: float, relative_noise: float) -> VectorLattice:
    """The lattice on which a vector is released.

    Parameters
    ----------
    dimension : int
    sensitivity : float
        l2, above 0 and finite.
    relative_noise : float
        Size of the noise in a coordinate, in sensitivities; public. Very much noise makes the lattice coarser.

    Returns
    -------
    VectorLattice
        With a spacing of at most 2^-20 / sqrt(p) of the sensitivity, unless the noise is above 2^24 sqrt(p)
        sensitivities; then of 2^-44 of the noise.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    if dimension < 1 or not 0.0 < sensitivity < math.inf or not 0.0 < relative_noise < math.inf:
        raise ValueError(
            f"need dimension >= 1, and a finite sensitivity and noise above 0, got {dimension=}, {sensitivity=}, "
            f"{relative_noise=}"
        )
    spacing = max(sensitivity / (_FINENESS * math.sqrt(dimension)), sensitivity * relative_noise / _LARGEST_DEVIATION)
    return VectorLattice(dimension, sensitivity, 2.0 ** math.floor(math.log2(spacing)))


def norm_noise(dimension: int, scale: float, bits: BitSource) -> NDArray[np.int64]:
    """Whole steps, as the vector of density proportional to exp(-|b| / scale) in R^p, rounded.

    Parameters
    ----------
    dimension : int
        p.
    scale : float
        In steps, above 0.
    bits : BitSource

    Returns
    -------
    ndarray of int64, shape (dimension,)

    Notes
    -----
    exp(-a |b|) is a mixture of normal densities: b = sqrt(s) Z with Z standard normal in R^p and s of the Gamma law
    with shape (p + 1) / 2 and rate a^2 / 2, that is a^2 s chi-square with p + 1 degrees of freedom. So p + 1 normal
    numbers give the root of s, and p more, rounded, the noise. Both kinds come from `LatticeGaussian`: exact but for
    2^-117 a value in total variation; the first kind is rounded at 2^-45 standard deviations, which moves s by a
    relative 2^-44 / sqrt(s) or so. That and the tails beyond 13.3 standard deviations are all that departs from the
    ideal law.
    """
    normal = LatticeGaussian(_FINE).sample(dimension + 1, bits=bits).astype(np.float64) / _FINE
    return LatticeGaussian(max(scale * float(np.linalg.norm(normal)), 2.0**-20)).sample(dimension, bits=bits)
