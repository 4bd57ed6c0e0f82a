"""Each pass with plans before and after; each invariant with a plan that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from plan_support import NET, THREAT, call, evaluation, manifests, program, stage

from tmlang.meaning.evaluations import Claim, Curve, Measured
from tmlang.meaning.models import Decide, Randomness
from tmlang.meaning.threats import Access, Rejected
from tmlang.plan import Capabilities, lower
from tmlang.plan.invariants import INVARIANTS, InvariantBroken, check_plan
from tmlang.plan.ir import Cost, EvaluationPlan, Plan, Stage
from tmlang.plan.passes import PASSES, drop_broken, drop_clean_wrong, merge_proofs, run_passes


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two attacks with the same arguments and the same certificate twice, before any pass."""
    made = program(
        stage(call(), label="a"),
        stage(call(), label="b"),
        stage(call("toy.box"), "certify", "c"),
        stage(call("toy.box"), "certify", "d"),
        stage(call("toy.solve"), "decide_exactly", "s"),
    )
    result, found = lower(made, Capabilities(manifests(tmp_path)))
    assert result is not None, found
    return replace(result, evaluations=(replace(result.evaluations[0], stages=_all(result), passes=()),))


def _all(plan: Plan) -> tuple[Stage, ...]:
    """The stages of the plan with the merged certificate put back."""
    stages = plan.evaluations[0].stages
    c = next(s for s in stages if s.label == "c")
    return (*stages[:3], replace(c, id="e/d", label="d"), *stages[3:])


def labels(plan: Plan) -> list[str]:
    return [s.label for s in plan.evaluations[0].stages]


def test_the_order_of_the_passes() -> None:
    assert [p.__name__ for p in PASSES] == ["merge_proofs", "drop_clean_wrong", "drop_broken"]


def test_merge_proofs(plan: Plan) -> None:
    assert labels(plan) == ["a", "b", "c", "d", "s"]
    merged = merge_proofs(plan)
    # Two equal attacks draw differently, so both stay.
    assert labels(merged) == ["a", "b", "c", "s"]
    assert merged.evaluations[0].passes == ("merge_proofs",)
    assert merge_proofs(merged) == merged


def test_merge_proofs_keeps_other_arguments(plan: Plan) -> None:
    e = plan.evaluations[0]
    other = tuple(replace(s, arguments=(("k", Fraction(1)),)) if s.label == "d" else s for s in e.stages)
    changed = replace(plan, evaluations=(replace(e, stages=other),))
    assert merge_proofs(changed) == changed


def test_drop_clean_wrong(plan: Plan) -> None:
    assert drop_clean_wrong(plan).evaluations[0].passes == ("drop_clean_wrong",)
    assert labels(drop_clean_wrong(plan)) == labels(plan)


def with_threat(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, subjects=(replace(THREAT, **changes),))


def with_evaluation(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, evaluations=(replace(plan.evaluations[0], **changes),))


def with_model(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, models=(replace(NET, **changes),))


def with_claim(plan: Plan, quantity: str) -> Plan:
    return replace(plan, claims=(Claim("c", Measured(quantity, "e"), "<=", Fraction(1)),))


DROP: tuple[tuple[str, Callable[[Plan], Plan], bool], ...] = (
    ("first witness, fixed object", lambda p: p, True),
    ("every attack has its own share", lambda p: with_evaluation(p, attribution="full"), False),
    ("denials are sought as well", lambda p: with_threat(p, rejected=Rejected("denied")), False),
    ("rejections fail", lambda p: with_threat(p, rejected=Rejected("fail")), True),
    ("distances are read", lambda p: with_threat(p, allow=None, minimize=("l2", "px")), False),
    ("a median is claimed", lambda p: with_claim(p, "median_distance"), False),
    ("a curve over the radius", lambda p: with_evaluation(p, curves=(Curve("radius", (Fraction(1),)),)), False),
    ("a random object", lambda p: with_model(p, random=Randomness("per_request")), False),
    ("a smoothed object", lambda p: with_model(p, decide=Decide("most_likely")), False),
)


