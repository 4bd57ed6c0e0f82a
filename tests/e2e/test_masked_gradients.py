"""A model that rounds its input hides its gradients: the run says so everywhere, and of an honest one nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from e2e_support import SPECS, Evidence, run_here

CODE = """
import torch
from torch import nn


class Grey(nn.Module):
    def forward(self, x):
        return torch.round(8 * x) / 8


class Reader(nn.Module):
    def __init__(self, front):
        super().__init__()
        self.front = front
        layers = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten()
        for i, layer in enumerate((*layers, nn.Linear(512, 10))):
            self.add_module(str(i), layer)

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


def masked():
    return Reader(Grey())


def plain():
    return Reader(nn.Identity())
"""
SPEC = """
tm 1
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32
model reader: scan -> classes(10) {
  network:  torch("code.py:FACTORY", weights: "digits.safetensors")
  decide:   argmax ties lowest
  random:   never
}
data test: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  take:     first 40
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}
threat change on reader over test {
  allow:         linf <= 3/16 in scan
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}
evaluate suite_of_four of change {
  attack:  ce = native.apgd(loss: ce, steps: 20)
  attack:  other = torchattacks.PGD(alpha: 1/32 in scan, steps: 10)
  attack:  square = native.square(queries: 300)
  attack:  blind = native.random(draws: 100)
  seed:    0
}
"""
ZERO = "every gradient that {} took was zero on "


def evidence(folder: Path, factory: str) -> Evidence:
    for name in ("digits.npz", "test_ids.txt", "digits.safetensors"):
        shutil.copy(SPECS / "digits" / name, folder)
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    (folder / "s.tm").write_text(SPEC.replace("FACTORY", factory).lstrip(), encoding="utf-8")
    code, found = run_here(folder / "s.tm", folder / "run", "--trust-code")
    assert code == 0
    return found


def test_rounding_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evidence(tmp_path, "masked")
    terminal = capsys.readouterr().out
    texts = [terminal, *((found.path / f"report.{end}").read_text(encoding="utf-8") for end in ("md", "html"))]
    for text in texts:
        assert text.count(ZERO.format("ce (native.apgd)")) == 1
        assert text.count(ZERO.format("other (torchattacks.PGD)")) == 1
        assert text.count("no step of ce (native.apgd) came beyond its start on ") == 1
        assert "a search without gradients beats them" in text
        for code in ("TM870", "TM872", "TM873"):
            assert code in text
        assert "TM875" not in text
    rows = found.rows("suite_of_four", "other")
    standing = [r for r in rows if not r["observed_failure"]]
    assert standing
    assert all(r["zero_gradients"] == r["gradients"] == 10 for r in standing)
    square = {r["unit"] for r in found.rows("suite_of_four", "square") if r["observed_failure"]}
    both = square & {r["unit"] for r in standing}
    correct = sum(r["clean"] == "cc" for r in found.rows("suite_of_four", "clean"))
    assert f"square (native.square) broke {len(both)} of {correct} units" in terminal


def test_the_same_network_without_rounding_shows_no_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evidence(tmp_path, "plain")
    texts = [capsys.readouterr().out, (found.path / "report.html").read_text(encoding="utf-8")]
    for text in texts:
        assert "TM87" not in text
    rows = [r for s in ("ce", "other") for r in found.rows("suite_of_four", s)]
    assert {r["zero_gradients"] for r in rows} == {0}
    assert sum(r["gradients"] for r in rows) > 100
