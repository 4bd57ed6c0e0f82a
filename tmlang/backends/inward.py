"""The inward projection: what is saved is a member, checked by the exact test (EVIDENCE.md section 2, last line)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tmlang.backends.projection import Region

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Values = NDArray[Any]
Flags = NDArray[np.bool_]

_HALVINGS = 16


def project_inward(sets: ThreatSet, x: Values) -> tuple[Values, Flags]:
    """Members near ``x`` (N, *shape) and whether one was found: the given input itself where it is a member, else the
    rounded projection onto the nearest branch, else the original if that is a member."""
    wanted = x.reshape(len(sets), -1)
    result = sets.originals.reshape(wanted.shape).copy()
    found = sets.inside(x)
    result[found] = wanted[found]
    rest = np.flatnonzero(~found & np.isfinite(wanted).all(axis=1))
    if len(rest):
        members, inside = _nearest(sets.rows(rest), wanted[rest].astype(np.float64))
        result[rest[inside]] = members[inside]
        found[rest] = inside
    return result.reshape(sets.originals.shape), found


def _nearest(sets: ThreatSet, wanted: Values) -> tuple[Values, Flags]:
    best = sets.originals.reshape(wanted.shape).copy()
    found = np.zeros(len(sets), np.bool_)
    distance = np.full(len(sets), np.inf)
    for branch in range(len(sets.branches)):
        target = Region.of(sets, branch, torch.float64).project(torch.from_numpy(wanted)).numpy()
        members, inside = _draw_back(sets, branch, target)
        away = np.where(inside, ((members.astype(np.float64) - wanted) ** 2).sum(axis=1), np.inf)
        better = away < distance
        best[better], distance[better] = members[better], away[better]
        found |= inside
    return best, found


def _draw_back(sets: ThreatSet, branch: int, target: Values) -> tuple[Values, Flags]:
    """Members on the segments from the originals to ``target``, as far out as the exact test allows.

    Along a segment every ball's distance grows, also after rounding, so the halving finds the furthest admissible point
    to one part in 2**16; under relations it still ends at a member, since the original (``t == 0``) is one.
    """
    start = sets.originals.reshape(target.shape).astype(np.float64)
    lower, upper = sets.branch_box(branch)

    def point(at: Values, t: Values) -> Values:
        moved = start[at] + t[:, None] * (target[at] - start[at])
        return np.clip(rounded(sets, moved, start[at]), lower[at], upper[at])

    everyone = np.arange(len(sets))
    low, high = np.zeros(len(sets)), np.ones(len(sets))
    best = sets.originals.reshape(target.shape).copy()
    found = sets.inside(sets.originals)
    for attempt in range(_HALVINGS + 2):
        at = everyone[high > low]
        if not len(at):
            break
        t = np.where(attempt == 0, 1.0, 1 - 2.0**-44 if attempt == 1 else (low[at] + high[at]) / 2)
        t = np.broadcast_to(t, len(at))
        tried = point(at, t)
        inside = sets.rows(at).inside(tried.reshape(-1, *sets.space.shape))
        best[at[inside]] = tried[inside]
        found[at[inside]] = True
        low[at[inside]] = t[inside] if attempt > 1 else 1.0
        high[at[~inside]] = t[~inside]
    return best, found


def rounded(sets: ThreatSet, moved: Values, start: Values) -> Values:
    """``moved`` (n, size) as values of the set's grid: towards ``start`` on real coordinates, the nearest level on
    lattices, the greatest entry of a one-hot group."""
    domain = sets.domain
    out = moved.astype(domain.grid).astype(np.float64)
    outward = np.abs(out - start) > np.abs(moved - start)
    back = np.nextafter(out.astype(domain.grid), start.astype(domain.grid))
    values = np.where(outward, back, out.astype(domain.grid)).astype(domain.dtype)
    for columns, lattice, _ in domain.groups:
        if lattice is not None:
            values[:, columns] = lattice.value(lattice.index(moved[:, columns])[0])
    for group in sets.space.one_hot:
        at = [sets.space.features.index(name) for name in group]
        values[:, at] = np.eye(len(at), dtype=domain.dtype)[moved[:, at].argmax(axis=1)]
    return values
