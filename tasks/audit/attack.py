"""How well a membership attack tells members from control rows, and how sure that number is.

An attack gives every row a score, higher for a member. The area and its interval are in `bootstrap`. The interval of
the share of members found at a fixed rate of false accusations was chosen by simulated coverage (nominal 95 %, at 1 %,
300 repetitions, 150 to 3000 rows a side, areas 0.5 to 0.998): the percentile bootstrap of both sides covered between
87 % and 99 %, Wilson's form with the bootstrap's variance between 85 % and 97 %, the interval below 95 % or more. Its
price is width: from 200 control rows nobody knows where one in a hundred begins, and the interval says so.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc
from scipy.stats import binom

from schemas.attacks import (
    AttackName,
    Density,
    DensityDifference,
    Found,
    MembershipAttack,
    ReleasedClassifierAttack,
)
from schemas.measures import FEWEST_ROWS, Interval, TrainedOn
from schemas.private_classifiers import PrivateClassifierName
from schemas.spec import ClassifierName
from tasks.audit.bootstrap import attack_auc, checked_scores, upper_level
from tasks.audit.density_difference import FloatArray, estimate_density_difference, pooled_scale

FALSE_POSITIVE_RATES: FloatArray = np.unique(
    np.round(np.concatenate([[0.001, 0.002, 0.005], np.linspace(0, 1, 101)]), 6)
)
"""The grid of every ROC curve: each hundredth, and three points below one hundredth."""
FOUND_AT = (0.001, 0.01)
"""Rates of false accusations at which the share of members found is reported."""
MOST_EXPOSED = 10
DENSITY_POINTS = 128


def _distances(values: ArrayLike, name: str) -> FloatArray:
    distances = checked_scores(values, name)
    if (distances < 0).any():
        raise ValueError(f"{name} must hold distances of at least 0, got {float(distances.min())}")
    return distances


class _Curve:
    """The corners of a ROC curve, with a straight line (the attacker tosses a coin) where scores are tied.

    Where several thresholds share a false-positive rate the curve is vertical: a line that ends there ends at its
    lowest point, one that starts there starts at its highest.
    """

    def __init__(self, members: FloatArray, controls: FloatArray) -> None:
        members, controls = np.sort(-members), np.sort(-controls)
        thresholds = np.unique(np.concatenate([members, controls]))
        false = np.concatenate([[0.0], np.searchsorted(controls, thresholds, side="right") / controls.size])
        true = np.concatenate([[0.0], np.searchsorted(members, thresholds, side="right") / members.size])
        self.corners, first = np.unique(false, return_index=True)
        self.lowest, self.highest = true[first], true[np.append(first[1:] - 1, false.size - 1)]

    def at(self, rates: FloatArray, *, lowest: bool = False) -> FloatArray:
        """True-positive rates, on vertical pieces the highest or the lowest."""
        left = np.clip(np.searchsorted(self.corners, rates, side="right") - 1, 0, self.corners.size - 1)
        right = np.minimum(left + 1, self.corners.size - 1)
        span = self.corners[right] - self.corners[left]
        share = np.divide(rates - self.corners[left], span, out=np.zeros_like(span), where=span > 0)
        start = self.highest[left]
        curve = start + share * (self.lowest[right] - start)
        return np.where(share == 0, self.lowest[left], curve) if lowest else curve


def roc_curve(member_scores: ArrayLike, control_scores: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Rates of false and true positives of the attack, on the grid `FALSE_POSITIVE_RATES`.

    Parameters
    ----------
    member_scores, control_scores : array-like of shape (n_members,) and (n_controls,)
        Finite, higher for a member.

    Returns
    -------
    false_positive_rate, true_positive_rate : ndarray of shape (104,)
        The highest share of members that a threshold finds while it wrongly accuses at most that share of the
        control rows. Between two thresholds the attacker tosses a coin, which is a straight line; so ties count half,
        as in the area.

    Raises
    ------
    ValueError
        If a sample is empty, not one-dimensional or not finite.
    """
    curve = _Curve(checked_scores(member_scores, "member_scores"), checked_scores(control_scores, "control_scores"))
    return FALSE_POSITIVE_RATES.copy(), curve.at(FALSE_POSITIVE_RATES)


