"""One perturbation for every example (Moosavi-Dezfooli et al., CVPR 2017; Brown et al. 2017 for patches).

It is fitted by stochastic gradient ascent on the declared set alone and then applied to the examples as it is. A patch
shares its content and its place; anything else shares a change, cut off where an example's own box ends.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.failure import Failure
from tmlang.backends.membership import PatchBall
from tmlang.backends.native.arguments import in_radii, whole
from tmlang.backends.native.losses import Loss
from tmlang.backends.native.terrain import Terrain
from tmlang.backends.oracle import Oracle
from tmlang.backends.projection import placed, placements

Tensor = torch.Tensor

_BATCH = 128
"""Examples of one gradient."""
_LOOKS = 10
"""Times that the fit is looked at on all of its examples; the best look is kept."""
_LEAST = 4
"""Looks at a fitting example that a search takes: for the place, before the ascent, for one step, behind it."""
_SPARE = 6
"""Looks that must be left for one in between."""
_ENDLESS = 1 << 62


@dataclass(frozen=True, eq=False)
class Shared:
    """``value`` (1, size): the content, or the change; ``part`` (1, size): where it applies."""

    value: Tensor
    part: Tensor
    content: bool

    def on(self, terrain: Terrain) -> Tensor:
        """The inputs (n, *shape) that it makes of the originals of ``terrain``."""
        region = terrain.region
        moved = self.value if self.content else region.centre + self.value
        inside = torch.maximum(torch.minimum(moved.expand_as(region.centre), region.upper), region.lower)
        return terrain.shown(torch.where(self.part, inside, region.centre))


def shared_search(job: Job, loss: Loss, places: int) -> Candidates:
    """The best of every branch and of ``places`` placements, on the set that it is fitted on; every unit gets it.

    Raises :class:`BackendRefusal` without such a set, and under a query limit that leaves no search its
    ``_LEAST`` queries about every fitting example: all searches share the limit.
    """
    if job.fit is None or not len(job.fit.x):
        raise BackendRefusal("there are no examples that a universal perturbation could be fitted on")
    asked = [(branch, rank) for branch in range(len(job.sets.branches)) for rank in range(places)]
    fits = []
    for done, (branch, rank) in enumerate(asked):
        left = _left(job.fit.oracle)
        kept = left - left // (len(asked) - done) if left < _ENDLESS else 0
        if left - kept >= _LEAST:
            fits.append(_Fitting(job, branch, rank, loss, kept).best())
    if not fits:
        raise BackendRefusal(f"every search takes {_LEAST} queries about each fitting example, and fewer are left")
    _, branch, shared = max(fits, key=lambda found: found[0])
    x = shared.on(Terrain.of(job.sets, branch, job.x.dtype, placed=True))
    moved = (x != job.x).flatten(1).any(dim=1)
    late = job.deadline is not None and time.monotonic() >= job.deadline
    return Candidates(x, moved, ("timeout" if late else None,) * len(x))


def _left(oracle: Oracle) -> int:
    """Looks at every fitting example that can still be paid for."""
    left = oracle.remaining()
    return _ENDLESS if left is None else int(left.min()) // oracle.rows


class _Fitting:
    """One ascent in one branch, at the placement of this rank by what the first gradients promise. ``kept``: the looks
    that others are left."""

    def __init__(self, job: Job, branch: int, rank: int, loss: Loss, kept: int) -> None:
        assert job.fit is not None
        self.job, self.fit, self.branch, self.loss, self.kept = job, job.fit, branch, loss, kept
        self.failure = Failure.of(self.fit.sets, self.fit.y, self.fit.target)
        self.terrain = Terrain.of(self.fit.sets, branch, job.x.dtype, placed=True)
        self.generator = torch.Generator().manual_seed((self.fit.seed + branch * 1009 + rank) % 2**63)
        found = job.sets.branches[branch]
        patches = [ball for ball in found.balls if isinstance(ball, PatchBall)]
        alone = len(found.balls) == len(patches) and set(found.rules) <= {"patch"}
        self.content = alone and (bool(patches) or "patch" in found.rules)
        self.ground = _ground(self.terrain, self.content, found.hull.radii, torch.from_numpy(found.hull.of))
        part = (self.terrain.region.lower < self.terrain.region.upper).any(dim=0, keepdim=True)
        start = torch.zeros_like(self.ground.region.centre)
        if self.content:
            draws = torch.rand(start.shape, generator=self.generator, dtype=start.dtype)
            start = torch.lerp(self.ground.region.lower, self.ground.region.upper, draws)
        self.shared = Shared(start, part, self.content)
        if patches:
            self.shared = replace(self.shared, part=part & self._place(patches[0], rank))

    def best(self) -> tuple[int, int, Shared]:
        """How many of the fitting examples fail, in which branch, under what."""
        steps = whole(self.job.arguments["steps"])
        step = in_radii(self.job.arguments["step_size"], self.ground)
        kept = (self._failing(), self.branch, self.shared)
        for k in range(1, steps + 1):
            if self.job.deadline is not None and time.monotonic() >= self.job.deadline:
                break
            left = _left(self.fit.oracle) - self.kept
            if left < 2:
                break
            ascent = self.ground.ascent(self.shared.value, self._gradient(self._some()))
            value = self.ground.project(self.shared.value + step * ascent)
            self.shared = replace(self.shared, value=value)
            if (k % max(1, steps // _LOOKS) == 0 and left >= _SPARE) or k == steps or left < 4:
                kept = max(kept, (self._failing(), self.branch, self.shared), key=lambda found: found[0])
        return kept

    def _some(self) -> Tensor:
        if len(self.fit.x) <= _BATCH:
            return torch.arange(len(self.fit.x))
        return torch.randperm(len(self.fit.x), generator=self.generator)[:_BATCH]

    def _gradient(self, units: Tensor) -> Tensor:
        """The ascent of what has not failed yet, summed over the examples that are still free to move: (1, size)."""
        here = self.terrain.rows(units)
        shown = self.shared.on(here).detach().requires_grad_(True)
        seen = self.fit.oracle.observe(shown, units)
        target = None if self.fit.target is None else self.fit.target[units]
        value = self.loss(seen, self.fit.y[units], target)
        standing = ~self.failure.rows(units)(seen.decisions, shown)
        if not bool(standing.any()):
            return torch.zeros_like(self.shared.value)
        gradient = torch.autograd.grad(value[standing].sum(), shown)[0].flatten(1)
        moved = self.shared.value if self.content else here.region.centre + self.shared.value
        room = torch.where(gradient > 0, moved < here.region.upper, moved > here.region.lower)
        return torch.where(room & self.shared.part, gradient, 0.0).sum(dim=0, keepdim=True)

    def _failing(self) -> int:
        count = 0
        for units in torch.arange(len(self.fit.x)).split(_BATCH):  # type: ignore[no-untyped-call]
            x = self.shared.on(self.terrain.rows(units))
            count += int(self.failure.rows(units)(self.fit.oracle.decisions(x, units), x).sum())
        return count

    def _place(self, ball: PatchBall, rank: int) -> Tensor:
        """Where the stamp lies at the placement that promises ``rank``-th most, over the first examples."""
        units = self._some()
        shown = self.fit.x[units].clone().requires_grad_(True)
        target = None if self.fit.target is None else self.fit.target[units]
        value = self.loss(self.fit.oracle.observe(shown, units), self.fit.y[units], target)
        gradient = torch.autograd.grad(value.sum(), shown)[0].flatten(1)
        gains = placements(ball, gradient.abs().sum(dim=0, keepdim=True))
        order = gains.flatten(1).argsort(dim=1, descending=True)[0]
        return placed(ball, order[rank % len(order)][None], gains.shape[2])


def _ground(terrain: Terrain, content: bool, radii: tuple[object, ...], of: Tensor) -> Terrain:
    """Where the shared value walks: contents over the domain, or changes over the ball around zero."""
    one = terrain.rows(torch.zeros(1, dtype=torch.int64))
    low, high = (torch.from_numpy(end)[None].to(one.radius.dtype) for end in terrain.ends)
    if content:
        half = (high - low) / 2
        region = replace(one.region, centre=(low + high) / 2, lower=low, upper=high, balls=())
        return replace(one, region=region, geometry="linf", radius=half, length=half)
    reach = high - low
    for index, radius in enumerate(radii):
        if radius is not None:
            reach = torch.where(of == index, reach.clamp(max=float(radius)), reach)  # type: ignore[arg-type]
    region = replace(one.region, centre=torch.zeros_like(reach), lower=-reach, upper=reach)
    return replace(one, region=region)
