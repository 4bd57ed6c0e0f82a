"""What follows from one set for another: rows that are reused, and sets that surely contain others, case by case."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from fractions import Fraction as F

import pytest
from audit_support import Rows, attack, certifier, evaluation, plan, threat

from tmlang.audit.columns import Column, Counts
from tmlang.audit.reuse import contains, reuse
from tmlang.audit.tally import tally_plan, voided_methods
from tmlang.audit.units import Unit
from tmlang.audit.void import _inside, void_methods
from tmlang.meaning.threats import Allowed, Anything, Ball, Both, Either, Goal, Patch, Property
from tmlang.plan import codec
from tmlang.plan.text import plan_json

SMALL, LARGE = F(1, 8), F(1, 4)


def linf(radius, **more):
    return Ball("linf", "px", radius, **more)


def point(name, subject="t", at=1):
    return evaluation(attack("a"), certifier("c"), name=name, subject=subject, at=(("r", F(at)),) if at else ())


# Rows --------------------------------------------------------------------------------------------------------------


def rows(name="f", **changes):
    made = Rows(name).clean("u").attack("u", "a", "broken").proof("u", "c").attack("u", "a", "valid")
    return [replace(r, **changes) for r in made.all]


def reused(mine=LARGE, theirs=SMALL, *, from_f=None, of_e=None, f=None, others=None, **changes):
    """(stage, verdict) of the rows of ``f`` that hold for ``e``, their radii given."""
    e = point("e", "mine", 0)
    f = f or point("f", "theirs", 0)
    t = threat(name="mine", allow=linf(mine))
    whole = plan([e, f], [t, replace(t, name="theirs", allow=linf(theirs), **changes)])
    records = [*(Rows("e").clean("u").all if of_e is None else of_e), *(from_f or rows())]
    found = reuse(whole, e, [f] if others is None else others, records)
    assert {r.evaluation for r in found} <= {"e"}
    return [(r.stage, r.verdict) for r in found]


WITNESS, PROOF = ("a", None), ("c", "certified")


def test_witnesses_of_smaller_sets_and_certificates_of_larger_ones():
    assert reused(LARGE, SMALL) == [WITNESS]
    assert reused(SMALL, LARGE) == [PROOF]
    assert reused(LARGE, LARGE) == [WITNESS, PROOF]
    assert reused(LARGE, SMALL, doc="other words") == [WITNESS]


@pytest.mark.parametrize(
    "changes", [{"goal": Goal("class", target="1")}, {"clean_errors": "excluded"}, {"model": "other"}]
)
def test_nothing_follows_from_another_threat(changes):
    assert reused(**changes) == []


def test_rows_are_of_the_same_unit_label_and_stage():
    assert reused(from_f=rows(unit="v")) == []
    assert reused(from_f=rows(label=1)) == []
    assert reused(from_f=rows(stage="z")) == []
    assert reused(from_f=rows("g")) == []
    assert reused(of_e=[]) == []


def test_the_label_is_that_of_the_clean_row_of_this_evaluation():
    own = Rows("e").clean("u").attack("u").all
    odd = [own[0], replace(own[1], label=2)]
    assert reused(of_e=odd) == [WITNESS]
    assert reused(of_e=[replace(own[0], label=2), own[1]]) == []
    assert reused(of_e=[replace(own[0], evaluation="g"), *rows("g")]) == []


def test_an_evaluation_reuses_nothing_of_its_own():
    e = point("e", "mine", 0)
    whole = plan([e], [threat(name="mine", allow=linf(LARGE))])
    assert reuse(whole, e, [e], rows("e")) == []


def test_a_stage_that_this_evaluation_has_not_is_passed_over():
    f = evaluation(attack("a"), certifier("c"), attack("z"), name="f", subject="theirs")
    made = Rows("f").clean("u").attack("u", "z", "broken").all
    assert reused(f=f, from_f=made) == []
    assert reused(f=f, from_f=[*made, *rows()[1:]]) == [WITNESS]


def test_a_candidate_that_breaks_nothing_is_not_reused():
    assert reused(from_f=rows(observed_failure=False)) == []
    assert reused(SMALL, LARGE, from_f=rows(verdict="unknown")) == []


# Sets --------------------------------------------------------------------------------------------------------------


def per(*radii, names=("p", "q"), **more):
    return Ball("linf", "px", None, tuple(zip(names, map(F, radii), strict=True)), "feature", **more)


@pytest.mark.parametrize(
    ("large", "small", "holds"),
    [
        (linf(F(1)), Anything(), False),
        (Anything(), linf(F(1)), False),
        (linf(F(1)), None, False),
        (None, linf(F(1)), False),
        (linf(F(1)), Both((linf(F(1)),)), False),
        (Both((linf(F(1)),)), Either((linf(F(1)),)), False),
        (Both((linf(F(1)),)), linf(F(1)), False),
        (Both((linf(F(1)),)), Anything(), False),
        (Both((linf(F(2)), linf(F(1)))), Both((linf(F(1)), linf(F(1)))), True),
        (Both((linf(F(2)), linf(F(1)))), Both((linf(F(1)), linf(F(2)))), False),
        (Both((linf(F(2)), linf(F(1)))), Both((linf(F(1)),)), False),
        (Both((linf(F(2)),)), Both((linf(F(1)), linf(F(1)))), False),
        (Either((linf(F(1)),)), Either((linf(F(1, 2)),)), True),
        (per(1, 2), per(1, 1), True),
        (per(1, 2), per(2, 1), False),
        (per(1, 2), per(1, 1, names=("q", "p")), False),
        (per(1, 2), per(1, names=("p",)), False),
        (per(1, names=("p",)), per(1, 1), False),
        (per(1, 2, tolerance=F(1)), per(2, 3), True),
        (linf(F(1)), linf(F(1, 2), tolerance=F(1, 2)), True),
        (linf(F(1)), linf(F(1, 2), tolerance=F(2, 3)), False),
        (linf(F(1)), per(1, 1), False),
        (linf(None), linf(None), True),
        (linf(None), linf(F(1, 2)), False),
        (linf(F(1, 2)), linf(None), True),
        (linf(None), linf(None, tolerance=F(1)), False),
        (Ball("l2", "px", F(2)), linf(F(1)), False),
        (Patch("rectangle", 2, 2), Patch("rectangle", 2, 2), True),
        (Patch("rectangle", 3, 3), Patch("rectangle", 2, 2), False),
    ],
)
def test_sets_equal_but_for_their_radii(large, small, holds):
    """The tally's reading of the plan, and the auditor's of its JSON."""
    assert contains(large, small) is holds
    raw = [None if a is None else codec.encode(a, Allowed) for a in (small, large)]
    assert _inside(*raw) is holds


def test_a_column_is_defined_where_its_denominator_is_not_empty():
    assert Column("c", 0, 1, F(0), F(1)).defined
    assert not Column("c", 0, 0, None, None).defined


def test_what_is_not_told_is_none_of_it():
    assert set(asdict(Counts()).values()) == {0}
    column = Column("c", 0, 1, F(0), F(1))
    assert (column.gaps, column.at_least, column.note, column.interval) == ((), False, "", None)
    unit = asdict(Unit("u", "u", "cc"))
    told = {
        "id": "u",
        "example": "u",
        "clean": "cc",
        "kept": None,
        "distance": None,
        "attacks": (),
        "levels": frozenset(),
    }
    assert unit == {name: told.get(name, False) for name in unit}


# Void methods ------------------------------------------------------------------------------------------------------


def void(records, *, subjects=None, points=None):
    """What a witness contradicts, counted by the tally and by the auditor."""
    subjects = subjects or [threat(name="t1", allow=linf(SMALL)), threat(name="t2", allow=linf(LARGE))]
    points = points or [point("e@r=1", "t1", 1), point("e@r=2", "t2", 2)]
    whole = plan(points, subjects)
    found = void_methods(json.loads(plan_json(whole)), records)
    assert found == voided_methods(whole, records)
    return sorted(found)


CROWN = ["auto_lirpa.crown"]
UNIONS = [
    threat(name=f"t{i}", allow=Either((linf(r), Ball("l2", "px", r)), ("flat", "")))
    for i, r in ((1, SMALL), (2, LARGE))
]


def at(name, attacked=None, proved="unknown", label=0, **changes):
    made = Rows(name).clean("u", label=label).attack("u", "a", attacked or "none").proof("u", "c", proved, **changes)
    return made.all


def test_a_witness_voids_what_certifies_its_set_or_a_larger_one():
    assert void(at("e@r=1", "broken", "certified")) == CROWN
    assert void(at("e@r=1", "broken") + at("e@r=2", None, "certified")) == CROWN
    assert void(at("e@r=1", None, "certified") + at("e@r=2", "broken")) == []
    assert void(at("e@r=1", "broken") + at("e@r=2", None, "unknown")) == []
    assert void(at("e@r=1", "broken") + at("e@r=2", None, "certified", margin=0.1, gap=0.2)) == []
    assert void(at("e@r=1", "broken") + at("e@r=2", None, "certified", label=1)) == []
    assert void(at("e@r=1", "valid") + at("e@r=2", None, "certified")) == []
    for spoilt in ({"status": "invalid"}, {"within_scope": None}, {"within_scope": False}):
        broken = [replace(r, **spoilt) if r.observed_failure else r for r in at("e@r=1", "broken", "certified")]
        assert void(broken) == []


def test_all_evaluations_that_ask_the_same_speak_of_one_another():
    same = [threat(name="t1", allow=linf(SMALL)), threat(name="t2", allow=linf(LARGE))]
    records = at("e@r=1", "broken") + at("e@r=2", None, "certified")
    apart = at("e", "broken") + at("f", None, "certified")
    assert void(apart, points=[point("e", "t1", 0), point("f", "t2", 0)]) == CROWN
    assert void(apart, points=[point("e", "t1", 0), point("f", "t1", 0)]) == CROWN
    assert void(apart, points=[point("e", "t2", 0), point("f", "t1", 0)]) == []
    for change in ({"goal": Goal("class", target="1")}, {"clean_errors": "excluded"}, {"data": "other"}):
        assert void(records, subjects=[same[0], replace(same[1], **change)]) == []
    assert void(records, subjects=[same[0], replace(same[1], doc="other words")]) == CROWN


def test_a_stage_of_another_name_speaks_as_well_and_is_named_with_its_evaluation():
    subjects = [threat(name="t1", allow=linf(SMALL)), threat(name="t2", allow=linf(LARGE))]
    searching = evaluation(attack("walk"), name="e", subject="t1")
    proving = evaluation(certifier("c"), name="f", subject="t2")
    found = Rows("e").clean("u").attack("u", "walk", "broken").all
    records = found + Rows("f").clean("u").proof("u", "c").all
    assert void(records, subjects=subjects, points=[searching, proving]) == CROWN
    whole = plan([searching, proving], subjects)
    (told,) = tally_plan(whole, records)["f"].contradictions
    assert (told.unit, told.certifier, told.witness) == ("u", "c", "e/walk")
    assert tally_plan(whole, records)["e"].contradictions == ()
    assert tally_plan(whole, records)["f"].counts.certified == 0
    beside = found + Rows("f").clean("u", label=1).proof("u", "c").all
    assert void(beside, subjects=subjects, points=[searching, proving]) == []


def test_properties_of_the_same_words_speak_of_one_another():
    phi = Property("t1", "m", (("a", "<=", F(1)),), (("0", "is_max", None),))
    points = [point("e", "t1", 0), point("f", "t2", 0)]
    records = at("e", "broken") + at("f", None, "certified")
    same, other = replace(phi, name="t2", doc="said again"), replace(phi, name="t2", given=(("a", "<=", F(2)),))
    assert void(records, subjects=[phi, same], points=points) == CROWN
    assert void(records, subjects=[phi, other], points=points) == []
    assert void(records, subjects=[phi, threat(name="t2", allow=linf(LARGE))], points=points) == []


def test_a_witness_of_a_branch_voids_certificates_of_that_branch():
    cases = (("flat", "flat 2", CROWN), ("2", "flat", []), (None, "flat", []), ("2", None, CROWN))
    for branch, proved, expected in cases:
        broken = [replace(r, branch=branch) if r.observed_failure else r for r in at("e@r=1", "broken")]
        assert void(broken + at("e@r=2", None, "certified", branch=proved), subjects=UNIONS) == expected


def test_two_witnesses_of_one_unit_speak_for_both_their_branches():
    rows = Rows("e@r=1").clean("u").attack("u", "a", "broken", branch="flat").attack("u", "a", "broken", branch="2")
    assert void(rows.proof("u", "c", branch="flat").all, subjects=UNIONS) == CROWN
