"""The checker under mutated specs: nothing but diagnostics, and a program only if every declaration is in it."""

from __future__ import annotations

import random
import re
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import PAGES, spec

from tmlang.base.source import Source
from tmlang.semantics import Checked, check
from tmlang.syntax import ast, parse

TOKEN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[A-Za-z_][\w.]*:?|\d[\d.e/]*|\S")
SNIPPETS = [
    spec(body)
    for page in sorted(PAGES.glob("TM*.md"))
    for body in re.findall(r"```tm \w+\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
]
WORDS = sorted({t for text in SNIPPETS for t in TOKEN.findall(text)})


def mutated(r: random.Random) -> str:
    """A spec of the pages with up to three tokens replaced, doubled, moved or taken out."""
    text = r.choice(SNIPPETS)
    for _ in range(r.choice((0, 1, 1, 2, 3))):
        tokens = list(TOKEN.finditer(text))
        at = r.choice(tokens)
        new = r.choice(("", f"{at[0]} {at[0]}", r.choice(WORDS), r.choice(WORDS), r.choice(tokens)[0]))
        text = text[: at.start()] + new + text[at.end() :]
    return text


def complete(result: Checked, source: Source) -> None:
    """Nothing that the main file declares is silently left out of the program."""
    tree, program = parse(source).tree, result.program
    assert tree is not None
    assert program is not None

    def declared(*kinds: type) -> int:
        return sum(isinstance(d, kinds) and not getattr(d, "parameters", ()) for d in tree.declarations)

    assert len(program.claims) == declared(ast.Claim)
    assert len(program.evaluations) == declared(ast.Evaluate)
    assert len(program.models) >= declared(ast.Model)
    assert len(program.data) >= declared(ast.Data)
    assert len(program.spaces) >= declared(ast.Space)
    assert len(program.subjects) >= declared(ast.Threat, ast.Property, ast.Shift)


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_spec_gives_diagnostics_or_a_whole_program(seed: int) -> None:
    r = random.Random(seed)
    whole = 0
    for _ in range(250):
        source = Source("spec.tm", mutated(r))
        start = time.process_time()
        result = check(source)
        assert time.process_time() - start < 1
        if any(d.is_error for d in result.diagnostics):
            assert result.program is None
        else:
            complete(result, source)
            whole += 1
        for d in result.diagnostics:
            assert d.span.file in result.sources
            assert 0 <= d.span.start <= d.span.end <= len(source.text)
            assert "\n" not in d.message
    assert whole > 0
