"""Lengths in a space: which space one may measure in, and a written amount in the space's own units."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from tmlang.base.source import Span
from tmlang.diagnostics.model import Edit, Fix, Label
from tmlang.diagnostics.suggest import listed
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.values import Distance, Quantity, Value
from tmlang.semantics import spaces, values
from tmlang.semantics.flow import Flow
from tmlang.semantics.models import KnownModel
from tmlang.semantics.scope import Env, World
from tmlang.semantics.units import convert, parse_unit
from tmlang.semantics.values import show
from tmlang.syntax import ast

Amount = Fraction | Quantity


def amount(world: World, env: Env, node: ast.Value) -> Amount | None:
    """A number, with or without a unit."""
    return quantity(world, values.value(world, env, node), node)


def quantity(world: World, got: Value, node: ast.Node) -> Amount | None:
    """A value that is a number, with or without a unit; reported if it is none."""
    return got if isinstance(got, Fraction | Quantity) else values.refused(world, got, node, "a number")


def distance(world: World, env: Env, node: ast.Distance) -> Distance | None:
    """``2/255 in px`` as an argument of a call: a length in the attacked model's space, over what may move."""
    got = amount(world, env, node.value)
    where = measured_in(world, env, node.space, got, node.value)
    if got is None or where is None:
        return None
    cells = range(len(where.cells)) if env.moved is None else env.moved
    value = common(world, where, cells, got, node.value, node.value)
    if value is None:
        return None
    if value < 0:
        world.report("TM213", f"a length is not negative, and this is {show(value)}", node.value)
        return None
    return Distance(value, where.name, got.unit if isinstance(got, Quantity) else None)


def measured_in(world: World, env: Env, name: ast.Name | None, got: Amount | None, at: ast.Node) -> Space | None:
    """The space of a length. Only the space that the attacked model declares can be measured in."""
    model = env.model
    if name is None:
        where = model.space.name if model else "SPACE"
        fix = Fix(f"add in {where}", (Edit(behind(at.span), f" in {where}"),)) if model else None
        world.report("TM207", "a distance is taken in a space; say in which one", at, help=f"… in {where}", fix=fix)
        return None
    if model is not None and name.text in model.derived:
        _derived(world, model, name, got)
        return None
    found = spaces.space(world, env, name)
    if found is None or model is None or found.name == model.space.name:
        return found
    world.report(
        "TM216",
        f"{model.meaning.name} takes inputs from {model.space.name}, and this is measured in {name.text}",
        name,
        fix=Fix(f"write {model.space.name}", (Edit(name.span, model.space.name),)),
    )
    return None


def _derived(world: World, model: KnownModel, name: ast.Name, got: Amount | None) -> None:
    """Refuse a length in a derived space, and say what it is in the external one, and the other way round."""
    outer = model.space.name
    flow = model.derived[name.text]
    step = next(s for s in model.meaning.steps if s.result == name.text)
    notes: tuple[str, ...] = ()
    help = f"measure in {outer}"
    if got is not None and flow.affine:
        value = got.value if isinstance(got, Quantity) else got
        slopes = [abs(a) for a, _ in flow.affine]
        inside, outside = [_close(value * a) for a in slopes], [_close(value / a) for a in slopes if a]
        notes = (
            f"{show(value)} in {name.text} is {_each(outside, flow)} in {outer}",
            f"{show(value)} in {outer} is {_each(inside, flow)} in {name.text}",
        )
        help = f"for the ball of {show(value)} pixels write … <= {show(value)} in {outer}"
        if len(outside) > 1:
            help += f"; for the other one write linf <= ({', '.join(outside)}) per {flow.noun[:-1]} in {outer}"
        else:
            help += f"; for the other one write … <= {outside[0]} in {outer}" if outside else ""
    world.report(
        "TM204",
        f"{name.text} is what {step.name} makes of {outer}, and nobody hands that in: distances are taken in {outer}",
        name,
        labels=(Label(step.origin, f"{name.text} begins here"),),
        notes=notes,
        help=help,
    )


def _close(value: Fraction) -> str:
    """Six significant digits, rounded towards zero so that a ball written with them lies within the meant one."""
    scale = Fraction(1)
    while value and abs(value * scale) < 10**5:
        scale *= 10
    short = Fraction(int(value * scale)) / scale
    digits = len(str(scale.numerator)) - 1
    return f"{float(short):.{digits}f}".rstrip("0").rstrip(".") if digits else show(short)


def _each(numbers: list[str], flow: Flow) -> str:
    if len(numbers) == 1:
        return numbers[0]
    return f"{listed(numbers)} along the {flow.noun}"


