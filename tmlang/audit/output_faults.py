"""Bounds of outputs against everything that the records know of these outputs: margins, decisions, each other.

The auditor's own reading of docs/bundle.md, "Outputs", from the plan as plain JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tmlang.audit.bundle import Bundle
from tmlang.audit.outputs import ENDS, OutputBounds
from tmlang.audit.property_outputs import excluded, verdict_faults
from tmlang.audit.record import Record
from tmlang.diagnostics.stop import Stop

Json = Mapping[str, Any]
_ROUNDING = 1e-9
"""Relative: of float64 sums in another order."""


@dataclass(frozen=True, slots=True)
class _Proved:
    row: Record
    bounds: OutputBounds
    gap: float

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Whose set it is about."""
        return self.row.evaluation, self.row.unit, self.row.branch


def output_faults(bundle: Bundle, plan: Json, rows: Sequence[Record]) -> Iterator[str]:
    """What is wrong with the bounds of outputs of a bundle, in words that name the row."""
    stages = {(e["name"], s["label"]): s for e in plan["evaluations"] for s in e["stages"]}
    subjects = {e["name"]: next(s for s in plan["subjects"] if s["name"] == e["subject"]) for e in plan["evaluations"]}
    classes = {name: _classes(plan, subject) for name, subject in subjects.items()}
    yield from _reference_faults(bundle, rows)
    proved: dict[tuple[str, str, str | None], list[_Proved]] = {}
    for row in rows:
        if row.evaluation not in classes:
            continue
        where = f"{row.evaluation}, {row.unit}, {row.stage}"
        stage = stages.get((row.evaluation, row.stage.removeprefix(row.evaluation + "/")))
        if (why := _out_of_place(stage, row)) is not None:
            yield f"{where}: {why}"
        if row.outputs is None:
            continue
        try:
            bounds = bundle.outputs(row.outputs)
        except Stop as stopped:
            yield from (f"{where}: {d.message}" for d in stopped.diagnostics)
            continue
        names, subject = classes[row.evaluation], subjects[row.evaluation]
        if bounds.fault(len(names)):
            yield f"{where}: {len(bounds.lower)} outputs are bounded of {len(names)}"
            continue
        one = _Proved(row, bounds, np.inf if row.gap is None else row.gap)
        faults = verdict_faults(subject, names, row, bounds) if _asserts(subject) else _margin_faults(one)
        yield from (f"{where}: {fault}" for fault in faults)
        proved.setdefault(one.place, []).append(one)
    for (name, unit, _), of_unit in proved.items():
        yield from (f"{name}, {unit}: {fault}" for fault in _disagreements(of_unit))
    for row, one in _decided(proved, rows):
        subject, names = subjects[row.evaluation], classes[row.evaluation]
        if _asserts(subject):
            wrong = excluded(subject, names, one.bounds, one.gap, row.decision)
        else:
            wrong = one.bounds.upper[row.decision] + one.gap < one.bounds.lower.max()
        if wrong:
            where = f"{row.evaluation}, {row.unit}, {row.stage}"
            yield f"{where}: decided {row.decision}, which the bounds of `{one.row.stage}` exclude"


def _asserts(subject: Json) -> bool:
    return bool(subject["is"] == "Property")


def _classes(plan: Json, subject: Json) -> list[str]:
    return list(next(m for m in plan["models"] if m["name"] == subject["model"])["classes"])


def _reference_faults(bundle: Bundle, rows: Sequence[Record]) -> Iterator[str]:
    """Every stored row is one certificate's."""
    named = Counter(r.outputs for r in rows if r.outputs is not None)
    yield from (f"{n} rows name the bounds `{reference}`" for reference, n in named.items() if n > 1)
    for name in bundle.files():
        if name.startswith("outputs/"):
            held = len(bundle.output_file(name).tensors[ENDS[0]])
            lost = [i for i in range(held) if f"{name}#{i}" not in named]
            yield from [f"{len(lost)} bounds in `{name}` are no row's"] if lost else []


def _out_of_place(stage: Json | None, row: Record) -> str | None:
    """Bounds where none were asked for, or none where they were and nothing says why."""
    asked = stage is not None and dict(stage["arguments"]).get("outputs") not in (None, False)
    finished = row.verdict in ("certified", "unknown", "broken")
    if row.outputs is not None and not (asked and finished):
        return f"it has bounds of outputs, and {'did not finish' if asked else 'none were asked for'}"
    silent = asked and finished and row.outputs is None and row.message is None
    return "the bounds of its outputs are missing" if silent else None


def _slack(*values: np.ndarray) -> np.ndarray:
    most: np.ndarray = _ROUNDING * (1 + np.max([np.abs(v) for v in values], axis=0))
    return most


def _margin_faults(one: _Proved) -> Iterator[str]:
    """A margin that no scores within the bounds can have: of the label over the next class; under a target, of some
    other class over the target. The margins of the classes are no more either, and the least of them is the row's."""
    row, b = one.row, one.bounds
    slack = _slack(b.upper, b.lower).max()
    if row.target is not None:
        most = np.delete(b.upper, row.target).max() - b.lower[row.target]
    else:
        most = b.upper[row.label] - np.delete(b.lower, row.label).max()
    if row.margin is not None and row.margin > most + slack:
        yield f"the margin {row.margin:.6g} is more than its outputs can differ by within their bounds"
    if b.margins is None:
        return
    others = np.delete(b.margins, row.label)
    if row.target is not None or row.margin is None or b.margins[row.label] != 0:
        yield "it has margins over every class, and is not about all of them"
    elif abs(others.min() - row.margin) > slack:
        yield f"the least of its margins is {others.min():.6g}, and the row says {row.margin:.6g}"
    elif bool((b.margins > b.upper[row.label] - b.lower + slack).any()):
        yield "a margin over a class is more than the bounds of both scores leave"


def _disagreements(of_unit: Sequence[_Proved]) -> Iterator[str]:
    """What one certificate saw some input of the set give must lie within the bounds of every other."""
    for one in of_unit:
        for other in of_unit:
            slack = _slack(one.bounds.lower, one.bounds.upper)
            below = one.bounds.lower > other.bounds.least + slack
            above = one.bounds.upper < other.bounds.greatest - slack
            if bool((below | above).any()):
                k = int(np.argmax(below | above))
                yield f"`{one.row.stage}` bounds output {k} away from what `{other.row.stage}` saw an input give"


def _decided(
    proved: Mapping[tuple[str, str, str | None], Sequence[_Proved]], rows: Sequence[Record]
) -> Iterator[tuple[Any, _Proved]]:
    """Decisions on inputs of the set, each with the bounds that are about this input: the class that it is decided for
    has the greatest score there, as far as arithmetic tells."""
    of_set: dict[tuple[str, str], list[_Proved]] = {}
    for (name, unit, _), own in proved.items():
        of_set.setdefault((name, unit), []).extend(own)
    for row in rows:
        if row.within_scope is not True or row.decision is None or row.decision < 0:
            continue
        for one in of_set.get((row.evaluation, row.unit), ()):
            branch = one.row.branch
            if branch is None or branch in (row.branch or "").split(" "):
                yield row, one
