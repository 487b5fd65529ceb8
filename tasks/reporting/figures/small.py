"""Small pictures of single columns, real beside fabricated.

There is one for each column, so they are written here by hand: about a kilobyte and no time each, where a drawing
library would take ten times as much of both.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from markupsafe import Markup

from schemas.utility import Histogram
from tasks.reporting.figures.frame import COLOURS, HAIR, INK, MUTED, plain, short_name
from tasks.reporting.numbers import significant

_FILL = COLOURS["fabricated"]
_W, _H = 240, 104
_TOP, _FLOOR = 4, 84
MOST_CATEGORIES = 6
"""Categories of a column that are drawn."""


def _svg(height: float, label: str, parts: Sequence[str]) -> Markup:
    opened = f'<svg viewBox="0 0 {_W} {height:g}" role="img" aria-label={quoteattr(plain(label))}>'
    return Markup(opened + "".join(parts) + "</svg>")


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{anchor}" font-size="11">{escape(plain(words))}</text>'
    )


def _steps(x: Sequence[float], heights: Sequence[float]) -> str:
    """The upper edge of a histogram as a path from the floor to the floor."""
    path = [f"M{x[0]:.1f} {_FLOOR}"]
    for left, right, height in zip(x, x[1:], heights, strict=False):
        path.append(f"L{left:.1f} {height:.1f}L{right:.1f} {height:.1f}")
    path.append(f"L{x[-1]:.1f} {_FLOOR}")
    return "".join(path)


def histogram_steps(histogram: Histogram, label: str) -> Markup | None:
    """Two histograms in one picture: fabricated filled, real as a dark line; `None` where the report's do not fit.

    A single interval gives none either: its picture would be a full rectangle, whatever the values are.

    Heights are shares by width of the interval, since intervals with few real values were joined.
    """
    edges = np.asarray(histogram.edges, dtype=np.float64)
    n = len(edges) - 1
    if n < 2 or len(histogram.real) != n or len(histogram.fabricated) != n or not np.isfinite(edges).all():
        return None
    widths = np.diff(edges)
    if not (widths > 0).all():
        return None
    densities = [np.asarray(shares) / widths for shares in (histogram.real, histogram.fabricated)]
    top = max(float(d.max()) for d in densities) or 1.0
    x = (2 + (_W - 4) * (edges - edges[0]) / (edges[-1] - edges[0])).tolist()
    real, made = ((_FLOOR - (_FLOOR - _TOP) * d / top).tolist() for d in densities)
    return _svg(
        _H,
        label,
        [
            f'<path d="{_steps(x, made)}Z" fill="{_FILL}" fill-opacity=".38" />',
            f'<path d="M0 {_FLOOR}H{_W}" stroke="{MUTED}" stroke-width=".8" />',
            f'<path d="{_steps(x, real)}" fill="none" stroke="{INK}" stroke-width="1.3" />',
            _text(1, _H - 4, significant(float(edges[0]), 4)),
            _text(_W - 1, _H - 4, significant(float(edges[-1]), 4), "end"),
        ],
    )


def category_bars(
    categories: Sequence[str], real: Sequence[float], fabricated: Sequence[float], label: str
) -> Markup | None:
    """Pairs of bars of the most frequent categories: fabricated filled, real as an outline; `None` without any."""
    if not categories or not len(categories) == len(real) == len(fabricated):
        return None
    order = sorted(range(len(categories)), key=lambda i: (-max(real[i], fabricated[i]), i))[:MOST_CATEGORIES]
    top = max(max(real[i], fabricated[i]) for i in order) or 1.0
    left, row = 98, 22
    parts = []
    for position, i in enumerate(order):
        y = 3 + row * position
        wide, outline = ((_W - left - 3) * share / top for share in (fabricated[i], real[i]))
        parts += [
            _text(left - 6, y + 13, short_name(categories[i], 12), "end"),
            f'<rect x="{left}" y="{y}" width="{wide:.1f}" height="8" fill="{_FILL}" fill-opacity=".7" />',
            f'<rect x="{left}" y="{y + 9}" width="{outline:.1f}" height="7" fill="#fff" stroke="{INK}" />',
        ]
    height = 4 + row * len(order)
    parts.append(f'<path d="M{left} 0V{height}" stroke="{HAIR}" />')
    return _svg(height, label, parts)
