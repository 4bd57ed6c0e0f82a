"""``where`` relations, decided exactly: floating point with a running error bound, rationals where that is undecided.

The bounds are those of Higham, Accuracy and Stability of Numerical Algorithms (2nd ed.), section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.meaning.spaces import Arithmetic, Num, Op, Ref, Relation

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Bounded = tuple[Any, Any]
"""A float64 array (or scalar) and a bound on its distance from the exact number."""

_U = 2.0**-53
_TINY = 2.0**-1022
_SLACK = 1 + 2.0**-48
"""Covers the rounding of the bounds themselves."""


def features_of(expression: Arithmetic) -> frozenset[str]:
    """The features that an expression mentions."""
    if isinstance(expression, Ref):
        return frozenset((expression.feature,))
    if isinstance(expression, Op):
        return features_of(expression.left) | features_of(expression.right)
    return frozenset()


def holds(
    relation: Relation, columns: dict[str, Floats], exact: Callable[[int], dict[str, Fraction]], rows: int
) -> Flags:
    """Where ``relation`` holds, (rows,) bool.

    ``columns``: per feature its numbers as float64, each within 2**-53 of the exact one, relatively. ``exact(i)``: row
    ``i`` in rationals. An expression that divides by zero satisfies nothing.
    """
    with np.errstate(all="ignore"):
        left, right = _value(relation.left, columns), _value(relation.right, columns)
        difference, error = _combine("-", left, right)
        slack, slack_error = _value(Num(relation.tolerance), columns)
        gap = np.abs(difference) - slack if relation.op == "==" else _sign(relation.op) * difference - slack
        bound = (error + slack_error + _U * (np.abs(difference) + slack) * 2 + _TINY) * _SLACK
        gap, bound = np.broadcast_to(gap, (rows,)), np.broadcast_to(bound, (rows,))
        inside, outside = gap < -bound, gap > bound
    result = inside.copy()
    for i in np.flatnonzero(~inside & ~outside):
        result[i] = _exactly(relation, exact(int(i)))
    return result


def excess(relation: Relation, columns: dict[str, Floats]) -> Any:
    """By how much ``relation`` is broken in float64 (not above 0: it holds), of numbers that may be broadcast together;
    NaN where it divides by zero."""
    with np.errstate(all="ignore"):
        difference = _value(relation.left, columns)[0] - _value(relation.right, columns)[0]
    gap = np.abs(difference) if relation.op == "==" else _sign(relation.op) * difference
    return gap - float(relation.tolerance)


def _sign(op: str) -> int:
    return 1 if op in ("<=", "<") else -1


def _value(expression: Arithmetic, columns: dict[str, Floats]) -> Bounded:
    if isinstance(expression, Num):
        value = float(expression.value)
        return value, abs(value) * _U + _TINY
    if isinstance(expression, Ref):
        column = columns[expression.feature]
        return column, np.abs(column) * _U
    return _combine(expression.op, _value(expression.left, columns), _value(expression.right, columns))


def _combine(op: str, left: Bounded, right: Bounded) -> Bounded:
    (a, da), (b, db) = left, right
    if op in "+-":
        value = a + b if op == "+" else a - b
        error = da + db
    elif op == "*":
        value = a * b
        error = np.abs(a) * db + np.abs(b) * da + da * db
    else:
        value = np.divide(a, b)
        error = np.where(np.abs(b) > db, (da + np.abs(value) * db) / (np.abs(b) - db), np.inf)
    return value, (error + np.abs(value) * _U + _TINY) * _SLACK


def _exactly(relation: Relation, row: dict[str, Fraction]) -> bool:
    try:
        difference = evaluate(relation.left, row) - evaluate(relation.right, row)
    except ZeroDivisionError:
        return False
    slack = relation.tolerance
    if relation.op == "==":
        return abs(difference) <= slack
    signed = _sign(relation.op) * difference
    return signed <= slack if "=" in relation.op else signed < slack


def evaluate(expression: Arithmetic, row: dict[str, Fraction]) -> Fraction:
    """The exact value of an expression. Raises ``ZeroDivisionError``."""
    if isinstance(expression, Num):
        return expression.value
    if isinstance(expression, Ref):
        return row[expression.feature]
    left, right = evaluate(expression.left, row), evaluate(expression.right, row)
    if expression.op == "+":
        return left + right
    if expression.op == "-":
        return left - right
    return left * right if expression.op == "*" else left / right


def decided(relations: Sequence[Relation], known: frozenset[str]) -> tuple[Relation, ...]:
    """The relations that mention known features only."""
    return tuple(r for r in relations if features_of(r.left) | features_of(r.right) <= known)
