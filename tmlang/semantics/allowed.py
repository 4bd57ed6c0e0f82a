"""``allow:`` and ``minimize:``: which inputs the attacker may hand in for the original (LANGUAGE.md section 6)."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Allowed, Anything, Ball, Both, Either, Mutable, Norm, transforms
from tmlang.meaning.values import Quantity
from tmlang.semantics import boxes, distances, mutable, radii, regions, spaces, values
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

NORMS = ("linf", "l2", "l2_rms", "l1", "l0", "pixels_changed")
_COUNTS = ("l0", "pixels_changed")


def allowed(world: World, env: Env, node: ast.Allowed, part: Mutable | None) -> Allowed | None:
    """The allowed set; ``part`` is what the attacker may move. It is ``None`` when ``mutable:`` was refused; what
    depends on it is then left alone."""
    match node:
        case ast.Ball():
            return ball(world, env, node, part)
        case ast.Patch():
            return regions.patch(world, env, node)
        case ast.Transform():
            return regions.transform(world, env, node)
        case ast.Anything():
            return Anything()
        case ast.Branch():
            return allowed(world, env, node.allowed, part)
        case ast.Both():
            parts = [allowed(world, env, p, part) for p in node.parts]
            return _intersection(world, node, cast("tuple[Allowed, ...]", tuple(parts))) if None not in parts else None
        case ast.Either():
            return _union(world, env, node, part)


def _intersection(world: World, node: ast.Both, parts: tuple[Allowed, ...]) -> Both | None:
    """Conditions that hold together; what makes the picture is said once."""
    made = [(p, found) for p, found in zip(node.parts, map(transforms, parts), strict=True) if found]
    if len({transform for _, found in made for transform in found}) < 2 or len(made) < 2:
        return Both(parts)
    world.report(
        "TM420",
        "two transforms stand in one intersection",
        made[1][0],
        notes=(
            "one reading: the pictures that both of them make, each from parameters of its own",
            "another: one moves what the other has made",
        ),
        help="one after the other is one transform, in the order written: transform { rotate <= … translate <= … }",
    )
    return None


def _union(world: World, env: Env, node: ast.Either, part: Mutable | None) -> Either | None:
    parts = [allowed(world, env, p, part) for p in node.parts]
    names: list[str] = []
    for p in node.parts:
        name = p.name.text if isinstance(p, ast.Branch) else ""
        if name and name in names:
            world.report("TM102", f"two branches are called {name}", cast(ast.Branch, p).name)
            return None
        names.append(name)
    return None if None in parts else Either(cast("tuple[Allowed, ...]", tuple(parts)), tuple(names))


def branches(node: ast.Allowed) -> list[str]:
    """The names of the branches of a union."""
    parts = node.parts if isinstance(node, ast.Either) else (node,)
    return [p.name.text for p in parts if isinstance(p, ast.Branch)]


def ball(world: World, env: Env, node: ast.Ball, part: Mutable | None, *, zero: bool = False) -> Ball | None:
    """``norm <= radius in space``. ``zero`` allows the ball that holds the original alone."""
    norm = node.norm.text
    if norm != "metric" and values.word(world, node.norm, NORMS, "norm") is None:
        return None
    written = values.value(world, env, node.radius)
    if isinstance(written, tuple) and (node.per is None or isinstance(node.radius, ast.List)):
        _several(world, node)
        return None
    if node.per is not None:
        return boxes.per(world, env, node, part, written)
    got = distances.quantity(world, written, node.radius)
    space = distances.measured_in(world, env, node.space, got, node.radius)
    if got is None or space is None:
        return None
    radius = _radius(world, node, space, part, got)
    tolerance = boxes.tolerance(world, env, node, space)
    if radius is None or tolerance is None:
        return None
    if not radii.check(world, node, space, part, radius, zero=zero):
        return None
    unit = got.unit if isinstance(got, Quantity) else None
    metric = node.metric.text if node.metric else None
    return Ball(cast(Norm, norm), space.name, radius, (), None, metric, tolerance, unit, node.span)


def _several(world: World, node: ast.Ball) -> None:
    world.report(
        "TM223",
        "one ball has one radius",
        node.radius,
        help="several radii in turn are a curve: param eps …, and curve: eps over […]; "
        "one radius per channel is written (r1, r2, r3) per channel",
    )


def _radius(
    world: World, node: ast.Ball, space: Space, part: Mutable | None, got: Fraction | Quantity
) -> Fraction | None:
    """The radius in the space's own units: a length, a count of coordinates, or a pure number of a metric."""
    if node.metric is not None:
        return _of_metric(world, node, node.metric, space, part, got)
    if node.norm.text in _COUNTS:
        return _count(world, node, space, got)
    if part is None and not spaces.one_unit(space.cells):
        return None
    return distances.common(world, space, mutable.moved(space, part), got, node.radius, node.norm)


