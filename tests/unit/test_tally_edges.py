"""What a tally reads and passes over, one case a rule, by hand (EVIDENCE.md sections 2, 6 and 7)."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction as F
from math import inf

import pytest
from audit_roads import both_roads as tally
from audit_support import Rows, attack, certifier, evaluation, plan, solver, threat
from scipy.stats import beta

from tmlang.audit.columns import Gap, Restriction
from tmlang.audit.counting import column
from tmlang.audit.tally import contradictions, tally_plan, voided_methods
from tmlang.audit.void import void_methods
from tmlang.meaning.threats import Ball, Either, Goal, Property, Rejected, Shift
from tmlang.meaning.values import Call
from tmlang.plan.text import plan_json

BOTH = evaluation(attack(), certifier())
UNION = Either((Ball("linf", "px", F(1, 8)), Ball("l2", "px", F(1))), ("flat", ""))


def test_rows_of_another_evaluation_are_none_of_this_one():
    own = Rows().clean("u").attack("u").proof("u", margin=1.0, gap=0.1)
    other = Rows("f").clean("u").attack("u", outcome="broken").proof("u", gap=None).clean("v")
    alone, among = tally(BOTH, threat(), own.all), tally(BOTH, threat(), own.all + other.all)
    assert alone == among
    assert alone.get("certified").note == ""
    assert alone.contradictions == ()


def test_the_note_speaks_of_certificates_of_stages_that_prove():
    rows = Rows().clean("u").proof("u", margin=1.0, gap=0.1).proof("u", "c", "unknown")
    rows.attack("u", "a").proof("u", "d", margin=1.0, gap=None)
    for lowering, note in (("inner", ""), ("outer", "real arithmetic")):
        e = evaluation(attack(), certifier(), certifier("d", lowering=lowering))
        assert tally(e, threat(), rows.all).get("certified").note == note


def test_a_single_repeat_has_no_spread():
    rows = Rows().clean("u").attack("u").attack("u", repeat=1, outcome="broken")
    twice = replace(BOTH, repeats=2)
    assert [c.numerator for c in tally(twice, threat(), rows.all).repeats] == [1, 0]
    assert tally(BOTH, threat(), rows.all).repeats == ()
    for repeat, survived in ((0, 1), (1, 0)):
        one = tally(twice, threat(), rows.all, restriction=Restriction(repeat=repeat))
        assert one.repeats == ()
        assert one.get("survival").numerator == survived
        assert one.restriction == Restriction(repeat=repeat)
    nothing_searched = replace(evaluation(certifier()), repeats=2)
    assert tally(nothing_searched, threat(), Rows().clean("u").proof("u").all).repeats == ()


def test_the_spread_counts_no_void_certificates():
    rows = Rows().clean("u").attack("u").attack("u", repeat=1).proof("u").proof("u", repeat=1)
    only = replace(evaluation(solver()), repeats=2)
    found = Rows().clean("u").proof("u", "s").proof("u", "s", repeat=1)
    kept = tally(only, threat(), found.all, voided=frozenset({"native.enumerate"}))
    assert [c.numerator for c in kept.repeats] == [1, 1]
    assert kept.counts.certified == 0
    assert len(rows.all) == 5


def test_a_tally_tells_its_contradictions():
    rows = Rows().clean("u").attack("u", outcome="broken").proof("u").clean("v").attack("v").proof("v")
    (found,) = tally(BOTH, threat(), rows.all).contradictions
    assert (found.evaluation, found.unit, found.certifier, found.witness) == ("e", "u", "c", "a")
    assert (found.method, found.within_gap) == ("auto_lirpa.crown", False)


def test_what_lies_within_its_gap_voids_nothing():
    rows = Rows().clean("u").attack("u", outcome="broken").proof("u", margin=1e-7, gap=1e-6, gap_kind="proved")
    whole = plan([BOTH], [threat()])
    assert [c.within_gap for c in contradictions(BOTH, rows.all)] == [True]
    assert voided_methods(whole, rows.all) == void_methods(json.loads(plan_json(whole)), rows.all) == frozenset()


@pytest.mark.parametrize(
    ("proved", "broken", "against"),
    [
        ("flat", "flat", True), ("flat", "2", False), ("flat 2", "2", True), ("flat", "2 flat", True),
        ("flat", None, False), (None, "2", True), (None, None, True),
    ],
)  # fmt: skip
def test_a_witness_speaks_against_certificates_of_its_own_branches(proved, broken, against):
    rows = Rows().clean("u").attack("u", outcome="broken", branch=broken).proof("u", branch=proved)
    assert bool(contradictions(BOTH, rows.all)) is against
    whole = plan([BOTH], [threat(allow=UNION)])
    assert bool(void_methods(json.loads(plan_json(whole)), rows.all)) is against


def test_only_certificates_are_contradicted():
    rows = Rows().clean("u").attack("u", outcome="broken").proof("u", verdict="unknown").proof("u", verdict="broken")
    assert contradictions(BOTH, rows.all) == ()


def test_a_sweep_of_shifts_has_no_sets_to_compare():
    shift = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", F(95, 100))
    stage = attack("fog", role="corrupt", evidence="estimate")
    points = [evaluation(stage, name=f"e@s={s}", at=(("s", F(s)),)) for s in (1, 2)]
    rows = [r for e in points for r in Rows(e.name).clean("u").attack("u", "fog", "valid", decision=0).all]
    found = tally_plan(plan(points, [shift]), rows)
    assert [found[e.name].get("corrupted_accuracy").low for e in points] == [1, 1]


def test_originals_outside_the_space_stay_in_the_base_and_are_told():
    rows = Rows().clean("u", within_scope=False).clean("v", within_scope=True).clean("w", "cw", within_scope=False)
    k = tally(evaluation(attack()), threat(), rows.all).counts
    assert (k.exempt, k.base) == (2, 3)


@pytest.mark.parametrize(
    ("goal", "units"),
    [
        (Goal("untargeted"), "examples"), (Goal("class", target="1"), "examples"),
        (Goal("each", each="apart"), "pairs"), (Goal("each", each="any"), "examples"),
        (Goal("each", each="all"), "examples"),
    ],
)  # fmt: skip
def test_pairs_are_counted_where_targets_stand_apart(goal, units):
    rows = Rows()
    for target in range(3):
        rows.clean(f"x->{target}", target=target)
    found = tally(evaluation(attack()), threat(goal=goal), rows.all)
    assert found.units == units
    assert found.counts.selected == (1 if goal.each in ("any", "all") else 3)


def test_an_unusable_label_is_not_a_target_that_does_not_apply():
    rows = Rows().clean("x->0", label=-1, target=-1).clean("y->1", label=1, target=1).clean("z->1", target=1)
    k = tally(evaluation(attack()), threat(goal=Goal("each", each="apart")), rows.all).counts
    assert (k.selected, k.unusable, k.not_applicable, k.base) == (3, 1, 1, 1)


def test_what_is_broken_or_certified_is_not_open():
    rows = Rows()
    for unit in "uvwx":
        rows.clean(unit).attack(unit, outcome="timeout")
    rows.attack("u", outcome="broken", within_access=False).proof("v").proof("x", verdict="unknown")
    k = tally(BOTH, threat(), rows.all).counts
    assert (k.unfinished, k.broken_any_access, k.certified, k.open) == (4, 1, 1, 2)
    assert k.standing == 4 - 1 - 1 - 2


def test_gaps_of_no_unit_are_left_out():
    assert column("c", 1, 2, 4, Gap("a", 0), Gap("b", 1)).gaps == (Gap("b", 1),)
    assert column("c", 1, 2, 0, Gap("a", 0), Gap("b", 1)).gaps == (Gap("b", 1),)
    assert (column("c", 1, 2, 4).at_least, column("c", 1, 2, 4).note) == (False, "")


# What keeps a column from being one number ------------------------------------------------------------------------


def told(columns, name):
    """(numerator, denominator, low, high, gaps) of a column."""
    c = columns.get(name)
    return c.numerator, c.denominator, c.low, c.high, [(g.reason, g.units) for g in c.gaps]


ATTACK, CLEAN = "attack unfinished", "clean decision unknown"


def test_every_gap_is_named_with_its_units():
    rows = Rows().clean("u").attack("u", outcome="timeout").proof("u", verdict="error")
    rows.clean("v").attack("v").proof("v").clean("w", "cu").clean("x").attack("x", outcome="broken").proof("x")
    rows.all[-1] = replace(rows.all[-1], verdict="unknown")
    found = tally(evaluation(attack(), certifier(), attribution="full"), threat(), rows.all)
    assert told(found, "clean_accuracy") == (3, 4, F(3, 4), 1, [(CLEAN, 1)])
    assert told(found, "clean_answered") == (3, 4, F(3, 4), 1, [(CLEAN, 1)])
    assert told(found, "survival") == (1, 4, F(1, 4), F(3, 4), [(ATTACK, 1), (CLEAN, 1)])
    assert told(found, "survival_completed") == (1, 2, F(1, 2), F(1, 2), [])
    assert told(found, "attack_coverage") == (2, 4, F(1, 2), F(1, 2), [(ATTACK, 1), (CLEAN, 1)])
    assert told(found, "certified") == (1, 4, F(1, 4), F(1, 2), [("certifier failed or void", 1)])
    assert told(found, "certificate_coverage") == (
        2, 4, F(1, 2), F(1, 2), [("certifier failed or void", 1), (CLEAN, 1)],
    )  # fmt: skip
    assert told(found, "coverage") == (2, 4, F(1, 2), F(1, 2), [("a stage unfinished", 1), (CLEAN, 1)])
    assert told(found, "upper") == (3, 4, F(3, 4), F(3, 4), [])
    assert told(found, "robust_accuracy") == (1, 4, F(1, 4), F(3, 4), [])
    ((label, success),) = found.attacks
    assert (label, success.name, success.numerator, success.low, success.high) == (
        "a", "attack_success", 1, F(1, 4), F(3, 4),
    )  # fmt: skip
    assert [(g.reason, g.units) for g in success.gaps] == [(ATTACK, 1), (CLEAN, 1)]


def test_probabilistic_certificates_say_how_sure_they_are():
    sure = certifier("c", evidence="probabilistic", arguments=(("alpha", F(1, 1000)), ("n", F(100))))
    rows = Rows().clean("u").proof("u", margin=1.0, gap=None, draws=100, errors=0).all
    note = "each at 99.9 %, all 1 jointly at 99.9 %; 0 abstained"
    assert tally(evaluation(sure), threat(), rows).get("certified").note == f"real arithmetic; {note}"
    within = [replace(r, gap=0.1) for r in rows]
    assert tally(evaluation(sure), threat(), within).get("certified").note == note


def test_where_a_rejection_fails_too_a_denied_unit_has_fallen_and_is_not_open():
    t = threat(rejected=Rejected("denied"))
    rows = Rows().clean("u").attack("u", outcome="timeout").attack("u", outcome="denied", within_access=False)
    rows.clean("v").attack("v", outcome="timeout").clean("w").attack("w").clean("x", "cu")
    found = tally(evaluation(attack()), t, rows.all)
    assert told(found, "survival_any") == (1, 4, F(1, 4), F(3, 4), [(ATTACK, 1), (CLEAN, 1)])
    assert found.get("survival_any").note == "a rejection fails too"
    assert told(found, "denied") == (1, 4, F(1, 4), 1, [])
    assert found.get("denied").at_least


def test_semantic_validity_is_of_witnesses_within_access():
    rows = Rows().clean("u", label_reviewed=True).attack("u", outcome="broken", label_kept=True)
    rows.clean("v", label_reviewed=False).attack("v", outcome="broken", label_kept=False)
    rows.clean("w").attack("w", outcome="broken")
    rows.clean("x").attack("x", outcome="broken", label_kept=True, within_access=False)
    found = tally(evaluation(attack()), threat(), rows.all)
    assert told(found, "semantic_validity") == (1, 3, F(1, 3), F(2, 3), [("witness not judged", 1)])
    assert told(found, "reviewed") == (1, 4, F(1, 4), F(1, 4), [])


def test_a_median_distance_has_a_place_for_every_unit():
    rows = Rows()
    for unit, distance in (("a", 0.25), ("b", 0.5)):
        rows.clean(unit).attack(unit, outcome="broken", distance=distance)
    rows.clean("c").attack("c", outcome="timeout").clean("d", "cu").clean("e", "cw").clean("f").attack("f")
    least = threat(allow=None, minimize=("l2", "px"))
    failing = tally(evaluation(attack()), least, rows.all).get("median_distance")
    # Low: 0 (c), 0 (d), 0 (e), 1/4, 1/2, infinite. High: 0 (e), 1/4, 1/2, three infinite.
    assert (failing.numerator, failing.denominator, failing.low, failing.high) == (2, 6, F(1, 8), inf)
    assert [(g.reason, g.units) for g in failing.gaps] == [(ATTACK, 1), (CLEAN, 1)]
    excluded = tally(evaluation(attack()), replace(least, clean_errors="excluded"), rows.all).get("median_distance")
    assert (excluded.denominator, excluded.low, excluded.high) == (5, F(1, 4), inf)
    plain = [r for r in rows.all if r.unit in "abe"]
    alone = tally(evaluation(attack()), least, plain).get("median_distance")
    assert (alone.low, alone.high, alone.gaps) == (F(1, 4), F(1, 4), ())


# Properties and shifts --------------------------------------------------------------------------------------------

PROVES = evaluation(attack(), certifier(), solver(), subject="p")
PROPERTY = Property("p", "net", (), ())


@pytest.mark.parametrize(
    ("made", "holds", "answered", "broken", "certified"),
    [
        (lambda r: r.proof("u"), "holds", 1, 0, 1),
        (lambda r: r.proof("u").attack("u", "a", "timeout"), "holds", 1, 0, 1),
        (lambda r: r.proof("u", "a"), "undecided", 1, 0, 0),
        (lambda r: r.proof("u", margin=0.1, gap=0.2), "undecided", 1, 0, 0),
        (lambda r: r.proof("u", verdict="unknown").attack("u", "a"), "undecided", 1, 0, 0),
        (lambda r: r.proof("u", verdict="error"), "undecided", 0, 0, 0),
        (lambda r: r.proof("u", verdict="timeout").attack("u", "a"), "undecided", 0, 0, 0),
        (lambda r: r.proof("u", verdict="error", status="none"), "undecided", 0, 0, 0),
        (lambda r: r.proof("u", verdict="timeout", status="none"), "undecided", 0, 0, 0),
        (lambda r: r.attack("u", "a", "crashed").proof("u", verdict="unknown"), "undecided", 0, 0, 0),
        (lambda r: r.attack("u", "a").proof("u", "s", "unknown", status="oom"), "undecided", 0, 0, 0),
        (lambda r: r, "undecided", 0, 0, 0),
        (lambda r: r.attack("u", "a", "broken").proof("u", verdict="error"), "violated", 1, 1, 0),
        (lambda r: r.attack("u", "a", "broken").proof("u", "s"), "violated", 1, 1, 0),
    ],
)
def test_a_property_is_one_unit(made, holds, answered, broken, certified):
    rows = made(Rows().clean("u")).all
    found = tally(PROVES, PROPERTY, rows)
    k = found.counts
    assert (found.holds, found.units, found.clean_errors, found.subject) == (holds, "properties", None, "p")
    assert (k.selected, k.base, k.denominator, k.broken, k.certified) == (1, 1, 1, broken, certified)
    gaps = [("a stage unfinished", 1)] if not answered else []
    assert told(found, "coverage") == (answered, 1, answered, answered, gaps)


def test_void_proofs_hold_no_property_and_are_told():
    rows = Rows().clean("u").proof("u", "s").all
    void = frozenset({"native.enumerate"})
    assert tally(PROVES, PROPERTY, rows, voided=void).holds == "undecided"
    both = tally(PROVES, PROPERTY, [*rows, *Rows().clean("u").attack("u", outcome="broken").all[1:]])
    assert [c.method for c in both.contradictions] == ["native.enumerate"]


def test_a_middle_that_violates_is_the_witness():
    rows = Rows().clean("u", status="cw").all
    middle = replace(rows[0], status="valid", within_scope=True, observed_failure=True)
    assert tally(PROVES, PROPERTY, [middle]).holds == "violated"


def test_the_letters_of_a_shift():
    shift = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "clopper_pearson", F(95, 100))
    stage = attack("fog", role="corrupt", evidence="estimate")
    rows = Rows()
    for unit, clean, decision in (("u", "cc", 0), ("v", "cw", 0), ("w", "cr", 1), ("x", "cu", None), ("y", "cc", 0)):
        rows.clean(unit, clean, label=-1 if unit == "y" else 0)
        for repeat in range(2):
            right = decision == 0 and (unit, repeat) != ("u", 1)
            status = "error" if decision is None else "valid"
            rows.attack(unit, "fog", status, decision=0 if right else 1, repeat=repeat)
    found = tally(evaluation(stage, repeats=2), shift, rows.all)
    k = found.counts
    assert (found.units, found.clean_errors, found.restriction) == ("examples", None, Restriction())
    assert (k.selected, k.unusable, k.base, k.denominator) == (5, 1, 4, 4)
    assert (k.cc, k.cw, k.cr, k.cu, k.unfinished) == (1, 1, 1, 1, 2)
    assert told(found, "corrupted_accuracy") == (3, 8, F(3, 8), F(5, 8), [("not evaluated", 2)])
    assert told(found, "coverage") == (6, 8, F(6, 8), F(6, 8), [("not evaluated", 2)])
    # 3 of 6 answers, so 1.5 of 3 examples: from the lower limit of 1 to the upper limit of 2.
    low, high = beta.ppf(0.025, 1, 3), beta.ppf(0.975, 3, 1)
    assert found.get("corrupted_accuracy").interval.ends == pytest.approx((low, high), rel=1e-9)
    assert [(c.numerator, c.low, c.high) for c in found.repeats] == [(2, F(2, 4), F(3, 4)), (1, F(1, 4), F(2, 4))]
    one = tally(evaluation(stage, repeats=2), shift, rows.all, restriction=Restriction(repeat=1))
    assert told(one, "corrupted_accuracy")[:2] == (1, 4)
    assert one.restriction == Restriction(repeat=1)
    assert one.repeats == ()


def test_a_shift_without_answers_has_no_interval():
    shift = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", F(95, 100))
    rows = Rows().clean("u").attack("u", "fog", "error").all
    found = tally(evaluation(attack("fog", role="corrupt", evidence="estimate")), shift, rows)
    assert found.get("corrupted_accuracy").interval is None
