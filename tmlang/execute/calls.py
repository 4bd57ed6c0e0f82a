"""Which units a method is called about together: a fact of the plan, the data and the model, and of no option.

The last bits of a forward pass depend on how many rows it has (other kernels, other tails of vectors), a library draws
for a whole call, and a bound is computed for one. So a call has the same units in every run, whatever is committed
together, however many workers there are, and wherever a run went on; and a unit stays in its call whoever else of it is
broken already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

UNITS = 512
"""Units of a call at most."""
_INPUTS = 1 << 22
"""Coordinates of the inputs of a call at most."""
_NUMBERS = 1 << 25
"""Numbers that one forward pass of a call makes at most: small calls of large models cost little time and bound memory,
and leave something to other workers."""


def call_size(model: nn.Module, x: torch.Tensor) -> int:
    """Units of a call about ``model``, at least one. ``x``: (1, *shape), an input of it."""
    return max(1, min(UNITS, _INPUTS // max(1, x.numel()), _NUMBERS // max(1, numbers(model, x))))


def numbers(model: nn.Module, x: torch.Tensor) -> int:
    """How many numbers one more row of a forward pass makes, views included; none of those inside of TorchScript."""
    made: list[int] = []
    with torch.random.fork_rng(devices=()), torch.no_grad():
        for rows in (x, torch.cat([x, x])):
            with _Counting() as counted:
                model(rows)
            made.append(counted.made)
    return made[1] - made[0]


class _Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.made: int = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(one, torch.Tensor):
                self.made += one.numel()
        return out


def calls(units: int, active: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """The active ones of ``units`` in calls: those of the first ``size`` units, of the next, …, without empty ones."""
    found: dict[int, list[int]] = {k: [] for k in range(0, units, size)}
    for i in active:
        found[i - i % size].append(i)
    return [tuple(of_one) for of_one in found.values() if of_one]
