"""Every change of a single coordinate, from decisions alone: what a change of one feature or one value of a picture can
do, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.inward import rounded
from tmlang.backends.native.arguments import whole
from tmlang.backends.native.coordinates import one_of_each
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.threatset import ThreatSet

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Values = NDArray[Any]

_ROWS = 512
"""Inputs that are asked about in one pass."""


class ExhaustiveCoordinates:
    """``native.exhaustive_coordinates``: every admissible level of every coordinate on a lattice and every category,
    ``values`` from end to end of a real one, all else as it was. Of a one-hot group the change chooses another."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        hunt, values = Hunt(job), whole(job.arguments["values"])
        for unit in hunt.open().tolist():
            at = torch.tensor([unit])
            for block in changed_once(job.sets, unit, values):
                if not _all_asked(hunt, at, block):
                    break
        return hunt.result()


def _all_asked(hunt: Hunt, unit: torch.Tensor, block: Values) -> bool:
    """Ask about the rows of ``block`` (n, size) as far as the unit can pay; whether the search goes on."""
    left = hunt.job.oracle.remaining()
    payable = len(block) if left is None else min(len(block), int(left[unit]))
    if not bool(hunt.going(unit).all()):
        return False
    x = torch.from_numpy(block[:payable]).to(hunt.job.x.dtype).reshape(-1, *hunt.job.x.shape[1:])
    hunt.ask(x, unit.expand(payable))
    return bool(hunt.going(unit).all())


def changed_once(sets: ThreatSet, unit: int, values: int) -> Iterator[Values]:
    """The members of one set that differ from its original in one coordinate (in a one-hot group: in its choice), in
    blocks (n, size), none of them empty."""
    one = sets.rows([unit])
    start = one.originals.reshape(-1)
    lower, upper = one.lower.reshape(-1), one.upper.reshape(-1)
    pending: list[Values] = []
    for j in np.flatnonzero(lower < upper):
        ways = _values(sets, int(j), lower[j], upper[j], values)
        tried = np.repeat(start[None].astype(np.float64), len(ways), axis=0)
        tried[:, j] = ways
        pending.append(one_of_each(sets, tried, np.full(len(ways), j)))
        if sum(map(len, pending)) >= _ROWS:
            yield from _members(sets, unit, np.concatenate(pending))
            pending = []
    if pending:
        yield from _members(sets, unit, np.concatenate(pending))


def _values(sets: ThreatSet, j: int, low: float, high: float, values: int) -> Values:
    """What coordinate ``j`` may be, the ends first: there a change does most."""
    lattice = sets.domain.lattice_at(j)
    if lattice is None:
        inner = np.linspace(float(low), float(high), max(2, values))
    else:
        (first, last), _ = lattice.index(np.array([low, high]))
        inner = lattice.value(np.arange(first, last + 1)).astype(np.float64)
    order = np.argsort(-np.abs(inner - (inner[0] + inner[-1]) / 2), kind="stable")
    found: Values = inner[order]
    return found


def _members(sets: ThreatSet, unit: int, tried: Values) -> Iterator[Values]:
    part = sets.rows([unit] * len(tried))
    start = part.originals.reshape(tried.shape)
    x = rounded(part, tried, start.astype(np.float64))
    kept = x[part.inside(x.reshape(-1, *sets.space.shape)) & (x != start).any(axis=1)]
    for first in range(0, len(kept), _ROWS):
        yield kept[first : first + _ROWS]
