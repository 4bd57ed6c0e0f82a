"""Curves: what each point's own records say, and what follows from the others."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from audit_support import Rows, attack, certifier, evaluation, plan, threat
from hypothesis import given, settings
from hypothesis import strategies as st

from tmlang.audit.curves import after_each_attack, sweeps
from tmlang.audit.reuse import contains
from tmlang.audit.tally import tally_plan, voided_methods
from tmlang.audit.void import void_methods
from tmlang.meaning.evaluations import Curve
from tmlang.meaning.threats import Access, Anything, Ball, Both, Either, Goal, Patch
from tmlang.plan.text import plan_json

RADII = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2))


def linf(radius, **more):
    return Ball("linf", "px", radius, **more)


def sweep_plan(radii=RADII, **changes):
    threats = [threat(name=f"t@{r}", allow=linf(r)) for r in radii]
    points = [
        evaluation(attack(), certifier(), name=f"e@r={r}", subject=t.name, at=(("r", r),))
        for r, t in zip(radii, threats, strict=True)
    ]
    return plan(points, threats, **changes)


def run(outcomes):
    """Per radius and unit: ``broken``, ``certified`` or ``none``."""
    rows = []
    for r, units in zip(RADII, outcomes, strict=True):
        made = Rows(f"e@r={r}")
        for i, outcome in enumerate(units):
            made.clean(f"u{i}").attack(f"u{i}", outcome="broken" if outcome == "broken" else "none")
            made.proof(f"u{i}", verdict="certified" if outcome == "certified" else "unknown")
        rows += made.all
    return rows


def test_a_witness_reaches_upwards_and_a_certificate_downwards():
    rows = run([["none", "none"], ["broken", "certified"], ["none", "none"]])
    (sweep,) = sweeps(sweep_plan(), rows)
    assert (sweep.evaluation, sweep.parameter) == ("e", "r")
    assert [p.value for p in sweep.points] == list(RADII)
    assert [(p.own.counts.broken, p.own.counts.certified) for p in sweep.points] == [(0, 0), (1, 1), (0, 0)]
    assert [(p.closed.counts.broken, p.closed.counts.certified) for p in sweep.points] == [(0, 1), (1, 1), (1, 0)]


def test_a_witness_at_a_smaller_radius_voids_what_was_certified_at_a_larger_one():
    """u1 is broken at 1/8 and certified at 1/4 and 1/2: only the smaller set says so."""
    rows = run([["none", "broken"], ["certified", "certified"], ["none", "certified"]])
    whole = sweep_plan()
    method = {f"{s.backend}.{s.method}" for e in whole.evaluations for s in e.stages if s.role == "certify"}
    assert voided_methods(whole, rows) == method
    assert void_methods(json.loads(plan_json(whole)), rows) == method
    columns = tally_plan(whole, rows)
    assert [len(columns[e.name].contradictions) for e in whole.evaluations] == [0, 1, 1]
    assert {columns[e.name].counts.certified for e in whole.evaluations} == {0}
    # The other way round is no contradiction: a larger set may hold a failure that a smaller one does not.
    sound = run([["none", "certified"], ["none", "certified"], ["none", "broken"]])
    assert voided_methods(whole, sound) == void_methods(json.loads(plan_json(whole)), sound) == frozenset()
    # Nor do other labels, or other threats, speak of the same thing.
    other = [replace(r, label=1, clean_decision=1) if r.evaluation.endswith("1/8") else r for r in rows]
    assert voided_methods(whole, other) == void_methods(json.loads(plan_json(whole)), other) == frozenset()


OUTCOME = st.sampled_from(["none", "broken", "certified"])


@given(st.lists(st.tuples(OUTCOME, OUTCOME, OUTCOME), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_closed_curves_are_monotone_and_by_the_definition(units):
    # A certificate at a larger radius than a witness would be a contradiction, and no curve.
    pairs = [(i, j) for j in range(3) for i in range(j)]
    sound = [u for u in units if not any(u[i] == "broken" and u[j] == "certified" for i, j in pairs)]
    rows = run(list(zip(*sound, strict=True)) if sound else [[], [], []])
    (sweep,) = sweeps(sweep_plan(), rows)
    for k, point in enumerate(sweep.points):
        assert point.closed.counts.broken == sum("broken" in u[: k + 1] for u in sound)
        assert point.closed.counts.certified == sum("certified" in u[k:] for u in sound)
        assert point.own.counts.broken == sum(u[k] == "broken" for u in sound)


def test_nothing_is_reused_across_other_labels_or_threats():
    rows = run([["broken"], ["none"], ["none"]])
    other = [replace(r, label=1, clean_decision=1) if r.evaluation.endswith("1/2") else r for r in rows]
    (sweep,) = sweeps(sweep_plan(), other)
    assert [p.closed.counts.broken for p in sweep.points] == [1, 1, 0]
    whole = sweep_plan()
    targeted = [replace(t, goal=Goal("class", target="1")) if t.name.endswith("1/2") else t for t in whole.subjects]
    (sweep,) = sweeps(replace(whole, subjects=tuple(targeted)), rows)
    assert [p.closed.counts.broken for p in sweep.points] == [1, 1, 0]


def test_radius_and_query_curves_are_restrictions_of_the_same_records():
    rows = Rows().clean("u").attack("u", outcome="broken", distance=0.25, queries=10)
    rows.clean("v").attack("v", outcome="broken", distance=0.5, queries=20)
    curve = Curve("radius", (Fraction(1, 2), Fraction(1, 8), Fraction(1, 4)))
    e = evaluation(attack(), curves=(curve, Curve("queries", (Fraction(10), Fraction(20)))))
    t = threat(allow=Ball("l2", "px", Fraction(1)), access=Access("scores", queries=50))
    radius, queries = sweeps(plan([e], [t]), rows.all)
    assert [(p.value, p.own.counts.broken) for p in radius.points] == [
        (Fraction(1, 8), 0),
        (Fraction(1, 4), 1),
        (Fraction(1, 2), 2),
    ]
    assert [p.closed.counts.broken for p in queries.points] == [1, 2]


@pytest.mark.parametrize(
    ("large", "small", "holds"),
    [
        (linf(Fraction(1)), linf(Fraction(1)), True),
        (linf(Fraction(1)), linf(Fraction(1, 2)), True),
        (linf(Fraction(1, 2)), linf(Fraction(1)), False),
        (linf(Fraction(1, 2)), linf(Fraction(1, 4), tolerance=Fraction(1, 2)), False),
        (linf(Fraction(1), tolerance=Fraction(1)), linf(Fraction(2)), True),
        (linf(Fraction(1)), Ball("l2", "px", Fraction(1)), False),
        (linf(Fraction(1)), Ball("linf", "other", Fraction(1)), False),
        (Ball("linf", "px", radii=(("0", Fraction(1)), ("1", Fraction(2))), per="channel"),
         Ball("linf", "px", radii=(("0", Fraction(1)), ("1", Fraction(1))), per="channel"), True),
        (Ball("linf", "px", radii=(("0", Fraction(1)), ("1", Fraction(1))), per="channel"),
         Ball("linf", "px", radii=(("0", Fraction(0)), ("1", Fraction(2))), per="channel"), False),
        (Both((linf(Fraction(1)), Ball("l2", "px", Fraction(2)))),
         Both((linf(Fraction(1)), Ball("l2", "px", Fraction(1)))), True),
        (Either((linf(Fraction(1)), Ball("l2", "px", Fraction(1)))),
         Either((linf(Fraction(1)), Ball("l2", "px", Fraction(2)))), False),
        (Anything(), Anything(), True),
        (Patch("rectangle", 2, 2), Patch("rectangle", 3, 3), False),
        (None, None, True),
    ],
)  # fmt: skip
def test_which_sets_surely_contain_which(large, small, holds):
    assert contains(large, small) == holds


def test_survival_falls_along_the_suite_and_ends_at_the_headline():
    rows = Rows()
    for unit, first in (("u", "a"), ("v", "b"), ("w", None)):
        rows.clean(unit)
        for label in ("a", "b"):
            rows.attack(unit, label, "broken" if first == label else "none")
    points = after_each_attack(evaluation(attack("a"), attack("b")), threat(), rows.all)
    assert [(label, c.high) for label, c in points] == [("", 1), ("a", Fraction(2, 3)), ("b", Fraction(1, 3))]
    assert after_each_attack(evaluation(certifier()), threat(), rows.all) == ()
