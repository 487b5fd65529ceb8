"""The nearest image of a query among those of all layers of all branches, poles left aside.

The image A(y) passes through everything near its poles, so a distance there says nothing, be it huge or small.
A layer counts for a query only if the conditioning ``|sum h| / sum |h|`` along the chain up to it is at least
POLE_CONDITIONING. Only the layer that would win has to be looked at: the cheap lower bound clears most winners,
the true conditioning decides the others, and only for the few that fail are all layers of all branches compared
with their true conditioning. A query without any well-conditioned layer gets the nearest mean of a branch, which
is the image if all training rows had the same weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.kahm.hull import blocks, row_distances
from tasks.kahm.layers import Layers, Stage

#: A query with less conditioning is near a pole: the image may be more than 100 times as far from the origin as
#: any training row. Measured on twelve data sets of 4 to 784 columns, 40 to 1000 rows a machine, of size about 1, as
#: Fabrica scales them: held-out rows of the same class stay above 0.08, rows of other classes above 0.03. Around the
#: pole of `tests/unit/test_kahm_poles.py`, far queries whose image comes within a quarter of their distance to the mean
#: are below 0.006. No threshold parts the two in all cases: an image that is a few times too far out has a conditioning
#: like that of honest data, and with the scale of the data the conditioning falls, as lambda* does, so that of data of
#: size 0.01 honest rows are below.
POLE_CONDITIONING = 0.01


class Nearest(NamedTuple):
    """Result of :func:`nearest` for m queries.

    Attributes
    ----------
    distances : ndarray of shape (m,)
    branches, layers : ndarray of shape (m,)
        Which of them the image comes from, the first on ties.
    rejected : ndarray of shape (m,)
        Whether the nearest image of all was near a pole and another one was taken.
    near_pole : ndarray of shape (m,)
        Whether all were, so that the image is the mean of a branch.
    """

    distances: NDArray[np.float64]
    branches: NDArray[np.intp]
    layers: NDArray[np.intp]
    rejected: NDArray[np.bool_]
    near_pole: NDArray[np.bool_]


def nearest(branches: Sequence[Layers], Y: NDArray[np.float64], images: NDArray[np.float64] | None = None) -> Nearest:
    """Distance of each query to the nearest image over all layers of all branches.

    Parameters
    ----------
    branches : sequence of Layers
    Y : ndarray of shape (m, p)
        Queries: finite, magnitudes checked.
    images : ndarray of shape (m, p), default=None
        Written to, if given.

    Returns
    -------
    Nearest

    Notes
    -----
    Works in blocks of queries; beside the result, memory does not grow with m or the number of branches.
    """
    m = len(Y)
    found = Nearest(
        np.empty(m), np.empty(m, np.intp), np.empty(m, np.intp), np.zeros(m, np.bool_), np.zeros(m, np.bool_)
    )
    cleared = np.empty(m, np.bool_)
    width = _width(branches)
    for rows in blocks(m, width):
        best = _search(branches, Y[rows], exact=False, with_images=images is not None)
        best.store(found, images, rows)
        cleared[rows] = best.conditioning >= POLE_CONDITIONING
    doubtful = np.flatnonzero(~cleared)
    ratios = conditioning(branches, Y, found, doubtful)
    failed = doubtful[ratios < POLE_CONDITIONING]
    found.rejected[failed] = True
    for part in blocks(len(failed), width):
        queries = Y[failed[part]]
        best = _search(branches, queries, exact=True, with_images=images is not None)
        found.near_pole[failed[part]] = np.isinf(best.distances)
        best.take_means(branches, queries)
        best.store(found, images, failed[part])
    return found


def conditioning(
    branches: Sequence[Layers], Y: NDArray[np.float64], found: Nearest, which: NDArray[np.intp]
) -> NDArray[np.float64]:
    """True conditioning, along its chain, of the image that was found for each of the queries ``which``."""
    ratios = np.empty(len(which))
    for branch, layers in enumerate(branches):
        here = np.flatnonzero(found.branches[which] == branch)
        for part in blocks(len(here), _width(branches)):
            rows = which[here[part]]
            chain = np.array([stage.conditioning for stage in layers.walk(Y[rows], exact=True)])
            ratios[here[part]] = chain[found.layers[rows], np.arange(len(rows))]
    return ratios


@dataclass
class _Best:
    """The nearest images so far of a block of queries."""

    distances: NDArray[np.float64]
    branches: NDArray[np.intp]
    layers: NDArray[np.intp]
    conditioning: NDArray[np.float64]
    images: NDArray[np.float64] | None

    def take(self, better: NDArray[np.bool_], stage: Stage, branch: int, layer: int) -> None:
        self.distances[better] = stage.distances[better]
        self.conditioning[better] = stage.conditioning[better]
        if self.images is not None:
            self.images[better] = stage.images[better]
        self.branches[better] = branch
        self.layers[better] = layer

    def take_means(self, branches: Sequence[Layers], Y: NDArray[np.float64]) -> None:
        """The nearest mean of a branch, where there is nothing yet."""
        missing = np.isinf(self.distances)
        for branch, layers in enumerate(branches):
            means = np.broadcast_to(layers.hulls[0].mean, Y.shape)
            distances = row_distances(Y, means)
            stage = Stage(means, distances, np.zeros(len(Y)))
            self.take(missing & (distances < self.distances), stage, branch, 0)

    def store(self, found: Nearest, images: NDArray[np.float64] | None, rows: slice | NDArray[np.intp]) -> None:
        found.distances[rows] = self.distances
        found.branches[rows] = self.branches
        found.layers[rows] = self.layers
        if images is not None and self.images is not None:
            images[rows] = self.images


def _search(branches: Sequence[Layers], Y: NDArray[np.float64], *, exact: bool, with_images: bool) -> _Best:
    """Nearest images of a block; with true conditioning, of those only that are not near a pole."""
    m = len(Y)
    images = np.empty(Y.shape) if with_images else None
    best = _Best(np.full(m, np.inf), np.zeros(m, np.intp), np.zeros(m, np.intp), np.zeros(m), images)
    for branch, layers in enumerate(branches):
        for layer, stage in enumerate(layers.walk(Y, exact=exact)):
            better = stage.distances < best.distances
            if exact:
                better &= stage.conditioning >= POLE_CONDITIONING
            best.take(better, stage, branch, layer)
    return best


def _width(branches: Sequence[Layers]) -> int:
    """Temporary numbers that one query costs."""
    return max(hull.width for layers in branches for hull in layers.hulls)
