"""Counts of units: fates and times, overlap of attacks, rejections, corruption, coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tmlang.audit.record import CLEAN_STAGE, FAILED, Record
from tmlang.audit.units import in_real_arithmetic, is_trusted, is_witness, stage_label
from tmlang.plan.ir import Stage
from tmlang.report.examples import FATES
from tmlang.report.figures.style import (
    BROKEN,
    FATE_COLOURS,
    INK,
    LINE,
    OPEN,
    OTHER,
    PROVED,
    STANDING,
    canvas,
    percent_axis,
)
from tmlang.report.material import Material, NothingToShow

Parts = Sequence[tuple[str, int, str]]
"""(label, count, colour) of a bar's parts."""


def _stacked(axes: Axes, at: float, parts: Parts, named: set[str]) -> None:
    left = 0
    for label, count, colour in parts:
        if count:
            axes.barh(at, count, left=left, color=colour, edgecolor="white", label=None if label in named else label)
            named.add(label)
            if 36 * count > sum(n for _, n, _ in parts):
                axes.annotate(str(count), (left + count / 2, at), ha="center", va="center", color="#1d2126", fontsize=8)
            left += count


def verdict_summary(m: Material) -> tuple[Figure, str]:
    """The fates of all units on top, the seconds of every stage below."""
    found = Counter(x.fate for x in m.view.examples)
    figure = Figure(figsize=(6.8, 1.7 + 0.34 * (1 + len(m.evaluation.stages))), layout="constrained")
    top, below = figure.subplots(2, 1, height_ratios=(1, 0.5 + 0.5 * len(m.evaluation.stages)))
    _stacked(top, 0, [(f"{FATES[f]}: {found[f]}", found[f], FATE_COLOURS[f]) for f in FATES if found[f]], set())
    top.set_yticks([])
    top.set_xlabel(f"{m.columns.units} (of {sum(found.values())})")
    top.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    seconds = [(s.label, sum(r.seconds for r in m.of_stage(s.label))) for s in m.evaluation.stages]
    below.barh([label for label, _ in seconds], [t for _, t in seconds], color=LINE)
    for i, (_, t) in enumerate(seconds):
        below.annotate(f"{t:.2f} s", (t, i), (4, 0), textcoords="offset points", va="center")
    below.invert_yaxis()
    below.margins(x=0.14)
    below.set_xlabel("seconds, all units together")
    says = ", ".join(f"{found[f]} {FATES[f]}" for f in FATES if found[f])
    return figure, f"{says}; the run times are those of the recorded rows"


def overlap(m: Material) -> tuple[Figure, str]:
    """Per attack: units that it alone broke, and that others broke too (rows). Under ``first`` a later attack is not
    asked about units that were broken before, so nothing is known of what one alone breaks: who was first is shown."""
    attacks = [s.label for s in m.evaluation.stages if s.role == "attack"]
    broke = {a: {r.unit for r in m.of_stage(a) if is_witness(r) and r.within_access is True} for a in attacks}
    if not any(broke.values()):
        raise NothingToShow("no attack broke anything")
    figure, axes = canvas(6.4, 1.5 + 0.4 * len(attacks))
    named: set[str] = set()
    everything_asked = m.evaluation.attribution == "full"
    for i, a in enumerate(attacks):
        rivals = attacks if everything_asked else attacks[:i]
        own = len(broke[a].difference(*(broke[b] for b in rivals if b != a)))
        words = ("broke alone", "others broke too") if everything_asked else ("first broken by it", "broken before")
        _stacked(axes, i, [(words[0], own, BROKEN), (words[1], len(broke[a]) - own, STANDING)], named)
    axes.set_yticks(range(len(attacks)), attacks)
    axes.invert_yaxis()
    axes.set_xlabel("broken units")
    axes.legend(loc="lower right")
    if everything_asked:
        return figure, "every attack ran on every unit"
    note = (
        "`attribution: first`: a later attack was not asked about units that an earlier one broke, so nothing is known"
    )
    return figure, f"{note} of what one alone breaks; `attribution: full` asks"


