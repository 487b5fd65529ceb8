"""Real and fabricated rows in the plane of the first two principal components, counted in square cells."""

import numpy as np
from numpy.typing import ArrayLike

from schemas.measures import FEWEST_ROWS, NotComputed
from schemas.utility import Projection
from tasks.audit.density_difference import FloatArray

CELLS = (24, 16, 12, 8, 6, 4)
"""Cells along the longer side of the fabricated rows' range: as many as leave out at most `MOST_LEFT_OUT`."""
MOST_LEFT_OUT = 0.2
"""Share of the real rows; where four cells a side leave out more, it is four."""


def _axes(rows: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Mean, first two principal axes (n_features, 2), each with its largest loading positive, and explained share."""
    mean = rows.mean(axis=0)
    values, vectors = np.linalg.eigh((rows - mean).T @ (rows - mean))
    axes = vectors[:, [-1, -2]]
    largest = axes[np.abs(axes).argmax(axis=0), [0, 1]]
    total = float(np.clip(values, 0, None).sum())
    explained = float(np.clip(values[-2:], 0, None).sum()) / total if total > 0 else 0.0
    return mean, axes * np.where(largest < 0, -1.0, 1.0), min(1.0, explained)


def _without_few(counts: FloatArray, n_rows: int) -> FloatArray:
    """Counts with cells of too few rows emptied; if only few rows are left out by that, the smallest cell as well."""
    kept = np.where(counts >= FEWEST_ROWS, counts, 0.0)
    if 0 < n_rows - kept.sum() < FEWEST_ROWS and kept.any():
        smallest = np.where(kept > 0, kept, np.inf).argmin()
        kept[np.unravel_index(smallest, kept.shape)] = 0.0
    return kept


def project_rows(
    real: ArrayLike, fabricated: ArrayLike, not_computed: list[NotComputed] | None = None
) -> Projection | None:
    """Shares of real and of fabricated rows in square cells of the fabricated rows' first two principal components.

    Parameters
    ----------
    real, fabricated : array-like of shape (n, width) and (m, width)
        Encoded rows in scaled units.
    not_computed : list of NotComputed, default=None
        Why there is no projection is appended here.

    Returns
    -------
    Projection or None
        Axes and range are those of the fabricated rows; how many of `CELLS` there are, real rows decide.
        A real row outside that range, or in a cell with fewer than `FEWEST_ROWS` real rows, is left out; where these
        are 1 to 9 rows, so is the cell with the fewest rows, and `real_left_out` is a share of enough rows or of none.
        `None` for fewer than two coordinates, fewer than `FEWEST_ROWS` real rows, or fabricated rows that are equal.

    Raises
    ------
    ValueError
        If the shapes do not agree.

    References
    ----------
    K. Pearson: On lines and planes of closest fit to systems of points in space. Philosophical Magazine 2 (1901)
    559-572.
    """
    one, two = np.asarray(real, dtype=np.float64), np.asarray(fabricated, dtype=np.float64)
    if one.ndim != 2 or two.ndim != 2 or one.shape[1] != two.shape[1] or len(two) == 0:
        raise ValueError(f"real {one.shape} and fabricated {two.shape} must have rows of equal width, and at least one")
    reason = None
    if two.shape[1] < 2:
        reason = "the rows have fewer than two coordinates"
    elif len(one) < FEWEST_ROWS:
        reason = f"there are fewer than {FEWEST_ROWS} real rows"
    elif (two == two[0]).all():
        reason = "the fabricated rows are all equal"
    if reason:
        if not_computed is not None:
            not_computed.append(NotComputed(what="the projection on principal components", reason=reason))
        return None
    mean, axes, explained = _axes(two)
    placed = [(rows - mean) @ axes for rows in (one, two)]
    low, high = placed[1].min(axis=0), placed[1].max(axis=0)
    for cells in CELLS:
        found = _counted(placed, low, high, cells, explained)
        if found.real_left_out <= MOST_LEFT_OUT:
            break
    return found


def _counted(placed: list[FloatArray], low: FloatArray, high: FloatArray, cells: int, explained: float) -> Projection:
    one, two = placed
    side = float((high - low).max()) / cells
    edges = []
    for place in range(2):
        n_cells = min(cells, max(1, int(np.ceil((high[place] - low[place]) / side))))
        start = (low[place] + high[place] - n_cells * side) / 2
        own = start + side * np.arange(n_cells + 1)
        own[[0, -1]] = min(own[0], low[place]), max(own[-1], high[place])  # rounding must not lose the outermost rows
        edges.append(own)
    counts = [np.histogram2d(rows[:, 1], rows[:, 0], bins=(edges[1], edges[0]))[0] for rows in placed]
    kept = _without_few(counts[0], len(one))
    return Projection(
        x_edges=edges[0].tolist(),
        y_edges=edges[1].tolist(),
        real=(kept / len(one)).tolist(),
        fabricated=(counts[1] / len(two)).tolist(),
        real_left_out=float(len(one) - kept.sum()) / len(one),
        explained=explained,
    )
