"""From released moments to a normal law for each class; post-processing, in floating point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments.released import HALF_RANGE, FirstMoments, MomentsRelease

__all__ = ["MomentsModel", "first_estimate", "fit_model"]

FloatArray = NDArray[np.float64]

LEAST_DEVIATION = 0.03
"""Least column standard deviation, in half ranges: it bounds the factor of a cell, also for constant columns."""

_PRIOR_MEAN_VARIANCE = 0.1  # of a table's mean cell, in half ranges squared: only felt where the noise is as large
_PRIOR_VARIANCE, _PRIOR_VARIANCE_VARIANCE = 0.15, 0.01
_DIAGONAL_VARIANCE = 0.05  # of the within-class variances of standardised columns
_LEAST_EIGENVALUE = 0.02  # of the mean one
_LEAST_WITHIN = 0.05  # share of a column's variance that is left within the classes


@dataclass(frozen=True, eq=False)
class MomentsModel:
    """A normal law for each class in standardised columns.

    Attributes
    ----------
    shares : ndarray of float64, shape (n_classes,)
        Shares of the classes, in sum 1.
    means : ndarray of float64, shape (n_classes, n_features)
    roots : ndarray of float64, shape (n_blocks, n_features, n_features)
        A with A A' the covariance; one for all classes, or one for each.
    """

    shares: FloatArray
    means: FloatArray
    roots: FloatArray


def first_estimate(first: FirstMoments, n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of the columns in half ranges, each of shape (n_features,).

    Columns are shrunk to their common mean by the known noise (James and Stein's positive part), and the common mean
    itself to a fixed prior, so that pure noise gives sensible values too.
    """
    p = len(first.sums)
    mean_noise = (first.sums_noise / (n_rows * HALF_RANGE)) ** 2
    square_noise = (first.squares_noise / (n_rows * float(HALF_RANGE) ** 2)) ** 2
    noisy = first.sums / (n_rows * float(HALF_RANGE))
    common = noisy.mean() * _PRIOR_MEAN_VARIANCE / (_PRIOR_MEAN_VARIANCE + mean_noise / p)
    means = np.clip(common + _kept(noisy - noisy.mean(), mean_noise) * (noisy - noisy.mean()), -0.95, 0.95)

    variances = first.squares / (n_rows * float(HALF_RANGE) ** 2) - means**2
    noise = square_noise + 4.0 * float(np.mean(means**2)) * mean_noise
    weight = _PRIOR_VARIANCE_VARIANCE / (_PRIOR_VARIANCE_VARIANCE + noise / p)
    common_variance = max(0.01, weight * variances.mean() + (1.0 - weight) * _PRIOR_VARIANCE)
    apart = variances - variances.mean()
    shrunk = np.maximum(common_variance + _kept(apart, noise) * apart, 0.1 * common_variance)
    return means, np.sqrt(np.clip(shrunk, LEAST_DEVIATION**2, 1.0))


def _kept(deviations: FloatArray, noise_variance: float) -> float:
    """James and Stein's positive-part factor for deviations from a mean of as many entries."""
    observed = float(np.sum(deviations**2)) / max(deviations.size - 1, 1)
    return max(0.0, 1.0 - noise_variance / observed) if observed > 0.0 else 0.0


