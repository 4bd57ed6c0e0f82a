"""How bad input found below the command line reaches it: an exception that carries diagnostics."""

from __future__ import annotations

from tmlang.base.source import NOWHERE, Span
from tmlang.diagnostics.model import Diagnostic


class Stop(Exception):
    """The work cannot go on for a reason that the user can mend. Never raised for a fault of ours."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("; ".join(d.message for d in diagnostics))
        self.diagnostics = diagnostics

    def __reduce__(self) -> tuple[type[Stop], tuple[Diagnostic, ...]]:
        return Stop, self.diagnostics


def stop(
    code: str, message: str, span: Span = NOWHERE, *, notes: tuple[str, ...] = (), help: str | None = None
) -> Stop:
    """A :class:`Stop` with one diagnostic, to be raised."""
    return Stop(Diagnostic(code, message, span, notes=notes, help=help))
