"""Resolved arguments of a stage as plain numbers and words."""

from __future__ import annotations

from fractions import Fraction

import torch

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.native.terrain import Terrain
from tmlang.meaning.values import Distance, Quantity, Symbol, Value

Tensor = torch.Tensor


def whole(value: Value) -> int:
    """A whole number."""
    return int(number(value))


def number(value: Value) -> Fraction:
    """An exact number without a unit."""
    if isinstance(value, Quantity):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise BackendRefusal(f"{value!r} is no number")
    return Fraction(value)


def word(value: Value) -> str:
    """A bare word."""
    return value.name if isinstance(value, Symbol) else str(value)


def in_radii(value: Value, terrain: Terrain) -> Tensor:
    """A step size in radii of the ball, (1, size) or (1, 1): what :meth:`Terrain.ascent` is multiplied by.

    A ``Distance`` is in the space's units; a quantity in ``radii`` is a share of each branch's own radius.
    """
    if isinstance(value, Quantity) and value.unit == "radii":
        return torch.full((1, 1), float(value.value), dtype=terrain.radius.dtype)
    if isinstance(value, (Distance, Quantity, Fraction)):
        length = value if isinstance(value, Fraction) else value.value
        return torch.where(terrain.length > 0, float(length) / terrain.length, 0.0)
    raise BackendRefusal(f"{value!r} is no length")
