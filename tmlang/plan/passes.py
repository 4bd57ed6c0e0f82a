"""The rewrites of EVIDENCE.md section 7, each a plain ``Plan -> Plan``, run in the order of :data:`PASSES`.

A pass keeps the soundness of R, not the equality of survival. What only the run can carry out (which units are clean
and correct, which are broken already) is named in ``EvaluationPlan.passes``, and the runner obeys those names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tmlang.meaning.threats import Threat
from tmlang.plan.asked import object_kind
from tmlang.plan.invariants import check_plan, declared_name
from tmlang.plan.ir import EvaluationPlan, Plan, Stage

Pass = Callable[[Plan], Plan]

DROP_CLEAN_WRONG = "drop_clean_wrong"
DROP_BROKEN = "drop_broken"
MERGE_PROOFS = "merge_proofs"


def run_passes(plan: Plan) -> Plan:
    """Every pass in order, with the invariants checked after each."""
    for rewrite in PASSES:
        plan = rewrite(plan)
        check_plan(plan, rewrite.__name__)
    return plan


def merge_proofs(plan: Plan) -> Plan:
    """One proof is asked once: a later stage with the same verifier and arguments adds nothing.

    Sound because a verifier's verdict is no draw. Attacks are kept: two searches draw differently.
    """

    def merged(evaluation: EvaluationPlan) -> EvaluationPlan:
        kept: dict[object, Stage] = {}
        for stage in evaluation.stages:
            proves = stage.evidence in ("bound", "complete", "trusted") and stage.role != "attack"
            same = (stage.role, stage.backend, stage.method, stage.arguments, stage.through) if proves else stage.id
            kept.setdefault(same, stage)
        stages = tuple(kept.values())
        return evaluation if stages == evaluation.stages else _named(replace(evaluation, stages=stages), MERGE_PROOFS)

    return _each(plan, merged)


def drop_clean_wrong(plan: Plan) -> Plan:
    """Attack only units that are clean and correct: no other unit can enter G (EVIDENCE.md section 2). Always sound."""

    def dropped(evaluation: EvaluationPlan) -> EvaluationPlan:
        threat = isinstance(plan.subject(evaluation.subject), Threat)
        return _named(evaluation, DROP_CLEAN_WRONG) if threat else evaluation

    return _each(plan, dropped)


def drop_broken(plan: Plan) -> Plan:
    """Leave a unit once it is broken.

    Sound under ``attribution: first`` on a fixed object in a world that draws nothing, without ``denied`` (a stage
    might still find a rejection) and without distances (a later witness might be nearer).
    """

    def dropped(evaluation: EvaluationPlan) -> EvaluationPlan:
        return _named(evaluation, DROP_BROKEN) if _one_witness_is_enough(plan, evaluation) else evaluation

    return _each(plan, dropped)


def _one_witness_is_enough(plan: Plan, evaluation: EvaluationPlan) -> bool:
    subject = plan.subject(evaluation.subject)
    if not isinstance(subject, Threat) or subject.minimize is not None or evaluation.attribution != "first":
        return False
    if subject.rejected is not None and subject.rejected.kind == "denied":
        return False
    quantities = {c.left.quantity for c in plan.claims if c.left.evaluation == declared_name(evaluation)}
    curves = {curve.parameter for curve in evaluation.curves}
    distances = "median_distance" in quantities or "radius" in curves
    drawn = subject.success is not None or object_kind(plan.model(subject.model)) != "fixed"
    return not drawn and not distances


def _each(plan: Plan, rewrite: Callable[[EvaluationPlan], EvaluationPlan]) -> Plan:
    return replace(plan, evaluations=tuple(rewrite(e) for e in plan.evaluations))


def _named(evaluation: EvaluationPlan, name: str) -> EvaluationPlan:
    return replace(evaluation, passes=(*evaluation.passes, name))


PASSES: tuple[Pass, ...] = (merge_proofs, drop_clean_wrong, drop_broken)
