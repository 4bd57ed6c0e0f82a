"""Small random networks of every kind of layer that the verifiers are trusted with, sets around their inputs, and an
attack on every certificate: what the sandwich of ``tests/property/test_sandwich_nets.py`` is made of."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import torch
from backend_support import Case, model, threat, unit_box
from torch import nn

from tmlang.backends.contract import Job
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Goal, Mutable

Tensor = torch.Tensor

UNITS = 4
"""Boxes around each net's inputs, for verifiers that bound a batch."""
LEVELS = 40
"""Steps of the lattice on which sets are finite."""
BOXES = 2
"""Boxes around each net's inputs, where nets stand side by side."""
MOVING, PLANTED = 4, 6
"""Coordinates that move where the others are frozen, and where a counterexample is planted for those who decide."""


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x.flatten(1))
        out: Tensor = self.last(torch.relu(z + self.inner(torch.relu(z))))
        return out


def dense(activation: type[nn.Module]) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(16, 8), activation(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)
    )  # fmt: skip


def pooled(pool: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), pool, nn.Flatten(), nn.Linear(8, 3))


KINDS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: dense(nn.ReLU),
    "tanh": lambda: dense(nn.Tanh),
    "sigmoid": lambda: dense(nn.Sigmoid),
    "residual": Residual,
    "conv": lambda: nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(8, 3)
    ),
    "max pool": lambda: pooled(nn.MaxPool2d(2)),
    "average pool": lambda: pooled(nn.AvgPool2d(2)),
}  # fmt: skip


@dataclass(frozen=True)
class Net:
    """One net, the sets around its inputs, and a random generator that nothing else draws from."""

    kind: str
    case: Case
    job: Job
    draw: torch.Generator


@dataclass(frozen=True)
class Drawn:
    """What a seed stands for. ``x`` (UNITS, 1, 4, 4), ``labels`` (UNITS,): inputs among which the classes meet, and the
    net's own decisions. ``rng``: whatever else is drawn."""

    kind: str
    network: nn.Module
    x: np.ndarray
    labels: Tensor
    rng: np.random.Generator

    @classmethod
    def by(cls, seed: int, *, finite: bool = False) -> Drawn:
        rng = np.random.default_rng(seed)
        kind = list(KINDS)[seed % len(KINDS)]
        torch.default_generator.manual_seed(seed)
        network = KINDS[kind]().eval()
        levels = rng.integers(0, LEVELS + 1, (UNITS, 1, 4, 4)) / LEVELS
        x = (levels if finite else rng.uniform(0, 1, levels.shape)).astype(np.float32)
        last = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
        with torch.no_grad():
            for p in network.parameters():
                p.mul_(float(rng.uniform(1, 3)))
            last.bias -= network(torch.from_numpy(x)).mean(dim=0)
            return cls(kind, network, x, network(torch.from_numpy(x)).argmax(dim=1), rng)


def random_net(seed: int, *, units: int = UNITS, finite: bool = False) -> Net:
    """A net of the kind that the seed names. A single unit of every second seed, and every ``finite`` one, moves in
    :data:`MOVING` coordinates alone, farther."""
    found = Drawn.by(seed, finite=finite)
    draw, rng = torch.Generator().manual_seed(seed), found.rng
    cell = Cell("lattice", Fraction(0), Fraction(1), Fraction(1, LEVELS)) if finite else None
    space = unit_box(1, 4, 4, **({"cells": (cell,)} if finite else {}))
    at = seed // len(KINDS) % UNITS
    rows = slice(None) if units == UNITS else slice(at, at + units)
    case = Case(found.network, space, model(3), found.x[rows], found.labels[rows].tolist())
    radius = Fraction(int(rng.integers(1, 12)), 400)
    if not finite and (units == UNITS or seed % 2):
        return Net(found.kind, case, case.job(threat(radius=radius)), draw)
    radius = Fraction(int(rng.integers(1, 3)), LEVELS) if finite else 4 * radius
    mask = rng.permutation(np.arange(16) < MOVING).reshape(1, 4, 4)
    return Net(found.kind, case, case.job(threat(radius=radius, mutable=Mutable("mask")), mask=mask), draw)


