"""The pictures that a transform makes of an original: a set of parameters, and T(x; theta) for each of them.

A picture alone does not tell whether some parameters make it. Membership is therefore decided about a picture *with*
its parameters: they lie in their box (and on their grid), and T(x; theta) is the picture, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import floor, prod

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.domain import Domain, Flags, Lattice, Values
from tmlang.backends.membership import Change
from tmlang.backends.resampling import Resampling, transformed
from tmlang.base.exact import round_down
from tmlang.meaning.threats import Transform

Parameters = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TransformSet:
    """``transform``, over the pictures of ``domain``. ``before``, ``behind``: how many parameters of other transforms a
    candidate keeps on either side of its own."""

    transform: Transform
    domain: Domain
    before: int = 0
    behind: int = 0
    name = "transform"

    @cached_property
    def how(self) -> Resampling:
        parts = tuple(name for name, _ in self.transform.parts)
        return Resampling(parts, self.transform.interpolate, self.transform.fill, self.domain)

    @cached_property
    def bounds(self) -> tuple[tuple[Fraction, Fraction | None], ...]:
        """Per parameter its greatest magnitude and the step of its grid."""
        steps = self.transform.steps or (None,) * len(self.transform.parts)
        named = [(name, most.value, step) for (name, most), step in zip(self.transform.parts, steps, strict=True)]
        return tuple((most, step) for name, most, step in named for _ in range(2 if name == "translate" else 1))

    @cached_property
    def most(self) -> Parameters:
        """(p,): the greatest magnitudes, rounded down."""
        return np.array([round_down(most, "float64") for most, _ in self.bounds])

    @cached_property
    def _grids(self) -> tuple[Lattice | None, ...]:
        """Per parameter the whole multiples of its step within the bound, each as the nearest float64."""
        counts = [None if step is None else floor(most / step) for most, step in self.bounds]
        return tuple(
            None if k is None or step is None else Lattice(-k * step, step, 2 * k, "float64")
            for k, (_, step) in zip(counts, self.bounds, strict=True)
        )

    def allows(self, theta: Parameters) -> Flags:
        """Which parameters (n, p) are allowed."""
        every: Flags = np.all(np.abs(theta) <= self.most, axis=1)  # no NaN is
        for i, grid in enumerate(self._grids):
            if grid is not None:
                at = np.flatnonzero(every)
                every[at] = grid.index(theta[at, i])[1]
        return every

    def nearest(self, theta: Parameters) -> Parameters:
        """Allowed parameters near finite ones (n, p)."""
        inside = np.clip(theta, -self.most, self.most)
        for i, grid in enumerate(self._grids):
            if grid is not None:
                inside[:, i] = grid.value(grid.index(inside[:, i])[0])
        return inside

    def made(self, x: Values, theta: Parameters) -> Values:
        """T(x; theta) (n, size) of originals (n, size) and parameters (n, p)."""
        return transformed(self.how, x, theta)

    def holds(self, change: Change) -> Flags:
        """Membership of a :class:`Change` that knows its parameters; without them nothing is inside."""
        inside = np.zeros(len(change.x), np.bool_)
        if change.theta is None or change.theta.shape != (len(change.x), self.kept):
            return inside
        own = change.theta[:, self.before : self.kept - self.behind]
        at = np.flatnonzero(self.allows(own))
        inside[at] = (self.made(change.x0[at], own[at]) == change.x[at]).all(axis=1)
        return inside

    @property
    def kept(self) -> int:
        """How many parameters a candidate keeps, those of other transforms too."""
        return self.before + len(self.bounds) + self.behind

    def among(self, theta: Parameters) -> Parameters:
        """Its own parameters (n, p) as a candidate keeps them: (n, kept), NaN for those of other transforms."""
        return np.pad(theta, ((0, 0), (self.before, self.behind)), constant_values=np.nan)

    def points(self, limit: int) -> Parameters | None:
        """All allowed parameters (K, p), the original's first; ``None`` beyond ``limit`` or without a grid."""
        grids = [grid for grid in self._grids if grid is not None]
        if len(grids) < len(self._grids) or prod(grid.last + 1 for grid in grids) > limit:
            return None
        return spread(self, limit)

    def values(self, parameter: int, most: int) -> Parameters:
        """At most ``most`` values of one parameter, evenly from end to end and 0 among them: of a grid all where they
        are few enough."""
        grid = self._grids[parameter]
        half = (most - 1) // 2
        if grid is not None:
            half = min(half, grid.last // 2)
            k = np.rint(np.linspace(0, grid.last, 2 * half + 1)).astype(np.int64)
            return grid.value(k)
        whole: Parameters = self.most[parameter] * (np.arange(-half, half + 1) / max(1, half))
        return whole


def spread(sets: TransformSet, most: int) -> Parameters:
    """The product of at most ``most`` values of every parameter (K, p), from the least to the greatest change."""
    axes = [sets.values(i, most) for i in range(len(sets.most))]
    points = np.array(list(product(*axes)), dtype=np.float64).reshape(-1, len(axes))
    found: Parameters = points[np.argsort(np.abs(points / sets.most).max(axis=1), kind="stable")]
    return found
