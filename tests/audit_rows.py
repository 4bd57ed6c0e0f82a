"""Any evaluation, threat and rows that can be written: what the three roads to every number are compared on."""

from __future__ import annotations

from fractions import Fraction

from audit_support import Rows, attack, certifier, solver, threat, trusted
from hypothesis import strategies as st

from tmlang.audit.columns import Restriction
from tmlang.audit.levels import JUDGED, SHOWN
from tmlang.audit.recount import Only
from tmlang.meaning.threats import Access, Ball, Either, Goal, Nature, Rejected, Shift, Subject, Success
from tmlang.plan.ir import EvaluationPlan

UNION = Either((Ball("linf", "px", Fraction(1, 8)), Ball("l2", "px", Fraction(1))), ("flat", ""))
EACH = ("any", "all", "apart")
DRAWS = 3
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
        "gap": st.sampled_from([None, 0.1, 0.1, 0.5]),
        "gap_kind": st.sampled_from([None, "proved", "proved", "assumed", "assumed", "none"]),
        "decision": st.none() | st.integers(-1, 2),
        "repeat": st.integers(0, 1),
        "outcomes": st.none() | st.text("01", min_size=DRAWS, max_size=DRAWS),
    }
)
STAGES = st.lists(
    st.sampled_from(
        [
            *(attack("a", left_out=out) for out in ((), ("flat",))),
            *(attack("b", left_out=out) for out in ((), ("2",))),
            *(certifier("c"), certifier("d", lowering="inner"), solver("s"), trusted("m"), trusted("o")),
        ]
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda s: s.label,
)
THREAT = st.builds(
    threat,
    allow=st.sampled_from([Ball("linf", "px", Fraction(1, 8)), UNION]),
    goal=st.sampled_from([Goal("untargeted"), Goal("class", target="1"), *(Goal("each", each=e) for e in EACH)]),
    clean_errors=st.sampled_from(["fail", "excluded"]),
    rejected=st.sampled_from([None, Rejected("denied"), Rejected("safe")]),
    access=st.sampled_from([Access("white_box"), Access("scores", queries=9, queries_per="attack")]),
    success=st.sampled_from([None, Success("single_draw", draws=DRAWS)]),
    nature=st.sampled_from([None, None, Nature((("rotate", Fraction(-1), Fraction(1), "deg"),), 9)]),
)  # fmt: skip
RESTRICTION = st.builds(
    Restriction,
    part=st.sampled_from([None, "flat", "2"]),
    radius=st.sampled_from([None, Fraction(1, 16), Fraction(1, 8), Fraction(1, 2)]),
    queries=st.sampled_from([None, 2, 6]),
    repeat=st.sampled_from([None, 0, 1]),
    level=st.sampled_from([SHOWN, SHOWN, *JUDGED]),
)
CLEAN = st.sampled_from(["cc", "cc", "cc", "cw", "cr", "cu"])


@st.composite
def rows(draw, e: EvaluationPlan, subject: Subject):
    made = Rows()
    labels = [s.label for s in e.stages]
    for example in range(draw(st.integers(1, 3))):
        label, clean = draw(st.integers(-1, 2)), draw(CLEAN)
        pairs = [None] if not isinstance(subject, Shift) and subject.goal.kind == "untargeted" else [0, 1, 2]
        failing = draw(st.none() | st.integers(0, DRAWS))
        before = {} if failing is None else {"draws": DRAWS, "errors": failing}
        for target in pairs if not isinstance(subject, Shift) else [None]:
            unit = f"x{example}" if target is None else f"x{example}->{target}"
            made.clean(unit, clean, label=label, target=target, label_reviewed=draw(MAYBE), **before)
            for stage in labels:
                for row in draw(st.lists(ROW, max_size=2)):
                    made._row(unit, stage, row)
    return made.all


def as_numbers(columns):
    found = {c.name: (c.numerator, c.denominator, c.low, c.high) for c in columns.columns}
    named = {f"attack_success:{label}": (c.numerator, c.denominator, c.low, c.high) for label, c in columns.attacks}
    named |= {f"found_alone:{label}": (c.numerator, c.denominator, c.low, c.high) for label, c in columns.alone}
    told = {f"corrupted_accuracy:{name} {severity}": c for (name, severity), c in columns.corrupted}
    named |= {name: (c.numerator, c.denominator, c.low, c.high) for name, c in told.items()}
    return found | named


def as_only(r: Restriction) -> Only:
    """The same restriction as the auditor's."""
    return Only(r.part, r.radius, r.queries, r.repeat, (r.level.trusting, r.level.gap))
