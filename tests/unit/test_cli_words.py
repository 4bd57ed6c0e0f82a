"""``tmc words``: one paragraph per threat, in English and as LaTeX that says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tmlang.cli.main import main
from tmlang.report.latex import latex_text

BASE = Path(__file__).resolve().parents[2] / "tmlang" / "diagnostics" / "pages" / "base.tm"


def test_the_paragraph_says_what_the_clauses_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["words", str(BASE)]) == 0
    out = capsys.readouterr().out
    said = " ".join(out.split())
    assert out.startswith("linf8\n")
    for part in ("3 × 32 × 32", "8/255", "float32", "`victim`", "CIFAR-10 test labels", "gradients included"):
        assert part in said
    assert "robust" not in said


def test_latex_is_balanced_and_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["words", str(BASE), "--of", "linf8", "--format", "latex"]) == 0
    out = capsys.readouterr().out
    assert r"\texttt{victim}" in out
    assert r"\begin{align*}" in out
    assert "`victim`" not in out
    bare = re.sub(r"\\[{}]", "", out)
    assert bare.count("{") == bare.count("}")
    words = out.split(r"\begin{align*}")[0].split("\n", 1)[1]
    assert not re.search(r"(?<!\\)[#%&_]", words)
    assert words.count("$") % 2 == 0


def test_special_characters_of_names_are_escaped() -> None:
    assert latex_text("a `b_c` 50 % of {x} \\ ≤ <") == r"a \texttt{b\_c} 50 \% of \{x\} \textbackslash{} $\le$ $<$"


def test_an_unknown_name_and_a_refused_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["words", str(BASE), "--of", "linf"]) == 2
    assert "linf8" in capsys.readouterr().err
    wrong = tmp_path / "w.tm"
    wrong.write_text("tm 1\nthreat t on nobody over nothing { }\n", encoding="utf-8")
    assert main(["words", str(wrong)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "error[" in err
