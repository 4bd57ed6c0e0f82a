"""Complete methods decide one unit at a time: what each answers, how long it may take, and the batch's verdicts."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from tmlang.audit.outputs import OutputBounds
from tmlang.backends.contract import Candidates, Job, Verdicts
from tmlang.backends.gaps import Kind, arithmetic, outward
from tmlang.backends.polyhedra import Question
from tmlang.backends.probing import ascend, inside, probes
from tmlang.backends.rounding import computed
from tmlang.meaning.values import Quantity


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
    """How far the object's arithmetic may be from a proof's, unit by unit, how that is known, and why it is not as was
    asked for."""

    values: tuple[float, ...]
    kind: Kind
    why: str | None = None

    def margin(self, unit: int) -> float:
        """How far from failing what is proved stays: more than the gap, of a gap of 0 as well."""
        wider = self.values[unit] * (2 if self.kind == "assumed" else 1 + 2**-10)
        return max(wider, math.ulp(0.0))


def gap_of(job: Job, asked: Question) -> Gap:
    """Of the deployed object, a property's too: as ``rounding:`` says proved, or assumed from its measured size."""
    network, _ = job.oracle.opened()
    stated = arithmetic(job, network, asked.folded, lambda: _points(job, asked))
    if stated.kind != "proved":
        return Gap((stated.assumed,) * len(job.x), stated.kind, stated.why)
    found = computed(network, *outward(job), job.x.dtype)
    rows = [torch.cat([part.matrix for part in parts]) for parts in asked.failing]
    return Gap(tuple(found.gaps(torch.stack(rows)).amax(dim=1).tolist()), stated.kind)


def _points(job: Job, asked: Question) -> torch.Tensor:
    """Members of every unit's set: its original, corners, draws, and where ascent towards a failure begins and ends."""
    found = []
    for i in range(len(job.x)):
        risen = ascend(job, i, lambda x, i=i: asked.slack(i, asked.folded.scores(x)))  # type: ignore[misc]
        found.append(inside(job, i, torch.cat([probes(job, i), risen])))
    return torch.cat(found).to(job.x.dtype)


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
    margins = [gap.margin(i) if a.word == "certified" else torch.nan for i, a in enumerate(answers)]
    proved = torch.tensor(margins, dtype=torch.float64)
    words = tuple(a.word for a in answers)
    messages = tuple("; ".join(filter(None, (a.message, gap.why))) or None for a in answers)
    outputs = tuple(a.outputs for a in answers)
    found = Candidates(x, offered, (None,) * len(answers))
    return Verdicts(words, proved, gap.values, gap.kind, found, messages, outputs=outputs if any(outputs) else ())
