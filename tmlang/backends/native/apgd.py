"""Auto-PGD (Croce & Hein, ICML 2020, section 3) over any allowed set.

Differences from the published code, none of which changes what it does on a plain linf or l2 ball: units that failed
leave the batch at once, steps are measured in the radius of each coordinate, frozen coordinates take no part in the
length of a gradient, and the projection is the exact one onto ball and box together.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.native.arguments import whole, word
from tmlang.backends.native.hunt import Hunt, likeliest
from tmlang.backends.native.losses import Loss, aims, loss_of
from tmlang.backends.native.terrain import Terrain

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

MOMENTUM = 0.75
_RISING = 0.75


def checkpoints(steps: int) -> list[int]:
    """The iterations at which the step size is reviewed: ``ceil(p_j * steps)`` with p_0 = 0, p_1 = 0.22 and
    ``p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06)`` (section 3.1); in hundredths, so exact."""
    p = [0, 22]
    while p[-1] < 100:
        p.append(p[-1] + max(p[-1] - p[-2] - 3, 6))
    return [w for w in dict.fromkeys(ceil(v * steps / 100) for v in p) if w <= steps]


@dataclass(slots=True)
class Climb:
    """The state of n units; every tensor has n rows."""

    units: Tensor
    x: Tensor
    previous: Tensor
    gradient: Tensor
    loss: Tensor
    best_x: Tensor
    best_gradient: Tensor
    best_loss: Tensor
    step: Tensor
    rises: Tensor
    reviewed_loss: Tensor
    reviewed_step: Tensor
    share: Tensor
    support: Tensor

    def keep(self, rows: Tensor) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name)[rows])


class APGD:
    """``native.apgd``: one loss, ``restarts`` random starts of ``steps`` iterations in every branch; as many again
    towards a rejection, where that fails too."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        loss = loss_of(job, word(job.arguments["loss"]))
        hunt, climbed = Hunt(job), aims(job, loss)
        for draw in range(whole(job.arguments["restarts"])):
            for k, aim in enumerate(climbed):
                _everywhere(hunt, job.target, aim, draw * len(climbed) + k)
        return hunt.result()


