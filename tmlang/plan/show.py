"""The plan as text that people read: what runs, on which library, how faithfully, at what cost, and why."""

from __future__ import annotations

from collections.abc import Iterator

from tmlang.diagnostics.suggest import listed
from tmlang.meaning.arithmetic import ARITHMETIC, supposing
from tmlang.meaning.threats import Property, Shift, Subject
from tmlang.plan.arithmetic import PROVED_GAP
from tmlang.plan.cost import per_unit, units
from tmlang.plan.ir import Cost, EvaluationPlan, Plan, Stage
from tmlang.plan.text import plan_hash
from tmlang.plan.written import allowed, changes, number, written

_PASSES = {
    "merge_proofs": "the same proof is asked once",
    "drop_clean_wrong": "only clean and correct units are attacked",
    "drop_broken": "a unit is left once it is broken",
}
_ROLES = {
    "attack": "search",
    "certify": "certificate",
    "decide_exactly": "decision",
    "enumerate": "enumeration",
    "corrupt": "corruption",
}
_PRUNES = "bounds on boxes of inputs, and enumeration of the rest"


def plan_text(plan: Plan) -> str:
    """The plan, one block per evaluation, one per stage."""
    lines = [line for evaluation in plan.evaluations for line in (*_evaluation(plan, evaluation), "")]
    if any(PROVED_GAP in stage.arguments for evaluation in plan.evaluations for stage in evaluation.stages):
        lines += [f"Verdicts are about {ARITHMETIC}. {supposing()}", ""]
    if plan.claims:
        lines += [f"{len(plan.claims)} claim{'s' * (len(plan.claims) != 1)} will be judged from the records.", ""]
    return "\n".join([*lines, f"plan {plan_hash(plan)}", ""])


def _evaluation(plan: Plan, evaluation: EvaluationPlan) -> Iterator[str]:
    subject = plan.subject(evaluation.subject)
    yield f"evaluate {evaluation.name} of {subject.name}{_place(evaluation)}"
    yield f"  {_subject(subject)}"
    if evaluation.passes:
        yield f"  {'; '.join(_PASSES[name] for name in evaluation.passes)}"
    for stage in evaluation.stages:
        yield from _stage(stage)
    yield f"  in all: {_total(plan, evaluation)}"
    if evaluation.stop_after is not None:
        yield f"  stops after {number(evaluation.stop_after)} s"


def _subject(subject: Subject) -> str:
    if isinstance(subject, Property):
        return f"property of {subject.model}"
    if isinstance(subject, Shift):
        return f"{changes(subject.apply)} on {subject.model} over {subject.data}"
    what = f"minimize {subject.minimize[0]} in {subject.minimize[1]}" if subject.minimize else ""
    if subject.allow is not None:
        what = allowed(subject.allow)
    return f"{what}, on {subject.model} over {subject.data}, {subject.access.level}"


def _stage(stage: Stage) -> Iterator[str]:
    role = _PRUNES if stage.prunes else _ROLES[stage.role]
    yield f"  {stage.label}: {stage.backend}.{stage.method} as {role}{_place(stage)}"
    if stage.suite:
        yield f"    from suite {stage.suite}"
    for name, value in stage.arguments:
        yield f"    {name} = {written(value)}"
    if stage.through is not None:
        yield f"    through {written(stage.through)}"
    trusted = f": the word of {stage.trusts}, which hands out no proof" if stage.trusts else ""
    yield f"    lowering {stage.lowering}, evidence {stage.evidence}{trusted}, access {stage.access}"
    for reason in stage.reasons:
        yield f"      {reason}"
    yield f"    per unit {_cost(stage.cost)}"


def _total(plan: Plan, evaluation: EvaluationPlan) -> str:
    count = units(plan, evaluation)
    cost, unknown = per_unit(evaluation)
    if count is None:
        parts = ["as many units as the data hold", f"each at most {_cost(cost)}"]
    else:
        whole = Cost((cost.forward or 0) * count, (cost.backward or 0) * count)
        parts = [f"{count:,} unit{'s' * (count != 1)}", f"at most {_cost(whole)}"]
    if evaluation.repeats > 1:
        parts.append(f"{evaluation.repeats} repeats counted in")
    if unknown:
        parts.append(f"and what {listed(unknown)} {'takes' if len(unknown) == 1 else 'take'}")
    return ", ".join(parts)


def _cost(cost: Cost) -> str:
    known = [
        f"{passes:,} {way} pass{'es' * (passes != 1)}"
        for passes, way in ((cost.forward, "forward"), (cost.backward, "backward"))
        if passes is not None
    ]
    return " and ".join(known) or "a cost that only the run can tell"


def _place(thing: EvaluationPlan | Stage) -> str:
    return f"  ({thing.origin.file}:{thing.origin.line})" if thing.origin.file else ""
