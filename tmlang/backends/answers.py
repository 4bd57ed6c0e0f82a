"""Complete methods decide one unit at a time: what each answers, how long it may take, and the batch's verdicts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from tmlang.audit.outputs import OutputBounds
from tmlang.backends.asserted import Asserted
from tmlang.backends.contract import Candidates, Job, Verdicts
from tmlang.backends.folding import rounding_gap
from tmlang.backends.polyhedra import Question
from tmlang.backends.rounding import proved_gap
from tmlang.meaning.values import Quantity, Symbol


@dataclass
class Answer:
    """Of one unit: a verdict, why, an input (*shape) that may fail, and bounds of its outputs where they were asked
    for."""

    word: Literal["certified", "broken", "unknown", "error", "timeout"]
    message: str | None = None
    x: np.ndarray | None = None
    outputs: OutputBounds | None = None


@dataclass(frozen=True)
class Gap:
    """How far the object's arithmetic may be from a proof's. ``margin``: how far from failing what is proved stays."""

    value: float
    kind: Literal["proved", "assumed"]

    @property
    def margin(self) -> float:
        return self.value * (2 if self.kind == "assumed" else 1 + 2**-10)


def gap_of(job: Job, asked: Question) -> Gap:
    """Of the deployed object, a property's too: as ``rounding:`` says proved, or assumed from its measured size."""
    network, _ = job.oracle.opened()
    assumed = rounding_gap(network.deployed if isinstance(network, Asserted) else network, asked.folded, job.x)
    if job.arguments.get("rounding") != Symbol("proved"):
        return Gap(assumed, "assumed")
    low, high = (torch.from_numpy(np.ascontiguousarray(side)).double() for side in job.sets.outward_box())
    return Gap(proved_gap(network, low, high, job.x.dtype), "proved")


def seconds(job: Job) -> float:
    """What one unit may take now: its ``timeout``, and no more than the stage has left (0 or below: nothing)."""
    given = job.arguments["timeout"]
    limit = float(given.value if isinstance(given, Quantity) else given)
    return limit if job.deadline is None else min(limit, job.deadline - time.monotonic())


def verdicts(job: Job, answers: Sequence[Answer], gap: Gap) -> Verdicts:
    """All answers of a batch, every certified unit of which was proved to stay the gap's margin away from failing."""
    x = job.x.clone()
    for i, answer in enumerate(answers):
        if answer.x is not None:
            x[i] = torch.from_numpy(answer.x)
    offered = torch.tensor([a.x is not None for a in answers])
    proved = torch.tensor([gap.margin if a.word == "certified" else torch.nan for a in answers], dtype=torch.float64)
    words, messages = tuple(a.word for a in answers), tuple(a.message for a in answers)
    outputs = tuple(a.outputs for a in answers)
    found = Candidates(x, offered, (None,) * len(answers))
    return Verdicts(words, proved, gap.value, gap.kind, found, messages, outputs=outputs if any(outputs) else ())
