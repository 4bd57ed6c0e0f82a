"""Margins at originals and at kept candidates: measured as by hand, audited, and drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from audit_support import BROKEN, Rows, attack, certifier, evaluation, forged, make_bundle, plan, threat
from backend_support import model
from execute_support import THREE, Runs, data, moved, stage
from execute_support import plan as small_plan

from tmlang.audit.bundle import Bundle
from tmlang.audit.verify import audit
from tmlang.backends.decision import Decision
from tmlang.execute.replay import replay_all, world_of
from tmlang.meaning.models import Decide
from tmlang.meaning.threats import Goal
from tmlang.report.figures import draw
from tmlang.report.figures.attacked import measured_margins
from tmlang.report.figures.proofs import margins
from tmlang.report.figures.style import bins
from tmlang.report.material import Material, materials
from tmlang.report.view import view_of

# The scores of (a, b) are a, b and 1/2; the second is decided as "a" and called "b".
X, LABELS = [[0.75, 0.25], [0.625, 0.25], [0.5, 0.4375]], [0, 1, 0]


def material(path: Path, whole: Any, records: list[Any]) -> Material:
    bundle = make_bundle(path, whole, records)
    return next(materials(bundle, view_of(bundle)))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runs = Runs(tmp_path, monkeypatch)
    made = small_plan(tmp_path, data(tmp_path, X, LABELS), [stage("up")], model=THREE)
    runs(made, up=moved((-0.125, 0.125)))
    return tmp_path


def test_margins_are_those_of_the_scores(run: Path) -> None:
    rows = Bundle.open(run / "out").records()
    assert {r.unit: r.margin for r in rows if r.stage == "clean"} == {"0": 0.25, "1": 0.25 - 0.625, "2": 0.0}
    # (0.625, 0.375) is no failure and not kept; (0.375, 0.5625) is one.
    assert {r.unit: r.margin for r in rows if r.stage == "up"} == {"0": None, "2": 0.375 - 0.5625}
    assert audit(run / "out").faults == []


@pytest.mark.parametrize(
    ("of", "margin", "says"),
    [("clean", -0.25, "decision 0 for label 0 with the margin -0.25"), ("up", 0.1875, "decision 1 for label 0 with")],
)
def test_a_margin_of_the_other_sign_is_found(run: Path, of: str, margin: float, says: str) -> None:
    at = ("0", "clean") if of == "clean" else ("2", "up")
    path = forged(
        run / "out",
        run / "changed",
        rows=lambda rows: [replace(r, margin=margin) if (r.unit, r.stage) == at else r for r in rows],
    )
    assert any(says in f.text for f in audit(path).faults)


@pytest.mark.parametrize("margin", [0.5, None])
def test_another_margin_is_found_by_the_model(run: Path, margin: float | None) -> None:
    path = forged(
        run / "out",
        run / "changed",
        rows=lambda rows: [replace(r, margin=margin) if (r.unit, r.stage) == ("0", "clean") else r for r in rows],
    )
    assert audit(path).faults == []
    bundle = Bundle.open(path)
    (fault,) = replay_all(bundle, world_of(bundle, run, trust_code=False)).faults
    assert fault == f"e: 0: recorded with the margin {margin} before any change, and it is 0.25"


def test_a_margin_needs_a_label_and_a_comparison_of_scores() -> None:
    outputs, labels = torch.tensor([[1.0, 3.0, 0.5], [1.0, 3.0, 0.5]]), torch.tensor([0, -1])
    found = Decision(model(3)).margins(outputs, labels)
    assert found[0] == -2
    assert found[1].isnan()
    voted = Decision(model(3, decide=Decide("majority", ties="reject", draws=3)))
    assert voted.margins(outputs.expand(3, 2, 3), labels).isnan().all()


def test_the_figure_stacks_originals_by_fate_over_failing_inputs(tmp_path: Path) -> None:
    rows = Rows()
    rows.clean("u", margin=4.0).attack("u").proof("u", margin=1.0)
    rows.clean("v", margin=1.0).attack("v", outcome="broken", margin=-0.5, candidate="candidates/000001.safetensors#0",
                                       **BROKEN)  # fmt: skip
    rows.clean("w", "cw", margin=-1.0)
    rows.clean("x", margin=2.0).attack("x")
    whole = plan([evaluation(attack(), certifier())], [threat()])
    m = material(tmp_path / "run", whole, rows.all)
    figure, says = measured_margins(m)
    top, below = figure.axes
    heights = {t.get_text(): None for t in top.get_legend().get_texts()}
    assert list(heights) == ["proved", "not broken, not proved", "broken", "wrong before any change"]
    assert max(p.get_height() for p in below.patches) == 1
    (bar,) = [p for p in below.patches if p.get_height()]
    assert bar.get_x() <= -0.5 <= bar.get_x() + bar.get_width() <= 0
    assert says == "1 broken units: median margin 1 before any change (of all 4: 1.5), -0.5 at the failing input"
    nothing = material(tmp_path / "none", whole, Rows().clean("u", margin=1.0).attack("u").all)
    assert draw("measured_margins", nothing).refused.startswith("no failing input")


def test_zero_is_an_edge() -> None:
    """From -1 to 3 in steps of a tenth; of one value in one step."""
    edges = bins([-1.0, 0.5, 3.0])
    assert edges == pytest.approx([k / 10 for k in range(-10, 31)])
    assert 0.0 in edges
    assert bins([0.0]) == [0.0, 1.0]


def test_pairs_of_example_and_target_are_drawn_as_their_example(tmp_path: Path) -> None:
    """Two targets of one example, one of them reached: one original, counted as broken."""
    rows = Rows()
    for target in (1, 2):
        rows.clean(f"u->{target}", target=target, margin=3.0)
        found = {"outcome": "broken", "margin": -1.0, "decision": 1} if target == 1 else {}
        rows.attack(f"u->{target}", **found).proof(f"u->{target}", "c", "unknown", margin=-0.5, gap=0.0)
    whole = plan([evaluation(attack(), certifier())], [threat(goal=Goal("each", each="any"))])
    m = material(tmp_path / "run", whole, rows.all)
    figure, says = measured_margins(m)
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["broken"]
    assert sum(p.get_height() for p in figure.axes[0].patches) == 1
    assert says == "1 broken units: median margin 3 before any change (of all 1: 3), -1 at the failing input"
    stacked = margins(m)[0].axes[0]
    assert [t.get_text() for t in stacked.get_legend().get_texts()] == ["broken"]
