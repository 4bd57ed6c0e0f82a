"""Membership and distances of a saved candidate, measured anew in rationals (EVIDENCE.md section 3).

The auditor's own reading of a threat: coordinate by coordinate with ``fractions.Fraction``, sharing nothing with the
arrays that the run decided by. Slow and plain on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmlang.audit.retransform import made_by, shared_out
from tmlang.meaning.spaces import Arithmetic, Cell, Num, Op, Ref, Relation, Space
from tmlang.meaning.threats import (
    Allowed,
    Anything,
    Ball,
    Both,
    Either,
    Mutable,
    Patch,
    Property,
    Shift,
    Threat,
    Transform,
)

Point = Sequence[Fraction]


class CannotMeasure(Exception):
    """The bundle does not hold what this clause needs, or it is not measured here; the argument names it."""


def exact_values(space: Space, stored: NDArray[Any], *, indices: bool) -> list[Fraction]:
    """The exact numbers that one stored input stands for; raises ``ValueError`` where it is no value of the space."""
    if stored.shape != space.shape:
        raise ValueError(f"the shape is {stored.shape} and not {space.shape}")
    flat = stored.reshape(-1)
    if not np.isfinite(flat).all():
        raise ValueError("a coordinate is not finite")
    return [_exact(space, delivered_cell(space, i), v, indices) for i, v in enumerate(flat.tolist())]


def as_values(space: Space, stored: NDArray[Any], *, indices: bool) -> NDArray[np.floating]:
    """One stored input as (*shape) values of its space."""
    exact = exact_values(space, stored, indices=indices)
    return np.array([float(v) for v in exact], dtype=space.dtype).reshape(space.shape)


def delivered_cell(space: Space, i: int) -> Cell:
    """The cell of coordinate ``i``; a codec of 256 or of given steps leaves a real one only its own levels."""
    cell, delivery = space.cell(i), space.delivery
    if cell.kind != "real" or delivery is None or delivery.codec == "float16":
        return cell
    if delivery.codec == "png":
        return replace(cell, kind="lattice", step=(cell.high - cell.low) / 255)
    assert delivery.step is not None
    return replace(cell, kind="lattice", step=delivery.step, low=ceil(cell.low / delivery.step) * delivery.step)


def _exact(space: Space, cell: Cell, value: float, index: bool) -> Fraction:
    if cell.kind == "real":
        return Fraction(value)
    assert cell.step is not None
    if index:
        return cell.low + int(value) * cell.step
    # A stored lattice value is the exact one rounded to the space's kind of float.
    number = cell.low + round((Fraction(value) - cell.low) / cell.step) * cell.step
    if float(np.dtype(space.dtype).type(float(number))) != value:
        raise ValueError(f"{value} is no step of its lattice")
    return number


def broken_rules(
    space: Space,
    subject: Threat | Property | Shift,
    original: Point,
    candidate: Point,
    theta: Sequence[float] | None = None,
) -> list[str]:
    """Why ``candidate`` is not in the allowed set of ``original``, in the box of a property, or, behind a shift, in the
    space; empty inside. ``theta``: the parameters that are told to make it, under a transform.

    Raises :class:`CannotMeasure`.
    """
    faults = _space_faults(space, candidate)
    if isinstance(subject, Shift):
        return faults
    if isinstance(subject, Property):
        named = dict(zip(space.features, candidate, strict=True))
        limits = (Relation(Ref(f), op, Num(v), text=f"of {f}") for f, op, v in subject.given)  # type: ignore[arg-type]
        return faults + [f"limit {limit.text}" for limit in limits if not _obeys(limit, named)]
    faults += [f"mask at {_label(space, i)}" for i in _frozen_moves(space, subject.mutable, original, candidate)]
    allow = subject.allow
    if isinstance(allow, Patch) and subject.nature and any(part == "place" for part, *_ in subject.nature.parts):
        allow = replace(allow, at=(0, 0))  # where a patch is handed in that nature places
    if allow is not None and not allows(space, allow, original, candidate, shared_out(allow, theta)):
        faults.append("ball")
    return faults


def branches_around(
    space: Space, allow: Either, original: Point, candidate: Point, theta: Sequence[float] | None
) -> set[str]:
    """The branches of a union that hold the candidate; unnamed ones by position (``"1"``, …)."""
    told, names = shared_out(allow, theta), allow.names or ("",) * len(allow.parts)
    return {
        name or str(i)
        for i, (name, part) in enumerate(zip(names, allow.parts, strict=True), 1)
        if allows(space, part, original, candidate, told)
    }


def _space_faults(space: Space, candidate: Point) -> list[str]:
    """The rules that every input of the space obeys."""
    cells = [delivered_cell(space, i) for i in range(space.size)]
    faults = [f"domain of {_label(space, i)}" for i, v in enumerate(candidate) if not _in_cell(cells[i], v)]
    if space.features:
        named = dict(zip(space.features, candidate, strict=True))
        faults += [f"relation {r.text}" for r in space.relations if not _obeys(r, named)]
        faults += [f"one_hot {' '.join(g)}" for g in space.one_hot if sorted(named[n] for n in g) != _one_of(len(g))]
    if space.delivery is not None and space.delivery.codec == "float16":
        faults += ["delivery as float16" for v in candidate if Fraction(float(np.float16(float(v)))) != v][:1]
    return faults


def _label(space: Space, i: int) -> str:
    return space.features[i] if space.features else f"coordinate {i}"


def _one_of(n: int) -> list[Fraction]:
    return [Fraction(0)] * (n - 1) + [Fraction(1)]


def _in_cell(cell: Cell, value: Fraction) -> bool:
    on_step = cell.step is None or (value - cell.low) % cell.step == 0
    return cell.low <= value <= cell.high and on_step


# The mask ------------------------------------------------------------------------------------------------------------


def _frozen_moves(space: Space, mutable: Mutable, original: Point, candidate: Point) -> list[int]:
    """The coordinates that moved although they may not, or not in that direction."""
    moved = [i for i, (a, b) in enumerate(zip(original, candidate, strict=True)) if a != b]
    if mutable.kind == "all" or not moved:
        return []
    if mutable.kind == "mask":
        raise CannotMeasure("the mask file is not in the bundle")
    if mutable.kind == "features":
        ways = dict(mutable.names)
        return [
            i for i in moved if not _may_move(ways.get(space.features[i]), mutable.except_, candidate[i] > original[i])
        ]
    axis = _image_axes(space)[mutable.kind]
    named = {i for low, high in mutable.ranges for i in range(low, high + 1)}
    where = np.unravel_index(moved, space.shape)[axis].tolist()
    return [i for i, place in zip(moved, where, strict=True) if (place in named) == mutable.except_]


def _may_move(way: str | None, except_: bool, up: bool) -> bool:
    if except_ or way is None:
        return except_ and way is None
    return way == "any" or (way == "up") == up


def _image_axes(space: Space) -> Mapping[str, int]:
    """Which axis counts rows, columns and channels: the channel axis is declared, or the short one of three."""
    if len(space.shape) == 2:
        return {"rows": 0, "columns": 1}
    last = space.shape[2] in (1, 3, 4) and space.shape[0] not in (1, 3, 4)
    channel = space.channel_axis if space.channel_axis is not None else 2 if last else 0
    rows, columns = (axis for axis in range(3) if axis != channel)
    return {"rows": rows, "columns": columns, "channels": channel}


# Relations -----------------------------------------------------------------------------------------------------------


def _obeys(relation: Relation, named: Mapping[str, Fraction]) -> bool:
    try:
        gap = _value(relation.left, named) - _value(relation.right, named)
    except ZeroDivisionError:
        return False
    t = relation.tolerance
    return {"==": -t <= gap <= t, "<=": gap <= t, "<": gap < t, ">=": gap >= -t, ">": gap > -t}[relation.op]


def _value(expression: Arithmetic, named: Mapping[str, Fraction]) -> Fraction:
    if isinstance(expression, Num):
        return expression.value
    if isinstance(expression, Ref):
        return named[expression.feature]
    assert isinstance(expression, Op)
    a, b = _value(expression.left, named), _value(expression.right, named)
    compute: dict[str, Callable[[], Fraction]] = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "/": lambda: a / b,
    }
    return compute[expression.op]()


# Balls ---------------------------------------------------------------------------------------------------------------


def allows(
    space: Space,
    allow: Allowed,
    original: Point,
    candidate: Point,
    theta: Mapping[Transform, Sequence[float]],
) -> bool:
    """Whether the ball, patch, transform or combination of them holds the candidate. ``theta``: what each transform is
    told to have been given."""
    if isinstance(allow, Both):
        return all(allows(space, part, original, candidate, theta) for part in allow.parts)
    if isinstance(allow, Either):
        return any(allows(space, part, original, candidate, theta) for part in allow.parts)
    if isinstance(allow, Anything):
        return True
    if isinstance(allow, Patch):
        return _in_patch(space, allow, original, candidate)
    if isinstance(allow, Transform):
        return allow in theta and made_by(space, allow, original, candidate, theta[allow])
    return _in_ball(space, allow, original, candidate)


def _in_ball(space: Space, ball: Ball, original: Point, candidate: Point) -> bool:
    if ball.per is not None:
        change = [abs(a - b) for a, b in zip(original, candidate, strict=True)]
        return all(c <= r + ball.tolerance for c, r in zip(change, _radii(space, ball), strict=True))
    assert ball.radius is not None
    reach = ball.radius + ball.tolerance
    if ball.norm in ("l2", "l2_rms"):
        return squared(original, candidate) <= reach**2 * (space.size if ball.norm == "l2_rms" else 1)
    return distance(space, ball.norm, original, candidate, ball.metric) <= reach


def _radii(space: Space, ball: Ball) -> list[Fraction]:
    if ball.per == "feature":
        given = dict(ball.radii)
        return [given.get(name, Fraction(0)) for name in space.features]
    axis = _image_axes(space)["channels"]
    places = np.unravel_index(range(space.size), space.shape)[axis].tolist()
    return [ball.radii[p][1] for p in places]


def squared(original: Point, candidate: Point) -> Fraction:
    return sum(((a - b) ** 2 for a, b in zip(original, candidate, strict=True) if a != b), Fraction(0))


def distance(space: Space, norm: str, original: Point, candidate: Point, metric: str | None = None) -> Fraction:
    """linf, l1, l0, pixels_changed or a metric of the space, exact."""
    change = [abs(a - b) for a, b in zip(original, candidate, strict=True)]
    if norm == "linf":
        return max(change, default=Fraction(0))
    if norm == "l1":
        return sum(change, Fraction(0))
    if norm == "l0":
        return Fraction(sum(c != 0 for c in change))
    if norm == "pixels_changed":
        return Fraction(len(_pixels(space, [i for i, c in enumerate(change) if c])))
    weights = dict(next(m for m in space.metrics if m.name == metric).weights)
    total = Fraction(0)
    for i, name in enumerate(space.features):
        size = Fraction(change[i] != 0) if space.cell(i).kind == "category" else change[i]
        total += weights.get(name, Fraction(0)) * size
    return total


def _pixels(space: Space, moved: Sequence[int]) -> set[tuple[int, ...]]:
    if len(space.shape) == 1:
        return {(i,) for i in moved}
    axes = _image_axes(space)
    places = np.unravel_index(np.array(moved, dtype=np.intp), space.shape)
    return set(zip(places[axes["rows"]].tolist(), places[axes["columns"]].tolist(), strict=True))


def _in_patch(space: Space, patch: Patch, original: Point, candidate: Point) -> bool:
    """Whether all changed pixels lie under the patch at its place, or at some place for one at any place."""
    moved = _pixels(space, [i for i, (a, b) in enumerate(zip(original, candidate, strict=True)) if a != b])
    axes = _image_axes(space)
    rows, columns = space.shape[axes["rows"]], space.shape[axes["columns"]]
    places = [patch.at] if patch.at else product(range(rows - patch.height + 1), range(columns - patch.width + 1))
    return any(all(under(patch, r - top, c - left) for r, c in moved) for top, left in places)


def under(patch: Patch, row: int, column: int) -> bool:
    """Whether a patch covers its own pixel; a disc covers the pixels whose centres it contains."""
    if not (0 <= row < patch.height and 0 <= column < patch.width):
        return False
    d = patch.height
    return patch.shape == "rectangle" or (2 * row + 1 - d) ** 2 + (2 * column + 1 - d) ** 2 <= d**2
