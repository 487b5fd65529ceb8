"""The common frame of all figures: one style, text that stays text, and SVG that can stand inside a page.

Each figure is one panel, so that a page can set panels side by side on a desk and below each other on a phone, with
the same legible text. Colours differ in lightness, and shape or label always says the same as colour does.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from schemas.measures import TrainedOn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, HAIR = "#1d2329", "#57606a", "#d5dae0"
COLOURS: dict[TrainedOn, str] = {"real": "#525b66", "noise-added": "#b3541e", "fabricated": "#0b6b72"}
DASHES: dict[TrainedOn, Any] = {"real": (0, (1, 1.2)), "noise-added": (0, (5, 2)), "fabricated": "solid"}
MARKS: dict[TrainedOn, str] = {"real": "s", "noise-added": "^", "fabricated": "o"}
WIDTH = 4.6
"""Inches; a phone shows them at about their size."""
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


def plain(text: str) -> str:
    """Text on one line, without control characters, which SVG does not allow."""
    return " ".join(_CONTROL.sub(" ", text).split())


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """A column's name on one line, with its middle left out where it is long."""
    name = plain(name) or "(no name)"
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2]}…{name[-(longest - longest // 2 - 1) :]}"


@contextmanager
def panel(height: float, width: float = WIDTH) -> Iterator[tuple["Figure", "Axes"]]:
    """A figure under the common style, drawn without any global figure; sizes in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # a reader's own settings must not change the bytes
        matplotlib.rcParams.update(_STYLE)
        # Text is drawn by the reader's browser, which has other fonts than the one that measures it here.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def inline(figure: "Figure", name: str, title: str, description: str) -> Markup:
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
                value = value.replace("\n", "") if value.startswith("data:") else value.replace("#", f"#{name}-")
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
