"""What the attacker is granted, from a spec to the rows: scores cut off and rounded, draws that judge unseen, and a
model that remembers requests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from e2e_support import SPECS, run_here

from tmlang.cli.front import read_spec
from tmlang.execute.arena import make_arena
from tmlang.execute.jobs import JobMaker
from tmlang.execute.world import World

CODE = """
import torch
from torch import nn


class Reader(nn.Sequential):
    def __init__(self):
        layers = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten()
        super().__init__(*layers, nn.Linear(512, 10))


class Drawing(Reader):
    # Adds noise, and writes down the first number that each request drew.
    def forward(self, x):
        noise = torch.randn_like(x) / 20
        with open("drawn.txt", "a") as file:
            file.writelines(f"{row.flatten()[0].item()!r}\\n" for row in noise)
        return super().forward(x + noise)


class Remembering(Reader):
    # Answers otherwise once it was asked often.
    asked = 0

    def forward(self, x):
        self.asked += len(x)
        scores = super().forward(x)
        return scores if self.asked < 400 else scores.flip(1)


def plain():
    return Reader()


def drawing():
    return Drawing()


def remembering():
    return Remembering()
"""
SPEC = """tm 1
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32
model reader: scan -> classes(10) {
  network:  torch("code.py:FACTORY", weights: "digits.safetensors")
  decide:   argmax ties lowest
  random:   RANDOM
}
data test: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  take:     first 20
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}
threat change on reader over test {
  allow:         linf <= 3/16 in scan
  mutable:       all
  goal:          untargeted
  access:        ACCESS
  clean_errors:  fail
  SUCCESS
}
evaluate e of change {
  STAGES
  seed:  0
}
"""
NEVER = {"RANDOM": "never", "SUCCESS": "", "FACTORY": "plain"}


def spec(folder: Path, **words: str) -> Path:
    for name in ("digits.npz", "test_ids.txt", "digits.safetensors"):
        shutil.copy(SPECS / "digits" / name, folder)
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    text = SPEC
    for word, meant in (NEVER | words).items():
        text = text.replace(word, meant)
    (folder / "s.tm").write_text(text, encoding="utf-8")
    return folder / "s.tm"


def test_a_search_by_scores_is_shown_five_rounded_ones_and_a_proof_all(tmp_path: Path) -> None:
    stages = "attack: square = native.square(queries: 50)\n  attack: lines = native.decision_search(steps: 5)\n"
    file = spec(tmp_path, ACCESS="scores (top5, rounded 3)", STAGES=stages + "  certify: crown = auto_lirpa.crown()")
    plan = read_spec(str(file), {}).plan
    assert plan is not None
    arena, _ = make_arena(plan.evaluations[0], World(plan, trust_code=True))
    assert arena is not None
    square, lines, crown = (
        JobMaker(arena, s, 0, None, None).jobs([0, 1], [0, 0])[0].job for s in plan.evaluations[0].stages
    )
    full = crown.oracle.logits(arena.x[:2])
    shown = square.oracle.logits(arena.x[:2])
    for row, seen in zip(full, shown, strict=True):
        best = row.argsort(descending=True)
        assert seen[best[:5]].tolist() == pytest.approx([round(v, 3) for v in row[best[:5]].tolist()])
        assert len(seen[best[5:]].unique()) == 1
        assert seen[best[5]] < seen[best[4]]
    assert torch.equal(square.oracle.decisions(arena.x[:2]), full.argmax(dim=1))
    labels = lines.oracle.module()(arena.x[:2])
    assert torch.equal(labels, torch.nn.functional.one_hot(full.argmax(dim=1), 10).to(labels.dtype))


def test_scores_that_are_cut_off_find_no_more(tmp_path: Path) -> None:
    """And each unit stops at its limit."""
    found = {}
    for name, access in (("all", "scores"), ("few", "scores (top2, rounded 1)")):
        (tmp_path / name).mkdir()
        file = spec(
            tmp_path / name, ACCESS=f"{access}, queries <= 150 per example", STAGES="attack: a = native.square()"
        )
        code, told = run_here(file, tmp_path / name / "run", "--trust-code")
        assert code == 0
        rows = told.rows("e", "a")
        assert all(0 < r["queries"] <= 150 for r in rows)
        assert all(r["queries"] == 150 for r in rows if not r["observed_failure"])
        found[name] = sum(bool(r["observed_failure"]) for r in rows)
    assert 0 < found["few"] < found["all"]


@pytest.mark.parametrize("known", ["known", "unknown"])
def test_no_search_sees_a_draw_that_judges(known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first numbers of all requests are written down: what the search drew is drawn nowhere else, and a shorter
    search that commits to the same candidates is judged by the same draws."""
    monkeypatch.chdir(tmp_path)
    success = "success: error_probability > 1/2 at 90 % on 30 fresh draws"
    words = {"FACTORY": "drawing", "RANDOM": "per request", "SUCCESS": success}
    file = spec(tmp_path, ACCESS=f"white_box, randomness {known}", STAGES="attack: a = native.pgd(steps: 3)", **words)
    code, told = run_here(file, tmp_path / "run", "--trust-code")
    assert code == 0
    drawn = (tmp_path / "drawn.txt").read_text().split()
    searched = sum(r["forwards"] for r in told.rows("e", "a"))
    assert searched > 20
    # Clean inputs and candidates are judged by draws of their own hashes; no two inputs share any, nor with the search.
    judged = [r for s in ("clean", "a") for r in told.rows("e", s) if r["draws"]]
    assert len(drawn) >= searched + 30 * len(judged)
    assert len(set(drawn)) >= searched + 30 * len({r["unit"] for r in judged})
    page = (told.path / "report.md").read_text(encoding="utf-8")
    assert ("never those that judge" in page) == (known == "known")


def test_a_model_that_remembers_requests_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each request is answered as if it were the first, so state that grows cannot be followed; a report says so."""
    words = {"ACCESS": "white_box, requests share state", "STAGES": "attack: a = native.pgd(steps: 40)"}
    code, told = run_here(spec(tmp_path, **words), tmp_path / "run", "--trust-code")
    assert code == 0
    assert "Requests share state, and what was searched keeps none" in (told.path / "report.md").read_text(
        encoding="utf-8"
    )
    (tmp_path / "other").mkdir()
    capsys.readouterr()
    code, _ = run_here(spec(tmp_path / "other", FACTORY="remembering", **words), tmp_path / "r2", "--trust-code")
    assert code != 0
    assert "TM822" in capsys.readouterr().err
    assert not (tmp_path / "r2" / "report.md").exists()
