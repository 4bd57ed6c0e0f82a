"""The allowed set written down a second time, slowly: one input, one rational at a time, straight from the definitions.

Used as the independent side of property tests; shares no code with ``tmlang.backends``.
"""

from __future__ import annotations

import random
from fractions import Fraction as F
from functools import lru_cache

import numpy as np

from tmlang.meaning.spaces import Cell, Metric, Num, Op, Ref, Relation, Space
from tmlang.meaning.threats import Access, Ball, Both, Either, Goal, Mutable, Threat


def nearest(q: F, dtype: str) -> np.floating:
    """The value of ``dtype`` nearest to ``q``, by trying the neighbours of a rounded guess."""
    guess = np.array(q.numerator / q.denominator, dtype)
    around = [guess, np.nextafter(guess, np.array(np.inf, dtype)), np.nextafter(guess, np.array(-np.inf, dtype))]
    return min(around, key=lambda v: (abs(F(float(v)) - q), int(v.view(f"u{v.itemsize}")) & 1))[()]


@lru_cache(maxsize=100_000)
def number(cell: Cell, value: np.floating, dtype: str) -> F | None:
    """What the value stands for; ``None`` off the lattice."""
    if cell.kind == "real":
        return F(float(value))
    k = 0
    while cell.low + k * cell.step <= cell.high:
        if nearest(cell.low + k * cell.step, dtype) == value:
            return cell.low + k * cell.step
        k += 1
    return None


def arithmetic(e, row):
    if isinstance(e, Num):
        return e.value
    if isinstance(e, Ref):
        return row[e.feature]
    a, b = arithmetic(e.left, row), arithmetic(e.right, row)
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[e.op]()


def obeys(relation: Relation, row: dict[str, F]) -> bool:
    try:
        a, b = arithmetic(relation.left, row), arithmetic(relation.right, row)
    except ZeroDivisionError:
        return False
    t = relation.tolerance
    return {"<=": a <= b + t, "<": a < b + t, ">=": a >= b - t, ">": a > b - t, "==": abs(a - b) <= t}[relation.op]


def in_ball(space: Space, allow, numbers: list[F], originals: list[F]) -> bool:
    if isinstance(allow, Both):
        return all(in_ball(space, p, numbers, originals) for p in allow.parts)
    if isinstance(allow, Either):
        return any(in_ball(space, p, numbers, originals) for p in allow.parts)
    d = [abs(a - b) for a, b in zip(numbers, originals, strict=True)]
    if allow.norm == "linf" and allow.per == "feature":
        radii = dict(allow.radii)
        return all(
            x <= (radii[n] + allow.tolerance if n in radii else 0) for x, n in zip(d, space.features, strict=True)
        )
    if allow.norm == "metric":
        weights = dict(next(m for m in space.metrics if m.name == allow.metric).weights)
        cost = F(0)
        for j, name in enumerate(space.features):
            moved = F(int(d[j] != 0)) if space.cell(j).kind == "category" else d[j]
            cost += weights.get(name, F(0)) * moved
        return cost <= allow.radius + allow.tolerance
    r = allow.radius + allow.tolerance
    if allow.norm == "linf":
        return max(d) <= r
    if allow.norm == "l1":
        return sum(d) <= r
    if allow.norm == "l0":
        return sum(x != 0 for x in d) <= r
    square = sum(x * x for x in d)
    return square <= r * r * (len(d) if allow.norm == "l2_rms" else 1)


def is_member(space: Space, threat: Threat, x, x0) -> bool:
    """Whether ``x`` (size,) is allowed around ``x0``."""
    if not all(np.isfinite(x)):
        return False
    cells = [space.cell(j) for j in range(space.size)]
    numbers = [number(c, v, space.dtype) for c, v in zip(cells, x, strict=True)]
    originals = [number(c, v, space.dtype) for c, v in zip(cells, x0, strict=True)]
    if any(n is None for n in numbers):
        return False
    if any(not c.low <= n <= c.high for c, n in zip(cells, numbers, strict=True)):
        return False
    if threat.mutable.kind == "features":
        free = dict(threat.mutable.names)
        for name, a, b in zip(space.features, numbers, originals, strict=True):
            how = free.get(name)
            if (a > b and how not in ("any", "up")) or (a < b and how not in ("any", "down")):
                return False
    row = dict(zip(space.features, numbers, strict=True))
    if not all(obeys(r, row) for r in space.relations):
        return False
    return in_ball(space, threat.allow, numbers, originals)


# --- random sets -----------------------------------------------------------------------------------------------------


