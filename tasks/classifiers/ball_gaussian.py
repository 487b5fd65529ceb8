"""Spherical normal vectors that are given to lie in a ball: drawn without rejecting those outside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tasks.noise.bits import BitSource, draw_words
from tasks.noise.lattice_gaussian import LatticeGaussian

__all__ = ["BallGaussian", "log_lower_gamma", "uniforms"]

FloatArray = NDArray[np.float64]

_FINE = 2.0**45  # steps in a standard deviation of the normal numbers that give a direction
_SMALLEST = 1e-280
LEAST_LOG_MASS = -230.0
"""Below it a ball is too small for these numerics: the law without the ball has less than e^-230 of its mass there."""


def uniforms(count: int, bits: BitSource) -> FloatArray:
    """Uniform doubles, the odd multiples of 2^-53 in (0, 1), each with probability 2^-52, shape (count,)."""
    return ((draw_words(bits, count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def log_lower_gamma(shape: float, x: FloatArray) -> FloatArray:
    """Logarithm of the regularised lower incomplete gamma function, also where that is 0 in doubles."""
    with np.errstate(under="ignore", divide="ignore"):
        plain = special.gammainc(shape, x)
        small = (plain < _SMALLEST) & (x > 0.0)
        result: FloatArray = np.log(plain)
        if small.any():
            # x^a e^-x / Gamma(a + 1) (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...): x is below a here, and the series short
            at = x[small]
            term, total, k = np.ones_like(at), np.ones_like(at), 1.0
            while np.any(term > 1e-17 * total):
                term = term * at / (shape + k)
                total, k = total + term, k + 1.0
            result[small] = shape * np.log(at) - at - special.gammaln(shape + 1.0) + np.log(total)
    return result


@dataclass(frozen=True, eq=False)
class BallGaussian:
    """The law of density proportional to exp(-|y - mean|^2 / 2) on the ball of radius `radius` about 0 in R^p.

    Parameters
    ----------
    mean : ndarray of float64, shape (p,)
        Of the normal law, not of this one; it may lie outside the ball.
    radius : float
        Above 0; with p such that a standard normal vector is in the ball with probability above e^-230.

    Raises
    ------
    ValueError
        If the ball is smaller than that.

    Notes
    -----
    With e the direction of the mean, t = <y, e> has the log-concave density exp(-(t - |mean|)^2 / 2) P(chi-square
    with p - 1 degrees of freedom <= radius^2 - t^2). The rest of y has, given t, a uniform direction and as square of
    its length a chi-square variable below radius^2 - t^2. The first is drawn by rejection from a bound that is
    constant on some 1600 intervals (chords of a concave function, continued, lie above it), the second by inverting
    the incomplete gamma function. Departures from the law are those of double precision: relative 1e-12 or so in a
    density, as far as SciPy's incomplete gamma functions are as good as that (not proven), and 2^-52 in total variation
    for each uniform number.
    """

    mean: FloatArray
    radius: float

    def __post_init__(self) -> None:
        log_mass = float(log_lower_gamma(0.5 * self.mean.size, np.array([0.5 * self.radius**2]))[0])
        if log_mass < LEAST_LOG_MASS:
            raise ValueError(
                f"the ball's radius is {self.radius:.3g} standard deviations, too few in {self.mean.size} dimensions; "
                "take a larger epsilon, less regularisation, fewer features, or another classifier"
            )

    @cached_property
    def _length(self) -> float:
        return float(np.linalg.norm(self.mean))

    @cached_property
    def _axis(self) -> FloatArray:
        return self.mean / self._length if self._length > 0.0 else np.eye(self.mean.size)[0]

    def _log_density(self, t: FloatArray) -> FloatArray:
        """Of t, up to a constant; -inf at the poles."""
        own = -0.5 * (t - self._length) ** 2
        rest = np.maximum(self.radius**2 - t * t, 0.0)
        if self.mean.size > 1:
            own = own + log_lower_gamma(0.5 * (self.mean.size - 1), 0.5 * rest)
        return own

    @cached_property
    def _nodes(self) -> FloatArray:
        """Ends of the intervals: fine within twelve standard deviations of the mode, coarse beyond."""
        r = self.radius
        inner = np.linspace(0.0, min(self._length, r), 201)
        mode = float(inner[np.argmax(self._log_density(inner))])
        for _ in range(4):  # the density is log-concave: each pass narrows the place of its mode a hundredfold
            width = 2.0 * (inner[1] - inner[0])
            inner = np.linspace(max(mode - width, -r), min(mode + width, r), 201)
            mode = float(inner[np.argmax(self._log_density(inner))])
        coarse = np.linspace(-r, r, 401)
        fine = mode + np.linspace(-12.0, 12.0, 1201)
        nodes = np.unique(np.concatenate([coarse, fine[(fine > -r) & (fine < r)]]))
        return nodes[np.concatenate([[True], np.diff(nodes) > 1e-14 * r])]

    @cached_property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """Upper bound of the log density on each interval, and the intervals' masses under it, cumulated."""
        nodes = self._nodes
        height = self._log_density(nodes)
        width = np.diff(nodes)
        with np.errstate(invalid="ignore"):
            slope = np.diff(height) / width
        # the chord before, continued over the interval, and the chord after, continued backwards
        before = height[1:-1] + np.maximum(slope[:-1], 0.0) * width[1:]
        after = height[1:-1] - np.minimum(slope[1:], 0.0) * width[:-1]
        bound = np.minimum(np.concatenate([[np.inf], before]), np.concatenate([after, [np.inf]]))
        bound = np.where(np.isfinite(bound), bound, np.maximum(height[:-1], height[1:]))
        mass = np.exp(bound - bound.max()) * width
        return bound, np.cumsum(mass) / mass.sum()

    @property
    def expectation(self) -> FloatArray:
        """The mean of the law, numerically; shape (p,)."""
        nodes = self._nodes
        height = self._log_density(nodes)
        density = np.exp(height - height.max())
        return self._axis * float(np.trapezoid(nodes * density, nodes) / np.trapezoid(density, nodes))

    def sample(self, count: int, bits: BitSource) -> FloatArray:
        """Draw independent vectors, shape (count, p)."""
        p = self.mean.size
        along = self._along(count, bits)
        if p == 1:
            return along[:, np.newaxis] * self._axis
        half = 0.5 * np.maximum(self.radius**2 - along * along, 0.0)
        shape = 0.5 * (p - 1)
        length = np.sqrt(2.0 * special.gammaincinv(shape, uniforms(count, bits) * special.gammainc(shape, half)))
        direction = LatticeGaussian(_FINE).sample((count, p), bits=bits) / _FINE
        direction -= np.outer(direction @ self._axis, self._axis)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.outer(along, self._axis) + length[:, np.newaxis] * direction

    def _along(self, count: int, bits: BitSource) -> FloatArray:
        bound, cumulated = self._bounds
        nodes = self._nodes
        found: list[FloatArray] = []
        missing = count
        while missing > 0:
            interval = np.searchsorted(cumulated, uniforms(missing, bits), side="right")
            interval = np.minimum(interval, bound.size - 1)
            t = nodes[interval] + (nodes[interval + 1] - nodes[interval]) * uniforms(missing, bits)
            kept = t[np.log(uniforms(missing, bits)) < self._log_density(t) - bound[interval]]
            found.append(kept)
            missing -= kept.size
        return np.concatenate(found)
