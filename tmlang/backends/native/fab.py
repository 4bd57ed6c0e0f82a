"""Fast adaptive boundary attack (Croce & Hein, ICML 2020, sections 3 and 4).

Looks for the nearest failure in linf, l2 or l1: the boundary to a class is linearized, and the iterate goes to where
the least step within domain and mask would meet it, biased towards the original. The class is the one whose boundary
looks nearest from each iterate, or is given. Under a radius a unit is done as soon as a failure inside its set was
seen; a threat that minimizes keeps the nearest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.native.arguments import whole
from tmlang.backends.native.hunt import Hunt, likeliest
from tmlang.backends.native.terrain import Terrain
from tmlang.meaning.threats import Anything

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

BIAS = 0.1
"""The greatest weight of the original (alpha_max)."""
BEYOND = 1.05
"""How far past the linearized boundary a step goes (eta)."""
_FAR = 1e12
"""A score that no step makes up for."""
BACK = 0.9
"""What is kept of a failing iterate's distance (beta)."""


class FAB:
    """``native.fab``: ``steps`` iterations, each towards the class whose boundary looks nearest."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        if job.target is not None:
            raise BackendRefusal("native.fab goes for any wrong class")
        return _search(Hunt(job), [None])


class FABTargeted:
    """``native.fab_targeted``: ``steps`` iterations towards each of the ``targets`` likeliest wrong classes."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        if job.target is not None:
            raise BackendRefusal("native.fab_targeted chooses its own targets")
        hunt = Hunt(job)
        ranked = likeliest(hunt)
        return _search(hunt, ranked[:, : whole(job.arguments["targets"])].unbind(dim=1))


def _search(hunt: Hunt, aims: Sequence[Tensor | None]) -> Candidates:
    """Runs with each of ``aims``, a class (N,) per unit or none, in every branch, ``restarts`` times."""
    job = hunt.job
    nearest = torch.full((len(job.x),), torch.inf, dtype=job.x.dtype)
    free = Terrain.of(job.sets.allowing(Anything()), 0, job.x.dtype)
    for restart, rank, branch in product(
        range(whole(job.arguments["restarts"])), range(len(aims)), range(len(job.sets.branches))
    ):
        units = hunt.open(2)
        if len(units):
            run = _Run(hunt, hunt.terrain(branch).rows(units), free.rows(units), units, nearest)
            draw = restart * len(aims) + rank if restart else None
            run.go(aims[rank], whole(job.arguments["steps"]), draw)
    return hunt.result()