def some_cell(rng: random.Random, kinds: str = "rlic") -> Cell:
    kind = rng.choice(kinds)
    low = F(rng.randint(-3, 2)) if rng.random() < 0.5 else F(rng.randint(-30, 20), 7)
    if kind == "r":
        return Cell("real", low, low + F(rng.randint(1, 12), rng.choice((1, 3, 5))))
    if kind == "l":
        step = F(1, rng.choice((3, 7, 10, 16)))
        return Cell("lattice", low, low + step * rng.randint(1, 12), step)
    if kind == "i":
        return Cell("integer", F(int(low)), F(int(low) + rng.randint(1, 9)), F(1))
    count = rng.randint(2, 4)
    return Cell("category", F(0), F(count - 1), F(1), categories=tuple("abcd"[:count]))


def some_space(rng: random.Random, kinds: str = "rlic", most: int = 4, dtype: str | None = None) -> Space:
    size = rng.randint(1, most)
    names = tuple("pqrstu"[:size])
    cells = tuple(some_cell(rng, kinds) for _ in names)
    weights = tuple((n, F(rng.randint(1, 5), rng.randint(1, 9))) for n in names if rng.random() < 0.9)
    return Space(
        "s", (size,), cells, "each", dtype=dtype or rng.choice(("float32", "float32", "float64")), features=names,
        metrics=(Metric("m", weights),),
    )  # fmt: skip


def some_radius(rng: random.Random) -> F:
    return F(rng.randint(0, 20), rng.choice((1, 4, 5, 7, 10, 16)))


def some_ball(rng: random.Random, space: Space, norms: str = "i21rm0f") -> Ball:
    kind = rng.choice(norms)
    tolerance = F(1, 1000) if rng.random() < 0.1 else F(0)
    if kind == "f":
        radii = tuple((n, some_radius(rng)) for n in space.features if rng.random() < 0.8)
        return Ball("linf", "s", None, radii, "feature", tolerance=tolerance)
    if kind == "m":
        return Ball("metric", "s", some_radius(rng), metric="m", tolerance=tolerance)
    norm = {"i": "linf", "2": "l2", "1": "l1", "r": "l2_rms", "0": "l0"}[kind]
    return Ball(norm, "s", F(rng.randint(1, 3)) if kind == "0" else some_radius(rng), tolerance=tolerance)


def some_allowed(rng: random.Random, space: Space, norms: str = "i21rm0f"):
    shape = rng.random()
    if shape < 0.6:
        return some_ball(rng, space, norms)
    parts = tuple(some_ball(rng, space, norms) for _ in range(rng.randint(2, 3)))
    if shape < 0.75:
        return Both(parts)
    if shape < 0.9:
        return Either(parts)
    return Both((some_ball(rng, space, norms), Either(parts)))


def some_mutable(rng: random.Random, space: Space) -> Mutable:
    if rng.random() < 0.5:
        return Mutable("all")
    names = tuple((n, rng.choice(("any", "up", "down"))) for n in space.features if rng.random() < 0.8)
    return Mutable("features", names or ((space.features[0], "any"),))


def some_threat(rng: random.Random, space: Space, norms: str = "i21rm0f") -> Threat:
    return Threat(
        "t", "m", "d", some_allowed(rng, space, norms), None, some_mutable(rng, space), Goal("untargeted"),
        Access("white_box"), "fail",
    )  # fmt: skip


def some_relations(rng: random.Random, space: Space) -> tuple[Relation, ...]:
    def term(depth: int):
        if depth == 0 or rng.random() < 0.3:
            return (
                Ref(rng.choice(space.features)) if rng.random() < 0.7 else Num(F(rng.randint(-6, 6), rng.randint(1, 5)))
            )
        return Op(rng.choice("+-*/"), term(depth - 1), term(depth - 1))

    ops = ("<=", ">=", "<", ">", "==")
    return tuple(Relation(term(2), rng.choice(ops), term(2), F(rng.randint(0, 9), 4)) for _ in range(rng.randint(0, 2)))


def some_value(rng: random.Random, cell: Cell, dtype: str):
    if cell.kind == "real":
        top = 2**20
        value = np.array(float(cell.low + (cell.high - cell.low) * F(rng.randint(0, top), top)), dtype)
        inside = [v for v in (value, np.nextafter(value, np.array(0, dtype)), np.nextafter(value, np.array(99, dtype)))
                  if cell.low <= F(float(v)) <= cell.high]  # fmt: skip
        return inside[0][()]
    last = (cell.high - cell.low) // cell.step
    return nearest(cell.low + rng.randint(0, int(last)) * cell.step, dtype)


def some_input(rng: random.Random, space: Space):
    return np.array([some_value(rng, space.cell(j), space.dtype) for j in range(space.size)], space.dtype)
