"""The clauses of a declaration: which must stand, which may stand once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tmlang.base.source import Span
from tmlang.diagnostics.model import Edit, Fix, Label
from tmlang.semantics.scope import World
from tmlang.syntax import ast

T = TypeVar("T")

STAGES = ("attack", "certify", "decide_exactly", "enumerate")
"""The clauses that are stages of an evaluation; each word is the stage's role."""

_MAY_REPEAT = frozenset({"step", "network", "take", "undo", "assume", "suite", "curve", "figures", "apply", *STAGES})


def once_each(world: World, block: ast.Block) -> dict[str, ast.Clause]:
    """The first clause of every word; one that may stand only once and stands again is reported."""
    first: dict[str, ast.Clause] = {}
    for clause in block.clauses:
        word = clause.word.text
        if word not in first:
            first[word] = clause
        elif word not in _MAY_REPEAT:
            labels = (Label(first[word].word.span, "here already"),)
            world.report("TM009", f"{word}: stands twice", clause.word, labels=labels)
    return first


def read(found: Mapping[str, ast.Clause], word: str, make: Callable[[Any], T]) -> T | None:
    """What ``make`` makes of the value of a clause; ``None`` when the clause is not there (or was refused)."""
    clause = found.get(word)
    return None if clause is None else make(clause.value)


def require(world: World, code: str, name: ast.Name, present: Iterable[str], needed: Mapping[str, str]) -> bool:
    """Report every clause of ``needed`` (word -> what it decides) that is not there, on the declaration's name."""
    there = set(present)
    missing = [word for word in needed if word not in there]
    for word in missing:
        world.report(code, f"{name.text} does not say {word}: {needed[word]}", name)
    return not missing


def without(world: World, code: str, clause: ast.Clause, message: str, *, text: str) -> None:
    """Report a clause that has nothing to decide, with the fix that takes its line out."""
    fix = Fix(f"take {clause.word.text}: out", (Edit(_whole_line(clause.span, text), ""),))
    world.report(code, message, clause.word, fix=fix)


def _whole_line(span: Span, text: str) -> Span:
    """``span`` with the blanks before it, a comment behind it and its line's end, if nothing else stands there."""
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    end = len(text) if end < 0 else end + 1
    rest = text[span.end : end].strip()
    if text[start : span.start].strip() or (rest and not rest.startswith("#")):
        return span
    return Span(span.file, start, end, span.line, 1, span.end_line + 1, 1)
