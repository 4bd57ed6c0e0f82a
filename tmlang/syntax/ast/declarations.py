"""Evaluations, clauses, declarations, the whole file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Union

from tmlang.base.frozen import dataclass
from tmlang.syntax.ast.objects import (
    ClassCount,
    Decide,
    Ensemble,
    FeatureBody,
    Network,
    Prepare,
    Random,
    Reject,
    SpaceModifier,
    Step,
    Take,
    TensorBody,
    Truth,
)
from tmlang.syntax.ast.threats import (
    Access,
    Allowed,
    Assume,
    ErrorProbability,
    ExternalUnits,
    Given,
    Goal,
    Interval,
    Minimize,
    Mutable,
    Nature,
    Perturbation,
    Rejected,
    SingleDraw,
)
from tmlang.syntax.ast.values import Arg, Call, Choice, Condition, List, Name, Node, Number, Path, Range, String, Value


@dataclass(frozen=True, slots=True)
class Stage(Node):
    """``ce = native.apgd(loss: ce) through straight_through``; the role (``attack``) is the clause word."""

    label: Name | None
    call: Call
    through: Name | Call | None = None


@dataclass(frozen=True, slots=True)
class StopAfter(Node):
    """``after 2 'h'``."""

    time: Value


@dataclass(frozen=True, slots=True)
class Curve(Node):
    """``eps over [2/255, 8/255]``."""

    parameter: Name
    values: List


@dataclass(frozen=True, slots=True)
class Figures(Node):
    """The figures of a report, in order."""

    calls: tuple[Call, ...]


ClauseValue = Union[
    Step, Network, Ensemble, Decide, Reject, Random,
    Call, Prepare, Take, Truth, String,
    Allowed, Minimize, Mutable, Perturbation, Nature, Goal, Access, Name, Rejected, ErrorProbability, SingleDraw,
    Assume, ExternalUnits, Given, Condition, Interval,
    Stage, Value, StopAfter, Curve, Figures,
]  # fmt: skip
"""By clause word: ``step undo`` Step · ``network`` Network · ``ensemble`` Ensemble · ``decide`` Decide · ``reject``
Reject · ``random`` Random · ``read apply suite`` Call · ``prepare`` Prepare · ``take`` Take · ``truth`` Truth ·
``sampling`` String · ``allow`` Allowed · ``minimize`` Minimize · ``mutable`` Mutable · ``perturbation`` Perturbation
· ``nature`` Nature · ``goal`` Goal · ``access`` Access · ``clean_errors attribution`` Name · ``rejected`` Rejected ·
``success`` ErrorProbability or SingleDraw · ``assume`` Assume · ``units`` ExternalUnits · ``given`` Given ·
``always`` Condition · ``interval`` Interval · ``attack certify decide_exactly enumerate`` Stage · ``seed repeats``
Value · ``stop`` StopAfter · ``curve`` Curve · ``figures`` Figures."""


@dataclass(frozen=True, slots=True)
class Clause(Node):
    """``word.text`` is ``mutable``; ``word.span`` covers ``mutable:`` with its colon."""

    word: Name
    value: ClauseValue


@dataclass(frozen=True, slots=True)
class Comment(Node):
    """A comment to the end of its line; ``text`` without its mark, one blank behind that and blanks at the end.
    ``doc`` when it is marked ``##`` and stands on lines of its own above a declaration."""

    text: str
    doc: bool


@dataclass(frozen=True, slots=True)
class Declaration(Node):
    """``doc`` are the ``##`` lines above, in order (also in :attr:`Module.comments`)."""

    doc: tuple[Comment, ...]


@dataclass(frozen=True, slots=True)
class Use(Declaration):
    """``use std.images (a, b)`` or ``use "local.tm" (a, b)``."""

    module: Path | String
    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Let(Declaration):
    name: Name
    value: Value


@dataclass(frozen=True, slots=True)
class Param(Declaration):
    """``param eps = 8/255 in [2/255, 8/255]``."""

    name: Name
    value: Value
    range: Range | None


@dataclass(frozen=True, slots=True)
class Space(Declaration):
    name: Name
    body: TensorBody | FeatureBody
    modifiers: tuple[SpaceModifier, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter of a threat, shift or suite, with its default and what it may be: ``radius = 8/255``,
    ``radius = 8/255 in [1/255, 16/255]``, ``version in {"0.1"}``."""

    name: Name
    default: Value | None = None
    among: Range | Choice | None = None


@dataclass(frozen=True, slots=True)
class Block(Declaration):
    """A declaration made of clauses."""

    clauses: tuple[Clause, ...]

    def all(self, word: str) -> Iterator[Clause]:
        """The clauses with this word, in order."""
        return (clause for clause in self.clauses if clause.word.text == word)

    def first(self, word: str) -> Clause | None:
        return next(self.all(word), None)


@dataclass(frozen=True, slots=True)
class Model(Block):
    name: Name
    space: Name
    classes: ClassCount | Choice


@dataclass(frozen=True, slots=True)
class Data(Block):
    name: Name
    space: Name


@dataclass(frozen=True, slots=True)
class Threat(Block):
    name: Name
    parameters: tuple[Parameter, ...]
    model: Name
    data: Name


@dataclass(frozen=True, slots=True)
class Property(Block):
    name: Name
    model: Name


@dataclass(frozen=True, slots=True)
class Shift(Block):
    name: Name
    parameters: tuple[Parameter, ...]
    model: Name
    data: Name


@dataclass(frozen=True, slots=True)
class Suite(Block):
    name: Name
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Evaluate(Block):
    """``args`` is ``None`` where no parentheses were written."""

    name: Name
    subject: Name
    args: tuple[Arg, ...] | None


@dataclass(frozen=True, slots=True)
class Report(Block):
    """``report { figures: survival_curve(aa), overlap(aa) }``."""


@dataclass(frozen=True, slots=True)
class RoundsTo(Node):
    """``rounds to 45.3 %``: a number, or a quantity of a number, whose written digits carry the precision."""

    value: Value


@dataclass(frozen=True, slots=True)
class Claim(Declaration):
    """``claim "Table 1": survival(aa) rounds to 45.3 % population at 95 %``. ``op`` is ``None`` for
    ``holds(v1)`` alone."""

    text: String
    left: Value
    op: Literal["<=", ">=", "<", ">", "==", "rounds_to"] | None
    right: Value | RoundsTo | None
    population: Value | None


@dataclass(frozen=True, slots=True)
class Module(Node):
    """A whole file: ``tm 1`` and the declarations in order. ``comments`` holds every comment in order."""

    edition: Number
    declarations: tuple[Declaration, ...]
    comments: tuple[Comment, ...]
