"""One call of one stage: build the job, run the adapter under guard, decide again, make rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, cast

import numpy as np
import torch

from tmlang.audit.record import Record, Verdict
from tmlang.audit.units import is_estimate
from tmlang.backends.contract import BackendRefusal, Candidates, Certifier, Corruption, Job, Received, Search, Verdicts
from tmlang.backends.failure import Failure
from tmlang.backends.recheck import Evaluator, Facts, Predicate, recheck, with_undecided
from tmlang.backends.shared import is_shared
from tmlang.backends.threatset import ThreatSet
from tmlang.diagnostics.stop import Stop
from tmlang.execute.arena import Arena
from tmlang.execute.confirm import Confirmed
from tmlang.execute.enclosed import disbelief
from tmlang.execute.guard import check_steady, guarded
from tmlang.execute.isolation import Batch, Fault, Kept, Piece, fault_of
from tmlang.execute.jobs import JobMaker, Searched
from tmlang.execute.rows import TIMEOUT, Effort, attack_row, drawn, estimated, kept
from tmlang.meaning.values import Artifact
from tmlang.plan.ir import Stage

_GRANTS = {"nothing": 0, "decisions": 1, "scores": 2, "white_box": 3}


@dataclass(frozen=True)
class StageRun:
    """One stage and repeat of an evaluation, with its adapter and what it is handed."""

    arena: Arena
    stage: Stage
    repeat: int
    adapter: Search | Certifier | Corruption
    deadline: float | None = None
    read: Callable[[Artifact], bytes] | None = None
    listen: Callable[[int], None] | None = None
    received: Mapping[str, Received] = field(default_factory=dict)
    pictures: bool = False

    @property
    def _maker(self) -> JobMaker:
        told = self.deadline, self.read, self.listen, self.received, self.pictures
        return JobMaker(self.arena, self.stage, self.repeat, *told)

    def ask(self, piece: Piece) -> Batch | Fault:
        """One call about the units of ``piece``: their rows, or why there are none.

        Raises :class:`Stop` (TM822) when the stage changed the model, or the model itself.
        """
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return Fault("timeout", TIMEOUT, final=True, efforts=self._efforts(piece.at, [], 0.0))
        searched = self._maker.jobs(piece.at, piece.used)
        began = time.perf_counter()
        outcomes = [self._outcome(s) for s in searched]
        seconds = time.perf_counter() - began
        self.arena.searching += seconds
        efforts = self._efforts(piece.at, searched, seconds)
        faults = [o for o in outcomes if isinstance(o, Fault)]
        if faults and (len(piece.at) > 1 or len(faults) == len(outcomes)):
            return replace(faults[0], efforts=efforts)
        try:
            batch = self._decided(piece, searched, outcomes, efforts)
        except Stop:
            raise
        except Exception as error:
            return replace(fault_of("the object, asked again about what was found,", error), efforts=efforts)
        check_steady(self.arena.attacked.evaluator.steady(), self.stage.id)
        return batch

    def _outcome(self, searched: Searched) -> Candidates | Verdicts | Fault:
        """What the adapter gives for one job, or why it gives nothing."""
        name = f"{self.stage.backend}.{self.stage.method}"
        try:
            with guarded(searched.attacked.deployed, self.stage.id):
                _restart(searched)
                outcome = self._call(searched.job)
        except Stop:
            raise
        except BackendRefusal as refusal:
            return Fault("error", str(refusal), final=True)
        except Exception as fault:
            return fault_of(name, fault)
        if not isinstance(outcome, Candidates if self.stage.role == "attack" else Verdicts):
            return Fault("error", f"{name} returned a {type(outcome).__name__}", final=True)
        if isinstance(outcome, Candidates) and searched.job.fit is not None and not _one_for_all(outcome, searched.job):
            return Fault("error", f"what {name} offers is not made of one perturbation", final=True)
        if isinstance(outcome, Verdicts) and (why := disbelief(outcome, searched.job, searched.attacked.evaluator)):
            return Fault("error", f"{name} is not believed: {why}", final=True)
        return outcome

    def _decided(
        self,
        piece: Piece,
        searched: Sequence[Searched],
        outcomes: Sequence[Candidates | Verdicts | Fault],
        efforts: tuple[Effort, ...],
    ) -> Batch:
        """The rows of what was found, every candidate decided again."""
        within = [self._within_access(e, u) for e, u in zip(efforts, piece.used, strict=True)]
        if self.stage.role != "attack":
            parts = [self._proved(piece, s, o, efforts, within) for o, s in zip(outcomes, searched, strict=True)]
            return Batch(sum((p.rows for p in parts), ()), sum((p.kept for p in parts), ()))
        efforts = _progressed(efforts, outcomes)
        found = [self._offered(o, s.job, piece.at) for o, s in zip(outcomes, searched, strict=True)]
        return self._rows(piece.at, [sum(facts, ()) for facts in zip(*found, strict=True)], efforts, within)

    def _call(self, job: Job) -> Candidates | Verdicts:
        if self.stage.role == "attack":
            found = cast(Search, self.adapter).search(job)
            return found if job.oracle.best is None or job.fit else job.oracle.best.or_best(found, job.sets)
        return cast(Certifier, self.adapter).certify(job)

    def _offered(self, outcome: Candidates | Verdicts | Fault, job: Job, at: Sequence[int]) -> list[tuple[Facts, ...]]:
        if isinstance(outcome, Candidates):
            return self._recheck(outcome, job, at)
        assert isinstance(outcome, Fault)
        return [(Facts(outcome.status, outcome.message),)] * len(job.x)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _recheck(self, candidates: Candidates, job: Job, at: Sequence[int]) -> list[tuple[Facts, ...]]:
        """Judged by the whole set, whatever part of it the job was about."""
        began, whole = time.perf_counter(), job.threat is self.arena.threat
        sets = job.sets if whole else self.arena.sets.rows(list(at))
        failure = Failure.of(sets, job.y, job.target)
        confirmation = self.arena.confirmation
        if confirmation is None:
            found = self._judge(candidates, job, sets, self.arena.attacked.evaluator, failure)
        else:
            judge = Confirmed(failure, confirmation, job.x)
            found = self._judge(candidates, job, sets, judge, judge)
        self.arena.replaying += time.perf_counter() - began
        return list(found)

    @staticmethod
    def _judge(
        candidates: Candidates, job: Job, sets: ThreatSet, evaluator: Evaluator, failure: Predicate
    ) -> tuple[tuple[Facts, ...], ...]:
        found = recheck(candidates, sets, evaluator, failure)
        return with_undecided(found, job.oracle.undecided, sets, evaluator, failure)

    def _within_access(self, effort: Effort, used: int) -> bool:
        """Whether a witness of this stage was found within what the threat grants."""
        access = self.arena.threat.access
        if self.stage.role == "attack":
            return True
        enough = access.level == "transfer" or _GRANTS[access.level] >= _GRANTS.get(self.stage.access, 3)
        return enough and (access.queries is None or used + effort.queries <= access.queries)

    def _efforts(self, at: Sequence[int], searched: Sequence[Searched], seconds: float) -> tuple[Effort, ...]:
        maker, share = self._maker, seconds / len(at)
        zeros = torch.zeros(len(at), dtype=torch.int64)
        queries = sum((s.job.oracle.spent for s in searched if s.own), zeros).tolist()
        forwards = sum((s.job.oracle.spent for s in searched), zeros).tolist()
        gradients = sum((s.job.oracle.gradients for s in searched), zeros).tolist()
        flat = sum((s.job.oracle.zero_gradients for s in searched), zeros).tolist()
        (fitted, climbed), asked = _fitting(searched, len(at)), _asked(searched)
        counts = zip(at, queries, forwards, gradients, flat, strict=True)
        return tuple(Effort(q + asked, f + fitted, g + climbed, z, share, maker.seed(i)) for i, q, f, g, z in counts)

    def _lost(self, piece: Piece) -> tuple[Effort, ...]:
        """What a call cost that took its counts with it: under a limit, every query that was left."""
        limit = self.arena.threat.access.queries if self.stage.role == "attack" else None
        shared = self.arena.threat.access.queries_per == "example"
        queries = [0 if limit is None else limit - min(limit, u if shared else 0) for u in piece.used]
        return tuple(Effort(queries=q, seed=self._maker.seed(i)) for i, q in zip(piece.at, queries, strict=True))

    def failed(self, piece: Piece, fault: Fault) -> Batch:
        """The rows of units that the stage gives nothing for."""
        at = piece.at
        efforts = self._lost(piece) if fault.efforts is None else fault.efforts
        batch = self._rows(at, [(Facts(fault.status, fault.message),)] * len(at), efforts, [True] * len(at))
        if self.stage.role == "attack":
            return batch
        verdict: Verdict = "timeout" if fault.status == "timeout" else "error"
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
                row, keep = self._judged(self._measured(row, fact), i, fact)
                rows.append(row)
                keeps.append(keep)
        return Batch(tuple(rows), tuple(keeps))

    def _judged(self, row: Record, unit: int, facts: Facts) -> tuple[Record, Kept]:
        """``row`` with its fresh draws, where it is judged by these, and what it keeps."""
        confirmation, x = self.arena.confirmation, kept(facts, estimated=is_estimate(self.arena.threat))
        keep = Kept(unit, x, theta=facts.theta)
        if confirmation is None or facts.x is None:
            return row, keep
        judge, found = self.arena.confirmed(), torch.from_numpy(facts.x)
        trial = judge.trial(unit, found)
        row = drawn(row, trial) if confirmation.needed is not None else estimated(drawn(row, trial))
        nature = confirmation.drawn(found, judge.originals[unit], trial) if x is not None else None
        return row, replace(keep, drawn=nature)

    def _measured(self, row: Record, facts: Facts) -> Record:
        """``row`` with the margin of the candidate that it keeps, where the object is fixed."""
        x = kept(facts)
        if x is None or facts.decision is None or self.arena.confirmation is not None:
            return row
        _, (margin,) = self.arena.attacked.evaluator.judged(torch.from_numpy(x[None]), torch.tensor([row.label]))
        return replace(row, margin=margin)

    def _proved(
        self,
        piece: Piece,
        searched: Searched,
        outcome: Candidates | Verdicts | Fault,
        efforts: tuple[Effort, ...],
        within: Sequence[bool],
    ) -> Batch:
        """The rows of a prover about the set, or about one branch of it."""
        if isinstance(outcome, Verdicts):
            batch = self._verdicts(piece.at, outcome, searched.job, efforts, within)
        else:
            assert isinstance(outcome, Fault)
            batch = self.failed(piece, replace(outcome, efforts=efforts))
        if searched.branch is None:
            return batch
        rows = (r if r.verdict == "broken" else replace(r, branch=searched.branch) for r in batch.rows)
        return replace(batch, rows=tuple(rows))

    def _verdicts(
        self, at: Sequence[int], verdicts: Verdicts, job: Job, efforts: Sequence[Effort], within: Sequence[bool]
    ) -> Batch:
        """Rows of a prover: its counterexamples replayed, its verdicts recorded."""
        rechecked = self._recheck(verdicts.candidates or _nothing(job), job, at)
        facts = [unit[-1:] if unit[-1].is_witness else unit[:1] for unit in rechecked]
        batch = self._rows(at, facts, efforts, within)
        rows = [
            self._verdict(row, unit[0], verdicts, k)
            for k, (row, unit) in enumerate(zip(batch.rows, facts, strict=True))
        ]
        if not verdicts.outputs:
            return replace(batch, rows=tuple(rows))
        keeps = (replace(keep, outputs=own) for keep, own in zip(batch.kept, verdicts.outputs, strict=True))
        return Batch(tuple(rows), tuple(keeps))

    def _verdict(self, row: Record, facts: Facts, verdicts: Verdicts, k: int) -> Record:
        """``row`` with the prover's verdict; a counterexample that does not replay leaves ``unknown``. A certificate
        beside a failing input stays one, for all to see that it is contradicted."""
        verdict = verdicts.verdict[k]
        message = verdicts.messages[k] if verdicts.messages else None
        if facts.is_witness and verdict != "certified":
            verdict = "broken"
        elif facts.status == "error" and facts.x is not None:
            verdict, message = "error", facts.message
        elif verdict == "broken":
            verdict, message = "unknown", "the counterexample does not replay under the reference evaluator"
        margin = float(verdicts.margin[k])
        bounded = self.stage.evidence == "bound" and not self.stage.prunes  # what was tried has no bound
        if verdict == "certified" and bounded and not isfinite(margin):
            verdict, message = "unknown", "certified without a margin that is a number"
        if verdicts.sizes and verdicts.sizes[k]:
            message = "; ".join(filter(None, (message, f"{verdicts.sizes[k]} inputs in the set")))
        trial = verdicts.trials[k] if verdicts.trials else None
        if trial is not None:
            row = replace(row, draws=trial.draws, errors=trial.errors, radius=trial.radius)
        return replace(
            row,
            status=verdict if verdict in ("error", "timeout") else row.status,
            verdict=verdict,
            message=message or row.message,
            margin=margin if isfinite(margin) else row.margin,
            gap=verdicts.gap_of(k),
            gap_kind=verdicts.gap_kind,
        )


def _progressed(efforts: tuple[Effort, ...], outcomes: Sequence[Any]) -> tuple[Effort, ...]:
    """With what searches tell: whether they came beyond their start, on whichever object."""
    told = [o.progressed for o in outcomes if isinstance(o, Candidates) and o.progressed is not None]
    if not told:
        return efforts
    return tuple(
        replace(e, progressed=far) for e, far in zip(efforts, torch.stack(told).any(dim=0).tolist(), strict=True)
    )


def _fitting(searched: Sequence[Searched], units: int) -> tuple[int, int]:
    """Rows forwarded and back-propagated to fit a universal perturbation, each unit's share of them rounded up: they
    were spent for all."""
    fits = [s.job.fit.oracle for s in searched if s.job.fit is not None]
    spent = (sum(int(o.spent.sum()) for o in fits), sum(int(o.gradients.sum()) for o in fits))
    return -(-spent[0] // units), -(-spent[1] // units)


def _asked(searched: Sequence[Searched]) -> int:
    """The queries about the fitting example that was asked about most, where they are limited: of a universal
    perturbation these are the queries of each example, which is not asked about itself."""
    fits = [s.job.fit.oracle for s in searched if s.job.fit is not None]
    return max((int(o.spent.max()) for o in fits if o.limit is not None and o.units), default=0)


def _restart(searched: Searched) -> None:
    """Streams of noise inside the object start from the batch's first seed."""
    seed = searched.job.seeds[0]
    torch.manual_seed(seed)
    searched.attacked.deployed.reseed(seed)
    searched.attacked.straight_through.reseed(seed)


def _one_for_all(candidates: Candidates, job: Job) -> bool:
    """Whether what is offered could come of one perturbation; a wrong shape is told of later."""
    if candidates.x.shape != job.x.shape or len(candidates.offered) != len(job.x):
        return True
    at = np.flatnonzero(candidates.offered.cpu().numpy())
    theta = None if candidates.theta is None else candidates.theta.detach().cpu().numpy()[at]
    return not len(at) or is_shared(job.sets.rows(at), candidates.x.detach().cpu().numpy()[at], theta)


def _nothing(job: Job) -> Candidates:
    return Candidates(job.x, torch.zeros(len(job.x), dtype=torch.bool), (None,) * len(job.x))