@pytest.mark.parametrize(("why", "change", "dropped"), DROP)
def test_drop_broken(plan: Plan, why: str, change: Callable[[Plan], Plan], dropped: bool) -> None:
    before = change(plan)
    after = drop_broken(before)
    assert after.evaluations[0].passes == (("drop_broken",) if dropped else ()), why
    assert replace(after.evaluations[0], passes=()) == before.evaluations[0]


def test_all_passes_together(plan: Plan) -> None:
    assert run_passes(plan).evaluations[0].passes == ("merge_proofs", "drop_clean_wrong", "drop_broken")


def first(change: Callable[[Stage], Stage]) -> Callable[[Plan], Plan]:
    """A plan with its first stage changed."""

    def applied(plan: Plan) -> Plan:
        e = plan.evaluations[0]
        return with_evaluation(plan, stages=(change(e.stages[0]), *e.stages[1:]))

    return applied


def last(change: Callable[[Stage], Stage]) -> Callable[[Plan], Plan]:
    def applied(plan: Plan) -> Plan:
        e = plan.evaluations[0]
        return with_evaluation(plan, stages=(*e.stages[:-1], change(e.stages[-1])))

    return applied


def renamed(plan: Plan, name: str) -> EvaluationPlan:
    e = plan.evaluations[0]
    return replace(e, name=name, stages=tuple(replace(s, id=f"{name}/{s.label}") for s in e.stages))


BROKEN: tuple[tuple[str, Callable[[Plan], Plan]], ...] = (
    ("names and stage ids are unique", lambda p: replace(p, evaluations=p.evaluations * 2)),
    ("a stage id is its evaluation and its label", first(lambda s: replace(s, id="e/z"))),
    ("every name refers to something", lambda p: replace(p, models=())),
    ("every name refers to something", lambda p: replace(p, spaces=())),
    ("every name refers to something", lambda p: replace(p, subjects=())),
    ("every name refers to something", lambda p: replace(p, data=())),
    ("evidence has a direction", last(lambda s: replace(s, lowering="inner", reasons=("r",)))),
    ("evidence has a direction", last(lambda s: replace(s, lowering="outer", reasons=("r",)))),
    ("evidence has a direction", first(lambda s: replace(s, evidence="bound"))),
    ("has reasons", first(lambda s: replace(s, lowering="outer"))),
    ("shifts are corrupted", first(lambda s: replace(s, role="corrupt"))),
    ("no attack gets more access", lambda p: with_threat(p, access=Access("scores"))),
    ("no attack gets more access", first(lambda s: replace(s, access="transfer"))),
    ("every claim binds an evaluation", lambda p: replace(p, evaluations=(renamed(p, "other"),))),
    ("possible numbers", lambda p: with_evaluation(p, repeats=0)),
    ("possible numbers", lambda p: with_evaluation(p, stop_after=Fraction(0))),
    ("possible numbers", first(lambda s: replace(s, cost=Cost(-1, 0)))),
)


@pytest.mark.parametrize(("name", "change"), BROKEN)
def test_every_invariant_is_noticed(plan: Plan, name: str, change: Callable[[Plan], Plan]) -> None:
    check_plan(plan, "nothing")
    with pytest.raises(InvariantBroken, match=name):
        check_plan(change(plan), "a change")


def test_every_invariant_has_a_plan_that_breaks_it() -> None:
    assert all(any(said in name for said, _ in BROKEN) for name, _ in INVARIANTS)


def test_a_point_of_a_curve_answers_to_its_declared_name(plan: Plan) -> None:
    check_plan(replace(plan, evaluations=(renamed(plan, "e@eps=0.1"),)), "lowering a curve")


def test_a_curve_shares_the_evaluation_of_its_claims(tmp_path: Path) -> None:
    curve = Curve("eps", (Fraction(1, 10),), ("t",))
    made = program(evaluations=(evaluation(stage(call()), curves=(curve,)),))
    made = replace(made, claims=(Claim("c", Measured("median_distance", "e"), "<=", Fraction(1)),))
    result, _ = lower(made, Capabilities(manifests(tmp_path)))
    assert result is not None
    assert result.evaluations[0].passes == ("drop_clean_wrong",)
