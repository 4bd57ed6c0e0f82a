"""The canonical layout, by examples laid out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from syntax_support import needs_shared, read, shared_specs

from tmlang.base.source import Source
from tmlang.diagnostics.model import Diagnostic
from tmlang.syntax.printer import format_source, unified_diff


def laid_out(text: str) -> str:
    formatted = format_source(Source("spec.tm", text))
    assert isinstance(formatted, str), formatted
    return formatted


LOOSE = """# top
tm 1 use std.images (a,b) use std.suites(c)
let  eps=8/255   # the radius
param k=eps*2/3 in [1,2]
## What the attacker hands in.
space px:tensor(3,32,32)of real[0,1]stored as float32
space s { a:real[0,1]'V' step 1/8 very_long_name_of_a_feature:bytes # wide
derive r=a/2 where (a+1)*2<=r+-3 where one_hot(a,b) metric m{a:1/2 b:mismatch} } stored as float32 originals must comply


model net:px->classes(10){step:scale(1/255)as z
network:torch("a_file_with_a_long_name.py:factory",weights:"weights.safetensors",
sha256:"0123456789012345678901234567890123456789012345678901234567890123")outputs logits:10,distance:1
reject:when max_softmax<1/2 or class 10 decide:argmax ties lowest

# before random

random:seeded 7 because "it \\"is\\""
# at the end
}
evaluate e of t { seed:0 }
evaluate f of t(net:m,radius:2/255) { attack:a=native.pgd(steps:10 # inside
,step_size:2/255 in px)through straight_through seed : 0 } # behind
claim "a":survival(e)>=45% claim "much longer":survival(e)rounds to 45.30%population at 95%
"""

NEAT = """# top
tm 1
use std.images (a, b)
use std.suites (c)

let eps = 8/255                                           # the radius
param k = eps * 2 / 3 in [1, 2]

## What the attacker hands in.
space px: tensor(3, 32, 32) of real[0, 1] stored as float32

space s {
  a:  real[0, 1] 'V' step 1/8
  very_long_name_of_a_feature: bytes                      # wide
  derive r = a / 2
  where (a + 1) * 2 <= r + -3
  where one_hot(a, b)
  metric m { a: 1/2  b: mismatch }
} stored as float32 originals must comply

model net: px -> classes(10) {
  step:     scale(1/255) as z
  network:  torch("a_file_with_a_long_name.py:factory", weights: "weights.safetensors",
                  sha256: "0123456789012345678901234567890123456789012345678901234567890123")
            outputs logits: 10, distance: 1
  reject:   when max_softmax < 1/2 or class 10
  decide:   argmax ties lowest

  # before random

  random:   seeded 7 because "it \\"is\\""
  # at the end
}

evaluate e of t { seed: 0 }

evaluate f of t(net: m, radius: 2/255) {
  # inside
  attack:  a = native.pgd(steps: 10, step_size: 2/255 in px) through straight_through
  seed:    0
}                                                         # behind

