"""``allow:`` as a union of branches, each an intersection of a box of limits and of balls.

Intersections are multiplied out over unions, so a branch is never more than that. linf balls and what every other ball
implies per coordinate are limits; several of them meet coordinate by coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import floor, isqrt

import numpy as np

from tmlang.backends.domain import Domain
from tmlang.backends.interval import Limits
from tmlang.backends.masks import image_axes
from tmlang.backends.membership import Ball as BallSet
from tmlang.backends.membership import CountBall, PatchBall, PowerBall, disc
from tmlang.backends.transforms import TransformSet
from tmlang.diagnostics.stop import stop
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Allowed, Anything, Ball, Both, Either, Patch, Transform, transforms


@dataclass(frozen=True, eq=False)
class Branch:
    """One branch of the allowed set.

    ``limits`` are part of the set (``rules`` names them); ``hull``: the limits met with what the ``balls`` imply per
    coordinate. ``transform``: whose pictures alone are in it. ``name`` is ``""`` outside a union.
    """

    name: str
    rules: tuple[str, ...]
    limits: Limits
    hull: Limits
    balls: tuple[BallSet, ...]
    transform: TransformSet | None = None

    @property
    def sets(self) -> tuple[BallSet | TransformSet, ...]:
        """What lies within the limits and must hold as well."""
        return self.balls if self.transform is None else (*self.balls, self.transform)


def branches(space: Space, allow: Allowed | None) -> tuple[Branch, ...]:
    """The branches in the order written; ``None`` (a threat that minimizes) and ``anything`` are one without limits."""
    if isinstance(allow, Either):
        names = allow.names or ("",) * len(allow.parts)
        named = [(name or str(i), part) for i, (name, part) in enumerate(zip(names, allow.parts, strict=True), 1)]
    else:
        named = [("", allow or Anything())]
    made = _pictures(space, allow)
    return tuple(_branch(space, name, atoms, made) for name, part in named for atoms in _alternatives(part))


def _pictures(space: Space, allow: Allowed | None) -> dict[Transform, TransformSet]:
    """What each transform makes; the parameters of all stand side by side."""
    found = [TransformSet(transform, Domain(space)) for transform in transforms(allow)]
    sizes = [one.kept for one in found]
    return {
        one.transform: replace(one, before=sum(sizes[:i]), behind=sum(sizes[i + 1 :])) for i, one in enumerate(found)
    }


Atom = Ball | Patch | Transform


def _alternatives(allow: Allowed) -> list[tuple[Atom, ...]]:
    """``allow`` as a list of alternatives, each a tuple of parts that hold together."""
    if isinstance(allow, Either):
        return [atoms for part in allow.parts for atoms in _alternatives(part)]
    if isinstance(allow, Both):
        return [sum(choice, ()) for choice in product(*(_alternatives(part) for part in allow.parts))]
    return [()] if isinstance(allow, Anything) else [(allow,)]


def _branch(space: Space, name: str, atoms: tuple[Atom, ...], made: dict[Transform, TransformSet]) -> Branch:
    limits = implied = Limits.uniform(space.size, None)
    rules, balls, transform = [], [], None
    for atom in atoms:
        if isinstance(atom, Transform):
            if transform is not None and transform.transform != atom:
                raise stop("TM420", "one picture is to be made by two transforms", space.origin)
            transform = made[atom]
            continue
        ball, reach = _ball(space, atom) if isinstance(atom, Ball) else _patch(space, atom)
        if isinstance(ball, str):
            rules.append(ball)
            limits = limits.meet(reach)
        else:
            balls.append(ball)
            implied = implied.meet(reach)
    return Branch(name, tuple(dict.fromkeys(rules)), limits, implied.meet(limits), tuple(balls), transform)


def _linf(space: Space, ball: Ball) -> Limits:
    if ball.per is None:
        assert ball.radius is not None
        return Limits.uniform(space.size, ball.radius + ball.tolerance)
    if ball.per == "feature":
        given = {name: radius + ball.tolerance for name, radius in ball.radii}
        return Limits(np.arange(space.size), tuple(given.get(name, Fraction(0)) for name in space.features))
    channel = image_axes(space)[2]
    if channel is None or len(ball.radii) != space.shape[channel]:
        raise stop("TM225", f"{len(ball.radii)} radii per channel do not fit `{space.name}`", ball.origin)
    along = [1] * len(space.shape)
    along[channel] = -1
    of = np.broadcast_to(np.arange(len(ball.radii)).reshape(along), space.shape).reshape(-1)
    return Limits(of, tuple(radius + ball.tolerance for _, radius in ball.radii))


def _ball(space: Space, ball: Ball) -> tuple[BallSet | str, Limits]:
    """The ball and the limits that it implies; its name alone where the limits say everything."""
    if ball.norm == "linf":
        return f"linf per {ball.per}" if ball.per else "linf", _linf(space, ball)
    if ball.radius is None:
        raise stop("TM225", f"radii per {ball.per} are for linf, not for {ball.norm}", ball.origin)
    radius = ball.radius + ball.tolerance
    if ball.norm in ("l0", "pixels_changed"):
        most = floor(radius)
        counted = pixel_ball(space, most) if ball.norm == "pixels_changed" else CountBall("l0", most, space.shape)
        return counted, Limits.uniform(space.size, None if most else Fraction(0))
    if ball.norm in ("l2", "l2_rms"):
        bound = radius**2 * (space.size if ball.norm == "l2_rms" else 1)
        return PowerBall(ball.norm, 2, bound), Limits.uniform(space.size, root(bound))
    if ball.norm == "l1":
        return PowerBall("l1", 1, radius), Limits.uniform(space.size, radius)
    return _metric(space, ball, radius)


def pixel_ball(space: Space, most: int) -> CountBall:
    """At most ``most`` changed pixels; the entries of a vector are pixels of their own."""
    channels = image_axes(space)[2] if len(space.shape) > 1 else None
    return CountBall("pixels_changed", most, space.shape, channels)


def _metric(space: Space, ball: Ball, radius: Fraction) -> tuple[BallSet, Limits]:
    metric = next(m for m in space.metrics if m.name == ball.metric)
    weights = {space.features.index(name): weight for name, weight in metric.weights}
    limits: list[Fraction | None] = []
    for j in range(space.size):
        weight = weights.get(j, Fraction(0))
        if space.cell(j).kind == "category":
            limits.append(Fraction(0) if weight > radius else None)
        else:
            limits.append(radius / weight if weight else None)
    return PowerBall(f"metric {metric.name}", 1, radius, weights), Limits(np.arange(space.size), tuple(limits))


def stamped(space: Space, patch: Patch) -> PatchBall:
    """The pixels of a patch, anywhere in a picture."""
    stamp = disc(patch.height) if patch.shape == "disc" else np.ones((patch.height, patch.width), np.bool_)
    return PatchBall("patch", stamp, space.shape, image_axes(space))


def _patch(space: Space, patch: Patch) -> tuple[BallSet | str, Limits]:
    ball = stamped(space, patch)
    rows, columns = (space.shape[axis] for axis in ball.axes[:2])
    top, left = patch.at or (0, 0)
    stamp = ball.stamp
    if top < 0 or left < 0 or top + stamp.shape[0] > rows or left + stamp.shape[1] > columns:
        raise stop(
            "TM226", f"a patch of {stamp.shape[0]} by {stamp.shape[1]} does not lie in {rows} by {columns} pixels",
            space.origin,
        )  # fmt: skip
    if patch.at is None:
        return ball, Limits.uniform(space.size, None)
    return "patch", Limits(ball.region(patch.at).reshape(-1).astype(np.intp), (Fraction(0), None))


def root(square: Fraction) -> Fraction:
    """A rational at or above the square root, exact for the square of a rational, else above by at most 2**-128."""
    scale = 1 if _is_square(square) else 1 << 128
    value = isqrt(square.numerator * square.denominator * scale**2)
    exact = Fraction(value, square.denominator * scale)
    return exact if exact**2 == square else exact + Fraction(1, square.denominator * scale)


def _is_square(q: Fraction) -> bool:
    return isqrt(q.numerator) ** 2 == q.numerator and isqrt(q.denominator) ** 2 == q.denominator
