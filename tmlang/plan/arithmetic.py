"""Claims that no run can support: everything that proves for them was told to state no gap to the object's arithmetic
(EVIDENCE.md section 6)."""

from __future__ import annotations

from collections.abc import Iterator

from tmlang.diagnostics.model import Diagnostic
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.values import Symbol
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import PROOFS, EvaluationPlan, Plan

NO_GAP = ("rounding", Symbol("none"))
"""The argument by which a certificate is about real arithmetic alone."""
PROVED_GAP = ("rounding", Symbol("proved"))
"""The argument by which the gap to the object's arithmetic is proved."""

_BOUNDED_BELOW = ("certified", "robust_accuracy", "robust_rate")


def of_real_arithmetic(plan: Plan) -> Iterator[Diagnostic]:
    """One error for each claim that needs a lower bound of what the object does and has none (TM626)."""
    for claim in plan.claims:
        for side in _needing_a_lower_bound(claim):
            named = [e for e in plan.evaluations if side.evaluation in (e.name, declared_name(e))]
            if named and all(_real(e) for e in named):
                yield Diagnostic(
                    "TM626",
                    f"{side.quantity} of {side.evaluation} is about real arithmetic, and the claim about the object",
                    side.origin,
                    notes=("`rounding: none` leaves open what float32 makes of the proof",),
                    help="leave it out: the gap is proved then; `rounding: assumed` would be an assumption",
                )


def _needing_a_lower_bound(claim: Claim) -> Iterator[Measured]:
    if claim.left.quantity in _BOUNDED_BELOW and claim.op not in ("<=", "<"):
        yield claim.left
    if isinstance(claim.right, Measured) and claim.right.quantity in _BOUNDED_BELOW and claim.op not in (">=", ">"):
        yield claim.right


def _real(evaluation: EvaluationPlan) -> bool:
    proofs = [s for s in evaluation.stages if s.evidence in PROOFS]
    return bool(proofs) and all(NO_GAP in s.arguments for s in proofs)
