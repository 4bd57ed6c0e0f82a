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
    from tmlang.backends.transforms import TransformSet

Values = NDArray[Any]
Parameters = NDArray[np.float64]
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
        found = listed(sets, row, limit)
        size = None if found is None else len(found[0])
    return None if size is None or size > limit else size


def listed(sets: ThreatSet, row: int, limit: int) -> tuple[Values, Parameters] | None:
    """All members of one example's set, each once: (|S|, *shape), and the parameters that make them, (|S|, P), NaN
    where none do; ``None`` beyond ``limit`` members (or values of parameters), or where one of either is real."""
    found: list[Values] = [np.empty((0, *sets.space.shape), sets.domain.dtype)]
    made: list[Parameters] = [np.empty((0, sets.parameters))]
    for branch, own in enumerate(sets.branches):
        if own.transform is not None:
            pictures = _pictures(sets, row, branch, own.transform, limit)
            if pictures is None:
                return None
            found.append(pictures[0])
            made.append(pictures[1])
    rest = sets.without_pictures
    blocks = () if rest is None else members(rest, row)
    if blocks is None:
        return None
    seen = sum(map(len, found))
    for block in blocks:
        found.append(block)
        made.append(np.full((len(block), sets.parameters), np.nan))
        if sum(map(len, found)) - seen > limit:
            return None
    x, theta = np.concatenate(found), np.concatenate(made)
    if seen:
        _, first = np.unique(x.reshape(len(x), -1), axis=0, return_index=True)
        x, theta = x[np.sort(first)], theta[np.sort(first)]
    return None if len(x) > limit else (x, theta)


def _pictures(
    sets: ThreatSet, row: int, branch: int, transform: TransformSet, limit: int
) -> tuple[Values, Parameters] | None:
    """The pictures of one branch, each once, with parameters that make them; ``None`` where more than ``limit``
    parameters are allowed, or one has no grid."""
    points = transform.points(limit)
    if points is None:
        return None
    x = transform.made(sets.originals[[row] * len(points)].reshape(len(points), -1), points)
    _, first = np.unique(x, axis=0, return_index=True)
    kept = np.sort(first)
    x, theta = x[kept].reshape(-1, *sets.space.shape), transform.among(points[kept])
    inside = sets.rows([row] * len(kept)).inside_branches(x, theta)[branch]
    return x[inside], theta[inside]


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
    good = part.beside(branch, block)
    known = frozenset(name for j, name in enumerate(sets.space.features) if j not in moving)
    for relation in decided(sets.space.relations, known):
        good &= part.obeys(relation, change.x, change.k, good)
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
