"""From released moments to a normal law for each class; post-processing, in floating point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.noise.moments.blocks import Layout, layout_of
from tasks.noise.moments.estimate import discrete_frequencies, first_estimate, simplex
from tasks.noise.moments.released import HALF_RANGE, MomentsRelease, Standardization
from tasks.noise.moments.shrinkage import block_factors, noise_shares

__all__ = ["MomentsModel", "fit_model"]

FloatArray = NDArray[np.float64]

_DIAGONAL_VARIANCE = 0.05  # of the within-class variances of standardised columns
_LEAST_EIGENVALUE = 0.02  # of the mean one
_LEAST_TOTAL = 0.005  # of a coordinate of two values, where a value has 1
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
        A with A A' the covariance; one for all classes, or one for each.  Coordinates of one one-hot block are
        uncorrelated in it: their law is a score for each category, of which a draw takes the highest.
    frequencies : ndarray of float64, shape (n_classes, n_features)
        Of coordinates of two values, how often the higher; 0 for others.
    """

    shares: FloatArray
    means: FloatArray
    roots: FloatArray
    frequencies: FloatArray


def fit_model(release: MomentsRelease, layout: Layout | None = None) -> MomentsModel:
    """The normal laws that released moments describe, with the known noise taken out as far as it can be.

    Class means are shrunk to the grand mean by their known noise, block by block (`block_factors`).  The covariance
    within classes is that of all rows less that between the classes; its departure from a multiple of the columns'
    total variances has its eigenvalues shrunk as those of a low-rank matrix in symmetric Gaussian noise
    (Benaych-Georges and Nadakuditi 2011: the bulk ends at 2 sqrt(p) times the noise, and a true eigenvalue e shows at
    e + p noise^2 / e).  The scale of the diagonal is known from the first release.  Covariances by class, where they
    were released, depart from the common one likewise.

    In mixed rows the total variances differ and are known from the frequencies; the noise along (1, ..., 1) of a
    one-hot block, where rows do not differ, is taken out; class means become frequencies on the simplex.
    """
    n, how = release.n_rows, release.standardization
    unit = float(how.unit)
    n_classes = len(release.class_sums)
    n_blocks = len(release.second_moments)
    layout = layout or layout_of(None, release.class_sums.shape[1])
    counts = _counts(release.counts.astype(np.float64), release.counts_noise, n)
    shares = counts / n
    sums = _projected(release.class_sums / unit, layout)
    sums_noise = release.class_sums_noise / unit
    totals = np.ones(sums.shape[1])
    if not layout.numeric:
        _, deviations = first_estimate(release.first, n, layout)
        totals = np.maximum((deviations * HALF_RANGE / how.scale) ** 2, _LEAST_TOTAL)

    grand = sums.sum(axis=0) / n
    grand *= _kept_of_origin(grand, (sums_noise / n) ** 2 * n_classes, totals, layout)
    apart = sums / counts[:, None] - sums.sum(axis=0) / n
    noises = sums_noise**2 * ((1.0 / counts - 1.0 / n) ** 2 + (n_classes - 1) / n**2)
    kept = block_factors(apart, noises, totals, layout)
    # No class mean lies outside the ball that its rows lie in.
    means = _into_ball(grand + kept * apart, how.radius / unit)
    moments = _projected(_projected(release.second_moments / unit**2, layout).swapaxes(1, 2), layout)
    noise = release.second_moments_noise / unit**2
    total = moments.sum(axis=0) / n
    covariance = total - (means.T * shares) @ means
    between = (shares @ means**2) - (shares @ means) ** 2
    if not layout.numeric:
        means, frequencies = _with_frequencies(means, how, layout)
        everywhere = shares @ frequencies
        known = discrete_frequencies(layout)
        variances = everywhere * (1.0 - everywhere) * (2.0 * HALF_RANGE / how.scale) ** 2
        totals[known] = np.maximum(variances, _LEAST_TOTAL)[known]
        covariance = _scores_only(covariance, layout)
    else:
        frequencies = np.zeros_like(means)
    pooled = _pooled_covariance(covariance, noise * np.sqrt(n_blocks) / n, between, totals, layout)
    covariances = pooled[None]
    if n_blocks > 1:
        covariances = np.stack(
            [
                _class_covariance(
                    moments[i] / counts[i] - np.outer(means[i], means[i]), noise / counts[i], pooled, layout
                )
                for i in range(n_classes)
            ]
        )
    return MomentsModel(
        shares=shares, means=means, roots=np.stack([_root(c) for c in covariances]), frequencies=frequencies
    )


def _projected(rows: FloatArray, layout: Layout) -> FloatArray:
    """Rows less the part along (1, ..., 1) of each one-hot block, where no row differs from another."""
    if not layout.one_hots:
        return rows
    rows = rows.copy()
    for block in layout.one_hots:
        rows[..., block] -= rows[..., block].mean(axis=-1, keepdims=True)
    return rows