class _Run:
    """One run over n units. ``nearest`` (N,): the least distance that was found, over all runs."""

    def __init__(self, hunt: Hunt, terrain: Terrain, free: Terrain, units: Tensor, nearest: Tensor) -> None:
        self.hunt, self.terrain, self.free, self.units, self.nearest = hunt, terrain, free, units, nearest
        minimize = hunt.job.threat.minimize
        self.norm = terrain.geometry if minimize is None else minimize[0]
        self.wants_nearest = minimize is not None

    def go(self, targets: Tensor | None, steps: int, draw: int | None) -> None:
        """``targets`` (N,): where each unit is led. The first run starts at the original (``draw`` is ``None``)."""
        x = self.free.region.centre if draw is None else self._start(draw)
        self.hunt.began()
        begun = torch.full(self.nearest.shape, -torch.inf, dtype=torch.float64)
        for k in range(steps):
            if not len(self.units):
                return
            gap, slope = self._nearest(x) if targets is None else self._boundary(x, targets[self.units])
            if k == 0:
                begun[self.units] = gap[:, 0].double()
            self.hunt.came_further(self.units[gap[:, 0] < begun[self.units]])
            centre = self.free.region.centre
            step = self._meet(x, slope, gap)
            back = self._meet(centre, slope, gap + (slope * (centre - x)).sum(1, keepdim=True))
            near, far = self._length(step), self._length(back)
            alpha = (near / (near + far).clamp(min=1e-12)).clamp(max=BIAS)
            x = (x + BEYOND * step) * (1 - alpha) + (centre + BEYOND * back) * alpha
            x = self._judge(x.clamp(self.free.region.lower, self.free.region.upper))

    def _start(self, draw: int) -> Tensor:
        """A random point at half the distance that is to be beaten."""
        reach = torch.minimum(self.nearest[self.units], self._radius())[:, None] / 2
        sources = self.hunt.generators(self.units, draw)
        size = self.free.region.centre.shape[1]
        ray = torch.stack([torch.rand(size, generator=g) * 2 - 1 for g in sources]).to(reach.dtype)
        moved = self.free.region.centre + reach * ray / self._length(ray).clamp(min=1e-12)
        return moved.clamp(self.free.region.lower, self.free.region.upper)

    def _radius(self) -> Tensor:
        widest = (self.free.region.upper - self.free.region.lower).amax(dim=1)
        return (
            widest if self.wants_nearest else torch.minimum(self.terrain.radius.max(), widest.max()).expand(len(widest))
        )

    def _boundary(self, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Score of the label minus that of the target (n, 1), and its gradient (n, size)."""
        shown = self.free.shown(x).detach().requires_grad_()
        with torch.enable_grad():
            scores = self.hunt.see(shown, self.units)[0].scores
            labels = self.hunt.job.y[self.units]
            gap = scores.gather(1, labels[:, None]) - scores.gather(1, targets[:, None])
        (slope,) = torch.autograd.grad(gap.sum(), shown)
        return _number(gap.detach()), _number(slope.reshape(x.shape))

    def _nearest(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The same for the class whose linearized boundary is nearest to ``x`` without domain and mask: by the gap over
        the dual norm of its slope."""
        shown = self.free.shown(x).detach().requires_grad_()
        with torch.enable_grad():
            scores = self.hunt.see(shown, self.units)[0].scores
        classes = scores.shape[1]
        slopes = torch.stack(
            [torch.autograd.grad(scores[:, k].sum(), shown, retain_graph=k < classes - 1)[0] for k in range(classes)], 1
        ).flatten(2)
        labels = self.hunt.job.y[self.units]
        rows = torch.arange(len(labels))
        gaps = _number(scores.detach().gather(1, labels[:, None]) - scores.detach())
        slopes = _number(slopes[rows, labels][:, None] - slopes)
        dual = {"linf": 1.0, "l2": 2.0, "l1": torch.inf}[self.norm]
        away = gaps.abs() / torch.linalg.vector_norm(slopes, ord=dual, dim=2).clamp(min=1e-12)
        aim = away.scatter(1, labels[:, None], torch.inf).argmin(dim=1)
        return gaps[rows, aim, None], slopes[rows, aim]

    def _judge(self, x: Tensor) -> Tensor:
        """Note failures inside the set, draw failing iterates back, and drop the units that are done."""
        shown = self.free.shown(x)
        with torch.no_grad():
            _, fails = self.hunt.see(shown, self.units)
        flat = shown.reshape(x.shape)
        distance = self._length(flat - self.free.region.centre)[:, 0]
        better = fails & (distance < self.nearest[self.units])
        self.nearest[self.units[better]] = distance[better]
        counts = better if self.wants_nearest else fails & self.terrain.holds(flat)
        self.hunt.note(shown, self.units, counts, close=not self.wants_nearest)
        x = torch.where(fails[:, None], torch.lerp(self.free.region.centre, x, BACK), x)
        going = self.hunt.going(self.units, 2)
        if bool(going.all()):
            return x
        rows = torch.nonzero(going).flatten()
        self.units, self.terrain, self.free = self.units[rows], self.terrain.rows(rows), self.free.rows(rows)
        return x[rows]

    def _length(self, v: Tensor) -> Tensor:
        if self.norm == "linf":
            return v.abs().amax(dim=1, keepdim=True)
        length: Tensor = v.norm(p=1 if self.norm == "l1" else 2, dim=1, keepdim=True)
        return length

    def _meet(self, x: Tensor, slope: Tensor, gap: Tensor) -> Tensor:
        """The least step from ``x`` within the box to where the linearized gap is 0, or as near as the box allows."""
        sign = -torch.sign(gap) * torch.sign(slope)
        room = torch.where(sign > 0, self.free.region.upper - x, x - self.free.region.lower).clamp(min=0)
        need, steep = gap.abs(), slope.abs()
        if self.norm == "l1":
            return sign * _fill_steepest(steep, room, need)
        if self.norm == "linf":
            return sign * torch.minimum(_level(steep, room, need), room)
        caps = room / steep.clamp(min=1e-12)
        return sign * torch.minimum(_level(steep**2, caps, need) * steep, room)


def _number(values: Tensor) -> Tensor:
    """0 where there is no number, and the greatest one where a class is out of reach."""
    return torch.nan_to_num(values, nan=0.0, posinf=_FAR, neginf=-_FAR)


def _level(slopes: Tensor, caps: Tensor, need: Tensor) -> Tensor:
    """The least ``t`` (n, 1) with ``sum_j slopes_j * min(t, caps_j) >= need``; the greatest cap where there is none."""
    sorted_caps, order = caps.sort(dim=1)
    ordered = slopes.gather(1, order)
    rising = ordered.flip(1).cumsum(1).flip(1)
    settled = (ordered * sorted_caps).cumsum(1)
    before = settled - ordered * sorted_caps
    reached = before + sorted_caps * rising >= need
    first = torch.where(reached.any(1, keepdim=True), reached.to(torch.int8).argmax(1, keepdim=True), caps.shape[1] - 1)
    level = (need - before.gather(1, first)) / rising.gather(1, first).clamp(min=1e-12)
    return torch.minimum(level, sorted_caps[:, -1:])


def _fill_steepest(steep: Tensor, room: Tensor, need: Tensor) -> Tensor:
    """The cheapest step in l1: the steepest coordinates all the way, the last one as far as needed (n, size)."""
    order = steep.argsort(dim=1, descending=True)
    gain = (steep * room).gather(1, order)
    left = (need - (gain.cumsum(1) - gain)).clamp(min=0)
    part = torch.minimum(gain, left) / steep.gather(1, order).clamp(min=1e-12)
    return torch.zeros_like(room).scatter(1, order, torch.minimum(part, room.gather(1, order)))
