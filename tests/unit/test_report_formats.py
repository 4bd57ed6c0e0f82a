"""Every number of every format is the tally's, and a hostile text stays a text in all of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from html import unescape
from pathlib import Path

import pytest
from audit_support import Rows, attack, certifier, evaluation, make_bundle, plan, solver, threat, worked_example

from tmlang.audit.bundle import Bundle
from tmlang.audit.show import interval, percent
from tmlang.audit.tally import tally_plan
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.evaluations import Claim, Measured
from tmlang.meaning.threats import Goal, Rejected, Shift
from tmlang.meaning.values import Call
from tmlang.report.compare import compare
from tmlang.report.numbers import NAMES
from tmlang.report.view import view_of
from tmlang.report.write import FORMATS, write_beside

HOSTILE = '</script><img src=x onerror="alert(1)">](javascript:alert(2)) | `x` \\end{document}'
CLAIM = Claim("most stand", Measured("survival", "e"), ">=", Fraction(1, 2))


def worked():
    return plan([evaluation(attack(), certifier())], [threat()], claims=(CLAIM,)), worked_example()


def excluded():
    return plan([evaluation(attack(), certifier())], [threat(clean_errors="excluded")]), worked_example()


def denied():
    rows = Rows().clean("u").attack("u", "a", "denied").clean("v").attack("v", "a", "broken").clean("w", "cr")
    rows.clean("x").attack("x", "a", "timeout")
    return plan([evaluation(attack())], [threat(rejected=Rejected("denied"))]), rows.all


def pairs():
    rows = Rows()
    for unit in ("u->1", "u->2", "v->0"):
        rows.clean(unit, label=2 if unit == "u->2" else 0, target=int(unit[-1]))
    for unit in ("u->1", "v->0"):
        rows.attack(unit, "a", "broken" if unit == "u->1" else "none")
    return plan([evaluation(attack())], [threat(goal=Goal("each", each="any"))]), rows.all


def alone():
    rows = Rows().clean("u").attack("u", "a", "broken").attack("u", "b").clean("v").attack("v", "a", "error")
    rows.attack("v", "b")
    return plan([evaluation(attack("a"), attack("b"), attribution="full")], [threat()]), rows.all


def least():
    rows = Rows().clean("u").attack("u", outcome="broken", distance=0.125).clean("v").attack("v")
    return plan([evaluation(attack())], [threat(allow=None, minimize=("linf", "px"))]), rows.all


def solved():
    rows = Rows().clean("u").attack("u", "s", "broken", verdict="broken").clean("v").proof("v", "s")
    return plan([evaluation(solver())], [threat()]), rows.all


def fog():
    rows = Rows()
    for i in range(9):
        rows.clean(f"u{i}").attack(f"u{i}", "s", "valid", decision=int(i > 5))
    rows.clean("gone")
    shift = Shift("t", "net", "test", Call(("std", "fog")), "wilson", Fraction(95, 100))
    return plan([evaluation(attack("s", role="corrupt"))], [shift]), rows.all


FIXTURES = [worked, excluded, denied, pairs, alone, least, solved, fog]


def expected(columns):
    """(heading, what a reader sees, exact ends) of every number, from the tally and not from the view."""
    for label, c in [("", c) for c in columns.columns] + list(columns.attacks):
        heading = NAMES[c.name][0] + (f" ({c.note})" if c.note else "") + (f" of {label}" if label else "")
        if c.low is None:
            value = "undefined"
        elif c.at_least:
            value = f"at least {percent(c.low)}"
        else:
            value = interval(c.low, c.high, share=c.name != "median_distance")
        if c.interval is not None:
            value += f", interval {interval(*map(Fraction, c.interval))}"
        yield heading, value, str(c.denominator), c.low, c.high


@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_number_is_the_tally_s(tmp_path: Path, fixture) -> None:
    whole, records = fixture()
    view = view_of(make_bundle(tmp_path / "run", whole, records))
    columns = tally_plan(whole, records)["e"]
    numbers = list(expected(columns))
    assert numbers
    html, text = FORMATS["html"](view).decode(), FORMATS["md"](view).decode()
    rows = re.findall(r"<tr[^>]*><th scope=\"row\">(.*?)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>", html)
    in_html = {tuple(unescape(re.sub("<[^>]*>", "", cell)) for cell in row) for row in rows}
    lines = text.split("### All numbers")[1].splitlines()
    in_text = {tuple(cell.strip() for cell in line.split("|")[1:4]) for line in lines}
    for heading, value, of, _, _ in numbers:
        assert (heading, value, of) in in_html
        assert (heading, value, of) in in_text
    data = json.loads(FORMATS["json"](view))["evaluations"][0]
    told = {n["heading"]: n for n in data["numbers"]} | {
        f"{n['heading']} of {label}": n for label, n in data["attacks"]
    }
    assert len(told) == len(numbers)
    for heading, value, of, low, high in numbers:
        assert (told[heading]["value"], told[heading]["of"]) == (value, of)
        assert [_number(told[heading][end]) for end in ("low", "high")] == [low, high]
    k = columns.counts
    told_bar = {s["label"]: s["count"] for s in data["bar"]}
    for label, count in (("proved", k.certified), ("attack unfinished", k.open), ("broken", k.broken_any_access)):
        assert told_bar.get(label, 0) == (0 if isinstance(whole.subjects[0], Shift) else count)


def _number(text):
    return None if text is None else float("inf") if text == "inf" else Fraction(text)


def pdf_text(path: Path) -> str:
    made = subprocess.run(["pdftotext", str(path), "-"], capture_output=True, text=True, check=True)
    return "".join(made.stdout.split())


def needs_pdf() -> None:
    pytest.importorskip("weasyprint", reason="the extra pdf is not installed", exc_type=(ImportError, OSError))
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext (poppler-utils) is not installed")


@pytest.mark.parametrize("fixture", [worked, denied])
def test_every_number_of_the_pdf_is_the_tally_s(tmp_path: Path, fixture) -> None:
    needs_pdf()
    whole, records = fixture()
    bundle = make_bundle(tmp_path / "run", whole, records)
    (path,) = write_beside([bundle], tmp_path / "out", ("pdf",))
    text = pdf_text(path)
    for heading, value, of, _, _ in expected(tally_plan(whole, records)["e"]):
        # A cell may break over lines, and neighbours of a broken cell come between its parts.
        assert "".join(value.split()) in text, heading
        assert of in text
    again = FORMATS["pdf"](view_of(bundle))
    assert path.read_bytes() == again


def hostile(path: Path) -> Bundle:
    claim = Claim(HOSTILE, Measured("survival", "e"), ">=", Fraction(1))
    whole = plan([evaluation(attack(), doc=HOSTILE)], [threat(doc=HOSTILE)], claims=(claim,))
    whole = replace(whole, warnings=(("TM999", HOSTILE),))
    rows = Rows().clean(HOSTILE).attack(HOSTILE, outcome="error", message=HOSTILE)
    bundle = make_bundle(path, whole, rows.all)
    bundle.add_text("spec/main.tm", HOSTILE)
    return bundle


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    view = view_of(hostile(tmp_path / "run"))
    html, text = FORMATS["html"](view).decode(), FORMATS["md"](view).decode()
    assert html.count("</script") == 2
    assert "<img src=x" not in html
    assert "<img" not in text
    assert "](javascript" not in text
    data = json.loads(FORMATS["json"](view))
    assert data["claims"][0]["text"] == HOSTILE
    assert data["evaluations"][0]["examples"][0]["unit"] == HOSTILE


def test_hostile_texts_stay_texts_in_pdf(tmp_path: Path) -> None:
    needs_pdf()
    (path,) = write_beside([hostile(tmp_path / "run")], tmp_path / "out", ("pdf",))
    text = pdf_text(path)
    assert 'onerror="alert(1)"' in text
    assert b"/JavaScript" not in path.read_bytes()


def test_without_weasyprint_it_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    whole, records = worked()
    with pytest.raises(Stop) as stopped:
        write_beside([make_bundle(tmp_path / "run", whole, records)], tmp_path / "out", ("pdf",))
    (diagnostic,) = stopped.value.diagnostics
    assert diagnostic.code == "TM510"
    assert "tmlang[pdf]" in (diagnostic.help or "")
    assert not (tmp_path / "out").exists()


# Several bundles -----------------------------------------------------------------------------------------------------


def two(tmp_path: Path, certified: int, upper: int, **changes) -> list[Bundle]:
    """``one`` proves ``certified`` of 4; ``other`` breaks all but ``upper`` of 4, under a threat with ``changes``."""
    one, other = Rows(), Rows()
    for i in range(4):
        one.clean(f"u{i}").proof(f"u{i}", "c", "certified" if i < certified else "unknown")
        other.clean(f"u{i}").attack(f"u{i}", "a", "none" if i < upper else "broken")
    whole = plan([evaluation(certifier())], [threat()])
    against = plan([evaluation(attack())], [threat(**changes)])
    return [make_bundle(tmp_path / "one", whole, one.all), make_bundle(tmp_path / "other", against, other.all)]


@pytest.mark.parametrize(
    ("certified", "upper", "says"),
    [
        (3, 2, "R of one/e is greater than that of other/e: 75 % proved against at most 50 %"),
        (2, 2, "R of one/e is at least that of other/e: 50 % proved against at most 50 %"),
        (1, 2, "undecided: their ranges of R overlap, and survivals compare two finite searches only"),
    ],
)
def test_one_is_greater_only_where_its_proof_reaches(tmp_path: Path, certified, upper, says) -> None:
    (pair,) = compare(two(tmp_path, certified, upper)).pairs
    assert (pair.comparable, pair.says) == (True, says)


def test_other_sets_are_not_compared(tmp_path: Path) -> None:
    bundles = two(tmp_path, 4, 0, clean_errors="excluded")
    (pair,) = compare(bundles).pairs
    assert (pair.comparable, pair.says) == (False, "their threats differ in `clean_errors:`")
    paths = write_beside(bundles, tmp_path / "out", ("html", "md", "json"))
    for path in paths:
        assert path.name.startswith("comparison.")
        assert "their threats differ in `clean_errors:`" in path.read_text()
    rows = json.loads((tmp_path / "out/comparison.json").read_text())["rows"]
    assert [(r["name"], r["bounds"]) for r in rows] == [("one/e", "100 %"), ("other/e", "[—, 0 %]")]


def test_the_command_asks_for_known_formats(tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(tmp_path), "--format", "docx"])
    assert stopped.value.code == 2
    assert "'docx' is none of html, md, json, pdf" in capsys.readouterr().err
