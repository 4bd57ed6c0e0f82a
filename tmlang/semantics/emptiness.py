"""Sets that hold nothing: a range without a number of the stored type, a relation that no input of the box obeys."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tmlang.base.exact import exact_decimal, next_up, round_down, round_nearest, round_up
from tmlang.diagnostics.model import Edit, Fix
from tmlang.meaning.held import ends, grid, narrowed, stored_as
from tmlang.meaning.spaces import Arithmetic, Cell, Num, Ref, Space
from tmlang.semantics.scope import World
from tmlang.semantics.values import show
from tmlang.syntax import ast

_LONGEST = 80
"""Digits that a fix writes at most."""
Bound = tuple[str, Fraction]
"""(operator, number) as ``given:`` has it."""
Given = tuple[str, str, Fraction]


def check_space(world: World, node: ast.Space, made: Space) -> None:
    """Report every range that holds no number a machine can hand over, and every relation that nothing obeys."""
    empty = False
    for written, at, name, cell in _written(node, made):
        if cell.kind == "category":
            continue
        if ends(cell, made) is None:
            empty = True
            _no_number(world, written, at, name, cell, made)
        elif (near := _blurred(cell, made)) is not None:
            text = (
                f"{made.dtype} cannot tell levels of step {show(grid(cell, made) or Fraction(0))} apart near {near:g}"
            )
            world.report("TM215", text, written.range or written, help="store the space as float64")
    if not empty:
        _relations(world, made)


def _written(node: ast.Space, made: Space) -> list[tuple[ast.Cell, int, str, Cell]]:
    """(what is written, which entry of its tuples, what it is called, what it means) of every cell."""
    if isinstance(node.body, ast.TensorBody):
        noun = "channel" if made.layout == "channel" else "entry"
        names = [made.name] if len(made.cells) == 1 else [f"{noun} {i} of {made.name}" for i in range(len(made.cells))]
        return [(node.body.cell, i, name, cell) for i, (name, cell) in enumerate(zip(names, made.cells, strict=True))]
    features = [m for m in node.body.members if isinstance(m, ast.Feature)]
    return [(f.cell, 0, f.name.text, cell) for f, cell in zip(features, made.cells, strict=True)]


def _no_number(world: World, written: ast.Cell, at: int, name: str, cell: Cell, made: Space) -> None:
    assert written.range is not None
    place = written.range
    step = grid(cell, made)
    if step is not None:
        text = f"no multiple of {show(step)} lies in {_box(cell)}, and {name} is delivered as one"
        below, above = (cell.low // step) * step, -(-cell.high // step) * step
        world.report("TM230", text, place, notes=(f"the nearest are {show(below)} and {show(above)}",))
        return
    dtype = stored_as(made)
    fix = _nearest(place, at, cell, dtype)
    help = None
    if fix is not None:
        help = f"{fix.description}: the {dtype} that is read where {show(cell.low)} is written"
        if cell.low != cell.high:
            help = fix.description
    world.report("TM230", f"{name} holds nothing: {none_in(cell, dtype)}", place, notes=(nearest(cell, dtype),),
                 help=help, fix=fix)  # fmt: skip


def none_in(cell: Cell, dtype: str, *, inside: bool = False) -> str:
    """``no float32 is 0.1``, ``no float32 lies in [0.1, 0.100000001]``; ``inside``: its ends do not belong to it."""
    if inside:
        return f"no {dtype} lies between {_shown(cell.low)} and {_shown(cell.high)}"
    return f"no {dtype} is {_shown(cell.low)}" if cell.low == cell.high else f"no {dtype} lies in {_box(cell)}"


def nearest(cell: Cell, dtype: str) -> str:
    """The numbers of a type on both sides of a range that holds none of them."""
    below, above = round_down(cell.low, dtype), round_up(cell.high, dtype)
    return f"the nearest are {below:.17g} and {above:.17g}"


def _shown(number: Fraction) -> str:
    """A number in as many digits as it was written in, where these are not too many."""
    text = exact_decimal(number)
    return text if len(text) <= 24 else show(number)


def _box(cell: Cell) -> str:
    return f"[{_shown(cell.low)}, {_shown(cell.high)}]"


def _nearest(place: ast.Range, at: int, cell: Cell, dtype: str) -> Fix | None:
    """The ends moved to the nearest numbers of the type, written out; ``None`` where they are no numbers there."""
    nodes = [_entry(end, at) for end in (place.low, place.high)]
    texts = [exact_decimal(Fraction(round_nearest(end, dtype))) for end in (cell.low, cell.high)]
    if any(n is None for n in nodes) or any(len(t) > _LONGEST for t in texts):
        return None
    edits = tuple(Edit(n.span, t) for n, t in zip(nodes, texts, strict=True) if n is not None)
    return Fix(f"write [{texts[0]}, {texts[1]}]", edits)


def _entry(end: ast.Value, at: int) -> ast.Value | None:
    """The number of an end that stands in the range itself, and in no ``let``."""
    if isinstance(end, ast.Tuple):
        end = end.items[at].value
    return end if isinstance(end, ast.Number | ast.Negate) else None


def _blurred(cell: Cell, made: Space) -> float | None:
    """Where the levels of a lattice lie too close for the stored type, if anywhere (two spacings tell them apart)."""
    step = grid(cell, made)
    if step is None:
        return None
    widest = Fraction(round_nearest(max(abs(cell.low), abs(cell.high)), made.dtype))
    beyond = next_up(widest, made.dtype)
    spacing = Fraction(beyond) - widest if beyond != float("inf") else step
    return float(widest) if spacing * 2 > step else None


# --- relations ----------------------------------------------------------------------------------------------------

Interval = tuple[Fraction, Fraction]


def _relations(world: World, made: Space) -> None:
    """A relation whose two sides lie apart over the whole box is obeyed by nothing (interval arithmetic: an enclosure
    may be too wide, so what is said here is so, and not everything is said)."""
    cells = dict(zip(made.features, made.cells, strict=False))
    for relation in made.relations:
        left, right = _range(relation.left, cells), _range(relation.right, cells)
        if left is None or right is None:
            continue
        gap, strict = relation.tolerance, relation.op in ("<", ">")
        over = left[0] - right[1]  # how far the left side always lies above the right one
        under = right[0] - left[1]
        beyond = {"<": over, "<=": over, ">": under, ">=": under, "==": max(over, under)}[relation.op]
        if beyond > gap or (strict and beyond == gap):
            sides = " and ".join(f"[{show(low)}, {show(high)}]" for low, high in (left, right))
            world.report("TM212", f"no input of {made.name} obeys this: its sides lie in {sides}", relation.origin)


def _range(tree: Arithmetic, cells: dict[str, Cell]) -> Interval | None:
    """What an expression lies in, over the whole box; ``None`` where a divisor may be zero."""
    match tree:
        case Num():
            return tree.value, tree.value
        case Ref():
            return cells[tree.feature].low, cells[tree.feature].high
    left, right = _range(tree.left, cells), _range(tree.right, cells)
    if left is None or right is None:
        return None
    if tree.op == "+":
        return left[0] + right[0], left[1] + right[1]
    if tree.op == "-":
        return left[0] - right[1], left[1] - right[0]
    if tree.op == "/":
        if right[0] <= 0 <= right[1]:
            return None
        right = 1 / right[1], 1 / right[0]
    ends_ = [a * b for a in left for b in right]
    return min(ends_), max(ends_)


# --- properties ---------------------------------------------------------------------------------------------------


def check_given(world: World, node: ast.Given, given: Sequence[Given], space: Space, name: str) -> str | None:
    """Report bounds of a property that leave nothing: an error where no number obeys them (raises no more than that),
    a warning where none that the space stores does. The feature that it is about, ``None`` where there is none."""
    for feature in dict.fromkeys(n for n, _, _ in given):
        own = [(op, value) for n, op, value in given if n == feature]
        written = space.cells[space.features.index(feature)]
        cell = _bounded(written, own, space.dtype)
        if ends(written, space) is None or ends(cell, space) is not None:
            continue
        said = " and ".join(f"{op} {_shown(value)}" for op, value in own)
        if grid(cell, space) is not None or _contradicted(written, own):
            world.report("TM212", f"no input has {feature} {said}", node)
        else:
            strict = any(op in ("<", ">") for op, _ in own)
            none = none_in(_box_of(written, own), stored_as(space), inside=strict)
            message = f"{name} speaks of no input: {feature} {said}, and {none}"
            _unspoken(world, node, message, feature, _box_of(written, own), stored_as(space))
        return feature
    return None


def _contradicted(written: Cell, own: Sequence[Bound]) -> bool:
    """Whether no real number obeys all of the bounds."""
    low = max([written.low, *(v for op, v in own if op in (">=", ">", "=="))])
    high = min([written.high, *(v for op, v in own if op in ("<=", "<", "=="))])
    return low > high or (low == high and any(v == low and op in ("<", ">") for op, v in own))


def _box_of(written: Cell, own: Sequence[Bound]) -> Cell:
    """The range in real numbers, whether its ends belong to it or not."""
    closed = [(op.rstrip("=") + "=" if op != "==" else op, v) for op, v in own]
    return _bounded(written, closed, "float64")


def _unspoken(world: World, node: ast.Given, message: str, feature: str, cell: Cell, dtype: str) -> None:
    notes = (nearest(cell, dtype), "its verdict is `vacuous`, and supports no claim")
    value = exact_decimal(Fraction(round_nearest(cell.low, dtype)))
    help = (
        f"for the {dtype} nearest to {_shown(cell.low)} write {feature} == {value}" if len(value) <= _LONGEST else None
    )
    world.report("TM231", message, node, notes=notes, help=help if len(value) <= _LONGEST else None)


def _bounded(cell: Cell, own: Sequence[Bound], dtype: str) -> Cell:
    for op, value in own:
        cell = narrowed(cell, op, value, dtype)
    return cell
