"""The shims around auto-LiRPA leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from backend_support import certify, digits, threat

from tmlang.backends import lirpa_shims

PROBE = """
import logging, sys, torch, torch.onnx.symbolic_helper as helper
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS
from tmlang.backends import lirpa_shims
before = torch.get_default_dtype(), GLOBALS.export_onnx_opset_version
log = list(logging.getLogger().handlers), logging.getLogger().level
library = lirpa_shims.load()
assert lirpa_shims.load() is library
net = torch.nn.Linear(2, 2)
with lirpa_shims.in_double():
    assert torch.get_default_dtype() == torch.float64
    with lirpa_shims.reading_graphs() as said:
        bounded = library.BoundedModule(net.double(), torch.zeros(3, 2), device="cpu")
    assert said == []
assert before == (torch.get_default_dtype(), GLOBALS.export_onnx_opset_version)
assert log == (logging.getLogger().handlers, logging.getLogger().level)
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


# What 0.7.1 has otherwise, put in the place of what 0.3 has -----------------------------------------------------------


class Newer:
    """Members as 0.7.1 gives them: it takes ``remove_duplicate``."""

    def _named_members(
        self, get: object, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> object:
        return get, prefix, recurse, remove_duplicate


class Older:
    def _named_members(self, get: object, prefix: str = "", recurse: bool = True) -> object:
        return get, prefix, recurse


def test_members_are_mended_where_they_need_it() -> None:
    for bounded in (Newer, Older):
        lirpa_shims._take_remove_duplicate(bounded)
    assert Newer()._named_members("g", "p", True, remove_duplicate=False) == ("g", "p", True, False)
    assert Older()._named_members("g", "p", True, remove_duplicate=False) == ("g", "p", True)  # type: ignore[call-arg]


class Tangents:
    """``precompute_relaxation(function, slope, x_limit)``, as 0.7.1 has it."""

    made = 0

    def precompute_relaxation(self, function: object, slope: object, x_limit: int = 500) -> None:
        del slope
        type(self).made += 1
        self.x_limit, self.tangents = x_limit, (function, x_limit)


def test_tables_of_the_newer_signature_are_kept_apart() -> None:
    lirpa_shims._keep_tables(Tangents)
    found = []
    for function, limit in ((torch.tanh, {}), (torch.sigmoid, {}), (torch.tanh, {"x_limit": 9}), (torch.tanh, {})):
        one = Tangents()
        one.precompute_relaxation(function, torch.cos, **limit)
        found.append((one.x_limit, one.tangents))
    assert found == [
        (500, (torch.tanh, 500)),
        (500, (torch.sigmoid, 500)),
        (9, (torch.tanh, 9)),
        (500, (torch.tanh, 500)),
    ]
    assert Tangents.made == 3


def test_what_a_reader_sets_for_the_exporter_is_taken_back() -> None:
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

    before = dict(vars(GLOBALS))
    with lirpa_shims.reading_graphs():
        GLOBALS.autograd_inlining = not GLOBALS.autograd_inlining
        GLOBALS.export_onnx_opset_version = 12
    assert vars(GLOBALS) == before


def test_optimized_bounds_are_the_same_under_the_newer_name_of_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of the layers in between go in under whichever name ``compute_bounds`` has for them, and are used."""
    case = digits()
    job = case.job(threat("linf", Fraction(1, 16)), rows=slice(0, 4))
    plain = certify("auto_lirpa.alpha_crown", case, job, iteration=Fraction(4))
    given, original = [], lirpa_shims.load().BoundedModule.compute_bounds

    def newer(self, x=None, C=None, method="backward", bound_upper=True, interm_bounds=None):
        given.append(interm_bounds)
        return original(self, x=x, C=C, method=method, bound_upper=bound_upper, intermediate_layer_bounds=interm_bounds)

    # The library calls itself by the name in its class; only what the adapter calls is the newer one.
    class Outside:
        def __get__(self, one, owner=None):
            frame = sys._getframe(1).f_globals["__name__"]
            return (newer if frame.startswith("tmlang.") else original).__get__(one, owner)

    monkeypatch.setattr(lirpa_shims.load().BoundedModule, "compute_bounds", Outside())
    renamed = certify("auto_lirpa.alpha_crown", case, job, iteration=Fraction(4))
    assert any(given)
    assert renamed.margin.tolist() == pytest.approx(plain.margin.tolist(), rel=1e-12)
