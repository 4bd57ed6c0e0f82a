"""Patches: gradient ascent over their content (Brown et al. 2017, section 2), at the places that promise most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.membership import PatchBall
from tmlang.backends.native.arguments import whole, word
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.losses import Loss, loss_of
from tmlang.backends.native.pgd import ascend
from tmlang.backends.native.terrain import Terrain
from tmlang.backends.native.universal import shared_search
from tmlang.backends.projection import placed, placements

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor


class PatchPGD:
    """``native.patch_pgd``: the ``places`` placements whose pixels the loss depends on most at the original, one after
    the other; at each the content starts at random. A patch at one place has one placement. A universal patch is fitted
    on the declared examples and pasted into all others."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        loss = loss_of(job, word(job.arguments["loss"]))
        if job.threat.perturbation == "universal":
            return shared_search(job, loss, whole(job.arguments["places"]))
        hunt = Hunt(job)
        for branch in range(len(job.sets.branches)):
            units = hunt.open()
            if len(units):
                ground = Terrain.of(job.sets, branch, job.x.dtype, placed=True)
                corners = _promising(hunt, ground, branch, units, loss)
                for rank in range(corners.shape[1]):
                    _at_place(hunt, ground, branch, corners[:, rank], rank, loss)
        return hunt.result()


def _patches(hunt: Hunt, branch: int) -> list[PatchBall]:
    return [ball for ball in hunt.job.sets.branches[branch].balls if isinstance(ball, PatchBall)]


def _promising(hunt: Hunt, ground: Terrain, branch: int, units: Tensor, loss: Loss) -> Tensor:
    """Corners of the placements to try (N, places), best first: those that cover most of what the loss can rise by to
    first order, each pixel moved to the better end of its range. One column of zeros where no place is free."""
    job, patches = hunt.job, _patches(hunt, branch)
    if not patches:
        return torch.zeros(len(job.x), 1, dtype=torch.int64)
    shown = job.x[units].clone().requires_grad_(True)
    seen, _ = hunt.look(shown, units)
    value = loss(seen, job.y[units], None if job.target is None else job.target[units])
    gradient = torch.autograd.grad(value.sum(), shown)[0].flatten(1)
    region = ground.region.rows(units)
    end = torch.where(gradient > 0, region.upper, region.lower)
    gains = placements(patches[0], gradient * (end - region.centre)).flatten(1)
    top = gains.topk(min(whole(job.arguments["places"]), gains.shape[1]), dim=1).indices
    return torch.zeros(len(job.x), top.shape[1], dtype=torch.int64).index_copy(0, units, top)


def _at_place(hunt: Hunt, ground: Terrain, branch: int, corners: Tensor, rank: int, loss: Loss) -> None:
    """One ascent of the open units with the patch at ``corners`` (N,)."""
    units = hunt.open()
    if not len(units):
        return
    here = ground.rows(units)
    for ball in _patches(hunt, branch)[:1]:
        wide = ball.shape[ball.axes[1]] - ball.stamp.shape[1] + 1
        here = here.within(placed(ball, corners[units], wide))
    size = here.region.centre.shape[1]
    draws = hunt.uniform(units, rank, size).to(hunt.x.dtype)
    start = here.project(torch.lerp(here.region.lower, here.region.upper, draws))
    ascend(hunt, here, units, start, loss)
