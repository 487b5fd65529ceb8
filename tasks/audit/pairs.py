"""How pairs of columns compare: correlations of ordered ones, and joint tables of any two."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.measures import FEWEST_ROWS
from schemas.utility import CorrelationMap, PairUtility
from tasks.audit.density_difference import FloatArray

BINS = 10
"""Equal intervals of the bounds that an ordered column is cut into for a joint table."""
MOST_PAIRS = 1000
"""Pairs of columns that are listed."""
_CONSTANT = 1e-12
"""Variance of values in [0, 1] below which they are all equal but for rounding."""


def _unit_columns(table: FloatArray) -> FloatArray:
    """Columns moved to [0, 1]: correlations stay as they are, and squares of tiny numbers do not vanish."""
    lowest, highest = table.min(axis=0), table.max(axis=0)
    return (table / 2 - lowest / 2) / (highest / 2 - lowest / 2)


def varies_enough(table: ArrayLike) -> NDArray[np.bool_]:
    """Which columns have at least `FEWEST_ROWS` rows that differ from the column's most frequent value.

    A correlation of any other column is a figure about the few rows that differ, and may give away a cell of theirs.

    Parameters
    ----------
    table : array-like of shape (n, n_columns)
        Without missing values.

    Returns
    -------
    ndarray of bool, shape (n_columns,)
    """
    columns = np.asarray(table, dtype=np.float64).T
    apart = [column.size - int(np.unique(column, return_counts=True)[1].max(initial=0)) for column in columns]
    return np.array(apart, dtype=np.int64) >= FEWEST_ROWS


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


def _correlations(table: FloatArray) -> list[list[float | None]]:
    """Pairwise Pearson correlations over the rows where both values are present; `None` where there is none.

    A column whose values are nearly all equal has none either: its correlations would tell the few rows that differ.
    """
    present = ~np.isnan(table)
    filled = np.where(present, table, 0.0)
    differs = np.zeros(table.shape)
    for place in range(table.shape[1]):
        own = filled[present[:, place], place]
        if own.size:
            values, counts = np.unique(own, return_counts=True)
            differs[:, place] = present[:, place] & (filled[:, place] != values[counts.argmax()])
            span = values[-1] / 2 - values[0] / 2
            unit = (filled[:, place] / 2 - values[0] / 2) / span if span else np.zeros(len(table))
            filled[:, place] = np.where(present[:, place], unit, 0.0)
    there = present.astype(np.float64)
    common = there.T @ there
    varying = np.minimum(differs.T @ there, (differs.T @ there).T)
    n = np.maximum(common, 1)
    sums, squares = filled.T @ there / n, (filled**2).T @ there / n
    variance = squares - sums**2
    covariance = filled.T @ filled / n - sums * sums.T
    defined = (varying >= FEWEST_ROWS) & (np.minimum(variance, variance.T) > _CONSTANT)
    scale = np.sqrt(np.where(defined, variance * variance.T, 1.0))
    found = np.clip(covariance / scale, -1.0, 1.0)
    found[np.diag_indices_from(found)] = 1.0
    return [
        [float(value) if known else None for value, known in zip(*row, strict=True)]
        for row in zip(found, defined, strict=True)
    ]


def correlation_map(names: Sequence[str], real: ArrayLike, fabricated: ArrayLike) -> CorrelationMap:
    """Pearson correlations of ordered columns, in both tables.

    Parameters
    ----------
    names : sequence of str
    real, fabricated : array-like of shape (n, n_columns) and (m, n_columns)
        In any unit; NaN where a value is missing. Each pair is over the rows where both values are present.

    Returns
    -------
    CorrelationMap
        `None` where, among the rows that a pair has in common, fewer than `FEWEST_ROWS` differ from the column's most
        frequent value: such a column hardly varies, and its correlations would be figures about those rows. With it
        goes every pair that has fewer than `FEWEST_ROWS` rows in common.

    Raises
    ------
    ValueError
        If the shapes do not fit the names.

    Notes
    -----
    Sums over common rows are matrix products, O(n n_columns^2).
    """
    tables = [np.asarray(table, dtype=np.float64) for table in (real, fabricated)]
    for what, table in zip(("real", "fabricated"), tables, strict=True):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"{what} must have a column for each of {len(names)} names, got shape {table.shape}")
    return CorrelationMap(columns=list(names), real=_correlations(tables[0]), fabricated=_correlations(tables[1]))


def cut(values: ArrayLike, bounds: tuple[float, float]) -> NDArray[np.int64]:
    """An ordered column as codes: `BINS` equal intervals of its public bounds, and `BINS` where a value is missing.

    Parameters
    ----------
    values : array-like of shape (n,)
        NaN where a value is missing; values beyond a bound count at the bound.
    bounds : (float, float)
        Public, the lower one first; equal bounds give code 0.

    Returns
    -------
    ndarray of int64, shape (n,)
        0 to `BINS`.

    Raises
    ------
    ValueError
        If the bounds are not in order.
    """
    low, high = bounds
    if not low <= high:
        raise ValueError(f"bounds must be in order, got bounds={bounds}")
    given = np.asarray(values, dtype=np.float64)
    missing = np.isnan(given)
    scaled = np.clip((np.where(missing, low, given) - low) / ((high - low) or 1.0), 0, 1)
    return np.where(missing, BINS, np.minimum((scaled * BINS).astype(np.int64), BINS - 1))


def contingency_similarities(
    names: Sequence[str], real: Sequence[ArrayLike], fabricated: Sequence[ArrayLike]
) -> tuple[list[PairUtility], float | None]:
    """How alike the joint tables of each two columns are, by contingency similarity.

    Parameters
    ----------
    names : sequence of str
        The columns, the label among them.
    real, fabricated : sequence of array-like of int, shape (n,) and (m,)
        A column of codes from 0 for each name: places among the categories with a code of its own for a missing value,
        or from `cut`.

    Returns
    -------
    pairs : list of PairUtility
        Least similar first, in the columns' order where equal; the first `MOST_PAIRS`.
    mean : float or None
        Over all pairs; `None` for fewer than two columns, or fewer than `FEWEST_ROWS` real rows.

    Raises
    ------
    ValueError
        If the columns do not fit the names or each other, or hold a negative code.

    Notes
    -----
    1 - 1/2 sum |R - F| over the cells of the joint table, with R and F the shares of real and fabricated rows: one
    minus the total variation distance. Cost O((n + m) n_columns^2). With few rows and many cells two samples of one law
    are far from 1 as well.

    References
    ----------
    `ContingencySimilarity` of the SDMetrics library (DataCebo), which counts missing values as a category likewise.
    """
    tables = [[np.asarray(column, dtype=np.int64) for column in table] for table in (real, fabricated)]
    for what, table in zip(("real", "fabricated"), tables, strict=True):
        shapes = {column.shape for column in table}
        if len(table) != len(names) or len(shapes) > 1 or any(column.ndim != 1 for column in table):
            raise ValueError(f"{what} must hold {len(names)} columns of equal length, got shapes {sorted(shapes)}")
        if any(column.size == 0 or column.min() < 0 for column in table):
            raise ValueError(f"{what} must hold at least one row, and no negative code")
    if len(names) < 2 or tables[0][0].size < FEWEST_ROWS:
        return [], None
    sizes = [1 + max(int(table[place].max()) for table in tables) for place in range(len(names))]
    found = []
    for a, b in combinations(range(len(names)), 2):
        shares = [
            np.bincount(table[a] * sizes[b] + table[b], minlength=sizes[a] * sizes[b]) / table[a].size
            for table in tables
        ]
        similarity = 1 - float(np.abs(shares[0] - shares[1]).sum()) / 2
        found.append(PairUtility(first=names[a], second=names[b], similarity=min(1.0, max(0.0, similarity))))
    mean = float(np.mean([pair.similarity for pair in found]))
    return sorted(found, key=lambda pair: pair.similarity)[:MOST_PAIRS], min(1.0, mean)