class APGDTargeted:
    """``native.apgd_targeted``: the targeted DLR loss towards the ``targets`` likeliest wrong classes, one after the
    other (section 4), then towards a rejection, where that fails too. Success is still any failure of the threat."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        if job.target is not None:
            raise BackendRefusal("native.apgd_targeted chooses its own targets; native.apgd goes for the threat's")
        loss = loss_of(job, "dlr", targeted=True)
        hunt = Hunt(job)
        ranked = likeliest(hunt)
        targets = min(whole(job.arguments["targets"]), job.oracle.classes - 1)
        others = aims(job, loss)[1:]
        runs: list[tuple[Tensor | None, Loss]] = [(ranked[:, rank], loss) for rank in range(targets)]
        runs += [(None, aim) for aim in others]
        for restart in range(whole(job.arguments["restarts"])):
            for k, (towards, aim) in enumerate(runs):
                _everywhere(hunt, towards, aim, restart * len(runs) + k)
        return hunt.result()


def _everywhere(hunt: Hunt, targets: Tensor | None, loss: Loss, draw: int) -> None:
    """One run over the open units in every branch of the set."""
    sets = hunt.job.sets
    for branch in range(len(sets.branches)):
        units = hunt.open()
        if len(units):
            terrain = hunt.terrain(branch)
            steps = whole(hunt.job.arguments["steps"])
            climb(hunt, terrain, units, targets, loss, steps, draw * len(sets.branches) + branch)


def climb(
    hunt: Hunt,
    terrain: Terrain,
    units: Tensor,
    targets: Tensor | None,
    loss: Loss,
    steps: int,
    draw: int,
) -> None:
    """One run over ``units``; ``targets`` are of all units of the hunt. What fails goes to ``hunt``."""
    walk = _Walk(hunt, terrain, units, targets, loss)
    sparse = terrain.geometry == "l1"
    reviews = list(range(0, steps, max(1, steps // 25))) if sparse else checkpoints(steps)
    spans = {b: b - a for a, b in pairwise(reviews)}
    state = walk.begin(draw)
    for k in range(1, steps + 1):
        if not len(state.units):
            return
        walk.advance(state, momentum=k > 1 and not sparse, last=k == steps)
        if k in spans and k < steps:
            if sparse:
                _review_sparse(state, walk.terrain.region.centre)
            else:
                _review(state, spans[k])


class _Walk:
    """What stays fixed along a run, narrowed to the units that are left."""

    def __init__(self, hunt: Hunt, terrain: Terrain, units: Tensor, targets: Tensor | None, loss: Loss) -> None:
        self.hunt, self.loss = hunt, loss
        self.terrain = terrain if len(units) == len(hunt.x) else terrain.rows(units)
        self.units, self.targets = units, targets

    def begin(self, draw: int) -> Climb:
        self.hunt.began()
        x = self.terrain.start(self.hunt.uniform(self.units, draw, self.terrain.region.centre.shape[1]))
        value, gradient, going = self._look(x, self.units, last=False)
        step = torch.full((len(x), 1), 1.0 if self.terrain.geometry == "l1" else 2.0, dtype=x.dtype)
        rises = torch.zeros(len(x), dtype=torch.int64)
        share, support = torch.full_like(step, 0.2), torch.full_like(step, x.shape[1])
        state = Climb(
            self.units, x, x, gradient, value, x, gradient, value, step, rises, value, step, share, support
        )  # fmt: skip
        self._narrow(state, going)
        return state

    def _look(self, x: Tensor, units: Tensor, *, last: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Loss (n,), gradient (n, size; zeros at the last point) and who goes on."""
        shown = self.terrain.shown(x).detach().requires_grad_(not last)
        with torch.set_grad_enabled(not last):
            seen, going = self.hunt.look(shown, units)
            targets = None if self.targets is None else self.targets[units]
            value = self.loss(seen, self.hunt.job.y[units], targets)
        if last:
            return value.detach(), torch.zeros_like(x), going
        (gradient,) = torch.autograd.grad(value.sum(), shown)
        return value.detach(), gradient.reshape(x.shape), going

    def advance(self, s: Climb, *, momentum: bool, last: bool) -> None:
        stepped = self.terrain.project(torch.addcmul(s.x, s.step, self.terrain.ascent(s.x, s.gradient, s.share)))
        if momentum:
            moved = torch.lerp(s.x, stepped, MOMENTUM).add_(s.x - s.previous, alpha=1 - MOMENTUM)
            stepped = self.terrain.project(moved)
        s.previous, s.x = s.x, stepped
        value, s.gradient, going = self._look(s.x, s.units, last=last)
        s.rises += value > s.loss
        s.loss = value
        better = value > s.best_loss
        self.hunt.came_further(s.units[better])
        column = better[:, None]
        s.best_loss = torch.where(better, value, s.best_loss)
        s.best_x = torch.where(column, s.x, s.best_x)
        s.best_gradient = torch.where(column, s.gradient, s.best_gradient)
        self._narrow(s, going)

    def _narrow(self, s: Climb, going: Tensor) -> None:
        if bool(going.all()):
            return
        rows = torch.nonzero(going).flatten()
        s.keep(rows)
        self.terrain = self.terrain.rows(rows)


def _review(s: Climb, span: int) -> None:
    """Halve the step and go back to the best point where the loss rose too seldom, or where nothing changed since the
    last review (conditions 1 and 2 of section 3.1)."""
    seldom = s.rises < _RISING * span
    idle = (s.step[:, 0] == s.reviewed_step[:, 0]) & (s.best_loss == s.reviewed_loss)
    halve = seldom | idle
    s.reviewed_loss, s.reviewed_step = s.best_loss, s.step
    column = halve[:, None]
    s.step = torch.where(column, s.step / 2, s.step)
    s.x = torch.where(column, s.best_x, s.x)
    s.gradient = torch.where(column, s.best_gradient, s.gradient)
    s.rises = torch.zeros_like(s.rises)


def _review_sparse(s: Climb, centre: Tensor) -> None:
    """In l1 the share of coordinates that a step moves follows the support of the best point; where that still shrinks
    the walk goes back to it with full steps, else steps get shorter (Croce & Hein, ICML 2021, section 4). Where nothing
    got better the share falls further: equal steps on a fixed few coordinates are undone by the projection."""
    idle = (s.best_loss == s.reviewed_loss)[:, None]
    support = (s.best_x != centre).sum(dim=1, keepdim=True).to(s.x.dtype)
    shrinks = support < 0.95 * s.support
    s.share = torch.where(idle, s.share, support / s.x.shape[1]) / 1.5
    s.step = torch.where(shrinks, 1.0, (s.step / 1.5).clamp(min=0.1))
    s.x = torch.where(shrinks, s.best_x, s.x)
    s.gradient = torch.where(shrinks, s.best_gradient, s.gradient)
    s.support, s.reviewed_loss = support, s.best_loss
