"""The auditor's sets of units against the tally's facts per unit, on any rows that can be written."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction

from audit_rows import RESTRICTION, STAGES, THREAT, as_numbers, as_only, rows
from audit_support import attack, evaluation
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tmlang.audit.recorrupt import shift_numbers
from tmlang.audit.recount import Only, Recount
from tmlang.audit.redraw import counts, numbers
from tmlang.audit.tally import contradictions, tally
from tmlang.meaning.threats import Goal, Shift, Subject
from tmlang.meaning.values import Call
from tmlang.plan import codec
from tmlang.plan.ir import EvaluationPlan


def raw(value, kind):
    return codec.encode(value, kind)


@given(st.data(), STAGES, THREAT, RESTRICTION, st.sampled_from(["first", "full"]), st.booleans())
@settings(max_examples=400, deadline=None)
def test_two_roads_to_every_number(data, stages, t, restriction, attribution, minimize):
    if minimize:
        t = replace(t, allow=None, minimize=("l2", "px"))
        restriction = replace(restriction, part=None, queries=None)
        t = replace(t, goal=Goal("untargeted") if t.goal.kind == "each" else t.goal)
    e = evaluation(*stages, attribution=attribution, repeats=2)
    made = data.draw(rows(e, t))
    void = frozenset(c.method for c in contradictions(e, made) if not c.within_gap)
    event(f"void: {bool(void)}")
    columns = tally(e, t, made, restriction=restriction, voided=void)
    again = Recount(raw(e, EvaluationPlan), raw(t, Subject), made, void, as_only(restriction))
    assert as_numbers(columns) == numbers(again)
    assert asdict(columns.counts) == counts(again)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_two_roads_to_a_corrupted_accuracy(data):
    shift = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", Fraction(95, 100))
    e = evaluation(attack("fog", role="corrupt", evidence="estimate"))
    made = [r for r in data.draw(rows(e, shift)) if r.repeat == 0]
    seen = set()
    made = [r for r in made if r.stage == "clean" or not (r.unit in seen or seen.add(r.unit))]
    again = Recount(raw(e, EvaluationPlan), raw(shift, Subject), made, frozenset(), Only())
    assert as_numbers(tally(e, shift, made)) == shift_numbers(again)
