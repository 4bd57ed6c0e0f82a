"""The auditor's sets of units against the tally's facts per unit, on any rows that can be written."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction

from audit_support import Rows, attack, certifier, evaluation, solver, threat
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tmlang.audit.columns import Restriction
from tmlang.audit.recount import Only, Recount, shift_numbers, threat_counts, threat_numbers
from tmlang.audit.tally import contradictions, tally
from tmlang.meaning.threats import Access, Ball, Either, Goal, Nature, Rejected, Shift, Subject, Success
from tmlang.meaning.values import Call
from tmlang.plan import codec
from tmlang.plan.ir import EvaluationPlan

UNION = Either((Ball("linf", "px", Fraction(1, 8)), Ball("l2", "px", Fraction(1))), ("flat", ""))
EACH = ("any", "all", "apart")
MAYBE = st.none() | st.booleans()
BRANCH = st.sampled_from([None, "flat", "2", "flat 2"])
DISTANCE = st.none() | st.sampled_from([0.0625, 0.125, 0.5, 1.0])

ROW = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["none", "valid", "valid", "invalid", "error", "timeout", "unstable"]),
        "verdict": st.sampled_from([None, "certified", "certified", "broken", "unknown", "error", "timeout"]),
        "within_scope": st.sampled_from([None, True, True, False]),
        "within_access": MAYBE,
        "observed_failure": MAYBE,
        "rejected": MAYBE,
        "label_kept": MAYBE,
        "branch": BRANCH,
        "distance": DISTANCE,
        "radius": DISTANCE,
        "queries": st.integers(0, 5),
        "margin": st.none() | st.just(0.5),
        "gap": st.sampled_from([None, None, 0.1, 0.5]),
        "decision": st.none() | st.integers(-1, 2),
        "repeat": st.integers(0, 1),
    }
)
STAGES = st.lists(
    st.sampled_from([attack("a"), attack("b"), certifier("c"), certifier("d", lowering="inner"), solver("s")]),
    min_size=1,
    max_size=4,
    unique_by=lambda s: s.label,
)
THREAT = st.builds(
    threat,
    allow=st.sampled_from([Ball("linf", "px", Fraction(1, 8)), UNION]),
    goal=st.sampled_from([Goal("untargeted"), Goal("class", target="1"), *(Goal("each", each=e) for e in EACH)]),
    clean_errors=st.sampled_from(["fail", "excluded"]),
    rejected=st.sampled_from([None, Rejected("denied"), Rejected("safe")]),
    access=st.sampled_from([Access("white_box"), Access("scores", queries=9, queries_per="attack")]),
    success=st.sampled_from([None, Success("single_draw", draws=3)]),
    nature=st.sampled_from([None, None, Nature((("rotate", Fraction(-1), Fraction(1), "deg"),), 9)]),
)  # fmt: skip
RESTRICTION = st.builds(
    Restriction,
    part=st.sampled_from([None, "flat", "2"]),
    radius=st.sampled_from([None, Fraction(1, 16), Fraction(1, 8), Fraction(1, 2)]),
    queries=st.sampled_from([None, 2, 6]),
    repeat=st.sampled_from([None, 0, 1]),
)
CLEAN = st.sampled_from(["cc", "cc", "cc", "cw", "cr", "cu"])


@st.composite
def rows(draw, e: EvaluationPlan, subject: Subject):
    made = Rows()
    labels = [s.label for s in e.stages]
    for example in range(draw(st.integers(1, 3))):
        label, clean = draw(st.integers(-1, 2)), draw(CLEAN)
        pairs = [None] if not isinstance(subject, Shift) and subject.goal.kind == "untargeted" else [0, 1, 2]
        for target in pairs if not isinstance(subject, Shift) else [None]:
            unit = f"x{example}" if target is None else f"x{example}->{target}"
            made.clean(unit, clean, label=label, target=target, label_reviewed=draw(MAYBE))
            for stage in labels:
                for row in draw(st.lists(ROW, max_size=2)):
                    made._row(unit, stage, row)
    return made.all


def raw(value, kind):
    return codec.encode(value, kind)


def as_numbers(columns):
    found = {c.name: (c.numerator, c.denominator, c.low, c.high) for c in columns.columns}
    named = {f"attack_success:{label}": (c.numerator, c.denominator, c.low, c.high) for label, c in columns.attacks}
    return found | named


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
    only = Only(restriction.part, restriction.radius, restriction.queries, restriction.repeat)
    again = Recount(raw(e, EvaluationPlan), raw(t, Subject), made, void, only)
    assert as_numbers(columns) == threat_numbers(again)
    assert asdict(columns.counts) == threat_counts(again)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_two_roads_to_a_corrupted_accuracy(data):
    shift = Shift("t", "net", "test", Call(("imagecorruptions", "fog")), "wilson", Fraction(95, 100))
    e = evaluation(attack("fog", role="corrupt", evidence="estimate"))
    made = [r for r in data.draw(rows(e, shift)) if r.repeat == 0]
    seen = set()
    made = [r for r in made if r.stage == "clean" or not (r.unit in seen or seen.add(r.unit))]
    again = Recount(raw(e, EvaluationPlan), raw(shift, Subject), made, frozenset(), Only())
    assert as_numbers(tally(e, shift, made)) == shift_numbers(again)
