"""What a checked spec means: values, instances, curves, settings; compared with values written by hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import checked, found, spec

from tmlang.base.source import Source
from tmlang.diagnostics.fixes import apply_fixes
from tmlang.meaning.evaluations import Program, RoundsTo
from tmlang.meaning.models import Decide, Step
from tmlang.meaning.spaces import Cell, Metric, Num, Op, Ref, Space
from tmlang.meaning.threats import Access, Ball, Goal, Mutable, Property, Threat
from tmlang.meaning.values import Distance, Quantity, Symbol
from tmlang.semantics import check

F = Fraction


def program(snippet: str, **settings: str) -> Program:
    result = check(Source("spec.tm", spec(snippet)), settings=settings)
    assert [(d.code, d.message) for d in result.diagnostics if d.is_error] == []
    assert result.program is not None
    return result.program


def test_the_base_spec_in_full() -> None:
    made = program("")
    assert made.spaces == (Space("px", (3, 32, 32), (Cell("real", F(0), F(1)),), "all", 0, "float32", order="rgb"),)
    (model,) = made.models
    mean, std = (F("0.4914"), F("0.4822"), F("0.4465")), (F("0.2471"), F("0.2435"), F("0.2616"))
    assert model.steps == (Step("normalize", (("mean", mean), ("std", std)), "standardized"),)
    assert model.classes == tuple("0123456789")
    assert model.decide == Decide("argmax", "lowest")
    assert model.network.weights is not None
    assert model.network.weights.path == "resnet18.safetensors"
    assert (model.network.symbol, model.network.source.path if model.network.source else "") == (
        "resnet18",
        "victims.py",
    )
    (threat,) = made.subjects
    assert threat == Threat(
        "linf8",
        "victim",
        "test",
        Ball("linf", "px", F(8, 255)),
        None,
        Mutable("all"),
        Goal("untargeted"),
        Access("white_box"),
        "fail",
    )
    (evaluation,) = made.evaluations
    assert [(s.role, s.label, s.call.name) for s in evaluation.stages] == [
        ("attack", "apgd", "native.apgd"),
        ("certify", "crown", "auto_lirpa.crown"),
    ]
    assert evaluation.stages[0].call.args == (("loss", Symbol("ce")), ("steps", F(40)))
    assert evaluation.seed == 0
    (claim,) = made.claims
    assert (claim.left.quantity, claim.left.evaluation, claim.op, claim.right) == ("survival", "aa", ">=", F(2, 5))
    assert [m.name for m in made.modules] == ["spec.tm", "std.images"]


def test_two_texts_of_one_meaning_are_equal() -> None:
    text = spec("")
    spaced = "# a comment\n" + text.replace("8/255", "16/510").replace("  mutable", "\n\n      mutable")
    one, other = (check(Source("spec.tm", t)).program for t in (text, spaced))
    assert one is not None
    assert other is not None
    assert replace(one, modules=()) == replace(other, modules=())
    assert hash(one.subjects) == hash(other.subjects)


FEATURES = """
space loan {
  amount:  real[500, 40000] 'USD'
  income:  real[1, 1000] 'USD'
  near:    real[0, 100] 'm'
  far:     real[0, 5] 'km'
  term:    {m36, m60}
  paid:    int[0, 90]
  derive ratio = amount / income
  where ratio <= 2
  where near <= far
  where sum(amount, income) == 1000 'USD' tolerance 1/100
  metric spread { amount: 1/39500  term: mismatch }
} stored as float64 originals exempt
"""


def test_features_relations_and_metrics() -> None:
    space = next(s for s in program(FEATURES).spaces if s.name == "loan")
    assert space.features == ("amount", "income", "near", "far", "term", "paid")
    assert (space.shape, space.layout, space.dtype, space.originals) == ((6,), "each", "float64", "exempt")
    assert space.cells[4] == Cell("category", F(0), F(1), F(1), None, ("m36", "m60"))
    assert space.cells[5] == Cell("integer", F(0), F(90), F(1))
    ratio = Op("/", Ref("amount"), Ref("income"))
    assert space.derived == (("ratio", ratio),)
    assert [(r.left, r.op, r.right, r.tolerance) for r in space.relations] == [
        (ratio, "<=", Num(F(2)), F(0)),
        (Ref("near"), "<=", Op("*", Num(F(1000)), Ref("far")), F(0)),  # kilometres in metres
        (Op("+", Ref("amount"), Ref("income")), "==", Num(F(1000)), F(1, 100)),
    ]
    assert space.metrics == (Metric("spread", (("amount", F(1, 39500)), ("term", F(1)))),)


@pytest.mark.parametrize(
    ("shape", "cell", "axis", "layout"),
    [
        ("(3, 32, 32)", "real[0, 1]", 0, "all"),
        ("(32, 32, 3)", "real[0, 1]", 2, "all"),
        ("(1, 28, 28)", "bytes", 0, "all"),
        ("(28, 28)", "bytes", None, "all"),
        ("(7)", "real[(0, 0, 0, 0, 0, 0, 0), (1, 2, 3, 4, 5, 6, 7)]", None, "each"),
        ("(3, 8, 8)", "real[(0, 0, 0), (1, 2, 3)]", 0, "channel"),
    ],
)
def test_layouts(shape: str, cell: str, axis: int | None, layout: str) -> None:
    space = next(
        s for s in program(f"space other: tensor{shape} of {cell} stored as float32\n").spaces if s.name == "other"
    )
    assert (space.channel_axis, space.layout) == (axis, layout)


INSTANCES = """
param eps = 8/255 in [2/255, 8/255]