def side_by_side(seeds: Sequence[int]) -> Net:
    """Nets of one kind as one network of as many classes as they have together, whose blocks do not meet: block ``b``
    computes what net ``b`` does. Its units are, net by net, :data:`BOXES` inputs with each wrong class of the net."""
    nets = [Drawn.by(seed) for seed in seeds]
    x = np.concatenate([net.x[:BOXES].repeat(2, axis=0) for net in nets])
    y = torch.cat([net.labels[:BOXES].repeat_interleave(2) for net in nets])
    target = (y + torch.tensor([1, 2]).repeat(len(y) // 2)) % 3
    block = 3 * torch.arange(len(nets)).repeat_interleave(2 * BOXES)
    case = Case(_joined([n.network for n in nets]), unit_box(1, 4, 4), model(3 * len(nets)), x, (block + y).tolist())
    at = torch.from_numpy(x[:1])
    with torch.no_grad():
        assert torch.allclose(case.deployed(at), torch.cat([net.network(at) for net in nets], dim=1), atol=1e-4)
    radius = Fraction(int(nets[0].rng.integers(1, 12)), 400)
    job = case.job(threat(radius=radius, goal=Goal("next")), target=(block + target).tolist())
    return Net(nets[0].kind, case, job, torch.Generator().manual_seed(seeds[0]))


def _joined(networks: Sequence[nn.Module]) -> nn.Module:
    """Affine layers with the weights of all as blocks on the diagonal; the first layer reads the input for all."""
    whole = copy.deepcopy(networks[0])
    first = True
    for layer, *own in zip(whole.modules(), *(n.modules() for n in networks), strict=True):
        if not isinstance(layer, (nn.Linear, nn.Conv2d)):
            continue
        weights = [m.weight.detach() for m in own]  # type: ignore[union-attr]
        if not first:
            out, into, *window = weights[0].shape
            blocks = torch.zeros(len(own), out, len(own), into, *window)
            for b, weight in enumerate(weights):
                blocks[b, :, b] = weight
            weights = list(blocks.reshape(len(own), out, len(own) * into, *window))
        layer.weight = nn.Parameter(torch.cat(weights))
        names = ("out_features", "in_features") if isinstance(layer, nn.Linear) else ("out_channels", "in_channels")
        vars(layer).update(zip(names, layer.weight.shape, strict=False))  # what it is written as
        layer.bias = nn.Parameter(torch.cat([m.bias.detach() for m in own]))  # type: ignore[union-attr]
        first = False
    return whole


def attacked(net: Net, units: list[int]) -> list[int]:
    """Those of some units of which a cheap attack finds an input where a wrong class (the target, if there is one) is
    as great as the label: corners, uniform points, and ascent from these."""
    if not units:
        return []
    sets, job = net.job.sets, net.job
    low, high = (torch.from_numpy(side[units]) for side in (sets.lower, sets.upper))
    y = job.y[units]
    corners = torch.where(torch.rand(24, *low.shape, generator=net.draw) < 0.5, low, high)
    z = torch.cat([corners, low + (high - low) * torch.rand(24, *low.shape, generator=net.draw)])
    wrong = torch.stack([(y + 1) % 3, (y + 2) % 3]) if job.target is None else job.target[None, units]
    wrong = wrong.repeat(len(z) // len(wrong), 1)[..., None]
    label = y[None, :, None].expand_as(wrong)
    found = torch.zeros(len(units), dtype=torch.bool)
    for step in range(5):
        z.requires_grad_(step < 4)
        scores = net.case.deployed(z.flatten(0, 1)).reshape(*z.shape[:2], -1)
        gain = (scores.gather(2, wrong) - scores.gather(2, label))[..., 0]
        found |= (gain >= 0).any(dim=0)
        if step < 4:
            (slope,) = torch.autograd.grad(gain.sum(), z)
            z = torch.where(slope > 0, high, torch.where(slope < 0, low, z)).detach()
    return [u for u, f in zip(units, found.tolist(), strict=True) if f]


def listed(net: Net) -> tuple[float, int]:
    """The greatest margin by which another class wins on any member of the one finite set of ``net``, and how many
    members there are: all of them written down here."""
    (low, high), x = (net.job.sets.lower[0], net.job.sets.upper[0]), net.case.x[0]
    moving = np.argwhere(low < high)
    ends = [np.rint(np.array([low[tuple(j)], high[tuple(j)]]) * LEVELS).astype(int) for j in moving]
    values = np.array(list(product(*(range(a, b + 1) for a, b in ends)))) / LEVELS
    members = np.repeat(x[None], len(values), axis=0)
    members[(slice(None), *moving.T)] = values.astype(np.float32)
    with torch.no_grad():
        scores = net.case.deployed(torch.from_numpy(members)).double()
    own = scores[:, int(net.case.y[0])].clone()
    scores[:, int(net.case.y[0])] = -torch.inf
    return float((scores.amax(dim=1) - own).max()), len(members)


def planted(seed: int, *, few: bool = False, finite: bool = False) -> tuple[Case, Tensor, Job]:
    """A net with a bump of one neuron at a corner of the set, where the other class wins; the corner; the question.
    ``few``: :data:`PLANTED` coordinates move alone, and it reaches farther, so that whoever decides can find it."""
    reach = 0.05 if few else 0.002
    rng = np.random.default_rng(seed)
    torch.default_generator.manual_seed(seed)
    levels = rng.integers(20, 81, (1, 16)) / 100
    x = (levels if finite else rng.uniform(0.2, 0.8, (1, 16))).astype(np.float32)
    moving = rng.permutation(np.arange(16) < (PLANTED if few else 16))
    sign = np.where(rng.random(16) < 0.5, 1.0, -1.0) * moving
    network = nn.Sequential(nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 2))
    with torch.no_grad():
        network[0].weight[8] = torch.from_numpy(sign).float()
        network[0].bias[8] = -(float((sign * x[0]).sum()) + moving.sum() * 0.05 - reach)
        network[2].weight.mul_(0.01)
        network[2].weight[:, 8] = torch.tensor([0.0, 4 / reach])
        network[2].bias.copy_(torch.tensor([1.0, 0.0]))
    cell = Cell("lattice", Fraction(0), Fraction(1), Fraction(1, 100))
    space = unit_box(16, **({"cells": (cell,)} if finite else {}))
    corner = np.rint(100 * x + 5 * sign) / 100 if finite else x + 0.05 * sign
    spec = threat(radius="1/20" if finite else "501/10000", mutable=Mutable("mask"))
    case = Case(network, space, model(2), x, [0])
    return case, torch.from_numpy(corner.astype(np.float32)), case.job(spec, mask=moving)
