"""What a stage costs, as far as it is known before the run: passes through the attacked object."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from tmlang.meaning.models import Data
from tmlang.meaning.threats import Subject, Threat
from tmlang.plan.capability import Method
from tmlang.plan.formula import FormulaError, evaluate
from tmlang.plan.ir import Cost, EvaluationPlan, Plan


def unit_cost(method: Method, numbers: Mapping[str, Fraction], subject: Subject) -> Cost:
    """Passes per unit from the manifest's formulas; a query limit cuts the forward passes of an attack."""
    forward, backward = (_passes(method.cost.get(way), numbers) for way in ("forward", "backward"))
    limit = subject.access.queries if isinstance(subject, Threat) and method.role == "attack" else None
    if limit is not None and subject_is_queried(subject) and forward is not None:
        forward = min(forward, limit)
    return Cost(forward, backward)


def subject_is_queried(subject: Subject) -> bool:
    """Whether an attack's passes go to the object itself (and not to surrogates)."""
    return not (isinstance(subject, Threat) and subject.access.level == "transfer")


def examples(data: Data) -> int | None:
    """How many examples are taken at most; ``None`` when only the file can tell."""
    counts = [take.count for take in data.takes if take.kind in ("first", "sample") and take.count is not None]
    return min(counts) if counts else None


def units_per_example(plan: Plan, subject: Subject) -> int:
    """One, or one per other class for ``targeted each``."""
    if isinstance(subject, Threat) and subject.goal.kind == "each":
        return len(plan.model(subject.model).classes) - 1
    return 1


def total(plan: Plan, evaluation: EvaluationPlan) -> tuple[int | None, Cost]:
    """Units of an evaluation and the passes of all its stages and repeats over them, where known."""
    subject = plan.subject(evaluation.subject)
    count = examples(plan.data_set(subject.data)) if hasattr(subject, "data") else 1
    units = None if count is None else count * units_per_example(plan, subject)
    runs = None if units is None else units * evaluation.repeats
    costs = [stage.cost for stage in evaluation.stages]
    return units, Cost(_sum([c.forward for c in costs], runs), _sum([c.backward for c in costs], runs))


def _passes(formula: str | None, numbers: Mapping[str, Fraction]) -> int | None:
    if formula is None:
        return None
    try:
        return ceil(evaluate(formula, numbers))
    except FormulaError:  # an optional argument that was not given
        return None


def _sum(parts: list[int | None], times: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) * times if times is not None and len(known) == len(parts) else None
