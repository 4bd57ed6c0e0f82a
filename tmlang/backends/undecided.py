"""Allowed inputs without a decision that a search was shown: they are handed in, whatever the search makes of them.

Searches look for failures, and what decides nothing is none. So the door to the object keeps, of every unit, one input
on which it gave no class and no rejection; behind the search it is judged as a candidate is (EVIDENCE.md section 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from tmlang.backends.contract import Candidates

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Tensor = torch.Tensor

_STRANGERS = 16
"""Rows of one pass that belong to no unit in particular and are looked at."""


class Undecided:
    """One input of each of N units: the first that lies in its set, else the one nearest to the original.

    ``x`` (N, *shape), ``theta`` (N, p): the parameters that make it, under a transform; ``inside`` (N,): it is a
    member; ``away`` (N,): how far it is from the original in l2, infinite where there is none.
    """

    def __init__(self, sets: ThreatSet) -> None:
        self.sets = sets
        self.origin = torch.from_numpy(sets.originals)
        self.x = self.origin.clone()
        self.theta = torch.full((len(sets), sets.parameters), torch.nan, dtype=torch.float64)
        self.inside = torch.zeros(len(sets), dtype=torch.bool)
        self.away = torch.full((len(sets),), torch.inf, dtype=torch.float64)

    def unit(self, index: int) -> Undecided:
        """A view of one unit that keeps what it sees here."""
        own = object.__new__(Undecided)
        own.sets, at = self.sets.rows([index]), slice(index, index + 1)
        own.origin, own.x, own.theta = self.origin[at], self.x[at], self.theta[at]
        own.inside, own.away = self.inside[at], self.away[at]
        return own

    def note(self, x: Tensor, units: Tensor | None, theta: Tensor | None = None) -> None:
        """Keep inputs ``x`` (n, *shape) without a decision. ``units`` (n,): whose they are; without, each is looked
        for in the sets of all units."""
        x = x.detach()
        legible = x.flatten(1).isfinite().all(dim=1)
        if units is None:
            x = x[legible][:_STRANGERS].to(self.x.device)
            units = torch.arange(len(self.x)).repeat(len(x))
            x = x.repeat_interleave(len(self.x), dim=0)
        else:
            x, units = x[legible], units[legible]
            theta = None if theta is None else theta[legible]
        at = torch.nonzero(~self.inside[units] & (x != self.origin[units]).flatten(1).any(dim=1)).flatten()
        if len(at):
            self._keep(x[at].to(self.x.dtype), units[at], None if theta is None else theta[at])

    def _keep(self, x: Tensor, units: Tensor, theta: Tensor | None) -> None:
        made = None if theta is None else theta.numpy()
        member = [m.inside for m in self.sets.rows(units.numpy()).member(x.numpy(), made)]
        away = (x - self.origin[units]).flatten(1).double().norm(dim=1)
        for row, unit in enumerate(units.tolist()):
            nearer = bool(away[row] < self.away[unit]) and not self.sets.parameters
            if not self.inside[unit] and (member[row] or nearer):
                self.x[unit], self.away[unit], self.inside[unit] = x[row], away[row], member[row]
                if theta is not None:
                    self.theta[unit] = theta[row]

    def candidates(self, wanted: Tensor) -> Candidates | None:
        """What is kept of the ``wanted`` units (N,), inside their sets; ``None`` where that is nothing."""
        offered = wanted & self.away.isfinite()
        if not bool(offered.any()):
            return None
        x, outside = self.x.clone(), torch.nonzero(offered & ~self.inside).flatten()
        if len(outside):
            projection = self.sets.rows(outside.numpy()).project(x[outside].numpy())
            x[outside] = torch.from_numpy(np.ascontiguousarray(projection.x)).to(x.dtype)
            offered[outside] &= torch.from_numpy(projection.inside)
        return Candidates(x, offered, (None,) * len(x), theta=self.theta if self.theta.shape[1] else None)
