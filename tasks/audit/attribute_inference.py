"""Attribute inference (Giomi et al. 2023): an attacker knows all columns of a row but one, and guesses that one.

The guess is the value of the held row that is nearest by all the other columns. A category is right if it is the same,
a missing value if both are missing. A number is right if it is near enough: within 5 % of the span of the column's
middle 90 % of real values. The paper takes 5 % of the guess itself, which depends on where a unit has its zero (a date,
a temperature) and accepts nothing for a guess of 0; the whole range would make every guess right in a column with
outliers.
"""

from collections.abc import Sequence

import numpy as np

from tasks.audit.columns_table import BoolArray, ColumnArray, ColumnsTable, GowerDistance, IntArray, nearest_rows

TOLERANCE = 0.05
"""Part of the span of the middle 90 % of the real values by which a guessed number may be off."""
FURTHER_SECRETS = 5
"""Columns that are guessed besides the label."""


def secret_columns(n_columns: int, label: int) -> list[int]:
    """Give the places of the columns to guess: the label, and at most five others, evenly over the rest.

    The choice looks at the number of columns and the label's place alone, so that no value decides what is reported.
    """
    others = [column for column in range(n_columns) if column != label]
    chosen = np.linspace(0, len(others) - 1, min(FURTHER_SECRETS, len(others))).round().astype(int)
    return [label, *(others[place] for place in chosen.tolist())]


def span_tolerance(real: ColumnArray) -> float:
    """How far off a guessed number may be: `TOLERANCE` of the span from the 5 % to the 95 % quantile, halved.

    Halved as all differences here are differences of halves: a difference of finite numbers need not be finite.
    """
    present = real[~np.isnan(real)] / 2
    if not present.size:
        return 0.0
    low, high = np.quantile(present, [0.05, 0.95], method="inverted_cdf")
    return float(TOLERANCE * (high - low))


def is_right(guesses: ColumnArray, secrets: ColumnArray, half_tolerance: float | None) -> BoolArray:
    """Which guesses are right; `half_tolerance` is `None` for categories.

    Parameters
    ----------
    guesses, secrets : ndarray of shape (n,)
    half_tolerance : float or None
        From `span_tolerance`.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    if half_tolerance is None:
        return np.asarray(guesses == secrets)
    near = np.abs(guesses / 2 - secrets / 2) <= half_tolerance
    return np.asarray(near | (np.isnan(guesses) & np.isnan(secrets)))


def nearest_by_others(
    held: ColumnsTable, targets: ColumnsTable, secrets: Sequence[int], generator: np.random.Generator
) -> IntArray:
    """Which held row is nearest to each target by all columns but the secret one.

    Parameters
    ----------
    held : ColumnsTable
        The rows that the attacker holds, with at least two columns and one row.
    targets : ColumnsTable
        Real rows.
    secrets : sequence of int
        Places of the columns to guess, one at a time.
    generator : numpy.random.Generator
        Draws among held rows that are equally near.

    Returns
    -------
    ndarray of int, shape (n_secrets, n_targets)

    Raises
    ------
    ValueError
        If the columns differ or are fewer than two, or there is no held row.

    Notes
    -----
    Costs O(n_targets n_held (n_columns + n_secrets)) time.

    References
    ----------
    M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi: A unified framework for quantifying privacy risk in synthetic data.
    Proceedings on Privacy Enhancing Technologies 2023 (2) 312-328, the inference attack.
    """
    if len(held.names) < 2:
        raise ValueError(f"held must have at least two columns, got {len(held.names)}")
    distance = GowerDistance(held, targets)
    nearest = np.zeros((len(secrets), targets.n_rows), dtype=np.int64)
    for block in distance.blocks():
        total = distance.total(range(len(held.names)), block)
        for place, secret in enumerate(secrets):
            nearest[place, block] = nearest_rows(total - distance.column(secret, block), 1, generator)[:, 0]
    return nearest


def best_constant(held: ColumnArray, half_tolerance: float | None) -> ColumnArray:
    """The one value that is right for most held rows, as an array of shape (1,); it may be a missing value."""
    values, first, counts = np.unique(held, return_index=True, return_counts=True)
    if half_tolerance is not None:
        # NaN is last in `values`, and the comparison with it finds itself only
        halves = np.sort(held / 2)
        present = values[~np.isnan(values)]
        right = np.searchsorted(halves, present / 2 + half_tolerance, side="right")
        counts = np.append(
            right - np.searchsorted(halves, present / 2 - half_tolerance, side="left"), counts[present.size :]
        )
    best = int(np.argmax(counts))
    return held[first[best : best + 1]]


def naive_guesses(
    held: ColumnArray, secrets: ColumnArray, half_tolerance: float | None, generator: np.random.Generator
) -> BoolArray:
    """Which guesses are right that look at no column but the secret one.

    The stronger of the paper's random guess, a held row's value drawn for each target, and the best constant guess.

    Returns
    -------
    ndarray of bool, shape (n_targets,)
    """
    drawn = is_right(held[generator.integers(0, held.size, secrets.size)], secrets, half_tolerance)
    constant = is_right(best_constant(held, half_tolerance), secrets, half_tolerance)
    return drawn if np.count_nonzero(drawn) > np.count_nonzero(constant) else constant
