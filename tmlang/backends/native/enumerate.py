"""Every input of a finite set, through the evaluator's arithmetic: the answer itself (EVIDENCE.md section 7)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from tmlang.backends.contract import Candidates, Job, Verdicts
from tmlang.backends.decision import is_open, why
from tmlang.backends.failure import Failure
from tmlang.backends.finite import listed
from tmlang.backends.native.arguments import whole

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

_BLOCK = 256
_PROMISING = 16
"""Inputs that failed in a batch and are decided alone before all the others."""


@contextmanager
def one_thread() -> Iterator[None]:
    """The arithmetic of the reference evaluator: one thread, deterministic kernels."""
    threads, deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(deterministic)
        torch.set_num_threads(threads)


class Enumerate:
    """``native.enumerate``: certified iff no input of S fails, each decided alone (batch size 1) as the evaluator does.

    Sets of more than ``at_most`` inputs, and sets in which a real coordinate moves, are ``unknown``.
    """

    def __init__(self, row: Method) -> None:
        self.row = row

    def certify(self, job: Job) -> Verdicts:
        x, found = job.x.clone(), torch.zeros(len(job.x), dtype=torch.bool)
        theta = torch.full((len(x), job.sets.parameters), torch.nan, dtype=torch.float64)
        failure = Failure.of(job.sets, job.y, job.target)
        answers = []
        with one_thread():
            for unit in range(len(job.x)):
                answer = _answer(job, failure, unit)
                if answer.witness is not None:
                    x[unit], found[unit] = answer.witness, True
                if answer.theta is not None:
                    theta[unit] = answer.theta
                answers.append(answer)
        return Verdicts(
            verdict=tuple(a.verdict for a in answers),
            margin=torch.full((len(x),), torch.nan),
            gap=0.0,
            gap_kind="proved",
            candidates=Candidates(x, found, (None,) * len(x), theta=theta if theta.shape[1] else None),
            messages=tuple(a.message for a in answers),
            sizes=tuple(a.size for a in answers),
        )


@dataclass(frozen=True)
class _Answer:
    """Of one unit; ``size`` is 0 where the set was not listed. ``witness``: an input that fails, or has
    no decision; ``theta`` makes it, under a transform."""

    verdict: Literal["certified", "broken", "unknown", "error", "timeout"]
    size: int = 0
    message: str | None = None
    witness: Tensor | None = None
    theta: Tensor | None = None


def _answer(job: Job, failure: Failure, unit: int) -> _Answer:
    limit = whole(job.arguments["at_most"])
    members = listed(job.sets, unit, limit)
    if members is None:
        endless = "a parameter has no grid" if job.sets.transforms else "a real coordinate moves"
        return _Answer("unknown", message=f"the set has more than {limit} inputs, or {endless}")
    x, theta = torch.from_numpy(members[0]).to(job.x.dtype), torch.from_numpy(members[1])
    # A batch may round differently, so it only says where to look first.
    batch = _decisions(job, x, unit, alone=False)
    if len(batch) < len(x):
        return _Answer("timeout", len(x))
    promising = torch.nonzero(failure.rows(torch.full((len(x),), unit))(batch, x)).flatten()
    for at in (promising[:_PROMISING], torch.arange(len(x))):
        decided = _decisions(job, x[at], unit, alone=True)
        if len(decided) < len(at):
            return _Answer("timeout", len(x))
        fails = failure.rows(torch.full((len(at),), unit))(decided, x[at])
        if bool(fails.any()):
            one = int(at[fails][0])
            return _Answer("broken", len(x), witness=x[one], theta=theta[one])
    if bool(is_open(decided).any()):
        one = int(torch.nonzero(is_open(decided))[0])
        return _Answer("error", len(x), why(int(decided[one])), x[one], theta[one])
    return _Answer("certified", len(x))


def _decisions(job: Job, x: Tensor, unit: int, *, alone: bool) -> Tensor:
    """Decisions of ``x`` (n, *shape); fewer of them behind the deadline."""
    decided = [torch.empty(0, dtype=torch.int64)]
    for start in range(0, len(x), _BLOCK):
        if job.deadline is not None and time.monotonic() >= job.deadline:
            break
        block = x[start : start + _BLOCK]
        decided.append(job.oracle.decisions(block, torch.full((len(block),), unit), alone=alone))
    return torch.cat(decided)
