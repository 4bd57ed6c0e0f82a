"""Margins that were measured: at the originals, and at the failing inputs that searches found."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure

from tmlang.audit.record import CLEAN_STAGE
from tmlang.audit.units import stage_label
from tmlang.report.examples import FATES
from tmlang.report.figures.style import BROKEN, FATE_COLOURS, INK, bins
from tmlang.report.material import Material, NothingToShow


def measured_margins(m: Material) -> tuple[Figure, str]:
    """Above the margins of all originals by what became of them, below those of the failing inputs of broken units."""
    clean = [r for r in m.records if stage_label(m.evaluation, r) == CLEAN_STAGE]
    first = {r.example: r for r in clean}
    before = {r.unit: r.margin for r in first.values() if r.margin is not None}
    after = {r.unit: r.margin for r in m.witnesses() if r.margin is not None}
    if not before or not after:
        raise NothingToShow("no failing input was found, so there is no margin after an attack")
    figure = Figure(figsize=(6.8, 3.6), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    edges = bins([*before.values(), *after.values()])
    fates = m.fates()
    kept = [f for f in FATES if any(fates.get(u) == f for u in before)]
    values = [[v for u, v in before.items() if fates.get(u) == f] for f in kept]
    top.hist(values, bins=edges, stacked=True, color=[FATE_COLOURS[f] for f in kept],
             label=[FATES[f] for f in kept])  # fmt: skip
    top.set_ylabel("originals")
    top.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    below.hist(list(after.values()), bins=edges, color=BROKEN)
    below.set_ylabel("failing inputs")
    below.set_xlabel("score of the label less the greatest of the others; below 0 another class is decided")
    for axes in (top, below):
        axes.axvline(0, color=INK, linestyle="--", linewidth=1.0)
    broken = [r.margin for r in clean if r.unit in after and r.margin is not None]
    return figure, _said(list(before.values()), broken, list(after.values()))


def _said(before: Sequence[float], broken: Sequence[float], after: Sequence[float]) -> str:
    said = f"{len(after)} broken units: median margin {_middle(broken)} before any change (of all {len(before)}: "
    return f"{said}{_middle(before)}), {_middle(after)} at the failing input"


def _middle(values: Sequence[float]) -> str:
    return f"{median(values):.3g}" if values else "—"
