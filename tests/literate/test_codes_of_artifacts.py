"""Codes that only opened files can show: one spec and its files, sound as they are, and one change that provokes each.

The messages are compared with reviewed ones in ``tests/golden/messages``; ``TM_WRITE_GOLDEN=1`` writes them anew.
"""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tmlang.cli.main import main

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "messages"
SPEC = """\
tm 1

space px: tensor(2) of real[0, 1] stored as float32

model net: px -> classes(2) {
  network:  torch("net.py:make", weights: "net.safetensors")
  decide:   argmax ties lowest
  random:   never
}

data four: px {
  read:   npz("four.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

threat near on net over four {
  allow:         linf <= 1/8 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate search of near {
  attack:  apgd = native.apgd(loss: ce, steps: 10)
  seed:    0
}
"""
FACTORIES = """\
import torch


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2, bias=False)

    def forward(self, x):
        return self.layer(x)


class Softmax(Linear):
    def forward(self, x):
        return torch.softmax(super().forward(x), dim=1)


class Draws(Linear):
    calls = 0

    def forward(self, x):
        self.calls += 1  # every answer is another one, and the same in every run of the tests
        return super().forward(x) + self.calls


class Company(Linear):
    def forward(self, x):
        return super().forward(x - x.mean(dim=0))


class Detached(Linear):
    def forward(self, x):
        return super().forward(x.detach()) + 0 * x.detach()


class Wide(Linear):
    def forward(self, x):
        return super().forward(torch.cat([x, x], dim=1))


make, softmax, draws, company, detached, wide = Linear, Softmax, Draws, Company, Detached, Wide


def fails():
    raise RuntimeError("no such architecture")
"""
INPUTS = ((0.2, 0.7), (0.9, 0.1), (0.4, 0.6), (1.0, 0.5))
X, Y = np.array(INPUTS, np.float32), np.array([1, 0, 1, 0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(FACTORIES, encoding="utf-8")
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    save_file({"layer.weight": weights}, tmp_path / "net.safetensors")
    save_file({"layer.weight": weights[:, :1].contiguous()}, tmp_path / "narrow.safetensors")
    (tmp_path / "net.pt").write_bytes(pickle.dumps({"layer.weight": [1, 2]}))
    files = {
        "four": (X, Y),
        "outside": (X * 255, Y),
        "three": (np.repeat(X[:, :1], 3, axis=1), Y),
        "seven": (X, np.array([1, 0, 7, 0])),
        "dim": (X / 500, Y),
    }
    for name, (x, y) in files.items():
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    (tmp_path / "ids.txt").write_text("0\n99\n", encoding="utf-8")
    return tmp_path


def said(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[set[str], str]:
    """The codes of ``tmc check --artifacts``, and the whole of what it shows."""
    (folder / "s.tm").write_text(text, encoding="utf-8")
    main(["check", "s.tm", "--artifacts", *flags, "--format", "json"])
    codes = {d["code"] for d in json.loads(capsys.readouterr().out)}
    main(["check", "s.tm", "--artifacts", *flags])
    return codes, capsys.readouterr().out.replace(str(folder), "(the folder of the spec)")


def factory(name: str) -> tuple[str, str]:
    return "net.py:make", f"net.py:{name}"


CHANGES = {
    "TM710": ('"four.npz"', '"nowhere.npz"'),
    "TM711": ('labels: "y"', 'labels: "y", sha256: "' + "0" * 64 + '"'),
    "TM712": ('inputs: "x"', 'inputs: "images"'),
    "TM714": ('"net.safetensors"', '"net.pt"'),
    "TM715": ('"net.safetensors"', '"narrow.safetensors"'),
    "TM718": ("classes(2)", "classes(3)"),
    "TM719": factory("fails"),
    "TM720": ('"four.npz"', '"outside.npz"'),
    "TM723": ('"four.npz"', '"seven.npz"'),
    "TM724": ("take:   all", 'take:   ids "ids.txt"'),
    "TM727": ('"four.npz"', '"three.npz"'),
    "TM730": (
        'torch("net.py:make", weights: "net.safetensors")',
        'torch("net.py:softmax", weights: "net.safetensors") outputs logits: 2',
    ),
    "TM731": factory("draws"),
    "TM732": factory("company"),
    "TM733": factory("detached"),
    "TM734": factory("softmax"),
    "TM735": ('"four.npz"', '"dim.npz"'),
    "TM736": factory("wide"),
    "TM821": ("linf <= 1/8", "linf <= 1e-12"),
}


def test_the_spec_and_its_files_are_sound(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(folder, SPEC, capsys, "--trust-code")[0] == set()


def test_code_needs_consent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(folder, SPEC, capsys)[0] == {"TM713"}


@pytest.mark.parametrize("code", CHANGES)
def test_one_change_is_told_as_what_it_is(code: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = CHANGES[code]
    assert SPEC.count(old) == 1
    codes, shown = said(folder, SPEC.replace(old, new), capsys, "--trust-code")
    assert codes == {code}
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("TM_WRITE_GOLDEN") == "1":
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")
