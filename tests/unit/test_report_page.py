"""The report: the numbers of the records, nothing that leaves the page, no word that a search cannot carry."""

from __future__ import annotations

import base64
import io
import re
import sys
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from audit_support import (
    BROKEN,
    Rows,
    attack,
    certifier,
    evaluation,
    make_bundle,
    plan,
    run_of,
    sealed,
    solver,
    threat,
    worked_example,
)
from PIL import Image

from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import judge_plan
from tmlang.audit.tally import tally_plan
from tmlang.cli.main import main
from tmlang.diagnostics.stop import Stop
from tmlang.meaning.evaluations import Claim, Measured, Parameter
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Ball, Goal, Mutable, Property, Rejected, Shift
from tmlang.meaning.values import Call, Symbol
from tmlang.report.failures import Pictures
from tmlang.report.ink import picture_uris, survival_plot
from tmlang.report.markdown import markdown
from tmlang.report.page import page
from tmlang.report.terminal import result_lines
from tmlang.report.view import view_of
from tmlang.report.write import write_into

CLAIMS = (
    Claim("stands", Measured("survival", "e"), ">=", Fraction(1, 2)),
    Claim("proved", Measured("certified", "e"), ">=", Fraction(1, 5)),
    Claim("falls", Measured("survival", "e"), ">=", Fraction(9, 10)),
)
WORKED = plan([evaluation(attack(), certifier())], [threat()], claims=CLAIMS)


def candidates(records):
    return [
        replace(r, candidate="candidates/000001.safetensors#0", **BROKEN) if r.observed_failure else r for r in records
    ]


def show(path, whole, records, **arrays):
    return view_of(make_bundle(path, whole, candidates(records), **arrays))


class Page(HTMLParser):
    """What a page is made of; raises where tags do not nest."""

    VOID = frozenset({"meta", "br", "img", "input"})

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.texts, self.ids, self.links = [], [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["script"], ["style"]):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def test_the_worked_example_on_the_page(tmp_path):
    view = show(tmp_path / "run", WORKED, worked_example())
    text = Page(page(view)).text
    assert "R in [20 %, 52 %]" in text
    assert "3 claims: 1 supported, 1 refuted, 1 undecided." in text
    for line in (
        "20 of 100 examples are proved: no allowed input makes the object fail.",
        "30 examples are broken: an allowed input that fails was found and replayed.",
        "20 examples are not broken by this search, and no proof covers them: nobody knows.",
        "10 examples are undecided because an attack did not finish.",
        "Before any change, 12 wrong and 6 rejected: counted as failures.",
        "2 examples are without a clean decision (the object raises an exception).",
    ):
        assert line in text
        assert line in markdown(view)
    assert [(s.label, s.count) for s in view.evaluations[0].bar] == [
        ("proved", 20),
        ("not broken, not proved", 20),
        ("attack unfinished", 10),
        ("broken", 30),
        ("clean decision unknown", 2),
        ("wrong before any change", 12),
        ("rejected before any change", 6),
    ]


def test_page_markdown_and_terminal_say_the_same_numbers(tmp_path):
    records = candidates(worked_example())
    view = view_of(make_bundle(tmp_path / "run", WORKED, records))
    html, text = Page(page(view)).text, markdown(view)
    terminal = "\n".join(result_lines(tally_plan(WORKED, records), judge_plan(WORKED, records)))
    for value in ("[80 %, 82 %]", "[40 %, 52 %]", "[20 %, 52 %]", "88 %", "20 %"):
        assert value in html
        assert value in text
        assert value in terminal
    assert "survival(e) ≥ 90 %" in terminal


@pytest.mark.parametrize("width", [30, 44, 79, 200])
def test_nothing_is_wider_than_the_terminal_and_no_number_is_lost(width):
    records = worked_example()
    columns, judged = tally_plan(WORKED, records), judge_plan(WORKED, records)
    wide = list(result_lines(columns, judged))
    lines = list(result_lines(columns, judged, width=width))
    assert max(map(len, lines)) <= width
    assert any(line.startswith("   clean accuracy") for line in lines) == (width == 200)
    numbers = re.compile(r"\d+(?:\.\d+)?")
    assert sorted(numbers.findall(" ".join(lines))) == sorted(numbers.findall(" ".join(wide)))
    assert list(result_lines(columns, judged, width=None)) == wide


def test_a_search_alone_is_never_called_more_than_it_is(tmp_path):
    rows = Rows().clean("u").attack("u", "a").attack("u", "b").clean("v").attack("v", "a", "broken").attack("v", "b")
    whole = plan([evaluation(attack("a"), attack("b"))], [threat()])
    view = show(tmp_path / "run", whole, rows.all)
    for text in (page(view), markdown(view), "\n".join(result_lines(tally_plan(whole, rows.all), ()))):
        assert "robust" not in text.lower()
    text = Page(page(view)).text
    assert "R in [—, 50 %] no certificate ran: nothing bounds R from below" in text
    assert "which proves nothing about other searches" in text
    assert "No certificate ran, so nothing bounds R from below." in text
    overview = markdown(view).split("## Overview")[1].split("##")[0]
    assert "certified |" not in overview.replace("R in [certified, not broken]", "")


