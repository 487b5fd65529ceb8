"""Each value's distribution within a class, as noise-added data show it, given back to smoothed values.

Smoothing draws values together, and noise spreads them beyond their bounds, so smoothed values have neither the spread
nor the shape of the source's. What can be told of a column's distribution from released data alone is told here, and
smoothed values take it on in their own order: the smallest becomes the smallest, and so on.
"""

import numpy as np
import numpy.typing as npt

from tasks.noise import LatticeNoise

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

POINTS = 64
"""Cells of the range in which a continuous distribution is estimated."""

_BIN = 256  # lattice steps of a bin of noise-added values
_MOST_BINS = 4_000
_LEAST_GAIN = 0.005  # nats of likelihood a round of estimation must bring
_MOST_ROUNDS = 1000


def deconvolve(
    noise_added: IntArray,
    labels: IntArray,
    law: LatticeNoise,
    support: IntArray,
    fill: dict[int, float] | None = None,
    middle: int = 0,
) -> dict[int, FloatArray]:
    """The distribution of values within each class, from values with noise of a known law.

    Parameters
    ----------
    noise_added : ndarray of int64, shape (n_rows,)
        Values plus noise, in lattice steps.
    labels : ndarray of int64, shape (n_rows,)
    law : lattice law
        Of the noise.
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
    lowest, highest = int(noise_added.min()), int(noise_added.max())
    width = max(_BIN, -(-(highest - lowest + 1) // _MOST_BINS))
    bins = (noise_added - lowest) // width
    edges = lowest + width * np.arange(int(bins.max()) + 2)
    cumulative = law.cdf((edges[:, None] - 1 - support[None, :]).ravel()).reshape(len(edges), len(support))
    kernel = np.maximum(np.diff(cumulative, axis=0), 1e-300)
    counts = np.bincount(bins, minlength=len(kernel)).astype(np.float64)
    filled = np.maximum(np.diff(law.cdf(edges - 1 - middle)), 1e-300)
    classes = np.unique(labels).tolist()
    gone = {label: 0.0 if fill is None else min(fill[label], 1.0) for label in classes}
    missing = sum(gone[label] * int(np.sum(labels == label)) for label in classes) / len(labels)
    overall = _estimate(kernel, counts, np.full(len(support), 1.0 / len(support)), missing * filled)
    found = {}
    for label in classes:
        own = np.bincount(bins[labels == label], minlength=len(kernel)).astype(np.float64)
        found[label] = _estimate(kernel, own, overall, gone[label] * filled)
    return found


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


def _estimate(kernel: FloatArray, counts: FloatArray, start: FloatArray, filled: FloatArray) -> FloatArray:
    """Shares of the points in a mixture with a part that is known, that of missing values: `filled`, in sum below 1."""
    seen = counts > 0.0
    known = 1.0 - float(filled.sum())
    kernel, counts, filled = kernel[seen], counts[seen], filled[seen]
    shares, last = start, -np.inf
    for _ in range(_MOST_ROUNDS):
        expected = max(known, 1e-9) * (kernel @ shares) + filled
        likelihood = float(counts @ np.log(expected))
        if likelihood - last < _LEAST_GAIN:
            break
        last = likelihood
        shares = shares * ((counts / expected) @ kernel)
        shares = shares / shares.sum()
    return np.asarray(shares)
