"""The only code that makes a headline number: records in, columns out (EVIDENCE.md section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tmlang.audit.columns import Columns, Contradiction, Restriction
from tmlang.audit.record import Record
from tmlang.meaning.threats import Subject
from tmlang.plan.ir import EvaluationPlan, Plan


def tally(
    evaluation: EvaluationPlan,
    subject: Subject,
    records: Iterable[Record],
    *,
    restriction: Restriction | None = None,
    voided: frozenset[str] = frozenset(),
) -> Columns:
    """All columns of one evaluation from its records alone (rows of other evaluations are passed over).

    ``voided`` names the methods (``backend.METHOD``) whose certificates are void in this run.
    """
    raise NotImplementedError


def tally_plan(plan: Plan, records: Sequence[Record]) -> Mapping[str, Columns]:
    """The columns of every evaluation by its name, certificates of a contradicted method void in all of them."""
    raise NotImplementedError


def contradictions(evaluation: EvaluationPlan, records: Iterable[Record]) -> tuple[Contradiction, ...]:
    """Units with both a certificate and a valid witness."""
    raise NotImplementedError
