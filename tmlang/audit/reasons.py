"""Why units have no decision, before any change or on an allowed input, as their rows tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tmlang.audit.record import CLEAN_STAGE, UNDECIDED, Record, reason
from tmlang.audit.units import stage_label
from tmlang.meaning.threats import Goal
from tmlang.plan.ir import EvaluationPlan

Reasons = tuple[tuple[str, int], ...]
"""Units by reason, in the order of ``UNDECIDED``."""


def unknown_before(evaluation: EvaluationPlan, goal: Goal, records: Iterable[Record]) -> Reasons:
    """Units whose clean decision is unknown."""
    clean = [r for r in records if r.evaluation == evaluation.name and stage_label(evaluation, r) == CLEAN_STAGE]
    return _counted(goal, [r for r in clean if r.clean == "cu" and r.label >= 0 and r.target != r.label])


def met(evaluation: EvaluationPlan, goal: Goal, records: Iterable[Record]) -> Reasons:
    """Right units of which a stage was shown an allowed input that has no decision, and kept it."""
    own = (r for r in records if r.evaluation == evaluation.name and stage_label(evaluation, r) != CLEAN_STAGE)
    return _counted(goal, [r for r in own if r.clean == "cc" and r.status == "error" and r.candidate is not None])


def _counted(goal: Goal, rows: Sequence[Record]) -> Reasons:
    joined = goal.kind == "each" and goal.each != "apart"
    found = Counter(message for message, _ in {(reason(r.message), r.example if joined else r.unit) for r in rows})
    return tuple((text, found[text]) for text in UNDECIDED.values() if found[text])
