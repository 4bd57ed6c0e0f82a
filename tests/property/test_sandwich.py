"""certified ⊆ exactly robust ⊆ survivors, example by example, on random small nets over finite domains.

The middle is worked out here, in rationals: every lattice point of the set, every score of a net whose weights are
small dyadic numbers (so that floating point is exact and nobody can argue about rounding).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction as F
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from backend_support import Case, model, threat, unit_box
from torch import nn

from tmlang.backends.loading import load
from tmlang.meaning.spaces import Cell
from tmlang.meaning.threats import Ball, Both, Either, Mutable
from tmlang.meaning.values import Quantity, Symbol

NETS, EXAMPLES, LEVELS, PARTS = 2000, 4, 8, 4


def dyadic(rng, *shape):
    """Multiples of 1/16 in [-2, 2]: products and sums of a few stay exact in float32."""
    return rng.integers(-32, 33, shape) / 16


class Net:
    """``size`` inputs, one hidden ReLU layer, ``classes`` scores; the same numbers as a module and as arrays."""

    def __init__(self, rng):
        self.size, self.classes, hidden = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 5))
        self.w1, self.b1 = dyadic(rng, hidden, self.size), dyadic(rng, hidden)
        self.w2 = dyadic(rng, self.classes, hidden)
        # In the middle of the grid all scores are nearly equal, so that classes meet inside it.
        middle = self.w2 @ np.maximum(self.w1 @ np.full(self.size, 0.5) + self.b1, 0)
        self.b2 = dyadic(rng, self.classes) / 8 - middle

    def module(self):
        layers = nn.Linear(self.size, len(self.b1)), nn.Linear(len(self.b1), self.classes)
        with torch.no_grad():
            for layer, w, b in zip(layers, (self.w1, self.w2), (self.b1, self.b2), strict=True):
                layer.weight.copy_(torch.from_numpy(w))
                layer.bias.copy_(torch.from_numpy(b))
        return nn.Sequential(layers[0], nn.ReLU(), layers[1])

    def decide(self, k):
        """Classes of lattice indices (n, size): integers in units of 2**-11, ties to the lowest class."""
        w1, w2 = (np.rint(w * 16).astype(np.int64) for w in (self.w1, self.w2))
        b1, b2 = np.rint(self.b1 * 16 * LEVELS).astype(np.int64), np.rint(self.b2 * 16 * 16 * LEVELS).astype(np.int64)
        return (np.maximum(k @ w1.T + b1, 0) @ w2.T + b2).argmax(axis=1)


def some_set(rng, size):
    """A threat and the test of membership on index differences (n, size), in steps of 1/8."""
    steps = int(rng.integers(1, 3))
    free = rng.random(size) < 0.8 if rng.random() < 0.4 else np.ones(size, bool)
    free[rng.integers(size)] = True
    linf, l1 = Ball("linf", "px", F(steps, LEVELS)), Ball("l1", "px", F(steps + 1, LEVELS))
    l2 = Ball("l2", "px", F(3, 2 * LEVELS))
    tests = {
        "linf": (linf, lambda d: np.abs(d).max(axis=1) <= steps),
        "l1": (l1, lambda d: np.abs(d).sum(axis=1) <= steps + 1),
        "l2": (l2, lambda d: 4 * (d * d).sum(axis=1) <= 9),
    }
    kind = rng.choice(["linf", "linf", "l1", "l2", "both", "either"])
    if kind in tests:
        allow, holds = tests[kind]
    else:
        (a, in_a), (b, in_b) = tests["linf"], tests["l1"]
        allow = (Both if kind == "both" else Either)((a, b))
        holds = (lambda d: in_a(d) & in_b(d)) if kind == "both" else (lambda d: in_a(d) | in_b(d))
    names = tuple("abc"[:size])
    mutable = Mutable("features", tuple((n, "any") for n, ok in zip(names, free, strict=True) if ok))
    return (
        str(kind),
        replace(threat(), allow=allow, mutable=mutable),
        lambda d: holds(d) & (d[:, ~free] == 0).all(axis=1),
    )


ARGUMENTS = {
    "native.apgd": {"loss": Symbol("ce"), "steps": F(8), "restarts": F(1)},
    "native.pgd": {
        "loss": Symbol("margin"), "steps": F(8), "step_size": Quantity(F(1, 2), "radii"), "restarts": F(1),
        "random_start": True,
    },
    "native.enumerate": {"at_most": F(1000)},
    "auto_lirpa.crown": {},
}  # fmt: skip


def truth(net, holds, k0):
    """Per example: whether no input of its set changes the class, |S|, and the class."""
    grid = np.array(list(itertools.product(range(LEVELS + 1), repeat=net.size)))
    classes, labels = net.decide(grid), net.decide(k0)
    inside = [holds(grid - k) for k in k0]
    robust = [bool((classes[i] == y).all()) for i, y in zip(inside, labels, strict=True)]
    return robust, [int(i.sum()) for i in inside], labels


def within(smaller, larger):
    return all(b for a, b in zip(smaller, larger, strict=True) if a)


def sandwich(seed, adapters, ran):
    rng = np.random.default_rng(seed)
    net = Net(rng)
    kind, spec, holds = some_set(rng, net.size)
    k0 = rng.integers(0, LEVELS + 1, (EXAMPLES, net.size))
    robust, sizes, labels = truth(net, holds, k0)
    space = unit_box(net.size, cells=(Cell("lattice", F(0), F(1), F(1, LEVELS)),), features=tuple("abc"[: net.size]))
    case = Case(net.module(), space, model(net.classes), (k0 / LEVELS).astype(np.float32), labels.tolist())
    where = f"net {seed}, {kind}"

    def job(path):
        return replace(case.job(spec, seeds=seed), arguments=ARGUMENTS[path])

    attack = "native.apgd" if seed % 3 else "native.pgd"
    asked = job(attack)
    found = adapters[attack].search(asked)
    survives = (~found.offered).tolist()
    assert within(robust, survives), where
    assert asked.sets.inside(found.x.numpy()).all(), where
    ran["survives"] += sum(survives)
    ran["robust"] += sum(robust)
    if seed % 5 == 0:
        answer = adapters["native.enumerate"].certify(job("native.enumerate"))
        assert [v == "certified" for v in answer.verdict] == robust, where
        assert list(answer.sizes) == sizes, where
    if kind not in ("both", "either"):
        verdicts = adapters["auto_lirpa.crown"].certify(job("auto_lirpa.crown")).verdict
        proved = [v == "certified" for v in verdicts]
        assert within(proved, robust), where
        ran["certified"] += sum(proved)


@pytest.mark.skipif(find_spec("auto_LiRPA") is None, reason="auto-LiRPA is not installed")
@pytest.mark.parametrize("part", range(PARTS))
def test_sandwich(part):
    adapters = {path: load(*path.split(".")) for path in ARGUMENTS}
    ran = dict.fromkeys(("certified", "robust", "survives"), 0)
    for seed in range(part, NETS, PARTS):
        sandwich(seed, adapters, ran)
    total = NETS // PARTS * EXAMPLES
    # The sandwich is filled: all three differ from nothing, from everything and from each other.
    assert 0.1 * total < ran["certified"] < ran["robust"] < ran["survives"] < 0.9 * total
    # The searches find nearly all there is to find in sets this small.
    assert ran["survives"] - ran["robust"] < 0.05 * total
