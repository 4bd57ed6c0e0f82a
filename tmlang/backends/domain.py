"""A space as arrays: which values a coordinate may hold, and exact differences between two of them.

A coordinate is *real* (every value of the dtype in a box) or on a *lattice* (``low + k * step``, worked with as the
index ``k``). A delivery codec that acts per coordinate leaves only its fixed points, so ``png`` and ``rounded`` turn a
real coordinate into a lattice, and ``float16`` into a coarser floating-point grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.base.exact import round_down, round_nearest, round_up
from tmlang.diagnostics.stop import stop
from tmlang.meaning.spaces import Cell, Space

Values = NDArray[Any]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

_TABLE = 1 << 16
"""Lattices of at most this many levels keep all their values in a table."""


Rounding = Callable[[Fraction, str], float]


@dataclass(frozen=True)
class Lattice:
    """``low + k * step`` for ``0 <= k <= last``, as values of ``dtype``."""

    low: Fraction
    step: Fraction
    last: int
    dtype: str

    @cached_property
    def table(self) -> Values | None:
        """All the values in order, of a lattice that is not too large."""
        return self._rounded(np.arange(self.last + 1), round_nearest) if self.last < _TABLE else None

    def _rounded(self, k: Indices, rounding: Rounding) -> Values:
        return np.array([rounding(self.low + int(i) * self.step, self.dtype) for i in k], dtype=self.dtype)

    def value(self, k: Indices, rounding: Rounding = round_nearest) -> Values:
        """The values of the indices ``k``: the exact rationals, rounded to the dtype."""
        if rounding is round_nearest and self.table is not None:
            found: Values = self.table[k]
            return found
        unique, inverse = np.unique(k, return_inverse=True)
        return self._rounded(unique, rounding)[inverse].reshape(k.shape)

    def index(self, x: Values) -> tuple[Indices, Flags]:
        """The nearest index of each value (ties to even, clipped into the lattice), and whether ``x`` is its value."""
        low, step = self._floats
        raw = np.rint((x.astype(np.float64) - low) / step)
        k = np.where(raw > 0, np.minimum(raw, self.last), 0).astype(np.int64)
        return k, self.value(k) == x

    @cached_property
    def _floats(self) -> tuple[float, float]:
        return float(self.low), float(self.step)


def fixed_points(cell: Cell, space: Space) -> Cell:
    """The cell of the values that the space's delivery codec leaves unchanged. Raises :class:`Stop` where the codec
    would move values of a lattice."""
    delivery = space.delivery
    if delivery is None or (delivery.codec == "float16" and cell.kind == "real"):
        return cell
    if delivery.codec == "float16":
        coarse = Lattice(cell.low, _step(cell), _last(cell), "float16")
        k = np.unique(np.linspace(0, coarse.last, min(coarse.last + 1, _TABLE)).astype(np.int64))
        kept = np.array_equal(coarse.value(k).astype(space.dtype), replace(coarse, dtype=space.dtype).value(k))
        return _unless_moved(cell, space, not kept)
    step = (cell.high - cell.low) / 255 if delivery.codec == "png" else delivery.step
    assert step is not None
    low = cell.low if delivery.codec == "png" else ceil(cell.low / step) * step
    if cell.kind == "real":
        return replace(cell, kind="lattice", low=low, high=low + floor((cell.high - low) / step) * step, step=step)
    return _unless_moved(cell, space, bool(_step(cell) % step or (cell.low - low) % step))


def _unless_moved(cell: Cell, space: Space, moved: bool) -> Cell:
    if moved:
        assert space.delivery is not None
        raise stop(
            "TM210", f"delivery as {space.delivery.codec} moves levels of step {_step(cell)} from {cell.low}",
            space.origin, help="a codec must leave every input as it is: choose a finer one, or a coarser lattice",
        )  # fmt: skip
    return cell


def _step(cell: Cell) -> Fraction:
    assert cell.step is not None
    return cell.step


def _last(cell: Cell) -> int:
    return floor((cell.high - cell.low) / _step(cell))


class Domain:
    """The box and lattice of a space over its ``size`` flat coordinates (C order).

    ``groups``: per distinct cell its coordinates, its :class:`Lattice` (``None`` for a real cell) and the cell.
    ``low``/``high`` (size,): the least and greatest admissible values. ``categorical`` (size,): whether a coordinate
    is a category. ``grid`` is the floating-point type whose values real coordinates hold (``float16`` under that
    delivery, else the dtype).
    """

    def __init__(self, space: Space) -> None:
        self.space, self.size = space, space.size
        self.dtype = np.dtype(space.dtype)
        self.grid = "float16" if space.delivery and space.delivery.codec == "float16" else space.dtype
        self.low = np.empty(self.size, self.dtype)
        self.high = np.empty(self.size, self.dtype)
        self.categorical = np.zeros(self.size, np.bool_)
        self._group = np.empty(self.size, np.intp)
        groups: list[tuple[NDArray[np.intp], Lattice | None, Cell]] = []
        for written, columns in _columns(space).items():
            cell = fixed_points(written, space)
            lattice = None if cell.kind == "real" else self._lattice(cell)
            if lattice is None:
                self.low[columns], self.high[columns] = round_up(cell.low, self.grid), round_down(cell.high, self.grid)
            else:
                self.low[columns], self.high[columns] = lattice.value(np.array([0, lattice.last]))
            self.categorical[columns] = cell.kind == "category"
            self._group[columns] = len(groups)
            groups.append((columns, lattice, cell))
        self.groups = tuple(groups)

    def _lattice(self, cell: Cell) -> Lattice:
        widest = np.array(max(abs(cell.low), abs(cell.high)), dtype=np.float64).astype(self.dtype)
        if Fraction(float(np.spacing(widest))) * 2 > _step(cell):
            raise stop(
                "TM215", f"{self.space.dtype} cannot tell levels of step {_step(cell)} apart near {float(widest):g}",
                self.space.origin, help="store the space as float64",
            )  # fmt: skip
        return Lattice(cell.low, _step(cell), _last(cell), self.space.dtype)

    def lattice_at(self, coordinate: int) -> Lattice | None:
        """The lattice of a flat coordinate, ``None`` for a real one."""
        return self.groups[int(self._group[coordinate])][1]

    def indices(self, x: Values) -> tuple[Indices, Flags]:
        """Lattice indices of ``x`` (N, size), 0 on real coordinates, and whether each value is on its coordinate's grid
        (the box apart)."""
        if all(lattice is None for _, lattice, _ in self.groups) and self.grid == self.space.dtype:
            return np.broadcast_to(np.int64(0), x.shape), np.broadcast_to(np.True_, x.shape)
        k = np.zeros(x.shape, np.int64)
        on = np.ones(x.shape, np.bool_)
        for columns, lattice, _ in self.groups:
            if lattice is not None:
                k[:, columns], on[:, columns] = lattice.index(x[:, columns])
            elif self.grid != self.space.dtype:
                with np.errstate(over="ignore"):
                    on[:, columns] = x[:, columns].astype(self.grid) == x[:, columns]
        return k, on

    def numbers(self, x: Values, k: Indices, coordinate: int) -> NDArray[np.float64]:
        """What one coordinate of the inputs ``x`` (N, size) stands for, in float64, each correctly rounded."""
        lattice = self.lattice_at(coordinate)
        if lattice is None:
            return x[:, coordinate].astype(np.float64)
        return replace(lattice, dtype="float64").value(k[:, coordinate])

    def exact(self, x: Values, k: Indices, coordinate: int) -> Fraction:
        """The exact number that a coordinate of one input ``x`` (size,) with indices ``k`` stands for."""
        lattice = self.lattice_at(coordinate)
        if lattice is None:
            return Fraction(float(x[coordinate]))
        return lattice.low + int(k[coordinate]) * lattice.step


def _columns(space: Space) -> dict[Cell, NDArray[np.intp]]:
    """The flat coordinates of each distinct cell."""
    owner = {cell: n for n, cell in enumerate(dict.fromkeys(space.cells))}
    of = np.array([owner[cell] for cell in space.cells])
    if space.layout == "channel":
        assert space.channel_axis is not None
        shape = [1] * len(space.shape)
        shape[space.channel_axis] = -1
        of = np.broadcast_to(of.reshape(shape), space.shape).reshape(-1)
    elif space.layout == "all":
        of = np.zeros(space.size, np.intp)
    return {cell: np.flatnonzero(of == n) for cell, n in owner.items()}
