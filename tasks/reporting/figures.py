"""Figures of the audit report as SVG that can stand inside a page.

Each figure is one panel of one size, so that a page can set panels side by side on a desk and below each other on a
phone, with the same legible text. Text stays text. Colours differ in lightness, and shape or label always says the
same as colour does.
"""

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup

from schemas.audit import ClassifierComparison, ClassifierResult, ColumnUtility, MembershipAttack, TrainedOn
from tasks.reporting.numbers import significant
from tasks.reporting.words import CLASSIFIERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, HAIR = "#1d2329", "#57606a", "#d5dae0"
COLOURS: dict[TrainedOn, str] = {"real": "#525b66", "noise-added": "#b3541e", "fabricated": "#0b6b72"}
_DASHES: dict[TrainedOn, Any] = {"real": (0, (1, 1.2)), "noise-added": (0, (5, 2)), "fabricated": "solid"}
_WIDTH = 4.6
MOST_BARS = 40
_LONGEST_NAME = 22
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]+")

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fabrica",
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "font.family": ["DejaVu Sans"],
    "font.size": 10.5,
    "axes.labelsize": 10.5,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "path.simplify": True,
}


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """A column's name on one line, with its middle left out where it is long."""
    name = " ".join(_CONTROL.sub(" ", name).split()) or "(no name)"
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2]}…{name[-(longest - longest // 2 - 1) :]}"


@contextmanager
def _panel(height: float) -> Iterator[tuple["Figure", "Axes"]]:
    """A figure of the common width under the common style, drawn without any global figure."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # a reader's own settings must not change the bytes
        matplotlib.rcParams.update(_STYLE)
        # Text is drawn by the reader's browser, which has other fonts than the one that measures it here.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        yield figure, figure.add_subplot()


def _inline(figure: "Figure", name: str, title: str, description: str) -> Markup:
    """The figure as one `<svg>` with a text alternative and with ids that no other figure of the page has."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        element.attrib.clear()
        for key, value in attributes.items():
            if key == "id":
                value = f"{name}-{value}"
            elif key == "href":
                value = value.replace("#", f"#{name}-")
            elif key == "clip-path":
                value = value.replace("url(#", f"url(#{name}-")
            elif key == "style":
                value = _plain_fonts(value)
            element.set(key, value)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "style"):
                parent.remove(child)
    for key in ("width", "height", "version", "id"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        element.text = _CONTROL.sub(" ", text)
        root.insert(position, element)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _plain_fonts(style: str) -> str:
    """Keep the size of a text and leave its font to the page."""
    rules = []
    for rule in filter(None, (part.strip() for part in style.split(";"))):
        key, _, value = rule.partition(":")
        if key.strip() == "font":
            size = re.search(r"[\d.]+px", value)
            rules.append(f"font-size: {size.group() if size else '10px'}")
        elif key.strip() != "font-family":
            rules.append(rule)
    return "; ".join(rules)


def densities(attack: MembershipAttack, name: str, title: str, description: str) -> Markup | None:
    """Densities of the distances of members and control rows; `None` if the report holds none."""
    density = attack.density
    if len(density.grid) < 2 or not len(density.grid) == len(density.members) == len(density.controls):
        return None
    colour = COLOURS[attack.trained_on]
    with _panel(2.7) as (figure, axes):
        axes.fill_between(density.grid, density.members, color=colour, alpha=0.18, linewidth=0)
        axes.plot(density.grid, density.members, color=colour, linewidth=2, label="members")
        axes.plot(density.grid, density.controls, color=INK, linewidth=1.6, linestyle=(0, (4, 2)), label="control rows")
        axes.set_xlim(density.grid[0], density.grid[-1])
        axes.set_ylim(0, 1.18 * max(*density.members, *density.controls, 1e-12))
        axes.set_yticks([])
        axes.set_ylabel("density")
        axes.set_xlabel("distance to the nearest class")
        axes.spines["left"].set_visible(False)
        axes.legend(loc="upper right", handlelength=2.2)
        return _inline(figure, name, title, description)


def roc(attacks: Sequence[MembershipAttack], name: str, title: str, description: str) -> Markup | None:
    """ROC curves of all attacks in one panel; `None` if the report holds none."""
    curves = [a for a in attacks if a.roc_false_positive_rate and a.roc_true_positive_rate]
    if not curves:
        return None
    with _panel(4.0) as (figure, axes):
        axes.plot([0, 100], [0, 100], color=MUTED, linewidth=0.9, label="(coin toss)")
        for attack in curves:
            axes.plot(
                [0.0, *(100 * rate for rate in attack.roc_false_positive_rate)],
                [0.0, *(100 * rate for rate in attack.roc_true_positive_rate)],
                color=COLOURS[attack.trained_on],
                linestyle=_DASHES[attack.trained_on],
                linewidth=2.2,
                label=attack.trained_on,
            )
        axes.set_xlim(-1, 101)
        axes.set_ylim(-1, 101)
        axes.set_aspect("equal")
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.grid(color=HAIR, linewidth=0.7)
        axes.set_xlabel("control rows wrongly accused, %")
        axes.set_ylabel("members found, %")
        axes.legend(
            loc="lower right", handlelength=2.6, title="trained on", frameon=True, edgecolor="none", framealpha=0.9
        )
        return _inline(figure, name, title, description)


def accuracies(comparison: ClassifierComparison, name: str, title: str, description: str) -> Markup | None:
    """Accuracy bars with intervals, grouped by classifier, with the majority line; `None` without results."""
    groups: dict[str, list[ClassifierResult]] = {}
    for result in comparison.results:
        groups.setdefault(result.name, []).append(result)
    if not groups:
        return None
    rows = len(comparison.results) + 0.9 * len(groups)
    with _panel(0.9 + 0.27 * rows) as (figure, axes):
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
        return _inline(figure, name, title, description)


def column_fidelity(columns: Sequence[ColumnUtility], name: str, title: str, description: str) -> Markup | None:
    """Kolmogorov-Smirnov distance of every column, worst first; a histogram where there are many."""
    if not columns:
        return None
    distances = [(c.kolmogorov_smirnov, c) for c in columns if c.kolmogorov_smirnov is not None]
    distances.sort(key=lambda pair: -pair[0])
    values, worst_first = [distance for distance, _ in distances], [column for _, column in distances]
    colour = COLOURS["fabricated"]
    many = len(columns) > MOST_BARS
    with _panel(2.9 if many else 0.85 + 0.235 * len(columns)) as (figure, axes):
        if many:
            axes.hist(values, bins=list(np.linspace(0, 1, 41)), color=colour, alpha=0.82, linewidth=0)
            axes.set_ylabel("number of columns")
            axes.locator_params(axis="y", integer=True)
        else:
            axes.barh(range(len(values)), values, height=0.66, color=colour, alpha=0.82, linewidth=0)
            axes.set_yticks(range(len(values)), [short_name(c.name) for c in worst_first])
            axes.tick_params(axis="y", length=0)
            axes.set_ylim(len(values) - 0.45, -0.55)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", color=HAIR, linewidth=0.7)
            axes.set_axisbelow(True)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set_xlabel("Kolmogorov-Smirnov distance")
        return _inline(figure, name, title, description)


def noise_size(expected_magnitude: float, name: str, title: str, description: str) -> Markup:
    """Expected size of the noise on a cell beside a column's whole range."""
    with _panel(1.75) as (figure, axes):
        bars = [
            ("whole range of a column", 1.0, COLOURS["real"]),
            ("noise on a cell, on average", expected_magnitude, COLOURS["noise-added"]),
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
        return _inline(figure, name, title, description)


def overlap(attack: MembershipAttack) -> float | None:
    """Share of area that the two densities have in common, from the report's grid."""
    density = attack.density
    if len(density.grid) < 2 or not len(density.grid) == len(density.members) == len(density.controls):
        return None
    members, controls = np.asarray(density.members), np.asarray(density.controls)
    areas = [float(np.trapezoid(curve, density.grid)) for curve in (np.minimum(members, controls), members, controls)]
    share = 2 * areas[0] / (areas[1] + areas[2]) if areas[1] + areas[2] > 0 else math.nan
    return min(1.0, share) if math.isfinite(share) else None
