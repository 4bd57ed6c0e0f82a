"""The few LaTeX commands of :mod:`tmlang.report.symbols` as Unicode text, and as HTML with raised and lowered parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

_COMMANDS = {
    "in": "∈", "notin": "∉", "le": "≤", "ge": "≥", "ne": "≠", "exists": "∃", "forall": "∀", "times": "×", "cap": "∩",
    "subseteq": "⊆", "mid": "|", "delta": "δ", "omega": "ω", "theta": "θ", "infty": "∞", "bot": "⊥", "neg": "¬",
    "wedge": "∧", "vee": "∨", "dots": "…", "cdot": "·", "pm": "±", "sum": "Σ", "min": "min", "max": "max",
    "|": "‖", "{": "{", "}": "}", "_": "_", "%": "%", "&": "&", "#": "#", "$": "$",
}  # fmt: skip
_RAISED = dict(zip("0123456789×+-", "⁰¹²³⁴⁵⁶⁷⁸⁹ˣ⁺⁻", strict=True))
_LOWERED = dict(zip("0123456789ijp", "₀₁₂₃₄₅₆₇₈₉ᵢⱼₚ", strict=True))
_TOKEN = re.compile(r"\\([A-Za-z]+|.)|([_^])|([{}])|(.)", re.DOTALL)
_TIGHT = {"exists", "forall", "neg"}
"""Written without the space that ends the command."""


def to_unicode(latex: str) -> str:
    """Plain text: ``‖ x′ − x ‖∞ ≤ 8/255``; what cannot be raised or lowered stands behind ``^`` or ``_``."""
    return _Translator(latex, _text_script).run()


def to_html(latex: str) -> str:
    """Escaped HTML with ``<sup>`` and ``<sub>``."""
    return _Translator(escape(latex, quote=False).replace("\\&amp;", "&amp;"), _html_script).run()


def _text_script(mark: str, body: str) -> str:
    table = _RAISED if mark == "^" else _LOWERED
    compact = body.replace(" ", "")
    if all(c in table for c in compact):
        return "".join(table[c] for c in compact)
    return body if body == "∞" else f"{mark}{body}" if len(body) == 1 or body.isidentifier() else f"{mark}({body})"


def _html_script(mark: str, body: str) -> str:
    tag = "sup" if mark == "^" else "sub"
    compact = body.replace(" × ", "×")
    return f"<{tag}>{compact}</{tag}>"


class _Translator:
    """Recursive descent over groups; ``script`` joins ``^`` or ``_`` with its translated argument."""

    def __init__(self, latex: str, script: Callable[[str, str], str]) -> None:
        self.tokens = _TOKEN.findall(latex)
        self.at = 0
        self.script = script

    def run(self) -> str:
        text = self._until(None)
        return re.sub(r"-(?=[ \d])", "−", re.sub(r" {2,}", " ", text)).replace("x'", "x′").strip()

    def _until(self, end: str | None) -> str:
        parts: list[str] = []
        while self.at < len(self.tokens):
            command, mark, brace, char = self.tokens[self.at]
            self.at += 1
            if brace == "}" and end:
                break
            if command:
                parts.append(self._command(command))
            elif mark:
                parts.append(self.script(mark, self._argument()))
            else:
                parts.append(self._until("}") if brace == "{" else char)
        return "".join(parts)

    def _argument(self) -> str:
        command, _, brace, char = self.tokens[self.at]
        self.at += 1
        return self._until("}") if brace == "{" else _COMMANDS.get(command, command) or char

    def _command(self, command: str) -> str:
        if command in ("mathrm", "text"):
            return self._argument()
        if command == "tfrac":
            top = self._argument()
            return f"{top}/{self._argument()}"
        if command == "sqrt":
            return f"√{self._argument()}"
        if command in _TIGHT and self.at < len(self.tokens) and self.tokens[self.at][3] == " ":
            self.at += 1
        return _COMMANDS[command]
