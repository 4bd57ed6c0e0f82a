"""Categories that the model spreads into columns: every prover against all inputs of small finite sets."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest
import torch
from backend_support import Case, certify, greatest_gap, model, threat
from torch import nn

from tmlang.backends.folding import fold
from tmlang.meaning.models import Step
from tmlang.meaning.spaces import Cell, Space
from tmlang.meaning.threats import Ball, Mutable
from tmlang.meaning.values import Symbol

CELLS = (
    Cell("integer", F(-3), F(4), F(1)),
    Cell("category", F(0), F(2), F(1), categories=("red", "green", "blue")),
    Cell("lattice", F(0), F(1), F(1, 4)),
    Cell("category", F(0), F(1), F(1), categories=("no", "yes")),
)
SPACE = Space("px", (4,), CELLS, "each", features=("size", "colour", "share", "seen"))
SPREAD = Step("one_hot", (("features", (Symbol("colour"), Symbol("seen"))),))
SHIFT = Step("normalize", (("mean", (F(1), F(1, 2))), ("std", (F(2), F(1, 4)))))
ALL = np.array(list(itertools.product(range(-3, 5), range(3), [k / 4 for k in range(5)], range(2))), np.float32)


def table(seed: int, units: int = 6) -> Case:
    """Seven columns behind the spreading, a hidden layer, three classes; the labels are its own decisions."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        network[2].bias.sub_(network(torch.zeros(1, 7))[0])
    x = ALL[np.random.default_rng(seed).choice(len(ALL), units, replace=False)]
    case = Case(network, SPACE, model(3, [SPREAD]), x, [0] * units)
    case.y = case.decisions(torch.from_numpy(x))
    return case


def robust(case: Case, radii: dict[str, F]) -> list[bool]:
    """By hand: every input of the space that is near enough, feature by feature, is decided like the original."""
    decided = case.decisions(torch.from_numpy(ALL))
    reach = np.array([float(radii.get(name, F(0))) for name in SPACE.features])
    near = (np.abs(ALL[None] - case.x[:, None]) <= reach).all(axis=2)
    return [bool((decided[torch.from_numpy(n)] == y).all()) for n, y in zip(near, case.y, strict=True)]


def test_the_folded_object_is_the_deployed_one_on_every_input() -> None:
    case = table(0)
    folded = fold(case.deployed, case.decide, SPACE, torch.from_numpy(case.x))
    with torch.no_grad():
        assert torch.allclose(
            folded.scores(torch.from_numpy(ALL)), case.deployed(torch.from_numpy(ALL)).double(), atol=1e-5
        )
    before = Case(nn.Linear(7, 2), SPACE, model(2, [Step("scale", (("factor", F(1)),)), SPREAD]), case.x, [0] * 6)
    folded = fold(before.deployed, before.decide, SPACE, torch.from_numpy(case.x))
    with torch.no_grad():
        assert torch.allclose(
            folded.scores(torch.from_numpy(ALL)), before.deployed(torch.from_numpy(ALL)).double(), atol=1e-5
        )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("radii", [{"colour": F(2), "seen": F(1)}, {"size": F(2), "colour": F(1), "share": F(1, 4)}])
def test_provers_say_what_all_inputs_say(seed: int, radii: dict[str, F]) -> None:
    case = table(seed)
    ball = Ball("linf", "px", None, radii=tuple(radii.items()), per="feature")
    job = case.job(threat(allow=ball, mutable=Mutable("features", names=tuple((name, "any") for name in radii))))
    truth = robust(case, radii)
    for path, exact in (("auto_lirpa.enumerate", True), ("auto_lirpa.crown", False), ("marabou.query", False)):
        said = certify(path, case, job, rounding=Symbol("proved"))
        for word, right in zip(said.verdict, truth, strict=True):
            assert word in ("certified", "broken", "unknown"), said.messages
            assert word != ("broken" if right else "certified")
            assert not exact or word == ("certified" if right else "broken")


def test_the_proved_gap_holds_on_every_input() -> None:
    case = table(5)
    low, high = (torch.tensor([[float(getattr(c, end)) for c in CELLS]]).double() for end in ("low", "high"))
    gap = greatest_gap(case.deployed, low, high)
    folded = fold(case.deployed, case.decide, SPACE, torch.from_numpy(case.x))
    with torch.no_grad():
        computed = torch.cat([case.deployed(torch.from_numpy(row[None])) for row in ALL]).double()
        off = computed - folded.scores(torch.from_numpy(ALL))
    assert 0 < float((off[:, :, None] - off[:, None]).abs().max()) < gap < 1e-4
