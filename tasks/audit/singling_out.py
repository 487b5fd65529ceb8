"""Singling out (Giomi et al. 2023): predicates that match one held row exactly, tried on real rows.

A predicate asks of some columns that a number is at least or at most a bound, that a category or a number is a given
one, or that a value is missing. Those that match exactly one held row are kept, at most one for each held row, and
succeed where they match exactly one real row. They are arrays, never text: a column's name plays no part.

Different from the paper: one predicate for a held row, where the paper takes several. Several would succeed or fail
together, and the interval of their success rate, which takes guesses as independent, would be too narrow. And the
number of columns in a conjunction is drawn for each, where the paper repeats the attack for each number.
"""

from dataclasses import dataclass

import numpy as np

from tasks.audit.columns_table import BoolArray, ColumnsTable, IntArray
from tasks.audit.density_difference import FloatArray

MOST_COLUMNS = 8
"""Columns in a conjunction at most; a bound at a random row leaves about a fifth of the rows, so that 5 suffice for
thousands."""
TRIES = 20
"""Conjunctions that are tried at most, in multiples of the wanted number."""
_LOWEST, _HIGHEST = float(np.finfo(np.float64).min), float(np.finfo(np.float64).max)
_MISSING = -np.inf
"""Stands for a missing value in `_comparable`, below every number, so that every predicate is an interval."""
_BLOCK_CELLS = 2**18


@dataclass(frozen=True, eq=False)
class Predicates:
    """Conjunctions of intervals: predicate i matches a row if all its columns are in their closed intervals.

    Attributes
    ----------
    columns : ndarray of int, shape (n_predicates, n_conditions)
    lower, upper : ndarray of shape (n_predicates, n_conditions)
        Unused conditions reach from minus infinity to infinity.
    """

    columns: IntArray
    lower: FloatArray
    upper: FloatArray

    def __len__(self) -> int:
        return len(self.columns)

    def take(self, chosen: IntArray) -> "Predicates":
        return Predicates(self.columns[chosen], self.lower[chosen], self.upper[chosen])


def _comparable(table: ColumnsTable) -> FloatArray:
    """All columns as numbers, shape (n_columns, n_rows); minus infinity is a missing value."""
    rows = [np.where(table.missing(c), _MISSING, values) for c, values in enumerate(table.values)]
    return np.array(rows, dtype=np.float64).reshape(len(rows), table.n_rows)


def _matches(predicates: Predicates, rows: FloatArray) -> tuple[IntArray, IntArray]:
    """How many rows each predicate matches, and one of them (the first row where there is none)."""
    count = np.zeros(len(predicates), dtype=np.int64)
    match = np.zeros(len(predicates), dtype=np.int64)
    size = max(1, _BLOCK_CELLS // max(1, rows.shape[1]))
    for start in range(0, len(predicates), size):
        part = predicates.take(np.arange(start, min(start + size, len(predicates))))
        values = rows[part.columns[:, 0]]
        which, row = np.nonzero((values >= part.lower[:, :1]) & (values <= part.upper[:, :1]))
        for place in range(1, part.columns.shape[1]):  # only what earlier conditions left
            value = rows[part.columns[which, place], row]
            left = (value >= part.lower[which, place]) & (value <= part.upper[which, place])
            which, row = which[left], row[left]
        count[start : start + size] = np.bincount(which, minlength=len(part))
        match[start + which] = row
    return count, match


def singles_out(predicates: Predicates, table: ColumnsTable) -> BoolArray:
    """Which predicates match exactly one row of a table, as an array of shape (n_predicates,)."""
    return np.asarray(_matches(predicates, _comparable(table))[0] == 1)


def _one_for_each_row(predicates: Predicates, rows: FloatArray, taken: BoolArray) -> IntArray:
    """Places of the first predicates that single out a row that is not yet `taken`; marks their rows."""
    count, match = _matches(predicates, rows)
    alone = np.flatnonzero((count == 1) & ~taken[match])
    _, first = np.unique(match[alone], return_index=True)
    chosen = alone[np.sort(first)]
    taken[match[chosen]] = True
    return np.asarray(chosen)


def predicates_of_one_column(held: ColumnsTable, n_wanted: int, generator: np.random.Generator) -> Predicates:
    """Predicates on one column that each match exactly one held row.

    Parameters
    ----------
    held : ColumnsTable
        The rows that the attacker holds.
    n_wanted : int
        At least 1.
    generator : numpy.random.Generator
        Draws among more predicates than are wanted.

    Returns
    -------
    Predicates
        At most `n_wanted`: first below the minimum, above the maximum, missing, and unique categories, then unique
        numbers, of which a column of real numbers has as many as rows and which match no other row by chance.
    """
    rows = _comparable(held)
    strong, weak = [np.zeros((0, 3))], [np.zeros((0, 3))]
    for column, is_category in enumerate(held.is_category):
        values, counts = np.unique(rows[column], return_counts=True)
        alone = values[counts == 1]
        conditions = np.column_stack([np.full(alone.size, column), alone, alone])
        if is_category:
            strong.append(conditions)
            continue
        present = values[values > _MISSING]
        lowest, highest = (present[0], present[-1]) if present.size else (_MISSING, _MISSING)
        conditions[(alone == lowest) & (lowest > _MISSING), 1] = _LOWEST
        conditions[(alone == highest) & (highest > lowest), 2] = _HIGHEST
        is_strong = (alone <= lowest) | (alone == highest)
        strong.append(conditions[is_strong])
        weak.append(conditions[~is_strong])
    conditions = np.concatenate([generator.permutation(np.concatenate(group)) for group in (strong, weak)])
    if not conditions.size:
        return Predicates(np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1)), np.zeros((0, 1)))
    predicates = Predicates(conditions[:, :1].astype(np.int64), conditions[:, 1:2], conditions[:, 2:])
    # each matches one row by its making; what is left is one for each row
    found: list[IntArray] = []
    taken = np.zeros(held.n_rows, dtype=bool)
    for start in range(0, len(predicates), n_wanted):
        batch = np.arange(start, min(start + n_wanted, len(predicates)))
        found.append(start + _one_for_each_row(predicates.take(batch), rows, taken))
        if sum(map(len, found)) >= n_wanted:
            break
    return predicates.take(np.concatenate(found)[:n_wanted])


