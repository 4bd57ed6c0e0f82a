"""Helpers for tests of the front end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmlang.base.source import Source, Span
from tmlang.syntax import ParseResult, ast, parse

SHARED = Path(__file__).resolve().parents[2] / "shared" / "specs"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of shared specs is not beside the checkout")


def read(text: str) -> ParseResult:
    return parse(Source("spec.tm", text))


def tree(text: str) -> ast.Module:
    """The tree of a text that must be a spec; ``tm 1`` is put in front."""
    result = read("tm 1\n" + text)
    assert result.tree is not None, [d.message for d in result.diagnostics]
    return result.tree


def only(text: str) -> ast.Declaration:
    (declaration,) = tree(text).declarations
    return declaration


def value(text: str) -> ast.Value:
    declaration = only(f"let x = {text}")
    assert isinstance(declaration, ast.Let)
    return declaration.value


def clause(head: str, text: str) -> ast.ClauseValue:
    """The value of the one clause of a block."""
    block = only(f"{head} {{ {text} }}")
    assert isinstance(block, ast.Block)
    (found,) = block.clauses
    return found.value


def threat(text: str) -> ast.ClauseValue:
    return clause("threat t on m over d", text)


def at(text: str, span: Span) -> str:
    return text[span.start : span.end]


def shared_specs(wrong: bool) -> list[Path]:
    return [p for p in sorted(SHARED.glob("*.tm")) if (".wrong-" in p.name) == wrong]
