"""A solver's box must not leave the domain: a known fault of another tool (RAITAP 0.14.0), held to a network of ours.

Its box around a digit is ``[x - r, x + r]`` and reaches below 0 and above 1, where no picture is, so fewer digits come
out certified (71 % where the domain-correct answer is 84 %). Both figures are derived here for our own network, by a
CROWN that is not the library's: on that box, which is made here by hand and nowhere in tmlang, and on the right one.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from backend_support import ROOT, Case, certify, model, threat, unit_box
from crown import Layer, Region, box, least_margins
from torch import nn

from tmlang.meaning.values import Quantity

pytestmark = pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")

RADIUS = 0.05
COUNT = 100


@lru_cache(maxsize=1)
def mlp() -> Case:
    """A network 64-32-32-10 trained on the digits for a second or two, on the first 100 test digits."""
    folder = ROOT / "specs" / "digits"
    with np.load(folder / "digits.npz") as data:
        images, labels = (data["images"].reshape(-1, 64) / 16).astype(np.float32), data["labels"].astype(np.int64)
    train, test = (
        [int(line) for line in (folder / name).read_text().split()] for name in ("train_ids.txt", "test_ids.txt")
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
        optimizer = torch.optim.Adam(network.parameters(), lr=5e-3, weight_decay=1e-3)
        x, y = torch.from_numpy(images[train]), torch.from_numpy(labels[train])
        for _ in range(40):
            for part in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(x[part]), y[part]).backward()
                optimizer.step()
    some = test[:COUNT]
    return Case(network, unit_box(64), model(10), images[some], labels[some].tolist())


def layers(case: Case) -> tuple[Layer, Layer, Layer]:
    one, two, three = (
        Layer(m.weight.double().numpy(), m.bias.double().numpy())
        for m in case.deployed.network  # type: ignore[union-attr]
        if isinstance(m, nn.Linear)
    )
    return one, two, three


def proved(case: Case, unit: int, region: Region) -> bool:
    label = int(case.y[unit])
    differences = np.delete(np.eye(10)[label] - np.eye(10), label, axis=0)
    return bool((least_margins(layers(case), region, differences) > 0).all())


def regions(case: Case, unit: int) -> tuple[Region, Region]:
    """The box within [0, 1], and the one that leaves it."""
    x = case.x[unit].astype(np.float64)
    low, high = x - RADIUS, x + RADIUS
    return box(np.clip(low, 0, 1), np.clip(high, 0, 1)), box(low, high)


def test_certificates_are_of_the_box_within_the_domain() -> None:
    case = mlp()
    said = certify("auto_lirpa.crown", case, case.job(threat(radius=Fraction(1, 20))))
    ours = [word == "certified" for word in said.verdict]
    right, wrong = zip(*([proved(case, i, region) for region in regions(case, i)] for i in range(COUNT)), strict=True)
    assert ours == list(right)
    # 72 and 59 of 100 where this was written; the fault costs as much here as it does there.
    assert sum(wrong) + 8 <= sum(right)
    assert all(r for r, w in zip(right, wrong, strict=True) if w)


def outside(case: Case, unit: int) -> np.ndarray | None:
    """A point of the wrong box that is decided otherwise, by ascent towards the runner-up; ``None`` if none was met."""
    x, y = torch.from_numpy(case.x[unit : unit + 1]), int(case.y[unit])
    other = next(k for k in case.deployed(x)[0].argsort(descending=True).tolist() if k != y)
    at = x.clone()
    for k in range(40):
        at = at.detach().requires_grad_()
        scores = case.deployed(at)
        (slope,) = torch.autograd.grad(scores[0, other] - scores[0, y], at)
        at = (at + RADIUS * 2 ** (-k / 8) * slope.sign()).clamp(x - RADIUS * 0.999, x + RADIUS * 0.999)
    return at.detach().numpy()[0] if int(case.decisions(at.detach())[0]) != y else None


@pytest.mark.skipif(find_spec("maraboupy") is None, reason="Marabou is not installed")
def test_the_solver_is_not_shown_inputs_that_nobody_can_hand_in() -> None:
    """Digits with a failing point in the wrong box, all of them with pixels outside [0, 1]: the solver proves them."""
    case = mlp()
    apart = (i for i in range(COUNT) if [proved(case, i, region) for region in regions(case, i)] == [True, False])
    fooled = [(i, point) for i in apart if (point := outside(case, i)) is not None]
    assert fooled
    for i, point in fooled[:1]:
        assert point.min() < 0 or point.max() > 1
        job = case.job(threat(radius=Fraction(1, 20)), rows=slice(i, i + 1))
        for path in ("marabou.query", "auto_lirpa.split"):
            said = certify(path, case, job, timeout=Quantity(Fraction(60), "s"))
            assert said.verdict == ("certified",), (path, i, said.messages)
