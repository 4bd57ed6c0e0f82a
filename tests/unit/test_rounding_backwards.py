"""The bounds that go backwards: by hand on chains of one value, and against float32 on nets that round a lot."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from backend_support import Case, certify, model, threat, unit_box
from torch import nn

from tmlang.backends import gaps
from tmlang.backends.answers import Gap
from tmlang.backends.enclosing import gamma
from tmlang.backends.rounding import EXACT, FINER, Ball, computed
from tmlang.meaning.threats import Mutable
from tmlang.meaning.values import Symbol

DIFFERENCE = torch.tensor([[[1.0, -1.0]]], dtype=torch.float64)


def chain(weight: float, bias: float) -> Case:
    """``2 max(0, weight x + bias)`` against ``1``."""
    network = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2))
    with torch.no_grad():
        for parameter, values in zip(
            network.parameters(), ([[weight]], [bias], [[2.0], [0.0]], [0.0, 1.0]), strict=True
        ):
            parameter.copy_(torch.tensor(values))
    return Case(network, unit_box(1), model(2), np.full((1, 1), 0.5, np.float32), [0])


def over(case: Case, low: float, high: float) -> tuple[float, float]:
    """The drift of the difference of scores, and how far it may be below the least real one."""
    ends = (torch.full((1, 1), end, dtype=torch.float64) for end in (low, high))
    with torch.no_grad():
        found = computed(case.deployed, *ends, torch.float32)
        return float(found.gaps(DIFFERENCE)), float(found.below(DIFFERENCE, torch.full((1, 1), -1e9).double()))


def test_an_open_relu_hands_on_all_of_an_error() -> None:
    """``3 x + 1`` on [0, 1]: at most ``e = gamma_2 (3 + 1)``; then ``2 (4 + e)`` and ``1`` are rounded by two each."""
    e = gamma(2) * 4
    by_hand = 2 * e + gamma(2) * 2 * (4 + e) + gamma(2) * 1
    spare = FINER * by_hand + EXACT * (8 + 1)
    assert over(chain(3, 1), 0, 1)[0] == pytest.approx(by_hand + spare, rel=1e-6)


def test_a_dead_relu_hands_on_nothing() -> None:
    """``-3 x - 1``: behind it stand 0 and 1."""
    assert over(chain(-3, -1), 0, 1)[0] == pytest.approx(gamma(2) * 1 * (1 + FINER) + EXACT, rel=1e-6)


def test_a_bent_relu_takes_the_slope_of_the_line_below_it() -> None:
    """``4 x - 3`` on [0, 1], between -3 and 1, is more shut than open: from below it is bounded by 0, and its error
    does not reach the difference. Both networks of the family may be on either side: the drift has it in full."""
    drift, below = over(chain(4, -3), 0, 1)
    e = gamma(2) * (4 + 3)
    last = gamma(2) * 2 * (1 + e) + gamma(2) * 1
    assert drift == pytest.approx(2 * e + last, rel=1e-5)
    assert below == pytest.approx(last + FINER * (2 * e + last), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("norm", ["box", "ball"])
def test_no_computed_score_is_below_what_is_lowered(seed: int, norm: str) -> None:
    """Of six layers with weights of size 4, at 2,000 inputs, corners among them; the drift is far above."""
    draw = torch.Generator().manual_seed(seed)
    sizes = (5, 14, 14, 14, 14, 14, 3)
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layer = nn.Linear(a, b)
        with torch.no_grad():
            layer.weight.copy_(torch.randn(b, a, generator=draw))
            layer.bias.copy_(torch.randn(b, generator=draw))
        layers += [layer, nn.ReLU()]
    case = Case(nn.Sequential(*layers[:-1]), unit_box(5), model(3), np.full((1, 5), 0.5, np.float32), [0])
    centre, radius = torch.full((1, 5), 0.5).double(), 1 / 16
    low, high = centre - radius, centre + radius
    moved = radius * (2 * torch.rand(2000, 5, generator=draw) - 1)
    moved[:500] = moved[:500].sign() * radius
    ball = None
    if norm == "ball":
        ball = Ball(centre, 2, radius)
        moved = moved * (radius / moved.norm(dim=1, keepdim=True)).clamp(max=1)
    points = (centre + moved).float()
    if norm == "ball":  # what rounding left outside
        points = points[(points.double() - centre).norm(dim=1) <= radius]
    rows = torch.tensor([[[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]]).double()
    with torch.no_grad():
        found = computed(case.deployed, low, high, torch.float32, ball=ball)
        scores = torch.cat([case.deployed(point[None]) for point in points]).double()
        real = case.deployed.network.double()(points.double())
        case.deployed.network.float()
        # The tightest statement that a pass of its own makes: what is bounded below is what it bounds.
        drift = found.gaps(rows)[0]
        least = (real @ rows[0].T).amin(dim=0)
        below = found.below(rows, least[None])[0]
    off = (scores - real) @ rows[0].T
    assert len(points) > 500
    assert bool((off.abs() <= drift).all())
    assert float(off.abs().max()) > 0
    assert bool(((scores @ rows[0].T).amin(dim=0) >= least - below).all())
    assert bool((below <= drift).all())


def test_float_traps_are_not_certified_and_what_is_clear_is() -> None:
    """``1e8 (a - b) + c`` at a = b: products of 5e7 are rounded by 2 each. A margin of 1e-3 is lost in what cancels,
    one of 1,000 is not."""
    for bias, word in ((1e-3, "unknown"), (1e3, "certified")):
        network = nn.Linear(3, 2)
        with torch.no_grad():
            network.weight.copy_(torch.tensor([[1e8, -1e8, 1e-3], [0.0, 0.0, 0.0]]))
            network.bias.copy_(torch.tensor([bias, 0.0]))
        case = Case(network, unit_box(3, features=("a", "b", "c")), model(2), np.full((1, 3), 0.5, np.float32), [0])
        moving = Mutable("features", names=(("c", "any"),))
        found = certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(1, 16), mutable=moving)))
        assert (found.verdict, found.gap_kind) == ((word,), "proved")


def test_a_build_that_was_not_examined_assumes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = chain(3, 1)
    job = case.job(threat("linf", Fraction(1, 8)))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SVE256")
    for path in ("auto_lirpa.crown", "auto_lirpa.split"):
        found = certify(path, case, job)
        assert (found.verdict, found.gap_kind) == (("certified",), "assumed")
        assert "SVE256 were not examined" in str(found.messages[0])
    assert gaps.supposed() is not None


def test_precision_below_the_highest_is_not_supposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    assert gaps.supposed() == "matrix products are computed with medium precision"


def test_a_gap_of_nought_is_a_perfect_gap() -> None:
    """What is proved then stays away from failing by more than nothing, so that its margin exceeds the gap."""
    for kind in ("proved", "assumed"):
        assert Gap((0.0,), kind).margin(0) > 0.0  # type: ignore[arg-type]
        assert Gap((0.0,), kind).margin(0) < 1e-300  # type: ignore[arg-type]


def test_gaps_are_the_units_own() -> None:
    """``64 x`` below 1/64 + 1/4096 and below 1: 4096/65 times as much is rounded by so many times as much."""
    network = nn.Linear(1, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[64.0], [0.0]]))
        network.bias.zero_()
    case = Case(network, unit_box(1), model(2), np.array([[1 / 64], [1.0]], np.float32), [0, 0])
    found = certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(1, 4096))), rounding=Symbol("proved"))
    small, large = (found.gap_of(i) for i in range(2))
    assert small is not None
    assert large == pytest.approx(4096 / 65 * small, rel=1e-5)
