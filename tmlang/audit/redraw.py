"""Shares of single draws a second time, by another road: sets of (unit, draw) instead of draws per unit.

The auditor's own reading, of the plan as plain JSON and the rows as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from tmlang.audit.record import Record
from tmlang.audit.recorrupt import shift_counts, shift_numbers
from tmlang.audit.recount import (
    PROOF_COUNTS,
    Number,
    Recount,
    share,
    threat_counts,
    threat_numbers,
)

Json = Mapping[str, Any]
Cells = frozenset[tuple[str, int]]


def of_draws(subject: Json) -> bool:
    """Whether a subject counts single draws."""
    return subject["is"] == "Threat" and (subject["success"] or {}).get("kind") == "single_draw"


def numbers(r: Recount) -> dict[str, Number]:
    """Every column of an evaluation."""
    if of_draws(r.subject):
        return draw_numbers(r)
    return threat_numbers(r) if r.subject["is"] == "Threat" else shift_numbers(r)


def counts(r: Recount) -> dict[str, int]:
    """The letters of an evaluation."""
    if of_draws(r.subject):
        return draw_counts(r)
    return threat_counts(r) if r.subject["is"] == "Threat" else shift_counts(r)


class _Cells:
    """Which draws of which right units fail, and which an unfinished attack leaves open: of some attacks."""

    def __init__(self, r: Recount, labels: list[str]) -> None:
        self.many = r.subject["success"]["draws"]
        nowhere = r.only.part is not None and not labels
        done = (
            frozenset()
            if nowhere
            else r.correct.intersection(*(r.finished(s) for s in r.searches if s["label"] in labels))
        )
        every = {(u, k) for u in r.correct for k in range(self.many)}
        fell = {(u, k) for u, k in every if any(_fails(row, k) for row in _judged(r, u, labels))}
        self.fell = self._lifted(r, frozenset(fell))
        may = frozenset(fell | {(u, k) for u, k in every if u not in done})
        self.open = self._lifted(r, may) - self.fell

    def _lifted(self, r: Recount, cells: Cells) -> Cells:
        """Draw by draw over the pairs of one example, where those are joined."""
        found: set[tuple[str, int]] = set()
        for k in range(self.many):
            found |= {(x, k) for x in r.lift(frozenset(u for u, j in cells if j == k))}
        return frozenset(found)


def _judged(r: Recount, unit: str, labels: list[str]) -> Iterator[Record]:
    for label in labels:
        for row in r.rows[label]:
            if row.unit == unit and row.within_access is True and row.outcomes is not None:
                per_example = r.only.queries is not None and r.subject["access"]["queries_per"] == "example"
                if r.counts(row, r.spent(unit, row.repeat, label) if per_example else 0):
                    yield row


def _fails(row: Record, k: int) -> bool:
    told = row.outcomes or ""
    return k < len(told) and told[k] == "1"


def _status(r: Recount) -> dict[str, int]:
    return {s: len(r.lift(r.status(s), any_target=True)) for s in ("cc", "cw", "cr", "cu")}


def drawn(r: Recount) -> int:
    """How many draws were made that tell; what was wrong or rejected before any change was not drawn."""
    s = _status(r)
    return int(r.subject["success"]["draws"]) * (s["cc"] + s["cu"])


def draw_counts(r: Recount) -> dict[str, int]:
    """Counted units as in every threat, but nothing is broken; unfinished is whoever has an open draw."""
    open_ = len({u for u, _ in _Cells(r, [s["label"] for s in r.searches]).open})
    none = dict.fromkeys(("broken", "broken_any_access", *PROOF_COUNTS, "denied"), 0)
    waits = {"unfinished": open_, "undecided": open_, "open": open_}
    return {**threat_counts(r), **none, **waits}


def draw_numbers(r: Recount) -> dict[str, Number]:
    """Every column of shares of draws; attacks as ``attack_success:<label>``."""
    s, labels = _status(r), [stage["label"] for stage in r.searches]
    cells = _Cells(r, labels)
    a, n = sum(s.values()), cells.many
    d = a if r.subject["clean_errors"] == "fail" else s["cc"] + s["cu"]
    waits = len({u for u, _ in cells.open})
    right = n * (s["cc"] + s["cu"])
    done = d - waits - s["cu"]
    found = {
        "clean_accuracy": share(s["cc"], s["cc"] + s["cu"], a),
        "clean_answered": share(s["cc"] + s["cw"], a - s["cr"], a),
        "survival": share(n * s["cc"] - len(cells.fell | cells.open), right - len(cells.fell), n * d),
        "attack_coverage": share(done, done, d),
        "coverage": share(done, done, d),
    }
    before = {row.example if _joins(r) else u: row for u, row in reversed(r.counted.items()) if row.clean == "cc"}
    asked = [row for row in before.values() if row.draws is not None]
    if asked:
        total, failing = (sum(getattr(row, key) or 0 for row in asked) for key in ("draws", "errors"))
        found["draws_failing_before"] = share(failing, failing, total)
    for label in labels if r.evaluation["attribution"] == "full" else ():
        own = _Cells(r, [label])
        most = len(own.fell | own.open) + n * s["cu"]
        found[f"attack_success:{label}"] = share(len(own.fell), most, right)
    return found


def _joins(r: Recount) -> bool:
    goal = r.subject["goal"]
    return bool(goal["kind"] == "each" and goal["each"] != "apart")


# Intervals -----------------------------------------------------------------------------------------------------------


def limits_of(told: Json | None, level: Fraction, method: str) -> tuple[float, float] | str | None:
    """The ends of a told interval; a sentence where its level or its method is another."""
    if told is None:
        return None
    if told["level"] != str(level) or told["method"] != method:
        return f"an interval by {told['method']} at {told['level']} is told for one by {method} at {level}"
    return told["low"], told["high"]


def limit_faults(r: Recount, told: Mapping[str, Json], tails: Callable[..., str | None]) -> Iterator[str]:
    """Columns whose interval is not the one of their draws at 95 %; ``told``: columns by name. ``tails``: whether
    limits are those of a share (``rejudge.population_fault``)."""
    labels, n = [s["label"] for s in r.searches], r.subject["success"]["draws"]
    s = _status(r)
    lost = n * (s["cw"] + s["cr"]) if r.subject["clean_errors"] == "fail" else 0
    for name, column in told.items():
        if name not in ("survival", "draws_failing_before") and not name.startswith("attack_success:"):
            continue
        if name == "draws_failing_before":
            failing, done, rest = column["numerator"], column["denominator"], 0
        else:
            cells = _Cells(r, labels if name == "survival" else [name.partition(":")[2]])
            waiting = {u for u, _ in cells.open}
            failing, done = sum(u not in waiting for u, _ in cells.fell), n * (s["cc"] - len(waiting))
            rest = lost if name == "survival" else 0
        limits = limits_of(column["interval"], Fraction(95, 100), "clopper_pearson")
        if isinstance(limits, str):
            yield f"{name}: {limits}"
            continue
        if limits is None or not done:
            if limits is not None or done:
                yield f"{name}: an interval is told without draws, or the other way round"
            continue
        scale = (done + rest) / done
        low, high = (1 - limits[1] * scale, 1 - limits[0] * scale) if name == "survival" else limits
        of = Fraction(failing, done)
        fault = tails(of, of, done, (max(0.0, low), min(1.0, high)), Fraction(95, 100))
        yield from [f"{name}: {fault}"] if fault else []
