"""The book-keeping of a search: who is still open, what was found, who ran out of queries or time."""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.contract import BackendRefusal, Candidates, Job
from tmlang.backends.failure import Failure
from tmlang.backends.native.terrain import Terrain
from tmlang.backends.oracle import Seen

Tensor = torch.Tensor

_GOLDEN = 0x9E3779B97F4A7C15
"""Odd, so that the draws of a unit have different seeds."""
_GAMMA = np.uint64(_GOLDEN)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bits of each number, mixed (variant 13 of Stafford)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Hunt:
    """N units and a failing input of each: the first that was seen, or the nearest.

    A unit is open until it is closed (by its first failure, where any will do) or cannot pay for another row. A search
    asks :meth:`look` about rows of open units and goes on with what is left of them.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.failure = Failure.of(job.sets, job.y, job.target)
        self.x = job.x.clone()
        self.failed = torch.zeros(len(job.x), dtype=torch.bool)
        self.closed = torch.zeros_like(self.failed)
        self.late = False
        self.progressed: Tensor | None = None
        self._terrains: dict[int, Terrain] = {}

    def terrain(self, branch: int) -> Terrain:
        """The ground of one branch, for all units."""
        if branch not in self._terrains:
            self._terrains[branch] = Terrain.of(self.job.sets, branch, self.job.x.dtype)
        return self._terrains[branch]

    def branches_but_l1(self, who: str) -> list[int]:
        """The branches that ``who``, which searches no l1 sets, goes over; refused where there is none."""
        grounds = [self.terrain(b) for b in range(len(self.job.sets.branches))]
        found = [b for b, ground in enumerate(grounds) if ground.geometry != "l1" or ground.per_coordinate]
        if not found:
            raise BackendRefusal(f"{who} searches linf and l2 sets")
        return found

    def generators(self, units: Tensor, draw: int) -> list[torch.Generator]:
        """A fresh source of randomness for each unit, from its own seed and the number of the draw alone."""
        seeds = ((self.job.seeds[u] + draw * _GOLDEN) % 2**63 for u in units.tolist())
        return [torch.Generator().manual_seed(seed) for seed in seeds]

    def uniform(self, units: Tensor, draw: int, size: int) -> Tensor:
        """Numbers in (0, 1), (n, size) float64 and uniform on multiples of 2**-24: from each unit's own seed and the
        number of the draw alone, all at once (SplitMix64: Steele, Lea, Flood, OOPSLA 2014, figure 16)."""
        seeds = np.array([self.job.seeds[u] for u in units.tolist()], dtype=np.uint64)
        with np.errstate(over="ignore"):
            streams = _mixed(seeds + np.uint64(draw) * _GAMMA)[:, None]
            bits = _mixed(streams + np.arange(1, size + 1, dtype=np.uint64) * _GAMMA)
        return torch.from_numpy(((bits >> np.uint64(40)).astype(np.float64) + 0.5) * 2.0**-24)

    def open(self, rows: int = 1) -> Tensor:
        """The units (indices) that are open and can pay for ``rows`` more rows; none behind the deadline."""
        everyone = torch.arange(len(self.x))
        return everyone[self.going(everyone, rows)]

    def _pays(self, rows: int) -> Tensor:
        left = self.job.oracle.remaining()
        return torch.ones_like(self.failed) if left is None else left >= rows * self.job.oracle.rows

    def look(self, x: Tensor, units: Tensor) -> tuple[Seen, Tensor]:
        """What one pass shows of inputs (n, *shape) of ``units``, differentiable where ``x`` asks for it, and which of
        the rows may go on: (n,) bool, ``False`` for those that failed here, and for all behind the deadline."""
        seen, fails = self.see(x, units)
        self.note(x, units, fails)
        return seen, self.going(units)

    def ask(self, x: Tensor, units: Tensor) -> Tensor:
        """Like :meth:`look`, with decisions only: which of the rows may go on."""
        decided = self.job.oracle.decisions(x, units)
        self.note(x, units, self.failure.rows(units)(decided, x))
        return self.going(units)

    def see(self, x: Tensor, units: Tensor) -> tuple[Seen, Tensor]:
        """What one pass shows, and which rows fail (n,); nothing is noted."""
        seen = self.job.oracle.observe(x, units)
        return seen, self.failure.rows(units)(seen.decisions, x)

    def note(self, x: Tensor, units: Tensor, rows: Tensor, *, close: bool = True) -> None:
        """Keep the failing inputs ``x[rows]`` in place of what was kept of their units, which are then done, unless
        something nearer is still wanted (not ``close``)."""
        if bool(rows.any()):
            at = units[rows]
            self.x[at], self.failed[at], self.closed[at] = x.detach()[rows], True, close

    def going(self, units: Tensor, rows: int = 1) -> Tensor:
        """Which of ``units`` are open and can pay for ``rows`` more: (n,) bool, none behind the deadline."""
        if self.job.deadline is not None and time.monotonic() >= self.job.deadline:
            self.late = True
            return torch.zeros(len(units), dtype=torch.bool)
        open_ = ~self.closed[units]
        return open_ if self.job.oracle.limit is None else open_ & self._pays(rows)[units]

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
        return Candidates(x, offered, tuple(errors), self.progressed)

    def began(self) -> None:
        """A run starts that tells of its progress."""
        if self.progressed is None:
            self.progressed = torch.zeros_like(self.failed)

    def came_further(self, units: Tensor) -> None:
        """These units are beyond the start of their run."""
        if self.progressed is not None:
            self.progressed[units] = True

    def _settle(self, at: Tensor) -> None:
        projection = self.job.sets.rows(at.numpy()).project(self.x[at].numpy())
        inside = torch.from_numpy(projection.x).to(self.x.dtype)
        moved = (inside != self.x[at]).flatten(1).any(dim=1)
        self.x[at] = inside
        self.failed[at[moved]] = False
        again = at[moved & self._pays(1)[at]]
        if len(again):
            self.ask(self.x[again].clone(), again)


def likeliest(hunt: Hunt) -> Tensor:
    """The wrong classes of every unit, the likeliest at its original first: (N, K - 1), for one row of scores each."""
    job = hunt.job
    units = hunt.open()
    scores = torch.zeros(len(job.x), job.oracle.classes, dtype=torch.float64)
    if len(units):
        scores[units] = hunt.look(job.x[units], units)[0].scores.double()
    ranked = scores.scatter(1, job.y[:, None], -torch.inf).argsort(dim=1, descending=True)
    return ranked[:, :-1]
