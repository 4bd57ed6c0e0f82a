"""Networks that answer NaN or an infinity: what that counts as, in rows, numbers, claims and audits.

The numbers are worked by hand. Four originals, the corners of the unit square, all decided rightly; every other input
of their sets gives no number. So under ``error`` each is unfinished ([0, 100] % survive, none is covered), under
``fail``, and under ``reject`` with ``rejected: fail``, each is broken (0 %), and under ``rejected: denied`` each is
denied and none broken.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import tmlang as tm
from tmlang.api.auditing import audit
from tmlang.api.evidence import Evidence
from tmlang.audit.bundle import Bundle
from tmlang.audit.record import UNDECIDED, Record
from tmlang.audit.tally import tally_plan
from tmlang.execute.replay import replay_all, world_of

NETS = '''
import torch
from torch import nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 2)
        with torch.no_grad():
            self.l.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
            self.l.bias.copy_(torch.tensor([-0.5, 0.0]))
    def forward(self, x):
        return self.l(x)
    def off(self, x, number):
        there = ((x != 0) & (x != 1)).any(1, keepdim=True)
        return torch.where(there, torch.full((len(x), 2), number), self.l(x))

class NanIn(Base):
    def forward(self, x): return self.off(x, float("nan"))

class InfIn(Base):
    def forward(self, x): return self.off(x, float("inf"))

class MinusInfIn(Base):
    def forward(self, x): return self.off(x, -float("inf"))

class NanSlope(Base):
    """Right everywhere; every gradient is NaN."""
    def forward(self, x): return self.l(x) + 0 * torch.sqrt((x - x).sum(1, keepdim=True))

class Masked(Base):
    """A third class that is never on offer."""
    def forward(self, x):
        return torch.cat([self.l(x), torch.full((len(x), 1), -float("inf"))], 1)

class Corner(Base):
    """NaN where both coordinates are at most 1/8 and not 0: a corner of one set alone."""
    def forward(self, x):
        there = ((x > 0) & (x <= 0.125)).all(1, keepdim=True)
        return torch.where(there, torch.full((len(x), 2), float("nan")), self.l(x))

class Alone(Base):
    """NaN for whoever asks about one input at a time."""
    def forward(self, x): return self.l(x) * (float("nan") if len(x) == 1 else 1.0)

class Clean(Base):
    """One original ties, one is NaN, and one raises."""
    def forward(self, x):
        if len(x) == 1 and bool((x == 0.75).all()):
            raise ValueError("no")
        scores = self.l(x)
        scores = torch.where((x == torch.tensor([0.0, 0.75])).all(1, keepdim=True), torch.zeros(2), scores)
        lost = (x == torch.tensor([0.75, 0.0])).all(1, keepdim=True)
        return torch.where(lost, torch.full((2,), float("nan")), scores)
'''
SPEC = """tm 1
space s: tensor(2) of real[0, 1] {step}stored as float32
model net: s -> {{{classes}}} {{
  network: torch("nets.py:{net}", weights: "w.safetensors")
  decide: {decide}
  random: never
}}
data dat: s {{
  read: npz("d.npz", inputs: "x", labels: "y")
  take: all
  truth: published "by hand"
}}
threat th on net over dat {{
  allow: linf <= {radius} in s
  mutable: all
  goal: {goal}
  access: white_box
  clean_errors: fail
  {rejected}
}}
evaluate ev of th {{
  {stages}
  seed: 1
}}
claim "all survive": survival(ev) >= 100 %
claim "all covered": coverage(ev) == 100 %
"""
SEARCHES = {
    "random": "native.random(draws: 4)",
    "pgd": "native.pgd(steps: 3, restarts: 1)",
    "apgd": "native.apgd(loss: ce, steps: 3)",
    "square": "native.coordinates(restarts: 1, rounds: 2)",
    "one": "native.exhaustive_coordinates(values: 3)",
    "lines": "native.decision_search(steps: 20)",
    "fab": "native.fab(steps: 3)",
}
ATTACKS = "\n  ".join(f"attack: {name} = {call}" for name, call in SEARCHES.items()) + "\n  attribution: full"


def run(folder: Path, net: str, decide: str = "argmax ties lowest", examples: int = 4, **changes: str) -> Evidence:
    folder.mkdir(exist_ok=True)
    (folder / "nets.py").write_text(NETS)
    weights = {"l.weight": np.array([[1, 1], [0, 0]], np.float32), "l.bias": np.array([-0.5, 0], np.float32)}
    save_file(weights, folder / "w.safetensors")
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0.75], [0.75, 0], [0.75, 0.75]], np.float32)
    at = [0, 1, 2, 3] if examples == 4 else [3] * (examples - 3) + [4, 5, 6]
    np.savez(folder / "d.npz", x=x[at], y=np.array([1, 0, 0, 0, 0, 0, 0])[at])
    words = {
        "classes": "a, b",
        "goal": "untargeted",
        "rejected": "",
        "stages": ATTACKS,
        "radius": "1/4",
        "step": "",
    } | changes
    (folder / "n.tm").write_text(SPEC.format(net=net, decide=decide, **words))
    return tm.run(folder / "n.tm", out=folder / "out", trust_code=True)


def faults(folder: Path) -> list[Any]:
    """What an audit finds, and what the model, asked again, does otherwise."""
    world = world_of(Bundle.open(folder / "out"), folder, trust_code=True)
    return [*audit(folder / "out").faults, *replay_all(Bundle.open(folder / "out"), world).faults]


def searched(folder: Path) -> list[Record]:
    return [r for r in Bundle.open(folder / "out").records() if not r.stage.endswith("clean")]


def numbers(folder: Path) -> dict[str, tuple[Fraction, Fraction]]:
    bundle = Bundle.open(folder / "out")
    columns = tally_plan(bundle.plan(), bundle.records())["ev"]
    return {c.name: (c.low, c.high) for c in columns.columns}  # type: ignore[misc]


def statuses(folder: Path) -> list[str]:
    found = Bundle.open(folder / "out").json("columns.json")["claims"]
    return [c["status"] for c in found]


@pytest.mark.parametrize("net", ["NanIn", "InfIn", "MinusInfIn"])
def test_no_native_search_calls_it_survival(tmp_path: Path, net: str) -> None:
    run(tmp_path, net)
    rows = searched(tmp_path)
    assert {r.status for r in rows} == {"error"}
    assert all(r.candidate and r.message == UNDECIDED["non_finite"] for r in rows)
    assert numbers(tmp_path)["survival"] == (0, 1)
    assert numbers(tmp_path)["attack_coverage"] == (0, 0)
    assert statuses(tmp_path) == ["undecided", "refuted"]
    assert faults(tmp_path) == []
    page = (tmp_path / "out" / "report.md").read_text()
    assert "an allowed input has no decision (a score that decides is not finite)" in page
    assert "no decision where the scores are not finite" in page


@pytest.mark.parametrize("rule", ["fail", "reject"])
def test_it_fails_where_the_contract_says_so(tmp_path: Path, rule: str) -> None:
    rejected = "rejected: fail" if rule == "reject" else ""
    stages = ATTACKS if rule == "fail" else "attack: random = native.random(draws: 4)"
    run(tmp_path, "NanIn", f"argmax ties lowest non_finite {rule}", rejected=rejected, stages=stages)
    rows = searched(tmp_path)
    assert {(r.status, r.observed_failure, r.decision) for r in rows} == {
        ("valid", True, -1 if rule == "reject" else None)
    }
    assert numbers(tmp_path)["survival"] == (0, 0)
    assert numbers(tmp_path)["upper"] == (0, 0)
    assert statuses(tmp_path) == ["refuted", "supported"]
    assert faults(tmp_path) == []


def test_a_denial_is_counted_as_one(tmp_path: Path) -> None:
    run(
        tmp_path,
        "NanIn",
        "argmax ties lowest non_finite reject",
        rejected="rejected: denied",
        stages="attack: lines = native.decision_search(steps: 20)",
    )
    assert numbers(tmp_path)["survival"] == (1, 1)
    assert numbers(tmp_path)["denied"][0] == 1
    assert faults(tmp_path) == []


def test_a_target_is_not_reached_by_no_number(tmp_path: Path) -> None:
    """Of the three units with label a, class b is the target: NaN fails for the label, and is no b."""
    stages = "attack: lines = native.decision_search(steps: 20)"
    run(tmp_path, "NanIn", "argmax ties lowest non_finite fail", goal="targeted class b", stages=stages)
    assert not any(r.observed_failure for r in searched(tmp_path))
    assert numbers(tmp_path)["survival"] == (1, 1)
    assert faults(tmp_path) == []


def test_one_corner_is_enough(tmp_path: Path) -> None:
    """Every third of a step is tried: of the four sets only that of (0, 0) reaches into the corner, at most 1/8 far.
    There both scores are numbers up to a + b = 1/2, where the decision turns: within 1/4 nothing fails."""
    stages = "attack: grid = native.random(draws: 200)"
    run(tmp_path, "Corner", stages=stages)
    rows = searched(tmp_path)
    assert [(r.unit, r.status) for r in rows] == [("0", "error"), ("1", "none"), ("2", "none"), ("3", "none")]
    assert numbers(tmp_path)["survival"] == (Fraction(3, 4), 1)
    assert faults(tmp_path) == []


def test_enumeration_keeps_the_input(tmp_path: Path) -> None:
    """At most 3/16 away no sum of coordinates crosses 1/2, and of 16 inputs of (0, 0) four lie in the corner."""
    folder, stages = tmp_path, "enumerate: grid = native.enumerate(at_most: 100)"
    run(folder, "Corner", stages=stages, step="step 1/16 ", radius="3/16")
    rows = {r.unit: r for r in searched(folder)}
    assert (rows["0"].status, rows["0"].verdict, rows["0"].candidate is not None) == ("error", "error", True)
    assert {rows[u].verdict for u in "123"} == {"certified"}
    assert numbers(folder)["certified"][0] == Fraction(3, 4)
    assert faults(folder) == []


def test_a_class_that_is_masked_out_is_decided(tmp_path: Path) -> None:
    """Within 1/4 the sum of the coordinates stays on its side of 1/2, up to the tie at (1/4, 1/4), which is class a."""
    run(tmp_path, "Masked", classes="a, b, c", stages="attack: apgd = native.apgd(loss: dlr, steps: 10)")
    rows = {r.unit: r for r in searched(tmp_path)}
    assert {r.status for r in rows.values()} == {"valid", "none"}
    assert rows["0"].observed_failure
    assert [rows[u].status for u in "123"] == ["none"] * 3
    assert faults(tmp_path) == []


def test_a_slope_that_is_no_number_ends_no_search(tmp_path: Path) -> None:
    run(tmp_path, "NanSlope", stages="attack: pgd = native.pgd(steps: 3, restarts: 2)")
    assert {r.status for r in searched(tmp_path)} <= {"none", "valid"}
    assert numbers(tmp_path)["attack_coverage"] == (1, 1)


def test_whoever_answers_nobody_alone_has_no_clean_decision(tmp_path: Path) -> None:
    """E asks one at a time: nothing is known of any unit."""
    run(tmp_path, "Alone")
    assert searched(tmp_path) == []
    assert numbers(tmp_path)["clean_accuracy"] == (0, 1)
    assert numbers(tmp_path)["survival"] == (0, 1)
    assert faults(tmp_path) == []


def test_a_clean_decision_that_is_unknown_says_why(tmp_path: Path) -> None:
    """The last three of many; the first are asked before the run, where an exception would end it."""
    run(tmp_path, "Clean", "argmax ties error", examples=60, stages="attack: random = native.random(draws: 1)")
    clean = [r for r in Bundle.open(tmp_path / "out").records() if r.stage.endswith("clean")]
    assert [r.clean for r in clean] == [*["cc"] * 57, "cu", "cu", "cu"]
    causes = [UNDECIDED[word] for word in ("tied", "non_finite", "raised")]
    assert [r.message for r in clean] == [*[None] * 57, *causes]
    page = (tmp_path / "out" / "report.md").read_text()
    assert "3 examples are without a clean decision" in page
    for cause in causes:
        assert cause.removeprefix("no decision: ").replace("`", "") in page.replace("`", "")
    assert faults(tmp_path) == []
