"""What of a spec with errors is sound, so that the matcher reports in the same run what it finds there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tmlang.base.source import Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.meaning.evaluations import Evaluation, Program
from tmlang.meaning.threats import Property, Subject, Threat


def untouched(program: Program, declarations: Sequence[Span], found: Iterable[Diagnostic]) -> Program:
    """``program`` without claims, and with those evaluations alone that no error touches: none lies in the declaration
    of the evaluation, of its subjects, or of a model, space or data that these are about."""
    errors = [d.span for d in found if d.is_error]
    spoiled = [d for d in declarations if any(_within(e, d) for e in errors)]
    about = _About(program)
    kept = tuple(e for e in program.evaluations if not any(_within(o, d) for o in about.origins(e) for d in spoiled))
    return replace(program, evaluations=kept, claims=())


class _About:
    """Where the things stand that an evaluation is about."""

    def __init__(self, program: Program) -> None:
        self.subjects = {s.name: s for s in program.subjects}
        self.models = {m.name: m for m in program.models}
        self.spaces = {s.name: s for s in program.spaces}
        self.data = {d.name: d for d in program.data}

    def origins(self, evaluation: Evaluation) -> list[Span]:
        names = (evaluation.subject, *(s for curve in evaluation.curves for s in curve.subjects))
        subjects = [self.subjects[name] for name in names]
        return [evaluation.origin, *(s.origin for s in subjects), *(o for s in subjects for o in self._parts(s))]

    def _parts(self, subject: Subject) -> list[Span]:
        surrogates = subject.access.surrogates if isinstance(subject, Threat) else ()
        models = [self.models[name] for name in (subject.model, *surrogates)]
        data = [] if isinstance(subject, Property) else [self.data[subject.data].origin]
        return [*(m.origin for m in models), *(self.spaces[m.space].origin for m in models), *data]


def _within(inner: Span, outer: Span) -> bool:
    return inner.file == outer.file and outer.start <= inner.start and inner.end <= outer.end
