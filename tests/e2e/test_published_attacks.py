"""The standard suite against published numbers: it breaks at least what was published to be breakable."""

from __future__ import annotations

import shutil
from fractions import Fraction as F
from pathlib import Path

import pytest
from e2e_support import SHARED

from tmlang.cli.front import read_spec
from tmlang.execute.runner import RunOptions, RunResult, run

pytestmark = [
    pytest.mark.shared,
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not SHARED.exists(), reason="the shared data folder is not beside the checkout"),
]
SUITE = 'suite: autoattack_standard(version: "0.1")'
SPEC = """tm 1
use std.suites (autoattack_standard)

space px: tensor({shape}) of real[0, 1] stored as float32

model net: px -> classes(10) {{
  network:  onnx("{model}")
  decide:   argmax ties lowest
  random:   never
}}

data test: px {{
  read:     npz("{images}", inputs: "x", labels: "y")
  prepare:  {{ scale(1/255) }}
  take:     first {n}
  truth:    published "test labels"
}}

threat near on net over test {{
  allow:         linf <= {radius} in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}}

evaluate standard of near {{
  {stages}
  seed:     0
}}
"""


def evaluated(folder: Path, model: str, images: str, shape: str, radius: str, n: int, stages: str = SUITE) -> RunResult:
    """A run of ``stages`` on the first ``n`` images."""
    for file in (SHARED / "models" / model, SHARED / "images" / images):
        shutil.copy(file, folder / file.name)
    name = Path(model).name
    text = SPEC.format(model=name, images=images, shape=shape, radius=radius, n=n, stages=stages)
    (folder / "spec.tm").write_text(text)
    front = read_spec(str(folder / "spec.tm"), {})
    assert front.plan is not None, front.diagnostics
    return run(front.plan, RunOptions(out=folder / "out"))


@pytest.mark.parametrize(
    ("model", "radius", "published"),
    [("sdp_cnn_a_adv", "2/255", F(505, 1000)), ("sdp_cnn_a_mix", "2/255", F(53, 100))],
)
def test_the_networks_of_sdp(model: str, radius: str, published: F, tmp_path: Path) -> None:
    """Beta-CROWN (Wang et al., NeurIPS 2021), table 2: upper bounds on 200 images of CIFAR-10; 50.5 % measured."""
    found = evaluated(tmp_path, f"cifar10/{model}.onnx", "cifar10_sdp200.npz", "3, 32, 32", radius, 200)
    survival = found.columns["standard"].get("survival")
    assert survival is not None
    print(model, survival.high)
    assert survival.low == survival.high <= published


@pytest.mark.parametrize(
    ("model", "radius", "published"), [("eran_6x100", "0.026", F(842, 1000)), ("eran_9x200", "0.015", F(911, 1000))]
)
def test_the_networks_of_eran(model: str, radius: str, published: F, tmp_path: Path) -> None:
    """Table 3 of the same paper: PGD with restarts on the first 1,000 images of MNIST."""
    found = evaluated(tmp_path, f"mnist/{model}.onnx", "mnist_test_10k.npz", "1, 28, 28", radius, 1000)
    survival = found.columns["standard"].get("survival")
    assert survival is not None
    print(model, survival.high)
    assert survival.low == survival.high <= published