def _of_metric(
    world: World, node: ast.Ball, name: ast.Name, space: Space, part: Mutable | None, got: Fraction | Quantity
) -> Fraction | None:
    metric = next((m for m in space.metrics if m.name == name.text), None)
    if metric is None:
        world.unknown("TM110", name, "metric", [m.name for m in space.metrics], space.name)
        return None
    weighed = {feature for feature, _ in metric.weights}
    loose = [space.features[i] for i in mutable.moved(space, part) if space.features[i] not in weighed]
    if part is not None and loose:
        message = f"{name.text} gives {loose[0]} no weight, and the attacker may move it without end"
        world.report("TM219", message, name, help=f"add {loose[0]}: … to the metric, or freeze it")
        return None
    if isinstance(got, Quantity):
        place = node.radius.unit if isinstance(node.radius, ast.Quantity) else node.radius
        world.report("TM206", f"the weights of {name.text} have taken the units away: write a plain number", place)
        return None
    return got


def _count(world: World, node: ast.Ball, space: Space, got: Fraction | Quantity) -> Fraction | None:
    """``l0`` counts coordinates, ``pixels_changed`` places of a picture."""
    places = space.size
    if node.norm.text == "pixels_changed":
        if space.channel_axis is None:
            world.report("TM226", f"{space.name} has the shape {space.shape}, and no pixels", node.norm)
            return None
        places //= space.shape[space.channel_axis]
    if isinstance(got, Quantity) and got.unit != "px":
        place = node.radius.unit if isinstance(node.radius, ast.Quantity) else node.radius
        world.report("TM206", f"{node.norm.text} is a count, and has no unit", place)
        return None
    count = got.value if isinstance(got, Quantity) else got
    if count.denominator != 1:
        world.report("TM222", f"{node.norm.text} counts, and {values.show(count)} is no whole number", node.radius)
        return None
    if count >= places:
        world.report("TM201", f"{space.name} has {places} places, so {count} allows every input", node.radius)
        return None
    return count


def minimized(world: World, env: Env, node: ast.Minimize, part: Mutable | None) -> tuple[Norm, str, str | None] | None:
    """``l2 in px``: the norm, the space, and the metric if it is one."""
    if node.norm.text != "metric" and values.word(world, node.norm, NORMS, "norm") is None:
        return None
    space = distances.measured_in(world, env, node.space, None, node.norm)
    if space is None:
        return None
    if node.metric is not None and node.metric.text not in {m.name for m in space.metrics}:
        world.unknown("TM110", node.metric, "metric", [m.name for m in space.metrics], space.name)
        return None
    if node.norm.text not in ("metric", *_COUNTS):
        moved = mutable.moved(space, part)
        if part is None and not spaces.one_unit(space.cells):
            return None
        if distances.common(world, space, moved, Fraction(0), node.norm, node.norm) is None:
            return None
    if node.norm.text == "pixels_changed" and space.channel_axis is None:
        world.report("TM226", f"{space.name} has the shape {space.shape}, and no pixels", node.norm)
        return None
    return cast(Norm, node.norm.text), space.name, node.metric.text if node.metric else None
