"""Patches and transforms: sets of pictures that are no balls."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, cast

from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Patch, Transform
from tmlang.meaning.values import Quantity
from tmlang.semantics import values
from tmlang.semantics.scope import Env, World
from tmlang.semantics.units import convert, parse_unit
from tmlang.syntax import ast

PARTS: dict[str, str | None] = {
    "rotate": "deg",
    "translate": "px",
    "scale": None,
    "shear": "deg",
    "brightness": None,
    "contrast": None,
    "place": "px",
}
"""What a transform or nature may vary, and in which unit."""

VALUES = ("brightness", "contrast")
"""The parts that change values and move nothing."""

_MOST = {
    "rotate": (Fraction(180), "180 degrees either way are all rotations"),
    "scale": (Fraction(1), "the factor lies between 1 - s and 1 + s, and stays above zero for s below 1"),
    "shear": (Fraction(90), "a shear stays below 90 degrees"),
    "contrast": (Fraction(1), "the factor lies between 1 - c and 1 + c, and stays above zero for c below 1"),
}

INTERPOLATIONS = ("nearest", "bilinear", "bicubic")


def picture(world: World, env: Env, what: str, at: ast.Node) -> tuple[int, int] | None:
    """Height and width of the attacked model's inputs; reported when they are no pictures."""
    space: Space | None = env.model.space if env.model else None
    if space is None:
        return None
    if space.channel_axis is None:
        world.report("TM226", f"{what} is for pictures, and {space.name} has the shape {space.shape}", at)
        return None
    height, width = (d for i, d in enumerate(space.shape) if i != space.channel_axis)
    return height, width


def patch(world: World, env: Env, node: ast.Patch) -> Patch | None:
    """A rectangle or a disc that may hold anything."""
    size = _size(world, env, node.call)
    frame = picture(world, env, "a patch", node.call)
    if size is None or frame is None:
        return None
    shape, height, width = size
    if height > frame[0] or width > frame[1]:
        message = f"a patch of {height} by {width} does not fit into {frame[0]} by {frame[1]}"
        world.report("TM226", message, node.call)
        return None
    if not isinstance(node.at, ast.Tuple):
        return Patch(shape, height, width)
    corner = [values.whole(world, env, i.value, least=0, code="TM226", what="a place") for i in node.at.items]
    if None in corner:
        return None
    if len(corner) != 2:
        world.report("TM226", "a place is (row, column)", node.at)
        return None
    row, column = cast("list[int]", corner)
    if row + height > frame[0] or column + width > frame[1]:
        world.report("TM226", f"at ({row}, {column}) the patch reaches beyond {frame[0]} by {frame[1]}", node.at)
        return None
    return Patch(shape, height, width, (row, column))


def _size(world: World, env: Env, call: ast.Call) -> tuple[Literal["rectangle", "disc"], int, int] | None:
    """``patch(5, 5)``, ``patch(disc(diameter: 60))``."""
    args = call.args
    inner = args[0].value if len(args) == 1 and args[0].name is None else None
    if isinstance(inner, ast.Call):
        named = {a.name.text if a.name else "diameter": a.value for a in inner.args}
        if inner.path.text != "disc" or set(named) != {"diameter"}:
            world.report("TM226", "a patch is a rectangle (height, width) or disc(diameter: …)", inner)
            return None
        diameter = values.whole(world, env, named["diameter"], least=1, code="TM226", what="a diameter")
        return None if diameter is None else ("disc", diameter, diameter)
    if len(args) != 2 or any(a.name and a.name.text not in ("height", "width") for a in args):
        world.report("TM226", "a patch is a rectangle (height, width) or disc(diameter: …)", call)
        return None
    sides = [values.whole(world, env, a.value, least=1, code="TM226", what="a side") for a in args]
    if args[0].name and args[0].name.text == "width":
        sides.reverse()
    return None if None in sides else ("rectangle", *cast("tuple[int, int]", tuple(sides)))


