"""Searches over the parameters of a transform: by a grid, and by gradients (Engstrom et al., ICML 2019, section 3).

What the model is shown is T(x; theta) itself, the picture that membership is decided by; gradients are those of its
interpolation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.native.arguments import whole, word
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.losses import Loss, loss_of
from tmlang.backends.resampling import doubles, resample
from tmlang.backends.transforms import Parameters, spread

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

_ROWS = 512
"""Pictures that are asked about in one pass."""
_FIRST_STEP = 0.5


class TransformGrid:
    """``native.transform_grid``: ``values`` of every parameter from end to end, every combination of them, those that
    change least first. Of a parameter that has a grid its own values are taken, all of them where ``values`` are
    enough."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        hunt = TransformHunt(job)
        points = spread(hunt.transform, whole(job.arguments["values"]))
        limit = whole(job.arguments["at_most"])
        if len(points) > limit:
            raise BackendRefusal(f"the grid has {len(points)} points, and at_most is {limit}")
        start = 0
        while start < len(points):
            units = hunt.open()
            if not len(units):
                break
            together = max(1, min(_ROWS // len(units), len(points) - start, hunt.payable(units)))
            of = units.repeat_interleave(together)
            theta = np.tile(points[start : start + together], (len(units), 1))
            x = hunt.made(theta, of)
            hunt.keep(x, theta, of, hunt.failure.rows(of)(job.oracle.decisions(x, of), x))
            start += together
        return hunt.result()


class TransformPGD:
    """``native.transform_pgd``: ``restarts`` random starts and ``steps`` steps by the sign of each parameter's slope,
    shorter from step to step; where parameters have grids at the nearest points of them."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        hunt = TransformHunt(job)
        if hunt.transform.how.interpolate == "nearest":
            raise BackendRefusal("the nearest pixel stays the same under small changes: take native.transform_grid")
        loss = loss_of(job, word(job.arguments["loss"]))
        for restart in range(whole(job.arguments["restarts"])):
            units = hunt.open()
            if len(units):
                _climb(hunt, units, loss, restart)
        return hunt.result()


class TransformHunt(Hunt):
    """A hunt among pictures that a transform makes: what is kept is kept with its parameters ``theta`` (N, p)."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        transform = job.sets.transform
        assert transform is not None, "the manifest asks for a transform"
        self.transform = transform
        self.theta = torch.zeros(len(job.x), len(transform.most), dtype=torch.float64)
        self._flat = job.sets.originals.reshape(len(job.x), -1)

    def originals(self, units: Tensor) -> Tensor:
        """The numbers that the originals of ``units`` stand for (n, size), float64."""
        flat = self._flat[units.numpy()]
        return doubles(self.transform.domain, flat, self.transform.domain.indices(flat)[0])

    def made(self, theta: Parameters, units: Tensor) -> Tensor:
        """T(x; theta) of the originals of ``units`` (n, *shape), exactly."""
        x = self.transform.made(self._flat[units.numpy()], theta)
        return torch.from_numpy(x.reshape(-1, *self.job.sets.space.shape)).to(self.job.x.dtype)

    def payable(self, units: Tensor) -> int:
        """The rows that each of ``units`` can pay for."""
        left = self.job.oracle.remaining()
        return _ROWS if left is None else int(left[units].min()) // self.job.oracle.rows

    def keep(self, x: Tensor, theta: Parameters, units: Tensor, fails: Tensor) -> None:
        """Keep the first failing picture ``x`` (n, *shape) of every unit that has one; the original is none."""
        moved = (x != self.job.x[units]).flatten(1).any(dim=1)
        rows = torch.nonzero(fails & moved & ~self.failed[units]).flatten().numpy()
        if len(rows):
            _, first = np.unique(units.numpy()[rows], return_index=True)
            rows = rows[first]
            at = torch.from_numpy(rows)
            self.note(x[at], units[at], torch.ones(len(at), dtype=torch.bool))
            self.theta[units[at]] = torch.from_numpy(theta[rows])

    def result(self) -> Candidates:
        """What failed, with its parameters."""
        return replace(super().result(), theta=self.theta)

    def _settle(self, at: Tensor) -> None:
        """A picture that T made is inside."""


def _climb(hunt: TransformHunt, units: Tensor, loss: Loss, restart: int) -> None:
    """One run over ``units``, in shares of the bounds."""
    job, transform = hunt.job, hunt.transform
    most, steps = torch.from_numpy(transform.most), whole(job.arguments["steps"])
    share = 2 * hunt.uniform(units, restart, len(most)) - 1
    hunt.began()
    begun: Tensor | None = None
    for k in range(steps + 1):
        theta = transform.nearest((share * most).numpy())
        shown, leaf = _shown(hunt, theta, units)
        seen, fails = hunt.see(shown, units)
        hunt.keep(shown.detach(), theta, units, fails)
        going = torch.nonzero(hunt.going(units)).flatten()
        value = loss(seen, job.y[units], None if job.target is None else job.target[units])
        begun = value.detach() if begun is None else begun
        hunt.came_further(units[value.detach() > begun])
        if k == steps or not len(going):
            return
        (slope,) = torch.autograd.grad(value.sum(), leaf)
        share = (share + _FIRST_STEP * (1 - k / steps) * torch.sign(slope * most)).clamp(-1, 1)
        share, units, begun = share[going], units[going], begun[going]


def _shown(hunt: TransformHunt, theta: Parameters, units: Tensor) -> tuple[Tensor, Tensor]:
    """The exact pictures (n, *shape), with the slope of their interpolation in ``leaf`` (n, p)."""
    exact = hunt.made(theta, units)
    leaf = torch.from_numpy(theta).clone().requires_grad_(True)
    with torch.enable_grad():
        near, _ = resample(hunt.transform.how, hunt.originals(units), leaf)
        near = near.reshape(exact.shape).to(exact.dtype)
        return exact + (near - near.detach()), leaf
