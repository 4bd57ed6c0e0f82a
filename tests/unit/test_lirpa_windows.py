"""Bounds of a convolution behind a convolution: by hand, against dense matrices, at points, and where they are used."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, certify, digits, model, threat, unit_box
from crown import box, dense, relu_below
from torch import nn

from tmlang.backends import auto_lirpa, lirpa_graph, lirpa_shims
from tmlang.backends.lirpa_windows import Convolution, Pair, Window, pair_of
from tmlang.meaning.models import Step

Tensor = torch.Tensor
DOUBLE = torch.float64
ONE = ((1, 1), (0, 0))


def tensor(*values: float, shape: tuple[int, ...]) -> Tensor:
    return torch.tensor(values, dtype=DOUBLE).reshape(shape)


def one(weight: float, bias: float, name: str = "second") -> Convolution:
    """A convolution that sees one pixel of one channel."""
    return Convolution(name, tensor(weight, shape=(1, 1, 1, 1)), tensor(bias, shape=(1,)), *ONE)


@pytest.mark.parametrize(
    ("low", "high", "weight", "bias", "lower", "upper"),
    [
        # relu(x) on [-1, 2] lies between x, as it is more open than closed, and 2/3 (x + 1).
        (-1, 2, -1.0, 1.0, -1.0, 2.0),
        (-1, 2, 1.0, -1.0, -2.0, 1.0),
        # On [-2, 1] between 0 and 1/3 (x + 2).
        (-2, 1, -1.0, 0.5, -0.5, 0.5),
        # What intervals tell to be stable keeps their bounds.
        (-1, 2, 1.0, 0.5, 0.5, 2.5),
        (1, 2, 1.0, -1.5, -0.5, 0.5),
    ],
)
def test_one_pixel(low: float, high: float, weight: float, bias: float, lower: float, upper: float) -> None:
    pair = Pair((), one(1.0, 0.0, "first"), one(weight, bias), 1)
    found = pair.bounds(tensor(low, shape=(1, 1, 1, 1)), tensor(high, shape=(1, 1, 1, 1)))
    assert [float(side) for side in found["first"]] == [low, high]
    assert [float(side) for side in found["second"]] == pytest.approx([lower, upper])


def test_windows_of_windows() -> None:
    second, first = Window((3, 2), (2, 1), (1, 0)), Window((5, 3), (1, 2), (2, 1))
    # Three places at distance one, each of which sees five: seven, with padding 2 and one place more of it.
    assert second.behind(first) == Window((7, 5), (2, 2), (3, 1))


def random_pair(seed: int, front: bool = False) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A network of two convolutions and a matrix, of drawn kernels, strides and paddings, and its input's shape."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 4)), int(rng.integers(5, 9)), int(rng.integers(5, 9)))
    layers: list[nn.Module] = []
    if front:
        scale = nn.Conv2d(shape[0], shape[0], 1)
        scale.weight.data = torch.diag(torch.randn(shape[0])).reshape(scale.weight.shape)
        layers.append(scale)
    for i, channels in enumerate((4, 3)):
        kernel, stride, padding = (tuple(rng.integers(a, b, 2).tolist()) for a, b in ((1, 4), (1, 3), (0, 2)))
        inputs = shape[0] if i == 0 else 4
        layers += [nn.Conv2d(inputs, channels, kernel, stride, padding, bias=bool(rng.integers(2))), nn.ReLU()]
    body = nn.Sequential(*layers, nn.Flatten())
    size = body(torch.zeros(1, *shape)).shape[1]
    network = nn.Sequential(*body, nn.Linear(size, 3)).double().eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
        parameter.mul_(2)
    return network, shape


def read(network: nn.Module, x: Tensor) -> Any:
    with torch.no_grad(), lirpa_shims.in_double():
        return lirpa_graph.bounded_module(network, x, "patches", whole_ball=False)


@pytest.mark.parametrize("seed", [s for s in range(24) if s != 3])  # of which nothing crosses
def test_they_are_those_of_dense_matrices_and_hold_at_points(seed: int) -> None:
    network, shape = random_pair(seed, front=seed % 3 == 0)
    x = torch.rand(3, *shape, dtype=DOUBLE)
    low, high = x - 0.2, x + 0.3
    pair = pair_of(read(network, x))
    assert pair is not None
    found = pair.bounds(low, high)
    lower, upper = found[pair.second.name]
    parts = list(network)[: [type(m) for m in network].index(nn.ReLU) + 2]
    before, after = nn.Sequential(*parts[:-2]), parts[-1]
    first, inner = dense(before, shape)
    second, _ = dense(after, inner)
    crossing = 0
    for i in range(3):
        region = box(low[i].flatten().numpy(), high[i].flatten().numpy())
        z1 = region.range(first.weight, first.bias)
        for side, sign in ((lower, 1), (upper, -1)):
            a, b = relu_below(sign * second.weight, sign * second.bias, *z1)
            expected = sign * region.least(a @ first.weight, b + a @ first.bias)
            open_ = ((lower[i] < 0) & (upper[i] > 0)).flatten().numpy()
            crossing += int(open_.sum())
            assert side[i].flatten().numpy()[open_] == pytest.approx(expected[open_], abs=1e-9)
    points = low + (high - low) * torch.rand(200, 1, *shape, dtype=DOUBLE).round(decimals=1)
    values = nn.Sequential(*parts)(points.flatten(0, 1)).reshape(200, *lower.shape)
    assert bool((values >= lower - 1e-9).all())
    assert bool((values <= upper + 1e-9).all())
    assert crossing > 0


def sequence(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten()).double().eval().requires_grad_(False)


class Residual(nn.Module):
    """The second convolution's output is added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x).relu()
        return (self.second(z) + z).relu()


