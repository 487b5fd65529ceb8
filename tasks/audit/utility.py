"""What a release preserves: column by column, pair by pair, and the interval of a proportion."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from schemas.audit import CategoryUtility, ColumnUtility, Interval
from tasks.audit.density_difference import FloatArray


def wilson_bounds(proportion: float, trials: float, z: float) -> tuple[float, float]:
    """Wilson (1927): all p with |proportion - p| <= z sqrt(p (1-p) / trials); `trials` need not be whole."""
    centre = proportion + z**2 / (2 * trials)
    half = z * float(np.sqrt(proportion * (1 - proportion) / trials + z**2 / (4 * trials**2)))
    scale = 1 + z**2 / trials
    # The ends at 0 and 1 are exact, and rounding must not exclude the estimate itself.
    lower = 0.0 if proportion == 0 else min((centre - half) / scale, proportion)
    upper = 1.0 if proportion == 1 else max((centre + half) / scale, proportion)
    return max(0.0, lower), min(1.0, upper)


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion.

    Parameters
    ----------
    successes : int
        Number of successes, 0 to n.
    n : int
        Number of trials, at least 1.
    confidence : float, default=0.95
        Between 0 and 1.

    Returns
    -------
    Interval
        The estimate is `successes / n`; the interval stays in [0, 1] and has width also at both ends.

    Raises
    ------
    ValueError
        If a number is outside its range.

    References
    ----------
    E. B. Wilson: Probable inference, the law of succession, and statistical inference. Journal of the American
    Statistical Association 22 (1927) 209-212.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got n={n}")
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be between 0 and n={n}, got successes={successes}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got confidence={confidence}")
    lower, upper = wilson_bounds(successes / n, n, float(norm.ppf((1 + confidence) / 2)))
    return Interval(estimate=successes / n, lower=lower, upper=upper, confidence=confidence, method="Wilson")


def kolmogorov_smirnov(first: ArrayLike, second: ArrayLike) -> float:
    """Largest distance between two empirical distribution functions; 0 is equal, 1 is disjoint.

    Parameters
    ----------
    first, second : array-like of shape (n,) and (m,)

    Returns
    -------
    float

    References
    ----------
    N. V. Smirnov: Table for estimating the goodness of fit of empirical distributions. Annals of Mathematical
    Statistics 19 (1948) 279-281.
    """
    one, two = np.sort(np.asarray(first, dtype=np.float64)), np.sort(np.asarray(second, dtype=np.float64))
    values = np.concatenate([one, two])
    below_one = np.searchsorted(one, values, side="right") / one.size
    below_two = np.searchsorted(two, values, side="right") / two.size
    return float(np.max(np.abs(below_one - below_two)))


def _unit_columns(table: FloatArray) -> FloatArray:
    """Columns moved to [0, 1]: correlations stay as they are, and squares of tiny numbers do not vanish."""
    lowest, highest = table.min(axis=0), table.max(axis=0)
    return (table / 2 - lowest / 2) / (highest / 2 - lowest / 2)


def correlation_difference(
    real: ArrayLike, fabricated: ArrayLike, names: Sequence[str] | None = None
) -> tuple[float | None, int]:
    """Mean absolute difference of the pairwise Pearson correlations of two tables.

    Parameters
    ----------
    real, fabricated : array-like of shape (n, n_columns) and (m, n_columns)
    names : sequence of str, default=None
        Which coordinates belong together to one column; of two such columns the largest difference counts.

    Returns
    -------
    difference : float or None
        Between 0 and 2, over all pairs of columns that vary in both tables; `None` if there is no such pair.
    pairs : int
        How many pairs that is.

    Notes
    -----
    A constant column has no correlation; counting it as 0 would reward a release that lost the column.
    """
    one, two = np.asarray(real, dtype=np.float64), np.asarray(fabricated, dtype=np.float64)
    varies = (one.min(axis=0) < one.max(axis=0)) & (two.min(axis=0) < two.max(axis=0))
    count = int(np.count_nonzero(varies))
    if count < 2:
        return None, 0
    upper = np.triu_indices(count, k=1)
    first, second = (
        np.clip(np.asarray(np.corrcoef(_unit_columns(table[:, varies]), rowvar=False))[upper], -1, 1)
        for table in (one, two)
    )
    apart = np.abs(first - second)
    if names is None:
        return float(np.mean(apart)), apart.size
    _, column = np.unique(np.asarray(names)[varies], return_inverse=True)
    one_column, other_column = column[upper[0]], column[upper[1]]
    between = one_column != other_column
    pair = np.minimum(one_column, other_column) * (column.max() + 1) + np.maximum(one_column, other_column)
    pairs, place = np.unique(pair[between], return_inverse=True)
    if not pairs.size:
        return None, 0
    largest = np.zeros(pairs.size)
    np.maximum.at(largest, place, apart[between])
    return float(np.mean(largest)), pairs.size


def compare_column(name: str, real: ArrayLike, fabricated: ArrayLike) -> ColumnUtility:
    """How a column's fabricated values compare with the real ones, in the column's own unit.

    Parameters
    ----------
    name : str
    real, fabricated : array-like of shape (n,) and (m,)
        At least one row each; NaN where a value is missing.

    Returns
    -------
    ColumnUtility
        Standard deviations have divisor n (ddof 0): they describe the tables themselves, and a single row has 0.
    """
    one, two = np.asarray(real, dtype=np.float64), np.asarray(fabricated, dtype=np.float64)
    x, y = one[~np.isnan(one)], two[~np.isnan(two)]
    return ColumnUtility(
        name=name,
        mean_real=float(x.mean()) if x.size else None,
        mean_fabricated=float(y.mean()) if y.size else None,
        std_real=float(x.std()) if x.size else None,
        std_fabricated=float(y.std()) if y.size else None,
        kolmogorov_smirnov=kolmogorov_smirnov(x, y) if x.size and y.size else None,
        missing_real=1 - x.size / one.size,
        missing_fabricated=1 - y.size / two.size,
    )


def compare_categories(
    real: ArrayLike, fabricated: ArrayLike, categories: Sequence[str], *, nullable: bool, name: str
) -> CategoryUtility:
    """How often each category occurs in a fabricated column and in the real one.

    Parameters
    ----------
    real, fabricated : array-like of int, shape (n,) and (m,)
        Places among `categories`, -1 where a value is missing.
    categories : sequence of str
    nullable : bool
        Whether missing values count as one more category.
    name : str

    Returns
    -------
    CategoryUtility
    """
    shares = []
    for codes in (np.asarray(real, dtype=np.int64), np.asarray(fabricated, dtype=np.int64)):
        counts = np.bincount(np.where(codes < 0, len(categories), codes), minlength=len(categories) + 1)
        shares.append(counts[: len(categories) + nullable] / codes.size)
    return CategoryUtility(
        name=name,
        categories=[*categories, *(["missing"] if nullable else [])],
        shares_real=shares[0].tolist(),
        shares_fabricated=shares[1].tolist(),
        total_variation=min(1.0, float(np.abs(shares[0] - shares[1]).sum()) / 2),
    )
