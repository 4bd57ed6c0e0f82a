"""When two evaluations may be set side by side, and which has the greater R (EVIDENCE.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tmlang.audit.columns import Columns, Extent
from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.show import percent
from tmlang.audit.units import stage_label
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Subject, Threat
from tmlang.plan.ir import EvaluationPlan, Plan


@dataclass(frozen=True, slots=True)
class Side:
    """One evaluation of a comparison; ``name`` is how reasons call it. ``space``: of its inputs, where the two sides
    come from different plans (within one plan, the sets name their space)."""

    name: str
    evaluation: EvaluationPlan
    subject: Subject
    records: Sequence[Record]
    space: Space | None = None

    @classmethod
    def of(cls, name: str, plan: Plan, evaluation: EvaluationPlan, records: Sequence[Record]) -> Side:
        """An evaluation of ``plan``, to be compared with one of another plan."""
        subject = plan.subject(evaluation.subject)
        return cls(name, evaluation, subject, records, plan.space(plan.model(subject.model).space))

    def units(self) -> set[tuple[str, int, int | None]]:
        """(unit, label, target) of every unit, the uncounted among them."""
        own = (r for r in self.records if r.evaluation == self.evaluation.name)
        return {(r.unit, r.label, r.target) for r in own if stage_label(self.evaluation, r) == CLEAN_STAGE}


_CLAUSES = ("allow", "minimize", "mutable", "perturbation", "goal", "rejected", "clean_errors", "success")


def not_comparable(a: Side, b: Side) -> str | None:
    """Why two evaluations may not be compared: other units, another space, set, failure or denominator."""
    if a.units() != b.units():
        return f"{a.name} and {b.name} count different examples"
    if a.space and b.space and (a.space.shape, a.space.cells) != (b.space.shape, b.space.cells):
        return "their inputs live in different spaces"
    s, t = a.subject, b.subject
    if isinstance(s, Threat) and isinstance(t, Threat):
        for clause in _CLAUSES:
            if getattr(s, clause) != getattr(t, clause):
                return f"their threats differ in `{clause}:`"
    return None if type(s) is type(t) else "one of them is no threat"


def greater(a: tuple[str, Columns], b: tuple[str, Columns]) -> str:
    """What the two ranges of R decide: the one is greater only where its proof reaches the other's witnesses."""
    for (name, x), (other, y) in ((a, b), (b, a)):
        low, high = _end(x, "certified", "low"), _end(y, "upper", "high")
        if low is not None and high is not None and low >= high:
            more = "greater than" if low > high else "at least"
            note = certified.note if (certified := x.get("certified")) else ""
            shown = f"{percent(low)} proved{f' ({note})' if note else ''} against at most {percent(high)}"
            return f"R of {name} is {more} that of {other}: {shown}"
    return "undecided: their ranges of R overlap, and survivals compare two finite searches only"


def _end(columns: Columns, name: str, side: Literal["low", "high"]) -> Extent | None:
    column = columns.get(name)
    return None if column is None else getattr(column, side)
