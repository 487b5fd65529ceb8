"""The figure of how far all columns moved."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from tasks.reporting.figures.frame import COLOURS, HAIR, inline, panel, short_name

MOST_BARS = 20
"""Columns that get a bar each; more of them share a histogram."""


def column_fidelity(
    distances: Sequence[tuple[str, float]], name: str, title: str, description: str, label: str
) -> Markup | None:
    """Distance of every column, worst first; a histogram where there are many; `None` without any."""
    if not distances:
        return None
    worst_first = sorted(distances, key=lambda pair: -pair[1])
    values = [distance for _, distance in worst_first]
    colour = COLOURS["fabricated"]
    many = len(distances) > MOST_BARS
    with panel(2.9 if many else 0.85 + 0.235 * len(distances)) as (figure, axes):
        if many:
            axes.hist(values, bins=list(np.linspace(0, 1, 41)), color=colour, alpha=0.82, linewidth=0)
            axes.set_ylabel("number of columns")
            axes.locator_params(axis="y", integer=True)
        else:
            axes.barh(range(len(values)), values, height=0.66, color=colour, alpha=0.82, linewidth=0)
            axes.set_yticks(range(len(values)), [short_name(column) for column, _ in worst_first])
            axes.tick_params(axis="y", length=0)
            axes.set_ylim(len(values) - 0.45, -0.55)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", color=HAIR, linewidth=0.7)
            axes.set_axisbelow(True)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set_xlabel(label)
        return inline(figure, name, title, description)
