"""Searches over the parameters of a transform: by a grid, and by gradients (Engstrom et al., ICML 2019, section 3).

What the model is shown is T(x; theta) itself, the picture that membership is decided by; gradients are those of its
interpolation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.native.arguments import whole, word
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.losses import Loss, loss_of
from tmlang.backends.resampling import doubles, resample
from tmlang.backends.transforms import Parameters, TransformSet, spread

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

_ROWS = 512
"""Pictures that are asked about in one pass."""
_FIRST_STEP = 0.5
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
        hunt = TransformHunt(job)
        for transform in hunt.each():
            points = spread(transform, whole(job.arguments["values"]))
            limit = whole(job.arguments["at_most"])
            if len(points) > limit:
                raise BackendRefusal(f"the grid has {len(points)} points, and at_most is {limit}")
            walk(hunt, points)
        return hunt.result()


class TransformPGD:
    """``native.transform_pgd``: ``restarts`` random starts and ``steps`` steps by the sign of each parameter's slope,
    shorter from step to step; where parameters have grids at the nearest points of them. Parameters whose picture a
    ball beside the transform does not hold are drawn back towards the original."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        hunt = TransformHunt(job)
        if all(transform.how.interpolate == "nearest" for transform in job.sets.transforms):
            raise BackendRefusal("the nearest pixel stays the same under small changes: take native.transform_grid")
        loss, restarts = loss_of(job, word(job.arguments["loss"])), whole(job.arguments["restarts"])
        for transform in hunt.each():
            for restart in range(restarts):
                units = hunt.open()
                if len(units) and transform.how.interpolate != "nearest":
                    _climb(hunt, units, loss, hunt.branch * restarts + restart)
        return hunt.result()


class TransformHunt(Hunt):
    """A hunt among the pictures that a transform makes: what is kept is kept with its parameters ``theta`` (N, kept).

    ``branch``: the branch of the set that it is in, the first that is made by a transform to begin with; ``transform``:
    what makes its pictures.
    """

    transform: TransformSet

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.theta = torch.full((len(job.x), job.sets.parameters), torch.nan, dtype=torch.float64)
        self._flat = job.sets.originals.reshape(len(job.x), -1)
        next(self.each())

    def each(self) -> Iterator[TransformSet]:
        """The transform of every branch that is made by one, in turn; the hunt is then in that branch."""
        for branch, own in enumerate(self.job.sets.branches):
            if own.transform is not None:
                self.branch, self.transform = branch, own.transform
                yield own.transform

    def originals(self, units: Tensor) -> Tensor:
        """The numbers that the originals of ``units`` stand for (n, size), float64."""
        domain, flat = self.job.sets.domain, self._flat[units.numpy()]
        return doubles(domain, flat, domain.indices(flat)[0])

    def made(self, theta: Parameters, units: Tensor) -> Tensor:
        """T(x; theta) of the originals of ``units`` (n, *shape), exactly."""
        x = self.transform.made(self._flat[units.numpy()], theta)
        return torch.from_numpy(x.reshape(-1, *self.job.sets.space.shape)).to(self.job.x.dtype)

    @property
    def alone(self) -> bool:
        """Whether there is no ball beside the transform."""
        own = self.job.sets.branches[self.branch]
        return own.limits.unlimited and not own.balls

    def held(self, x: Tensor, units: Tensor) -> Tensor:
        """Which pictures (n, *shape) the balls beside the transform hold: (n,) bool."""
        if self.alone:
            return torch.ones(len(x), dtype=torch.bool)
        return torch.from_numpy(self.job.sets.rows(units.numpy()).beside(self.branch, x.numpy()))

    def payable(self, units: Tensor) -> int:
        """The rows that each of ``units`` can pay for."""
        left = self.job.oracle.remaining()
        return _ROWS if left is None else int(left[units].min()) // self.job.oracle.rows

    def keep(self, x: Tensor, theta: Parameters, units: Tensor, fails: Tensor) -> None:
        """Keep the first failing picture ``x`` (n, *shape) of every unit that has one in its set; the original is
        none."""
        moved = (x != self.job.x[units]).flatten(1).any(dim=1)
        at = torch.nonzero(fails & moved & ~self.failed[units]).flatten()
        rows = at[self.held(x[at], units[at])].numpy()
        if len(rows):
            _, first = np.unique(units.numpy()[rows], return_index=True)
            rows = rows[first]
            at = torch.from_numpy(rows)
            self.note(x[at], units[at], torch.ones(len(at), dtype=torch.bool))
            self.theta[units[at]] = torch.from_numpy(self.transform.among(theta[rows]))

    def result(self) -> Candidates:
        """What failed, with its parameters."""
        return replace(super().result(), theta=self.theta)

    def _settle(self, at: Tensor) -> None:
        """A picture that T made, and that the balls beside it hold, is inside."""


def walk(hunt: TransformHunt, points: Parameters) -> None:
    """Ask about the pictures of ``points`` (K, p) in order, of every unit that is still open."""
    start = 0
    while start < len(points):
        units = hunt.open()
        if not len(units):
            return
        together = max(1, min(_ROWS // len(units), len(points) - start, hunt.payable(units)))
        of = units.repeat_interleave(together)
        theta = np.tile(points[start : start + together], (len(units), 1))
        x = hunt.made(theta, of)
        held = hunt.held(x, of)
        if bool(held.any()):
            x, theta, of = x[held], theta[held.numpy()], of[held]
            hunt.keep(x, theta, of, hunt.failure.rows(of)(hunt.job.oracle.decisions(x, of), x))
        start += together


def _climb(hunt: TransformHunt, units: Tensor, loss: Loss, draw: int) -> None:
    """One run over ``units``, in shares of the bounds."""
    job, transform = hunt.job, hunt.transform
    most, steps = torch.from_numpy(transform.most), whole(job.arguments["steps"])
    share = 2 * hunt.uniform(units, draw, len(most)) - 1
    hunt.began()
    begun: Tensor | None = None
    for k in range(steps + 1):
        share, theta = _drawn_back(hunt, units, share)
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


def _shown(hunt: TransformHunt, theta: Parameters, units: Tensor) -> tuple[Tensor, Tensor]:
    """The exact pictures (n, *shape), with the slope of their interpolation in ``leaf`` (n, p)."""
    exact = hunt.made(theta, units)
    leaf = torch.from_numpy(theta).clone().requires_grad_(True)
    with torch.enable_grad():
        near, _ = resample(hunt.transform.how, hunt.originals(units), leaf)
        near = near.reshape(exact.shape).to(exact.dtype)
        return exact + (near - near.detach()), leaf
