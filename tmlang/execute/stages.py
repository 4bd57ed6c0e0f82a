"""One stage over batches of units: build the job, run the adapter under guard, decide again, make rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from tmlang.audit.record import Record, Verdict
from tmlang.backends.contract import BackendRefusal, Candidates, Certifier, Job, Search, Verdicts
from tmlang.backends.deployed import Expectation
from tmlang.backends.failure import Failure
from tmlang.backends.oracle import Oracle
from tmlang.backends.recheck import Facts, recheck
from tmlang.diagnostics.stop import Stop
from tmlang.execute.arena import Arena
from tmlang.execute.guard import guarded
from tmlang.execute.rows import TIMEOUT, Effort, attack_row, kept
from tmlang.execute.seeds import derive
from tmlang.meaning.values import Artifact, Value
from tmlang.plan.ir import AccessLevel, Stage

_GRANTS = {"nothing": 0, "decisions": 1, "scores": 2, "white_box": 3}


@dataclass(frozen=True)
class Kept:
    """What a row keeps: the index of its unit, and the candidate (*shape) if it is worth keeping."""

    unit: int
    x: np.ndarray | None


@dataclass(frozen=True)
class Batch:
    """Rows of one batch and, aligned, what they keep."""

    rows: tuple[Record, ...]
    kept: tuple[Kept, ...]


@dataclass(frozen=True)
class StageRun:
    """One stage and repeat of an evaluation, with its adapter. ``read``: see :class:`~tmlang.backends.contract.Job`."""

    arena: Arena
    stage: Stage
    repeat: int
    adapter: Search | Certifier
    deadline: float | None = None
    read: Callable[[Artifact], bytes] | None = None
    _views: dict[str, nn.Module] = field(default_factory=dict)

    def run(self, at: Sequence[int], used: Sequence[int]) -> Batch:
        """The units ``at`` (indices into the arena), which have ``used`` so many queries before.

        A failure of the adapter makes rows ``error`` and the run goes on. Raises :class:`Stop` (TM822) when the stage
        changed the model.
        """
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return self._failed(at, TIMEOUT, None, 0.0)
        job = self._job(at, used)
        began = time.perf_counter()
        outcome: Candidates | Verdicts | str
        try:
            with guarded(self.arena.attacked.deployed, self.stage.id):
                outcome = self._call(job)
            if not isinstance(outcome, Candidates if self.stage.role == "attack" else Verdicts):
                outcome = f"{self.stage.backend}.{self.stage.method} returned a {type(outcome).__name__}"
        except Stop:
            raise
        except BackendRefusal as refusal:
            outcome = str(refusal)
        except Exception as fault:
            outcome = f"{self.stage.backend}.{self.stage.method} failed: {type(fault).__name__}: {fault}"
        seconds = time.perf_counter() - began
        self.arena.searching += seconds
        if isinstance(outcome, str):
            return self._failed(at, outcome, job, seconds)
        efforts = self._efforts(at, job, seconds)
        within = [self._within_access(e, u) for e, u in zip(efforts, used, strict=True)]
        if isinstance(outcome, Candidates):
            return self._rows(at, self._recheck(outcome, job), efforts, within)
        return self._verdicts(at, outcome, job, efforts, within)

    def _call(self, job: Job) -> Candidates | Verdicts:
        if self.stage.role == "attack":
            return cast(Search, self.adapter).search(job)
        return cast(Certifier, self.adapter).certify(job)

    # --- the job --------------------------------------------------------------------------------------------------

    def _job(self, at: Sequence[int], used: Sequence[int]) -> Job:
        arena = self.arena
        index = torch.tensor(list(at))
        return Job(
            oracle=self._oracle(len(at), used),
            sets=arena.sets.rows(list(at)),
            threat=arena.threat,
            x=arena.x[index],
            y=arena.y[index],
            target=None if arena.target is None else arena.target[index],
            arguments=dict(self.stage.arguments),
            seeds=tuple(self._seed(i) for i in at),
            deadline=self.deadline,
            through=self._through(),
            read=self.read,
        )

    def _seed(self, unit: int) -> int:
        return derive(self.arena.seed, self.arena.units[unit].id, self.stage.label, self.repeat)

    def _through(self) -> tuple[str, dict[str, Value]] | None:
        through = self.stage.through
        return None if through is None else (through.name, dict(through.args))

    def _oracle(self, units: int, used: Sequence[int]) -> Oracle:
        attacked, access = self.arena.attacked, self.arena.threat.access
        proves = self.stage.role != "attack"
        level: AccessLevel = "white_box" if proves else self.stage.access
        limited = not proves and access.queries is not None
        return Oracle(
            attacked.deployed,
            attacked.decision,
            classes=len(attacked.model.classes),
            level=level,
            units=units,
            limit=access.queries if limited else None,
            used=used if limited and access.queries_per == "example" else None,
            view=self._view(),
        )

    def _view(self) -> nn.Module | None:
        """The object as this stage's gradients and scores see it."""
        through = self.stage.through
        if through is None:
            return None
        if through.name == "straight_through":
            return self.arena.attacked.straight_through
        draws = int(cast(Any, dict(through.args)["draws"]))
        return self._views.setdefault(through.name, Expectation(self.arena.attacked.straight_through, draws))

    # --- rows -----------------------------------------------------------------------------------------------------

    def _recheck(self, candidates: Candidates, job: Job) -> list[tuple[Facts, ...]]:
        began = time.perf_counter()
        failure = Failure.of(job.sets, job.y, job.target)
        found = recheck(candidates, job.sets, self.arena.attacked.evaluator, failure)
        self.arena.replaying += time.perf_counter() - began
        return list(found)

    def _within_access(self, effort: Effort, used: int) -> bool:
        """Whether a witness of this stage was found within what the threat grants."""
        access = self.arena.threat.access
        if self.stage.role == "attack":
            return True
        enough = access.level == "transfer" or _GRANTS[access.level] >= _GRANTS.get(self.stage.access, 3)
        return enough and (access.queries is None or used + effort.queries <= access.queries)

    def _efforts(self, at: Sequence[int], job: Job | None, seconds: float) -> list[Effort]:
        seeds = [self._seed(i) for i in at]
        share = seconds / len(at)
        if job is None:
            return [Effort(seconds=share, seed=seed) for seed in seeds]
        counts = zip(
            job.oracle.spent.tolist(), job.oracle.forwards.tolist(), job.oracle.gradients.tolist(), strict=True
        )
        return [Effort(q, f, g, share, seed) for (q, f, g), seed in zip(counts, seeds, strict=True)]

    def _failed(self, at: Sequence[int], message: str, job: Job | None, seconds: float) -> Batch:
        """The batch when the stage as a whole gave nothing."""
        batch = self._rows(
            at, [(Facts("error", message),)] * len(at), self._efforts(at, job, seconds), [True] * len(at)
        )
        if self.stage.role == "attack":
            return batch
        verdict: Verdict = "timeout" if message == TIMEOUT else "error"
        return replace(batch, rows=tuple(replace(row, verdict=verdict) for row in batch.rows))

    def _rows(
        self, at: Sequence[int], facts: Sequence[Sequence[Facts]], efforts: Sequence[Effort], within: Sequence[bool]
    ) -> Batch:
        rows: list[Record] = []
        keeps: list[Kept] = []
        for k, i in enumerate(at):
            for fact in facts[k]:
                unit, name = self.arena.units[i], self.arena.evaluation.name
                row = attack_row(name, self.stage.label, unit, self.repeat, fact, efforts[k], within_access=within[k])
                rows.append(row)
                keeps.append(Kept(i, kept(fact)))
        return Batch(tuple(rows), tuple(keeps))

    def _verdicts(
        self, at: Sequence[int], verdicts: Verdicts, job: Job, efforts: Sequence[Effort], within: Sequence[bool]
    ) -> Batch:
        """Rows of a prover: its counterexamples replayed, its verdicts recorded."""
        rechecked = self._recheck(verdicts.candidates or _nothing(job), job)
        facts = [unit[-1:] if unit[-1].is_witness else unit[:1] for unit in rechecked]
        batch = self._rows(at, facts, efforts, within)
        rows = [
            self._verdict(row, unit[0], verdicts, k)
            for k, (row, unit) in enumerate(zip(batch.rows, facts, strict=True))
        ]
        return replace(batch, rows=tuple(rows))

    def _verdict(self, row: Record, facts: Facts, verdicts: Verdicts, k: int) -> Record:
        """``row`` with the prover's verdict; a counterexample that does not replay leaves ``unknown``."""
        verdict = verdicts.verdict[k]
        message = verdicts.messages[k] if verdicts.messages else None
        if facts.is_witness:
            verdict = "broken"
        elif verdict == "broken":
            verdict, message = "unknown", "the counterexample does not replay under the reference evaluator"
        margin = float(verdicts.margin[k])
        if verdict == "certified" and self.stage.evidence == "bound" and isnan(margin):
            verdict, message = "unknown", "certified without a margin"
        if verdicts.sizes and verdicts.sizes[k]:
            message = "; ".join(filter(None, (message, f"{verdicts.sizes[k]} inputs in the set")))
        return replace(
            row,
            status=verdict if verdict in ("error", "timeout") else row.status,
            verdict=verdict,
            message=message or row.message,
            margin=None if isnan(margin) else margin,
            gap=verdicts.gap,
            gap_kind=verdicts.gap_kind,
        )


def _nothing(job: Job) -> Candidates:
    return Candidates(job.x, torch.zeros(len(job.x), dtype=torch.bool), (None,) * len(job.x))
