"""From meaning to plan: each stage gets its backend, its lowering, its arguments and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tmlang.diagnostics.model import Diagnostic, has_errors, in_order
from tmlang.meaning.corruptions import called
from tmlang.meaning.evaluations import Curve, Evaluation, Program, StageCall
from tmlang.meaning.threats import Shift, Subject, Threat
from tmlang.meaning.values import Symbol
from tmlang.plan.arithmetic import of_real_arithmetic
from tmlang.plan.capability import Capabilities, Method
from tmlang.plan.cost import unit_cost
from tmlang.plan.invariants import check_plan
from tmlang.plan.ir import AccessLevel, EvaluationPlan, Evidence, Plan, Stage
from tmlang.plan.match import Match, Matcher
from tmlang.plan.passes import DROP_BROKEN, run_passes
from tmlang.plan.written import number


def lower(
    program: Program, capabilities: Capabilities, *, root: str = ".", found: Iterable[Diagnostic] = ()
) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """The plan of ``program`` with every pass applied, and what the matcher found.

    ``None`` when a stage cannot be carried; all such stages are reported. ``found`` are the checker's diagnostics,
    whose warnings go into the plan. ``root`` is the folder that the spec's paths start from.
    """
    evaluations, diagnostics = _matched(program, capabilities)
    if has_errors(diagnostics):
        return None, diagnostics
    warnings = tuple((d.code, d.message) for d in (*found, *diagnostics) if not d.is_error)
    plan = Plan(
        edition=program.edition,
        modules=program.modules,
        spaces=program.spaces,
        models=program.models,
        data=program.data,
        subjects=program.subjects,
        evaluations=evaluations,
        claims=program.claims,
        parameters=program.parameters,
        figures=program.figures,
        warnings=warnings,
        root=root,
    )
    check_plan(plan, "lower")
    plan = run_passes(plan)
    vain = (*_empty_handed(plan, capabilities), *of_real_arithmetic(plan))
    return None if vain else plan, (*diagnostics, *vain)


def match(program: Program, capabilities: Capabilities) -> tuple[Diagnostic, ...]:
    """What the matcher finds in the evaluations of ``program``, without a plan: for a spec with errors elsewhere."""
    return _matched(program, capabilities)[1]


def _matched(program: Program, capabilities: Capabilities) -> tuple[tuple[EvaluationPlan, ...], tuple[Diagnostic, ...]]:
    matcher = Matcher(program, capabilities)
    subjects = {subject.name: subject for subject in program.subjects}
    evaluations = tuple(part for e in program.evaluations for part in _evaluation(e, subjects, matcher))
    return evaluations, in_order(matcher.diagnostics)


def _evaluation(evaluation: Evaluation, subjects: dict[str, Subject], matcher: Matcher) -> list[EvaluationPlan]:
    """One plan per point of the curves over parameters, else one."""
    points = [(curve, i) for curve in evaluation.curves for i in range(len(curve.subjects))]
    if not points:
        return [_planned(evaluation, evaluation.name, subjects[evaluation.subject], matcher)]
    return [_at(evaluation, curve, i, subjects, matcher) for curve, i in points]


def _at(
    evaluation: Evaluation, curve: Curve, index: int, subjects: dict[str, Subject], matcher: Matcher
) -> EvaluationPlan:
    value = curve.values[index]
    name = f"{evaluation.name}@{curve.parameter}={number(value)}"
    planned = _planned(evaluation, name, subjects[curve.subjects[index]], matcher)
    return replace(planned, at=((curve.parameter, value),))


def _planned(evaluation: Evaluation, name: str, subject: Subject, matcher: Matcher) -> EvaluationPlan:
    calls = _calls(evaluation, subject)
    before = [[c.label for c in calls[:i] if c.role == "attack"] for i in range(len(calls))]
    found = [(call, matcher.match(call, subject, labels)) for call, labels in zip(calls, before, strict=True)]
    matches = [(call, match) for call, match in found if match]
    matcher.look_at_all(matches, subject, evaluation)
    stages = [_stage(name, call, match, subject, matcher.capabilities) for call, match in matches]
    return EvaluationPlan(
        name=name,
        subject=subject.name,
        stages=tuple(stages),
        seed=evaluation.seed,
        repeats=evaluation.repeats,
        stop_after=evaluation.stop_after,
        attribution=evaluation.attribution,
        curves=evaluation.curves,
        doc=evaluation.doc,
        origin=evaluation.origin,
    )


def _calls(evaluation: Evaluation, subject: Subject) -> tuple[StageCall, ...]:
    """The stages as written; those of a shift are its changes."""
    if isinstance(subject, Shift):
        labels = [called(c) for c in subject.apply] if len(subject.apply) > 1 else ["apply"]
        return tuple(StageCall("attack", n, c, origin=c.origin) for n, c in zip(labels, subject.apply, strict=True))
    return evaluation.stages


def _stage(evaluation: str, call: StageCall, match: Match, subject: Subject, capabilities: Capabilities) -> Stage:
    method = match.method
    return Stage(
        id=f"{evaluation}/{call.label}",
        label=call.label,
        role=method.role,
        backend=method.backend,
        method=method.name,
        evidence=_evidence(match),
        lowering=match.lowering,
        access=_access(match, subject),
        arguments=match.arguments,
        reasons=match.reasons,
        through=call.through,
        suite=call.suite,
        left_out=match.left_out,
        cost=unit_cost(method, dict(match.numbers), subject),
        trusts=_solver(method, capabilities),
        origin=call.origin,
    )


def _empty_handed(plan: Plan, capabilities: Capabilities) -> Iterator[Diagnostic]:
    """Stages that start from what an earlier one broke, in evaluations that leave a unit once it is broken."""
    for evaluation in plan.evaluations:
        for stage in evaluation.stages if DROP_BROKEN in evaluation.passes else ():
            backend = capabilities.backend(stage.backend)
            method = backend.method(stage.method) if backend else None
            for name, value in stage.arguments:
                if method and method.arguments[name].type == "stage" and isinstance(value, Symbol):
                    yield Diagnostic(
                        "TM522",
                        f"`{stage.label}` starts from what `{value.name}` breaks, and that is not searched again",
                        stage.origin,
                        notes=("at a radius one witness is enough: a broken unit leaves before the next attack",),
                        help="ask for the nearest failure with `minimize:`, or keep all units with `attribution: full`",
                    )


def _evidence(match: Match) -> Evidence:
    """``complete`` holds only for exactly this set (EVIDENCE.md section 7): a solver of a larger set gives a bound, and
    so does an enumeration of which boxes rest on an assumption (section 6)."""
    evidence = match.method.evidence
    assumes = match.method.role == "enumerate" and ("rounding", Symbol("assumed")) in match.arguments
    return "bound" if evidence == "complete" and (match.lowering != "exact" or assumes) else evidence


def _solver(method: Method, capabilities: Capabilities) -> str:
    """The solver whose word is taken: of `trusted` evidence, else nothing."""
    backend = capabilities.backend(method.backend) if method.evidence == "trusted" else None
    return f"{backend.name} {backend.version}" if backend else ""


def _access(match: Match, subject: Subject) -> AccessLevel:
    """What the stage is granted: no more than it needs."""
    if isinstance(subject, Threat) and match.method.role == "attack" and subject.access.level == "transfer":
        return "transfer"
    return match.method.access
