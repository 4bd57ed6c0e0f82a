"""Arithmetic of manifests (``"steps * restarts"``): exact, over named numbers, with + - * / and parentheses only."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from operator import add, mul, sub, truediv


class FormulaError(ValueError):
    """A formula that is no arithmetic, or that needs a number which is not there."""


_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: truediv,
}


def variables(text: str) -> set[str]:
    """The names that a formula uses. Raises :class:`FormulaError` when it is no arithmetic."""
    return {node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name)}


def evaluate(text: str, values: Mapping[str, Fraction]) -> Fraction:
    """The exact value. Raises :class:`FormulaError` for a name without a value and for a division by zero."""
    return _value(_parse(text), text, values)


def first_known(formulas: Iterable[str], values: Mapping[str, Fraction]) -> Fraction | None:
    """The value of the first formula whose names all have one; ``None`` when there is none."""
    for text in formulas:
        if variables(text) <= values.keys():
            return evaluate(text, values)
    return None


def _parse(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise FormulaError(f"`{text}` is no formula") from error
    for node in ast.walk(tree):
        whole = isinstance(node, ast.Constant) and type(node.value) is int
        if not (whole or isinstance(node, (ast.BinOp, ast.Name, ast.Load, *_OPERATORS))):
            raise FormulaError(f"`{text}` is more than arithmetic over names and whole numbers")
    return tree


def _value(node: ast.expr, text: str, values: Mapping[str, Fraction]) -> Fraction:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return Fraction(node.value)
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise FormulaError(f"`{text}` needs {node.id}")
        return values[node.id]
    assert isinstance(node, ast.BinOp)
    left, right = _value(node.left, text, values), _value(node.right, text, values)
    if isinstance(node.op, ast.Div) and right == 0:
        raise FormulaError(f"`{text}` divides by zero")
    return _OPERATORS[type(node.op)](left, right)
