"""The standard suites beside AutoAttack as other libraries have it, example by example.

The authors' own code is in no package; adv_lib's APGD and FAB are adapted from it and take its settings, so they and
torchattacks' Square stand for it. A failure of a library counts up to a millionth beyond the radius, since each rounds
in its own way; ours count within it, as every run counts them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction as F
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from e2e_support import SHARED, SPECS

from tmlang.audit.bundle import Bundle
from tmlang.backends.adv_lib import library
from tmlang.cli.front import read_spec
from tmlang.execute.arena import make_arena
from tmlang.execute.runner import RunOptions, run
from tmlang.execute.world import World

Tensor = torch.Tensor
Attack = Callable[[Any, Tensor, Tensor], Tensor]

DIGITS = """tm 1
use std.suites (SUITE)
space px: tensor(1, 8, 8) of real[0, 1] stored as float32
model net: px -> classes(10) {
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors")
  decide:   argmax ties lowest
  random:   never
}
data test: px {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  take:     first COUNT
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}
"""
SDP = """tm 1
use std.suites (SUITE)
space px: tensor(3, 32, 32) of real[0, 1] stored as float32
model net: px -> classes(10) {
  network:  onnx("sdp_cnn_a_adv.onnx")
  decide:   argmax ties lowest
  random:   never
}
data test: px {
  read:     npz("cifar10_sdp200.npz", inputs: "x", labels: "y")
  prepare:  { scale(1/255) }
  take:     first COUNT
  truth:    published "CIFAR-10 test labels"
}
"""
REST = """threat near on net over test {
  allow:         NORM <= RADIUS in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}