def _mixed_quantile(level: float, weights: FloatArray, right: FloatArray, wrong: FloatArray) -> float:
    """Quantile of a mixture of beta laws; a law with `right` 0 lies at 0, one with `wrong` 0 at 1."""
    inside = (right > 0) & (wrong > 0)
    at_0, a, b, w = float(weights[right == 0].sum()), right[inside], wrong[inside], weights[inside]
    if at_0 >= level:
        return 0.0
    if at_0 + float(w.sum()) <= level:
        return 1.0
    return float(brentq(lambda x: at_0 + float(w @ betainc(a, b, x)) - level, 0.0, 1.0, xtol=1e-10))


def found_at(member_scores: ArrayLike, control_scores: ArrayLike, fpr: float, *, confidence: float = 0.95) -> Found:
    """Share of the members that the attack finds while it wrongly accuses a share `fpr` of the population.

    Parameters
    ----------
    member_scores, control_scores : array-like of shape (n_members,) and (n_controls,)
        Finite, higher for a member.
    fpr : float
        In (0, 1), for example 0.01.
    confidence : float, default=0.95

    Returns
    -------
    Found
        The estimate is the ROC curve's value at `fpr`. The rate is `None` with fewer control rows than `1 / fpr`. The
        interval has width also where the estimate is 0 or 1.

    Raises
    ------
    ValueError
        If a sample is empty, not one-dimensional or not finite, or a number is outside its range.

    Notes
    -----
    Both sides are samples: which threshold accuses a share `fpr` is known from the control rows only, how many members
    lie beyond it from the members only. The number K of control rows beyond the right threshold is binomial with
    parameters n_controls and `fpr`, whatever the law of the scores, which puts the threshold between the K-th and the
    next control row. Given it, the share of members has the beta laws of Clopper and Pearson. The ends of the
    interval are the quantiles of these laws mixed over K: the limit of a bootstrap of both sides that resamples
    the threshold's rank instead of the rows. The lower end uses the far and the upper end the near control row. Below
    about 3.7 / `fpr` control rows K may well be 0, nothing bounds the threshold, and the lower end is 0.

    References
    ----------
    C. J. Clopper, E. S. Pearson: Biometrika 26 (1934) 404-413. For rates so low: N. Carlini, S. Chien, M. Nasr,
    S. Song, A. Terzis, F. Tramer: Membership inference attacks from first principles. IEEE S&P (2022), section III.
    """
    members, controls = checked_scores(member_scores, "member_scores"), checked_scores(control_scores, "control_scores")
    level = upper_level(confidence)
    if not 0 < fpr < 1:
        raise ValueError(f"fpr must be between 0 and 1, got fpr={fpr}")
    m, n = members.size, controls.size
    if n * fpr < 1 - 1e-9:
        return Found(false_positive_rate=fpr, true_positive_rate=None)
    curve = _Curve(members, controls)
    beyond = np.arange(int(binom.ppf(1e-9, n, fpr)), int(binom.isf(1e-9, n, fpr)) + 1)
    weights = binom.pmf(beyond, n, fpr)
    weights /= weights.sum()
    fewest, most = m * curve.at(beyond / n, lowest=True), m * curve.at(beyond / n)
    estimate = float(curve.at(np.array([fpr]))[0])
    lower = _mixed_quantile(1 - level, weights, fewest, m - fewest + 1)
    upper = _mixed_quantile(level, weights, most + 1, m - most)
    interval = Interval(
        estimate=estimate,
        lower=min(lower, estimate),
        upper=max(upper, estimate),
        confidence=confidence,
        method="Clopper-Pearson, mixed over the binomial rank of the threshold among the control rows",
    )
    return Found(false_positive_rate=fpr, true_positive_rate=interval)


