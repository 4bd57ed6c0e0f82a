"""The plan: what will be run, on what, by whom, and how faithfully. Frozen, hashable, JSON-able (``plan.text``)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from tmlang.base.frozen import dataclass, field
from tmlang.base.source import NOWHERE, Span
from tmlang.meaning.evaluations import Claim, Curve, Module, Parameter
from tmlang.meaning.models import Data, Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Subject, Threat
from tmlang.meaning.values import Call, Value

Evidence = Literal["witness", "bound", "complete", "trusted", "probabilistic", "estimate"]
PROOFS: tuple[Evidence, ...] = ("bound", "complete", "trusted", "probabilistic")
"""What bounds R from below; ``probabilistic`` does at a stated confidence, ``trusted`` if the solver is right."""
Lowering = Literal["exact", "inner", "outer"]
AccessLevel = Literal["white_box", "scores", "decisions", "transfer", "nothing"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Passes per unit as far as they are known before the run: an upper estimate for attacks, ``None`` unknown."""

    forward: int | None
    backward: int | None


@dataclass(frozen=True, slots=True)
class Stage:
    """One backend call over all units of an evaluation.

    ``id`` is ``<evaluation>/<label>`` and unique in the plan. ``arguments`` are fully resolved: every argument that
    the library would default stands here with the value that will be used; the threat's budget does not (the
    adapter reads it from the threat). ``reasons`` says why a lowering is not ``exact``.
    """

    id: str
    label: str
    role: Literal["attack", "certify", "decide_exactly", "enumerate", "corrupt"]
    backend: str
    method: str
    evidence: Evidence
    lowering: Lowering
    access: AccessLevel
    arguments: tuple[tuple[str, Value], ...]
    reasons: tuple[str, ...] = ()
    through: Call | None = None
    suite: str | None = None
    left_out: tuple[str, ...] = ()
    """The branches of a union that a search does not look into."""
    cost: Cost = Cost(None, None)
    trusts: str = ""
    """Of ``trusted`` evidence: the solver, with its version, that hands out no proof."""
    origin: Span = field(default=NOWHERE, compare=False)

    @property
    def prunes(self) -> bool:
        """Whether an enumeration proves boxes of inputs by bounds and tries the rest: it then states a gap between the
        arithmetic of these bounds and the evaluator's."""
        return self.role == "enumerate" and any(name == "rounding" for name, _ in self.arguments)


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """One evaluation against one subject.

    A curve over a ``param`` becomes one per value: ``name`` is then ``worst@eps=2/255`` (claims name what stands before
    the ``@``) and ``at`` the value. ``stages`` run in this order. ``passes`` names the rewrites applied
    (EVIDENCE.md section 7).
    """

    name: str
    subject: str
    stages: tuple[Stage, ...]
    seed: int | None
    repeats: int = 1
    stop_after: Fraction | None = None
    """Seconds."""
    attribution: Literal["first", "full"] = "first"
    curves: tuple[Curve, ...] = ()
    at: tuple[tuple[str, Value], ...] = ()
    passes: tuple[str, ...] = ()
    doc: str = ""
    origin: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole of what a spec asks for. ``root`` is the folder that artifact paths are relative to (not hashed).

    ``python_sources`` of torch factories are run only with ``--trust-code``.
    """

    edition: int
    modules: tuple[Module, ...]
    spaces: tuple[Space, ...]
    models: tuple[Model, ...]
    data: tuple[Data, ...]
    subjects: tuple[Subject, ...]
    evaluations: tuple[EvaluationPlan, ...]
    claims: tuple[Claim, ...]
    parameters: tuple[Parameter, ...] = ()
    figures: tuple[Call, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    """(diagnostic code, message) that must reach the report."""
    root: str = field(default=".", compare=False)

    @property
    def own_modules(self) -> tuple[Module, ...]:
        """The spec's own files, the main one first; the standard library is part of tmlang."""
        return tuple(m for m in self.modules if not m.name.startswith("std."))

    def space(self, name: str) -> Space:
        return next(s for s in self.spaces if s.name == name)

    def model(self, name: str) -> Model:
        return next(m for m in self.models if m.name == name)

    def data_set(self, name: str) -> Data:
        return next(d for d in self.data if d.name == name)

    def subject(self, name: str) -> Subject:
        return next(s for s in self.subjects if s.name == name)

    def threat(self, name: str) -> Threat:
        found = self.subject(name)
        assert isinstance(found, Threat)
        return found
