"""How far the interval between certificates and attacks closes on 100 test digits at 0.05: all of it for a dense
network of two hidden layers, and for the network of the example what is left is counted."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from e2e_support import SPECS
from safetensors.torch import save_file
from torch import nn

from tmlang.audit.columns import Columns
from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, run

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]
MAKE = """from torch import nn


def dense():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10)
    )
"""
SPEC = """tm 1
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32

model reader: scan -> classes(10) {{
  network:  torch("{network}")
  decide:   argmax ties lowest
  random:   never
}}

data test: scan {{
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids")
  prepare:  {{ scale(1/16) }}
  take:     ids "test_ids.txt"
  take:     first 100
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}}

threat near on reader over test {{
  allow:         linf <= 0.05 in scan
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}

evaluate e of near {{
  attack:          ce = native.apgd(loss: ce, steps: 50, restarts: 3)
  attack:          dlr = native.apgd_targeted(steps: 50, targets: 9)
  certify:         crown = auto_lirpa.crown()
  certify:         alpha = auto_lirpa.alpha_crown()
  decide_exactly:  {decide}
  seed:            0
}}
"""


def dense(folder: Path) -> None:
    """A network 64-32-32-10, trained on the digits that are not tested for about two seconds."""
    with np.load(SPECS / "digits" / "digits.npz") as data:
        images, labels = data["images"], data["labels"]
    tested = [int(line) for line in (SPECS / "digits" / "test_ids.txt").read_text().split()]
    rest = np.setdiff1d(np.arange(len(labels)), tested)
    x = torch.tensor(images[rest].reshape(-1, 64) / 16, dtype=torch.float32)
    y = torch.tensor(labels[rest], dtype=torch.int64)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x + 0.03 * torch.randn_like(x).sign()), y).backward()
        optimizer.step()
    (folder / "net.py").write_text(MAKE)
    save_file(network.state_dict(), folder / "net.safetensors")


def columns(folder: Path, network: str, decide: str) -> tuple[Columns, float]:
    """What a run counts, and its seconds."""
    for name in ("digits.npz", "test_ids.txt", "digits.py", "digits.safetensors"):
        shutil.copy(SPECS / "digits" / name, folder / name)
    (folder / "spec.tm").write_text(SPEC.format(network=network, decide=decide))
    front = read_spec(str(folder / "spec.tm"), {})
    assert front.plan is not None, front.diagnostics
    started = time.monotonic()
    found = run(front.plan, RunOptions(out=folder / "out", trust_code=True))
    return found.columns["e"], time.monotonic() - started


def test_a_dense_network_is_closed(tmp_path: Path) -> None:
    dense(tmp_path)
    solver = "solver = marabou.query(timeout: 60 's')"
    found, seconds = columns(tmp_path, 'net.py:dense", weights: "net.safetensors', solver)
    certified, survival = found.get("certified"), found.get("survival")
    assert certified is not None
    assert survival is not None
    print(f"certified {certified.low}, survival {survival.high}, {seconds:.0f} s")
    assert certified.low == certified.high == survival.low == survival.high
    assert seconds < 600


def test_what_is_left_open_of_the_network_of_the_example(tmp_path: Path) -> None:
    split = "split = auto_lirpa.split(timeout: 10 's')"
    found, seconds = columns(tmp_path, 'digits.py:small_cnn", weights: "digits.safetensors', split)
    certified, upper = found.get("certified"), found.get("upper")
    assert certified is not None
    assert upper is not None
    open_ = upper.high - certified.low
    print(f"certified {certified.low}, at most {upper.high}, open {open_}, {seconds:.0f} s")
    assert 0 <= open_ <= 0.05
