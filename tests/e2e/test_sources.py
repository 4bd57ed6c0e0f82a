"""One network, four kinds of file: Python with weights, TorchScript, an exported program, ONNX. One result."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from e2e_support import SPECS, Evidence, run_here
from safetensors.torch import load_file
from torch import nn

pytestmark = pytest.mark.xdist_group("sources")
KINDS = {
    "torch": 'torch("digits.py:small_cnn", weights: "digits.safetensors")',
    "torchscript": 'torchscript("net.pt")',
    "exported": 'exported("net.pt2")',
    "onnx": 'onnx("net.onnx")',
}
EVALUATION = """
evaluate alone of faint {
  attack:   pgd = native.pgd(steps: 20)
  certify:  crown = auto_lirpa.crown()
  seed:     0
}
"""


def network() -> nn.Module:
    """The digits network as a Sequential of this test's own making."""
    front = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
    net = nn.Sequential(*front, nn.Flatten(), nn.Linear(512, 10))
    net.load_state_dict(load_file(SPECS / "digits" / "digits.safetensors"))
    return net.eval()


def export(kind: str, folder: Path) -> None:
    net, example = network(), torch.zeros(2, 1, 8, 8)
    if kind == "torchscript":
        torch.jit.trace(net, example).save(str(folder / "net.pt"))
    elif kind == "exported":
        shapes = ({0: torch.export.Dim("n", min=1)},)
        torch.export.save(torch.export.export(net, (example,), dynamic_shapes=shapes), folder / "net.pt2")
    elif kind == "onnx":
        axes = {"x": {0: "n"}, "logits": {0: "n"}}
        torch.onnx.export(
            net, (example,), str(folder / "net.onnx"), dynamo=False,
            input_names=["x"], output_names=["logits"], dynamic_axes=axes,
        )  # fmt: skip


def outcome(evidence: Evidence) -> dict[str, tuple[Any, ...]]:
    clean = {r["unit"]: r["clean_decision"] for r in evidence.rows("alone", "clean")}
    pgd = {r["unit"]: r["observed_failure"] for r in evidence.rows("alone", "pgd") if not r["projected"]}
    crown = {r["unit"]: r["verdict"] for r in evidence.rows("alone", "crown")}
    return {unit: (decision, pgd.get(unit), crown.get(unit)) for unit, decision in clean.items()}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, tuple[Any, ...]]]:
    found = {}
    for kind, written in KINDS.items():
        folder = tmp_path_factory.mktemp(kind) / "spec"
        shutil.copytree(SPECS / "digits", folder)
        export(kind, folder)
        spec = (folder / "digits.tm").read_text().split("\nevaluate ")[0] + EVALUATION
        begin, end = spec.index("  network:"), spec.index("  decide:")
        spec = f"{spec[:begin]}  network:  {written}\n{spec[end:]}".replace("  truth:", "  take:     every 5\n  truth:")
        (folder / "digits.tm").write_text(spec)
        code, evidence = run_here(folder / "digits.tm", folder / "out", "--trust-code")
        assert code == 0
        found[kind] = outcome(evidence)
    return found


def test_the_reference_is_torchs_own_decision(outcomes: dict[str, dict[str, tuple[Any, ...]]]) -> None:
    from sklearn.datasets import load_digits

    images = torch.tensor(load_digits().images / 16, dtype=torch.float32)[:, None]
    expected = {unit: int(network()(images[int(unit)][None]).argmax()) for unit in outcomes["torch"]}
    assert {unit: decision for unit, (decision, _, _) in outcomes["torch"].items()} == expected
    assert len(expected) == 90
    assert any(failed for _, failed, _ in outcomes["torch"].values())
    assert {proved for _, _, proved in outcomes["torch"].values()} >= {"certified", "unknown"}


@pytest.mark.parametrize("kind", ["torchscript", "exported", "onnx"])
def test_every_kind_of_file_gives_the_same_result(kind: str, outcomes: dict[str, dict[str, tuple[Any, ...]]]) -> None:
    assert outcomes[kind] == outcomes["torch"]
