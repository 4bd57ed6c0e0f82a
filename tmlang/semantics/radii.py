"""Whether a radius makes sense in its space: not everything, not nothing, not nearly another one."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

from tmlang.base.exact import next_up
from tmlang.diagnostics.model import Edit, Fix
from tmlang.meaning.held import ends, grid, stored_as
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Mutable
from tmlang.semantics import mutable
from tmlang.semantics.scope import World
from tmlang.semantics.values import show
from tmlang.syntax import ast

_USUAL = (1, 2, 4, 8, 16)
"""Levels of 255 in which budgets for pictures between 0 and 1 are usually published."""

_NEAR = Fraction(25, 1000)
"""Relative distance from a usual radius that a rounded decimal has (0.031 for 8/255 is off by 1.2 %)."""


def check(world: World, node: ast.Ball, space: Space, part: Mutable | None, radius: Fraction, *, zero: bool) -> bool:
    """Report a radius that allows everything or nothing; warn of one that nearly is a usual one."""
    if radius < 0:
        world.report("TM213", f"a radius is greater than zero, and this is {show(radius)}", node.radius)
        return False
    if radius == 0:
        if not zero:
            world.report("TM202", "a radius of zero leaves only the original", node.radius)
        return zero
    if node.norm.text in ("l0", "pixels_changed", "metric"):
        return True
    cells = mutable.moved_cells(space, part)
    if not cells or _nothing(world, node, space, cells, radius) or _everything(world, node, space, part, radius):
        return False
    if node.norm.text == "linf" and not space.is_lattice:
        _near_miss(world, node, space, radius)
    return True


def _nothing(world: World, node: ast.Ball, space: Space, cells: list[Cell], radius: Fraction) -> bool:
    """On a lattice a radius below one step allows the original alone; linf counts whole steps. Among floats one below
    the least distance of two of them does."""
    gaps = [gap for c in cells if (gap := _spacing(c, space)) is not None]
    if len(gaps) == len(cells) and node.tolerance is None and node.norm.text != "l2_rms" and radius < min(gaps):
        apart = f"the {stored_as(space)}s of {space.name} lie at least {float(min(gaps)):.6g} apart"
        help = "take a greater radius, or store the space in a finer type"
        world.report("TM202", f"{apart}: {show(radius)} leaves only the original", node.radius, help=help)
        return True
    steps = [c.step for c in cells if c.step is not None]
    if len(steps) < len(cells):
        return False
    step = min(steps)
    if radius < step and not (node.norm.text == "l2_rms" and radius**2 * space.size >= step**2):
        _below_a_step(world, node, space, cells, radius, step)
        return True
    if node.norm.text == "linf" and len(set(steps)) == 1 and (radius / step).denominator != 1:
        whole = int(radius / step)
        message = (
            f"{show(radius / step)} levels are not whole; the lattice of {space.name} knows {whole} or {whole + 1}"
        )
        world.report("TM222", message, node.radius, help=f"write {whole} 'levels', or {whole + 1}")
        return True
    return False


def _spacing(cell: Cell, space: Space) -> Fraction | None:
    """The least distance of two values of a real cell: that of those nearest to zero; ``None`` of a lattice."""
    held = ends(cell, space) if grid(cell, space) is None else None
    if held is None:
        return None
    dtype = stored_as(space)
    nearest = max(held[0], -held[1], Fraction(0))
    beyond = next_up(nearest, dtype)
    return Fraction(beyond) - nearest if isfinite(beyond) else None


def _below_a_step(
    world: World, node: ast.Ball, space: Space, cells: list[Cell], radius: Fraction, step: Fraction
) -> None:
    widths = {c.high - c.low for c in cells}
    share = int(radius * widths.copy().pop() / step) if len(widths) == 1 else 0
    if cells[0].kind == "integer" and share:
        what = "bytes move" if cells[0].high == 255 else f"{space.name} moves"
        message = f"{what} in whole levels; {show(radius)} leaves only the original"
        notes = (f"{show(radius)} of the range is {share} levels",)
        help = f"write {share} 'levels'"
    else:
        message = (
            f"the lattice of {space.name} has steps of {show(step)}, so at most {show(radius)} leaves only the original"
        )
        notes = (f"one step is {show(step / radius)} times as long",)
        help = "the smallest radius is 1 'levels'"
    world.report("TM202", message, node.radius, notes=notes, help=help)


def _everything(world: World, node: ast.Ball, space: Space, part: Mutable | None, radius: Fraction) -> bool:
    """Whether the ball holds the whole domain, whatever the original."""
    cells = mutable.moved_cells(space, part)
    widths = [c.high - c.low for c in cells]
    per_cell = 1 if space.layout == "each" else space.size // max(1, len(space.cells))
    norm = node.norm.text
    if norm == "linf":
        reached = all(radius >= w for w in widths)
    elif norm == "l1":
        reached = radius >= per_cell * sum(widths)
    else:
        squares = per_cell * sum(w * w for w in widths)
        reached = radius**2 * (space.size if norm == "l2_rms" else 1) >= squares
    if not reached:
        return False
    cell = cells[0]
    domain = f"[{show(cell.low)}, {show(cell.high)}]"
    fix = None
    help = None
    if norm == "linf" and cell.high - cell.low == 1 and cell.unit is None and 1 < radius <= 255 and not space.features:
        meant = f"{show(radius)}/255"
        if isinstance(node.radius, ast.Number):
            fix = Fix(f"write {meant}", (Edit(node.radius.span, meant),))
        help = f"did you mean {meant}: {show(radius)} of 255 levels"
    shown = f"{show(radius)} '{cell.unit}'" if cell.unit else show(radius)
    message = f"{space.name} lies in {domain}, so a radius of {shown} allows every input"
    world.report("TM201", message, node.radius, help=help or "write `anything` if that is what you mean", fix=fix)
    return True


def _near_miss(world: World, node: ast.Ball, space: Space, radius: Fraction) -> None:
    """Warn of 0.031 where 8/255 is usual: the results do not compare."""
    if space.features or any((c.low, c.high) != (Fraction(0), Fraction(1)) for c in space.cells):
        return
    for k in _USUAL:
        usual = Fraction(k, 255)
        if radius != usual and abs(radius - usual) <= _NEAR * usual:
            percent = float(abs(radius - usual) / usual * 100)
            more = "more" if radius > usual else "less"
            world.report(
                "TM203",
                f"{show(radius)} is {percent:.1f} % {more} than {k}/255, and the results of the two do not compare",
                node.radius,
                help=f"write {k}/255 if that is meant",
            )
            return
