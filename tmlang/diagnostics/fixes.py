"""Applying the fixes of diagnostics to a text."""

from __future__ import annotations

from collections.abc import Iterable

from tmlang.base.source import Source
from tmlang.diagnostics.model import Diagnostic, Edit


def apply_fixes(source: Source, diagnostics: Iterable[Diagnostic]) -> tuple[str, int]:
    """The text with the fixes of ``diagnostics`` applied, and how many were.

    A fix is taken whole or not at all; one that touches another file, or text that an earlier fix has changed, is
    left for the next round.
    """
    taken: list[Edit] = []
    count = 0
    for d in diagnostics:
        edits = d.fix.edits if d.fix else ()
        if not edits or any(e.span.file != source.name for e in edits):
            continue
        if any(_touch(e, t) for e in edits for t in taken):
            continue
        taken += edits
        count += 1
    text = source.text
    for edit in sorted(taken, key=lambda e: e.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text, count


def _touch(a: Edit, b: Edit) -> bool:
    """Whether two edits overlap; two insertions at one place do."""
    if a.span.start == b.span.start:
        return True
    return a.span.start < b.span.end and b.span.start < a.span.end
