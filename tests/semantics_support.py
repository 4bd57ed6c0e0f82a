"""Small specs for tests of the checker: a base spec, in which a snippet takes the place of what it declares again."""

from __future__ import annotations

import re
from pathlib import Path

from tmlang.base.source import Source
from tmlang.cli.front import Front
from tmlang.diagnostics.model import Diagnostic
from tmlang.semantics import Checked, check

PAGES = Path(__file__).resolve().parent.parent / "tmlang" / "diagnostics" / "pages"
BASE = (PAGES / "base.tm").read_text(encoding="utf-8")

_HEAD = re.compile(r"(use|let|param|space|model|data|threat|property|shift|suite|evaluate|claim|report)\b(.*)")
_NAME = re.compile(r"\s*(\"[^\"]*\"|[\w.]+)")


def declarations(text: str) -> list[tuple[str, str]]:
    """(name, text) of the declarations of a text whose declarations begin in the first column."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            name = _NAME.match(head[2])
            claimed = "claim " if head[1] == "claim" else ""  # claims have names of their own
            found.append((line if head[1] == "use" or name is None else claimed + name[1], [line]))
        elif found:
            found[-1][1].append(line)
    return [(key, "\n".join(lines).rstrip() + "\n") for key, lines in found]


def spec(snippet: str, base: str = BASE) -> str:
    """A whole spec: the snippet itself if it begins with ``tm 1``, else the base with it in place."""
    if snippet.lstrip().startswith("tm "):
        return snippet
    again = {key for key, _ in declarations(snippet)}
    kept = [text for key, text in declarations(base) if key not in again]
    return "tm 1\n" + "\n".join(kept) + "\n" + snippet


def checked(snippet: str, name: str = "spec.tm") -> Checked:
    return check(Source(name, spec(snippet)))


def found(snippet: str) -> list[tuple[str, str]]:
    """(code, guilty text) of every diagnostic of a snippet in its spec."""
    result = checked(snippet)
    return [(d.code, guilty(result, d)) for d in result.diagnostics]


def guilty(result: Checked | Front, d: Diagnostic) -> str:
    return result.sources[d.span.file].text[d.span.start : d.span.end]
