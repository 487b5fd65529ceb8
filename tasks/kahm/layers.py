"""Machines applied one after the other (equations 50-52): the arithmetic of one branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.kahm.encoding import principal_encoding
from tasks.kahm.hull import Hull, fit_encoded, row_distances


class Stage(NamedTuple):
    """Queries after one more layer.

    Attributes
    ----------
    images : ndarray of shape (m, p)
    distances : ndarray of shape (m,)
        Of the queries to these images.
    conditioning : ndarray of shape (m,)
        The smallest along the way: exact, or a lower bound.
    """

    images: NDArray[np.float64]
    distances: NDArray[np.float64]
    conditioning: NDArray[np.float64]


@dataclass(frozen=True)
class Layers:
    """Hulls of the same rows, in the order in which they are applied: each has one component less.

    Attributes
    ----------
    hulls : tuple of Hull
        At least one.
    """

    hulls: tuple[Hull, ...]

    def walk(self, Y: NDArray[np.float64], *, exact: bool = False) -> Iterator[Stage]:
        """Few enough queries after each layer; ``exact`` asks for their true conditioning, at its price."""
        images, lowest = Y, np.ones(len(Y))
        for hull in self.hulls:
            ratios = hull.conditioning(images) if exact else None
            images, bounds = hull.image_block(images)
            lowest = np.minimum(lowest, bounds if ratios is None else ratios)
            yield Stage(images, row_distances(Y, images), lowest)


def fit_layers(Y: NDArray[np.float64], n_components: int, n_layers: int) -> Layers:
    """Hulls of n_eff, n_eff - 1, ... components, at most n_layers and at least one.

    Parameters
    ----------
    Y : ndarray of shape (N, p)
        Finite, magnitudes checked.
    n_components : int
    n_layers : int

    Notes
    -----
    The layers share one decomposition; each has its own kernel matrix and regularization.
    """
    encoding = principal_encoding(Y, n_components)
    n_eff = len(encoding.eigenvalues)
    dimensions = range(n_eff, max(n_eff - n_layers, 0), -1) or (0,)
    return Layers(tuple(fit_encoded(Y, encoding.leading(n))[0] for n in dimensions))