def rejection(m: Material) -> tuple[Figure, str]:
    """Decisions before any change and on the worst kept input of each unit."""
    clean = [r for r in m.records if stage_label(m.evaluation, r) == CLEAN_STAGE and r.label >= 0]
    before = Counter(_kind(r.clean_decision, r.label) for r in clean)
    worst: dict[str, str] = {}
    order = ("right", "rejected", "wrong")
    for r in m.records:
        if r.status == "valid" and r.within_scope and (r.decision is not None or is_witness(r)):
            kind = _kind(r.decision, r.label)
            worst[r.unit] = max(worst.get(r.unit, "right"), kind, key=order.index)
    after = Counter(worst.get(r.unit, _kind(r.clean_decision, r.label)) for r in clean)
    figure, axes = canvas(6.4, 2.0)
    colours = {"right": PROVED, "rejected": OPEN, "wrong": BROKEN}
    named: set[str] = set()
    for at, found in enumerate((before, after)):
        _stacked(axes, at, [(kind, found[kind], colours[kind]) for kind in order], named)
    axes.set_yticks([0, 1], ["before any change", "worst input found"])
    axes.invert_yaxis()
    axes.set_xlabel(m.columns.units)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    said = f"rejected: {before['rejected']} before any change, {after['rejected']} on the worst input found"
    return figure, f"{said}; a rejection that nothing sought may be missing"


def _kind(decision: int | None, label: int) -> str:
    if decision == label:
        return "right"
    return "rejected" if decision == -1 else "wrong"


def corruption_accuracy(m: Material) -> tuple[Figure, str]:
    """Accuracy before and after the change, the latter with its interval."""
    clean, after = m.columns.get("clean_accuracy"), m.columns.get("corrupted_accuracy")
    if after is None or after.low is None or after.high is None:
        raise NothingToShow("no changed input was evaluated")
    figure, axes = canvas(4.2, 2.8)
    high = float(after.high)
    bars = [("after the change", float(after.low))]
    k = m.columns.counts
    if clean is not None and clean.low is not None:
        bars.insert(0, ("before", float(clean.low)))
    elif k.base:
        bars.insert(0, ("before", k.cc / k.base))
    axes.bar([b[0] for b in bars], [100 * b[1] for b in bars], width=0.5, color=[STANDING, LINE][-len(bars) :])
    ends = after.interval.ends if after.interval else (float(after.low), high)
    middle, at = float(after.low), len(bars) - 1
    arms = [[100 * max(0.0, middle - ends[0])], [100 * max(0.0, ends[1] - middle)]]
    axes.errorbar([at], [100 * middle], yerr=arms, color=INK, capsize=5)
    for i, (_, share) in enumerate(bars):
        axes.annotate(f"{100 * share:.1f}", (i - 0.24, 100 * share), (2, 3), textcoords="offset points")
    percent_axis(axes)
    axes.set_ylabel("accuracy, %")
    shown = f"interval [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}] %"
    return figure, f"{100 * middle:.1f} % of {after.denominator} after the change, {shown}: an average, no worst case"


def coverage(m: Material) -> tuple[Figure, str]:
    """Per stage: units that it finished, by outcome, and those that it did not."""
    stages = m.evaluation.stages
    figure, axes = canvas(6.8, 1.7 + 0.36 * len(stages))
    named: set[str] = set()
    unfinished = 0
    for i, s in enumerate(stages):
        last: dict[str, str] = {}
        for r in m.of_stage(s.label):
            last[r.unit] = _outcome(r, s)
        found = Counter(last.values())
        unfinished += found["timed out"] + found["failed"] + found["unstable"]
        parts = [(name, found[name], colour) for name, colour in _OUTCOMES.items()]
        rest = len(m.view.examples) - sum(found.values())
        _stacked(axes, i, [*parts, ("not asked", max(rest, 0), "#eceef0")], named)
    axes.set_yticks(range(len(stages)), [s.label for s in stages])
    axes.invert_yaxis()
    axes.set_xlabel("units")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return figure, f"{unfinished} units of a stage did not finish; a unit that is settled is not asked about again"


_OUTCOMES = {
    "proved": PROVED, FATES["assumed"]: FATE_COLOURS["assumed"], FATES["trusted"]: FATE_COLOURS["trusted"],
    "proved in real arithmetic": "#8fcfb4", "broke it": BROKEN, "finished": STANDING, "timed out": OPEN,
    "failed": OTHER, "unstable": "#c4aed6",
}  # fmt: skip


def _outcome(r: Record, stage: Stage) -> str:
    if is_witness(r):
        return "broke it"
    if r.verdict == "certified":
        proved = "proved" if r.gap_kind == "proved" else FATES["assumed"]
        proved = "proved in real arithmetic" if in_real_arithmetic(r) else proved
        return FATES["trusted"] if is_trusted(stage) else proved
    if "timeout" in (r.status, r.verdict):
        return "timed out"
    if r.status in FAILED or r.verdict == "error":
        return "failed"
    return "unstable" if r.status == "unstable" else "finished"
