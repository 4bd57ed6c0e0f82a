"""Which numbers of a cell a machine can hand over: its ends in the type that its space is stored as.

A range of real numbers may hold no float at all (no float32 is 1/10), and a bound may leave nothing of a lattice. Here
that is worked out once, in rationals, for whoever checks a spec and whoever runs it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from tmlang.base.exact import next_up, round_down, round_up
from tmlang.meaning.spaces import Cell, Space

Ends = tuple[Fraction, Fraction]


def narrowed(cell: Cell, op: str, value: Fraction, dtype: str) -> Cell:
    """``cell`` with a bound more. A strict bound on a real coordinate begins at the next value of ``dtype``; one
    that is not stays as it is written, since rounding has its own place (:func:`ends`)."""
    low, high = cell.low, cell.high
    if op in (">=", ">", "=="):
        low = max(low, _above(cell, value, strict=op == ">", dtype=dtype))
    if op in ("<=", "<", "=="):
        high = min(high, -_above(_mirrored(cell), -value, strict=op == "<", dtype=dtype))
    return replace(cell, low=low, high=high)


def _mirrored(cell: Cell) -> Cell:
    return replace(cell, low=-cell.high, high=-cell.low)


def _above(cell: Cell, value: Fraction, *, strict: bool, dtype: str) -> Fraction:
    """The least number of a cell that is at least (above, if ``strict``) ``value``."""
    if cell.step is not None:
        steps = (value - cell.low) / cell.step
        return cell.low + (floor(steps) + 1 if strict else ceil(steps)) * cell.step
    if not strict:
        return value
    beyond = next_up(value, dtype)
    # Above the greatest value there is none, and any number beyond the cell says so.
    return Fraction(beyond) if abs(beyond) != float("inf") else max(value, cell.high) + 1


def ends(cell: Cell, space: Space) -> Ends | None:
    """The least and greatest number of ``cell`` that an input of ``space`` may hold; ``None`` where it holds none."""
    step = grid(cell, space)
    if step is not None:
        low = ceil(cell.low / step) * step if space.delivery and space.delivery.codec == "rounded" else cell.low
        high = low + floor((cell.high - low) / step) * step
        return (low, high) if low <= high else None
    dtype = stored_as(space)
    least, greatest = round_up(cell.low, dtype), round_down(cell.high, dtype)
    return (Fraction(least), Fraction(greatest)) if least <= greatest else None


def grid(cell: Cell, space: Space) -> Fraction | None:
    """The step of a cell, its own or that of the delivery; ``None`` where every value of the type is held."""
    delivery = space.delivery
    if cell.step is not None:
        return cell.step
    if delivery is None or delivery.codec == "float16":
        return None
    return (cell.high - cell.low) / 255 or None if delivery.codec == "png" else delivery.step


def stored_as(space: Space) -> str:
    """The floating-point type whose values real coordinates hold: under that delivery float16, else the dtype."""
    return "float16" if space.delivery and space.delivery.codec == "float16" else space.dtype
