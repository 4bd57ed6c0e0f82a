"""The plan as people read it, and what its stages cost together."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from plan_support import LINF, NET, TEST, THREAT, call, evaluation, manifests, program, stage

from tmlang.meaning.evaluations import Program
from tmlang.meaning.models import Take
from tmlang.meaning.threats import Anything, Ball, Both, Either, Goal, Patch, Transform
from tmlang.meaning.values import Artifact, Call, Distance, Quantity, Symbol
from tmlang.plan import Capabilities, lower
from tmlang.plan.cost import per_unit, units
from tmlang.plan.ir import Cost, Plan
from tmlang.plan.show import plan_text
from tmlang.plan.text import plan_hash
from tmlang.plan.written import allowed, number, written


def planned(program: Program, folder: Path) -> Plan:
    plan, found = lower(program, Capabilities(manifests(folder)))
    assert plan is not None, found
    return plan


def test_the_text_of_a_plan(tmp_path: Path) -> None:
    made = program(
        stage(call(steps=Fraction(100)), label="w", through=Call(("straight_through",))),
        stage(call("toy.box"), "certify", "b"),
        stage(call("toy.solve"), "decide_exactly", "s"),
    )
    plan = planned(replace(made, evaluations=(evaluation(*made.evaluations[0].stages, repeats=2),)), tmp_path)
    assert (
        plan_text(plan)
        == f"""\
evaluate e of t
  linf <= 0.1 in px, on net over test, white_box
  only clean and correct units are attacked; a unit is left once it is broken
  w: toy.walk as search  (s.tm:20)
    steps = 100
    restarts = 2
    step_size = 0.1 in px
    loss = ce
    start = true
    through straight_through
    lowering exact, evidence witness, access white_box
    per unit 201 forward passes and 200 backward passes
  b: toy.box as certificate  (s.tm:20)
    lowering exact, evidence bound, access white_box
    per unit 1 forward pass and 0 backward passes
  s: toy.solve as decision  (s.tm:20)
    timeout = 600 's'
    lowering exact, evidence complete, access white_box
    per unit a cost that only the run can tell
  in all: 10 units, at most 4,040 forward passes and 4,000 backward passes, 2 repeats counted in, and what s takes

1 claim will be judged from the records.

plan {plan_hash(plan)}
"""
    )


def test_units_are_counted_as_far_as_the_spec_tells(tmp_path: Path) -> None:
    def of(*takes: Take, goal: Goal = THREAT.goal) -> int | None:
        data = replace(TEST, takes=takes)
        plan = planned(program(stage(call()), data=(data,), subjects=(replace(THREAT, goal=goal),)), tmp_path)
        assert per_unit(plan.evaluations[0]) == (Cost(21, 20), ())
        return units(plan, plan.evaluations[0])

    assert of(Take("first", 10)) == 10
    assert of(Take("first", 10), Take("sample", 4, seed=1)) == 4
    assert of(Take("all")) is None
    assert of(Take("first", 10), goal=Goal("each", each="apart")) == 10 * (len(NET.classes) - 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(100), "100"),
        (Fraction(8, 255), "8/255"),
        (Fraction(1, 20), "0.05"),
        (Fraction(-5, 2), "-2.5"),
        (Fraction(1, 2**20), "1/1048576"),
        (Fraction(0), "0"),
    ],
)
def test_numbers_are_exact(value: Fraction, text: str) -> None:
    assert number(value) == text
    assert Fraction(text) == value


def test_values_are_written_as_in_a_spec() -> None:
    assert written(None) == "none"
    assert written(True) == "true"
    assert written("a") == '"a"'
    assert written(Symbol("ce")) == "ce"
    assert written(Quantity(Fraction(60), "s")) == "60 's'"
    assert written(Distance(Fraction(2, 255), "px")) == "2/255 in px"
    assert written(Artifact("w.npy")) == '"w.npy"'
    assert written((Fraction(1), Symbol("b"))) == "(1, b)"
    assert written(Call(("native", "apgd"), (("loss", Symbol("ce")), ("", Fraction(1))))) == "native.apgd(loss: ce, 1)"


def test_sets_are_written_as_in_a_spec() -> None:
    ball = Ball("l1", "px", Fraction(2), unit="degC", tolerance=Fraction(1, 100))
    assert allowed(ball) == "l1 <= 2 'degC' in px tolerance 0.01"
    assert allowed(Ball("metric", "px", Fraction(1, 2), metric="m")) == "metric m <= 0.5 in px"
    per = Ball("linf", "px", radii=(("0", Fraction(1)), ("1", Fraction(2))), per="channel")
    assert allowed(per) == "linf <= (0: 1, 1: 2) per channel in px"
    assert allowed(Patch("rectangle", 5, 4)) == "patch(5, 4) at any place"
    assert allowed(Patch("disc", 6, 6, (1, 2))) == "patch(disc(diameter: 6)) at (1, 2)"
    assert allowed(Anything()) == "anything"
    turn = Transform((("rotate", Quantity(Fraction(30), "deg")),), "bilinear", Fraction(0))
    assert allowed(turn) == "transform { rotate <= 30 'deg' }"
    assert allowed(Either((LINF, Both((LINF, Anything()))))) == "linf <= 0.1 in px or linf <= 0.1 in px and (anything)"
