"""``mutable:``: the part of an input that the attacker may move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Mutable
from tmlang.semantics import values
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

Direction = Literal["any", "up", "down"]
Kind = Literal["features", "rows", "columns", "channels", "mask"]


def mutable(world: World, env: Env, node: ast.Mutable, space: Space | None) -> Mutable | None:
    """The mutable part; ``None`` if some of it was refused (or the space is not known)."""
    if not node.picks:
        return Mutable("all", origin=node.span)
    kinds = [_kind(p) for p in node.picks]
    odd = next((p for p, k in zip(node.picks, kinds, strict=True) if k != kinds[0]), None)
    if odd is not None:
        world.report("TM409", f"{kinds[0]} and {_kind(odd)} do not go together in one mask", odd)
        return None
    if space is None:
        return None
    kind = kinds[0]
    if kind == "mask":
        return _mask(world, cast("Sequence[ast.MaskPick]", node.picks), node)
    if kind == "features":
        names = _features(world, cast("Sequence[ast.FeaturePick]", node.picks), space, node.everything)
        made = Mutable("features", names, except_=node.everything, origin=node.span) if names else None
    else:
        ranges = [_indices(world, env, cast(ast.IndexPick, p), space) for p in node.picks]
        known = tuple(r for r in ranges if r is not None)
        made = Mutable(kind, (), known, None, False, node.everything, node.span) if len(known) == len(ranges) else None
    if made and not moved(space, made):
        world.report("TM409", "nothing is left that the attacker may move", node)
        return None
    return made


def moved(space: Space, part: Mutable | None) -> list[int]:
    """The cells of ``space`` that ``part`` moves, as indices into ``space.cells``; all when it is not by features."""
    everything = list(range(len(space.cells)))
    if part is None:
        return everything
    if part.kind == "features":
        named = {name for name, _ in part.names}
        return [i for i in everything if (space.features[i] in named) != part.except_]
    if part.kind == "channels" and space.layout == "channel":
        chosen = {i for low, high in part.ranges for i in range(low, high + 1)}
        return [i for i in everything if (i in chosen) != part.except_]
    return everything


def moved_cells(space: Space, part: Mutable | None) -> list[Cell]:
    """The cells that ``part`` moves."""
    return [space.cells[i] for i in moved(space, part)]


def _kind(pick: ast.Pick) -> Kind:
    if isinstance(pick, ast.FeaturePick):
        return "features"
    return "mask" if isinstance(pick, ast.MaskPick) else pick.axis


def _features(
    world: World, picks: Sequence[ast.FeaturePick], space: Space, left_out: bool
) -> tuple[tuple[str, Direction], ...] | None:
    names: dict[str, Direction] = {}
    derived = dict(space.derived)
    ok = True
    for pick in picks:
        name = pick.name.text
        ok = _feature(world, pick, space, derived, left_out, name in names) and ok
        names[name] = pick.direction or "any"
    return tuple(names.items()) if ok else None


def _feature(
    world: World, pick: ast.FeaturePick, space: Space, derived: Mapping[str, object], left_out: bool, again: bool
) -> bool:
    name = pick.name.text
    if name in derived:
        message = f"{name} is derived; only what somebody hands in can be changed"
        world.report("TM408", message, pick.name, help=f"name the features that {name} is made of")
    elif not space.features:
        help = f"mutable: all, rows 0..4, columns …, channels … or mask(…) for {space.name}"
        world.report("TM110", f"{space.name} is a tensor and has no feature {name}", pick.name, help=help)
    elif name not in space.features:
        world.unknown("TM110", pick.name, "feature", list(space.features), space.name)
    elif again:
        world.report("TM102", f"{name} is named twice", pick.name)
    elif pick.direction and left_out:
        world.report("TM408", f"{name} is left out, so it goes neither up nor down", pick)
    elif pick.direction and space.cells[space.features.index(name)].kind == "category":
        world.report("TM408", f"{name} is a choice: there is no up and no down", pick)
    else:
        return True
    return False


def _axis(space: Space, word: str) -> int | None:
    """The axis of ``space.shape`` for rows, columns or channels."""
    if len(space.shape) == 2:
        return {"rows": 0, "columns": 1}.get(word)
    if len(space.shape) != 3 or space.channel_axis is None:
        return None
    if word == "channels":
        return space.channel_axis
    first = 1 if space.channel_axis == 0 else 0
    return first if word == "rows" else first + 1


def _indices(world: World, env: Env, pick: ast.IndexPick, space: Space) -> tuple[int, int] | None:
    first = values.whole(world, env, pick.first, least=0, code="TM409", what="an index")
    last = values.whole(world, env, pick.last, least=0, code="TM409", what="an index")
    if first is None or last is None:
        return None
    axis = _axis(space, pick.axis)
    if axis is None:
        world.report("TM409", f"{space.name} has the shape {space.shape}, and no {pick.axis}", pick)
        return None
    if last < first:
        world.report("TM212", f"nothing lies between {first} and {last}", pick)
        return None
    if last >= space.shape[axis]:
        world.report("TM409", f"the {pick.axis} are numbered 0 to {space.shape[axis] - 1}, and not to {last}", pick)
        return None
    return first, last


def _mask(world: World, picks: Sequence[ast.MaskPick], node: ast.Mutable) -> Mutable | None:
    if len(picks) > 1:
        world.report("TM409", "there is one mask", picks[1])
        return None
    call = picks[0].call
    named = {a.name.text: a.value for a in call.args if a.name}
    files = [a.value for a in call.args if a.name is None]
    if len(files) != 1 or not isinstance(files[0], ast.String) or set(named) - {"sha256"}:
        world.report("TM409", 'a mask is one file: mask("m.npy")', call)
        return None
    artifact = values.artifact(world, files[0], named.get("sha256"))
    if artifact is None:
        return None
    return Mutable("mask", (), (), artifact, picks[0].per_example, node.everything, node.span)
