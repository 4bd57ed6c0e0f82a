"""Spaces: what a person outside the system could hand in (LANGUAGE.md section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, cast

from tmlang.meaning.spaces import Arithmetic, Cell, Delivery, Metric, Relation, Space
from tmlang.meaning.values import Quantity
from tmlang.semantics import emptiness, relations, values
from tmlang.semantics.scope import Entry, Env, World
from tmlang.semantics.units import parse_unit
from tmlang.semantics.values import show
from tmlang.syntax import ast

_MOST_COORDINATES = 10**9

Layout = Literal["all", "channel", "each"]


def space(world: World, env: Env, name: ast.Name) -> Space | None:
    """The space that ``name`` stands for."""
    entry = world.find(env, name, "space")
    return space_of(world, entry) if entry else None


def space_of(world: World, entry: Entry) -> Space | None:
    """The checked space of a declaration."""
    return world.once(entry, entry.node.name, lambda: _space(world, entry))


def doc(node: ast.Declaration) -> str:
    """The ``##`` lines above a declaration, joined."""
    return "\n".join(c.text for c in node.doc)


def _space(world: World, entry: Entry) -> Space | None:
    node, env = cast(ast.Space, entry.node), Env(entry.file)
    body = node.body
    made = _tensor(world, env, node, body) if isinstance(body, ast.TensorBody) else _features(world, env, node, body)
    if made is None:
        return None
    name = world.names.of(entry)
    return _modified(world, env, node, _Draft(made, name=name, doc=doc(node), origin=node.name.span))


class _Draft:
    """The keyword arguments of a :class:`Space` while they are gathered."""

    def __init__(self, made: dict[str, object], **more: object) -> None:
        self.fields = {**made, **more}

    def build(self) -> Space:
        return Space(**self.fields)  # type: ignore[arg-type]


# --- tensors ----------------------------------------------------------------------------------------------------


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """The axis of the channels of a picture: the first of 1 to 4 entries in front, else at the end."""
    if len(shape) != 3:
        return None
    return next((axis for axis in (0, 2) if shape[axis] in (1, 3)), next((a for a in (0, 2) if shape[a] <= 4), None))


def _tensor(world: World, env: Env, node: ast.Space, body: ast.TensorBody) -> dict[str, object] | None:
    sizes = [values.whole(world, env, d, least=1, code="TM224", what="a length of a tensor") for d in body.shape]
    cells = _cells(world, env, body.cell)
    if None in sizes or cells is None:
        return None
    shape = cast("tuple[int, ...]", tuple(sizes))
    size = 1
    for d in shape:
        size *= d
    if size > _MOST_COORDINATES:
        world.report("TM224", f"{size} coordinates are more than one input may have", body.shape[0])
        return None
    axis = channel_axis(shape)
    layout: Layout = "all"
    if len(cells) > 1:
        channels = shape[axis] if axis is not None else shape[0] if len(shape) == 1 else None
        if channels != len(cells):
            has = f"{channels} {'channels' if axis is not None else 'entries'}" if channels else "no channels"
            world.report("TM214", f"{node.name.text} has {has}, and this range {len(cells)}", body.cell)
            return None
        layout = "channel" if axis is not None else "each"
    return {"shape": shape, "cells": cells, "layout": layout, "channel_axis": axis}


def _cells(world: World, env: Env, node: ast.Cell) -> tuple[Cell, ...] | None:
    """The cells that one written cell gives: one, or one per entry of a range of tuples."""
    unit = values.unit(world, node.unit) if node.unit else None
    if node.unit and unit is None:
        return None
    text = node.unit.text if node.unit else None
    if node.kind == "choice":
        return _category(world, node)
    if node.kind == "bytes":
        return (Cell("integer", Fraction(0), Fraction(255), Fraction(1), text),)
    assert node.range is not None
    if node.range.open:
        world.report("TM012", "a space has its ends in it, and open(…) leaves them out", node.range)
        return None
    lows, highs = _ends(world, env, node.range.low), _ends(world, env, node.range.high)
    step = values.number(world, env, node.step, positive=True) if node.step else None
    if lows is None or highs is None or (node.step and step is None):
        return None
    if len(lows) != len(highs):
        world.report("TM214", f"{len(lows)} lower ends and {len(highs)} upper ends", node.range)
        return None
    made = [_cell(world, node, low, high, step, text) for low, high in zip(lows, highs, strict=True)]
    return None if None in made else cast("tuple[Cell, ...]", tuple(made))


def _ends(world: World, env: Env, node: ast.Value) -> tuple[Fraction, ...] | None:
    if isinstance(node, ast.Tuple):
        numbers = [values.number(world, env, item.value) for item in node.items]
        return None if None in numbers else cast("tuple[Fraction, ...]", tuple(numbers))
    one = values.value(world, env, node)
    if isinstance(one, tuple) and one and all(isinstance(x, Fraction) for x in one):
        return cast("tuple[Fraction, ...]", one)
    number = values.number(world, env, node)
    return None if number is None else (number,)