claim "a":            survival(e) >= 45 %
claim "much longer":  survival(e) rounds to 45.30 % population at 95 %
"""


def test_layout() -> None:
    assert laid_out(LOOSE) == NEAT


def test_the_layout_of_a_laid_out_spec_is_itself() -> None:
    assert laid_out(NEAT) == NEAT


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("8/255", "8/255"),
        ("-8/255", "-8/255"),
        ("a/255", "a / 255"),
        ("8/255*2", "8/255 * 2"),
        ("(1)", "1"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("1+(2*3)", "1 + 2 * 3"),
        ("1-(2-3)", "1 - (2 - 3)"),
        ("1-(2+3)", "1 - (2 + 3)"),
        ("(1-2)-3", "1 - 2 - 3"),
        ("2/(3*4)", "2 / (3 * 4)"),
        ("-(-1)", "--1"),
        ("-(1+2)", "-(1 + 2)"),
        ("(1+2)'V'", "(1 + 2) 'V'"),
        ("1/2'V'", "1/2 'V'"),
        ("(1'V')/2", "(1 'V') / 2"),
        ("(1'V')'W'", "(1 'V') 'W'"),
        ("(1,2,)", "(1, 2)"),
        ("(a:{b,c},)", "(a: {b, c})"),
        ("[1,[2],]", "[1, [2]]"),
        ("f(1 in px,g())", "f(1 in px, g())"),
        ("1.50e-3", "1.50e-3"),
    ],
)
def test_values(written: str, printed: str) -> None:
    assert laid_out(f"tm 1 let x={written}") == f"tm 1\n\nlet x = {printed}\n"


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("allow:a:linf<=1 or b:(l2<=1 and l1<=1 in s)", "a: linf <= 1  or  b: (l2 <= 1 and l1 <= 1 in s)"),
        ("allow:(linf<=1 or l2<=1 in s)and l1<=1", "(linf <= 1  or  l2 <= 1 in s) and l1 <= 1"),
        ("allow:metric m<=1/2 in s tolerance 1e-4", "metric m <= 1/2 in s tolerance 1e-4"),
        ("allow:linf<=(a:1'V',b:2)per feature in s", "linf <= (a: 1 'V', b: 2) per feature in s"),
        ("allow:patch(5,5)at any place", "patch(5, 5) at any place"),
        ("allow:transform{rotate<=3'deg'scale<=2}fill 0", "transform { rotate <= 3 'deg'  scale <= 2 } fill 0"),
        ("mutable:all except rows 0..3,a up only", "all except rows 0..3, a up only"),
        ('mutable:mask("m.npz")per example', 'mask("m.npz") per example'),
        ("goal:targeted random(7)", "targeted random(7)"),
        ("goal:targeted each apart", "targeted each apart"),
        ("access:scores(top5,rounded 3),queries<=5 per attack", "scores (top5, rounded 3), queries <= 5 per attack"),
        ("rejected:fail within linf<=1 in px,safe beyond", "fail within linf <= 1 in px, safe beyond"),
        ("success:single draw judged on 9 fresh draws", "single draw judged on 9 fresh draws"),
        ('assume:"x"reviewed 3 of 4', '"x" reviewed 3 of 4'),
        ("nature:{rotate uniform[-1,1]'deg'}draws 9", "{ rotate uniform [-1, 1] 'deg' } draws 9"),
    ],
)  # fmt: skip
def test_clauses_of_threats(written: str, printed: str) -> None:
    word = written.partition(":")[0]
    assert (
        laid_out(f"tm 1 threat t on m over d{{{written}}}") == f"tm 1\n\nthreat t on m over d {{ {word}: {printed} }}\n"
    )


def test_long_lines_are_broken_below_the_bracket() -> None:
    letters = ", ".join(f"part_{i:02}" for i in range(30))
    lines = laid_out(f"tm 1 let x = [{letters}]").splitlines()[2:]
    assert all(len(line) <= 120 for line in lines)
    assert lines[0].startswith("let x = [part_00,")
    assert [line[:16] for line in lines[1:]] == [" " * 9 + "part_" + line[14:16] for line in lines[1:]]
    assert laid_out("tm 1\n\n" + "\n".join(lines)) == "tm 1\n\n" + "\n".join(lines) + "\n"


def test_a_doc_comment_never_moves_to_another_declaration() -> None:
    text = "tm 1\nlet a = ## inside\n 1 ## behind\nlet b = 2\n"
    assert laid_out(text) == "tm 1\n\n# inside\nlet a = 1" + " " * 49 + "# behind\nlet b = 2\n"


def test_text_that_is_no_spec_is_refused_with_the_reason() -> None:
    (found,) = format_source(Source("spec.tm", "tm 1 lett x = 1"))
    assert isinstance(found, Diagnostic)
    assert found.code == "TM014"


def test_the_difference_is_a_unified_diff() -> None:
    source = Source("spec.tm", "tm 1\nlet x=1\n")
    assert unified_diff(source, laid_out(source.text)).splitlines() == [
        "--- spec.tm",
        "+++ spec.tm (laid out)",
        "@@ -1,2 +1,3 @@",
        " tm 1",
        "-let x=1",
        "+",
        "+let x = 1",
    ]
    assert unified_diff(source, source.text) == ""


def conditions(*lines: str) -> str:
    return "\n".join(
        ["tm 1", "", "property safe on n {", f"  given:   {lines[0]}", *lines[1:], "  always:  a is not min", "}", ""]
    )


@pytest.mark.parametrize("blanks", [3, 10, 11, 30])
def test_conditions_keep_the_lines_that_the_author_broke_them_into(blanks: int) -> None:
    text = conditions("x >= 1, x <= 2,", " " * blanks + "y >= 3")
    assert laid_out(text) == text


def test_conditions_within_their_lines_are_laid_out() -> None:
    ragged = conditions("x>=1,x <= 2", "   , y  >= 3, z >= 0")
    assert laid_out(ragged) == conditions("x >= 1, x <= 2,", "     y >= 3, z >= 0")


def test_conditions_whose_lines_are_too_long_are_broken_anew() -> None:
    many = [f"input_number_{i} >= 1" for i in range(8)]
    text = conditions(", ".join(many[:7]) + ",", "   " + many[7])
    assert laid_out(text) == conditions(", ".join(many[:5]) + ",", " " * 11 + ", ".join(many[5:]))
    assert laid_out(laid_out(text)) == laid_out(text)


@needs_shared
@pytest.mark.parametrize("path", shared_specs(wrong=False) + shared_specs(wrong=True), ids=lambda p: p.stem)
def test_published_specs_keep_their_meaning_and_their_layout(path) -> None:  # type: ignore[no-untyped-def]
    text = path.read_text(encoding="utf-8")
    tree = read(text).tree
    if tree is None:
        return
    formatted = laid_out(text)
    assert read(formatted).tree == tree
    assert laid_out(formatted) == formatted
    changed = [line for line in unified_diff(Source("", text), formatted).splitlines()[2:] if line[:1] in "+-"]
    if ".wrong-" not in path.name:
        assert changed == []


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["stdlib", "specs"])
def test_what_we_ship_is_laid_out(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.tm"))
    assert paths
    for path in paths:
        assert laid_out(path.read_text(encoding="utf-8")) == path.read_text(encoding="utf-8"), path


def claims(*lines: str) -> str:
    return "tm 1\n\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        claims('claim "a":  survival(e) <= 4 %', 'claim "bc": survival(e) <= 4 %'),
        claims('claim "one":    survival(e)     <= 4 %', 'claim "second": certified(good) >= 30 %'),
        claims('claim "a":    survival(e)   <= 4 %', 'claim "b":    certified(f)  >= 30 %', 'claim "c":    holds(v)'),
        claims('claim "a":  survival(e)  rounds to 4.0 %', 'claim "b":  coverage(e)  rounds to 100 %'),
    ],
)
def test_claims_that_the_author_lined_up_stay(text: str) -> None:
    assert laid_out(text) == text


def test_claims_that_are_not_lined_up_are() -> None:
    ragged = claims('claim "a": survival(e)  <= 4 %', 'claim "much longer":    certified(e) >=  30 %')
    assert laid_out(ragged) == claims(
        'claim "a":            survival(e) <= 4 %', 'claim "much longer":  certified(e) >= 30 %'
    )


def test_comparisons_are_lined_up_with_those_beside_them_only() -> None:
    """The first and the third stand alike, with another between them."""
    text = claims(
        'claim "a":  survival(e)       <= 4 %', 'claim "b":  survival(e) <= 5 %', 'claim "c":  survival(e)       <= 6 %'
    )
    assert laid_out(text) == claims(*(f'claim "{c}":  survival(e) <= {n} %' for c, n in zip("abc", "456", strict=True)))


def test_a_long_metric_has_its_weights_on_lines_of_their_own() -> None:
    weights = [f"a_feature_with_a_name_{n}: 1/{n + 2}" for n in range(6)]
    text = "tm 1\n\nspace s {\n  a:  bytes\n  metric m { " + " ".join(weights) + " }\n}\n"
    inside = "    " + "  ".join(weights[:3]) + "\n    " + "  ".join(weights[3:]) + "\n"
    neat = "tm 1\n\nspace s {\n  a:  bytes\n  metric m {\n" + inside + "  }\n}\n"
    assert laid_out(text) == neat
    assert laid_out(neat) == neat


def test_a_comment_behind_long_code_is_three_blanks_away() -> None:
    code = 'claim "' + "x" * 60 + '": holds(v)'
    assert laid_out(f"tm 1\n\n{code} # why\n") == f"tm 1\n\n{code}   # why\n"
