"""What rests on an assumption carries the word in every place, and makes no claim more than supported under one.

Ten units, counted by hand:

| unit | what is known | it is certified |
|---|---|---|
| u0 to u2 | crown, its gap proved (u0 by the solver too) | whatever is assumed |
| u3, u4 | ibp, its gap assumed | once the gap is granted |
| u5 | the solver, its gap proved | once the solver is trusted |
| u6 | the solver, its gap assumed | once both are |
| u7 | nothing | never |
| u8 | broken | never |
| u9 | wrong before any change | never |

So c = 5 of 10, two of them assumed; with the solver 7, three of them assumed; without anything assumed 3; R <= 8 of 10.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction as F

import pytest
from audit_roads import both_roads
from audit_support import Rows, attack, certifier, evaluation, make_bundle, plan, sealed, threat, trusted
from report_support import can_print, macros, pdf_lines, tells_every_number

from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import exit_code, judge_plan
from tmlang.audit.summary import summary
from tmlang.audit.tally import tally_plan
from tmlang.audit.verify import audit
from tmlang.meaning.evaluations import Claim, Measured, RoundsTo
from tmlang.meaning.threats import Property
from tmlang.meaning.values import Symbol
from tmlang.plan.ir import Plan
from tmlang.report.claims import bibtex, judged
from tmlang.report.paper import paper_macros
from tmlang.report.terminal import result_lines
from tmlang.report.view import view_of
from tmlang.report.write import FORMATS

CROWN = certifier("crown")
IBP = certifier("ibp", method="ibp", arguments=(("rounding", Symbol("assumed")),))
MIXED = evaluation(attack(), CROWN, IBP, trusted("m"))
ASSUMED = {"gap": 1e-6, "gap_kind": "assumed", "margin": 1.0}
SOLVER = "marabou 2.0.0"


def rows():
    made = Rows()
    for i in range(9):
        unit = f"u{i}"
        made.clean(unit).attack(unit, outcome="broken" if i == 8 else "none")
        if i < 8:
            made.proof(unit, "crown", "certified" if i < 3 else "unknown")
            made.proof(unit, "ibp", "certified" if i in (3, 4) else "unknown", **ASSUMED)
            made.proof(unit, "m", "certified" if i in (0, 5, 6) else "unknown", **(ASSUMED if i == 6 else {}))
    return made.clean("u9", "cw").all


def claim(quantity, op, right, **args):
    return Claim(f"{quantity} {op} {right}", Measured(quantity, "e", tuple(args.items())), op, right)


def whole(*claims: Claim) -> Plan:
    return plan([MIXED], [threat()], claims=claims)


def test_the_columns_counted_by_hand():
    k = both_roads(MIXED, threat(), rows())
    told = {c.name: (c.numerator, c.high, c.note) for c in k.columns}
    assert told["certified"] == (5, F(1, 2), "2 of 5 assumed")
    assert told["certified_trusting"] == (7, F(7, 10), f"trusting {SOLVER}; 3 of 7 assumed")
    assert told["robust_accuracy"] == (5, F(8, 10), "2 of 5 assumed")
    assert told["survival"] == (8, F(8, 10), "")
    assert told["certificate_coverage"][:2] == (9, 1)
    assert (k.counts.certified, k.counts.certified_assumed) == (5, 2)
    assert (k.counts.certified_trusting, k.counts.trusting_assumed, k.counts.standing) == (7, 3, 1)


JUDGED = [
    ("certified", ">=", 30, "supported"),
    ("certified", ">=", 31, "assumed"),
    ("certified", ">=", 70, "assumed"),
    ("certified", ">", 70, "refuted"),
    ("certified", "<=", 70, "supported"),
    ("certified", "<=", 69, "undecided"),
    ("certified", "<=", 30, "undecided"),
    ("certified", "<", 30, "refuted"),
    ("certified", "==", 30, "undecided"),
    ("certified", "==", 50, "undecided"),
    ("certified", "==", 70, "assumed"),
    ("certified", "==", 80, "refuted"),
    ("robust_accuracy", ">=", 30, "supported"),
    ("robust_accuracy", ">=", 50, "assumed"),
    ("robust_accuracy", ">=", 70, "assumed"),
    ("robust_accuracy", ">=", 71, "undecided"),
    ("robust_accuracy", ">=", 81, "refuted"),
    ("robust_accuracy", "<=", 80, "supported"),
    ("robust_accuracy", "<=", 79, "undecided"),
    ("robust_accuracy", "<=", 60, "undecided"),
    ("robust_accuracy", "<=", 29, "refuted"),
    ("survival", ">=", 80, "supported"),
    ("coverage", "==", 100, "supported"),
]  # fmt: skip


@pytest.mark.parametrize(("quantity", "op", "percent", "status"), JUDGED)
def test_claims_at_thresholds_on_either_side(quantity, op, percent, status):
    made = whole(claim(quantity, op, F(percent, 100)))
    (found,) = judge_plan(made, rows())
    assert found.status == status
    if status == "assumed":
        assert found.assumes == (
            "rests on `rounding: assumed` of ibp",
            f"trusts {SOLVER}",
            "rests on the assumed gap of m",
        )
        assert "under an assumption" in found.reason


def test_what_rounds_to_a_number():
    for value, status in ((30, "undecided"), (50, "undecided"), (70, "assumed"), (80, "refuted")):
        made = whole(claim("certified", "rounds_to", RoundsTo(F(value, 100), 0, True)))
        assert judge_plan(made, rows())[0].status == status


ONE_OF_EACH = {
    0: [claim("certified", ">=", F(3, 10))],
    3: [claim("certified", ">=", F(7, 10)), claim("certified", ">=", F(8, 10))],
    4: [claim("certified", ">=", F(7, 10)), claim("robust_accuracy", "<=", F(6, 10))],
    6: [claim("certified", ">=", F(3, 10)), claim("certified", ">=", F(4, 10))],
}


@pytest.mark.parametrize("code", ONE_OF_EACH)
def test_the_exit_code_of_a_run(code):
    judgements = judge_plan(whole(*ONE_OF_EACH[code]), rows())
    assert exit_code(judgements, complete=True, contradicted=False) == code
    assert exit_code(judgements, complete=False, contradicted=False) == (3 if code == 3 else 5)


def test_a_contradicted_solver_is_void():
    """A witness on u5 leaves nothing of what the solver said, and what the others proved."""
    told = [*rows(), *(r for r in Rows().clean("u5").attack("u5", outcome="broken").all if r.stage != "clean")]
    told = [r for r in told if not (r.unit == "u5" and r.stage == "a" and r.status == "none")]
    columns = tally_plan(whole(), told)["e"]
    assert [c.method for c in columns.contradictions] == ["marabou.query"]
    assert (columns.counts.certified, columns.counts.certified_trusting) == (5, 5)


def test_a_solver_alone_certifies_nothing():
    """— stands for what no certificate said; the word of the solver has its own column."""
    only = evaluation(attack(), trusted("m"))
    made = Rows().clean("u").attack("u").proof("u", "m").clean("v").attack("v").proof("v", "m", "unknown").all
    k = both_roads(only, threat(), made)
    assert k.get("certified") is None
    assert (k.get("certified_trusting").low, k.get("robust_accuracy").low) == (F(1, 2), 0)
    claims = (claim("certified", ">=", F(1, 2)), claim("certified", "<=", F(1, 10)), claim("certified", ">=", F(6, 10)))
    statuses = [j.status for j in judge_plan(plan([only], [threat()], claims=claims), made)]
    assert statuses == ["assumed", "undecided", "refuted"]


HELD = [
    ({"gap": 0.0, "gap_kind": "proved"}, False, "supported", ""),
    (ASSUMED, False, "assumed", "assumed"),
    ({"gap": 0.0, "gap_kind": "proved"}, True, "assumed", f"trusting {SOLVER}"),
    (ASSUMED, True, "assumed", f"trusting {SOLVER}; assumed"),
    ({"gap": None, "gap_kind": "none"}, False, "undecided", "real arithmetic"),
    ({"gap": None, "gap_kind": "none"}, True, "undecided", f"trusting {SOLVER}; real arithmetic"),
]


@pytest.mark.parametrize(("gap", "solver", "status", "note"), HELD)
def test_a_property_that_holds_says_on_what(gap, solver, status, note):
    stage = trusted("m") if solver else certifier("m", role="decide_exactly", method="split", evidence="complete",
                                                  lowering="exact")  # fmt: skip
    e = evaluation(stage, subject="phi")
    held = Claim("it holds", Measured("holds", "e"), "holds", None)
    made = plan([e], [Property("phi", "net", (), ())], claims=(held,))
    told = Rows().clean("phi").proof("phi", "m", margin=None, **{k: v for k, v in gap.items() if k != "margin"}).all
    columns = tally_plan(made, told)["e"]
    assert (columns.holds, columns.note) == ("holds", note)
    (found,) = judge_plan(made, told)
    assert found.status == status
    text = "\n".join(result_lines({"e": columns}, (found,)))
    assert f"The property holds{f' ({note})' if note else ':'}" in text


# Every format ---------------------------------------------------------------------------------------------------------

CLAIMS = (claim("certified", ">=", F(7, 10)), claim("robust_accuracy", ">=", F(3, 10)))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return sealed(make_bundle(tmp_path_factory.mktemp("mixed") / "run", whole(*CLAIMS), rows()))


def terminal(b: Bundle) -> str:
    p, r = b.plan(), b.records()
    return "\n".join(result_lines(tally_plan(p, r), judge_plan(p, r)))


def printed(b: Bundle) -> str:
    if not can_print():
        pytest.skip("no PDF can be made and read here")
    return " ".join("\n".join(pdf_lines(FORMATS["pdf"](view_of(b)), b.path.parent)).split())


def tex(b: Bundle) -> str:
    return "\n".join(f"{k}: {v}" for k, v in macros(paper_macros(b, "x")).items())


PLACES = {
    "terminal": terminal,
    "markdown": lambda b: FORMATS["md"](view_of(b)).decode(),
    "html": lambda b: re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]*>", "", FORMATS["html"](view_of(b)).decode(),
                             flags=re.DOTALL),
    "json": lambda b: FORMATS["json"](view_of(b)).decode(),
    "latex": tex,
    "pdf": printed,
    "claims.json": lambda b: json.dumps(judged(b), ensure_ascii=False),
    "bibtex": lambda b: "\n".join(bibtex(judged(b))),
    "columns.json": lambda b: json.dumps(summary(tally_plan(b.plan(), b.records()), judge_plan(b.plan(), b.records()))),
    "crate": lambda b: b.read_bytes("ro-crate-metadata.json").decode(),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_no_number_stands_without_its_word(bundle, place):
    """5 of 10 are 50 %, 7 of 10 are 70 %: nothing else here is, but the thresholds of claims."""
    text = PLACES[place](bundle)
    if place in ("claims.json", "bibtex", "crate", "columns.json"):
        assert "assum" in text
    if place == "columns.json":
        told = json.loads(text)["evaluations"]["e"]["columns"]
        assert [told[c]["note"] for c in ("certified", "robust_accuracy")] == ["2 of 5 assumed"] * 2
        assert told["certified_trusting"]["note"] == f"trusting {SOLVER}; 3 of 7 assumed"
        return
    spaced = re.sub(r"\\,\\%", " %", text)
    spaced = re.sub(r"≥ 70 %|\$\\ge\$ 70 %", "", spaced)  # what is claimed is no result
    for number, words in (("50 %", ("2 of 5 assumed",)), ("70 %", ("trusting", "under an assumption"))):
        for found in re.finditer(rf"(?<![\d.]){number}", spaced):
            # The cells of a table of a PDF are read line by line, so that what stands beside a number is farther off.
            around = spaced[found.start() : found.end() + (160 if place == "pdf" else 60)]
            if place == "pdf":  # a cell breaks its words over lines, and the next cell stands in between
                around = re.sub(r"under an\b.*?\bassumption", "under an assumption", around, flags=re.DOTALL)
            assert any(word in around for word in words), (place, number, spaced[found.start() - 80 : found.end() + 80])


def test_every_format_tells_the_numbers_of_the_tally(bundle):
    tells_every_number(bundle)


def test_the_audit_finds_words_that_were_taken_away(tmp_path):
    made = make_bundle(tmp_path / "run", whole(*CLAIMS), rows())
    told = made.json("columns.json")
    told["evaluations"]["e"]["columns"]["certified"]["note"] = ""
    made.add_json("columns.json", told)
    assert any("certified is told to hold in “”" in f.text for f in audit(sealed(made).path).faults)
    told["evaluations"]["e"]["columns"]["certified"]["note"] = "2 of 5 assumed"
    told["claims"][0]["status"] = "supported"
    made = make_bundle(tmp_path / "again", whole(*CLAIMS), rows())
    made.add_json("columns.json", told)
    assert any("is told as supported, and is assumed" in f.text for f in audit(sealed(made).path).faults)
