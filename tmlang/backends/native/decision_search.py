"""Search along lines from decisions alone (RayS: Chen & Gu, KDD 2020, algorithm 3), in linf and l2 sets.

A unit follows one direction of signs; at each step the signs of one block are turned, on ever finer blocks, and the
turn is kept if the line fails at the least length known so far, which is then halved in on. Done as soon as a failure
lies inside the set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.native.arguments import whole
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.terrain import Terrain
from tmlang.meaning.threats import Anything

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

HALVINGS = 10


class DecisionSearch:
    """``native.decision_search``: ``steps`` lines in every branch."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        hunt = Hunt(job)
        free = Terrain.of(job.sets.allowing(Anything()), 0, job.x.dtype)
        for branch in hunt.branches_but_l1("native.decision_search"):
            units = hunt.open()
            if len(units):
                terrain = hunt.terrain(branch).rows(units)
                _Lines(hunt, terrain, free.rows(units), units, branch).go(whole(job.arguments["steps"]))
        return hunt.result()


class _Lines:
    """n units, each with its signs (n, size) and the least failing length along them in radii (``inf``: none yet)."""

    def __init__(self, hunt: Hunt, terrain: Terrain, free: Terrain, units: Tensor, draw: int) -> None:
        self.hunt, self.terrain, self.free, self.units = hunt, terrain, free, units
        size = terrain.region.centre.shape[1]
        draws = hunt.uniform(units, draw, size)
        self.signs = torch.where(draws < 0.5, -1.0, 1.0).to(terrain.region.centre.dtype)
        self.length = torch.full((len(units), 1), torch.inf, dtype=self.signs.dtype)

    def go(self, steps: int) -> None:
        for step in range(steps):
            if not len(self.units):
                return
            turned = self._proposal(step)
            reach = torch.where(self.length.isinf(), self._furthest(turned), self.length)
            everyone = torch.arange(len(self.units))
            better = everyone[self._fails(everyone, turned, reach)]
            self.signs[better] = turned[better]
            self.length[better] = self._halve_in(better, reach[better])
            self._drop()

    def _proposal(self, step: int) -> Tensor:
        """The signs with one block turned; in l2, where every coordinate costs, each block is also tried without."""
        size = self.signs.shape[1]
        if self.terrain.per_coordinate:
            return self.signs * turn(step, size)
        block = turn((step + 1) // 2, size)
        return self.signs * (block if step % 2 else block.clamp(min=0))

    def _halve_in(self, rows: Tensor, high: Tensor) -> Tensor:
        """The least failing length (n, 1) of ``rows`` below the failing ``high``; the radius itself is tried first."""
        low = torch.zeros_like(high)
        for halving in range(HALVINGS):
            open_ = self.hunt.going(self.units[rows])
            middle = torch.where((high > 1) & (halving == 0), 1.0, (low + high) / 2)
            asked = torch.nonzero(open_).flatten()
            if not len(asked):
                break
            fails = torch.zeros(len(rows), 1, dtype=torch.bool)
            fails[asked, 0] = self._fails(rows[asked], self.signs[rows[asked]], middle[asked])
            passes = open_[:, None] & ~fails
            high, low = torch.where(fails, middle, high), torch.where(passes, middle, low)
        return high

    def _fails(self, rows: Tensor, signs: Tensor, length: Tensor) -> Tensor:
        """Whether the points at ``length`` (n, 1) along ``signs`` (n, size) fail; within the radius they are noted."""
        free, ground = self.free.rows(rows), self.terrain.rows(rows)
        x = (free.region.centre + length * self._unit(rows, signs)).clamp(free.region.lower, free.region.upper)
        within = length <= 1
        x = torch.where(within, ground.project(x), x)
        shown, units = ground.shown(x), self.units[rows]
        fails = self.hunt.failure.rows(units)(self.hunt.job.oracle.decisions(shown, units), shown)
        self.hunt.note(shown, units, fails & within[:, 0])
        return fails

    def _unit(self, rows: Tensor, signs: Tensor) -> Tensor:
        """The step of length one radius along the signs of what may move."""
        region = self.free.region
        moving = torch.where(region.lower[rows] < region.upper[rows], signs, 0.0)
        if self.terrain.per_coordinate:
            return moving * self.terrain.radius
        length: Tensor = moving.norm(dim=1, keepdim=True)
        return moving * (self.terrain.radius / length.clamp(min=1))

    def _furthest(self, signs: Tensor) -> Tensor:
        """The length (n, 1) at which every coordinate has met the edge of the domain."""
        region = self.free.region
        unit = self._unit(torch.arange(len(self.units)), signs).abs()
        lengths = torch.where(unit > 0, (region.upper - region.lower) / unit, 0.0)
        return lengths.amax(dim=1, keepdim=True)

    def _drop(self) -> None:
        rows = torch.nonzero(self.hunt.going(self.units)).flatten()
        if len(rows) < len(self.units):
            self.units, self.signs, self.length = self.units[rows], self.signs[rows], self.length[rows]
            self.terrain, self.free = self.terrain.rows(rows), self.free.rows(rows)


def turn(step: int, size: int) -> Tensor:
    """-1 on the block that step ``step`` turns, 1 elsewhere: (1, size). Step 0 turns nothing; then come one block, two,
    four, … down to single coordinates, and over again."""
    signs = torch.ones(1, size)
    if step:
        levels = max(1, (size - 1).bit_length() + 1)
        position = (step - 1) % (2**levels - 1) + 1
        level = position.bit_length() - 1
        width = -(-size // 2**level)
        first = (position - 2**level) * width
        signs[:, first : first + width] = -1
    return signs