def transform(world: World, env: Env, node: ast.Transform) -> Transform | None:
    """``transform { rotate <= 30 'deg' } interpolate bilinear fill 0``."""
    frame = picture(world, env, "a transform", node)
    parts: list[tuple[str, Quantity]] = []
    steps: list[Fraction | None] = []
    ok = frame is not None and _ordered(world, node)
    for part in node.parts:
        if part.name.text in dict(parts):
            world.report("TM114", f"{part.name.text} stands twice", part.name)
            ok = False
            continue
        bound = _bound(world, env, part)
        step = None if bound is None or part.step is None else _step(world, env, part, part.step, bound)
        ok = ok and bound is not None and (step is None) == (part.step is None)
        parts += [(part.name.text, bound)] if bound else []
        steps.append(step)
    if node.interpolate is None or node.fill is None:
        missing = "interpolate" if node.interpolate is None else "fill"
        help = "transform { … } interpolate bilinear fill 0"
        world.report(
            "TM226", f"what stands between pixels, and beyond the edge, must be said: {missing}", node, help=help
        )
        return None
    interpolate = values.word(world, node.interpolate, INTERPOLATIONS, "interpolation")
    fill = values.number(world, env, node.fill)
    if not ok or interpolate is None or fill is None:
        return None
    return Transform(tuple(parts), interpolate, fill, tuple(steps) if any(steps) else ())


def _ordered(world: World, node: ast.Transform) -> bool:
    """Whether something is moved at all, and the picture before its values."""
    if not node.parts:
        world.report("TM226", "nothing is transformed", node, help="transform { rotate <= 30 'deg' } …")
        return False
    return moved_first(world, [part.name for part in node.parts])


def moves(part: str) -> bool:
    """Whether a part leads pixels between those of the picture."""
    return part != "place" and part not in VALUES


def moved_first(world: World, names: Sequence[ast.Name]) -> bool:
    """Whether the picture is moved before its values change, by the parts of these names: it is interpolated once."""
    changed = None
    for name in names:
        if name.text in VALUES:
            changed = name
        elif changed is not None and moves(name.text):
            message = f"{name.text} moves the picture, and {changed.text} has changed its values before"
            help = f"write {name.text} first: the picture is moved and interpolated once, then its values change"
            world.report("TM226", message, name, help=help)
            return False
    return True


def _bound(world: World, env: Env, part: ast.TransformPart) -> Quantity | None:
    if values.word(world, part.name, [p for p in PARTS if p != "place"], "transform") is None:
        return None
    got = values.value(world, env, part.bound)
    amount = in_part(world, part.name.text, got, part.bound)
    if amount is None:
        return None
    if amount <= 0:
        world.report("TM213", f"a bound is greater than zero, and this is {values.show(amount)}", part.bound)
        return None
    most = _MOST.get(part.name.text)
    if most is not None and (amount > most[0] or (amount == most[0] and part.name.text != "rotate")):
        world.report("TM226", f"{part.name.text} by {values.show(amount)}: {most[1]}", part.bound)
        return None
    return Quantity(amount, PARTS[part.name.text])


def _step(world: World, env: Env, part: ast.TransformPart, node: ast.Value, bound: Quantity) -> Fraction | None:
    """The step of a grid around 0, no wider than the bound."""
    amount = in_part(world, part.name.text, values.value(world, env, node), node)
    if amount is None or 0 < amount <= bound.value:
        return amount
    message = f"a step lies above 0 and within the bound {values.show(bound.value)}, and this is {values.show(amount)}"
    world.report("TM213", message, node)
    return None


def in_part(world: World, name: str, got: object, node: ast.Node, unit: ast.Unit | None = None) -> Fraction | None:
    """A value in the unit of a part of a transform."""
    wanted = PARTS[name]
    if isinstance(got, Fraction) and unit is not None:
        got = Quantity(got, unit.text)
    place = unit or (node.unit if isinstance(node, ast.Quantity) else node)
    if isinstance(got, Fraction):
        if wanted is None or got == 0:
            return got
        world.report("TM207", f"{name} is measured in '{wanted}', and this number has no unit", node)
        return None
    if not isinstance(got, Quantity):
        return None if got is None else values.refused(world, cast("str", got), node, "a number")
    if wanted is None:
        world.report("TM206", f"{name} is a plain factor, and this is in '{got.unit}'", place)
        return None
    one, other = parse_unit(got.unit or ""), parse_unit(wanted)
    converted = convert(got.value, one, other) if one and other else None
    if converted is None:
        world.report("TM206", f"{name} is measured in '{wanted}', and not in '{got.unit}'", place)
    return converted
