"""What certificates say: proved margins, by unit and as a whole."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tmlang.report.examples import FATES
from tmlang.report.figures.bounds import around_zero, class_margins
from tmlang.report.figures.style import BROKEN, FATE_COLOURS, INK, OTHER, PROVED, SIGNED, STANDING, bins, canvas
from tmlang.report.material import Material, NothingToShow


def _proved(m: Material) -> dict[str, dict[str, float]]:
    """Margins of units by certifier."""
    found = {
        s.label: {r.unit: r.margin for r in m.of_stage(s.label) if r.margin is not None and r.verdict is not None}
        for s in m.evaluation.stages
        if s.role == "certify"
    }
    found = {label: margins for label, margins in found.items() if margins}
    if not found:
        raise NothingToShow("no certifier stated a margin")
    return found


def margins(m: Material) -> tuple[Figure, str]:
    """How far each proof reaches beyond its gap, or falls short of it; units by what became of them."""
    (label, found), *_ = _proved(m).items()
    fates = m.fates()
    kinds = (
        ("proved", PROVED),
        ("assumed", FATE_COLOURS["assumed"]),
        ("trusted", FATE_COLOURS["trusted"]),
        ("standing", STANDING),
        ("broken", BROKEN),
        ("other", OTHER),
    )
    told = {name for name, _ in kinds}
    named = {u: fate if (fate := fates.get(u)) in told else "other" for u in found}
    values = [[v for u, v in found.items() if named[u] == fate] for fate, _ in kinds]
    figure, axes = canvas()
    edges = bins(found.values())
    names = [FATES[f] for f, _ in kinds[:-1]] + ["otherwise open"]
    kept = [(v, name, c) for v, name, (_, c) in zip(values, names, kinds, strict=True) if v]
    axes.hist([v for v, _, _ in kept], bins=edges, stacked=True, color=[c for _, _, c in kept],
              label=[name for _, name, _ in kept])  # fmt: skip
    gaps = {r.gap for r in m.of_stage(label) if r.gap is not None}
    axes.axvline(max(gaps, default=0.0), color=INK, linestyle="--", linewidth=1.2)
    axes.set_xlabel(f"margin that {label} proves (dashed: what it must exceed)")
    axes.set_ylabel("units")
    axes.legend(loc="best")
    beyond = sum(v > max(gaps, default=0.0) for v in found.values())
    return figure, f"{beyond} of {len(found)} margins lie beyond the gap to the object's arithmetic"


def margin_heatmap(m: Material) -> tuple[Figure, str]:
    """Over every class where these margins are proved; else one cell per unit and certifier."""
    return class_margins(m) or _by_stage(m)


def _by_stage(m: Material) -> tuple[Figure, str]:
    """Units in the order of their greatest margin."""
    found = _proved(m)
    units = sorted({u for margins in found.values() for u in margins}, key=lambda u: _best(found, u), reverse=True)
    grid = np.array([[margins.get(u, np.nan) for u in units] for margins in found.values()])
    figure, axes = canvas(6.8, 1.1 + 0.5 * len(found))
    shown = axes.imshow(grid, aspect="auto", cmap=SIGNED.reversed(), norm=around_zero(grid), interpolation="nearest")
    axes.set_yticks(range(len(found)), list(found))
    axes.set_xlabel(f"{len(units)} units by their proved margin")
    figure.colorbar(shown, ax=axes, label="margin", pad=0.02, extend="both")
    return figure, "blue: proved by that margin; red: the proof falls short by as much"


def _best(found: dict[str, dict[str, float]], unit: str) -> float:
    return max(margins[unit] for margins in found.values() if unit in margins)
