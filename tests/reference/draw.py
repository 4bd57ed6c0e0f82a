"""A world from a seed: spaces, networks, threats and stages of every kind whose sets can be listed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction as F
from math import lcm

import numpy as np

from reference.truth import CLEAR, TooLarge, Truth, decisions, outputs, transforms
from reference.world import (
    Allow,
    Ball,
    Cell,
    Evaluation,
    Join,
    Net,
    Patch,
    Relation,
    Rule,
    Space,
    Threat,
    Transform,
    World,
)

WORDS = ("red", "green", "blue", "grey")
THRESHOLDS = ("<", "<=", ">", ">=")


def worlds(seed: int) -> Iterator[tuple[World, dict[str, Truth]]]:
    """The worlds of a seed, one after the other, with the truth about their threats. What is too large to list, has
    nothing to move, or hangs on rounding is left out."""
    for attempt in range(1000):
        draw = random.Random(f"{seed}/{attempt}")
        try:
            made = _world(seed, draw)
            truths = {t.name: Truth(made, t) for t in made.threats}
        except TooLarge:
            continue
        if all(t.near >= CLEAR and max(map(len, t.sets)) > 1 for t in truths.values()):
            yield made, truths


def _world(seed: int, draw: random.Random) -> World:
    pictures = draw.random() < 0.15
    space = _real_picture(draw) if pictures else _space(draw)
    numbers = [space.cell(j) for j in range(space.size)]
    over = lcm(*(n for c in numbers for n in (c.low.denominator, c.step.denominator)), 256 if pictures else 1)
    x = _originals(draw, space, over)
    classes, rule, width = _rule(draw)
    net = _net(draw, space, width, rule)
    made = World(seed, space, net, rule, classes, over, x, (None,) * len(x), (), ())
    made = _centred(draw, made)
    decided, _ = decisions(made, x)
    labels = tuple(_label(draw, int(z), len(classes)) for z in decided)
    table = bool(space.names) and draw.random() < 0.5
    if not table:
        labels = tuple(0 if y is None else y for y in labels)
    targets = tuple(draw.randrange(len(classes)) for _ in x) if table else ()
    made = replace(made, labels=labels, table=table, targets=targets)
    threats = [_threat(draw, made, f"t{k}", pictures) for k in range(1 if draw.random() < 0.7 else 2)]
    made = replace(made, threats=tuple(threats))
    return replace(made, evaluations=tuple(e for t in threats for e in _evaluations(draw, made, t)))


def _label(draw: random.Random, z: int, classes: int) -> int | None:
    if draw.random() < 0.06:
        return None
    return z if z >= 0 and draw.random() < 0.85 else draw.randrange(classes)


# --- spaces ---------------------------------------------------------------------------------------------------------


def _cell(draw: random.Random) -> Cell:
    kind = draw.random()
    if kind < 0.25:
        low = draw.choice((0, 0, 0, -2, 1))
        return Cell(F(low), F(1), draw.choice((2, 3, 4, 6)), whole=True)
    if kind < 0.3:
        return Cell(F(0), F(1), 256, whole=True)
    if kind < 0.6:  # short in binary: sums are exact, and ties occur
        step = draw.choice((F(1, 2), F(1, 4), F(1, 8), F(1)))
        return Cell(draw.choice((F(0), F(0), F(-1), F(1, 2))), step, draw.choice((3, 5, 9)))
    step = draw.choice((F(1, 3), F(1, 5), F(1, 10), F(1, 255), F(2, 7), F(1, 20)))
    return Cell(F(0) if draw.random() < 0.7 else F(-3) * step, step, {F(1, 255): 256, F(1, 20): 21}.get(step, 11))


def _space(draw: random.Random) -> Space:
    kind = draw.choice(("vector", "grey", "grey", "colour", "features", "features", "features", "features"))
    dtype = draw.choice(("float32", "float32", "float32", "float64"))
    if kind == "features":
        return _features(draw, dtype)
    cell = _cell(draw)
    if kind == "vector":
        return Space((draw.randint(1, 4),), (cell,), dtype=dtype)
    if kind == "grey":
        shape = (draw.randint(2, 3), draw.randint(2, 3))
        return Space(shape if draw.random() < 0.5 else (1, *shape), (cell,), channels=None, dtype=dtype)
    first = draw.random() < 0.5
    return Space((3, 2, 2) if first else (2, 2, 3), (cell,), channels=0 if first else 2, dtype=dtype)


def _features(draw: random.Random, dtype: str) -> Space:
    size = draw.randint(2, 4)
    names = tuple("abcd"[:size])
    same = _cell(draw)
    cells = [same if draw.random() < 0.6 else _cell(draw) for _ in names]
    if draw.random() < 0.4:
        count = draw.randint(2, 4)
        cells[-1] = Cell(F(0), F(1), count, WORDS[:count])
    relations: tuple[Relation, ...] = ()
    if draw.random() < 0.5 and not cells[0].words and not cells[1].words:
        cells[1] = cells[0]
        relations = (_relation(draw, cells),)
    weights = tuple((n, F(draw.randint(1, 4), draw.randint(1, 4))) for n in names)
    return Space((size,), tuple(cells), names, dtype=dtype, relations=relations, weights=weights)


def _relation(draw: random.Random, cells: list[Cell]) -> Relation:
    """Between the first two features, which have the same levels."""
    low, high = cells[0].low, cells[0].high
    level = low + high
    slack = cells[0].step * draw.choice((1, 2))
    number, near = _number(level), _number(slack)
    return draw.choice((
        Relation("where a <= b", lambda v, _: v[:, 0] <= v[:, 1]),
        Relation("where a < b", lambda v, _: v[:, 0] < v[:, 1]),
        Relation(f"where a + b <= {number}", lambda v, over: v[:, 0] + v[:, 1] <= level * over),
        Relation(
            f"where sum(a, b) == {number} tolerance {near}",
            lambda v, over: np.abs(v[:, 0] + v[:, 1] - int(level * over)) <= slack * over,
        ),
        Relation(f"derive total = a + b\n  where total >= {number}", lambda v, over: v[:, 0] + v[:, 1] >= level * over),
        Relation("where 2 * a - b <= b + 1", lambda v, over: 2 * v[:, 0] - v[:, 1] <= v[:, 1] + over),
    ))  # fmt: skip


def _number(q: F) -> str:
    return str(q) if q.denominator > 1 else str(q.numerator)


def _real_picture(draw: random.Random) -> Space:
    """What transforms move: real numbers that are short in binary, or levels."""
    shape = draw.choice(((2, 2), (2, 3), (3, 3)))
    cell = draw.choice((Cell(F(0), F(0), 2), Cell(F(0), F(0), 2), Cell(F(0), F(1, 8), 9), Cell(F(0), F(1, 4), 5)))
    colour = draw.random() < 0.25
    return Space((3, *shape) if colour else (1, *shape), (cell,), channels=0 if colour else None)


def _originals(draw: random.Random, space: Space, over: int) -> np.ndarray:
    rows: list[list[int]] = []
    count = draw.randint(1, 6)
    for _ in range(400):
        row = []
        for j in range(space.size):
            cell = space.cell(j)
            value = cell.low + draw.randrange(cell.count) * cell.step if cell.step else F(draw.randrange(9), 8)
            row.append(int(value * over))
        if all(r.holds(np.array([row]), over)[0] for r in space.relations):
            rows.append(row)
        if len(rows) == count:
            return np.array(rows, np.int64)
    raise TooLarge


# --- models ---------------------------------------------------------------------------------------------------------


def _rule(draw: random.Random) -> tuple[tuple[str, ...], Rule, int]:
    """The classes, how one of them is decided, and how many outputs that takes."""
    if draw.random() < 0.2:
        return ("yes", "no"), Rule(draw.choice(THRESHOLDS), value=F(draw.randint(-3, 3), 4)), 1
    k = draw.choice((2, 3, 3, 4))
    classes = tuple(str(c) for c in range(k)) if draw.random() < 0.6 else ("ant", "bee", "cow", "dog")[:k]
    rule = Rule(draw.choice(("argmax", "argmax", "argmin")), draw.choice(("lowest", "lowest", "reject", "error")))
    width = k
    if rule.ties != "error" and draw.random() < 0.45:
        kind = draw.choice(("class", "own class", "max_softmax", "distance"))
        if kind == "class":
            rule, width = replace(rule, rejects=(("class", "==", F(k)),)), k + 1
        elif kind == "own class":
            rule = replace(rule, rejects=(("class", "==", F(draw.randrange(k))),))
        elif kind == "max_softmax":
            rule = replace(rule, rejects=(("max_softmax", "<", F(draw.choice((11, 12, 14)), 20)),))
        else:
            rule, width = replace(rule, rejects=(("distance", ">", F(draw.randint(-2, 4), 4)),)), k + 1
    return classes, rule, width


def _net(draw: random.Random, space: Space, width: int, rule: Rule) -> Net:
    """Weights are multiples of 1/4, or any float32 numbers."""
    hot = any(c.words for c in space.cells)
    size = sum(len(space.cell(j).words) or 1 for j in range(space.size)) if hot else space.size
    exact = draw.random() < 0.6
    rng = np.random.default_rng(draw.randrange(1 << 30))

    def numbers(*shape: int) -> np.ndarray:
        if exact:
            return rng.integers(-6, 7, shape) / 4
        return rng.normal(size=shape).astype(np.float32).astype(np.float64)

    head = any(what == "distance" for what, _, _ in rule.rejects)
    kind = draw.choice(("onnx", "torch", "torch", "linear"))
    if kind == "linear" and (head or not exact or size > space.size):
        kind = "torch"
    layers = [(numbers(width, size), numbers(width))]
    if kind != "linear":
        hidden = draw.randint(2, 6)
        layers = [(numbers(hidden, size), numbers(hidden)), (numbers(width, hidden), numbers(width))]
    return Net(kind, tuple(layers), _steps(draw, space) if not hot else (), head, hot)


def _steps(draw: random.Random, space: Space) -> tuple[tuple[str, np.ndarray, np.ndarray], ...]:
    one = np.ones(space.size)
    widest = max(float(space.cell(j).high) for j in range(space.size))
    if widest > 8:
        factor = F(1, 64)
        return ((f"scale({factor})", one * float(factor), one * 0),)
    if draw.random() < 0.6:
        return ()
    kind = draw.choice(("scale", "normalize", "channels"))
    if kind == "scale":
        return (("scale(2)", one * 2, one * 0),)
    if kind == "normalize" or space.channels is None:
        return (("normalize(mean: 1/2, std: 1/4)", one * 4, one * -2),)
    means, sds = (0.5, 0.25, 0.0), (0.5, 1.0, 0.25)
    along = [1] * len(space.shape)
    along[space.channels] = 3
    m, s = (np.broadcast_to(np.reshape(v, along), space.shape).reshape(-1) for v in (means, sds))
    return (("normalize(mean: (1/2, 1/4, 0), std: (1/2, 1, 1/4))", 1 / s, -m / s),)


def _centred(draw: random.Random, made: World) -> World:
    """Biases such that classes meet among the originals: where one of them stands, all scores are nearly alike."""
    middle = outputs(made, made.x[draw.randrange(len(made.x))][None])[0]
    unit = 8 if draw.random() < 0.5 else 16
    wanted = np.array([draw.randint(-3, 3) / unit for _ in middle])
    wanted += float(made.rule.value)
    weights, bias = made.net.layers[-1]
    moved = bias + np.round((wanted - middle) * unit) / unit
    if made.net.kind != "linear":
        moved = moved.astype(np.float32).astype(np.float64)
    return replace(made, net=replace(made.net, layers=(*made.net.layers[:-1], (weights, moved))))


# --- threats --------------------------------------------------------------------------------------------------------


def _threat(draw: random.Random, made: World, name: str, pictures: bool) -> Threat:
    space, rule = made.space, made.rule
    mutable, up, down, mask = ("all", *_free(space), None) if pictures else _mutable(draw, space, len(made.x))
    moving = (up | down).any(axis=0)
    allow = _pictures(draw, space) if pictures else _allow(draw, space, moving)
    targeted = draw.random() < 0.45
    goal = _goal(draw, made) if targeted else "untargeted"
    abstains = bool(rule.rejects) or rule.ties == "reject"
    rejected, within = None, None
    if abstains:
        rejected = draw.choice(("safe", "denied") if targeted else ("fail", "safe", "denied", "fail within"))
        if rejected == "fail within":
            within = Ball("linf", _steps_of(draw, space, moving)) if not _mixed(space) else Ball("l0", F(1))
    clean_errors = draw.choice(("fail", "excluded"))
    return Threat(name, allow, mutable, up, down, mask, goal, clean_errors, rejected, within)


def _goal(draw: random.Random, made: World) -> str:
    rules = ["next", "each any", "each all", "each apart"]
    if made.rule.ties != "error":
        rules += ["runner_up", "least_likely"]
    if made.table:
        rules.append('column "target"')
    rule = draw.choice([*rules, "class"])
    return f"targeted class {draw.choice(made.classes)}" if rule == "class" else f"targeted {rule}"


def _free(space: Space) -> tuple[np.ndarray, np.ndarray]:
    free = np.ones((1, space.size), bool)
    return free, free


def _mixed(space: Space) -> bool:
    return any(c.words for c in space.cells)


def _mutable(draw: random.Random, space: Space, n: int) -> tuple[str, np.ndarray, np.ndarray, np.ndarray | None]:
    """The clause, where coordinates may rise and fall, and the mask that is stored."""
    free = np.ones((1, space.size), bool)
    kind = draw.random()
    if space.names:
        if kind < 0.35:
            return "all", free, free, None
        some = [n for n in space.names if draw.random() < 0.7] or [space.names[0]]
        if kind < 0.55 and len(some) < len(space.names):
            may = np.array([[name not in some for name in space.names]])
            return f"all except {', '.join(some)}", may, may, None
        ways = {n: "" if space.cell(j).words else draw.choice(("", "", " up only", " down only"))
                for j, n in enumerate(space.names) if n in some}  # fmt: skip
        up = np.array([[n in ways and ways[n] != " down only" for n in space.names]])
        down = np.array([[n in ways and ways[n] != " up only" for n in space.names]])
        return ", ".join(n + way for n, way in ways.items()), up, down, None
    if kind < 0.3:
        return "all", free, free, None
    if kind < 0.5 and space.picture:
        return _lines(draw, space)
    apart = draw.random() < 0.5
    mask = np.array([draw.random() < 0.5 for _ in range(space.size * (n if apart else 1))])
    mask[:: space.size] = True
    mask = mask.reshape(n if apart else 1, space.size)
    stored = mask.reshape(-1, *space.shape) if apart else mask.reshape(space.shape)
    return "mask(FILE)" + (" per example" if apart else ""), mask, mask, stored


def _lines(draw: random.Random, space: Space) -> tuple[str, np.ndarray, np.ndarray, None]:
    axes = {"rows": len(space.shape) - 2, "columns": len(space.shape) - 1}
    if space.channels is not None:
        others = [a for a in range(3) if a != space.channels]
        axes = {"rows": others[0], "columns": others[1], "channels": space.channels}
    word = draw.choice(list(axes))
    length = space.shape[axes[word]]
    first = draw.randrange(length)
    last = draw.randint(first, length - 1)
    but = draw.random() < 0.3 and last - first + 1 < length
    may = np.zeros(length, bool)
    may[first : last + 1] = True
    may ^= but
    along = [1] * len(space.shape)
    along[axes[word]] = -1
    whole = np.broadcast_to(may.reshape(along), space.shape).reshape(1, -1)
    return ("all except " if but else "") + f"{word} {first}..{last}", whole, whole, None


def _radius(draw: random.Random, space: Space, moving: np.ndarray) -> F:
    """Around one or two steps, on a level, between two, or at no short number."""
    return _steps_of(draw, space, moving) * draw.choice((F(1), F(1), F(3, 2), F(7, 5), F(5, 3)))


def _steps_of(draw: random.Random, space: Space, moving: np.ndarray) -> F:
    """One step or two, by which every coordinate that may move does."""
    cells = [space.cell(j) for j in np.flatnonzero(moving) if not space.cell(j).words]
    if not cells:
        raise TooLarge
    widest = max(cell.step or F(1, 8) for cell in cells)
    return widest * draw.choice((1, 1, 2))


def _ball(draw: random.Random, space: Space, moving: np.ndarray) -> Ball | Patch:
    plain = ["linf", "linf", "l1", "l2", "l2", "l2_rms"] if not _mixed(space) else []
    kinds = [*plain, "l0", "anything"]
    if space.names:
        kinds += ["per feature", "metric", "metric"]
    if len(space.shape) == 3:
        kinds += ["pixels_changed", "patch"]
    if space.channels is not None:
        kinds.append("per channel")
    kind = draw.choice(kinds)
    if kind == "per feature":
        radii = []
        for j in np.flatnonzero(moving):
            one = np.arange(space.size) == j
            radii.append((space.names[j], _steps_of(draw, space, one)))
        return Ball("linf", radii=tuple(radii))
    if kind == "per channel":
        return Ball("linf", radii=tuple((str(c), _steps_of(draw, space, moving)) for c in range(3)))
    if kind == "patch":
        rows, columns = _frame(space)
        height, width = draw.randint(1, 2), draw.randint(1, 2)
        place = (draw.randint(0, rows - height), draw.randint(0, columns - width))
        return Patch(height, width, place if draw.random() < 0.4 else None)
    if kind in ("l0", "pixels_changed"):
        return Ball(kind, F(draw.randint(1, 2)))
    if kind == "anything":
        return Ball(kind)
    if kind == "linf":
        return Ball(kind, _steps_of(draw, space, moving))
    scale = {"metric": F(1), "l1": F(2), "l2": F(3, 2), "l2_rms": F(1)}[kind]
    return Ball(kind, _radius(draw, space, moving) * scale)


def _frame(space: Space) -> tuple[int, int]:
    lengths = [n for axis, n in enumerate(space.shape) if axis != space.channels]
    return lengths[-2], lengths[-1]


def _allow(draw: random.Random, space: Space, moving: np.ndarray) -> Allow:
    kind = draw.random()
    if kind < 0.5:
        return _ball(draw, space, moving)
    a, b = _ball(draw, space, moving), _ball(draw, space, moving)
    if any(isinstance(p, Ball) and p.norm == "anything" for p in (a, b)):
        return a
    if kind < 0.68:
        return Join((a, b))
    if kind < 0.88:
        return Join((a, b), ("one", "two"))
    c = _ball(draw, space, moving)
    if isinstance(c, Ball) and c.norm == "anything":
        return a
    return Join((Join((a, b), ("one", "two")), c)) if draw.random() < 0.5 else Join((Join((a, b)), c), ("one", "two"))


def _pictures(draw: random.Random, space: Space) -> Allow:
    parts = []
    for name in draw.sample(("rotate", "translate", "scale", "brightness", "contrast"), draw.choice((1, 1, 2))):
        parts.append({
            "rotate": ("rotate", F(draw.choice((90, 180))), F(90)),
            "translate": ("translate", *draw.choice(((F(1), F(1)), (F(1), F(1, 2)), (F(1, 2), F(1, 2))))),
            "scale": ("scale", F(1, 2), F(1, 2)),
            "brightness": ("brightness", F(1, 4), draw.choice((F(1, 4), F(1, 8)))),
            "contrast": ("contrast", F(1, 2), draw.choice((F(1, 2), F(1, 4)))),
        }[name])  # fmt: skip
    order = ("rotate", "translate", "scale")
    parts.sort(key=lambda p: p[0] not in order)
    how = draw.choice(("nearest", "bilinear"))
    if all(name in ("brightness", "contrast") for name, _, _ in parts):
        parts.insert(0, ("rotate", F(90), F(90)))
    if any(name == "scale" for name, _, _ in parts):
        how = "nearest"
    transform = Transform(tuple(parts), how, F(draw.choice((0, 1)) if draw.random() < 0.7 else F(1, 2)))
    kind = draw.random()
    tolerance = F(1, 1000) if not space.cells[0].step and draw.random() < 0.3 else F(0)
    ball = Ball(draw.choice(("linf", "l2", "l1")), F(draw.choice((4, 6)), 8), tolerance=tolerance)
    if kind < 0.25:
        return Join((transform, ball))
    if kind < 0.4 and space.cells[0].step and space.size <= 4:
        return Join((transform, Ball("linf", space.cells[0].step)), ("one", "two"))
    return transform


# --- evaluations ----------------------------------------------------------------------------------------------------

ENUMERATE = ("enumerate", "grid", "native.enumerate(at_most: 2000)")
PRUNE = ("enumerate", "pruned", "auto_lirpa.enumerate(timeout: 60 's')")


def _evaluations(draw: random.Random, made: World, threat: Threat) -> list[Evaluation]:
    """The exact one, and searches and proofs beside it, in another evaluation or in the same."""
    grid = Evaluation(f"{threat.name}_exact", threat, (ENUMERATE,))
    kind = draw.random()
    if kind < 0.25:
        return [grid]
    others = _searches(draw, made, threat)
    full = draw.random() < 0.3
    if kind < 0.5:
        return [Evaluation(f"{threat.name}_exact", threat, (*others, ENUMERATE), full)]
    repeats = 2 if draw.random() < 0.15 else 1
    return [grid, Evaluation(f"{threat.name}_found", threat, tuple(others), full, repeats)]


def _searches(draw: random.Random, made: World, threat: Threat) -> list[tuple[str, str, str]]:
    """What is likely to carry the threat; what is refused is left out later."""
    loss = draw.choice(("ce", "margin", "reject_aware") if threat.rejected else ("ce", "margin"))
    moved = transforms(threat.allow)
    attacks = ["native.transform_grid(values: 3)"]
    if all(t.interpolate != "nearest" for t in moved):
        attacks.append("native.transform_pgd(steps: 3, restarts: 1)")
    if not moved:
        attacks = [
            "native.random(draws: 20)",
            "native.coordinates(restarts: 1)",
            "native.exhaustive_coordinates()",
        ]
        if not made.space.relations:
            attacks += [
                f"native.apgd(loss: {loss}, steps: 6, restarts: 1)",
                "native.pgd(loss: ce, steps: 4, restarts: 1)",
                "native.square(queries: 20)",
                "native.decision_search(steps: 3)",
                *["native.fab(steps: 4)"] * (threat.goal == "untargeted"),
            ]
    chosen = draw.sample(attacks, draw.choice((1, 2, 2, 3)) if len(attacks) > 2 else 1)
    stages = [("attack", f"a{k}", call) for k, call in enumerate(chosen)]
    if draw.random() < 0.5 and (threat.rejected in (None, "safe", "denied") or draw.random() < 0.2):
        stages.append(("certify", "proof", f"auto_lirpa.{draw.choice(('crown', 'ibp', 'crown_ibp'))}()"))
    if draw.random() < 0.3:
        stages.append(PRUNE)
    return stages
