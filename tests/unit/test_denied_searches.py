"""Searches where a rejection is a failure as well: they go for a rejection too, and find all that there are.

Twenty units of two numbers (a, b), of class 0 by four scores (8 a, 0, -1, -2) at a = 0.9; a second head is b, and b >
1/2 is rejected. Within 1/10 no other class is near (8 * 0.8 = 6.4 > 0). Fifteen have b = 0.405, and b may be 0.505;
five have b = 0.3, and b stays below 0.4. So by hand exactly fifteen can be broken, by rejection alone; the slope of
every score along b is 0, and one random start in forty lies beyond.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
import torch
from backend_support import Case, model, search, threat, unit_box
from torch import nn

from tmlang.meaning.models import Decide, Network, RejectWhen
from tmlang.meaning.threats import Access, Rejected, Threat
from tmlang.meaning.values import Symbol

SEARCHES: dict[str, dict[str, Any]] = {
    "native.apgd": {"loss": Symbol("ce"), "steps": F(10)},
    "native.apgd_targeted": {"steps": F(10), "targets": F(2)},
    "native.pgd": {"loss": Symbol("ce"), "steps": F(10), "restarts": F(1)},
    "native.square": {"queries": F(60)},
    "native.coordinates": {"rounds": F(6), "restarts": F(1)},
}
DENIABLE = torch.tensor([True] * 15 + [False] * 5)


class TwoHeads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x[:, 0], x[:, 1]
        nothing = torch.zeros_like(a)
        return torch.stack([8 * a, nothing, nothing - 1, nothing - 2, b], dim=1)


def case() -> Case:
    network = Network("torch", outputs=(("scores", 4), ("distance", 1)))
    spec = replace(model(4), network=network, reject=(RejectWhen("distance", ">", F(1, 2)),))
    x = np.array([[0.9, 0.405]] * 15 + [[0.9, 0.3]] * 5, np.float32)
    return Case(TwoHeads(), unit_box(2), spec, x, [0] * 20)


def asked(kind: str, **changes: Any) -> Threat:
    return threat("linf", F(1, 10), rejected=Rejected(kind), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", SEARCHES)
def test_all_that_can_be_denied_is_found(path: str) -> None:
    own = case()
    found = search(path, own, own.job(asked("fail")), **SEARCHES[path])
    assert torch.equal(found.offered, DENIABLE)
    assert own.decisions(found.x[found.offered]).tolist() == [-1] * 15


@pytest.mark.parametrize("path", ["native.apgd", "native.apgd_targeted", "native.pgd"])
def test_where_a_rejection_is_safe_or_unknown_no_slope_leads_to_one(path: str) -> None:
    own = case()
    safe = search(path, own, own.job(asked("safe")), **SEARCHES[path])
    assert not safe.offered.any()
    unaware = asked("fail", access=Access("white_box", unaware_of=("reject",)))
    alone = search(path, own, own.job(unaware), **SEARCHES[path])
    assert int(alone.offered.sum()) < 15


def test_a_sure_softmax_still_has_a_way_to_its_rejection() -> None:
    """The greatest share is 1 in float64 at a score of 60 over 0: its own slope is 0, that of its odds is not."""
    from tmlang.backends.decision import Decision

    spec = model(2, decide=Decide("argmax", "lowest"), reject=(RejectWhen("max_softmax", "<", F(3, 4)),))
    outputs = torch.tensor([[60.0, 0.0], [1.0, 0.0], [2.0, 0.0]], requires_grad=True)
    slack = Decision(spec).slack(outputs)
    assert slack is not None
    # By hand: odds are 60, 1 and 2, and log(3/4 : 1/4) = log 3 = 1.0986; the second is rejected.
    assert torch.allclose(slack.detach(), torch.tensor([60.0, 1.0, 2.0], dtype=torch.float64) - np.log(3))
    assert Decision(spec)(outputs.detach()).tolist() == [0, -1, 0]
    (slope,) = torch.autograd.grad(slack.sum(), outputs)
    assert torch.equal(slope, torch.tensor([[1.0, -1.0]] * 3))
