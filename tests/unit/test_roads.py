"""Every pair, and every three, of outcomes that units can have, counted by both roads; some sums of them by hand."""

from __future__ import annotations

import itertools
from fractions import Fraction as F
from math import inf

import pytest
from audit_roads import both_roads
from audit_support import Rows, attack, certifier, evaluation, solver, threat

from tmlang.audit.columns import Restriction
from tmlang.meaning.threats import Access, Ball, Goal, Rejected, Success

FULL = evaluation(attack("a"), attack("b"), certifier("c"), attribution="full")
OUTCOMES = {
    "none": ("none", {}),
    "near": ("broken", {"distance": 0.25, "label_kept": True, "queries": 2}),
    "far": ("broken", {"distance": 0.5, "label_kept": False, "queries": 4}),
    "unsized": ("broken", {"distance": None}),
    "beyond access": ("broken", {"distance": 0.125, "within_access": False, "label_kept": True}),
    "late": ("timeout", {"queries": 3}),
    "outside": ("invalid", {"distance": 0.75}),
    "denied": ("denied", {"label_kept": True}),
    "denied beyond access": ("denied", {"within_access": False}),
    "harmless": ("valid", {"distance": 0.0625, "label_kept": False}),
}


def outcome(rows: Rows, unit: str, stage: str, name: str) -> None:
    kind, facts = OUTCOMES[name]
    rows.attack(unit, stage, kind, **facts)


@pytest.mark.parametrize("each", ["any", "all", "apart"])
def test_two_targets_of_an_example(each):
    t = threat(goal=Goal("each", each=each), rejected=Rejected("denied"))
    for first, second in itertools.product(OUTCOMES, repeat=2):
        rows = Rows().clean("x->0", target=0).clean("x->1", target=1).clean("x->2", target=2).clean("y->1", target=1)
        for stage in "ab":
            outcome(rows, "x->1", stage, first if stage == "a" else "none")
            outcome(rows, "x->2", stage, second)
        outcome(rows, "y->1", "a", second)
        rows.proof("x->1", "c").proof("x->2", "c", "unknown" if first == "none" else "certified")
        found = both_roads(FULL, t, rows.all)
        broken = {"near", "far", "unsized"}
        assert [(label, c.name) for label, c in found.alone] == [("a", "found_alone"), ("b", "found_alone")]
        both = (first in broken) + (second in broken)
        expected = {"any": both > 0, "all": both == 2, "apart": both}[each]
        assert found.counts.broken == int(expected) + (second in broken)


def test_clean_statuses_of_examples_and_pairs():
    for each in ("any", "all", "apart"):
        rows = Rows()
        for name, status in zip("vwxyz", ("cc", "cw", "cr", "cu", "cc"), strict=True):
            for target in (1, 2):
                rows.clean(f"{name}->{target}", status, target=target, label=-1 if name == "z" else 0)
        k = both_roads(FULL, threat(goal=Goal("each", each=each)), rows.all).counts
        n = 2 if each == "apart" else 1
        assert (k.cc, k.cw, k.cr, k.cu, k.unusable, k.selected) == (n, n, n, n, n, 5 * n)


@pytest.mark.parametrize("clean_errors", ["fail", "excluded"])
def test_three_units_and_the_middle_of_their_distances(clean_errors):
    t = threat(allow=None, minimize=("l2", "px"), clean_errors=clean_errors)
    sizes = {"near": F(1, 4), "far": F(1, 2)}
    names = ["none", "near", "far", "unsized", "beyond access", "late"]
    for three in itertools.product(names, repeat=3):
        rows = Rows().clean("r", "cr").clean("w", "cw").attack("w", "a", "broken", distance=0.125)
        for unit, name in zip("uvx", three, strict=True):
            rows.clean(unit)
            outcome(rows, unit, "b", "none")
            outcome(rows, unit, "a", name)
            outcome(rows, unit, "b", "far" if name == "near" else "none")
            if name == "near":
                outcome(rows, unit, "b", "harmless")
                rows.attack(unit, "b", "broken", status="invalid", within_scope=False, distance=0.03125)
        column = both_roads(FULL, t, rows.all).get("median_distance")
        highs = sorted([sizes.get(n, inf) for n in three] + [F(0)] * (2 if clean_errors == "fail" else 0))
        assert column.high == highs[len(highs) // 2]
        lows = [F(0) if n == "late" else sizes.get(n, inf) for n in three]
        lows = sorted(lows + [F(0)] * (2 if clean_errors == "fail" else 0))
        assert column.low == lows[len(lows) // 2]


@pytest.mark.parametrize("count", range(6))
def test_the_middle_of_any_number_of_units(count):
    rows = Rows()
    for i in range(count):
        rows.clean(f"u{i}").attack(f"u{i}", "a", "broken", distance=(i + 1) / 8).attack(f"u{i}", "b")
    column = both_roads(FULL, threat(allow=None, minimize=("l2", "px")), rows.all).get("median_distance")
    middle = {0: None, 1: F(1, 8), 2: F(3, 16), 3: F(2, 8), 4: F(5, 16), 5: F(3, 8)}[count]
    assert (column.low, column.high) == (middle, middle)


def test_restrictions_of_every_kind():
    t = threat(allow=Ball("l2", "px", F(1)), access=Access("scores", queries=9, queries_per="example"))
    cuts = [Restriction(radius=r) for r in (F(1, 8), F(1, 4), F(1, 2), F(1), F(2))]
    cuts += [Restriction(queries=q) for q in (0, 1, 2, 3, 5, 7)] + [Restriction()]
    for first, second in itertools.product(OUTCOMES, repeat=2):
        rows = Rows().clean("u").clean("v").proof("u", "c", radius=0.5)
        for unit, name in (("u", first), ("v", second)):
            outcome(rows, unit, "a", name)
            outcome(rows, unit, "b", second)
        for cut in cuts:
            both_roads(FULL, t, rows.all, restriction=cut)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "robust_accuracy"),
        ({"clean_errors": "excluded"}, "robust_rate"),
        ({"goal": Goal("class", target="1")}, "robust_rate"),
        ({"success": Success("error_probability", F(1, 2), F(99, 100), 500)}, "robust_rate"),
        ({"success": Success("single_draw", draws=3)}, None),
    ],
)
def test_the_name_of_r(changes, name):
    rows = Rows().clean("u").attack("u", "a").attack("u", "b").proof("u", "c")
    found = both_roads(FULL, threat(**changes), rows.all)
    assert [c.name for c in found.columns if c.name.startswith("robust")] == ([name] if name else [])


@pytest.mark.parametrize("verdict", ["certified", "unknown", "broken", "error", "timeout"])
def test_every_verdict_of_two_that_prove(verdict):
    e = evaluation(attack("a"), certifier("c"), solver("s", role="decide_exactly"))
    for other, void in itertools.product((None, "certified", "unknown", "error", "timeout"), (False, True)):
        rows = Rows().clean("u").attack("u", "a").proof("u", "c", verdict).clean("v").attack("v", "a", "broken")
        if other:
            rows.proof("u", "s", other)
        both_roads(e, threat(), rows.all, voided=frozenset({"native.enumerate"} if void else ()))
