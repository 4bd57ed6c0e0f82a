"""The folded object computes what the deployed one computes, up to rounding."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, model, unit_box
from torch import nn

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.folding import fold
from tmlang.meaning.models import Decide, Model, Network, Step
from tmlang.meaning.values import Symbol

F = Fraction
NORMALIZE = Step("normalize", (("mean", (F(1, 2), F(1, 3), F(1, 5))), ("std", (F(1, 4), F(1, 7), F(2)))))
SCALE = Step("scale", (("factor", F(1, 255)),))
TO_FRONT = Step("permute", (("source", Symbol("hwc")), ("target", Symbol("chw"))))
FLIP = Step("channels", (("order", Symbol("bgr")),))
SHIFT = Step("subtract", (("by", F(1, 2)),))
PICTURE = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Dropout(0.9), nn.Flatten(), nn.Linear(48, 3))
TABLE = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.9), nn.Linear(6, 3))

CHAINS: dict[str, tuple[tuple[int, ...], tuple[Step, ...]]] = {
    "nothing": ((3, 6, 5), ()),
    "normalize": ((3, 6, 5), (NORMALIZE,)),
    "bytes": ((6, 5, 3), (SCALE, TO_FRONT, NORMALIZE)),
    "normalize before permute": ((6, 5, 3), (SCALE, NORMALIZE, TO_FRONT)),
    "bgr": ((3, 6, 5), (NORMALIZE, FLIP, SHIFT)),
    "bgr first": ((6, 5, 3), (FLIP, NORMALIZE, TO_FRONT, SCALE)),
}


def both(network: nn.Module, spec: Model, shape: tuple[int, ...], **space: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """(folded, deployed) scores of 20 random inputs, all in float64."""
    x = np.random.default_rng(1).uniform(0, 1, (20, *shape))
    case = Case(network.double(), unit_box(*shape, dtype="float64", **space), spec, x, [0] * 20)
    with torch.no_grad():
        folded = fold(case.deployed, case.decide, case.space, torch.from_numpy(x))
        return folded.scores(torch.from_numpy(x)), case.deployed(torch.from_numpy(x))[:, : len(spec.classes)]


def close(pair: tuple[torch.Tensor, torch.Tensor]) -> bool:
    assert pair[0].abs().max() > 1e-3
    return torch.allclose(*pair, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", list(CHAINS))
def test_steps_of_pictures(name: str) -> None:
    torch.manual_seed(0)
    shape, steps = CHAINS[name]
    assert close(both(PICTURE, model(3, steps), shape))


def test_steps_of_features() -> None:
    features = ("a", "b", "c", "d")
    low, high = (F(0), F(-1), F(1, 2), F(0)), (F(1), F(3), F(2), F(10))
    steps = (Step("minmax", (("low", low), ("high", high))), SHIFT)
    assert close(both(TABLE, model(3, steps), (4,), features=features))


@pytest.mark.parametrize("op", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("positive", ["0", "1"])
def test_one_score(op: Any, positive: str) -> None:
    decide = Decide("threshold", op=op, value=F(1, 3), positive=positive, negative="1" if positive == "0" else "0")
    assert close(both(nn.Linear(4, 1), model(2, decide=decide), (4,)))


def test_least_score_heads_and_steps_behind() -> None:
    assert close(both(TABLE, model(3, decide=Decide("argmin", ties="lowest")), (4,)))
    heads = Network("torch", outputs=(("distance", 1), ("logits", 2)))
    assert close(both(TABLE, model(2, network=heads), (4,)))
    behind = (Step("denormalize", (("mean", F(3)), ("std", F(5, 2)))),)
    assert close(both(TABLE, replace(model(3), post_steps=behind), (4,)))


REFUSED = {
    "quantize": model(3, (Step("quantize", (("levels", F(16)),)),)),
    "mean filter": model(3, (Step("mean_filter", (("size", F(3)),)),)),
    "softmax": replace(model(3), post_steps=(Step("softmax"),)),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_no_affine_map_is_refused(name: str) -> None:
    with pytest.raises(BackendRefusal):
        both(PICTURE, REFUSED[name], (3, 6, 5))


def test_channels_that_do_not_come_first_are_refused() -> None:
    last = nn.Sequential(nn.Flatten(), nn.Linear(90, 3))
    steps = (FLIP, Step("normalize", (("mean", (F(1, 2), F(1, 3), F(1, 5))), ("std", F(1, 4)))))
    with pytest.raises(BackendRefusal, match="channels come first"):
        both(last, model(3, steps), (6, 5, 3), channel_axis=2, layout="channel", cells=unit_box(1).cells * 3)


def test_an_object_that_cannot_be_opened_is_refused() -> None:
    with pytest.raises(BackendRefusal, match="opened"):
        fold(nn.Linear(2, 2), lambda out: out.argmax(dim=1), unit_box(2), torch.zeros(1, 2))


def test_the_network_itself_is_left_alone() -> None:
    before = [t.clone() for t in PICTURE.state_dict().values()]
    both(PICTURE, model(3), (3, 6, 5))
    assert any(isinstance(m, nn.Dropout) for m in PICTURE.modules())
    assert all(torch.equal(a, b) for a, b in zip(before, PICTURE.state_dict().values(), strict=True))
