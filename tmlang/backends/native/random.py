"""Random search: members of the set drawn blindly, from decisions alone. Where it finds more, gradients mislead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.inward import rounded
from tmlang.backends.membership import Ball, CountBall, PatchBall
from tmlang.backends.native.arguments import whole
from tmlang.backends.native.coupled import broken, mended
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.threatset import ThreatSet

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Values = NDArray[Any]

_BLOCK = 16
"""Members of one unit that are asked about in one pass."""
_TRIES = 8
"""Draws from the box that are thrown away before a ball is drawn from by its own law."""


class Random:
    """``native.random``: ``draws`` members of every set, the branch of a union drawn first.

    Uniform over the branch where one of a few uniform draws from its box is a member (boxes always, small balls). Else
    uniform in its first ball, and what then leaves the domain, a relation or another ball is projected: such draws
    gather at the edge.
    """

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        hunt, left = Hunt(job), whole(job.arguments["draws"])
        sources = [np.random.default_rng((seed, 1)) for seed in job.seeds]
        while left > 0:
            units = hunt.open()
            if not len(units):
                break
            rows = min(_BLOCK, left, *([] if job.oracle.limit is None else [_fewest(job, units)]))
            of = units.repeat_interleave(rows)
            x = drawn(job.sets.rows(of.numpy()), [sources[u] for u in of.tolist()])
            hunt.ask(torch.from_numpy(x).to(job.x.dtype), of)
            left -= rows
        return hunt.result()


def _fewest(job: Job, units: torch.Tensor) -> int:
    left = job.oracle.remaining()
    assert left is not None
    return max(1, int(left[units].min()))


def drawn(sets: ThreatSet, sources: list[np.random.Generator]) -> Values:
    """One random member of every set (N, *shape), each from its own source."""
    result = sets.originals.copy()
    branch = np.array([source.integers(len(sets.branches)) for source in sources])
    left = np.arange(len(sets))
    for _ in range(_TRIES):
        here = sets.rows(left)
        own = [sources[i] for i in left]
        tried = _rounded(here, _obeying(here, _from_boxes(here, branch[left], own), own))
        inside = here.inside_branches(tried)[branch[left], np.arange(len(left))]
        result[left[inside]] = tried[inside]
        left = left[~inside]
        if not len(left):
            return result
    moved = np.stack([_from_ball(sets.rows([int(i)]), int(branch[i]), sources[i]) for i in left])
    result[left] = sets.rows(left).project(moved.reshape(-1, *sets.space.shape)).x
    return result


def _obeying(sets: ThreatSet, x: Values, sources: list[np.random.Generator]) -> Values:
    """``x`` (N, size) with a feature drawn for each relation, which gives way until it holds."""
    if not sets.space.relations:
        return x
    snapped = _rounded(sets, x).reshape(x.shape)
    order = np.stack([source.permutation(x.shape[1]) for source in sources]).astype(np.float64)
    wrong = broken(sets, snapped)
    return np.where(wrong[:, None], mended(sets, snapped, np.zeros(x.shape, np.bool_), order), x)


def _rounded(sets: ThreatSet, moved: Values) -> Values:
    return rounded(sets, moved, sets.originals.reshape(moved.shape).astype(np.float64)).reshape(sets.originals.shape)


def _from_boxes(sets: ThreatSet, branch: NDArray[np.intp], sources: list[np.random.Generator]) -> Values:
    """A uniform point of the box of the drawn branch (N, size); on lattices every level is as likely."""
    boxes = [sets.branch_box(b) for b in range(len(sets.branches))]
    low, high = (np.stack([boxes[b][end][i] for i, b in enumerate(branch)]).astype(np.float64) for end in (0, 1))
    share = np.stack([source.random(low.shape[1]) for source in sources])
    for columns, lattice, _ in sets.domain.groups:
        if lattice is not None:
            half = np.where(low[:, columns] < high[:, columns], float(lattice.step) / 2, 0.0)
            low[:, columns] -= half * (1 - 2.0**-20)
            high[:, columns] += half * (1 - 2.0**-20)
    return low + share * (high - low)


def _from_ball(one: ThreatSet, branch: int, source: np.random.Generator) -> Values:
    """A uniform point of the first ball of ``branch``, within its box (size,)."""
    low, high = (end[0].astype(np.float64) for end in one.branch_box(branch))
    start = one.originals.reshape(-1).astype(np.float64)
    ball = one.branches[branch].balls[0] if one.branches[branch].balls else None
    if ball is None or isinstance(ball, (CountBall, PatchBall)):
        moved = low + source.random(len(low)) * (high - low)
        return moved if ball is None else np.where(_place(ball, low < high, source), moved, start)
    free = np.flatnonzero(low < high)
    weights = np.ones(len(low)) if ball.weights is None else _weights(ball.weights, len(low))
    free = free[weights[free] > 0]
    size = source.standard_normal(len(free)) if ball.power == 2 else source.laplace(size=len(free))
    length = (weights[free] * np.abs(size) ** ball.power).sum() / float(ball.bound)
    start[free] += size * (source.random() ** (1 / max(1, len(free))) / length ** (1 / ball.power))
    return start


def _weights(given: Any, size: int) -> Values:
    weights = np.zeros(size)
    for j, weight in given.items():
        weights[j] = float(weight)
    return weights


def _place(ball: Ball, moving: NDArray[np.bool_], source: np.random.Generator) -> NDArray[np.bool_]:
    """Which coordinates (size,) change: a placement of the stamp, or ``most`` coordinates or pixels that may move."""
    if isinstance(ball, PatchBall):
        rows, columns = (ball.shape[axis] for axis in ball.axes[:2])
        at = source.integers(rows - ball.stamp.shape[0] + 1), source.integers(columns - ball.stamp.shape[1] + 1)
        return ball.region((int(at[0]), int(at[1]))).reshape(-1)
    assert isinstance(ball, CountBall)
    if ball.channel_axis is None:
        chosen = np.zeros(len(moving), np.bool_)
        chosen[source.permutation(np.flatnonzero(moving))[: ball.most]] = True
        return chosen
    able = moving.reshape(ball.shape).any(axis=ball.channel_axis)
    pixels = np.zeros(able.size, np.bool_)
    pixels[source.permutation(np.flatnonzero(able))[: ball.most]] = True
    return np.broadcast_to(np.expand_dims(pixels.reshape(able.shape), ball.channel_axis), ball.shape).reshape(-1)
