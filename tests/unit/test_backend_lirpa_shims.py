"""The shims around auto-LiRPA leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tmlang.backends import lirpa_shims

PROBE = """
import sys, torch, torch.onnx.symbolic_helper as helper
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS
from tmlang.backends import lirpa_shims
before = torch.get_default_dtype(), GLOBALS.export_onnx_opset_version
library = lirpa_shims.load()
assert lirpa_shims.load() is library
net = torch.nn.Linear(2, 2)
with lirpa_shims.in_double():
    assert torch.get_default_dtype() == torch.float64
    with lirpa_shims.reading_graphs() as said:
        bounded = library.BoundedModule(net.double(), torch.zeros(3, 2), device="cpu")
    assert said == []
assert before == (torch.get_default_dtype(), GLOBALS.export_onnx_opset_version)
assert "numpy.lib.arraysetops" not in sys.modules
assert not hasattr(helper, "_set_opset_version")
assert not hasattr(torch._C.Node, "__getitem__")
assert dict(bounded.named_parameters())
"""


def test_a_fresh_process_is_as_before(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE],
        capture_output=True,
        text=True,
        env={"HOME": str(tmp_path), "PATH": "", "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def fails_while_reading() -> None:
    with lirpa_shims.reading_graphs():
        assert hasattr(torch._C.Node, "__getitem__")
        raise RuntimeError("on purpose")


def test_a_failure_while_reading_takes_everything_back() -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        fails_while_reading()
    assert not hasattr(torch._C.Node, "__getitem__")


class Curve:
    """Stands in for the library's class: ``made`` counts tables."""

    made = 0

    def precompute_relaxation(self, name: str, curve: object) -> None:
        del curve
        type(self).made += 1
        self.table = torch.full((2,), float(len(name)))


def test_tables_are_made_once_for_each_function_and_type() -> None:
    lirpa_shims._keep_tables(Curve)
    found = []
    for name in ("tanh", "sigmoid", "tanh", "sigmoid"):
        curve = Curve()
        curve.precompute_relaxation(name, torch.tanh)
        found.append(curve.table.tolist())
    with lirpa_shims.in_double():
        curve = Curve()
        curve.precompute_relaxation("tanh", torch.tanh)
    assert found == [[4, 4], [7, 7], [4, 4], [7, 7]]
    assert curve.table.dtype == torch.float64
    assert Curve.made == 3
