"""One stage over batches of units: build the job, run the adapter under guard, decide again, make rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import cast

import numpy as np
import torch

from tmlang.audit.record import Record, Verdict
from tmlang.backends.contract import BackendRefusal, Candidates, Certifier, Job, Search, Verdicts
from tmlang.backends.failure import Failure
from tmlang.backends.recheck import Facts, recheck
from tmlang.diagnostics.stop import Stop
from tmlang.execute.arena import Arena
from tmlang.execute.confirm import Confirmed
from tmlang.execute.guard import check_steady, guarded
from tmlang.execute.jobs import JobMaker, Searched
from tmlang.execute.rows import TIMEOUT, Effort, attack_row, kept
from tmlang.meaning.values import Artifact
from tmlang.plan.ir import Stage

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
    """One stage and repeat of an evaluation, with its adapter."""

    arena: Arena
    stage: Stage
    repeat: int
    adapter: Search | Certifier
    deadline: float | None = None
    read: Callable[[Artifact], bytes] | None = None
    listen: Callable[[int], None] | None = None

    @property
    def _maker(self) -> JobMaker:
        return JobMaker(self.arena, self.stage, self.repeat, self.deadline, self.read, self.listen)

    def run(self, at: Sequence[int], used: Sequence[int]) -> Batch:
        """The units ``at`` (indices into the arena), which have ``used`` so many queries before.

        A failure of the adapter makes rows ``error`` and the run goes on. Raises :class:`Stop` (TM822) when the stage
        changed the model, or the model itself.
        """
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return self._failed(at, TIMEOUT, [], 0.0)
        searched = self._maker.jobs(at, used)
        began = time.perf_counter()
        outcomes = [self._outcome(s) for s in searched]
        seconds = time.perf_counter() - began
        self.arena.searching += seconds
        if all(isinstance(o, str) for o in outcomes):
            return self._failed(at, str(outcomes[0]), searched, seconds)
        efforts = self._efforts(at, searched, seconds)
        within = [self._within_access(e, u) for e, u in zip(efforts, used, strict=True)]
        if isinstance(outcomes[0], Verdicts):
            batch = self._verdicts(at, outcomes[0], searched[0].job, efforts, within)
        else:
            found = [self._offered(o, s.job) for o, s in zip(outcomes, searched, strict=True)]
            batch = self._rows(at, [sum(facts, ()) for facts in zip(*found, strict=True)], efforts, within)
        check_steady(self.arena.attacked.evaluator.steady(), self.stage.id)
        return batch

    def _outcome(self, searched: Searched) -> Candidates | Verdicts | str:
        """What the adapter gives for one job, or why it gives nothing."""
        name = f"{self.stage.backend}.{self.stage.method}"
        try:
            with guarded(searched.attacked.deployed, self.stage.id):
                _restart(searched)
                outcome = self._call(searched.job)
        except Stop:
            raise
        except BackendRefusal as refusal:
            return str(refusal)
        except Exception as fault:
            return f"{name} failed: {type(fault).__name__}: {fault}"
        if not isinstance(outcome, Candidates if self.stage.role == "attack" else Verdicts):
            return f"{name} returned a {type(outcome).__name__}"
        return outcome

    def _call(self, job: Job) -> Candidates | Verdicts:
        if self.stage.role == "attack":
            return cast(Search, self.adapter).search(job)
        return cast(Certifier, self.adapter).certify(job)

    def _offered(self, outcome: Candidates | Verdicts | str, job: Job) -> list[tuple[Facts, ...]]:
        if isinstance(outcome, Candidates):
            return self._recheck(outcome, job)
        return [(Facts("error", str(outcome)),)] * len(job.x)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _recheck(self, candidates: Candidates, job: Job) -> list[tuple[Facts, ...]]:
        began = time.perf_counter()
        failure = Failure.of(job.sets, job.y, job.target)
        confirmation = self.arena.confirmation
        if confirmation is None:
            found = recheck(candidates, job.sets, self.arena.attacked.evaluator, failure)
        else:
            found = recheck(candidates, job.sets, confirmation, Confirmed(failure, confirmation))
        self.arena.replaying += time.perf_counter() - began
        return list(found)

    def _within_access(self, effort: Effort, used: int) -> bool:
        """Whether a witness of this stage was found within what the threat grants."""
        access = self.arena.threat.access
        if self.stage.role == "attack":
            return True
        enough = access.level == "transfer" or _GRANTS[access.level] >= _GRANTS.get(self.stage.access, 3)
        return enough and (access.queries is None or used + effort.queries <= access.queries)

    def _efforts(self, at: Sequence[int], searched: Sequence[Searched], seconds: float) -> list[Effort]:
        maker, share = self._maker, seconds / len(at)
        zeros = torch.zeros(len(at), dtype=torch.int64)
        queries = sum((s.job.oracle.spent for s in searched if s.own), zeros).tolist()
        forwards = sum((s.job.oracle.forwards for s in searched), zeros).tolist()
        gradients = sum((s.job.oracle.gradients for s in searched), zeros).tolist()
        counts = zip(at, queries, forwards, gradients, strict=True)
        return [Effort(q, f, g, share, maker.seed(i)) for i, q, f, g in counts]

    def _failed(self, at: Sequence[int], message: str, searched: Sequence[Searched], seconds: float) -> Batch:
        """The batch when the stage as a whole gave nothing."""
        efforts = self._efforts(at, searched, seconds)
        batch = self._rows(at, [(Facts("error", message),)] * len(at), efforts, [True] * len(at))
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
                rows.append(self._tested(row, i, fact))
                keeps.append(Kept(i, kept(fact)))
        return Batch(tuple(rows), tuple(keeps))

    def _tested(self, row: Record, unit: int, facts: Facts) -> Record:
        """``row`` with the counts of its test, where the object is random."""
        if self.arena.confirmation is None or facts.x is None:
            return row
        trial = self.arena.confirmed().trial(unit, torch.from_numpy(facts.x))
        return replace(row, draws=trial.draws, errors=trial.errors)

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


def _restart(searched: Searched) -> None:
    """Streams of noise inside the object start from the batch's first seed."""
    seed = searched.job.seeds[0]
    torch.manual_seed(seed)
    searched.attacked.deployed.reseed(seed)
    searched.attacked.straight_through.reseed(seed)


def _nothing(job: Job) -> Candidates:
    return Candidates(job.x, torch.zeros(len(job.x), dtype=torch.bool), (None,) * len(job.x))
