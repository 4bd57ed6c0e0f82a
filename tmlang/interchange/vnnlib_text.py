"""Writing VNN-LIB, versions 1 and 2: every decimal rounded so that the box and the unsafe outputs can only grow.

Whoever answers ``unsat`` to the file has answered for the exact set; a ``sat`` may lie in the last digit and must be
checked. Strict comparisons are written as ``<=`` and ``>=`` for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

DIGITS = 17
"""Significant digits: a 64-bit float is told from its neighbours."""

Row = tuple[tuple[tuple[int, int], ...], Fraction]
"""``sum of sign * Y_output + offset >= 0``, of (output, sign) pairs: one output, or two with opposite signs and no
offset."""


@dataclass(frozen=True)
class Unsafe:
    """One file. ``box``: per input, in C order, its least and greatest value and what it is called. ``outputs``: the
    alternatives, each the rows that hold together. ``comments`` stand on top."""

    name: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    box: Sequence[tuple[Fraction, Fraction, str]]
    outputs: Sequence[Sequence[Row]]
    comments: tuple[str, ...] = ()


def text(unsafe: Unsafe, version: int) -> str:
    """The file in ``version`` 1 or 2."""
    return "\n".join(_lines(unsafe, version)) + "\n"


def _lines(unsafe: Unsafe, version: int) -> Iterator[str]:
    yield from (f"; {line}" for comment in unsafe.comments for line in comment.splitlines())
    yield from (f"; Y {j}: {name}" for j, name in enumerate(unsafe.classes))
    x, y = _names(unsafe, version)
    if version == 1:
        yield from (f"(declare-const {name} Real)" for name in (*x, *y))
    else:
        dims = ", ".join(str(d) for d in (1, *unsafe.shape))
        yield "(vnnlib-version <2.0>)"
        yield f"(declare-network {unsafe.name}"
        yield f"    (declare-input X Real [{dims}])"
        yield f"    (declare-output Y Real [1, {len(unsafe.classes)}])"
        yield ")"
    for name, (low, high, called) in zip(x, unsafe.box, strict=True):
        yield f"; {called}" if called else ""
        yield f"(assert (>= {name} {decimal(low, up=False)}))"
        yield f"(assert (<= {name} {decimal(high, up=True)}))"
    parts = [" ".join(_row(row, y) for row in part) for part in unsafe.outputs]
    if len(parts) == 1:
        yield from (f"(assert {_row(row, y)})" for row in unsafe.outputs[0])
    else:
        yield "(assert (or"
        yield from (f"    (and {part})" for part in parts)
        yield "))"


def _names(unsafe: Unsafe, version: int) -> tuple[list[str], list[str]]:
    inputs, outputs = range(len(unsafe.box)), range(len(unsafe.classes))
    if version == 1:
        return [f"X_{i}" for i in inputs], [f"Y_{j}" for j in outputs]
    return [f"X[{','.join(map(str, _index(i, unsafe.shape)))}]" for i in inputs], [f"Y[0,{j}]" for j in outputs]


def _index(flat: int, shape: tuple[int, ...]) -> list[int]:
    index: list[int] = []
    for d in reversed(shape):
        flat, at = divmod(flat, d)
        index.insert(0, at)
    return [0, *index]


def _row(row: Row, y: Sequence[str]) -> str:
    terms, offset = row
    positive = [y[j] for j, sign in terms if sign > 0]
    negative = [y[j] for j, sign in terms if sign < 0]
    if len(positive) == len(negative) == 1 and not offset:
        return f"(>= {positive[0]} {negative[0]})"
    if len(terms) != 1:
        raise ValueError("a row compares one output with a number, or two outputs")
    if positive:
        return f"(>= {positive[0]} {decimal(-offset, up=False)})"
    return f"(<= {negative[0]} {decimal(offset, up=True)})"


def decimal(value: Fraction, *, up: bool) -> str:
    """A plain decimal of :data:`DIGITS` significant digits at or above (``up``) or at or below ``value``."""
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    context = Context(prec=DIGITS, rounding=rounding)
    found = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    written = f"{found:f}"
    return written if "." in written else f"{written}.0"
