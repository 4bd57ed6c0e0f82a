"""Random small sets of features that equations couple, and all of their members written down: the exact answer.

No feature moves alone in them: shares that sum to one, a stated ratio, a product, two equations that share a feature.
Levels are whole numbers of 1/12, so whether an equation holds is integer arithmetic.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import torch
from backend_support import threat
from small_sets import SCALE, UNITS, Puzzle, case_of, gain_of, holds

from tmlang.meaning.spaces import Arithmetic, Cell, Num, Op, Ref, Relation, Space
from tmlang.meaning.threats import Allowed, Ball, Both, Either, Mutable

STEPS = 12
LEAST = 12
"""Members that half of the sets have at least."""
Levels = list[np.ndarray]
"""The column of each feature, in 1/12."""

A, B, C, D = map(Ref, "abcd")


def _sum(*parts: Arithmetic) -> Arithmetic:
    total = parts[0]
    for part in parts[1:]:
        total = Op("+", total, part)
    return total


def _equation(left: Arithmetic, right: Arithmetic, tolerance: F = F(0), op: str = "==") -> Relation:
    return Relation(left, op, right, tolerance, text="of this test")


Coupling = tuple[tuple[Relation, ...], Callable[[Levels], np.ndarray]]
COUPLINGS: dict[str, Coupling] = {
    "two shares": ((_equation(_sum(A, B), Num(F(1))),), lambda v: v[0] + v[1] == 12),
    "three shares": ((_equation(_sum(A, B, C), Num(F(1))),), lambda v: v[0] + v[1] + v[2] == 12),
    "about a half": (
        (_equation(_sum(A, B, C), Num(F(3, 2)), F(1, 12)),),
        lambda v: abs(v[0] + v[1] + v[2] - 18) <= 1,
    ),
    "a balance": ((_equation(_sum(A, B), _sum(C, D)),), lambda v: v[0] + v[1] == v[2] + v[3]),
    # |a / b - 1/2| <= 1/10, times 10 b; nothing is divided by zero
    "a ratio": (
        (_equation(Op("/", A, B), Num(F(1, 2)), F(1, 10)),),
        lambda v: (v[1] > 0) & (abs(10 * v[0] - 5 * v[1]) <= v[1]),
    ),
    # |a b - c| <= 1/24, in 1/144
    "a product": (
        (_equation(Op("*", A, B), C, F(1, 24)),),
        lambda v: abs(v[0] * v[1] - 12 * v[2]) <= 6,
    ),
    "a chain": (
        (_equation(_sum(A, B), Num(F(1))), _equation(_sum(B, C), Num(F(1)))),
        lambda v: (v[0] + v[1] == 12) & (v[1] + v[2] == 12),
    ),
    "shares in order": (
        (_equation(_sum(A, B), Num(F(1))), _equation(C, A, op="<=")),
        lambda v: (v[0] + v[1] == 12) & (v[2] <= v[0]),
    ),
}  # fmt: skip


def puzzle(seed: int) -> Puzzle:
    """One threat around eight originals of a random network, as ``small_sets.puzzle`` has it."""
    draw = random.Random(seed)
    relations, obeyed = COUPLINGS[draw.choice(list(COUPLINGS))]
    step = F(1, STEPS)
    cells = tuple(
        Cell("lattice", F(0), F(1), step) if j < 4 else Cell("integer", F(0), F(2), F(1))
        for j in range(draw.choice((4, 4, 5)))
    )
    space = Space("px", (len(cells),), cells, "each", features=tuple("abcde"[: len(cells)]), relations=relations)
    ranges = [range(0, 25, 12) if cell.kind == "integer" else range(STEPS + 1) for cell in cells]
    every = np.array(list(itertools.product(*ranges)))
    every = every[obeyed(list(every.T))]
    while True:
        names = [n for n in space.features if draw.random() < 0.85] or ["a"]
        mutable = Mutable("features", tuple((n, draw.choice(("any", "any", "any", "up", "down"))) for n in names))
        spec = replace(threat(), allow=_allow(draw), mutable=mutable)
        x = every[draw.sample(range(len(every)), UNITS)]
        ways = dict(mutable.names)
        may = [ways.get(n) for n in space.features]
        members = [_members(space, spec.allow, may, row, every) for row in x]
        if np.median([len(m) for m in members]) >= LEAST:
            break
    case = case_of(seed, draw, space, (x / STEPS).astype(np.float32))
    listed = [(m / STEPS).astype(np.float32) for m in members]
    with torch.no_grad():
        gain = np.array([gain_of(case, m, int(y)) for m, y in zip(listed, case.y, strict=True)])
    return Puzzle(case, spec, None, listed, gain)


def _allow(draw: random.Random) -> Allowed:
    kind = draw.random()
    if kind < 0.2:
        return Either((_ball(draw), _ball(draw)), ("one", "two"))
    return Both((_ball(draw), _ball(draw))) if kind < 0.35 else _ball(draw)


def _ball(draw: random.Random) -> Ball:
    norm = draw.choice(("linf", "linf", "l2", "l1", "l0"))
    if norm == "l0":
        return Ball(norm, "px", F(draw.randint(2, 3)))
    least, most = {"linf": (2, 6), "l2": (4, 10), "l1": (5, 16)}[norm]
    return Ball(norm, "px", F(draw.randint(least, most), STEPS))


def _members(space: Space, allow: Allowed, may: list[str | None], row: np.ndarray, every: np.ndarray) -> np.ndarray:
    d = every - row
    inside = holds(space, allow, d * (SCALE // STEPS))
    for j, way in enumerate(may):
        inside &= (d[:, j] == 0) | (way == "any") | ((d[:, j] > 0) if way == "up" else (d[:, j] < 0) & (way == "down"))
    return every[inside]
