"""Run a plan: verify, load, probe, search, decide again, count, judge, seal."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tmlang import __version__
from tmlang.audit import masking
from tmlang.audit.claims import Judgement, exit_code, judge_plan
from tmlang.audit.columns import Columns
from tmlang.audit.masking import Sign
from tmlang.audit.record import FAILED, Record
from tmlang.audit.summary import summary
from tmlang.audit.tally import tally_plan
from tmlang.backends.contract import BackendMissing, BackendRefusal, Certifier, Corruption, Search
from tmlang.backends.loading import load
from tmlang.diagnostics.model import Diagnostic
from tmlang.diagnostics.stop import Stop, stop
from tmlang.execute.allocator import keep_freed_memory
from tmlang.execute.arena import Arena, make_arena
from tmlang.execute.asking import Known, batches, stage_run
from tmlang.execute.calls import call_size
from tmlang.execute.guard import check_state, quiet, state_hash
from tmlang.execute.isolation import Batch, Kept, Piece
from tmlang.execute.ledger import Ledger
from tmlang.execute.output import RUN, RunFolder, environment, first_files, identity
from tmlang.execute.progress import Progress, Silent
from tmlang.execute.sources.files import LIMIT
from tmlang.execute.work import Earlier, Work
from tmlang.execute.workers import Limits
from tmlang.execute.world import World
from tmlang.meaning.threats import Shift
from tmlang.plan.availability import other_versions, unmeasured
from tmlang.plan.capability import Capabilities
from tmlang.plan.invariants import declared_name
from tmlang.plan.ir import EvaluationPlan, Plan, Stage
from tmlang.plan.lock import Lock
from tmlang.plan.text import claim_identity, plan_hash

INTERRUPTED = 130


@dataclass(frozen=True)
class RunOptions:
    """``out``: the folder of the bundle; ``None`` makes ``runs/<name>-<identity>``. ``sources``: the texts of the
    spec's files, which go into the bundle. ``batch_size``: units whose rows are committed together, at most those of a
    call (``None``: these); no row depends on it. ``limits``: in how many processes methods are called, and what a call
    may take. ``lock``: what the run is held to; it goes into the bundle too. ``reuse``: bundles whose rows are taken
    where all that they depend on is the same."""

    out: Path | None = None
    name: str = "run"
    trust_code: bool = False
    batch_size: int | None = None
    max_bytes: int = LIMIT
    limits: Limits = field(default_factory=Limits)
    sources: Mapping[str, str] = field(default_factory=dict)
    lock: Lock | None = None
    reuse: tuple[Path, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """``exit_code``: 0, 3, 4 or 5 (``audit.claims.exit_code``), or :data:`INTERRUPTED`: nothing was sealed then, and
    the same command goes on. ``path``: the bundle. ``diagnostics``: warnings, and what voids certificates. ``signs``:
    that gradients are masked."""

    exit_code: int
    path: Path
    columns: Mapping[str, Columns] = field(default_factory=dict)
    judgements: tuple[Judgement, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    signs: tuple[Sign, ...] = ()


def run(plan: Plan, options: RunOptions, progress: Progress | None = None) -> RunResult:
    """Run every evaluation of ``plan`` and seal the bundle.

    Raises :class:`Stop` with TM5, TM7 or TM8 diagnostics where the run cannot begin, or where what was found may not be
    recorded. Ctrl-C ends it between two commits; what is committed stays, and an equal run goes on from there.
    """
    keep_freed_memory()
    options.limits.check()
    if nothing := unmeasured(plan):
        raise Stop(*nothing)
    runner = _Runner(plan, options, progress or Silent())
    try:
        return runner.run()
    except KeyboardInterrupt:
        return RunResult(INTERRUPTED, runner.path, diagnostics=tuple(runner.found))
    finally:
        runner.progress.close()


class _Runner:
    def __init__(self, plan: Plan, options: RunOptions, progress: Progress) -> None:
        self.plan, self.options, self.progress = plan, options, progress
        self.world = World(plan, trust_code=options.trust_code, max_bytes=options.max_bytes)
        self.found: list[Diagnostic] = []
        self.records: list[Record] = []
        self.reused: Counter[str] = Counter()
        self.folder: RunFolder | None = None
        self.resumed = False

    @property
    def path(self) -> Path:
        return self.folder.path if self.folder else self.options.out or Path("runs")

    def run(self) -> RunResult:
        self.progress.say("checking the files that the spec names")
        self.world.verify()
        self.plan = self.world.plan
        self.progress.say("loading and probing models and data")
        arenas = [self._arena(evaluation.name) for evaluation in self.plan.evaluations]
        self._frozen()
        self.warn(other_versions(self.plan, self.world.capabilities))
        sizes = {a.evaluation.name: call_size_of(a) for a in arenas}
        examples = {a.evaluation.name: a.examples() for a in arenas}
        named = identity(self.plan, self.world, sizes, examples, self.options.lock)
        earlier = Earlier.open(self.options.reuse, self.world.capabilities)
        first = first_files(self.plan, self.options.sources, self.options.lock)
        folder = RunFolder.open(named, first, self.options.out, self.options.name)
        self.folder, self.records = folder, folder.bundle.records()
        self.resumed = bool(self.records)
        if self.records:
            done = "finished before" if folder.sealed else f"going on behind {len(self.records)} committed rows"
            self.progress.say(f"{folder.path}: {done}")
        if not folder.sealed:
            for arena in arenas:
                _Evaluation(self, arena, folder, earlier).run()
        return self._close(arenas, folder)

    def _arena(self, name: str) -> Arena:
        evaluation = next(e for e in self.plan.evaluations if e.name == name)
        arena, found = make_arena(evaluation, self.world)
        self.warn(found)
        if arena is None:
            raise Stop(*found)
        locked = dict(self.options.lock.targets) if self.options.lock else {}
        if arena.targets() != locked.get(name, arena.targets()):
            raise stop("TM862", f"the targets of {name} are not those that were locked", evaluation.origin)
        return arena

    def warn(self, found: Sequence[Diagnostic]) -> None:
        """Keep new warnings and show them."""
        fresh = [d for d in dict.fromkeys(found) if d not in self.found and not d.is_error]
        self.found += fresh
        if fresh:
            self.progress.found(fresh)

    def _frozen(self) -> None:
        """Say which artifacts came without a hash."""
        unfrozen = self.world.files.unfrozen
        if unfrozen:
            named = ", ".join(list(unfrozen)[:6]) + (" …" if len(unfrozen) > 6 else "")
            text = f"taken as they are, without a hash: {named}"
            help = "tmc freeze writes every hash into a lock that tmc run --locked obeys"
            self.warn([Diagnostic("TM728", text, next(iter(unfrozen.values())).origin, help=help)])

    # --- after the search -----------------------------------------------------------------------------------------

    def _close(self, arenas: Sequence[Arena], folder: RunFolder) -> RunResult:
        columns = tally_plan(self.plan, self.records)
        judgements = judge_plan(self.plan, self.records)
        contradicted = list(self._contradictions(columns))
        signs = masking.signs(self.plan, self.records)
        self.found += [*contradicted, *map(self._told, signs)]
        if not folder.sealed:
            timing = {a.evaluation.name: _timing(a) | self._made(a.evaluation.name) for a in arenas}
            warnings = [{"code": d.code, "message": d.message} for d in self.found]
            files = {
                "columns.json": summary(columns, judgements),
                "environment.json": environment(self.world, timing, sys.argv[1:]) | {"warnings": warnings},
            }
            lacking = folder.seal(files, self._predicate(judgements))
            self.found += [d for d in lacking if d.is_error]
            self.warn(lacking)
        complete = all(_complete(e, columns[e.name]) for e in self.plan.evaluations)
        code = exit_code(judgements, complete=complete, contradicted=bool(contradicted))
        return RunResult(code, folder.path, columns, judgements, tuple(self.found), signs)

    def _made(self, evaluation: str) -> dict[str, Any]:
        """How many rows other bundles gave, and on how many threads the others were made: unknown where a part of them
        came from elsewhere. The last bits of a search may depend on it."""
        reused, workers = self.reused[evaluation], self.options.limits.workers
        threads = None if reused or self.resumed else 1 if workers else torch.get_num_threads()
        return {"reused": reused, "threads": threads}

    def _told(self, sign: Sign) -> Diagnostic:
        """A sign that gradients are masked, as a warning at its evaluation."""
        origin = next(e.origin for e in self.plan.evaluations if sign.evaluation in (e.name, declared_name(e)))
        return Diagnostic(sign.code, f"{sign.evaluation}: {sign.name}: {sign.evidence}", origin)

    def _predicate(self, judgements: Sequence[Judgement]) -> dict[str, Any]:
        """What the statement says of the files: which plan was run, and what became of its claims."""
        claims = [
            {"text": j.claim.text, "identity": claim_identity(self.plan, j.claim), "status": j.status}
            for j in judgements
        ]
        lock = self.options.lock and self.options.lock.sha256
        return {"tmlang": __version__, "plan": plan_hash(self.plan), "lock": lock, "claims": claims}

    def _contradictions(self, columns: Mapping[str, Columns]) -> Iterator[Diagnostic]:
        """TM823 for every certificate that a witness contradicts beyond its stated gap."""
        for evaluation in self.plan.evaluations:
            for c in columns[evaluation.name].contradictions:
                if not c.within_gap:
                    finder = "a look at its set" if c.witness == c.certifier else c.witness
                    yield Diagnostic(
                        "TM823",
                        f"{c.method} certified {c.unit}, and {finder} found an allowed input that fails",
                        next(s.origin for s in evaluation.stages if s.label == c.certifier),
                        notes=(f"every certificate of {c.method} in this run is void",),
                        help="the bundle holds the input; report it to the authors of the method",
                    )


def _complete(evaluation: EvaluationPlan, columns: Columns) -> bool:
    """Whether every stage finished every unit. Draws that do not tell the clean class have done what they could."""
    coverage = columns.get("coverage")
    if coverage is None or coverage.low is None:
        return True
    abstained = columns.counts.cu if any(s.evidence == "probabilistic" for s in evaluation.stages) else 0
    return coverage.numerator + abstained >= coverage.denominator


def call_size_of(arena: Arena) -> int:
    """Units of a call of this evaluation."""
    if arena.fitting is not None:
        return max(1, len(arena.units))  # one perturbation is judged as one
    if not arena.units:
        return 1  # of a set that holds nothing
    return call_size(arena.attacked.deployed, arena.x[:1])


def _timing(arena: Arena) -> dict[str, Any]:
    """Measured seconds, and what share of them the replays took."""
    total = arena.clean_seconds + arena.searching + arena.replaying
    return {
        "clean": round(arena.clean_seconds, 3),
        "searching": round(arena.searching, 3),
        "replaying": round(arena.replaying, 3),
        "replay_share": round(arena.replaying / total, 4) if total else 0,
        "evaluator_repeatable": arena.attacked.evaluator.repeatable,
    }


class _Evaluation:
    """The stages of one evaluation, in order, over the units that are still worth it."""

    def __init__(self, runner: _Runner, arena: Arena, folder: RunFolder, earlier: Earlier) -> None:
        self.runner, self.arena, self.folder, self.earlier = runner, arena, folder, earlier
        self.evaluation = arena.evaluation
        self.ledger = Ledger(self.evaluation.name, runner.records)
        run, known = folder.bundle.json(RUN), runner.world.capabilities
        self.work = Work(runner.plan, run, self.evaluation, arena.clean_rows(), self.ledger, known)
        self.space = arena.sets.space
        limit = self.evaluation.stop_after
        self.deadline = None if limit is None else time.monotonic() + float(limit)
        self.state = state_hash(arena.attacked.deployed)

    def run(self) -> None:
        rows, originals = self.arena.clean_rows(), self.arena.clean_kept()
        fresh = [i for i, row in enumerate(rows) if row.unit not in self.ledger.clean]
        if fresh:
            self._commit(Batch(tuple(rows[i] for i in fresh), tuple(Kept(i, originals[i]) for i in fresh)))
        for repeat in range(self.evaluation.repeats):
            for stage in self.work.stages(repeat):
                self._stage(stage, repeat)

    def _stage(self, stage: Stage, repeat: int) -> None:
        done = self.ledger.done(stage.label, repeat)
        calls = self.work.calls(stage, repeat)
        left = [call for call in calls if any(self.arena.units[i].id not in done for i in call.at)]
        taken = [self.earlier.batch(call, self.evaluation.name, self.space) for call in left]
        name = stage.id if self.evaluation.repeats == 1 else f"{stage.id} #{repeat + 1}"
        self.runner.progress.stage(name, sum(len(call.at) for call in left))
        pieces = [Piece(call.at, call.used) for call, batch in zip(left, taken, strict=True) if batch is None]
        with self._asked(stage, repeat, pieces) as found:
            for call, batch in zip(left, taken, strict=True):
                self.runner.reused[self.evaluation.name] += 0 if batch is None else len(call.at)
                self._committed(batch or next(found), done)
                self.runner.progress.advance(len(call.at), self._standing())
        self._check_state(stage)
        self._failures(stage, repeat)

    @contextmanager
    def _asked(self, stage: Stage, repeat: int, pieces: Sequence[Piece]) -> Iterator[Iterator[Batch]]:
        """The rows of every piece, in order, from calls within this process or from workers."""
        if not pieces:
            yield iter(())
            return
        adapter, listen = adapter_of(stage, self.runner.world.capabilities), self._listener(stage)
        known = Known(self.runner.world, self.folder.bundle, self.runner.records)
        run = stage_run(stage, repeat, self.arena, adapter, known, deadline=self.deadline, listen=listen)
        with batches(run, pieces, self.runner.options.limits, lambda: self._check_state(stage)) as found:
            yield found

    def _check_state(self, stage: Stage) -> None:
        check_state(self.arena.attacked.deployed, self.state, stage.id)

    def _listener(self, stage: Stage) -> Callable[[int], None] | None:
        """Turns rows that were forwarded into units' worth of work, where the plan knows the passes of a unit."""
        passes, progress = stage.cost.forward, self.runner.progress
        return (lambda rows: progress.work(rows / passes)) if passes else None

    def _standing(self) -> int | None:
        """Correct units that nothing has broken yet; a shift breaks nothing."""
        if isinstance(self.runner.plan.subject(self.evaluation.subject), Shift):
            return None
        correct = sum(u.applicable and u.clean == "cc" for u in self.arena.units)
        return correct - len(self.ledger.broken_ever())

    def _committed(self, batch: Batch, done: set[str]) -> None:
        """Commit the rows of a call, unit by unit in order, without those of units that were done before."""
        of_unit: dict[int, list[int]] = {}
        for k, keep in enumerate(batch.kept):
            if self.arena.units[keep.unit].id not in done:
                of_unit.setdefault(keep.unit, []).append(k)
        units, together = sorted(of_unit), self.runner.options.batch_size or max(1, len(of_unit))
        for start in range(0, len(units), together):
            rows = [k for unit in units[start : start + together] for k in of_unit[unit]]
            self._commit(Batch(tuple(batch.rows[k] for k in rows), tuple(batch.kept[k] for k in rows)))

    def _commit(self, batch: Batch) -> None:
        domain = self.arena.sets.domain

        def indices(x: np.ndarray) -> np.ndarray:
            return domain.indices(x.reshape(len(x), -1))[0].reshape(x.shape)

        lattice = indices if self.space.is_lattice else None
        rows = self.folder.commit(batch, self.arena.sets.originals, self.space, lattice)
        self.ledger.add(rows)
        self.runner.records += rows

    def _failures(self, stage: Stage, repeat: int) -> None:
        """Warn when a stage failed on units: they lower the coverage."""
        rows = [
            r
            for r in self.runner.records
            if (r.evaluation, r.stage, r.repeat) == (self.evaluation.name, stage.label, repeat)
        ]
        failed = [r for r in rows if r.status in FAILED]
        if failed:
            text = f"{stage.id} failed on {len(failed)} of {len(rows)} units"
            self.runner.warn([Diagnostic("TM825", text, stage.origin, notes=(failed[0].message or "",))])


def adapter_of(stage: Stage, capabilities: Capabilities) -> Search | Certifier | Corruption:
    """What a stage is carried by. Raises TM510 where it is not installed, TM826 where it refuses."""
    try:
        with quiet():
            return load(stage.backend, stage.method, capabilities)
    except BackendMissing as missing:
        raise stop(
            "TM510",
            f"{stage.backend} is not installed",
            stage.origin,
            help=f"pip install 'tmlang[{missing.args[0]}]'",
        ) from missing
    except BackendRefusal as refusal:
        raise stop("TM826", str(refusal), stage.origin) from refusal
