"""A paper, compiled by a real TeX from what ``tmc report --latex`` writes, with its evidence inside.

Nightly: it needs ``pdflatex`` and ``pdftotext`` (``make nightly`` installs them) and a run of ``specs/digits``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from e2e_support import ROOT, SPECS, Evidence, run, tmc

sys.path.insert(0, str(ROOT / "tests" / "unit"))
from test_report_paper import HOSTILE, bundle_of, hostile_plan

from tmlang.report.paper import paper_macros

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("pdflatex") is None or shutil.which("pdftotext") is None, reason="no TeX here"),
]
(PAPER,) = re.findall(r"^```tex\n(.*?)^```$", (ROOT / "docs" / "papers.md").read_text(), re.MULTILINE | re.DOTALL)


def compiled(source: str, folder: Path) -> str:
    """The text of the PDF, white space joined; TeX must not stop anywhere."""
    (folder / "paper.tex").write_text(source, encoding="utf-8")
    for _ in range(2):
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
        )
        assert done.returncode == 0, done.stdout[-2000:]
    text = subprocess.run(["pdftotext", "-layout", "paper.pdf", "-"], cwd=folder, capture_output=True, text=True)
    return " ".join(text.stdout.split())


def shown(share: Fraction) -> str:
    """A share as a percentage to one digit, half to even, worked out here."""
    text = f"{round(share * 1000) / 10:.1f}"
    return f"{text.removesuffix('.0')} %"


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Evidence]:
    folder = tmp_path_factory.mktemp("paper") / "digits"
    shutil.copytree(SPECS / "digits", folder)
    assert tmc("freeze", "digits.tm", "--trust-code", folder=folder).code == 0
    said, evidence = run(folder / "digits.tm", folder / "run", "--locked", "--trust-code", "--quiet")
    assert said.code == 3, said.text
    assert tmc("report", "run", "--latex", folder=folder).code == 0
    return folder, compiled(PAPER, folder), evidence


def test_the_numbers_of_the_paper_are_those_of_the_records(paper: tuple[Path, str, Evidence]) -> None:
    _, text, evidence = paper
    certified, upper = evidence.share("greys", "certified"), evidence.share("greys", "upper")
    assert f"makes fail, lies in [{shown(certified)}, {shown(upper)}]" in text
    assert f"We prove {shown(certified)} of 450 (coverage 100 %; claim" in text
    assert f"the attacks leave {shown(evidence.share('greys', 'survival'))} of 450 (coverage 100 %; claim" in text
    for name in ("greys", "lengths"):
        row = [shown(evidence.share(name, c)) for c in ("clean_accuracy", "certified", "survival", "coverage")]
        assert f"{name} 450 {' '.join(row)} [" in text
    for part in ("no coordinate differs from the original by more than 0.06", "All randomness follows from the seed 0"):
        assert part in text
    assert "Survival says what 3 attacks" in text


def test_the_paper_carries_its_evidence(paper: tuple[Path, str, Evidence]) -> None:
    folder, _, evidence = paper
    said = tmc("attach", "paper.pdf", "digits.tm", "run", folder=folder)
    assert said.code == 0, said.text
    assert "certified(greys) ≥ 80 %: supported" in said.text
    text = subprocess.run(["pdftotext", "paper.pdf", "-"], cwd=folder, capture_output=True, text=True).stdout
    assert "Which inputs were allowed" in text
    said = tmc("extract", "paper.pdf", "--out", "out", folder=folder)
    assert said.code == 0, said.text
    assert "what was checked holds" in said.text
    assert Evidence(folder / "out" / "digits" / "bundle").summary == evidence.summary


def test_hostile_text_is_printed_and_not_obeyed(tmp_path: Path) -> None:
    tex = paper_macros(bundle_of(tmp_path / "run", hostile_plan()), "x")
    (tmp_path / "report.tex").write_text(tex, encoding="ascii")
    keys = re.findall(r"^\\tmset\{([^}]*)\}", tex, re.MULTILINE)
    body = "\n\n".join(rf"\tm{{{key}}}" for key in keys)
    head = "\\documentclass{article}\n\\usepackage{amsmath,booktabs}\n\\input{report}\n\\begin{document}\n\\sloppy "
    text = compiled(f"{head}{body}\n\nthe end\n\\end{{document}}\n", tmp_path)
    assert "root:" not in text
    assert "the end" in text
    assert text.count(r"\input{/etc/passwd}} \end{document} %$#&") > 10
    assert "[U+2603]" in text
    assert HOSTILE.count("☃") == 1


def test_an_unknown_and_a_repeated_key_stop_tex(tmp_path: Path) -> None:
    (tmp_path / "report.tex").write_text(paper_macros(bundle_of(tmp_path / "run"), "x"), encoding="ascii")
    head = "\\documentclass{article}\n\\usepackage{amsmath,booktabs}\n\\input{report}\n"
    page = "\\begin{document}\nyes\n\\end{document}\n"
    assert "yes" in compiled(head + page, tmp_path)
    with pytest.raises(AssertionError, match="there is no number x/e/nothing"):
        compiled(head + page.replace("yes", r"\tm{x/e/nothing}"), tmp_path)
    with pytest.raises(AssertionError, match="two files define x/"):
        compiled(f"{head}\\input{{report}}\n{page}", tmp_path)
