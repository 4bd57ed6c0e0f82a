"""Diagnostics as text with carets, as one line each, as JSON and as SARIF 2.1.0."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tmlang.base.source import Source, Span
from tmlang.diagnostics.model import Diagnostic, Label
from tmlang.diagnostics.registry import rule

_WIDTH = 160
"""Columns of a source line that are shown around a span."""

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Sources = Mapping[str, Source]


def text(diagnostics: Sequence[Diagnostic], sources: Sources) -> str:
    """For people: each diagnostic with its source lines, carets, notes, help and fix; a count at the end."""
    if not diagnostics:
        return ""
    blocks = [_block(d, sources) for d in diagnostics]
    return printable("\n".join([*blocks, summary(diagnostics), ""]))


def concise(diagnostics: Sequence[Diagnostic]) -> str:
    """``file:line:column: TMxxx message``, one line each."""
    return "".join(printable(f"{d.span}: {d.code} {d.message}".replace("\n", " ")) + "\n" for d in diagnostics)


def printable(text: str) -> str:
    """``text`` with every character that could steer a terminal or turn the order of reading replaced by one ``�``."""
    return _STEERING.sub("\ufffd", text)


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """``2 errors, 1 warning``."""
    errors = sum(d.is_error for d in diagnostics)
    counts = ((errors, "error"), (len(diagnostics) - errors, "warning"))
    return ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts if n)


def as_json(diagnostics: Sequence[Diagnostic]) -> str:
    """A list of objects; positions are 1-based lines and columns, ends exclusive, offsets 0-based characters."""
    return json.dumps([_object(d) for d in diagnostics], indent=2, ensure_ascii=False) + "\n"


def sarif(diagnostics: Sequence[Diagnostic], version: str) -> str:
    """A SARIF 2.1.0 log with one run of the tool ``tmc`` in ``version``; columns count code points."""
    codes = sorted({d.code for d in diagnostics})
    log = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "tmc", "version": version, "rules": [_sarif_rule(c) for c in codes]}},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(d, codes.index(d.code)) for d in diagnostics],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _block(d: Diagnostic, sources: Sources) -> str:
    lines = [f"{d.severity}[{d.code}]: {d.message}"]
    lines += _excerpt(d.span, "", sources, "^")
    for label in d.labels:
        lines += _excerpt(label.span, label.text, sources, "-")
    lines += [f"  = {note}" for note in d.notes]
    if d.help:
        lines.append(f"  help: {d.help}")
    if d.fix:
        lines.append(f"  fix: {d.fix.description}")
    return "\n".join(lines) + "\n"


def _excerpt(span: Span, words: str, sources: Sources, mark: str) -> list[str]:
    """The line of ``span`` with ``mark`` under its characters; only the position when the text is not at hand, and
    nothing for what no spec wrote."""
    if not span.file:
        return []
    source = sources.get(span.file)
    head = f"  --> {span}" if mark == "^" else f"  ::: {span}"
    if source is None:
        return [f"{head} {words}".rstrip()]
    line = source.line(span.line)
    end = span.end_column if span.end_line == span.line else len(line) + 1
    start = max(0, span.column - 1 - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = line[start : start + _WIDTH]
    before = "".join("\t" if c == "\t" else " " * _columns(c) for c in shown[: span.column - 1 - start])
    under = mark * max(1, sum(map(_columns, shown[span.column - 1 - start : end - 1 - start])))
    gutter = " " * len(str(span.line))
    return [head, f" {gutter} |", f" {span.line} | {shown}", f" {gutter} | {before}{under} {words}".rstrip()]


def _columns(character: str) -> int:
    """Terminal columns that a character takes: 2 for wide east Asian ones, 0 for combining ones."""
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _span(span: Span) -> dict[str, Any]:
    return {
        "file": span.file,
        "start": {"line": span.line, "column": span.column, "offset": span.start},
        "end": {"line": span.end_line, "column": span.end_column, "offset": span.end},
    }


def _object(d: Diagnostic) -> dict[str, Any]:
    fix = d.fix and {
        "description": d.fix.description,
        "edits": [{"span": _span(e.span), "text": e.text} for e in d.fix.edits],
    }
    return {
        "code": d.code,
        "severity": d.severity,
        "title": rule(d.code).title,
        "message": d.message,
        "span": _span(d.span),
        "labels": [{"span": _span(x.span), "text": x.text} for x in d.labels],
        "notes": list(d.notes),
        "help": d.help,
        "fix": fix,
    }


def _sarif_rule(code: str) -> dict[str, Any]:
    r = rule(code)
    return {
        "id": code,
        "shortDescription": {"text": r.title},
        "defaultConfiguration": {"level": r.severity},
        "properties": {"family": r.family},
    }


def _sarif_region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _sarif_place(span: Span) -> dict[str, Any]:
    from urllib.parse import quote

    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(span.file.replace("\\", "/"))},
            "region": _sarif_region(span),
        }
    }


def _sarif_result(d: Diagnostic, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": index,
        "level": d.severity,
        "message": {"text": " ".join([d.message, *d.notes, *([d.help] if d.help else [])])},
        "locations": [_sarif_place(d.span)],
    }
    if d.labels:
        result["relatedLocations"] = [_sarif_related(x, n) for n, x in enumerate(d.labels)]
    if d.fix:
        changes = [{"deletedRegion": _sarif_region(e.span), "insertedContent": {"text": e.text}} for e in d.fix.edits]
        place = _sarif_place(d.span)["physicalLocation"]["artifactLocation"]
        change = {"artifactLocation": place, "replacements": changes}
        result["fixes"] = [{"description": {"text": d.fix.description}, "artifactChanges": [change]}]
    return result


def _sarif_related(label: Label, number: int) -> dict[str, Any]:
    return {"id": number, "message": {"text": label.text}, **_sarif_place(label.span)}
