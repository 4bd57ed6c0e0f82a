"""What holds of one set follows for another: witnesses of smaller sets, certificates of larger ones (EVIDENCE.md
section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.units import is_witness, stage_label
from tmlang.meaning.threats import Allowed, Ball, Both, Either, Property, Subject, Threat
from tmlang.plan.ir import EvaluationPlan, Plan


def witnesses_elsewhere(plan: Plan, evaluation: EvaluationPlan, records: Sequence[Record]) -> list[Record]:
    """Witnesses that other evaluations found in the set of this one or in a smaller one, renamed to it; their stage
    says where they come from."""
    subject = plan.subject(evaluation.subject)
    labels = {r.unit: r.label for r in records if r.evaluation == evaluation.name and r.stage == CLEAN_STAGE}
    speaking = {
        other.name: other
        for other in plan.evaluations
        if other.name != evaluation.name and _lies_in(plan.subject(other.subject), subject)
    }
    return [
        replace(r, evaluation=evaluation.name, stage=f"{r.evaluation}/{stage_label(speaking[r.evaluation], r)}")
        for r in records
        if r.evaluation in speaking and r.stage != CLEAN_STAGE and is_witness(r) and labels.get(r.unit) == r.label
    ]


def _lies_in(small: Subject, large: Subject) -> bool:
    """Whether every input of the one set surely lies in the other, and fails there for the same reason."""
    if isinstance(small, Threat) and isinstance(large, Threat):
        return _alike(small, large) and contains(large.allow, small.allow)
    named = isinstance(small, Property) and isinstance(large, Property)
    return named and replace(small, name=large.name, doc=large.doc) == large


def _alike(one: Threat, other: Threat) -> bool:
    """Equal but for the set and for words."""
    return replace(one, allow=other.allow, name=other.name, doc=other.doc) == other


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
        if other.name == evaluation.name or not _alike(theirs, threat):
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
