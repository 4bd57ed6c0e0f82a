"""The columns of EVIDENCE.md section 2, with the page's own figures and cases worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from audit_support import Rows, attack, certifier, evaluation, plan, solver, threat, worked_example

from tmlang.audit.columns import Restriction
from tmlang.audit.show import percent
from tmlang.audit.tally import contradictions, median, tally, tally_plan
from tmlang.meaning.threats import Access, Ball, Either, Goal, Nature, Property, Rejected, Shift, Success
from tmlang.meaning.values import Call

WORKED = evaluation(attack(), certifier())


def shares(columns, *names):
    return {n: (percent(columns.get(n).low), percent(columns.get(n).high)) for n in names}


def test_worked_example_with_clean_errors_as_failures():
    k = tally(WORKED, threat(), worked_example())
    c = k.counts
    assert (c.cc, c.cw, c.cr, c.cu) == (80, 12, 6, 2)
    assert (c.broken, c.unfinished, c.certified, c.base, c.denominator) == (30, 10, 20, 100, 100)
    assert shares(k, "robust_accuracy", "survival", "attack_coverage", "survival_completed") == {
        "robust_accuracy": ("20 %", "52 %"),
        "survival": ("40 %", "52 %"),
        "attack_coverage": ("88 %", "88 %"),
        "survival_completed": ("45.5 %", "45.5 %"),
    }
    assert k.get("survival_completed").low == Fraction(40, 88)
    assert (k.get("clean_accuracy").low, k.get("clean_accuracy").high) == (Fraction(80, 100), Fraction(82, 100))
    assert (k.get("clean_answered").low, k.get("clean_answered").high) == (Fraction(92, 100), Fraction(94, 100))
    assert k.get("upper").low == k.get("upper").high == Fraction(52, 100)
    assert k.get("certified").low == k.get("certified").high == Fraction(20, 100)
    assert k.get("certificate_coverage").low == Fraction(80, 82)
    assert [(g.reason, g.units) for g in k.get("survival").gaps] == [
        ("attack unfinished", 10),
        ("clean decision unknown", 2),
    ]


def test_worked_example_with_clean_errors_excluded():
    k = tally(WORKED, threat(clean_errors="excluded"), worked_example())
    assert k.counts.denominator == 82
    assert k.get("robust_accuracy") is None
    assert shares(k, "robust_rate", "survival", "attack_coverage", "survival_completed") == {
        "robust_rate": ("24.4 %", "63.4 %"),
        "survival": ("48.8 %", "63.4 %"),
        "attack_coverage": ("85.4 %", "85.4 %"),
        "survival_completed": ("57.1 %", "57.1 %"),
    }
    assert k.get("clean_accuracy").denominator == 100


def test_without_a_certifier_there_is_no_certified_column():
    k = tally(evaluation(attack()), threat(), Rows().clean("u").attack("u").all)
    assert k.get("certified") is None
    assert k.get("certificate_coverage") is None
    assert k.get("robust_accuracy").low == 0


def test_without_a_search_there_is_no_survival():
    k = tally(evaluation(certifier()), threat(), Rows().clean("u").proof("u").all)
    assert k.get("survival") is None
    assert k.get("certified").low == 1


def test_an_empty_denominator_is_undefined_and_never_zero():
    k = tally(evaluation(attack()), threat(clean_errors="excluded"), Rows().clean("u", "cw").clean("v", "cr").all)
    assert k.counts.denominator == 0
    assert (k.get("survival").low, k.get("survival").high) == (None, None)
    assert k.get("clean_accuracy").low == 0
    assert k.get("clean_answered").low == Fraction(1, 2)


def test_unusable_labels_and_pairs_that_do_not_apply_leave_the_base():
    rows = Rows().clean("a->1", label=0, target=1).attack("a->1", outcome="broken")
    rows.clean("b->1", label=1, target=1).clean("c->1", label=-1, target=1)
    k = tally(evaluation(attack()), threat(goal=Goal("class", target="1")), rows.all)
    assert (k.counts.selected, k.counts.unusable, k.counts.not_applicable, k.counts.base) == (3, 1, 1, 1)
    assert k.get("survival").high == 0


@pytest.mark.parametrize("outcome", ["error", "timeout", "unstable", "invalid"])
def test_what_did_not_finish_is_open_in_both_directions(outcome):
    k = tally(evaluation(attack()), threat(), Rows().clean("u").attack("u", outcome=outcome).all)
    assert (k.get("survival").low, k.get("survival").high) == (0, 1)
    assert k.get("attack_coverage").low == 0
    assert k.get("upper").low == 1


def test_a_stage_without_a_row_did_not_finish():
    rows = Rows().clean("u").attack("u", "a")
    k = tally(evaluation(attack("a"), attack("b")), threat(), rows.all)
    assert (k.get("survival").low, k.get("survival").high) == (0, 1)


def test_a_witness_settles_a_unit_that_later_stages_skipped():
    k = tally(evaluation(attack("a"), attack("b")), threat(), Rows().clean("u").attack("u", "a", "broken").all)
    assert k.counts.unfinished == 0
    assert k.get("coverage").low == 1


def test_the_projection_of_an_invalid_candidate_finishes_the_stage():
    rows = Rows().clean("u").attack("u", outcome="invalid").attack("u", outcome="valid", projected=True)
    assert tally(evaluation(attack()), threat(), rows.all).get("survival").low == 1
    rows = Rows().clean("u").attack("u", outcome="invalid").attack("u", outcome="broken", projected=True)
    assert tally(evaluation(attack()), threat(), rows.all).get("survival").high == 0


def test_a_failing_input_outside_the_set_is_no_witness():
    rows = Rows().clean("u").attack("u", outcome="invalid", observed_failure=None, decision=1).attack("u")
    k = tally(evaluation(attack()), threat(), rows.all)
    assert k.counts.broken_any_access == 0


def test_access_bounds_survival_and_not_r():
    rows = Rows().clean("u").attack("u", outcome="broken", within_access=False).clean("v").attack("v")
    k = tally(evaluation(attack()), threat(), rows.all)
    assert k.get("survival").low == 1
    assert k.get("upper").low == Fraction(1, 2)
    assert k.get("robust_accuracy").high == Fraction(1, 2)


def test_attack_success_needs_full_attribution_and_counts_each_attack_alone():
    rows = Rows().clean("u").attack("u", "a", "broken").attack("u", "b", "timeout")
    rows.clean("v").attack("v", "a").attack("v", "b", "broken").clean("w", "cu").clean("x", "cw")
    first = tally(evaluation(attack("a"), attack("b")), threat(), rows.all)
    assert first.attacks == ()
    full = dict(tally(evaluation(attack("a"), attack("b"), attribution="full"), threat(), rows.all).attacks)
    assert (full["a"].low, full["a"].high) == (Fraction(1, 3), Fraction(2, 3))
    assert (full["b"].low, full["b"].high) == (Fraction(1, 3), Fraction(3, 3))


def test_what_one_attack_found_alone_counts_the_others_that_ran_to_their_end():
    """u: both; v: a alone; w: a, while b timed out; x: neither, b timed out; y: b alone; z: nobody knows it clean."""
    rows = Rows()
    for unit, a, b in (
        ("u", "broken", "broken"), ("v", "broken", "none"), ("w", "broken", "timeout"), ("x", "none", "timeout"),
        ("y", "none", "broken"),
    ):  # fmt: skip
        rows.clean(unit).attack(unit, "a", a).attack(unit, "b", b)
    rows.clean("z", "cu").clean("wrong", "cw")
    full = tally(evaluation(attack("a"), attack("b"), attribution="full"), threat(), rows.all)
    alone = dict(full.alone)
    assert (alone["a"].numerator, alone["a"].low, alone["a"].high) == (1, Fraction(1, 6), Fraction(3, 6))
    assert (alone["b"].numerator, alone["b"].low, alone["b"].high) == (1, Fraction(1, 6), Fraction(3, 6))
    assert {g.reason: g.units for g in alone["a"].gaps} == {"attack unfinished": 1, "clean decision unknown": 1}
    assert tally(evaluation(attack("a"), attack("b")), threat(), rows.all).alone == ()
    assert tally(evaluation(attack("a"), attribution="full"), threat(), rows.all).alone == ()


def test_honest_unknown_is_finished_and_a_crash_of_the_certifier_is_not():
    rows = Rows()
    for unit, verdict in (("p", "certified"), ("q", "unknown"), ("r", "timeout"), ("s", "error")):
        rows.clean(unit).proof(unit, "c", verdict)
    k = tally(evaluation(certifier()), threat(), rows.all)
    assert (k.get("certified").low, k.get("certified").high) == (Fraction(1, 4), Fraction(3, 4))
    assert k.get("certificate_coverage").low == Fraction(2, 4)


def test_a_margin_within_its_gap_certifies_nothing():
    rows = Rows().clean("u").proof("u", margin=1e-7, gap=1e-6, gap_kind="proved")
    rows.clean("v").proof("v", margin=1e-5, gap=1e-6, gap_kind="proved")
    assert tally(evaluation(certifier()), threat(), rows.all).counts.certified == 1


def test_a_certificate_without_a_gap_is_one_of_real_arithmetic():
    rows = Rows().clean("u").proof("u", margin=1.0, gap=None, gap_kind="none")
    rows.clean("v").proof("v", margin=1.0, gap=0.1, gap_kind="proved")
    assert tally(evaluation(certifier()), threat(), rows.all).get("certified").note == "real arithmetic"
    bounded = [r for r in rows.all if r.unit == "v"]
    assert tally(evaluation(certifier()), threat(), bounded).get("certified").note == ""


def test_an_inner_lowering_never_certifies():
    k = tally(evaluation(certifier(lowering="inner")), threat(), Rows().clean("u").proof("u").all)
    assert k.get("certified") is None
    assert k.counts.certified == 0


def test_a_contradicted_method_is_void_in_the_whole_run():
    rows = Rows().clean("u").attack("u", outcome="broken").proof("u").clean("v").attack("v").proof("v")
    other = Rows("f").clean("w").proof("w")
    e, f = evaluation(attack(), certifier()), evaluation(certifier(), name="f")
    p = plan([e, f], [threat()])
    (found,) = contradictions(e, rows.all)
    assert (found.unit, found.method, found.witness, found.within_gap) == ("u", "auto_lirpa.crown", "a", False)
    columns = tally_plan(p, rows.all + other.all)
    assert columns["e"].counts.certified == columns["f"].counts.certified == 0
    assert (columns["f"].get("certified").low, columns["f"].get("certified").high) == (0, 1)
    assert columns["e"].contradictions == (found,)


def test_a_contradiction_within_the_gap_voids_nothing():
    rows = Rows().clean("u").attack("u", outcome="broken").proof("u", margin=1e-8, gap=1e-6, gap_kind="assumed")
    rows.clean("v").attack("v").proof("v", margin=1.0, gap=1e-6, gap_kind="assumed")
    e = evaluation(attack(), certifier())
    columns = tally_plan(plan([e], [threat()]), rows.all)["e"]
    assert columns.contradictions[0].within_gap
    assert columns.counts.certified == 1


def test_denials_have_their_own_column_and_their_own_survival():
    rows = Rows().clean("u").attack("u", outcome="denied").clean("v").attack("v", outcome="broken")
    rows.clean("w").attack("w").clean("x", "cr")
    k = tally(evaluation(attack()), threat(clean_errors="excluded", rejected=Rejected("denied")), rows.all)
    assert k.get("survival").low == Fraction(2, 3)
    assert k.get("survival_any").low == k.get("survival_any").high == Fraction(1, 3)
    assert (k.get("denied").low, k.get("denied").high, k.get("denied").at_least) == (Fraction(1, 3), 1, True)
    assert tally(evaluation(attack()), threat(rejected=Rejected("safe")), rows.all).get("denied") is None


def targets(outcomes: dict[str, list[str]], proofs: dict[str, list[str]] | None = None):
    """Examples of label 0 with targets 1, 2, …: outcomes and verdicts in order of target."""
    rows = Rows()
    for example, of_targets in outcomes.items():
        rows.clean(f"{example}->0", label=0, target=0)
        for t, outcome in enumerate(of_targets, 1):
            rows.clean(f"{example}->{t}", label=0, target=t).attack(f"{example}->{t}", outcome=outcome)
            if proofs:
                rows.proof(f"{example}->{t}", "c", proofs[example][t - 1])
    return rows.all


OUTCOMES = {
    "one": ["broken", "none"],
    "both": ["broken", "broken"],
    "none": ["none", "none"],
    "open": ["broken", "error"],
    "stuck": ["none", "error"],
}


@pytest.mark.parametrize(
    ("each", "broken", "unfinished", "base", "not_applicable"),
    [("any", 3, 1, 5, 0), ("all", 1, 1, 5, 0), ("apart", 4, 2, 10, 5)],
)
def test_targeted_each(each, broken, unfinished, base, not_applicable):
    k = tally(evaluation(attack()), threat(goal=Goal("each", each=each)), targets(OUTCOMES))
    counts = k.counts
    assert (counts.broken, counts.unfinished, counts.base, counts.not_applicable) == (
        broken,
        unfinished,
        base,
        not_applicable,
    )
    assert k.units == ("pairs" if each == "apart" else "examples")


@pytest.mark.parametrize(("each", "certified", "failed"), [("any", 1, 1), ("all", 3, 0)])
def test_certificates_of_targets_join_the_other_way_round(each, certified, failed):
    outcomes = {name: ["none", "none"] for name in "abcd"}
    proofs = {
        "a": ["certified", "certified"],
        "b": ["certified", "error"],
        "c": ["certified", "unknown"],
        "d": ["unknown", "unknown"],
    }
    k = tally(evaluation(attack(), certifier()), threat(goal=Goal("each", each=each)), targets(outcomes, proofs))
    assert (k.counts.certified, k.counts.certifier_failed) == (certified, failed)


def test_repeats_unite_and_show_their_spread():
    rows = Rows().clean("u").attack("u", outcome="broken", repeat=0).attack("u", repeat=1)
    rows.clean("v").attack("v", repeat=0).attack("v", outcome="broken", repeat=1)
    rows.clean("w").attack("w", repeat=0).attack("w", repeat=1)
    k = tally(evaluation(attack(), repeats=2), threat(), rows.all)
    assert k.get("survival").low == k.get("survival").high == Fraction(1, 3)
    assert [(c.low, c.high) for c in k.repeats] == [(Fraction(2, 3), Fraction(2, 3))] * 2


def test_a_repeat_that_is_missing_leaves_the_unit_open():
    rows = Rows().clean("u").attack("u", repeat=0)
    assert tally(evaluation(attack(), repeats=2), threat(), rows.all).get("survival").low == 0


UNION = Either((Ball("linf", "px", Fraction(1, 8)), Ball("l2", "px", Fraction(1))), ("flat", "round"))


def test_parts_of_a_union():
    rows = Rows()
    rows.clean("f").attack("f", outcome="broken", branch="flat").proof("f", verdict="unknown")
    rows.clean("r").attack("r", outcome="broken", branch="flat round").proof("r", verdict="unknown")
    rows.clean("h").attack("h").proof("h", branch="flat")
    rows.clean("w").attack("w").proof("w", branch="flat").proof("w", branch="round")
    rows.clean("x").attack("x").proof("x")
    e, t = evaluation(attack(), certifier()), threat(allow=UNION)

    def part(name):
        return tally(e, t, rows.all, restriction=Restriction(part=name))

    whole = tally(e, t, rows.all)
    assert (whole.counts.broken, whole.counts.certified) == (2, 2)
    assert (part("flat").counts.broken, part("flat").counts.certified) == (2, 3)
    assert (part("round").counts.broken, part("round").counts.certified) == (1, 2)


def test_a_unit_broken_elsewhere_was_not_searched_in_this_part():
    rows = Rows().clean("u").attack("u", "a", "broken", branch="flat")
    e = evaluation(attack("a"), attack("b"))
    k = tally(e, threat(allow=UNION), rows.all, restriction=Restriction(part="round"))
    assert (k.get("survival").low, k.get("survival").high) == (0, 1)


def test_a_radius_curve_reads_distances_and_certified_radii():
    rows = Rows()
    rows.clean("u").attack("u", outcome="broken", distance=0.25).proof("u", verdict="unknown", radius=0.125)
    rows.clean("v").attack("v", outcome="broken", distance=0.75).proof("v", radius=0.5)
    t = threat(allow=Ball("l2", "px", Fraction(1)))
    e = evaluation(attack(), certifier())

    def at(radius):
        counts = tally(e, t, rows.all, restriction=Restriction(radius=radius)).counts
        return counts.broken, counts.certified

    assert at(Fraction(1, 8)) == (0, 2)
    assert at(Fraction(1, 4)) == (1, 1)
    assert at(Fraction(1, 2)) == (1, 1)
    assert at(Fraction(3, 4)) == (2, 0)
    beyond = tally(e, t, rows.all, restriction=Restriction(radius=Fraction(2)))
    assert (beyond.get("survival").low, beyond.get("survival").high) == (0, 0)


def test_no_search_reaches_beyond_its_own_radius():
    k = tally(
        evaluation(attack()),
        threat(allow=Ball("l2", "px", Fraction(1))),
        Rows().clean("u").attack("u").all,
        restriction=Restriction(radius=Fraction(2)),
    )
    assert (k.get("survival").low, k.get("survival").high) == (0, 1)


def test_a_query_curve_adds_up_over_the_stages():
    rows = Rows().clean("u").attack("u", "a", queries=60).attack("u", "b", "broken", queries=30)
    e = evaluation(attack("a"), attack("b"))
    t = threat(access=Access("scores", queries=100))

    def broken(t, queries):
        return tally(e, t, rows.all, restriction=Restriction(queries=queries)).counts.broken

    assert [broken(t, q) for q in (30, 89, 90)] == [0, 0, 1]
    each = threat(access=Access("scores", queries=100, queries_per="attack"))
    assert [broken(each, q) for q in (29, 30)] == [0, 1]


MINIMIZE = threat(allow=None, minimize=("l2", "px"), clean_errors="excluded")


def distances(*found, **more):
    rows = Rows()
    for i, d in enumerate(found):
        rows.clean(f"u{i}").attack(f"u{i}", outcome="none" if d is None else "broken", distance=d)
    for unit, status in more.items():
        rows.clean(unit, status)
    return rows.all


def test_median_distance_counts_not_found_as_infinite():
    e = evaluation(attack())
    k = tally(e, MINIMIZE, distances(1.0, 3.0, None)).get("median_distance")
    assert (k.low, k.high, k.numerator, k.denominator) == (3, 3, 2, 3)
    assert tally(e, MINIMIZE, distances(1.0, None)).get("median_distance").low == math.inf
    assert tally(e, MINIMIZE, distances(1.0, 2.0)).get("median_distance").low == Fraction(3, 2)
    failing = replace(MINIMIZE, clean_errors="fail")
    assert tally(e, failing, distances(1.0, 3.0, w="cw")).get("median_distance").low == 1
    assert tally(e, MINIMIZE, distances(1.0, 3.0, w="cw")).get("median_distance").low == 2


def test_an_unfinished_search_may_still_find_anything_nearer():
    rows = Rows().clean("u").attack("u", "a", "broken", distance=2.0).attack("u", "b", "error")
    k = tally(evaluation(attack("a"), attack("b")), MINIMIZE, rows.all).get("median_distance")
    assert (k.low, k.high) == (0, 2)
    assert tally(evaluation(attack()), MINIMIZE, distances(x="cu")).get("median_distance").high == math.inf
    assert median([]) is None


def test_reviews_move_no_other_column():
    rows = Rows().clean("u", label_reviewed=True).attack("u", outcome="broken", label_kept=True)
    rows.clean("v", label_reviewed=True).attack("v", outcome="broken", label_kept=False)
    rows.clean("w", label_reviewed=False).attack("w", outcome="broken")
    k = tally(evaluation(attack()), threat(), rows.all)
    assert k.get("reviewed").low == Fraction(2, 3)
    assert (k.get("semantic_validity").low, k.get("semantic_validity").high) == (Fraction(1, 3), Fraction(2, 3))
    assert k.get("survival").high == 0


def test_enumeration_alone_is_both_search_and_proof():
    rows = Rows().clean("u").proof("u", "s").clean("v").attack("v", "s", "broken", verdict="broken")
    k = tally(evaluation(solver()), threat(clean_errors="excluded"), rows.all)
    assert k.get("robust_rate").low == k.get("robust_rate").high == Fraction(1, 2)
    assert k.get("survival").low == Fraction(1, 2)
    assert k.get("coverage").low == 1


def test_what_gave_up_has_searched_nothing():
    rows = Rows().clean("u").proof("u", "s", "unknown").clean("v").proof("v", "s")
    k = tally(evaluation(solver()), threat(), rows.all)
    assert (k.get("survival").low, k.get("survival").high) == (Fraction(1, 2), 1)
    assert k.get("attack_coverage").low == Fraction(1, 2)
    assert k.get("certificate_coverage").low == 1
    beside = tally(evaluation(attack("a"), solver()), threat(), rows.attack("u", "a").attack("v", "a").all)
    assert beside.get("survival").low == beside.get("attack_coverage").low == 1


def test_a_solver_that_times_out_leaves_the_attacks_finished():
    rows = Rows().clean("u").attack("u", "a").proof("u", "s", "timeout")
    k = tally(evaluation(attack("a"), solver()), threat(), rows.all)
    assert k.get("survival").low == 1
    assert k.get("attack_coverage").low == 1
    assert k.get("coverage").low == 0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "robust_accuracy"),
        ({"clean_errors": "excluded"}, "robust_rate"),
        ({"goal": Goal("class", target="1")}, "robust_rate"),
        ({"success": Success("error_probability", Fraction(1, 2), Fraction(99, 100), 500)}, "robust_rate"),
    ],
)
def test_the_name_robust_accuracy_is_kept_for_one_meaning(changes, name):
    k = tally(evaluation(attack()), threat(**changes), Rows().clean("u").attack("u").all)
    assert k.get(name) is not None


def test_a_single_draw_says_nothing_about_r():
    t = threat(success=Success("single_draw", draws=3))
    k = tally(evaluation(attack()), t, Rows().clean("u").attack("u").all)
    assert k.get("robust_rate") is None
    assert k.get("upper") is None


def test_the_draws_of_nature_say_nothing_about_r():
    t = threat(nature=Nature((("rotate", Fraction(-1), Fraction(1), "deg"),), 100))
    k = tally(evaluation(attack()), t, Rows().clean("u").attack("u").all)
    assert (k.get("robust_rate"), k.get("robust_accuracy"), k.get("upper")) == (None, None, None)
    assert k.get("survival").low == 1


def test_the_interval_of_a_shift_counts_examples_and_not_repeats():
    stage = attack("fog", role="corrupt", evidence="estimate")
    rows = Rows()
    for i in range(10):
        rows.clean(f"u{i}")
        for repeat in range(2):
            rows.attack(f"u{i}", "fog", "valid", decision=0 if i < 7 else 1, repeat=repeat)
    for kind, ends in (("wilson", (0.3967781, 0.8922087)), ("clopper_pearson", (0.3475471, 0.9332605))):
        shift = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), kind, Fraction(95, 100))
        found = tally(evaluation(stage, repeats=2), shift, rows.all).get("corrupted_accuracy")
        assert (found.low, found.denominator) == (Fraction(7, 10), 20)
        assert found.interval.ends == pytest.approx(ends, abs=1e-6)  # 7 of 10, as scipy's binomtest has it


def test_corrupted_accuracy_counts_answers_and_leaves_the_missing_open():
    shift = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", Fraction(95, 100))
    stage = attack("fog", role="corrupt", evidence="estimate")
    rows = Rows().clean("u").attack("u", "fog", "valid", decision=0)
    rows.clean("v", "cw").attack("v", "fog", "valid", decision=0).clean("w").attack("w", "fog", "valid", decision=2)
    rows.clean("x").attack("x", "fog", "error")
    k = tally(evaluation(stage), shift, rows.all).get("corrupted_accuracy")
    assert (k.low, k.high) == (Fraction(2, 4), Fraction(3, 4))
    assert tally(evaluation(stage), shift, rows.all).get("coverage").low == Fraction(3, 4)


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        ({"verdict": "certified"}, "holds"),
        ({"verdict": "broken", "status": "valid", "within_scope": True, "observed_failure": True}, "violated"),
        ({"verdict": "broken", "status": "unstable"}, "undecided"),
        ({"verdict": "timeout", "status": "timeout"}, "undecided"),
    ],
)
def test_a_property_holds_is_violated_or_stays_undecided(row, holds):
    rows = Rows().clean("phi")
    rows._row("phi", "s", {"status": "none"} | row)
    k = tally(evaluation(solver()), Property("t", "net", (), ()), rows.all)
    assert k.holds == holds
