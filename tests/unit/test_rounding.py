"""The proved gap holds what rational arithmetic shows, and is what the formulas say where they are short."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from backend_support import Case, certify, digits, model, threat, unit_box
from torch import nn

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.rounding import ROUNDOFF, SHARE, gamma, proved_gap
from tmlang.meaning.models import Decide, Step
from tmlang.meaning.threats import Mutable
from tmlang.meaning.values import Symbol

HALF = Step("normalize", (("mean", Fraction(1, 2)), ("std", Fraction(1, 4))))


def exact(network: nn.Sequential, x: list[Fraction]) -> list[Fraction]:
    """A dense network in rational arithmetic."""
    for layer in network:
        if isinstance(layer, nn.Linear):
            rows = [[Fraction(w) for w in row] for row in layer.weight.tolist()]
            x = [sum(w * z for w, z in zip(row, x, strict=True)) for row in rows]
            x = [z + Fraction(b) for z, b in zip(x, layer.bias.tolist(), strict=True)]
        elif isinstance(layer, nn.ReLU):
            x = [max(z, Fraction(0)) for z in x]
    return x


@pytest.mark.parametrize("seed", range(6))
def test_no_computed_margin_is_further_from_the_rational_one(seed: int) -> None:
    torch.manual_seed(seed)
    layers = [layer for a, b in ((6, 20), (20, 20), (20, 3)) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
    network = nn.Sequential(*layers)
    for p in network.parameters():
        p.data.mul_(4)
    x = np.random.default_rng(seed).uniform(0, 1, (8, 6)).astype(np.float32)
    case = Case(network, unit_box(6), model(3), x, [0] * 8)
    points = torch.from_numpy(x)
    gap = proved_gap(case.deployed, torch.zeros(1, 6).double(), torch.ones(1, 6).double(), case.y[:1], torch.float32)
    worst = Fraction(0)
    for row, computed in zip(x.tolist(), case.deployed(points).tolist(), strict=True):
        real = exact(network, [Fraction(v) for v in row])
        off = [Fraction(c) - r for c, r in zip(computed, real, strict=True)]
        worst = max(worst, *(abs(off[0] - o) for o in off[1:]))
    assert 0 < worst < Fraction(gap) < 2000 * worst


def test_one_layer_is_bounded_by_the_formula() -> None:
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[3.0, -1.0], [0.5, 2.0]]))
        network.bias.copy_(torch.tensor([1.0, -4.0]))
    case = Case(network, unit_box(2), model(2), np.full((1, 2), 0.5, np.float32), [0])
    gap = proved_gap(case.deployed, torch.zeros(1, 2).double(), torch.ones(1, 2).double(), case.y, torch.float32)
    # At most 3 + 1 + 1 and 1/2 + 2 + 4 are summed, of three terms each.
    assert gap == pytest.approx(3 * ROUNDOFF * (5 + 6.5) * (1 + SHARE), rel=1e-6)
    assert gamma(3) > 3 * ROUNDOFF


def test_steps_and_layers_of_pictures_hold_what_doubles_show() -> None:
    torch.manual_seed(3)
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 6, 3, 2, groups=2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 4),
    )  # fmt: skip
    network[1].running_mean.uniform_(-1, 1)
    network[1].running_var.uniform_(0.2, 2)
    case = Case(network, unit_box(3, 6, 6), model(4, (HALF,)), np.zeros((1, 3, 6, 6), np.float32), [1])
    low, high = torch.zeros(1, 3, 6, 6).double(), torch.ones(1, 3, 6, 6).double()
    gap = proved_gap(case.deployed, low, high, case.y, torch.float32)
    points = torch.rand(64, 3, 6, 6)
    computed = case.deployed(points).double()
    real = network.double()((points.double() - 0.5) / 0.25)
    network.float()
    off = (computed[:, 1:2] - computed) - (real[:, 1:2] - real)
    assert 0 < float(off.abs().max()) < gap < 2000 * float(off.abs().max())


def test_a_residual_network_is_traced() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.inner, self.last = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.first(x)
            out: torch.Tensor = self.last(torch.relu(z + self.inner(torch.relu(z))))
            return out

    torch.manual_seed(0)
    network = Residual()
    case = Case(network, unit_box(4), model(2), np.zeros((1, 4), np.float32), [0])
    gap = proved_gap(case.deployed, torch.zeros(1, 4).double(), torch.ones(1, 4).double(), case.y, torch.float32)
    points = torch.rand(500, 4)
    computed, real = case.deployed(points).double(), network.double()(points.double())
    off = float(((computed[:, 0] - computed[:, 1]) - (real[:, 0] - real[:, 1])).abs().max())
    assert 0 < off < gap < 1e-5


def test_what_rounding_takes_back_is_certified_in_real_arithmetic_alone() -> None:
    """``8192 a + b / 4096 - 8192 a`` is 1/4096 at a = b = 1, above the other score's 1/8192; a float32 sum from the
    left loses it. The margin of 1/8192 (15/16 of it at b = 15/16) is real, and smaller than what rounding may do."""
    network = nn.Linear(3, 2)
    with torch.no_grad():
        network.bias.zero_()
        network.weight.copy_(torch.tensor([[2.0**13, 2.0**-12, -(2.0**13)], [0.0, 2.0**-13, 0.0]]))
    case = Case(network, unit_box(3, features=("a", "b", "c")), model(2), np.ones((1, 3), np.float32), [0])
    job = case.job(threat("linf", Fraction(1, 16), mutable=Mutable("features", names=(("b", "any"),))))
    said = {kind: certify("auto_lirpa.ibp", case, job, rounding=Symbol(kind)) for kind in ("none", "proved")}
    assert (said["none"].gap, said["none"].gap_kind) == (None, "none")
    assert said["proved"].gap_kind == "proved"
    assert said["proved"].gap is not None
    assert said["proved"].gap > 2.0**-12
    assert said["proved"].verdict == ("unknown",)
    assert said["none"].margin.tolist() == pytest.approx([2.0**-13 * 15 / 16], abs=1e-9)
    assert said["none"].verdict == ("certified",)


def test_digits_keep_their_certificates() -> None:
    case = digits()
    job = case.job(threat("linf", Fraction(1, 50)))
    said = {kind: certify("auto_lirpa.crown", case, job, rounding=Symbol(kind)) for kind in ("assumed", "proved")}
    assert said["assumed"].verdict == said["proved"].verdict
    assert said["proved"].gap is not None
    assert 0 < said["proved"].gap < 0.05


REFUSED = {
    "tanh": (lambda: nn.Sequential(nn.Linear(2, 2), nn.Tanh()), {}, "Tanh"),
    "argmin": (lambda: nn.Linear(2, 2), {"decide": Decide("argmin", ties="lowest")}, "greatest decides"),
    "double": (lambda: nn.Linear(2, 2).double(), {}, "float32"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_not_enclosed_is_refused(name: str) -> None:
    network, changes, words = REFUSED[name]
    case = Case(network(), unit_box(2), model(2, **changes), np.zeros((1, 2), np.float32), [0])
    ends = torch.zeros(1, 2).double(), torch.ones(1, 2).double()
    with pytest.raises(BackendRefusal, match=words):
        proved_gap(case.deployed, *ends, case.y, torch.float32)


def test_orders_of_summation_stay_within_gamma() -> None:
    """Every order of a sum of four float32 terms, by hand in float32."""
    terms = [np.float32(t) for t in (1.0, 2.0**-24, 3 * 2.0**-25, -1.0)]
    exact_sum = sum(Fraction(float(t)) for t in terms)
    size = sum(abs(Fraction(float(t))) for t in terms)
    for order in itertools.permutations(terms):
        total = np.float32(0)
        for t in order:
            total = np.float32(total + t)
        assert abs(Fraction(float(total)) - exact_sum) <= Fraction(gamma(4)) * size
