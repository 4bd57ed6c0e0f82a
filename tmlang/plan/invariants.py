"""What holds of every plan, checked after lowering and after every pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from tmlang.meaning.threats import Property, Shift, Threat
from tmlang.plan.ir import PROOFS, EvaluationPlan, Plan


class InvariantBroken(AssertionError):
    """A fault of a pass or of the lowering, never of a spec."""


def check_plan(plan: Plan, after: str) -> None:
    """Raise :class:`InvariantBroken`, naming the invariant, unless all of :data:`INVARIANTS` hold."""
    for name, holds in INVARIANTS:
        for fault in holds(plan):
            raise InvariantBroken(f"after {after}: {name}: {fault}")


def _unique(plan: Plan) -> Iterator[str]:
    names = [e.name for e in plan.evaluations] + [s.id for e in plan.evaluations for s in e.stages]
    yield from (name for name, n in Counter(names).items() if n > 1)


def _ids(plan: Plan) -> Iterator[str]:
    yield from (s.id for e in plan.evaluations for s in e.stages if s.id != f"{e.name}/{s.label}")


def _references(plan: Plan) -> Iterator[str]:
    subjects = {s.name for s in plan.subjects}
    models, data, spaces = ({x.name for x in xs} for xs in (plan.models, plan.data, plan.spaces))
    yield from (e.subject for e in plan.evaluations if e.subject not in subjects)
    yield from (s.model for s in plan.subjects if s.model not in models)
    yield from (s.data for s in plan.subjects if not isinstance(s, Property) and s.data not in data)
    yield from (
        space for space in (*(m.space for m in plan.models), *(d.space for d in plan.data)) if space not in spaces
    )


def _direction(plan: Plan) -> Iterator[str]:
    """EVIDENCE.md sections 6 and 7: an inner lowering never certifies, ``complete`` needs the exact set."""
    for evaluation in plan.evaluations:
        for stage in evaluation.stages:
            proves = stage.evidence in PROOFS
            if (proves and stage.lowering == "inner") or (stage.evidence == "complete" and stage.lowering != "exact"):
                yield f"{stage.id} is {stage.evidence} on an {stage.lowering} lowering"
            if (stage.evidence == "trusted") != bool(stage.trusts):
                yield f"{stage.id} is {stage.evidence} and trusts “{stage.trusts}”"
            if stage.role == "attack" and proves:
                yield f"{stage.id} is an attack and claims a {stage.evidence}"


def _explained(plan: Plan) -> Iterator[str]:
    yield from (s.id for e in plan.evaluations for s in e.stages if s.lowering != "exact" and not s.reasons)


def _roles(plan: Plan) -> Iterator[str]:
    """A shift is corrupted and nothing else; only a shift is."""
    for evaluation in plan.evaluations:
        shifted = isinstance(plan.subject(evaluation.subject), Shift)
        yield from (s.id for s in evaluation.stages if (s.role == "corrupt") != shifted)


def _access(plan: Plan) -> Iterator[str]:
    """No attack stage is granted more than its threat grants."""
    order = ("nothing", "decisions", "scores", "white_box")
    for evaluation in plan.evaluations:
        subject = plan.subject(evaluation.subject)
        if not isinstance(subject, Threat):
            continue
        granted = subject.access.level
        for stage in evaluation.stages:
            if stage.role != "attack":
                continue
            if granted == "transfer" or stage.access == "transfer":
                if granted != stage.access:
                    yield stage.id
            elif order.index(stage.access) > order.index(granted):
                yield stage.id


def _claims(plan: Plan) -> Iterator[str]:
    declared = {declared_name(e) for e in plan.evaluations}
    yield from (c.left.evaluation for c in plan.claims if c.left.evaluation not in declared)


def _positive(plan: Plan) -> Iterator[str]:
    for e in plan.evaluations:
        if e.repeats < 1 or (e.stop_after is not None and e.stop_after <= 0):
            yield e.name
        yield from (s.id for s in e.stages for passes in (s.cost.forward, s.cost.backward) if (passes or 0) < 0)


def declared_name(evaluation: EvaluationPlan) -> str:
    """The name that claims use: a point of a curve is ``<name>@<parameter>=<value>``."""
    return evaluation.name.partition("@")[0]


INVARIANTS: tuple[tuple[str, Callable[[Plan], Iterator[str]]], ...] = (
    ("names and stage ids are unique", _unique),
    ("a stage id is its evaluation and its label", _ids),
    ("every name refers to something in the plan", _references),
    ("evidence has a direction", _direction),
    ("a lowering that is not exact has reasons", _explained),
    ("shifts are corrupted and nothing else is", _roles),
    ("no attack gets more access than its threat grants", _access),
    ("every claim binds an evaluation of the plan", _claims),
    ("repeats, limits and costs are possible numbers", _positive),
)
