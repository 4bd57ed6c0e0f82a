"""Text for the body of a LaTeX document, in pure ASCII: names in backquotes become typewriter, special characters are
escaped, and what no plain LaTeX can print is named by its code point. No text of a spec can be a command."""

from __future__ import annotations

import re
import unicodedata

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    '"': r"{\char34}",
    **{c: f"\\{c}" for c in "#$%&_{}"},
    **{c: f"${c}$" for c in "<>|"},
    **dict.fromkeys("\t\n\r", " "),
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≠": r"$\ne$",
    "∈": r"$\in$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "−": "$-$",
    "∞": r"$\infty$",
    "°": r"$^\circ$",
    "µ": r"$\mu$",
    "⊥": r"$\bot$",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\dots{}",
    "\N{NO-BREAK SPACE}": "~",
    **{
        c: rf"\{name}{{}}"
        for c, name in zip("ßæøœłÆØŒŁ", ("ss", *["ae", "o", "oe", "l", "AE", "O", "OE", "L"]), strict=True)
    },
}
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
_NAME = re.compile(r"`([^`]*)`")
_UPRIGHT = re.compile(r"\\mathrm\{((?:[^{}\\]|\\.)*)\}", re.DOTALL)


def latex_text(paragraph: str) -> str:
    """``paragraph`` for the body of a LaTeX document, on one line."""
    parts = _NAME.split(paragraph)
    return "".join(rf"\texttt{{{escaped(part)}}}" if i % 2 else escaped(part) for i, part in enumerate(parts))


def latex_number(text: str) -> str:
    """A number as the report prints it, its percent sign after a thin space: ``[82.4\\,\\%, 87.1\\,\\%]``."""
    return escaped(text).replace(r" \%", r"\,\%")


def latex_math(line: str) -> str:
    """A line of :mod:`tmlang.report.symbols`, with the names in it made harmless."""
    return _UPRIGHT.sub(lambda found: rf"\mathrm{{{_upright(found[1])}}}", line)


def escaped(text: str) -> str:
    """``text`` so that it is printed as it is."""
    return "".join(_SPECIAL.get(c) or _printed(c) for c in text).replace("--", "-{}-")


def _printed(c: str) -> str:
    if " " <= c <= "~":
        return c
    parts = unicodedata.normalize("NFD", c)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        base = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0])
        return rf"\{_ACCENTS[parts[1]]}{{{base}}}"
    return f"[U+{ord(c):04X}]"


def _upright(name: str) -> str:
    """A name in math mode; ``\\_ \\% \\& \\# \\$`` in it are escaped already."""
    harmful = {"^": r"\hat{}", "~": r"\tilde{}", "'": r"\text{'}", '"': r"\text{{\char34}}", " ": r"\ "}
    parts = re.findall(r"\\.|.", name, re.DOTALL)
    return "".join(
        p if len(p) == 2 else harmful.get(p, p if "!" <= p <= "~" else rf"\text{{{_printed(p)}}}") for p in parts
    )
