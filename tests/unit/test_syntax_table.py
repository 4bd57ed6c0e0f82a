"""The kept table: what is read back is what lark makes, and nothing that others wrote is trusted."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lark import Lark
from lark import Token as LarkToken
from lark.exceptions import LarkError
from lark.lexer import Lexer
from syntax_support import read

from tmlang.base.resources import resource
from tmlang.base.source import Source
from tmlang.syntax import parser
from tmlang.syntax.lexer import tokenize

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "property"))
from generate import Sentences

GRAMMAR = (resource("grammar") / "tm.lark").read_text(encoding="utf-8")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    parser.table.cache_clear()
    yield tmp_path / "tmlang"
    parser.table.cache_clear()


def test_the_kept_table_is_the_one_that_was_made(cache: Path) -> None:
    made = parser.table()
    (kept,) = cache.iterdir()
    assert kept.suffix == ".json"
    parser.table.cache_clear()
    assert parser.table() == made


def test_the_table_is_the_same_on_every_machine() -> None:
    made = json.dumps(parser._make(GRAMMAR))
    code = (
        "import json, sys; from tmlang.syntax.parser import _make; print(json.dumps(_make(sys.stdin.read())), end='')"
    )
    for seed in ("1", "2"):
        again = subprocess.run(
            [sys.executable, "-c", code],
            input=GRAMMAR,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        )
        assert again.stdout == made


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"states": 3}', "\x00"])
def test_a_damaged_table_is_made_again(cache: Path, damage: str) -> None:
    made = parser.table()
    (kept,) = cache.iterdir()
    kept.write_text(damage)
    parser.table.cache_clear()
    assert parser.table() == made
    assert len(kept.read_text()) > 10_000


@pytest.mark.skipif(os.name != "posix", reason="about the permissions of POSIX")
def test_the_cache_is_the_users_alone(cache: Path) -> None:
    parser.table()
    assert cache.stat().st_mode & 0o777 == 0o700
    (kept,) = cache.iterdir()
    kept.unlink()
    cache.chmod(0o777)
    parser.table.cache_clear()
    parser.table()
    assert list(cache.iterdir()) == []


def test_without_a_cache_the_table_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    parser.table.cache_clear()
    assert parser.table().states
    parser.table.cache_clear()


def test_a_start_needs_no_lark() -> None:
    parser.table()
    code = (
        "import sys; from tmlang.syntax import parse; from tmlang.base.source import Source;"
        "assert parse(Source('s', 'tm 1 let x = 1')).tree;"
        "unwanted = ('lark', 'pickle', 'numpy', 'torch', 'pydantic', 'tmlang.syntax.messages');"
        "print([m for m in unwanted if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- against the parser of lark ---------------------------------------------------------------------------------------


class _OurTokens(Lexer):
    """Our tokens for lark's parser: each counts as what the state of that parser has."""

    __future_interface__ = 2  # lex gets the state of the parser

    def __init__(self, conf: Any) -> None:
        self.names = {t.pattern.value if t.pattern.type == "str" else t.name: t.name for t in conf.terminals}

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[LarkToken]:
        for token in tokenize(Source("spec.tm", lexer_state.text.text), parser.table().clause_words).tokens[:-1]:
            names = [self.names[k] for k in token.kinds if k in self.names]
            accepted = parser_state.parse_conf.states[parser_state.position]
            yield LarkToken(next((n for n in names if n in accepted), names[-1]), token.text)


def test_we_accept_what_the_parser_of_lark_accepts() -> None:
    """Random sentences of the grammar, and the same with tokens dropped, doubled, swapped or replaced."""
    lark = Lark(GRAMMAR, parser="lalr", lexer=_OurTokens)
    rng = random.Random(7)
    accepted = 0
    for seed in range(250):
        right = ["tm", "1", *Sentences(random.Random(seed), budget=14).tokens("declaration")]
        for tokens in [right, *(_changed(right, rng) for _ in range(4))]:
            text = " ".join(tokens)
            try:
                lark.parse(text)
                expected = True
            except LarkError:
                expected = False
            accepted += expected
            result = read(text)
            beyond_grammar = {"a relation compares two sides", "a file is a name and, at most, its hash"}
            ours = all(d.message in beyond_grammar for d in result.diagnostics)
            assert ours == expected, text
            assert tokens is not right or result.tree is not None
    assert 300 < accepted < 900


def _changed(tokens: list[str], rng: random.Random) -> list[str]:
    changed = list(tokens)
    place, other = rng.randrange(2, len(changed)), rng.randrange(2, len(changed))
    match rng.randrange(4):
        case 0:
            del changed[place]
        case 1:
            changed.insert(place, changed[other])
        case 2:
            changed[place], changed[other] = changed[other], changed[place]
        case _:
            changed[place] = changed[other]
    return changed
