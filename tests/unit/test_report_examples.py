"""The table of examples: the fates of the worked example, the records behind each, and what leaves the count."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction

from audit_support import Rows, attack, certifier, evaluation, make_bundle, plan, threat, worked_example

from tmlang.audit.bundle import Bundle
from tmlang.audit.record import REJECTED
from tmlang.audit.tally import tally_plan
from tmlang.meaning.threats import Goal, Shift
from tmlang.meaning.values import Call
from tmlang.report.examples import COUNTED, FATES
from tmlang.report.page import page
from tmlang.report.view import view_of

WORKED = plan([evaluation(attack(), certifier())], [threat()])


def shown(path, whole, records):
    return view_of(make_bundle(path, whole, records)).evaluations[0].examples


def test_the_fates_of_the_worked_example(tmp_path):
    """EVIDENCE.md section 2: cc 80, cw 12, cr 6, cu 2, W 30, I 10, c 20, so 20 stand unbroken and unproved."""
    rows = shown(tmp_path / "run", WORKED, worked_example())
    assert Counter(x.fate for x in rows) == {
        "broken": 30, "open": 10, "standing": 20, "proved": 20, "wrong": 12, "rejected": 6, "unknown": 2
    }  # fmt: skip
    assert [x.unit for x in rows] == [f"u{i:03d}" for i in range(100)]


def test_each_number_leads_to_the_units_at_its_end(tmp_path):
    records = worked_example()
    fates = Counter(x.fate for x in shown(tmp_path / "run", WORKED, records))
    columns = tally_plan(WORKED, records)["e"]
    for name, counted in COUNTED.items():
        column = columns.get(name)
        if column is not None:
            end = column.low if name == "certified" else column.high
            assert sum(fates[f] for f in counted) == end * column.denominator, name


def test_a_witness_beyond_the_access_breaks_r_and_not_survival(tmp_path):
    rows = Rows().clean("u").attack("u", "a", "broken", within_access=False).clean("v").attack("v", "a", "broken")
    found = shown(tmp_path / "run", plan([evaluation(attack())], [threat()]), rows.all)
    assert [x.fate for x in found] == ["beyond", "broken"]
    assert "beyond" in COUNTED["survival"]
    assert "beyond" not in COUNTED["upper"]


def test_pairs_of_any_target_are_one_example(tmp_path):
    rows = Rows()
    rows.clean("u->1", target=1).attack("u->1").clean("u->2", target=2).attack("u->2", "a", "broken")
    rows.clean("v->1", target=1, label=-1)
    whole = plan([evaluation(attack())], [threat(goal=Goal("each", each="any"))])
    found = shown(tmp_path / "run", whole, rows.all)
    assert [(x.unit, x.fate, len(x.steps)) for x in found] == [("u", "broken", 4), ("v", "left", 1)]


def test_steps_name_the_row_that_holds_them(tmp_path):
    rows = Rows().clean("u").attack("u", outcome="broken", queries=7, seconds=0.5, linf=0.125)
    bundle = make_bundle(tmp_path / "run", plan([evaluation(attack())], [threat()]), rows.all[:1])
    bundle.write_records(rows.all[1:])
    (example,) = view_of(bundle).evaluations[0].examples
    assert [s.place for s in example.steps] == ["records/000001.parquet#0", "records/000002.parquet#0"]
    assert (example.found_by, example.decision, example.queries, example.distance) == ("a", "1", 7, 0.125)
    places = dict(Bundle.open(tmp_path / "run", sealed=False).placed_records())
    assert [places[s.place].stage for s in example.steps] == ["clean", "a"]


def test_a_shift_counts_what_is_right_after_it(tmp_path):
    shift = Shift("t", "net", "test", (Call(("std", "fog")),), "wilson", Fraction(95, 100))
    stage = attack("s", role="corrupt")
    rows = Rows()
    for unit, decision in (("u", 0), ("v", 1), ("x", REJECTED)):
        rows.clean(unit).attack(unit, "s", "valid", decision=decision)
    rows.clean("w")
    found = shown(tmp_path / "run", plan([evaluation(stage)], [shift]), rows.all)
    assert [x.fate for x in found] == ["right", "fallen", "turned", "missing"]
    assert [x.decision for x in found] == ["0", "1", "rejected", ""]
    assert [x.steps[1].outcome for x in found[:3]] == [
        "right after the change", "wrong after the change", "rejected after the change",
    ]  # fmt: skip


def test_the_page_embeds_them_without_power_over_it(tmp_path):
    hostile = "</script><script>alert(1)</script><!--"
    rows = Rows().clean(hostile).attack(hostile, outcome="error", message=hostile)
    html = page(view_of(make_bundle(tmp_path / "run", plan([evaluation(attack())], [threat()]), rows.all)))
    assert html.count("<script") == html.count("</script") == 2
    data = json.loads(re.search(r'id="examples-data">(.*?)</script>', html, re.S).group(1))
    assert data["words"][data["evaluations"][0]["rows"][0][0]] == hostile
    assert data["fates"] == FATES
