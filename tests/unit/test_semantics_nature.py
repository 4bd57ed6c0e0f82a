"""What nature may draw: each refusal, and what it must not refuse."""

from __future__ import annotations

import sys
from fractions import Fraction as F
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import checked, found

from tmlang.meaning.threats import Nature, Success, Threat

WORLD = """
space px: tensor(3, 32, 32) of real[0, 1] stored as float32 order rgb
model victim: px -> classes(10) {
  network:  torch("victims.py:resnet18", weights: "resnet18.safetensors")
  decide:   argmax ties lowest
  random:   never
}
threat t on victim over test {
  allow:         ALLOW
  mutable:       all
  nature:        NATURE
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
  success:       SUCCESS
}
"""
PATCH, PLACED, BALL = "patch(5, 4)", "patch(5, 4) at (1, 2)", "linf <= 8/255 in px"
SINGLE = "single draw judged on 50 fresh draws"


def spec(allow: str, nature: str, success: str = SINGLE) -> str:
    return WORLD.replace("ALLOW", allow).replace("NATURE", nature).replace("SUCCESS", success)


CASES = [
    (PATCH, "{ place uniform [0, 27] 'px' } draws 50", None),
    (PATCH, "{ place uniform [0, 28] 'px' } draws 50", "TM226"),  # 32 - 5 = 27
    (PATCH, "{ place uniform [0, 9/2] 'px' } draws 50", "TM226"),
    (PATCH, "{ rotate uniform [-9, 9] 'deg' } draws 50 interpolate bilinear", "TM226"),  # nobody says where it lies
    (PLACED, "{ place uniform [0, 9] 'px' } draws 50", "TM226"),
    (PATCH + " at any place", "{ place uniform [0, 9] 'px' } draws 50", "TM226"),
    (BALL, "{ place uniform [0, 9] 'px' } draws 50", "TM226"),
    (PLACED, "{ rotate uniform [-9, 9] 'deg' } draws 50", None),  # published so; TM830 when it is run
    (PLACED, "{ rotate uniform [-9, 9] 'deg' } draws 50 interpolate nearest", None),
    (PLACED, "{ rotate uniform [-9, 9] 'deg' } draws 50 interpolate nearest fill 0", "TM226"),
    (BALL, "{ rotate uniform [-9, 9] 'deg' } draws 50", "TM226"),
    (BALL, "{ rotate uniform [-9, 9] 'deg' } draws 50 interpolate bilinear", "TM226"),
    (BALL, "{ rotate uniform [-9, 9] 'deg' } draws 50 interpolate bilinear fill 1/2", None),
    (BALL, "{ rotate uniform [-180, 180] 'deg' } draws 50 interpolate bilinear fill 0", None),
    (BALL, "{ rotate uniform [-181, 0] 'deg' } draws 50 interpolate bilinear fill 0", "TM226"),
    (BALL, "{ scale uniform [0, 1] } draws 50 interpolate bilinear fill 0", "TM226"),
    (BALL, "{ scale uniform [1/2, 4] } draws 50 interpolate bilinear fill 0", None),
    (BALL, "{ shear uniform [0, 90] 'deg' } draws 50 interpolate bilinear fill 0", "TM226"),
    (BALL, "{ contrast uniform [0, 1] } draws 50", "TM226"),
    (BALL, "{ brightness uniform [-1/8, 1/8] contrast uniform [3/4, 1] } draws 50", None),
    (BALL, "{ brightness uniform [-1/8, 1/8] } draws 50 interpolate bilinear", "TM226"),
    (BALL, "{ contrast uniform [3/4, 1] translate uniform [0, 1] 'px' } draws 50 interpolate bilinear fill 0", "TM226"),
    (BALL, "{ brightness uniform [0, 1/8] brightness uniform [0, 1/8] } draws 50", "TM114"),
    (BALL, "{ brightness uniform [1/8, 0] } draws 50", "TM212"),
    (BALL, "{ } draws 50", "TM226"),
    (BALL, "{ brightness uniform [0, 1/8] } draws 40", "TM422"),
    (BALL, "{ brightness uniform [0, 1/8] }", "TM401"),
]


@pytest.mark.parametrize(("allow", "nature", "code"), CASES)
def test_what_nature_may_draw(allow: str, nature: str, code: str | None) -> None:
    assert {c for c, _ in found(spec(allow, nature))} == ({code} if code else set())


def test_its_draws_are_those_that_judge() -> None:
    text = spec(PATCH, "{ place uniform [0, 27] 'px' scale uniform [1/2, 3/2] } draws 50 interpolate bicubic")
    result = checked(text.replace(SINGLE, "error_probability > 1/2 at 99 %"))
    (only,) = [s for s in result.program.subjects if s.name == "t"]  # type: ignore[union-attr]
    assert isinstance(only, Threat)
    parts = (("place", F(0), F(27), "px"), ("scale", F(1, 2), F(3, 2), None))
    assert only.nature == Nature(parts, 50, "bicubic")
    assert only.success == Success("error_probability", F(1, 2), F(99, 100), 50)


def test_so_many_draws_would_not_be_recorded() -> None:
    text = spec(BALL, "{ brightness uniform [0, 1/8] } draws 50", "single draw judged on 100001 fresh draws")
    assert "TM213" in {c for c, _ in found(text)}
