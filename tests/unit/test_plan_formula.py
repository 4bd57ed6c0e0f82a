"""Arithmetic of manifests, against hand-computed values."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tmlang.plan.formula import FormulaError, evaluate, first_known, variables


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("1 + steps * restarts", Fraction(31)),
        ("(1 + steps) * restarts", Fraction(33)),
        ("steps / 4", Fraction(10, 4)),
        ("steps - restarts - 1", Fraction(6)),
    ],
)
def test_evaluates_exactly(text: str, value: Fraction) -> None:
    assert evaluate(text, {"steps": Fraction(10), "restarts": Fraction(3)}) == value


@pytest.mark.parametrize(
    "text", ["", "steps **  2", "f(1)", "__import__('os')", "a.b", "1.5", "'x'", "a if b else c", "-1", "a; b", "x\n+"]
)
def test_more_than_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        variables(text)


def test_names_are_found_and_needed() -> None:
    assert variables("a * (b + 2)") == {"a", "b"}
    with pytest.raises(FormulaError, match="needs b"):
        evaluate("a * b", {"a": Fraction(1)})


def test_division_by_zero_is_told() -> None:
    with pytest.raises(FormulaError, match="zero"):
        evaluate("1 / a", {"a": Fraction(0)})


def test_the_first_formula_with_all_its_names_counts() -> None:
    assert first_known(("a * b", "a"), {"a": Fraction(2)}) == 2
    assert first_known(("a * b", "a"), {"a": Fraction(2), "b": Fraction(5)}) == 10
    assert first_known(("b",), {"a": Fraction(2)}) is None
