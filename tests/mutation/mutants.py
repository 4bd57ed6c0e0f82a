"""Small changes to a module, each of which some test should notice: the mutants of mutation testing.

A change replaces one node of the syntax tree. Annotations, documentation and the words of messages are left alone:
they decide nothing. Changes at a distance (decorators, aliases of types) fail on import and are no measure, so they
are left out as well.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_NAMED = {
    "any": "all",
    "min": "max",
    "round_down": "round_up",
    "floor": "ceil",
    "minimum": "maximum",
    "argmin": "argmax",
}
_NAMED |= {other: name for name, other in _NAMED.items()}


@dataclass(frozen=True)
class Mutant:
    """``field`` (its ``index``-th item, where that is a list) of ``parent`` becomes ``new``; ``within``: the outermost
    function around it, or ``None`` at the level of the module."""

    scope: str
    line: int
    name: str
    within: ast.AST | None
    parent: ast.AST
    field: str
    index: int | None
    new: Any

    def apply(self) -> Any:
        """Changes the tree in place; gives what stood there before."""
        return _put(self.parent, self.field, self.index, self.new)


def mutants(path: Path) -> tuple[ast.Module, list[Mutant]]:
    """The tree of a module and its mutants, in order; each has a ``name`` of its own within the module."""
    tree = ast.parse(path.read_text(), str(path))
    found, seen = [], Counter[str]()
    for mutant in _Walk().sites(tree):
        seen[mutant.name] += 1
        nth = f" #{seen[mutant.name]}" if seen[mutant.name] > 1 else ""
        found.append(Mutant(**{**mutant.__dict__, "name": mutant.name + nth}))
    return tree, found


def _put(parent: ast.AST, field: str, index: int | None, new: Any) -> Any:
    if index is None:
        old = getattr(parent, field)
        setattr(parent, field, new)
        return old
    items = list(getattr(parent, field))
    old, items[index : index + 1] = items[index], [] if new is None else [new]
    setattr(parent, field, items)
    return old


class _Walk:
    def __init__(self) -> None:
        self.scope: list[str] = []
        self.function: ast.AST | None = None
        self.above: list[ast.AST] = []

    def sites(self, node: ast.AST) -> Iterator[Mutant]:
        for field, index, child in _children(node):
            self.above.append(node)
            for new in self._changes(node, field, child):
                yield self._mutant(node, field, index, child, new)
            entered = isinstance(child, (ast.FunctionDef, ast.ClassDef))
            outermost = isinstance(child, ast.FunctionDef) and self.function is None
            if entered:
                self.scope.append(child.name)  # type: ignore[attr-defined]
            if outermost:
                self.function = child
            yield from self.sites(child)
            if outermost:
                self.function = None
            if entered:
                self.scope.pop()
            self.above.pop()

    def _mutant(self, node: ast.AST, field: str, index: int | None, child: ast.AST, new: Any) -> Mutant:
        if isinstance(new, ast.AST):
            ast.copy_location(new, child)
            ast.fix_missing_locations(new)
        shown = self._shown()
        was = _text(shown)
        before = getattr(node, field)
        _put(node, field, index, new)
        now = _text(shown)
        setattr(node, field, before)
        if isinstance(child, ast.stmt):
            was, now = _text(child), _text(new)
        was, now = _apart(was, now)
        line = next((n.lineno for n in [child, *reversed(self.above)] if hasattr(n, "lineno")), 1)
        scope = ".".join(self.scope)
        inside = self.function if not self._defaults() else None
        return Mutant(scope, line, f"{scope}: {was} -> {now}", inside, node, field, index, new)

    def _defaults(self) -> bool:
        """Whether this is a default argument of the outermost function, which is worked out at the module's level."""
        at = next((i for i, n in enumerate(self.above) if n is self.function), None)
        return at is not None and at + 1 < len(self.above) and isinstance(self.above[at + 1], ast.arguments)

    def _shown(self) -> ast.AST:
        """The smallest piece around the change that can be recognized."""
        for node in reversed(self.above):
            if isinstance(node, ast.stmt) or (isinstance(node, ast.expr) and len(ast.unparse(node)) > 8):
                return node
        return self.above[-1]

    def _changes(self, parent: ast.AST, field: str, node: ast.AST) -> Iterator[Any]:
        yield from _of_condition(parent, field, node)
        if isinstance(node, ast.cmpop):
            yield from (other() for other in _COMPARED[type(node)])
        elif isinstance(node, ast.operator):
            yield _COMPUTED[type(node)]()
        elif isinstance(node, ast.BoolOp):
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            yield from (_without(node, i) for i in range(len(node.values)))
        elif isinstance(node, ast.UnaryOp):
            yield node.operand
        elif isinstance(node, ast.Constant):
            told = isinstance(parent, (ast.Yield, ast.Return)) and " " in str(node.value)
            spoken = told or any(isinstance(n, (ast.Raise, ast.JoinedStr)) for n in self.above)
            yield from () if spoken and isinstance(node.value, str) else _of_constant(parent, node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in _NAMED:
            yield ast.Name(_NAMED[node.id], ast.Load())
        elif isinstance(node, ast.Attribute) and node.attr in _NAMED:
            yield ast.Attribute(node.value, _NAMED[node.attr], node.ctx)
        elif isinstance(node, (ast.Break, ast.Continue)):
            yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()
        elif isinstance(node, (ast.Raise, ast.AugAssign)) or (isinstance(node, ast.Expr) and not _is_text(node.value)):
            yield ast.Pass()
        elif isinstance(node, ast.Return) and node.value is not None and not _is_named(node.value):
            yield ast.Return(ast.Constant(None))
        elif isinstance(node, ast.Slice):
            yield from (ast.Slice(None, node.upper, node.step),) if node.lower else ()
            yield from (ast.Slice(node.lower, None, node.step),) if node.upper else ()
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield None


def _of_condition(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """A test that always holds, one that never does; a filter that lets everything through."""
    if field == "test" and isinstance(parent, (ast.If, ast.IfExp)):
        yield from (ast.Constant(True), ast.Constant(False))
    elif (field == "test" and isinstance(parent, ast.While)) or (field == "ifs" and isinstance(node, ast.expr)):
        yield ast.Constant(field == "ifs")


def _of_constant(parent: ast.AST, node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(parent, ast.Expr) or isinstance(value, (bytes, complex)) or value is None or value is ...:
        return
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, str):
        yield ast.Constant(f"{value}?")
    else:
        yield ast.Constant(value + 1)


def _without(node: ast.BoolOp, index: int) -> ast.expr:
    rest = [v for i, v in enumerate(node.values) if i != index]
    return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, type(...)))


