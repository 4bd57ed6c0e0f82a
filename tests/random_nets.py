"""Small random networks of every kind of layer that the verifiers are trusted with, sets around their inputs, and an
attack on every certificate: what the sandwich of ``tests/property/test_sandwich_nets.py`` is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import torch
from backend_support import Case, model, threat, unit_box
from torch import nn

from tmlang.backends.contract import Job
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Mutable, Threat

Tensor = torch.Tensor

UNITS = 4
"""Boxes around each net's inputs, for verifiers that bound a batch."""
LEVELS = 40
"""Steps of the lattice on which sets are finite."""
MOVING = 4
"""Coordinates that move where the others are frozen."""


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


def random_net(seed: int, *, units: int = UNITS, finite: bool = False) -> Net:
    """A net of the kind that the seed names; its classes meet among its inputs, its labels are its own decisions.

    A single unit of every second seed, and every ``finite`` one, moves in :data:`MOVING` coordinates alone, farther.
    """
    draw = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    torch.default_generator.manual_seed(seed)
    network = KINDS[kind]().eval()
    with torch.no_grad():
        for p in network.parameters():
            p.mul_(float(rng.uniform(1, 3)))
    levels = rng.integers(0, LEVELS + 1, (UNITS, 1, 4, 4)) / LEVELS
    x = (levels if finite else rng.uniform(0, 1, levels.shape)).astype(np.float32)
    last = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        scores = network(torch.from_numpy(x))
        last.bias -= scores.mean(dim=0)
        labels = (scores - scores.mean(dim=0)).argmax(dim=1)
    cell = Cell("lattice", Fraction(0), Fraction(1), Fraction(1, LEVELS)) if finite else None
    space = unit_box(1, 4, 4, **({"cells": (cell,)} if finite else {}))
    at = seed // len(KINDS) % UNITS
    rows = slice(None) if units == UNITS else slice(at, at + units)
    case = Case(network, space, model(3), x[rows], labels[rows].tolist())
    radius = Fraction(int(rng.integers(1, 12)), 400)
    if not finite and (units == UNITS or seed % 2):
        return Net(kind, case, case.job(threat(radius=radius)), draw)
    radius = Fraction(int(rng.integers(1, 3)), LEVELS) if finite else 4 * radius
    mask = rng.permutation(np.arange(16) < MOVING).reshape(1, 4, 4)
    return Net(kind, case, case.job(threat(radius=radius, mutable=Mutable("mask")), mask=mask), draw)


def attacked(net: Net, units: list[int]) -> list[int]:
    """Those of some units of which a cheap attack finds an input that is decided otherwise: corners, uniform points,
    and ascent on either other class from these."""
    if not units:
        return []
    sets, case = net.job.sets, net.case
    low, high = (torch.from_numpy(side[units]) for side in (sets.lower, sets.upper))
    y = case.y[units]
    corners = torch.where(torch.rand(24, *low.shape, generator=net.draw) < 0.5, low, high)
    z = torch.cat([corners, low + (high - low) * torch.rand(24, *low.shape, generator=net.draw)])
    others = torch.stack([(y + 1) % 3, (y + 2) % 3]).repeat(24, 1)[..., None]
    found = torch.zeros(len(units), dtype=torch.bool)
    for step in range(5):
        z = z.requires_grad_(step < 4)
        scores = case.deployed(z.flatten(0, 1))
        found |= (case.decide(scores).reshape(z.shape[:2]) != y).any(dim=0)
        if step < 4:
            scores = scores.reshape(*z.shape[:2], 3)
            gain = scores.gather(2, others) - scores.gather(2, y[None, :, None].expand_as(others))
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


def planted(seed: int, *, finite: bool = False) -> tuple[Case, Tensor, Threat]:
    """A net with a bump of one neuron at a corner of the set, where the other class wins; the corner; the threat."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    levels = rng.integers(20, 81, (1, 16)) / 100
    x = (levels if finite else rng.uniform(0.2, 0.8, (1, 16))).astype(np.float32)
    sign = np.where(rng.random(16) < 0.5, 1.0, -1.0)
    network = nn.Sequential(nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 2))
    with torch.no_grad():
        network[0].weight[8] = torch.from_numpy(sign).float()
        network[0].bias[8] = -(float((sign * x[0]).sum()) + 16 * 0.05 - 0.002)
        network[2].weight.mul_(0.01)
        network[2].weight[:, 8] = torch.tensor([0.0, 2000.0])
        network[2].bias.copy_(torch.tensor([1.0, 0.0]))
    cell = Cell("lattice", Fraction(0), Fraction(1), Fraction(1, 100))
    space = unit_box(16, **({"cells": (cell,)} if finite else {}))
    corner = np.rint(100 * x + 5 * sign) / 100 if finite else x + 0.05 * sign
    case = Case(network, space, model(2), x, [0])
    return case, torch.from_numpy(corner.astype(np.float32)), threat(radius="1/20" if finite else "501/10000")
