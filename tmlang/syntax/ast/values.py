"""Words, literals, values and conditions."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, Union

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name, or a word out of a fixed list (``untargeted``, ``lowest``) where the checker knows the list."""

    text: str


@dataclass(frozen=True, slots=True)
class Path(Node):
    """A dotted name: ``native.apgd``, ``std.images``; one part for a plain name."""

    parts: tuple[Name, ...]

    @property
    def text(self) -> str:
        return ".".join(part.text for part in self.parts)


@dataclass(frozen=True, slots=True)
class String(Node):
    """A string in double quotes; ``value`` has its escapes resolved, ``span`` includes the quotes."""

    value: str

    @property
    def inner(self) -> Span:
        """The span between the quotes."""
        s = self.span
        return Span(s.file, s.start + 1, s.end - 1, s.line, s.column + 1, s.end_line, s.end_column - 1)


@dataclass(frozen=True, slots=True)
class Number(Node):
    """An unsigned literal: ``8``, ``0.5``, ``1e-5``. ``text`` is what was written."""

    value: Fraction
    text: str

    @property
    def decimals(self) -> int:
        """Digits behind the point as written (``59.53`` has 2, ``1e-4`` has 4, ``41`` and ``1e3`` have 0)."""
        mantissa, _, exponent = self.text.lower().partition("e")
        return max(0, len(mantissa.partition(".")[2]) - int(exponent or 0))


@dataclass(frozen=True, slots=True)
class Unit(Node):
    """``'degC'`` (text ``degC``, span with quotes) or ``%``."""

    text: str


@dataclass(frozen=True, slots=True)
class Negate(Node):
    operand: Value


@dataclass(frozen=True, slots=True)
class Binary(Node):
    op: Literal["+", "-", "*", "/"]
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Quantity(Node):
    """A product closed by a unit or by ``%``: ``1/2 'degC'`` is half a degree, ``45 %`` is 45/100."""

    value: Value
    unit: Unit


@dataclass(frozen=True, slots=True)
class Distance(Node):
    """``2/255 in px``, only as an argument of a call."""

    value: Value
    space: Name


@dataclass(frozen=True, slots=True)
class Arg(Node):
    """One argument or one entry of a tuple with names; ``name`` is ``None`` for a positional one. ``name.span`` leaves
    the separator (``:``, or ``=`` for a suite's parameters) out."""

    name: Name | None
    value: Value


@dataclass(frozen=True, slots=True)
class Call(Node):
    path: Path
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Tuple(Node):
    """``(0, 1)``, or with names ``(temp: 2 'degC', load: 1/10 'kN')``; of two entries or more unless named."""

    items: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class List(Node):
    """``[a, b]`` where a list is meant: in calls, in ``over [...]``."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """``{red, green}``: names or strings."""

    items: tuple[Name | String, ...]


@dataclass(frozen=True, slots=True)
class Range(Node):
    """``[low, high]``, both ends in, or ``open(low, high)``, both out."""

    low: Value
    high: Value
    open: bool = False


@dataclass(frozen=True, slots=True)
class File(Node):
    """A file beside the spec: ``"ids.txt"``, or ``file("ids.txt", sha256: "...")``."""

    path: String
    sha256: String | None = None


Value = Union[Name, String, Number, Negate, Binary, Quantity, Distance, Call, Tuple, List, Choice]
"""Names in values refer to what ``let``, ``param``, ``use``, a parameter or (in relations) a feature introduced, or are
words of a fixed list; the checker tells them apart. ``Distance`` and ``Choice`` stand in arguments only."""


Comparator = Literal["<=", ">=", "<", ">", "=="]


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """``left op right``; ``tolerance`` only in ``where``."""

    left: Value
    op: Comparator
    right: Value
    tolerance: Value | None = None


@dataclass(frozen=True, slots=True)
class Extremal(Node):
    """``coc is min``, ``coc is not max`` (in ``always:``)."""

    subject: Name
    negated: bool
    which: Literal["min", "max"]


@dataclass(frozen=True, slots=True)
class Conjunction(Node):
    """Conditions joined by ``and``."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Disjunction(Node):
    """Conditions joined by ``or``."""

    parts: tuple[Condition, ...]


Condition = Union[Comparison, Extremal, Conjunction, Disjunction]
