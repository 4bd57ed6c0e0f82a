"""What is said of an enumeration that leaves boxes out: that bounds prove these, and that the rest is tried."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from backend_support import Case, certify, model, threat, unit_box
from torch import nn

from tmlang.audit.bundle import Bundle
from tmlang.audit.verify import audit
from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, run
from tmlang.meaning.spaces import Cell
from tmlang.plan.ir import Plan
from tmlang.plan.show import plan_text
from tmlang.report.protocol import protocol
from tmlang.report.stages import stage_views

SPEC = """tm 1
space inputs: tensor(2) of real[0, 1] step 1/64 stored as float32
model net: inputs -> {a, b} {
  network:  linear(weights: ((1, 1), (0, 0)), bias: (-1/2, 0))
  decide:   argmax ties lowest
  random:   never
}
data test: inputs {
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}
threat near on net over test {
  allow:         linf <= 1/4 in inputs
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}
evaluate e of near { enumerate: c = %s  seed: 0 }
"""


def planned(folder: Path, call: str) -> Plan:
    path = folder / "spec.tm"
    path.write_text(SPEC % call)
    np.savez(folder / "test.npz", x=np.full((1, 2), 0.75, np.float32), y=np.zeros(1, np.int64))
    front = read_spec(str(path), {})
    assert front.plan is not None, front.diagnostics
    return front.plan


def said(plan: Plan) -> tuple[str, str, str]:
    """By the plan, by the report's table of stages, and by its paragraph."""
    (evaluation,) = plan.evaluations
    (view,) = stage_views(evaluation, [], {}, breaks=True)
    return plan_text(plan), view.does, protocol(plan, evaluation, {"libraries": {}, "models": {}, "tmlang": "0"})


def test_plain_enumeration_tries_every_allowed_input(tmp_path: Path) -> None:
    plan, table, paragraph = said(planned(tmp_path, "native.enumerate(at_most: 10000)"))
    assert "native.enumerate as enumeration  (" in plan
    assert table == "tries every allowed input"
    assert "decided by trying every allowed input with `native.enumerate`" in paragraph


@pytest.mark.parametrize(("rounding", "evidence"), [("proved", "complete"), ("assumed", "bound")])
def test_one_that_prunes_says_so_and_is_complete_only_where_its_boxes_are(
    tmp_path: Path, rounding: str, evidence: str
) -> None:
    made = planned(tmp_path, f"auto_lirpa.enumerate(rounding: {rounding})")
    plan, table, paragraph = said(made)
    assert "auto_lirpa.enumerate as bounds on boxes of inputs, and enumeration of the rest  (" in plan
    assert f"rounding = {rounding}" in plan
    assert table == "proves boxes of inputs by bounds, and tries every input of the rest"
    words = "decided by bounds on boxes of inputs, and by trying every input of the rest, with `auto_lirpa.enumerate`"
    assert words in paragraph
    assert not any("every allowed input" in text for text in (plan, table, paragraph))
    assert made.evaluations[0].stages[0].evidence == evidence


@pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")
def test_a_record_says_what_its_verdict_rests_on() -> None:
    """``a + b > 1/2`` on 33 by 33 inputs about (3/4, 3/4), and about (1/2, 1/2), whose corner (1/4, 1/4) is a tie."""
    network = nn.Linear(2, 2)
    network.load_state_dict({"weight": torch.tensor([[1.0, 1.0], [0.0, 0.0]]), "bias": torch.tensor([-0.5, 0.0])})
    space = unit_box(2, cells=(Cell("lattice", Fraction(0), Fraction(1), Fraction(1, 64)),))
    case = Case(network, space, model(2), np.array([[0.75, 0.75], [0.5, 0.5]], np.float32), [0, 0])
    job = case.job(replace(threat(radius="1/4")))
    found = certify("auto_lirpa.enumerate", case, job)
    assert found.verdict == ("certified", "certified")
    whole, parts = found.messages
    assert whole == "1 box proved by bounds, 0 inputs tried"
    assert parts is not None
    boxes, tried = (int(word) for word in parts.split() if word.isdigit())
    assert boxes > 1
    assert 1 <= tried <= 64, "the corner's box alone is tried"
    # By how much the corner does not fail, 0, is less than any bound could have proved.
    assert found.margin[0] > 0
    assert found.margin[1].isnan()


@pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")
@pytest.mark.parametrize("rounding", ["assumed", "proved"])
def test_a_row_has_a_margin_only_where_bounds_proved_all(tmp_path: Path, rounding: str) -> None:
    plan = planned(tmp_path, f"auto_lirpa.enumerate(rounding: {rounding})")
    np.savez(tmp_path / "test.npz", x=np.array([[0.75, 0.75], [0.5, 0.5]], np.float32), y=np.zeros(2, np.int64))
    run(plan, RunOptions(out=tmp_path / "out"))
    whole, parts = (row for row in Bundle.open(tmp_path / "out").records() if row.verdict is not None)
    assert (whole.verdict, parts.verdict) == ("certified", "certified")
    assert (whole.gap_kind, parts.gap_kind) == (rounding, rounding)
    assert whole.margin is not None
    assert whole.margin > whole.gap > 0  # type: ignore[operator]
    assert parts.margin is None
    assert not audit(tmp_path / "out").faults