def test_a_dash_and_never_zero_where_nothing_measured(tmp_path):
    e, f = evaluation(attack(), certifier()), evaluation(attack(), name="f")
    proved = Rows("e").clean("u").attack("u").proof("u", gap=None, gap_kind="none")
    view = show(tmp_path / "run", plan([e, f], [threat()]), proved.all + Rows("f").clean("u").attack("u").all)
    table = markdown(view).split("## Overview")[1].split("##")[0]
    assert "| e | 100 % | 100 % | 100 % (real arithmetic) | 100 % | 100 % | 100 % (real arithmetic) |" in table
    assert "| f | 100 % | 100 % | — | 100 % | — | [—, 100 %] |" in table


HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">](javascript:alert(3)) | `code'


def test_texts_of_a_spec_and_of_records_have_no_power_over_the_page(tmp_path):
    claim = Claim(HOSTILE, Measured("survival", "e"), ">=", Fraction(1))
    t = threat(doc=HOSTILE)
    whole = plan([evaluation(attack(), doc=HOSTILE)], [t], claims=(claim,), warnings=(("TM999", HOSTILE),))
    rows = Rows().clean(HOSTILE).attack(HOSTILE, outcome="broken")
    bundle = make_bundle(tmp_path / "run", whole, candidates(rows.all))
    bundle.add_text("spec/main.tm", HOSTILE)
    view = view_of(bundle)
    parsed = Page(page(view))
    data, script = [attrs for tag, attrs in parsed.tags if tag == "script"]
    assert data == {"type": "application/json", "id": "examples-data"}
    assert script == {}
    assert not [attrs for _, attrs in parsed.tags if any(name.startswith("on") for name in attrs)]
    assert "alert(1)" in parsed.text
    assert "<script" not in markdown(view)
    assert "](javascript" not in markdown(view)


def test_the_page_needs_nothing_but_itself(tmp_path):
    html = page(show(tmp_path / "run", WORKED, worked_example()))
    parsed = Page(html)
    assert all(link.startswith("#") for link in parsed.links)
    sources = [attrs["src"] for _, attrs in parsed.tags if "src" in attrs]
    assert sources
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.search(r"url\(|@import|https?://", html)
    policy = next(
        attrs["content"] for tag, attrs in parsed.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    script = re.search(r"<script>(.*?)</script>", html, re.S).group(1)
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


def test_the_page_can_be_read_without_eyes(tmp_path):
    parsed = Page(page(show(tmp_path / "run", WORKED, worked_example())))
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link[1:] for link in parsed.links} <= set(parsed.ids)
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert all(attrs.get("alt") for tag, attrs in parsed.tags if tag == "img")
    assert all(attrs.get("scope") for tag, attrs in parsed.tags if tag == "th")
    assert next(attrs for tag, attrs in parsed.tags if tag == "html") == {"lang": "en"}
    bar = next(attrs for _, attrs in parsed.tags if attrs.get("class") == "bar")
    assert bar["role"] == "img"
    assert "30 broken" in bar["aria-label"]


def test_equal_bundles_give_equal_bytes(tmp_path):
    first = page(show(tmp_path / "one", WORKED, worked_example()))
    assert first == page(show(tmp_path / "two", WORKED, worked_example()))
    points = [("", 1.0, 1.0), ("a", 0.4, 0.5)]
    assert survival_plot(points, 0.2) == survival_plot(points, 0.2)


def png(uri):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).convert("RGB")).astype(int)


def test_pictures_show_the_stored_values(tmp_path):
    original = np.zeros((1, 1, 8, 8), np.float32)
    changed = original.copy()
    changed[0, 0, 0, 0], changed[0, 0, 7, 7] = 0.125, 0.0625
    rows = Rows().clean("u").attack("u", outcome="broken")
    whole = plan([evaluation(attack())], [threat()])
    view = show(tmp_path / "run", whole, rows.all, candidates=changed, originals=original)
    shown = view.evaluations[0].failures[0].pictures
    assert shown.reach == "0.125"
    first, second, change = (png(uri) for uri in picture_uris(shown))
    assert first.max() == 0
    assert second[0, 0].tolist() == [round(0.125 * 255)] * 3
    assert second[7, 7].tolist() == [round(0.0625 * 255)] * 3
    assert change[3, 3].tolist() == [255, 255, 255]
    red, green, blue = change[0, 0]
    assert red > green
    assert red > blue
    assert change[7, 7].sum() > change[0, 0].sum()


