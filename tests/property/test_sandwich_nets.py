"""No certified example has a failing input: random nets of every trusted kind of layer, and nets with a planted one.

Each certificate is attacked by corners, uniform points and ascent on every other class; the planted counterexample is
known, and lies where no sampling is likely to meet it. 2,000 pairs of a net and a method run with every change, 20,000
nets for every method in the nightly command (``TM_NETS`` and ``TM_PLANTED`` say how many; ``-s`` shows how far it is).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, model, resolved, threat, unit_box
from torch import nn

from tmlang.backends import auto_lirpa, lirpa_graph, splitting
from tmlang.backends.loading import load
from tmlang.meaning.values import Quantity

pytestmark = pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")

QUICK = [
    "auto_lirpa.crown", "auto_lirpa.crown_ibp", "auto_lirpa.ibp", "auto_lirpa.forward", "auto_lirpa.forward_backward"
]  # fmt: skip
BOUNDS = [*QUICK, "auto_lirpa.alpha_crown"]
COMPLETE = ["auto_lirpa.split", "marabou.query"]
SLOW = ["auto_lirpa.alpha_crown", *COMPLETE]
REFUSED = {
    ("auto_lirpa.alpha_crown", "max pool"), ("auto_lirpa.forward", "average pool"), ("marabou.query", "average pool"),
}  # fmt: skip
"""Methods that bound no nets of a kind."""
NETS = int(os.environ.get("TM_NETS", "20000"))
PLANTED = int(os.environ.get("TM_PLANTED", "500"))
UNITS = 4


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.first(x.flatten(1))
        out: torch.Tensor = self.last(torch.relu(z + self.inner(torch.relu(z))))
        return out


def dense(*activations: type[nn.Module]) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(16, 8)]
    for activation in activations:
        layers += [activation(), nn.Linear(8, 8)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(8, 3))


KINDS = {
    "mlp": lambda: dense(nn.ReLU, nn.ReLU),
    "tanh": lambda: dense(nn.Tanh),
    "sigmoid": lambda: dense(nn.Sigmoid),
    "residual": Residual,
    "conv": lambda: nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(8, 3)
    ),
    "max pool": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    ),
    "average pool": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    ),
}  # fmt: skip


def random_case(seed: int) -> tuple[str, Case, Fraction]:
    """A net of the kind that the seed names, its classes meeting within the box, labels its own, and a radius."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    network = KINDS[kind]().eval()
    for p in network.parameters():
        p.data.mul_(float(rng.uniform(1, 3)))
    x = rng.uniform(0, 1, (UNITS, 1, 4, 4)).astype(np.float32)
    last = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        last.bias -= network(torch.from_numpy(x)).mean(dim=0)
    case = Case(network, unit_box(1, 4, 4), model(3), x, [0] * UNITS)
    case.y = case.decisions(torch.from_numpy(x))
    return kind, case, Fraction(int(rng.integers(1, 12)), 400)


class Graphs:
    """Reads the graph of one net of each kind and gives it the weights of the next: reading is most of the time."""

    def __init__(self, read: Callable[..., Any]) -> None:
        self.read, self.kept = read, {}

    def __call__(self, body: nn.Module, sample: torch.Tensor, mode: str, **asked: Any) -> Any:
        kind = (str(body), tuple(sample.shape), mode, *sorted(asked.items()))
        if kind not in self.kept:
            self.kept[kind] = self.read(body, sample, mode, **asked)
        bounded = self.kept[kind]
        bounded.load_state_dict(body.state_dict())
        assert torch.allclose(bounded(sample), body(sample), rtol=0, atol=1e-12)
        return bounded


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Graphs(lirpa_graph.bounded_module)
    monkeypatch.setattr(auto_lirpa, "bounded_module", kept)
    monkeypatch.setattr(splitting, "bounded_module", kept)


