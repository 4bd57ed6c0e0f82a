"""The registry, suggestions, rendering and fixes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tmlang.base.source import NOWHERE, Source, Span
from tmlang.diagnostics import render
from tmlang.diagnostics.fixes import apply_fixes
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label, in_order
from tmlang.diagnostics.registry import FAMILIES, all_rules, page_source, rule
from tmlang.diagnostics.suggest import distance, nearest

ROOT = Path(__file__).resolve().parents[2]


def at(text: str, word: str, file: str = "a.tm") -> Span:
    start = text.index(word)
    line, column = text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(file, start, start + len(word), line, column, line, column + len(word))


def test_every_code_is_raised_somewhere_and_every_raised_code_is_declared() -> None:
    text = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tmlang").rglob("*.py") if p.parent.name != "codes")
    raised = set(re.findall(r"\bTM\d{3}\b", text))
    declared = {r.code for r in all_rules()}
    assert raised - declared == set()
    assert declared - raised == set()


def test_every_code_has_a_title_and_a_page_without_the_words_that_do_not_appear() -> None:
    for r in all_rules():
        assert r.code[:3] in FAMILIES
        page = page_source(r.code)
        assert len(page) > 60
        assert not r.title.endswith(".")
        for words in (r.title, page):
            assert "illegal" not in words.lower()
            assert "invalid syntax" not in words.lower()


def test_an_undeclared_code_cannot_be_raised() -> None:
    with pytest.raises(KeyError):
        Diagnostic("TM299", "no", Span("a", 0, 0, 1, 1, 1, 1))
    with pytest.raises(KeyError):
        rule("E101")


def plain(a: str, b: str) -> int:
    """Optimal string alignment by its recurrence, with a whole table."""
    d = {(i, j): i + j for i in range(len(a) + 1) for j in range(len(b) + 1) if i * j == 0}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            best = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                best = min(best, d[i - 2, j - 2] + 1)
            d[i, j] = best
    return d[len(a), len(b)]


@given(st.text("abc", max_size=7), st.text("abc", max_size=7), st.integers(0, 7))
def test_edit_distance(a: str, b: str, limit: int) -> None:
    exact = plain(a, b)
    found = distance(a, b, limit)
    assert found == exact if exact <= limit else found > limit


def test_nearest_names() -> None:
    assert nearest("copy_d", ["copy_a", "copy_b", "copy_c", "secret"]) == ["copy_a", "copy_b", "copy_c"]
    assert nearest("epsilon", ["eps", "radius"]) == ["eps"]
    assert nearest("annual_income", ["annual_inc", "ratio"]) == ["annual_inc"]
    assert nearest("xyz", ["survival", "certified"]) == []


TEXT = "tm 1\n\tlet größe = 日本 + 8\nlet b = 9\n"


def some() -> tuple[Diagnostic, Diagnostic]:
    first = Diagnostic(
        "TM201",
        "too wide",
        at(TEXT, "日本"),
        (Label(at(TEXT, "9"), "and this"),),
        ("a note",),
        "write less",
        Fix("write 7", (Edit(at(TEXT, "8"), "7"),)),
    )
    return first, Diagnostic("TM203", "near", at(TEXT, "9"))


def test_carets_stand_under_their_characters() -> None:
    lines = render.text(some(), {"a.tm": Source("a.tm", TEXT)}).splitlines()
    shown = next(i for i, line in enumerate(lines) if "日本" in line)
    gutter = lines[shown].index("|") + 2
    # one tab, 12 columns of text, then two characters of two columns each
    assert lines[shown + 1][gutter:] == "\t" + " " * 12 + "^^^^"
    assert lines[-1] == "1 error, 1 warning"
    assert "  fix: write 7" in lines


def test_what_no_spec_wrote_is_shown_without_a_place() -> None:
    shown = render.text([Diagnostic("TM822", "the stage e/a wrote to the model", NOWHERE, help="report it")], {})
    assert shown == "error[TM822]: the stage e/a wrote to the model\n  help: report it\n\n1 error\n"


def test_concise_and_json() -> None:
    assert render.concise(some()).splitlines() == ["a.tm:2:14: TM201 too wide", "a.tm:3:9: TM203 near"]
    one, two = json.loads(render.as_json(some()))
    assert (one["code"], one["severity"], two["severity"]) == ("TM201", "error", "warning")
    assert one["span"]["start"] == {"line": 2, "column": 14, "offset": 18}
    assert one["fix"]["edits"][0]["text"] == "7"


def test_sarif() -> None:
    log = json.loads(render.sarif(some(), "0.1.0"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert 1 <= region["startLine"] <= region["endLine"]
    assert run["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "7"}
    assert [r["level"] for r in run["results"]] == ["error", "warning"]


def test_order_and_repetition() -> None:
    one, two = some()
    assert in_order([two, one, two]) == (one, two)


def test_fixes_apply_whole_or_not_at_all() -> None:
    source = Source("a.tm", TEXT)
    first, _ = some()
    clash = Diagnostic("TM201", "b", at(TEXT, "8"), fix=Fix("x", (Edit(at(TEXT, "8"), "1"), Edit(at(TEXT, "9"), "2"))))
    other = Diagnostic("TM201", "c", at(TEXT, "9"), fix=Fix("y", (Edit(at(TEXT, "9"), "5"),)))
    away = Diagnostic("TM201", "d", at(TEXT, "9", "b.tm"), fix=Fix("z", (Edit(at(TEXT, "9", "b.tm"), "6"),)))
    assert apply_fixes(source, [first, clash, other, away]) == (TEXT.replace("8", "7").replace("9", "5"), 2)
