"""Relations that couple features: where one has moved, others are moved until the relations hold again.

Nothing is decided here: what comes out is rounded and tested for membership like every other proposal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.relations import excess, features_of
from tmlang.meaning.spaces import Relation

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Values = NDArray[Any]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_POINTS = 129
"""Values of a feature that are looked at together: all of a lattice that has no more."""
_HALVINGS = 60
_HOLDS = 1e-9
"""What a relation may be broken by in float64 and still hold in rationals."""


def broken(sets: ThreatSet, x: Values) -> Flags:
    """Which inputs (n, size) break a relation, as far as float64 tells."""
    columns = _columns(sets, x.astype(np.float64))
    found = [np.broadcast_to(excess(r, columns) > _HOLDS, (len(x),)) for r in sets.space.relations]
    return np.logical_or.reduce(found) if found else np.zeros(len(x), np.bool_)


def mended(sets: ThreatSet, x: Values, touched: Flags, priority: Floats) -> Floats:
    """Inputs ``x`` (n, size), row-aligned with ``sets``, with features moved within their ranges until the relations
    hold, as far as that goes: one feature for every relation that is broken, of those that may move and are not
    ``touched`` yet the one of highest ``priority`` (n, size)."""
    x, touched = x.astype(np.float64), touched.copy()
    lower, upper = (end.reshape(x.shape).astype(np.float64) for end in (sets.lower, sets.upper))
    names = {name: j for j, name in enumerate(sets.space.features)}
    for _ in sets.space.relations:
        for relation in sets.space.relations:
            columns = _columns(sets, x)
            wrong = np.broadcast_to(excess(relation, columns) > _HOLDS, (len(x),))
            able = np.zeros(x.shape, np.bool_)
            able[:, [names[n] for n in features_of(relation.left) | features_of(relation.right)]] = True
            able &= wrong[:, None] & (lower < upper) & ~touched
            chosen = np.where(able, priority, -np.inf).argmax(axis=1)
            for j in np.unique(chosen[able.any(axis=1)]):
                at = np.flatnonzero(able.any(axis=1) & (chosen == j))
                own = {name: column[at] for name, column in columns.items()}
                x[at, j] = _solved(sets, relation, own, int(j), (lower[at, j], upper[at, j]))
                touched[at, j] = True
    return x


def _columns(sets: ThreatSet, x: Floats) -> dict[str, Floats]:
    return {name: x[:, j] for j, name in enumerate(sets.space.features)}


def _solved(
    sets: ThreatSet, relation: Relation, columns: Mapping[str, Floats], j: int, ends: tuple[Floats, Floats]
) -> Floats:
    """The value of feature ``j`` (n,) between ``ends`` that comes nearest to obeying a relation; of several that do the
    one next to its own."""
    name, own = sets.space.features[j], columns[sets.space.features[j]][:, None]
    others = {other: column[:, None] for other, column in columns.items()}
    low, high = (end[:, None] for end in ends)
    lattice = sets.domain.lattice_at(j)
    steps = _POINTS - 1
    if lattice is not None:
        steps = min(steps, max(1, round(float((high - low).max()) / float(lattice.step))))
    values = low + (high - low) * np.linspace(0, 1, steps + 1)
    if lattice is not None:
        values = np.minimum(low + np.rint((values - low) / float(lattice.step)) * float(lattice.step), high)

    def off(at: Floats) -> Floats:
        by: Floats = np.nan_to_num(excess(relation, {**others, name: at}), nan=np.inf)
        return by

    wrong = off(values)
    span = np.maximum(high - low, np.finfo(np.float64).tiny)
    cost = np.where(wrong <= _HOLDS, np.abs(values - own) / span - 1, np.maximum(wrong, 0))
    best = cost.argmin(axis=1)[:, None]
    found = np.take_along_axis(values, best, axis=1)
    if lattice is None:
        left, right = (np.take_along_axis(values, np.clip(best + way, 0, steps), axis=1) for way in (-1, 1))
        for _ in range(_HALVINGS):
            third = (right - left) / 3
            closer = off(left + third) <= off(right - third)
            left, right = np.where(closer, left, left + third), np.where(closer, right - third, right)
        found = np.where(np.take_along_axis(wrong, best, axis=1) > _HOLDS, (left + right) / 2, found)
    solved: Floats = found[:, 0]
    return solved
