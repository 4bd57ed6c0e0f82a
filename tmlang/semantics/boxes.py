"""Balls with a radius per channel or per feature, and the tolerance of any ball."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, cast

from tmlang.base.source import Span
from tmlang.diagnostics.model import Edit, Fix
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Ball, Mutable
from tmlang.meaning.values import Value
from tmlang.semantics import distances, mutable, values
from tmlang.semantics.scope import Env, World
from tmlang.semantics.steps import is_pairs
from tmlang.syntax import ast


def per(world: World, env: Env, node: ast.Ball, part: Mutable | None, written: Value) -> Ball | None:
    """``(r1, r2, r3) per channel``, ``(temp: 2 'degC', …) per feature``."""
    space = distances.measured_in(world, env, node.space, None, node.radius)
    if space is None:
        return None
    per = cast("Literal['channel', 'feature']", node.per)
    if node.norm.text != "linf":
        help = "a metric weighs features against each other; linf takes radii per channel or feature"
        world.report("TM225", f"radii per {per} make a box, and {node.norm.text} is none", node.norm, help=help)
        return None
    entries = _entries(world, node, written, space, per)
    slack = tolerance(world, env, node, space)
    if entries is None or slack is None:
        return None
    if not any(r for _, r in entries):
        world.report("TM202", "all radii are zero: only the original is left", node.radius)
        return None
    if per == "channel" and space.order is None and len(entries) == 3 and len({r for _, r in entries}) > 1:
        help = "write order rgb (or bgr) behind the space"
        text = f"the channels of {space.name} have radii of their own, and nothing says in which order they come"
        world.report("TM321", text, node.radius, help=help)
    missing = _unbounded(space, part, entries) if per == "feature" else None
    if missing:
        help = f"add {missing}: a radius, or leave it out of mutable:"
        world.report("TM225", f"{missing} is mutable and has no radius, so it cannot move", node.radius, help=help)
        return None
    return Ball("linf", space.name, None, entries, per, None, slack, None, node.span)


def _unbounded(space: Space, part: Mutable | None, entries: tuple[tuple[str, Fraction], ...]) -> str | None:
    """A feature that is named mutable and has no radius."""
    if part is None or part.kind != "features" or part.except_:
        return None
    named = dict(entries)
    return next((space.features[i] for i in mutable.moved(space, part) if space.features[i] not in named), None)


def _entries(
    world: World, node: ast.Ball, written: Value, space: Space, per: str
) -> tuple[tuple[str, Fraction], ...] | None:
    """(channel index or feature, radius) pairs; ``written`` is the tuple, from here or from a ``let``."""
    if not isinstance(written, tuple) or not written:
        if written is not None:
            world.report("TM225", f"per {per} takes a tuple of radii", node.radius)
        return None
    pairs = (_by_channel if per == "channel" else _by_feature)(world, node, written, space)
    if pairs is None or None in dict(pairs).values():
        return None
    places = node.radius.items if isinstance(node.radius, ast.Tuple) else (node.radius,) * len(pairs)
    made = [_entry(world, k, v, space, per, at) for (k, v), at in zip(pairs, places, strict=True)]
    return None if None in made else cast("tuple[tuple[str, Fraction], ...]", tuple(made))


def _by_channel(
    world: World, node: ast.Ball, written: tuple[Value, ...], space: Space
) -> list[tuple[str, Value]] | None:
    channels = space.shape[space.channel_axis] if space.channel_axis is not None else None
    if channels is None or is_pairs(written):
        world.report("TM225", f"{space.name} has no channels, its shape is {space.shape}", node.radius)
        return None
    if len(written) != channels:
        message = f"{space.name} has {channels} channels, and there are {len(written)} radii"
        world.report("TM214", message, node.radius)
        return None
    return [(str(i), v) for i, v in enumerate(written)]


def _by_feature(
    world: World, node: ast.Ball, written: tuple[Value, ...], space: Space
) -> list[tuple[str, Value]] | None:
    if not space.features:
        world.report("TM225", f"{space.name} has no named features; write per channel", node.radius)
        return None
    if not is_pairs(written):
        message = "radii per feature have the names of the features"
        world.report("TM225", message, node.radius, help="(temp: 2 'degC', …)")
        return None
    return list(cast("tuple[tuple[str, Value], ...]", written))


def _entry(world: World, key: str, written: Value, space: Space, per: str, at: ast.Node) -> tuple[str, Fraction] | None:
    place = at.value if isinstance(at, ast.Arg) else at
    got = distances.quantity(world, written, place)
    if got is None:
        return None
    if per == "feature":
        value = distances.of_feature(world, space, key, got, at)
        cell = _cell_of(space, key) if value is not None else space.cells[0]
    else:
        cell = space.cells[int(key) if space.layout == "channel" else 0]
        value = distances.in_unit(world, cell, space.name, got, place)
    if value is None:
        return None
    if value < 0:
        world.report("TM213", f"a radius is not negative, and this is {values.show(value)}", place)
        return None
    if value and cell.step is not None and cell.kind != "category" and value < cell.step:
        message = f"{key} moves in steps of {values.show(cell.step)}, so {values.show(value)} does not move it"
        world.report("TM202", message, place)
        return None
    return key, value


def _cell_of(space: Space, feature: str) -> Cell:
    return space.cells[space.features.index(feature)]


def tolerance(world: World, env: Env, node: ast.Ball, space: Space) -> Fraction | None:
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
