"""Every code has a page, and what it shows is true: the wrong spec is refused at the token, the others are not.

Messages are compared with reviewed ones in ``tests/golden/messages``; ``TM_WRITE_GOLDEN=1`` writes them anew, to be
read in the diff.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import PAGES, guilty, spec

from tmlang.base.source import Source
from tmlang.cli.front import Front, read_spec
from tmlang.diagnostics import pages, render
from tmlang.diagnostics.fixes import apply_fixes
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.registry import all_rules, page_source

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "messages"
CODES = [r.code for r in all_rules()]
WITH_PAGE = [c for c in CODES if (PAGES / f"{c}.md").exists()]


def snippets(code: str) -> dict[str, list[str]]:
    text = page_source(code)
    made: dict[str, list[str]] = {"wrong": [], "right": [], "silent": []}
    for kind, body in re.findall(r"```tm (wrong|right|silent)\n(.*?)```", text, re.S):
        made[kind].append(body)
    return made


def everything(snippet: str) -> tuple[Front, list[Diagnostic]]:
    """What ``tmc check`` says of a snippet in its spec."""
    front = read_spec("spec.tm", {}, spec(snippet))
    return front, list(front.diagnostics)


@pytest.mark.parametrize("code", WITH_PAGE)
def test_the_page_is_true(code: str) -> None:
    shown = snippets(code)
    tokens = re.findall(r"^Refused, at `(.*)`:$", page_source(code), re.M)
    assert len(tokens) == len(shown["wrong"])
    for token, snippet in zip(tokens, shown["wrong"], strict=True):
        checked, diagnostics = everything(snippet)
        blamed = [(d.code, guilty(checked, d).splitlines()[0]) for d in diagnostics]
        assert blamed == [(code, token)]
    for snippet in shown["right"] + shown["silent"]:
        _, diagnostics = everything(snippet)
        assert [(d.code, d.message) for d in diagnostics] == []


@pytest.mark.parametrize("code", [c for c in WITH_PAGE if snippets(c)["wrong"]])
def test_the_message_is_the_reviewed_one(code: str) -> None:
    checked, diagnostics = everything(snippets(code)["wrong"][0])
    text = render.text(diagnostics, checked.sources)
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("TM_WRITE_GOLDEN") == "1":
        GOLDEN.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def with_fix(code: str) -> bool:
    return any(d.fix for snippet in snippets(code)["wrong"] for d in everything(snippet)[1])


@pytest.mark.parametrize("code", [c for c in WITH_PAGE if with_fix(c)])
def test_a_fix_mends_what_it_is_for(code: str) -> None:
    for snippet in snippets(code)["wrong"]:
        _, diagnostics = everything(snippet)
        text, count = apply_fixes(Source("spec.tm", spec(snippet)), diagnostics)
        assert count == sum(d.fix is not None for d in diagnostics)
        assert code not in {d.code for d in everything(text)[1]}


def test_the_base_spec_is_clean() -> None:
    assert everything("")[1] == []


def test_docs_are_what_the_registry_says() -> None:
    for name, text in pages.rendered().items():
        path = ROOT / "docs" / "diagnostics" / name
        assert path.read_text(encoding="utf-8") == text, f"run python -m tmlang.diagnostics.pages for {name}"
    assert {p.name for p in (ROOT / "docs" / "diagnostics").glob("*.md")} == set(pages.rendered())
