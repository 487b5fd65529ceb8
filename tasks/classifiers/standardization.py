"""Noisy means and scales of bounded features, for a part of a fit's budget.

Column sums of v and v^2 over the whole cube [-1, 1]^d, as `tasks.noise.private_moments` releases them, need noise for
the worst row of the cube, whose norm is sqrt(d); real rows fill a small part of wide public bounds. So here a release
first asks how long the rows are, about what is known of their centre and scales, and the sums are of rows shortened to
that length; what they say makes the next round's rows shorter still.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.learning import Adjacency
from tasks.classifiers.lattice import lattice_for
from tasks.noise.bits import BitSource

__all__ = ["private_standardization"]

FloatArray = NDArray[np.float64]

_ROUNDS = 3
_LENGTHS_SHARE = 0.2  # of each round's mu^2: the histogram of lengths
_LENGTHS = 12  # bins, each sqrt 2 as long as the one before
_COVERED = 2.0 / 3.0  # of the rows: the radius to which longer ones are shortened
_LARGEST = (1.0, 2.0 * math.sqrt(2.0), 8.0 * math.sqrt(2.0))  # top of the lengths' bins in each round, over sqrt(d)
_MEAN_DEVIATION = 0.8  # E|v - E v| over the standard deviation, nearly sqrt(2 / pi), its value for a normal law
_FURTHEST = 4.0  # factor by which a scale may differ from the mean one, and by which the last round may change it
_FINE = 2.0**30  # whole steps in the radius
_LEAST = 1e-6  # of a scale, where bounds are [-1, 1]


def private_standardization(
    bounded: FloatArray, mu: float, adjacency: Adjacency, bits: BitSource, public_size: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Centre and scale of each feature, Gaussian differentially private with `mu`.

    Parameters
    ----------
    bounded : ndarray of float64, shape (n, d)
        Finite; in [-1, 1] by public bounds.
    mu : float
        Above 0; infinite for the exact means and standard deviations (1 for a constant feature).
    adjacency : {"replace_one", "add_remove"}
        Under "add_remove" n counts as public, unless `public_size` is given.
    bits : BitSource
    public_size : int, default=None
        Stands for n under "add_remove", chosen without looking at the rows; n then shows in the released sums alone.
        Means come out too small or too large by the factor by which it misses n.

    Returns
    -------
    centre : ndarray of float64, shape (d,)
        In [-1, 1].
    scale : ndarray of float64, shape (d,)
        About a standard deviation, never 0.

    Raises
    ------
    ValueError
        If mu is not above 0, or the adjacency is unknown.

    Notes
    -----
    Three rounds, each of two Gaussian releases. With the centre m and the scale s that were released so far (0 and 1 at
    first), a row x has z = (x - m) / s, and what is summed is

        u = z in the first round,  (z, |z| - b) in the others,

    with b = 0, but 0.8 in the last round under "add_remove". (1) Counts of the rows by the length of u, in 12 bins. A
    radius r is read off them: about two thirds of the rows are shorter. (2) The sum of the vectors u, each shortened to
    the length r. It moves m by the mean of z, and s by the mean of |z|.

    Sensitivities. Counts: 1 for a row more or less, sqrt 2 for a row replaced. Sums, "add_remove": r. "replace_one":
    2 r in the first round, attained by opposite rows; sqrt 2 r in the others, since with b = 0

        <u, u'> is a positive multiple of sum_j (z_j z'_j + |z_j| |z'_j|), no term of which is below 0,

    so |u - u'|^2 <= |u|^2 + |u'|^2 <= 2 r^2, attained by opposite rows again: |z| is free beside z. All this holds for
    whatever rows there are; the bounds only make them short.

    Proof. Each release is a Gaussian mechanism whose query depends on the ones before it; so they compose to
    mu^2 = the sum of their mu_i^2 (Dong, Roth, Su 2022, corollary 3.3). A round gets a third of mu^2, the counts a
    fifth of that. Shortened vectors are cut to whole steps of 2^-30 r, towards 0, which lengthens none and keeps
    |z| the magnitude of z; so the sums are exact, and what is released is on a lattice (`lattice_for`).

    Estimation, from released and public numbers alone. A release has a known noise t in each coordinate, and
    coordinates are shrunk towards their mean by tau^2 / (tau^2 + t^2), tau^2 being their variance beyond t^2 (James,
    Stein). Later rounds are averaged in by inverse variances. A scale is no smaller than a quarter of the mean one. So
    where the noise is large, what comes out is a common centre and scale.

    Cost. n d operations, 30 ms for each of four noise laws.

    References
    ----------
    Biswas, Dong, Kamath, Ullman, "CoinPress" (NeurIPS 2020), for rounds of shorter and shorter rows.
    """
    if not mu > 0.0:
        raise ValueError(f"mu must be above 0, got mu={mu!r}")
    if adjacency not in ("replace_one", "add_remove"):
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got adjacency={adjacency!r}")
    if math.isinf(mu):
        deviation = bounded.std(axis=0)
        return bounded.mean(axis=0), np.where(deviation > _LEAST, deviation, 1.0)
    size = len(bounded) if public_size is None or adjacency == "replace_one" else public_size
    return _in_rounds(bounded, size, mu, adjacency, bits)


