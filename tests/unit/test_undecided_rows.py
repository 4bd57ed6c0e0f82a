"""Rows without a decision that somebody made up: each says why in words that fit the model, or is found out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from audit_support import Rows, attack, evaluation, plan, threat

from tmlang.audit.consistency import row_faults
from tmlang.audit.record import UNDECIDED, Record
from tmlang.meaning.models import Decide
from tmlang.meaning.threats import Goal
from tmlang.plan.text import plan_json

CANDIDATE = {"candidate": "candidates/000001.safetensors#0"}


def told(rows: list[Record], non_finite: str = "error", ties: str = "lowest", **changes: Any) -> str:
    made = plan([evaluation(attack())], [threat(**changes)])
    decide = Decide("argmax", ties, non_finite=non_finite)  # type: ignore[arg-type]
    made = replace(made, models=tuple(replace(m, decide=decide) for m in made.models))
    return "\n".join(row_faults(json.loads(plan_json(made)), rows))


def row(status: str, message: str | None, **changes: Any) -> list[Record]:
    facts = {"message": message, "within_scope": True if status == "valid" else None, "within_access": True}
    return Rows().clean("u").attack("u", "a", status, **({**facts, "decision": None} | CANDIDATE | changes)).all


LOST = {"observed_failure": True, "counted_failure": True}


def test_a_failure_without_a_class_follows_from_the_contract_alone() -> None:
    witness = row("valid", UNDECIDED["non_finite_fails"], **LOST)
    assert told(witness, "fail") == ""
    assert "and the model says error" in told(witness, "error")
    assert "told as observed_failure True" in told(row("valid", "so it is", **LOST), "fail")
    quiet = row("valid", UNDECIDED["non_finite_fails"], observed_failure=False, counted_failure=False)
    assert "told as observed_failure False" in told(quiet, "fail")
    assert "is told as an error" in told(row("error", UNDECIDED["non_finite_fails"]), "fail")


def test_it_reaches_no_target() -> None:
    goal = Goal("class", target="1")
    rows = Rows().clean("u", target=1).all
    witness = replace(row("valid", UNDECIDED["non_finite_fails"], **LOST)[1], target=1)
    assert "told as observed_failure True" in told([*rows, witness], "fail", goal=goal)
    decided = replace(witness, observed_failure=False, counted_failure=False)
    assert told([*rows, decided], "fail", goal=goal) == ""


@pytest.mark.parametrize(("word", "rule"), [("non_finite", "fail"), ("non_finite", "reject"), ("tied", "error")])
def test_no_decision_is_what_the_model_calls_so(word: str, rule: str) -> None:
    assert "and the model says" in told(row("error", UNDECIDED[word]), rule)
    assert told(row("error", UNDECIDED[word]), "error", "error") == ""


def test_a_decision_is_not_told_beside_the_reason_why_there_is_none() -> None:
    found = told(row("valid", UNDECIDED["non_finite"], decision=0, observed_failure=False, counted_failure=False))
    assert "decision 0, and the message says" in found


@pytest.mark.parametrize("message", [None, "no idea"])
def test_an_unknown_clean_decision_says_why(message: str | None) -> None:
    assert "does not say why" in told(Rows().clean("u", "cu", message=message).all)


def test_a_clean_answer_without_a_class_is_wrong_and_not_unknown() -> None:
    lost = UNDECIDED["non_finite_fails"]
    assert "it is called cu" in told(Rows().clean("u", "cu", message=lost).all, "fail")
    assert told(Rows().clean("u", "cw", message=lost, clean_decision=None, counted_failure=True).all, "fail") == ""
