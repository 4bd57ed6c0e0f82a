"""VNN-LIB, versions 1 and 2: the subset in which published properties are written (https://www.vnnlib.org).

A file says when a network is *unsafe*: for some input of a box its outputs satisfy linear inequalities. What is read
here is kept exactly, as rationals: declarations of inputs and outputs, and assertions made of ``and``, ``or``, ``<=``,
``>=``, ``<``, ``>``, ``==`` over linear terms. Several assertions hold together. Everything else is refused by name.

The standard types a constant by the variables that it stands beside: where these are ``float32``, 0.1 is an element of
that type, and there is none but the nearest one (version 2.0, rules of typing; of ``Real`` it leaves the representation
to the tool, and so does version 1). The tools of the competition read decimals so as well. ``constants="exact"`` reads
them as rationals.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Literal, Union

from tmlang.base.exact import round_nearest
from tmlang.base.source import Source, Span
from tmlang.diagnostics.stop import Stop, stop

Side = Literal["X", "Y"]
Constants = Literal["nearest", "exact"]
Variable = tuple[Side, int]
CLAUSES = 1 << 14
"""Alternatives that a file may come to."""
DEPTH = 200
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?")
_TOKEN = re.compile(r"\s+|;[^\n]*|(?P<token>[()]|[^\s();]+)")
_MIRRORED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "==": "=="}


@dataclass(frozen=True)
class Linear:
    """``sum of coefficient * variable + constant``."""

    terms: tuple[tuple[Variable, Fraction], ...]
    constant: Fraction


@dataclass(frozen=True)
class Atom:
    """``left op 0`` with op ``<=``, ``<`` or ``==``, as it stands at ``span``."""

    left: Linear
    op: str
    span: Span


Clause = tuple[Atom, ...]
"""Atoms that hold together."""


@dataclass(frozen=True)
class Unsafe:
    """One way to be unsafe: a box ``bounds`` (per input (low, high), ``None`` where unbounded) and atoms on outputs."""

    bounds: tuple[tuple[Fraction | None, Fraction | None], ...]
    outputs: Clause


@dataclass(frozen=True)
class Property:
    """``inputs`` and ``outputs``: shapes. ``unsafe``: the alternatives, in the order of the file. ``element``: the
    declared type of the inputs, ``real`` where the file leaves it open (always in version 1). ``constants``: whether
    a decimal stands for the nearest number of :func:`stored_as`, or for itself."""

    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    unsafe: tuple[Unsafe, ...]
    element: str = "real"
    constants: Constants = "exact"


def stored_as(element: str) -> str:
    """The floating-point type of an element type: that of networks where the file says ``Real``."""
    return "float32" if element == "real" else element


@dataclass(frozen=True)
class Node:
    """A list of nodes, or a word."""

    content: Union[str, tuple[Node, ...]]
    span: Span

    @property
    def word(self) -> str:
        return self.content if isinstance(self.content, str) else ""

    @property
    def items(self) -> tuple[Node, ...]:
        return () if isinstance(self.content, str) else self.content

    @property
    def head(self) -> str:
        return self.items[0].word if self.items else ""


def read(source: Source, constants: Constants = "exact") -> Property:
    """The property of a file. ``constants``: what a decimal means, the number itself, or the nearest one of the type of
    the variables. Raises :class:`Stop` with TM740 (form) or TM741 (beyond the subset)."""
    reader = _Reader(constants)
    clauses: list[Clause] = [()]
    for node in _nodes(source):
        if node.head == "assert":
            if len(node.items) != 2:
                raise _form("an assertion has one formula", node)
            clauses = _both(clauses, list(reader.formula(node.items[1], 0)), node)
        else:
            reader.declare(node)
    if not reader.shapes["X"] or not reader.shapes["Y"]:
        raise stop("TM740", "the file declares no inputs or no outputs", Span(source.name, 0, 0, 1, 1, 1, 1))
    shapes = {side: reader.shape(side) for side in reader.shapes}
    unsafe = tuple(_unsafe(clause, prod(shapes["X"])) for clause in clauses)
    return Property(reader.version, shapes["X"], shapes["Y"], unsafe, reader.elements["X"], constants)


# Words ---------------------------------------------------------------------------------------------------------------


def _nodes(source: Source) -> Iterator[Node]:
    """The outermost lists of a file."""
    open_: list[tuple[int, list[Node]]] = []
    lines = [0, *(m.end() for m in re.finditer("\n", source.text))]
    at = 0

    def span(start: int, end: int) -> Span:
        first, last = bisect_right(lines, start), bisect_right(lines, end)
        return Span(source.name, start, end, first, start - lines[first - 1] + 1, last, end - lines[last - 1] + 1)

    while at < len(source.text):
        found = _TOKEN.match(source.text, at)
        assert found is not None
        token, start, at = found["token"], found.start(), found.end()
        if token is None:
            continue
        if token == "(":
            open_.append((start, []))
            if len(open_) > DEPTH:
                raise stop("TM740", f"lists are nested more than {DEPTH} deep", span(start, at))
            continue
        if not open_:
            raise stop("TM740", f"`{token}` stands outside any list", span(start, at))
        if token == ")":
            begin, items = open_.pop()
            node = Node(tuple(items), span(begin, at))
            if not open_:
                yield node
                continue
        else:
            node = Node(token, span(start, at))
        open_[-1][1].append(node)
    if open_:
        start = open_[-1][0]
        raise stop("TM740", "a list is opened here and not closed", span(start, start + 1))


def _form(message: str, node: Node) -> Stop:
    return stop("TM740", message, node.span)


def _beyond(message: str, node: Node, help: str | None = None) -> Stop:
    return stop("TM741", message, node.span, help=help)


# Declarations and formulas -------------------------------------------------------------------------------------------


class _Reader:
    """What is declared so far. Version 1 names every variable (``X_0``), version 2 arrays (``X[0]``, ``X[0,2]``)."""

    def __init__(self, constants: Constants) -> None:
        self.version, self.constants = 1, constants
        self.elements: dict[Side, str] = {"X": "real", "Y": "real"}
        self.shapes: dict[Side, list[int]] = {"X": [], "Y": []}
        self.declared: dict[Side, set[int]] = {"X": set(), "Y": set()}
        self.arrays: dict[str, Side] = {}

    def shape(self, side: Side) -> tuple[int, ...]:
        """In version 1 the numbers of the variables, which run from 0 without a gap."""
        found = self.shapes[side]
        if self.version == 2:
            return tuple(found)
        if sorted(found) != list(range(len(found))):
            raise stop("TM740", f"the variables {side}_… are not numbered from 0 to {len(found) - 1}, each once")
        return (len(found),)

    def declare(self, node: Node) -> None:
        words = [n.word for n in node.items]
        if node.head == "vnnlib-version":
            if words[1:] not in (["<2.0>"], ["<1.0>"]):
                raise _beyond("this version is not read", node, "versions 1.0 and 2.0 are")
            self.version = int(words[1][1])
        elif node.head in ("declare-const", "declare-fun"):
            self._constant(node)
        elif node.head == "declare-network":
            if self.arrays:
                raise _beyond("a property of several networks is not read", node)
            self.version = 2
            for part in node.items[2:]:
                self._array(part)
        else:
            raise _beyond(f"`{node.head or '()'}` is not read", node, "declarations and assertions are")

    def _constant(self, node: Node) -> None:
        found = re.fullmatch(r"([XY])_(\d{1,7})", node.items[1].word) if len(node.items) > 2 else None
        if found is None:
            raise _beyond("a variable is called X_0, X_1, … or Y_0, Y_1, …", node)
        if node.items[-1].word != "Real":
            raise _beyond("a variable is Real", node.items[-1])
        side: Side = "X" if found[1] == "X" else "Y"
        if int(found[2]) in self.declared[side]:
            raise _form(f"{found[0]} is declared a second time", node)
        self.declared[side].add(int(found[2]))
        self.shapes[side].append(int(found[2]))

    def _array(self, node: Node) -> None:
        sides: dict[str, Side] = {"declare-input": "X", "declare-output": "Y"}
        text = " ".join(n.word for n in node.items[3:])
        dims = re.fullmatch(r"\[\s*(\d{1,7}(?:\s*,\s*\d{1,7})*)\s*\]", text)
        if node.head not in sides or len(node.items) < 4 or dims is None:
            raise _beyond("a network is declared by one input and one output: (declare-input X Real [1, 5])", node)
        element, side = node.items[2].word.lower(), sides[node.head]
        if element not in ("real", "float32", "float64"):
            raise _beyond(f"arrays of {node.items[2].word} are not read", node.items[2])
        if self.arrays and element != self.elements["X"]:
            raise _beyond("inputs and outputs of different types are not read", node.items[2])
        self.elements[side] = element
        if self.shapes[side]:
            raise _beyond("a network with several inputs or outputs is not read", node)
        self.shapes[side] = [int(d) for d in dims[1].split(",")]
        self.arrays[node.items[1].word] = side

    def formula(self, node: Node, depth: int) -> Iterator[Clause]:
        """The alternatives of a formula (disjunctive normal form), in order."""
        if node.head == "or":
            for part in node.items[1:]:
                yield from self.formula(part, depth + 1)
        elif node.head == "and":
            clauses: list[Clause] = [()]
            for part in node.items[1:]:
                clauses = _both(clauses, list(self.formula(part, depth + 1)), node)
            yield from clauses
        elif node.head in _MIRRORED:
            yield (self._atom(node),)
        else:
            raise _beyond(
                f"`{node.head or node.word}` is no formula that is read", node, "and, or, <=, >=, <, >, == are"
            )

    def _atom(self, node: Node) -> Atom:
        if len(node.items) != 3:
            raise _form("a comparison has two sides", node)
        op = node.head
        left, right = (self._linear(side) for side in node.items[1:])
        if op in (">=", ">"):
            left, right, op = right, left, _MIRRORED[op]
        return Atom(_sum([left, _times(right, Fraction(-1))]), op, node.span)

    def _linear(self, node: Node) -> Linear:
        if node.word:
            return self._leaf(node)
        parts = [self._linear(n) for n in node.items[1:]]
        if node.head == "+" and parts:
            return _sum(parts)
        if node.head == "-" and parts:
            rest = [_times(p, Fraction(-1)) for p in (parts if len(parts) == 1 else parts[1:])]
            return _sum(rest if len(parts) == 1 else [parts[0], *rest])
        if node.head == "*" and len(parts) == 2:
            number = [p for p in parts if not p.terms]
            if not number:
                raise _beyond("a product of variables is not linear", node)
            other = parts[1] if parts[0] is number[0] else parts[0]
            return _times(other, number[0].constant)
        raise _beyond(f"`{node.head}` is no term that is read", node, "numbers, variables, +, - and * are")

    def _leaf(self, node: Node) -> Linear:
        if _NUMBER.fullmatch(node.word):
            value = Fraction(node.word)
            if self.constants == "nearest":
                value = Fraction(round_nearest(value, stored_as(self.elements["X"])))
            return Linear((), value)
        return Linear((((self._variable(node)), Fraction(1)),), Fraction(0))

    def _variable(self, node: Node) -> Variable:
        named = re.fullmatch(r"([XY])_(\d{1,7})", node.word)
        if named and self.version == 1:
            side: Side = "X" if named[1] == "X" else "Y"
            if int(named[2]) in self.declared[side]:
                return side, int(named[2])
        at = re.fullmatch(r"([^\[\]]+)\[(\d{1,7}(?:,\d{1,7})*)\]", node.word)
        if at and at[1] in self.arrays:
            side = self.arrays[at[1]]
            index = [int(i) for i in at[2].split(",")]
            shape = self.shapes[side]
            if len(index) == len(shape) and all(i < d for i, d in zip(index, shape, strict=True)):
                flat = 0
                for i, d in zip(index, shape, strict=True):
                    flat = flat * d + i
                return side, flat
        raise _form(f"`{node.word}` is neither a number nor a variable that is declared above", node)


def _sum(parts: Sequence[Linear]) -> Linear:
    total: dict[Variable, Fraction] = {}
    for part in parts:
        for variable, coefficient in part.terms:
            total[variable] = total.get(variable, Fraction(0)) + coefficient
    kept = tuple((v, c) for v, c in total.items() if c)
    return Linear(kept, sum((p.constant for p in parts), Fraction(0)))


def _times(part: Linear, factor: Fraction) -> Linear:
    return Linear(tuple((v, c * factor) for v, c in part.terms), part.constant * factor)


def _both(left: list[Clause], right: list[Clause], node: Node) -> list[Clause]:
    if len(left) * len(right) > CLAUSES:
        raise _beyond(f"the assertions come to more than {CLAUSES} alternatives", node)
    if len(right) == 1 and len(left) == 1:
        return [left[0] + right[0]]
    return [a + b for a in left for b in right]


def _unsafe(clause: Clause, inputs: int) -> Unsafe:
    """One alternative as a box of inputs and atoms of outputs."""
    low: list[Fraction | None] = [None] * inputs
    high: list[Fraction | None] = [None] * inputs
    outputs = []
    for atom in clause:
        sides = {side for (side, _), _ in atom.left.terms}
        if sides == {"Y"}:
            outputs.append(atom)
            continue
        if sides != {"X"} or len(atom.left.terms) != 1 or atom.op == "<":
            said = "inputs are bounded one by one, by <= and >=, and apart from the outputs"
            raise stop("TM741", f"this is no bound of one input: {said}", atom.span)
        (((_, i), coefficient),) = atom.left.terms
        edge, least, greatest = -atom.left.constant / coefficient, low[i], high[i]
        if coefficient > 0 or atom.op == "==":
            high[i] = edge if greatest is None else min(greatest, edge)
        if coefficient < 0 or atom.op == "==":
            low[i] = edge if least is None else max(least, edge)
    return Unsafe(tuple(zip(low, high, strict=True)), tuple(outputs))