def _with_frequencies(means: FloatArray, how: Standardization, layout: Layout) -> tuple[FloatArray, FloatArray]:
    """Means that belong to possible frequencies, and these."""
    frequencies = np.zeros_like(means)
    shown = (how.centre + means * how.scale + HALF_RANGE) / (2.0 * HALF_RANGE)
    pairs = np.concatenate([layout.binaries, layout.flags])
    frequencies[:, pairs] = np.clip(shown[:, pairs], 0.0, 1.0)
    for block in layout.one_hots:
        frequencies[:, block] = simplex(shown[:, block])
    known = discrete_frequencies(layout)
    means = means.copy()
    means[:, known] = ((2.0 * frequencies - 1.0) * HALF_RANGE - how.centre)[:, known] / how.scale[known]
    return means, frequencies


def _scores_only(covariance: FloatArray, layout: Layout) -> FloatArray:
    """Without the covariances inside one-hot blocks, which the frequencies give."""
    covariance = covariance.copy()
    diagonal = np.diag(covariance).copy()
    for block in layout.one_hots:
        covariance[..., block, block] = 0.0
    np.fill_diagonal(covariance, diagonal)
    return covariance


def _counts(noisy: FloatArray, noise: float, n_rows: int) -> FloatArray:
    """The counts of sum n nearest to the noisy ones, none below a tenth of the mean unless the noise is smaller."""
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - n_rows) / np.arange(1, len(noisy) + 1)
    projected = np.maximum(noisy - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)
    floored = np.maximum(projected, min(0.1 * n_rows / len(noisy), noise))
    return np.asarray(floored * (n_rows / floored.sum()))


def _kept_of_origin(values: FloatArray, noise_variance: float, totals: FloatArray, layout: Layout) -> FloatArray:
    """Factors toward 0 of values of variance in proportion to `totals`, seen in noise."""
    if layout.numeric:
        observed = float(np.mean(values**2))
        return np.full(len(values), max(0.0, 1.0 - noise_variance / observed) if observed > 0.0 else 0.0)
    noise = noise_variance * noise_shares(layout)
    signal = max(0.0, float(np.sum(values**2 - noise)) / float(totals.sum())) * totals
    return np.asarray(signal / (signal + noise))


def _into_ball(rows: FloatArray, radius: float) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, radius / np.maximum(norms, 1e-300)))


def _pooled_covariance(
    covariance: FloatArray, noise: float, between: FloatArray, totals: FloatArray, layout: Layout
) -> FloatArray:
    """Covariance within classes of columns whose total variances are known."""
    within = np.maximum(totals - between, _LEAST_WITHIN * totals)
    seen = np.diag(covariance)
    # Clipped rows show a smaller scale than the first release; the shape of the diagonal is used, not its scale.
    shown = seen * (within.mean() / max(seen.mean(), 0.1 * within.mean()))
    shape = np.clip(shown, _LEAST_WITHIN * totals, 2.0 * totals)
    prior = noise**2 / (noise**2 + _DIAGONAL_VARIANCE * totals**2)
    prior[discrete_frequencies(layout)] = 1.0
    within = prior * within + (1.0 - prior) * shape
    mean = within.mean()
    scale = mean / max(seen.mean(), 0.25 * mean)
    base = mean * (totals / totals.mean())
    centred = covariance * scale
    np.fill_diagonal(centred, within - base)
    values, vectors = np.linalg.eigh(centred)
    edge = 2.0 * np.sqrt(layout.dimension) * noise * scale
    if layout.numeric:
        values = np.maximum(_shrink(values, edge) + mean, _LEAST_EIGENVALUE * mean)
        fitted = (vectors * values) @ vectors.T
    else:
        root = np.sqrt(base)
        fitted = ((vectors * _shrink(values, edge)) @ vectors.T) / np.outer(root, root) + np.eye(len(base))
        values, vectors = np.linalg.eigh(fitted)
        fitted = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    scales = np.sqrt(within / np.diag(fitted))
    return np.asarray(fitted * np.outer(scales, scales))


def _class_covariance(covariance: FloatArray, noise: float, pooled: FloatArray, layout: Layout) -> FloatArray:
    """One class's covariance: the common one and what stands out of the noise beside it."""
    difference = covariance - pooled
    if not layout.numeric:
        difference = _scores_only(difference, layout)
        known = discrete_frequencies(layout)
        difference[known, known] = 0.0
    values, vectors = np.linalg.eigh(difference)
    return np.asarray(pooled + (vectors * _shrink(values, 2.0 * np.sqrt(layout.dimension) * noise)) @ vectors.T)


def _shrink(values: FloatArray, edge: float) -> FloatArray:
    """Eigenvalues of a low-rank matrix from those seen in noise whose bulk ends at `edge`."""
    inside = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    return np.where(np.abs(values) > edge, (values + np.sign(values) * inside) / 2.0, 0.0)


def _root(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
    return np.asarray(vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE * max(values.mean(), 1e-6))))
