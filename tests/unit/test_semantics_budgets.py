"""Radii against their spaces: what is refused, what is not, and the numbers in the messages."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import checked, found

from tmlang.meaning.threats import Ball, Both, Either, Threat, Transform

F = Fraction
UNIT = "space px: tensor(3, 32, 32) of real[0, 1] stored as float32 order rgb\n"
BYTES = "space px: tensor(3, 32, 32) of bytes order rgb\n"
STEPS = "space px: tensor(3, 32, 32) of real[0, 1] step 1/255 stored as float32 order rgb\n"
PLAIN = """
model victim: px -> classes(10) {
  network:  torch("victims.py:resnet18", weights: "resnet18.safetensors")
  decide:   argmax ties lowest
  random:   never
}
"""


def threat(allow: str, mutable: str = "all") -> str:
    return f"""
threat linf8 on victim over test {{
  allow:         {allow}
  mutable:       {mutable}
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}
"""


def allowed(space: str, allow: str, mutable: str = "all") -> list[tuple[str, str]]:
    return found(space + PLAIN + threat(allow, mutable))


def ball(space: str, allow: str, mutable: str = "all") -> Ball:
    result = checked(space + PLAIN + threat(allow, mutable))
    assert [(d.code, d.message) for d in result.diagnostics if d.is_error] == []
    assert result.program is not None
    (only,) = [s for s in result.program.subjects if isinstance(s, Threat)]
    assert isinstance(only.allow, Ball)
    return only.allow


# 3 * 32 * 32 = 3072 coordinates of width 1: l1 reaches everything at 3072, l2 at sqrt(3072) = 55.4..., their mean
# square at 1.
@pytest.mark.parametrize(
    ("space", "allow", "expected"),
    [
        (UNIT, "linf <= 1 in px", "TM201"),
        (UNIT, "linf <= 0.999 in px", None),
        (UNIT, "linf <= 255 in px", "TM201"),
        (UNIT, "l1 <= 3072 in px", "TM201"),
        (UNIT, "l1 <= 3071 in px", None),
        (UNIT, "l2 <= 56 in px", "TM201"),
        (UNIT, "l2 <= 55 in px", None),
        (UNIT, "l2_rms <= 1 in px", "TM201"),
        (UNIT, "l2_rms <= 0.9 in px", None),
        (UNIT, "l0 <= 3072 in px", "TM201"),
        (UNIT, "l0 <= 3071 in px", None),
        (UNIT, "pixels_changed <= 1024 in px", "TM201"),
        (UNIT, "pixels_changed <= 1023 in px", None),
        (UNIT, "l0 <= 1/2 in px", "TM222"),
        (UNIT, "linf <= 0 in px", "TM202"),
        (UNIT, "linf <= -1/255 in px", "TM213"),
        (BYTES, "linf <= 255 'levels' in px", "TM201"),
        (BYTES, "linf <= 254 'levels' in px", None),
        (BYTES, "linf <= 8 in px", None),
        (BYTES, "linf <= 8/255 in px", "TM202"),
        (BYTES, "linf <= 1 'levels' in px", None),
        (BYTES, "linf <= 3/2 'levels' in px", "TM222"),
        (BYTES, "l2 <= 3/2 'levels' in px", None),
        (BYTES, "l2 <= 1/2 'levels' in px", "TM202"),
        (BYTES, "l2_rms <= 1/2 'levels' in px", None),
        (BYTES, "l2_rms <= 1/64 'levels' in px", "TM202"),
        (STEPS, "linf <= 8/255 in px", None),
        (STEPS, "linf <= 8 'levels' in px", None),
        (STEPS, "linf <= 1/256 in px", "TM202"),
        (STEPS, "linf <= 0.05 in px", "TM222"),
        (UNIT, "linf <= 8 'levels' in px", "TM206"),
        (UNIT, "linf <= 8/255", "TM207"),
        (UNIT, "linf <= 1/100 'V' in px", "TM206"),
        (UNIT, "linf <= 8/255 in pxx", "TM101"),
    ],
)
def test_a_radius_in_its_space(space: str, allow: str, expected: str | None) -> None:
    assert [code for code, _ in allowed(space, allow)] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ("rotate <= 180 'deg'", None),
        ("rotate <= 181 'deg'", "TM226"),
        ("rotate <= 30", "TM207"),
        ("rotate <= 30 'px'", "TM206"),
        ("rotate <= 0 'deg'", "TM213"),
        ("scale <= 1/2", None),
        ("scale <= 1", "TM226"),
        ("shear <= 90 'deg'", "TM226"),
        ("contrast <= 3/2", "TM226"),
        ("brightness <= 2", None),
        ("translate <= 3 'px' step 1/2 'px' rotate <= 5 'deg'", None),
        ("translate <= 3 'px' step 4 'px'", "TM213"),
        ("translate <= 3 'px' step 0 'px'", "TM213"),
        ("translate <= 3 'px' step 1/2", "TM207"),
        ("rotate <= 5 'deg' brightness <= 1/10", None),
        ("brightness <= 1/10 rotate <= 5 'deg'", "TM226"),
        ("rotate <= 5 'deg' rotate <= 5 'deg'", "TM114"),
        ("", "TM226"),
    ],
)
def test_the_parts_of_a_transform(parts: str, expected: str | None) -> None:
    found = allowed(UNIT, f"transform {{ {parts} }} interpolate bilinear fill 0")
    assert [code for code, _ in found] == ([expected] if expected else [])


def test_a_grid_is_kept_with_its_part() -> None:
    text = "transform { translate <= 3 'px' rotate <= 30 'deg' step 5/2 'deg' } interpolate nearest fill 1/2"
    program = checked(UNIT + PLAIN + threat(text)).program
    assert program is not None
    (only,) = [s for s in program.subjects if isinstance(s, Threat)]
    assert isinstance(only.allow, Transform)
    assert only.allow.steps == (None, F(5, 2))
    assert [(name, most.value) for name, most in only.allow.parts] == [("translate", F(3)), ("rotate", F(30))]


# k/255 for k = 1, 2, 4, 8, 16; a decimal within 2.5 % of one and not equal is warned of.
@pytest.mark.parametrize(
    ("radius", "near"),
    [
        ("0.031", True),  # 8/255 = 0.031372...
        ("0.0314", True),
        ("0.03", False),
        ("0.032", True),
        ("0.033", False),
        ("0.0157", True),  # 4/255 = 0.015686...
        ("0.0078", True),  # 2/255 = 0.007843...
        ("0.3", False),
        ("0.1", False),
        ("0.05", False),
        ("8/256", True),
        ("8/255", False),
        ("16/255", False),
        ("10/255", False),
    ],
)
def test_a_near_miss(radius: str, near: bool) -> None:
    codes = [code for code, _ in allowed(UNIT, f"linf <= {radius} in px")]
    assert codes == (["TM203"] if near else [])


def test_levels_are_multiplied_by_the_step() -> None:
    assert ball(BYTES, "linf <= 8 'levels' in px").radius == 8
    assert ball(STEPS, "linf <= 8 'levels' in px").radius == F(8, 255)
    assert ball(STEPS, "linf <= 8 'levels' in px").unit == "levels"


def test_a_derived_space_is_worked_out_both_ways() -> None:
    """With std s the ball of r in (x - m) / s is one of r * s in x, and one of r in x is one of r / s there."""
    result = checked(threat("linf <= 8/255 in standardized"))
    (d,) = result.diagnostics
    r, std = F(8, 255), [F("0.2471"), F("0.2435"), F("0.2616")]
    assert d.code == "TM204"
    assert d.help is not None
    for s in std:
        exact = r * s
        shown = f"{int(exact * 10**8) / 10**8:.8f}"  # rounded towards zero, so that the box lies within the meant one
        assert shown in d.help
        assert F(shown) <= exact
        assert f"{float(r / s):.5f}"[:6] in " ".join(d.notes)


READING = """
space reading {
  near:  real[0, 100] 'm'
  far:   real[0, 5] 'km'
  temp:  real[-40, 85] 'degC'
  n:     int[0, 5]
  door:  {open, closed}
  plain: real[0, 1]
} stored as float32

model guard: reading -> {ok, alarm} {
  network:  onnx("guard.onnx")
  decide:   argmax ties lowest
  random:   never
}

data trips: reading {
  read:   csv("trips.csv", label: "state")
  take:   all
  truth:  reviewed "review.csv"
}
"""


def features(allow: str, mutable: str) -> list[tuple[str, str]]:
    text = threat(allow, mutable).replace("linf8 on victim over test", "drift on guard over trips")
    return found(READING + text)


@pytest.mark.parametrize(
    ("allow", "mutable", "expected"),
    [
        ("linf <= 2 'degC' in reading", "temp", []),
        ("linf <= 2 'degC' in reading", "temp, near", [("TM205", "linf")]),
        ("linf <= 2 'degC' in reading", "all except near, far, n, door, plain", []),
        ("linf <= 2 'm' in reading", "near", []),
        ("linf <= 2 'm' in reading", "far", []),
        ("linf <= 2 'm' in reading", "near, far", [("TM205", "linf")]),
        ("linf <= 2 in reading", "temp", [("TM207", "2")]),
        ("linf <= 2 'kN' in reading", "temp", [("TM206", "'kN'")]),
        ("linf <= 1/2 in reading", "plain", []),
        ("linf <= 1 in reading", "n", []),
        ("linf <= 1 in reading", "n, plain", []),
        ("linf <= 1 in reading", "door", [("TM205", "linf")]),
        ("l0 <= 2 in reading", "all", []),
        ("linf <= 2 'degC' in reading", "tmep", [("TM110", "tmep")]),
        ("linf <= (temp: 2 'degC', far: 100 'm') per feature in reading", "temp, far", []),
        ("linf <= (temp: 2 'degC', far: 100) per feature in reading", "temp, far", [("TM207", "100")]),
        ("linf <= (temp: 2 'degC', n: 1/2) per feature in reading", "temp, n", [("TM202", "1/2")]),
        ("linf <= (1, 2) per channel in reading", "temp", [("TM225", "(1, 2)")]),
        ("metric any <= 1/2 in reading", "temp", [("TM110", "any")]),
        ("patch(2, 2) at any place", "all", [("TM226", "patch(2, 2)")]),
    ],
)
def test_units_of_features(allow: str, mutable: str, expected: list[tuple[str, str]]) -> None:
    assert features(allow, mutable) == expected


def test_a_radius_is_converted_into_the_unit_of_the_feature() -> None:
    text = threat("linf <= 200 'm' in reading", "far").replace("linf8 on victim over test", "drift on guard over trips")
    program = checked(READING + text).program
    assert program is not None
    drift = next(s for s in program.subjects if s.name == "drift")
    assert isinstance(drift, Threat)
    assert isinstance(drift.allow, Ball)
    assert drift.allow.radius == F(1, 5)  # kilometres


@pytest.mark.parametrize(
    ("unit", "radius", "meant"), [("%", "3 %", F(3)), ("ppm", "1/10 %", F(1000)), ("ppm", "3 'ppm'", F(3))]
)
def test_a_share_is_written_in_the_unit_of_the_feature(unit: str, radius: str, meant: Fraction) -> None:
    reading = READING.replace("real[-40, 85] 'degC'", f"real[0, 5000] '{unit}'")
    for allow in (f"linf <= {radius} in reading", f"linf <= (temp: {radius}) per feature in reading"):
        text = threat(allow, "temp").replace("linf8 on victim over test", "drift on guard over trips")
        program = checked(reading + text).program
        assert program is not None
        drift = next(s for s in program.subjects if s.name == "drift")
        assert isinstance(drift, Threat)
        assert isinstance(drift.allow, Ball)
        assert (drift.allow.radius or dict(drift.allow.radii)["temp"]) == meant
    bare = threat("linf <= 3 in reading", "temp").replace("linf8 on victim over test", "drift on guard over trips")
    assert found(reading + bare) == [("TM207", "3")]


@pytest.mark.parametrize(
    ("shape", "order", "expected"),
    [("3, 8, 8", "rgb", []), ("1, 8, 8", "rgb", [("TM224", "order rgb")]), ("1, 8, 8", "grey", [("TM116", "grey")])],
)
def test_an_order_is_for_three_channels(shape: str, order: str, expected: list[tuple[str, str]]) -> None:
    assert found(f"space eight: tensor({shape}) of bytes order {order}\n") == expected


@pytest.mark.parametrize(
    ("step", "mutable", "expected"),
    [
        ("1/4 'degC'", "temp", []),
        ("10 'm'", "far", []),
        ("1/4 'degC'", "temp, near", [("TM205", "1/4 'degC'")]),
        ("1/4 'degC'", "far", [("TM206", "'degC'")]),
    ],
)
def test_a_step_is_a_length_over_what_may_move(step: str, mutable: str, expected: list[tuple[str, str]]) -> None:
    text = threat("anything", mutable).replace("linf8 on victim over test", "drift on guard over trips")
    text += f"\nevaluate e of drift {{\n  attack:  a = native.pgd(step_size: {step} in reading)\n  seed:  0\n}}\n"
    assert found(READING + text) == expected


def test_and_binds_closer_than_or() -> None:
    text = threat("a: linf <= 8/255 in px and l2 <= 1/2 in px or b: l1 <= 12 in px")
    program = checked(text).program
    assert program is not None
    only = next(s for s in program.subjects if isinstance(s, Threat))
    assert isinstance(only.allow, Either)
    assert [type(p) for p in only.allow.parts] == [Both, Ball]


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("scores, queries <= 0 per example", [("TM213", "0")]),
        ("decisions, queries <= 0 per example", [("TM213", "0")]),
        ("scores, queries <= 1 per example", []),
        ("nothing, queries <= 0 per example", []),
    ],
)
def test_a_search_that_may_ask_nothing_is_refused_where_its_candidates_come_from_asking(
    access: str, expected: list[tuple[str, str]]
) -> None:
    assert found(UNIT + PLAIN + threat("linf <= 8/255 in px").replace("white_box", access)) == expected