model hardened: px -> classes(10) {
  network:  torch("victims.py:resnet18", weights: "hardened.safetensors")
  decide:   argmax ties lowest
  random:   never
}

threat around(net, radius = eps) on net over test {
  allow:         linf <= radius in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

suite house(steps = 100, restarts = 5) {
  attack:  ce = native.apgd(loss: ce, steps: steps, restarts: restarts)
  attack:  dlr = native.apgd(loss: dlr, steps: steps, restarts: restarts)
}

evaluate first of around(net: victim) {
  suite:  house(steps: 200)
  seed:   0
}

evaluate second of around(net: hardened, radius: 4/255) {
  suite:    house()
  certify:  crown = auto_lirpa.crown()
  seed:     0
}
"""


def test_instances_of_threats_and_suites() -> None:
    made = program(INSTANCES)
    assert {s.name for s in made.subjects} == {
        "linf8",
        "around(net: victim, radius: 8/255)",
        "around(net: hardened, radius: 4/255)",
    }
    first = next(e for e in made.evaluations if e.name == "first")
    assert [(s.label, s.suite, dict(s.call.args)["steps"]) for s in first.stages] == [
        ("ce", "house", F(200)),
        ("dlr", "house", F(200)),
    ]
    assert dict(first.stages[0].call.args)["restarts"] == 5
    second = next(e for e in made.evaluations if e.name == "second")
    assert [s.label for s in second.stages] == ["ce", "dlr", "crown"]


CURVE = """
param eps = 8/255 in [2/255, 8/255]

threat linf8 on victim over test {
  allow:         linf <= eps in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate aa of linf8 {
  attack:  apgd = native.apgd(loss: ce, steps: 40)
  curve:   eps over [2/255, 4/255, 8/255]
  seed:    0
}

claim "survival": survival(aa, eps: 4/255) rounds to 59.50 %
"""


def test_a_curve_has_an_instance_per_value() -> None:
    made = program(CURVE)
    (evaluation,) = made.evaluations
    (curve,) = evaluation.curves
    assert curve.values == (F(2, 255), F(4, 255), F(8, 255))
    assert curve.subjects == ("linf8@eps=2/255", "linf8@eps=4/255", "linf8@eps=8/255")
    radii = {s.name: s.allow.radius for s in made.subjects if isinstance(s, Threat) and isinstance(s.allow, Ball)}
    assert radii == {
        "linf8": F(8, 255),
        "linf8@eps=2/255": F(2, 255),
        "linf8@eps=4/255": F(4, 255),
        "linf8@eps=8/255": F(8, 255),
    }
    assert made.claims[0].right == RoundsTo(F(5950, 10000), 2, True)
    assert made.claims[0].left.args == (("eps", F(4, 255)),)


def test_set_changes_a_param_within_its_range() -> None:
    made = program(CURVE, eps="4/255")
    (parameter,) = made.parameters
    assert (parameter.value, parameter.low, parameter.high, parameter.changed) == (
        F(4, 255),
        F(2, 255),
        F(8, 255),
        True,
    )
    base = next(s for s in made.subjects if s.name == "linf8")
    assert isinstance(base, Threat)
    assert isinstance(base.allow, Ball)
    assert base.allow.radius == F(4, 255)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("eps", "9/255", "TM211"),
        ("eps", "a lot", "TM221"),
        ("eps", "1e999999999", "TM221"),
        ("eps", "1/0", "TM221"),
        ("radius", "4/255", "TM108"),
    ],
)
def test_set_is_checked(name: str, value: str, code: str) -> None:
    result = check(Source("spec.tm", spec(CURVE)), settings={name: value})
    assert [d.code for d in result.diagnostics] == [code]


def test_a_property_is_in_the_units_of_its_features() -> None:
    text = """
space encounter {
  rho:   real[0, 60760] 'ft'
  vown:  real[100, 1200] 'ft/s'
} stored as float32

model n11: encounter -> {coc, left} {
  network:  onnx("n11.onnx")
  step:     denormalize(mean: 7.5, std: 373)
  decide:   argmin ties lowest
  random:   never
}

property phi on n11 {
  given:   rho >= 9 'nmi', vown <= 1145 'ft/s'
  always:  coc <= 1500 or coc is not min
}
"""
    made = program(text)
    phi = next(s for s in made.subjects if s.name == "phi")
    assert isinstance(phi, Property)
    assert phi.given == (("rho", ">=", F(16668) / F("0.3048")), ("vown", "<=", F(1145)))
    assert phi.always == (("coc", "<=", F(1500)), ("coc", "is_not_min", None))
    model = next(m for m in made.models if m.name == "n11")
    assert model.post_steps == (Step("denormalize", (("mean", F("7.5")), ("std", F(373)))),)


def test_noise_is_in_the_units_of_the_space() -> None:
    text = """
space reading {
  near:  real[0, 100] 'm'
  temp:  real[-40, 85] 'degC'
} stored as float32

model guard: reading -> {ok, alarm} {
  step:     noise(gaussian, sigma: (near: 50 'cm', temp: 1/2 'degC'))
  network:  onnx("guard.onnx")
  decide:   majority of 10 draws ties reject
  random:   per request
}
"""
    guard = next(m for m in program(text).models if m.name == "guard")
    (noise,) = guard.steps
    assert noise.random
    assert dict(noise.args)["sigma"] == (("near", F(1, 2)), ("temp", F(1, 2)))
    assert guard.decide == Decide("majority", "reject", 10)


def test_lengths_and_times_of_stages() -> None:
    text = """
evaluate aa of linf8 {
  attack:  pgd = native.pgd(steps: 40, step_size: 2/255 in px)
  certify: q = marabou.query(timeout: 60 's')
  stop:    after 2 'h'
  seed:    1
}
"""
    (evaluation,) = program(text).evaluations
    pgd, query = evaluation.stages
    assert dict(pgd.call.args)["step_size"] == Distance(F(2, 255), "px")
    assert dict(query.call.args)["timeout"] == Quantity(F(60), "s")
    assert evaluation.stop_after == 7200


FORGOTTEN = """
let half = 1/2
param radius = half in [0, 1]

threat linf8 on vitcim over test {
  allow:         linf <= 8 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
  rejected:      fail   # from another threat
}
"""


@pytest.mark.parametrize(
    ("snippet", "times"),
    [
        ('claim "survival": survival(aa) >= 45\n', 1),
        ('claim "survival": survival(linf8) >= 45 %\n', 1),
        ("use std.image (cifar100_mean)\n", 1),
        (FORGOTTEN, 2),
    ],
)
def test_fixes_lead_to_a_clean_spec(snippet: str, times: int) -> None:
    source = Source("spec.tm", spec(snippet))
    for _ in range(times):
        diagnostics = check(source).diagnostics
        assert diagnostics
        text, count = apply_fixes(source, diagnostics)
        assert count >= 1
        source = Source("spec.tm", text)
    assert check(source).diagnostics == ()


def test_everything_missing_is_reported_in_one_run() -> None:
    assert found("threat linf8 on victim over test {\n  perturbation: per example\n}\n") == [("TM401", "linf8")] * 5
    result = checked("threat linf8 on victim over test {\n  perturbation: per example\n}\n")
    named = {
        word
        for d in result.diagnostics
        for word in ("allow", "mutable", "goal", "access", "clean_errors")
        if f"say {word}:" in d.message
    }
    assert named == {"allow", "mutable", "goal", "access", "clean_errors"}


@pytest.mark.parametrize(
    ("way", "wanted"),
    [
        ("straight_through", []),
        ("straight_through(x: 1)", [("TM116", "x: 1")]),
        ("straight_through(3)", [("TM116", "3")]),
        ("expectation", [("TM308", "expectation")]),
        ("expectation(30)", [("TM116", "30")]),
        ("expectation(draws: 30)", []),
        ("expectation(draws: 30, x: 1)", [("TM116", "x: 1")]),
        ("expectation(draws: 1/2)", [("TM308", "expectation(draws: 1/2)")]),
        ("bpda", [("TM116", "bpda")]),
    ],
)
def test_ways_through_a_step_without_a_gradient(way: str, wanted: list[tuple[str, str]]) -> None:
    stage = f"native.apgd(loss: ce, steps: 40) through {way}"
    assert found(f"evaluate aa of linf8 {{\n  attack:  p = {stage}\n  seed:    0\n}}\n") == wanted


@pytest.mark.parametrize(
    ("access", "wanted"),
    [
        ("scores (top10)", []),
        ("scores (top11)", [("TM413", "top11")]),
        ("scores (top 3, rounded 2)", []),
        ("decisions (top5)", [("TM413", "top5")]),
    ],
)
def test_an_attacker_sees_no_more_scores_than_there_are(access: str, wanted: list[tuple[str, str]]) -> None:
    threat = (
        "threat linf8 on victim over test {\n  allow:  linf <= 8/255 in px\n  mutable:  all\n  goal:  untargeted\n"
        f"  access:  {access}\n  clean_errors:  fail\n}}\n"
    )
    assert found(threat) == wanted