def behind(span: Span) -> Span:
    """The empty span just behind another."""
    return Span(span.file, span.end, span.end, span.end_line, span.end_column, span.end_line, span.end_column)


def coordinate_name(space: Space, index: int) -> str:
    """A coordinate (or channel) in words."""
    return space.features[index] if space.features else space.name


def common(
    world: World,
    space: Space,
    coordinates: Iterable[int],
    got: Amount,
    node: ast.Node,
    norm: ast.Node,
    what: str = "radius",
) -> Fraction | None:
    """One amount over several cells of ``space``, in their own units; mixed units are blamed on ``norm``."""
    indices = list(coordinates)
    if not indices:
        return got.value if isinstance(got, Quantity) else got
    cells = [space.cells[i] for i in indices]
    if not spaces.one_unit(cells):
        _mixed(world, space, indices, norm, what)
        return None
    converted = {
        in_unit(world, c, coordinate_name(space, i), got, node, quiet=k > 0)
        for k, (i, c) in enumerate(zip(indices, cells, strict=True))
    }
    if None in converted:
        return None
    if len(converted) > 1:
        units = listed(sorted({f"'{c.unit}'" for c in cells}))
        world.report("TM205", f"{space.name} has {units} here: give the features one unit, or radii per feature", norm)
        return None
    return converted.pop()


def _mixed(world: World, space: Space, indices: list[int], norm: ast.Node, what: str) -> None:
    groups: dict[str, list[str]] = {}
    for i in indices:
        groups.setdefault(spaces.unit_of(space.cells[i]), []).append(coordinate_name(space, i))
    shown = [f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''} ({unit})" for unit, names in groups.items()]
    help = "use radii per feature, a metric, or a mask with one unit"
    if what != "radius":
        help = f"write one per feature: ({coordinate_name(space, indices[0])}: …)"
    elif space.metrics:
        help += f": metric {space.metrics[0].name} <= … in {space.name}"
    world.report("TM205", f"one {what} over {listed(shown)} has no meaning", norm, help=help)


def of_feature(world: World, space: Space, name: str, got: Amount, node: ast.Node) -> Fraction | None:
    """An amount for one named feature, in its own unit."""
    where = node.name if isinstance(node, ast.Arg) and node.name else node
    if name not in space.features:
        at = where if isinstance(where, ast.Name) else ast.Name(where.span, name)
        world.unknown("TM110", at, "feature", list(space.features), space.name)
        return None
    value = node.value if isinstance(node, ast.Arg) else node
    return in_unit(world, space.cells[space.features.index(name)], name, got, value)


def in_unit(
    world: World, cell: Cell, name: str, got: Amount, node: ast.Node, *, quiet: bool = False
) -> Fraction | None:
    """An amount in the unit of ``cell``; ``levels`` are steps of its lattice. Faults are reported unless ``quiet``."""
    value, unit = (got.value, got.unit) if isinstance(got, Quantity) else (got, None)
    place = node.unit if isinstance(node, ast.Quantity) else node
    if unit == "levels":
        if cell.step is not None and cell.kind != "category":
            return value * cell.step
        problem = ("TM206", f"{name} has no levels: it is {'a choice' if cell.kind == 'category' else 'real'}", place)
    elif unit is None and (cell.unit is None or value == 0):
        return value
    elif unit is None and (share := _share(cell, node)) is not None:
        return value / share
    elif unit is None:
        problem = ("TM207", f"{name} is measured in '{cell.unit}', and this number has no unit", node)
    elif cell.unit is None:
        problem = ("TM206", f"{name} has no unit, and this is in '{unit}'", place)
    else:
        one, other = parse_unit(unit), parse_unit(cell.unit)
        converted = convert(value, one, other) if one and other else None
        if converted is not None:
            return converted
        problem = ("TM206", f"{name} is measured in {cell.unit}, and '{unit}' is {_kind(unit)}", place)
    if not quiet:
        fix = None
        if problem[0] == "TM207" and isinstance(node, ast.Number):
            fix = Fix(f"add '{cell.unit}'", (Edit(behind(node.span), f" '{cell.unit}'"),))
        world.report(*problem, fix=fix)
    return None


def _share(cell: Cell, node: ast.Node) -> Fraction | None:
    """What one of the cell's unit is as a pure number, where it is one (``'%'``, ``'ppm'``) and per cent are written:
    these come as hundredths."""
    unit = parse_unit(cell.unit or "")
    written = isinstance(node, ast.Quantity) and node.unit.text == "%"
    return unit.factor if unit is not None and not unit.kind and written else None


def _kind(unit: str) -> str:
    parsed = parse_unit(unit)
    what = parsed.describe() if parsed else "unknown"
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"
