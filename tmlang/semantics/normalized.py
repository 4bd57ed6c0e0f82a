"""Budgets in numbers that nobody outside knows: radii in a space of standardized pictures, or of [-1, 1]."""

from __future__ import annotations

from fractions import Fraction

from tmlang.base.source import Span
from tmlang.diagnostics.model import Label
from tmlang.diagnostics.suggest import listed
from tmlang.meaning.models import Step
from tmlang.meaning.pictures import measured, measures
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Ball, Threat
from tmlang.semantics.data import KnownData
from tmlang.semantics.flow import pieces
from tmlang.semantics.models import KnownModel
from tmlang.semantics.scope import World
from tmlang.semantics.values import show
from tmlang.syntax import ast

_HELP = 'units: external because "…" says that these numbers are what is handed in'
_USUAL = Fraction(1, 4)
"""What deviations of pictures between 0 and 1 are about (0.2 to 0.35)."""


def check(world: World, node: ast.Threat, made: Threat, model: KnownModel, examples: KnownData) -> None:
    """Refuse lengths in a space that ``prepare:`` fills with standardized numbers; warn where a space looks so, or goes
    from -1 to 1 and the radius is one of pictures between 0 and 1."""
    found = examples.standardized
    if found is not None:
        _twice(world, model, examples, found)
    if not measures(made):
        return
    if found is not None:
        _standardized(world, node, made, model, found)
    elif made.units is None and (cells := _picture(model.space)):
        for ball in measured(made.allow):
            _likely(world, ball, model.space, cells)


def _twice(world: World, model: KnownModel, examples: KnownData, first: Step) -> None:
    again = next((s for s in model.meaning.steps if s.name == "normalize"), None)
    if again is None:
        return
    message = f"{examples.meaning.name} is normalized by prepare: already, and the model normalizes it again"
    labels = (Label(first.origin, "the first time"),)

    def report() -> bool:
        world.report("TM304", message, again.origin, labels=labels)
        return True

    world.once(("normalized twice", examples.meaning.name, model.meaning.name), ast.Name(again.origin, ""), report)


def _standardized(world: World, node: ast.Threat, made: Threat, model: KnownModel, step: Step) -> None:
    balls = measured(made.allow)
    std = pieces(dict(step.args)["std"])
    places: list[tuple[Span, Ball | None]] = [(b.origin, b) for b in balls]
    for where, ball in places or [(_word(node, "minimize"), None)]:
        notes: tuple[str, ...] = ()
        if ball is not None and ball.radius is not None:
            r, name = ball.radius, model.space.name
            notes = (
                f"{show(r)} in {name} is {_each(r * s for s in std)} of what prepare: reads",
                f"{show(r)} of what it reads is {_each(r / s for s in std)} in {name}",
            )
        world.report(
            "TM232",
            f"prepare: normalizes, so distances in {model.space.name} are in numbers that nobody hands in",
            where,
            labels=(Label(step.origin, "normalized here"),),
            notes=notes,
            help=f"take normalize out of prepare:, make it a step: of {model.meaning.name}, and let {model.space.name} "
            "be what it was before; undo: normalize(…) is for a file that is stored so",
        )


def _word(node: ast.Threat, word: str) -> Span:
    return next(c.word.span for c in node.clauses if c.word.text == word)


def _each(numbers: object) -> str:
    return listed([f"{float(x):.4g}" for x in numbers])  # type: ignore[attr-defined]


def _picture(space: Space) -> tuple[Cell, ...]:
    """The cells of a space of coloured or grey pictures in real numbers without a unit."""
    axes = [a for a in (0, 2) if len(space.shape) == 3 and space.shape[a] in (1, 3)]
    real = all(c.kind == "real" and c.unit is None for c in space.cells)
    return space.cells if axes and real and not space.features else ()


def _likely(world: World, ball: Ball, space: Space, cells: tuple[Cell, ...]) -> None:
    if ball.radius is None or ball.norm == "metric":
        return
    r, widths = ball.radius, {c.high - c.low for c in cells}
    domain = f"[{show(cells[0].low)}, {show(cells[0].high)}]"
    if {(c.low, c.high) for c in cells} == {(Fraction(-1), Fraction(1))}:
        if (r * 255).denominator == 1:
            notes = (
                f"{show(r)} in {space.name} is {_of255(r / 2)} of pictures in [0, 1]",
                f"{show(r)} of these is {_of255(2 * r)} in {space.name}",
            )
            message = f"{space.name} is {domain}, and {show(r)} is a radius of pictures in [0, 1]"
            world.report("TM234", message, ball.origin, notes=notes, help=f"write the one that is meant; {_HELP}")
        return
    if any(c.low < 0 < c.high for c in cells) and not widths & {Fraction(1), Fraction(255)}:
        notes = (
            f"with a usual deviation of {show(_USUAL)}, {show(r)} in {space.name} is {show(r * _USUAL)} of pictures in "
            "[0, 1]",
            f"and {show(r)} of these is {show(r / _USUAL)} in {space.name}",
        )
        message = f"{space.name} is {domain}, as standardized pictures are, and {show(r)} is measured in it"
        help = f"let {space.name} be what people hand in, and normalize in a step: of the model; {_HELP}"
        world.report("TM233", message, ball.origin, notes=notes, help=help)


def _of255(q: Fraction) -> str:
    """A number in 255ths, as radii of pictures are written."""
    return f"{show(q * 255)}/255"
