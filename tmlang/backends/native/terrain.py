"""One branch of the allowed sets as a search walks it: where to start, what a step is, what the model is shown.

The walk goes over the continuous relaxation; on lattices the model is shown the nearest levels and the gradient there
moves the walk. Balls are searched a hair smaller, so that rounding to float32 leaves what is found inside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import torch

from tmlang.backends.domain import Lattice
from tmlang.backends.membership import PatchBall, PowerBall
from tmlang.backends.projection import Region, prices
from tmlang.backends.threatset import ThreatSet

Tensor = torch.Tensor
Geometry = Literal["linf", "l2", "l1"]

_HAIR = 1 - Fraction(1, 2**19)
_SWEEPS = 5
_SHARE = 0.05
_DRAWS = 4


@dataclass(frozen=True, eq=False)
class Levels:
    """Lattice coordinates of one kind: ``columns``, and the values ``low + k * step`` for ``k <= last``."""

    columns: Any
    low: float
    step: float
    last: int
    table: Tensor | None

    @classmethod
    def of(cls, columns: Any, lattice: Lattice, dtype: torch.dtype) -> Levels:
        table = None if lattice.table is None else torch.from_numpy(lattice.table).to(dtype)
        return cls(columns, float(lattice.low), float(lattice.step), lattice.last, table)

    def nearest(self, x: Tensor) -> Tensor:
        k = ((x.double() - self.low) / self.step).round_().clamp_(0, self.last)
        return self.table[k.long()] if self.table is not None else (self.low + k * self.step).to(x.dtype)


@dataclass(frozen=True, eq=False)
class Terrain:
    """Branch ``branch`` for n units: ``region`` (n, size), its ``geometry``, and lengths to measure steps by.

    ``radius``: of the ball in that geometry, in the space's units; for a box, (1, size): the radius per coordinate, or
    half the width of the domain where there is none; for a metric, (1, size): how far each coordinate gets alone, so
    that unlike units are compared as the metric does. ``length``: the radius in the ball's own norm.
    """

    region: Region
    geometry: Geometry
    radius: Tensor
    length: Tensor
    levels: tuple[Levels, ...]
    shape: tuple[int, ...]
    ends: tuple[Any, Any]
    """The least and the greatest value of each coordinate of the domain."""

    @classmethod
    def of(cls, sets: ThreatSet, branch: int, dtype: torch.dtype, *, placed: bool = False) -> Terrain:
        """``placed``: without the patches of the branch, whose places the search chooses (:meth:`within`)."""
        found = sets.branches[branch]
        region = Region.of(sets, branch, dtype)
        if placed:
            region = replace(region, balls=tuple(b for b in region.balls if not isinstance(b, PatchBall)))
        balls = tuple(replace(b, bound=b.bound * _HAIR) if isinstance(b, PowerBall) else b for b in region.balls)
        kinds = [b for b in balls if isinstance(b, PowerBall)]
        powers = {b.power for b in kinds}
        geometry: Geometry = "linf" if not balls else "l1" if powers == {1} else "l2"
        half = (torch.from_numpy(sets.domain.high).double() - torch.from_numpy(sets.domain.low).double()) / 2
        per_coordinate = half.clone()
        for index, radius in enumerate(found.hull.radii):
            if radius is not None:
                at = torch.from_numpy(found.hull.of == index)
                per_coordinate[at] = torch.minimum(half[at] * 2, torch.tensor(float(radius), dtype=torch.float64))
        bounds = [float(b.bound) ** (1 / b.power) for b in kinds if b.weights is None]
        length = torch.tensor(min(bounds)) if bounds else per_coordinate.norm()
        levels = tuple(
            Levels.of(slice(None) if len(columns) == sets.domain.size else torch.from_numpy(columns), lattice, dtype)
            for columns, lattice, _ in sets.domain.groups
            if lattice is not None
        )
        metric = geometry == "l1" and kinds[0].weights is not None
        radii = (per_coordinate[None] if geometry == "linf" or metric else length.reshape(1, 1)).to(dtype)
        own = torch.full((1, 1), float(kinds[0].bound), dtype=dtype) if metric else radii
        return cls(
            replace(region, balls=balls),
            geometry,
            radii,
            own,
            levels,
            sets.space.shape,
            (sets.domain.low, sets.domain.high),
        )

    @property
    def per_coordinate(self) -> bool:
        """Whether ``radius`` says how far each coordinate gets: in a box, and under a metric, which has no one unit."""
        powers = (b for b in self.region.balls if isinstance(b, PowerBall))
        return self.geometry == "linf" or (self.geometry == "l1" and any(b.weights is not None for b in powers))

    def rows(self, at: Tensor) -> Terrain:
        """Some of the units, in that order."""
        return replace(self, region=self.region.rows(at))

    def within(self, part: Tensor) -> Terrain:
        """The ground where nothing outside ``part`` (n, size) moves."""
        lower, upper = (torch.where(part, end, self.region.centre) for end in (self.region.lower, self.region.upper))
        return replace(self, region=replace(self.region, lower=lower, upper=upper))

    def project(self, z: Tensor) -> Tensor:
        return self.region.project(z, _SWEEPS)

    def shown(self, x: Tensor) -> Tensor:
        """The values that the model sees at ``x`` (n, size): (n, *shape). On a lattice the nearest levels, drawn
        towards the original while rounding leaves a ball."""
        if not self.levels:
            return x.reshape(-1, *self.shape)
        seen = self._snapped(x)
        for _ in range(_DRAWS):
            excess = self._excess(seen)
            if excess is None or not bool((excess > 1).any()):
                break
            x = torch.where(excess > 1, torch.lerp(self.region.centre, x, (0.999 / excess)), x)
            seen = self._snapped(x)
        return seen.reshape(-1, *self.shape)

    def _snapped(self, x: Tensor) -> Tensor:
        for levels in self.levels:
            if isinstance(levels.columns, slice):
                return levels.nearest(x)
            x = x.index_copy(1, levels.columns, levels.nearest(x[:, levels.columns]))
        return x

    def holds(self, x: Tensor) -> Tensor:
        """Which points (n, size) lie in the branch, as far as floating point tells: (n,) bool."""
        inside = ((x >= self.region.lower) & (x <= self.region.upper)).all(dim=1)
        excess = self._excess(x)
        return inside if excess is None else inside & (excess[:, 0] <= 1)

    def _excess(self, x: Tensor) -> Tensor | None:
        """Length over radius (n, 1) in the ball that is exceeded most; ``None`` without balls that measure lengths."""
        size = (x - self.region.centre).abs()
        kinds = [ball for ball in self.region.balls if isinstance(ball, PowerBall)]
        ratios = [
            (self._terms(ball, size).sum(1, keepdim=True) / float(ball.bound)) ** (1 / ball.power) for ball in kinds
        ]
        return torch.stack(ratios).amax(dim=0) if ratios else None

    def _terms(self, ball: PowerBall, size: Tensor) -> Tensor:
        """What each coordinate adds to the ball's sum; a category that differs counts as 1."""
        if ball.weights is None:
            return size**ball.power
        if self.region.categorical is not None:
            size = torch.where(self.region.categorical, (size > 0).to(size.dtype), size)
        return prices(ball, size.shape[1], size.dtype) * size**ball.power

    def start(self, uniform: Tensor) -> Tensor:
        """A random point per unit, from numbers in (0, 1) (n, size): uniform in the box, or on a random ray at the
        ball's radius (n, size)."""
        spread = 2 * uniform - 1
        if self.geometry == "linf":
            return self.project(self.region.centre + self.radius * spread.to(self.radius.dtype))
        draws = torch.erfinv(spread).to(self.radius.dtype)  # normal, up to a factor
        draws = draws.masked_fill(self.region.lower == self.region.upper, 0.0)
        return self.project(self.region.centre + self.radius * draws / _length(draws, self.geometry))

    def ascent(self, x: Tensor, gradient: Tensor, share: Tensor | None = None) -> Tensor:
        """The steepest direction of length 1 in radii at ``x``: signs in a box, in l2 the scaled gradient of what may
        move, in l1 the signs of the greatest ``share`` (n, 1) of its entries (Tramer & Boneh 2019, section 2.2), those
        apart that are at the edge of the box already. A slope that is no number leads nowhere."""
        gradient = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
        if self.geometry == "linf":
            return torch.sign(gradient).mul_(self.radius)
        free = gradient.masked_fill(self.region.lower == self.region.upper, 0.0)
        if self.geometry == "l1":
            free = free * self.radius
            blocked = ((free > 0) & (x >= self.region.upper)) | ((free < 0) & (x <= self.region.lower))
            free.masked_fill_(blocked, 0.0)
            size = free.shape[1]
            kept = torch.full((len(free), 1), _SHARE) if share is None else share
            rank = ((1 - kept) * size).long().clamp(0, size - 1)
            least = free.abs().sort(dim=1).values.gather(1, rank)
            free = torch.sign(free.masked_fill_(free.abs() < least, 0.0))
        length = _length(free, self.geometry)
        scale = self.radius / length
        # A gradient of 0, or nearly: the quotient overflows, and 0 times that is no direction.
        return torch.where(scale.isfinite(), free * scale, free / length * self.radius)


def _length(v: Tensor, geometry: Geometry) -> Tensor:
    length = v.abs().sum(1, keepdim=True) if geometry == "l1" else v.norm(dim=1, keepdim=True)
    return length.clamp_(min=torch.finfo(v.dtype).tiny)
