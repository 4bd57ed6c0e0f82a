"""What was changed: pictures, where the change lies, and the features that moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tmlang.meaning.spaces import Space
from tmlang.report.failures import as_picture
from tmlang.report.figures.style import SIGNED, SIZE
from tmlang.report.material import Array, Material, NothingToShow

_PAIRS = 4
_FEATURE_ROWS = 14


def _failing(m: Material, most: int) -> list[Any]:
    found = [r for r in m.witnesses() if r.candidate is not None][:most]
    if not found:
        raise NothingToShow("no failing input was found, so there is no change to show")
    return found


def _scaled(space: Space, values: Array) -> Array:
    low, high = min(c.low for c in space.cells), max(c.high for c in space.cells)
    return (as_picture(space, values) - float(low)) / float(high - low)


def image_pairs(m: Material) -> tuple[Figure, str]:
    """One column per broken unit: original, changed input, signed difference (summed over channels)."""
    rows = _failing(m, _PAIRS)
    pairs = [m.values(r) for r in rows]
    reach = max(float(np.abs(after - before).max()) for before, after in pairs) or 1.0
    figure = Figure(figsize=(1.75 * len(rows) + 0.7, 5.2), layout="constrained")
    axes = figure.subplots(3, len(rows), squeeze=False)
    for j, (row, (before, after)) in enumerate(zip(rows, pairs, strict=True)):
        shades: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1}
        axes[0, j].imshow(_scaled(m.space, before), **shades)
        axes[1, j].imshow(_scaled(m.space, after), **shades)
        shown = axes[2, j].imshow(
            signed_dominant(as_picture(m.space, after - before)), cmap=SIGNED, vmin=-reach, vmax=reach
        )
        example = next(x for x in m.view.examples if x.unit in (row.unit, row.example))
        axes[0, j].set_title(f"{row.unit[:18]}: {example.clean[:10]}")
        axes[1, j].set_title(f"decided {example.decision[:10]}")
    for i, what in enumerate(("original", "changed", "change")):
        axes[i, 0].set_ylabel(what)
    _bare(axes)
    # Beside all rows, so that their columns stay in line.
    figure.colorbar(shown, ax=axes, shrink=0.3, anchor=(0.0, 0.0), fraction=0.06, pad=0.02)
    return figure, f"{len(rows)} failing inputs beside their originals; red is more, blue is less, at most {reach:.3g}"


def signed_dominant(difference: Array) -> Array:
    """Of every pixel the channel that moved most, with its sign."""
    if difference.ndim == 2:
        return difference
    most = np.abs(difference).argmax(axis=2)
    taken: Array = np.take_along_axis(difference, most[..., None], axis=2)[..., 0]
    return taken


def _channels(reduce: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda difference: reduce(difference if difference.ndim == 3 else difference[..., None])


REDUCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "signed, dominant": signed_dominant,
    "mean": _channels(lambda d: d.mean(axis=2)),
    "mean absolute": _channels(lambda d: np.abs(d).mean(axis=2)),
    "max absolute": _channels(lambda d: np.abs(d).max(axis=2)),
}
"""Name -> the channels of a (height, width, channels) difference as one number per pixel."""


def perturbation_heatmap(m: Material) -> tuple[Figure, str]:
    """The mean over all failing inputs of each reduction: where attacks move pixels, and in which direction."""
    rows = _failing(m, 10_000)
    changes = [as_picture(m.space, after - before) for before, after in map(m.values, rows)]
    figure = Figure(figsize=(7.6, 2.1), layout="constrained")
    axes = figure.subplots(1, len(REDUCTIONS))
    for axis, (name, reduce) in zip(axes, REDUCTIONS.items(), strict=True):
        mean = np.mean([reduce(c) for c in changes], axis=0)
        top = float(np.abs(mean).max()) or 1.0
        signed = "absolute" not in name
        shown = axis.imshow(mean, cmap=SIGNED if signed else SIZE, vmin=-top if signed else 0, vmax=top)
        axis.set_title(name)
        figure.colorbar(shown, ax=axis, shrink=0.72, format="%.2g")
    _bare(axes)
    return figure, f"the mean change over {len(rows)} failing inputs, channels reduced in four ways"


def changed_features(m: Material) -> tuple[Figure, str]:
    """One line per feature that moved: the unit, before, after, change."""
    lines = []
    for failure in m.view.failures:
        for change in failure.changes:
            if change.after:
                lines.append((failure.unit, change.feature, change.before, change.after, change.change))
    if not lines:
        raise NothingToShow("no failing input was found, so no feature moved")
    shown = [tuple(text[:24] for text in line) for line in lines[:_FEATURE_ROWS]]
    figure = Figure(figsize=(7.2, 0.5 + 0.26 * (len(shown) + 1)), layout="constrained")
    axes = figure.subplots()
    axes.axis("off")
    heads = ("unit", "feature", "before", "after", "change")
    table = axes.table(cellText=shown, colLabels=heads, loc="center", edges="horizontal", cellLoc="left", colLoc="left")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.25)
    for cell in table.get_celld().values():
        cell.set_edgecolor("#dcdfe3")
    rest = f"; {len(lines) - len(shown)} further ones are left out" if len(lines) > len(shown) else ""
    return figure, f"{len(shown)} features that moved, in their units{rest}"


def _bare(axes: Any) -> None:
    for axis in np.ravel(axes):
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_visible(True)
        axis.spines[:].set_color("#dcdfe3")