def _in_rounds(
    bounded: FloatArray, size: int, mu: float, adjacency: Adjacency, bits: BitSource
) -> tuple[FloatArray, FloatArray]:
    """Centre and scale; `size` is the public number of rows, and the only one that is used."""
    d = bounded.shape[1]
    estimate = _Estimate(np.zeros(d), np.ones(d), np.full(d, np.inf), np.full(d, np.inf))
    for number in range(_ROUNDS):
        offset = _MEAN_DEVIATION if adjacency == "add_remove" and number == _ROUNDS - 1 else 0.0
        vectors = _vectors(bounded, estimate, number, offset)
        lengths_mu = mu * math.sqrt(_LENGTHS_SHARE / _ROUNDS)
        sums_mu = mu * math.sqrt((1.0 - _LENGTHS_SHARE) / _ROUNDS)
        lengths = np.linalg.norm(vectors, axis=1)
        counts = _released_counts(lengths, _LARGEST[number] * math.sqrt(d), lengths_mu, adjacency, bits)
        radius = _covering(counts / size, _LARGEST[number] * math.sqrt(d))
        total, noise = _released_sum(vectors, lengths, radius, sums_mu, _sensitivity(number, adjacency), bits)
        mean, noise = total / size, noise / size
        estimate = estimate.moved(mean[:d], noise)
        if number:
            estimate = estimate.scaled(mean[d:] + offset, noise, first=number == 1)
    return estimate.centre, estimate.scale


def _vectors(bounded: FloatArray, estimate: _Estimate, number: int, offset: float) -> FloatArray:
    """What is summed in round `number`, shape (n, d) or (n, 2 d)."""
    z = (bounded - estimate.centre) / estimate.scale
    return np.hstack([z, np.abs(z) - offset]) if number else z


def _sensitivity(number: int, adjacency: Adjacency) -> float:
    """Of the sum in round `number`, over the radius."""
    if adjacency == "add_remove":
        return 1.0
    return math.sqrt(2.0) if number else 2.0


def _edges(largest: float) -> FloatArray:
    edges: FloatArray = largest * np.exp2(0.5 * np.arange(1 - _LENGTHS, 1, dtype=np.float64))
    return edges


