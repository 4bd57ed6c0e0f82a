"""Arithmetic over the features of a space: ``derive`` and ``where``."""

from __future__ import annotations

from fractions import Fraction

from tmlang.base.frozen import dataclass
from tmlang.meaning.spaces import Arithmetic, Cell, Num, Op, Ref, Relation
from tmlang.meaning.values import Quantity
from tmlang.semantics import values
from tmlang.semantics.scope import Env, World
from tmlang.semantics.units import Unit, parse_unit
from tmlang.syntax import ast

_NUMBER = Unit("", (), Fraction(1))


@dataclass(frozen=True, slots=True)
class _Term:
    """An expression with its unit; ``unit`` is ``None`` for a literal zero, which fits every unit."""

    tree: Arithmetic
    unit: Unit | None


class Features:
    """The features of one space, and the quantities derived from them, as names in arithmetic."""

    def __init__(self, world: World, env: Env, owner: str, cells: dict[str, Cell]) -> None:
        self.world = world
        self.env = env
        self.owner = owner
        self.cells = cells
        self.derived: dict[str, _Term] = {}

    def cell(self, name: ast.Name) -> Cell | None:
        """The cell of a feature; a name that is none is reported."""
        if name.text not in self.cells:
            self.world.unknown("TM110", name, "feature", list(self.cells), self.owner)
        return self.cells.get(name.text)

    def derive(self, node: ast.Derive) -> Arithmetic | None:
        term = self._term(node.value)
        if term is None:
            return None
        self.derived[node.name.text] = term
        return term.tree

    def one_hot(self, node: ast.Call) -> tuple[str, ...] | None:
        """``one_hot(a, b, c)``: exactly one of these is 1, the others are 0."""
        if node.path.text != "one_hot":
            self._no_function(node)
            return None
        names: list[str] = []
        for arg in node.args:
            cell = self.cell(arg.value) if isinstance(arg.value, ast.Name) else None
            if cell is None or cell.low != 0 or cell.high != 1 or cell.kind == "category":
                if cell is not None or not isinstance(arg.value, ast.Name):
                    self.world.report("TM218", "a one-hot group holds features between 0 and 1", arg)
                return None
            names.append(arg.value.text)  # type: ignore[union-attr]
        return tuple(names)

    def relation(self, node: ast.Comparison) -> Relation | None:
        left, right = self._term(node.left), self._term(node.right)
        tolerance = values.number(self.world, self.env, node.tolerance) if node.tolerance else Fraction(0)
        if left is None or right is None or tolerance is None:
            return None
        if tolerance < 0:
            self.world.report("TM213", "a tolerance is not negative", node.tolerance or node)
            return None
        aligned = self._aligned(left, right, node.right)
        if aligned is None:
            return None
        if node.op == "==" and not tolerance and (real := self._real_in(left.tree) or self._real_in(right.tree)):
            self.world.report(
                "TM217",
                f"{real} is a real number, and two sums of floats are rarely equal",
                node,
                help="write how far apart they may be: … tolerance 1/100",
            )
            return None
        return Relation(aligned[0], node.op, aligned[1], tolerance, self.world.said(node), node.span)

    def _real_in(self, tree: Arithmetic) -> str | None:
        """A feature of real kind in an expression."""
        if isinstance(tree, Ref):
            return tree.feature if self.cells[tree.feature].kind == "real" else None
        return self._real_in(tree.left) or self._real_in(tree.right) if isinstance(tree, Op) else None

    def _term(self, node: ast.Value) -> _Term | None:
        match node:
            case ast.Name() if node.text in self.cells:
                return self._feature(node)
            case ast.Name() if node.text in self.derived:
                return self.derived[node.text]
            case ast.Name() if node.text not in self.env.file.table and node.text not in self.env.bound:
                known = [*self.cells, *self.derived]
                self.world.unknown("TM110", node, "feature", known, self.owner)
                return None
            case ast.Binary():
                left, right = self._term(node.left), self._term(node.right)
                return self._joined(node, left, right) if left and right else None
            case ast.Negate():
                inner = self._term(node.operand)
                return inner and _Term(Op("-", Num(Fraction(0)), inner.tree), inner.unit)
            case ast.Call():
                return self._sum(node)
        return self._constant(node)

    def _feature(self, node: ast.Name) -> _Term | None:
        cell = self.cells[node.text]
        if cell.kind == "category":
            self.world.report("TM218", f"{node.text} is a choice, and choices do not add", node)
            return None
        return _Term(Ref(node.text), parse_unit(cell.unit) if cell.unit else _NUMBER)

    def _constant(self, node: ast.Value) -> _Term | None:
        got = values.value(self.world, self.env, node)
        if isinstance(got, Quantity):
            return _Term(Num(got.value), parse_unit(got.unit) if got.unit else _NUMBER)
        if not isinstance(got, Fraction):
            if got is not None:
                self.world.report("TM221", f"a number is needed here, and this is {values.describe(got)}", node)
            return None
        return _Term(Num(got), _NUMBER if got else None)

    def _sum(self, node: ast.Call) -> _Term | None:
        if node.path.text != "sum" or not node.args:
            self._no_function(node)
            return None
        total = self._term(node.args[0].value)
        for arg in node.args[1:]:
            more = self._term(arg.value)
            aligned = self._aligned(total, more, arg) if total and more else None
            if aligned is None or total is None or more is None:
                return None
            total = _Term(Op("+", *aligned), total.unit or more.unit)
        return total

    def _no_function(self, node: ast.Call) -> None:
        self.world.report(
            "TM012",
            f"relations know +, -, *, / and sum(…), and no function {node.path.text}",
            node.path,
            help="compute it before, and hand it in as a feature of its own",
        )

    def _joined(self, node: ast.Binary, left: _Term, right: _Term) -> _Term | None:
        if node.op in ("+", "-"):
            aligned = self._aligned(left, right, node.right)
            return aligned and _Term(Op(node.op, *aligned), left.unit or right.unit)
        if node.op == "/" and right.tree == Num(Fraction(0)):
            self.world.report("TM220", "this divides by zero", node.right)
            return None
        power = 1 if node.op == "*" else -1
        kinds = dict((left.unit or _NUMBER).kind)
        for kind, exponent in (right.unit or _NUMBER).kind:
            kinds[kind] = kinds.get(kind, 0) + power * exponent
        factor = (left.unit or _NUMBER).factor * (right.unit or _NUMBER).factor ** power
        kind_list = tuple(sorted((k, n) for k, n in kinds.items() if n))
        unit = Unit(_text(left.unit, node.op, right.unit), kind_list, factor)
        tree: Arithmetic = Op(node.op, left.tree, right.tree)
        if not kind_list and factor != 1:
            tree = Op("*", Num(factor), tree)
            unit = _NUMBER
        return _Term(tree, unit)

    def _aligned(self, left: _Term, right: _Term, where: ast.Node) -> tuple[Arithmetic, Arithmetic] | None:
        """Both sides in the unit of the left one, or a report that they do not compare."""
        if left.unit is None or right.unit is None or left.unit == right.unit:
            return left.tree, right.tree
        if left.unit.kind != right.unit.kind:
            one, other = (f"'{u.text}'" if u.kind else "a plain number" for u in (left.unit, right.unit))
            missing = not right.unit.kind and isinstance(right.tree, Num)
            self.world.report(
                "TM207" if missing else "TM206",
                f"{one} does not compare with {other}" + ("; write the unit" if missing else ""),
                where,
            )
            return None
        factor = right.unit.factor / left.unit.factor
        return left.tree, right.tree if factor == 1 else Op("*", Num(factor), right.tree)


def _text(left: Unit | None, op: str, right: Unit | None) -> str:
    """How the unit of a product or quotient is written; a plain number has none."""
    one, other = (left or _NUMBER).text, (right or _NUMBER).text
    if not other:
        return one
    return f"{one or '1'}{op}{other}" if one or op == "/" else other
