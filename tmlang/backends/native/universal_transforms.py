"""One vector of parameters for every example: fitted on the declared set alone, then applied to the others as it is.

Where a ball beside the transform does not hold the picture that it makes of an example, that example is not attacked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.native.losses import Loss
from tmlang.backends.native.transform_hunt import FIRST_STEP, TransformHunt, shown
from tmlang.backends.transforms import Parameters

Tensor = torch.Tensor

_BATCH = 128
"""Pictures of one pass."""
Tried = tuple[int, int, Parameters]
"""How many of the fitting examples fail, in which branch, by which parameters (p,)."""


def fitted(job: Job) -> TransformHunt:
    """A hunt among the examples that the parameters are fitted on. Raises :class:`BackendRefusal` without any."""
    fit = job.fit
    if fit is None or not len(fit.x):
        raise BackendRefusal("there are no examples that a universal perturbation could be fitted on")
    seeds = (fit.seed,) * len(fit.x)
    own = replace(job, oracle=fit.oracle, sets=fit.sets, x=fit.x, y=fit.y, target=fit.target, seeds=seeds)
    return TransformHunt(own)


def best_of(job: Job, hunt: TransformHunt, tried: Iterable[Tried]) -> Candidates:
    """The parameters that most fitting examples fail under (the first of several), applied to all units."""
    best = max(tried, key=lambda one: one[0], default=None)
    if best is None:
        raise BackendRefusal("the query limit leaves no query for every fitting example")
    _, branch, theta = best
    applied = TransformHunt(job)
    applied.enter(branch)
    units, many = torch.arange(len(job.x)), np.tile(theta, (len(job.x), 1))
    x = applied.made(many, units)
    offered = applied.held(x, units) & (x != job.x).flatten(1).any(dim=1)
    kept = torch.where(offered.reshape(-1, *[1] * (x.dim() - 1)), x, job.x)
    late = job.deadline is not None and time.monotonic() >= job.deadline
    told = torch.from_numpy(applied.transform.among(many))
    return Candidates(kept, offered, ("timeout" if late else None,) * len(x), hunt.progressed, told)


def counted(hunt: TransformHunt, points: Parameters) -> Iterator[Tried]:
    """How many fail under each of ``points`` (K, p), in order, while every example can pay for a picture."""
    for theta in points:
        if not _all_can_pay(hunt):
            return
        failing = 0
        for units in _batches(hunt):
            x = hunt.made(np.tile(theta, (len(units), 1)), units)
            held = hunt.held(x, units)
            of = units[held]
            if len(of):
                failing += int(hunt.failure.rows(of)(hunt.job.oracle.decisions(x[held], of), x[held]).sum())
        yield failing, hunt.branch, theta


def ascended(hunt: TransformHunt, loss: Loss, steps: int, draw: int) -> Iterator[Tried]:
    """What is met on one ascent of the summed loss of the examples that do not fail, by signs of its slope."""
    transform, most = hunt.transform, torch.from_numpy(hunt.transform.most)
    share = 2 * hunt.uniform(torch.zeros(1, dtype=torch.int64), draw, len(most)) - 1
    for k in range(steps + 1):
        if not _all_can_pay(hunt):
            return
        theta = transform.nearest((share * most).numpy())
        failing, slope = 0, torch.zeros_like(share)
        for units in _batches(hunt):
            x, leaf = shown(hunt, np.tile(theta, (len(units), 1)), units)
            seen, fails = hunt.see(x, units)
            broken = fails & hunt.held(x.detach(), units)
            failing += int(broken.sum())
            value = loss(seen, hunt.job.y[units], None if hunt.job.target is None else hunt.job.target[units])
            slope += torch.autograd.grad(torch.where(broken, 0.0, value).sum(), leaf)[0].sum(dim=0, keepdim=True)
        yield failing, hunt.branch, theta[0]
        share = (share + FIRST_STEP * (1 - k / max(1, steps)) * torch.sign(slope * most)).clamp(-1, 1)


def _all_can_pay(hunt: TransformHunt) -> bool:
    """Whether every fitting example has a query left, before the deadline."""
    return len(hunt.open()) == len(hunt.x)


def _batches(hunt: TransformHunt) -> Iterator[Tensor]:
    yield from torch.arange(len(hunt.x)).split(_BATCH)  # type: ignore[no-untyped-call]
