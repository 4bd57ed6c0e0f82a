"""A diagnostic: what was read, why it is wrong or ambiguous, and what to write instead."""

from __future__ import annotations

from tmlang.base.frozen import dataclass
from tmlang.base.source import Span
from tmlang.diagnostics.registry import Severity, rule


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that matters, with a few words about it."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters of ``span`` by ``text`` (an empty span inserts, an empty text deletes)."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that a machine may apply because it has one meaning; the edits touch one file and do not overlap."""

    description: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding at the guilty token.

    ``message`` makes sense alone, as one line. ``notes`` work the numbers out, ``help`` says what to write instead.
    ``code`` must stand in the registry, which alone decides severity and title.
    """

    code: str
    message: str
    span: Span
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    fix: Fix | None = None

    def __post_init__(self) -> None:
        rule(self.code)

    @property
    def severity(self) -> Severity:
        return rule(self.code).severity

    @property
    def is_error(self) -> bool:
        return self.severity == "error"


def has_errors(diagnostics: tuple[Diagnostic, ...] | list[Diagnostic]) -> bool:
    """Whether anything here forbids going on."""
    return any(d.is_error for d in diagnostics)


def in_order(diagnostics: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics without repetitions, by file and position."""
    unique = dict.fromkeys(diagnostics)
    return tuple(sorted(unique, key=lambda d: (d.span.file, d.span.start, d.code)))
