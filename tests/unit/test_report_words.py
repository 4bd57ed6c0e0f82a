"""A threat in words and in symbols, clause by clause, against what a person would write."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from audit_support import plan, threat

from tmlang.meaning.models import Decide, Randomness, RejectWhen, Step
from tmlang.meaning.spaces import Cell, Metric, Num, Op, Ref, Relation, Space
from tmlang.meaning.threats import (
    Access,
    Anything,
    Assumption,
    Ball,
    Both,
    Either,
    Goal,
    Mutable,
    Nature,
    Patch,
    Property,
    Rejected,
    Success,
    Transform,
)
from tmlang.meaning.values import Artifact, Quantity
from tmlang.report.mathtext import to_html, to_unicode
from tmlang.report.symbols import display, symbol_lines
from tmlang.report.words import paragraph, sentences

SHARED = Path(__file__).resolve().parents[3] / "shared" / "specs"
UNIT = Cell("real", Fraction(0), Fraction(1))
TABLE = Space(
    "px",
    (3,),
    (
        Cell("real", Fraction(-40), Fraction(85), unit="degC"),
        Cell("integer", Fraction(0), Fraction(5), Fraction(1)),
        Cell("category", Fraction(0), Fraction(1), Fraction(1), categories=("open", "closed")),
    ),
    "each",
    features=("temp", "count", "door"),
    relations=(Relation(Op("/", Ref("temp"), Ref("count")), "<=", Num(Fraction(2)), text="temp / count <= 2"),),
    metrics=(Metric("m", (("temp", Fraction(1, 100)), ("door", Fraction(1)))),),
)


def said(t, space=None, **model):
    """The sentences by topic, and the symbol lines as text."""
    whole = plan([], [t])
    if space is not None:
        whole = replace(whole, spaces=(space,))
    if model:
        whole = replace(whole, models=(replace(whole.models[0], **model),))
    lines = [to_unicode(line) for line in symbol_lines(whole, t)]
    return {s.topic: s.text for s in sentences(whole, t)}, lines


def test_the_plain_threat_reads_like_a_paper():
    words, lines = said(threat())
    assert words["allowed inputs"] == (
        "The attacker may hand in any input of the space for which no coordinate differs from the original by more "
        "than 0.125."
    )
    assert words["what may move"] == "All 64 coordinates may change."
    assert words["chosen"] == "The change is chosen for each example on its own."
    assert words["failure"] == "An input fails when `net` decides anything else than the label."
    assert words["attacker knows"] == "The attacker knows the whole object, gradients included."
    assert words["counted over"] == "Every example counts; one that is wrong already counts as failed."
    assert "1 × 8 × 8 numbers, each in [0, 1], stored as float32" in words["attacked object"]
    assert "It never rejects." in words["attacked object"]
    assert lines == [
        "X = [0, 1]¹ˣ⁸ˣ⁸ ∩ float32",
        "S(x) = { x′ ∈ X : ‖ x′ − x ‖∞ ≤ 0.125 }",
        "F(z) = [ z ≠ y ]",
        "R = | { (x, y) ∈ D | f(x) = y ∧ ¬∃x′ ∈ S(x): F(f(x′)) } | / |D|",
    ]


def ball(norm="linf", radius=Fraction(8, 255), **more):
    return Ball(norm, "px", radius, **more)


@pytest.mark.parametrize(
    ("allow", "words", "symbols"),
    [
        (ball("l2", Fraction(1, 2)), "the Euclidean length of the change is at most 0.5", "‖ x′ − x ‖₂ ≤ 0.5"),
        (ball("l1", Fraction(3)), "the sum of all changes is at most 3", "‖ x′ − x ‖₁ ≤ 3"),
        (ball("l0", Fraction(3)), "the number of changed coordinates is at most 3", "‖ x′ − x ‖₀ ≤ 3"),
        (ball("l2_rms", Fraction(1, 20)), "the root mean square of the change over all coordinates is at most 0.05",
         "‖ x′ − x ‖₂ / √64 ≤ 0.05"),
        (ball("pixels_changed", Fraction(2)), "the number of changed pixels is at most 2", "‖ x′ − x ‖_pixels ≤ 2"),
        (ball(tolerance=Fraction(1, 1000)), "more than 8/255 (a tolerance of 0.001 is part of the set)",
         "‖ x′ − x ‖∞ ≤ 8/255 + 0.001"),
        (Both((ball(), ball("l2", Fraction(1)))),
         "by more than 8/255 and the Euclidean length of the change is at most 1",
         "‖ x′ − x ‖∞ ≤ 8/255, ‖ x′ − x ‖₂ ≤ 1"),
        (Either((ball(), ball("l2", Fraction(1))), ("flat", "")),
         "at least one of these holds: (flat) no coordinate differs from the original by more than 8/255; "
         "(2) the Euclidean length of the change is at most 1",
         "( ‖ x′ − x ‖∞ ≤ 8/255 ∨ ‖ x′ − x ‖₂ ≤ 1 )"),
        (Patch("rectangle", 2, 3), "all changed pixels lie under one rectangle of 2 × 3 pixels at any place", "∃p: {"),
        (Patch("rectangle", 2, 3, (4, 5)), "of 2 × 3 pixels at row 4, column 5", "⊆ (4, 5) + 2 × 3"),
        (Patch("disc", 5, 5), "all changed pixels lie under one disc 5 pixels across at any place", "p + disc₅"),
        (Transform((("rotate", Quantity(Fraction(30), "deg")), ("translate", Quantity(Fraction(3), "px"))), "bilinear",
                   Fraction(0)),
         "after rotate by at most 30 'deg' and translate by at most 3 'px', in this order (bilinear interpolation, "
         "0 beyond the edge)",
         "|rotate| ≤ 30"),
        (Transform((("rotate", Quantity(Fraction(30), "deg")),), "nearest", Fraction(1, 2), (Fraction(5),)),
         "after rotate by at most 30 'deg' in steps of 5 'deg', in this order (nearest interpolation, "
         "0.5 beyond the edge)",
         "|rotate| ≤ 30, rotate ∈ { …, 0, 5, 10, … }"),
        (Anything(), "no limit is set", "S(x) = { x′ ∈ X }"),
    ],
)  # fmt: skip
def test_allowed_sets(allow, words, symbols):
    found, lines = said(threat(allow=allow))
    assert words in found["allowed inputs"]
    assert symbols in lines[1]


def test_levels_are_said_as_levels_and_in_the_units_of_the_space():
    steps = Space("px", (1, 8, 8), (Cell("lattice", Fraction(0), Fraction(1), Fraction(1, 255)),))
    words, lines = said(threat(allow=ball(radius=Fraction(4, 255), unit="levels")), steps)
    assert "more than 4 levels (4/255)" in words["allowed inputs"]
    assert lines[0] == "X = { 0, 1/255, …, 1 }¹ˣ⁸ˣ⁸"
    assert "stored as" not in words["attacked object"]


def test_a_table_with_units_relations_and_directions():
    mutable = Mutable("features", names=(("temp", "up"), ("door", "any")))
    t = threat(allow=Ball("metric", "px", Fraction(1, 2), metric="m"), mutable=mutable)
    words, lines = said(t, TABLE)
    assert "the weighted change `m` (0.01 × `temp`, 1 × `door`) is at most 0.5" in words["allowed inputs"]
    assert "obeys the 1 relations" in words["allowed inputs"]
    assert words["what may move"] == "Only `temp` (up only) and `door` may change."
    assert "`door` one of open, closed" in words["attacked object"]
    assert lines[0] == "X = [−40, 85] × { 0, 1, …, 5 } × { open, closed } ∩ float32"
    assert "x′ᵢ = xᵢ for i ∉ { temp, door }, x′_temp ≥ x_temp, temp / count ≤ 2" in lines[1]
    per = threat(allow=Ball("linf", "px", per="feature", radii=(("temp", Fraction(2)),)))
    words, lines = said(per, TABLE)
    assert "each feature moves only so far: `temp` by at most 2 degC" in words["allowed inputs"]
    assert "|x′ − x|_temp ≤ 2" in lines[1]


@pytest.mark.parametrize(
    ("mutable", "words"),
    [
        (Mutable("rows", ranges=((0, 4),)), "Only rows 0 to 4 may change."),
        (Mutable("columns", ranges=((2, 2),), except_=True), "Everything except columns 2 may change."),
        (Mutable("mask", file=Artifact("m.npy"), per_example=True),
         "Only what the mask `m.npy` marks may change, one per example."),
    ],
)  # fmt: skip
def test_masks(mutable, words):
    assert said(threat(mutable=mutable))[0]["what may move"] == words


@pytest.mark.parametrize(
    ("allow", "words"),
    [
        (Patch("rectangle", 3, 3, (2, 3)), "Only what lies under the patch may change, at row 2, column 3."),
        (Both((Patch("disc", 5, 5), ball())), "Only what lies under the patch may change, wherever it lies."),
        (ball(), "All 64 coordinates may change."),
    ],
)
def test_what_may_move_is_what_lies_under_a_patch(allow, words):
    assert said(threat(allow=allow))[0]["what may move"] == words


@pytest.mark.parametrize(
    ("rejected", "words", "symbols"),
    [
        ("fail", "A rejection counts as a failure.", "[ z ≠ y ]"),
        ("safe", "A rejection is no failure.", "[ z ∉ { y, ⊥ } ]"),
        ("denied", "its own column, as a denial of service", "[ z ∉ { y, ⊥ } ]"),
    ],
)
def test_rejections(rejected, words, symbols):
    found, lines = said(threat(rejected=Rejected(rejected)), reject=(RejectWhen("max_softmax", "<", Fraction(1, 2)),))
    assert words in found["failure"]
    assert "It rejects when max_softmax < 0.5." in found["attacked object"]
    assert symbols in lines[2]
    near, lines = said(threat(rejected=Rejected("fail_within", ball(radius=Fraction(0)))))
    assert "within linf 0 of the original, and not beyond" in near["failure"]
    assert "z = ⊥ ∧ x′ is near x" in lines[2]


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (Goal("class", target="2"), "decides `2`"),
        (Goal("each", each="any"), "broken when any other class is reached"),
        (Goal("each", each="all"), "broken when every other class is reached"),
        (Goal("each", each="apart"), "every pair of example and target counts on its own"),
        (Goal("next"), "its target, the class after the label"),
        (Goal("random", seed=3), "a class drawn with seed 3"),
    ],
)
def test_goals(goal, words):
    found, lines = said(threat(goal=goal))
    assert words in found["failure"]
    assert lines[2] == ("F(z) = [ z = 2 ]" if goal.kind == "class" else "F(z) = [ z = t ]")


def test_access_and_knowledge():
    access = Access("scores", top=5, rounded=3, queries=100, queries_per="attack", unaware_of=("reject",))
    words, _ = said(threat(access=access))
    assert words["attacker knows"] == (
        "The attacker sees scores only (the best 5, rounded to 3 digits), with at most 100 queries per attack. "
        "The attacker does not know of `reject`."
    )
    transfer, _ = said(threat(access=Access("transfer", surrogates=("a", "b"))))
    assert "other models (`a`, `b`)" in transfer["attacker knows"]


def test_quantifiers_stand_in_the_order_in_which_values_are_chosen():
    success = Success("error_probability", Fraction(1, 2), Fraction(99, 100), 500)
    _, lines = said(threat(success=success, clean_errors="excluded"))
    assert lines[3:] == [
        "q(x′) = P[ F(f(x′)) ]",
        "D₀ = { (x, y) ∈ D | f(x) = y }",
        "R = | { (x, y) ∈ D₀ | f(x) = y ∧ ¬∃x′ ∈ S(x): q(x′) > 0.5 } | / |D₀|",
    ]
    nature = Nature((("rotate", Fraction(-45), Fraction(45), "deg"),), 100)
    universal = threat(perturbation="universal", fitted_on="fit", nature=nature, success=success)
    words, lines = said(universal)
    assert list(words).index("chosen") < list(words).index("chance")
    assert words["chosen"].startswith("One change is chosen once, on `fit`")
    assert lines[-1] == "estimate = min_δ | { (x, y) ∈ D | f(x) = y ∧ ¬q(x + δ) > 0.5 } | / |D|"
    assert lines[3] == "q(x′) = P_ω[ F(f(ω(x′))) ]"


def test_a_threat_that_minimizes_speaks_of_distances():
    words, lines = said(threat(allow=None, minimize=("l2", "px"), clean_errors="excluded"))
    assert "looks for the nearest input that fails, by the Euclidean length of the change" in words["allowed inputs"]
    assert lines[-2:] == ["d(x, y) = min { ‖ x′ − x ‖₂ | x′ ∈ S(x), F(f(x′)) }", "m = median of d over D₀"]


def test_steps_decisions_and_draws():
    words, _ = said(
        threat(assumptions=(Assumption("it prints", reviewed=(3, 9)), Assumption("labels stay"))),
        steps=(Step("normalize"),),
        decide=Decide("majority", ties="reject", draws=10),
        random=Randomness("seeded", 7, "the service does so"),
    )
    assert (
        "applies `normalize` and a linear network and decides by the majority of 10 draws (a rejection on "
        "ties, no decision where the scores are not finite)" in (words["attacked object"])
    )
    assert "fixed by the seed 7, because the service does so" in words["attacked object"]
    assert "Distances are measured in `px`, before any step of the object." in words["allowed inputs"]
    whole = plan([], [threat(assumptions=(Assumption("it prints", reviewed=(3, 9)), Assumption("labels stay")))])
    text = paragraph(whole, whole.subjects[0])
    assert "It is assumed, after a review of 3 of 9: “it prints”." in text
    assert "It is assumed, without review: “labels stay”." in text


def test_a_property_has_inputs_and_outputs_and_no_labels():
    phi = Property(
        "phi", "net", (("temp", "<=", Fraction(3)),), (("0", "<=", Fraction(1500)), ("1", "is_not_min", None))
    )
    words, lines = said(phi, TABLE)
    assert "`temp` ≤ 3 degC" in words["given"]
    assert words["always"] == "For each of them, `0` ≤ 1500 or `1` is not the least output."
    assert lines[1:] == ["S = { x ∈ X : temp ≤ 3 }", "∀x ∈ S: 0 ≤ 1500 ∨ 1 ≠ min_j f_j(x)".replace("_j", "ⱼ")]


def test_latex_sets_names_upright_and_escapes_them():
    t = threat(mutable=Mutable("features", names=(("a_b%", "any"),)))
    lines = symbol_lines(plan([], [t]), t)
    assert r"\mathrm{a\_b\%}" in lines[1]
    assert to_unicode(lines[1]).endswith("{ a_b% } }")
    assert display(lines).startswith("\\begin{align*}\n  X &= [0, 1]^{1 \\times 8 \\times 8}")
    assert display(lines).count("&=") == 4


def test_math_as_html_is_escaped():
    assert to_html(r"x_{i} < \tfrac{8}{255}^{2}") == "x<sub>i</sub> &lt; 8/255<sup>2</sup>"
    assert to_html(r"\mathrm{<b>\&</b>}") == "&lt;b&gt;&amp;&lt;/b&gt;"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of shared specs is not beside the checkout")
@pytest.mark.parametrize("path", sorted(p.name for p in SHARED.glob("[0-9]*.tm") if "wrong" not in p.name))
def test_every_published_evaluation_can_be_said(path):
    from tmlang.semantics import check

    program = check(str(SHARED / path), settings={}).program
    for subject in program.subjects:
        text = paragraph(program, subject)
        lines = [to_unicode(line) for line in symbol_lines(program, subject)]
        assert "None" not in text
        assert "\\" not in "".join(lines)
        assert text.count("`") % 2 == 0
        assert all(s.text.endswith(".") for s in sentences(program, subject))
