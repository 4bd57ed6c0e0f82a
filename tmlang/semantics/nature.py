"""What nature draws: where a patch lies, or how a picture is turned, sized and lit, by nobody's choice."""

from __future__ import annotations

from fractions import Fraction

from tmlang.base.frozen import dataclass
from tmlang.meaning.threats import Allowed, Nature, Patch
from tmlang.semantics import values
from tmlang.semantics.regions import INTERPOLATIONS, PARTS, in_part, moved_first, moves, picture
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

Part = tuple[str, Fraction, Fraction, str | None]

_LIMITS = {
    "rotate": (Fraction(-180), Fraction(180), "180 degrees either way are all rotations"),
    "shear": (Fraction(-90), Fraction(90), "a shear stays between -90 and 90 degrees"),
    "scale": (Fraction(0), None, "a scale is a factor above zero: uniform [1/2, 3/2]"),
    "contrast": (Fraction(0), None, "a contrast is a factor above zero: uniform [4/5, 6/5]"),
}


@dataclass(frozen=True, slots=True)
class Ground:
    """What nature acts on: a picture of ``frame`` pixels, or the ``patch`` in it. ``placed``: the spec says where."""

    frame: tuple[int, int] | None
    patch: Patch | None
    placed: bool


def nature(
    world: World, env: Env, node: ast.Nature, allow: Allowed | None, allow_node: ast.Node | None
) -> Nature | None:
    """``{ place uniform […] 'px' rotate uniform [-45, 45] 'deg' } draws 100 interpolate bilinear``."""
    frame = picture(world, env, "nature:", node)
    placed = isinstance(allow_node, ast.Patch) and allow_node.at is not None
    ground = Ground(frame, allow if isinstance(allow, Patch) else None, placed)
    parts: list[Part] = []
    ok = _ordered(world, node)
    for part in node.parts:
        made = _drawn(world, env, part, ground)
        if made and made[0] in {p[0] for p in parts}:
            world.report("TM114", f"{made[0]} stands twice", part.name)
            made = None
        ok = ok and made is not None
        parts += [made] if made else []
    if node.draws is None:
        world.report("TM401", "nature: draws, and does not say how often", node, help="nature: { … } draws 100")
        return None
    draws = values.whole(world, env, node.draws, least=1, what="a number of draws")
    between = _between(world, env, node, ground)
    if not ok or draws is None or frame is None or between is None:
        return None
    return Nature(tuple(parts), draws, *between)


def _ordered(world: World, node: ast.Nature) -> bool:
    """Whether something is drawn, and the picture moved before its values change."""
    if not node.parts:
        world.report("TM226", "nature draws nothing", node, help="nature: { rotate uniform [-45, 45] 'deg' } draws 100")
        return False
    return moved_first(world, [part.name for part in node.parts])


def _between(world: World, env: Env, node: ast.Nature, ground: Ground) -> tuple[str | None, Fraction | None] | None:
    """What stands between pixels and beyond the edge, where pixels are moved. A patch that is moved without a word of
    it can be read; how it is drawn is asked when it is (TM830)."""
    interpolate = fill = None
    if node.interpolate is not None:
        interpolate = values.word(world, node.interpolate, INTERPOLATIONS, "interpolation")
        if interpolate is None:
            return None
    if node.fill is not None:
        fill = values.number(world, env, node.fill)
        if fill is None:
            return None
    moved = [part for part in node.parts if moves(part.name.text)]
    if ground.patch is not None and node.fill is not None:
        world.report("TM226", "beyond a patch stands the picture, so there is nothing to fill", node.fill)
        return None
    if not moved and (node.interpolate or node.fill) is not None:
        said = "nothing is moved between pixels, so nothing is interpolated or filled"
        world.report("TM226", said, node.interpolate or node.fill or node)
        return None
    missing = [word for word in ("interpolate", "fill") if getattr(node, word) is None]
    if moved and ground.patch is None and missing:
        help = "nature: { … } draws 100 interpolate bilinear fill 0"
        message = f"what stands between pixels, and beyond the edge, must be said: {missing[0]}"
        world.report("TM226", message, moved[0].name, help=help)
        return None
    return interpolate, fill


def _drawn(world: World, env: Env, part: ast.NaturePart, ground: Ground) -> Part | None:
    name = part.name.text
    if (
        values.word(world, part.name, PARTS, "part of nature") is None
        or values.word(world, part.distribution, ("uniform",), "distribution") is None
    ):
        return None
    ends = [in_part(world, name, values.value(world, env, e), e, part.unit) for e in (part.range.low, part.range.high)]
    low, high = ends
    if low is None or high is None:
        return None
    if low > high:
        world.report("TM212", f"nothing lies between {values.show(low)} and {values.show(high)}", part.range)
        return None
    fault = _place_fault(low, high, ground) if name == "place" else _limit_fault(name, low, high)
    if fault is not None:
        world.report("TM226", fault, part.range)
        return None
    return name, low, high, PARTS[name]


def _limit_fault(name: str, low: Fraction, high: Fraction) -> str | None:
    """Why nothing can be drawn there."""
    if name not in _LIMITS:
        return None
    least, most, why = _LIMITS[name]
    ends = name == "rotate"
    inside = (low >= least if ends else low > least) and (most is None or (high <= most if ends else high < most))
    return None if inside else f"{name} from {values.show(low)} to {values.show(high)}: {why}"


def _place_fault(low: Fraction, high: Fraction, ground: Ground) -> str | None:
    """A place is a whole pixel at which the patch fits, of a patch that nothing else places."""
    if ground.patch is None:
        return "place is where a patch lies, and the threat allows none"
    if ground.placed:
        return "the threat says where the patch lies, so nature does not"
    if low.denominator != 1 or high.denominator != 1:
        return f"a patch lies on whole pixels, and not from {values.show(low)} to {values.show(high)}"
    if ground.frame is None:
        return None
    last = min(ground.frame[0] - ground.patch.height, ground.frame[1] - ground.patch.width)
    if low < 0 or high > last:
        return f"the patch fits at 0 to {last}, and not from {values.show(low)} to {values.show(high)}"
    return None
