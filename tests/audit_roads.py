"""A tally that the auditor's second count must repeat, whatever rows a test writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from audit_rows import as_numbers, as_only

from tmlang.audit.columns import Columns, Restriction
from tmlang.audit.record import Record
from tmlang.audit.recount import Recount
from tmlang.audit.redraw import counts, numbers
from tmlang.audit.tally import tally
from tmlang.meaning.threats import Property, Subject
from tmlang.plan import codec
from tmlang.plan.ir import EvaluationPlan


def both_roads(
    e: EvaluationPlan,
    subject: Subject,
    rows: Sequence[Record],
    *,
    restriction: Restriction | None = None,
    voided: frozenset[str] = frozenset(),
) -> Columns:
    """The columns, after every number and letter of them was counted again from sets of units."""
    columns = tally(e, subject, rows, restriction=restriction, voided=voided)
    if isinstance(subject, Property):
        return columns
    r = restriction or Restriction()
    again = Recount(codec.encode(e, EvaluationPlan), codec.encode(subject, Subject), rows, voided, as_only(r))
    assert numbers(again) == as_numbers(columns)
    told = asdict(columns.counts)
    assert counts(again) == {name: told[name] for name in counts(again)}
    return columns
