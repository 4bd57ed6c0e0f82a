"""The proved gap holds what rational arithmetic shows, and is what the formulas say where they are short."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, certify, digits, greatest_gap, model, threat, unit_box
from torch import nn

from tmlang.backends.asserted import Asserted
from tmlang.backends.contract import BackendRefusal
from tmlang.backends.enclosing import ROUNDOFF, gamma
from tmlang.backends.rounding import EXACT, FINER
from tmlang.execute.sources.files import Files
from tmlang.execute.sources.onnx_graph import load_onnx
from tmlang.meaning.models import Decide, Step
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Mutable, Property
from tmlang.meaning.values import Artifact, Symbol

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
        elif isinstance(layer, nn.LeakyReLU):
            x = [z if z >= 0 else z * Fraction(layer.negative_slope) for z in x]
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
    gap = greatest_gap(case.deployed, torch.zeros(1, 6).double(), torch.ones(1, 6).double())
    worst = Fraction(0)
    for row, computed in zip(x.tolist(), case.deployed(points).tolist(), strict=True):
        real = exact(network, [Fraction(v) for v in row])
        off = [Fraction(c) - r for c, r in zip(computed, real, strict=True)]
        worst = max(worst, *(abs(off[0] - o) for o in off[1:]))
    assert 0 < worst < Fraction(gap) < 2000 * worst


@pytest.mark.parametrize("verifier", ["auto_lirpa.crown", "auto_lirpa.split"])
@pytest.mark.parametrize("seed", range(4))
def test_certified_margins_lie_between_rational_and_computed_ones(seed: int, verifier: str) -> None:
    """Of members of each certified set: in rationals no less than the margin, in float32 less the gap at most, and so
    above 0. The nets' scores are up to some thousands, so that rounding is far from nothing."""
    torch.manual_seed(seed)
    bends = (nn.ReLU(), nn.LeakyReLU(0.1))
    layers = [m for i, (a, b) in enumerate(((4, 12), (12, 12), (12, 3))) for m in (nn.Linear(a, b), bends[i % 2])][:-1]
    network = nn.Sequential(*layers)
    for p in network.parameters():
        p.data.mul_(12)
    draw = np.random.default_rng(seed)
    x = draw.uniform(0.1, 0.9, (12, 4)).astype(np.float32)
    case = Case(network, unit_box(4, features=("a", "b", "c", "d")), model(3), x, [0] * 12)
    case.y = case.decisions(torch.from_numpy(x))
    job = case.job(threat("linf", Fraction(1, 32)))
    said = certify(verifier, case, job, rounding=Symbol("proved"))
    assert "certified" in said.verdict
    for i in (i for i, word in enumerate(said.verdict) if word == "certified"):
        y, margin = int(case.y[i]), float(said.margin[i])
        assert (gap := said.gap_of(i)) is not None
        assert margin > gap > 1e-4
        members = job.sets.rows([i] * 10).project(x[i] + draw.uniform(-1 / 32, 1 / 32, (10, 4)).astype(np.float32)).x
        for point in members:
            real = exact(network, [Fraction(v) for v in point.tolist()])
            with torch.no_grad():
                computed = [Fraction(v) for v in case.deployed(torch.from_numpy(point[None]))[0].tolist()]
            for j in (j for j in range(3) if j != y):
                assert real[y] - real[j] >= Fraction(margin) - Fraction(1, 10**9)
                assert computed[y] - computed[j] >= Fraction(margin) - Fraction(gap)
                assert computed[y] > computed[j]


