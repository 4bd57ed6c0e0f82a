"""Every diagnostic code, once: its title, its severity and, read only when asked for, its page.

Codes live in one module per family (``codes/tm0.py`` … ``codes/tm8.py``) and their pages in ``pages/TMxxx.md``.
A code never changes its meaning; one that is no longer raised is removed and its number is not given again.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Literal

from tmlang.base.frozen import dataclass

Severity = Literal["error", "warning"]

FAMILIES = {
    "TM0": "syntax",
    "TM1": "names and modules",
    "TM2": "spaces, units and budgets",
    "TM3": "models and decisions",
    "TM4": "threats and goals",
    "TM5": "access and backends",
    "TM6": "evidence and claims",
    "TM7": "artifacts and data",
    "TM8": "execution and records",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One code. ``title`` is a short statement of what is wrong, without a full stop."""

    code: str
    title: str
    severity: Severity = "error"

    @property
    def family(self) -> str:
        return FAMILIES[self.code[:3]]


_loaded: dict[str, dict[str, Rule]] = {}


def _family(prefix: str) -> dict[str, Rule]:
    """The rules of one family, loaded when the first of its codes is asked for."""
    if prefix not in _loaded:
        rules: tuple[Rule, ...] = import_module(f"tmlang.diagnostics.codes.{prefix.lower()}").RULES
        table = {r.code: r for r in rules}
        if len(table) != len(rules) or any(not c.startswith(prefix) for c in table):
            raise AssertionError(f"a code stands twice, or in the wrong family, in codes/{prefix.lower()}.py")
        _loaded[prefix] = table
    return _loaded[prefix]


def rule(code: str) -> Rule:
    """The rule of ``code`` (``TM201``); a ``KeyError`` when no such code exists."""
    if code[:3] not in FAMILIES:
        raise KeyError(code)
    return _family(code[:3])[code]


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    return tuple(r for prefix in FAMILIES for _, r in sorted(_family(prefix).items()))


def page_source(code: str) -> str:
    """The text of the page of ``code``: Markdown with ``tm`` fences marked ``wrong``, ``right`` and ``silent``."""
    rule(code)
    return (Path(__file__).parent / "pages" / f"{code}.md").read_text(encoding="utf-8")
