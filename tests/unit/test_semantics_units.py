"""Units, exactly: values worked out by hand from the definitions of the units."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import checked, found

from tmlang.semantics.units import convert, known_units, parse_unit

F = Fraction


@pytest.mark.parametrize(
    ("value", "unit", "to", "expected"),
    [
        (F(2), "h", "s", F(7200)),
        (F(5), "min", "s", F(300)),
        (F(1), "kN", "N", F(1000)),
        (F(1), "N", "kg*m/s^2", F(1)),
        (F(1), "ft", "m", F(3048, 10000)),
        (F(1), "nmi", "m", F(1852)),
        (F(1), "kt", "m/s", F(1852, 3600)),
        (F(36), "km/h", "m/s", F(10)),
        (F(1), "bar", "kPa", F(100)),
        (F(3), "mV", "V", F(3, 1000)),
        (F(1), "J", "N*m", F(1)),
        (F(1), "W", "J/s", F(1)),
        (F(1), "l", "m^3", F(1, 1000)),
        (F(1), "mg/dL", "g/l", F(1, 100)),
        (F(45), "%", "%", F(45)),
        (F(1), "Hz", "1/s", F(1)),
    ],
)
def test_one_kind_converts_exactly(value: Fraction, unit: str, to: str, expected: Fraction) -> None:
    one, other = parse_unit(unit), parse_unit(to)
    assert one is not None
    assert other is not None
    assert convert(value, one, other) == expected


@pytest.mark.parametrize(
    ("unit", "to"),
    [("ft", "ft/s"), ("degC", "K"), ("degC", "degF"), ("deg", "rad"), ("px", "m"), ("USD", "EUR"), ("levels", "px")],
)
def test_two_kinds_do_not(unit: str, to: str) -> None:
    one, other = parse_unit(unit), parse_unit(to)
    assert one is not None
    assert other is not None
    assert convert(F(1), one, other) is None


@pytest.mark.parametrize("text", ["", "ft/", "/s", "kNewton", "m^0", "m^12", "m s", "k", "N**m", "'", "%%", "µ"])
def test_what_is_no_unit(text: str) -> None:
    assert parse_unit(text) is None


@given(st.sampled_from([u for u in known_units() if u != "%"]), st.sampled_from([u for u in known_units() if u != "%"]))
def test_a_product_divided_is_the_other_factor(a: str, b: str) -> None:
    product, one = parse_unit(f"{a}*{b}"), parse_unit(b)
    assert product is not None
    assert one is not None
    quotient = parse_unit(f"{a}*{b}/{a}") if "/" not in a + b else product
    assert quotient is not None
    if "/" not in a + b:
        assert (quotient.kind, quotient.factor) == (one.kind, one.factor)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ft/s", "speed"),
        ("kN", "force"),
        ("m/s^2", "length/time^2"),
        ("USD", "USD"),
        ("%", "number"),
        ("1/s", "frequency"),
    ],
)
def test_a_kind_in_words(kind: str, expected: str) -> None:
    unit = parse_unit(kind)
    assert unit is not None
    assert unit.describe() == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1 'h' + 30 'h'", []),
        ("1 'h' + 30", [("TM206", "1 'h' + 30")]),
        ("1 'h' + 30 'min'", [("TM206", "1 'h' + 30 'min'")]),
        ("2 * 3 'h'", []),
        ("(1 'h') * (1 'h')", [("TM206", "(1 'h') * (1 'h')")]),
        ("(45 %) / 2", []),
    ],
)
def test_arithmetic_keeps_units_apart(value: str, expected: list[tuple[str, str]]) -> None:
    assert found(f"let x = {value}\n") == expected


@pytest.mark.parametrize(
    ("relation", "said"),
    [
        ("a <= b / 2", "'V' does not compare with 'kN'"),
        ("a <= 2 * b", "'V' does not compare with 'kN'"),
        ("a <= b * a", "'V' does not compare with 'kN*V'"),
        ("a <= 1 / b", "'V' does not compare with '1/kN'"),
        ("a / a <= b", "a plain number does not compare with 'kN'"),
    ],
)
def test_units_of_products_as_one_would_write_them(relation: str, said: str) -> None:
    space = f"space s {{\n  a:  real[0, 1] 'V'\n  b:  real[0, 2] 'kN'\n  where {relation}\n}} stored as float32\n"
    assert [(d.code, d.message) for d in checked(space).diagnostics] == [("TM206", said)]


def test_a_space_that_is_wrong_is_told_of_once() -> None:
    """What stands behind it is not measured against a space of which nobody knows what it has."""
    space = "space s { a: int[0, 9] 'kEUR'  b: {red, green} } stored as float32\n"
    model = (
        "model m: s -> {no, yes} {\n  step: one_hot(b)\n  network: linear(weights: [1, 1, 0], bias: 0)\n"
        "  decide: threshold score > 0 then yes else no\n  random: never\n}\n"
    )
    assert [(d.code, d.message) for d in checked(space + model).diagnostics] == [
        ("TM208", "no unit is written 'kEUR'; did you mean EUR")
    ]
