"""Claims against ranges, and what a sample says about its population."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from audit_support import Rows, attack, certifier, evaluation, plan, solver, threat, worked_example
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tmlang.audit.claims import decide, exit_code, formula, judge
from tmlang.audit.intervals import clopper_pearson_lower, clopper_pearson_upper, population_interval, wilson
from tmlang.audit.show import interval, number, percent
from tmlang.meaning.evaluations import Claim, Measured, Parameter, RoundsTo
from tmlang.meaning.models import Data, Take, Truth
from tmlang.meaning.threats import Ball, Property, Shift
from tmlang.meaning.values import Artifact, Call, Symbol

WORKED = plan([evaluation(attack(), certifier())], [threat()])
PERCENT = Fraction(1, 100)


def claim(quantity, op, right, e="e", population=None, **args):
    values = {k: Symbol(v) if isinstance(v, str) else v for k, v in args.items()}
    return Claim("c", Measured(quantity, e, tuple(values.items())), op, right, population=population)


@pytest.mark.parametrize(
    ("quantity", "op", "right", "status"),
    [  # survival lies in [40, 52] %, R in [20, 52] %, certified is 20 %
        ("survival", ">=", 40, "supported"),
        ("survival", ">=", 45, "undecided"),
        ("survival", ">=", 53, "refuted"),
        ("survival", ">", 40, "undecided"),
        ("survival", ">", 52, "refuted"),
        ("survival", "<=", 52, "supported"),
        ("survival", "<", 52, "undecided"),
        ("survival", "<=", 39, "refuted"),
        ("survival", "==", 45, "undecided"),
        ("survival", "==", 60, "refuted"),
        ("certified", "==", 20, "supported"),
        ("certified", ">=", 20, "supported"),
        ("robust_accuracy", "<=", 57, "supported"),
        ("robust_accuracy", "<=", 50, "undecided"),
        ("robust_accuracy", ">=", 20, "supported"),
    ],
)
def test_a_claim_is_judged_by_its_whole_range(quantity, op, right, status):
    assert judge(claim(quantity, op, right * PERCENT), WORKED, worked_example()).status == status


REAL = [{"gap": None, "gap_kind": None}, {"gap": None, "gap_kind": "none"}, {"gap": 1e-6, "gap_kind": "none"}]


@pytest.mark.parametrize("gap", REAL)
@pytest.mark.parametrize(
    ("quantity", "op", "right", "status"),
    [  # two of four units are certified, one of them in real arithmetic alone; nothing is broken
        ("certified", ">=", 25, "supported"),
        ("certified", ">=", 50, "undecided"),
        ("certified", ">=", 51, "refuted"),
        ("certified", "<=", 50, "supported"),
        ("certified", "<=", 25, "undecided"),
        ("robust_accuracy", ">=", 25, "supported"),
        ("robust_accuracy", ">=", 50, "undecided"),
        ("survival", ">=", 100, "supported"),
    ],
)
def test_a_certificate_of_real_arithmetic_supports_no_claim(gap, quantity, op, right, status):
    rows = Rows()
    for unit in "stuv":
        rows.clean(unit).attack(unit)
    rows.proof("s", margin=1.0, gap=0.5).proof("t", margin=1.0, **gap)
    rows.proof("u", verdict="unknown").proof("v", verdict="unknown")
    found = judge(claim(quantity, op, right * PERCENT), WORKED, rows.all)
    assert found.status == status
    assert ("real arithmetic" in found.reason) is (status == "undecided")


def test_a_property_that_holds_in_real_arithmetic_alone_is_undecided():
    subject = Property("phi", "net", (), ())
    held = Claim("c", Measured("holds", "e"), "holds", None)
    p = plan([evaluation(solver(), subject="phi")], [subject], claims=(held,))
    for kind, status in ((None, "undecided"), ("none", "undecided"), ("assumed", "assumed"), ("proved", "supported")):
        rows = Rows().clean("u").proof("u", "s", margin=1.0, gap=kind and 1e-6, gap_kind=kind).all
        found = judge(held, p, rows)
        assert found.status == status
        assert ("real arithmetic" in found.reason) is (status == "undecided")


@pytest.mark.parametrize(
    ("value", "decimals", "status"),
    [
        ("20", 0, "supported"),
        ("20.0", 1, "supported"),
        ("20.5", 0, "supported"),
        ("20.51", 0, "refuted"),
        ("20.05", 1, "supported"),
        ("20.06", 1, "refuted"),
        ("20.1", 1, "refuted"),
    ],
)
def test_the_written_digits_carry_meaning(value, decimals, status):
    right = RoundsTo(Fraction(value) / 100, decimals, percent=True)
    assert judge(claim("certified", "rounds_to", right), WORKED, worked_example()).status == status


def test_rounding_a_range_is_undecided_where_it_straddles():
    right = RoundsTo(Fraction(46, 100), 0, percent=True)
    assert judge(claim("survival", "rounds_to", right), WORKED, worked_example()).status == "undecided"


def test_a_reading_names_its_range_its_gaps_and_its_records():
    found = judge(claim("survival", ">=", 45 * PERCENT), WORKED, worked_example())
    assert (found.low, found.high) == (Fraction(2, 5), Fraction(13, 25))
    assert "attack unfinished: 10" in found.reason
    assert found.rests_on == ("e/clean", "e/a")
    assert judge(claim("robust_accuracy", "<=", PERCENT), WORKED, worked_example()).rests_on == (
        "e/clean",
        "e/a",
        "e/c",
    )


def test_set_makes_another_claim():
    changed = plan([evaluation(attack())], [threat()], parameters=(Parameter("eps", Fraction(1), changed=True),))
    found = judge(claim("survival", ">=", PERCENT), changed, Rows().clean("u").attack("u").all)
    assert found.status == "not_evaluated"
    assert "eps" in found.reason


def test_what_nothing_measured_stays_undecided():
    only = plan([evaluation(attack())], [threat(clean_errors="excluded")])
    rows = Rows().clean("u", "cw").all
    assert judge(claim("certified", ">=", PERCENT), only, rows).status == "undecided"
    found = judge(claim("survival", ">=", PERCENT), only, rows)
    assert found.status == "undecided"
    assert "denominator is empty" in found.reason
    assert judge(claim("survival", ">=", PERCENT), WORKED, []).status == "undecided"


def test_attack_success_names_its_attack():
    e = evaluation(attack("a"), attack("b"), attribution="full")
    rows = Rows().clean("u").attack("u", "a", "broken").attack("u", "b")
    p = plan([e], [threat()])
    found = judge(claim("attack_success", ">=", Fraction(1), attack="a"), p, rows.all)
    assert (found.status, found.rests_on) == ("supported", ("e/clean", "e/a"))
    assert judge(claim("attack_success", ">=", Fraction(1), attack="b"), p, rows.all).status == "refuted"


def test_a_curve_over_a_parameter_is_found_by_its_point():
    small, large = (evaluation(attack(), name=f"e@eps={n}/255", at=(("eps", Fraction(n, 255)),)) for n in (2, 8))
    rows = Rows(small.name).clean("u").attack("u").all + Rows(large.name).clean("u").attack("u", outcome="broken").all
    p = plan([small, large], [threat()])
    assert judge(claim("survival", "==", Fraction(1), eps=Fraction(2, 255)), p, rows).status == "supported"
    assert judge(claim("survival", "==", Fraction(0), eps=Fraction(8, 255)), p, rows).status == "supported"
    assert judge(claim("survival", "==", Fraction(0)), p, rows).status == "undecided"


def two(**changes):
    """A certified unit under e, a broken one under f."""
    e, f = evaluation(certifier(), name="e"), evaluation(attack(), name="f", subject="s")
    rows = Rows("e").clean("u").proof("u").all + Rows("f").clean("u").attack("u", outcome="broken").all
    return plan([e, f], [threat(), threat(name="s", model="other", **changes)]), rows


def test_a_comparison_needs_all_of_one_range_against_all_of_the_other():
    p, rows = two()
    better = Claim("c", Measured("robust_accuracy", "e"), ">=", Measured("robust_accuracy", "f"))
    assert judge(better, p, rows).status == "supported"
    worse = Claim("c", Measured("robust_accuracy", "f"), ">=", Measured("robust_accuracy", "e"))
    assert judge(worse, p, rows).status == "refuted"
    assert judge(better, p, rows).rests_on == ("e/clean", "e/c", "f/clean", "f/a")


def test_numbers_of_different_sets_or_examples_are_not_compared():
    p, rows = two(allow=Ball("linf", "px", Fraction(1, 4)))
    better = Claim("c", Measured("robust_accuracy", "e"), ">=", Measured("robust_accuracy", "f"))
    assert "allow" in judge(better, p, rows).reason
    p, rows = two()
    more = rows + Rows("f").clean("v").attack("v").all
    assert "different examples" in judge(better, p, more).reason
    assert judge(better, p, more).status == "undecided"


SAMPLE = Data(
    "test", "px", Call(("npz",)), Artifact("t.npz"), (Take("sample", count=1000, seed=1),), Truth("published", "x")
)


def thousand():
    """cc 1,000, W 430, c 200: R in [200, 570] of 1,000."""
    rows = Rows()
    for i in range(1000):
        rows.clean(f"u{i}").attack(f"u{i}", outcome="broken" if i < 430 else "none")
        rows.proof(f"u{i}", verdict="certified" if i >= 800 else "unknown")
    return rows.all


def test_a_population_claim_widens_the_range():
    p = plan([evaluation(attack(), certifier())], [threat()], data=(SAMPLE,))
    found = judge(claim("robust_accuracy", "<=", 61 * PERCENT, population=95 * PERCENT), p, thousand())
    assert (percent(found.low), percent(found.high)) == ("17.6 %", "60.1 %")
    assert found.status == "supported"
    assert (
        judge(claim("robust_accuracy", "<=", 60 * PERCENT, population=95 * PERCENT), p, thousand()).status
        == "undecided"
    )


def test_a_population_claim_needs_a_sample_and_counted_clean_errors():
    first = plan([evaluation(attack(), certifier())], [threat()])
    found = judge(claim("robust_accuracy", "<=", PERCENT, population=95 * PERCENT), first, worked_example())
    assert "sample" in found.reason
    excluded = plan([evaluation(attack(), certifier())], [threat(clean_errors="excluded")], data=(SAMPLE,))
    found = judge(claim("robust_rate", "<=", PERCENT, population=95 * PERCENT), excluded, worked_example())
    assert found.status == "undecided"
    assert "clean errors" in found.reason


def test_clopper_pearson_meets_the_published_figures():
    low, high = population_interval(200, 570, 1000, Fraction(95, 100))
    assert (round(100 * low, 1), round(100 * high, 1)) == (17.6, 60.1)
    # 0 of 10 at 95 %: the closed form 1 - 0.025^(1/10).
    assert clopper_pearson_upper(0, 10, Fraction(1, 40)) == pytest.approx(1 - 0.025**0.1, abs=1e-12)
    assert clopper_pearson_lower(10, 10, Fraction(1, 40)) == pytest.approx(0.025**0.1, abs=1e-12)
    assert clopper_pearson_lower(0, 10, Fraction(1, 40)) == 0
    assert clopper_pearson_upper(10, 10, Fraction(1, 40)) == 1


@given(st.integers(1, 400), st.data())
@settings(max_examples=40, deadline=None)
def test_clopper_pearson_agrees_with_scipy(n, data):
    k = data.draw(st.integers(0, n))
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    half = Fraction(1, 40)
    assert clopper_pearson_lower(k, n, half) == pytest.approx(expected.low, abs=1e-9)
    assert clopper_pearson_upper(k, n, half) == pytest.approx(expected.high, abs=1e-9)


@given(st.integers(1, 400), st.data())
@settings(max_examples=40, deadline=None)
def test_wilson_agrees_with_scipy(n, data):
    k = data.draw(st.integers(0, n))
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(Fraction(k, n), n, Fraction(95, 100)) == pytest.approx((expected.low, expected.high), abs=1e-9)


EXTENT = st.integers(0, 4).map(Fraction)


@given(EXTENT, EXTENT, EXTENT, EXTENT, st.sampled_from(["<=", ">=", "<", ">", "=="]))
def test_decide_is_for_all_for_none_or_between(a, b, c, d, op):
    low, high, right_low, right_high = min(a, b), max(a, b), min(c, d), max(c, d)
    lefts = [low + (high - low) * t for t in (0, Fraction(1, 3), Fraction(2, 3), 1)]
    rights = [right_low + (right_high - right_low) * t for t in (0, Fraction(1, 2), 1)]
    # The lattice of both ranges' ends and of each other's ends decides every comparison of intervals.
    lefts += [x for x in (right_low, right_high) if low <= x <= high]
    rights += [x for x in (low, high) if right_low <= x <= right_high]
    compare = {"<=": "__le__", ">=": "__ge__", "<": "__lt__", ">": "__gt__", "==": "__eq__"}[op]
    truths = {getattr(x, compare)(y) for x in lefts for y in rights}
    expected = {frozenset([True]): "supported", frozenset([False]): "refuted"}.get(frozenset(truths), "undecided")
    assert decide(low, high, op, right_low, right_high) == expected


def test_properties_and_ratios():
    prop = plan([evaluation(solver())], [Property("t", "net", (), ())])
    holds = Claim("phi", Measured("holds", "e"), "holds")
    rows = Rows().clean("phi").proof("phi", "s").all
    assert judge(holds, prop, rows).status == "supported"
    violated = Rows().clean("phi").attack("phi", "s", "broken", verdict="broken").all
    assert judge(holds, prop, violated).status == "refuted"
    assert judge(holds, prop, Rows().clean("phi").proof("phi", "s", "timeout").all).status == "undecided"


def test_mce_divides_two_errors():
    fog = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", Fraction(95, 100))
    stage = attack("fog", role="corrupt", evidence="estimate", method="fog", arguments=(("severity", Fraction(3)),))
    e, b = evaluation(stage), evaluation(stage, name="b")
    rows = (
        Rows("e").clean("u").attack("u", "fog", "valid", decision=1).clean("v").attack("v", "fog", "valid", decision=0)
    )
    base = (
        Rows("b").clean("u").attack("u", "fog", "valid", decision=1).clean("v").attack("v", "fog", "valid", decision=1)
    )
    found = judge(claim("mce", "<=", Fraction(1, 2), baseline="b"), plan([e, b], [fog]), rows.all + base.all)
    assert (found.status, found.low, found.high) == ("supported", Fraction(1, 2), Fraction(1, 2))


@pytest.mark.parametrize(
    ("statuses", "complete", "contradicted", "code"),
    [
        (["supported"], True, False, 0),
        ([], True, False, 0),
        (["supported", "refuted", "undecided"], True, False, 3),
        (["supported", "undecided"], True, False, 4),
        (["not_evaluated"], True, False, 4),
        (["supported"], False, False, 5),
        (["refuted"], False, False, 3),
        (["supported"], True, True, 5),
        (["supported", "assumed"], True, False, 6),
        (["assumed"], True, False, 6),
        (["assumed", "undecided"], True, False, 4),
        (["assumed", "not_evaluated"], True, False, 4),
        (["assumed", "refuted", "undecided"], True, False, 3),
        (["assumed"], False, False, 5),
        (["assumed"], True, True, 5),
    ],
)
def test_exit_codes(statuses, complete, contradicted, code):
    from tmlang.audit.claims import Judgement

    made = [Judgement(claim("survival", ">=", PERCENT), s, None, None, "") for s in statuses]
    assert exit_code(made, complete=complete, contradicted=contradicted) == code


def test_numbers_as_a_reader_sees_them():
    assert percent(Fraction(20, 82)) == "24.4 %"
    assert percent(Fraction(99999, 100000)) == "99.999 %"
    assert percent(Fraction(1, 100000)) == "0.001 %"
    assert percent(Fraction(1)) == "100 %"
    assert percent(Fraction(0)) == "0 %"
    assert percent(None) == "—"
    assert number(math.inf) == "∞"
    assert number(Fraction(1, 8)) == "0.125"
    assert number(Fraction(8, 255)) == "0.03137"
    assert interval(Fraction(2, 5), Fraction(2, 5)) == "40 %"
    assert interval(Fraction(2, 5), Fraction(13, 25)) == "[40 %, 52 %]"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (claim("survival", ">=", 45 * PERCENT), "survival(e) ≥ 45 %"),
        (claim("certified", "rounds_to", RoundsTo(49 * PERCENT, 0, True), radius=Fraction(1, 2)),
         "certified(e, radius: 1/2) rounds to 49 %"),
        (claim("survival", "rounds_to", RoundsTo(Fraction(453, 1000), 1, True), part="flat"),
         "survival(e, part: flat) rounds to 45.3 %"),
        (claim("robust_accuracy", "<=", 61 * PERCENT, population=95 * PERCENT),
         "robust_accuracy(e) ≤ 61 %, population at 95 %"),
        (Claim("c", Measured("median_distance", "e"), "<=", Fraction(176, 100)), "median_distance(e) ≤ 1.76"),
        (Claim("c", Measured("holds", "e"), "holds"), "holds(e)"),
        (Claim("c", Measured("certified", "e"), ">=", Measured("upper", "f")), "certified(e) ≥ upper(f)"),
    ],
)  # fmt: skip
def test_a_claim_as_a_line(made, text):
    assert formula(made) == text
