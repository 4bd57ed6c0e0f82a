"""The oracle counts gradients that are zero everywhere, of the units that they belong to."""

from __future__ import annotations

import torch
from torch import nn

from tmlang.backends.oracle import Oracle

# Slope 1 above 0 and none at or below it.
HINGE = nn.ReLU()


def oracle(units: int) -> Oracle:
    return Oracle(HINGE, lambda out: out.argmax(dim=1), classes=2, level="white_box", units=units)


def climb(door: Oracle, x: list[list[float]], units: list[int] | None = None, times: int = 1) -> None:
    leaf = torch.tensor(x, requires_grad=True)
    out = door.logits(leaf, None if units is None else torch.tensor(units))
    for _ in range(times):
        torch.autograd.grad(out.sum(), leaf, retain_graph=True)


def test_rows_in_order_belong_to_their_units():
    door = oracle(3)
    climb(door, [[-1.0, -1.0], [-1.0, 1.0], [-2.0, -3.0]])
    assert door.zero_gradients.tolist() == [1, 0, 1]
    assert door.gradients.tolist() == [1, 1, 1]


def test_rows_of_named_units_and_several_passes_add_up():
    door = oracle(3)
    climb(door, [[-1.0, -1.0], [-1.0, -1.0], [1.0, 1.0]], units=[2, 2, 0])
    climb(door, [[-1.0, -1.0]], units=[2], times=2)
    assert door.zero_gradients.tolist() == [0, 0, 4]
    assert door.gradients.tolist() == [1, 0, 4]


def test_rows_of_nobody_in_particular_count_only_all_together():
    door = oracle(2)
    climb(door, [[-1.0, -1.0]] * 3 + [[1.0, -1.0]])
    assert door.zero_gradients.tolist() == [0, 0]
    climb(door, [[-1.0, -1.0]] * 4)
    assert door.zero_gradients.tolist() == [2, 2]
    assert door.gradients.tolist() == [4, 4]


def test_one_leaf_forwarded_twice_is_counted_once_for_each_pass():
    door, leaf = oracle(1), torch.tensor([[-1.0, -1.0]], requires_grad=True)
    first, second = door.logits(leaf), door.logits(leaf)
    torch.autograd.grad(first.sum(), leaf)
    assert (door.gradients.tolist(), door.zero_gradients.tolist()) == ([1], [1])
    torch.autograd.grad(second.sum(), leaf)
    assert (door.gradients.tolist(), door.zero_gradients.tolist()) == ([2], [2])


def test_a_unit_s_own_view_counts_into_the_whole():
    door = oracle(2)
    climb(door.unit(1), [[-1.0, -1.0]])
    assert door.zero_gradients.tolist() == [0, 1]


def test_no_number_is_no_zero():
    class Root(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sqrt(x - 1)

    door = Oracle(Root(), lambda out: out.argmax(dim=1), classes=2, level="white_box", units=1)
    climb(door, [[0.0, 0.0]])
    assert door.zero_gradients.tolist() == [0]
