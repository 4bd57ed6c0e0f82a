"""What is said where searches use less than a threat grants: by the table of LANGUAGE.md section 6, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from audit_support import Rows, attack, certifier, evaluation, make_bundle, plan, solver, threat

from tmlang.audit.granted import unused_grant
from tmlang.audit.tally import tally_plan
from tmlang.meaning.threats import Access, Success
from tmlang.meaning.values import Call
from tmlang.report.numbers import headline
from tmlang.report.terminal import result_lines
from tmlang.report.view import view_of
from tmlang.report.write import FORMATS

REPLAY = {"backend": "native", "method": "replay", "access": "nothing"}
DECISIONS = attack("d", method="decision_search", access="decisions")
SCORES = attack("s", method="square", access="scores")


@pytest.mark.parametrize(
    ("stages", "granted", "says"),
    [
        ((attack("r", **REPLAY),), "white_box", "(r); no search used the white box that t grants"),
        ((attack("r", **REPLAY), certifier()), "decisions", "no search used the decisions that t grants"),
        ((DECISIONS,), "white_box", "by d used decisions alone; no search used the white box that t grants"),
        ((DECISIONS,), "scores", "no search used the scores that t grants"),
        ((attack("r", **REPLAY), SCORES), "white_box", "by r and s used scores alone"),
        ((SCORES, attack()), "white_box", ""),
        ((DECISIONS,), "decisions", ""),
        ((DECISIONS, solver()), "white_box", ""),
        ((certifier(),), "white_box", ""),
        ((attack(access="transfer"),), "transfer", ""),
    ],
)
def test_the_access_that_no_search_used(stages, granted, says) -> None:
    found = unused_grant(evaluation(*stages), threat(access=Access(granted)))
    assert says in found
    assert bool(found) == bool(says)


def test_single_draws_of_a_random_object() -> None:
    random = threat(access=Access("scores"), success=Success("single_draw", draws=5))
    assert (
        unused_grant(evaluation(SCORES), random)
        == "The search by s saw single draws of a random object, and averaged over none."
    )
    averaged = replace(SCORES, through=Call(("expectation",)))
    assert unused_grant(evaluation(averaged), random) == ""


def test_it_stands_in_the_headline_of_every_page(tmp_path) -> None:
    whole = plan([evaluation(DECISIONS)], [threat()])
    rows = Rows().clean("u").attack("u", "d").all
    said = headline(tally_plan(whole, rows)["e"])[-1]
    assert "no search used the white box" in said
    view = view_of(make_bundle(tmp_path / "run", whole, rows))
    assert said in view.evaluations[0].headline
    assert said in FORMATS["md"](view).decode().replace("\\", "")
    assert said in FORMATS["html"](view).decode()
    assert any(said in line for line in result_lines(tally_plan(whole, rows), ()))
