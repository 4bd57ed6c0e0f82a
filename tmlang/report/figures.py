"""Figures as data URIs, the same bytes for the same numbers (the only module that imports matplotlib).

Colours are chosen to be told apart by people who see few of them, and to stand on light and dark pages alike.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imsave
from numpy.typing import NDArray

from tmlang.report.failures import Pictures

_INK = "#7a7f87"
_LINE = "#2f7fc1"
_PROVED = "#2a9d6f"
_NOISE = np.array([[0.70, 0.09, 0.17], [1.0, 1.0, 1.0], [0.13, 0.40, 0.67]])
"""Signed differences: blue below, white at none, red above (ColorBrewer RdBu)."""

_STYLE: Any = {
    "svg.hashsalt": "tmlang",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def survival_plot(points: Sequence[tuple[str, float, float]], proved: float | None) -> str:
    """Survival after each attack in order: (label, low, high) in shares; a dashed line for what is proved."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 2.3))
        axes = figure.subplots()
        at = list(range(len(points)))
        low, high = ([100 * p[i] for p in points] for i in (1, 2))
        axes.fill_between(at, low, high, step="post", color=_LINE, alpha=0.25, linewidth=0)
        axes.step(at, high, where="post", color=_LINE, linewidth=1.8)
        axes.plot(at, high, "o", color=_LINE, markersize=4)
        for x, y in zip(at, high, strict=True):
            axes.annotate(f"{y:.1f}", (x, y), (4, 5), textcoords="offset points", color=_INK)
        if proved is not None:
            axes.axhline(100 * proved, color=_PROVED, linestyle="--", linewidth=1.4)
            axes.annotate(f"proved: {100 * proved:.1f}", (-0.25, 100 * proved), (0, -11), textcoords="offset points",
                          color=_PROVED)  # fmt: skip
        axes.set_ylim(0, 112)
        axes.set_xlim(-0.3, len(points) - 0.6)
        axes.set_xticks(at, ["before"] + [p[0] for p in points[1:]])
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.set_ylabel("survival, %")
        return _svg(figure)


def sweep_plot(parameter: str, points: Sequence[tuple[float, float | None, float | None]]) -> str:
    """Closed survival and closed certified share over a parameter: (value, survival, certified), in shares."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 2.3))
        axes = figure.subplots()
        lines = (("survival", 1, _LINE, "-o", (0, 6)), ("certified", 2, _PROVED, "--s", (0, 6)))
        for label, i, colour, style, offset in lines:
            found = [(p[0], 100 * share) for p in points if (share := p[i]) is not None]
            if found:
                axes.plot(*zip(*found, strict=True), style, color=colour, markersize=4, linewidth=1.6)
                axes.annotate(label, found[0], offset, textcoords="offset points", color=colour)
        axes.set_ylim(0, 112)
        axes.set_yticks([0, 25, 50, 75, 100])
        axes.set_xlabel(parameter)
        axes.set_ylabel("% of the count")
        return _svg(figure)


def _svg(figure: Figure) -> str:
    figure.tight_layout()
    out = io.BytesIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(out.getvalue()).decode()


def picture_uris(pictures: Pictures) -> tuple[str, str, str]:
    """Original, changed input and signed difference as PNG, one pixel per pixel."""
    return _png(pictures.original), _png(pictures.changed), _png(_signed(pictures.difference))


def _signed(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """A flat difference in two colours; one of three channels around grey, channel by channel."""
    if difference.ndim == 3:
        return difference / 2 + 0.5
    weight = difference[..., None]
    end = np.where(weight > 0, _NOISE[0], _NOISE[2])
    shaded: NDArray[np.float64] = _NOISE[1] * (1 - np.abs(weight)) + end * np.abs(weight)
    return shaded


def _png(array: NDArray[np.float64]) -> str:
    out = io.BytesIO()
    options: Any = {"cmap": "gray", "vmin": 0.0, "vmax": 1.0} if array.ndim == 2 else {}
    # Without this a PNG names the version of matplotlib, and the page would change with it.
    options["metadata"] = {"Software": None}
    imsave(out, np.clip(array, 0.0, 1.0), format="png", **options)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