def _cell(
    world: World, node: ast.Cell, low: Fraction, high: Fraction, step: Fraction | None, unit: str | None
) -> Cell | None:
    assert node.range is not None
    if low > high:
        world.report("TM212", f"nothing lies between {show(low)} and {show(high)}", node.range)
        return None
    if node.kind == "int":
        if low.denominator != 1 or high.denominator != 1:
            world.report("TM215", f"whole numbers do not end at {show(low)} and {show(high)}", node.range)
            return None
        return Cell("integer", low, high, Fraction(1), unit)
    if step is None:
        return Cell("real", low, high, None, unit)
    steps = (high - low) / step
    if steps.denominator != 1:
        assert node.step is not None
        last = low + step * int(steps)
        world.report(
            "TM215",
            f"steps of {show(step)} from {show(low)} do not meet {show(high)}: the last one is {show(last)}",
            node.step,
        )
        return None
    return Cell("lattice", low, high, step, unit)


def _category(world: World, node: ast.Cell) -> tuple[Cell, ...] | None:
    names = [c.value if isinstance(c, ast.String) else c.text for c in node.choices]
    for i, name in enumerate(names):
        if name in names[:i]:
            world.report("TM102", f"{name} stands twice in this choice", node.choices[i])
            return None
    return (Cell("category", Fraction(0), Fraction(len(names) - 1), Fraction(1), None, tuple(names)),)


# --- named features ---------------------------------------------------------------------------------------------


def _features(world: World, env: Env, node: ast.Space, body: ast.FeatureBody) -> dict[str, object] | None:
    cells: dict[str, Cell] = {}
    broken = False
    taken: dict[str, ast.Name] = {}
    for member in body.members:
        if isinstance(member, ast.Feature | ast.Derive | ast.Metric) and _twice(world, taken, member.name):
            broken = True
        elif isinstance(member, ast.Feature):
            made = _cells(world, env, member.cell)
            if made is not None and len(made) != 1:
                world.report("TM214", f"{member.name.text} is one number and has one range", member.cell)
            broken |= made is None or len(made) != 1
            cells[member.name.text] = made[0] if made else Cell("real", Fraction(0), Fraction(0))
    if not cells and not broken:
        world.report("TM301", f"{node.name.text} has no features", node.name)
    if broken or not cells:
        return None
    return {
        "shape": (len(cells),),
        "cells": tuple(cells.values()),
        "layout": "each",
        "features": tuple(cells),
        **_related(world, env, node.name.text, body, cells),
    }


def _twice(world: World, taken: dict[str, ast.Name], name: ast.Name) -> bool:
    if name.text in taken:
        world.report("TM102", f"{name.text} is declared above already", name)
        return True
    taken[name.text] = name
    return False


def _related(world: World, env: Env, name: str, body: ast.FeatureBody, cells: dict[str, Cell]) -> dict[str, object]:
    """Derived quantities, relations, one-hot groups and metrics, in that order of definition."""
    scope = relations.Features(world, env, name, cells)
    derived: dict[str, Arithmetic] = {}
    for d in body.members:
        if isinstance(d, ast.Derive) and (made := scope.derive(d)) is not None:
            derived[d.name.text] = made
    found: list[Relation] = []
    groups: list[tuple[str, ...]] = []
    for w in body.members:
        if isinstance(w, ast.Where) and isinstance(w.relation, ast.Call):
            if (group := scope.one_hot(w.relation)) is not None:
                groups.append(group)
        elif isinstance(w, ast.Where) and isinstance(w.relation, ast.Comparison):
            relation = scope.relation(w.relation)
            found += [relation] if relation else []
    metrics = [_metric(world, env, scope, m) for m in body.members if isinstance(m, ast.Metric)]
    return {
        "derived": tuple(derived.items()),
        "relations": tuple(found),
        "one_hot": tuple(groups),
        "metrics": tuple(m for m in metrics if m is not None),
    }


def _metric(world: World, env: Env, scope: relations.Features, node: ast.Metric) -> Metric | None:
    weights: dict[str, Fraction] = {}
    for arg in node.weights:
        assert arg.name is not None
        cell = scope.cell(arg.name)
        if cell is None:
            return None
        if arg.name.text in weights:
            world.report("TM114", f"{arg.name.text} has a weight already", arg.name)
            return None
        if isinstance(arg.value, ast.Name) and arg.value.text == "mismatch":
            if cell.kind != "category":
                world.report("TM219", f"{arg.name.text} is a number: mismatch is for categories", arg.value)
                return None
            weights[arg.name.text] = Fraction(1)
            continue
        weight = values.value(world, env, arg.value)
        if isinstance(weight, Quantity):  # 1/100 '1/USD': the unit only says again what the feature's unit says
            weight = weight.value
        if not isinstance(weight, Fraction) or weight <= 0:
            world.report("TM219", "a weight is a number greater than zero, or mismatch", arg.value)
            return None
        weights[arg.name.text] = weight
    return Metric(node.name.text, tuple(weights.items()))


# --- what stands behind the body --------------------------------------------------------------------------------