def most_exposed(member_scores: ArrayLike, member_rows: ArrayLike, n: int = MOST_EXPOSED) -> list[int]:
    """Source rows of the members that the attack is surest of.

    Parameters
    ----------
    member_scores : array-like of shape (n_members,)
    member_rows : array-like of int, shape (n_members,)
        Row of the source file of each member, at least 0.
    n : int, default=10

    Returns
    -------
    list of int
        At most `n` rows, highest score first, equal scores by row. Rows of equal scores that do not all find a place
        are left out, since none of them is more exposed than another.

    Raises
    ------
    ValueError
        If scores are not finite, or rows are not one whole number of at least 0 for each score.
    """
    scores, rows = checked_scores(member_scores, "member_scores"), np.asarray(member_rows)
    if rows.shape != scores.shape or not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(
            f"member_rows must be a whole number for each of {scores.size} scores, got {rows.dtype} {rows.shape}"
        )
    if rows.min() < 0:
        raise ValueError(f"member_rows must be at least 0, got {int(rows.min())}")
    if scores.min() == scores.max():
        return []
    order = np.lexsort((rows, -scores))
    kept = order[:n]
    if order.size > n:
        kept = kept[scores[kept] > scores[order[n]]]
    return [int(row) for row in rows[kept]]


def _bandwidth(sample: FloatArray, scale: float) -> float:
    """Silverman's rule of thumb, at least a twentieth of the pooled scale so that equal values stay visible."""
    deviation = float(np.std(sample))
    spread = min(deviation, pooled_scale(sample)) or deviation
    return max(0.9 * spread * sample.size**-0.2, scale / 20)


def _kernel_density(sample: FloatArray, grid: FloatArray, bandwidth: float) -> FloatArray:
    """Gaussian kernel density, reflected at 0 because a distance is never negative."""
    density = np.zeros(grid.size)
    for start in range(0, sample.size, 10_000):
        block = sample[start : start + 10_000, None]
        density += np.exp(-0.5 * ((grid - block) / bandwidth) ** 2).sum(axis=0)
        density += np.exp(-0.5 * ((grid + block) / bandwidth) ** 2).sum(axis=0)
    return density / (sample.size * bandwidth * np.sqrt(2 * np.pi))


def distance_densities(r_members: ArrayLike, r_controls: ArrayLike) -> Density:
    """Smoothed densities of both samples on one grid, for people to look at; the score does not use them.

    Parameters
    ----------
    r_members, r_controls : array-like of shape (n_members,) and (n_controls,)

    Returns
    -------
    Density
        128 grid points over the central 99 % of the pooled distances, or as much as leaves out `FEWEST_ROWS` at each
        end, and three bandwidths to each side, so a few far distances neither flatten the picture nor show.
        Bandwidths by Silverman's rule for each sample; equal values show as one narrow bump.

    References
    ----------
    B. W. Silverman: Density estimation for statistics and data analysis. Chapman and Hall (1986), equation (3.31).
    """
    members, controls = _distances(r_members, "r_members"), _distances(r_controls, "r_controls")
    pooled = np.sort(np.concatenate([members, controls]))
    scale = pooled_scale(pooled) or float(pooled[-1]) / 10 or 1.0
    widths = _bandwidth(members, scale), _bandwidth(controls, scale)
    cut = min(max(0.005, FEWEST_ROWS / pooled.size), 0.25)
    lower, upper = np.quantile(pooled, [cut, 1 - cut])
    grid = np.linspace(max(0.0, lower - 3 * max(widths)), upper + 3 * max(widths), DENSITY_POINTS)
    return Density(
        grid=grid.tolist(),
        members=_kernel_density(members, grid, widths[0]).tolist(),
        controls=_kernel_density(controls, grid, widths[1]).tolist(),
    )


