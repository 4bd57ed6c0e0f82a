"""No certified example has a failing input: random nets of every trusted kind of layer, and nets with a planted one.

Each certificate is attacked by corners, uniform points and ascent on every other class; the planted counterexample is
known, and lies where no sampling is likely to meet it. A slice runs with every change, the whole in the nightly command
(``TM_NETS`` and ``TM_PLANTED`` say how many).
"""

from __future__ import annotations

import os
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from backend_support import Case, certify, model, threat, unit_box
from torch import nn

from tmlang.meaning.values import Quantity

pytestmark = pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")

BOUNDS = ["auto_lirpa.crown", "auto_lirpa.crown_ibp", "auto_lirpa.ibp"]
COMPLETE = ["auto_lirpa.split", "marabou.query"]
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


def failing(case: Case, low: torch.Tensor, high: torch.Tensor, y: int) -> bool:
    """Whether some input of the box is decided otherwise, as far as a cheap attack sees."""
    corners = torch.where(torch.rand(24, *low.shape) < 0.5, low, high)
    points = torch.cat([corners, low + (high - low) * torch.rand(24, *low.shape)])
    for other in {0, 1, 2} - {y}:
        at = points[:24].clone()
        for _ in range(4):
            at = at.detach().requires_grad_()
            scores = case.deployed(at)
            (slope,) = torch.autograd.grad((scores[:, other] - scores[:, y]).sum(), at)
            at = torch.where(slope > 0, high, torch.where(slope < 0, low, at.detach()))
        points = torch.cat([points, at.detach()])
    with torch.no_grad():
        return bool((case.decide(case.deployed(points)) != y).any())


def no_certificate_is_broken(path: str, seed: int) -> tuple[str, int]:
    """The kind of the net, and how many of its units were certified."""
    kind, case, radius = random_case(seed)
    limit = {"timeout": Quantity(Fraction(2), "s")} if path in COMPLETE else {}
    job = case.job(threat(radius=radius))
    said = certify(path, case, job, **limit)
    proved = [i for i, word in enumerate(said.verdict) if word == "certified"]
    for i in proved:
        low, high = torch.from_numpy(job.sets.lower[i]), torch.from_numpy(job.sets.upper[i])
        assert not failing(case, low, high, int(case.y[i])), (path, seed, kind, i)
    return kind, len(proved)


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
    limit = {"timeout": Quantity(Fraction(2), "s")} if path in COMPLETE else {}
    assert certify(path, case, case.job(threat(radius=Fraction(501, 10000))), **limit).verdict[0] != "certified", seed


@pytest.mark.parametrize("path", BOUNDS)
def test_a_slice_of_the_random_nets(path: str) -> None:
    certified = dict.fromkeys(KINDS, 0)
    for seed in range(2 * len(KINDS)):
        kind, proved = no_certificate_is_broken(path, seed)
        certified[kind] += proved
    # Interval bounds are loose; they prove something, not something of every kind.
    assert any(certified.values()) if path == "auto_lirpa.ibp" else all(certified.values()), certified
    for seed in range(3):
        never_certified(path, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("path", BOUNDS)
def test_random_nets(path: str) -> None:
    certified = sum(no_certificate_is_broken(path, seed)[1] for seed in range(NETS))
    print(f"{path}: {certified} of {NETS * UNITS} certified, none broken")


@pytest.mark.nightly
@pytest.mark.parametrize("path", COMPLETE)
def test_random_nets_are_decided(path: str) -> None:
    certified = sum(no_certificate_is_broken(path, seed)[1] for seed in range(NETS // 20))
    print(f"{path}: {certified} of {NETS // 20 * UNITS} certified, none broken")


@pytest.mark.nightly
@pytest.mark.parametrize("path", [*BOUNDS, *COMPLETE])
def test_planted_counterexamples(path: str) -> None:
    for seed in range(PLANTED):
        never_certified(path, seed)