def convolutions() -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3)


@pytest.mark.parametrize(
    "network",
    [
        sequence(convolutions()[0], nn.ReLU()),
        sequence(convolutions()[0], nn.LeakyReLU(), convolutions()[1], nn.ReLU()),
        sequence(convolutions()[0], nn.ReLU(), convolutions()[1], nn.LeakyReLU()),
        sequence(convolutions()[0], nn.ReLU(), nn.MaxPool2d(2), convolutions()[1], nn.ReLU()),
        sequence(Residual()),
    ],
    ids=["one", "leaky before", "leaky behind", "pool", "residual"],
)
def test_other_networks_have_no_such_pair(network: nn.Module) -> None:
    assert pair_of(read(network, torch.rand(1, 1, 9, 9, dtype=DOUBLE))) is None


def margins(monkeypatch: pytest.MonkeyPatch, change: Any = None) -> tuple[Tensor, int]:
    """Margins of the example's digits, and how often windows were asked, their bounds changed by ``change``."""
    count = 0
    bounds = Pair.bounds

    def counted(self: Pair, low: Tensor, high: Tensor) -> Any:
        nonlocal count
        count += 1
        found = bounds(self, low, high)
        return found if change is None else {name: change(*sides) for name, sides in found.items()}

    with monkeypatch.context() as patch:
        patch.setattr(Pair, "bounds", counted)
        case = digits()
        return certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(3, 50)), rows=slice(5))).margin, count


def test_certificates_are_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, used = margins(monkeypatch)
    assert used > 1
    with monkeypatch.context() as patch:
        patch.setattr(auto_lirpa, "pair_of", lambda _: None)
        plain, never = margins(monkeypatch)
    assert never == 0
    assert ours.tolist() == pytest.approx(plain.tolist(), abs=1e-9)


def test_wrong_windows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the library's matrices keeps out bounds that are too tight by a thousandth."""
    ours, _ = margins(monkeypatch)
    tight, used = margins(monkeypatch, lambda low, high: (low + 1e-3, high - 1e-3))
    assert used == 1
    assert tight.tolist() == pytest.approx(ours.tolist(), abs=1e-9)


def test_a_normalized_picture_is_bounded_by_windows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normalization is a convolution in front."""
    network, shape = random_pair(3)
    x = np.random.default_rng(0).uniform(0.3, 0.7, (4, *shape)).astype(np.float32)
    mean, std = tuple(Fraction(k, 9) for k in range(shape[0])), (Fraction(1, 3),) * shape[0]
    spec = model(3, [Step("normalize", (("mean", mean), ("std", std)))])
    case = Case(network.float(), unit_box(*shape), spec, x, [0] * 4)
    case.y = case.decisions(torch.from_numpy(x))
    asked: list[int] = []
    bounds = Pair.bounds
    monkeypatch.setattr(
        Pair, "bounds", lambda self, low, high: asked.append(len(self.front)) or bounds(self, low, high)
    )
    certify("auto_lirpa.crown", case, case.job(threat("linf", Fraction(1, 100))))
    assert set(asked) == {1}
    assert len(asked) > 1


@pytest.mark.parametrize(
    ("n", "most", "each"), [(100, 32, 25), (100, 100, 100), (7, 3, 3), (8, 3, 3), (4, 3, 2), (5, 0, 1)]
)
def test_parts_are_equal(n: int, most: int, each: int) -> None:
    assert lirpa_graph.evenly(n, most) == each


class Constants(nn.Module):
    """Two convolutions and a matrix whose weights are no parameters, as those of imported files are none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        for name, shape in (("first", (3, 1, 3, 3)), ("second", (2, 3, 3, 3)), ("last", (3, 32)), ("bias", (3,))):
            self.register_buffer(name, torch.randn(shape) / 4)

    def forward(self, x: Tensor) -> Tensor:
        z = nn.functional.conv2d(nn.functional.conv2d(x, self.first).relu(), self.second).relu()
        return nn.functional.linear(z.flatten(1), self.last, self.bias)


@pytest.mark.parametrize("path", ["auto_lirpa.crown", "auto_lirpa.alpha_crown"])
def test_weights_may_be_constants(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nearly all is unstable, the library makes a matrix of its first parameter's type, and there is none."""
    x = np.full((2, 1, 8, 8), 0.5, dtype=np.float32)
    case = Case(Constants(), unit_box(1, 8, 8), model(3), x, [0, 0])
    case.y = case.decisions(torch.from_numpy(x))
    asked: list[int] = []
    bounds = Pair.bounds
    monkeypatch.setattr(Pair, "bounds", lambda self, low, high: asked.append(len(low)) or bounds(self, low, high))
    said = certify(path, case, case.job(threat("linf", Fraction(1, 2))))
    assert said.verdict == ("unknown", "unknown")
    assert 2 in asked
