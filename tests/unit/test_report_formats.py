"""Every number of every format is the tally's, and a hostile text stays a text in all of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from audit_support import (
    LINF,
    Rows,
    attack,
    certifier,
    evaluation,
    make_bundle,
    plan,
    sealed,
    solver,
    threat,
    worked_example,
)
from report_support import tells_every_number

from tmlang.audit.bundle import Bundle
from tmlang.audit.tally import tally_plan
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.evaluations import Claim, Measured, Module
from tmlang.meaning.models import Network, Truth
from tmlang.meaning.threats import Access, Ball, Either, Goal, Rejected, Shift
from tmlang.meaning.values import Artifact, Call
from tmlang.report.compare import compare
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


def overlap():
    rows = Rows()
    for i, (a, b) in enumerate([("broken", "broken"), ("broken", "none"), ("none", "none"), ("none", "timeout")]):
        rows.clean(f"u{i}").attack(f"u{i}", "a", a).attack(f"u{i}", "b", b)
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
    shift = Shift("t", "net", "test", (Call(("std", "fog")),), "wilson", Fraction(95, 100))
    return plan([evaluation(attack("s", role="corrupt"))], [shift]), rows.all


def thrice():
    """Repeats that find different failures: their union is the number, their spread stands beside it."""
    rows = Rows()
    for i in range(6):
        unit = f"u{i}"
        rows.clean(unit)
        for repeat in range(3):
            rows.attack(unit, "a", "broken" if i == repeat or i == 3 else "none", repeat=repeat)
    return plan([evaluation(attack(), repeats=3)], [threat()], claims=(CLAIM,)), rows.all


def noisy():
    rows = Rows()
    for i in range(5):
        rows.clean(f"u{i}")
        for repeat in range(2):
            rows.attack(f"u{i}", "s", "valid", decision=int(i > 3 - repeat), repeat=repeat)
    shift = Shift("t", "net", "test", (Call(("std", "noise")),), "clopper_pearson", Fraction(9, 10))
    return plan([evaluation(attack("s", role="corrupt"), repeats=2)], [shift]), rows.all


def union():
    allow = Either((LINF, Ball("l2", "px", Fraction(1, 4))), ("flat", "round"))
    rows = Rows().clean("u").attack("u", "a", "broken", branch="round").clean("v").attack("v").clean("w").attack("w")
    for unit in ("v", "w"):
        rows.proof(unit, "c", branch="flat").proof(unit, "c", "certified" if unit == "v" else "unknown", branch="round")
    return plan([evaluation(attack(), certifier())], [threat(allow=allow)]), rows.all


def targets(each):
    def fixture():
        whole, records = pairs()
        return replace(whole, subjects=(threat(goal=Goal("each", each=each)),)), records

    fixture.__name__ = f"targets_{each}"
    return fixture


def smoothed():
    stage = certifier("s", evidence="probabilistic", arguments=(("alpha", Fraction(1, 1000)), ("n", Fraction(100))))
    rows = Rows()
    for i, verdict in enumerate(("certified", "certified", "unknown")):
        rows.clean(f"u{i}").proof(f"u{i}", "s", verdict, draws=100, errors=i, margin=None if i == 2 else 0.25)
    return plan([evaluation(stage)], [threat()]), rows.all


def sampled():
    """Of 1,000 examples 200 are proved and 570 are not broken (EVIDENCE.md section 8)."""
    rows = Rows()
    for i in range(1000):
        rows.clean(f"u{i}").attack(f"u{i}", "a", "broken" if i >= 570 else "none")
        rows.proof(f"u{i}", "c", "certified" if i < 200 else "unknown")
    claim = Claim("the rest too", Measured("robust_accuracy", "e"), ">=", Fraction(1, 10), "", Fraction(95, 100))
    whole = plan([evaluation(attack(), certifier())], [threat()], claims=(claim,))
    return replace(whole, data=(replace(whole.data[0], sampling="drawn by lot from all letters of 2026"),)), rows.all


def judged():
    rows = Rows()
    for unit, kept in (("u", True), ("v", False), ("w", None), ("x", None)):
        rows.clean(unit, label_reviewed=kept is not None)
        rows.attack(unit, "a", "none" if unit == "x" else "broken", label_kept=kept)
    return plan([evaluation(attack())], [threat()]), rows.all


def nothing():
    """All are left out, so every share is undefined."""
    return plan([evaluation(attack())], [threat(clean_errors="excluded")]), Rows().clean("u", "cw").attack("u").all


FIXTURES = [worked, excluded, denied, pairs, targets("all"), targets("apart"), alone, least, solved, fog, thrice, noisy]
FIXTURES += [overlap, union, smoothed, sampled, judged, nothing]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.__name__)
def test_every_number_of_every_format_is_the_tally_s(tmp_path: Path, fixture) -> None:
    whole, records = fixture()
    bundle = make_bundle(tmp_path / "run", whole, records)
    tells_every_number(sealed(bundle), pdf=fixture is not sampled)
    k = tally_plan(whole, records)["e"].counts
    told = {s["label"]: s["count"] for s in json.loads(FORMATS["json"](view_of(bundle)))["evaluations"][0]["bar"]}
    for label, count in (("proved", k.certified), ("attack unfinished", k.open), ("broken", k.broken_any_access)):
        assert told.get(label, 0) == (0 if isinstance(whole.subjects[0], Shift) else count)


def test_the_repeats_stand_beside_their_union(tmp_path: Path) -> None:
    """Each repeat alone breaks u3 and one more: 4 of 6 stand; the union breaks four."""
    whole, records = thrice()
    view = view_of(sealed(make_bundle(tmp_path / "run", whole, records)))
    says = "Each of 3 repeats alone: survival 66.7 %; the number above is their union."
    for ending in ("html", "md"):
        assert says in FORMATS[ending](view).decode()
    assert dict(view.evaluations[0].overview)["survival"] == "33.3 %"


def test_the_population_of_an_interval_is_named(tmp_path: Path) -> None:
    whole, records = sampled()
    text = FORMATS["md"](view_of(sealed(make_bundle(tmp_path / "run", whole, records)))).decode()
    assert "in the population (drawn by lot from all letters of 2026) it lies in [17.6 %, 60.1 %] of 1000" in text
    assert "of the rest (drawn by lot from all letters of 2026)" in text
    whole, records = fog()
    text = FORMATS["md"](view_of(sealed(make_bundle(tmp_path / "fog", whole, records)))).decode()
    assert "a Wilson interval at 95 % for the population (none is named: as if" in text
    assert "The interval would hold for a population that they were drawn from; the spec names none." in text


def test_no_average_of_attacks_is_told(tmp_path: Path) -> None:
    """a breaks three of eight and b one: 3/8, 1/8, and nowhere the 1/4 or 3/4 between them."""
    rows = Rows()
    for i in range(8):
        rows.clean(f"u{i}").attack(f"u{i}", "a", "broken" if i < 3 else "none")
        rows.attack(f"u{i}", "b", "broken" if i == 7 else "none")
    whole = plan([evaluation(attack("a"), attack("b"), attribution="full")], [threat()])
    view = view_of(make_bundle(tmp_path / "run", whole, rows.all))
    for ending in ("html", "md", "json"):
        told = FORMATS[ending](view).decode()
        assert "37.5 %" in told
        assert not re.search(
            r"\b(25|75) %|\b0\.[27]5\b", re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", told, flags=re.S)
        )


def needs_pdf() -> None:
    pytest.importorskip("weasyprint", reason="the extra pdf is not installed", exc_type=(ImportError, OSError))
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext (poppler-utils) is not installed")


def pdf_text(path: Path) -> str:
    made = subprocess.run(["pdftotext", str(path), "-"], capture_output=True, text=True, check=True)
    return "".join(made.stdout.split())


def test_equal_bundles_print_equal_bytes(tmp_path: Path) -> None:
    needs_pdf()
    bundle = make_bundle(tmp_path / "run", *worked())
    (path,) = write_beside([bundle], tmp_path / "out", ("pdf",))
    assert path.read_bytes() == FORMATS["pdf"](view_of(bundle))


def hostile(path: Path) -> Bundle:
    """A hostile text as claim, doc comment, warning, unit, message, class, file of data and of a network, source of the
    labels, library and module."""
    claim = Claim(HOSTILE, Measured("survival", "e"), ">=", Fraction(1))
    whole = plan([evaluation(attack(), doc=HOSTILE)], [threat(doc=HOSTILE)], claims=(claim,))
    whole = replace(whole, warnings=(("TM999", HOSTILE),))
    (model,), (data,), file = whole.models, whole.data, Artifact(HOSTILE, "ab" * 32)
    model = replace(model, classes=("0", HOSTILE, HOSTILE), network=Network("onnx", source=file))
    data = replace(data, file=file, truth=Truth("published", HOSTILE), sampling=HOSTILE)
    module = Module(HOSTILE, "ab" * 32)
    whole = replace(whole, models=(model,), data=(data,), modules=(module,))
    rows = Rows().clean(HOSTILE).attack(HOSTILE, outcome="error", message=HOSTILE).clean("u").attack("u", "a", "broken")
    bundle = make_bundle(path, whole, rows.all)
    bundle.add_text("spec/main.tm", HOSTILE)
    run = bundle.json("run.json")
    bundle.add_json("run.json", run | {"artifacts": {HOSTILE: HOSTILE}, "libraries": {HOSTILE: HOSTILE}})
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
    assert data["evaluations"][0]["failures"][0]["decision"] == HOSTILE
    assert html.count("alert(1)") > 15
    assert text.count("alert(1)") > 15


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


@pytest.mark.parametrize(
    ("per", "repeats", "said"), [("example", 2, True), ("example", 1, False), ("attack", 2, False)]
)
def test_repeats_that_share_their_queries_say_so(tmp_path: Path, per: str, repeats: int, said: bool) -> None:
    rows = Rows().clean("u")
    for repeat in range(repeats):
        rows.attack("u", repeat=repeat)
    access = Access("white_box", queries=100, queries_per=per)
    whole = plan([evaluation(attack(), repeats=repeats)], [threat(access=access)])
    (view,) = view_of(make_bundle(tmp_path / "run", whole, rows.all)).evaluations
    assert any("share the queries" in line for line in view.limits) == said
