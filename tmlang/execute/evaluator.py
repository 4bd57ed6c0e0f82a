"""E, the reference evaluator (EVIDENCE.md section 1): one input at a time, one thread, deterministic kernels, CPU.

Its decisions are the only ones that count. Searches run in any batch; what they find is replayed here.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

import torch
from torch import nn

from tmlang.backends.asserted import Asserted
from tmlang.backends.decision import Decision
from tmlang.backends.deployed import Deployed
from tmlang.execute.guard import random_states, state_hash

REPLAYS = 3
"""Identical replays that make a witness, unless E was seen to be bitwise repeatable (then one)."""
_PROBED = 4
"""Inputs on which repeatability is measured."""
_CALLS, _SECONDS = 240, 0.5
"""Calls of the measurement, and the time after which it asks no more than the replays. What answers otherwise in one
call of fifty is found by 240 calls in 99 cases of 100."""


@contextmanager
def reference_arithmetic() -> Iterator[None]:
    """One thread, deterministic kernels, no gradients."""
    # `use_deterministic_algorithms` would do the same and import a compiler for it, which takes seconds.
    threads, deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("warn")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_deterministic_debug_mode(deterministic)
        torch.set_num_threads(threads)


class Evaluator:
    """The object under E. ``deployed`` and ``decision`` are the same that a search is shown.

    ``repeatable``: E gave bitwise equal outputs whenever it was asked twice (see :meth:`probe`). ``draws``: it was seen
    to take from the global random numbers of torch, numpy or Python.
    """

    def __init__(self, deployed: Deployed | Asserted, decision: Decision) -> None:
        self.deployed = deployed
        self.decision = decision
        self.repeatable = False
        self.draws = False
        self._probed: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def replays(self) -> int:
        """How often a failing candidate must give the same decision."""
        return 1 if self.repeatable else REPLAYS

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """(n, H) outputs of n >= 1 inputs (n, *shape), one at a time; (draws, n, H) for a decision that takes draws."""
        draws = self.decision.draws
        with reference_arithmetic():
            rows = torch.split(x, 1)
            passes = [torch.cat([self.deployed(row) for row in rows]) for _ in range(draws)]
        return passes[0] if draws == 1 else torch.stack(passes)

    def decide(self, x: torch.Tensor) -> torch.Tensor:
        """Decisions (n,) int64 of inputs (n, *shape): a class, ``REJECTED``, or ``NO_DECISION``."""
        return self.decision(self.outputs(x)) if len(x) else torch.empty(0, dtype=torch.int64)

    def judged(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, tuple[float | None, ...]]:
        """Decisions (n,) and, of the same outputs, by how much the score of each label exceeds those of the other
        classes; ``None`` where that is no number."""
        if not len(x):
            return self.decide(x), ()
        outputs = self.outputs(x)
        found = self.decision.margins(outputs, labels).tolist()
        return self.decision(outputs), tuple(margin if isfinite(margin) else None for margin in found)

    def probe(self, x: torch.Tensor) -> bool:
        """Whether passes over some inputs, with other work behind the first, are bitwise equal and draw no random
        numbers: drawing shows at once, however seldom a draw tells. Sets ``repeatable`` and ``draws``."""
        some, began, before = x[:_PROBED], time.monotonic(), random_states()
        first = self.outputs(some)
        with torch.no_grad():
            self.deployed(x[: 8 * _PROBED])
        equal, asked = True, 1
        while equal and (asked < REPLAYS or (asked * len(some) < _CALLS and time.monotonic() - began < _SECONDS)):
            equal, asked = same(first, self.outputs(some)), asked + 1
        self.draws = random_states() != before
        self.repeatable = equal and not self.draws
        self._probed = (some, self.decision(first)) if self.repeatable else None
        return self.repeatable

    def steady(self) -> bool:
        """Whether the inputs of the probe are decided as they were then: a model may keep state that is no parameter
        and no buffer."""
        return self._probed is None or torch.equal(self.decide(self._probed[0]), self._probed[1])

    def identity(self) -> dict[str, Any]:
        """What E is: part of the identity of a claim."""
        return {
            "object": state_hash(self.deployed),
            "device": "cpu",
            "processor": platform.machine(),
            "dtype": str(self.deployed.dtype).removeprefix("torch."),
            "batch_size": 1,
            "threads": 1,
            "deterministic": True,
            "torch": torch.__version__,
            "capability": torch.backends.cpu.get_cpu_capability(),
        }


def same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Equal in every entry, NaN equal to NaN."""
    return bool(((first == second) | (first.isnan() & second.isnan())).all())


def modules_in_training(model: nn.Module) -> tuple[str, ...]:
    """Names of submodules that are not in evaluation mode."""
    return tuple(name or "the network itself" for name, m in model.named_modules() if m.training)