def _released_counts(
    lengths: FloatArray, largest: float, mu: float, adjacency: Adjacency, bits: BitSource
) -> FloatArray:
    """Noisy counts of the rows by length; the last bin has the longer ones too."""
    bins = np.minimum(np.searchsorted(_edges(largest), lengths), _LENGTHS - 1)
    sensitivity = 1.0 if adjacency == "add_remove" else math.sqrt(2.0)
    lattice = lattice_for(_LENGTHS, sensitivity, 1.0 / mu)
    return lattice.add_gaussian(np.bincount(bins, minlength=_LENGTHS), 1.0 / mu, bits)


def _covering(shares: FloatArray, largest: float) -> float:
    """The length that two thirds of the rows do not exceed, by noisy shares; geometric within a bin."""
    edges, below = _edges(largest), np.cumsum(shares)
    reached = np.flatnonzero(below >= _COVERED)
    if not reached.size:
        return float(edges[-1])
    k = int(reached[0])
    if k == 0:
        return float(edges[0])
    before = max(float(below[k - 1]), 0.0)
    return float(edges[k - 1] * (edges[k] / edges[k - 1]) ** ((_COVERED - before) / (below[k] - before)))


def _released_sum(
    vectors: FloatArray, lengths: FloatArray, radius: float, mu: float, sensitivity: float, bits: BitSource
) -> tuple[FloatArray, float]:
    """Sum of the vectors shortened to `radius`, released, and the standard deviation of its noise per coordinate.

    `sensitivity` is that of the sum, over the radius.
    """
    limit = radius * (1.0 - 2.0**-30)  # more than a length's rounding in 10^6 coordinates
    factors = np.divide(limit, lengths, out=np.ones_like(lengths), where=lengths > limit)
    total = np.trunc(vectors * (factors * (_FINE / radius))[:, None]).astype(np.int64).sum(axis=0)
    unit = radius / _FINE
    lattice = lattice_for(vectors.shape[1], sensitivity * _FINE, 1.0 / mu)
    return lattice.add_gaussian(total, 1.0 / mu, bits) * unit, sensitivity * radius / mu


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Centre and scale of each feature, and their variances; infinite where nothing is known."""

    centre: FloatArray
    scale: FloatArray
    centre_variance: FloatArray
    scale_variance: FloatArray

    def moved(self, shift: FloatArray, noise: float) -> _Estimate:
        """With a released mean of z, whose noise is `noise`, taken in."""
        if np.isinf(self.centre_variance).all():
            step, variance = _shrunk(shift, noise)
        else:
            own = (self.scale * noise) ** 2
            weight = self.centre_variance / (self.centre_variance + own)
            step, variance = weight * self.scale * shift, weight * own
        return _Estimate(np.clip(self.centre + step, -1.0, 1.0), self.scale, variance, self.scale_variance)

    def scaled(self, deviation: FloatArray, noise: float, *, first: bool) -> _Estimate:
        """With a released mean of |z|, whose noise is `noise`, taken in."""
        ratio, own = deviation / _MEAN_DEVIATION, noise / _MEAN_DEVIATION
        if first:
            ratio, variance = _shrunk(ratio, own)
            common = min(max(float(ratio.mean()), own / math.sqrt(ratio.size), _LEAST), 1.0)
            scale = np.clip(ratio, common / _FURTHEST, 1.0 / _MEAN_DEVIATION)
        else:
            seen = (self.scale * own) ** 2
            weight = self.scale_variance / (self.scale_variance + seen)
            scale = self.scale * np.clip(1.0 + weight * (ratio - 1.0), 1.0 / _FURTHEST, _FURTHEST)
            variance = weight * seen
        return _Estimate(self.centre, scale, self.centre_variance, variance)


def _shrunk(values: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
    """Values with noise of one standard deviation, shrunk towards their mean, and the variance that is left."""
    n = values.size
    if n == 1:
        return values, np.full(1, noise**2)
    mean = float(values.mean())
    between = max(float(np.sum((values - mean) ** 2)) / (n - 1) - noise**2, 0.0)
    weight = between / (between + noise**2)
    return mean + weight * (values - mean), np.full(n, (weight + 1.0 / n) * noise**2)
