"""Networks with a steep needle, and networks that lose bits: what ``needles`` puts sets around.

A needle is ``S max(0, w - |x - c|_1)`` with a steepness ``S`` of 1e2 to 1e12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import nn

from tmlang.meaning.models import Decide, Step

Tensor = torch.Tensor
Array = np.ndarray
Rng = np.random.Generator

PLACES = ("corner", "face", "inside")


@dataclass(frozen=True)
class Sketch:
    """What a family makes. ``steps`` stand in front of the network; ``picture``: it reads (1, h, w)."""

    network: nn.Module
    steps: tuple[Step, ...] = ()
    decide: Decide | None = None


@dataclass(frozen=True)
class Place:
    """``at`` (d,): the needle, a member of the sets of some units. ``signs`` (d,): the side of a corner it is on;
    ``width``: how far it reaches; ``kind``: of :data:`PLACES`."""

    at: Array
    signs: Array
    width: float
    kind: str


def magnitude(rng: Rng, low: float, high: float) -> float:
    """Between ``10 ** low`` and ``10 ** high``."""
    return float(10 ** rng.uniform(low, high))


def linear(weight: Sequence[Sequence[float]] | Array, bias: Sequence[float] | Array) -> nn.Linear:
    matrix = torch.tensor(np.asarray(weight, np.float64).astype(np.float32))
    layer = nn.Linear(matrix.shape[1], matrix.shape[0])
    layer.load_state_dict({"weight": matrix, "bias": torch.tensor(np.asarray(bias, np.float64).astype(np.float32))})
    return layer


def bend(rng: Rng) -> nn.Module:
    return nn.ReLU() if rng.random() < 0.9 else nn.LeakyReLU(2.0**-4)


def spike(rng: Rng, place: Place) -> list[nn.Module]:
    """Layers to one number: ``width`` at the needle, zero farther away than that."""
    d, at = len(place.at), place.at.astype(np.float64)
    if place.kind == "corner":
        return [linear(place.signs[None], [place.width - float(place.signs @ at)]), nn.ReLU()]
    ahead = np.concatenate([np.eye(d), -np.eye(d)])
    shift = np.concatenate([-at, at])
    if place.kind == "face":  # one side of the first coordinate is enough
        rows = np.delete(np.arange(2 * d), 0 if place.signs[0] > 0 else d)
        ahead, shift = ahead[rows], shift[rows]
    return [linear(ahead, shift), bend(rng), linear(-np.ones((1, len(ahead))), [place.width]), nn.ReLU()]


def picture_spike(rng: Rng, place: Place, shape: tuple[int, int]) -> list[nn.Module]:
    """The same of windows of a picture, all of whose pixels are the needle's: (n, 1, h, w) to (n, p)."""
    c = float(place.at[0])
    first = nn.Conv2d(1, 2, 1) if rng.random() < 0.5 else nn.Conv2d(1, 2, 3, padding=1)
    second = nn.Conv2d(2, 1, shape)
    with torch.no_grad():
        first.weight.zero_()
        first.weight[:, 0, first.kernel_size[0] // 2, first.kernel_size[1] // 2] = torch.tensor([1.0, -1.0])
        first.bias.copy_(torch.tensor([-c, c]))
        second.weight.fill_(-1.0)
        second.bias.fill_(place.width)
    between: list[nn.Module] = []
    kind = rng.integers(0, 4)
    if kind == 0:
        between = [nn.MaxPool2d((1, shape[1]))]
        second = _one_column(second)
    elif kind == 1:
        between = [nn.AvgPool2d((1, shape[1]))]
        second = _one_column(second)
    elif kind == 2:
        normal = nn.BatchNorm2d(2).eval()
        normal.running_var.fill_(float(rng.uniform(0.5, 2)))
        between = [normal]
    return [first, bend(rng), *between, second, nn.ReLU(), nn.Flatten()]


def _one_column(layer: nn.Conv2d) -> nn.Conv2d:
    narrow = nn.Conv2d(2, 1, (layer.kernel_size[0], 1))
    with torch.no_grad():
        narrow.weight.copy_(layer.weight[..., :1])
        narrow.bias.copy_(layer.bias)
    return narrow


def steepness(rng: Rng) -> float:
    return magnitude(rng, 2, 12)


def stretched(rng: Rng, s: float) -> tuple[list[nn.Module], float]:
    """Layers that multiply by a part of ``s``, and what is left of it."""
    if rng.random() < 0.7:
        return [], s
    part = s ** float(rng.uniform(0.2, 0.8))
    return [linear([[part]], [0.0]), nn.ReLU()], s / part


def real_needle(rng: Rng, width: float) -> list[nn.Module]:
    """The other class wins at the needle where ``S w > m``, in real arithmetic."""
    s = steepness(rng)
    more, left = stretched(rng, s)
    return [*more, linear([[0.0], [left]], [s * width * magnitude(rng, -1, 0.5), 0.0])]


def cancelled_needle(rng: Rng, width: float) -> list[nn.Module]:
    """``(S t + B + 3/2 m) - (S t + B)`` against ``m / 2``: the label wins by ``m``, less what float32 loses."""
    s = steepness(rng)
    offset = 0.0 if rng.random() < 0.6 else magnitude(rng, 0, 8)
    margin = max(s * width, offset) * 2.0**-24 * magnitude(rng, -2, 4)
    more, left = stretched(rng, s)
    middle = [nn.ReLU()] if rng.random() < 0.3 else []
    apart = linear([[left], [left]], [offset + 1.5 * margin, offset])
    return [*more, apart, *middle, linear([[1.0, -1.0], [0.0, 0.0]], [0.0, margin / 2])]


def tied_needle(rng: Rng, width: float) -> list[nn.Module]:
    """``S t`` against ``S t + m``: equal in float32 where the needle is high, and ties go to the lowest."""
    s = steepness(rng)
    more, left = stretched(rng, s)
    return [*more, linear([[left], [left]], [0.0, s * width * 2.0**-24 * magnitude(rng, -2, 4)])]


NEEDLES: tuple[Callable[[Rng, float], list[nn.Module]], ...] = (real_needle, cancelled_needle, tied_needle)


def lost_bits(rng: Rng, place: Place, reach: float) -> Sketch:
    """``g ((a x + B) - B)`` against what it is at least on the box of the first unit, less a margin that float32 loses
    where ``B`` is great."""
    d = len(place.at)
    a, great = rng.uniform(-1, 1, d).astype(np.float32), np.float32(magnitude(rng, 2, 9))
    gain = np.float32(magnitude(rng, 0, 6))
    least = float(a.astype(np.float64) @ place.at) - float(np.abs(a).sum()) * reach
    margin = float(np.spacing(great)) * magnitude(rng, -1.5, 2)
    last = linear([[float(gain)], [0.0]], [0.0, float(gain) * (least - margin)])
    return Sketch(nn.Sequential(linear(a[None], [great]), nn.ReLU(), linear([[1.0]], [-great]), last))


def duplicates(rng: Rng, place: Place, reach: float) -> Sketch:
    """``W (h - h) + u h`` with two copies of ``h = max(0, x)`` and weights ``W`` of 1e4 to 1e10."""
    del reach
    d, heavy = len(place.at), magnitude(rng, 4, 10)
    u = rng.uniform(0.1, 1, d) * magnitude(rng, -3, 1)
    order = rng.permutation(3 * d)
    ahead = np.concatenate([np.eye(d)] * 3)[order]
    weight = np.concatenate([np.full(d, heavy), u, np.full(d, -heavy)])[order]
    level = float(u @ place.at) * float(rng.uniform(0, 0.9))
    return Sketch(nn.Sequential(linear(ahead, np.zeros(3 * d)), bend(rng), linear([weight, 0 * weight], [0.0, level])))


def saturated(rng: Rng, place: Place, reach: float) -> Sketch:
    """Two scores near the end of a sigmoid or tanh, where float32 tells them apart no more."""
    del reach
    d = len(place.at)
    rows = rng.uniform(0.5, 1, d) * magnitude(rng, 0, 1)
    curve, end = (nn.Sigmoid(), 17) if rng.random() < 0.5 else (nn.Tanh(), 9)
    shift = end + rng.uniform(-2, 0.5) - float(rows @ place.at)
    behind = [linear(np.eye(2) * magnitude(rng, 0, 8), [0.0, 0.0])] if rng.random() < 0.5 else []
    ahead = linear([rows, rows], [shift, shift + magnitude(rng, -3, 0.5)])
    return Sketch(nn.Sequential(ahead, curve, *behind))


def denormals(rng: Rng, place: Place, reach: float) -> Sketch:
    """Weights near the least number of float32, and gains that bring the scores back to size."""
    del reach
    d = len(place.at)
    down = int(rng.integers(118, 150))
    rows = rng.uniform(0.1, 1, (2, d)) * 2.0**-down
    up = [2.0 ** (down // 2), 2.0 ** (down - down // 2)]
    layers = [linear(rows, [0.0, 0.0]), bend(rng), linear(np.eye(2) * up[0], [0.0, 0.0]), nn.ReLU()]
    level = float((rows[0] - rows[1]) @ place.at) * 2.0**down
    bias = [0.0, 0.0] if rng.random() < 0.5 else [0.0, level - magnitude(rng, -6, 0)]
    return Sketch(nn.Sequential(*layers, linear(np.eye(2) * up[1], bias)))


def neighbours(rng: Rng, place: Place, reach: float) -> Sketch:
    """Rows that differ in their last places, behind equal biases: margins of 1e-7 and less."""
    del reach
    d = len(place.at)
    row = rng.uniform(-1, 1, d).astype(np.float32)
    other = row * np.float32(1 + 2.0**-23 * int(rng.integers(1, 9)))
    great = magnitude(rng, -3, 6)
    hidden = [linear(rng.uniform(0.2, 1, (d, d)) / d, np.zeros(d)), bend(rng)] if rng.random() < 0.5 else []
    return Sketch(nn.Sequential(*hidden, linear([row, other], [great, great])))


def standardized(rng: Rng, place: Place, reach: float) -> Sketch:
    """Steps in front that stretch: a mean at the needle, a small standard deviation."""
    d = len(place.at)
    mean = Fraction(float(place.at[0]))
    step = Step("normalize", (("mean", mean), ("std", Fraction(magnitude(rng, -8, -1)).limit_denominator(10**9))))
    std = float(dict(step.args)["std"])  # type: ignore[arg-type]
    rows = rng.uniform(-1, 1, (2, d))
    least = float((rows[0] - rows[1]) @ (place.at - float(mean))) / std - float(np.abs(rows[0] - rows[1]).sum()) * (
        reach / std
    )
    margin = 2.0**-24 / std * magnitude(rng, -1, 3)
    return Sketch(nn.Sequential(linear(rows, [0.0, least - margin])), steps=(step,))


def steep_line(rng: Rng, place: Place, reach: float) -> Sketch:
    """``S (x - c)`` beside zero over a box that begins at ``c``: what is stored finer than float32 is moved at the
    door."""
    d, s = len(place.at), steepness(rng)
    rows = np.zeros((2, d))
    rows[0, 0] = s
    least = s * (float(place.at[0]) - reach)
    return Sketch(nn.Sequential(linear(rows, [-least + s * 2.0**-24 * magnitude(rng, -1, 2), 0.0])))


def hit(rng: Rng, place: Place, reach: float) -> Sketch:
    """One score, and a threshold that it hits exactly, or misses by its last place, at the needle."""
    base = [lost_bits, duplicates, steep_line][int(rng.integers(0, 3))](rng, place, reach).network
    last = base[-1]  # type: ignore[index]
    assert isinstance(last, nn.Linear)
    row = (last.weight[0] - last.weight[1]).detach().numpy()
    network = nn.Sequential(*base[:-1], linear(row[None], [(last.bias[0] - last.bias[1]).item()]))  # type: ignore[index]
    corner = place.at + rng.choice([-1, 0, 1]) * reach * place.signs
    with torch.no_grad():
        score = network(torch.from_numpy(corner[None].astype(np.float32)))[0, 0]
    value = Fraction(float(score)) + int(rng.integers(-1, 2)) * Fraction(float(np.spacing(score.numpy())))
    op, positive = rng.choice([">=", ">", "<", "<="]), str(rng.integers(0, 2))
    negative = "1" if positive == "0" else "0"
    return Sketch(network, decide=Decide("threshold", op=op, value=value, positive=positive, negative=negative))  # type: ignore[arg-type]


class Joined(nn.Module):
    """``last(z + inner(z))`` of ``z = first(x)``."""

    def __init__(self, first: nn.Module, inner: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.first, self.inner, self.last = first, inner, last

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x)
        out: Tensor = self.last(z + self.inner(z))
        return out


def residual(rng: Rng, place: Place, reach: float) -> Sketch:
    """A branch that takes away all but a part of what it is added to."""
    d, great = len(place.at), magnitude(rng, 1, 9)
    rows = rng.uniform(0.2, 1, (2, d))
    first = nn.Sequential(linear(rows * great, [great, great]), nn.ReLU())
    kept = 2.0 ** -int(rng.integers(4, 24))
    least = float((rows[0] - rows[1]) @ place.at) - float(np.abs(rows[0] - rows[1]).sum()) * reach
    inner = linear(-(1 - kept) * np.eye(2), [0.0, 0.0])
    last = linear(np.eye(2), [0.0, kept * great * least - 2.0**-24 * great * magnitude(rng, -1, 3)])
    return Sketch(Joined(first, inner, last))


def beyond_all(rng: Rng, place: Place, reach: float) -> Sketch:
    """Numbers near the greatest of float32, and beyond it at the far side of some sets: an infinite or undefined score
    is no answer."""
    d = len(place.at)
    top = 3.4e38 / (1 + float(place.at.sum()) + float(rng.uniform(-1, 3)) * reach)
    gain = magnitude(rng, 5, 20)
    share = top / gain / rng.choice([1, 1, 10])
    ahead = linear(np.full((1, d), share), [share])
    return Sketch(nn.Sequential(ahead, nn.ReLU(), linear([[gain], [gain / 2]], [0.0, 0.0])))


TRAPS: tuple[Callable[[Rng, Place, float], Sketch], ...] = (
    lost_bits, duplicates, saturated, denormals, neighbours, standardized, steep_line, hit, residual, beyond_all,
)  # fmt: skip
