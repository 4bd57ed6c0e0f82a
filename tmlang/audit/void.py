"""Which methods a witness contradicts, a second time: the auditor's own reading of EVIDENCE.md sections 6 and 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tmlang.audit.record import Record
from tmlang.audit.recount import Json, Only, Recount, Units, witness


def void_methods(plan: Json, rows: Sequence[Record]) -> Units:
    """Methods with a certificate above its gap on a unit that a witness breaks, in the same branch: one of its own, or
    one that another evaluation found in the same set or a smaller one."""
    subjects = {s["name"]: s for s in plan["subjects"]}
    read = {e["name"]: Recount(e, subjects[e["subject"]], rows, frozenset(), Only()) for e in plan["evaluations"]}
    void = set()
    for name, r in read.items():
        fallen: dict[str, set[str]] = {}
        for other in (o for o in read if o == name or smaller(read[o], r)):
            for row in (row for of_stage in read[other].rows.values() for row in of_stage):
                alike = row.unit in r.counted and r.counted[row.unit].label == row.label
                if alike and row.status == "valid" and row.within_scope is True and witness(row):
                    fallen.setdefault(row.unit, set()).update((row.branch or "").split(" "))
        for stage in r.proofs:
            for row in r.rows[stage["label"]]:
                where = fallen.get(row.unit)
                if where is not None and r.proved(row) and (row.branch is None or where & set(row.branch.split(" "))):
                    void.add(f"{stage['backend']}.{stage['method']}")
    return frozenset(void)


_RADII = ("radius", "radii", "tolerance")


def smaller(one: Recount, other: Recount) -> bool:
    """Two evaluations that ask the same but for radii, none of which is greater in the first."""
    named = ("name", "doc", "allow")
    rest = [{k: v for k, v in r.subject.items() if k not in named} for r in (one, other)]
    return rest[0] == rest[1] and _inside(one.subject.get("allow"), other.subject.get("allow"))


def _inside(small: Any, large: Any) -> bool:
    if not isinstance(small, Mapping) or not isinstance(large, Mapping):
        return bool(small == large)
    if small["is"] != "Ball" or large["is"] != "Ball":
        parts = small.get("parts"), large.get("parts")
        rest = [{k: v for k, v in s.items() if k != "parts"} for s in (small, large)]
        alike = rest[0] == rest[1] and len(parts[0] or ()) == len(parts[1] or ())
        return alike and all(map(_inside, parts[0] or (), parts[1] or ()))
    if {k: v for k, v in small.items() if k not in _RADII} != {k: v for k, v in large.items() if k not in _RADII}:
        return False
    a, b = ([*dict(s["radii"] or [["", s["radius"] or 0]]).items()] for s in (small, large))
    more = Fraction(large["tolerance"]) - Fraction(small["tolerance"])
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(k == m and Fraction(v) <= Fraction(w) + more for (k, v), (m, w) in pairs)
