"""``--sandbox``: a factory may try what it wants; it reaches no network, no home, and no file but the bundle's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

SPEC = """tm 1

space pair: tensor(2) of real[0, 1] stored as float32
model three: pair -> classes(3) {
  network: torch("net.py:net", weights: "net.safetensors")
  decide:  argmax ties lowest
  random:  never
}
data rows: pair {
  read:  npz("rows.npz", inputs: "x", labels: "y")
  take:  all
  truth: published "by hand"
}
threat near on three over rows {
  allow:         linf <= 1/8 in pair
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}
evaluate e of near { attack: pgd = native.pgd(steps: 20)  seed: 0 }
"""
FACTORY = """
import os, socket, sys, torch
from torch import nn

class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.third = nn.Parameter(torch.tensor(0.5))
    def forward(self, x):
        return torch.stack([x[:, 0], x[:, 1], self.third.expand(len(x))], 1)

def tried(name, act):
    try:
        act()
    except OSError:
        return
    sys.stderr.write(f"DID {name}\\n")

def net():
    here = os.path.dirname(__file__)
    tried("write beside the spec", lambda: open(os.path.join(here, "evil"), "w"))
    tried("read the home", lambda: open(os.path.join(os.environ["HOME"], "secret")).read())
    open(os.path.join(os.path.dirname(here), "evil"), "w")  # a /tmp of its own, which nobody sees
    tried("reach the network", lambda: socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])), 2))
    tried("see who started it", lambda: os.kill(int(os.environ["STARTER"]), 0))
    return Three()
"""


def works() -> bool:
    bwrap = shutil.which("bwrap")
    made = bwrap and subprocess.run([bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True)
    return bool(made) and made.returncode == 0


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "spec"
    folder.mkdir()
    (folder / "s.tm").write_text(SPEC)
    (folder / "net.py").write_text(FACTORY)
    save_file({"third": torch.tensor(0.5)}, folder / "net.safetensors")
    np.savez(folder / "rows.npz", x=np.array([[0.75, 0.25], [0.25, 0.55]], np.float32), y=np.array([0, 1]))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text("key")
    return folder / "s.tm"


def tmc(spec: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tmlang", "run", str(spec), "--trust-code", "--quiet", "--sandbox", *words]
    given = {**os.environ, "HOME": str(spec.parent.parent / "home"), "STARTER": str(os.getpid()), **environment}
    return subprocess.run(command, cwd=spec.parent, env=given, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(not works(), reason="bubblewrap is not installed, or may not make namespaces here")
def test_a_factory_reaches_nothing_but_the_bundle(spec: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        done = tmc(spec, "--out", "out", "--workers", "1", HOST=host, PORT=str(port))
    assert done.returncode == 0, done.stderr
    assert "DID" not in done.stderr
    assert (spec.parent / "out" / "statement.json").is_file()
    assert sorted(p.name for p in spec.parent.iterdir()) == ["net.py", "net.safetensors", "out", "rows.npz", "s.tm"]
    assert sorted(p.name for p in spec.parent.parent.iterdir()) == ["home", "spec"]
    assert [p.name for p in (spec.parent.parent / "home").iterdir()] == ["secret"]


def test_without_bubblewrap_nothing_is_run(spec: Path) -> None:
    done = tmc(spec, "--out", "out", PATH=str(spec.parent))
    assert done.returncode == 1
    assert "[TM829]" in done.stderr
    assert "apt-get install bubblewrap" in done.stderr
    assert not (spec.parent / "out").exists()
