"""Enumeration with pruning: boxes of lattice points are left out where CROWN bounds prove that nothing in them fails.

What is left is halved between two lattice points until it holds few inputs; these are listed and decided one by one
under the evaluator, as ``native.enumerate`` decides all of them (of the exact set: balls and relations are asked of
every listed input). What is listed is exact. What is left out was tried by nobody: it rests on the gap between the
bounds' arithmetic and the evaluator's, as every bound does, and where that is assumed the answer is a bound's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.answers import Answer, seconds
from tmlang.backends.contract import Job, Verdicts
from tmlang.backends.decision import is_open, why
from tmlang.backends.failure import Failure
from tmlang.backends.finite import Ranges, ranges_of
from tmlang.backends.native.enumerate import one_thread
from tmlang.backends.probing import falsify
from tmlang.backends.splitting import OPEN, Bounds, by_boxes, youngest

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor
Indices = NDArray[np.int64]

LEAF = 64
"""Inputs of a box that is listed rather than halved."""


class Pruned:
    """``auto_lirpa.enumerate``."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def certify(self, job: Job) -> Verdicts:
        tried: set[int] = set()
        told = by_boxes(job, lambda bounds: _Search(bounds, tried).unit)
        # No bound holds for inputs that were tried, and so no margin for the unit.
        margin = told.margin.clone()
        margin[sorted(tried)] = torch.nan
        return replace(told, margin=margin, sizes=tuple(_size(job, i) for i in range(len(job.x))))


def _told(proved: int, listed: int) -> str:
    """What a proved unit rests on. ``proved``: boxes that were left out."""
    if not proved:
        return f"all {listed} inputs tried"
    return f"{proved} {'box' if proved == 1 else 'boxes'} proved by bounds, {listed} inputs tried"


def _size(job: Job, unit: int) -> int:
    """|S| where it is a product; 0 where only a list would tell."""
    sets = job.sets
    own = sets.branches[0]
    if len(sets.branches) > 1 or own.balls or own.transform or sets.space.relations or sets.space.one_hot:
        return 0
    ranges = ranges_of(sets, unit, 0)
    return 0 if ranges is None else prod(len(values) for _, values in ranges)


@dataclass(frozen=True)
class _Grid:
    """The moving coordinates of a unit in one branch, and the values that each may take."""

    branch: int
    ranges: Ranges

    @property
    def start(self) -> tuple[Indices, Indices]:
        """The first and the last index of every coordinate: one box (1, m)."""
        last = np.array([[len(values) - 1 for _, values in self.ranges]], dtype=np.int64)
        return np.zeros_like(last), last

    def values(self, k: Indices) -> NDArray[Any]:
        """(n, m) values at indices (n, m)."""
        columns = [values[k[:, j]] for j, (_, values) in enumerate(self.ranges)]
        return np.stack(columns, axis=1) if columns else np.empty((len(k), 0))

    def inputs(self, original: NDArray[Any], k: Indices) -> NDArray[Any]:
        """(n, *shape) inputs at indices (n, m), the other coordinates as in the original."""
        x = np.repeat(original.reshape(1, -1), len(k), axis=0)
        x[:, [j for j, _ in self.ranges]] = self.values(k)
        return x.reshape(-1, *original.shape)


