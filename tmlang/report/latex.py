"""The words of a threat model as LaTeX text: names in backquotes become typewriter, special characters are escaped."""

from __future__ import annotations

import re

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "#$%&_{}"},
    **{c: f"${c}$" for c in "<>|"},
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≠": r"$\ne$",
    "×": r"$\times$",
    "−": "$-$",
    "∞": r"$\infty$",
    "“": "``",
    "”": "''",
    "…": r"\dots{}",
}
_NAME = re.compile(r"`([^`]*)`")


def latex_text(paragraph: str) -> str:
    """``paragraph`` for the body of a LaTeX document (UTF-8)."""
    parts = _NAME.split(paragraph)
    return "".join(rf"\texttt{{{_escaped(part)}}}" if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)
