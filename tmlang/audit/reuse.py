"""What holds of one set follows for another: witnesses of smaller sets, certificates of larger ones (EVIDENCE.md
section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.units import is_witness
from tmlang.meaning.threats import Allowed, Ball, Both, Either
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan, Plan


def same_sweep(plan: Plan, evaluation: EvaluationPlan) -> list[EvaluationPlan]:
    """The other points of the sweep that an evaluation is a point of."""
    name = declared_name(evaluation)
    return [e for e in plan.evaluations if e.at and e is not evaluation and declared_name(e) == name]


def reuse(
    plan: Plan, evaluation: EvaluationPlan, others: Sequence[EvaluationPlan], records: Sequence[Record]
) -> list[Record]:
    """Rows of ``others`` that also hold for ``evaluation`` (EVIDENCE.md section 7), renamed to it.

    A witness in a smaller set lies in a larger one, a certificate of a larger set covers a smaller one; units, labels,
    object and failure must be the same.
    """
    threat = plan.threat(evaluation.subject)
    mine = {r.unit: r for r in records if r.evaluation == evaluation.name and r.stage == CLEAN_STAGE}
    labels = {s.label for s in evaluation.stages}
    found = []
    for other in others:
        theirs = plan.threat(other.subject)
        same = replace(theirs, allow=threat.allow, name=threat.name, doc=threat.doc) == threat
        if other.name == evaluation.name or not same:
            continue
        smaller, larger = contains(threat.allow, theirs.allow), contains(theirs.allow, threat.allow)
        for row in records:
            start = mine.get(row.unit)
            if row.evaluation != other.name or row.stage not in labels or start is None or start.label != row.label:
                continue
            if (smaller and is_witness(row)) or (larger and row.verdict == "certified"):
                found.append(replace(row, evaluation=evaluation.name))
    return found


def contains(large: Allowed | None, small: Allowed | None) -> bool:
    """Whether every change that ``small`` allows is surely allowed by ``large`` (by form: equal but for radii)."""
    if isinstance(large, Ball) and isinstance(small, Ball):
        if replace(large, radius=small.radius, radii=small.radii, tolerance=small.tolerance) != small:
            return False
        pairs = zip(_reach(large), _reach(small), strict=False)
        return len(_reach(large)) == len(_reach(small)) and all(a[0] == b[0] and a[1] >= b[1] for a, b in pairs)
    if isinstance(large, (Both, Either)) and type(large) is type(small) and isinstance(small, (Both, Either)):
        alike = len(large.parts) == len(small.parts)
        return alike and all(contains(a, b) for a, b in zip(large.parts, small.parts, strict=True))
    return large == small


def _reach(ball: Ball) -> list[tuple[str, Fraction]]:
    """(where, radius and tolerance together)."""
    radii = ball.radii or (("", ball.radius or Fraction(0)),)
    return [(name, radius + ball.tolerance) for name, radius in radii]
