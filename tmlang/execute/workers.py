"""Calls in processes of their own, which may crash, hang or run out of memory without harm to the run.

A worker is forked from the run when there is something to ask, so that it has the model, the data and the library at
once, and answers piece by piece over a pipe. One that goes down, outlives its time or asks for too much memory is
killed and replaced; its piece is then halved, or asked again (:func:`tmlang.execute.isolation.left`).
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import resource
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType

import torch

from tmlang.diagnostics.stop import Stop, stop
from tmlang.execute.isolation import Batch, Fault, Piece, fault_of, joined, left
from tmlang.execute.stages import StageRun

_AHEAD = 4
"""Batches that each worker may be ahead of the one that is to be committed next."""
_PATIENCE = 30.0
"""Seconds in which a worker that was told to end must have answered."""
_DYING = 5.0
"""Seconds in which a process whose pipe is closed must have ended."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Limits:
    """``workers``: processes that call methods, each on one thread; 0 calls them within the run. ``seconds``: that a
    call may take. ``megabytes``: that a call may take beyond what the run has when it starts."""

    workers: int = 0
    seconds: float | None = None
    megabytes: int | None = None

    @classmethod
    def of(cls, workers: int | None, seconds: float | None, megabytes: int | None) -> Limits:
        """As asked: a limit alone takes one worker to hold to it."""
        return cls(workers or int(seconds is not None or megabytes is not None), seconds, megabytes)

    def check(self) -> None:
        """Raises TM829 where a system cannot hold to them."""
        if self.workers and not sys.platform.startswith("linux"):
            raise stop("TM829", "workers need Linux", help="leave out --workers, --example-timeout and --memory")


@dataclass
class Outcome:
    """What a worker sends: the answer, and the seconds that it searched and replayed."""

    answer: Batch | Fault | Stop | str | None
    searching: float = 0.0
    replaying: float = 0.0


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: _Task | None = None
    ends: float = float("inf")


@dataclass
class _Task:
    """A piece of batch ``batch`` that begins ``at`` so many units into it."""

    batch: int
    at: int
    piece: Piece


@dataclass
class _Parts:
    """What there is of a batch of ``units``, by where it begins."""

    units: int
    found: dict[int, Batch] = field(default_factory=dict)
    settled: int = 0

    def add(self, task: _Task, batch: Batch) -> None:
        self.found[task.at] = batch
        self.settled += len(task.piece.at)

    def whole(self) -> Batch:
        return joined(batch for _, batch in sorted(self.found.items()))


