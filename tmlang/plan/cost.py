"""What a stage costs, as far as it is known before the run: passes through the attacked object."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from tmlang.meaning.models import Data
from tmlang.meaning.threats import Property, Subject, Threat
from tmlang.plan.capability import Method
from tmlang.plan.formula import first_known
from tmlang.plan.ir import Cost, EvaluationPlan, Plan

_COUNTABLE = 10**15
"""No run makes more passes per unit; a product of arguments that says so is no estimate."""


def unit_cost(method: Method, numbers: Mapping[str, Fraction], subject: Subject) -> Cost:
    """Passes per unit from the manifest's formulas; a query limit cuts the forward passes of an attack."""
    forward, backward = (_passes(method.cost.get(way), numbers) for way in ("forward", "backward"))
    if isinstance(subject, Threat) and method.role == "attack" and subject.access.level != "transfer":
        limit = subject.access.queries
        if limit is not None and forward is not None:
            forward = min(forward, limit)
    return Cost(forward, backward)


def examples(data: Data) -> int | None:
    """How many examples are taken at most; ``None`` when only the file can tell."""
    counts = [take.count for take in data.takes if take.kind in ("first", "sample") and take.count is not None]
    return min(counts) if counts else None


def units_per_example(plan: Plan, subject: Subject) -> int:
    """One, or one per other class for ``targeted each``."""
    if isinstance(subject, Threat) and subject.goal.kind == "each":
        return len(plan.model(subject.model).classes) - 1
    return 1


def units(plan: Plan, evaluation: EvaluationPlan) -> int | None:
    """How many units an evaluation has at most; ``None`` when only the data can tell."""
    subject = plan.subject(evaluation.subject)
    count = 1 if isinstance(subject, Property) else examples(plan.data_set(subject.data))
    return None if count is None else count * units_per_example(plan, subject)


def per_unit(evaluation: EvaluationPlan) -> tuple[Cost, tuple[str, ...]]:
    """Passes per unit of all stages and repeats whose cost is known, and the labels of the others."""
    unknown = tuple(s.label for s in evaluation.stages if s.cost.forward is None or s.cost.backward is None)
    forward = sum(s.cost.forward or 0 for s in evaluation.stages)
    backward = sum(s.cost.backward or 0 for s in evaluation.stages)
    return Cost(forward * evaluation.repeats, backward * evaluation.repeats), unknown


def _passes(formula: str | None, numbers: Mapping[str, Fraction]) -> int | None:
    value = None if formula is None else first_known((formula,), numbers)
    return None if value is None or value > _COUNTABLE else ceil(value)
