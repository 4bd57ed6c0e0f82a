"""Projected gradient ascent with a fixed step (Madry et al., ICLR 2018, section 2.1) over any allowed set."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.native.arguments import in_radii, whole, word
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.losses import Loss, aims, loss_of
from tmlang.backends.native.terrain import Terrain
from tmlang.backends.native.universal import shared_search

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor


class PGD:
    """``native.pgd``: ``restarts`` runs of ``steps`` steps of length ``step_size`` in every branch, and as many towards
    a rejection, where that fails too; of a universal
    perturbation one run, from nothing, on what it is fitted on."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        loss = loss_of(job, word(job.arguments["loss"]))
        if job.threat.perturbation == "universal":
            return shared_search(job, loss, 1)
        hunt, climbed = Hunt(job), aims(job, loss)
        runs = product(range(whole(job.arguments["restarts"])), climbed, range(len(job.sets.branches)))
        for draw, (_, aim, branch) in enumerate(runs):
            units = hunt.open()
            if len(units):
                here = hunt.terrain(branch).rows(units)
                start = here.region.centre
                if job.arguments["random_start"]:
                    start = here.start(hunt.uniform(units, draw, start.shape[1]))
                ascend(hunt, here, units, start, aim)
        return hunt.result()


def ascend(hunt: Hunt, terrain: Terrain, units: Tensor, x: Tensor, loss: Loss) -> None:
    """``steps`` of ``step_size`` from ``x`` (n, size) on the ground of ``units``; what fails goes to ``hunt``."""
    job = hunt.job
    step = in_radii(job.arguments["step_size"], terrain)
    steps = whole(job.arguments["steps"])
    hunt.began()
    begun: Tensor | None = None
    for k in range(steps + 1):
        shown = terrain.shown(x).detach().requires_grad_(k < steps)
        with torch.set_grad_enabled(k < steps):
            seen, going = hunt.look(shown, units)
            value = loss(seen, job.y[units], None if job.target is None else job.target[units])
        begun = value.detach() if begun is None else begun
        hunt.came_further(units[value.detach() > begun])
        if k == steps:
            return
        # Of a unit that just failed too: what a unit costs does not depend on the others of its batch.
        gradient = torch.autograd.grad(value.sum(), shown)[0].reshape(x.shape)
        if not bool(going.all()):
            rows = torch.nonzero(going).flatten()
            if not len(rows):
                return
            x, gradient, units, terrain = x[rows], gradient[rows], units[rows], terrain.rows(rows)
            begun = begun[rows]
        x = terrain.project(x + step * terrain.ascent(x, gradient))
