"""Codes that only opened files can show: their pages are true, of one spec with its files, sound as they are.

The messages are compared with reviewed ones in ``tests/golden/messages``; ``TM_WRITE_GOLDEN=1`` writes them anew.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from semantics_support import PAGES, spec

from tmlang.cli.main import entry, main
from tmlang.diagnostics.registry import all_rules, page_source

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "messages"
SPEC = (PAGES / "artifacts.tm").read_text(encoding="utf-8")
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


class Settles(Linear):
    def forward(self, x):
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(super().forward(y).square().sum(), y)
        return super().forward(x - 0.001 * slope)


class Ready(Linear):
    def forward(self, x):
        with torch.enable_grad():
            return super().forward(x)


class Apart(Linear):
    def forward(self, x):
        return super().forward(x - x.mean(dim=1, keepdim=True))


class Steep(Linear):
    def forward(self, x):
        return 100 * super().forward(x)


class Bessel(Linear):
    def forward(self, x):
        return torch.special.bessel_j0(super().forward(x))


class Wide(Linear):
    def forward(self, x):
        return super().forward(torch.cat([x, x], dim=1))


make, softmax, draws, company, apart = Linear, Softmax, Draws, Company, Apart
detached, steep, wide, bessel = Detached, Steep, Wide, Bessel
settles, ready = Settles, Ready


def made():
    return Linear()


def fails():
    raise RuntimeError("no such architecture")
"""
INPUTS = ((0.2, 0.7), (0.9, 0.1), (0.4, 0.6), (1.0, 0.5))
X, Y = np.array(INPUTS, np.float32), np.array([1, 0, 1, 0])
ARRAYS = {
    "four": (X, Y),
    "data/four": (X, Y),
    "outside": (X * 255, Y),
    "edges": (np.where(X < 0.3, 0, X).astype(np.float32), Y),
    "three": (np.repeat(X[:, :1], 3, axis=1), Y),
    "double": (X.astype(np.float64), Y),
    "seven": (X, np.array([1, 0, 7, 0])),
    "ones": (X[::2], Y[::2]),
    "dim": (X / 500, Y),
    "half": (X / 2, Y),
}
TEXTS = {
    "ids.txt": "0\n99\n",
    "two.txt": "0\n2\n",
    "turned.txt": "2\n0\n",
    "rooms.csv": "id,temp,door,class\na,21.5,open,calm\nb,40.25,closed,alarm\n",
    "turned.csv": "class,door,temp,id\ncalm,open,21.5,a\nalarm,closed,40.25,b\n",
    "spaces.csv": "id,temp,door,class\na,21,open,calm\nb,40,closed,alarm\n",
    "no_door.csv": "id,temp,class\na,21.5,calm\nb,40.25,alarm\n",
    "gap.csv": "id,temp,door,class\na,21.5,open,calm\nb,,closed,alarm\n",
    "strengths.csv": "a,b,y,c,s\n0.25,0.5,1,fog,1\n0.5,0.25,0,fog,5\n",
    "zero.csv": "a,b,y,c,s\n0.25,0.5,1,fog,1\n0.5,0.25,0,fog,0\n",
    "first.tm": 'tm 1\nuse "second.tm" (x)\nlet y = 1\n',
    "second.tm": 'tm 1\nuse "first.tm" (y)\nlet x = 1\n',
    "third.tm": "tm 1\nlet x = 1\n",
    "fourth.tm": 'tm 1\nuse "third.tm" (x)\nlet z = 1\n',
}


def save_onnx(
    path: Path, operation: str, shape: tuple[int | str, ...], *constants: tuple[str, np.ndarray], **attributes: int
) -> None:
    node = helper.make_node(operation, ["x", *(name for name, _ in constants)], ["y"], **attributes)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([node], "net", [x], [y], [numpy_helper.from_array(a, name) for name, a in constants])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "net.py").write_text(FACTORIES, encoding="utf-8")
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for name, tensor in {
        "net": weights,
        "net.pt": weights,
        "other": weights + 1,
        "narrow": weights[:, :1].contiguous(),
    }.items():
        save_file({"layer.weight": tensor}, tmp_path / f"{name}.safetensors")
    (tmp_path / "net.pt").write_bytes(pickle.dumps({"layer.weight": [1, 2]}))
    save_onnx(tmp_path / "net.onnx", "MatMul", ("n", 2), ("w", np.eye(2, dtype=np.float32)))
    save_onnx(tmp_path / "lrn.onnx", "LRN", ("n", 2), size=1)
    for name, (x, y) in ARRAYS.items():
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def snippets(code: str) -> dict[str, str]:
    return dict(re.findall(r"```tm (wrong|right|silent) with files\n(.*?)```", page_source(code), re.S))


CODES = [r.code for r in all_rules() if (PAGES / f"{r.code}.md").exists() and snippets(r.code)]


def said(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[list[tuple[str, str]], str]:
    """Codes and guilty texts of ``tmc check --artifacts``, and the whole of what it shows."""
    (folder / "s.tm").write_text(text, encoding="utf-8")
    main(["check", "s.tm", "--artifacts", *flags, "--format", "json"])
    found = [(d["code"], _guilty(folder, d["span"])) for d in json.loads(capsys.readouterr().out)]
    main(["check", "s.tm", "--artifacts", *flags])
    return found, capsys.readouterr().out.replace(str(folder), "(the folder of the spec)")


def _guilty(folder: Path, span: dict) -> str:
    start, end = (span[side]["offset"] for side in ("start", "end"))
    return (folder / span["file"]).read_text(encoding="utf-8")[start:end]


def sentence(code: str) -> tuple[tuple[str, ...], str]:
    """The flags with which the code is said, and the token at which."""
    found = re.search(r"^Said by `tmc check --artifacts(.*?)`, at `(.*)`:$", page_source(code), re.M)
    assert found is not None
    return tuple(found[1].split()), found[2]


def test_the_spec_and_its_files_are_sound(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(folder, SPEC, capsys, "--trust-code")[0] == []


@pytest.mark.parametrize("code", CODES)
def test_the_page_is_true(code: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, (flags, token) = snippets(code), sentence(code)
    found, message = said(folder, spec(shown["wrong"], SPEC), capsys, *flags)
    assert [(c, text.splitlines()[0]) for c, text in found] == [(code, token)]
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("TM_WRITE_GOLDEN") == "1":
        golden.write_text(message, encoding="utf-8")
    assert message == golden.read_text(encoding="utf-8")
    for kind in ("right", "silent"):
        assert said(folder, spec(shown[kind], SPEC), capsys, *flags)[0] == [], kind


def test_a_model_without_an_onnx_form_is_not_exported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "s.tm").write_text(SPEC.replace("net.py:make", "net.py:bessel"), encoding="utf-8")
    with pytest.raises(SystemExit, match="1"):
        entry(["export", "vnnlib", "s.tm", "--out", "out", "--trust-code"])
    shown = capsys.readouterr()
    assert shown.err.startswith("error[TM742]: net has no ONNX form")
    assert shown.out == ""
    assert not (folder / "out").exists()
