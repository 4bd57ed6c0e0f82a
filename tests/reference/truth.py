"""Every set listed, every input decided, every verdict and number worked out: straight from the definitions of
``docs/LANGUAGE.md`` and ``docs/EVIDENCE.md``, in whole numbers and rationals.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction as F
from functools import cached_property
from math import lcm

import numpy as np

from reference.world import NOTHING, REJECTS, Allow, Ball, Cell, Ints, Join, Patch, Space, Threat, Transform, World

LIMIT = 6_000
"""Inputs that are listed before balls take some away."""
MOST = 300
"""Inputs of a set."""
CLEAR = 1e-4
"""Scores that rounding could bring into another order are nearer than this."""


class TooLarge(Exception):
    """A set that is not worth listing."""


# --- sets -------------------------------------------------------------------------------------------------------------


def members(world: World, threat: Threat, i: int) -> dict[bytes, Ints]:
    """Every allowed input of example ``i`` by its bytes."""
    rows = np.concatenate([_listed(world, threat, i), *(_made(world, t, i) for t in transforms(threat.allow))])
    inside = allowed(world, threat, i, rows)
    return {row.tobytes(): row for row in rows[inside]}


def allowed(world: World, threat: Threat, i: int, rows: Ints) -> np.ndarray:
    """Which rows are inputs of the space that the threat allows around example ``i``."""
    space, over, x = world.space, world.over, world.x[i]
    k = np.ones(len(rows), bool)
    for j in range(space.size):
        cell = space.cell(j)
        k &= (rows[:, j] >= cell.low * over) & (rows[:, j] <= cell.high * over)
        if cell.step:
            k &= (rows[:, j] - int(cell.low * over)) % int(cell.step * over) == 0
    up, down = (way[i if len(way) > 1 else 0] for way in (threat.up, threat.down))
    k &= ((rows <= x) | up).all(axis=1) & ((rows >= x) | down).all(axis=1)
    for relation in space.relations:
        k &= relation.holds(rows, over)
    return k & inside(world, threat.allow, i, rows)


def inside(world: World, allow: Allow, i: int, rows: Ints) -> np.ndarray:
    """Which rows the balls, patches and transforms hold."""
    space, over = world.space, world.over
    if isinstance(allow, Join):
        parts = [inside(world, part, i, rows) for part in allow.parts]
        return np.logical_or.reduce(parts) if allow.names else np.logical_and.reduce(parts)
    if isinstance(allow, Transform):
        known = {row.tobytes() for row in _made(world, allow, i)}
        return np.array([row.tobytes() in known for row in rows], bool)
    d = np.abs(rows - world.x[i])
    if isinstance(allow, Patch):
        return _in_patch(space, allow, d != 0)
    if allow.norm == "anything":
        return np.ones(len(rows), bool)
    moved = (d != 0).reshape(len(rows), *space.shape)
    if allow.norm == "l0":
        return moved.reshape(len(rows), -1).sum(axis=1) <= allow.radius + allow.tolerance
    if allow.norm == "pixels_changed":
        pixels = moved if space.channels is None else moved.any(axis=1 + space.channels)
        return pixels.reshape(len(rows), -1).sum(axis=1) <= allow.radius + allow.tolerance
    if allow.radii:
        return (d <= _radii(space, allow, over)).all(axis=1)
    r = (allow.radius + allow.tolerance) * over
    if allow.norm == "metric":
        whole = lcm(*(w.denominator for _, w in space.weights))
        cost = np.zeros(len(rows), np.int64)
        for j, (_, weight) in enumerate(space.weights):
            cost += (moved[:, j] * over if space.cell(j).words else d[:, j]) * int(weight * whole)
        return cost <= r * whole
    if allow.norm == "linf":
        return (d <= r).all(axis=1)
    if allow.norm == "l1":
        return d.sum(axis=1) <= r
    square = r * r * (space.size if allow.norm == "l2_rms" else 1)
    return (d * d).sum(axis=1) <= square


def _radii(space: Space, ball: Ball, over: int) -> np.ndarray:
    """What each coordinate may move; those that are not named may not."""
    radii = {name: r + ball.tolerance for name, r in ball.radii}
    if space.names:
        return np.array([int(radii.get(name, F(0)) * over // 1) for name in space.names])
    along = np.array([int(radii[str(c)] * over // 1) for c in range(space.shape[space.channels or 0])])
    shape = [1] * len(space.shape)
    shape[space.channels or 0] = -1
    return np.broadcast_to(along.reshape(shape), space.shape).reshape(-1)


def _in_patch(space: Space, patch: Patch, moved: np.ndarray) -> np.ndarray:
    pixels = moved.reshape(len(moved), *space.shape)
    if len(space.shape) == 3:
        pixels = pixels.any(axis=1 + (space.channels or 0))
    rows, columns = pixels.shape[1:]
    every = itertools.product(range(rows - patch.height + 1), range(columns - patch.width + 1))
    fits = np.zeros(len(moved), bool)
    for r, c in [patch.place] if patch.place else every:
        beyond = pixels.copy()
        beyond[:, r : r + patch.height, c : c + patch.width] = False
        fits |= ~beyond.any(axis=(1, 2))
    return fits


def _listed(world: World, threat: Threat, i: int) -> Ints:
    """Every input of the space that differs only where something may move; none beside transforms alone."""
    space, over, x = world.space, world.over, world.x[i]
    allow = _without_pictures(threat.allow)
    if allow is None:
        return np.empty((0, space.size), np.int64)
    up, down = (way[i if len(way) > 1 else 0] for way in (threat.up, threat.down))
    ranges, total = [], 1
    for j in range(space.size):
        own, cell = int(x[j]), space.cell(j)
        if not (up[j] or down[j]):
            ranges.append([own])
            continue
        if not cell.step:
            raise TooLarge
        values = [v for v in _values(cell, over) if v == own or (v > own and up[j]) or (v < own and down[j])]
        one = np.repeat(x[None], len(values), axis=0)
        one[:, j] = values
        ranges.append([v for v, ok in zip(values, inside(world, _alone(allow), i, one), strict=True) if ok])
        total *= len(ranges[-1])
        if total > LIMIT:
            raise TooLarge
    return np.array(list(itertools.product(*ranges)), np.int64).reshape(-1, space.size)


def _values(cell: Cell, over: int) -> list[int]:
    return [int(v * over) for v in cell.values]


def _alone(allow: Allow) -> Allow:
    """As ``allow``, or more, for inputs that differ in one coordinate: no ball here forbids alone what it allows in
    company, so what is left out is in no set. A union of all that occurs is the easiest such set."""
    return Join(tuple(_leaves(allow)), ("x",))


def _leaves(allow: Allow) -> list[Allow]:
    return [leaf for part in allow.parts for leaf in _leaves(part)] if isinstance(allow, Join) else [allow]


def transforms(allow: Allow) -> list[Transform]:
    return [leaf for leaf in _leaves(allow) if isinstance(leaf, Transform)]


def _without_pictures(allow: Allow) -> Allow | None:
    if isinstance(allow, Transform):
        return None
    if not isinstance(allow, Join):
        return allow
    parts = [_without_pictures(part) for part in allow.parts]
    if not allow.names:
        return None if None in parts else allow
    kept = tuple(part for part in parts if part is not None)
    return Join(kept, ("x",)) if kept else None


# --- pictures -------------------------------------------------------------------------------------------------------


def _made(world: World, transform: Transform, i: int) -> Ints:
    """Every picture that the grid of parameters makes of example ``i``."""
    every = []
    for name, most, step in transform.parts:
        line = [k * step for k in range(-int(most / step), int(most / step) + 1)]
        every += [line, line] if name == "translate" else [line]
    made = [_picture(world, transform, i, theta) for theta in itertools.product(*every)]
    return np.array(made, np.int64).reshape(-1, world.space.size)


def _picture(world: World, transform: Transform, i: int, theta: Sequence[F]) -> list[int]:
    """One picture, pixel by pixel: the place that it is taken from, last part first, and what lies there."""
    space, over = world.space, world.over
    colour = space.channels is not None
    picture = world.x[i].reshape(space.shape if colour else (1, *space.shape[-2:]))
    _, height, width = picture.shape
    given, at = [], 0
    for name, _, _ in transform.parts:
        count = 2 if name == "translate" else 1
        given.append((name, theta[at : at + count]))
        at += count
    made = []
    for channel in picture:
        for r, c in itertools.product(range(height), range(width)):
            row, column = r - F(height - 1, 2), c - F(width - 1, 2)
            for name, t in reversed(given):
                row, column = _before(name, t, row, column)
            row, column = row + F(height - 1, 2), column + F(width - 1, 2)
            value = _at(channel, row, column, transform.interpolate, transform.fill * over)
            cell = space.cell(0)
            for name, t in given:
                if name == "brightness":
                    value += t[0] * over
                elif name == "contrast":
                    middle = (cell.low + cell.high) / 2 * over
                    value = middle + (1 + t[0]) * (value - middle)
            made.append(_nearest(value, cell, over))
    return made


def _before(name: str, t: Sequence[F], row: F, column: F) -> tuple[F, F]:
    """Where a part takes the pixel at (row, column) from the centre from."""
    if name == "rotate":  # counterclockwise as seen, rows going down: quarter turns only
        for _ in range(int(t[0] / 90) % 4):
            row, column = column, -row
    elif name == "translate":
        row, column = row - t[0], column - t[1]
    elif name == "scale":
        row, column = row / (1 + t[0]), column / (1 + t[0])
    return row, column


def _at(channel: Ints, row: F, column: F, how: str, fill: F) -> F:
    def pixel(r: int, c: int) -> F:
        there = 0 <= r < channel.shape[0] and 0 <= c < channel.shape[1]
        return F(int(channel[r, c])) if there else fill

    if how == "nearest":
        return pixel((row + F(1, 2)) // 1, (column + F(1, 2)) // 1)
    r, c = row // 1, column // 1
    down, across = row - r, column - c
    return sum(
        wr * wc * pixel(r + i, c + j)
        for i, wr in ((0, 1 - down), (1, down))
        for j, wc in ((0, 1 - across), (1, across))
    ) + F(0)


def _nearest(value: F, cell: Cell, over: int) -> int:
    """Into the range; to the nearest level, ties to the even one. Real values are few binary digits long here."""
    value = min(max(value, cell.low * over), cell.high * over)
    if cell.step:
        value = round((value / over - cell.low) / cell.step) * cell.step * over + cell.low * over
    if value.denominator != 1:
        raise TooLarge
    return int(value)


# --- decisions ------------------------------------------------------------------------------------------------------


def outputs(world: World, rows: Ints) -> np.ndarray:
    """What the network answers, (n, outputs) float64; exact where all numbers are short in binary."""
    space, net = world.space, world.net
    x = (rows / world.over).astype(np.float32 if space.dtype != "float64" else np.float64).astype(np.float64)
    if net.hot:
        spread = []
        for j in range(space.size):
            words = space.cell(j).words
            spread += [x[:, j] == k for k in range(len(words))] if words else [x[:, j]]
        x = np.stack(spread, axis=1).astype(np.float64)
    for _, factor, shift in net.steps:
        x = x * factor + shift
    for at, (weights, bias) in enumerate(net.layers):
        x = (np.maximum(x, 0) if at else x) @ weights.T + bias
    return x


def decisions(world: World, rows: Ints) -> tuple[np.ndarray, float]:
    """The decision of each row, and how near any of them is to another one, where it is not exactly there."""
    out, rule = outputs(world, rows), world.rule
    near = [np.inf]
    scores = out[:, :-1] if world.net.head else out
    if rule.rule in ("<", "<=", ">", ">="):
        score = scores[:, 0] - float(rule.value)
        holds = {"<": score < 0, "<=": score <= 0, ">": score > 0, ">=": score >= 0}[rule.rule]
        near.append(_gap(score))
        found = np.where(holds, 0, 1)
    else:
        ranked = -scores if rule.rule == "argmin" else scores
        best = ranked.max(axis=1, keepdims=True)
        top = ranked == best
        found = top.argmax(axis=1)
        near.append(_gap(best - ranked))
        if rule.ties != "lowest":
            found = np.where(top.sum(axis=1) > 1, REJECTS if rule.ties == "reject" else NOTHING, found)
    for what, op, value in rule.rejects:
        if what == "class":
            found = np.where(found == int(value), REJECTS, found)
            continue
        if what == "max_softmax":
            e = np.exp(ranked - ranked.max(axis=1, keepdims=True))
            measured = (e / e.sum(axis=1, keepdims=True)).max(axis=1) - float(value)
            near.append(float(np.abs(measured).min(initial=np.inf)))
        else:
            measured = out[:, -1] - float(value)
            near.append(_gap(measured))
        holds = {"<": measured < 0, "<=": measured <= 0, ">": measured > 0, ">=": measured >= 0}[op]
        found = np.where(holds & (found >= 0), REJECTS, found)
    return found, min(near)


def _gap(differences: np.ndarray) -> float:
    """The least difference that is not 0."""
    size = np.abs(differences)
    return float(size[size > 0].min(initial=np.inf))


# --- units ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """An example, or one with a target, under a threat. ``fails``: the decision of every allowed input that fails, and
    ``denies``: the others on which the object abstains, by their bytes."""

    id: str
    example: int
    label: int | None
    target: int | None
    clean: str
    decision: int
    size: int
    fails: frozenset[bytes]
    denies: frozenset[bytes]
    unknown: bool
    """Some allowed input has no decision."""

    @property
    def applicable(self) -> bool:
        return self.label is not None and self.label != self.target

    @property
    def robust(self) -> bool:
        return not self.fails and not self.unknown


class Truth:
    """Everything about one threat of a world."""

    def __init__(self, world: World, threat: Threat) -> None:
        self.world, self.threat = world, threat
        self.sets = [members(world, threat, i) for i in range(len(world.x))]
        if any(len(s) > MOST for s in self.sets):
            raise TooLarge
        self.decided = []
        self.near = np.inf
        for rows in self.sets:
            found, near = decisions(world, np.array(list(rows.values())))
            self.decided.append(dict(zip(rows, found.tolist(), strict=True)))
            self.near = min(self.near, near)
        self.clean, near = decisions(world, world.x)
        self.near = min(self.near, near)

    @cached_property
    def units(self) -> list[Unit]:
        made = []
        for i, label in enumerate(self.world.labels):
            for target in self._targets(i, label):
                made.append(self._unit(i, label, target))
        return made

    def _targets(self, i: int, label: int | None) -> list[int | None]:
        kind, k = self.threat.kind, len(self.world.classes)
        if kind == "untargeted":
            return [None]
        if kind == "targeted class":
            return [self.world.classes.index(self.threat.goal.split()[-1])]
        if kind == "targeted column":
            return [self.world.targets[i]]
        if label is None:
            return [None]
        if kind == "targeted each":
            return [c for c in range(k) if c != label]
        if kind == "targeted next":
            return [(label + 1) % k]
        if self.world.rule.rule in ("<", "<=", ">", ">="):
            return [1 - label]
        out = outputs(self.world, self.world.x[i : i + 1])[0][:k]
        ranked = -out if self.world.rule.rule == "argmin" else out
        others = [c for c in range(k) if c != label]
        wanted = (max if kind == "targeted runner_up" else min)(ranked[c] for c in others)
        return [next(c for c in others if ranked[c] == wanted)]

    def _unit(self, i: int, label: int | None, target: int | None) -> Unit:
        world, threat = self.world, self.threat
        name = str(i) if target is None else f"{i}->{world.classes[target]}"
        z = int(self.clean[i])
        clean = "cu" if label is None or z == NOTHING else "cr" if z == REJECTS else "cc" if z == label else "cw"
        decided, rows = self.decided[i], self.sets[i]
        near: set[bytes] = set()
        if threat.within is not None:
            every = np.array(list(rows.values()))
            near = {k for k, ok in zip(rows, inside(world, threat.within, i, every), strict=True) if ok}
        fails = frozenset(k for k, z in decided.items() if self._fails(z, label, target, k in near))
        denies = frozenset(k for k, z in decided.items() if z == REJECTS and k not in fails)
        unknown = NOTHING in decided.values()
        return Unit(name, i, label, target, clean, z, len(rows), fails, denies, unknown)

    def _fails(self, z: int, label: int | None, target: int | None, near: bool) -> bool:
        if z == NOTHING or label is None:
            return False
        if target is not None:
            return z == target
        if z == REJECTS:
            return self.threat.rejected in (None, "fail") or (self.threat.within is not None and near)
        return z != label


# --- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """What is known of a counted unit: broken, open, certified, certifier failed, and whether an abstention was met."""

    clean: str
    broken: bool = False
    open: bool = False
    certified: bool = False
    failed: bool = False
    denied: bool = False


def joined(threat: Threat, units: Sequence[Unit], shown: Sequence[Shown]) -> list[Shown]:
    """One for each counted unit: of ``each any`` and ``each all`` the examples."""
    pairs = [(u, s) for u, s in zip(units, shown, strict=True) if u.applicable]
    if threat.goal not in ("targeted each any", "targeted each all"):
        return [s for _, s in pairs]
    by = {e: [s for u, s in pairs if u.example == e] for e in dict.fromkeys(u.example for u, _ in pairs)}
    return [_one(own, threat.goal.endswith("any")) for own in by.values()]


def _one(own: Sequence[Shown], any_target: bool) -> Shown:
    """Broken where any target, or every one, is reached; certified against all of them, or against one."""
    if own[0].clean != "cc":
        return own[0]
    hit, safe = (any, all) if any_target else (all, any)
    broken, certified = hit(s.broken for s in own), safe(s.certified for s in own)
    return Shown(
        "cc",
        broken,
        not broken and hit(s.broken or s.open for s in own),
        certified,
        not certified and safe(s.certified or s.failed for s in own),
        any(s.denied for s in own),
    )


def columns(
    threat: Threat, units: Sequence[Unit], shown: Sequence[Shown], proofs: bool
) -> dict[str, tuple[int, int, int]]:
    """(low, high, denominator) of the headline columns, by the table of EVIDENCE.md section 2."""
    counted = joined(threat, units, shown)
    n = {status: sum(s.clean == status for s in counted) for status in ("cc", "cw", "cr", "cu")}
    cc, cu, a = n["cc"], n["cu"], len(counted)
    d = a if threat.clean_errors == "fail" else cc + cu
    w, i = sum(s.broken for s in counted), sum(s.open for s in counted)
    c, t = sum(s.certified for s in counted), sum(s.failed for s in counted)
    rate = "robust_accuracy" if threat.kind == "untargeted" and threat.clean_errors == "fail" else "robust_rate"
    found = {
        "clean_accuracy": (cc, cc + cu, a),
        "clean_answered": (cc + n["cw"], cc + n["cw"] + cu, a),
        "survival": (cc - w - i, cc + cu - w, d),
        "survival_completed": (cc - w - i, cc - w - i, d - i - cu),
        "attack_coverage": (d - i - cu, d - i - cu, d),
        "upper": (cc + cu - w, cc + cu - w, d),
        rate: (c, cc + cu - w, d),
    }
    if proofs:
        found["certified"] = (c, c + t, d)
        found["certificate_coverage"] = (cc - t, cc - t, cc + cu)
    return found
