"""Searches over the parameters of a transform: by a grid, and by gradients (Engstrom et al., ICML 2019, section 3).

What the model is shown is T(x; theta) itself, the picture that membership is decided by; gradients are those of its
interpolation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.native.arguments import whole, word
from tmlang.backends.native.losses import Loss, loss_of
from tmlang.backends.native.transform_hunt import FIRST_STEP, TransformHunt, shown, walk
from tmlang.backends.native.universal_transforms import ascended, best_of, counted, fitted
from tmlang.backends.transforms import Parameters, TransformSet, spread

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

_DRAWS = 12
"""Times that parameters are drawn back into the balls, at last to the original itself."""
_BACK = 0.75


class TransformGrid:
    """``native.transform_grid``: ``values`` of every parameter from end to end, every combination of them, those that
    change least first. Of a parameter that has a grid its own values are taken, all of them where ``values`` are
    enough. A picture that a ball beside the transform does not hold is not asked about."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        if job.threat.perturbation == "universal":
            fit = fitted(job)
            return best_of(job, fit, (tried for of in fit.each() for tried in counted(fit, _grid(job, of))))
        hunt = TransformHunt(job)
        for transform in hunt.each():
            walk(hunt, _grid(job, transform))
        return hunt.result()


class TransformPGD:
    """``native.transform_pgd``: ``restarts`` random starts and ``steps`` steps by the sign of each parameter's slope,
    shorter from step to step; where parameters have grids at the nearest points of them. Parameters whose picture a
    ball beside the transform does not hold are drawn back towards the original."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        if all(transform.how.interpolate == "nearest" for transform in job.sets.transforms):
            raise BackendRefusal("the nearest pixel stays the same under small changes: take native.transform_grid")
        loss, steps = loss_of(job, word(job.arguments["loss"])), whole(job.arguments["steps"])
        if job.threat.perturbation == "universal":
            fit = fitted(job)
            return best_of(job, fit, (tried for run in _runs(fit) for tried in ascended(fit, loss, steps, run)))
        hunt = TransformHunt(job)
        for run in _runs(hunt):
            units = hunt.open()
            if len(units):
                _climb(hunt, units, loss, run)
        return hunt.result()


def _grid(job: Job, transform: TransformSet) -> Parameters:
    """The points of the grid (K, p)."""
    points, limit = spread(transform, whole(job.arguments["values"])), whole(job.arguments["at_most"])
    if len(points) > limit:
        raise BackendRefusal(f"the grid has {len(points)} points, and at_most is {limit}")
    return points


def _runs(hunt: TransformHunt) -> Iterator[int]:
    """The number of every run; the hunt is then in the branch that it is about."""
    restarts = whole(hunt.job.arguments["restarts"])
    for transform in hunt.each():
        if transform.how.interpolate != "nearest":
            yield from range(hunt.branch * restarts, (hunt.branch + 1) * restarts)


def _climb(hunt: TransformHunt, units: Tensor, loss: Loss, draw: int) -> None:
    """One run over ``units``, in shares of the bounds."""
    job, transform = hunt.job, hunt.transform
    most, steps = torch.from_numpy(transform.most), whole(job.arguments["steps"])
    share = 2 * hunt.uniform(units, draw, len(most)) - 1
    hunt.began()
    begun: Tensor | None = None
    for k in range(steps + 1):
        share, theta = _drawn_back(hunt, units, share)
        x, leaf = shown(hunt, theta, units)
        seen, _ = hunt.see(x, units)
        hunt.keep(x.detach(), theta, units, seen.decisions)
        going = torch.nonzero(hunt.going(units)).flatten()
        value = loss(seen, job.y[units], None if job.target is None else job.target[units])
        begun = value.detach() if begun is None else begun
        hunt.came_further(units[value.detach() > begun])
        if k == steps or not len(going):
            return
        (slope,) = torch.autograd.grad(value.sum(), leaf)
        share = (share + FIRST_STEP * (1 - k / steps) * torch.sign(slope * most)).clamp(-1, 1)
        share, units, begun = share[going], units[going], begun[going]


def _drawn_back(hunt: TransformHunt, units: Tensor, share: Tensor) -> tuple[Tensor, Parameters]:
    """Shares of the bounds (n, p) towards 0, which is the original, until the balls hold the picture; and the
    parameters."""
    transform, most = hunt.transform, torch.from_numpy(hunt.transform.most)
    for left in reversed(range(0 if hunt.alone else _DRAWS)):
        theta = transform.nearest((share * most).numpy())
        outside = ~hunt.held(hunt.made(theta, units), units)
        if not bool(outside.any()):
            break
        share = torch.where(outside[:, None], share * (_BACK if left else 0.0), share)
    return share, transform.nearest((share * most).numpy())
