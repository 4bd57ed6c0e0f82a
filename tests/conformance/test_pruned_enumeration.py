"""Enumeration with pruning gives the answer of plain enumeration, and gives it on sets that no list could hold."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction as F
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from backend_support import Case, certify, model, threat, unit_box
from torch import nn

from tmlang.meaning.spaces import Cell, Num, Op, Ref, Relation, Space
from tmlang.meaning.threats import Ball, Both, Either, Mutable
from tmlang.meaning.values import Quantity

pytestmark = pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")


def lattice(size: int, levels: int) -> Space:
    names = tuple("abcdefghijklmnopqrstuvwxyz"[:size])
    return unit_box(size, cells=(Cell("lattice", F(0), F(1), F(1, levels)),), features=names)


def random_case(seed: int, size: int = 4, levels: int = 8, units: int = 3) -> Case:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(size, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))
    for p in network.parameters():
        p.data.mul_(2)
    # All scores are equal in the middle, so that classes meet inside.
    network[-1].bias.data -= network(torch.full((1, size), 0.5))[0].detach()
    k = np.random.default_rng(seed).integers(0, levels + 1, (units, size))
    case = Case(network, lattice(size, levels), model(3), (k / levels).astype(np.float32), [0] * units)
    case.y = case.decisions(torch.from_numpy(case.x))
    return case


SETS = {
    "box": Ball("linf", "px", F(1, 4)),
    "l1": Ball("l1", "px", F(3, 8)),
    "l2": Ball("l2", "px", F(3, 8)),
    "l0": Ball("l0", "px", F(1)),
    "both": Both((Ball("linf", "px", F(1, 4)), Ball("l1", "px", F(1, 2)))),
    "either": Either((Ball("linf", "px", F(1, 8)), Ball("l1", "px", F(1, 4)))),
}


@pytest.mark.parametrize("kind", SETS)
def test_the_answer_is_that_of_the_list(kind: str) -> None:
    seen: set[str] = set()
    for seed in range(6):
        case = random_case(seed)
        job = case.job(replace(threat(), allow=SETS[kind]))
        pruned = certify("auto_lirpa.enumerate", case, job)
        listed = certify("native.enumerate", case, case.job(replace(threat(), allow=SETS[kind])), at_most=F(10**5))
        assert pruned.verdict == listed.verdict, (kind, seed)
        assert pruned.candidates is not None
        for i, word in enumerate(pruned.verdict):
            seen.add(word)
            if word == "broken":
                x = pruned.candidates.x[i : i + 1]
                assert job.sets.rows([i]).inside(x.numpy())[0]
                assert case.decisions(x)[0] != case.y[i]
        if kind == "box":
            assert pruned.sizes == listed.sizes
    assert seen == {"certified", "broken"}


def test_relations_and_masks_are_part_of_the_set() -> None:
    """a + b may reach 1.2 in the box; the relation a <= b and the frozen b leave a at most at 1/2."""
    network = nn.Linear(2, 2)
    network.weight.data = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    network.bias.data = torch.tensor([1.05, 0.0])
    plain = lattice(2, 8)
    bound = replace(plain, relations=(Relation(Ref("a"), "<=", Ref("b")),))
    frozen = threat(radius=F(1, 2), mutable=Mutable("features", (("a", "any"),)))
    for space, word in ((plain, "broken"), (bound, "certified")):
        case = Case(network, space, model(2), np.array([[0.25, 0.5]], np.float32), [0])
        assert certify("auto_lirpa.enumerate", case, case.job(frozen)).verdict == (word,)
    summed = replace(plain, relations=(Relation(Op("+", Ref("a"), Ref("b")), "<=", Num(F(1))),))
    case = Case(network, summed, model(2), np.array([[0.25, 0.5]], np.float32), [0])
    assert certify("auto_lirpa.enumerate", case, case.job(threat(radius=F(1, 2)))).verdict == ("certified",)


def test_ties_and_thin_misses_are_decided_by_the_evaluator() -> None:
    """One point of 9 ** 4 ties (lowest class wins: the label), and with a bias of one ulp less it is lost."""
    for bias, word in ((4.0, "certified"), (float(np.nextafter(np.float32(4), np.float32(0))), "broken")):
        network = nn.Linear(4, 2)
        network.weight.data = torch.tensor([[0.0] * 4, [1.0] * 4])
        network.bias.data = torch.tensor([bias, 0.0])
        case = Case(network, lattice(4, 8), model(2), np.full((1, 4), 0.5, np.float32), [0])
        said = certify("auto_lirpa.enumerate", case, case.job(threat(radius=F(1, 2))))
        assert said.verdict == (word,)
        assert said.sizes == (9**4,)


def test_a_set_that_no_list_could_hold_is_decided() -> None:
    """Up to 33 ** 10 = 1.5e15 inputs around each original; a list of a million a second takes 48 years."""
    case = random_case(3, size=10, levels=256, units=6)
    began = time.monotonic()
    said = certify("auto_lirpa.enumerate", case, case.job(threat(radius=F(16, 256))))
    assert time.monotonic() - began < 30
    assert max(said.sizes) == 33**10
    assert set(said.verdict) == {"certified", "broken"}
    # Some took more than one bound.
    assert any(message and not message.startswith("1 boxes") for message in said.messages)
    # Against what lists nothing either: splitting of the real box, which holds the lattice.
    real = certify("auto_lirpa.split", case, case.job(threat(radius=F(16, 256))))
    for a, b in zip(said.verdict, real.verdict, strict=True):
        assert a == "certified" or b != "certified"


def test_a_real_coordinate_or_the_clock_leaves_it_open() -> None:
    case = random_case(1)
    real = Case(nn.Linear(4, 3), unit_box(4), model(3), case.x, [0, 0, 0])
    assert set(certify("auto_lirpa.enumerate", real, real.job(threat())).verdict) == {"unknown"}
    late = replace(case.job(threat(radius=F(1, 8))), deadline=time.monotonic() - 1)
    hurried = certify("auto_lirpa.enumerate", case, late, timeout=Quantity(F(1), "s"))
    assert set(hurried.verdict) <= {"timeout", "broken"}
    assert "timeout" in hurried.verdict
