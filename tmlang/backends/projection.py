"""Euclidean projection onto box ∩ balls, in floating point.

It works on torch tensors of any float type, so that a search and the final rounding (``inward``) share it: exact for
a box (clamp), for l2 ∩ box and for weighted l1 ∩ box (monotone multipliers, after Duchi et al. 2008, Croce & Hein 2021,
section 3.1), and for both together.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.membership import Ball, CountBall, PatchBall, PowerBall

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Tensor = torch.Tensor
Values = NDArray[Any]


def l2_box(d: Tensor, low: Tensor, high: Tensor, square: Tensor, sweeps: int = 100) -> Tensor:
    """The point of ``{low <= v <= high, |v|^2 <= square}`` nearest to ``d`` (n, size); ``low <= 0 <= high``.

    It is ``clamp(mu * d)`` for the greatest feasible ``mu <= 1``. Each sweep solves for ``mu`` with the clamped
    coordinates of the last one; ``mu`` only grows and never passes the solution, so every iterate is feasible.
    """
    v = d.clamp(low, high)
    energy = (v * v).sum(1, keepdim=True)
    over = energy > square
    if not bool(over.any()):
        return v
    mu = torch.where(over, (square / (d * d).sum(1, keepdim=True)).sqrt(), 1.0)
    for _ in range(sweeps):
        scaled = mu * d
        v = scaled.clamp(low, high)
        free = v == scaled
        fixed = (v * v).masked_fill(free, 0.0).sum(1, keepdim=True)
        rest = (d * d).masked_fill(~free, 0.0).sum(1, keepdim=True)
        better = torch.where(over & (rest > 0), ((square - fixed).clamp(min=0) / rest).sqrt(), mu)
        grows = better > mu * (1 + 4 * torch.finfo(d.dtype).eps)
        if not bool(grows.any()):
            break
        mu = torch.where(grows, better, mu).clamp(max=1.0)
    return (mu * d).clamp(low, high)


def l1_box(d: Tensor, low: Tensor, high: Tensor, bound: Tensor, weights: Tensor | None = None) -> Tensor:
    """The point of ``{low <= v <= high, sum w |v| <= bound}`` nearest to ``d`` (n, size).

    It is ``|v| = min((|d| - tau w)+, cap)``; the weighted sum is piecewise linear and falling in ``tau``, its kinks are
    sorted and the crossing interpolated.
    """
    w = torch.ones_like(d[:1]) if weights is None else weights
    size = d.abs()
    cap = torch.where(d > 0, high, -low)
    total = (w * torch.minimum(size, cap)).sum(1, keepdim=True)
    if bool((total <= bound).all()):
        return d.clamp(low, high)
    safe = torch.where(w > 0, w, 1.0)
    starts, ends = ((size - cap) / safe).clamp(min=0), size / safe
    slopes = (w * w).expand_as(d)
    moving = slopes * (cap > 0)
    at, order = torch.cat([torch.minimum(starts, ends), ends], dim=1).sort(dim=1)
    slope = torch.cat([moving, -moving], dim=1).gather(1, order).cumsum(dim=1)
    fallen = (slope[:, :-1] * at.diff(dim=1)).cumsum(dim=1)
    sums = total - torch.cat([torch.zeros_like(total), fallen], dim=1)
    first = (sums <= bound).to(torch.int8).argmax(dim=1, keepdim=True).clamp(min=1)
    before = first - 1
    steep = slope.gather(1, before).clamp(min=torch.finfo(d.dtype).tiny)
    tau = at.gather(1, before) + (sums.gather(1, before) - bound) / steep
    tau = torch.where(total > bound, torch.minimum(tau, at.gather(1, first)), 0.0)
    return torch.sign(d) * torch.minimum((size - tau * w).clamp(min=0), cap)


def l1_l2_box(
    d: Tensor,
    low: Tensor,
    high: Tensor,
    bound: Tensor,
    square: Tensor,
    weights: Tensor | None = None,
    sweeps: int = 100,
) -> Tensor:
    """The point of ``{low <= v <= high, sum w |v| <= bound, |v|^2 <= square}`` nearest to ``d`` (n, size).

    The Lagrangian is separable: ``v = clamp(mu * shrink(d, tau w))``. For each ``tau`` the best ``mu`` is that of
    :func:`l2_box`, and the weighted sum then falls with ``tau``, which is halved in on from above.
    """
    w = torch.ones_like(d[:1]) if weights is None else weights

    def at(tau: Tensor) -> Tensor:
        return l2_box(torch.sign(d) * (d.abs() - tau * w).clamp(min=0), low, high, square, sweeps)

    ratios = d.abs() / torch.where(w > 0, w, torch.inf)
    least, most = torch.zeros_like(bound), ratios.amax(dim=1, keepdim=True)
    v = at(least)
    over = (w * v.abs()).sum(1, keepdim=True) > bound
    if not bool(over.any()):
        return v
    for _ in range(min(sweeps, torch.finfo(d.dtype).bits)):
        tau = (least + most) / 2
        high_sum = (w * at(tau).abs()).sum(1, keepdim=True) > bound
        least, most = torch.where(high_sum, tau, least), torch.where(high_sum, most, tau)
    return at(torch.where(over, most, 0.0))


@dataclass(frozen=True, eq=False)
class Region:
    """The continuous relaxation of one branch for n examples: a box and balls around ``centre`` (all (n, size))."""

    centre: Tensor
    lower: Tensor
    upper: Tensor
    balls: tuple[Ball, ...]
    categorical: Tensor | None = None
    """(size,) bool: coordinates that a metric counts as differing or not."""

    @classmethod
    def of(cls, sets: ThreatSet, branch: int, dtype: torch.dtype) -> Region:
        """The relaxation of branch ``branch`` of every set."""
        lower, upper = (torch.from_numpy(end).to(dtype) for end in sets.branch_box(branch))
        centre = torch.from_numpy(sets.originals.reshape(lower.shape)).to(dtype)
        categories = torch.from_numpy(sets.domain.categorical) if sets.domain.categorical.any() else None
        return cls(centre, lower, upper, sets.branches[branch].balls, categories)

    def rows(self, at: Tensor) -> Region:
        """Some of the examples, in that order."""
        return Region(self.centre[at], self.lower[at], self.upper[at], self.balls, self.categorical)

    def project(self, z: Tensor, sweeps: int = 100) -> Tensor:
        """The nearest point of the region. Every step shrinks changes coordinatewise, so what follows never leaves what
        went before; only counts, patches and several l1 balls together may miss the nearest point."""
        if not self.balls:
            return torch.clamp(z, self.lower, self.upper)
        d, low, high = z - self.centre, self.lower - self.centre, self.upper - self.centre
        for ball in self.balls:
            if isinstance(ball, CountBall):
                d = _keep_most(ball, d.clamp(low, high))
            elif isinstance(ball, PatchBall):
                d = _keep_patch(ball, d.clamp(low, high))
        square = min(
            (ball.bound for ball in self.balls if isinstance(ball, PowerBall) and ball.power == 2), default=None
        )
        squares = None if square is None else self._column(square)
        sums = [ball for ball in self.balls if isinstance(ball, PowerBall) and ball.power == 1]
        for ball in sums:
            d = self._sum(ball, d, low, high, squares, sweeps)
        if squares is not None and not sums:
            d = l2_box(d, low, high, squares, sweeps)
        return self.centre + d.clamp(low, high)

    def _column(self, bound: Fraction) -> Tensor:
        return torch.full((len(self.centre), 1), float(bound), dtype=self.centre.dtype)

    def _sum(self, ball: PowerBall, d: Tensor, low: Tensor, high: Tensor, square: Tensor | None, sweeps: int) -> Tensor:
        bound, weights = self._column(ball.bound), None
        if ball.weights is not None:
            weights = prices(ball, d.shape[1], d.dtype)
            if self.categorical is not None:
                return self._metric(d, low, high, bound, weights)
        if square is None:
            return l1_box(d, low, high, bound, weights)
        return l1_l2_box(d, low, high, bound, square, weights, sweeps)

    def _metric(self, d: Tensor, low: Tensor, high: Tensor, bound: Tensor, weights: Tensor) -> Tensor:
        """Categories are kept as asked, dearest weight last, while the bound pays for them; the rest is an l1 ball."""
        assert self.categorical is not None
        price = weights * self.categorical
        differs = (d.clamp(low, high).round() != 0) & self.categorical
        order = torch.argsort(price[0])
        spent = torch.cumsum((price * differs)[:, order], dim=1)
        kept = torch.zeros_like(differs)
        kept[:, order] = spent <= bound
        cost = (price * (differs & kept)).sum(1, keepdim=True)
        numbers = l1_box(d, low, high, bound - cost, weights * ~self.categorical)
        chosen = torch.where(kept, d.clamp(low, high), 0.0)
        return torch.where(self.categorical, chosen, numbers)


def prices(ball: PowerBall, size: int, dtype: torch.dtype) -> Tensor:
    """The weights of a metric (1, size)."""
    weights = torch.zeros((1, size), dtype=dtype)
    for coordinate, weight in (ball.weights or {}).items():
        weights[0, coordinate] = float(weight)
    return weights


def _keep_most(ball: CountBall, d: Tensor) -> Tensor:
    """The ``most`` coordinates (or pixels) with the greatest energy; the others return to the original."""
    energy = d * d
    if ball.channel_axis is not None:
        axis = ball.channel_axis + 1
        energy = energy.reshape(-1, *ball.shape).sum(axis, keepdim=True)
    flat = energy.reshape(len(d), -1)
    kept = torch.zeros_like(flat, dtype=torch.bool)
    kept.scatter_(1, flat.topk(min(ball.most, flat.shape[1]), dim=1).indices, True)
    if ball.channel_axis is not None:
        kept = kept.reshape(energy.shape).expand(-1, *ball.shape)
    return d * kept.reshape(d.shape)


def placements(ball: PatchBall, energy: Tensor) -> Tensor:
    """What every placement of the stamp covers of ``energy`` (n, size): (n, rows, columns), by upper left corner."""
    picture = energy.reshape(-1, *ball.shape)
    if ball.axes[2] is not None:
        picture = picture.sum(ball.axes[2] + 1)
    stamp = torch.from_numpy(ball.stamp).to(energy.dtype)
    return torch.nn.functional.conv2d(picture[:, None], stamp[None, None])[:, 0]


def placed(ball: PatchBall, corners: Tensor, wide: int) -> Tensor:
    """Where the stamp lies at corners (n,) counted along rows of ``wide``: (n, size) bool."""
    regions = [ball.region((corner // wide, corner % wide)).reshape(-1) for corner in corners.tolist()]
    return torch.from_numpy(np.stack(regions))


def _keep_patch(ball: PatchBall, d: Tensor) -> Tensor:
    """The change inside the placement that keeps most of its energy."""
    places = placements(ball, d * d)
    return d * placed(ball, places.flatten(1).argmax(1), places.shape[2])