class _Search:
    """Of one batch. Adds the units of which inputs were tried to ``tried``."""

    def __init__(self, bounds: Bounds, tried: set[int]) -> None:
        self.bounds, self.job, self.tried = bounds, bounds.job, tried
        self.failure = Failure.of(self.job.sets, self.job.y, self.job.target)

    def unit(self, i: int) -> Answer:
        end = time.monotonic() + seconds(self.job)
        grids = []
        for branch in range(len(self.job.sets.branches)):
            ranges = ranges_of(self.job.sets, i, branch)
            if ranges is None:
                return Answer("unknown", "a real coordinate moves: the set is not finite")
            grids.append(_Grid(branch, ranges))
        witness = falsify(self.bounds.asked, self.job, i)
        if witness is not None and bool(self._decided(i, witness[None])[0].any()):
            return Answer("broken", None, witness)
        proved = listed = 0
        for grid in grids:
            answer, left_out, leaves = self._grid(i, grid, end)
            proved, listed = proved + left_out, listed + leaves
            if leaves:
                self.tried.add(i)
            if answer.word != "certified":
                return answer
        return Answer("certified", _told(proved, listed))

    def _grid(self, i: int, grid: _Grid, end: float) -> tuple[Answer, int, int]:
        """The answer for one branch, how many boxes were proved, and how many inputs decided one by one."""
        waiting = [grid.start]
        boxes = proved = listed = 0
        while waiting:
            if time.monotonic() >= end:
                return Answer("timeout", f"the time was up after {boxes} boxes and {listed} inputs"), proved, listed
            low, high, waiting = youngest(waiting, self.bounds.together, np.concatenate)
            low, high = self._within_balls(i, grid, low, high)
            if not len(low):
                continue
            boxes += len(low)
            original = self.job.sets.originals[i]
            ends = [torch.from_numpy(grid.inputs(original, k)).double() for k in (low, high)]
            open_ = self.bounds.look(i, *ends)[0].numpy()
            proved += int((~open_).sum())
            low, high = low[open_], high[open_]
            few = np.log2(high - low + 1.0).sum(axis=1) <= np.log2(LEAF)
            for a, b in zip(low[few], high[few], strict=True):
                answer, count = self._listed(i, grid, a, b)
                listed += count
                if answer is not None:
                    return answer, proved, listed
            if not few.all():
                waiting.append(self._halved(i, grid, low[~few], high[~few]))
            if sum(len(a) for a, _ in waiting) > OPEN:
                return Answer("unknown", f"too many boxes are open after {boxes}"), proved, listed
        return Answer("certified"), proved, listed

    def _within_balls(self, i: int, grid: _Grid, low: Indices, high: Indices) -> tuple[Indices, Indices]:
        """The boxes that reach into the balls of the branch: every distance is least at the point of the box that is,
        coordinate by coordinate, nearest to the original."""
        start = self.job.sets.originals[i]
        own = np.array([int(np.searchsorted(v, start.reshape(-1)[j])) for j, v in grid.ranges], dtype=np.int64)
        nearest = grid.inputs(start, np.clip(own, low, high)).reshape(len(low), -1)
        near = self.job.sets.rows([i] * len(nearest)).beside(grid.branch, nearest)
        return low[near], high[near]

    def _listed(self, i: int, grid: _Grid, low: Indices, high: Indices) -> tuple[Answer | None, int]:
        """Every member of the set in one box, decided alone: what ends the unit, or ``None``; and how many."""
        k = list(product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))))
        x = grid.inputs(self.job.sets.originals[i], np.array(k, dtype=np.int64).reshape(len(k), len(low)))
        x = x[self.job.sets.rows([i] * len(x)).inside_branches(x)[grid.branch]]
        if not len(x):
            return None, 0
        fails, decided = self._decided(i, x)
        if bool(fails.any()):
            return Answer("broken", None, x[int(fails.nonzero()[0])]), len(x)
        if bool(is_open(decided).any()):
            one = int(is_open(decided).nonzero()[0])
            return Answer("error", why(int(decided[one])), x[one]), len(x)
        return None, len(x)

    def _decided(self, i: int, x: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Whether inputs (n, *shape) fail, and their decisions, each alone as the evaluator does it."""
        inputs, units = torch.from_numpy(np.ascontiguousarray(x)), torch.full((len(x),), i)
        with one_thread():
            decided = self.job.oracle.decisions(inputs, units, alone=True)
        return self.failure.rows(units)(decided, inputs), decided

    def _halved(self, i: int, grid: _Grid, low: Indices, high: Indices) -> tuple[Indices, Indices]:
        """Both halves of every box, cut across the coordinate along which the failing side can gain most."""
        original = self.job.sets.originals[i]
        ends = [torch.from_numpy(grid.inputs(original, k)).double() for k in (low, high)]
        steep = self.bounds.slope(i, (ends[0] + ends[1]) / 2).flatten(1).abs()[:, [j for j, _ in grid.ranges]].numpy()
        width = grid.values(high) - grid.values(low)
        gain = width * (steep + 1e-3 * steep.max(axis=1, keepdims=True)) + 1e-12 * (high - low)
        axis = np.where(high > low, gain, -1.0).argmax(axis=1)
        rows = np.arange(len(low))
        left, right = high.copy(), low.copy()
        left[rows, axis] = (low[rows, axis] + high[rows, axis]) // 2
        right[rows, axis] = left[rows, axis] + 1
        return np.concatenate([low, right]), np.concatenate([left, high])