def failing(case: Case, low: torch.Tensor, high: torch.Tensor, y: torch.Tensor) -> list[bool]:
    """For each of n boxes whether some input is decided otherwise than ``y`` (n,), as far as a cheap attack sees."""

    def fails(points: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            decided = case.decide(case.deployed(points.flatten(0, 1))).reshape(points.shape[:2])
        return (decided != y).any(dim=0)

    corners = torch.where(torch.rand(24, *low.shape) < 0.5, low, high)
    at = torch.cat([corners, low + (high - low) * torch.rand(24, *low.shape)])
    found = fails(at)
    for step in (1, 2):
        other = ((y + step) % 3)[None, :, None]
        z = at[12:36]
        for _ in range(4):
            z = z.detach().requires_grad_()
            scores = case.deployed(z.flatten(0, 1)).reshape(24, len(y), 3)
            gain = scores.gather(2, other.expand(24, -1, -1)) - scores.gather(2, y[None, :, None].expand(24, -1, -1))
            (slope,) = torch.autograd.grad(gain.sum(), z)
            z = torch.where(slope > 0, high, torch.where(slope < 0, low, z.detach()))
        found |= fails(z.detach())
    return found.tolist()


@cache
def asked(path: str) -> tuple[Any, dict[str, Any]]:
    """The adapter, and its arguments, which are the same for all nets; a complete one has two seconds a unit."""
    _, case, radius = random_case(0)
    limit = {"timeout": Quantity(Fraction(2), "s")} if path in COMPLETE else {}
    return load(*path.split(".")), dict(resolved(path, case.job(threat(radius=radius)), case.spec, **limit))


def no_certificate_is_broken(paths: Sequence[str], seed: int) -> dict[tuple[str, str], int]:
    """How many units of the seed's net each method certified, by method and kind."""
    kind, case, radius = random_case(seed)
    job = case.job(threat(radius=radius))
    said = {}
    for path in paths:
        if (path, kind) not in REFUSED:
            adapter, arguments = asked(path)
            said[path] = [w == "certified" for w in adapter.certify(replace(job, arguments=arguments)).verdict]
    low, high = torch.from_numpy(job.sets.lower), torch.from_numpy(job.sets.upper)
    fails = failing(case, low, high, case.y)
    for path, proved in said.items():
        assert not any(p and f for p, f in zip(proved, fails, strict=True)), (path, seed, kind, proved, fails)
    return {(path, kind): sum(proved) for path, proved in said.items()}


def no_output_leaves_its_bounds(paths: Sequence[str], seed: int) -> None:
    """Scores at corners, uniform points and the corner to which each score rises and falls from the original."""
    kind, case, radius = random_case(seed)
    job = case.job(threat(radius=radius))
    low, high = torch.from_numpy(job.sets.lower), torch.from_numpy(job.sets.upper)
    x = job.x.clone().requires_grad_()
    slopes = [torch.autograd.grad(s.sum(), x, retain_graph=True)[0] for s in case.deployed(x).unbind(dim=1)]
    ends = torch.stack([torch.where(side * s > 0, high, low) for s in slopes for side in (1, -1)])
    corners = torch.where(torch.rand(24, *low.shape) < 0.5, low, high)
    points = torch.cat([job.x[None], ends, corners, low + (high - low) * torch.rand(24, *low.shape)])
    with torch.no_grad():
        scores = case.deployed(points.flatten(0, 1)).reshape(*points.shape[:2], 3).double().numpy()
    for path in paths:
        if (path, kind) not in REFUSED:
            adapter, arguments = asked(path)
            found = adapter.certify(replace(job, arguments=arguments | {"outputs": True}))
            for i, bounds in enumerate(found.outputs):
                assert bounds.fault(3) is None
                assert (scores[:, i] >= bounds.lower - found.gap).all(), (path, seed, kind)
                assert (scores[:, i] <= bounds.upper + found.gap).all(), (path, seed, kind)
                lead = scores[:, i, case.y[i]][:, None] - scores[:, i]
                assert (lead >= bounds.margins - found.gap).all(), (path, seed, kind)


def planted(seed: int) -> Case:
    """A net of the seed's kind plus a bump of one neuron at a corner of the set, where the other class wins."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x = rng.uniform(0.2, 0.8, (1, 16)).astype(np.float32)
    sign = np.where(rng.random(16) < 0.5, 1.0, -1.0)
    network = nn.Sequential(nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 2))
    with torch.no_grad():
        network[0].weight[8] = torch.from_numpy(sign).float()
        edge = float((sign * x[0]).sum()) + 16 * 0.05 - 0.002
        network[0].bias[8] = -edge
        network[2].weight.mul_(0.01)
        network[2].weight[:, 8] = torch.tensor([0.0, 2000.0])
        network[2].bias.copy_(torch.tensor([1.0, 0.0]))
    return Case(network, unit_box(16), model(2), x, [0])


def never_certified(path: str, seed: int) -> None:
    case = planted(seed)
    corner = torch.from_numpy(case.x + 0.05 * np.sign(case.deployed.network[0].weight[8].numpy())).float()  # type: ignore[index,union-attr]
    assert case.decisions(torch.from_numpy(case.x)).tolist() == [0]
    assert case.decisions(corner).tolist() == [1]
    adapter, arguments = asked(path)
    job = replace(case.job(threat(radius=Fraction(501, 10000))), arguments=arguments)
    assert adapter.certify(job).verdict[0] != "certified", seed


@pytest.mark.parametrize("path", BOUNDS)
def test_graphs_that_are_read_anew(path: str) -> None:
    """Without the fixture: every net of every kind goes through all of the adapter."""
    for seed in range(len(KINDS)):
        no_certificate_is_broken([path], seed)
    for seed in range(3):
        never_certified(path, seed)


@pytest.mark.usefixtures("graphs")
def test_two_thousand_random_nets() -> None:
    """Nets times methods. Each certifies units of every kind, but for interval bounds, which are loose."""
    certified = Counter[tuple[str, str]]()
    for seed in range(2000 // len(QUICK)):
        certified.update(no_certificate_is_broken(QUICK if seed % 20 else BOUNDS, seed))
    for path in QUICK:
        some = [certified[path, kind] for kind in KINDS if (path, kind) not in REFUSED]
        assert any(some) if path == "auto_lirpa.ibp" else all(some), (path, some)


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("nets", [21, pytest.param(NETS // 40, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)])])
def test_outputs_of_random_nets(nets: int) -> None:
    for seed in range(nets):
        no_output_leaves_its_bounds(QUICK if seed % 20 else BOUNDS, seed)


@pytest.mark.nightly
@pytest.mark.timeout(12 * 3600)
@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("paths", [QUICK, *([path] for path in SLOW)], ids=",".join)
def test_random_nets(paths: list[str]) -> None:
    started, certified = time.monotonic(), Counter[str]()
    for seed in range(NETS):
        for (path, _), units in no_certificate_is_broken(paths, seed).items():
            certified[path] += units
        if seed % 1000 == 999:
            print(
                f"{seed + 1} nets in {time.monotonic() - started:.0f} s, certified of {UNITS} each: {dict(certified)}"
            )


@pytest.mark.nightly
@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("path", [*BOUNDS, *COMPLETE])
def test_planted_counterexamples(path: str) -> None:
    for seed in range(PLANTED):
        never_certified(path, seed)