evaluate standard of near {
  STAGES
  seed:     0
}
"""
SHORT = (
    "attack: ce = native.apgd(loss: ce, steps: 20)\n  attack: t = native.apgd_targeted(steps: 20, targets: 3)\n"
    "  attack: f = native.fab(steps: 10)\n  attack: square = native.square(queries: 200)"
)


@dataclass(frozen=True)
class Compared:
    """A network, its correctly decided examples with their ids, and those that our suite breaks."""

    network: Any
    x: Tensor
    y: Tensor
    ids: tuple[str, ...]
    ours: frozenset[str]
    norm: str
    radius: float

    def broken(self, attacks: Sequence[Attack]) -> frozenset[str]:
        """What the attacks break, one after the other on what the ones before left standing."""
        found: set[str] = set()
        for k, attack in enumerate(attacks):
            left = [i for i, name in enumerate(self.ids) if name not in found]
            torch.manual_seed(k)
            with torch.enable_grad():
                x = attack(self.network, self.x[left], self.y[left]).detach()
            fails = self._within(x, self.x[left]) & (self._decided(x) != self.y[left].numpy())
            found |= {self.ids[left[j]] for j in np.flatnonzero(fails)}
        return frozenset(found)

    def _within(self, x: Tensor, origin: Tensor) -> np.ndarray:
        change = (x - origin).flatten(1).double().numpy()
        order = {"linf": np.inf, "l2": 2, "l1": 1}[self.norm]
        inside = ((x >= 0) & (x <= 1)).flatten(1).all(dim=1).numpy()
        within: np.ndarray = inside & (np.linalg.norm(change, order, axis=1) <= self.radius * (1 + 1e-6))
        return within

    def _decided(self, x: Tensor) -> np.ndarray:
        """Each row by itself, as a run decides it."""
        with torch.no_grad():
            return np.array([int(self.network(row).argmax()) for row in x.split(1)])


def compared(folder: Path, text: str, norm: str, radius: str, count: int, stages: str = "") -> Compared:
    """A run of the standard suite (or of ``stages``) on the first ``count`` examples."""
    suite = "autoattack_standard_l1" if norm == "l1" else "autoattack_standard"
    files = [SPECS / "digits" / n for n in ("digits.py", "digits.npz", "digits.safetensors", "test_ids.txt")]
    if text is SDP:
        files = [SHARED / "models" / "cifar10" / "sdp_cnn_a_adv.onnx", SHARED / "images" / "cifar10_sdp200.npz"]
    for file in files:
        shutil.copy(file, folder / file.name)
    spec = text + REST.replace("NORM", norm).replace("RADIUS", radius)
    spec = spec.replace("STAGES", stages or f'suite: {suite}(version: "0.1")')
    (folder / "s.tm").write_text(spec.replace("SUITE", suite).replace("COUNT", str(count)), encoding="utf-8")
    front = read_spec(str(folder / "s.tm"), {})
    assert front.plan is not None, front.diagnostics
    found = run(front.plan, RunOptions(out=folder / "out", trust_code=True))
    assert found.exit_code == 0
    arena, _ = make_arena(front.plan.evaluations[0], World(front.plan, trust_code=True))
    assert arena is not None
    correct = [i for i, unit in enumerate(arena.units) if unit.clean == "cc"]
    ours = frozenset(r.unit for r in Bundle.open(found.path).records() if r.observed_failure)
    names = tuple(arena.units[i].id for i in correct)
    return Compared(arena.attacked.deployed, arena.x[correct], arena.y[correct], names, ours, norm, float(F(radius)))


def of_the_authors(norm: str, radius: float, *, steps: int, queries: int, targets: int) -> list[Attack]:
    """Code adapted from theirs, at the settings of their preset ``standard``; nobody has its squares in l1."""
    theirs, own = library(), {"linf": float("inf"), "l2": 2.0, "l1": 1.0}[norm]
    wide = {"n_restarts": 5, "use_large_reps": True} if norm == "l1" else {}
    wide_t = {"use_large_reps": True} if norm == "l1" else {}
    found: list[Attack] = [
        partial(theirs.apgd, eps=radius, norm=own, n_iter=steps, loss_function="ce", **wide),
        partial(theirs.apgd_targeted, eps=radius, norm=own, n_iter=steps, num_targets=targets, **wide_t),
        partial(theirs.fab, norm=own, n_iter=steps),
    ]
    if norm != "l1":
        found.append(of_torchattacks("Square", norm, radius, n_queries=queries))
    return found


def of_torchattacks(name: str, norm: str, radius: float, **arguments: Any) -> Attack:
    import torchattacks

    kind = {"linf": "Linf", "l2": "L2"}[norm]

    def attack(network: Any, x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = getattr(torchattacks, name)(network, norm=kind, eps=radius, seed=0, **arguments)(x, y)
        return found

    return attack


def of_art(norm: str, radius: float, classes: int) -> Attack:
    from art.attacks.evasion import AutoAttack
    from art.estimators.classification import PyTorchClassifier

    def attack(network: Any, x: Tensor, y: Tensor) -> Tensor:
        shape = tuple(x.shape[1:])
        loss = torch.nn.CrossEntropyLoss()
        estimator = PyTorchClassifier(network, loss, shape, classes, clip_values=(0.0, 1.0), device_type="cpu")
        own = np.inf if norm == "linf" else int(norm[1])
        searched = AutoAttack(estimator, norm=own, eps=radius, eps_step=radius / 4, batch_size=len(x))
        return torch.from_numpy(searched.generate(x.numpy(), y.numpy()))

    return attack


def libraries(norm: str, radius: float, *, art: bool) -> Mapping[str, list[Attack]]:
    """AutoAttack of each library: as it comes, and at the published settings."""
    found = {"authors": of_the_authors(norm, radius, steps=100, queries=5000, targets=5 if norm == "l1" else 9)}
    if norm != "l1":
        found["torchattacks, as it comes"] = [of_torchattacks("AutoAttack", norm, radius)]
        found["torchattacks, as published"] = [
            of_torchattacks("APGD", norm, radius, steps=100, loss="ce"),
            of_torchattacks("APGDT", norm, radius, steps=100),
            of_torchattacks("FAB", norm, radius, steps=100, multi_targeted=True),
            of_torchattacks("Square", norm, radius, n_queries=5000),
        ]
    if art:
        found["art, as it comes"] = [of_art(norm, radius, 10)]
    return found


@pytest.mark.parametrize(("norm", "radius"), [("linf", "0.12"), ("l2", "1/2"), ("l1", "1")])
def test_a_short_suite_breaks_what_the_same_of_a_library_breaks(norm: str, radius: str, tmp_path: Path) -> None:
    found = compared(tmp_path, DIGITS, norm, radius, 60, SHORT)
    theirs = found.broken(of_the_authors(norm, float(F(radius)), steps=20, queries=200, targets=3))
    assert 5 < len(theirs) < len(found.ids)
    assert len(found.ours) >= len(theirs)


NOT_THERE = pytest.mark.skipif(not SHARED.exists(), reason="the shared data folder is not beside the checkout")
BALLS = [
    pytest.param(DIGITS, "linf", "0.06", id="digits-linf-0.06"),
    pytest.param(DIGITS, "linf", "0.12", id="digits-linf-0.12"),
    pytest.param(DIGITS, "l2", "1/4", id="digits-l2-0.25"),
    pytest.param(DIGITS, "l1", "1", id="digits-l1-1"),
    pytest.param(SDP, "linf", "2/255", id="sdp-linf", marks=[pytest.mark.shared, NOT_THERE]),
]


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("text", "norm", "radius"), BALLS)
def test_the_standard_suite_breaks_what_any_library_breaks(
    text: str, norm: str, radius: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed ids are those that one side alone breaks."""
    # ART asks for it before it looks whether it wants several processes.
    monkeypatch.setitem(sys.modules, "multiprocess", ModuleType("multiprocess"))
    found = compared(tmp_path, text, norm, radius, 450 if text is DIGITS else 200)
    print(f"\n{norm} <= {radius}: {len(found.ours)} of {len(found.ids)} broken")
    for name, attacks in libraries(norm, float(F(radius)), art=text is DIGITS and norm != "l1").items():
        theirs = found.broken(attacks)
        alone = sorted(found.ours - theirs), sorted(theirs - found.ours)
        print(f"  {name}: {len(theirs)}; ours alone {alone[0]}, theirs alone {alone[1]}", flush=True)
        assert len(found.ours) >= len(theirs), (name, alone)