def membership_attack(
    attack: AttackName,
    trained_on: TrainedOn,
    member_scores: ArrayLike,
    control_scores: ArrayLike,
    member_rows: ArrayLike,
    rng_seed: int,
    classifier: ClassifierName | None = None,
    density_difference: DensityDifference | None = None,
) -> MembershipAttack:
    """What an attack's scores achieve: area with interval, ROC curve, members found, and the most exposed rows.

    Parameters
    ----------
    attack : AttackName
    trained_on : {"real", "noise-added", "fabricated"}
        What the attacker holds, or what the attacked classifier was trained on.
    member_scores : array-like of shape (n_members,)
        Scores of the rows used for fabrication, finite, higher for a member.
    control_scores : array-like of shape (n_controls,)
        Scores of the rows kept out of it.
    member_rows : array-like of int, shape (n_members,)
        Row of the source file of each member.
    rng_seed : int
        Of the bootstrap.
    classifier : ClassifierName, default=None
    density_difference : DensityDifference, default=None

    Returns
    -------
    MembershipAttack

    Raises
    ------
    ValueError
        If a sample is empty, not one-dimensional or not finite, or `member_rows` does not fit it.
    """
    return MembershipAttack(
        attack=attack,
        trained_on=trained_on,
        classifier=classifier,
        density_difference=density_difference,
        **_achieved(member_scores, control_scores, member_rows, rng_seed),
    )


def released_classifier_attack(
    classifier: PrivateClassifierName,
    epsilon: float,
    delta: float,
    member_scores: ArrayLike,
    control_scores: ArrayLike,
    member_rows: ArrayLike,
    rng_seed: int,
) -> ReleasedClassifierAttack:
    """What the margin under a released classifier achieves, with the same numbers as `membership_attack`.

    Parameters
    ----------
    classifier : PrivateClassifierName
    epsilon, delta : float
        Its guarantee for one whole record.
    member_scores, control_scores : array-like of shape (n_members,) and (n_controls,)
        From `margin_scores`, of rows that it learned from and of others.
    member_rows : array-like of int, shape (n_members,)
        Row of the source file of each member.
    rng_seed : int
        Of the bootstrap.

    Returns
    -------
    ReleasedClassifierAttack

    Raises
    ------
    ValueError
        As `membership_attack`.
    """
    return ReleasedClassifierAttack(
        attack="margin",
        classifier=classifier,
        epsilon=epsilon,
        delta=delta,
        **_achieved(member_scores, control_scores, member_rows, rng_seed),
    )


def _achieved(
    member_scores: ArrayLike, control_scores: ArrayLike, member_rows: ArrayLike, rng_seed: int
) -> dict[str, Any]:
    """The fields that all attacks have in common."""
    false, true = roc_curve(member_scores, control_scores)
    return {
        "members": np.size(member_scores),
        "controls": np.size(control_scores),
        "auc": attack_auc(member_scores, control_scores, seed=rng_seed),
        "found": [found_at(member_scores, control_scores, fpr) for fpr in FOUND_AT],
        "roc_false_positive_rate": false.tolist(),
        "roc_true_positive_rate": true.tolist(),
        "most_exposed": most_exposed(member_scores, member_rows),
    }


def distance_attack(
    r_members: ArrayLike, r_controls: ArrayLike, trained_on: TrainedOn, member_rows: ArrayLike, seed: int
) -> MembershipAttack:
    """The seed paper's attack on one KAHM classifier: a row is a member if it is near its nearest class.

    Parameters
    ----------
    r_members : array-like of shape (n_members,)
        Distance to the nearest class of every row used for fabrication, finite and at least 0.
    r_controls : array-like of shape (n_controls,)
        The same for every row kept out of it.
    trained_on : {"real", "noise-added", "fabricated"}
        What the attacked classifier was trained on.
    member_rows : array-like of int, shape (n_members,)
        Row of the source file of each member.
    seed : int
        Of the bootstrap.

    Returns
    -------
    MembershipAttack
        With the density difference; its `sigma` and `regularization` are 0 where all distances are equal and no width
        exists.

    Raises
    ------
    ValueError
        If a sample is empty, not one-dimensional, not finite or negative, or `member_rows` does not fit it.

    References
    ----------
    M. Kumar, B. A. Moser, L. Fischer (2024), equation (73); see `membership_inference_score`.
    """
    members, controls = _distances(r_members, "r_members"), _distances(r_controls, "r_controls")
    difference = estimate_density_difference(members, controls)
    return membership_attack(
        "distance-to-class",
        trained_on,
        -members,
        -controls,
        member_rows,
        seed,
        density_difference=DensityDifference(
            score=difference.score,
            sigma=difference.sigma,
            regularization=difference.regularization,
            density=distance_densities(members, controls),
        ),
    )
