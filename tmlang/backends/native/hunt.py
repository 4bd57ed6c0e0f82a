"""The book-keeping of a search: who is still open, what was found, who ran out of queries or time."""

from __future__ import annotations

import time

import torch

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.failure import Failure
from tmlang.backends.native.terrain import Terrain

Tensor = torch.Tensor

_GOLDEN = 0x9E3779B97F4A7C15
"""Odd, so that the draws of a unit have different seeds."""


class Hunt:
    """N units and the first failing input that was seen of each.

    A unit is open until it has failed or cannot pay for another row. A search asks :meth:`look` about rows of open
    units and goes on with what is left of them.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.failure = Failure.of(job.sets, job.y, job.target)
        self.x = job.x.clone()
        self.failed = torch.zeros(len(job.x), dtype=torch.bool)
        self.late = False
        self._terrains: dict[int, Terrain] = {}

    def terrain(self, branch: int) -> Terrain:
        """The ground of one branch, for all units."""
        if branch not in self._terrains:
            self._terrains[branch] = Terrain.of(self.job.sets, branch, self.job.x.dtype)
        return self._terrains[branch]

    def generators(self, units: Tensor, draw: int) -> list[torch.Generator]:
        """A fresh source of randomness for each unit, from its own seed and the number of the draw alone."""
        seeds = ((self.job.seeds[u] + draw * _GOLDEN) % 2**63 for u in units.tolist())
        return [torch.Generator().manual_seed(seed) for seed in seeds]

    def open(self, rows: int = 1) -> Tensor:
        """The units (indices) that are open and can pay for ``rows`` more rows; none behind the deadline."""
        if self.job.deadline is not None and time.monotonic() >= self.job.deadline:
            self.late = True
            return torch.empty(0, dtype=torch.int64)
        return torch.nonzero(~self.failed & self._pays(rows)).flatten()

    def _pays(self, rows: int) -> Tensor:
        left = self.job.oracle.remaining()
        return torch.ones_like(self.failed) if left is None else left >= rows * self.job.oracle.rows

    def look(self, x: Tensor, units: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (n, K) of inputs (n, *shape) of ``units``, differentiable where ``x`` asks for it, and which of the
        rows may go on: (n,) bool, ``False`` for those that failed here, and for all behind the deadline."""
        scores, decided = self.job.oracle.observe(x, units)
        return scores, self._noted(x, decided, units)

    def ask(self, x: Tensor, units: Tensor) -> Tensor:
        """Like :meth:`look`, with decisions only: which of the rows may go on."""
        return self._noted(x, self.job.oracle.decisions(x, units), units)

    def _noted(self, x: Tensor, decided: Tensor, units: Tensor) -> Tensor:
        fails = self.failure.rows(units)(decided, x)
        if bool(fails.any()):
            at = units[fails]
            self.x[at], self.failed[at] = x.detach()[fails], True
        if self.job.deadline is not None and time.monotonic() >= self.job.deadline:
            self.late = True
            return torch.zeros_like(fails)
        return ~fails & self._pays(1)[units]

    def result(self) -> Candidates:
        """What failed, inside its set: an input that the projection moved is asked about once more."""
        errors: list[str | None] = [None] * len(self.x)
        if self.late:
            errors = [None if failed else "timeout" for failed in self.failed.tolist()]
        at = torch.nonzero(self.failed).flatten()
        if len(at):
            self._settle(at)
        offered = self.failed.clone()
        x = torch.where(offered.reshape(-1, *[1] * (self.x.dim() - 1)), self.x, self.job.x)
        return Candidates(x, offered, tuple(errors))

    def _settle(self, at: Tensor) -> None:
        projection = self.job.sets.rows(at.numpy()).project(self.x[at].numpy())
        inside = torch.from_numpy(projection.x).to(self.x.dtype)
        moved = (inside != self.x[at]).flatten(1).any(dim=1)
        self.x[at] = inside
        self.failed[at[moved]] = False
        again = at[moved & self._pays(1)[at]]
        if len(again):
            self.ask(self.x[again].clone(), again)
