"""The reference page is true: its specs check clean, its clauses are read, and what it shows is laid out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from semantics_support import checked, spec
from syntax_support import read

from tmlang.base.source import Source
from tmlang.syntax import ast
from tmlang.syntax.parser import table
from tmlang.syntax.printer import format_source

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```tm( clauses \w+)?\n(.*?)```", PAGE, re.S)
SPECS = [text for kind, text in BLOCKS if not kind]
CLAUSES = [
    (kind.split()[1], line.strip()) for kind, text in BLOCKS if kind for line in text.splitlines() if line.strip()
]
HEADS = {
    "model": "model m: px -> classes(10)",
    "data": "data d: px",
    "threat": "threat t on m over d",
    "evaluate": "evaluate e of t",
}


@pytest.mark.parametrize("snippet", SPECS, ids=lambda s: " ".join(s.split()[:2]))
def test_specs_check_clean_and_are_laid_out(snippet: str) -> None:
    result = checked(snippet)
    assert [(d.code, d.message) for d in result.diagnostics] == []
    whole = spec(snippet)
    formatted = format_source(Source("spec.tm", "tm 1\n\n" + snippet if whole != snippet else snippet))
    assert isinstance(formatted, str)
    assert formatted.removeprefix("" if whole == snippet else "tm 1\n").strip("\n") == snippet.strip("\n")


@pytest.mark.parametrize(("block", "line"), CLAUSES)
def test_clauses_are_read(block: str, line: str) -> None:
    tree = read(f"tm 1 {HEADS[block]} {{\n{line}\n}}").tree
    assert tree is not None
    (declaration,) = tree.declarations
    assert isinstance(declaration, ast.Block)
    assert len(declaration.clauses) == 1


def test_every_clause_is_shown() -> None:
    shown = "\n".join(text for _, text in BLOCKS) + "report { figures: … }"
    missing = [word for word in table().clause_words if not re.search(rf"(^|[\s{{]){word}", shown)]
    assert missing == []