def fit_model(release: MomentsRelease) -> MomentsModel:
    """The normal laws that released moments describe, with the known noise taken out as far as it can be.

    Class means are shrunk to the grand mean by their known noise.  The covariance within classes is that of all rows
    less that between the classes; its departure from a multiple of the identity has its eigenvalues shrunk as those
    of a low-rank matrix in symmetric Gaussian noise (Benaych-Georges and Nadakuditi 2011: the bulk ends at
    2 sqrt(p) times the noise, and a true eigenvalue e shows at e + p noise^2 / e).  The scale of the diagonal is
    known from the first release.  Covariances by class, where they were released, depart from the common one likewise.
    """
    n, unit = release.n_rows, float(release.standardization.unit)
    n_classes = len(release.class_sums)
    n_blocks = len(release.second_moments)
    counts = _counts(release.counts.astype(np.float64), release.counts_noise, n)
    sums = release.class_sums / unit
    sums_noise = release.class_sums_noise / unit

    grand = sums.sum(axis=0) / n
    grand *= _kept_of_origin(grand, (sums_noise / n) ** 2 * n_classes)
    apart = sums / counts[:, None] - sums.sum(axis=0) / n
    kept = [_kept_of_origin(row, (sums_noise / m) ** 2) for row, m in zip(apart, counts, strict=True)]
    # No class mean lies outside the ball that its rows lie in.
    means = _into_ball(grand + np.array(kept)[:, None] * apart, release.standardization.radius / unit)

    shares = counts / n
    moments = release.second_moments / unit**2
    noise = release.second_moments_noise / unit**2
    total = moments.sum(axis=0) / n
    covariance = total - (means.T * shares) @ means
    between = (shares @ means**2) - (shares @ means) ** 2
    pooled = _pooled_covariance(covariance, noise * np.sqrt(n_blocks) / n, between)
    covariances = pooled[None]
    if n_blocks > 1:
        covariances = np.stack(
            [
                _class_covariance(moments[i] / counts[i] - np.outer(means[i], means[i]), noise / counts[i], pooled)
                for i in range(n_classes)
            ]
        )
    return MomentsModel(shares=shares, means=means, roots=np.stack([_root(c) for c in covariances]))


def _counts(noisy: FloatArray, noise: float, n_rows: int) -> FloatArray:
    """The counts of sum n nearest to the noisy ones, none below a tenth of the mean unless the noise is smaller."""
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - n_rows) / np.arange(1, len(noisy) + 1)
    projected = np.maximum(noisy - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)
    floored = np.maximum(projected, min(0.1 * n_rows / len(noisy), noise))
    return np.asarray(floored * (n_rows / floored.sum()))


def _kept_of_origin(values: FloatArray, noise_variance: float) -> float:
    observed = float(np.mean(values**2))
    return max(0.0, 1.0 - noise_variance / observed) if observed > 0.0 else 0.0


def _into_ball(rows: FloatArray, radius: float) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, radius / np.maximum(norms, 1e-300)))


def _pooled_covariance(covariance: FloatArray, noise: float, between: FloatArray) -> FloatArray:
    """Covariance within classes of columns whose total variance is 1."""
    p = len(between)
    within = np.clip(1.0 - between, _LEAST_WITHIN, None)
    seen = np.diag(covariance)
    # Clipped rows show a smaller scale than the first release; the shape of the diagonal is used, not its scale.
    shape = np.clip(seen * (within.mean() / max(seen.mean(), 0.1 * within.mean())), _LEAST_WITHIN, 2.0)
    prior = noise**2 / (noise**2 + _DIAGONAL_VARIANCE)
    within = prior * within + (1.0 - prior) * shape
    base = within.mean()
    scale = base / max(seen.mean(), 0.25 * base)
    centred = covariance * scale
    np.fill_diagonal(centred, within - base)
    values, vectors = np.linalg.eigh(centred)
    values = np.maximum(_shrink(values, 2.0 * np.sqrt(p) * noise * scale) + base, _LEAST_EIGENVALUE * base)
    fitted = (vectors * values) @ vectors.T
    scales = np.sqrt(within / np.diag(fitted))
    return np.asarray(fitted * np.outer(scales, scales))


def _class_covariance(covariance: FloatArray, noise: float, pooled: FloatArray) -> FloatArray:
    """One class's covariance: the common one and what stands out of the noise beside it."""
    values, vectors = np.linalg.eigh(covariance - pooled)
    return np.asarray(pooled + (vectors * _shrink(values, 2.0 * np.sqrt(len(pooled)) * noise)) @ vectors.T)


def _shrink(values: FloatArray, edge: float) -> FloatArray:
    """Eigenvalues of a low-rank matrix from those seen in noise whose bulk ends at `edge`."""
    inside = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    return np.where(np.abs(values) > edge, (values + np.sign(values) * inside) / 2.0, 0.0)


def _root(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
    return np.asarray(vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE * max(values.mean(), 1e-6))))