def test_one_layer_is_bounded_by_the_formula() -> None:
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[3.0, -1.0], [0.5, 2.0]]))
        network.bias.copy_(torch.tensor([1.0, -4.0]))
    case = Case(network, unit_box(2), model(2), np.full((1, 2), 0.5, np.float32), [0])
    gap = greatest_gap(case.deployed, torch.zeros(1, 2).double(), torch.ones(1, 2).double())
    # At most 3 + 1 + 1 and 1/2 + 2 + 4 are summed, of three terms each.
    assert gap == pytest.approx(3 * ROUNDOFF * (5 + 6.5) * (1 + FINER) + EXACT * (5 + 6.5), rel=1e-6)
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
    gap = greatest_gap(case.deployed, low, high)
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
    gap = greatest_gap(case.deployed, torch.zeros(1, 4).double(), torch.ones(1, 4).double())
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
    assert (said["none"].gap_of(0), said["none"].gap_kind) == (None, "none")
    assert said["proved"].gap_kind == "proved"
    assert said["proved"].gap_of(0) is not None
    assert said["proved"].gap_of(0) > 2.0**-12
    assert said["proved"].verdict == ("unknown",)
    assert said["none"].margin.tolist() == pytest.approx([2.0**-13 * 15 / 16], abs=1e-9)
    assert said["none"].verdict == ("certified",)


def test_digits_keep_their_certificates() -> None:
    case = digits()
    job = case.job(threat("linf", Fraction(1, 50)))
    said = {kind: certify("auto_lirpa.crown", case, job, rounding=Symbol(kind)) for kind in ("assumed", "proved")}
    assert said["assumed"].verdict == said["proved"].verdict
    assert said["proved"].gap_of(0) is not None
    assert 0 < said["proved"].gap_of(0) < 0.05


