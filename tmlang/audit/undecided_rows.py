"""What must hold of rows without a decision: each says why, in one of the words that there are, and the words fit the
model (EVIDENCE.md section 1).

The auditor's own reading, of the plan as plain JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tmlang.audit.record import UNDECIDED, Record, reason

Json = Mapping[str, Any]
UNFIT = UNDECIDED["non_finite_fails"]
"""The answer without a class: it fails for every label."""
PLAIN = {"non_finite": "error", "ties": "lowest"}
"""What a property decides by, whatever its model does."""


def undecided_faults(evaluation: Json, decide: Json, row: Record) -> Iterator[str]:
    """What is wrong with a row that has no decision, or tells of one beside the reason why there is none."""
    clean = row.stage.removeprefix(evaluation["name"] + "/") == "clean"
    told = reason(row.message)
    if row.decision is not None:
        if told is not None:
            yield f"decision {row.decision}, and the message says: {told}"
        return
    if told == UNDECIDED["non_finite"] and decide["non_finite"] != "error":
        yield f"scores that are not finite are told as no decision, and the model says {decide['non_finite']}"
    if told == UNFIT and decide["non_finite"] != "fail":
        yield f"scores that are not finite are told as a failure, and the model says {decide['non_finite']}"
    if told == UNDECIDED["tied"] and decide["ties"] != "error":
        yield f"a tie is told as no decision, and the model says ties {decide['ties']}"
    if clean and row.label >= 0 and (row.clean == "cu" or row.clean_decision is None) and row.outcomes is None:
        yield from _clean_faults(row)
    elif not clean and told == UNFIT and row.status == "error":
        yield "an answer that fails for every label is told as an error"
    elif row.status == "valid" and told != UNFIT and row.outcomes is None and not clean:
        yield "a candidate without a decision that does not say why"


def _clean_faults(row: Record) -> Iterator[str]:
    if reason(row.message) is None:
        yield f"a clean decision is unknown, and `{row.message}` does not say why"
    elif (row.message == UNFIT) != (row.clean == "cw"):
        yield f"before any change: {row.message}, and it is called {row.clean}"
