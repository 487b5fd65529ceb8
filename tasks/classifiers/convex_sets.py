"""The sets that parameters are sought in: closed, convex and bounded, fixed before any data are seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ball", "BallIntersection", "Box", "ConvexSet"]

FloatArray = NDArray[np.float64]


class ConvexSet(Protocol):
    """A closed, convex, bounded set in R^p with an interior."""

    @property
    def dimension(self) -> int:
        """Give p."""
        ...

    @property
    def diameter(self) -> float:
        """||C||: the largest distance of two points, or a bound of it."""
        ...

    @property
    def centre(self) -> FloatArray:
        """A point inside, shape (p,)."""
        ...

    def contains(self, theta: FloatArray) -> bool:
        """Whether a point is in the set."""
        ...

    def project(self, theta: FloatArray) -> FloatArray:
        """Give the nearest point of the set."""
        ...

    def gauge(self, theta: FloatArray) -> float:
        """Minkowski's gauge about the centre: by which factor the set must grow about it to reach `theta`."""
        ...


@dataclass(frozen=True, eq=False)
class Ball:
    """All points within `radius` of `centre`.

    Parameters
    ----------
    centre : ndarray of float64, shape (p,)
    radius : float
        Above 0 and finite.
    """

    centre: FloatArray
    radius: float

    def __post_init__(self) -> None:
        centre = np.asarray(self.centre, dtype=np.float64)
        if centre.ndim != 1 or centre.size == 0 or not np.isfinite(centre).all():
            raise ValueError("centre must be a finite vector of at least one coordinate")
        if not 0.0 < self.radius < math.inf:
            raise ValueError(f"radius must be above 0 and finite, got radius={self.radius!r}")
        object.__setattr__(self, "centre", centre)

    @classmethod
    def around_zero(cls, dimension: int, radius: float) -> Ball:
        """The ball about the origin."""
        return cls(np.zeros(dimension), radius)

    @property
    def dimension(self) -> int:
        return self.centre.size

    @property
    def diameter(self) -> float:
        return 2.0 * self.radius

    def contains(self, theta: FloatArray) -> bool:
        return bool(np.linalg.norm(theta - self.centre) <= self.radius * (1.0 + 1e-12))

    def project(self, theta: FloatArray) -> FloatArray:
        offset = theta - self.centre
        length = float(np.linalg.norm(offset))
        return theta if length <= self.radius else self.centre + offset * (self.radius / length)

    def gauge(self, theta: FloatArray) -> float:
        return float(np.linalg.norm(theta - self.centre)) / self.radius


@dataclass(frozen=True, eq=False)
class Box:
    """All points between `lower` and `upper`, coordinate by coordinate.

    Parameters
    ----------
    lower, upper : ndarray of float64, shape (p,)
        Finite, `lower` below `upper`.
    """

    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        lower, upper = (np.asarray(side, dtype=np.float64) for side in (self.lower, self.upper))
        if lower.ndim != 1 or lower.shape != upper.shape or lower.size == 0:
            raise ValueError(f"lower and upper must be vectors of one length, got {lower.shape} and {upper.shape}")
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise ValueError("lower must be below upper in each coordinate, and both finite")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @classmethod
    def cube(cls, dimension: int, half_side: float) -> Box:
        """The cube about the origin."""
        return cls(np.full(dimension, -half_side), np.full(dimension, half_side))

    @property
    def dimension(self) -> int:
        return self.lower.size

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(self.upper - self.lower))

    @property
    def centre(self) -> FloatArray:
        return 0.5 * (self.lower + self.upper)

    def contains(self, theta: FloatArray) -> bool:
        slack = 1e-12 * (self.upper - self.lower)
        return bool(np.all((theta >= self.lower - slack) & (theta <= self.upper + slack)))

    def project(self, theta: FloatArray) -> FloatArray:
        return np.clip(theta, self.lower, self.upper)

    def gauge(self, theta: FloatArray) -> float:
        return float(np.max(np.abs(theta - self.centre) / (0.5 * (self.upper - self.lower))))


@dataclass(frozen=True, eq=False)
class BallIntersection:
    """The points of one ball that are in another one as well: what localisation leaves of the first.

    Parameters
    ----------
    first, second : Ball
        The centre of the second must lie in the first, so that they meet.
    """

    first: Ball
    second: Ball

    def __post_init__(self) -> None:
        if self.first.dimension != self.second.dimension:
            raise ValueError("both balls must have the same dimension")
        if not self.first.contains(self.second.centre):
            raise ValueError("the centre of the second ball must lie in the first")

    @property
    def dimension(self) -> int:
        return self.first.dimension

    @property
    def diameter(self) -> float:
        """A bound: the smaller of the two diameters."""
        return min(self.first.diameter, self.second.diameter)

    @property
    def centre(self) -> FloatArray:
        """The middle of the segment that the line through both centres has in the intersection."""
        offset = self.second.centre - self.first.centre
        distance = float(np.linalg.norm(offset))
        direction = offset / distance if distance > 0.0 else np.eye(self.dimension)[0]
        low = max(-self.first.radius, distance - self.second.radius)
        high = min(self.first.radius, distance + self.second.radius)
        return self.first.centre + direction * (0.5 * (low + high))

    def contains(self, theta: FloatArray) -> bool:
        return self.first.contains(theta) and self.second.contains(theta)

    def project(self, theta: FloatArray) -> FloatArray:
        """Give the nearest point: on one of the balls, or on the sphere in which the two surfaces meet."""
        for ball, other in ((self.first, self.second), (self.second, self.first)):
            nearest = ball.project(theta)
            if other.contains(nearest):
                return nearest
        offset = self.second.centre - self.first.centre
        distance = float(np.linalg.norm(offset))
        direction = offset / distance
        along = (distance**2 + self.first.radius**2 - self.second.radius**2) / (2.0 * distance)
        ring = math.sqrt(max(self.first.radius**2 - along**2, 0.0))
        middle = self.first.centre + along * direction
        across = theta - middle
        across = across - direction * float(across @ direction)
        length = float(np.linalg.norm(across))
        return middle if length == 0.0 else middle + across * (ring / length)

    def gauge(self, theta: FloatArray) -> float:
        """Give the larger of the two balls' gauges about `centre`."""
        centre = self.centre
        ray = theta - centre
        return max(_gauge_about(ball, centre, ray) for ball in (self.first, self.second))


def _gauge_about(ball: Ball, centre: FloatArray, ray: FloatArray) -> float:
    """1 / t for the t > 0 at which centre + t ray leaves the ball; 0 for no ray."""
    a = float(ray @ ray)
    if a == 0.0:
        return 0.0
    inside = centre - ball.centre
    b, c = float(ray @ inside), float(inside @ inside) - ball.radius**2
    return a / (-b + math.sqrt(max(b * b - a * c, 0.0)))
