"""Evaluations, claims and the whole program (LANGUAGE.md sections 7 and 8)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, Union

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import NOWHERE, Span
from tmlang.meaning.models import Data, Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Subject
from tmlang.meaning.values import Call, Value


@dataclass(frozen=True, slots=True)
class StageCall:
    """One stage as written (a suite is already spelled out into its stages, in order).

    ``through`` is ``straight_through`` or ``expectation(draws: n)`` as a call, or ``None``.
    """

    role: Literal["attack", "certify", "decide_exactly", "enumerate"]
    label: str
    call: Call
    through: Call | None = None
    suite: str | None = None
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Curve:
    """``curve: eps over [...]`` (a param), ``radius over [...]`` (in the space's own units), ``queries over [...]``."""

    parameter: str
    values: tuple[Fraction, ...]
    subjects: tuple[str, ...] = ()
    """For a curve over a ``param`` that the threat uses: the name of the threat's instance per value, in order
    (``any_of_three@eps=2/255``; every instance stands in ``Program.subjects``). Empty for ``radius`` and
    ``queries``."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    name: str
    subject: str
    stages: tuple[StageCall, ...]
    seed: int | None = None
    repeats: int = 1
    stop_after: Fraction | None = None
    """Seconds."""
    attribution: Literal["first", "full"] = "first"
    curves: tuple[Curve, ...] = ()
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Measured:
    """A quantity of an evaluation: ``survival(aa, radius: 1/2, part: flat)``."""

    quantity: str
    evaluation: str
    args: tuple[tuple[str, Value], ...] = ()
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RoundsTo:
    """``rounds to 59.53 %``: within half a unit of the last written digit. ``decimals`` counts the digits behind the
    point as written, of the number in its own unit (here 2 of a percentage)."""

    value: Fraction
    decimals: int
    percent: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """``left op right``. ``holds(e)`` alone has ``op == "holds"`` and no right side.

    A number on the right is a share of 1, or a distance in the space's own units (``levels`` multiplied by the step);
    ``unit`` is what was written.
    """

    text: str
    left: Measured
    op: Literal["<=", ">=", "<", ">", "==", "rounds_to", "holds"]
    right: Union[Fraction, RoundsTo, Measured, None] = None
    unit: str | None = None
    population: Fraction | None = None
    """``population at 95 %``: a claim about the population, with this confidence."""
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    value: Fraction
    low: Fraction | None = None
    high: Fraction | None = None
    changed: bool = False
    """Set by ``--set``; the original claims are then ``not evaluated``."""


@dataclass(frozen=True, slots=True)
class Module:
    """An imported (or the main) file: how it was named, and the SHA-256 of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that a checked spec says, names resolved, in order of declaration."""

    edition: int
    modules: tuple[Module, ...]
    spaces: tuple[Space, ...]
    models: tuple[Model, ...]
    data: tuple[Data, ...]
    subjects: tuple[Subject, ...]
    evaluations: tuple[Evaluation, ...]
    claims: tuple[Claim, ...]
    parameters: tuple[Parameter, ...] = ()
    figures: tuple[Call, ...] = ()
    """``report { figures … }``."""


OF_DRAWS = frozenset({"survival", "attack_success"})
"""Shares that are of single draws, where a threat counts these: a claim on one is judged by its interval."""
CONFIDENCE = Fraction(95, 100)
"""Of an interval over draws, where a claim names no other."""
OF_POPULATIONS = frozenset(
    ("survival", "certified", "robust_accuracy", "robust_rate", "clean_accuracy", "clean_answered")
)
"""The shares of all examples, of which a sample says something about its population (EVIDENCE.md section 8)."""
