"""Numbers along a line: over the radius, over the work that was spent, over the distance."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tmlang.audit.record import Record
from tmlang.meaning.threats import Ball, Threat
from tmlang.report.figures.style import BROKEN, INK, LINE, PROVED, canvas, percent_axis
from tmlang.report.material import Material, NothingToShow
from tmlang.report.numbers import qualified, rests_on


def radius_curve(m: Material) -> tuple[Figure, str]:
    """Closed survival above, closed certified share below; R lies in the band between them."""
    assert m.sweep is not None
    rows = m.sweep.rows
    figure, axes = canvas()
    both = [(r.at, *(100 * e for e in r.ends if e is not None)) for r in rows if None not in r.ends]
    if len(both) > 1:
        at, above, below = zip(*both, strict=True)
        axes.fill_between(at, below, above, color=LINE, alpha=0.13, linewidth=0, label="R lies here")
    certified = f"certified ({m.sweep.rests_on})" if m.sweep.rests_on else "certified"
    for name, i, colour, style in (("survival", 0, LINE, "-o"), (certified, 1, PROVED, "--s")):
        found = [(r.at, 100 * share) for r in rows if (share := r.ends[i]) is not None]
        if found:
            axes.plot(*zip(*found, strict=True), style, color=colour, markersize=4, linewidth=1.6, label=name)
    percent_axis(axes)
    axes.set_xlabel(m.sweep.parameter)
    axes.set_ylabel("% of the count")
    axes.legend(loc="best")
    rests = f"; what is certified rests on: {m.sweep.rests_on}" if m.sweep.rests_on else ""
    return figure, f"closed curves over {m.sweep.parameter}: {len(rows)} values{rests}"


def survival_curve(m: Material) -> tuple[Figure, str]:
    """Survival of the units that were right, against the forwarded rows per unit that it took to break each."""
    k = m.columns.counts
    spent = [effort for r in m.witnesses() if r.within_access is not False and (effort := _spent(m, r))]
    if not k.denominator:
        raise NothingToShow("no unit is left to count")
    figure, axes = canvas()
    steps = sorted(spent)
    standing = [100 * (k.cc + k.cu - i) / k.denominator for i in range(len(steps) + 1)]
    most = max(2, *(x.queries for x in m.view.examples), *steps)
    axes.step([1, *steps, most], [*standing, standing[-1]], where="post", color=LINE, linewidth=1.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    certified = m.columns.get("certified")
    if certified is not None and certified.low is not None:
        axes.axhline(100 * float(certified.low), color=PROVED, linestyle="--", linewidth=1.3)
        axes.annotate(
            qualified("proved", certified),
            (1, 100 * float(certified.low)),
            (2, -11),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=PROVED,
            ha="right",
        )
    percent_axis(axes)
    axes.set_xlabel("queries per unit, over all stages in order")
    axes.set_ylabel("survival, %")
    within = f"; half of them within {steps[(len(steps) - 1) // 2]} queries" if steps else ""
    rests = f"; what is proved rests on: {words}" if (words := rests_on(certified)) else ""
    return figure, f"{len(steps)} units broken{within}{rests}"


def _spent(m: Material, witness: Record) -> int:
    """Queries of the unit up to its failing input: those of the stages before, and the witness's own."""
    total = 0
    for s in m.evaluation.stages:
        rows = [r for r in m.of_stage(s.label) if r.unit == witness.unit]
        if witness in rows:
            return total + witness.queries
        total += max((r.queries for r in rows), default=0)
    return total


def distances(m: Material) -> tuple[Figure, str]:
    """The share of broken units whose failing input lies within a distance, against the allowed radius."""
    found = sorted(x.distance for x in m.view.examples if x.distance is not None)
    if not found:
        raise NothingToShow("no failing input was found, so there is no distance")
    figure, axes = canvas()
    assert isinstance(m.subject, Threat)
    allow = m.subject.allow
    said, end = "the nearest failing inputs found", found[-1] or 1.0
    if isinstance(allow, Ball) and allow.radius is not None:
        radius = float(allow.radius + allow.tolerance)
        axes.axvline(radius, color=INK, linestyle="--", linewidth=1.3)
        axes.annotate("the budget", (radius, 1), (0, 3), xycoords=("data", "axes fraction"),
                      textcoords="offset points", ha="center", va="bottom", color=INK)  # fmt: skip
        end = max(radius, end)
        near = sum(d >= 0.99 * radius for d in found)
        said = f"{near} of {len(found)} lie within 1 % of the budget"
    axes.hist(found, bins=np.linspace(0, end, 41).tolist(), color=BROKEN, edgecolor="white")
    axes.set_xlim(0, end * 1.06)
    axes.set_ylabel("failing inputs")
    norm = m.subject.minimize[0] if m.subject.minimize else allow.norm if isinstance(allow, Ball) else "distance"
    axes.set_xlabel(f"{norm} from the original, in the space's units")
    return figure, said
