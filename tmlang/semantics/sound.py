"""What of a spec with errors is sound, so that the matcher reports in the same run what it finds there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tmlang.base.source import Span
from tmlang.diagnostics.model import Diagnostic
from tmlang.meaning.evaluations import Evaluation, Program
from tmlang.meaning.threats import Property, Subject, Threat


def untouched(program: Program, declarations: Sequence[Span], found: Iterable[Diagnostic]) -> Program:
    """``program`` without claims, and with those evaluations alone that no error touches: none lies in the declaration
    of the evaluation, of its subjects, or of a model, space or data that these are about."""
    of = _Declarations(declarations)
    spoiled = {of.around(d.span) for d in found if d.is_error} - {None}
    about = _About(program)
    kept = tuple(e for e in program.evaluations if not spoiled.intersection(map(of.around, about.origins(e))))
    return replace(program, evaluations=kept, claims=())


class _Declarations:
    """Where declarations stand: they follow one another in their files, and none lies in another."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = sorted(spans, key=_place)
        self.starts = [_place(s) for s in self.spans]

    def around(self, inner: Span) -> Span | None:
        """The declaration that ``inner`` lies in."""
        at = bisect_right(self.starts, _place(inner)) - 1
        outer = self.spans[at] if at >= 0 else None
        return outer if outer is not None and inner.file == outer.file and inner.end <= outer.end else None


def _place(span: Span) -> tuple[str, int]:
    return span.file, span.start


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
