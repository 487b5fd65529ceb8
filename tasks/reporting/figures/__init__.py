"""Figures of the reports as SVG that can stand inside a page, a module for each subject."""

from tasks.reporting.figures.attacks import densities, epsilons, overlap, risks, roc
from tasks.reporting.figures.columns import MOST_BARS, column_fidelity
from tasks.reporting.figures.frame import COLOURS, HAIR, INK, MUTED, inline, panel, short_name
from tasks.reporting.figures.maps import correlations, projection
from tasks.reporting.figures.noise import noise_size
from tasks.reporting.figures.small import category_bars, histogram_steps
from tasks.reporting.figures.usefulness import accuracies, sweep_accuracy, sweep_attack

_panel, _inline = panel, inline

__all__ = [
    "COLOURS",
    "HAIR",
    "INK",
    "MOST_BARS",
    "MUTED",
    "accuracies",
    "category_bars",
    "column_fidelity",
    "correlations",
    "densities",
    "epsilons",
    "histogram_steps",
    "inline",
    "noise_size",
    "overlap",
    "panel",
    "projection",
    "risks",
    "roc",
    "short_name",
    "sweep_accuracy",
    "sweep_attack",
]
