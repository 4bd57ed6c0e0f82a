"""Networks that are right everywhere but where their arithmetic is not: steep needles, and float traps.

Half of them hold a needle, ``S max(0, w - |x - c|_1)`` with a steepness ``S`` of 1e2 to 1e12, whose place ``c`` is
known; the rest lose bits without one. In most the label wins in real arithmetic over the whole set, by a margin that is
known, and float32 loses it near ``c``; in some it loses in real arithmetic as well, and in some it never does. Which is
the case is found without any verifier, by looking at the stored grid around ``c`` (:func:`truth_of`).

One seed is one network with :data:`UNITS` units: boxes of which about half hold the needle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import torch
from backend_support import Case, model, threat, unit_box
from needle_nets import NEEDLES, PLACES, TRAPS, Place, Sketch, magnitude, picture_spike, spike
from torch import nn

from tmlang.backends.contract import Job
from tmlang.meaning.spaces import Cell, Delivery, Space
from tmlang.meaning.threats import Ball, Either, Mutable, Threat

Tensor = torch.Tensor
Array = np.ndarray
Rng = np.random.Generator

UNITS = 20
ALONE = 6
LISTED = 800
"""A set of at most so many stored inputs is looked at whole."""
STORED = ("float32", "float32", "float16", "float64", "delivered", "lattice", "lattice", "lattice")
ULPS = 3
"""How far tiny sets reach, in units of the last place of 1/2."""


@dataclass(frozen=True)
class Trap:
    """``kind``: family, place and storage. ``place`` is where to look."""

    seed: int
    kind: str
    case: Case
    job: Job
    place: Place
    grid: Grid


@dataclass(frozen=True)
class Grid:
    """Where inputs may lie: ``levels`` steps on a lattice, else every number of ``dtype`` in [0, 1]."""

    space: Space
    levels: int | None

    def nearest(self, x: Array) -> Array:
        """In the dtype that is stored."""
        if self.levels is not None:
            return (np.rint(np.clip(x, 0, 1) * self.levels) / self.levels).astype(self.space.dtype)
        half = x.astype(np.float16) if self.space.delivery else x
        return np.clip(half, 0, 1).astype(self.space.dtype)


def grid(rng: Rng, stored: str, shape: tuple[int, ...]) -> Grid:
    if stored == "lattice":
        levels = int(rng.choice([8, 10, 16, 20, 255]))
        return Grid(unit_box(*shape, cells=(Cell("lattice", Fraction(0), Fraction(1), Fraction(1, levels)),)), levels)
    if stored == "delivered":
        return Grid(unit_box(*shape, delivery=Delivery("float16")), None)
    return Grid(unit_box(*shape, dtype=stored), None)


def radius_of(rng: Rng, found: Grid, moving: int) -> Fraction:
    """Two of three lattices and a third of the rest are small enough to be looked at whole."""
    if found.levels is not None:
        return Fraction(2 if moving <= 3 else 1, found.levels)
    if rng.random() < 0.33 and moving <= 3:
        half = found.space.dtype == "float16" or found.space.delivery is not None
        place = {"float32": 24, "float64": 53}.get(found.space.dtype, 11) if not half else 11
        return Fraction(ULPS, 2**place)
    return Fraction(int(rng.integers(1, 16)), 64)


def allowed(rng: Rng, radius: Fraction) -> Threat:
    kind = rng.random()
    if kind < 0.1:
        return threat("l2", radius, mutable=Mutable("mask"))
    if kind < 0.15:
        return threat("l1", radius, mutable=Mutable("mask"))
    if kind < 0.25:
        parts = (Ball("linf", "px", radius / 2), Ball("l1", "px", 2 * radius))
        return threat("linf", radius, allow=Either(parts, ("one", "two")), mutable=Mutable("mask"))
    return threat("linf", radius, mutable=Mutable("mask"))


def originals(rng: Rng, found: Grid, place: Place, radius: Fraction, moving: Array) -> Array:
    """(UNITS, d): the needle is a corner of the first box; half of the others hold it, the rest lie elsewhere."""
    reach, d = float(radius), len(place.at)
    offset = rng.uniform(-1, 1, (UNITS, d))
    offset[0] = -place.signs
    offset[np.arange(1, UNITS), rng.integers(0, d, UNITS - 1)] = rng.choice([-0.9, 0.9], UNITS - 1)
    share = np.where(rng.random((UNITS, 1)) < 0.5, 1.0, rng.uniform(0.5, 4, (UNITS, 1)))
    share[0] = 1
    return found.nearest(place.at + offset * share * reach * moving)


KINDS = 2 * len(NEEDLES) + len(TRAPS)
"""Seeds take turns: dense needles, needles in pictures, traps."""


def trap(seed: int) -> Trap:
    """What a seed stands for."""
    rng, which = np.random.default_rng([13, seed]), seed % KINDS
    stored = STORED[int(rng.integers(0, len(STORED)))]
    picture = len(NEEDLES) <= which < 2 * len(NEEDLES)
    shape = (1, 2, int(rng.integers(1, 4))) if picture else (int(rng.integers(2, 7)),)
    found, d = grid(rng, stored, shape), math.prod(shape)
    count = int(rng.integers(1, min(d, 4) + 1))
    moving = rng.permutation(np.arange(d) < count)
    radius = radius_of(rng, found, count)
    place = _place(rng, found, d, float(radius), picture=picture)
    name, sketch = _sketch(rng, which, place, float(radius), shape)
    x = originals(rng, found, place, radius, moving).reshape(UNITS, *shape)
    spec = model(2, sketch.steps, **({} if sketch.decide is None else {"decide": sketch.decide}))
    case = Case(sketch.network, found.space, spec, x, [0] * UNITS)
    case.y = case.decisions(torch.from_numpy(x)).clamp(min=0)  # an original without an answer fails itself
    job = case.job(allowed(rng, radius), mask=moving.reshape(shape))
    return Trap(seed, f"{name}, {'picture' if picture else place.kind}, {stored}", case, job, place, found)


def _place(rng: Rng, found: Grid, d: int, reach: float, *, picture: bool) -> Place:
    kind = "inside" if picture else PLACES[int(rng.integers(0, len(PLACES)))]
    at = found.nearest(np.full(d, rng.uniform(0.3, 0.7)) if picture else rng.uniform(0.3, 0.7, d))
    signs = rng.choice([-1.0, 1.0], d)
    if kind == "face":
        at[0] = (1 + signs[0]) / 2
    return Place(at, signs, min(0.4, magnitude(rng, -2.5, 0.3) * reach), kind)


def _sketch(rng: Rng, which: int, place: Place, reach: float, shape: tuple[int, ...]) -> tuple[str, Sketch]:
    if which >= 2 * len(NEEDLES):
        base = TRAPS[which - 2 * len(NEEDLES)]
        return base.__name__, base(rng, place, reach)
    make = NEEDLES[which % len(NEEDLES)]
    front = spike(rng, place) if len(shape) == 1 else picture_spike(rng, place, (shape[1], shape[2]))
    return make.__name__, Sketch(nn.Sequential(*front, *make(rng, place.width)))


@dataclass(frozen=True)
class Truth:
    """``failing``: by unit a stored input that fails under the evaluator, or on which it gives no answer. ``listed``:
    units of which every input was looked at. ``seen``: by unit (n, *shape) what was."""

    failing: dict[int, Array]
    listed: set[int]
    seen: dict[int, Array]


def truth_of(found: Trap) -> Truth:
    """Looks at whole sets where they are small, else at corners, uniform points and the grid around the needle."""
    rng, truth = np.random.default_rng([14, found.seed]), Truth({}, set(), {})
    for i in range(len(found.job.x)):
        points = _every(found, i)
        if points is not None:
            truth.listed.add(i)
        points = _suspects(found, rng, i) if points is None else points
        inside = found.job.sets.rows([i] * len(points)).inside(points)
        truth.seen[i] = np.ascontiguousarray(points[inside])
    unit = np.repeat(np.arange(len(truth.seen)), [len(p) for p in truth.seen.values()])
    x = torch.from_numpy(np.concatenate(list(truth.seen.values())))
    labels = found.job.y[torch.from_numpy(unit)]
    for k in wrong_ones(found.case.deployed, found.case.decide, x, labels, unit):
        truth.failing.setdefault(int(unit[k]), x[k].numpy())
    return truth


def wrong_ones(network: nn.Module, decide: nn.Module, x: Tensor, labels: Tensor, unit: Array) -> list[int]:
    """Which of ``x`` are not given their label, at most one of each unit. A batch, which may round otherwise, only says
    where to look first: in each unit :data:`ALONE` are decided alone."""
    with torch.no_grad():
        scores = network(x)
        batch = decide(scores)
    order = (scores[:, 0] - scores[:, 1]).double().abs().nan_to_num(0.0)
    order = torch.where(batch != labels, -1.0, order).numpy()
    found = []
    for i in np.unique(unit):
        own = np.flatnonzero(unit == i)
        for k in own[order[own].argsort(kind="stable")][:ALONE].tolist():
            with torch.no_grad():
                alone = decide(network(x[k : k + 1]))
            if bool(alone != labels[k]):
                found.append(k)
                break
    return found


def _values(low: float, high: float, found: Trap) -> Array | None:
    """All stored numbers of a real coordinate between two of them, or of a lattice; ``None`` beyond what is listed."""
    space = found.job.sets.space
    if space.cells[0].kind == "lattice":
        levels = int(1 / space.cells[0].step)  # type: ignore[operator]
        a, b = (round(v * levels) for v in (low, high))
        return (np.arange(a, b + 1) / levels).astype(space.dtype)
    coarse = np.dtype(np.float16 if space.delivery else space.dtype)
    whole = {2: np.int16, 4: np.int32, 8: np.int64}[coarse.itemsize]
    ends = np.array([low, high], coarse)
    if ends[0] < 0:
        return None
    a, b = ends.view(whole).tolist()
    return None if b - a >= LISTED else np.arange(a, b + 1).astype(whole).view(coarse).astype(space.dtype)


def _every(found: Trap, i: int) -> Array | None:
    """(n, *shape) all inputs of the box of a unit, ``None`` where they are many."""
    low, high = (side[i].reshape(-1) for side in (found.job.sets.lower, found.job.sets.upper))
    columns = [np.array([a]) if a == b else _values(a, b, found) for a, b in zip(low, high, strict=True)]
    if any(c is None for c in columns) or math.prod(len(c) for c in columns if c is not None) > LISTED:
        return None
    x = np.array(list(product(*columns)), dtype=low.dtype)  # type: ignore[arg-type]
    return x.reshape(-1, *found.job.x.shape[1:])


def _suspects(found: Trap, rng: Rng, i: int) -> Array:
    """(n, *shape) members of a unit's set: corners, uniform points, the needle and its surroundings."""
    job, d = found.job, found.place.at.size
    low, high = (side[i].reshape(-1).astype(np.float64) for side in (job.sets.lower, job.sets.upper))
    corners = np.where(rng.random((24, d)) < 0.5, low, high)
    uniform = rng.uniform(low, high, (24, d))
    scale = found.place.width * 10.0 ** rng.uniform(-8, 0, (60, 1))
    near = np.clip(found.place.at + scale * rng.uniform(-1, 1, (60, d)), low, high)
    ulps = np.clip(found.place.at * (1 + 2.0**-24 * rng.integers(-4, 5, (24, d))), low, high)
    own, needle = job.sets.originals[i].reshape(-1), np.clip(found.place.at, low, high)
    points = np.concatenate([own[None], needle[None], low[None], high[None], corners, uniform, near, ulps])
    x = found.grid.nearest(points).reshape(-1, *job.x.shape[1:])
    if isinstance(job.threat.allow, Ball) and job.threat.allow.norm == "linf":
        return x
    moved = job.sets.rows([i] * len(x)).project(x)
    return moved.x[moved.inside]
