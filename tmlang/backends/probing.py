"""The search that stands in front of every proof: a few members of the set, and ascent towards a failure.

No substitute for an attack: it is there so that an ``unsat`` or a bound that a cheap look contradicts is never told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from tmlang.backends.contract import Job
from tmlang.backends.polyhedra import Question

Tensor = torch.Tensor
Height = Callable[[Tensor], Tensor]
"""Of points (n, *shape): how high each lies (n,)."""

DRAWS = 256
STARTS = 16
STEPS = 30


def probes(job: Job, unit: int, draws: int = 4) -> Tensor:
    """(n, *shape) float64 points of a unit's box: its original, two corners, uniform draws."""
    low, high = _box(job, unit)
    uniform = low + (high - low) * torch.rand(draws, *low.shape, dtype=torch.float64)
    return torch.cat([job.x[unit : unit + 1].double(), low[None], high[None], uniform])


def falsify(asked: Question, job: Job, unit: int) -> np.ndarray | None:
    """A member (*shape) of a unit's set whose scores, in float64, lie in a polyhedron of F; ``None`` without one."""
    best = None
    for at in _ascent(job, unit, lambda x: _slack(asked, unit, x)):
        if (best is None or bool((_slack(asked, unit, at) > 0).any())) and (
            found := member(asked, job, unit, at)
        ) is not None:
            return found
        best = at
    assert best is not None
    return member(asked, job, unit, best, closed=True)


def ascend(job: Job, unit: int, height: Height) -> Tensor:
    """Points (n, *shape) of a unit's box where ``height`` is great: the original, and where ascent begins and ends."""
    stages = list(_ascent(job, unit, height))
    return torch.cat([job.x[unit : unit + 1].double(), stages[0], stages[-1]])


def _ascent(job: Job, unit: int, height: Height) -> Iterator[Tensor]:
    """The best of some points, and where they stand after every step.

    Ascent is by signs of gradients in steps that are shares of the box, so the units of the coordinates do not matter.
    """
    low, high = _box(job, unit)
    x = probes(job, unit, DRAWS)
    best = x[height(x).topk(min(STARTS, len(x))).indices]
    yield best
    for k in range(STEPS):
        with torch.enable_grad():
            at = best.detach().requires_grad_()
            (slope,) = torch.autograd.grad(height(at).sum(), at)
        share = 0.25 * (1 - k / STEPS) ** 2
        moved = (best + share * (high - low) * slope.sign()).clamp(min=low, max=high)
        if moved.equal(best):  # every slope points out of the box: shorter steps would not leave it either
            return
        best = moved
        yield best


def inside(job: Job, unit: int, x: Tensor) -> Tensor:
    """Those of ``x`` (n, *shape) that can be moved into a unit's set, moved there: (m, *shape) float64."""
    sets = job.sets.rows([unit] * len(x))
    moved = sets.project(x.numpy().astype(sets.originals.dtype))
    return torch.from_numpy(moved.x[moved.inside]).double()


def _box(job: Job, unit: int) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(job.sets.lower[unit]).double(), torch.from_numpy(job.sets.upper[unit]).double()


def _slack(asked: Question, unit: int, x: Tensor) -> Tensor:
    return asked.slack(unit, asked.folded.scores(x))


def member(asked: Question, job: Job, unit: int, x: Tensor, *, closed: bool = False) -> np.ndarray | None:
    """The first of ``x`` that still fails when it is moved into the set. ``closed``: the edge of F counts as well,
    where only the replay can tell."""
    sets = job.sets.rows([unit] * len(x))
    moved = sets.project(x.numpy().astype(sets.originals.dtype))
    inside = torch.from_numpy(moved.x).double()
    slack = _slack(asked, unit, inside)
    fails = ((slack >= 0) if closed else (slack > 0)) & torch.from_numpy(moved.inside)
    at = torch.nonzero(fails).flatten()
    return moved.x[int(at[0])] if len(at) else None
