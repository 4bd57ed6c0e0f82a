"""Finite sets: how many inputs, and all of them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.relations import decided

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Values = NDArray[Any]
Flags = NDArray[np.bool_]

_BLOCK = 1 << 22
"""Numbers in a block of partial inputs."""


def count(sets: ThreatSet, row: int, limit: int) -> int | None:
    """|S| of one example, exact; ``None`` beyond ``limit`` or with a moving real coordinate. A box of a single branch
    is multiplied out, everything else is listed."""
    branch = sets.branches[0]
    if len(sets.branches) == 1 and not (branch.sets or sets.space.relations or sets.space.one_hot):
        ranges = ranges_of(sets, row, 0)
        size = None if ranges is None else prod(len(values) for _, values in ranges)
    else:
        listed = enumerate_members(sets, row, limit)
        size = None if listed is None else len(listed)
    return None if size is None or size > limit else size


def enumerate_members(sets: ThreatSet, row: int, limit: int) -> Values | None:
    """All members of one example's set, each once: (|S|, *shape); ``None`` beyond ``limit``."""
    if sets.transform is not None:
        pictures = made_members(sets, row, limit)
        return None if pictures is None else pictures[0]
    found: list[Values] = []
    blocks = members(sets, row)
    if blocks is None:
        return None
    for block in blocks:
        found.append(block)
        if sum(map(len, found)) > limit:
            return None
    return np.concatenate([np.empty((0, *sets.space.shape), sets.domain.dtype), *found])


def made_members(sets: ThreatSet, row: int, limit: int) -> tuple[Values, Values] | None:
    """The pictures (|S|, *shape) of one example that a transform whose parameters lie on grids makes, each once, with
    parameters (|S|, p) that make it; ``None`` where more than ``limit`` parameters are allowed, in a union, or without
    a grid. Pictures that an intersection or a mask leaves out are not among them."""
    transform = sets.transform
    points = None if transform is None or len(sets.branches) > 1 else transform.points(limit)
    if transform is None or points is None:
        return None
    part = sets.rows([row] * len(points))
    x = transform.made(part.originals.reshape(len(points), -1), points).reshape(-1, *sets.space.shape)
    _, first = np.unique(x.reshape(len(x), -1), axis=0, return_index=True)
    kept = np.sort(first)[part.inside(x, points)[np.sort(first)]]
    return x[kept], points[kept]


def members(sets: ThreatSet, row: int) -> Iterator[Values] | None:
    """The members of one example's set in blocks (n, *shape), each once, or ``None`` when a real coordinate moves.

    Inputs are built coordinate by coordinate from the original. What is not set yet is unchanged, so a partial input
    that already leaves a ball is dropped with all that would come of it: distances only grow.
    """
    ranges = [ranges_of(sets, row, branch) for branch in range(len(sets.branches))]
    if any(r is None for r in ranges):
        return None
    return _all_branches(sets, row, [r for r in ranges if r is not None])


Ranges = list[tuple[int, Values]]


def _all_branches(sets: ThreatSet, row: int, ranges: list[Ranges]) -> Iterator[Values]:
    for branch, own in enumerate(ranges):
        for block in _of_branch(sets, row, branch, own):
            part = sets.rows([row] * len(block))
            x = block.reshape(-1, *sets.space.shape)
            inside = part.inside_branches(x)
            yield x[inside[branch] & ~inside[:branch].any(axis=0)]


def _of_branch(sets: ThreatSet, row: int, branch: int, ranges: Ranges) -> Iterator[Values]:
    """Depth first over blocks of partial inputs, so that memory stays bounded."""
    start = sets.originals[row].reshape(1, -1)
    most = max(1, _BLOCK // start.shape[1])
    moving = {j for j, _ in ranges}
    pending = [(0, start)]
    while pending:
        depth, block = pending.pop()
        if depth == len(ranges):
            yield block
            continue
        j, values = ranges[depth]
        grown = np.repeat(block, len(values), axis=0)
        grown[:, j] = np.tile(values, len(block))
        moving_after = moving - {c for c, _ in ranges[: depth + 1]}
        grown = grown[_may_grow(sets, row, branch, grown, moving_after)]
        pending += [(depth + 1, grown[i : i + most]) for i in range(0, len(grown), most)]


def _may_grow(sets: ThreatSet, row: int, branch: int, block: Values, moving: set[int]) -> Flags:
    """Whether partial inputs are still in the balls and obey the relations between coordinates that are set."""
    part = sets.rows([row] * len(block))
    change = part.change(block)
    good = within_balls(sets, row, branch, block)
    known = frozenset(name for j, name in enumerate(sets.space.features) if j not in moving)
    for relation in decided(sets.space.relations, known):
        good &= part.obeys(relation, change.x, change.k, good)
    return good


def within_balls(sets: ThreatSet, row: int, branch: int, block: Values) -> Flags:
    """Whether inputs ``block`` (n, size) lie in the balls of a branch, whatever else they break."""
    change = sets.rows([row] * len(block)).change(block)
    good: Flags = np.ones(len(block), np.bool_)
    for ball in sets.branches[branch].balls:
        good &= ball.holds(change)
    return good


def ranges_of(sets: ThreatSet, row: int, branch: int) -> Ranges | None:
    """The coordinates that move and the values that each may take, ascending; ``None`` when one of them is real."""
    own = sets.rows([row])
    lower, upper = (end[0] for end in own.branch_box(branch))
    ranges = []
    for j in np.flatnonzero(lower != upper):
        lattice = sets.domain.lattice_at(int(j))
        if lattice is None:
            return None
        (low, high), _ = lattice.index(np.array([lower[j], upper[j]]))
        ranges.append((int(j), lattice.value(np.arange(low, high + 1))))
    return ranges
