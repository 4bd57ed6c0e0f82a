"""How sure probabilistic certificates are: per unit, and all of them together (EVIDENCE.md section 6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from tmlang.audit.record import Record
from tmlang.audit.show import percent
from tmlang.audit.units import stage_label
from tmlang.plan.ir import EvaluationPlan


@dataclass(frozen=True, slots=True)
class Confidence:
    """``each``: of the statement about one unit; ``all``: of every statement at once (``None`` where their errors add
    up to 1). ``tested`` units were drawn for; of these ``abstained`` proved no radius at all."""

    each: Fraction
    all: Fraction | None
    tested: int
    abstained: int

    @property
    def words(self) -> str:
        joint = f"all {self.tested} jointly at {percent(self.all, 6)}" if self.all is not None else "jointly at none"
        return f"each at {percent(self.each, 6)}, {joint}; {self.abstained} abstained"


def confidence(evaluation: EvaluationPlan, records: Iterable[Record]) -> Confidence | None:
    """What the errors of all draws add up to (union bound); ``None`` where no certificate is probabilistic."""
    alphas = {s.label: dict(s.arguments)["alpha"] for s in evaluation.stages if s.evidence == "probabilistic"}
    if not alphas:
        return None
    errors: dict[str, Fraction] = defaultdict(Fraction)
    proved: set[str] = set()
    for row in records:
        alpha = alphas.get(stage_label(evaluation, row)) if row.evaluation == evaluation.name else None
        if isinstance(alpha, Fraction) and row.draws is not None:
            errors[row.unit] += alpha
            proved |= {row.unit} if row.margin is not None else set()
    total = sum(errors.values(), Fraction(0))
    each = 1 - max(errors.values(), default=Fraction(0))
    return Confidence(each, 1 - total if total < 1 else None, len(errors), len(errors) - len(proved))
