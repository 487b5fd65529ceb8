"""Each value's distribution within a class, as noise-added data show it, given back to smoothed values.

Smoothing draws values together, and noise spreads them beyond their bounds, so smoothed values have neither the spread
nor the shape of the source's. What can be told of a column's distribution from released data alone is told here, and
smoothed values take it on in their own order: the smallest becomes the smallest, and so on.
"""

import math

import numpy as np
import numpy.typing as npt

from tasks.accounting.lattice import LATTICE_STEPS
from tasks.noise import LatticeNoise

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

POINTS = 64
"""Cells of the range in which a continuous distribution is estimated."""

_BIN = 256  # lattice steps of a bin of noise-added values, at least
_BINS = 4_000  # about so many where the noise is wide
_REACH = 16.0  # of the noise's mean magnitudes, to either side; there is little beyond
_LEAST_GAIN = 0.005  # nats of likelihood a round of estimation must bring
_MOST_ROUNDS = 1000


class ValueCounts:
    """How many noise-added values of each class lie in each bin.

    Parameters
    ----------
    law : lattice law
        Of the noise; it says how wide the bins are.
    """

    def __init__(self, law: LatticeNoise) -> None:
        self.law = law
        reach = LATTICE_STEPS + 2.0 * _REACH * law.expected_magnitude()
        self.width = max(_BIN, math.ceil(reach / _BINS))
        self._of: dict[int, dict[int, int]] = {}

    def add(self, noise_added: IntArray, labels: IntArray) -> None:
        """Take in some rows.

        Parameters
        ----------
        noise_added : ndarray of int64, shape (n_rows,)
            Values plus noise, in lattice steps.
        labels : ndarray of int64, shape (n_rows,)
        """
        bins = noise_added // self.width
        first, n_bins = int(bins.min()), int(bins.max() - bins.min()) + 1
        counts = np.bincount(labels * n_bins + (bins - first), minlength=n_bins * (int(labels.max()) + 1))
        for label, of_class in enumerate(counts.reshape(-1, n_bins)):
            found = np.flatnonzero(of_class)
            if found.size:
                own = self._of.setdefault(label, {})
                for place, count in zip((found + first).tolist(), of_class[found].tolist(), strict=True):
                    own[place] = own.get(place, 0) + count

    def by_class(self) -> tuple[IntArray, dict[int, FloatArray]]:
        """The bins that hold a value, ascending, and for each class how many are in each."""
        bins = sorted({place for own in self._of.values() for place in own})
        found = {
            label: np.array([own.get(place, 0) for place in bins], dtype=np.float64)
            for label, own in sorted(self._of.items())
        }
        return np.array(bins, dtype=np.int64), found


def deconvolve(
    values: ValueCounts, support: IntArray, fill: dict[int, float] | None = None, middle: int = 0
) -> dict[int, FloatArray]:
    """The distribution of values within each class, from values with noise of a known law.

    Parameters
    ----------
    values : ValueCounts
        Values plus noise.
    support : ndarray of int64, shape (n_points,)
        Where values may be, in lattice steps, ascending.
    fill : dict from label to float, default=None
        The share of rows whose value is missing, so that the noise was added to `middle`.
    middle : int, default=0
        In lattice steps.

    Returns
    -------
    dict from label to ndarray of float64, shape (n_points,)
        Probabilities of the points, in sum 1; of values that are not missing.

    Notes
    -----
    Expectation maximisation (Dempster, Laird, Rubin 1977): first for all rows, from the uniform distribution on, then
    for each class, from that of all rows on. A round that gains less than 0.005 in log-likelihood is the last one:
    what the noise leaves open stays as it was, and no spikes are fitted to it. Cost: bins times points a round.
    """
    bins, counts = values.by_class()
    kernel = _mass(values, bins, support)
    filled = _mass(values, bins, np.array([middle]))[:, 0]
    gone = {label: 0.0 if fill is None else min(fill[label], 1.0) for label in counts}
    everyone = np.sum(list(counts.values()), axis=0)
    missing = sum(gone[label] * own.sum() for label, own in counts.items()) / everyone.sum()
    overall = _estimate(kernel, everyone, np.full(len(support), 1.0 / len(support)), missing, filled)
    return {label: _estimate(kernel, own, overall, gone[label], filled) for label, own in counts.items()}


def _mass(values: ValueCounts, bins: IntArray, support: IntArray) -> FloatArray:
    """Probability of each bin, for noise added to each point; shape (n_bins, n_points)."""
    ends = [
        values.law.cdf((end[:, None] - 1 - support[None, :]).ravel()).reshape(len(bins), len(support))
        for end in (bins * values.width, (bins + 1) * values.width)
    ]
    return np.maximum(ends[1] - ends[0], 1e-300)


def reshaped(values: FloatArray, points: FloatArray, shares: FloatArray, *, spread: float) -> FloatArray:
    """Values with the given distribution, in the order they have.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    points, shares : ndarray of float64, shape (n_points,)
        The distribution, points ascending; each share is spread evenly over `spread` around its point.
    spread : float
        0 for values that are points.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    order = np.argsort(values, kind="stable")
    place = (np.arange(len(values)) + 0.5) / len(values)
    ends = np.cumsum(shares)
    ends[-1] = max(ends[-1], 1.0)
    cell = np.searchsorted(ends, place, side="right").clip(0, len(points) - 1)
    within = (place - (ends[cell] - shares[cell])) / np.maximum(shares[cell], 1e-300)
    result = np.empty_like(values)
    result[order] = points[cell] + spread * (within.clip(0.0, 1.0) - 0.5)
    return result


def like(values: FloatArray, sample: FloatArray) -> FloatArray:
    """Values with the distribution of a sample, in the order they have."""
    order = np.argsort(values, kind="stable")
    ordered = np.sort(sample)
    result = np.empty_like(values)
    place = (np.arange(len(values)) + 0.5) / len(values)
    result[order] = ordered[np.floor(place * len(ordered)).astype(np.int64)]
    return result


def _estimate(
    kernel: FloatArray, counts: FloatArray, start: FloatArray, missing: float, filled: FloatArray
) -> FloatArray:
    """Shares of the points in a mixture with a part that is known, that of missing values."""
    seen = counts > 0.0
    kernel, counts, filled = kernel[seen], counts[seen], missing * filled[seen]
    shares, last = start, -np.inf
    for _ in range(_MOST_ROUNDS):
        expected = max(1.0 - missing, 1e-9) * (kernel @ shares) + filled
        likelihood = float(counts @ np.log(expected))
        if likelihood - last < _LEAST_GAIN:
            break
        last = likelihood
        shares = shares * ((counts / expected) @ kernel)
        shares = shares / shares.sum()
    return np.asarray(shares)