def test_colour_pictures_put_red_first():
    values = np.zeros((2, 2, 3))
    values[0, 0] = (1.0, 0.5, 0.0)
    first, _, change = (png(uri) for uri in picture_uris(Pictures(values, values, values, "1")))
    assert first[0, 0].tolist() == pytest.approx([255, 127, 0], abs=1)
    assert change[1, 1].tolist() == pytest.approx([127, 127, 127], abs=1)


def test_a_table_shows_which_feature_moved(tmp_path):
    load = Cell("real", Fraction(0), Fraction(9), unit="kN")
    door = Cell("category", Fraction(0), Fraction(1), Fraction(1), categories=("open", "shut"))
    space = Space("px", (2,), (load, door), "each", features=("load", "door"))
    rows = Rows().clean("u").attack("u", outcome="broken")
    whole = plan([evaluation(attack())], [threat(allow=None, minimize=("l1", "px"), mutable=Mutable("all"))])
    whole = replace(whole, spaces=(space,))
    arrays = {"originals": np.array([[1.5, 0]], np.float32), "candidates": np.array([[1.25, 1]], np.float32)}
    view = show(tmp_path / "run", whole, rows.all, **arrays)
    assert [(c.feature, c.before, c.after, c.change) for c in view.evaluations[0].failures[0].changes] == [
        ("load", "1.5 kN", "1.25 kN", "−0.25 kN"),
        ("door", "open", "shut", "—"),
    ]
    assert "load: 1.5 kN → 1.25 kN" in Page(page(view)).text
    assert "median distance" in Page(page(view)).text


def test_a_contradiction_stands_in_front_of_everything(tmp_path):
    rows = Rows().clean("u").attack("u", outcome="broken").proof("u")
    view = show(tmp_path / "run", plan([evaluation(attack(), certifier())], [threat()]), rows.all)
    html = page(view)
    assert html.index("is void") < html.index('id="overview"')
    assert 'role="alert"' in html
    assert "Every certificate of auto_lirpa.crown in this run is void." in markdown(view)


