"""Exact membership in l1, l2, metric, l0, pixel and patch sets (EVIDENCE.md section 3). linf: ``interval``.

Each set answers ``holds(change)`` for a batch of changes from the originals. A :class:`Change` knows every difference
exactly: as an index difference times the step on lattices, as the difference of two floats elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.domain import Domain, Indices, Values
from tmlang.base.exact import round_down, round_up

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_U = Fraction(1, 2**53)
_LEAST = Fraction(1, 2**1074)


class Change:
    """The change from originals ``x0``, which lie on the grid of ``domain``, to ``x`` (both (N, size)). ``k`` and
    ``on`` are the indices of ``x`` and where it is on the grid; where not, only :attr:`approximate` says how far it
    went. ``theta`` (N, p) are the parameters that are said to have made it, under a transform."""

    def __init__(
        self,
        domain: Domain,
        x: Values,
        x0: Values,
        k: Indices,
        on: Flags,
        k0: Indices,
        theta: Floats | None = None,
    ) -> None:
        self.domain, self.x, self.x0, self.k, self.on, self.theta = domain, x, x0, k, on, theta
        self.steps = k - k0

    @cached_property
    def changed(self) -> Flags:
        changed: Flags = self.x != self.x0
        return changed

    @cached_property
    def approximate(self) -> Floats:
        """Differences (N, size), each within 2 roundings of the exact one."""
        out = self.x.astype(np.float64) - self.x0.astype(np.float64)
        for columns, lattice, _ in self.domain.groups:
            if lattice is not None:
                whole = self.steps[:, columns] * float(lattice.step)
                out[:, columns] = np.where(self.on[:, columns], whole, out[:, columns])
        return out

    def exact(self, row: int, coordinate: int) -> Fraction:
        """One difference, exactly."""
        lattice = self.domain.lattice_at(coordinate)
        if lattice is not None:
            return int(self.steps[row, coordinate]) * lattice.step
        return Fraction(float(self.x[row, coordinate])) - Fraction(float(self.x0[row, coordinate]))


@dataclass(frozen=True)
class PowerBall:
    """``sum_j weight_j * |x'_j - x_j|**power <= bound``, ``power`` 1 or 2; a category that differs adds its weight.

    ``weights`` maps flat coordinates to weights, the others have none; ``None`` is weight 1 everywhere.
    """

    name: str
    power: int
    bound: Fraction
    weights: Mapping[int, Fraction] | None = None

    def summand(self, change: Change) -> Floats:
        """The terms of the sum (N, size) in float64."""
        size = np.abs(change.approximate)
        if self.weights is None:
            return size**self.power
        weights = np.zeros(change.domain.size)
        for coordinate, weight in self.weights.items():
            weights[coordinate] = float(weight)
        size[:, change.domain.categorical] = change.changed[:, change.domain.categorical]
        terms: Floats = weights * size**self.power
        return terms

    def holds(self, change: Change) -> Flags:
        surely_inside, surely_outside = _edges(self.bound, change.domain.size)
        with np.errstate(over="ignore"):
            total = self.summand(change).sum(axis=1)
        inside: Flags = total < surely_inside
        outside: Flags = total > surely_outside
        for i in np.flatnonzero(~inside & ~outside):
            inside[i] = self.exact_sum(change, int(i)) <= self.bound
        return inside

    def exact_sum(self, change: Change, row: int) -> Fraction:
        """The sum for one row, as a rational. Lattice terms are added as integers per step and weight."""
        domain = change.domain
        total = Fraction(0)
        for j in np.flatnonzero(change.changed[row]):
            weight = Fraction(1) if self.weights is None else self.weights.get(int(j), Fraction(0))
            if self.weights is not None and domain.categorical[j]:
                total += weight
            else:
                total += weight * abs(change.exact(row, int(j))) ** self.power
        return total


@lru_cache(maxsize=256)
def _edges(bound: Fraction, size: int) -> tuple[float, float]:
    """Floating-point sums of ``size`` terms below the first are at most ``bound`` exactly, above the second more.

    A term carries at most 6 roundings and the sum ``size - 1`` more, so gamma(size + 6) bounds the relative error; what
    underflows adds at most ``_LEAST`` a term.
    """
    n = size + 6
    gamma = n * _U / (1 - n * _U)
    lost = n * _LEAST
    below = round_down((bound - lost) / (1 + 2 * gamma), "float64")
    return below, round_up((bound + lost) / (1 - 2 * gamma), "float64")


@dataclass(frozen=True)
class CountBall:
    """At most ``most`` changed coordinates, or changed pixels when ``channel_axis`` says where their channels lie."""

    name: str
    most: int
    shape: tuple[int, ...]
    channel_axis: int | None = None

    def count(self, change: Change) -> Indices:
        changed = change.changed
        if self.channel_axis is not None:
            changed = changed.reshape(-1, *self.shape).any(axis=self.channel_axis + 1).reshape(len(changed), -1)
        count: Indices = changed.sum(axis=1)
        return count

    def holds(self, change: Change) -> Flags:
        inside: Flags = self.count(change) <= self.most
        return inside


@dataclass(frozen=True, eq=False)
class PatchBall:
    """Every changed pixel lies in one placement of ``stamp`` (h, w), anywhere inside the picture."""

    name: str
    stamp: Flags
    shape: tuple[int, ...]
    axes: tuple[int, int, int | None]

    def region(self, place: tuple[int, int]) -> Flags:
        """The coordinates (*shape) that the stamp covers at ``place`` (its upper left corner)."""
        picture = np.zeros((self.shape[self.axes[0]], self.shape[self.axes[1]]), np.bool_)
        h, w = self.stamp.shape
        picture[place[0] : place[0] + h, place[1] : place[1] + w] = self.stamp
        if self.axes[2] is not None:
            picture = np.expand_dims(picture, self.axes[2])
        return np.broadcast_to(picture, self.shape)

    def holds(self, change: Change) -> Flags:
        changed = change.changed.reshape(-1, *self.shape)
        if self.axes[2] is not None:
            changed = np.any(changed, axis=self.axes[2] + 1)
        return np.array([self._fits(picture) for picture in changed], np.bool_)

    def _fits(self, picture: Flags) -> bool:
        points = np.argwhere(picture)
        if not len(points):
            return True
        h, w = self.stamp.shape
        low, high = points.min(axis=0), points.max(axis=0)
        for r in range(max(0, int(high[0]) - h + 1), min(int(low[0]), picture.shape[0] - h) + 1):
            for c in range(max(0, int(high[1]) - w + 1), min(int(low[1]), picture.shape[1] - w) + 1):
                if self.stamp[points[:, 0] - r, points[:, 1] - c].all():
                    return True
        return False


Ball = PowerBall | CountBall | PatchBall
"""Each contains the zero change, has a ``name``, and ``holds(change)`` exactly."""


def disc(diameter: int) -> Flags:
    """The pixels whose centres lie in a disc of this diameter inscribed in a square of as many pixels."""
    centre = 2 * np.arange(diameter) + 1 - diameter
    inside: Flags = centre[:, None] ** 2 + centre[None, :] ** 2 <= diameter**2
    return inside
