"""What certificates prove of every output: its bounds over all units, of single units, and how wide they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tmlang.audit.outputs import OutputBounds
from tmlang.audit.record import Record
from tmlang.meaning.threats import Property
from tmlang.report.figures.style import FAINT, INK, LINE, OPEN, OTHER, PROVED, SIGNED, SIZE, STANDING, canvas
from tmlang.report.material import Array, Material, NothingToShow

_NAMES = 24
"""Classes beyond which not every one is named on an axis."""
_STAGES = (LINE, OTHER, OPEN)


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """Of one unit and stage: the class of the label, the row, and its bounds."""

    label: int
    row: Record
    bounds: OutputBounds


def bounded(m: Material) -> dict[str, dict[str, Bounded]]:
    """Stage -> unit -> bounds, of a union those of all its branches together. Raises :class:`NothingToShow`."""
    if found := _found(m):
        return found
    raise NothingToShow("no stage proved bounds of the outputs")


def _found(m: Material) -> dict[str, dict[str, Bounded]]:
    found: dict[str, dict[str, Bounded]] = {}
    for s in m.evaluation.stages:
        for row in m.of_stage(s.label):
            if row.outputs is not None and row.repeat == 0:
                one, of_stage = m.bundle.outputs(row.outputs), found.setdefault(s.label, {})
                other = of_stage.get(row.unit)
                of_stage[row.unit] = Bounded(row.label, row, one if other is None else _both(one, other.bounds))
    return found


def _both(one: OutputBounds, other: OutputBounds) -> OutputBounds:
    ends = {k: np.minimum(getattr(one, k), getattr(other, k)) for k in ("lower", "least")}
    ends |= {k: np.maximum(getattr(one, k), getattr(other, k)) for k in ("greatest", "upper")}
    if one.margins is not None and other.margins is not None:
        ends["margins"] = np.minimum(one.margins, other.margins)
    return OutputBounds(**ends)


def first_stage(m: Material) -> tuple[dict[str, Bounded], str]:
    """The units of the first stage that bounds outputs, and how to tell it from others."""
    (label, found), *others = bounded(m).items()
    return found, f" by {label}" if others else ""


def output_bounds(m: Material) -> tuple[Figure, str]:
    """Two boxes per class: its lower bound over the units that it is the label of, its upper bound over the others."""
    found, by = first_stage(m)
    classes = range(len(m.model.classes))
    own = [np.array([b.bounds.lower[k] for b in found.values() if b.label == k]) for k in classes]
    others = [np.array([b.bounds.upper[k] for b in found.values() if b.label != k]) for k in classes]
    figure, axes = canvas(7.2, 3.4)
    _boxes(axes, own, -0.19, PROVED)
    _boxes(axes, others, 0.19, STANDING)
    _name_classes(axes, m, "x")
    axes.set_ylabel("score")
    axes.set_xlabel("class; boxes: quartiles, whiskers: least and greatest")
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    handles = [Patch(color=PROVED), Patch(color=STANDING)]
    named = ["lower bound where it is the label", "upper bound where it is not"]
    axes.legend(handles, named, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    low, high = (float(np.median(np.concatenate(side))) for side in (own, others))
    says = f"{len(found)} units{by}: over all classes the median lower bound of the label is {low:.3g}"
    return figure, f"{says}, and the median upper bound of the other classes is {high:.3g}"


def _boxes(axes: Axes, values: Sequence[Array], shift: float, colour: str) -> None:
    at = [k for k, v in enumerate(values) if len(v)]
    axes.boxplot(
        [values[k] for k in at], positions=[k + shift for k in at], widths=0.34, whis=(0, 100), patch_artist=True,
        manage_ticks=False, boxprops={"facecolor": colour, "edgecolor": INK, "linewidth": 0.6},
        medianprops={"color": INK}, whiskerprops={"color": INK, "linewidth": 0.8},
        capprops={"color": INK, "linewidth": 0.8},
    )  # fmt: skip


def _name_classes(axes: Axes, m: Material, side: str) -> None:
    """Every class on an axis, or as many as can be read."""
    names = m.model.classes
    shown = range(0, len(names), -(-len(names) // _NAMES))
    texts = [names[k][:10] for k in shown]
    if side == "x":
        axes.set_xticks(list(shown), texts)
        if sum(map(len, texts)) > 60:
            axes.tick_params(axis="x", rotation=90)
        axes.set_xlim(-0.6, len(names) - 0.4)
    else:
        axes.set_yticks(list(shown), texts)


def pinned_intervals(m: Material) -> tuple[Figure, str]:
    """Of up to three units the interval of every score by every stage, and within it what inputs were seen to give."""
    found = bounded(m)
    units, labelled = _pinned(m, next(iter(found.values()))), not isinstance(m.subject, Property)
    stages = list(found)[: len(_STAGES)]
    height = 1.1 + 0.24 * min(len(m.model.classes), 40)
    figure = Figure(figsize=(max(6.4, 2.6 * len(units) + 0.9), height), layout="constrained")
    panels = figure.subplots(1, len(units), squeeze=False, sharey=True)[0]
    for axes, (unit, why) in zip(panels, units, strict=True):
        label = next(of_stage[unit].label for of_stage in found.values() if unit in of_stage)
        for j, stage in enumerate(stages):
            if unit in found[stage]:
                _intervals(axes, found[stage][unit].bounds, (j + 0.5) / len(stages) - 0.5, 0.6 / len(stages), j)
        if labelled:
            axes.axhspan(label - 0.5, label + 0.5, color=PROVED, alpha=0.16, linewidth=0, zorder=0)
        axes.set_title(f"{unit[:16]}: {why}")
        axes.set_xlabel("score")
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.use_sticky_edges = False
        axes.margins(x=0.04)
    _name_classes(panels[0], m, "y")
    panels[0].set_ylim(len(m.model.classes) - 0.5, -0.5)
    panels[0].set_ylabel("class")
    handles: list[Artist] = [Patch(color=_STAGES[j], alpha=0.45) for j in range(len(stages))]
    handles += [Line2D([], [], color=INK, linewidth=2), Patch(color=PROVED, alpha=0.16)][: 1 + labelled]
    named = [*(f"proved by {s}" for s in stages), "seen", "label"][: len(handles)]
    figure.legend(handles, named, loc="outside upper center", ncols=4)
    if not labelled:
        return figure, "what the inputs of the box give, output by output"
    said = "; ".join(f"{unit}: {why}, {_excluded(found[stages[0]].get(unit))}" for unit, why in units)
    return figure, f"{said}; others are told apart, if at all, by the bound of the difference"


def _intervals(axes: Axes, b: OutputBounds, shift: float, height: float, stage: int) -> None:
    at = np.arange(len(b.lower)) + shift
    axes.barh(at, b.upper - b.lower, height, left=b.lower, color=_STAGES[stage], alpha=0.45, linewidth=0)
    axes.hlines(at, b.least, b.greatest, color=INK, linewidth=min(2.0, 60 * height / len(at)))


def _excluded(one: Bounded | None) -> str:
    if one is None:
        return "not bounded"
    below = np.delete(one.bounds.upper, one.label) < one.bounds.lower[one.label]
    return f"{int(below.sum())} of {len(below)} other classes lie wholly below the label"


def _pinned(m: Material, found: Mapping[str, Bounded]) -> list[tuple[str, str]]:
    """The units worth a look: proved most narrowly, nearest to a proof among those that stand, nearest among the
    broken."""
    fates = m.fates()
    kinds = (
        ("proved", "proved most narrowly", min),
        ("assumed", "proved most narrowly, its gap assumed", min),
        ("trusted", "held most narrowly by a solver that is trusted", min),
        ("standing", "nearest to a proof", max),
        ("broken", "broken", max),
    )
    picked = []
    for fate, why, nearest in kinds:
        margins = {u: b.row.margin for u, b in found.items() if fates.get(u) == fate and b.row.margin is not None}
        if margins:
            picked.append((nearest(margins, key=lambda u: (margins[u], u)), why))
    return picked or [(unit, "bounded") for unit in list(found)[:1]]


def width_heatmap(m: Material) -> tuple[Figure, str]:
    """One cell per class and unit: how far apart the bounds of its score lie, units in the order of their mean."""
    found, by = first_stage(m)
    widths = np.array([b.bounds.upper - b.bounds.lower for b in found.values()])
    reached = np.array([b.bounds.greatest - b.bounds.least for b in found.values()])
    grid = widths[np.argsort(widths.mean(axis=1), kind="stable")].T
    figure = heatmap(m, grid, SIZE, Normalize(float(grid.min()), float(grid.max())), "width")
    figure.axes[0].set_xlabel(f"{len(found)} units{by} by the mean width of their bounds")
    share = float(np.median(widths) and np.median(reached) / np.median(widths))
    return figure, f"median width {np.median(widths):.3g}, of which inputs were seen to take {100 * share:.0f} %"


def heatmap(m: Material, grid: NDArray[np.float64], colours: Colormap, norm: Normalize, says: str) -> Figure:
    """Classes down, units across."""
    figure, axes = canvas(7.2, 1.3 + 0.2 * min(len(m.model.classes), 30))
    shown = axes.imshow(grid, aspect="auto", cmap=colours, norm=norm, interpolation="nearest")
    _name_classes(axes, m, "y")
    axes.set_ylabel("class")
    beyond = bool(np.nanmax(np.abs(grid)) > (norm.vmax or 0))
    figure.colorbar(shown, ax=axes, label=says, pad=0.02, extend="both" if beyond else "neither")
    return figure


def class_margins(m: Material) -> tuple[Figure, str] | None:
    """One cell per class and unit: by how much the label's score is proved to exceed that of the class, units by their
    label. ``None`` where no stage proves these margins."""
    for stage, found in _found(m).items():
        of_units = [b for b in found.values() if b.bounds.margins is not None]
        if of_units:
            return _over_classes(m, stage, sorted(of_units, key=lambda b: (b.label, -_least(b)[0], b.row.unit)))
    return None


def _least(b: Bounded) -> tuple[float, int]:
    """The least margin over another class, and that class."""
    assert b.bounds.margins is not None
    others = np.where(np.arange(len(b.bounds.margins)) == b.label, np.inf, b.bounds.margins)
    return float(others.min()), int(others.argmin())


def _over_classes(m: Material, stage: str, units: Sequence[Bounded]) -> tuple[Figure, str]:
    grid = np.array([b.bounds.margins for b in units]).T
    grid[[b.label for b in units], range(len(units))] = np.nan
    # What matters are the margins near zero, so the least of each unit set the scale.
    scale = around_zero(np.array([_least(b)[0] for b in units]))
    figure = heatmap(m, grid, SIGNED.reversed().with_extremes(bad=FAINT), scale, f"margin by {stage}")
    axes = figure.axes[0]
    counts = Counter(b.label for b in units)
    ends = np.cumsum([counts[k] for k in sorted(counts)])
    for end in ends[:-1]:
        axes.axvline(end - 0.5, color=INK, linewidth=0.6)
    starts = [0, *ends[:-1]]
    names = [m.model.classes[k][:10] if counts[k] * 30 > len(units) else "" for k in sorted(counts)]
    axes.set_xticks([(a + b - 1) / 2 for a, b in zip(starts, ends, strict=True)], names)
    axes.set_xlabel(f"{len(units)} units by their label, then by their least margin")
    pairs = Counter((b.label, _least(b)[1]) for b in units)
    (label, other), n = max(pairs.items(), key=lambda pair: (pair[1], -pair[0][0], -pair[0][1]))
    said = f"the least margin is most often that of {m.model.classes[label]} over {m.model.classes[other]} ({n} units)"
    return figure, f"blue: proved by that margin; red: the proof falls short by as much; {said}"


def around_zero(grid: Array) -> Normalize:
    """As far on both sides of zero as all but one in twenty of the values lie."""
    top = float(np.nanquantile(np.abs(grid), 0.95)) or 1.0
    return Normalize(-top, top)
