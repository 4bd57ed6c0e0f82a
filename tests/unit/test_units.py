"""The facts of one unit, one case a rule, by hand (EVIDENCE.md sections 2, 4 and 6)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest
from audit_roads import both_roads
from audit_support import Rows, attack, certifier, evaluation, solver, threat

from tmlang.audit.columns import Restriction
from tmlang.audit.tally import tally
from tmlang.audit.units import (
    DISTANCE_SLACK,
    Reader,
    Unit,
    attack_stages,
    branch_names,
    claims_certificate,
    group,
    in_real_arithmetic,
    is_denial,
    is_estimate,
    is_witness,
    join_targets,
    own_radius,
    proof_stages,
    stage_label,
)
from tmlang.meaning.threats import Access, Anything, Ball, Both, Either, Nature, Success

E = evaluation(attack("a"), attack("b"), certifier("c"))
UNION = Either((Ball("linf", "px", F(1, 8)), Ball("l2", "px", F(1))), ("flat", ""))


def fact(rows, e=E, t=None, void=(), **restriction):
    """What the rows of unit ``u`` say; their numbers are counted by both roads as well."""
    t = t or threat()
    both_roads(e, t, rows.all, restriction=Restriction(**restriction), voided=frozenset(void))
    reader = Reader(e, t, Restriction(**restriction), frozenset(void))
    return reader.unit(group(e, rows.all, restriction.get("repeat"))["u"])


def u(**changes):
    return Rows().clean("u", **changes)


# Stages and rows ---------------------------------------------------------------------------------------------------


def test_stages_that_search_are_the_attacks_or_else_those_that_search_and_prove():
    decide = solver("d", role="decide_exactly")
    both = evaluation(attack("a"), decide, solver("s"), certifier("c"))
    assert [s.label for s in attack_stages(both)] == ["a"]
    assert [s.label for s in attack_stages(evaluation(decide, solver("s"), certifier("c")))] == ["d", "s"]
    assert attack_stages(evaluation(certifier("c"))) == ()


def test_stages_that_prove_are_sound_and_not_of_a_part():
    stages = [
        attack("a"), certifier("c"), certifier("i", lowering="inner"), certifier("w", evidence="estimate"),
        solver("s"), solver("d", role="decide_exactly"), attack("p", evidence="bound"),
        certifier("q", evidence="probabilistic"),
    ]  # fmt: skip
    assert [s.label for s in proof_stages(evaluation(*stages))] == ["c", "s", "d", "q"]


def test_a_stage_is_named_with_or_without_its_evaluation():
    (clean,) = u().all
    for told in ("a", "e/a"):
        assert stage_label(E, replace(clean, stage=told)) == "a"
    assert stage_label(E, replace(clean, stage="f/a")) == "f/a"


def test_what_a_row_is():
    (clean,) = u().all
    whole = replace(clean, status="valid", within_scope=True, observed_failure=True, rejected=True)
    assert is_witness(whole)
    assert is_denial(whole)
    for part in ({"status": "invalid"}, {"within_scope": None}, {"within_scope": False}):
        assert not is_witness(replace(whole, **part))
        assert not is_denial(replace(whole, **part))
    assert not is_witness(replace(whole, observed_failure=None))
    assert not is_denial(replace(whole, rejected=None))


@pytest.mark.parametrize(
    ("verdict", "margin", "gap", "claims"),
    [
        ("certified", 1.0, 0.5, True), ("certified", 0.5, 0.5, False), ("certified", 0.25, 0.5, False),
        ("certified", None, 0.5, True), ("certified", 0.25, None, True), ("unknown", 1.0, 0.5, False),
        (None, 1.0, None, False),
    ],
)  # fmt: skip
def test_a_certificate_needs_a_margin_above_its_gap(verdict, margin, gap, claims):
    (clean,) = u().all
    assert claims_certificate(replace(clean, verdict=verdict, margin=margin, gap=gap)) is claims


@pytest.mark.parametrize(
    ("verdict", "gap", "kind", "real"),
    [
        ("certified", None, None, True), ("certified", None, "none", True), ("certified", 0.5, "none", True),
        ("certified", 0.5, "proved", False), ("certified", 0.5, "assumed", False), ("unknown", None, "none", False),
        (None, None, None, False),
    ],
)  # fmt: skip
def test_a_certificate_without_a_gap_is_of_real_arithmetic(verdict, gap, kind, real):
    (clean,) = u().all
    row = replace(clean, verdict=verdict, gap=gap, gap_kind=kind)
    assert in_real_arithmetic(row) is real


def test_nature_and_single_draws_only_estimate():
    assert not is_estimate(threat())
    assert is_estimate(threat(nature=Nature((("rotate", F(-1), F(1), "deg"),), 9)))
    assert is_estimate(threat(success=Success("single_draw", draws=3)))
    assert not is_estimate(threat(success=Success("error_probability", F(1, 2), F(99, 100), 500)))


def test_stages_may_be_named_in_full_and_estimates_prove_nothing():
    rows = u().attack("u", "a", "broken").proof("u", "c", "error")
    rows.all = [replace(r, stage=f"e/{r.stage}") for r in rows.all]
    found = fact(rows)
    assert (found.broken, found.certifier_failed) == (True, True)
    estimate = evaluation(attack("a"), certifier("c", evidence="estimate"))
    assert not fact(u().attack("u", "a").proof("u", "c"), estimate).certified


def test_rows_are_grouped_by_unit_and_stage():
    rows = u().attack("u", "a").attack("u", "a", repeat=1).clean("v")
    rows.all += Rows("f").clean("w").all
    rows.all.append(replace(rows.all[1], unit="ghost"))
    found = group(E, rows.all)
    assert list(found) == ["u", "v"]
    assert [len(found["u"][s]) for s in ("clean", "a")] == [1, 2]
    assert [r.repeat for r in group(E, rows.all, 1)["u"]["a"]] == [1]
    assert len(group(E, rows.all, 1)["u"]["clean"]) == 1


def test_branches_and_radii_of_a_set():
    assert branch_names(UNION) == ("flat", "2")
    assert branch_names(Either((Anything(), Anything()))) == ("1", "2")
    assert branch_names(Anything()) == ()
    assert own_radius(Ball("l2", "px", F(1, 3))) == F(1, 3)
    assert own_radius(Both((Ball("l2", "px", F(1, 3)),))) is None
    assert own_radius(None) is None


# What is broken, open, denied --------------------------------------------------------------------------------------


def test_a_unit_that_was_not_correct_has_no_other_facts():
    for status in ("cw", "cr", "cu"):
        rows = u(status=status).attack("u", "a", "broken")
        assert fact(rows) == Unit("u", "u", status)


def test_a_witness_breaks_within_access_or_by_any():
    found = fact(u().attack("u", "a", "broken").attack("u", "b"))
    assert (found.broken, found.broken_any, found.open, found.searched) == (True, True, False, True)
    for access in (False, None):
        found = fact(u().attack("u", "a", "broken", within_access=access).attack("u", "b"))
        assert (found.broken, found.broken_any, found.open, found.searched) == (False, True, False, True)


@pytest.mark.parametrize(
    ("first", "second", "searched"),
    [
        ("none", "none", True), ("valid", "none", True), ("broken", "valid", True), ("none", "timeout", False),
        ("crashed", "none", False), ("none", "oom", False), ("none", "error", False), ("unstable", "none", False),
        ("none", "invalid", False),
    ],
)  # fmt: skip
def test_a_search_is_finished_where_every_stage_is(first, second, searched):
    found = fact(u().attack("u", "a", first).attack("u", "b", second))
    assert found.searched is searched
    assert found.open is (not searched and first != "broken")


@pytest.mark.parametrize("status", ["error", "timeout", "crashed", "oom", "unstable"])
def test_an_unfinished_row_leaves_its_stage_unfinished_whatever_stands_beside_it(status):
    rows = u().attack("u", "b").attack("u", "a", status).attack("u", "a", "valid")
    assert not fact(rows).searched
    assert fact(u().attack("u", "b").attack("u", "a", "invalid").attack("u", "a", "valid", projected=True)).searched
    assert not fact(u().attack("u", "b")).searched


def test_every_repeat_must_be_finished():
    twice = replace(E, repeats=2)
    rows = u().attack("u", "a").attack("u", "b").attack("u", "a", repeat=1)
    assert not fact(rows, twice).searched
    assert fact(rows.attack("u", "b", repeat=1), twice).searched
    assert fact(rows, twice, repeat=0).searched
    rows.attack("u", "b", "error", repeat=1)
    assert not fact(rows, twice).searched
    assert not fact(rows, twice, repeat=1).searched
    assert fact(rows, twice, repeat=0).searched


@pytest.mark.parametrize("role", ["enumerate", "decide_exactly"])
@pytest.mark.parametrize("verdict", ["error", "timeout", "unknown"])
def test_a_stage_that_proves_has_searched_nothing_where_it_gave_up(verdict, role):
    alone = evaluation(solver("s", role=role))
    assert fact(u().proof("u", "s"), alone).certified
    assert fact(u().proof("u", "s"), alone).searched
    assert not fact(u().proof("u", "s").proof("u", "s", verdict, status="none"), alone).searched
    # Of an attack the verdict does not matter.
    assert fact(u().attack("u", "a", verdict=verdict).attack("u", "b")).searched


def test_a_denial_closes_a_unit_for_those_who_count_it_if_it_is_within_access():
    denied = u().attack("u", "a", "denied").attack("u", "b", "timeout")
    found = fact(denied)
    assert (found.denied, found.open, found.open_any) == (True, True, False)
    found = fact(u().attack("u", "a", "denied", within_access=False).attack("u", "b", "timeout"))
    assert (found.denied, found.open, found.open_any) == (True, True, True)
    found = fact(u().attack("u", "a", "valid").attack("u", "b", "timeout"))
    assert (found.denied, found.open, found.open_any) == (False, True, True)
    found = fact(u().attack("u", "a", "denied").attack("u", "b"))
    assert (found.denied, found.open, found.open_any) == (True, False, False)


def test_one_kept_label_keeps_the_unit():
    rows = u().attack("u", "a", "broken", label_kept=False).attack("u", "b", "broken", label_kept=True)
    assert fact(rows).kept is True
    assert fact(u().attack("u", "a", "broken", label_kept=False).attack("u", "b", "broken")).kept is False
    assert fact(u().attack("u", "a", "broken").attack("u", "b", "valid", label_kept=True)).kept is None


def test_the_distance_is_the_least_within_access():
    rows = u().attack("u", "a", "broken", distance=0.5).attack("u", "b", "broken", distance=0.25)
    rows.attack("u", "b", "broken", distance=0.125, within_access=False).attack("u", "b", "valid", distance=0.0625)
    assert fact(rows).distance == F(1, 4)
    assert fact(u().attack("u", "a", "broken")).distance is None


def test_each_attack_alone():
    rows = u().attack("u", "a", "broken").attack("u", "b", "timeout")
    assert fact(rows).attacks == (("a", True, False), ("b", False, True))
    rows = u().attack("u", "a", "valid").attack("u", "b", "broken", within_access=False)
    assert fact(rows).attacks == (("a", False, False), ("b", False, False))
    rows = u().attack("u", "a", "broken").attack("u", "a", "timeout", repeat=1)
    assert fact(rows, replace(E, repeats=2)).attacks == (("a", True, False), ("b", False, True))
    near = u().attack("u", "a", "broken", distance=1.0).attack("u", "b", "broken", distance=0.25)
    wide = threat(allow=Ball("l2", "px", F(1)))
    assert fact(near, t=wide, radius=F(1, 2)).attacks == (("a", False, False), ("b", True, False))


# Restrictions ------------------------------------------------------------------------------------------------------


def test_a_search_that_ended_in_one_part_went_no_further_in_the_other():
    t = threat(allow=UNION)
    rows = u().attack("u", "a", "broken", branch="flat").attack("u", "b")
    assert [fact(rows, t=t, part=p).open for p in (None, "flat", "2")] == [False, False, True]
    rows = u().attack("u", "a", "valid", branch="2").attack("u", "b")
    assert [fact(rows, t=t, part=p).open for p in (None, "flat", "2")] == [False, True, False]
    rows = u().attack("u", "a").attack("u", "b")
    assert [fact(rows, t=t, part=p).open for p in ("flat", "2")] == [False, False]


def test_a_search_that_leaves_a_part_out_says_nothing_of_it():
    t = threat(allow=UNION)
    e = evaluation(attack("a", left_out=("2",)), attack("b", left_out=("flat",)))
    rows = u().attack("u", "a").attack("u", "b", "broken", branch="2")
    found = {p: fact(rows, e, t, part=p) for p in ("flat", "2")}
    assert [(f.broken, f.open) for f in found.values()] == [(False, False), (True, False)]
    assert [[label for label, *_ in f.attacks] for f in found.values()] == [["a"], ["b"]]
    alone = evaluation(attack("a", left_out=("2",)))
    assert tally(alone, t, u().attack("u", "a").all, restriction=Restriction(part="2")).get("survival") is None


def test_a_part_admits_what_lies_in_it():
    t = threat(allow=UNION)
    for branch, flat, second in (("flat", 1, 0), ("2", 0, 1), ("flat 2", 1, 1), (None, 0, 0)):
        rows = u().attack("u", "a", "broken", branch=branch).attack("u", "b")
        assert [fact(rows, t=t, part=p).broken for p in ("flat", "2")] == [flat, second]
        assert fact(rows, t=t).broken


def test_a_radius_admits_distances_up_to_an_ulp_or_two_beyond_it():
    t = threat(allow=Ball("l2", "px", F(1)))
    edge = 0.25 * (1 + DISTANCE_SLACK)
    for distance, broken in ((0.25, True), (edge, True), (edge * (1 + 2.0**-50), False), (None, False)):
        rows = u().attack("u", "a", "broken", distance=distance).attack("u", "b")
        assert fact(rows, t=t, radius=F(1, 4)).broken is broken
        assert fact(rows, t=t, radius=F(1)).broken is True
    assert DISTANCE_SLACK == 2.0**-50


def test_beyond_its_own_radius_nothing_was_searched_and_nothing_proved():
    rows = u().attack("u", "a").attack("u", "b").proof("u")
    t = threat(allow=Ball("l2", "px", F(1)))
    for radius, inside in ((F(1), True), (F(1, 2), True), (F(3, 2), False)):
        found = fact(rows, t=t, radius=radius)
        assert (found.searched, found.certified) == (inside, inside)
    assert fact(rows, t=threat(allow=UNION), radius=F(3)).searched


def test_an_attack_alone_has_spent_what_those_before_it_spent():
    """A limit per unit is one of all stages in suite order (EVIDENCE.md section 4), whichever is asked about."""
    rows = u().attack("u", "a", queries=2).attack("u", "b", "broken", queries=3)
    for per, enough in (("example", 5), ("attack", 3)):
        t = threat(access=Access("scores", queries=99, queries_per=per))
        for limit in (enough - 1, enough):
            found = fact(rows, replace(E, attribution="full"), t, queries=limit)
            assert found.attacks == (("a", False, False), ("b", limit == enough, False))
            assert found.broken is (limit == enough)


def test_queries_add_up_over_stages_and_repeats():
    t = threat(access=Access("scores", queries=99, queries_per="example"))
    rows = u().attack("u", "a", queries=2).attack("u", "a", queries=4).attack("u", "b", "broken", queries=3)
    assert [fact(rows, t=t, queries=q).broken for q in (6, 7)] == [False, True]
    apart = threat(access=Access("scores", queries=99, queries_per="attack"))
    assert [fact(rows, t=apart, queries=q).broken for q in (2, 3)] == [False, True]
    again = u().attack("u", "a", queries=2).attack("u", "b", queries=3)
    again.attack("u", "b", "broken", queries=1, repeat=1)
    twice = replace(E, repeats=2)
    assert [fact(again, twice, t, queries=q).broken for q in (5, 6)] == [False, True]
    assert [fact(again, twice, t, queries=q, repeat=1).broken for q in (0, 1)] == [False, True]
    for lone in (u(), u().attack("u", "a"), u().attack("u", "a", queries=0).clean("v").attack("v", "a", queries=9)):
        lone.attack("u", "b", "broken", queries=3)
        assert [fact(lone, t=t, queries=q).broken for q in (2, 3)] == [False, True]


# Certificates ------------------------------------------------------------------------------------------------------


def proof(rows, t=None, e=E, **more):
    found = fact(rows, e, t, **more)
    return found.certified, found.certifier_failed


def test_who_proves_a_unit_and_who_failed_to():
    assert proof(u().proof("u")) == (True, False)
    assert proof(u().proof("u", verdict="unknown")) == (False, False)
    assert proof(u().proof("u", verdict="broken")) == (False, False)
    assert proof(u().proof("u", verdict="error")) == (False, True)
    assert proof(u().proof("u", verdict="timeout")) == (False, True)
    assert proof(u().proof("u", verdict="error").proof("u")) == (True, False)
    assert proof(u().proof("u"), void=["auto_lirpa.crown"]) == (False, True)
    assert proof(u().proof("u", verdict="unknown"), void=["auto_lirpa.crown"]) == (False, False)
    assert proof(u().proof("u", margin=0.1, gap=0.2)) == proof(u().proof("u", margin=0.2, gap=0.2)) == (False, False)
    assert fact(u().attack("u", "a").attack("u", "b").proof("u", verdict="error")).undecided
    assert fact(u().attack("u", "a").proof("u")).undecided
    assert not fact(u().attack("u", "a").attack("u", "b").proof("u")).undecided


def test_a_stage_that_never_spoke_has_failed_unless_the_unit_is_broken():
    assert proof(u()) == (False, True)
    assert proof(u().attack("u", "c")) == (False, True)
    assert proof(u().attack("u", "a", "broken")) == (False, False)
    assert proof(u().attack("u", "a", "broken", within_access=False)) == (False, False)
    assert proof(u().attack("u", "a", "broken").proof("u", verdict="error")) == (False, True)


def test_a_union_is_certified_branch_by_branch():
    t = threat(allow=UNION)
    assert proof(u().proof("u", branch="flat"), t) == (False, False)
    assert proof(u().proof("u", branch="flat").proof("u", branch="2"), t) == (True, False)
    assert proof(u().proof("u", branch="flat 2"), t) == (True, False)
    assert proof(u().proof("u"), t) == (True, False)
    assert proof(u().proof("u", branch="flat"), t, part="flat") == (True, False)
    assert proof(u().proof("u", branch="flat"), t, part="2") == (False, False)
    assert proof(u().proof("u", branch="flat")) == (False, False)


def test_branches_without_names_are_numbered():
    t = threat(allow=Either((Ball("linf", "px", F(1, 8)), Ball("l2", "px", F(1)))))
    assert proof(u().proof("u", branch="1"), t) == (False, False)
    assert proof(u().proof("u", branch="1 2"), t) == (True, False)
    assert proof(u().proof("u", branch="2"), t, part="2") == (True, False)


def test_a_void_stage_hides_no_other():
    two = evaluation(certifier("c"), solver("s"))
    rows = u().proof("u", "c").proof("u", "s")
    assert proof(rows, e=two, void=["auto_lirpa.crown"]) == (True, False)
    assert proof(rows, e=two, void=["native.enumerate"]) == (True, False)
    assert proof(rows, e=two, void=["native.enumerate", "auto_lirpa.crown"]) == (False, True)


def test_a_certified_radius_covers_smaller_ones():
    t = threat(allow=Ball("l2", "px", F(1)))
    for verdict in ("certified", "unknown"):
        rows = u().proof("u", verdict=verdict, radius=0.5)
        assert [proof(rows, t, radius=r)[0] for r in (F(1, 4), F(1, 2), F(3, 4))] == [True, True, False]
    assert proof(u().proof("u", verdict="error", radius=0.5), t, radius=F(1, 4)) == (False, True)
    assert proof(u().proof("u", radius=0.5), t) == (True, False)


# Targets -----------------------------------------------------------------------------------------------------------


def pair(name, **facts):
    return Unit(f"x->{name}", "x", "cc", **facts)


def test_one_target_is_enough_or_all_are_needed():
    broken, open_, firm = pair(0, broken=True, searched=True), pair(1, open=True), pair(2, searched=True)
    cases = [((broken, open_), 1, 0, 0, 1), ((open_, firm), 0, 1, 0, 0), ((broken, firm), 1, 0, 0, 0)]
    cases += [((broken, broken), 1, 0, 1, 0), ((firm, firm), 0, 0, 0, 0)]
    for pairs, any_broken, any_open, all_broken, all_open in cases:
        some, every = (join_targets(pairs, any_target=way) for way in (True, False))
        assert (some.broken, some.open, every.broken, every.open) == (any_broken, any_open, all_broken, all_open)
        assert some.searched is every.searched is all(p.searched for p in pairs)
    assert join_targets((broken, open_), any_target=True).id == "x"


def test_the_other_facts_of_joined_targets():
    a = pair(0, broken=True, broken_any=True, denied=True, distance=F(1, 2), kept=False, certified=True)
    b = pair(1, broken=True, distance=F(1, 4), undecided=True, certifier_failed=True, open_any=True)
    some, every = (join_targets((a, b), any_target=way) for way in (True, False))
    assert (some.distance, every.distance) == (F(1, 4), F(1, 2))
    assert (some.broken_any, every.broken_any) == (True, False)
    assert (some.denied, every.denied, some.undecided, every.undecided) == (True,) * 4
    assert (some.kept, every.kept) == (False, False)
    assert (some.certified, some.certifier_failed) == (False, True)
    assert (every.certified, every.certifier_failed) == (True, False)
    assert (some.open_any, every.open_any) == (False, False)
    c = pair(2, open_any=True, kept=True)
    some, every = (join_targets((a, c), any_target=way) for way in (True, False))
    assert (some.distance, every.distance) == (F(1, 2), None)
    assert (some.open_any, every.open_any) == (False, True)
    assert some.kept is True
    assert join_targets((pair(0), c), any_target=True).open_any is True
    assert join_targets((pair(0), pair(1)), any_target=True).kept is None


def test_a_denial_of_one_target_settles_the_others_or_none():
    denied, open_ = pair(0, denied=True), pair(1, open_any=True)
    for pairs in ((denied, open_), (open_, denied)):
        some, every = (join_targets(pairs, any_target=way) for way in (True, False))
        assert (some.denied, every.denied) == (True, True)
        assert (some.open_any, every.open_any) == (False, True)


def test_a_single_target_is_its_example():
    for way in (True, False):
        assert join_targets([pair(0, broken=True, broken_any=True)], any_target=way) == replace(
            pair(0, broken=True, broken_any=True), id="x", certified=False
        )


def test_attacks_of_joined_targets_are_joined_one_by_one():
    a = pair(0, attacks=(("a", True, False), ("b", False, True)))
    b = pair(1, attacks=(("a", False, False), ("b", False, False)))
    assert join_targets((a, b), any_target=True).attacks == (("a", True, False), ("b", False, True))
    assert join_targets((a, b), any_target=False).attacks == (("a", False, False), ("b", False, False))
