"""A run made again, whole or in part, and compared with its bundle row by row: ``tmc audit --rerun`` and ``--proofs``.

A call is a fact of the plan, the data, the model and the rows before it (``execute.calls``), so each is made again from
the recorded rows before it. If all come out as recorded, the records are what the run gives, call by call; a part of
the calls can be made again without the others. The last bits hang on the whole call, so the calls that hold a chosen
example are made again whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from tmlang.audit.bundle import Bundle
from tmlang.audit.identity import checked_environment, checked_run
from tmlang.audit.record import FAILED, Record
from tmlang.audit.schema import of_class
from tmlang.diagnostics.stop import Stop
from tmlang.execute.arena import Arena, make_arena
from tmlang.execute.asking import Known, batches, stage_run
from tmlang.execute.guard import check_state, state_hash
from tmlang.execute.isolation import Batch, Kept, Piece
from tmlang.execute.ledger import Ledger
from tmlang.execute.machine import elsewhere
from tmlang.execute.memo import Memo, Told
from tmlang.execute.output import identity
from tmlang.execute.progress import Progress
from tmlang.execute.runner import adapter_of, call_size_of
from tmlang.execute.work import Call, Work, kept_of
from tmlang.execute.workers import Limits
from tmlang.execute.world import World
from tmlang.plan.ir import EvaluationPlan, Stage

_ELSEWHERE = ("candidate", "outputs", "label_kept")
"""Names of places, where what lies there is compared; and what a reader judged after the run."""
_COMPARED = tuple(c for c in (*of_class("re-derived"), *of_class("re-run")) if c not in _ELSEWHERE)
_VERDICT = ("status", "verdict", "decision", "rejected", "observed_failure", "counted_failure", "errors")
"""What is compared where nobody promises the last bits."""
_MACHINES = FAILED - {"error"}
"""What a machine did, and another need not do."""
_MOST_THREADS = 1024


@dataclass(frozen=True)
class Chosen:
    """What is made again: the calls that hold one of ``examples`` (``None``: all), or only those of ``proofs``."""

    examples: frozenset[str] | None = None
    proofs: bool = False


@dataclass
class Reran:
    """``faults``: rows that this run would not have given. ``unreproduced``: what came out otherwise where nobody
    promises that it does not, and what was not made again, each with the reason. ``examples``: by evaluation those that
    were made again; ``together``: in groups of how many these are made again; ``left``: how many units of
    stages were not. ``rows`` were compared, ``certificates`` among them; ``elsewhere``: why bits may differ here."""

    faults: list[str] = field(default_factory=list)
    unreproduced: list[str] = field(default_factory=list)
    examples: dict[str, set[str]] = field(default_factory=dict)
    together: dict[str, list[int]] = field(default_factory=dict)
    left: int = 0
    rows: int = 0
    certificates: int = 0
    elsewhere: tuple[str, ...] = ()

    def take(self, told: Told) -> None:
        self.faults += told.faults
        self.unreproduced += told.unreproduced
        self.rows += told.rows
        self.certificates += told.certificates


def rerun(bundle: Bundle, world: World, chosen: Chosen, limits: Limits, progress: Progress, memo: Memo) -> Reran:
    """Make the chosen calls again and compare. ``memo`` knows the calls that an interrupted rerun made.

    Raises :class:`Stop` as a run does where it cannot begin; ``KeyboardInterrupt`` between two calls.
    """
    again = _Rerun(bundle, world, chosen, limits, progress, memo)
    try:
        return again.run()
    finally:
        progress.close()


class _Rerun:
    def __init__(
        self, bundle: Bundle, world: World, chosen: Chosen, limits: Limits, progress: Progress, memo: Memo
    ) -> None:
        self.bundle, self.world, self.chosen = bundle, world, chosen
        self.limits, self.progress, self.memo = limits, progress, memo
        self.rows = bundle.records()
        self.told = checked_run(bundle.json("run.json"))
        self.environment = checked_environment(bundle.json("environment.json"))
        self.found = Reran()

    def run(self) -> Reran:
        self.progress.say("loading and probing models and data")
        plan = self.world.plan
        arenas = [self._arena(e) for e in plan.evaluations]
        sizes = {a.evaluation.name: call_size_of(a) for a in arenas}
        now = identity(plan, self.world, sizes, {a.evaluation.name: a.examples() for a in arenas}, None)
        self.found.elsewhere = tuple(elsewhere(self.told, now, self.environment))
        for name, size in sizes.items():
            if size != (told := self.told["batch_size"].get(name)):
                self._different(f"{name}: calls are told to be about {told} examples at most, and are about {size}", ())
        for arena in arenas:
            self._evaluation(arena, now)
        return self.found

    def _arena(self, evaluation: EvaluationPlan) -> Arena:
        arena, found = make_arena(evaluation, self.world)
        if arena is None:
            raise Stop(*found)
        return arena

    def _different(self, text: str, why: Sequence[str]) -> None:
        reasons = (*self.found.elsewhere, *why)
        if reasons:
            self.found.unreproduced.append(f"{text} ({'; '.join(reasons)})")
        else:
            self.found.faults.append(text)

    def _evaluation(self, arena: Arena, now: Mapping[str, Any]) -> None:
        evaluation = arena.evaluation
        units = {u.id for u in arena.units}
        self.found.together[evaluation.name] = _together(arena, now["batch_size"][evaluation.name])
        own = [r for r in self.rows if r.evaluation == evaluation.name and r.unit in units]
        threads, why = self._threads(evaluation)
        check = _Check(self.bundle, arena, own, (*self.found.elsewhere, *why))
        if not self.chosen.proofs:
            self.found.take(check.clean())
        work = Work(
            self.world.plan, now, evaluation, arena.clean_rows(), Ledger(evaluation.name, own), self.world.capabilities
        )
        with _on_threads(threads):
            for repeat in range(evaluation.repeats):
                for stage in work.stages(repeat):
                    if not self.chosen.proofs or stage.role in ("certify", "decide_exactly", "enumerate"):
                        self._stage(check, work, stage, repeat)

    def _threads(self, evaluation: EvaluationPlan) -> tuple[int, list[str]]:
        """The threads that the rows were made on, and why they are not those of this rerun."""
        timing = self.environment["timing"].get(evaluation.name)
        told = timing.get("threads") if isinstance(timing, dict) else None
        if not isinstance(told, int) or not 1 <= told <= _MOST_THREADS:
            return torch.get_num_threads(), ["parts of the run were made on other machines or numbers of threads"]
        why = [f"made on {told} threads, and workers have one"] if self.limits.workers and told != 1 else []
        if evaluation.stop_after is not None:
            why.append("it was to stop after a time")
        return told, why

    def _stage(self, check: _Check, work: Work, stage: Stage, repeat: int) -> None:
        arena, name = check.arena, work.evaluation.name
        whole = work.calls(stage, repeat)
        calls = [part for call in whole if (part := self._part(arena, stage, call)) is not None]
        self.found.left += sum(len(call.at) for call in whole) - _size(calls)
        self.found.examples.setdefault(name, set()).update(arena.units[i].example for c in calls for i in c.at)
        keys = [f"{name} {stage.label} {repeat} {arena.units[call.at[0]].id}" for call in calls]
        left = [call for call, key in zip(calls, keys, strict=True) if key not in self.memo]
        self.progress.stage(stage.id if work.evaluation.repeats == 1 else f"{stage.id} #{repeat + 1}", _size(left))
        try:
            with self._asked(arena, stage, repeat, left) as batches:
                for call, key in zip(calls, keys, strict=True):
                    if key not in self.memo:
                        self.memo.add(key, check.call(stage, repeat, call, next(batches)))
                        self.progress.advance(len(call.at))
                    self.found.take(self.memo[key])
        except Stop as stopped:
            if stopped.diagnostics[0].code != "TM510":
                raise
            self.found.unreproduced.append(f"{stage.id}: {stopped.diagnostics[0].message}")

    def _part(self, arena: Arena, stage: Stage, call: Call) -> Call | None:
        """What of a call is made again: all of it, if it holds a chosen example. Nature changes each example by
        itself, from its own seed."""
        wanted = self.chosen.examples
        if wanted is None:
            return call
        at = [k for k, i in enumerate(call.at) if arena.units[i].example in wanted]
        if stage.role != "corrupt":
            return call if at else None
        return replace(call, at=tuple(call.at[k] for k in at), used=tuple(call.used[k] for k in at)) if at else None

    @contextmanager
    def _asked(self, arena: Arena, stage: Stage, repeat: int, left: Sequence[Call]) -> Iterator[Iterator[Batch]]:
        if not left:
            yield iter(())
            return
        state, known = state_hash(arena.attacked.deployed), Known(self.world, self.bundle, self.rows)

        def check() -> None:
            check_state(arena.attacked.deployed, state, stage.id)

        run = stage_run(stage, repeat, arena, adapter_of(stage, self.world.capabilities), known)
        with batches(run, [Piece(call.at, call.used) for call in left], self.limits, check) as found:
            yield found
        check()


def _together(arena: Arena, size: int) -> list[int]:
    """How many examples share each call; what nature does concerns one at a time."""
    if any(stage.role == "corrupt" for stage in arena.evaluation.stages):
        return [1] * len(arena.examples())
    groups: list[set[str]] = []
    for start in range(0, len(arena.units), size):
        mine = {u.example for u in arena.units[start : start + size]}
        shared = bool(groups) and not mine.isdisjoint(groups[-1])
        groups[-1:] = [groups[-1] | mine] if shared else [*groups[-1:], mine]
    return [len(group) for group in groups]


def _size(calls: Sequence[Call]) -> int:
    return sum(len(call.at) for call in calls)


@contextmanager
def _on_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Check:
    """The recorded rows of one evaluation, against those that come out now. ``loose``: why its last bits are not
    promised here."""

    def __init__(self, bundle: Bundle, arena: Arena, rows: Sequence[Record], loose: Sequence[str]) -> None:
        self.bundle, self.arena, self.loose = bundle, arena, tuple(loose)
        self._told: dict[tuple[str, int, str], list[Record]] = {}
        for row in rows:
            self._told.setdefault((row.stage.rpartition("/")[2], row.repeat, row.unit), []).append(row)

    def clean(self) -> Told:
        """The units' own rows."""
        rows = self.arena.clean_rows()
        kept = [Kept(i, x) for i, x in enumerate(self.arena.clean_kept())]
        return self._compared("clean", 0, {row.unit: ([row], [keep]) for row, keep in zip(rows, kept, strict=True)})

    def call(self, stage: Stage, repeat: int, call: Call, batch: Batch) -> Told:
        """One call."""
        units = self.arena.units
        found: dict[str, tuple[list[Record], list[Kept]]] = {units[i].id: ([], []) for i in call.at}
        for row, keep in zip(batch.rows, batch.kept, strict=True):
            found[row.unit][0].append(row)
            found[row.unit][1].append(keep)
        return self._compared(stage.label, repeat, found)

    def _compared(self, label: str, repeat: int, found: Mapping[str, tuple[list[Record], list[Kept]]]) -> Told:
        told = {unit: self._told.get((label, repeat, unit), []) for unit in found}
        machine = any(_by_machine(r) for rows in (*told.values(), *(f[0] for f in found.values())) for r in rows)
        loose = (*self.loose, *(["a call failed for want of time or memory"] if machine else []))
        result = Told()
        for unit, (rows, kept) in found.items():
            result.rows += len(rows)
            result.certificates += sum(r.verdict == "certified" for r in rows)
            if machine and any(map(_by_machine, (*told[unit], *rows))):
                where = f"{self.arena.evaluation.name}, {unit}: {label}"
                result.unreproduced.append(f"{where} failed for want of time or memory, there or here")
                continue
            for text in self._row_faults(told[unit], rows, kept, exact=not loose):
                where = f"{self.arena.evaluation.name}, {unit}: {label} {text}"
                result.put(where, loose)
        return result

    def _row_faults(
        self, told: Sequence[Record], rows: Sequence[Record], kept: Sequence[Kept], *, exact: bool
    ) -> Iterator[str]:
        if len(told) != len(rows):
            yield f"is told in {len(told)} rows, and gives {len(rows)}"
            return
        for row, now, keep in zip(told, rows, kept, strict=True):
            names = [n for n in (_COMPARED if exact else _VERDICT) if not _same(getattr(row, n), getattr(now, n))]
            if names:
                shown = ", ".join(f"{n} {getattr(row, n)} for {getattr(now, n)}" for n in names[:3])
                yield f"is told with {shown}" + (" and more" if len(names) > 3 else "")
            if exact and (what := self._kept_fault(row, keep)) is not None:
                yield f"is told with {what}"

    def _kept_fault(self, row: Record, keep: Kept) -> str | None:
        told = kept_of(self.bundle, keep.unit, row, self.arena.sets.space)
        drawn = [k.drawn for k in (told, keep)]
        pairs: list[tuple[str, Sequence[np.ndarray | None]]] = [
            ("input", (told.x, keep.x)),
            ("parameters", (told.theta, keep.theta)),
            ("draws of nature", [None if d is None else d.parameters for d in drawn]),
            ("picture", [None if d is None else d.picture for d in drawn]),
        ]
        for name in ("lower", "least", "greatest", "upper", "margins"):
            pairs.append(("bounds of outputs", [getattr(k.outputs, name, None) for k in (told, keep)]))
        return next((f"another {name}" for name, (a, b) in pairs if not _same_array(a, b)), None)


def _by_machine(row: Record) -> bool:
    return row.status in _MACHINES or row.verdict == "timeout"


def _same(told: Any, now: Any) -> bool:
    return type(told) is type(now) and bool(told == now)


def _same_array(told: np.ndarray | None, now: np.ndarray | None) -> bool:
    if told is None or now is None:
        return told is now
    return told.shape == now.shape and told.tobytes() == np.asarray(now, told.dtype).tobytes()