class Of(nn.Module):
    def __init__(self, apply: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.apply_, self.layer = apply, nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.apply_(self.layer(x))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "softmax": (lambda: nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1)), "_softmax"),
    "product": (lambda: Of(lambda z: z * z), "mul"),
    "mean of a batch": (lambda: Of(lambda z: z - z.mean(dim=0)), "mean"),
    "mean of all": (lambda: Of(lambda z: z - z.mean()), "mean"),
    "multiple": (lambda: Of(lambda z: torch.add(z, z, alpha=2)), "add"),
    "double inside": (lambda: Of(lambda z: z.double().float()), "_to_copy"),
    "double": (lambda: nn.Linear(2, 2).double(), "float32"),
    "overflow": (lambda: Of(lambda z: z * 1e30 * 1e30), "may overflow"),
    "weights of weights": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), "not bounded"),
    "branches": (lambda: Of(lambda z: z if z.sum() > 0 else -z), "can be traced"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_not_enclosed_is_refused(name: str) -> None:
    network, words = REFUSED[name]
    case = Case(network(), unit_box(2), model(2), np.zeros((1, 2), np.float32), [0])
    ends = torch.zeros(1, 2).double(), torch.ones(1, 2).double()
    with pytest.raises(BackendRefusal, match=words):
        greatest_gap(case.deployed, *ends)


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


class Branched(nn.Module):
    """Whatever a network is made of: strides, padding, a normalization, two pools, a branch, in-place ReLU."""

    def __init__(self, bend: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.normal, self.bend, self.last = nn.BatchNorm2d(4), bend, nn.Linear(4, 3)
        self.normal.running_mean.uniform_(-1, 1)
        self.normal.running_var.uniform_(0.2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.bend(self.normal(self.first(x)))
        z = z + self.second(z)
        z = nn.functional.max_pool2d(z, 2, padding=1)
        out: torch.Tensor = self.last(nn.functional.avg_pool2d(self.bend(z), 2).flatten(1) * 1.7 - 0.3)
        return out


BENDS: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: nn.ReLU(inplace=True),
    "leaky": lambda: nn.LeakyReLU(0.1),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}


def as_graph(network: nn.Module, folder: Path) -> nn.Module:
    """Read back as an ONNX graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network.eval(), (torch.rand(1, 2, 5, 5),), folder / "net.onnx", dynamo=False)
    return load_onnx(Artifact("net.onnx"), Files(folder), (2, 5, 5))[0]


def as_script(network: nn.Module, folder: Path) -> nn.Module:
    del folder
    return torch.jit.script(network.eval())


@pytest.mark.parametrize("read", [lambda network, _: network, as_graph, as_script], ids=["torch", "onnx", "script"])
@pytest.mark.parametrize("bend", list(BENDS))
def test_whatever_a_network_is_read_from_doubles_stay_within_the_gap(bend: str, read: Any, tmp_path: Path) -> None:
    torch.manual_seed(7)
    network = Branched(BENDS[bend]())
    real = copy.deepcopy(network).eval().double()
    case = Case(read(network, tmp_path), unit_box(2, 5, 5), model(3), np.zeros((1, 2, 5, 5), np.float32), [0])
    low, high = torch.full((1, 2, 5, 5), 0.25).double(), torch.full((1, 2, 5, 5), 0.5).double()
    gap = greatest_gap(case.deployed, low, high)
    points = torch.rand(40, 2, 5, 5) / 4 + 0.25
    with torch.no_grad():
        computed = torch.cat([case.deployed(p[None]) for p in points]).double()
        off = computed - real(points.double())
    worst = float((off[:, :, None] - off[:, None]).abs().max())
    assert 0 < worst < gap < 5000 * worst


def test_rounding_reaches_the_gap_but_for_its_share() -> None:
    """``1 + 2^-24`` less a little is 1 in float32, ``1 + 2^-23 - 2^-24`` and a little more is ``1 + 2^-23``: one score
    is off by half of its last place downwards, the other upwards, and nothing is lost on the way."""
    little = Fraction(1, 2**34)
    half = Fraction(1, 2**24)
    shift = Step("add", (("by", (half - little, little - half)),))
    space = unit_box(2, cells=(Cell("real", Fraction(0), Fraction(2)),))
    case = Case(nn.Identity(), space, model(2, (shift,)), np.zeros((1, 2), np.float32), [0])
    point = torch.tensor([[1.0, 1 + 2.0**-23]])
    gap = greatest_gap(case.deployed, point.double(), point.double())
    a, b = (Fraction(v) for v in case.deployed(point)[0].tolist())
    by = [Fraction(v) for v in case.deployed.steps[0].add.tolist()]
    off = abs((a - b) - (1 + by[0] - 1 - 2 * half - by[1]))
    assert off > Fraction(99, 100) * 2 * half
    assert off < Fraction(gap) < off * Fraction(51, 50)


def threshold(op: str, positive: str = "1") -> Decide:
    negative = "0" if positive == "1" else "1"
    return Decide("threshold", op=op, value=Fraction(1, 10), positive=positive, negative=negative)  # type: ignore[arg-type]


@pytest.mark.parametrize("decide", [threshold(">="), threshold("<", "0"), threshold(">", "0")], ids=str)
def test_a_threshold_has_the_gap_of_its_score(decide: Decide) -> None:
    """``3 x - y + 1``: three terms of at most 5 in all, and a subtraction of a tenth from at most 4.0."""
    network = nn.Linear(2, 1)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[3.0, -1.0]]))
        network.bias.copy_(torch.tensor([1.0]))
    spec = model(2, decide=decide)
    case = Case(network, unit_box(2), spec, np.zeros((1, 2), np.float32), [0])
    gap = greatest_gap(case.deployed, torch.zeros(1, 2).double(), torch.ones(1, 2).double())
    assert 3 * ROUNDOFF * 5 < gap < (3 * ROUNDOFF * 5 + 2 * ROUNDOFF * 4) * (1 + 2**-16)


@pytest.mark.parametrize("verifier", ["auto_lirpa.crown", "auto_lirpa.split", "marabou.query"])
def test_a_threshold_is_certified_beyond_its_gap_and_not_within(verifier: str) -> None:
    """``1000 (x + y) + b`` against 1/10 with x and y at least 1/2 - 1/8: the least score is ``750 + b``."""
    for share, word in ((Fraction(21, 20), "certified"), (Fraction(19, 20), "unknown")):
        network = nn.Linear(2, 1)
        with torch.no_grad():
            network.weight.fill_(1000)
            network.bias.fill_(-750)
        case = Case(network, unit_box(2), model(2, decide=threshold(">=")), np.full((1, 2), 0.5, np.float32), [1])
        job = case.job(threat("linf", Fraction(1, 8)))
        low, high = (torch.from_numpy(side).double() for side in job.sets.outward_box())
        gap = greatest_gap(case.deployed, low, high)
        with torch.no_grad():
            network.bias.add_(float(Fraction(1, 10) + share * Fraction(gap)))
        said = certify(verifier, case, job, rounding=Symbol("proved"))
        assert said.gap_kind == "proved"
        assert said.gap_of(0) == pytest.approx(gap, rel=1e-3)
        assert said.verdict == (word,), share


@pytest.mark.parametrize("verifier", ["auto_lirpa.split", "auto_lirpa.crown", "marabou.query"])
def test_no_verifier_proves_what_rounding_takes_back(verifier: str) -> None:
    """The network above: real arithmetic keeps the label, and the object fails at an input of the set."""
    network = nn.Linear(3, 2)
    with torch.no_grad():
        network.bias.zero_()
        network.weight.copy_(torch.tensor([[2.0**13, 2.0**-12, -(2.0**13)], [0.0, 2.0**-13, 0.0]]))
    case = Case(network, unit_box(3, features=("a", "b", "c")), model(2), np.ones((1, 3), np.float32), [0])
    job = case.job(threat("linf", Fraction(1, 16), mutable=Mutable("features", names=(("b", "any"),))))
    failing = case.decisions(torch.tensor([[1.0, b, 1.0] for b in np.linspace(0.9375, 1, 50)])) != 0
    assert bool(failing.any())
    assert certify(verifier, case, job, rounding=Symbol("proved")).verdict == ("unknown",)


def test_pruned_enumeration_keeps_away_from_failing_by_the_proved_gap() -> None:
    """On the grid of eighths: boxes are left out only beyond the gap, what is within is listed, and both are right."""
    network = nn.Linear(2, 2)
    space = unit_box(2, cells=(Cell("lattice", Fraction(0), Fraction(1), step=Fraction(1, 8)),))
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[1000.0, 1000.0], [0.0, 0.0]]))
        network.bias.copy_(torch.tensor([-749.9999, 0.0]))
    case = Case(network, space, model(2), np.full((1, 2), 0.5, np.float32), [0])
    job = case.job(threat("linf", Fraction(1, 8)))
    said = certify("auto_lirpa.enumerate", case, job, rounding=Symbol("proved"))
    grid = [[a / 8, b / 8] for a in (3, 4, 5) for b in (3, 4, 5)]
    assert case.decisions(torch.tensor(grid)).tolist() == [0] * 9
    assert (said.verdict, said.gap_kind, said.sizes) == (("certified",), "proved", (9,))
    assert said.messages == ("all 9 inputs tried",), "the corner is within the gap"


def test_a_property_has_the_gap_of_two_outputs() -> None:
    """``given`` a in [0, 1], ``always`` y0 <= 5.5 on ``3 x + 1``, of three roundings of at most 4."""
    network = nn.Linear(1, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[3.0], [-1.0]]))
        network.bias.copy_(torch.tensor([1.0, 0.0]))
    case = Case(network, unit_box(1, features=("a",)), model(2), np.zeros((1, 1), np.float32), [0])
    subject = Property("p", "net", (), (("0", "<=", Fraction(11, 2)),))  # type: ignore[arg-type]
    asserted = Asserted(case.deployed, case.decide, subject)
    gap = greatest_gap(asserted, torch.zeros(1, 1).double(), torch.ones(1, 1).double())
    assert gap == pytest.approx(gamma(2) * (4 + 1) * (1 + FINER) + EXACT * (4 + 1), rel=1e-6)
