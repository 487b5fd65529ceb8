"""Least-squares density-difference estimation in one dimension.

The integral of the squared difference of two densities is estimated from the difference itself, fitted in one go.
Estimating each density first and subtracting would smooth each for its own sake and hide the difference between them
(Sugiyama et al. 2013, section 1).

Conventions of this module
--------------------------
Width `sigma` and ridge `regularization` both have the data's unit, so default grids are multiples of the pooled
sample's scale and the score of `a * r` is the score of `r` divided by `a`. Everything is deterministic: the folds of
the cross-validation are drawn from a generator of this module's own with a fixed seed over *sorted* values, so that
neither the order of the rows nor the order of the two samples matters.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

FloatArray = NDArray[np.float64]

MAX_CENTRES = 300
N_FOLDS = 5
WIDTHS = np.geomspace(0.05, 3.0, 10)
"""Candidate widths, in multiples of the pooled scale."""
RIDGES = np.geomspace(1e-2, 1e4, 13)
"""Candidate ridge terms, in multiples of the pooled scale; the largest ones shrink a difference that is noise to 0."""
_FOLD_SEED = 0
_BLOCK_ROWS = 20_000


@dataclass(frozen=True)
class DensityDifference:
    """The estimate with the parameters behind it."""

    score: float
    """Estimated integral of the squared difference of the densities, at least 0; its unit is 1/(unit of the data)."""
    sigma: float
    """Width of the Gaussian basis; 0 where all values are equal and no width exists."""
    regularization: float
    """Ridge term; 0 where all values are equal."""
    cross_validated: bool
    """Whether cross-validation chose a parameter; `False` where both were given or could not be chosen."""
    centres: FloatArray
    """Centres of the basis functions."""
    coefficients: FloatArray
    """The vector theta: the estimated difference is the sum of `theta_l exp(-(r - c_l)^2 / (2 sigma^2))`."""


def _sample(values: ArrayLike, name: str) -> FloatArray:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {sample.ndim} dimensions")
    if sample.size == 0:
        raise ValueError(f"{name} must hold at least one value, got none")
    if not np.isfinite(sample).all():
        bad = int(np.count_nonzero(~np.isfinite(sample)))
        raise ValueError(f"{name} must be finite, got {bad} values that are NaN or infinite")
    return np.sort(sample)


def _positive(value: float | None, name: str) -> None:
    if value is not None and not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite, got {name}={value}")


def pooled_scale(pooled: FloatArray) -> float:
    """Spread of the sorted values: interquartile range / 1.349, else the standard deviation, else 0.

    The first is the standard deviation of a normal sample and does not see a few huge values, which distances have.
    """
    lower, upper = np.quantile(pooled, [0.25, 0.75])
    if upper > lower:
        return float((upper - lower) / 1.349)
    half_range = (pooled[-1] - pooled[0]) / 2  # squares of tiny numbers would vanish
    return float(half_range * np.std((pooled - pooled[0]) / half_range)) if half_range > 0 else 0.0


def default_centres(r_members: ArrayLike, r_controls: ArrayLike) -> FloatArray:
    """Up to 300 values of the pooled sample, evenly spaced in sorted order, each once.

    Parameters
    ----------
    r_members, r_controls : array-like of shape (n,) and (m,)

    Returns
    -------
    ndarray of shape (n_centres,)
    """
    pooled = np.sort(np.concatenate([_sample(r_members, "r_members"), _sample(r_controls, "r_controls")]))
    picks = np.round(np.linspace(0, pooled.size - 1, min(MAX_CENTRES, pooled.size))).astype(np.intp)
    return np.unique(pooled[picks])


def _gram(centres: FloatArray, sigma: float) -> FloatArray:
    """H_lm, the integral of two basis functions over the line (Sugiyama et al. 2013, section 2.2, one dimension)."""
    return np.sqrt(np.pi) * sigma * np.exp(-(((centres[:, None] - centres[None, :]) / (2 * sigma)) ** 2))


def _fold_sums(
    sample: FloatArray, folds: NDArray[np.intp], n_folds: int, centres: FloatArray, sigma: float
) -> FloatArray:
    """Sum of every basis function over each fold's values, shape (n_folds, n_centres)."""
    sums = np.zeros((n_folds, centres.size))
    for start in range(0, sample.size, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        basis = np.exp(-0.5 * ((sample[rows, None] - centres[None, :]) / sigma) ** 2)
        for fold in range(n_folds):
            sums[fold] += basis[folds[rows] == fold].sum(axis=0)
    return sums


def _mean_difference(first: FloatArray, second: FloatArray, centres: FloatArray, sigma: float) -> FloatArray:
    """h_l, the difference of the basis functions' means over the two samples."""
    one = _fold_sums(first, np.zeros(first.size, dtype=np.intp), 1, centres, sigma)[0] / first.size
    two = _fold_sums(second, np.zeros(second.size, dtype=np.intp), 1, centres, sigma)[0] / second.size
    return one - two


def _choose(
    first: FloatArray, second: FloatArray, centres: FloatArray, widths: FloatArray, ridges: FloatArray, n_folds: int
) -> tuple[float, float]:
    """Width and ridge with the smallest held-out criterion theta.H.theta - 2 theta.h, averaged over the folds."""
    generator = np.random.default_rng(_FOLD_SEED)
    samples = [(s, generator.permutation(s.size) % n_folds) for s in (first, second)]
    best = (np.inf, float(widths[-1]), float(ridges[-1]))
    for sigma in widths:
        (sums_1, counts_1), (sums_2, counts_2) = (
            (_fold_sums(s, folds, n_folds, centres, sigma), np.bincount(folds, minlength=n_folds)[:, None])
            for s, folds in samples
        )
        held_out = sums_1 / counts_1 - sums_2 / counts_2
        kept = (sums_1.sum(axis=0) - sums_1) / (first.size - counts_1) - (sums_2.sum(axis=0) - sums_2) / (
            second.size - counts_2
        )
        # One decomposition serves every ridge: H = V diag(w) V', and everything below is in V's coordinates.
        w, v = eigh(_gram(centres, sigma))
        w = np.maximum(w, 0.0)
        kept, held_out = kept @ v, held_out @ v
        for ridge in ridges:
            theta = kept / (w + ridge)
            criterion = float(np.mean(np.sum(w * theta**2 - 2 * theta * held_out, axis=1)))
            if criterion <= best[0]:  # ties go to the wider basis and the larger ridge: the smoother answer
                best = (criterion, float(sigma), float(ridge))
    return best[1], best[2]


def estimate_density_difference(
    r_members: ArrayLike,
    r_controls: ArrayLike,
    *,
    centres: ArrayLike | None = None,
    sigma: float | None = None,
    regularization: float | None = None,
) -> DensityDifference:
    """Integral of the squared difference of two densities, with the parameters that were used.

    Parameters
    ----------
    r_members, r_controls : array-like of shape (n,) and (m,)
        The two samples. Swapping them changes the sign of the coefficients and nothing else.
    centres : array-like of shape (n_centres,), default=None
        Centres of the Gaussian basis. By default up to 300 values of the pooled sample, see `default_centres`.
    sigma : float, default=None
        Width of the basis, positive. By default chosen by 5-fold cross-validation among `WIDTHS` times the pooled
        sample's scale (`pooled_scale`).
    regularization : float, default=None
        Ridge term, positive. By default chosen likewise among `RIDGES` times the scale, jointly with `sigma`.

    Returns
    -------
    DensityDifference

    Raises
    ------
    ValueError
        If a sample or the centres are empty, not one-dimensional or not finite, or if `sigma` or `regularization`
        is not positive.

    Notes
    -----
    With H and h as in the paper, theta = (H + regularization I)^-1 h, and the estimate is 2 theta.h - theta.H.theta.
    That equals theta.(H + 2 regularization I).theta, so it is never negative; only rounding is clipped at 0.

    Degenerate samples. All values equal: nothing tells the samples apart and the score is 0; unless `sigma` is given
    there is no width to choose, so `sigma` and `regularization` are reported as 0. One value on a side: there is
    nothing to hold out, so the widest basis and the largest ridge of the grids are taken, the answer that claims least.
    A sample with an atom (memorised rows at distance 0) has no density; the score then measures it at the
    resolution of the narrowest width and is a large finite number where the true value is infinite.

    Samples of one law score a little above 0 by chance: on average 0.006 / scale for 350 against 150 normal values,
    0.004 / scale for 1258 against 539. Whether a score is more than chance is for the attack's AUC interval to say.

    The cost is one eigenvalue decomposition per width, cubic in the number of centres, and
    `(n + m) * n_centres * n_widths` exponentials.

    References
    ----------
    M. Sugiyama, T. Kanamori, T. Suzuki, M. C. du Plessis, S. Liu, I. Takeuchi: Density-difference estimation. Neural
    Computation 25 (2013) 2734-2775.
    """
    first, second = _sample(r_members, "r_members"), _sample(r_controls, "r_controls")
    _positive(sigma, "sigma")
    _positive(regularization, "regularization")
    points = default_centres(first, second) if centres is None else _sample(centres, "centres")
    scale = pooled_scale(np.sort(np.concatenate([first, second])))
    chosen = sigma is None or regularization is None
    if chosen and scale == 0:
        if sigma is None:
            return DensityDifference(0.0, 0.0, 0.0, False, points, np.zeros(points.size))
        scale = sigma  # only the ridge is missing, and any ridge gives 0
    n_folds = min(N_FOLDS, first.size, second.size)
    cross_validated = chosen and n_folds >= 2
    widths = WIDTHS * scale if sigma is None else np.array([float(sigma)])
    ridges = RIDGES * scale if regularization is None else np.array([float(regularization)])
    if cross_validated:
        swap = (second.size, second.tolist()) < (first.size, first.tolist())
        pair = (second, first) if swap else (first, second)
        sigma, regularization = _choose(*pair, points, widths, ridges, n_folds)
    else:
        sigma, regularization = float(widths[-1]), float(ridges[-1])
    h = _mean_difference(first, second, points, sigma)
    gram = _gram(points, sigma)
    w, v = eigh(gram)
    theta = v @ ((v.T @ h) / (np.maximum(w, 0.0) + regularization))
    score = max(0.0, float(2 * theta @ h - theta @ gram @ theta))
    return DensityDifference(score, sigma, regularization, cross_validated, points, theta)


def membership_inference_score(
    r_members: ArrayLike,
    r_controls: ArrayLike,
    *,
    centres: ArrayLike | None = None,
    sigma: float | None = None,
    regularization: float | None = None,
) -> float:
    """Membership-inference score: integral of (f_members - f_controls)^2 over the distance.

    Parameters
    ----------
    r_members : array-like of shape (n_members,)
        Smallest distance to a class, `min_c Gamma_c`, of each row that was used for fabrication.
    r_controls : array-like of shape (n_controls,)
        The same for each row that was kept out of it.
    centres, sigma, regularization : optional
        See `estimate_density_difference`.

    Returns
    -------
    float
        At least 0; 0 means that the distances do not tell members from control rows. It has the unit 1/distance and
        must not be compared across data sets; show the attack's AUC beside it.

    Raises
    ------
    ValueError
        As `estimate_density_difference`.

    References
    ----------
    M. Kumar, B. A. Moser, L. Fischer: On mitigating the utility-loss in differentially private learning: a new
    perspective by a geometrically inspired kernel approach. Journal of Artificial Intelligence Research (2024),
    equation (73).
    """
    return estimate_density_difference(
        r_members, r_controls, centres=centres, sigma=sigma, regularization=regularization
    ).score
