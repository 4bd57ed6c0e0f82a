"""Distances from the originals, in the space's units, for the records (EVIDENCE.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tmlang.backends.allowed import pixel_ball
from tmlang.backends.membership import Change, Floats, PowerBall

if TYPE_CHECKING:
    from tmlang.backends.threatset import ThreatSet

Column = NDArray[Any]


def distances(sets: ThreatSet, x: NDArray[Any]) -> Mapping[str, Column]:
    """See :meth:`ThreatSet.distances`. Each number is the exact distance rounded to float64, within an ulp or two."""
    finite = np.isfinite(x.reshape(len(sets), -1)).all(axis=1)
    at = np.flatnonzero(finite)
    change = sets.rows(at).change(x[at])
    columns = {"l0": change.changed.sum(axis=1), "own": _own(sets, change)}
    for norm in ("linf", "l2", "l1"):
        columns[norm] = _length(norm, change) if _one_unit(sets) else np.full(len(at), nan)
    return {name: _scatter(column, at, len(sets)) for name, column in columns.items()}


def _scatter(column: Column, at: NDArray[np.intp], rows: int) -> Column:
    out = np.zeros(rows, np.int64) if column.dtype.kind == "i" else np.full(rows, nan)
    out[at] = column
    return out


def _one_unit(sets: ThreatSet) -> bool:
    """Whether the coordinates that may move can be added: one unit, and no category among them."""
    moves: NDArray[np.bool_] = np.any(sets.mask.reshape(len(sets), -1), axis=0)
    cells = [cell for columns, _, cell in sets.domain.groups if moves[columns].any()]
    return len({cell.unit for cell in cells}) <= 1 and all(cell.kind != "category" for cell in cells)


def _length(norm: str, change: Change) -> Floats:
    size = np.abs(change.approximate).astype(np.longdouble)
    if norm == "linf":
        total = size.max(axis=1, initial=0)
    else:
        total = size.sum(axis=1) if norm == "l1" else np.sqrt((size * size).sum(axis=1))
    return np.asarray(total, np.float64)


def _own(sets: ThreatSet, change: Change) -> Column:
    """The distance in the norm that the threat itself speaks of; NaN where it speaks of several, or of none."""
    if sets.threat.minimize is not None:
        norm = sets.threat.minimize[0]
        return _in_norm(norm, sets, change)
    branch = sets.branches[0]
    rules = (*branch.rules, *(s.name for s in branch.sets))
    if len(sets.branches) != 1 or len(rules) != 1:
        return np.full(len(change.x), nan)
    if branch.balls and isinstance(branch.balls[0], PowerBall) and branch.balls[0].weights is not None:
        return np.asarray(branch.balls[0].summand(change).astype(np.longdouble).sum(axis=1), np.float64)
    return _in_norm(rules[0].split(" ")[0], sets, change)


def _in_norm(norm: str, sets: ThreatSet, change: Change) -> Column:
    if norm in ("linf", "l2", "l1"):
        return _length(norm, change)
    if norm == "l2_rms":
        return _length("l2", change) / sqrt(sets.domain.size)
    if norm == "l0":
        return np.asarray(change.changed.sum(axis=1), np.float64)
    if norm == "pixels_changed":
        return pixel_ball(sets.space, 0).count(change).astype(np.float64)
    return np.full(len(change.x), nan)
