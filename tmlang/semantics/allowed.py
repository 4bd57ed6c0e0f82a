"""``allow:`` and ``minimize:``: which inputs the attacker may hand in for the original (LANGUAGE.md section 6)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, cast

from tmlang.base.source import Span
from tmlang.diagnostics.model import Edit, Fix
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Allowed, Anything, Ball, Both, Either, Mutable, Norm
from tmlang.meaning.values import Quantity
from tmlang.semantics import distances, mutable, radii, regions, spaces, values
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
            return None if None in parts else Both(cast("tuple[Allowed, ...]", tuple(parts)))
        case ast.Either():
            return _union(world, env, node, part)


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
    if isinstance(node.radius, ast.List) or (isinstance(node.radius, ast.Tuple) and node.per is None):
        _several(world, node)
        return None
    if node.per is not None:
        return _per(world, env, node, part)
    got = distances.amount(world, env, node.radius)
    space = distances.measured_in(world, env, node.space, got, node.radius)
    if got is None or space is None:
        return None
    radius = _radius(world, node, space, part, got)
    tolerance = tolerance_of(world, env, node, space)
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


def tolerance_of(world: World, env: Env, node: ast.Ball, space: Space) -> Fraction | None:
    """What enlarges the ball; on a lattice distances are exact, and nothing does."""
    if node.tolerance is None:
        return Fraction(0)
    if space.is_lattice:
        where = Edit(_from(node, node.tolerance), "")
        world.report(
            "TM209",
            f"distances between points of {space.name} are exact: a tolerance changes nothing, or hides a mistake",
            node.tolerance,
            fix=Fix("take the tolerance out", (where,)),
        )
        return None
    got = distances.amount(world, env, node.tolerance)
    value = None
    if got is not None:
        value = distances.common(world, space, range(len(space.cells)), got, node.tolerance, node.tolerance)
    if value is not None and value < 0:
        world.report("TM213", "a tolerance is not negative", node.tolerance)
        return None
    return value


def _from(node: ast.Ball, last: ast.Node) -> Span:
    """From behind the rest of the ball to the end of its tolerance."""
    start = (node.space or node.radius).span
    return distances.behind(start).to(last.span)


def _per(world: World, env: Env, node: ast.Ball, part: Mutable | None) -> Ball | None:
    """``(r1, r2, r3) per channel``, ``(temp: 2 'degC', …) per feature``."""
    space = distances.measured_in(world, env, node.space, None, node.radius)
    if space is None:
        return None
    per = cast("Literal['channel', 'feature']", node.per)
    if node.norm.text != "linf":
        help = "a metric weighs features against each other; linf takes radii per channel or feature"
        world.report("TM225", f"radii per {per} make a box, and {node.norm.text} is none", node.norm, help=help)
        return None
    entries = _entries(world, env, node, space, per)
    tolerance = tolerance_of(world, env, node, space)
    if entries is None or tolerance is None:
        return None
    if not any(r for _, r in entries):
        world.report("TM202", "all radii are zero: only the original is left", node.radius)
        return None
    missing = _unbounded(space, part, entries) if per == "feature" else None
    if missing:
        help = f"add {missing}: a radius, or leave it out of mutable:"
        world.report("TM225", f"{missing} is mutable and has no radius, so it cannot move", node.radius, help=help)
        return None
    return Ball("linf", space.name, None, entries, per, None, tolerance, None, node.span)


def _unbounded(space: Space, part: Mutable | None, entries: tuple[tuple[str, Fraction], ...]) -> str | None:
    """A feature that is named mutable and has no radius."""
    if part is None or part.kind != "features" or part.except_:
        return None
    named = dict(entries)
    return next((space.features[i] for i in mutable.moved(space, part) if space.features[i] not in named), None)


def _entries(world: World, env: Env, node: ast.Ball, space: Space, per: str) -> tuple[tuple[str, Fraction], ...] | None:
    items = node.radius.items if isinstance(node.radius, ast.Tuple) else ()
    if not items:
        world.report("TM225", f"per {per} takes a tuple of radii", node.radius)
        return None
    if per == "channel":
        channels = space.shape[space.channel_axis] if space.channel_axis is not None else None
        if channels is None or any(isinstance(i, ast.Arg) and i.name for i in items):
            world.report("TM225", f"{space.name} has no channels, its shape is {space.shape}", node.radius)
            return None
        if len(items) != channels:
            world.report(
                "TM214", f"{space.name} has {channels} channels, and there are {len(items)} radii", node.radius
            )
            return None
    elif not space.features:
        world.report("TM225", f"{space.name} has no named features; write per channel", node.radius)
        return None
    made: list[tuple[str, Fraction]] = []
    for i, item in enumerate(items):
        value = _entry(world, env, item, i, space, per)
        if value is None:
            return None
        if value[0] in dict(made):
            world.report("TM114", f"{value[0]} has a radius already", item)
            return None
        made.append(value)
    return tuple(made)


def _entry(world: World, env: Env, item: ast.Arg, i: int, space: Space, per: str) -> tuple[str, Fraction] | None:
    got = distances.amount(world, env, item.value)
    if got is None:
        return None
    if per == "feature" and item.name is None:
        world.report("TM225", "radii per feature have the names of the features", item, help="(temp: 2 'degC', …)")
        return None
    if item.name is not None:
        value = distances.of_feature(world, space, item.name.text, got, item)
        name, cell = item.name.text, None
    else:
        cell = space.cells[i if space.layout == "channel" else 0]
        value, name = distances.in_unit(world, cell, space.name, got, item.value), str(i)
    if value is None:
        return None
    cell = cell or _cell_of(space, name)
    if value < 0:
        world.report("TM213", f"a radius is not negative, and this is {values.show(value)}", item.value)
        return None
    if value and cell.step is not None and cell.kind != "category" and value < cell.step:
        message = f"{name} moves in steps of {values.show(cell.step)}, so {values.show(value)} does not move it"
        world.report("TM202", message, item.value)
        return None
    return name, value


def _cell_of(space: Space, feature: str) -> Cell:
    return space.cells[space.features.index(feature)]


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