def _modified(world: World, env: Env, node: ast.Space, draft: _Draft) -> Space:
    """The space with ``stored as``, ``order``, ``delivered as``, ``originals``; each at most once."""
    seen: set[type] = set()
    for modifier in node.modifiers:
        if type(modifier) in seen:
            world.report("TM009", "this is said twice", modifier)
            continue
        seen.add(type(modifier))
        match modifier:
            case ast.StoredAs():
                dtype = values.word(world, modifier.dtype, ("float32", "float64", "float16"), "number type")
                draft.fields["dtype"] = dtype or "float32"
            case ast.Order():
                order = values.word(world, modifier.order, ("rgb", "bgr"), "order of channels")
                draft.fields["order"] = order if order and _has_colours(world, draft, modifier) else None
            case ast.DeliveredAs():
                draft.fields["delivery"] = _delivery(world, env, modifier, draft)
            case ast.Originals():
                draft.fields["originals"] = values.word(world, modifier.word, ("comply", "exempt"), "rule") or "comply"
    cells = cast("tuple[Cell, ...]", draft.fields["cells"])
    if ast.StoredAs not in seen and any(c.kind in ("real", "lattice") for c in cells):
        message = f"{node.name.text} does not say stored as: which of its numbers a machine can hand over"
        world.report("TM229", message, node.name, help="stored as float32 (or float64, float16) behind the space")
    made = draft.build()
    if made.layout == "channel" and made.order is None and len(cells) == 3 and len(set(cells)) > 1:
        text = f"the channels of {node.name.text} have ranges of their own, and nothing says in which order they come"
        help = "write order rgb (or bgr) behind the space"
        world.report("TM321", text, cast(ast.TensorBody, node.body).cell, help=help)
    emptiness.check_space(world, node, made)
    return made


def _has_colours(world: World, draft: _Draft, node: ast.Order) -> bool:
    shape, axis = cast("tuple[int, ...]", draft.fields["shape"]), draft.fields.get("channel_axis")
    if isinstance(axis, int) and shape[axis] == 3:
        return True
    text = f"{node.order.text} orders three channels, and the shape is {shape}"
    world.report("TM224", text, node, help="leave it out: only three channels have an order")
    return False


_WHY_NOT = {
    "jpeg": "JPEG moves every pixel, frozen ones too, and the originals with them",
    "webp": "WebP moves every pixel, frozen ones too, and the originals with them",
    "gif": "GIF chooses its colours by the whole picture",
}


def _delivery(world: World, env: Env, node: ast.DeliveredAs, draft: _Draft) -> Delivery | None:
    codec = node.codec
    name = codec.path.text if isinstance(codec, ast.Call) else codec.text
    where = codec.path if isinstance(codec, ast.Call) else codec
    if name in _WHY_NOT:
        world.report("TM210", f"{_WHY_NOT[name]}; make it a step of the model", where, help=f"step: {name}(…)")
        return None
    if name == "rounded":
        if not isinstance(codec, ast.Call) or len(codec.args) != 1:
            world.report("TM210", "rounded(…) takes the step that values are rounded to", node.codec)
            return None
        step = values.number(world, env, codec.args[0].value, positive=True)
        return Delivery("rounded", step) if step is not None and _keeps(world, node, draft, step) else None
    if isinstance(codec, ast.Name) and (found := values.word(world, codec, ("png", "float16", "rounded"), "delivery")):
        cells = cast("tuple[Cell, ...]", draft.fields["cells"])
        if found == "png" and not all(c.low >= 0 and c.high in (1, 255) for c in cells):
            world.report("TM210", "a PNG holds bytes: the space must lie in [0, 1] or in bytes", node.codec)
            return None
        if found == "png" and not _keeps(world, node, draft, cells[0].high / 255):
            return None
        return Delivery(cast("Literal['png', 'float16']", found))
    if isinstance(codec, ast.Call):
        world.report("TM210", f"{name}(…) is no delivery; there are png, float16 and rounded(step)", where)
    return None


def _keeps(world: World, node: ast.DeliveredAs, draft: _Draft, step: Fraction) -> bool:
    """Whether rounding to multiples of ``step`` leaves every point of a lattice where it is."""
    for c in cast("tuple[Cell, ...]", draft.fields["cells"]):
        if c.step is not None and c.kind != "category" and (c.step % step or c.low % step):
            message = f"rounding to multiples of {show(step)} moves originals of a lattice of {show(c.step)}"
            world.report("TM210", message, node.codec)
            return False
    return True


def unit_of(cell: Cell) -> str:
    """The unit of a coordinate in words."""
    if cell.kind == "category":
        return "a choice"
    return f"'{cell.unit}'" if cell.unit else "no unit"


def same_unit(a: Cell, b: Cell) -> bool:
    """Whether distances in two coordinates add: both plain numbers, or convertible units; a category with no one."""
    if "category" in (a.kind, b.kind):
        return False
    if a.unit is None or b.unit is None:
        return a.unit == b.unit
    one, other = parse_unit(a.unit), parse_unit(b.unit)
    return one is not None and other is not None and one.kind == other.kind


def one_unit(cells: Sequence[Cell]) -> bool:
    """Whether one radius can cover all of these coordinates."""
    return all(same_unit(cells[0], c) for c in cells)
