"""How one column's fabricated values compare with the real ones: moments, quantiles, distribution, histogram.

No figure is about fewer than `FEWEST_ROWS` real rows. Quantiles are means of blocks of sorted values that are equal or
share no row, so that no difference of two of them isolates a few rows; histogram intervals are joined until each holds
no real value or enough of them, on edges that do not depend on the data.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from schemas.measures import FEWEST_ROWS, NotComputed
from schemas.utility import ColumnUtility, Histogram
from tasks.audit.density_difference import FloatArray

QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
HISTOGRAM_INTERVALS = 20
"""Equal intervals of a column's bounds, before neighbours are joined."""


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


def block_quantiles(values: ArrayLike, n_blocks: int) -> list[float]:
    """Quantiles at `QUANTILE_LEVELS`, each as the mean of the block of sorted values that the level falls into.

    Parameters
    ----------
    values : array-like of shape (n,)
        Finite, at least `n_blocks` of them.
    n_blocks : int
        Odd, so that the median is in the middle of a block. The sorted values are parted into that many blocks of
        `n // n_blocks` values or one more.

    Returns
    -------
    list of float
        Two of them are means of the same block or of blocks without a common value.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    starts = np.arange(n_blocks + 1) * ordered.size // n_blocks
    places = [min(int(level * n_blocks), n_blocks - 1) for level in QUANTILE_LEVELS]
    blocks = [ordered[starts[place] : starts[place + 1]] for place in places]
    return [float(np.clip(block.mean(), block[0], block[-1])) for block in blocks]  # rounding must not unorder them


def _joined(counts: list[int]) -> list[int]:
    """Places of the edges that are left once every interval holds no real value or enough of them.

    From low to high, an interval with too few values takes in the next one until it has enough; one that finds no next
    one takes in those before it.
    """
    edges = [0]
    held = 0
    for place, count in enumerate(counts, start=1):
        held += count
        if held == 0 or held >= FEWEST_ROWS:
            edges.append(place)
            held = 0
    while held and held < FEWEST_ROWS and len(edges) > 1:
        last = edges.pop()
        held += sum(counts[edges[-1] : last])
    return edges if edges[-1] == len(counts) else [*edges, len(counts)]


def shared_histogram(real: ArrayLike, fabricated: ArrayLike, bounds: tuple[float, float]) -> Histogram:
    """Shares of real and fabricated values in common intervals of the declared bounds.

    Parameters
    ----------
    real, fabricated : array-like of shape (n,) and (m,)
        Finite; at least `FEWEST_ROWS` real ones and one fabricated one. Values beyond a bound count at the bound.
    bounds : (float, float)
        Public, the lower one first.

    Returns
    -------
    Histogram
        `HISTOGRAM_INTERVALS` equal intervals, closed below (the last one on both sides), of which neighbours are joined
        until each holds no real value or at least `FEWEST_ROWS`.

    Raises
    ------
    ValueError
        If the bounds are not in order, or there are too few values.
    """
    low, high = bounds
    if not low < high:
        raise ValueError(f"bounds must be in order and apart, got bounds={bounds}")
    one, two = np.asarray(real, dtype=np.float64), np.asarray(fabricated, dtype=np.float64)
    if one.size < FEWEST_ROWS or two.size < 1:
        raise ValueError(f"real must hold at least {FEWEST_ROWS} values and fabricated one, got {one.size}, {two.size}")
    edges = np.linspace(low, high, HISTOGRAM_INTERVALS + 1)
    counts = [np.histogram(np.clip(values, low, high), edges)[0] for values in (one, two)]
    kept = _joined(counts[0].tolist())
    shares = [[float(own[a:b].sum() / own.sum()) for a, b in pairwise(kept)] for own in counts]
    return Histogram(edges=edges[kept].tolist(), real=shares[0], fabricated=shares[1])


def _apart(values: FloatArray) -> int:
    """How many values differ from the most frequent one."""
    return int(values.size - np.unique(values, return_counts=True)[1].max())


def _share_missing(values: FloatArray) -> float | None:
    """Share of missing real values, or `None` where it would be about too few rows."""
    missing = int(np.count_nonzero(np.isnan(values)))
    if any(0 < few < FEWEST_ROWS for few in (missing, values.size - missing)):
        return None
    return missing / values.size


def compare_column(
    name: str,
    real: ArrayLike,
    fabricated: ArrayLike,
    bounds: tuple[float, float] | None = None,
    not_computed: list[NotComputed] | None = None,
) -> ColumnUtility:
    """How a column's fabricated values compare with the real ones, in the column's own unit.

    Parameters
    ----------
    name : str
    real, fabricated : array-like of shape (n,) and (m,)
        At least one row each; NaN where a value is missing.
    bounds : (float, float), default=None
        The declared bounds, for a histogram. Leave them out for ordered categories: `compare_categories` gives their
        shares, and two ways of joining the same rare values could be subtracted from each other.
    not_computed : list of NotComputed, default=None
        What is missing, and why, is appended here.

    Returns
    -------
    ColumnUtility
        Standard deviations have divisor n (ddof 0): they describe the tables themselves. Each quantile is the mean of
        a block of neighbouring sorted values, see `block_quantiles`; both tables are parted into the same odd number of
        blocks, the largest that leaves `FEWEST_ROWS` values in each. Where fewer than `FEWEST_ROWS` values are present
        in either table, or 1 to 9 real ones differ from the most frequent value, there are none of these
        figures. Where 1 to 9 real values are missing, or present, `missing_real` is `None`.

    Raises
    ------
    ValueError
        If a table has no row or the bounds are not in order.
    """
    one, two = np.asarray(real, dtype=np.float64), np.asarray(fabricated, dtype=np.float64)
    if one.size == 0 or two.size == 0:
        raise ValueError(f"real and fabricated must hold at least one row, got {one.size} and {two.size}")
    missing_real, missing_fabricated = _share_missing(one), float(np.isnan(two).mean())
    reasons: list[NotComputed] = []
    if missing_real is None:
        reasons.append(
            NotComputed(
                what=f"the share of missing real values of column `{name}`",
                reason=f"fewer than {FEWEST_ROWS} are missing, or present",
            )
        )
    x, y = one[~np.isnan(one)], two[~np.isnan(two)]
    none = ColumnUtility(
        name=name, mean_real=None, mean_fabricated=None, std_real=None, std_fabricated=None, kolmogorov_smirnov=None
    )
    if min(x.size, y.size) < FEWEST_ROWS:
        reasons.append(
            NotComputed(
                what=f"the comparison of the values of column `{name}`",
                reason=f"fewer than {FEWEST_ROWS} values are present in the real or in the fabricated table",
            )
        )
        found = none
    elif 0 < _apart(x) < FEWEST_ROWS:
        reasons.append(
            NotComputed(
                what=f"the comparison of the values of column `{name}`",
                reason=f"fewer than {FEWEST_ROWS} real values differ from its most frequent one, and a figure would be "
                "about these",
            )
        )
        found = none
    else:
        blocks = min(x.size, y.size) // FEWEST_ROWS
        blocks -= blocks % 2 == 0
        found = ColumnUtility(
            name=name,
            mean_real=float(x.mean()),
            mean_fabricated=float(y.mean()),
            std_real=float(x.std()),
            std_fabricated=float(y.std()),
            quantiles=list(QUANTILE_LEVELS),
            quantiles_real=block_quantiles(x, blocks),
            quantiles_fabricated=block_quantiles(y, blocks),
            kolmogorov_smirnov=kolmogorov_smirnov(x, y),
            histogram=shared_histogram(x, y, bounds) if bounds else None,
        )
    if not_computed is not None:
        not_computed.extend(reasons)
    return found.model_copy(update={"missing_real": missing_real, "missing_fabricated": missing_fabricated})
