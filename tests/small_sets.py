"""Random small threat sets on lattices, and all of their members written down: the exact answer, without ``tmlang``.

Every coordinate that moves has levels ``low + k * step``; with ``scale`` a common denominator, values, distances and
radii are whole numbers, so membership here is integer arithmetic.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from fractions import Fraction as F
from math import prod

import numpy as np
import torch
from backend_support import Case, model, threat
from torch import nn

from tmlang.backends.contract import Job
from tmlang.backends.threatset import ThreatSet
from tmlang.meaning.spaces import Cell, Ref, Relation, Space
from tmlang.meaning.threats import Ball, Both, Either, Mutable, Patch, Threat

SCALE = 48
"""Every step divides into 1/48."""
UNITS = 8
LIMIT = 20_000
"""Inputs that a set without its balls has at most."""
LEAST = 60
"""Members that half of the sets have at least."""


@dataclass(frozen=True)
class Puzzle:
    """``members[i]``: every input of set ``i``; ``gain[i]``: the greatest margin of a wrong class among them."""

    case: Case
    threat: Threat
    mask: np.ndarray | None
    members: list[np.ndarray]
    gain: np.ndarray


def puzzle(seed: int) -> Puzzle:
    """One threat around eight originals of a random network, of which some members of some sets fail."""
    draw = random.Random(seed)
    while True:
        space = _space(draw)
        spec, mask = _threat(draw, space)
        x = np.array([[draw.choice(_levels(space.cell(j))) for j in range(space.size)] for _ in range(UNITS)])
        if space.relations:
            x[:, :2].sort(axis=1)
        free = [_free(space, spec.mutable, mask, i) for i in range(UNITS)]
        ranges = [_ranges(space, row, ways) for row, ways in zip(x, free, strict=True)]
        if max(prod(map(len, r)) for r in ranges) > LIMIT:
            continue
        members = [_members(space, spec, row, r) for row, r in zip(x, ranges, strict=True)]
        if np.median([len(m) for m in members]) >= LEAST:
            break
    values = (x / SCALE).astype(np.float32).reshape(UNITS, *space.shape)
    case = case_of(seed, draw, space, values)
    listed = [(m / SCALE).astype(np.float32).reshape(-1, *space.shape) for m in members]
    with torch.no_grad():
        gain = np.array([gain_of(case, m, int(y)) for m, y in zip(listed, case.y, strict=True)])
    return Puzzle(case, spec, mask, listed, gain)


def job(found: Puzzle) -> Job:
    """The puzzle as a search is given it."""
    case, x = found.case, found.case.x
    plain = case.job(replace(found.threat, mutable=Mutable("all")))
    ids = [f"u{i}" for i in range(len(x))]
    return replace(plain, sets=ThreatSet.build(case.space, found.threat, x, ids=ids, mask=found.mask))


def gain_of(case: Case, members: np.ndarray, label: int) -> float:
    scores = case.deployed(torch.from_numpy(members)).double()
    own = scores[:, label].clone()
    scores[:, label] = -np.inf
    return float((scores.amax(1) - own).amax())


def _levels(cell: Cell) -> list[int]:
    """The levels of a cell in 1/48."""
    return list(range(int(cell.low * SCALE), int(cell.high * SCALE) + 1, int(cell.step * SCALE)))


def _space(draw: random.Random) -> Space:
    cells = {s: Cell("lattice", F(0), F(1), F(1, s)) for s in (3, 6, 8, 16, 24)} | {
        0: Cell("integer", F(0), F(3), F(1)),
        1: Cell("integer", F(0), F(1), F(1)),
    }
    kind = draw.choice(("features", "features", "vector", "picture", "channels"))
    if kind == "features":
        size = draw.randint(3, 6)
        each = tuple(cells[draw.choice(list(cells))] for _ in range(size))
        relations = ()
        if draw.random() < 0.3:
            each = (each[0], each[0], *each[2:])
            relations = (Relation(Ref("a"), "<=", Ref("b"), text="a <= b"),)
        return Space("px", (size,), each, "each", features=tuple("abcdef"[:size]), relations=relations)
    cell = cells[draw.choice((3, 6, 8, 16))]
    if kind == "vector":
        return Space("px", (draw.randint(4, 9),), (cell,))
    if kind == "picture":
        return Space("px", (draw.randint(2, 3), draw.randint(2, 4)), (cell,))
    return Space("px", (2, 2, 3), (cell,), channel_axis=0)


def _threat(draw: random.Random, space: Space) -> tuple[Threat, np.ndarray | None]:
    kind = draw.random()
    allow = _ball(draw, space)
    if kind < 0.35:
        allow = Either((allow, _ball(draw, space)), ("one", "two"))
    elif kind < 0.55:
        allow = Both((allow, _ball(draw, space)))
    elif kind < 0.65:
        allow = Either((Both((allow, _ball(draw, space))), _ball(draw, space)), ("one", "two"))
    mask = None
    mutable = Mutable("all")
    if space.features:
        named = [n for n in space.features if draw.random() < 0.7] or [space.features[0]]
        mutable = Mutable("features", tuple((n, draw.choice(("any", "any", "up", "down"))) for n in named))
    elif draw.random() < 0.7:
        apart = draw.random() < 0.5
        mask = np.array([draw.random() < 0.7 for _ in range(space.size * (UNITS if apart else 1))])
        mask[:: space.size] = True
        mask = mask.reshape(*([UNITS] if apart else []), *space.shape)
        mutable = Mutable("mask", per_example=apart)
    return replace(threat(), allow=allow, mutable=mutable), mask


def _ball(draw: random.Random, space: Space) -> Ball | Patch:
    norm = draw.choice(("linf", "linf", "l2", "l2", "l1", "l1", "l0", "pixels_changed", "per feature", "patch"))
    if norm == "per feature" and space.features:
        radii = tuple((n, F(draw.randint(2, 48), SCALE)) for n in space.features)
        return Ball("linf", "px", None, radii, "feature")
    if norm == "patch" and len(space.shape) > 1:
        return Patch("rectangle", draw.randint(1, 2), draw.randint(1, 2))
    if norm in ("l0", "pixels_changed"):
        return Ball(norm, "px", F(draw.randint(1, 3)))
    least, most = {"l2": (8, 60), "l1": (8, 96)}.get(norm, (2, 20))
    return Ball("linf" if norm in ("per feature", "patch") else norm, "px", F(draw.randint(least, most), SCALE))


def _free(space: Space, mutable: Mutable, mask: np.ndarray | None, unit: int) -> list[tuple[bool, bool]]:
    """(may rise, may fall) per coordinate."""
    if mutable.kind == "features":
        ways = dict(mutable.names)
        return [(ways.get(n) in ("any", "up"), ways.get(n) in ("any", "down")) for n in space.features]
    if mask is None:
        return [(True, True)] * space.size
    own = mask[unit] if mutable.per_example else mask
    return [(bool(m), bool(m)) for m in own.reshape(-1)]


def _ranges(space: Space, row: np.ndarray, free: list[tuple[bool, bool]]) -> list[list[int]]:
    return [
        [v for v in _levels(space.cell(j)) if v == own or (v > own and up) or (v < own and down)]
        for j, (own, (up, down)) in enumerate(zip(row, free, strict=True))
    ]


def _members(space: Space, spec: Threat, row: np.ndarray, ranges: list[list[int]]) -> np.ndarray:
    """Every member (n, size) in 1/48."""
    every = np.array(list(itertools.product(*ranges)))
    inside = holds(space, spec.allow, every - row)
    if space.relations:
        inside &= every[:, 0] <= every[:, 1]
    return every[inside]


def holds(space: Space, allow: object, d: np.ndarray) -> np.ndarray:
    """Which changes (n, size), in 1/48, the set allows."""
    if isinstance(allow, (Both, Either)):
        parts = [holds(space, part, d) for part in allow.parts]
        return np.logical_and.reduce(parts) if isinstance(allow, Both) else np.logical_or.reduce(parts)
    changed = (d != 0).reshape(-1, *space.shape)
    pixels = changed if space.channel_axis is None else changed.any(axis=1 + space.channel_axis)
    if isinstance(allow, Patch):
        rows, columns = pixels.shape[1:]
        fits = np.zeros(len(d), bool)
        for r, c in itertools.product(range(rows - allow.height + 1), range(columns - allow.width + 1)):
            outside = pixels.copy()
            outside[:, r : r + allow.height, c : c + allow.width] = False
            fits |= ~outside.any(axis=(1, 2))
        return fits
    if allow.per == "feature":
        radii = np.array([int(dict(allow.radii)[n] * SCALE) for n in space.features])
        return (np.abs(d) <= radii).all(axis=1)
    r = int(allow.radius * SCALE)
    if allow.norm == "linf":
        return (np.abs(d) <= r).all(axis=1)
    if allow.norm == "l1":
        return np.abs(d).sum(axis=1) <= r
    if allow.norm == "l2":
        return (d * d).sum(axis=1) <= r * r
    counted = changed if allow.norm == "l0" else pixels
    return counted.reshape(len(d), -1).sum(axis=1) <= int(allow.radius)


def case_of(seed: int, draw: random.Random, space: Space, x: np.ndarray) -> Case:
    """A network of one hidden layer, sharp enough to be no plane; labels are its own decisions."""
    generator = torch.Generator().manual_seed(seed)
    classes, hidden = draw.choice((2, 3, 5)), draw.choice((8, 16))
    net = nn.Sequential(nn.Flatten(), nn.Linear(space.size, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    with torch.no_grad():
        for layer, width in ((net[1], 3.0), (net[3], 1.5)):
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) * width / layer.in_features**0.5)
        net[1].bias.copy_(-(net[1].weight @ torch.rand(space.size, generator=generator)))
        net[3].bias.copy_((2 * torch.rand(classes, generator=generator) - 1) / hidden**0.5)
    case = Case(net, space, model(classes), x, [0] * len(x))
    case.y = case.decisions(torch.from_numpy(x))
    return case
