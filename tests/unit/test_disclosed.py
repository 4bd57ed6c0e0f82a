"""What an answer shows under `scores (top5, rounded 3)`, and that a search sees no more of the object."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import pytest
import torch
from backend_support import digits, search, threat
from torch import nn

from tmlang.backends.deployed import Expectation
from tmlang.backends.disclosed import Disclosed
from tmlang.backends.oracle import Oracle
from tmlang.meaning.threats import Access

Tensor = torch.Tensor
OUTPUTS = torch.tensor([[0.12345, 2.0004, -1.0, 0.9996, 7.77777], [1.0, 1.0001, 5.0, 0.0, 9.99999]])
BELOW = pytest.approx


def below(value: float) -> float:
    return float(torch.nextafter(torch.tensor(value), torch.tensor(-torch.inf)))


def test_an_answer_by_hand() -> None:
    """Four classes and another head. The best two are listed in thousandths; the rest lie just below the second."""
    shown = Disclosed(4, 2, 3)(OUTPUTS)
    least = [below(1.0), below(1.0)]
    assert shown[0].tolist() == BELOW([least[0], 2.0, least[0], 1.0, 7.778])
    assert shown[1].tolist() == BELOW([least[1], 1.0, 5.0, least[1], 10.0])
    assert shown[0].argsort(descending=True)[1:3].tolist() == [1, 3]  # behind the other head
    # Class 0 of the second row ties with class 1 in thousandths, and is not listed.
    assert shown[1, 0] < shown[1, 1]


@pytest.mark.parametrize("digits", [38, 300, 309, 4000])
def test_more_digits_than_a_number_has_take_nothing_away(digits: int) -> None:
    assert torch.equal(Disclosed(4, None, digits)(OUTPUTS), OUTPUTS)
    large = torch.tensor([[3e38, 1.5, -2e30]])
    assert torch.equal(Disclosed(3, None, digits)(large), large)


def test_each_part_alone() -> None:
    assert torch.equal(Disclosed(4, None, 1)(OUTPUTS)[0, :4], torch.tensor([0.1, 2.0, -1.0, 1.0]))
    assert torch.equal(Disclosed(4, 4, None)(OUTPUTS), OUTPUTS)
    one = Disclosed(4, 1, None)(OUTPUTS)
    assert one.argmax(dim=1).tolist() == [4, 4]
    assert one[:, :4].argmax(dim=1).tolist() == [1, 2]
    assert one[0, [0, 2, 3]].unique().tolist() == [below(OUTPUTS[0, 1].item())]


def test_what_shows_all_needs_no_rule() -> None:
    assert Disclosed.of(Access("scores"), 10) is None
    assert Disclosed.of(Access("scores", rounded=3), 10) == Disclosed(10, None, 3)


def door(level: Any, disclosed: Disclosed | None, view: nn.Module | None = None) -> Oracle:
    return Oracle(
        nn.Identity(), lambda out: out[:, :4].argmax(dim=1), classes=4, level=level, units=2, view=view,
        disclosed=disclosed,
    )  # fmt: skip


ASKED: dict[str, Callable[[Oracle], Tensor]] = {
    "logits": lambda o: o.logits(OUTPUTS),
    "observe": lambda o: o.observe(OUTPUTS).scores,
    "module": lambda o: o.module()(OUTPUTS),
    "unit": lambda o: torch.cat([o.unit(i).logits(OUTPUTS[i : i + 1]) for i in range(2)]),
}


@pytest.mark.parametrize("way", ASKED)
def test_every_way_to_ask_shows_the_same(way: str) -> None:
    told = Disclosed(4, 2, 3)
    assert torch.equal(ASKED[way](door("scores", told)), told(OUTPUTS)[:, :4])
    assert torch.equal(ASKED[way](door("scores", None)), OUTPUTS[:, :4])


def test_the_decision_is_part_of_every_answer() -> None:
    """Of classes that tie in what is shown, too: 0.9996 and 1.0004 are both 1.0."""
    near = torch.tensor([[0.9996, 1.0004, 0.0, 0.0]])
    seen = door("scores", Disclosed(4, None, 1)).observe(near)
    assert seen.scores[0, 0] == seen.scores[0, 1]
    assert seen.decisions.tolist() == [1]


def test_of_several_draws_each_answer_is_cut_off_before_the_mean() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x + 0.4 * self.calls

    view = Expectation(Counting(), 2, Disclosed(4, None, 1))
    x = torch.tensor([[0.06, 0.0, 0.0, 0.0]])
    assert door("scores", None, view).logits(x)[0].tolist() == BELOW([0.7, 0.6, 0.6, 0.6])  # (0.5 + 0.9) / 2


def test_a_search_by_squares_sees_no_more_and_still_finds() -> None:
    case = digits()
    case_threat = threat("linf", F(3, 20), access=Access("scores", 5, 3))
    full = search("native.square", case, case.job(threat("linf", F(3, 20)), level="scores"), queries=F(300))
    seen: list[Tensor] = []

    def noted(outputs: Tensor) -> Tensor:
        shown = Disclosed(10, 5, 3)(outputs)
        seen.append(shown)
        return shown

    job = case.job(case_threat, level="scores")
    job.oracle._disclosed = noted  # type: ignore[assignment]
    found = search("native.square", case, job, queries=F(300))
    assert int(full.offered.sum()) >= int(found.offered.sum()) > 3
    rows = torch.cat(seen)
    assert len(rows) == int(job.oracle.spent.sum())
    assert all(len(row.unique()) <= 6 for row in rows)
    assert torch.allclose(rows.amax(dim=1), rows.amax(dim=1).round(decimals=3))