class Crew:
    """The workers of one stage. ``check``: what a worker must pass at the end (:class:`Stop`: it must not be believed).

    Leave it by ``with``: no process is left then, whatever happened.
    """

    def __init__(self, run: StageRun, limits: Limits, check: Callable[[], None]) -> None:
        self.run, self.limits, self.check = run, limits, check
        self._workers: list[_Worker] = []
        self._context = multiprocessing.get_context("fork")

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        for worker in list(self._workers):
            self._end(worker)

    def over(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The rows of every piece, in order. Raises :class:`Stop` (TM822) like the calls themselves."""
        tasks = deque(_Task(k, 0, piece) for k, piece in enumerate(pieces))
        parts = [_Parts(len(piece.at)) for piece in pieces]
        for k, part in enumerate(parts):
            while part.settled < part.units:
                self._start(tasks, k + _AHEAD * self.limits.workers)
                for task, answer in self._answers():
                    if isinstance(answer, Batch):
                        parts[task.batch].add(task, answer)
                        continue
                    rest = left(task.piece, answer)
                    tasks.extendleft(reversed(list(_tasks(task, rest))))
                    if not rest:
                        parts[task.batch].add(task, self.run.failed(task.piece, answer))
            yield part.whole()
            part.found.clear()
        self._dismiss()

    def _start(self, tasks: deque[_Task], before: int) -> None:
        """Give idle workers what is next, of batches ``before`` one."""
        while tasks and tasks[0].batch < before:
            worker = next((w for w in self._workers if w.task is None), None)
            if worker is None and len(self._workers) == self.limits.workers:
                return
            worker = worker or self._fork()
            worker.task = tasks.popleft()
            worker.ends = time.monotonic() + (self.limits.seconds or float("inf"))
            # A worker that went down meanwhile is noticed when its answer is waited for.
            with _going():
                worker.pipe.send(worker.task.piece)

    def _answers(self) -> list[tuple[_Task, Batch | Fault]]:
        """What the next workers say, or what is to be said of them."""
        busy = [w for w in self._workers if w.task is not None]
        nearest = min(w.ends for w in busy)
        ready = wait([w.pipe for w in busy], None if nearest == float("inf") else max(0.0, nearest - time.monotonic()))
        found = []
        for worker in busy:
            task = worker.task
            assert task is not None
            late = time.monotonic() >= worker.ends
            # What came while others were heard is no timeout, however late this process itself was.
            if worker.pipe in ready or (late and worker.pipe.poll()):
                found.append((task, self._received(worker)))
            elif late:
                self._end(worker)
                found.append((task, self._too_long()))
        return found

    def _received(self, worker: _Worker) -> Batch | Fault:
        try:
            outcome: Outcome = worker.pipe.recv()
        except (EOFError, ConnectionError):
            return self._down(worker)
        worker.task, worker.ends = None, float("inf")
        self.run.arena.searching += outcome.searching
        self.run.arena.replaying += outcome.replaying
        answer = outcome.answer
        if isinstance(answer, Stop):
            raise answer
        if isinstance(answer, str):
            raise RuntimeError(answer)
        assert answer is not None
        if isinstance(answer, Fault) and answer.status == "oom":
            self._end(worker)
        return answer

    def _down(self, worker: _Worker) -> Fault:
        """What became of a process that ended by itself. The system kills by SIGKILL where memory runs out."""
        worker.process.join(_DYING)
        code = worker.process.exitcode
        self._end(worker)
        if code == -signal.SIGALRM and self.limits.seconds is not None:
            return self._too_long()
        if code == -signal.SIGKILL:
            return Fault("oom", "the process was killed from outside, as a system does that is out of memory")
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        return Fault("crashed", f"the process ended {how}")

    def _too_long(self) -> Fault:
        return Fault("timeout", f"no answer within {self.limits.seconds:g} s: the process was killed")

    def _end(self, worker: _Worker) -> None:
        """Make sure that a worker is gone."""
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()

    def _dismiss(self) -> None:
        """Ask every worker whether the model is still what it was, and let it go."""
        for worker in list(self._workers):
            with _going():
                worker.pipe.send(None)
                outcome = worker.pipe.recv() if worker.pipe.poll(_PATIENCE) else Outcome(None)
                if isinstance(outcome.answer, Stop):
                    raise outcome.answer
            self._end(worker)

    def _fork(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self.run, self.limits, self.check), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker


def _tasks(task: _Task, pieces: Sequence[Piece]) -> Iterator[_Task]:
    """The parts of what ``task`` was about."""
    at = task.at
    for piece in pieces:
        yield _Task(task.batch, at, piece)
        at += len(piece.at)


def _going() -> contextlib.suppress:
    """Whoever went down is noticed when its answer is waited for."""
    return contextlib.suppress(EOFError, ConnectionError)


# --- in the worker ----------------------------------------------------------------------------------------------------


def _serve(pipe: Connection, run: StageRun, limits: Limits, check: Callable[[], None]) -> None:
    """Answer pieces until there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its workers
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.set_num_threads(1)
    if limits.megabytes is not None:
        _limit_memory(limits.megabytes)
    while True:
        try:
            piece: Piece | None = pipe.recv()
        except EOFError:
            return
        # The system ends a call that takes too long, also while the run itself is busy or kept waiting.
        signal.setitimer(signal.ITIMER_REAL, 0.0 if piece is None else limits.seconds or 0.0)
        outcome = _outcome(check if piece is None else partial(run.ask, piece), run)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        pipe.send(outcome)


def _outcome(call: Callable[[], Batch | Fault | None], run: StageRun) -> Outcome:
    """What ``call`` gives or raises, and the seconds that it took."""
    searching, replaying = run.arena.searching, run.arena.replaying
    try:
        answer: Batch | Fault | Stop | str | None = call()
    except Stop as stopped:
        answer = stopped
    except MemoryError as error:
        answer = fault_of("the call", error)
    except Exception:
        answer = traceback.format_exc()
    return Outcome(answer, run.arena.searching - searching, run.arena.replaying - replaying)


def _limit_memory(megabytes: int) -> None:
    """Let this process take so much more: Linux counts private writable memory against ``RLIMIT_DATA``."""
    status = Path("/proc/self/status").read_text()
    taken = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
    most = taken * 1024 + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
