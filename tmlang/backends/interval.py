"""The least and greatest admissible value of every coordinate within a distance of the original, exactly.

On a lattice this is integer arithmetic. Between floats, ``a - b <= r`` is decided without rationals: the float64
difference ``s`` and its error ``e`` (Knuth's TwoSum: ``s + e == a - b`` exactly) are compared with the two float64
neighbours of ``r``; rounding is monotone, so only ``s`` equal to a neighbour leaves anything to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, isfinite

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.domain import Domain, Flags, Indices, Lattice, Values
from tmlang.base.exact import round_down, round_nearest, round_up
from tmlang.meaning.spaces import Cell


@dataclass(frozen=True, eq=False)
class Limits:
    """A greatest absolute change per coordinate: ``radii[of[j]]``, ``None`` without a limit."""

    of: NDArray[np.intp]
    radii: tuple[Fraction | None, ...]

    @classmethod
    def uniform(cls, size: int, radius: Fraction | None) -> Limits:
        return cls(np.zeros(size, np.intp), (radius,))

    def meet(self, other: Limits) -> Limits:
        """The smaller of both limits at each coordinate."""
        pairs, of = np.unique(np.stack([self.of, other.of]), axis=1, return_inverse=True)
        radii = tuple(_smaller(self.radii[a], other.radii[b]) for a, b in pairs.T)
        return Limits(of.reshape(-1), radii)

    @property
    def unlimited(self) -> bool:
        return all(r is None for r in self.radii)


def _smaller(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def at_most(a: Values, b: Values, bound: Fraction) -> Flags:
    """``a - b <= bound`` exactly, elementwise, for finite floats."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    below, above = round_down(bound, "float64"), round_up(bound, "float64")
    with np.errstate(over="ignore"):
        s = a64 - b64
    result: Flags = s < below
    for at in map(tuple, np.argwhere(np.isinf(s))):
        result[at] = Fraction(float(a64[at])) - Fraction(float(b64[at])) <= bound
    for neighbour in {below, above}:
        edge = s == neighbour
        if isfinite(neighbour) and edge.any():
            result[edge] = _error(a64[edge], b64[edge]) <= round_down(bound - Fraction(neighbour), "float64")
    return result


def _error(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """``e`` with ``fl(a - b) + e == a - b`` exactly."""
    s = a - b
    t = s - a
    error: NDArray[np.float64] = (a - (s - t)) - (b + t)
    return error


def _sum(x: NDArray[np.float64], bound: Fraction) -> NDArray[np.float64]:
    """``x + bound`` with the bound as two floats: near where the two cancel, one float of it would leave a start that
    is far from the end in steps of the result's own size."""
    high = round_nearest(bound, "float64")
    total = x + high
    low = round_nearest(bound - Fraction(high), "float64")
    return np.where(np.isfinite(total), total + (_error(x, np.full_like(x, -high)) + low), total)


def greatest_within(x: Values, bound: Fraction, grid: str) -> Values:
    """The greatest value ``c`` of type ``grid`` with ``c - x <= bound`` (``bound >= 0``); ``x`` is of that type too."""
    x = x.astype(grid)
    top = np.finfo(grid).max
    with np.errstate(over="ignore", invalid="ignore"):
        c: Values = np.minimum(_sum(x.astype(np.float64), bound).astype(grid), top)
    while (bad := ~at_most(c, x, bound)).any():
        c[bad] = _step(c[bad], -np.inf)
    while (good := at_most(higher := np.minimum(_step(c, np.inf), top), x, bound) & (higher > c)).any():
        c[good] = higher[good]
    return c


def least_beyond(x: Values, bound: Fraction, grid: str) -> Values:
    """The least value ``c`` of type ``grid`` with ``c - x >= bound``."""
    c = greatest_within(x, bound, grid)
    short = ~at_most(x, c, -bound)
    c[short] = _step(c[short], np.inf)
    return c


def _step(c: Values, towards: float) -> Values:
    with np.errstate(over="ignore"):
        moved: Values = np.nextafter(c, np.array(towards, c.dtype))
    return moved


def box(
    domain: Domain, x: Values, k: Indices, limits: Limits, freedom: tuple[Flags, Flags], *, outward: bool = False
) -> tuple[Values, Values]:
    """``(lower, upper)`` (N, size): the admissible interval of each coordinate around ``x`` with indices ``k``.

    ``freedom`` is ``(up, down)``, each (1 or N, size): where a coordinate may rise and fall. Without ``outward`` the
    ends are admissible values themselves; with it they are rounded outward, so that the box holds every real number
    within the limits and the written domain.
    """
    lower, upper = np.empty(x.shape, domain.dtype), np.empty(x.shape, domain.dtype)
    for columns, lattice, cell in domain.groups:
        for index, radius in enumerate(limits.radii):
            own = columns[limits.of[columns] == index]
            if len(own):
                part = slice(None) if len(own) == domain.size else own
                lower[:, part], upper[:, part] = (
                    _real_ends(domain, cell, x[:, part], radius, outward)
                    if lattice is None
                    else _lattice_ends(lattice, k[:, part], radius, outward)
                )
    up, down = freedom
    np.copyto(lower, x, where=~down)
    np.copyto(upper, x, where=~up)
    return lower, upper


def _lattice_ends(lattice: Lattice, k: Indices, radius: Fraction | None, outward: bool) -> tuple[Values, Values]:
    reach = lattice.last if radius is None else min(floor(radius / lattice.step), lattice.last)
    low, high = np.maximum(k - reach, 0), np.minimum(k + reach, lattice.last)
    if outward:
        return lattice.value(low, round_down), lattice.value(high, round_up)
    return lattice.value(low), lattice.value(high)


def _real_ends(
    domain: Domain, cell: Cell, x: Values, radius: Fraction | None, outward: bool
) -> tuple[Values | float, Values | float]:
    grid = domain.space.dtype if outward else domain.grid
    inward = (round_up(cell.low, grid), round_down(cell.high, grid))
    low, high = (round_down(cell.low, grid), round_up(cell.high, grid)) if outward else inward
    if radius is None:
        return low, high
    furthest = least_beyond if outward else greatest_within
    return np.maximum(-furthest(-x, radius, grid), low), np.minimum(furthest(x, radius, grid), high)