def _random_columns(n_predicates: int, n_columns: int, generator: np.random.Generator) -> tuple[IntArray, BoolArray]:
    """Two to `MOST_COLUMNS` different columns for each predicate, and which of the places are used."""
    most = min(n_columns, MOST_COLUMNS)
    columns = generator.random((n_predicates, n_columns)).argsort(axis=1)[:, :most]
    size = generator.integers(2, most + 1, n_predicates)
    return columns, np.asarray(np.arange(most) < size[:, None])


def predicates_of_several_columns(held: ColumnsTable, n_wanted: int, generator: np.random.Generator) -> Predicates:
    """Conjunctions over random columns, made from random held rows, that each match exactly one held row.

    Parameters
    ----------
    held : ColumnsTable
        The rows that the attacker holds, with at least two columns and one row.
    n_wanted : int
        At least 1.
    generator : numpy.random.Generator

    Returns
    -------
    Predicates
        At most `n_wanted`; fewer where `TRIES` times as many conjunctions did not hold them. A number asks for at
        least the row's value where that is above the held median, else for at most; a category for the same one.

    Raises
    ------
    ValueError
        If `held` has fewer than two columns or no row.
    """
    if len(held.names) < 2 or held.n_rows < 1:
        raise ValueError(f"held must have two columns and one row, got {len(held.names)} and {held.n_rows}")
    rows = _comparable(held)
    is_category = np.array(held.is_category)
    median = np.array([_median(values[values > _MISSING]) for values in rows])
    taken = np.zeros(held.n_rows, dtype=bool)
    found: list[Predicates] = []
    for _ in range(TRIES):
        columns, used = _random_columns(n_wanted, len(held.names), generator)
        value = rows[columns, generator.integers(0, held.n_rows, n_wanted)[:, None]]
        exact = is_category[columns] | (value == _MISSING)
        high = value > median[columns]
        lower = np.where(exact | high, value, _LOWEST)
        upper = np.where(exact | ~high, value, _HIGHEST)
        batch = Predicates(columns, np.where(used, lower, -np.inf), np.where(used, upper, np.inf))
        found.append(batch.take(_one_for_each_row(batch, rows, taken)))
        if np.count_nonzero(taken) >= min(n_wanted, held.n_rows):
            break
    return _joined(found).take(np.arange(min(n_wanted, sum(map(len, found)))))


def _median(present: FloatArray) -> float:
    return float(np.quantile(present, 0.5, method="inverted_cdf")) if present.size else 0.0


def _joined(parts: list[Predicates]) -> Predicates:
    columns, lower, upper = zip(*((p.columns, p.lower, p.upper) for p in parts), strict=True)
    return Predicates(np.concatenate(columns), np.concatenate(lower), np.concatenate(upper))


def random_predicates(
    held: ColumnsTable, n_predicates: int, *, several: bool, generator: np.random.Generator
) -> Predicates:
    """Predicates that look at no row: columns, bounds and categories at random.

    Parameters
    ----------
    held : ColumnsTable
        Known to the naive attacker by each column's range and categories, which stand for its declared ones.
    n_predicates : int
    several : bool
        Whether they are about two or more columns.
    generator : numpy.random.Generator

    Returns
    -------
    Predicates
        A number asks for at least or at most a uniform bound, a category for a uniform one of those there are.
    """
    if several:
        columns, used = _random_columns(n_predicates, len(held.names), generator)
    else:
        columns = generator.integers(0, len(held.names), (n_predicates, 1))
        used = np.ones(columns.shape, dtype=bool)
    rows = _comparable(held)
    lower, upper = np.full(columns.shape, -np.inf), np.full(columns.shape, np.inf)
    for column, is_category in enumerate(held.is_category):
        here = used & (columns == column)
        n = int(np.count_nonzero(here))
        present = rows[column][rows[column] > _MISSING]
        if is_category or not present.size:
            lower[here] = upper[here] = generator.choice(np.unique(rows[column]), n)
            continue
        share = generator.random(n)
        bound = present.min() * (1 - share) + present.max() * share
        at_least = generator.random(n) < 0.5
        lower[here], upper[here] = np.where(at_least, bound, _LOWEST), np.where(at_least, _HIGHEST, bound)
    return Predicates(columns, lower, upper)
