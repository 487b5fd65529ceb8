"""The figure of the noise on a cell."""

from markupsafe import Markup

from tasks.reporting.figures.frame import COLOURS, inline, panel
from tasks.reporting.numbers import significant


def noise_size(expected_magnitude: float, name: str, title: str, description: str) -> Markup:
    """Expected size of the noise on a cell beside a column's whole range."""
    with panel(1.75) as (figure, axes):
        bars = [
            ("whole range of a column", 1.0, COLOURS["real"]),
            ("expected noise on a cell", expected_magnitude, COLOURS["noise-added"]),
        ]
        reach = max(1.0, expected_magnitude)
        for position, (label, value, colour) in enumerate(bars):
            axes.barh(position, value, height=0.34, color=colour, alpha=0.82, linewidth=0)
            axes.text(0, position - 0.24, f"{label}: {significant(value, 3)}", ha="left", va="bottom", fontsize=10.5)
        axes.set_ylim(1.3, -0.75)
        axes.set_xlim(0, reach * 1.02)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("scaled units (the whole range is 1)")
        return inline(figure, name, title, description)
