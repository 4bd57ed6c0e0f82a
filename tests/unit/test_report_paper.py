"""``report.tex``: the numbers of EVIDENCE.md's worked example, and text that no TeX can take for a command."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from audit_support import (
    BROKEN,
    attack,
    certifier,
    evaluation,
    make_bundle,
    plan,
    run_of,
    sealed,
    threat,
    worked_example,
)

from tmlang.audit.bundle import Bundle
from tmlang.cli import report
from tmlang.cli.main import main
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.models import Data, Take, Truth
from tmlang.meaning.threats import Assumption, Mutable
from tmlang.meaning.values import Artifact, Call
from tmlang.plan.ir import Plan
from tmlang.plan.text import claim_identity
from tmlang.report.latex import latex_math, latex_number, latex_text
from tmlang.report.paper import paper_macros
from tmlang.report.write import OF_ONE

CLAIMS = (
    Claim("stands", Measured("survival", "e"), ">=", Fraction(2, 5)),
    Claim("proved", Measured("certified", "e"), ">=", Fraction(1, 5)),
    Claim("falls", Measured("survival", "e"), ">=", Fraction(9, 10)),
)
WORKED = plan([evaluation(attack(), certifier())], [threat()], claims=CLAIMS)
EVALUATOR = {"device": "cpu", "batch_size": 1, "threads": 1, "deterministic": True, "torch": "2"}
RUN = {"models": {"net": EVALUATOR}, "libraries": {"torch": "2"}}
HOSTILE = '\\input{/etc/passwd}} \\end{document} %$#&_^~ ^^5c ` " <b> | é Ж ☃ \u202e\n\n\\par'

WORDS = """
tmset texttt textbackslash textasciitilde textasciicircum textasciigrave textemdash char allowbreak begin end toprule
midrule bottomrule ge le ne in notin times infty mathrm text hat tilde mid wedge neg exists cap tfrac dots
"""
"""The commands that may stand in the file."""


def bundle_of(path: Path, whole: Plan = WORKED) -> Bundle:
    """The 100 units of EVIDENCE.md section 2, sealed."""
    rows = [
        replace(r, candidate="candidates/000001.safetensors#0", **BROKEN) if r.observed_failure else r
        for r in worked_example()
    ]
    bundle = make_bundle(path, whole, rows)
    bundle.add_json("run.json", run_of(whole, rows) | RUN)
    sealed(bundle)
    return Bundle.open(path)


def macros(tex: str) -> dict[str, str]:
    return dict(re.findall(r"^\\tmset\{([^}]*)\}\{(.*?)\}\n(?=\\tmset|\Z)", tex, re.MULTILINE | re.DOTALL))


def test_the_numbers_are_those_of_the_worked_example(tmp_path: Path) -> None:
    found = macros(paper_macros(bundle_of(tmp_path / "run"), "x"))
    assert found["x/e/R"] == r"$R \in$ [20\,\%, 52\,\%]"
    assert found["x/e/survival"] == r"[40\,\%, 52\,\%]"
    assert (found["x/e/survival/low"], found["x/e/survival/high"]) == (r"40\,\%", r"52\,\%")
    assert found["x/e/survival/of"] == "100"
    assert found["x/e/survival/coverage"] == r"88\,\%"
    assert (found["x/e/certified"], found["x/e/certified/count"]) == (r"20\,\%", "20")
    # certificates were asked of the 80 right ones of 82 that may be right
    assert found["x/e/certified/full"].startswith(r"20\,\% of 100 (coverage 97.6\,\%; claim ")  # 80 of 82
    assert found["x/e/survival_completed"] == r"45.5\,\%"
    ids = [claim_identity(WORKED, c) for c in CLAIMS]
    both = rf"claims \texttt{{{ids[0][:12]}}}, \texttt{{{ids[2][:12]}}}"
    assert found["x/e/survival/full"] == rf"[40\,\%, 52\,\%] of 100 (coverage 88\,\%; {both})"
    assert found["x/e/clean_accuracy/claim"] == "none"
    assert [found[f"x/claim/{i}/status"] for i in (1, 2, 3)] == ["supported", "supported", "refuted"]
    assert found["x/claim/2/id"].replace(r"\allowbreak ", "") == rf"\texttt{{{ids[1]}}}"
    assert r"\texttt{e} & 100 & [80\,\%, 82\,\%] & 20\,\% & [40\,\%, 52\,\%] &" in found["x/table"]
    assert found["x/claims"].count(r"\\") == 4
    assert "no coordinate differs from the original by more than 0.125" in found["x/e/threat"]
    assert r"attacked by \texttt{native.apgd} on exactly the allowed set" in found["x/e/protocol"]
    assert found["x/e/found"].startswith(
        "20 of 100 examples are proved: no allowed input makes the object fail. 30 examples"
    )
    assert r"the share of the 100 examples that are decided rightly" in found["x/e/found"]
    assert r"lies in [20\,\%, 52\,\%] (from what is proved to what is not broken)." in found["x/e/found"]
    # All witnesses lie at the same distance: the first unit stands for them.
    assert (
        r"example \texttt{u000}: at a distance of 0.125 it is decided as \texttt{1} in place of"
        in found["x/e/incident"]
    )
    assert "Survival says what one attack" in found["x/e/limits"]


def test_the_name_of_the_spec_heads_the_keys_unless_another_is_given(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path / "run")
    assert "run/e/survival" in macros(paper_macros(bundle))
    assert "a-b/e/survival" in macros(paper_macros(bundle, "a}b"))


def hostile_plan() -> Plan:
    """Everything that may hold a text holds a hostile one."""
    data = Data("test", "px", Call(("npz",)), Artifact(HOSTILE), (Take("all"),), Truth("published", HOSTILE))
    claims = tuple(replace(c, text=HOSTILE, left=replace(c.left, evaluation="e}" + HOSTILE)) for c in CLAIMS)
    mutable = Mutable("features", names=((HOSTILE, "any"),))
    t = threat(assumptions=(Assumption(HOSTILE),), mutable=mutable)
    own = evaluation(attack(), certifier(), name="e}" + HOSTILE)
    stages = tuple(replace(s, arguments=(("loss", HOSTILE),)) for s in own.stages)
    return plan([replace(own, stages=stages)], [t], claims=claims, data=(data,))


def test_no_text_is_a_command(tmp_path: Path) -> None:
    tex = paper_macros(bundle_of(tmp_path / "run", hostile_plan()))
    assert tex.isascii()
    assert "\\par" not in tex
    assert r"\textbackslash{}input\{/etc/passwd\}\}" in tex
    body = tex.split("#2}}\n", 1)[1]
    commands = set(re.findall(r"\\([A-Za-z]+)", body))
    assert commands <= set(WORDS.split())
    assert set(re.findall(r"\\(?:begin|end)\{([^}]*)\}", body)) == {"tabular", "align*"}
    bare = re.sub(r"\\.", "", body)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"(?<!\\)[#%~]", re.sub(r"\\tmset\{[^}]*\}", "", body))
    assert "^^" not in body


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("Straße in Orléans, naïve ı", r"Stra\ss{}e in Orl\'{e}ans, na\"{\i}ve [U+0131]"),
        ("--trust-code", "-{}-trust-code"),
        ("“a” — b…", r"``a'' \textemdash{} b\dots{}"),
        ("☃", "[U+2603]"),
        ("\u202ea\u0000", "[U+202E]a[U+0000]"),
    ],
)
def test_other_letters(text: str, latex: str) -> None:
    assert latex_text(text) == latex


def test_numbers_and_names_in_symbols() -> None:
    assert latex_number("[82.4 %, ∞] ≥ —") == r"[82.4\,\%, $\infty$] $\ge$ \textemdash{}"
    assert latex_math(r"x_{\mathrm{a\_b^c~d}} \in X") == r"x_{\mathrm{a\_b\hat{}c\tilde{}d}} \in X"
    assert latex_math(r"\mathrm{☃}") == r"\mathrm{\text{[U+2603]}}"


def test_the_command_writes_it_of_one_bundle_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = bundle_of(tmp_path / "run")
    assert main(["report", str(bundle.path), "--latex", "--name", "mine", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "report.tex").read_text() == paper_macros(bundle, "mine")
    with pytest.raises(SystemExit) as left:
        main(["report", str(bundle.path), str(bundle.path), "--latex"])
    assert left.value.code == 2
    assert "one bundle at a time" in capsys.readouterr().err
    assert set(report._OF_ONE) == set(OF_ONE)
