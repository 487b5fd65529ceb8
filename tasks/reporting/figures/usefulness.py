"""Figures of what the data are good for: accuracies, and what they would be at other epsilons."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from schemas.measures import Interval
from schemas.spec import ClassifierName
from schemas.sweep import Sweep
from schemas.utility import ClassifierComparison, ClassifierResult
from tasks.reporting.figures.frame import COLOURS, HAIR, INK, MUTED, inline, panel
from tasks.reporting.names import CLASSIFIERS
from tasks.reporting.numbers import significant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES: dict[ClassifierName, tuple[str, str, str]] = {
    "kahm": ("#0b6b72", "o", "solid"),
    "nearest-neighbour": ("#b3541e", "^", "dashed"),
    "logistic": ("#525b66", "s", "dotted"),
    "gradient-boosting": ("#6b3fa0", "D", "dashdot"),
}
"""Colour, mark and dash of each classifier."""


def accuracies(comparison: ClassifierComparison, name: str, title: str, description: str) -> Markup | None:
    """Accuracy bars with intervals, grouped by classifier, with the majority line; `None` without results."""
    groups: dict[ClassifierName, list[ClassifierResult]] = {}
    for result in comparison.results:
        groups.setdefault(result.name, []).append(result)
    if not groups:
        return None
    assert comparison.majority_accuracy is not None  # since there are results
    rows = len(comparison.results) + 0.9 * len(groups)
    with panel(0.9 + 0.27 * rows) as (figure, axes):
        position = 0.0
        ticks: list[tuple[float, str]] = []
        for classifier, results in groups.items():
            axes.text(0, position, CLASSIFIERS[classifier], ha="left", va="center", fontweight="bold", fontsize=10.5)
            position += 0.9
            axes.vlines(
                100 * comparison.majority_accuracy,
                position - 0.45,
                position + len(results) - 0.55,
                color=INK,
                linewidth=1.3,
                linestyle=(0, (2, 1.6)),
            )
            for result in results:
                accuracy = result.accuracy
                colour = COLOURS[result.trained_on]
                axes.barh(position, 100 * accuracy.estimate, height=0.66, color=colour, alpha=0.82, linewidth=0)
                axes.plot([100 * accuracy.lower, 100 * accuracy.upper], [position] * 2, color=INK, linewidth=1.4)
                for end in (accuracy.lower, accuracy.upper):
                    axes.plot([100 * end] * 2, [position - 0.2, position + 0.2], color=INK, linewidth=1.4)
                ticks.append((position, result.trained_on))
                position += 1
        axes.set_ylim(position - 0.4, -0.6)
        axes.set_xlim(0, 104)
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.set_yticks([t for t, _ in ticks], [label for _, label in ticks])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("control rows classified rightly, %\n(dashed: always the largest class)")
        return inline(figure, name, title, description)


def _epsilon_axis(axes: "Axes", values: Iterable[float]) -> None:
    """A logarithmic axis of epsilons, with the values themselves as marks as far as there is room."""
    epsilons = sorted(set(values))
    axes.set_xscale("log")
    shown = epsilons[:: max(1, -(-len(epsilons) // 7))]
    axes.set_xticks(shown, [significant(epsilon, 3) for epsilon in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlim(epsilons[0] / 1.15, epsilons[-1] * 1.15)
    axes.grid(color=HAIR, linewidth=0.7)
    axes.set_axisbelow(True)


def _line(
    axes: "Axes", epsilons: list[float], values: list[Interval], style: tuple[str, str, str], label: str, scale: float
) -> None:
    colour, mark, dash = style
    axes.vlines(epsilons, [scale * v.lower for v in values], [scale * v.upper for v in values], color=colour, alpha=0.5)
    axes.plot(
        epsilons,
        [scale * v.estimate for v in values],
        color=colour,
        marker=mark,
        linestyle=dash,
        linewidth=1.8,
        markersize=5.5,
        label=label,
    )


def sweep_accuracy(sweep: Sweep, name: str, title: str, description: str) -> Markup | None:
    """Accuracy on control rows over epsilon, beside learning from real rows and the largest class."""
    points = sorted((p for p in sweep.points if p.epsilon > 0), key=lambda p: p.epsilon)
    if not any(p.accuracy for p in points):
        return None
    with panel(3.7) as (figure, axes):
        for classifier, style in _LINES.items():
            own = [(p.epsilon, p.accuracy[classifier]) for p in points if classifier in p.accuracy]
            if own:
                _line(axes, [e for e, _ in own], [v for _, v in own], style, CLASSIFIERS[classifier], 100)
        axes.axhline(
            100 * sweep.majority_accuracy, color=INK, linewidth=1.3, linestyle=(0, (2, 1.6)), label="largest class"
        )
        if sweep.real_accuracy:
            best = max(v.estimate for v in sweep.real_accuracy.values())
            axes.axhline(100 * best, color=MUTED, linewidth=1.3, label="best on real rows")
        _epsilon_axis(axes, (p.epsilon for p in points))
        axes.set_ylim(0, 104)
        axes.set_ylabel("classified rightly, %")
        axes.set_xlabel(f"epsilon of one {'cell' if sweep.unit == 'element' else 'row'}")
        figure.legend(loc="outside upper left", ncols=2, handlelength=2.6, columnspacing=1.4)
        return inline(figure, name, title, description)


def sweep_attack(sweep: Sweep, name: str, title: str, description: str) -> Markup | None:
    """Area of the strongest attack over epsilon, beside a coin toss."""
    points = sorted((p for p in sweep.points if p.epsilon > 0), key=lambda p: p.epsilon)
    if not points:
        return None
    with panel(3.7) as (figure, axes):
        values = [p.attack_auc for p in points]
        style = (COLOURS["fabricated"], "o", "solid")
        _line(axes, [p.epsilon for p in points], values, style, "strongest attack", 1)
        axes.axhline(0.5, color=INK, linewidth=1.3, linestyle=(0, (2, 1.6)), label="coin toss")
        _epsilon_axis(axes, (p.epsilon for p in points))
        ends = [end for v in values for end in (v.lower, v.upper)]
        axes.set_ylim(min(0.4, float(np.min(ends)) - 0.02), max(0.7, float(np.max(ends)) + 0.02))
        axes.set_ylabel("area under the ROC curve")
        axes.set_xlabel(f"epsilon of one {'cell' if sweep.unit == 'element' else 'row'}")
        figure.legend(loc="outside upper left", ncols=2, handlelength=2.6, columnspacing=1.4)
        return inline(figure, name, title, description)
