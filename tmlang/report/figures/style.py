"""How figures look: colours that people who see few of them can tell apart, the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Collection
from math import ceil, floor
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

INK, LINE, PROVED, BROKEN, STANDING, OPEN, OTHER = (
    "#565d66", "#1f5f99", "#2a9d6f", "#cf4456", "#b9c2cc", "#d0b23c", "#8a6aa6",
)  # fmt: skip
FAINT = "#e4e7ea"
FATE_COLOURS = {
    "proved": PROVED, "assumed": "#8fcfb4", "trusted": "#6fb3c4", "granted": "#8fcfb4", "standing": STANDING,
    "open": OPEN, "broken": BROKEN, "beyond": "#e59aa4", "unknown": "#7d838a",
    "wrong": OTHER, "rejected": "#c4aed6", "left": "#e6e8ea", "right": PROVED, "fallen": BROKEN, "turned": OTHER,
    "missing": OPEN,
    "drawn": STANDING, "violated": BROKEN, "holds": PROVED, "undecided": OPEN,
}  # fmt: skip
"""A colour for every outcome of ``report.examples.FATES``."""
SIGNED = LinearSegmentedColormap.from_list("signed", ["#2166ac", "#ffffff", "#b2182b"])
"""Signed differences: blue below, white at none, red above (ColorBrewer RdBu)."""
SIZE = LinearSegmentedColormap.from_list("size", ["#ffffff", "#1f5f99", "#0b2340"])

STYLE: Any = {
    "svg.hashsalt": "tmlang",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "figure.facecolor": "white",
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def canvas(width: float = 6.4, height: float = 2.8) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def bins(values: Collection[float]) -> list[float]:
    """Edges of about 40 bins over the values, 0 among them: no bar holds values of both signs."""
    low, high = min(0.0, *values), max(0.0, *values)
    step = (high - low) / 40 or 1.0
    first = floor(low / step)
    return [step * k for k in range(first, max(ceil(high / step), first + 1) + 1)]


def percent_axis(axes: Axes) -> None:
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def svg(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def png(figure: Figure) -> bytes:
    """At 144 dots per inch; without the entry that names the version of matplotlib."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=144, metadata={"Software": None})
    return out.getvalue()
