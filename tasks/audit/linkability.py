"""Linkability (Giomi et al. 2023): an attacker holds two halves of a row's columns, and joins them through held rows.

Both halves are looked up in the held rows. Where their nearest held rows are the same, the attacker says that the
halves belong to one person, and is right. The halves are the columns at even and at odd places: that depends on no
value, and puts columns that stand side by side, and often tell of the same matter, on different sides.
"""

import numpy as np

from tasks.audit.columns_table import BoolArray, ColumnsTable, GowerDistance, IntArray, nearest_rows

NEIGHBOURS = (1, 5)
"""How many nearest held rows of each half are compared: links are right where the halves share at least one."""


def halves(n_columns: int) -> tuple[range, range]:
    """Give the places of the columns that each of the two data sets of the attacker has."""
    return range(0, n_columns, 2), range(1, n_columns, 2)


def linked(held: ColumnsTable, targets: ColumnsTable, generator: np.random.Generator) -> dict[int, BoolArray]:
    """Which targets are linked, for each number of neighbours that the held rows suffice for.

    Parameters
    ----------
    held : ColumnsTable
        The rows that the attacker holds, with at least two columns and one row.
    targets : ColumnsTable
        Real rows, of which the attacker has both halves.
    generator : numpy.random.Generator
        Draws among held rows that are equally near.

    Returns
    -------
    dict of int to ndarray of bool, shape (n_targets,)
        By the number of neighbours.

    Raises
    ------
    ValueError
        If the columns differ or are fewer than two, or there is no held row.

    Notes
    -----
    Costs O(n_targets n_held n_columns) time.

    References
    ----------
    M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi: A unified framework for quantifying privacy risk in synthetic data.
    Proceedings on Privacy Enhancing Technologies 2023 (2) 312-328, the linkability attack.
    """
    if len(held.names) < 2:
        raise ValueError(f"held must have at least two columns, got {len(held.names)}")
    distance = GowerDistance(held, targets)
    sizes = [k for k in NEIGHBOURS if k <= held.n_rows]
    right = {k: np.zeros(targets.n_rows, dtype=bool) for k in sizes}
    for block in distance.blocks():
        one, two = (nearest_rows(distance.total(half, block), sizes[-1], generator) for half in halves(len(held.names)))
        for k in sizes:
            right[k][block] = _share_a_row(one[:, :k], two[:, :k])
    return right


def _share_a_row(one: IntArray, two: IntArray) -> BoolArray:
    return np.asarray((one[:, :, None] == two[:, None, :]).any(axis=(1, 2)))


def linked_at_random(n_held: int, k: int, n_targets: int, generator: np.random.Generator) -> BoolArray:
    """Which links are right where k held rows are drawn for each half without a look at it.

    Returns
    -------
    ndarray of bool, shape (n_targets,)
        The number of common rows of two draws of k out of n_held is hypergeometric.
    """
    return np.asarray(generator.hypergeometric(k, n_held - k, k, n_targets) > 0)
