"""Heat maps: correlations, and rows on two principal components."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from schemas.utility import Projection
from tasks.reporting.figures.frame import MUTED, inline, panel, short_name

FloatArray = NDArray[np.float64]

_NARROW = 3.35
MOST_NAMES = 14
"""Columns whose names fit beside a map; more of them are numbered."""
_BELOW, _MIDDLE, _ABOVE = (0x1F, 0x4E, 0x96), (0xFF, 0xFF, 0xFF), (0xA8, 0x3A, 0x0A)
_NOTHING = (0xC9, 0xCE, 0xD4)
_DENSE = (0x06, 0x3B, 0x40)


def _blend(share: FloatArray, end: tuple[int, int, int]) -> FloatArray:
    middle = np.asarray(_MIDDLE, dtype=np.float64)
    return middle + share[..., None] * (np.asarray(end, dtype=np.float64) - middle)


def _diverging(values: FloatArray, reach: float) -> NDArray[np.uint8]:
    """Blue below 0, white at 0, red above; grey where there is no value. Shape (..., 3)."""
    share = np.clip(np.nan_to_num(values) / reach, -1, 1)
    colours = np.where((share < 0)[..., None], _blend(-share, _BELOW), _blend(share, _ABOVE))
    colours[np.isnan(values)] = _NOTHING
    return colours.round().astype(np.uint8)


def correlations(
    values: FloatArray, columns: Sequence[str], reach: float, name: str, title: str, description: str
) -> Markup:
    """Correlations, or their differences, as a map; NaN where there is none. Larger ones than `reach` get its colour.

    Parameters
    ----------
    values : ndarray of float64, shape (n_columns, n_columns)
    columns : sequence of str, length n_columns
    reach : float
        The value with the darkest colour; above 0.
    """
    n = len(columns)
    named = n <= MOST_NAMES
    with panel(4.2 if named else 3.45, _NARROW) as (figure, axes):
        axes.imshow(_diverging(values, reach), interpolation="none", extent=(0.5, n + 0.5, n + 0.5, 0.5))
        if named:
            axes.set_yticks(range(1, n + 1), [short_name(column, 11) for column in columns])
            axes.set_xticks(range(1, n + 1), [short_name(column, 11) for column in columns], rotation=90)
        else:
            step = max(1, 5 * -(-n // 40))
            ticks = [1, *range(step, n + 1, step)] if step > 1 else list(range(1, n + 1))
            axes.set_yticks(ticks)
            axes.set_xticks(ticks[:1] + ticks[2 if n > 20 else 1 :: 2 if n > 20 else 1])
        axes.tick_params(length=2)
        return inline(figure, name, title, description)


def projection(cells: FloatArray, whole: Projection, most: float, name: str, title: str, description: str) -> Markup:
    """Shares of rows by cell on the two components; darker is more, on a square-root scale up to `most`."""
    with panel(3.2, _NARROW) as (figure, axes):
        share = np.sqrt(np.clip(cells / most, 0, 1)) if most > 0 else np.zeros_like(cells)
        x, y = whole.x_edges, whole.y_edges
        axes.imshow(
            _blend(share, _DENSE).round().astype(np.uint8),
            interpolation="none",
            origin="lower",
            extent=(x[0], x[-1], y[0], y[-1]),
            aspect="auto",
        )
        axes.locator_params(nbins=5)
        for spine in axes.spines.values():
            spine.set_visible(True)
            spine.set_color(MUTED)
        axes.set_xlabel("first component")
        axes.set_ylabel("second component")
        return inline(figure, name, title, description)