def test_stages_say_what_they_cover_and_what_they_broke_first(tmp_path):
    stages = [attack("a"), attack("b", lowering="inner", reasons=("it moves whole pixels",)), certifier()]
    rows = Rows()
    rows.clean("u").attack("u", "a", "broken").attack("u", "b", "broken")
    rows.clean("v").attack("v", "a").attack("v", "b", "broken").clean("w").attack("w", "a", "error").attack("w", "b")
    rows.proof("w")
    e = evaluation(*stages, attribution="full", repeats=1)
    view = show(tmp_path / "run", plan([e], [threat()]), rows.all).evaluations[0]
    a, b, c = view.stages
    assert (a.fresh, b.fresh, c.proved, a.failed) == (1, 1, 1, (("error", 1),))
    assert (b.covers, b.reasons) == ("set searched: smaller, a part of the allowed set", ("it moves whole pixels",))
    assert (a.covers, c.covers) == ("set searched: exact", "sound; set: larger, it holds the allowed set")
    assert [p.label for p in view.order] == ["", "a", "b"]
    assert [p.high for p in view.order] == [1.0, pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert "b searched a part of the allowed set only." in view.limits
    assert {label: n.value for label, n in view.attacks}["b"] == "66.7 %"


def test_sweeps_show_both_curves(tmp_path):
    radii = (Fraction(1, 8), Fraction(1, 4))
    threats = [threat(name=f"t{i}", allow=Ball("linf", "px", r)) for i, r in enumerate(radii)]
    points = [
        evaluation(attack(), name=f"e@r={r}", subject=t.name, at=(("r", r),))
        for r, t in zip(radii, threats, strict=True)
    ]
    rows = Rows("e@r=1/8").clean("u").attack("u", outcome="broken").all + Rows("e@r=1/4").clean("u").attack("u").all
    view = show(tmp_path / "run", plan(points, threats), rows)
    assert [(r.value, r.own[0], r.closed[0]) for r in view.sweeps[0].rows] == [
        ("0.125", "0 %", "0 %"),
        ("0.25", "100 %", "0 %"),
    ]
    parsed = Page(page(view))
    assert "sweeps" in parsed.ids
    assert "| 0.25 | 100 % | 0 % | — | — |" in markdown(view)


def test_what_leaves_the_base_is_told(tmp_path):
    rows = Rows().clean("u", label=-1).clean("v", target=0, label=0).clean("w", target=0, label=1).attack("w")
    view = show(tmp_path / "run", plan([evaluation(attack())], [threat(goal=Goal("class", target="0"))]), rows.all)
    assert view.evaluations[0].headline[:2] == (
        "1 of 3 examples have no usable label: left out of every count.",
        "1 of 3 examples show the target already: left out of every count.",
    )


def test_properties_shifts_and_denials_have_their_own_words(tmp_path):
    phi = Property("phi", "net", (), (("0", "<=", Fraction(1)),))
    view = show(
        tmp_path / "phi", plan([evaluation(solver(), subject="phi")], [phi]), Rows().clean("x").proof("x", "s").all
    )
    assert view.evaluations[0].headline == ("The property holds: it was proved for every input that it speaks of.",)
    table = Space("px", (2,), (Cell("real", Fraction(0), Fraction(9), unit="ft"),), features=("rho", "v"))
    rows = Rows().clean("box", "cw")
    rows.all[0] = replace(rows.all[0], status="valid", within_scope=True, observed_failure=True, decision=1)
    whole = replace(plan([evaluation(solver(), subject="phi")], [phi]), spaces=(table,))
    point = np.array([[1.5, 2]], np.float32)
    violated = show(tmp_path / "bad", whole, rows.all, originals=point, candidates=point).evaluations[0]
    assert violated.headline == ("The property is violated: an input was found and replayed.",)
    assert [c.text for c in violated.failures[0].changes] == ["rho: 1.5 ft", "v: 2 ft"]
    assert violated.failures[0].decision == "violated"
    fog = Shift("t", "net", "test", (Call(("imagecorruptions", "fog")),), "wilson", Fraction(95, 100))
    severity = (("severity", Symbol("high")),)
    stage = attack("fog", role="corrupt", evidence="estimate", backend="imagecorruptions", arguments=severity)
    rows = Rows().clean("u").attack("u", "fog", "valid", decision=0).clean("v").attack("v", "fog", "valid", decision=1)
    shifted = show(tmp_path / "fog", plan([evaluation(stage)], [fog]), rows.all).evaluations[0]
    assert shifted.headline == (
        "50 % of 2 changed inputs are decided rightly (interval [9.5 %, 90.5 %]).",
        "This is an average, and no worst case.",
    )
    assert (shifted.done, shifted.stages[0].fresh, shifted.bounds.text) == ("What was changed", None, "")
    assert dict(shifted.overview)["survival"] == "—"
    assert dict(shifted.overview)["corrupted_accuracy"] == "50 %, interval [9.5 %, 90.5 %]"
    assert any("tuned for pictures of 224 by 224 pixels" in line for line in shifted.limits)
    denied = threat(rejected=Rejected("denied"))
    rows = Rows().clean("u").attack("u", outcome="denied")
    numbers = show(tmp_path / "deny", plan([evaluation(attack())], [denied]), rows.all).evaluations[0].numbers
    assert next(n.value for n in numbers if n.name == "denied") == "at least 100 %"


def test_set_leaves_claims_unjudged(tmp_path):
    whole = replace(WORKED, parameters=(Parameter("eps", Fraction(1, 2), changed=True),))
    view = show(tmp_path / "run", whole, worked_example())
    assert {c.status for c in view.claims} == {"not_evaluated"}
    assert "3 not evaluated" in markdown(view)


def test_the_report_is_part_of_the_seal_and_can_be_made_again(tmp_path, capsys):
    bundle = make_bundle(tmp_path / "run", WORKED, candidates(worked_example()))
    write_into(bundle)
    sealed(bundle)
    again = Bundle.open(bundle.path)
    assert {"report.html", "report.md"} <= set(again.files())
    assert main(["report", str(bundle.path), "--out", str(tmp_path / "out")]) == 0
    assert "report.html" in capsys.readouterr().out
    assert (tmp_path / "out/report.html").read_text() == again.text("report.html")
    assert (tmp_path / "out/report.md").read_text() == again.text("report.md")


def test_a_page_is_written_without_drawing_libraries(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    bundle = make_bundle(tmp_path / "run", WORKED, candidates(worked_example()))
    write_into(bundle)
    assert "report.html" in set(bundle.files())


def test_without_the_extra_there_is_the_text_and_a_word_about_the_page(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "tmlang.report.page", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    bundle = make_bundle(tmp_path / "run", WORKED, candidates(worked_example()))
    with pytest.raises(Stop) as stopped:
        write_into(bundle)
    assert stopped.value.diagnostics[0].code == "TM510"
    assert "tmlang[report]" in (stopped.value.diagnostics[0].help or "")
    assert [n for n in bundle.files() if n.startswith("report")] == ["report.md"]


@pytest.mark.parametrize(
    ("lock", "said"), [(None, "not frozen before the run"), ("ab" * 32, "by the lock " + "ab" * 32)]
)
def test_the_report_says_whether_the_protocol_was_frozen(tmp_path, lock, said):
    rows = candidates(worked_example())
    bundle = make_bundle(tmp_path / "run", WORKED, rows)
    bundle.add_json("run.json", run_of(WORKED, rows) | {"lock": lock})
    assert said in markdown(view_of(sealed(bundle)))