def _is_named(node: ast.AST) -> bool:
    """``None``, ``True``, ``False``: what is changed in them is told apart elsewhere, or not at all."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _text(node: ast.AST) -> str:
    """One line: of a compound statement its head."""
    return ast.unparse(node).split("\n")[0]


_WIDE = 80


def _apart(was: str, now: str) -> tuple[str, str]:
    """Both texts, long ones cut to where they differ."""
    if len(was) <= _WIDE:
        return was, now
    same = _alike(was, now)
    tail = _alike(was[same:][::-1], now[same:][::-1])
    begin, end = max(0, same - 30), max(0, tail - 30)
    cut = [("…" if begin else "") + t[begin : len(t) - end] + ("…" if end else "") for t in (was, now)]
    short = [t if len(t) <= 2 * _WIDE else f"{t[:_WIDE]}…" for t in cut]
    return short[0], short[1]


def _alike(one: str, other: str) -> int:
    """How many letters the two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


_SKIPPED = {"annotation", "returns", "decorator_list", "bases", "keywords", "ctx", "type_comment"}


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if field in _SKIPPED and not (field == "keywords" and isinstance(node, ast.Call)):
            continue
        if field != "orelse" and _checked_only(node):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST) and not _is_alias(child):
                yield field, index, child


def _checked_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_alias(node: ast.AST) -> bool:
    """``Ball = A | B``, ``Rows = Mapping[str, int]``, ``__all__ = …``."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    value, name = node.value, node.targets[0].id
    type_like = isinstance(value, (ast.BinOp, ast.Subscript)) and name[0].isupper() and not name.isupper()
    return type_like or name == "__all__"
