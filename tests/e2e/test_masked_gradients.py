"""Models that hide their gradients in five ways: each is found out by the checks that can, and of an honest one nothing
is said."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
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


class Rippled(nn.Module):
    # The input but for 1/1000, with slopes between -49 and 51 that change their sign thousands of times.
    def forward(self, x):
        return x + torch.sin(50000 * x) / 1000


class Reversed(nn.Module):
    # The input itself, with slope -1.
    def forward(self, x):
        return 2 * x.detach() - x


class Dithered(nn.Module):
    # Rounds to levels that every request shifts.
    def forward(self, x):
        shift = torch.rand_like(x)
        return (torch.floor(8 * x + shift) + (0.5 - shift)) / 8


class Saturated(Reader):
    def forward(self, x):
        return torch.softmax(1000 * super().forward(x), dim=1)


def masked():
    return Reader(Grey())


def shattered():
    return Reader(Rippled())


def turned():
    return Reader(Reversed())


def dithered():
    return Reader(Dithered())


def saturated():
    return Saturated(nn.Identity())


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


RANDOM = {
    "random:   never": "random:   per request",
    "clean_errors:  fail\n": "clean_errors:  fail\n  success:  error_probability > 1/2 at 95 % on 40 fresh draws\n",
}
SWEEP = {
    "linf <= 3/16": "linf <= eps",
    "tm 1\n": "tm 1\nparam eps = 1/16 in [1/16, 1/4]\n",
    "  seed:    0": "  curve:   eps over [1/16, 1/4]\n  seed:    0",
    "  attack:  square = native.square(queries: 300)\n  attack:  blind = native.random(draws: 100)\n": "",
}
BLIND = {"  attack:  square = native.square(queries: 300)\n": ""}
MINIMAL = {"  attack:  other": "  attack:  nearest = foolbox.LinfDeepFoolAttack(steps: 5)\n  attack:  other"}


def evidence(folder: Path, factory: str, changes: Mapping[str, str] = {}) -> Evidence:
    for name in ("digits.npz", "test_ids.txt", "digits.safetensors"):
        shutil.copy(SPECS / "digits" / name, folder)
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    spec = SPEC.replace("FACTORY", factory).lstrip()
    for old, new in changes.items():
        assert old in spec
        spec = spec.replace(old, new)
    (folder / "s.tm").write_text(spec, encoding="utf-8")
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


@pytest.mark.parametrize(
    ("factory", "changes", "codes"),
    [
        ("shattered", {}, {"TM870", "TM873"}),
        ("saturated", {}, {"TM870", "TM872", "TM873"}),
        ("dithered", RANDOM, {"TM870", "TM871", "TM872", "TM873"}),
        ("turned", BLIND, {"TM871", "TM873"}),
        ("turned", SWEEP, {"TM873", "TM875"}),
        ("plain", SWEEP, set()),
        ("plain", BLIND, set()),
    ],
)
def test_what_hides_its_gradients_is_found_out(
    factory: str, changes: Mapping[str, str], codes: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shattered slopes, a saturated softmax, a model that draws, slopes that point backwards, and a wider radius that
    does not help; the same network as it is shows none of it."""
    found = evidence(tmp_path, factory, changes)
    page = (found.path / "report.md").read_text(encoding="utf-8")
    for text in (capsys.readouterr().out, page):
        assert set(re.findall("TM87[0-9]", text)) == codes
    assert "Not checked" not in page


def test_what_was_not_looked_at_is_said(tmp_path: Path) -> None:
    found = evidence(tmp_path, "plain", MINIMAL)
    page = (found.path / "report.md").read_text(encoding="utf-8")
    assert "Not checked (TM873): whether any step of nearest came beyond its start." in page
